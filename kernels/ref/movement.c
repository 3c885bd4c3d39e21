// Rearranging reference kernels: each is one or two copies between strided boxes, and only the
// strides differ.
// Threads: thread-safe, pure.
// Owner: nothing.
#include <string.h>

#include "kernels/ref/convert.h"
#include "kernels/ref/share.h"
#include "kernels/ref/walk.h"

// Copies a box; offsets and strides are in elements.
static void copy_box(tc_type type, int rank, const int64_t *dim, void *dst, int64_t dst_at, const int64_t *dst_stride,
                     const void *src, int64_t src_at, const int64_t *src_stride) {
  int64_t elem_bytes = tc_ref_type_bytes(type);
  tc_walk w;
  tc_walk_init(&w, rank, dim, INT64_MAX);
  tc_walk_add(&w, dst_stride);
  tc_walk_add(&w, src_stride);
  tc_walk_begin(&w);
  while (tc_walk_next(&w)) {
    tc_copy_span(elem_bytes, dst, dst_at + w.offset[0], w.step[0], src, src_at + w.offset[1], w.step[1], w.n);
  }
}

// These say whether the view is one run of memory, and whether it is one element repeated.
static bool is_dense(const tc_view *v) {
  int64_t stride = 1;
  for (int d = v->rank - 1; d >= 0; stride *= v->dim[d], d--)
    if (v->dim[d] != 1 && v->stride[d] != stride) return false;
  return true;
}

static bool is_one_value(const tc_view *v) {
  for (int d = 0; d < v->rank; d++)
    if (v->dim[d] != 1 && v->stride[d] != 0) return false;
  return true;
}

void tc_copy_view(const tc_view *to, const tc_view *from) {
  static const char zero[8] = {0};
  size_t bytes = (size_t)tc_ref_type_bytes(to->type);
  if (is_one_value(from) && is_dense(to) && memcmp(from->ptr, zero, bytes) == 0) {
    for (int d = 0; d < to->rank; d++) bytes *= (size_t)to->dim[d];
    memset(to->ptr, 0, bytes);
    return;
  }
  copy_box(to->type, to->rank, to->dim, to->ptr, 0, to->stride, from->ptr, 0, from->stride);
}

static void dense_strides(int rank, const int64_t *dim, int64_t *out_stride) {
  int64_t stride = 1;
  for (int d = rank - 1; d >= 0; d--) {
    out_stride[d] = stride;
    stride *= dim[d];
  }
}

static bool is_empty(const tc_view *v) {
  for (int d = 0; d < v->rank; d++) {
    if (v->dim[d] == 0) return true;
  }
  return false;
}

// Rows of the table without a kernel (leaf) are never run.
tc_status tc_ref_none(const tc_ref_call *call) {
  (void)call;
  return TC_FAIL(TC_ERR_ARG, "this row of the op table has no reference kernel");
}

// Serves detach, to and assign, too; the second operand of assign, the old value, is not read. In
// row-major order in[0] has out's elements.
tc_status tc_ref_reshape(const tc_ref_call *call) {
  const tc_view *in = &call->in[0];
  int64_t stride[TC_MAX_RANK];
  dense_strides(in->rank, in->dim, stride);
  copy_box(in->type, in->rank, in->dim, call->out.ptr, 0, stride, in->ptr, 0, in->stride);
  return TC_OK;
}

// The bytes at an offset of a tuple.
tc_status tc_ref_tuple_element(const tc_ref_call *call) {
  size_t bytes = tc_type_bytes(call->out.type);
  for (int d = 0; d < call->out.rank; d++) bytes *= (size_t)call->out.dim[d];
  if (bytes) memcpy(call->out.ptr, (const char *)call->in[0].ptr + call->attr[0], bytes);
  return TC_OK;
}

tc_status tc_ref_permute(const tc_ref_call *call) {
  const tc_view *in = &call->in[0], *out = &call->out;
  int64_t stride[TC_MAX_RANK];
  for (int d = 0; d < out->rank; d++) stride[d] = in->stride[call->attr[0] >> (8 * d) & 255];
  copy_box(in->type, out->rank, out->dim, out->ptr, 0, out->stride, in->ptr, 0, stride);
  return TC_OK;
}

tc_status tc_ref_expand(const tc_ref_call *call) {
  const tc_view *in = &call->in[0], *out = &call->out;
  int64_t stride[TC_MAX_RANK];
  for (int d = 0; d < out->rank; d++) {
    int from = d - (out->rank - in->rank);  // below 0: a new leading axis
    stride[d] = from < 0 || in->dim[from] != out->dim[d] ? 0 : in->stride[from];
  }
  copy_box(in->type, out->rank, out->dim, out->ptr, 0, out->stride, in->ptr, 0, stride);
  return TC_OK;
}

// Writes the strides of v[start::step]; returns the offset of its first element.
static int64_t slice_strides(const tc_view *v, const uint64_t *start, const uint64_t *step, int64_t *out_stride) {
  int64_t at = 0;
  for (int d = 0; d < v->rank; d++) {
    at += (int64_t)start[d] * v->stride[d];
    out_stride[d] = (int64_t)step[d] * v->stride[d];
  }
  return at;
}

tc_status tc_ref_slice(const tc_ref_call *call) {
  const tc_view *in = &call->in[0], *out = &call->out;
  int64_t stride[TC_MAX_RANK];
  int64_t at = slice_strides(in, call->arg, call->attr, stride);
  copy_box(in->type, out->rank, out->dim, out->ptr, 0, out->stride, in->ptr, at, stride);
  return TC_OK;
}

// Copies two boxes: from the start on, and what lies before it.
tc_status tc_ref_roll(const tc_ref_call *call) {
  const tc_view *in = &call->in[0], *out = &call->out;
  uint64_t axis = call->attr[0];
  int64_t start = (int64_t)call->arg[axis], n = out->dim[axis], dim[TC_MAX_RANK];
  for (int d = 0; d < out->rank; d++) dim[d] = out->dim[d];
  dim[axis] = n - start;
  copy_box(in->type, out->rank, dim, out->ptr, 0, out->stride, in->ptr, start * in->stride[axis], in->stride);
  dim[axis] = start;
  if (start)
    copy_box(in->type, out->rank, dim, out->ptr, (n - start) * out->stride[axis], out->stride, in->ptr, 0, in->stride);
  return TC_OK;
}

tc_status tc_ref_flip(const tc_ref_call *call) {
  const tc_view *in = &call->in[0], *out = &call->out;
  int64_t stride[TC_MAX_RANK], at = 0;
  for (int d = 0; d < in->rank; d++) {
    bool flipped = call->attr[0] >> d & 1;
    stride[d] = flipped ? -in->stride[d] : in->stride[d];
    if (flipped) at += (in->dim[d] - 1) * in->stride[d];
  }
  copy_box(in->type, out->rank, out->dim, out->ptr, 0, out->stride, in->ptr, at, stride);
  return TC_OK;
}

static void fill_view(const tc_view *out, uint64_t arg) {
  static const int64_t zeros[TC_MAX_RANK];
  uint64_t elem = 0;
  double value;
  memcpy(&value, &arg, sizeof value);
  if (tc_ref_is_float(out->type))
    tc_set_f64(out->type, &elem, 0, value);
  else
    tc_set_i64(out->type, &elem, 0, (int64_t)arg);
  copy_box(out->type, out->rank, out->dim, out->ptr, 0, out->stride, &elem, 0, zeros);
}

// Fills out, then copies what remains of in; a negative amount crops.
tc_status tc_ref_pad(const tc_ref_call *call) {
  const tc_view *in = &call->in[0], *out = &call->out;
  int64_t dim[TC_MAX_RANK], in_at = 0, out_at = 0;
  fill_view(out, call->arg[0]);
  for (int d = 0; d < in->rank; d++) {
    int64_t low = (int64_t)call->attr[d], high = (int64_t)call->attr[in->rank + d];
    dim[d] = in->dim[d] + TC_MIN(low, 0) + TC_MIN(high, 0);
    if (dim[d] <= 0) return TC_OK;
    in_at += TC_MAX_OF(-low, 0) * in->stride[d];
    out_at += TC_MAX_OF(low, 0) * out->stride[d];
  }
  copy_box(in->type, in->rank, dim, out->ptr, out_at, out->stride, in->ptr, in_at, in->stride);
  return TC_OK;
}

tc_status tc_ref_window(const tc_ref_call *call) {
  const tc_view *in = &call->in[0], *out = &call->out;
  int64_t stride[TC_MAX_RANK], along = in->stride[call->attr[0]];
  for (int d = 0; d < in->rank; d++) stride[d] = in->stride[d];
  // With one window the step between windows may be any number: it wraps.
  stride[call->attr[0]] = (int64_t)((uint64_t)along * call->attr[2]),
  stride[in->rank] = (int64_t)((uint64_t)along * call->attr[3]);
  copy_box(in->type, out->rank, out->dim, out->ptr, 0, out->stride, in->ptr, 0, stride);
  return TC_OK;
}

tc_status tc_ref_cat(const tc_ref_call *call) {
  int axis = (int)call->attr[0];
  tc_share share;
  int64_t at = 0;  // of the operand, along the axis
  if (!tc_share_find(call, -1, false, &share)) return TC_OK;
  for (int k = 0; k < call->n_in; k++) {
    tc_view in = call->in[k];
    int64_t lo = 0, hi = in.dim[axis];
    if (share.axis == axis) lo = TC_MAX_OF(share.lo - at, lo), hi = TC_MIN(share.hi - at, hi);
    if (lo < hi) {
      tc_view from = tc_share_slice(&in, axis, lo, hi), to = tc_share_slice(&call->out, axis, at + lo, at + hi);
      if (share.axis >= 0 && share.axis != axis)
        from = tc_share_slice(&from, share.axis, share.lo, share.hi),
        to = tc_share_slice(&to, share.axis, share.lo, share.hi);
      tc_copy_view(&to, &from);
    }
    at += in.dim[axis];
  }
  return TC_OK;
}

// Returns how many of start, start + step, .. come before position `at`, in the direction of the
// step.
static int64_t count_before(int64_t start, int64_t step, int64_t at) {
  if (step < 0) start = -start, step = -step, at = -at;
  return at <= start ? 0 : (at - start + step - 1) / step;
}

// Copies old to out and writes value over the slice. out may be old itself, if the caller gave
// old's buffer away.
tc_status tc_ref_write_slice(const tc_ref_call *call) {
  tc_view old = call->in[0], value = call->in[1], out = call->out;
  uint64_t start[TC_MAX_RANK];
  tc_share share;
  if (!tc_share_find(call, -1, false, &share)) return TC_OK;
  for (int d = 0; d < out.rank; d++) start[d] = call->arg[d];
  if (share.axis >= 0) {
    int d = share.axis;
    int64_t from = (int64_t)start[d], step = (int64_t)call->attr[d];
    bool down = step < 0;  // from the slice's last element to its first
    int64_t lo = TC_MIN(count_before(from, step, down ? share.hi - 1 : share.lo), value.dim[d]);
    int64_t hi = TC_MIN(count_before(from, step, down ? share.lo - 1 : share.hi), value.dim[d]);
    old = tc_share_slice(&old, d, share.lo, share.hi), out = tc_share_slice(&out, d, share.lo, share.hi);
    value = tc_share_slice(&value, d, lo, hi);
    start[d] = (uint64_t)(from + lo * step - share.lo);
  }
  if (out.ptr != old.ptr) tc_copy_view(&out, &old);
  if (is_empty(&value)) return TC_OK;
  int64_t stride[TC_MAX_RANK];
  int64_t at = slice_strides(&out, start, call->attr, stride);
  copy_box(value.type, value.rank, value.dim, out.ptr, at, stride, value.ptr, 0, value.stride);
  return TC_OK;
}
