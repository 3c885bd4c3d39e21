// Protects blocks, and lets their keeper act before a touch goes on.
// In: guards; faults on guarded blocks. Out: the same access, later, on memory that has what it
// should.
// Invariants: the keeper runs with the lock and all signals blocked, once at a time. Where a fault
// brought it, it runs on a stack of its own. A thread with the lock never waits for it.
// Threads: any thread may fault; the second waits for the first.
#include "shim/memory/guard.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/resource.h>
#include <ucontext.h>

#include "shim/memory/block.h"
#include "shim/memory/process.h"
#include "shim/memory/raw.h"
#include "shim/memory/thread.h"

enum { STACK_BYTES = 16 << 20 };

static struct {
  int n_guarded;  // blocks; atomic
  uint64_t n_touches, n_changes;  // of guards
  const tc_shim_keeper *keeper;  // NULL: nobody guards
  char *stack;  // its top
} self;

static __thread struct {
  uint64_t mask;  // of signals, before the lock
  int cancels;  // whether it could be cancelled then
  const void *last_address, *last_code;  // of a fault that found its block without a guard
  uint64_t last_changes;  // of guards, by then
} thread __attribute__((tls_model("initial-exec")));

void tc_shim_on_stack(void *top, void (*function)(void *), void *argument);

int tc_shim_memory_guarded(void) {
  return __atomic_load_n(&self.n_guarded, __ATOMIC_RELAXED);
}

uint64_t tc_shim_memory_touches(void) {
  return self.n_touches;
}

// ---- The lock ----

static void take_lock(void) {
  int is = 0, *lock = &tc_shim_process.guard_lock;
  if (__atomic_compare_exchange_n(lock, &is, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return;
  while (__atomic_exchange_n(lock, 2, __ATOMIC_ACQUIRE) != 0)
    tc_shim_raw(SYS_futex, (long)lock, FUTEX_WAIT_PRIVATE, 2, 0, 0, 0);
}

static void give_lock(void) {
  int *lock = &tc_shim_process.guard_lock;
  if (__atomic_exchange_n(lock, 0, __ATOMIC_RELEASE) == 2)
    tc_shim_raw(SYS_futex, (long)lock, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

// A thread that is cancelled under the lock, or under one of libtc's, would keep it.
static void enter(void) {
  int cancels;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancels);
  uint64_t mask = tc_raw_block_signals();
  take_lock();
  thread.mask = mask;
  thread.cancels = cancels;
  tc_shim_set_inside(true);
  tc_shim_dispatch_set(false);
}

static void leave(void) {
  uint64_t mask = thread.mask;
  int cancels = thread.cancels;
  tc_shim_dispatch_set(self.n_guarded > 0);
  tc_shim_set_inside(false);
  give_lock();
  tc_raw_set_signals(mask);
  pthread_setcancelstate(cancels, NULL);
}

bool tc_shim_memory_lock(void) {
  const uint64_t ours = 1ull << (SIGSEGV - 1) | 1ull << (SIGSYS - 1);
  if (tc_shim_is_inside()) return false;
  enter();
  if (!(thread.mask & ours) && !tc_shim_process.n_forks) return true;
  leave();
  return false;
}

void tc_shim_memory_unlock(void) {
  leave();
}

// ---- Guards ----

static void set_guard(tc_shim_block *b, tc_shim_guard guard) {
  __atomic_add_fetch(&self.n_guarded, (guard != TC_GUARD_NONE) - (b->guard != TC_GUARD_NONE), __ATOMIC_RELAXED);
  __atomic_store_n(&b->guard, guard, __ATOMIC_RELEASE);
  self.n_changes++;
}

bool tc_shim_block_guard(tc_shim_block *b, tc_shim_guard guard) {
  static const int protections[] = {PROT_READ | PROT_WRITE, PROT_READ, PROT_NONE};
  if (b->guard == guard) return true;
  if (guard != TC_GUARD_NONE && !tc_shim_dispatch_begin()) return false;
  if (tc_raw_mprotect(b->base, b->bytes, protections[guard]) != 0) return false;
  set_guard(b, guard);
  return true;
}

void *tc_shim_block_detach(tc_shim_block *b) {
  void *to = tc_shim_range_take(b->bytes);
  if (!to) return NULL;
  if (tc_raw_mremap(b->base, b->bytes, to, MREMAP_DONTUNMAP) == (long)to) {
    if (tc_raw_mprotect(to, b->bytes, PROT_READ | PROT_WRITE) == 0) return to;
    if (tc_raw_mremap(to, b->bytes, b->base, 0) == (long)b->base) return NULL;
  }
  tc_raw_munmap(to, b->bytes);
  return NULL;
}

void tc_shim_pages_release(void *pages, size_t bytes, tc_shim_block *b) {
  if (b && b->guard == TC_GUARD_HIDDEN && b->bytes == bytes && tc_raw_mprotect(pages, bytes, PROT_NONE) == 0 &&
      tc_raw_mremap(pages, bytes, b->base, 0) == (long)b->base)
    return;
  tc_raw_munmap(pages, bytes);
}

// The pages of from come to the block at once; the block's go there.
static bool swap_pages(tc_shim_block *b, char *from, size_t bytes) {
  char *aside = tc_shim_range_take(bytes);
  if (!aside) return false;
  if (tc_raw_mremap(b->base, bytes, aside, MREMAP_DONTUNMAP) == (long)aside &&
      tc_raw_mremap(from, bytes, b->base, MREMAP_DONTUNMAP) == (long)b->base) {
    if (tc_raw_mprotect(aside, bytes, PROT_READ | PROT_WRITE) != 0 || tc_raw_mremap(aside, bytes, from, 0) < 0)
      tc_raw_munmap(aside, bytes);
    return true;
  }
  tc_raw_munmap(aside, bytes);
  return false;
}

// A copy beside, which then takes the block's place.
static bool copy_pages(tc_shim_block *b, const char *from) {
  char *aside = tc_shim_range_take(b->bytes);
  if (!aside) return false;
  if (tc_raw_mprotect(aside, b->bytes, PROT_READ | PROT_WRITE) != 0) goto fail;
  if (b->bytes >= TC_HUGE_BYTES) tc_shim_raw(SYS_madvise, (long)aside, (long)b->bytes, MADV_HUGEPAGE, 0, 0, 0);
  __builtin_memcpy(aside, from, b->asked);
  if (tc_raw_mremap(aside, b->bytes, b->base, 0) == (long)b->base) return true;
fail:
  tc_raw_munmap(aside, b->bytes);
  return false;
}

bool tc_shim_block_land(tc_shim_block *b, void *from, bool swaps) {
  tc_shim_block *other = swaps ? tc_shim_block_find(from) : NULL;
  bool whole = other && other->base == (char *)from && other->is_library && other->bytes >= b->bytes;
  if (whole && swap_pages(b, from, b->bytes)) {
    set_guard(b, TC_GUARD_NONE);
    return true;
  }
  if (!copy_pages(b, from)) return false;
  set_guard(b, TC_GUARD_NONE);
  return true;
}

// ---- Touches ----

typedef struct touch {
  tc_shim_block *block;  // NULL: all
  bool is_write;
} touch;

static void tell_keeper(void *argument) {
  const touch *t = argument;
  self.n_touches++;
  if (t->block)
    self.keeper->touch(t->block, t->is_write);
  else
    self.keeper->settle();
}

// pre: locked, on any stack, an alternate one, too.
static void tell_aside(touch t) {
  tc_shim_on_stack(self.stack, tell_keeper, &t);
}

void tc_shim_drop(tc_shim_block *b) {
  if (!b->value && b->guard == TC_GUARD_NONE) return;
  if (tc_shim_is_inside()) return;
  enter();
  int kept = errno;
  if (b->value || b->guard != TC_GUARD_NONE) self.keeper->drop(b);
  errno = kept;
  if (b->guard != TC_GUARD_NONE) set_guard(b, TC_GUARD_NONE);
  leave();
}

bool tc_shim_is_in_library(void) {
  int cancels;
  if (!self.keeper || tc_shim_is_inside()) return false;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancels);
  uint64_t mask = tc_raw_block_signals();
  tc_shim_dispatch_set(false);
  bool is_in = !self.keeper->may_run();
  tc_shim_dispatch_set(true);
  tc_raw_set_signals(mask);
  pthread_setcancelstate(cancels, NULL);
  return is_in;
}

void tc_shim_settle(void) {
  if (!tc_shim_memory_guarded() || tc_shim_is_inside()) return;
  enter();
  if (self.n_guarded) tell_aside((touch){0});
  leave();
}

// Whether a guard forbids an access.
static bool forbids(const tc_shim_block *b, bool is_write) {
  uint8_t guard = __atomic_load_n(&b->guard, __ATOMIC_ACQUIRE);
  return guard == TC_GUARD_HIDDEN || (guard != TC_GUARD_NONE && is_write);
}

void tc_shim_settle_range(const void *at, size_t bytes, bool is_write) {
  uintptr_t next = (uintptr_t)at, end = next + bytes < next ? UINTPTR_MAX : next + bytes;
  if (!tc_shim_memory_guarded() || tc_shim_is_inside()) return;
  for (tc_shim_block *b; (b = tc_shim_block_next(&next, end)) != NULL;) {
    if (!forbids(b, is_write)) continue;
    enter();
    if (forbids(b, is_write)) tell_aside((touch){b, is_write});
    leave();
  }
}

static bool is_write_fault(const ucontext_t *c) {
  return c->uc_mcontext.gregs[REG_ERR] & 2;
}

bool tc_shim_resolve_fault(siginfo_t *info, const ucontext_t *c) {
  tc_shim_block *b = info->si_code == SEGV_ACCERR ? tc_shim_block_find(info->si_addr) : NULL;
  const void *code = (const void *)c->uc_mcontext.gregs[REG_RIP];
  if (!b || tc_shim_is_inside() || !self.keeper) return false;
  bool is_write = is_write_fault(c), again = false;
  enter();
  if (b == tc_shim_block_find(info->si_addr) && (b->guard == TC_GUARD_HIDDEN || (b->guard && is_write))) {
    tell_aside((touch){b, is_write});
    again = b->guard == TC_GUARD_NONE || (b->guard == TC_GUARD_READ && !is_write);
  } else if (thread.last_address != info->si_addr || thread.last_code != code ||
             thread.last_changes != self.n_changes) {
    thread.last_address = info->si_addr;  // a second fault, while no guard changed, is the program's own
    thread.last_code = code;
    thread.last_changes = self.n_changes;
    again = true;
  }
  leave();
  return again;
}

// ---- Start, fork ----

// No lock is held while handlers of pthread_atfork run, as they may allocate, or wait for a thread
// that does.
void tc_shim_guards_before_fork(void) {
  if (!self.keeper || tc_shim_is_inside()) return;
  enter();
  if (self.n_guarded) tell_aside((touch){0});
  __atomic_add_fetch(&tc_shim_process.n_forks, 1, __ATOMIC_RELAXED);
  leave();
}

// In a child there is none in progress.
void tc_shim_guards_after_fork(void) {
  int *n = &tc_shim_process.n_forks, is = __atomic_load_n(n, __ATOMIC_RELAXED);
  while (is > 0 && !__atomic_compare_exchange_n(n, &is, is - 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) continue;
}

bool tc_shim_memory_is_limited(void) {
  static const int kinds[] = {RLIMIT_AS, RLIMIT_DATA};
  struct rlimit limit;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (tc_shim_raw(SYS_prlimit64, 0, kinds[i], 0, (long)&limit, 0, 0) == 0 && limit.rlim_cur != RLIM_INFINITY)
      return true;
  return false;
}

bool tc_shim_memory_is_forked(void) {
  return self.keeper && !tc_shim_process.is_keeper;
}

bool tc_shim_guards_start(const tc_shim_keeper *keeper) {
  if (!tc_shim_process_begin()) return false;
  long stack = tc_raw_mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_NORESERVE);
  if (stack < 0 && stack > -4096) return false;
  self.stack = (char *)stack + STACK_BYTES;
  self.keeper = keeper;
  tc_shim_process.is_keeper = true;
  return true;
}
