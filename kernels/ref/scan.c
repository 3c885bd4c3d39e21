// Scanning reference kernels: running sum, product and maximum along an axis.
// Floats are carried in double, so that every result is rounded once; integers and bools in int64, wrapping. After a NaN, cummax stays NaN.
// Threads: thread-safe, pure. Own nothing.
#include <math.h>

#include "kernels/ref/convert.h"
#include "kernels/ref/lane.h"

// Scans a span in place from the carry and leaves the next one's there. The first span starts from the operation's neutral value.
typedef void f64_fn(double *carry, int64_t n, double *x);
typedef void i64_fn(int64_t *carry, int64_t n, int64_t *x);

static void lane_f64(const tc_view *in, int64_t in_at, const tc_view *out, int64_t out_at, const tc_lanes *l, double carry, f64_fn *fn) {
  double x[TC_SPAN];
  for (int64_t i = 0; i < l->n; i += TC_SPAN) {
    int64_t n = TC_MIN(TC_SPAN, l->n - i);
    tc_load_f64(in->type, in->ptr, in_at + i * l->in_step, l->in_step, n, x);
    fn(&carry, n, x);
    tc_store_f64(out->type, out->ptr, out_at + i * l->out_step, l->out_step, n, x);
  }
}

static void lane_i64(const tc_view *in, int64_t in_at, const tc_view *out, int64_t out_at, const tc_lanes *l, int64_t carry, i64_fn *fn) {
  int64_t x[TC_SPAN];
  for (int64_t i = 0; i < l->n; i += TC_SPAN) {
    int64_t n = TC_MIN(TC_SPAN, l->n - i);
    tc_load_i64(in->type, in->ptr, in_at + i * l->in_step, l->in_step, n, x);
    fn(&carry, n, x);
    tc_store_i64(out->type, out->ptr, out_at + i * l->out_step, l->out_step, n, x);
  }
}

static tc_status scan(const tc_ref_call *call, double neutral_f64, f64_fn *f64, int64_t neutral_i64, i64_fn *i64) {
  const tc_view *in = &call->in[0], *out = &call->out;
  bool is_float = tc_ref_is_float(in->type);
  tc_lanes l;
  tc_lanes_begin(&l, in, out, call->attr[0]);
  while (tc_walk_next(&l.walk)) {
    if (is_float)
      lane_f64(in, l.walk.offset[0], out, l.walk.offset[1], &l, neutral_f64, f64);
    else
      lane_i64(in, l.walk.offset[0], out, l.walk.offset[1], &l, neutral_i64, i64);
  }
  return TC_OK;
}

// v is the carry, x[i] the next element.
#define SCAN_FN(name, suffix, ctype, expression) \
  static void name##_##suffix(ctype *carry, int64_t n, ctype *x) { \
    ctype v = *carry; \
    for (int64_t i = 0; i < n; i++) x[i] = v = (expression); \
    *carry = v; \
  }
SCAN_FN(sum, f64, double, v + x[i])
SCAN_FN(sum, i64, int64_t, (int64_t)((uint64_t)v + (uint64_t)x[i]))
SCAN_FN(prod, f64, double, v *x[i])
SCAN_FN(prod, i64, int64_t, (int64_t)((uint64_t)v *(uint64_t)x[i]))
SCAN_FN(max, f64, double, x[i] > v || isnan(x[i]) ? x[i] : v)
SCAN_FN(max, i64, int64_t, x[i] > v ? x[i] : v)

tc_status tc_ref_cumsum(const tc_ref_call *call) {
  return scan(call, 0, sum_f64, 0, sum_i64);
}

tc_status tc_ref_cumprod(const tc_ref_call *call) {
  return scan(call, 1, prod_f64, 1, prod_i64);
}

tc_status tc_ref_cummax(const tc_ref_call *call) {
  return scan(call, -INFINITY, max_f64, INT64_MIN, max_i64);
}
