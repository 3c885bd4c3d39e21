// Recording what moves data: reshapes and permutations, slices and padding, windows, joining. See
// record.h.
#include "lazy/record/record_shorthand.h"

#define MOST_JOINED 256  // operands of one record

// What is wrong with a shape that a tensor of so many elements cannot have.
static tc_node cannot_reshape(tc_trace *t, tc_node a, const tc_dims *to, int n_free, int64_t known) {
  char have[128], want[128];
  if (to->rank < 0 || to->rank > TC_MAX_RANK)
    return tc_rec_fail(t, TC_ERR_SHAPE, "rank %d is not within 0 and %d", (int)to->rank, TC_MAX_RANK);
  tc_dims_text(tc_node_dims(t, a), have, sizeof have), tc_dims_text(to, want, sizeof want);
  for (int i = 0; i < to->rank; i++)
    if (to->dim[i] < -1)
      return tc_rec_fail(t, TC_ERR_SHAPE, "%s cannot become %s: extent %d is negative", have, want, i);
  if (n_free > 1)
    return tc_rec_fail(t, TC_ERR_SHAPE, "%s cannot become %s: -1 is given %d times, once is possible", have, want,
                       n_free);
  if (n_free && known == 0)
    return tc_rec_fail(t, TC_ERR_SHAPE, "%s cannot become %s: beside an extent of 0, -1 could be any", have, want);
  return tc_rec_fail(t, TC_ERR_SHAPE, "%s cannot become %s: it has %lld elements", have, want,
                     (long long)tc_dims_at(shape_of(t, a))->count);
}

tc_node tc_rec_reshape(tc_trace *t, tc_node a, const tc_dims *shape) {
  if (!ok(t, a)) return TC_NODE_ERR;
  tc_dims d = *shape;
  int64_t have = tc_dims_at(shape_of(t, a))->count, known = 1;
  int free_axis = -1, n_free = 0;
  bool good = d.rank >= 0 && d.rank <= TC_MAX_RANK;
  for (int i = 0; good && i < d.rank; i++) {
    if (d.dim[i] == -1)
      free_axis = i, n_free++;
    else
      good = d.dim[i] >= 0 && !__builtin_mul_overflow(known, d.dim[i], &known);
  }
  if (good && n_free) {
    good = n_free == 1 && known != 0 && have % known == 0;
    if (good) d.dim[free_axis] = have / known, known = have;
  }
  if (!good || known != have) return cannot_reshape(t, a, shape, n_free, known);
  if (tc_dims_equal(&d, tc_node_dims(t, a))) return a;
  return tc_rec_append_dims(t, TC_OP_RESHAPE, type_of(t, a), &d, a, 0, NULL);
}

tc_node tc_rec_drop_axis(tc_trace *t, tc_node a, int axis) {
  if (!ok(t, a)) return TC_NODE_ERR;
  tc_dims d = *tc_node_dims(t, a);
  d.rank--;
  for (int i = axis; i < d.rank; i++) d.dim[i] = d.dim[i + 1];
  return tc_rec_reshape(t, a, &d);
}

tc_node tc_rec_permute(tc_trace *t, tc_node a, const tc_dims *axes) {
  if (!ok(t, a)) return TC_NODE_ERR;
  const tc_dims *in = tc_node_dims(t, a);
  uint32_t mask;
  if (axes->rank != in->rank) return tc_rec_fail(t, TC_ERR_ARG, "%d axes for rank %d", (int)axes->rank, (int)in->rank);
  if (!tc_rec_axes(t, a, axes, &mask)) return TC_NODE_ERR;
  tc_dims out = {.rank = in->rank};
  uint64_t perm = 0;
  bool same = true;
  for (int i = 0; i < in->rank; i++) {
    int axis = (int)(axes->dim[i] < 0 ? axes->dim[i] + in->rank : axes->dim[i]);
    perm |= (uint64_t)axis << (8 * i);
    out.dim[i] = in->dim[axis];
    same &= axis == i;
  }
  return same ? a : tc_rec_append_dims(t, TC_OP_PERMUTE, type_of(t, a), &out, a, 1, &perm);
}

tc_node tc_rec_expand(tc_trace *t, tc_node a, const tc_dims *shape) {
  if (!ok(t, a)) return TC_NODE_ERR;
  const tc_dims *in = tc_node_dims(t, a);
  tc_dims d = *shape;
  bool good = d.rank >= in->rank && d.rank <= TC_MAX_RANK;
  for (int i = 0; good && i < d.rank; i++) {
    int k = i - (d.rank - in->rank);
    if (k >= 0 && d.dim[i] == -1) d.dim[i] = in->dim[k];
    good = d.dim[i] >= 0 && (k < 0 || in->dim[k] == d.dim[i] || in->dim[k] == 1);
  }
  if (!good) {
    char from[128], to[128] = "";
    if (d.rank >= 0 && d.rank <= TC_MAX_RANK) tc_dims_text(shape, to, sizeof to);
    return tc_rec_fail(t, TC_ERR_SHAPE, "%s cannot expand to %s", tc_dims_text(in, from, sizeof from), to);
  }
  return tc_dims_equal(&d, in) ? a : tc_rec_append_dims(t, TC_OP_EXPAND, type_of(t, a), &d, a, 0, NULL);
}

// ---- slices ----

// Whether start + i * step stays within extent for all i < n.
static bool within(int64_t extent, int64_t start, int64_t step, int64_t n) {
  int64_t last;
  if (n == 0) return true;
  if (__builtin_mul_overflow(step, n - 1, &last) || __builtin_add_overflow(last, start, &last)) return false;
  return start >= 0 && start < extent && last >= 0 && last < extent;
}

// Steps and starts as words, after checking that every index lies within d; false after reporting.
static bool slice_words(tc_trace *t, const tc_dims *d, const int64_t *start, const int64_t *step, const tc_dims *out,
                        uint64_t *attr, uint64_t *arg) {
  if (out->rank != d->rank)
    return tc_rec_fail(t, TC_ERR_SHAPE, "a slice of rank %d from rank %d", (int)out->rank, (int)d->rank), false;
  for (int i = 0; i < d->rank; i++) {
    if (step[i] == 0) return tc_rec_fail(t, TC_ERR_ARG, "the step of axis %d is 0", i), false;
    if (out->dim[i] < 0 || !within(d->dim[i], start[i], step[i], out->dim[i]))
      return tc_rec_fail(t, TC_ERR_SHAPE, "axis %d: %lld elements from %lld by %lld leave the extent %lld", i,
                         (long long)out->dim[i], (long long)start[i], (long long)step[i], (long long)d->dim[i]),
             false;
    attr[i] = (uint64_t)step[i];
    arg[i] = (uint64_t)start[i];
  }
  return true;
}

tc_node tc_rec_slice(tc_trace *t, tc_node a, const int64_t *start, const int64_t *step, const tc_dims *out) {
  if (!ok(t, a)) return TC_NODE_ERR;
  const tc_dims *d = tc_node_dims(t, a);
  uint64_t attr[TC_MAX_RANK], arg[TC_MAX_RANK];
  if (!slice_words(t, d, start, step, out, attr, arg)) return TC_NODE_ERR;
  return tc_rec_append(t, TC_OP_SLICE, type_of(t, a), tc_rec_intern(t, out), 1, &a, d->rank, attr, d->rank, arg);
}

tc_node tc_rec_slice_axis(tc_trace *t, tc_node a, int axis, int64_t start, int64_t step, int64_t n) {
  if (!ok(t, a)) return TC_NODE_ERR;
  int64_t starts[TC_MAX_RANK] = {0}, steps[TC_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
  tc_dims out = *tc_node_dims(t, a);
  starts[axis] = start, steps[axis] = step, out.dim[axis] = n;
  return tc_rec_slice(t, a, starts, steps, &out);
}

tc_node tc_rec_first(tc_trace *t, tc_node a, const tc_dims *d) {
  static const int64_t zeros[TC_MAX_RANK], ones[TC_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
  return tc_rec_slice(t, a, zeros, ones, d);
}

tc_node tc_rec_write_slice(tc_trace *t, tc_node old, tc_node value, const int64_t *start, const int64_t *step) {
  if (!ok(t, old) || !ok(t, value)) return TC_NODE_ERR;
  const tc_dims *d = tc_node_dims(t, old);
  uint64_t attr[TC_MAX_RANK], arg[TC_MAX_RANK];
  if (!slice_words(t, d, start, step, tc_node_dims(t, value), attr, arg)) return TC_NODE_ERR;
  value = tc_rec_cast(t, value, type_of(t, old));
  if (!ok(t, value)) return TC_NODE_ERR;
  return tc_rec_append(t, TC_OP_WRITE_SLICE, type_of(t, old), shape_of(t, old), 2, (tc_node[]){old, value}, d->rank,
                       attr, d->rank, arg);
}

tc_node tc_rec_roll(tc_trace *t, tc_node a, int64_t start, int axis) {
  if ((axis = tc_rec_axis(t, a, axis, 0)) < 0) return TC_NODE_ERR;
  const tc_dims *d = tc_node_dims(t, a);
  if (d->dim[axis] < 2) return a;
  if (start < 0 || start >= d->dim[axis])
    return tc_rec_fail(t, TC_ERR_ARG, "start %lld is not within %lld elements", (long long)start,
                       (long long)d->dim[axis]);
  uint64_t attr = (uint64_t)axis, arg[TC_MAX_RANK] = {0};
  arg[axis] = (uint64_t)start;
  return tc_rec_append(t, TC_OP_ROLL, type_of(t, a), shape_of(t, a), 1, &a, 1, &attr, d->rank, arg);
}

tc_node tc_rec_flip(tc_trace *t, tc_node a, uint32_t axes_mask) {
  return axes_mask ? tc_rec_append_like(t, TC_OP_FLIP, a, axes_mask) : a;
}

tc_node tc_rec_pad(tc_trace *t, tc_node a, const int64_t *low, const int64_t *high, double value) {
  if (!ok(t, a)) return TC_NODE_ERR;
  tc_dims d = *tc_node_dims(t, a);
  uint64_t attr[2 * TC_MAX_RANK], arg = tc_rec_number_bits(type_of(t, a), value);
  if (!tc_rec_good_number(t, type_of(t, a), value)) return TC_NODE_ERR;
  for (int i = 0; i < d.rank; i++) {
    if (low[i] < 0 || high[i] < 0)
      return tc_rec_fail(t, TC_ERR_ARG, "axis %d is padded by %lld and %lld", i, (long long)low[i], (long long)high[i]);
    attr[i] = (uint64_t)low[i];
    attr[d.rank + i] = (uint64_t)high[i];
    if (__builtin_add_overflow(d.dim[i], low[i], &d.dim[i]) || __builtin_add_overflow(d.dim[i], high[i], &d.dim[i]))
      return tc_rec_fail(t, TC_ERR_SHAPE, "the padding of axis %d overflows", i);
  }
  return tc_rec_append(t, TC_OP_PAD, type_of(t, a), tc_rec_intern(t, &d), 1, &a, 2 * d.rank, attr, 1, &arg);
}

// ---- windows ----

// How many windows an axis holds; 0 after reporting.
static int64_t window_count(tc_trace *t, int64_t length, int64_t size, int64_t step, int64_t dilation) {
  int64_t reach;
  if (size < 1 || step < 1 || dilation < 1)
    return tc_rec_fail(t, TC_ERR_ARG, "windows have size %lld, step %lld and dilation %lld; each is at least 1",
                       (long long)size, (long long)step, (long long)dilation),
           0;
  if (__builtin_mul_overflow(dilation, size - 1, &reach) || reach >= length)
    return tc_rec_fail(t, TC_ERR_SHAPE, "a window of size %lld and dilation %lld does not fit an extent of %lld",
                       (long long)size, (long long)dilation, (long long)length),
           0;
  return (length - reach - 1) / step + 1;
}

// Windows that tile the axis, perhaps but for its end.
static tc_node tiles(tc_trace *t, tc_node a, int axis, int64_t n, int64_t size) {
  tc_dims d = *tc_node_dims(t, a), split = {.rank = d.rank + 1}, axes = {.rank = d.rank + 1};
  if (d.dim[axis] != n * size) {
    d.dim[axis] = n * size;
    a = tc_rec_first(t, a, &d);
  }
  for (int i = 0; i <= d.rank; i++)
    split.dim[i] = i < axis ? d.dim[i] : i == axis ? n : i == axis + 1 ? size : d.dim[i - 1];
  for (int i = 0; i < d.rank; i++) axes.dim[i] = i <= axis ? i : i + 1;
  axes.dim[d.rank] = axis + 1;
  return tc_rec_permute(t, tc_rec_reshape(t, a, &split), &axes);
}

tc_node tc_rec_window(tc_trace *t, tc_node a, int axis, int64_t size, int64_t step, int64_t dilation) {
  if ((axis = tc_rec_axis(t, a, axis, 0)) < 0) return TC_NODE_ERR;
  tc_dims d = *tc_node_dims(t, a);
  if (d.rank == TC_MAX_RANK)
    return tc_rec_fail(t, TC_ERR_SHAPE, "the result would have rank %d, the limit is %d", d.rank + 1, TC_MAX_RANK);
  int64_t n = window_count(t, d.dim[axis], size, step, dilation);
  if (n == 0) return TC_NODE_ERR;
  if (step == size && dilation == 1) return tiles(t, a, axis, n, size);
  uint64_t attr[4] = {(uint64_t)axis, (uint64_t)size, (uint64_t)step, (uint64_t)dilation};
  d.dim[axis] = n, d.dim[d.rank++] = size;
  return tc_rec_append_dims(t, TC_OP_WINDOW, type_of(t, a), &d, a, 4, attr);
}

tc_node tc_rec_unwindow(tc_trace *t, tc_node a, int axis, int64_t length, int64_t step, int64_t dilation) {
  if (!ok(t, a)) return TC_NODE_ERR;
  tc_dims d = *tc_node_dims(t, a);
  int64_t size = d.rank > 0 ? d.dim[--d.rank] : 0;
  if (axis < 0 || axis >= d.rank)
    return tc_rec_fail(t, TC_ERR_ARG, "axis %d is out of range for rank %d", axis, d.rank);
  int64_t n = window_count(t, length, size, step, dilation);
  if (n == 0) return TC_NODE_ERR;
  if (n != d.dim[axis])
    return tc_rec_fail(t, TC_ERR_SHAPE, "%lld windows where %lld fit", (long long)d.dim[axis], (long long)n);
  uint64_t attr[4] = {(uint64_t)axis, (uint64_t)size, (uint64_t)step, (uint64_t)dilation};
  d.dim[axis] = length;
  return tc_rec_append_dims(t, TC_OP_UNWINDOW, type_of(t, a), &d, a, 4, attr);
}

// ---- joining ----

// More tensors than one record holds are joined in parts, and the parts in turn.
static tc_node cat_some(tc_trace *t, int n, const tc_node *xs, int axis, tc_type type) {
  tc_dims out = *tc_node_dims(t, xs[0]);
  tc_node in[MOST_JOINED];
  uint64_t attr = (uint64_t)axis;
  int64_t part = 1;
  while (part * MOST_JOINED < n) part *= MOST_JOINED;
  int n_parts = (int)((n + part - 1) / part);
  out.dim[axis] = 0;
  for (int i = 0; i < n_parts; i++) {
    const tc_node *from = xs + i * part;
    in[i] = part == 1 ? tc_rec_cast(t, *from, type) : cat_some(t, (int)TC_MIN(part, n - i * part), from, axis, type);
    if (in[i] == TC_NODE_ERR) return TC_NODE_ERR;
    if (__builtin_add_overflow(out.dim[axis], tc_node_dims(t, in[i])->dim[axis], &out.dim[axis]))
      return tc_rec_fail(t, TC_ERR_SHAPE, "extents overflow");
  }
  return tc_rec_append(t, TC_OP_CAT, type, tc_rec_intern(t, &out), n_parts, in, 1, &attr, 0, NULL);
}

tc_node tc_rec_cat(tc_trace *t, int n, const tc_node *xs, int axis) {
  if (n <= 0) return tc_rec_fail(t, TC_ERR_ARG, "%d tensors; at least one is needed", n);
  if ((axis = tc_rec_axis(t, xs[0], axis, 0)) < 0) return TC_NODE_ERR;
  tc_type type = type_of(t, xs[0]);
  for (int i = 0; i < n; i++) {
    if (!ok(t, xs[i])) return TC_NODE_ERR;
    const tc_dims *a = tc_node_dims(t, xs[0]), *b = tc_node_dims(t, xs[i]);
    bool fits = a->rank == b->rank;
    for (int k = 0; fits && k < a->rank; k++) fits = k == axis || a->dim[k] == b->dim[k];
    if (!fits) {
      char ta[128], tb[128];
      tc_dims_text(a, ta, sizeof ta), tc_dims_text(b, tb, sizeof tb);
      if (a->rank != b->rank)
        return tc_rec_fail(t, TC_ERR_SHAPE, "%s and %s, operands 0 and %d, have ranks %d and %d", ta, tb, i, a->rank,
                           b->rank);
      return tc_rec_fail(t, TC_ERR_SHAPE, "%s and %s, operands 0 and %d, differ off axis %d", ta, tb, i, axis);
    }
    type = tc_type_promote(type, type_of(t, xs[i]));
  }
  return cat_some(t, n, xs, axis, type);
}

tc_node tc_rec_detach(tc_trace *t, tc_node a) {
  if (!ok(t, a)) return TC_NODE_ERR;
  tc_node n = tc_rec_append(t, TC_OP_DETACH, type_of(t, a), shape_of(t, a), 1, &a, 0, NULL, 0, NULL);
  if (n != TC_NODE_ERR) t->flag[n] &= (uint8_t)~(TC_NODE_TAPE | TC_NODE_NO_HISTORY);
  return n;
}
