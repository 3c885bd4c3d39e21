// System calls from code of our own, which Syscall User Dispatch lets through (dispatch.c), and
// which no other library sees. A failure is a negative errno.
#pragma once

#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

__attribute__((visibility("hidden"))) long tc_shim_raw(long number, long a, long b, long c, long d, long e, long f);

static inline long tc_raw_mmap(void *at, size_t bytes, int protection, int flags) {
  return tc_shim_raw(SYS_mmap, (long)at, (long)bytes, protection, flags | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
static inline long tc_raw_munmap(void *at, size_t bytes) {
  return tc_shim_raw(SYS_munmap, (long)at, (long)bytes, 0, 0, 0, 0);
}
static inline long tc_raw_mprotect(void *at, size_t bytes, int protection) {
  return tc_shim_raw(SYS_mprotect, (long)at, (long)bytes, protection, 0, 0, 0);
}
static inline long tc_raw_mremap(void *from, size_t bytes, void *to, int flags) {
  return tc_shim_raw(SYS_mremap, (long)from, (long)bytes, (long)bytes, flags | MREMAP_MAYMOVE | MREMAP_FIXED, (long)to,
                     0);
}

// All signals of this thread but those that nobody can block; and what was blocked before.
static inline uint64_t tc_raw_block_signals(void) {
  const uint64_t all = ~0ull;
  uint64_t before;
  tc_shim_raw(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, sizeof before, 0, 0);
  return before;
}
static inline void tc_raw_set_signals(uint64_t mask) {
  tc_shim_raw(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, sizeof mask, 0, 0);
}
