// The public ops that rearrange elements, and assignment to a slice.
// Each turns the user's arguments (negative axes, Python slices) into the plain ones of one or two
// movement records; nothing is copied here.
// Invariants: an index or axis that does not exist is reported with its value; a slice, as in
// Python, is clipped instead.
// Threads: thread-compatible, each thread records its own trace.
#define TC_NO_SITES
#include "lazy/trace/deferred_error.h"
#include "lazy/record/formula.h"
#include "lazy/trace/trace.h"
#include "runtime/arena.h"

// Python's slice over an axis of n elements: the first index and how many; start and stop outside
// are clipped. step is not 0.
static int64_t slice_count(int64_t n, int64_t start, int64_t stop, int64_t step, int64_t *out_start) {
  int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
  // Negative counts from the end; INT64_MIN plus n does not overflow, as n >= 0.
  if (start < 0) start += n;
  if (stop < 0) stop += n;
  start = start < low ? low : start > high ? high : start;
  stop = stop < low ? low : stop > high ? high : stop;
  int64_t span = step > 0 ? stop - start : start - stop;
  // The magnitude as unsigned, since -INT64_MIN is not an int64_t.
  uint64_t stride = step > 0 ? (uint64_t)step : UINT64_C(0) - (uint64_t)step;
  int64_t count = span > 0 ? (int64_t)(((uint64_t)span - 1) / stride) + 1 : 0;
  *out_start = count ? start : 0;
  return count;
}

tc_tensor tc_reshape_at(tc_tensor x, tc_dims shape, tc_site site) {
  tc_trace *t = tc_op_begin("reshape", site);
  tc_node a = tc_op_in(t, x);
  return tc_op_end(t, tc_rec_reshape(t, a, &shape));
}

tc_tensor tc_permute_at(tc_tensor x, tc_dims axes, tc_site site) {
  tc_trace *t = tc_op_begin("permute", site);
  tc_node a = tc_op_in(t, x);
  if (a == TC_NODE_ERR) return tc_op_end(t, a);
  int rank = tc_node_dims(t, a)->rank;
  char text[128];
  if (axes.rank != rank)
    return tc_op_end(t, tc_rec_fail(t, TC_ERR_SHAPE, "x is %s, of rank %d, and %d axes are given",
                                    tc_dims_text(tc_node_dims(t, a), text, sizeof text), rank, axes.rank));
  for (int i = 0; i < rank; i++)
    if (axes.dim[i] < 0) axes.dim[i] += rank;
  return tc_op_end(t, tc_rec_permute(t, a, &axes));
}

tc_tensor tc_transpose_at(tc_tensor x, int axis0, int axis1, tc_site site) {
  tc_trace *t = tc_op_begin("transpose", site);
  tc_node a = tc_op_in(t, x), row;
  int p = tc_compose_axis(t, a, axis0, &row), q = p < 0 ? -1 : tc_compose_axis(t, a, axis1, &row);
  if (p < 0 || q < 0) return tc_op_end(t, TC_NODE_ERR);
  tc_dims axes = *tc_node_dims(t, row);
  for (int i = 0; i < axes.rank; i++) axes.dim[i] = i == p ? q : i == q ? p : i;
  return tc_op_end(t, tc_compose_like_row(t, a, row, tc_rec_permute(t, row, &axes)));
}

tc_tensor tc_expand_at(tc_tensor x, tc_dims shape, tc_site site) {
  tc_trace *t = tc_op_begin("expand", site);
  tc_node a = tc_op_in(t, x);
  return tc_op_end(t, tc_rec_expand(t, a, &shape));
}

// An axis named whose extent is not one stays, as in PyTorch.
tc_tensor tc_squeeze_at(tc_tensor x, tc_dims axes, tc_site site) {
  tc_trace *t = tc_op_begin("squeeze", site);
  tc_node a = tc_op_in(t, x);
  uint32_t mask;
  if (a == TC_NODE_ERR || !tc_rec_axes(t, a, &axes, &mask)) return tc_op_end(t, TC_NODE_ERR);
  tc_dims from = *tc_node_dims(t, a), to = tc_dims_of(0, NULL);
  for (int i = 0; i < from.rank; i++)
    if (from.dim[i] != 1 || !(mask >> i & 1)) to.dim[to.rank++] = from.dim[i];
  return tc_op_end(t, tc_rec_reshape(t, a, &to));
}

// a with an axis of one element before axis k.
static tc_node unsqueeze(tc_trace *t, tc_node a, int axis) {
  if (a == TC_NODE_ERR) return a;
  int k = tc_rec_axis(t, a, axis, 1);
  if (k < 0) return TC_NODE_ERR;
  const tc_dims *from = tc_node_dims(t, a);
  if (from->rank == TC_MAX_RANK)
    return tc_rec_fail(t, TC_ERR_SHAPE, "the result would have rank %d, the limit is %d", from->rank + 1, TC_MAX_RANK);
  tc_dims to = *from;
  to.rank = from->rank + 1;
  for (int i = from->rank; i > k; i--) to.dim[i] = from->dim[i - 1];
  to.dim[k] = 1;
  return tc_rec_reshape(t, a, &to);
}

tc_tensor tc_unsqueeze_at(tc_tensor x, int axis, tc_site site) {
  tc_trace *t = tc_op_begin("unsqueeze", site);
  return tc_op_end(t, unsqueeze(t, tc_op_in(t, x), axis));
}

tc_tensor tc_flatten_at(tc_tensor x, int first_axis, int last_axis, tc_site site) {
  tc_trace *t = tc_op_begin("flatten", site);
  tc_node a = tc_op_in(t, x), row;
  int p = tc_compose_axis(t, a, first_axis, &row), q = p < 0 ? -1 : tc_compose_axis(t, a, last_axis, &row);
  if (p < 0 || q < 0) return tc_op_end(t, TC_NODE_ERR);
  if (p > q) return tc_op_end(t, tc_rec_fail(t, TC_ERR_ARG, "first axis %d lies after last axis %d", p, q));
  const tc_dims *from = tc_node_dims(t, row);
  tc_dims to = TC_SCALAR;
  for (int i = 0; i < from->rank; i++) {
    if (i > p && i <= q)
      to.dim[to.rank - 1] *= from->dim[i];
    else
      to.dim[to.rank++] = from->dim[i];
  }
  return tc_op_end(t, tc_rec_reshape(t, row, &to));
}

tc_tensor tc_slice_at(tc_tensor x, int axis, int64_t start, int64_t stop, int64_t step, tc_site site) {
  tc_trace *t = tc_op_begin("slice", site);
  tc_node row;
  int k = tc_compose_axis(t, tc_op_in(t, x), axis, &row);
  if (k < 0) return tc_op_end(t, TC_NODE_ERR);
  if (step == 0) return tc_op_end(t, tc_rec_fail(t, TC_ERR_ARG, "step is 0"));
  int64_t first, n = slice_count(tc_node_dims(t, row)->dim[k], start, stop, step, &first);
  return tc_op_end(t, tc_rec_slice_axis(t, row, k, first, n > 1 ? step : 1, n));
}

tc_tensor tc_select_at(tc_tensor x, int axis, int64_t i, tc_site site) {
  tc_trace *t = tc_op_begin("select", site);
  tc_node row;
  int k = tc_compose_axis(t, tc_op_in(t, x), axis, &row);
  if (k < 0) return tc_op_end(t, TC_NODE_ERR);
  int64_t n = tc_node_dims(t, row)->dim[k];
  if (i < -n || i >= n)
    return tc_op_end(t, tc_rec_fail(t, TC_ERR_INDEX, "index %lld is out of range: axis %d has %lld elements",
                                    (long long)i, k, (long long)n));
  return tc_op_end(t, tc_rec_drop_axis(t, tc_rec_slice_axis(t, row, k, i < 0 ? i + n : i, 1, 1), k));
}

tc_tensor tc_unfold_at(tc_tensor x, int axis, int64_t size, int64_t step, tc_site site) {
  tc_trace *t = tc_op_begin("unfold", site);
  tc_node a = tc_op_in(t, x), row;
  int k = tc_compose_axis(t, a, axis, &row);
  tc_dims windows = TC_SHAPE(size);  // of a scalar: of its one window alone, as in PyTorch
  tc_node y = k < 0 ? TC_NODE_ERR : tc_rec_window(t, row, k, size, step, 1);
  return tc_op_end(t, row == a ? y : tc_rec_reshape(t, y, &windows));
}

tc_tensor tc_flip_at(tc_tensor x, tc_dims axes, tc_site site) {
  tc_trace *t = tc_op_begin("flip", site);
  tc_node a = tc_op_in(t, x);
  uint32_t mask;
  if (a == TC_NODE_ERR || !tc_rec_axes(t, a, &axes, &mask)) return tc_op_end(t, TC_NODE_ERR);
  return tc_op_end(t, tc_rec_flip(t, a, mask));
}

// a within a tensor of one value, from low on. Unlike the two sides of a PAD, low is an argument: a
// shift that is drawn for each step makes one plan. TC_NODE_ERR after
// reporting.
static tc_node place_within(tc_trace *t, tc_node a, const tc_dims *low, const tc_dims *high, double value) {
  static const int64_t ones[TC_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
  tc_dims d = *tc_node_dims(t, a);
  bool fits = tc_dims_count(&d) > 0;  // of what is empty no element has a place
  for (int i = 0; i < d.rank; i++)
    fits &= !__builtin_add_overflow(d.dim[i], low->dim[i], &d.dim[i]) &&
            !__builtin_add_overflow(d.dim[i], high->dim[i], &d.dim[i]);
  if (!fits || tc_dims_equal(&d, tc_node_dims(t, a))) return tc_rec_pad(t, a, low->dim, high->dim, value);
  tc_node all = tc_rec_full(t, &d, tc_node_type(t, a), value);
  return all == TC_NODE_ERR ? all : tc_rec_write_slice(t, all, a, low->dim, ones);
}

tc_tensor tc_pad_at(tc_tensor x, tc_dims low, tc_dims high, double value, tc_site site) {
  tc_trace *t = tc_op_begin("pad", site);
  tc_node a = tc_op_in(t, x);
  if (a == TC_NODE_ERR) return tc_op_end(t, a);
  int rank = tc_node_dims(t, a)->rank;
  char text[128];
  if (low.rank != rank || high.rank != rank)
    return tc_op_end(t, tc_rec_fail(t, TC_ERR_SHAPE, "x is %s, of rank %d; low and high have %d and %d entries",
                                    tc_dims_text(tc_node_dims(t, a), text, sizeof text), rank, low.rank, high.rank));
  for (int i = 0; i < rank; i++)
    if (low.dim[i] < 0 || high.dim[i] < 0)
      return tc_op_end(t, tc_rec_fail(t, TC_ERR_ARG, "axis %d is padded by %lld and %lld; use slice to crop", i,
                                      (long long)low.dim[i], (long long)high.dim[i]));
  return tc_op_end(t, place_within(t, a, &low, &high, value));
}

// What is stacked has one shape.
static tc_node differ(tc_trace *t, tc_node a, tc_node b, int i) {
  char ta[128], tb[128];
  return tc_rec_fail(t, TC_ERR_SHAPE, "%s and %s, operands 0 and %d, differ; one shape was expected",
                     tc_dims_text(tc_node_dims(t, a), ta, sizeof ta), tc_dims_text(tc_node_dims(t, b), tb, sizeof tb),
                     i);
}

// A scalar is joined as a row of one element, but has no place beside a matrix.
static tc_node joined_row(tc_trace *t, tc_node first, tc_node a, int i) {
  if (a == TC_NODE_ERR || first == TC_NODE_ERR) return TC_NODE_ERR;
  const tc_dims *have = tc_node_dims(t, first), *d = tc_node_dims(t, a);
  if (TC_MIN(have->rank, d->rank) > 0 || TC_MAX_OF(have->rank, d->rank) < 2) return tc_compose_row_of(t, a);
  char to[128], text[128];
  return tc_rec_fail(t, TC_ERR_SHAPE, "%s and %s, operands 0 and %d, have ranks %d and %d",
                     tc_dims_text(have, to, sizeof to), tc_dims_text(d, text, sizeof text), i, have->rank, d->rank);
}

// cat and stack; n operands, of any number.
static tc_tensor join_tensors(const char *name, int n, const tc_tensor *xs, int axis, bool stack, tc_site site) {
  tc_trace *t = tc_op_begin(name, site);
  if (n < 1) return tc_op_end(t, tc_rec_fail(t, TC_ERR_ARG, "%d operands; at least one is needed", n));
  if (xs == NULL) return tc_op_end(t, tc_rec_fail(t, TC_ERR_ARG, "%d operands at a null pointer", n));
  tc_node few[16], *nodes = n <= 16 ? few : tc_malloc((size_t)n * sizeof *nodes);
  if (nodes == NULL) return tc_op_end(t, tc_rec_fail(t, TC_ERR_MEMORY, "no memory for %d operands", n));
  bool ok = true;
  tc_node first = TC_NODE_ERR;
  for (int i = 0; i < n; i++) {
    tc_node a = tc_op_in(t, xs[i]);
    if (i == 0) first = a;
    if (stack && a != TC_NODE_ERR && first != TC_NODE_ERR && !tc_dims_equal(tc_node_dims(t, a), tc_node_dims(t, first)))
      a = differ(t, first, a, i);
    nodes[i] = stack ? unsqueeze(t, a, axis) : joined_row(t, first, a, i);
    ok = ok && nodes[i] != TC_NODE_ERR;
  }
  int k = ok ? tc_rec_axis(t, nodes[0], axis, 0) : -1;
  tc_node out = k < 0 ? TC_NODE_ERR : tc_rec_cat(t, n, nodes, k);
  if (nodes != few) tc_free(nodes);
  return tc_op_end(t, out);
}

tc_tensor tc_cat_at(int n, const tc_tensor *xs, int axis, tc_site site) {
  return join_tensors("cat", n, xs, axis, false, site);
}

tc_tensor tc_stack_at(int n, const tc_tensor *xs, int axis, tc_site site) {
  return join_tensors("stack", n, xs, axis, true, site);
}

tc_tensor tc_detach_at(tc_tensor x, tc_site site) {
  tc_trace *t = tc_op_begin("detach", site);
  return tc_op_end(t, tc_rec_detach(t, tc_op_in(t, x)));
}

// value as old's type in the shape of the slice; extra leading extents of one are dropped, as NumPy
// does.
static tc_node fit_value(tc_trace *t, tc_node old, tc_node value, const tc_dims *extents) {
  tc_dims from = *tc_node_dims(t, value);
  int extra = from.rank - extents->rank;
  if (extra > 0) {
    for (int i = 0; i < extra; i++)
      if (from.dim[i] != 1) extra = i;
    from.rank -= extra;
    for (int i = 0; i < from.rank; i++) from.dim[i] = from.dim[i + extra];
    value = tc_rec_reshape(t, value, &from);
  }
  bool fits = from.rank <= extents->rank;
  for (int i = 1; fits && i <= from.rank; i++) {
    int64_t n = from.dim[from.rank - i];
    fits = n == 1 || n == extents->dim[extents->rank - i];
  }
  if (!fits) {
    char have[128], want[128];
    return tc_rec_fail(t, TC_ERR_SHAPE, "a value of shape %s does not fit a slice of shape %s",
                       tc_dims_text(&from, have, sizeof have), tc_dims_text(extents, want, sizeof want));
  }
  return tc_rec_expand(t, tc_rec_cast(t, value, tc_node_type(t, old)), extents);
}

static tc_status assign_slice(tc_tensor x, const int64_t *start, const int64_t *stop, const int64_t *step,
                              tc_tensor value, tc_site site) {
  tc_trace *t = tc_op_begin("assign_slice", site);
  tc_node old = tc_op_in(t, x), v = tc_op_in(t, value);
  if (old == TC_NODE_ERR || v == TC_NODE_ERR) goto poisoned;
  int64_t first[TC_MAX_RANK], by[TC_MAX_RANK];
  const tc_dims *dims = tc_node_dims(t, old);
  tc_dims extents = *dims;
  for (int i = 0; i < dims->rank; i++) {
    by[i] = step ? step[i] : 1;
    if (by[i] == 0) {
      tc_rec_fail(t, TC_ERR_ARG, "step is 0 on axis %d", i);
      return tc_op_done(t);
    }
    int64_t from = start       ? start[i]
                   : by[i] > 0 ? 0
                               : INT64_MAX,
            to = stop        ? stop[i]
                 : by[i] > 0 ? INT64_MAX
                             : INT64_MIN;
    extents.dim[i] = slice_count(dims->dim[i], from, to, by[i], &first[i]);
    if (extents.dim[i] < 2) by[i] = 1;
  }
  v = fit_value(t, old, v, &extents);
  // An empty slice changes nothing but the history, which is the value's, too; and only once the
  // value is known to fit.
  if (v == TC_NODE_ERR || (tc_dims_count(&extents) == 0 && !(t->tape && t->flag[v] & TC_NODE_TAPE)))
    return tc_op_done(t);
  tc_node written = tc_rec_write_slice(t, old, v, first, by);
  tc_status assigned = written == TC_NODE_ERR ? TC_OK : tc_rec_assign(t, x, written), done = tc_op_done(t);
  return assigned != TC_OK ? assigned : done;
poisoned:;
  // Poison passes silently, so the open op may have nothing to report: the caller still must not
  // read OK.
  tc_status st = tc_op_done(t);
  return st != TC_OK ? st : TC_ERR_HANDLE;
}

// start, stop or step NULL: Python's omitted value on every axis. With a negative step, stop
// INT64_MIN takes the slice down to element 0.
tc_status tc_assign_slice_at(tc_tensor x, const int64_t *start, const int64_t *stop, const int64_t *step,
                             tc_tensor value, tc_site site) {
  return tc_defer_error(assign_slice(x, start, stop, step, value, site), site);
}
