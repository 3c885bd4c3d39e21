// System calls while a block is guarded: the kernel asks us first (Syscall User Dispatch), since it
// would find memory without access and say EFAULT.
// In: SIGSYS before a system call of a thread that guarded a block. Out: the same call, after what
// it may touch has what it should. Invariants: a call that is not in the table settles everything
// and is made again by the program itself; the others are made here. Threads: each thread that
// guards blocks has a selector of its own.
#include "shim/memory/dispatch.h"

#include <errno.h>
#include <ucontext.h>

#include "shim/memory/guard.h"
#include "shim/memory/raw.h"
#include "shim/memory/signals.h"
#include "shim/memory/thread.h"

enum { FROM_DISPATCH = 2 };

// Calls that touch memory at one argument only, or none. bytes: the argument that says how many, or
// minus the number itself.
enum { READS = 1, WRITES = 2 };
static const struct {
  int number;
  int8_t touches, at;
  int16_t bytes;
} known[] = {
    {SYS_read, WRITES, 1, 2},     {SYS_write, READS, 1, 2},   {SYS_pread64, WRITES, 1, 2},
    {SYS_pwrite64, READS, 1, 2},  {SYS_munmap, WRITES, 0, 1}, {SYS_madvise, WRITES, 0, 1},
    {SYS_mprotect, WRITES, 0, 1}, {SYS_mmap, WRITES, 0, 1},   {SYS_getrandom, WRITES, 0, 1},
    {SYS_fstat, WRITES, 1, -144}, {SYS_futex, WRITES, 0, -4}, {SYS_brk, 0, 0, 0},
    {SYS_lseek, 0, 0, 0},         {SYS_close, 0, 0, 0},       {SYS_getpid, 0, 0, 0},
    {SYS_gettid, 0, 0, 0},        {SYS_sched_yield, 0, 0, 0}, {SYS_exit, 0, 0, 0},
    {SYS_exit_group, 0, 0, 0},
};

// Whether the call was made here.
static bool make_known(long number, const long *a, long *out) {
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (known[i].number != number) continue;
    size_t bytes = known[i].bytes < 0 ? (size_t)-known[i].bytes : (size_t)a[known[i].bytes];
    if (known[i].touches && a[known[i].at] && bytes)
      tc_shim_settle_range((const void *)a[known[i].at], bytes, known[i].touches == WRITES);
    *out = tc_shim_raw(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    return true;
  }
  return false;
}

void tc_shim_on_dispatch(int number, siginfo_t *info, void *context) {
  int kept = errno;
  ucontext_t *c = context;
  greg_t *r = c->uc_mcontext.gregs;
  if (info->si_code != FROM_DISPATCH) {
    tc_shim_signal_chain(number, info, context);
    return;
  }
  long called = info->si_syscall, out;
  const long a[] = {r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10], r[REG_R8], r[REG_R9]};
  if (make_known(called, a, &out)) {
    r[REG_RAX] = out;
  } else {
    enum { INSTRUCTION_BYTES = 2 };
    tc_shim_settle();
    tc_shim_dispatch_set(false);
    r[REG_RAX] = called;
    r[REG_RIP] -= INSTRUCTION_BYTES;
  }
  errno = kept;
}
