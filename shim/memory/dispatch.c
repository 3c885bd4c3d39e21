// System calls while a block is guarded: the kernel asks us first (Syscall User Dispatch), since it
// would find memory without access and say EFAULT.
// In: SIGSYS before a system call of a thread that guarded a block. Out: the same call, after what
// it may touch has what it should.
// Invariants: a call that is not in the table settles everything and is made again by the program
// itself; the others are made here. What libtc calls by itself settles nothing: the thread may have
// a lock that the keeper waits for. For the same reason the table has what the C library calls
// under locks of its own, such as the dynamic linker's.
// Threads: each thread that guards blocks has a selector of its own.
#include "shim/memory/dispatch.h"

#include <errno.h>
#include <ucontext.h>

#include "shim/memory/guard.h"
#include "shim/memory/raw.h"
#include "shim/memory/signals.h"
#include "shim/memory/thread.h"

enum { FROM_DISPATCH = 2 };

// Calls that touch memory at two arguments at most, which hold no pointers. bytes: the argument
// that says how many, or minus the number itself.
enum { READS = 1, WRITES = 2, PATH_BYTES = 4096, STAT_BYTES = 144, TIME_BYTES = 16 };
static const struct {
  int number;
  struct {
    int8_t kind, at;
    int16_t bytes;
  } touches[2];
} known[] = {
    {SYS_read, {{WRITES, 1, 2}}},
    {SYS_write, {{READS, 1, 2}}},
    {SYS_pread64, {{WRITES, 1, 2}}},
    {SYS_pwrite64, {{READS, 1, 2}}},
    {SYS_munmap, {{WRITES, 0, 1}}},
    {SYS_madvise, {{WRITES, 0, 1}}},
    {SYS_mprotect, {{WRITES, 0, 1}}},
    {SYS_mmap, {{WRITES, 0, 1}}},
    {SYS_getrandom, {{WRITES, 0, 1}}},
    {SYS_fstat, {{WRITES, 1, -STAT_BYTES}}},
    {SYS_newfstatat, {{READS, 1, -PATH_BYTES}, {WRITES, 2, -STAT_BYTES}}},
    {SYS_openat, {{READS, 1, -PATH_BYTES}}},
    {SYS_access, {{READS, 0, -PATH_BYTES}}},
    {SYS_readlink, {{READS, 0, -PATH_BYTES}, {WRITES, 1, 2}}},
    {SYS_getcwd, {{WRITES, 0, 1}}},
    {SYS_futex, {{WRITES, 0, -4}, {READS, 3, -TIME_BYTES}}},
    {SYS_nanosleep, {{READS, 0, -TIME_BYTES}, {WRITES, 1, -TIME_BYTES}}},
    {SYS_clock_nanosleep, {{READS, 2, -TIME_BYTES}, {WRITES, 3, -TIME_BYTES}}},
    {SYS_sched_getaffinity, {{WRITES, 2, 1}}},
    {SYS_brk, {{0}}},
    {SYS_lseek, {{0}}},
    {SYS_close, {{0}}},
    {SYS_getpid, {{0}}},
    {SYS_gettid, {{0}}},
    {SYS_getuid, {{0}}},
    {SYS_geteuid, {{0}}},
    {SYS_sched_yield, {{0}}},
    {SYS_membarrier, {{0}}},
    {SYS_exit, {{0}}},
    {SYS_exit_group, {{0}}},
};

static long make(long number, const long *a) {
  return tc_shim_raw(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

// Whether the call was made here.
static bool make_known(long number, const long *a, long *out) {
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (known[i].number != number) continue;
    for (int k = 0; k < 2 && known[i].touches[k].kind; k++) {
      int at = known[i].touches[k].at, bytes_at = known[i].touches[k].bytes;
      size_t bytes = bytes_at < 0 ? (size_t)-bytes_at : (size_t)a[bytes_at];
      if (a[at] && bytes) tc_shim_settle_range((const void *)a[at], bytes, known[i].touches[k].kind == WRITES);
    }
    *out = make(number, a);
    return true;
  }
  return false;
}

// Calls that change what a handler's return puts back, or return twice.
static bool is_of_context(long number) {
  return number == SYS_rt_sigprocmask || number == SYS_sigaltstack || number == SYS_rt_sigreturn ||
         number == SYS_clone || number == SYS_clone3 || number == SYS_fork || number == SYS_vfork;
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
  bool is_known = make_known(called, a, &out), is_in_library = !is_known && tc_shim_is_in_library();
  if (is_known || (is_in_library && !is_of_context(called))) {
    r[REG_RAX] = is_known ? out : make(called, a);
  } else {
    enum { INSTRUCTION_BYTES = 2 };
    if (!is_in_library) tc_shim_settle();
    tc_shim_dispatch_set(false);
    r[REG_RAX] = called;
    r[REG_RIP] -= INSTRUCTION_BYTES;
  }
  errno = kept;
}
