// Overlapping sums: each element of a window goes back to where the window read it. Elements that
// land on one position are added in the order of windows.
//
// A span of positions that differ only off the axis is made at once, one position of the axis after
// the other. So each element is read once, while its neighbours are in the cache. Sums of floats
// are in double and rounded once.
// Threads: thread-safe, pure.
// Owner: nothing.
#include "kernels/ref/convert.h"
#include "kernels/ref/share.h"
#include "kernels/ref/walk.h"

#define SPAN 64  // elements of as many rows, whose cache lines stay in the first-level cache between positions

typedef struct windows {
  const tc_view *in;
  int64_t n, size, step, dilation;
  int64_t window_stride, element_stride;
} windows;

// Adds the present span of a window's element to the sums; f32 and i64 are not copied first.
#define ADD_FN(suffix, ctype, sum_type, direct_type, direct) \
  static void add_##suffix(const windows *s, const tc_walk *w, int64_t at, ctype *sum) { \
    ctype x[SPAN]; \
    if (s->in->type == (direct_type)) { \
      const direct *from = (const direct *)s->in->ptr + at; \
      for (int64_t i = 0; i < w->n; i++) sum[i] = (ctype)((sum_type)sum[i] + (sum_type)from[i * w->step[0]]); \
      return; \
    } \
    tc_load_##suffix(s->in->type, s->in->ptr, at, w->step[0], w->n, x); \
    for (int64_t i = 0; i < w->n; i++) sum[i] = (ctype)((sum_type)sum[i] + (sum_type)x[i]); \
  }
ADD_FN(f64, double, double, TC_F32, float)
ADD_FN(i64, int64_t, uint64_t, TC_I64, int64_t)

// Sums the present span at `place` of the axis, in double or int64, over the windows that reach it.
#define SUM_FN(suffix, ctype) \
  static void sum_##suffix(const windows *s, const tc_walk *w, int64_t place, ctype *sum) { \
    int64_t reach = (s->size - 1) * s->dilation, first = place > reach ? (place - reach + s->step - 1) / s->step : 0; \
    for (int64_t i = 0; i < w->n; i++) sum[i] = 0; \
    for (int64_t p = first; p < s->n && p * s->step <= place; p++) { \
      int64_t within = place - p * s->step, r = within / s->dilation; \
      if (r * s->dilation == within) \
        add_##suffix(s, w, w->offset[0] + p * s->window_stride + r * s->element_stride, sum); \
    } \
  }
SUM_FN(f64, double)
SUM_FN(i64, int64_t)

tc_status tc_ref_unwindow(const tc_ref_call *call) {
  int axis = (int)call->attr[0];
  tc_view in = call->in[0], out = call->out;
  tc_share share;
  if (!tc_share_find(call, axis, false, &share)) return TC_OK;
  if (share.axis >= 0)
    in = tc_share_slice(&in, share.axis, share.lo, share.hi),
    out = tc_share_slice(&out, share.axis, share.lo, share.hi);
  windows s = {&in,
               in.dim[axis],
               (int64_t)call->attr[1],
               (int64_t)call->attr[2],
               (int64_t)call->attr[3],
               in.stride[axis],
               in.stride[out.rank]};
  int64_t dim[TC_MAX_RANK];
  for (int d = 0; d < out.rank; d++) dim[d] = d == axis ? 1 : out.dim[d];
  tc_walk w;
  tc_walk_init(&w, out.rank, dim, SPAN);
  tc_walk_add(&w, in.stride);
  tc_walk_add(&w, out.stride);
  tc_walk_begin(&w);
  while (tc_walk_next(&w)) {
    for (int64_t place = 0; place < out.dim[axis]; place++) {
      int64_t at = w.offset[1] + place * out.stride[axis];
      if (tc_ref_is_float(in.type)) {
        double sum[SPAN];
        sum_f64(&s, &w, place, sum);
        tc_store_f64(out.type, out.ptr, at, w.step[1], w.n, sum);
      } else {
        int64_t sum[SPAN];
        sum_i64(&s, &w, place, sum);
        tc_store_i64(out.type, out.ptr, at, w.step[1], w.n, sum);
      }
    }
  }
  return TC_OK;
}
