// Gradient rules of ops that rearrange: the gradient takes the way back. Elements nobody read get
// zero. An empty gradient takes it too: what it becomes is made of it, so that it can be
// differentiated again.
// Threads: under the trace's lock. Owner: nobody.
#include "lazy/autograd/vjp_shorthand.h"

// starts and steps of a slice as recorded: run-time arguments and attribute words.
typedef struct slice_at {
  int64_t start[TC_MAX_RANK], step[TC_MAX_RANK];
} slice_at;

static slice_at slice_of(const tc_vjp *v) {
  slice_at s = {0};
  int32_t rank = tc_vjp_in_dims(v, 0)->rank;
  for (int32_t i = 0; i < rank; i++) {
    s.start[i] = (int64_t)v->arg[i];
    s.step[i] = (int64_t)v->attr[i];
  }
  return s;
}

// The block of g that starts at start and has operand k's shape.
static tc_node block(tc_vjp *v, int k, const int64_t *start) {
  static const int64_t ones[TC_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
  return tc_rec_slice(v->t, v->g, start, ones, tc_vjp_in_dims(v, k));
}

void tc_vjp_reshape(tc_vjp *v) {
  tc_vjp_give(v, 0, tc_rec_reshape(v->t, v->g, tc_vjp_in_dims(v, 0)));
}

void tc_vjp_permute(tc_vjp *v) {
  tc_dims back = *tc_vjp_in_dims(v, 0);
  for (int32_t i = 0; i < back.rank; i++) back.dim[v->attr[0] >> (8 * i) & 0xff] = i;
  tc_vjp_give(v, 0, tc_rec_permute(v->t, v->g, &back));
}

// Repeated axes are what give sums over.
void tc_vjp_expand(tc_vjp *v) {
  tc_vjp_give(v, 0, v->g);
}

void tc_vjp_slice(tc_vjp *v) {
  slice_at s = slice_of(v);
  tc_vjp_give(v, 0, tc_rec_write_slice(v->t, zeros_in(v, 0), v->g, s.start, s.step));
}

void tc_vjp_flip(tc_vjp *v) {
  tc_vjp_give(v, 0, tc_rec_flip(v->t, v->g, (uint32_t)v->attr[0]));
}

// The shift the other way.
void tc_vjp_roll(tc_vjp *v) {
  uint64_t axis = v->attr[0];
  int64_t n = tc_vjp_in_dims(v, 0)->dim[axis], start = (int64_t)v->arg[axis];
  tc_vjp_give(v, 0, tc_rec_roll(v->t, v->g, start ? n - start : 0, (int)axis));
}

void tc_vjp_pad(tc_vjp *v) {
  int64_t low[TC_MAX_RANK] = {0};
  int32_t rank = tc_vjp_in_dims(v, 0)->rank;
  for (int32_t i = 0; i < rank; i++) low[i] = (int64_t)v->attr[i];
  tc_vjp_give(v, 0, block(v, 0, low));
}

// Attributes of windows: axis, size, step, dilation.
void tc_vjp_window(tc_vjp *v) {
  int axis = (int)v->attr[0];
  int64_t length = tc_vjp_in_dims(v, 0)->dim[axis];
  tc_vjp_give(v, 0, tc_rec_unwindow(v->t, v->g, axis, length, (int64_t)v->attr[2], (int64_t)v->attr[3]));
}

void tc_vjp_unwindow(tc_vjp *v) {
  tc_vjp_give(
      v, 0, tc_rec_window(v->t, v->g, (int)v->attr[0], (int64_t)v->attr[1], (int64_t)v->attr[2], (int64_t)v->attr[3]));
}

void tc_vjp_cat(tc_vjp *v) {
  int64_t start[TC_MAX_RANK] = {0};
  uint64_t axis = v->attr[0];
  for (int k = 0; k < v->n_in; k++) {
    if (tc_vjp_requires_grad(v, k)) tc_vjp_give(v, k, block(v, k, start));
    start[axis] += tc_vjp_in_dims(v, k)->dim[axis];
  }
}

// Operands (old, value): the block belongs to the value, the rest to the old.
void tc_vjp_write_slice(tc_vjp *v) {
  slice_at s = slice_of(v);
  if (tc_vjp_requires_grad(v, 0)) tc_vjp_give(v, 0, tc_rec_write_slice(v->t, v->g, zeros_in(v, 1), s.start, s.step));
  if (tc_vjp_requires_grad(v, 1)) tc_vjp_give(v, 1, tc_rec_slice(v->t, v->g, s.start, s.step, tc_vjp_in_dims(v, 1)));
}
