// Kernels that are interpreted until a thread of their own has compiled them.
//
// Idea: compiling a kernel takes milliseconds and opening the compiler tens of them, which a
// program that runs it a few times never wins back. So a kernel whose run is soon interpreted is;
// when that has taken a good part of what compiling would, it is queued (compile_queue.h). Bits are
// the same, so nobody sees the change. The interpreter and compiled code have one signature, and a
// plan reads which it is from an atomic pointer at each run (kernel.h).
// Threads: thread-safe. Kernels are compiled by a thread that is started for the first of them, and
// ends with the process, which waits for the kernel that is being compiled. Where there is no such
// thread, or LLVM would be destroyed under its hands (codegen.h, lasting), the thread that ran the
// plan compiles them. After a fork the child starts a thread of its own.
#ifndef TC_LOWERING_JIT_TIER_UP_H
#define TC_LOWERING_JIT_TIER_UP_H

#include "lowering/jit/compile_queue.h"
#include "runtime/status.h"

// See tc_tier_up_look.
void tc_tier_up_start(void);
// After a run, by the thread that launched it: has what was asked for compiled.
static inline void tc_tier_up_look(void) {
  if (TC_UNLIKELY(atomic_load_explicit(&tc_compiles.waiting, memory_order_relaxed))) tc_tier_up_start();
}
// Waits for the kernel that is being compiled, forgets the others, and ends the thread.
void tc_tier_up_stop(void);

#endif
