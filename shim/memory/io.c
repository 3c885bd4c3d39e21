// Reads and writes of threads whose system calls the kernel does not show us: what they are about
// to touch is settled first. Threads: any.
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shim/memory/block.h"
#include "shim/memory/guard.h"
#include "shim/memory/thread.h"

#define EXPORT __attribute__((visibility("default")))

static void settle_parts(const struct iovec *v, int n, bool is_write) {
  for (int i = 0; v && i < n && tc_shim_memory_guarded(); i++)
    if (v[i].iov_len) tc_shim_settle_range(v[i].iov_base, v[i].iov_len, is_write);
}

static void settle_memory(uintptr_t at, size_t bytes, bool is_write) {
  if (bytes && tc_shim_memory_guarded()) tc_shim_settle_range((const void *)at, bytes, is_write);
}

#define WRAP(result, name, params, args, settle) \
  EXPORT result name params { \
    static result(*real) params; \
    settle; \
    if (!real) real = (result(*) params)tc_shim_next_function(#name); \
    return real args; \
  }

WRAP(ssize_t, read, (int f, void *p, size_t n), (f, p, n), settle_memory((uintptr_t)p, n, true))
WRAP(ssize_t, write, (int f, const void *p, size_t n), (f, p, n), settle_memory((uintptr_t)p, n, false))
WRAP(ssize_t, pread64, (int f, void *p, size_t n, off64_t at), (f, p, n, at), settle_memory((uintptr_t)p, n, true))
WRAP(ssize_t, pwrite64, (int f, const void *p, size_t n, off64_t at), (f, p, n, at),
     settle_memory((uintptr_t)p, n, false))
WRAP(ssize_t, readv, (int f, const struct iovec *v, int n), (f, v, n), settle_parts(v, n, true))
WRAP(ssize_t, writev, (int f, const struct iovec *v, int n), (f, v, n), settle_parts(v, n, false))
WRAP(ssize_t, recv, (int f, void *p, size_t n, int flags), (f, p, n, flags), settle_memory((uintptr_t)p, n, true))
WRAP(ssize_t, send, (int f, const void *p, size_t n, int flags), (f, p, n, flags),
     settle_memory((uintptr_t)p, n, false))
WRAP(size_t, fread, (void *p, size_t size, size_t n, FILE *f), (p, size, n, f),
     settle_memory((uintptr_t)p, size *n, true))
WRAP(size_t, fwrite, (const void *p, size_t size, size_t n, FILE *f), (p, size, n, f),
     settle_memory((uintptr_t)p, size *n, false))

// What the compiler makes of them with _FORTIFY_SOURCE.
WRAP(ssize_t, __read_chk, (int f, void *p, size_t n, size_t most), (f, p, n, most),
     settle_memory((uintptr_t)p, n, true))
WRAP(ssize_t, __pread64_chk, (int f, void *p, size_t n, off64_t at, size_t most), (f, p, n, at, most),
     settle_memory((uintptr_t)p, n, true))
WRAP(ssize_t, __recv_chk, (int f, void *p, size_t n, size_t most, int flags), (f, p, n, most, flags),
     settle_memory((uintptr_t)p, n, true))
WRAP(size_t, __fread_chk, (void *p, size_t most, size_t size, size_t n, FILE *f), (p, most, size, n, f),
     settle_memory((uintptr_t)p, size *n, true))

// Pages that a program protects, maps, advises or unmaps itself are its own: no call that has them
// as operands waits.
static void leave_alone(void *p, size_t bytes) {
  uintptr_t next = (uintptr_t)p, end = next + bytes < next ? UINTPTR_MAX : next + bytes;
  if (tc_shim_is_inside()) return;
  settle_memory(next, bytes, true);
  for (tc_shim_block *b; (b = tc_shim_block_next(&next, end)) != NULL;)
    if (!b->is_library) b->is_foreign = true;
}

WRAP(int, mprotect, (void *p, size_t n, int protection), (p, n, protection), leave_alone(p, n))
WRAP(int, munmap, (void *p, size_t n), (p, n), leave_alone(p, n))
WRAP(int, madvise, (void *p, size_t n, int advice), (p, n, advice), leave_alone(p, n))
WRAP(int, mlock, (const void *p, size_t n), (p, n), leave_alone((void *)(uintptr_t)p, n))
WRAP(void *, mmap64, (void *p, size_t n, int protection, int flags, int f, off64_t at),
     (p, n, protection, flags, f, at), leave_alone(p, flags &MAP_FIXED ? n : 0))

// mremap, which has a fifth argument where the flags say so.
void *tc_shim_mremap(void *p, size_t n, size_t to, int flags, void *at) __asm__("mremap");
EXPORT void *tc_shim_mremap(void *p, size_t n, size_t to, int flags, void *at) {
  static void *(*real)(void *, size_t, size_t, int, void *);
  leave_alone(p, n);
  if (flags & MREMAP_FIXED) leave_alone(at, to);
  if (!real) real = (void *(*)(void *, size_t, size_t, int, void *))tc_shim_next_function("mremap");
  return real(p, n, to, flags, at);
}

// Offsets have 64 bits under either name.
extern __typeof__(mmap64) plain_mmap __asm__("mmap")
    __attribute__((alias("mmap64"), leaf, nothrow, visibility("default")));
extern __typeof__(pread64) plain_pread __asm__("pread") __attribute__((alias("pread64"), visibility("default")));
extern __typeof__(pwrite64) plain_pwrite __asm__("pwrite") __attribute__((alias("pwrite64"), visibility("default")));
