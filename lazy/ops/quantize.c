// Quantization: numbers as bytes by a scale and a zero point, and linear layers that multiply
// bytes. All are compositions of elementwise ops, a fold and a product, whose steps are fused into
// one kernel where one can hold them. Rounding is PyTorch's: to even, of x times the rounded
// reciprocal of the scale (aten/src/ATen/native/quantized/affine_quantizer_base.cpp).
// docs/int8.md has the formulas and what happens to infinities and NaN.
// Invariants: no product of bytes saturates; sums of a linear layer fit i32.
// Threads: thread-compatible, each thread records its own trace.
#define TC_NO_SITES
#include "lazy/record/formula.h"
#include "lazy/record/known_value.h"
#include "lazy/trace/dims.h"

// A row's scale is that of a largest element of at least 2^-100, so that its reciprocal is finite.
#define LEAST_GREATEST 0x1p-100
#define MIDDLE 128  // zero point of rows that go as u8
// Zero points of tc_quantize are taken as within this. A rounded element is cut to twice it, so
// that the sum fits i32 and is on the right side of the type's ends.
#define FARTHEST_ZERO (INT64_C(1) << 29)

// How a scale lies over the elements of an operand.
typedef struct layout {
  tc_dims whole;  // the operand's shape
  tc_dims split;  // the same with axis split into groups, or `whole`
  tc_dims scale;  // the scale's, which broadcasts to `split`
} layout;

static tc_node shape_error(tc_trace *t, const tc_dims *scale, const tc_dims *x, const char *what) {
  char have[128], of[128];
  return tc_rec_fail(t, TC_ERR_SHAPE, "scale %s %s of x %s", tc_dims_text(scale, have, sizeof have), what,
                     tc_dims_text(x, of, sizeof of));
}

// Finds the layout of a scale by its rank and the options; false after reporting.
static bool find_layout(tc_trace *t, const tc_dims *x, const tc_dims *scale, tc_quantize_options o, layout *out) {
  int axis = o.axis < 0 ? o.axis + x->rank : o.axis;
  bool by_axis = o.group != 0 || scale->rank == 1;
  *out = (layout){*x, *x, *scale};
  if (by_axis && (axis < 0 || axis >= x->rank))
    return tc_rec_fail(t, TC_ERR_ARG, "axis is %d, x has rank %d", o.axis, x->rank), false;
  if (o.group < 0) return tc_rec_fail(t, TC_ERR_ARG, "group is %lld", (long long)o.group), false;
  if (o.group) {
    if (x->rank == TC_MAX_RANK)
      return tc_rec_fail(t, TC_ERR_SHAPE, "x has rank %d: with groups it would need one axis more", TC_MAX_RANK), false;
    bool fits = scale->rank == x->rank && x->dim[axis] % o.group == 0;
    for (int i = 0; i < x->rank && fits; i++) fits = scale->dim[i] == (i == axis ? x->dim[i] / o.group : x->dim[i]);
    if (!fits) return shape_error(t, scale, x, "has not an element a group"), false;
    out->split.rank = out->scale.rank = 0;
    for (int i = 0; i < x->rank; i++) {
      out->split.dim[out->split.rank++] = scale->dim[i], out->scale.dim[out->scale.rank++] = scale->dim[i];
      if (i == axis) out->split.dim[out->split.rank++] = o.group, out->scale.dim[out->scale.rank++] = 1;
    }
    return true;
  }
  if (scale->rank == 1) {
    if (scale->dim[0] != x->dim[axis]) return shape_error(t, scale, x, "has not an element a channel"), false;
    out->scale.rank = x->rank;
    for (int i = 0; i < x->rank; i++) out->scale.dim[i] = i == axis ? scale->dim[0] : 1;
    return true;
  }
  bool fits = scale->rank == 0 || scale->rank == x->rank;
  for (int i = 0; i < scale->rank && fits; i++) fits = scale->dim[i] == x->dim[i] || scale->dim[i] == 1;
  return fits || (shape_error(t, scale, x, "does not broadcast to that"), false);
}

// A scale, and a zero point of the same shape, over the elements; false after reporting.
// zero: TC_NODE_ERR where there is none.
static bool factors_in(tc_trace *t, tc_node x, tc_tensor scale, tc_tensor zero_point, tc_quantize_options o,
                       layout *out, tc_node *s, tc_node *zero) {
  *s = tc_op_in(t, scale), *zero = TC_NODE_ERR;
  if (x == TC_NODE_ERR || *s == TC_NODE_ERR) return false;
  if (!tc_type_is_float(tc_node_type(t, *s)))
    return tc_rec_fail(t, TC_ERR_DTYPE, "scale is %s, not floating", tc_type_name(tc_node_type(t, *s))), false;
  tc_dims d = *tc_node_dims(t, *s), dx = *tc_node_dims(t, x);
  if (!find_layout(t, &dx, &d, o, out)) return false;
  if (f_given(zero_point)) {
    if ((*zero = tc_op_in(t, zero_point)) == TC_NODE_ERR) return false;
    tc_type type = tc_node_type(t, *zero);
    if (tc_number_kind_of[type] != TC_NUMBER_INT)
      return tc_rec_fail(t, TC_ERR_DTYPE, "zero_point is %s, not an integer", tc_type_name(type)), false;
    char have[128], want[128];
    if (!tc_dims_equal(tc_node_dims(t, *zero), &d))
      return tc_rec_fail(t, TC_ERR_SHAPE, "zero_point is %s, scale is %s",
                         tc_dims_text(tc_node_dims(t, *zero), have, sizeof have), tc_dims_text(&d, want, sizeof want)),
             false;
    *zero = tc_rec_reshape(t, *zero, &out->scale);
  }
  *s = tc_rec_reshape(t, *s, &out->scale);
  return *s != TC_NODE_ERR;
}

static tc_node rounded(tc_trace *t, tc_node x, tc_node reciprocal) {
  return tc_rec_unary(t, TC_OP_ROUND, f_mul(t, x, reciprocal));
}

static int64_t least_of(tc_type type) {
  return type == TC_U8 ? 0 : INT8_MIN;
}

static int64_t most_of(tc_type type) {
  return type == TC_U8 ? UINT8_MAX : INT8_MAX;
}

// Rounded elements as bytes. NaN becomes 0 in a cast, so the zero point. What is added is cut
// before, to where sums fit i32, and the sum after, so any zero point gives the formula's bytes.
static tc_node clamped(tc_trace *t, tc_node x, tc_node zero, tc_type type) {
  int64_t least = least_of(type), most = most_of(type), far = 2 * FARTHEST_ZERO;
  if (zero == TC_NODE_ERR)
    return tc_rec_cast(t, f_num(t, TC_OP_MINIMUM, f_num(t, TC_OP_MAXIMUM, x, (double)least), (double)most), type);
  tc_type of_zero = tc_node_type(t, zero);
  if (of_zero == TC_I32 || of_zero == TC_I64)
    zero = f_int(t, TC_OP_MINIMUM, f_int(t, TC_OP_MAXIMUM, zero, -FARTHEST_ZERO), FARTHEST_ZERO);
  x = f_num(t, TC_OP_MINIMUM, f_num(t, TC_OP_MAXIMUM, x, (double)-far), (double)far);
  tc_node sum = f_add(t, tc_rec_cast(t, x, TC_I32), tc_rec_cast(t, zero, TC_I32));
  return tc_rec_cast(t, f_int(t, TC_OP_MINIMUM, f_int(t, TC_OP_MAXIMUM, sum, least), most), type);
}

// Reports a zero point beyond the type.
static tc_node zero_error(tc_trace *t, int64_t at, int64_t value, tc_type type) {
  return tc_rec_fail(t, TC_ERR_ARG, "zero_point %lld is %lld: %s holds %lld to %lld", (long long)at, (long long)value,
                     tc_type_name(type), (long long)least_of(type), (long long)most_of(type));
}

tc_tensor tc_quantize_at(tc_tensor x, tc_tensor scale, tc_tensor zero_point, tc_type type, tc_quantize_options options,
                         tc_site site) {
  int64_t value = 0;  // of the first zero point that is known now and beyond the type
  int64_t far = f_given(zero_point) ? tc_find_outside(zero_point, least_of(type), most_of(type), &value) : -1;
  tc_trace *t = tc_op_begin("quantize", site);
  tc_node a = tc_op_in(t, x), s, zero;
  layout l;
  if (a != TC_NODE_ERR && !tc_type_is_byte(type))
    return tc_op_end(t, tc_rec_fail(t, TC_ERR_DTYPE, "to %s: i8 and u8 are possible", tc_type_name(type)));
  if (a != TC_NODE_ERR && !tc_type_is_float(tc_node_type(t, a)))
    return tc_op_end(t, tc_rec_fail(t, TC_ERR_DTYPE, "x is %s, not floating", tc_type_name(tc_node_type(t, a))));
  if (!factors_in(t, a, scale, zero_point, options, &l, &s, &zero)) return tc_op_end(t, TC_NODE_ERR);
  if (far >= 0) return tc_op_end(t, zero_error(t, far, value, type));
  a = tc_rec_reshape(t, f_widen(t, tc_rec_detach(t, a)), &l.split);
  if (a == TC_NODE_ERR) return tc_op_end(t, a);
  s = tc_rec_cast(t, tc_rec_detach(t, s), tc_node_type(t, a));
  tc_node y = rounded(t, a, tc_rec_unary(t, TC_OP_RECIPROCAL, s));
  if (y == TC_NODE_ERR) return tc_op_end(t, y);
  return tc_op_end(t, tc_rec_reshape(t, clamped(t, y, zero, type), &l.whole));
}

// The type in which an integer less its zero point is exact, or rounded once: of 32 bits they may
// cancel, in f64.
static tc_type difference_type(tc_trace *t, tc_node q, tc_node zero, tc_type scale) {
  return tc_node_type(t, q) == TC_I32 && zero != TC_NODE_ERR ? TC_F64 : scale;
}

tc_tensor tc_dequantize_at(tc_tensor q, tc_tensor scale, tc_tensor zero_point, tc_quantize_options options,
                           tc_site site) {
  tc_trace *t = tc_op_begin("dequantize", site);
  tc_node a = tc_op_in(t, q), s, zero;
  layout l;
  tc_type of_q = a == TC_NODE_ERR ? TC_I8 : tc_node_type(t, a);
  if (tc_number_kind_of[of_q] != TC_NUMBER_INT || of_q == TC_I64)
    return tc_op_end(t, tc_rec_fail(t, TC_ERR_DTYPE, "q is %s, not an integer%s", tc_type_name(of_q),
                                    of_q == TC_I64 ? " of at most 32 bits" : ""));
  if (!factors_in(t, a, scale, zero_point, options, &l, &s, &zero)) return tc_op_end(t, TC_NODE_ERR);
  tc_type type = tc_node_type(t, s);
  s = f_widen(t, s);
  if (s == TC_NODE_ERR) return tc_op_end(t, TC_NODE_ERR);
  tc_type between = difference_type(t, a, zero, tc_node_type(t, s));
  a = tc_rec_reshape(t, tc_rec_cast(t, a, between), &l.split);
  if (zero != TC_NODE_ERR) a = f_sub(t, a, tc_rec_cast(t, zero, between));
  if (a == TC_NODE_ERR) return tc_op_end(t, TC_NODE_ERR);
  tc_node y = f_mul(t, tc_rec_cast(t, a, tc_node_type(t, s)), s);
  return tc_op_end(t, tc_rec_reshape(t, f_narrow(t, y, type), &l.whole));
}

// ---- A linear layer of bytes ----

// A vector of one element a row of the weight, or one for all, as a row; TC_NODE_ERR after
// reporting.
static tc_node row_in(tc_trace *t, tc_tensor x, const char *name, int64_t n_out, bool may_be_one) {
  tc_node a = tc_op_in(t, x);
  if (a == TC_NODE_ERR) return a;
  const tc_dims *d = tc_node_dims(t, a);
  char have[128];
  if (!tc_type_is_float(tc_node_type(t, a)))
    return tc_rec_fail(t, TC_ERR_DTYPE, "%s is %s, not floating", name, tc_type_name(tc_node_type(t, a)));
  if (!(d->rank == 1 && d->dim[0] == n_out) && !(may_be_one && d->rank == 0))
    return tc_rec_fail(t, TC_ERR_SHAPE, "%s is %s, weight has %lld rows", name, tc_dims_text(d, have, sizeof have),
                       (long long)n_out);
  return f_widen(t, a);
}

static bool check_operands(tc_trace *t, tc_node x, tc_node w) {
  if (x == TC_NODE_ERR || w == TC_NODE_ERR) return false;
  const tc_dims *dx = tc_node_dims(t, x), *dw = tc_node_dims(t, w);
  char have[128], want[128];
  if (tc_node_type(t, w) != TC_I8 || !tc_type_is_float(tc_node_type(t, x)))
    return tc_rec_fail(t, TC_ERR_DTYPE, "x is %s and weight %s: floating and i8 are needed",
                       tc_type_name(tc_node_type(t, x)), tc_type_name(tc_node_type(t, w))),
           false;
  if (dw->rank != 2 || dx->rank < 1 || dx->dim[dx->rank - 1] != dw->dim[1])
    return tc_rec_fail(t, TC_ERR_SHAPE, "x %s does not fit weight %s [out, in]", tc_dims_text(dx, have, sizeof have),
                       tc_dims_text(dw, want, sizeof want)),
           false;
  if (dw->dim[1] > TC_MAX_INT8_COLUMNS)
    return tc_rec_fail(t, TC_ERR_SHAPE, "weight %s has more than %d columns: sums would leave i32",
                       tc_dims_text(dw, want, sizeof want), TC_MAX_INT8_COLUMNS),
           false;
  return true;
}

// Rows as u8 with zero point MIDDLE, and the scale of each. A row's greatest magnitude becomes 127,
// so nothing is to be clamped.
static tc_node quantized_rows(tc_trace *t, tc_node x, tc_node *scale) {
  if (x == TC_NODE_ERR) return x;
  uint32_t last = UINT32_C(1) << (tc_node_dims(t, x)->rank - 1);
  tc_node greatest = tc_rec_fold(t, TC_OP_MAX, tc_rec_unary(t, TC_OP_ABS, x), last, true);
  *scale = f_num(t, TC_OP_MUL, f_num(t, TC_OP_MAXIMUM, greatest, LEAST_GREATEST), 1.0 / 127);
  tc_node y = rounded(t, x, tc_rec_unary(t, TC_OP_RECIPROCAL, *scale));
  return tc_rec_cast(t, f_num(t, TC_OP_ADD, y, MIDDLE), TC_U8);
}

tc_tensor tc_linear_int8_at(tc_tensor x, tc_tensor weight, tc_tensor scale, tc_tensor bias, tc_site site) {
  tc_trace *t = tc_op_begin("linear_int8", site);
  tc_node a = tc_op_in(t, x), w = tc_op_in(t, weight), row_scale = TC_NODE_ERR;
  if (!check_operands(t, a, w)) return tc_op_end(t, TC_NODE_ERR);
  tc_type type = tc_node_type(t, a);
  int64_t n_out = tc_node_dims(t, w)->dim[0], n_in = tc_node_dims(t, w)->dim[1], rows = 1;
  tc_dims d = *tc_node_dims(t, a), swap = TC_AXES(1, 0);
  for (int i = 0; i < d.rank - 1; i++) rows *= d.dim[i];
  tc_dims given = TC_SHAPE(rows, n_in), result = TC_SHAPE(rows, n_out);
  tc_node s = row_in(t, scale, "scale", n_out, true), b = TC_NODE_ERR;
  if (s == TC_NODE_ERR) return tc_op_end(t, s);
  if (f_given(bias) && (b = row_in(t, bias, "bias", n_out, false)) == TC_NODE_ERR) return tc_op_end(t, b);
  a = f_widen(t, tc_rec_reshape(t, tc_rec_detach(t, a), &given));
  if (n_in == 0) {  // an empty row has no greatest element
    a = tc_rec_full(t, &result, TC_F32, 0);
  } else {
    tc_node q = quantized_rows(t, a, &row_scale);
    // What the zero point adds to each column's sums: of a weight that stays it is computed once.
    tc_node sums = tc_rec_cast(t, tc_rec_fold(t, TC_OP_SUM, tc_rec_cast(t, w, TC_I32), 2, false), TC_I32);
    tc_node y = f_sub(t, tc_rec_matmul(t, q, tc_rec_permute(t, w, &swap)), f_int(t, TC_OP_MUL, sums, MIDDLE));
    a = f_mul(t, f_mul(t, tc_rec_cast(t, y, TC_F32), row_scale), s);
  }
  if (b != TC_NODE_ERR) a = f_add(t, a, b);
  d.dim[d.rank - 1] = n_out;
  return tc_op_end(t, f_narrow(t, tc_rec_reshape(t, a, &d), type));
}
