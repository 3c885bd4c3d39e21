// Softmax and its logarithm along an axis, in three passes over each lane: maximum, sum of
// exponentials, result. They compute in double, rounded once.
// A lane with a NaN or +inf, or with only -inf, is NaN throughout, as in PyTorch.
// Threads: thread-safe, pure.
// Owner: nothing.
#include <math.h>

#include "kernels/ref/convert.h"
#include "kernels/ref/lane.h"

// Loads piece i of a lane that starts at in_at and returns its length.
static int64_t load_piece(const tc_view *in, int64_t in_at, const tc_lanes *l, int64_t i, double *x) {
  int64_t n = TC_MIN(TC_SPAN, l->n - i);
  tc_load_f64(in->type, in->ptr, in_at + i * l->in_step, l->in_step, n, x);
  return n;
}

static double lane_max(const tc_view *in, int64_t in_at, const tc_lanes *l) {
  double x[TC_SPAN], max = -INFINITY;
  for (int64_t i = 0; i < l->n; i += TC_SPAN) {
    int64_t n = load_piece(in, in_at, l, i, x);
    for (int64_t k = 0; k < n; k++) max = x[k] > max || isnan(x[k]) ? x[k] : max;
  }
  return max;
}

static double lane_sum_exp(const tc_view *in, int64_t in_at, const tc_lanes *l, double max) {
  double x[TC_SPAN], sum = 0;
  for (int64_t i = 0; i < l->n; i += TC_SPAN) {
    int64_t n = load_piece(in, in_at, l, i, x);
    for (int64_t k = 0; k < n; k++) sum += exp(x[k] - max);
  }
  return sum;
}

static void run_lane(const tc_view *in, const tc_view *out, const tc_lanes *l, bool log_of) {
  int64_t in_at = l->walk.offset[0], out_at = l->walk.offset[1];
  double max = lane_max(in, in_at, l), sum = lane_sum_exp(in, in_at, l, max), log_sum = log(sum);
  double x[TC_SPAN];
  for (int64_t i = 0; i < l->n; i += TC_SPAN) {
    int64_t n = load_piece(in, in_at, l, i, x);
    if (log_of) {
      for (int64_t k = 0; k < n; k++) x[k] = x[k] - max - log_sum;
    } else {
      for (int64_t k = 0; k < n; k++) x[k] = exp(x[k] - max) / sum;
    }
    tc_store_f64(out->type, out->ptr, out_at + i * l->out_step, l->out_step, n, x);
  }
}

static tc_status softmax_axis(const tc_ref_call *call, bool log_of) {
  tc_lanes l;
  tc_lanes_begin(&l, &call->in[0], &call->out, call->attr[0], 1);
  while (tc_walk_next(&l.walk)) run_lane(&call->in[0], &call->out, &l, log_of);
  return TC_OK;
}

tc_status tc_ref_softmax(const tc_ref_call *call) {
  return softmax_axis(call, false);
}

tc_status tc_ref_log_softmax(const tc_ref_call *call) {
  return softmax_axis(call, true);
}
