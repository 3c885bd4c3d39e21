// Memory that is as tensors lie is borrowed, other memory copied. See foreign.h.
#define TC_NO_SITES
#include "lazy/front/foreign.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"

size_t tc_foreign_count(const tc_dims *shape, tc_type type) {
  size_t n = tc_type_bytes(type);
  bool empty = false;
  for (int i = 0; i < shape->rank; i++) {
    empty = empty || shape->dim[i] == 0;
    if (shape->dim[i] != 0 && (__builtin_mul_overflow(n, (size_t)shape->dim[i], &n) || n > INT64_MAX)) return SIZE_MAX;
  }
  return empty ? 0 : n / tc_type_bytes(type);
}

static bool is_dense(const tc_dims *shape, const int64_t *strides) {
  int64_t dense = 1;
  for (int i = shape->rank; strides && i-- > 0; dense *= shape->dim[i])
    if (shape->dim[i] != 1 && strides[i] != dense) return false;
  return true;
}

static bool bools_are_clean(const unsigned char *data, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (data[i] > 1) return false;
  return true;
}

tc_tensor tc_foreign_copy(const void *data, const tc_dims *shape, const int64_t *strides, tc_type type, tc_site site) {
  tc_type as = type == TC_BOOL ? TC_U8 : type;
  tc_tensor t =
      strides ? tc_from_host_strided_at(data, *shape, strides, as, site) : tc_from_host_at(data, *shape, as, site);
  return type == TC_BOOL ? tc_ne_num_at(t, tc_num_int(0), site) : t;
}

tc_tensor tc_foreign_tensor(void *data, const tc_dims *shape, const int64_t *strides, tc_type type,
                            tc_borrow_flags flags, void (*release)(void *arg), void *arg, tc_site site) {
  size_t n = tc_foreign_count(shape, type);
  bool dense = n == 0 || is_dense(shape, strides);
  if (dense && n > 0 && (uintptr_t)data % tc_type_bytes(type) == 0 && (type != TC_BOOL || bools_are_clean(data, n))) {
    tc_tensor t = tc_borrow_at(data, *shape, type, (int)flags, release, arg, site);
    if (!tc_is_valid(t)) release(arg);
    return t;
  }
  tc_tensor t = tc_foreign_copy(data, shape, dense ? NULL : strides, type, site);
  release(arg);
  return t;
}

tc_type tc_foreign_unsigned(size_t bytes) {
  return bytes == 2 ? TC_I32 : bytes == 4 || bytes == 8 ? TC_I64 : TC_N_TYPES;
}

void *tc_foreign_widen(const void *data, size_t count, size_t bytes, tc_status *st, char *why, size_t why_bytes) {
  size_t wide = tc_type_bytes(tc_foreign_unsigned(bytes));
  unsigned char *out = malloc(count ? count * wide : 1);
  if (out == NULL) return *st = TC_ERR_MEMORY, snprintf(why, why_bytes, "no memory for %zu bytes", count * wide), NULL;
  for (size_t i = 0; i < count; i++) {
    uint64_t v = 0;
    memcpy(&v, (const unsigned char *)data + i * bytes, bytes);
    if (v > INT64_MAX) {
      *st = TC_ERR_DTYPE;
      snprintf(why, why_bytes,
               "element %zu, %" PRIu64 ", is beyond i64, as which unsigned integers of 8 bytes are read", i, v);
      return free(out), NULL;
    }
    memcpy(out + i * wide, &v, wide);
  }
  return out;
}

// n elements of so many bytes, one after the other.
static void copy_dense(unsigned char *to, const unsigned char *from, const tc_dims *shape, const int64_t *strides,
                       size_t n, size_t bytes) {
  for (size_t i = 0; i < n; i++) {
    int64_t rest = (int64_t)i, at = 0;
    for (int k = shape->rank; k-- > 0; rest /= shape->dim[k]) at += rest % shape->dim[k] * strides[k];
    memcpy(to + i * bytes, from + at * (int64_t)bytes, bytes);
  }
}

tc_tensor tc_foreign_copy_unsigned(const void *data, const tc_dims *shape, const int64_t *strides, size_t bytes,
                                   char *why, size_t why_bytes, tc_site site) {
  tc_type type = tc_foreign_unsigned(bytes);
  size_t n = tc_foreign_count(shape, type);
  tc_status st = TC_ERR_MEMORY;
  void *dense = n > 0 && !is_dense(shape, strides) ? malloc(n * bytes) : NULL, *wide = NULL;
  if (dense) copy_dense(dense, data, shape, strides, n, bytes);
  snprintf(why, why_bytes, "no memory for %zu bytes", n * bytes);
  if (dense || n == 0 || is_dense(shape, strides))
    wide = tc_foreign_widen(dense ? dense : data, n, bytes, &st, why, why_bytes);
  free(dense);
  if (wide == NULL) return tc_poison(st);
  why[0] = 0;
  tc_tensor t = tc_from_host_at(wide, *shape, type, site);
  free(wide);
  return t;
}
