// Scanning reference kernels: running sum, product and maximum along an axis.
//
// Floats are carried in double, so that every result is rounded once; integers and bools in int64,
// wrapping. After a NaN, cummax stays NaN.
// Threads: thread-safe, pure.
// Owner: nothing.
#include <math.h>

#include "kernels/ref/convert.h"
#include "kernels/ref/lane.h"
#include "kernels/ref/share.h"

#define LANE_SPAN 1024  // lanes at once if lanes are neighbours: 4 KiB of f32 a step

// Scans a span of one lane from the carry, which becomes the next span's.
typedef void f64_fn(double *carry, int64_t n, double *x);
typedef void i64_fn(int64_t *carry, int64_t n, int64_t *x);

// What a scan does with a span along a lane, and with a span over lanes, each with its own carry.
// Spans are scanned in place.
typedef struct scan_ops {
  double neutral_f64;
  int64_t neutral_i64;
  f64_fn *along_f64, *across_f64;
  i64_fn *along_i64, *across_i64;
} scan_ops;

// Scans one lane in spans.
static void lane_f64(const tc_view *in, int64_t in_at, const tc_view *out, int64_t out_at, const tc_lanes *l,
                     const scan_ops *ops) {
  double x[TC_SPAN], carry = ops->neutral_f64;
  for (int64_t i = 0; i < l->n; i += TC_SPAN) {
    int64_t n = TC_MIN(TC_SPAN, l->n - i);
    tc_load_f64(in->type, in->ptr, in_at + i * l->in_step, l->in_step, n, x);
    ops->along_f64(&carry, n, x);
    tc_store_f64(out->type, out->ptr, out_at + i * l->out_step, l->out_step, n, x);
  }
}

static void lane_i64(const tc_view *in, int64_t in_at, const tc_view *out, int64_t out_at, const tc_lanes *l,
                     const scan_ops *ops) {
  int64_t x[TC_SPAN], carry = ops->neutral_i64;
  for (int64_t i = 0; i < l->n; i += TC_SPAN) {
    int64_t n = TC_MIN(TC_SPAN, l->n - i);
    tc_load_i64(in->type, in->ptr, in_at + i * l->in_step, l->in_step, n, x);
    ops->along_i64(&carry, n, x);
    tc_store_i64(out->type, out->ptr, out_at + i * l->out_step, l->out_step, n, x);
  }
}

// Scans the walk's present span of lanes, element by element of all of them.
static void lanes_f64(const tc_view *in, const tc_view *out, const tc_lanes *l, const scan_ops *ops) {
  const tc_walk *w = &l->walk;
  double x[LANE_SPAN], carry[LANE_SPAN];
  for (int64_t i = 0; i < w->n; i++) carry[i] = ops->neutral_f64;
  for (int64_t i = 0; i < l->n; i++) {
    tc_load_f64(in->type, in->ptr, w->offset[0] + i * l->in_step, w->step[0], w->n, x);
    ops->across_f64(carry, w->n, x);
    tc_store_f64(out->type, out->ptr, w->offset[1] + i * l->out_step, w->step[1], w->n, x);
  }
}

static void lanes_i64(const tc_view *in, const tc_view *out, const tc_lanes *l, const scan_ops *ops) {
  const tc_walk *w = &l->walk;
  int64_t x[LANE_SPAN], carry[LANE_SPAN];
  for (int64_t i = 0; i < w->n; i++) carry[i] = ops->neutral_i64;
  for (int64_t i = 0; i < l->n; i++) {
    tc_load_i64(in->type, in->ptr, w->offset[0] + i * l->in_step, w->step[0], w->n, x);
    ops->across_i64(carry, w->n, x);
    tc_store_i64(out->type, out->ptr, w->offset[1] + i * l->out_step, w->step[1], w->n, x);
  }
}

// Lanes whose elements lie side by side go one by one. Others go in spans of neighbours, so that
// memory is walked in its order.
static tc_status scan_axis(const tc_ref_call *call, const scan_ops *ops) {
  tc_view in = call->in[0], out = call->out;
  tc_share share;
  tc_lanes l;
  if (!tc_share_find(call, (int)call->attr[0], false, &share)) return TC_OK;
  if (share.axis >= 0)
    in = tc_share_slice(&in, share.axis, share.lo, share.hi),
    out = tc_share_slice(&out, share.axis, share.lo, share.hi);
  bool is_float = tc_ref_is_float(in.type), one_by_one = in.rank == 0 || out.stride[call->attr[0]] == 1;
  tc_lanes_begin(&l, &in, &out, call->attr[0], one_by_one ? 1 : LANE_SPAN);
  while (tc_walk_next(&l.walk)) {
    if (!one_by_one)
      (is_float ? lanes_f64 : lanes_i64)(&in, &out, &l, ops);
    else
      (is_float ? lane_f64 : lane_i64)(&in, l.walk.offset[0], &out, l.walk.offset[1], &l, ops);
  }
  return TC_OK;
}

// v is the carry, x[i] the next element.
#define SCAN_FN(name, suffix, ctype, expression) \
  static void name##_along_##suffix(ctype *carry, int64_t n, ctype *x) { \
    ctype v = *carry; \
    for (int64_t i = 0; i < n; i++) x[i] = v = (expression); \
    *carry = v; \
  } \
  static void name##_across_##suffix(ctype *carry, int64_t n, ctype *x) { \
    for (int64_t i = 0; i < n; i++) { \
      ctype v = carry[i]; \
      x[i] = carry[i] = (expression); \
    } \
  }
SCAN_FN(sum, f64, double, v + x[i])
SCAN_FN(sum, i64, int64_t, (int64_t)((uint64_t)v + (uint64_t)x[i]))
SCAN_FN(prod, f64, double, v *x[i])
SCAN_FN(prod, i64, int64_t, (int64_t)((uint64_t)v *(uint64_t)x[i]))
SCAN_FN(max, f64, double, x[i] > v || isnan(x[i]) ? x[i] : v)
SCAN_FN(max, i64, int64_t, x[i] > v ? x[i] : v)
SCAN_FN(min, f64, double, x[i] < v || isnan(x[i]) ? x[i] : v)
SCAN_FN(min, i64, int64_t, x[i] < v ? x[i] : v)

// Returns log(e^a + e^b); equal infinities are left alone.
static double log_add_exp(double a, double b) {
  double most = a > b || isnan(a) ? a : b, least = a > b || isnan(a) ? b : a;
  return isinf(most) && most == least  ? most
         : isnan(most) || isnan(least) ? (double)NAN
                                       : most + log1p(exp(least - most));
}
SCAN_FN(log_sum, f64, double, log_add_exp(v, x[i]))

tc_status tc_ref_cumsum(const tc_ref_call *call) {
  return scan_axis(call, &(scan_ops){0, 0, sum_along_f64, sum_across_f64, sum_along_i64, sum_across_i64});
}

tc_status tc_ref_cumprod(const tc_ref_call *call) {
  return scan_axis(call, &(scan_ops){1, 1, prod_along_f64, prod_across_f64, prod_along_i64, prod_across_i64});
}

tc_status tc_ref_cummin(const tc_ref_call *call) {
  return scan_axis(call,
                   &(scan_ops){INFINITY, INT64_MAX, min_along_f64, min_across_f64, min_along_i64, min_across_i64});
}

// Recorded for floats only.
tc_status tc_ref_logcumsumexp(const tc_ref_call *call) {
  return scan_axis(call, &(scan_ops){-INFINITY, 0, log_sum_along_f64, log_sum_across_f64, NULL, NULL});
}

tc_status tc_ref_cummax(const tc_ref_call *call) {
  return scan_axis(call,
                   &(scan_ops){-INFINITY, INT64_MIN, max_along_f64, max_across_f64, max_along_i64, max_across_i64});
}
