// Preloaded under a training program: which of its steps allocated, seen from the outside.
//   LD_PRELOAD=libcount-allocs.so COUNT_BASE=1000 program
// Calls of malloc and its like and of mmap are counted in every thread. A step ends with the first
// scope that is begun after tc_optimizer_step. At exit stderr has "steps: 10000, allocating: 1 2,
// grown: 0 KiB": the first 99 of the steps in which there was such a call, and how much more memory
// was resident after the last step than after step COUNT_BASE. Needs glibc.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <tc/tc.h>
#include <unistd.h>

enum { MOST_TOLD = 99 };

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);

static atomic_long n_allocs;
static long n_steps, told[MOST_TOLD], n_told, base_step, base_kib, kib, seen;
static bool stepped;

void *malloc(size_t bytes) {
  atomic_fetch_add(&n_allocs, 1);
  return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes) {
  atomic_fetch_add(&n_allocs, 1);
  return __libc_calloc(n, bytes);
}

void *realloc(void *p, size_t bytes) {
  atomic_fetch_add(&n_allocs, 1);
  return __libc_realloc(p, bytes);
}

void *memalign(size_t align, size_t bytes) {
  atomic_fetch_add(&n_allocs, 1);
  return __libc_memalign(align, bytes);
}

void *aligned_alloc(size_t align, size_t bytes) {
  return memalign(align, bytes);
}

int posix_memalign(void **out, size_t align, size_t bytes) {
  *out = memalign(align, bytes);
  return *out ? 0 : ENOMEM;
}

// A symbol behind this library's own.
static void *next(const char *name) {
  void *p = dlsym(RTLD_NEXT, name);
  if (!p) _exit(127);
  return p;
}

void *mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset) {
  static void *(*real)(void *, size_t, int, int, int, off_t);
  if (!real) *(void **)&real = next("mmap");
  atomic_fetch_add(&n_allocs, 1);
  return real(at, bytes, prot, flags, fd, offset);
}

// Without a stream, which would allocate.
static long resident_kib(void) {
  char text[100] = "";
  int file = open("/proc/self/statm", O_RDONLY);
  ssize_t n = file < 0 ? 0 : read(file, text, sizeof text - 1);
  if (file >= 0) close(file);
  char *second = text;
  (void)strtol(text, &second, 10);
  return n > 0 ? strtol(second, NULL, 10) * (sysconf(_SC_PAGESIZE) / 1024) : 0;
}

static void end_step(void) {
  n_steps++;
  if (atomic_load(&n_allocs) != seen && n_told < MOST_TOLD) told[n_told++] = n_steps;
  if (n_steps >= base_step) kib = resident_kib();
  if (n_steps == base_step) base_kib = kib;
  seen = atomic_load(&n_allocs);
}

tc_status tc_optimizer_step_at(tc_optimizer *opt, tc_site site) {
  static tc_status (*real)(tc_optimizer *, tc_site);
  if (!real) *(void **)&real = next("tc_optimizer_step_at");
  stepped = true;
  return real(opt, site);
}

tc_scope tc_scope_begin_at(tc_site site) {
  static tc_scope (*real)(tc_site);
  if (!real) *(void **)&real = next("tc_scope_begin_at");
  if (stepped) end_step();
  stepped = false;
  return real(site);
}

static void begin(void) __attribute__((constructor));
static void begin(void) {
  const char *base = getenv("COUNT_BASE");
  base_step = base ? strtol(base, NULL, 10) : 1;
}

static void tell(void) __attribute__((destructor));
static void tell(void) {
  fprintf(stderr, "steps: %ld, allocating:", n_steps);
  for (long i = 0; i < n_told; i++) fprintf(stderr, " %ld", told[i]);
  fprintf(stderr, ", grown: %ld KiB\n", kib - base_kib);
}
