// Gradient rules of reductions, scans, softmax and matrix products.
// prod and cumprod do not divide by x: a product with zeros has a gradient, and so has that
// gradient. Both are differentiated as if they had been written as log2(n) rounds of plain
// products, whose rule is exact at every order. The rounds are of the next wider type. A product of
// some elements may leave their type's range where the whole, with a zero, does not; infinity times
// zero would be nan.
// Threads: under the trace's lock. Owner: nobody.
#include <math.h>

#include "lazy/autograd/vjp_shorthand.h"

enum { MAX_ROUNDS = 64 };  // halvings of an int64_t extent

static uint32_t folded_axes(const tc_vjp *v) {
  return (uint32_t)v->attr[0] & 0xff;
}

// The operand's shape with folded axes of extent one.
static tc_dims kept_dims(const tc_vjp *v) {
  tc_dims d = *tc_vjp_in_dims(v, 0);
  for (int32_t i = 0; i < d.rank; i++)
    if (folded_axes(v) >> i & 1) d.dim[i] = 1;
  return d;
}

// ---- Reductions ----

void tc_vjp_sum(tc_vjp *v) {
  tc_dims kept = kept_dims(v);
  tc_vjp_give(v, 0, tc_rec_expand(v->t, tc_rec_reshape(v->t, v->g, &kept), tc_vjp_in_dims(v, 0)));
}

// Elements equal to the extreme share the gradient equally, as in torch.amax. They are counted as
// integers.
void tc_vjp_max(tc_vjp *v) {
  tc_dims kept = kept_dims(v);
  tc_node hit = bin(v, TC_OP_EQ, tc_vjp_in(v, 0), tc_rec_reshape(v->t, tc_vjp_out(v), &kept));
  tc_node n = tc_rec_cast(v->t, tc_rec_fold(v->t, TC_OP_SUM, hit, folded_axes(v), true), tc_node_type(v->t, v->g));
  tc_node share = bin(v, TC_OP_DIV, tc_rec_reshape(v->t, v->g, &kept), n);
  tc_vjp_give(v, 0, only_where(v, hit, share));
}

// How a fold's operand becomes rows [n_rows, n], folded axes last, and back.
typedef struct row_view {
  tc_dims order, back, moved, rows;
} row_view;

static row_view rows_of(const tc_vjp *v) {
  const tc_dims *d = tc_vjp_in_dims(v, 0);
  row_view r = {.order = *d, .back = *d, .moved = *d, .rows = tc_dims_of(2, (const int64_t[]){1, 1})};
  int32_t at = 0;
  for (uint32_t last = 0; last < 2; last++) {
    for (int32_t i = 0; i < d->rank; i++) {
      if ((folded_axes(v) >> i & 1) != last) continue;
      r.order.dim[at] = i, r.back.dim[i] = at, r.moved.dim[at] = d->dim[i];
      r.rows.dim[last] *= d->dim[i];
      at++;
    }
  }
  return r;
}

// Casts a to the type in which products of the operand's elements are computed: f32 for halves,
// else f64.
static tc_node in_wider(tc_vjp *v, tc_node a) {
  tc_type type = tc_vjp_in_type(v, 0);
  return tc_rec_cast(v->t, a, tc_type_is_half(type) ? TC_F32 : TC_F64);
}

static tc_node from_wider(tc_vjp *v, tc_node a) {
  return tc_rec_cast(v->t, a, tc_vjp_in_type(v, 0));
}

// Rows [n_rows, n] as [n_rows, 2, half], with a one behind an odd n.
static tc_node halves(tc_vjp *v, tc_node p, int64_t n_rows, int64_t n) {
  static const int64_t none[TC_MAX_RANK] = {0}, one_behind[TC_MAX_RANK] = {0, 1};
  if (n % 2 != 0) p = tc_rec_pad(v->t, p, none, one_behind, 1);
  tc_dims pair = tc_dims_of(3, (const int64_t[]){n_rows, 2, (n + 1) / 2});
  return tc_rec_reshape(v->t, p, &pair);
}

// Half `which` of [n_rows, 2, half] as [n_rows, half].
static tc_node half_of(tc_vjp *v, tc_node pair, int64_t which, int64_t n_rows, int64_t half) {
  tc_dims flat = tc_dims_of(2, (const int64_t[]){n_rows, half});
  return tc_rec_reshape(v->t, tc_rec_slice_axis(v->t, pair, 1, which, 1, 1), &flat);
}

// x [n_rows, n], g [n_rows, 1] to the gradient of each row's product. Down: halves are multiplied
// until one column is left. Up: each half's gradient is its pair's times the other half. Twice the
// work of the product, log2(n) rounds.
static tc_node row_product_grad(tc_vjp *v, tc_node x, tc_node g, int64_t n_rows, int64_t n) {
  tc_node pair[MAX_ROUNDS];
  int64_t extent[MAX_ROUNDS];
  int rounds = 0;
  for (tc_node p = x; n > 1; rounds++) {
    int64_t half = (n + 1) / 2;
    extent[rounds] = n;
    pair[rounds] = halves(v, p, n_rows, n);
    p = mul(v, half_of(v, pair[rounds], 0, n_rows, half), half_of(v, pair[rounds], 1, n_rows, half));
    n = half;
  }
  while (rounds-- > 0) {
    int64_t half = (extent[rounds] + 1) / 2;
    tc_dims one = tc_dims_of(3, (const int64_t[]){n_rows, 1, half}),
            both = tc_dims_of(2, (const int64_t[]){n_rows, 2 * half});
    g = mul(v, tc_rec_reshape(v->t, g, &one), tc_rec_flip(v->t, pair[rounds], 1u << 1));
    g = tc_rec_reshape(v->t, g, &both);
    if (extent[rounds] % 2 != 0) g = tc_rec_slice_axis(v->t, g, 1, 0, 1, extent[rounds]);
  }
  return g;
}

void tc_vjp_prod(tc_vjp *v) {
  if (tc_dims_count(tc_vjp_in_dims(v, 0)) == 0) {  // no elements, made of what they would be made of
    tc_dims kept = kept_dims(v);
    tc_vjp_give(v, 0, mul(v, tc_rec_reshape(v->t, v->g, &kept), tc_vjp_in(v, 0)));
    return;
  }
  row_view r = rows_of(v);
  tc_dims column = tc_dims_of(2, (const int64_t[]){r.rows.dim[0], 1});
  tc_node x = tc_rec_reshape(v->t, tc_rec_permute(v->t, in_wider(v, tc_vjp_in(v, 0)), &r.order), &r.rows);
  tc_node g = tc_rec_reshape(v->t, in_wider(v, v->g), &column);
  g = from_wider(v, row_product_grad(v, x, g, r.rows.dim[0], r.rows.dim[1]));
  tc_vjp_give(v, 0, tc_rec_permute(v->t, tc_rec_reshape(v->t, g, &r.moved), &r.back));
}

// ---- Scans ----

void tc_vjp_cumsum(tc_vjp *v) {
  uint32_t axis = (uint32_t)v->attr[0];
  tc_node g = tc_rec_scan(v->t, TC_OP_CUMSUM, tc_rec_flip(v->t, v->g, 1u << axis), (int)axis);
  tc_vjp_give(v, 0, tc_rec_flip(v->t, g, 1u << axis));
}

// a moved by s places towards higher (or lower) indices along the scanned axis, with fill in the
// places left empty.
static tc_node shifted(tc_vjp *v, tc_node a, int64_t s, bool up, double fill) {
  uint64_t axis = v->attr[0];
  int64_t low[TC_MAX_RANK] = {0}, high[TC_MAX_RANK] = {0}, rest = tc_vjp_in_dims(v, 0)->dim[axis] - s;
  (up ? low : high)[axis] = s;
  return tc_rec_pad(v->t, tc_rec_slice_axis(v->t, a, (int)axis, up ? 0 : s, 1, rest), low, high, fill);
}

// The scan as rounds y = y * shifted(y, s), s = 1, 2, 4, ...; each round's gradient goes to both
// factors.
void tc_vjp_cumprod(tc_vjp *v) {
  const tc_dims *d = tc_vjp_in_dims(v, 0);
  int64_t n = d->rank == 0 || tc_dims_count(d) == 0 ? 0 : d->dim[v->attr[0]];
  tc_node y[MAX_ROUNDS], behind[MAX_ROUNDS], g = in_wider(v, v->g);
  int rounds = 0;
  if (n > 1) y[0] = in_wider(v, tc_vjp_in(v, 0));
  for (int64_t s = 1; s < n; s *= 2, rounds++) {
    behind[rounds] = shifted(v, y[rounds], s, true, 1);
    if (s * 2 < n) y[rounds + 1] = mul(v, y[rounds], behind[rounds]);
  }
  while (rounds-- > 0)
    g = add(v, mul(v, g, behind[rounds]), shifted(v, mul(v, g, y[rounds]), INT64_C(1) << rounds, false, 0));
  tc_vjp_give(v, 0, from_wider(v, g));
}

// The gradient goes to the position of the running maximum or minimum: the last place so far where
// the operand equals it. A nan stands where it came, as in PyTorch.
void tc_vjp_cummax(tc_vjp *v) {
  const tc_dims *d = tc_vjp_in_dims(v, 0);
  if (d->rank == 0 || tc_dims_count(d) == 0) {
    tc_vjp_give(v, 0, v->g);
    return;
  }
  int axis = (int)v->attr[0];
  tc_node x = tc_vjp_in(v, 0);
  tc_dims line = tc_dims_of(1, &d->dim[axis]), along = *d;
  for (int32_t i = 0; i < d->rank; i++)
    if (i != axis) along.dim[i] = 1;
  tc_node position = tc_rec_reshape(v->t, tc_rec_iota(v->t, &line, TC_I64, 0, 1), &along);
  tc_node reached = bin(v, TC_OP_LOGICAL_OR, bin(v, TC_OP_EQ, x, tc_vjp_out(v)), un(v, TC_OP_ISNAN, x));
  tc_node from = tc_rec_scan(v->t, TC_OP_CUMMAX, only_where(v, reached, position), axis);
  tc_vjp_give(v, 0, tc_rec_scatter(v->t, TC_OP_SCATTER_ADD, zeros_in(v, 0), axis, from, v->g));
}

// out_i = log(sum of e^x_j, j <= i): x_j gets e^x_j times the sum of g_i e^-out_i, i >= j. That sum
// is taken in logarithms, of the positive and the negative part of g apart, so that nothing
// overflows. Source: logcumsumexp_backward in torch/csrc/autograd/FunctionsManual.cpp.
static tc_node log_part(tc_vjp *v, tc_node g, uint32_t axis) {
  tc_node out = tc_vjp_out(v), there = num(v, TC_OP_NE, out, -(double)INFINITY);  // before that nothing was added up
  tc_node some = bin(v, TC_OP_LOGICAL_AND, un(v, TC_OP_LOGICAL_NOT, num(v, TC_OP_LE, g, 0)), there);  // NaN, too
  tc_node log = bin(v, TC_OP_SUB, un(v, TC_OP_LOG, tc_rec_where(v->t, some, g, tc_rec_const(v->t, g, 1))),
                    only_where(v, there, out));
  log = tc_rec_where(v->t, some, log, tc_rec_const(v->t, log, -(double)INFINITY));
  tc_node sum = tc_rec_scan(v->t, TC_OP_LOGCUMSUMEXP, tc_rec_flip(v->t, log, 1u << axis), (int)axis);
  return un(v, TC_OP_EXP, add(v, tc_rec_flip(v->t, sum, 1u << axis), tc_vjp_in(v, 0)));
}

void tc_vjp_logcumsumexp(tc_vjp *v) {
  uint32_t axis = (uint32_t)v->attr[0];
  if (tc_vjp_in_dims(v, 0)->rank == 0)
    tc_vjp_give(v, 0, v->g);
  else
    tc_vjp_give(v, 0, bin(v, TC_OP_SUB, log_part(v, v->g, axis), log_part(v, neg(v, v->g), axis)));
}

// ---- Softmax ----

static tc_node sum_along(tc_vjp *v, tc_node a) {
  return tc_rec_fold(v->t, TC_OP_SUM, a, tc_vjp_in_dims(v, 0)->rank == 0 ? 0 : 1u << v->attr[0], true);
}

void tc_vjp_softmax(tc_vjp *v) {
  tc_node out = tc_vjp_out(v), mean = sum_along(v, mul(v, v->g, out));
  tc_vjp_give(v, 0, mul(v, bin(v, TC_OP_SUB, v->g, mean), out));
}

void tc_vjp_log_softmax(tc_vjp *v) {
  tc_vjp_give(v, 0, bin(v, TC_OP_SUB, v->g, mul(v, un(v, TC_OP_EXP, tc_vjp_out(v)), sum_along(v, v->g))));
}

// ---- Products: operands of rank two or more with equal batch extents ----

static tc_node transposed(tc_vjp *v, int k) {
  tc_dims axes = *tc_vjp_in_dims(v, k);
  for (int32_t i = 0; i < axes.rank; i++) axes.dim[i] = i;
  axes.dim[axes.rank - 2] = axes.rank - 1;
  axes.dim[axes.rank - 1] = axes.rank - 2;
  return tc_rec_permute(v->t, tc_vjp_in(v, k), &axes);
}

// A matmul of f16 or bf16 that was summed into f32 has a gradient in f32. The cast gives it the
// operands' type again.
void tc_vjp_matmul(tc_vjp *v) {
  tc_node g = tc_rec_cast(v->t, v->g, tc_vjp_in_type(v, 0));
  if (tc_vjp_requires_grad(v, 0)) tc_vjp_give(v, 0, tc_rec_matmul(v->t, g, transposed(v, 1)));
  if (tc_vjp_requires_grad(v, 1)) tc_vjp_give(v, 1, tc_rec_matmul(v->t, transposed(v, 0), g));
}

// y = conv(x, w) is linear in x and in w, and so are its transposes: each of the three is
// differentiated by the other two. As of products, sums in f32 of narrower operands have a gradient
// that was widened with them.
static tc_node as_operand(tc_vjp *v) {
  return tc_rec_cast(v->t, v->g, tc_vjp_in_type(v, 0));
}

static void give_conv(tc_vjp *v, int k, tc_op op, tc_node a, tc_node b) {
  int n_attr = 2 * (tc_vjp_in_dims(v, 0)->rank - 2) + 1;
  tc_vjp_give(v, k, tc_rec_conv(v->t, op, a, b, n_attr, v->attr, tc_vjp_in_dims(v, k)));
}

void tc_vjp_conv(tc_vjp *v) {
  if (tc_vjp_requires_grad(v, 0)) give_conv(v, 0, TC_OP_CONV_INPUT, as_operand(v), tc_vjp_in(v, 1));
  if (tc_vjp_requires_grad(v, 1)) give_conv(v, 1, TC_OP_CONV_WEIGHT, tc_vjp_in(v, 0), as_operand(v));
}

// Operands (y, w).
void tc_vjp_conv_input(tc_vjp *v) {
  if (tc_vjp_requires_grad(v, 0)) give_conv(v, 0, TC_OP_CONV, as_operand(v), tc_vjp_in(v, 1));
  if (tc_vjp_requires_grad(v, 1)) give_conv(v, 1, TC_OP_CONV_WEIGHT, as_operand(v), tc_vjp_in(v, 0));
}

// The operands are (x, y): the image, and the gradient of the convolution's result.
void tc_vjp_conv_weight(tc_vjp *v) {
  if (tc_vjp_requires_grad(v, 0)) give_conv(v, 0, TC_OP_CONV_INPUT, tc_vjp_in(v, 1), v->g);
  if (tc_vjp_requires_grad(v, 1)) give_conv(v, 1, TC_OP_CONV, tc_vjp_in(v, 0), v->g);
}
