// Allocations of the library that fail: the linker leads its calls of malloc and the like to the
// program that includes this (meson.build: --wrap). The one that brings n_made to fail_from fails,
// and, where for_good is set, all after it. Threads: any may allocate.
#pragma once

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *p, size_t bytes);
int __real_posix_memalign(void **out, size_t align, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);
int __wrap_posix_memalign(void **out, size_t align, size_t bytes);

static atomic_long n_made, fail_from;  // 0: none
static atomic_bool for_good;

static bool must_fail(void) {
  long made = atomic_fetch_add(&n_made, 1) + 1, from = atomic_load(&fail_from);
  bool fails = from && (made == from || (made > from && atomic_load(&for_good)));
  if (fails) errno = ENOMEM;
  return fails;
}

void *__wrap_malloc(size_t bytes) {
  return must_fail() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes) {
  return must_fail() ? NULL : __real_calloc(n, bytes);
}

void *__wrap_realloc(void *p, size_t bytes) {
  return must_fail() ? NULL : __real_realloc(p, bytes);
}

int __wrap_posix_memalign(void **out, size_t align, size_t bytes) {
  return must_fail() ? ENOMEM : __real_posix_memalign(out, align, bytes);
}
