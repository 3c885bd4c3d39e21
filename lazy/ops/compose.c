// Public ops that are compositions: statistics, masks, diagonals, ranges and thin uses of indexing
// and products.
// Each is written at node level, so temporaries are never handles; gradients come from the vjps of
// the records they consist of.
// Invariants: a where() branch whose slope could be infinite or NaN has a harmless operand (the
// double where): a zero gradient times infinity is NaN.
// Sources: torch/_refs, aten/src/ATen/native/ReduceOps.cpp for values and edge cases.
// Threads: thread-compatible, each thread records its own trace. Activations and losses have files
// of their own.
#define TC_NO_SITES
#include "lazy/record/formula.h"

#include <math.h>

// ---- Elementwise ----

tc_tensor tc_isinf_at(tc_tensor x, tc_site site) {
  tc_trace *t = tc_op_begin("isinf", site);
  tc_node a = tc_op_in(t, x);
  if (a == TC_NODE_ERR) return tc_op_end(t, a);
  if (!tc_type_is_float(tc_node_type(t, a))) return tc_op_end(t, tc_rec_binary(t, TC_OP_NE, a, a));
  return tc_op_end(t, f_num(t, TC_OP_EQ, tc_rec_unary(t, TC_OP_ABS, a), INFINITY));
}

static tc_node isfinite_node(tc_trace *t, tc_node a) {
  return f_num(t, TC_OP_LT, tc_rec_unary(t, TC_OP_ABS, a), INFINITY);
}

tc_tensor tc_isfinite_at(tc_tensor x, tc_site site) {
  tc_trace *t = tc_op_begin("isfinite", site);
  tc_node a = tc_op_in(t, x);
  if (a == TC_NODE_ERR) return tc_op_end(t, a);
  if (!tc_type_is_float(tc_node_type(t, a))) return tc_op_end(t, tc_rec_binary(t, TC_OP_EQ, a, a));
  return tc_op_end(t, isfinite_node(t, a));
}

// The bound where `a op bound` holds, else a. NaN stays NaN. The slope of a is 1 strictly within,
// and 0 on a bound and for NaN, as in PyTorch's clamp (2.15). An integer tensor stays one unless
// the bound has a fraction; bounds outside its type's range bound nothing.
static tc_node bound(tc_trace *t, tc_op op, tc_node a, double value) {
  if (a == TC_NODE_ERR) return a;
  if (tc_type_is_float(tc_node_type(t, a))) {
    tc_node within = f_num(t, op == TC_OP_LE ? TC_OP_GT : TC_OP_LT, a, value);
    return tc_rec_where(t, within, a,
                        f_num(t, op == TC_OP_LE ? TC_OP_MAXIMUM : TC_OP_MINIMUM, tc_rec_detach(t, a), value));
  }
  if (value != floor(value)) return bound(t, op, tc_rec_cast(t, a, TC_F32), value);
  int64_t least, most;
  tc_type_range(tc_node_type(t, a), &least, &most);
  if (op == TC_OP_LE ? value <= (double)least : value >= (double)most) return a;
  int64_t whole = value <= (double)least ? least : value >= (double)most ? most : (int64_t)value;
  return f_fill(t, f_int(t, op, a, whole), (double)whole, a);
}

// low > high gives high.
tc_tensor tc_clamp_at(tc_tensor x, double low, double high, tc_site site) {
  tc_trace *t = tc_op_begin("clamp", site);
  tc_node a = tc_op_in(t, x);
  if (isnan(low) || isnan(high))
    return tc_op_end(t, tc_rec_fail(t, TC_ERR_ARG, "bounds are %g and %g; NaN bounds nothing", low, high));
  return tc_op_end(t, bound(t, TC_OP_GE, bound(t, TC_OP_LE, a, low), high));
}

tc_tensor tc_masked_fill_at(tc_tensor x, tc_tensor mask, double value, tc_site site) {
  tc_trace *t = tc_op_begin("masked_fill", site);
  tc_node a = tc_op_in(t, x), m = tc_op_in(t, mask);
  if (a == TC_NODE_ERR || m == TC_NODE_ERR) return tc_op_end(t, TC_NODE_ERR);
  return tc_op_end(t, tc_rec_where(t, m, tc_rec_number(t, a, value), a));
}

// ---- Ranges, masks and random values ----

// Whether the type holds the n numbers of a range: the first and the last, and so those between.
// False after reporting.
static bool good_range(tc_trace *t, tc_type type, double n, double first, double last) {
  if ((unsigned)type >= (unsigned)TC_N_TYPES)
    return tc_rec_fail(t, TC_ERR_DTYPE, "%d is no element type", (int)type), false;
  if (type == TC_BOOL) return tc_rec_fail(t, TC_ERR_DTYPE, "bool has no ranges"), false;
  return n < 1 || (tc_rec_good_number(t, type, first) && tc_rec_good_number(t, type, n > 1 ? last : first));
}

tc_tensor tc_arange_at(double start, double stop, double step, tc_type type, tc_site site) {
  tc_trace *t = tc_op_begin("arange", site);
  if (step == 0.0)
    return tc_op_end(t, tc_rec_fail(t, TC_ERR_ARG, "step is 0; from %g to %g it would never arrive", start, stop));
  double n = ceil((stop - start) / step);
  if (!isfinite(start) || !isfinite(step) || !isfinite(n) || n > 0x1p62)
    return tc_op_end(t,
                     tc_rec_fail(t, TC_ERR_ARG, "start %g, stop %g, step %g name no finite range", start, stop, step));
  tc_dims shape = TC_SHAPE(n > 0 ? (int64_t)n : 0);
  if (!good_range(t, type, n, start, start + (n - 1) * step)) return tc_op_end(t, TC_NODE_ERR);
  bool whole = start == floor(start) && step == floor(step);
  if (tc_type_is_float(type) || whole) return tc_op_end(t, tc_rec_iota(t, &shape, type, start, step));
  return tc_op_end(t, tc_rec_cast(t, tc_rec_iota(t, &shape, TC_F64, start, step), type));
}

// Counts up from start in the first half and down from stop in the second, as PyTorch does. Both
// ends are exact, and the middle is symmetric.
tc_tensor tc_linspace_at(double start, double stop, int64_t n, tc_type type, tc_site site) {
  tc_trace *t = tc_op_begin("linspace", site);
  if (n < 0) return tc_op_end(t, tc_rec_fail(t, TC_ERR_ARG, "n is %lld; at least 0 is needed", (long long)n));
  if (!good_range(t, type, (double)n, start, stop)) return tc_op_end(t, TC_NODE_ERR);
  tc_dims shape = TC_SHAPE(n);
  double step = n > 1 ? (stop - start) / (double)(n - 1) : 0.0;
  tc_node up = tc_rec_iota(t, &shape, TC_F64, start, step);
  if (n > 1) {
    tc_node down = tc_rec_flip(t, tc_rec_iota(t, &shape, TC_F64, stop, -step), 1);
    tc_node first = f_int(t, TC_OP_LT, tc_rec_iota(t, &shape, TC_I64, 0, 1), n / 2);
    up = tc_rec_where(t, first, up, down);
  }
  return tc_op_end(t, tc_rec_cast(t, up, type));
}

// [n, m] bool: column op row + k.
static tc_node band(tc_trace *t, tc_op op, int64_t n, int64_t m, int64_t k) {
  if (n < 0 || m < 0)
    return tc_rec_fail(t, TC_ERR_SHAPE, "extents are %lld and %lld; at least 0 is needed", (long long)n, (long long)m);
  // Beyond the corners nothing changes, and a smaller k cannot overflow the sum.
  k = k > m ? m : k < -n ? -n : k;
  tc_dims rows = TC_SHAPE(n, 1), columns = TC_SHAPE(1, m);
  return tc_rec_binary(t, op, tc_rec_iota(t, &columns, TC_I64, 0, 1), tc_rec_iota(t, &rows, TC_I64, (double)k, 1));
}

tc_tensor tc_eye_at(int64_t n, int64_t m, tc_type type, tc_site site) {
  tc_trace *t = tc_op_begin("eye", site);
  return tc_op_end(t, tc_rec_cast(t, band(t, TC_OP_EQ, n, m, 0), type));
}

tc_tensor tc_tri_at(int64_t n, int64_t m, int64_t k, tc_type type, tc_site site) {
  tc_trace *t = tc_op_begin("tri", site);
  return tc_op_end(t, tc_rec_cast(t, band(t, TC_OP_LE, n, m, k), type));
}

// Whether there are two axes, as of a matrix or many; false after reporting.
static bool is_matrix(tc_trace *t, const tc_dims *d) {
  char text[128];
  if (d->rank >= 2) return true;
  return tc_rec_fail(t, TC_ERR_SHAPE, "x is %s; rank 2 or more is needed", tc_dims_text(d, text, sizeof text)), false;
}

static tc_tensor triangle(const char *name, tc_op op, tc_tensor x, int64_t k, tc_site site) {
  tc_trace *t = tc_op_begin(name, site);
  tc_node a = tc_op_in(t, x);
  if (a == TC_NODE_ERR) return tc_op_end(t, a);
  const tc_dims *d = tc_node_dims(t, a);
  if (!is_matrix(t, d)) return tc_op_end(t, TC_NODE_ERR);
  return tc_op_end(t, f_keep(t, band(t, op, d->dim[d->rank - 2], d->dim[d->rank - 1], k), a, 0.0));
}

tc_tensor tc_tril_at(tc_tensor x, int64_t k, tc_site site) {
  return triangle("tril", TC_OP_LE, x, k, site);
}

tc_tensor tc_triu_at(tc_tensor x, int64_t k, tc_site site) {
  return triangle("triu", TC_OP_GE, x, k, site);
}

tc_tensor tc_bernoulli_at(double p, tc_dims shape, tc_site site) {
  tc_trace *t = tc_op_begin("bernoulli", site);
  if (!(p >= 0.0 && p <= 1.0)) return tc_op_end(t, tc_rec_fail(t, TC_ERR_ARG, "p is %g, not within [0, 1]", p));
  return tc_op_end(t, f_num(t, TC_OP_LT, tc_rec_rng(t, TC_OP_RAND, &shape, TC_F32, 0, 0), p));
}

tc_tensor tc_randperm_at(int64_t n, tc_site site) {
  tc_trace *t = tc_op_begin("randperm", site);
  if (n < 0) return tc_op_end(t, tc_rec_fail(t, TC_ERR_ARG, "n is %lld; at least 0 is needed", (long long)n));
  tc_dims shape = TC_SHAPE(n);
  return tc_op_end(t, tc_rec_rng(t, TC_OP_RANDPERM, &shape, TC_I64, 0, n));
}

// ---- Movement ----

tc_tensor tc_roll_at(tc_tensor x, int64_t shift, int axis, tc_site site) {
  tc_trace *t = tc_op_begin("roll", site);
  tc_node a = tc_op_in(t, x), row;
  int k = tc_compose_axis(t, a, axis, &row);
  if (k < 0) return tc_op_end(t, TC_NODE_ERR);
  const tc_dims *d = tc_node_dims(t, a);
  int64_t n = d->rank ? d->dim[k] : 1, s = n ? shift % n : 0;
  return tc_op_end(t, d->rank ? tc_rec_roll(t, a, s > 0 ? n - s : -s, k) : a);
}

// Product of the extents from..to-1.
static int64_t span(const tc_dims *d, int from, int to) {
  int64_t n = 1;
  for (int i = from; i < to; i++) n *= d->dim[i];
  return n;
}

// a with what lies behind its first axes repeated count times, which lengthens `axis`. It is seen
// as [outer, inner]: rank 3 serves every rank.
static tc_node repeat(tc_trace *t, tc_node a, int first, int axis, int64_t count) {
  if (a == TC_NODE_ERR) return a;
  tc_dims d = *tc_node_dims(t, a);
  int64_t outer = span(&d, 0, first), inner = span(&d, first, d.rank);
  if (count && d.dim[axis] > INT64_MAX / count)
    return tc_rec_fail(t, TC_ERR_SHAPE, "%lld repeats of %lld are too many", (long long)count, (long long)d.dim[axis]);
  d.dim[axis] *= count;
  tc_dims one = TC_SHAPE(outer, 1, inner), many = TC_SHAPE(outer, count, inner);
  return tc_rec_reshape(t, tc_rec_expand(t, tc_rec_reshape(t, a, &one), &many), &d);
}

// counts and the extents are aligned at the last axis, missing ones are one (np.tile).
tc_tensor tc_tile_at(tc_tensor x, tc_dims counts, tc_site site) {
  tc_trace *t = tc_op_begin("tile", site);
  tc_node a = tc_op_in(t, x);
  if (a == TC_NODE_ERR) return tc_op_end(t, a);
  if (counts.rank < 0 || counts.rank > TC_MAX_RANK)
    return tc_op_end(t, tc_rec_fail(t, TC_ERR_ARG, "%d counts; 0 to %d are possible", counts.rank, TC_MAX_RANK));
  tc_dims from = *tc_node_dims(t, a), d = tc_dims_of(0, NULL);
  d.rank = TC_MAX_OF(from.rank, counts.rank);
  int lead = d.rank - from.rank, skip = d.rank - counts.rank;
  for (int i = 0; i < d.rank; i++) d.dim[i] = i < lead ? 1 : from.dim[i - lead];
  a = tc_rec_reshape(t, a, &d);
  for (int i = skip; i < d.rank; i++) {
    int64_t count = counts.dim[i - skip];
    if (count < 0)
      return tc_op_end(
          t, tc_rec_fail(t, TC_ERR_ARG, "count %d is %lld; at least 0 is needed", i - skip, (long long)count));
    if (count != 1) a = repeat(t, a, i, i, count);
  }
  return tc_op_end(t, a);
}

tc_tensor tc_repeat_interleave_at(tc_tensor x, int64_t count, int axis, tc_site site) {
  tc_trace *t = tc_op_begin("repeat_interleave", site);
  tc_node row;
  int k = tc_compose_axis(t, tc_op_in(t, x), axis, &row);
  if (k < 0) return tc_op_end(t, TC_NODE_ERR);
  if (count < 0)
    return tc_op_end(t, tc_rec_fail(t, TC_ERR_ARG, "count is %lld; at least 0 is needed", (long long)count));
  return tc_op_end(t, repeat(t, row, k + 1, k, count));
}

// The square that starts on the diagonal, flattened: its diagonal is every (l + 1)-th element.
tc_tensor tc_diagonal_at(tc_tensor x, int64_t offset, tc_site site) {
  tc_trace *t = tc_op_begin("diagonal", site);
  tc_node a = tc_op_in(t, x);
  if (a == TC_NODE_ERR) return tc_op_end(t, a);
  tc_dims d = *tc_node_dims(t, a);
  int r = d.rank;
  if (!is_matrix(t, &d)) return tc_op_end(t, TC_NODE_ERR);
  int64_t n = d.dim[r - 2], m = d.dim[r - 1];
  offset = offset > m ? m : offset < -n ? -n : offset;
  int64_t row = offset < 0 ? -offset : 0, column = offset > 0 ? offset : 0, l = TC_MIN(n - row, m - column);
  if (l == 0) row = column = 0;
  tc_node square = tc_rec_slice_axis(t, tc_rec_slice_axis(t, a, r - 2, row, 1, l), r - 1, column, 1, l);
  d.rank = r - 1, d.dim[r - 2] = l * l;
  square = tc_rec_reshape(t, square, &d);
  return tc_op_end(t, l < 2 ? square : tc_rec_slice_axis(t, square, r - 2, 0, l + 1, l));
}

// ---- Statistics ----

double tc_compose_count(const tc_trace *t, tc_node a, uint32_t axes_mask) {
  const tc_dims *d = tc_node_dims(t, a);
  double n = 1;
  for (int i = 0; i < d->rank; i++)
    if (axes_mask >> i & 1) n *= (double)d->dim[i];
  return n;
}

// In the type of a, which is floating. No elements: 0 / 0, NaN.
tc_node tc_compose_mean(tc_trace *t, tc_node a, uint32_t axes_mask, bool keepdim) {
  if (a == TC_NODE_ERR) return a;
  return f_num(t, TC_OP_DIV, tc_rec_fold(t, TC_OP_SUM, a, axes_mask, keepdim), tc_compose_count(t, a, axes_mask));
}

// Two passes: the corrected algorithm of Chan, Golub and LeVeque (1983). A mean is rounded, a large
// one by more than the deviations may be. So the mean of the deviations corrects it, and the square
// of that corrects their squares. In exact arithmetic the corrections are zero
// whatever the elements are, and so are their derivatives: they have no history. Squares stay at
// least 0, and infinite ones infinite.
tc_moments tc_compose_moments(tc_trace *t, tc_node a, uint32_t axes_mask) {
  if (a == TC_NODE_ERR) return (tc_moments){a, a, a};
  tc_node mean = tc_compose_mean(t, a, axes_mask, true), d = f_sub(t, a, mean);
  tc_node squares = tc_rec_fold(t, TC_OP_SUM, tc_rec_unary(t, TC_OP_SQUARE, d), axes_mask, true);
  bool tape = tc_rec_tape(t, false);
  tc_node off = tc_compose_mean(t, d, axes_mask, true);
  tc_node excess = f_mul(t, off, f_num(t, TC_OP_MUL, off, tc_compose_count(t, a, axes_mask)));
  excess = f_fill(t, f_num(t, TC_OP_EQ, squares, INFINITY), 0, tc_rec_binary(t, TC_OP_MINIMUM, excess, squares));
  tc_rec_tape(t, tape);
  return (tc_moments){f_add(t, mean, off), f_sub(t, d, off), f_sub(t, squares, excess)};
}

// Fewer elements than the correction asks for give 0 / 0 or x / 0, as in PyTorch.
static tc_node variance(tc_trace *t, tc_node a, uint32_t axes_mask, double correction, bool keepdim) {
  tc_node squares = tc_compose_moments(t, a, axes_mask).squares;
  if (squares == TC_NODE_ERR) return squares;
  tc_dims d = {.rank = 0};
  for (int i = 0; i < tc_node_dims(t, a)->rank; i++)
    if (keepdim || !(axes_mask >> i & 1)) d.dim[d.rank++] = tc_node_dims(t, squares)->dim[i];
  return f_num(t, TC_OP_DIV, tc_rec_reshape(t, squares, &d), fmax(0.0, tc_compose_count(t, a, axes_mask) - correction));
}

// Opens an op over axes of a floating (or widened) operand.
static tc_node open_fold(tc_trace *t, tc_tensor x, const tc_dims *axes, uint32_t *out_mask, tc_type *out_type) {
  tc_node a = tc_op_in(t, x);
  *out_mask = 0;
  *out_type = f_type(t, a);
  if (a == TC_NODE_ERR || !tc_rec_axes(t, a, axes, out_mask)) return TC_NODE_ERR;
  return f_widen(t, a);
}

tc_tensor tc_mean_at(tc_tensor x, tc_dims axes, bool keepdim, tc_site site) {
  tc_trace *t = tc_op_begin("mean", site);
  uint32_t mask;
  tc_type type;
  tc_node a = open_fold(t, x, &axes, &mask, &type);
  return tc_op_end(t, f_narrow(t, tc_compose_mean(t, a, mask, keepdim), type));
}

tc_tensor tc_var_at(tc_tensor x, tc_dims axes, double correction, bool keepdim, tc_site site) {
  tc_trace *t = tc_op_begin("var", site);
  uint32_t mask;
  tc_type type;
  tc_node a = open_fold(t, x, &axes, &mask, &type);
  return tc_op_end(t, f_narrow(t, variance(t, a, mask, correction, keepdim), type));
}

tc_node tc_compose_root(tc_trace *t, tc_node a, double power) {
  tc_node zero = f_num(t, TC_OP_EQ, a, 0.0), safe = f_fill(t, zero, 1.0, a);
  tc_node r = power == 0.5 ? tc_rec_unary(t, TC_OP_SQRT, safe) : f_num(t, TC_OP_POW, safe, power);
  return f_fill(t, zero, 0.0, r);
}

tc_tensor tc_std_at(tc_tensor x, tc_dims axes, double correction, bool keepdim, tc_site site) {
  tc_trace *t = tc_op_begin("std", site);
  uint32_t mask;
  tc_type type;
  tc_node a = open_fold(t, x, &axes, &mask, &type), var = variance(t, a, mask, correction, keepdim);
  return tc_op_end(t, var == TC_NODE_ERR ? var : f_narrow(t, tc_compose_root(t, var, 0.5), type));
}

// log(sum(exp(x - m))) + m with m the finite maximum. A row of -inf (or of nothing) gives -inf with
// slope 0, not NaN.
tc_tensor tc_logsumexp_at(tc_tensor x, tc_dims axes, bool keepdim, tc_site site) {
  tc_trace *t = tc_op_begin("logsumexp", site);
  uint32_t mask;
  tc_type type;
  tc_node a = open_fold(t, x, &axes, &mask, &type);
  if (a == TC_NODE_ERR) return tc_op_end(t, a);
  bool some = tc_compose_count(t, a, mask) > 0;
  tc_node m = TC_NODE_ERR, e = a;
  if (some) {
    m = tc_rec_fold(t, TC_OP_MAX, tc_rec_detach(t, a), mask, true);
    if (m == TC_NODE_ERR) return tc_op_end(t, m);
    m = f_keep(t, isfinite_node(t, m), m, 0.0);
    e = f_sub(t, a, m);
  }
  tc_node sum = tc_rec_fold(t, TC_OP_SUM, f_exp(t, e), mask, true);
  if (sum == TC_NODE_ERR) return tc_op_end(t, sum);
  tc_node none = f_num(t, TC_OP_EQ, sum, 0.0), log = tc_rec_unary(t, TC_OP_LOG, f_fill(t, none, 1.0, sum));
  if (some) log = f_add(t, log, m);
  log = f_fill(t, none, -(double)INFINITY, log);
  if (!keepdim) {
    tc_dims from = *tc_node_dims(t, a), to = tc_dims_of(0, NULL);
    for (int i = 0; i < from.rank; i++)
      if (!(mask >> i & 1)) to.dim[to.rank++] = from.dim[i];
    log = tc_rec_reshape(t, log, &to);
  }
  return tc_op_end(t, f_narrow(t, log, type));
}

// p chooses the formula, so it is a part of the graph, not an argument of a kernel.
tc_tensor tc_norm_at(tc_tensor x, double p, tc_dims axes, bool keepdim, tc_site site) {
  tc_trace *t = tc_op_begin("norm", site);
  uint32_t mask;
  tc_type type;
  tc_node a = open_fold(t, x, &axes, &mask, &type), out;
  if (isnan(p)) a = tc_rec_fail(t, TC_ERR_ARG, "p is NaN");
  if (a == TC_NODE_ERR) return tc_op_end(t, a);
  tc_node size = p == 2.0 || p == 0.0 ? a : tc_rec_unary(t, TC_OP_ABS, a);
  if (isinf(p)) {
    out = tc_rec_fold(t, p > 0 ? TC_OP_MAX : TC_OP_MIN, size, mask, keepdim);
  } else if (p == 0.0) {
    out = tc_rec_fold(t, TC_OP_SUM, tc_rec_cast(t, f_num(t, TC_OP_NE, a, 0.0), tc_node_type(t, a)), mask, keepdim);
  } else if (p == 1.0) {
    out = tc_rec_fold(t, TC_OP_SUM, size, mask, keepdim);
  } else if (p == 2.0) {
    out = tc_compose_root(t, tc_rec_fold(t, TC_OP_SUM, tc_rec_unary(t, TC_OP_SQUARE, a), mask, keepdim), 0.5);
  } else if (p > 0.0) {
    out = tc_compose_root(t, tc_rec_fold(t, TC_OP_SUM, tc_compose_root(t, size, p), mask, keepdim), 1.0 / p);
  } else {  // a zero makes the sum infinite and the norm 0
    out = f_num(t, TC_OP_POW, tc_rec_fold(t, TC_OP_SUM, f_num(t, TC_OP_POW, size, p), mask, keepdim), 1.0 / p);
  }
  return tc_op_end(t, f_narrow(t, out, type));
}

// ---- By index ----

// gather after x and index are broadcast against each other on the other axes
// (torch.take_along_dim).
tc_tensor tc_take_along_dim_at(tc_tensor x, tc_tensor index, int axis, tc_site site) {
  tc_trace *t = tc_op_begin("take_along_dim", site);
  tc_node a = tc_op_in(t, x), i = tc_op_in(t, index);
  if (a == TC_NODE_ERR || i == TC_NODE_ERR) return tc_op_end(t, TC_NODE_ERR);
  tc_node row;
  int k = tc_compose_axis(t, a, axis, &row);
  tc_node at = row == a ? i : tc_compose_row_of(t, i);
  if (k < 0 || at == TC_NODE_ERR) return tc_op_end(t, TC_NODE_ERR);
  tc_dims da = *tc_node_dims(t, row), di = *tc_node_dims(t, at);
  char ta[128], ti[128];
  if (da.rank != di.rank)
    return tc_op_end(t,
                     tc_rec_fail(t, TC_ERR_SHAPE, "x %s has rank %d, index %s has rank %d; one rank was expected",
                                 tc_dims_text(&da, ta, sizeof ta), da.rank, tc_dims_text(&di, ti, sizeof ti), di.rank));
  for (int j = 0; j < da.rank; j++) {
    if (j == k || da.dim[j] == di.dim[j]) continue;
    if (da.dim[j] == 1)
      da.dim[j] = di.dim[j];
    else if (di.dim[j] == 1)
      di.dim[j] = da.dim[j];
    else
      return tc_op_end(t, tc_rec_fail(t, TC_ERR_SHAPE, "axis %d of x is %lld, of index %lld", j, (long long)da.dim[j],
                                      (long long)di.dim[j]));
  }
  tc_node y = tc_rec_gather(t, tc_rec_expand(t, row, &da), k, tc_rec_expand(t, at, &di));
  return tc_op_end(t, tc_compose_like_row(t, i, at, y));
}

tc_tensor tc_embedding_at(tc_tensor weight, tc_tensor ids, tc_site site) {
  tc_trace *t = tc_op_begin("embedding", site);
  tc_node w = tc_op_in(t, weight), i = tc_op_in(t, ids);
  if (w == TC_NODE_ERR || i == TC_NODE_ERR) return tc_op_end(t, TC_NODE_ERR);
  const tc_dims *d = tc_node_dims(t, w);
  char text[128];
  if (d->rank != 2)
    return tc_op_end(
        t, tc_rec_fail(t, TC_ERR_SHAPE, "weight is %s; [v, d] is needed", tc_dims_text(d, text, sizeof text)));
  return tc_op_end(t, tc_rec_index_select(t, w, 0, i));
}

// An id outside [0, n) gives a row of zeros: nothing is read by it, so no sync can find it.
tc_tensor tc_one_hot_at(tc_tensor ids, int64_t n, tc_site site) {
  tc_trace *t = tc_op_begin("one_hot", site);
  tc_node i = tc_op_in(t, ids);
  if (i == TC_NODE_ERR) return tc_op_end(t, i);
  tc_dims d = *tc_node_dims(t, i), classes = TC_SHAPE(n);
  tc_type type = tc_node_type(t, i);
  if (tc_type_is_float(type) || type == TC_BOOL)
    return tc_op_end(t, tc_rec_fail(t, TC_ERR_DTYPE, "ids are %s, integers are needed", tc_type_name(type)));
  if (n < 1) return tc_op_end(t, tc_rec_fail(t, TC_ERR_ARG, "n is %lld; at least 1 is needed", (long long)n));
  if (d.rank == TC_MAX_RANK)
    return tc_op_end(
        t, tc_rec_fail(t, TC_ERR_SHAPE, "the result would have rank %d, the limit is %d", d.rank + 1, TC_MAX_RANK));
  d.dim[d.rank++] = 1;
  tc_node column = tc_rec_reshape(t, tc_rec_cast(t, i, TC_I64), &d);
  return tc_op_end(t,
                   tc_rec_cast(t, tc_rec_binary(t, TC_OP_EQ, column, tc_rec_iota(t, &classes, TC_I64, 0, 1)), TC_I64));
}

// ---- Products ----

// Both operands with the rank that is asked for, and one extent along their first axis where they
// share that; false after reporting.
static bool both_rank(tc_trace *t, tc_node a, tc_node b, int rank, bool share_first) {
  if (a == TC_NODE_ERR || b == TC_NODE_ERR) return false;
  const tc_dims *da = tc_node_dims(t, a), *db = tc_node_dims(t, b);
  char ta[128], tb[128];
  tc_dims_text(da, ta, sizeof ta), tc_dims_text(db, tb, sizeof tb);
  if (da->rank != rank || db->rank != rank)
    return tc_rec_fail(t, TC_ERR_SHAPE, "operands are %s and %s; both should have rank %d", ta, tb, rank), false;
  if (!share_first || da->dim[0] == db->dim[0]) return true;
  return tc_rec_fail(t, TC_ERR_SHAPE, "operands are %s and %s; axis 0 is %lld and %lld", ta, tb, (long long)da->dim[0],
                     (long long)db->dim[0]),
         false;
}

tc_tensor tc_bmm_at(tc_tensor a, tc_tensor b, tc_site site) {
  tc_trace *t = tc_op_begin("bmm", site);
  tc_node na = tc_op_in(t, a), nb = tc_op_in(t, b);
  if (!both_rank(t, na, nb, 3, true)) return tc_op_end(t, TC_NODE_ERR);
  return tc_op_end(t, tc_rec_matmul(t, na, nb));
}

tc_tensor tc_linear_at(tc_tensor x, tc_tensor weight, tc_tensor bias, tc_site site) {
  tc_trace *t = tc_op_begin("linear", site);
  tc_node a = tc_op_in(t, x), w = tc_op_in(t, weight);
  if (a == TC_NODE_ERR || w == TC_NODE_ERR) return tc_op_end(t, TC_NODE_ERR);
  const tc_dims *da = tc_node_dims(t, a), *dw = tc_node_dims(t, w);
  if (dw->rank != 2 || da->rank < 1 || da->dim[da->rank - 1] != dw->dim[1]) {
    char have[128], want[128];
    return tc_op_end(t, tc_rec_fail(t, TC_ERR_SHAPE, "x %s does not fit weight %s [out, in]",
                                    tc_dims_text(da, have, sizeof have), tc_dims_text(dw, want, sizeof want)));
  }
  int64_t n_out = dw->dim[0];
  tc_dims swap = TC_AXES(1, 0);
  w = tc_rec_permute(t, w, &swap);
  if (!f_given(bias)) return tc_op_end(t, tc_rec_matmul(t, a, w));
  tc_node b = tc_op_in(t, bias);
  if (b == TC_NODE_ERR) return tc_op_end(t, b);
  const tc_dims *db = tc_node_dims(t, b);
  if (db->rank != 1 || db->dim[0] != n_out) {
    char have[128];
    return tc_op_end(t, tc_rec_fail(t, TC_ERR_SHAPE, "bias is %s, weight has %lld rows",
                                    tc_dims_text(db, have, sizeof have), (long long)n_out));
  }
  return tc_op_end(t, tc_rec_biased_product(t, a, w, b));
}

// Integers have no matmul: their products are summed, in their own type as in PyTorch.
tc_tensor tc_dot_at(tc_tensor a, tc_tensor b, tc_site site) {
  tc_trace *t = tc_op_begin("dot", site);
  tc_node na = tc_op_in(t, a), nb = tc_op_in(t, b);
  if (!both_rank(t, na, nb, 1, true)) return tc_op_end(t, TC_NODE_ERR);
  if (tc_type_is_float(tc_node_type(t, na)) || tc_type_is_float(tc_node_type(t, nb)))
    return tc_op_end(t, tc_rec_matmul(t, na, nb));
  tc_node product = f_mul(t, na, nb);
  if (product == TC_NODE_ERR) return tc_op_end(t, product);
  return tc_op_end(t, tc_rec_cast(t, tc_rec_fold(t, TC_OP_SUM, product, 1, false), tc_node_type(t, product)));
}

tc_tensor tc_outer_at(tc_tensor a, tc_tensor b, tc_site site) {
  tc_trace *t = tc_op_begin("outer", site);
  tc_node na = tc_op_in(t, a), nb = tc_op_in(t, b);
  if (!both_rank(t, na, nb, 1, false)) return tc_op_end(t, TC_NODE_ERR);
  tc_dims column = TC_SHAPE(tc_node_dims(t, na)->dim[0], 1);
  return tc_op_end(t, f_mul(t, tc_rec_reshape(t, na, &column), nb));
}
