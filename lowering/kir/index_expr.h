// Index arithmetic of kernels: an index is a sum of terms over the kernel's ranges. So movement ops
// compose without touching memory.
//   term: coef * ((range / div) % mod), or coef * (run-time argument), or coef * (computed value)
// Every result is exact. Where terms cannot express a reshape, tc_ix_divmod returns false, and the
// caller materializes the operand.
// Threads: thread-safe, pure.
#pragma once

#include <stddef.h>
#include <string.h>

#include "runtime/status.h"

#define TC_MAX_TERMS 16  // a slice of eight axes: a range and a start of each
#define TC_N_RANGES 4  // A outer, F folded, K inner, K0 upper part of a split K

enum { TC_RANGE_A, TC_RANGE_F, TC_RANGE_K, TC_RANGE_K0 };
typedef enum tc_term_kind { TC_TERM_RANGE, TC_TERM_ARG, TC_TERM_VALUE } tc_term_kind;

typedef struct tc_term {
  uint8_t kind, range;
  uint32_t id;       // ARG: the run's argument; VALUE: a value of the kernel
  int64_t div, mod;  // RANGE; mod 0: none
  int64_t coef;
} tc_term;

typedef struct tc_index {
  int n;
  int64_t base;
  tc_term term[TC_MAX_TERMS];
} tc_index;

typedef struct tc_extents {
  int64_t of[TC_N_RANGES];
} tc_extents;

static inline int64_t tc_ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

tc_index tc_ix_const(int64_t v);
// *x = tc_ix_const(v), and *x = *from, without copying unused terms, which are most of an index's
// bytes.
static inline void tc_ix_set(tc_index *x, int64_t v) {
  x->n = 0, x->base = v;
}
static inline void tc_ix_copy(tc_index *x, const tc_index *from) {
  memcpy(x, from, offsetof(tc_index, term) + (size_t)from->n * sizeof from->term[0]);
}
// The value of a range.
tc_index tc_ix_range(uint8_t range);
bool tc_ix_add_term(tc_index *x, tc_term t);
bool tc_ix_add(tc_index *x, const tc_index *y, int64_t coef);
// Brings x to canonical form: joins terms of one range, drops modulos without effect. Equal indices
// then have equal terms.
void tc_ix_simplify(tc_index *x, const tc_extents *e);
bool tc_ix_equal(const tc_index *a, const tc_index *b);
// Removes the terms of a range from x and returns their stride. False if they are not one multiple
// of it; x is then unchanged.
bool tc_ix_take_stride(tc_index *x, uint8_t range, int64_t *stride);
// x = q * m + r with 0 <= r < m, exactly. False if terms cannot express q and r.
bool tc_ix_divmod(const tc_index *x, int64_t m, const tc_extents *e, tc_index *q, tc_index *r);
// Row-major position of idx[] in d, and back.
bool tc_ix_flatten(const tc_index *idx, const tc_dims *d, const tc_extents *e, tc_index *out);
bool tc_ix_unflatten(const tc_index *flat, const tc_dims *d, const tc_extents *e, tc_index *out);
