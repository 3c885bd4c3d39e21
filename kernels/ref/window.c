// Overlapping sums: each element of a window goes back to where the window read it, and what lands on one place is added in the order of windows.
//
// Idea: a span of places that differ only off the axis is made at once, a place of the axis after the other, so that each element is read once and
// while its neighbours are in the cache. Sums of floats are in double and rounded once.
// Threads: thread-safe, pure. Owns nothing.
#include "kernels/ref/convert.h"
#include "kernels/ref/share.h"
#include "kernels/ref/walk.h"

typedef struct windows {
  const tc_view *in;
  int64_t n, size, step, dilation;
  int64_t window_stride, element_stride;
} windows;

// What the present span of operand 0 adds up to at `place` of the axis, in double or int64. Windows ascend as elements descend.
#define SUM_FN(suffix, ctype, sum_type) \
  static void sum_##suffix(const windows *s, const tc_walk *w, int64_t place, ctype *out) { \
    ctype x[TC_SPAN]; \
    for (int64_t i = 0; i < w->n; i++) out[i] = 0; \
    for (int64_t r = s->size - 1; r >= 0; r--) { \
      int64_t from = place - r * s->dilation, p = from / s->step; \
      if (from < 0) continue; \
      if (p >= s->n) break; \
      if (from % s->step) continue; \
      tc_load_##suffix(s->in->type, s->in->ptr, w->offset[0] + p * s->window_stride + r * s->element_stride, w->step[0], w->n, x); \
      for (int64_t i = 0; i < w->n; i++) out[i] = (ctype)((sum_type)out[i] + (sum_type)x[i]); \
    } \
  }
SUM_FN(f64, double, double)
SUM_FN(i64, int64_t, uint64_t)

tc_status tc_ref_unwindow(const tc_ref_call *call) {
  int axis = (int)call->attr[0];
  tc_view in = call->in[0], out = call->out;
  tc_share share;
  if (!tc_share_find(call, axis, false, &share)) return TC_OK;
  if (share.axis >= 0) in = tc_share_slice(&in, share.axis, share.lo, share.hi), out = tc_share_slice(&out, share.axis, share.lo, share.hi);
  windows s = {&in, in.dim[axis], (int64_t)call->attr[1], (int64_t)call->attr[2], (int64_t)call->attr[3], in.stride[axis], in.stride[out.rank]};
  int64_t dim[TC_MAX_RANK];
  for (int d = 0; d < out.rank; d++) dim[d] = d == axis ? 1 : out.dim[d];
  tc_walk w;
  tc_walk_init(&w, out.rank, dim, TC_SPAN);
  tc_walk_add(&w, in.stride);
  tc_walk_add(&w, out.stride);
  tc_walk_begin(&w);
  while (tc_walk_next(&w)) {
    for (int64_t place = 0; place < out.dim[axis]; place++) {
      int64_t at = w.offset[1] + place * out.stride[axis];
      if (tc_ref_is_float(in.type)) {
        double sum[TC_SPAN];
        sum_f64(&s, &w, place, sum);
        tc_store_f64(out.type, out.ptr, at, w.step[1], w.n, sum);
      } else {
        int64_t sum[TC_SPAN];
        sum_i64(&s, &w, place, sum);
        tc_store_i64(out.type, out.ptr, at, w.step[1], w.n, sum);
      }
    }
  }
  return TC_OK;
}
