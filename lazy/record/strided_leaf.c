// A leaf over strided memory of the caller, and the value that its elements are. See append.h.
//
// The leaf is the whole span, one axis. Windows cut it into the nested axes. So no record reads a
// gap:  f32[2,3] of strides 5 and 1:  leaf f32[8] | window 3 by 5, f32[2,3]
#include "lazy/record/append.h"
#include "lazy/record/record.h"

// The span's node as its nested axes, greatest stride first.
static tc_node nested_axes(tc_trace *t, tc_node n, const tc_strided *s) {
  for (int i = 0; i < s->n_nested && n != TC_NODE_ERR; i++) {
    const tc_dims *d = tc_node_dims(t, n);
    int axis = s->nested[i], last = d->rank - 1;
    int64_t step = s->stride[axis] < 0 ? -s->stride[axis] : s->stride[axis], extent = s->shape.dim[axis];
    int64_t inner = d->dim[last] - step * (extent - 1);
    if (i + 1 < s->n_nested)
      n = tc_rec_window(t, n, last, inner, step, 1);
    else if (step != 1)
      n = tc_rec_slice_axis(t, n, last, 0, step, extent);
  }
  return n;
}

// Axes as the caller gave them: in their order, descending ones flipped, those of one element put
// back.
static tc_node in_order(tc_trace *t, tc_node n, const tc_strided *s) {
  tc_dims axes = {.rank = s->n_nested};
  uint32_t flipped = 0;
  for (int i = 0; i < s->n_nested; i++) {
    if (s->stride[s->nested[i]] < 0) flipped |= 1U << i;
    int at = 0;
    for (int k = 0; k < s->n_nested; k++) at += s->nested[k] < s->nested[i];
    axes.dim[at] = i;
  }
  n = tc_rec_flip(t, n, flipped);
  if (s->n_nested > 1 && n != TC_NODE_ERR) n = tc_rec_permute(t, n, &axes);
  return n == TC_NODE_ERR ? n : tc_rec_reshape(t, n, &s->shape);
}

tc_node tc_trace_strided_leaf(tc_trace *t, tc_buffer *buf, tc_type type, tc_device device) {
  const tc_strided *s = buf->strided;
  tc_dims span = {.rank = 1, .dim = {(int64_t)(s->span_bytes / s->item_bytes)}};
  uint32_t shape = tc_dims_intern(&span);
  if (shape == TC_SHAPE_NONE) return tc_rec_fail(t, TC_ERR_MEMORY, "no room for a shape");
  tc_node n = tc_trace_leaf(t, buf, type, shape, device);
  return n == TC_NODE_ERR ? n : in_order(t, nested_axes(t, n, s), s);
}
