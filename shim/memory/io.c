// Reads and writes of threads whose system calls the kernel does not show us: what they are about
// to touch is settled first. Threads: any.
#include <aio.h>
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

static void settle_message(const struct msghdr *m, bool is_write) {
  if (m && tc_shim_memory_guarded()) settle_parts(m->msg_iov, (int)m->msg_iovlen, is_write);
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

WRAP(ssize_t, preadv64, (int f, const struct iovec *v, int n, off64_t at), (f, v, n, at), settle_parts(v, n, true))
WRAP(ssize_t, pwritev64, (int f, const struct iovec *v, int n, off64_t at), (f, v, n, at), settle_parts(v, n, false))
WRAP(ssize_t, preadv64v2, (int f, const struct iovec *v, int n, off64_t at, int flags), (f, v, n, at, flags),
     settle_parts(v, n, true))
WRAP(ssize_t, pwritev64v2, (int f, const struct iovec *v, int n, off64_t at, int flags), (f, v, n, at, flags),
     settle_parts(v, n, false))
WRAP(ssize_t, recvfrom, (int f, void *p, size_t n, int flags, struct sockaddr *from, socklen_t *bytes),
     (f, p, n, flags, from, bytes), settle_memory((uintptr_t)p, n, true))
WRAP(ssize_t, sendto, (int f, const void *p, size_t n, int flags, const struct sockaddr *to, socklen_t bytes),
     (f, p, n, flags, to, bytes), settle_memory((uintptr_t)p, n, false))
WRAP(ssize_t, recvmsg, (int f, struct msghdr *m, int flags), (f, m, flags), settle_message(m, true))
WRAP(ssize_t, sendmsg, (int f, const struct msghdr *m, int flags), (f, m, flags), settle_message(m, false))
#undef fread_unlocked
#undef fwrite_unlocked
WRAP(size_t, fread_unlocked, (void *p, size_t size, size_t n, FILE *f), (p, size, n, f),
     settle_memory((uintptr_t)p, size *n, true))
WRAP(size_t, fwrite_unlocked, (const void *p, size_t size, size_t n, FILE *f), (p, size, n, f),
     settle_memory((uintptr_t)p, size *n, false))

// The C library's own threads do these.
static void settle_requests(struct aiocb64 *const *list, int n) {
  for (int i = 0; i < n; i++)
    if (list[i]) settle_memory((uintptr_t)list[i]->aio_buf, list[i]->aio_nbytes, list[i]->aio_lio_opcode != LIO_WRITE);
}

WRAP(int, aio_read64, (struct aiocb64 * r), (r), settle_memory((uintptr_t)r->aio_buf, r->aio_nbytes, true))
WRAP(int, aio_write64, (struct aiocb64 * r), (r), settle_memory((uintptr_t)r->aio_buf, r->aio_nbytes, false))
WRAP(int, lio_listio64, (int mode, struct aiocb64 *const *list, int n, struct sigevent *event), (mode, list, n, event),
     settle_requests(list, n))

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
#define SAME(name, as, ...) \
  extern __typeof__(name) plain_##name __asm__(as) __attribute__((alias(#name), visibility("default"), __VA_ARGS__));
SAME(mmap64, "mmap", leaf, nothrow)
SAME(aio_read64, "aio_read", leaf, nothrow)
SAME(aio_write64, "aio_write", leaf, nothrow)
SAME(lio_listio64, "lio_listio", leaf, nothrow)
SAME(pread64, "pread", )
SAME(pwrite64, "pwrite", )
SAME(preadv64, "preadv", )
SAME(pwritev64, "pwritev", )
SAME(preadv64v2, "preadv2", )
SAME(pwritev64v2, "pwritev2", )
