// A scalar has one axis to be named, 0 or -1, wherever an op takes an axis; no other. Ops that
// leave one element there give a scalar again.
#include "tests/expect.h"

typedef tc_tensor function(tc_tensor x, int axis);

static tc_tensor at(double i) {
  return tc_cast(tc_scalar(i), TC_I64);
}

#define ALONG(name) \
  static tc_tensor name(tc_tensor x, int axis) { \
    return tc_##name(x, axis); \
  }
ALONG(cumsum)
ALONG(cumprod)
ALONG(cummax)
ALONG(cummin)
ALONG(logcumsumexp)
ALONG(softmax)
ALONG(log_softmax)

#define FOLD(name) \
  static tc_tensor name(tc_tensor x, int axis) { \
    return tc_##name(x, TC_AXES(axis), axis < 0); \
  }
FOLD(sum)
FOLD(prod)
FOLD(mean)
FOLD(min)
FOLD(max)
FOLD(any)
FOLD(all)
FOLD(logsumexp)

static tc_tensor var(tc_tensor x, int axis) {
  return tc_var(x, TC_AXES(axis), 0, false);
}
static tc_tensor std(tc_tensor x, int axis) {
  return tc_std(x, TC_AXES(axis), 0, true);
}
static tc_tensor norm(tc_tensor x, int axis) {
  return tc_norm(x, 2, TC_AXES(axis), false);
}
static tc_tensor argmin(tc_tensor x, int axis) {
  return tc_argmin(x, axis, true);
}
static tc_tensor argmax(tc_tensor x, int axis) {
  return tc_argmax(x, axis, false);
}
static tc_tensor sort(tc_tensor x, int axis) {
  return tc_sort(x, axis, true);
}
static tc_tensor argsort(tc_tensor x, int axis) {
  return tc_argsort(x, axis, false);
}
static tc_tensor topk(tc_tensor x, int axis) {
  return tc_topk(x, 1, axis, true);
}
static tc_tensor argtopk(tc_tensor x, int axis) {
  return tc_argtopk(x, 1, axis, true);
}
static tc_tensor kthvalue(tc_tensor x, int axis) {
  return tc_kthvalue(x, 1, axis, true);
}
static tc_tensor median(tc_tensor x, int axis) {
  return tc_median(x, axis, false);
}
static tc_tensor gather(tc_tensor x, int axis) {
  return tc_gather(x, axis, at(0));
}
static tc_tensor take_along_dim(tc_tensor x, int axis) {
  return tc_take_along_dim(x, at(-1), axis);
}
static tc_tensor scatter(tc_tensor x, int axis) {
  return tc_scatter(tc_scalar(7), axis, at(0), x);
}
static tc_tensor scatter_add(tc_tensor x, int axis) {
  return tc_scatter_add(tc_scalar(0), axis, at(0), x);
}
static tc_tensor index_add(tc_tensor x, int axis) {
  return tc_index_add(tc_scalar(0), axis, at(0), x);
}
static tc_tensor index_select(tc_tensor x, int axis) {
  return tc_index_select(x, axis, at(0));
}
static tc_tensor squeeze(tc_tensor x, int axis) {
  return tc_squeeze(x, TC_AXES(axis));
}
static tc_tensor flip(tc_tensor x, int axis) {
  return tc_flip(x, TC_AXES(axis));
}
static tc_tensor roll(tc_tensor x, int axis) {
  return tc_roll(x, 3, axis);
}
static tc_tensor transpose(tc_tensor x, int axis) {
  return tc_transpose(x, axis, 0);
}
static tc_tensor transpose_to(tc_tensor x, int axis) {
  return tc_transpose(x, 0, axis);
}
static tc_tensor select_one(tc_tensor x, int axis) {
  return tc_select(x, axis, -1);
}
static tc_tensor slice(tc_tensor x, int axis) {
  return tc_slice(x, axis, 0, 1, 1);
}
static tc_tensor split(tc_tensor x, int axis) {
  tc_tensor part;
  return tc_split(x, 2, axis, 1, &part) == TC_OK ? part : (tc_tensor){0, 0};
}
static tc_tensor unfold(tc_tensor x, int axis) {
  return tc_unfold(x, axis, 1, 1);
}
static tc_tensor flatten(tc_tensor x, int axis) {
  return tc_flatten(x, axis, -1);
}
static tc_tensor flatten_to(tc_tensor x, int axis) {
  return tc_flatten(x, 0, axis);
}
static tc_tensor cat(tc_tensor x, int axis) {
  return tc_cat(3, (tc_tensor[]){x, x, x}, axis);
}
static tc_tensor stack(tc_tensor x, int axis) {
  return tc_stack(3, (tc_tensor[]){x, x, x}, axis);
}
static tc_tensor repeat_interleave(tc_tensor x, int axis) {
  return tc_repeat_interleave(x, 3, axis);
}
static tc_tensor unsqueeze(tc_tensor x, int axis) {
  return tc_unsqueeze(x, axis);
}

typedef struct row {
  const char *name;
  function *f;
  int64_t n;  // elements of the result in its axis, 0: it is a scalar
  double value;  // of x = 2.5
} row;

int main(void) {
#define ROW(f, n, value) {#f, f, n, value}
  static const row rows[] = {
      ROW(cumsum, 0, 2.5),
      ROW(cumprod, 0, 2.5),
      ROW(cummax, 0, 2.5),
      ROW(cummin, 0, 2.5),
      ROW(logcumsumexp, 0, 2.5),
      ROW(softmax, 0, 1),
      ROW(log_softmax, 0, 0),
      ROW(sum, 0, 2.5),
      ROW(prod, 0, 2.5),
      ROW(mean, 0, 2.5),
      ROW(min, 0, 2.5),
      ROW(max, 0, 2.5),
      ROW(any, 0, 1),
      ROW(all, 0, 1),
      ROW(logsumexp, 0, 2.5),
      ROW(var, 0, 0),
      ROW(std, 0, 0),
      ROW(norm, 0, 2.5),
      ROW(argmin, 0, 0),
      ROW(argmax, 0, 0),
      ROW(sort, 0, 2.5),
      ROW(argsort, 0, 0),
      ROW(topk, 0, 2.5),
      ROW(argtopk, 0, 0),
      ROW(kthvalue, 0, 2.5),
      ROW(median, 0, 2.5),
      ROW(gather, 0, 2.5),
      ROW(scatter, 0, 2.5),
      ROW(take_along_dim, 0, 2.5),
      ROW(scatter_add, 0, 2.5),
      ROW(index_add, 0, 2.5),
      ROW(squeeze, 0, 2.5),
      ROW(index_select, 0, 2.5),
      ROW(flip, 0, 2.5),
      ROW(roll, 0, 2.5),
      ROW(transpose, 0, 2.5),
      ROW(select_one, 0, 2.5),
      ROW(transpose_to, 0, 2.5),
      ROW(slice, 1, 2.5),
      ROW(split, 1, 2.5),
      ROW(unfold, 1, 2.5),
      ROW(flatten, 1, 2.5),
      ROW(flatten_to, 1, 2.5),
      ROW(cat, 3, 2.5),
      ROW(stack, 3, 2.5),
      ROW(repeat_interleave, 3, 2.5),
      ROW(unsqueeze, 1, 2.5),
  };
  static const int good[] = {0, -1}, bad[] = {1, -2, 8};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const row *r = &rows[i];
    tc_tensor x = tc_scalar(2.5);
    for (int k = 0; k < 2; k++) {
      float v[3] = {-1, -1, -1};
      tc_tensor y = r->f(x, good[k]);
      tc_dims d = tc_shape(y);
      EXPECT(tc_is_valid(y) && d.rank == (r->n != 0) && (r->n == 0 || d.dim[0] == r->n), "%s, axis %d", r->name,
             good[k]);
      if (!tc_is_valid(y)) continue;
      int64_t n = expect_floats(y, v, 3);
      for (int64_t j = 0; j < n; j++)
        EXPECT((double)v[j] > r->value - 1e-6 && (double)v[j] < r->value + 1e-6, "%s: %g", r->name, (double)v[j]);
    }
    for (int k = 0; k < 3; k++) {
      tc_clear_error();
      EXPECT(!tc_is_valid(r->f(x, bad[k])), "%s, axis %d", r->name, bad[k]);
      EXPECT(tc_last_error()->status == TC_ERR_ARG && strstr(tc_last_error()->message, "is out of range for rank"),
             "%s, axis %d", r->name, bad[k]);
    }
    tc_clear_error();
  }
  // An axis that has not one element any more stays.
  EXPECT(tc_shape(tc_topk(tc_scalar(1), 0, 0, true)).rank == 1 && tc_numel(tc_slice(tc_scalar(1), 0, 1, 1, 1)) == 0,
         "rank");
  EXPECT(tc_numel(tc_cat(2, (tc_tensor[]){tc_scalar(1), tc_ones(TC_SHAPE(3), TC_F32)}, 0)) == 4, "elements");
  EXPECT_FAILS(tc_sum(tc_scalar(1), TC_AXES(0, -1), false), TC_ERR_ARG, "axis 0 is named twice");
  EXPECT_FAILS(tc_select(tc_scalar(1), 0, 1), TC_ERR_INDEX, "index 1 is out of range: axis 0 has 1 element");
  return expect_done("api-scalars");
}
