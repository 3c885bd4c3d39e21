// Folding reference kernels: for every element of the kept axes, a walk over the folded axes in
// row-major order.
//
// Sums and products of floats accumulate in double and are rounded once (f64: a plain chain);
// integers and bools use int64, wrapping. Empty sums are 0, products 1, any is false, all is true;
// max, min, argmax and argmin of nothing are errors. NaN is larger and smaller than everything.
// Threads: thread-safe, pure.
// Owner: nothing.
#include <math.h>

#include "kernels/ref/convert.h"
#include "kernels/ref/walk.h"

typedef struct fold_state {
  double f64;
  int64_t i64;
  int64_t index;  // of the extreme so far; -1 before the first element
} fold_state;
// Folds a span: elements x[0..n) at positions at..at + n-1 of the folded box.
typedef void f64_fn(fold_state *s, int64_t at, int64_t n, const double *x);
typedef void i64_fn(fold_state *s, int64_t at, int64_t n, const int64_t *x);

typedef struct fold {
  const char *name;
  f64_fn *f64;
  i64_fn *i64;
  int64_t initial;
  bool needs_element;
  enum { VALUE, INDEX, FLAG } result;  // what is stored: the value, its position, or the integer half as a bool
} fold;

// Splits in's axes by the mask; each half keeps its order.
static void split_axes(const tc_view *in, uint64_t mask, tc_view *out_kept, tc_view *out_folded) {
  out_kept->rank = out_folded->rank = 0;
  for (int d = 0; d < in->rank; d++) {
    tc_view *v = mask >> d & 1 ? out_folded : out_kept;
    v->dim[v->rank] = in->dim[d];
    v->stride[v->rank] = in->stride[d];
    v->rank++;
  }
}

static fold_state fold_box(const fold *f, const tc_view *in, int64_t origin, const tc_walk *folded) {
  fold_state s = {(double)f->initial, f->initial, -1};
  bool is_float = tc_ref_is_float(in->type);
  double x_f64[TC_SPAN];
  int64_t x_i64[TC_SPAN], at = 0;
  for (tc_walk w = *folded; tc_walk_next(&w); at += w.n) {
    if (is_float) {
      tc_load_f64(in->type, in->ptr, origin + w.offset[0], w.step[0], w.n, x_f64);
      f->f64(&s, at, w.n, x_f64);
    } else {
      tc_load_i64(in->type, in->ptr, origin + w.offset[0], w.step[0], w.n, x_i64);
      f->i64(&s, at, w.n, x_i64);
    }
  }
  return s;
}

static tc_status fold_axes(const fold *f, const tc_ref_call *call) {
  const tc_view *in = &call->in[0], *out = &call->out;
  tc_view kept, folded;
  split_axes(in, call->attr[0] & 255, &kept, &folded);
  tc_walk outer, inner;
  tc_walk_init(&outer, kept.rank, kept.dim, 1);
  tc_walk_add(&outer, kept.stride);
  tc_walk_begin(&outer);
  tc_walk_init(&inner, folded.rank, folded.dim, TC_SPAN);
  tc_walk_add(&inner, folded.stride);
  tc_walk_begin(&inner);
  bool is_float = f->result == VALUE && tc_ref_is_float(in->type);
  for (int64_t i = 0; tc_walk_next(&outer); i++) {
    fold_state s = fold_box(f, in, outer.offset[0], &inner);
    if (f->needs_element && s.index < 0)
      return tc_fail(TC_ERR_SHAPE, f->name, 0, "no elements to choose from along the folded axes");
    if (is_float)
      tc_set_f64(out->type, out->ptr, i, s.f64);
    else
      tc_set_i64(out->type, out->ptr, i, f->result == INDEX ? s.index : s.i64);
  }
  return TC_OK;
}

// s is the state, x the span's element i; v stands for s->f64 or s->i64.
#define FOLD_FN(name, suffix, ctype, statement) \
  static void name##_##suffix(fold_state *s, int64_t at, int64_t n, const ctype *x) { \
    ctype v = s->suffix; \
    (void)at; \
    for (int64_t i = 0; i < n; i++) statement s->suffix = v; \
  }
#define KERNEL(name, functions, ...) \
  tc_status tc_ref_##name(const tc_ref_call *call) { \
    static const fold f = {#name, functions##_f64, functions##_i64, __VA_ARGS__}; \
    return fold_axes(&f, call); \
  }

FOLD_FN(sum, f64, double, { v += x[i]; })
FOLD_FN(sum, i64, int64_t, { v = (int64_t)((uint64_t)v + (uint64_t)x[i]); })
FOLD_FN(prod, f64, double, { v *= x[i]; })
FOLD_FN(prod, i64, int64_t, { v = (int64_t)((uint64_t)v * (uint64_t)x[i]); })

// The first extreme stays; the first NaN stays for good.
#define TAKE_IF(condition) \
  { \
    if (s->index < 0 || (condition)) { \
      v = x[i]; \
      s->index = at + i; \
    } \
  }
FOLD_FN(max, f64, double, TAKE_IF(x[i] > v || (isnan(x[i]) && !isnan(v))))
FOLD_FN(max, i64, int64_t, TAKE_IF(x[i] > v))
FOLD_FN(min, f64, double, TAKE_IF(x[i] < v || (isnan(x[i]) && !isnan(v))))
FOLD_FN(min, i64, int64_t, TAKE_IF(x[i] < v))

// Flags use the integer half of the state, whatever the operand. NaN is true.
static void any_f64(fold_state *s, int64_t at, int64_t n, const double *x) {
  (void)at;
  for (int64_t i = 0; i < n; i++) s->i64 |= x[i] != 0;
}

static void all_f64(fold_state *s, int64_t at, int64_t n, const double *x) {
  (void)at;
  for (int64_t i = 0; i < n; i++) s->i64 &= x[i] != 0;
}

FOLD_FN(any, i64, int64_t, { v |= x[i] != 0; })
FOLD_FN(all, i64, int64_t, { v &= x[i] != 0; })

KERNEL(sum, sum, 0, false, VALUE)
KERNEL(prod, prod, 1, false, VALUE)
KERNEL(max, max, 0, true, VALUE)
KERNEL(min, min, 0, true, VALUE)
KERNEL(argmax, max, 0, true, INDEX)
KERNEL(argmin, min, 0, true, INDEX)
KERNEL(any, any, 0, false, FLAG)
KERNEL(all, all, 1, false, FLAG)
