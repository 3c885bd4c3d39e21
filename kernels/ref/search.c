// Where values belong in sorted sequences: before equals, or after them.
//
// Binary search runs without a branch, which would be mispredicted. Several values go in step, so
// that the loads of one wait beside those of the others. NaN is the largest value, as in sorting
// (NumPy's rule; PyTorch leaves sequences with NaN undefined).
// Threads: thread-safe, pure.
// Owner: nothing.
#include <math.h>

#include "kernels/ref/convert.h"
#include "kernels/ref/share.h"
#include "kernels/ref/walk.h"

enum { ABREAST = 16 };

typedef struct search {
  const char *sorted;
  int64_t n, stride;  // of the sequence
  bool right;
  tc_type type;
} search;

// Writes the places of m values, whose sequences start at base[0..m), into at.
#define FIND_FN(name, ctype, sum_type, get, is_nan) \
  static void find_##name(const search *s, int64_t m, const int64_t *base, const sum_type *v, int64_t *at) { \
    const ctype *x = (const ctype *)(const void *)s->sorted; \
    for (int64_t i = 0; i < m; i++) at[i] = 0; \
    for (int64_t n = s->n; n > 0; n -= (n + 1) / 2) { \
      int64_t half = (n + 1) / 2; \
      for (int64_t i = 0; i < m; i++) { \
        sum_type e = get(x[base[i] + (at[i] + half - 1) * s->stride]); \
        bool more = (e < v[i]) | ((e == v[i]) & s->right) | (is_nan(v[i]) & (!is_nan(e) | s->right)); \
        at[i] += half & -(int64_t)more; \
      } \
    } \
  }
#define SAME(x) (x)
#define NEVER(x) false
FIND_FN(f32, float, double, (double), isnan)
FIND_FN(f64, double, double, SAME, isnan)
FIND_FN(f16, uint16_t, double, (double)tc_f16_to_f32, isnan)
FIND_FN(bf16, uint16_t, double, (double)tc_bf16_to_f32, isnan)
FIND_FN(u8, uint8_t, int64_t, SAME, NEVER)
FIND_FN(i8, int8_t, int64_t, SAME, NEVER)
FIND_FN(i16, int16_t, int64_t, SAME, NEVER)
FIND_FN(i32, int32_t, int64_t, SAME, NEVER)
FIND_FN(i64, int64_t, int64_t, SAME, NEVER)

static void find_place(const search *s, int64_t m, const int64_t *base, const tc_view *values, int64_t from,
                       int64_t step, int64_t *at) {
  double x[ABREAST];
  int64_t w[ABREAST];
  if (tc_ref_is_float(s->type))
    tc_load_f64(s->type, values->ptr, from, step, m, x);
  else
    tc_load_i64(s->type, values->ptr, from, step, m, w);
  switch (s->type) {
    case TC_F32: find_f32(s, m, base, x, at); break;
    case TC_F64: find_f64(s, m, base, x, at); break;
    case TC_F16: find_f16(s, m, base, x, at); break;
    case TC_BF16: find_bf16(s, m, base, x, at); break;
    case TC_I8: find_i8(s, m, base, w, at); break;
    case TC_I16: find_i16(s, m, base, w, at); break;
    case TC_I32: find_i32(s, m, base, w, at); break;
    case TC_I64: find_i64(s, m, base, w, at); break;
    default: find_u8(s, m, base, w, at); break;
  }
}

tc_status tc_ref_searchsorted(const tc_ref_call *call) {
  tc_view sorted = call->in[0], values = call->in[1], out = call->out;
  bool one = sorted.rank == 1;  // one sequence for all values
  int last = out.rank - 1;
  tc_share share;
  if (!tc_share_find(call, -1, false, &share)) return TC_OK;
  if (share.axis >= 0) {
    values = tc_share_slice(&values, share.axis, share.lo, share.hi),
    out = tc_share_slice(&out, share.axis, share.lo, share.hi);
    if (!one && share.axis != last) sorted = tc_share_slice(&sorted, share.axis, share.lo, share.hi);
  }
  int64_t stride[TC_MAX_RANK] = {0}, base[ABREAST], at[ABREAST];
  for (int d = 0; d < last && !one; d++) stride[d] = sorted.stride[d];
  search s = {sorted.ptr, sorted.dim[sorted.rank - 1], sorted.stride[sorted.rank - 1], call->attr[0] != 0, sorted.type};
  tc_walk w;
  tc_walk_init(&w, out.rank, out.dim, ABREAST);
  tc_walk_add(&w, values.stride);
  tc_walk_add(&w, out.stride);
  tc_walk_add(&w, stride);
  tc_walk_begin(&w);
  while (tc_walk_next(&w)) {
    for (int64_t i = 0; i < w.n; i++) base[i] = w.offset[2] + i * w.step[2];
    find_place(&s, w.n, base, &values, w.offset[0], w.step[0], at);
    tc_store_i64(out.type, out.ptr, w.offset[1], w.step[1], w.n, at);
  }
  return TC_OK;
}
