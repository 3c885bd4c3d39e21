// Compiles interpreted kernels in the background once they have run long enough.
//
// Compiling takes milliseconds and opening the compiler tens of them, which a short program never
// recovers. So a cheap kernel is interpreted first.
// Once its runs have cost a fraction of its compile time, it is queued (compile_queue.h).
// Interpreter and compiled code share one signature and give the same bits. A run reads the
// kernel's function from an atomic pointer (kernel.h).
// In: queued kernels. Out: kernels with compiled code.
// Threads: thread-safe. One thread compiles; it starts with the first kernel. At exit the process
// waits for the kernel that is being compiled.
// If there is no such thread, or LLVM would be destroyed under it at exit (codegen.h, no_atexit),
// the thread that ran the plan compiles. After a fork the child starts its own thread.
#pragma once

#include "lowering/jit/compile_queue.h"
#include "runtime/status.h"

// Hands queued kernels to the compiling thread, or compiles them here. Called by tc_tier_up_look.
void tc_tier_up_start(void);
// Called after a run by the thread that launched it: starts the compilation of queued kernels.
static inline void tc_tier_up_look(void) {
  if (TC_UNLIKELY(atomic_load_explicit(&tc_compiles.waiting, memory_order_relaxed))) tc_tier_up_start();
}
// Waits for the kernel that is being compiled, drops the other queued ones, and ends the thread.
void tc_tier_up_stop(void);
