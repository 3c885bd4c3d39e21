// Recording: what every kind of record needs, values made from arguments, and elementwise ops. See
// record.h.
#include "lazy/record/record_shorthand.h"

#include <math.h>
#include <string.h>

// ---- shapes, axes and records ----

static bool has_negative(const tc_dims *d) {
  for (int i = 0; i < d->rank; i++)
    if (d->dim[i] < 0) return true;
  return false;
}

uint32_t tc_rec_intern(tc_trace *t, const tc_dims *d) {
  int64_t n;
  char text[128];
  if (!tc_dims_product(d, &n)) {
    tc_dims shown = *d;
    if (shown.rank < 0 || shown.rank > TC_MAX_RANK)
      tc_rec_fail(t, TC_ERR_SHAPE, "rank %d is not within 0 and %d", (int)d->rank, TC_MAX_RANK);
    else
      tc_rec_fail(t, TC_ERR_SHAPE, "shape %s has %s", tc_dims_text(&shown, text, sizeof text),
                  has_negative(&shown) ? "a negative extent" : "more elements than fit in memory");
    return TC_SHAPE_NONE;
  }
  uint32_t id = tc_dims_intern(d);
  if (id == TC_SHAPE_NONE) tc_rec_fail(t, TC_ERR_MEMORY, "no room for a shape");
  return id;
}

// The device operands share; false after reporting.
static bool same_device(tc_trace *t, int n, const tc_node *in, tc_device *out) {
  *out = n ? (tc_device)t->dev[in[0]] : tc_trace_device(t);
  for (int i = 1; i < n; i++)
    if (t->dev[in[i]] != t->dev[in[0]])
      return tc_rec_fail(t, TC_ERR_DEVICE, "operands are on %s and %s", tc_device_name((tc_device)t->dev[in[0]]),
                         tc_device_name((tc_device)t->dev[in[i]])),
             false;
  return true;
}

tc_node tc_rec_append(tc_trace *t, tc_op op, tc_type type, uint32_t shape, int n_in, const tc_node *in, int n_attr,
                      const uint64_t *attr, int n_arg, const uint64_t *arg) {
  tc_device device;
  if (shape == TC_SHAPE_NONE || !same_device(t, n_in, in, &device)) return TC_NODE_ERR;
  return tc_trace_append(t, op, type, shape, n_in, in, n_attr, attr, n_arg, arg, device);
}

tc_node tc_rec_append_dims(tc_trace *t, tc_op op, tc_type type, const tc_dims *d, tc_node a, int n_attr,
                           const uint64_t *attr) {
  return tc_rec_append(t, op, type, tc_rec_intern(t, d), 1, &a, n_attr, attr, 0, NULL);
}

tc_node tc_rec_append_like(tc_trace *t, tc_op op, tc_node a, uint64_t attr) {
  return ok(t, a) ? tc_rec_append(t, op, type_of(t, a), shape_of(t, a), 1, &a, 1, &attr, 0, NULL) : TC_NODE_ERR;
}

int tc_rec_axis(tc_trace *t, tc_node n, int axis, int extra) {
  if (!ok(t, n)) return -1;
  int rank = tc_node_dims(t, n)->rank + extra;
  if (axis >= -rank && axis < rank) return axis < 0 ? axis + rank : axis;
  tc_rec_fail(t, TC_ERR_ARG, "axis %d is out of range for rank %d", axis, rank - extra);
  return -1;
}

bool tc_rec_axes(tc_trace *t, tc_node n, const tc_dims *axes, uint32_t *out_mask) {
  *out_mask = 0;
  if (!ok(t, n)) return false;
  if (axes->rank < 0) {
    *out_mask = (1u << tc_node_dims(t, n)->rank) - 1;
    return true;
  }
  if (axes->rank > TC_MAX_RANK)
    return tc_rec_fail(t, TC_ERR_ARG, "%d axes are more than %d", (int)axes->rank, TC_MAX_RANK), false;
  bool scalar = tc_node_dims(t, n)->rank == 0;  // has an axis to be named, as in PyTorch, and none to fold
  for (int i = 0; i < axes->rank; i++) {
    if (axes->dim[i] < INT32_MIN || axes->dim[i] > INT32_MAX)
      return tc_rec_fail(t, TC_ERR_ARG, "axis %lld is out of range", (long long)axes->dim[i]), false;
    int axis = scalar && (axes->dim[i] == 0 || axes->dim[i] == -1) ? 0 : tc_rec_axis(t, n, (int)axes->dim[i], 0);
    if (axis < 0) return false;
    if (*out_mask >> axis & 1) return tc_rec_fail(t, TC_ERR_ARG, "axis %d is named twice", axis), false;
    *out_mask |= 1u << axis;
  }
  if (scalar) *out_mask = 0;
  return true;
}

// ---- values from arguments ----

static bool good_type(tc_trace *t, tc_type type) {
  if ((unsigned)type < (unsigned)TC_N_TYPES) return true;
  return tc_rec_fail(t, TC_ERR_DTYPE, "%d is no element type", (int)type), false;
}

void tc_type_range(tc_type type, int64_t *low, int64_t *high) {
  int bits = (int)tc_type_bytes(type) * 8;
  *low = type == TC_BOOL || type == TC_U8 ? 0 : INT64_MIN >> (64 - bits);
  *high = type == TC_BOOL ? 1 : type == TC_U8 ? UINT8_MAX : INT64_MAX >> (64 - bits);
}

static uint64_t float_bits(double v) {
  uint64_t bits;
  memcpy(&bits, &v, sizeof bits);
  return bits;
}

uint64_t tc_rec_number_bits(tc_type type, double v) {
  if ((unsigned)type >= (unsigned)TC_N_TYPES) return 0;
  if (tc_number_kind_of[type] == TC_NUMBER_FLOAT) return float_bits(v);
  if (type == TC_BOOL) return v != 0;
  if (!(v == v)) return 0;
  return v >= 9223372036854775807.0    ? INT64_MAX
         : v <= -9223372036854775808.0 ? (uint64_t)INT64_MIN
                                       : (uint64_t)(int64_t)v;
}

// Whether a number can become the type: toward zero into an integer type's range. Anything becomes
// a float or a bool.
static bool holds_number(tc_type type, double v) {
  int64_t low, high;
  if (type == TC_BOOL || tc_type_is_float(type)) return true;
  tc_type_range(type, &low, &high);
  double whole = trunc(v);
  return whole >= (double)low && whole <= (double)high && whole < 0x1p63;
}

static bool refuse_number(tc_trace *t, tc_type type, double v) {
  int64_t low, high;
  tc_type_range(type, &low, &high);
  return tc_rec_fail(t, TC_ERR_ARG, "%.15g is not a number of %s, which holds %lld to %lld", v, tc_type_name(type),
                     (long long)low, (long long)high),
         false;
}

bool tc_rec_good_number(tc_trace *t, tc_type type, double v) {
  return holds_number(type, v) || refuse_number(t, type, v);
}

// Records a constant of rank 0 from the bits of its value.
static tc_node scalar_bits(tc_trace *t, tc_type type, uint64_t bits, tc_device device) {
  static _Atomic uint32_t known;  // the shape's number + 1
  uint32_t id = atomic_load_explicit(&known, memory_order_acquire);
  if (TC_UNLIKELY(id == 0)) {
    if ((id = tc_rec_intern(t, &(tc_dims){0}) + 1) == 0) return TC_NODE_ERR;
    atomic_store_explicit(&known, id, memory_order_release);
  }
  return tc_trace_append(t, TC_OP_FULL, type, id - 1, 0, NULL, 0, NULL, 1, &bits, device);
}

// A record without operands, of n_arg numbers.
static tc_node append_values(tc_trace *t, tc_op op, const tc_dims *shape, tc_type type, int n_arg,
                             const uint64_t *arg) {
  return tc_rec_append(t, op, type, tc_rec_intern(t, shape), 0, NULL, 0, NULL, n_arg, arg);
}

tc_node tc_rec_full(tc_trace *t, const tc_dims *shape, tc_type type, double value) {
  if (t->op_status != TC_OK || !good_type(t, type) || !tc_rec_good_number(t, type, value)) return TC_NODE_ERR;
  uint64_t bits = tc_rec_number_bits(type, value);
  return append_values(t, TC_OP_FULL, shape, type, 1, &bits);
}

tc_node tc_rec_full_int(tc_trace *t, const tc_dims *shape, tc_type type, int64_t value) {
  if (t->op_status != TC_OK || !good_type(t, type)) return TC_NODE_ERR;
  if (type != TC_I64 && !tc_rec_good_number(t, type, (double)value)) return TC_NODE_ERR;
  uint64_t bits = tc_type_is_float(type) ? float_bits((double)value) : type == TC_BOOL ? value != 0 : (uint64_t)value;
  return append_values(t, TC_OP_FULL, shape, type, 1, &bits);
}

tc_node tc_rec_number(tc_trace *t, tc_node n, double value) {
  return ok(t, n) && tc_rec_good_number(t, type_of(t, n), value) ? tc_rec_const(t, n, value) : TC_NODE_ERR;
}

tc_node tc_rec_const(tc_trace *t, tc_node n, double value) {
  if (!ok(t, n)) return TC_NODE_ERR;
  return scalar_bits(t, type_of(t, n), tc_rec_number_bits(type_of(t, n), value), (tc_device)t->dev[n]);
}

tc_node tc_rec_iota(tc_trace *t, const tc_dims *shape, tc_type type, double start, double step) {
  if (t->op_status != TC_OK || !good_type(t, type)) return TC_NODE_ERR;
  if (type == TC_BOOL) return tc_rec_fail(t, TC_ERR_DTYPE, "bool has no ranges");
  uint64_t arg[2] = {tc_rec_number_bits(type, start), tc_rec_number_bits(type, step)};
  return append_values(t, TC_OP_IOTA, shape, type, 2, arg);
}

bool tc_can_draw(tc_type type, int64_t low, int64_t high) {
  int64_t least, most;
  tc_type_range(type, &least, &most);
  return low < high && (uint64_t)high - (uint64_t)low <= UINT64_C(0x100000000) && low >= least && high - 1 <= most;
}

// Each thread's stream is the seed's with the stream's number in the counter's top bits, so that
// draws of threads never meet.
tc_node tc_rec_rng(tc_trace *t, tc_op op, const tc_dims *shape, tc_type type, int64_t low, int64_t high) {
  if (t->op_status != TC_OK || !good_type(t, type)) return TC_NODE_ERR;
  bool floats = op == TC_OP_RAND || op == TC_OP_RANDN;
  if (floats != tc_type_is_float(type))
    return tc_rec_fail(t, TC_ERR_DTYPE, "%s cannot be drawn; %s was expected", tc_type_name(type),
                       floats ? "a floating type" : "an integer type");
  if (op == TC_OP_RANDINT && !tc_can_draw(type, low, high)) {
    if (low < high && type != TC_I64 &&
        (!tc_rec_good_number(t, type, (double)low) || !tc_rec_good_number(t, type, (double)(high - 1))))
      return TC_NODE_ERR;
    return tc_rec_fail(t, TC_ERR_ARG, "from low %lld to high %lld are no numbers, or more than 2^32", (long long)low,
                       (long long)high);
  }
  uint64_t arg[4] = {t->seed, t->counter++ | t->stream << 40, (uint64_t)low, (uint64_t)high};
  return append_values(t, op, shape, type, op == TC_OP_RANDINT ? 4 : 2, arg);
}

tc_node tc_rec_data(tc_trace *t, const void *data, const tc_dims *shape, tc_type type) {
  tc_buffer *buf;
  if (t->op_status != TC_OK || !good_type(t, type)) return TC_NODE_ERR;
  uint32_t id = tc_rec_intern(t, shape);
  if (id == TC_SHAPE_NONE) return TC_NODE_ERR;
  size_t bytes = (size_t)tc_dims_at(id)->count * tc_type_bytes(type);
  if ((t->op_status = tc_buffer_create_on(tc_trace_device(t), bytes, &buf)) != TC_OK) return TC_NODE_ERR;
  if (bytes && (t->op_status = tc_buffer_write(buf, data, bytes)) != TC_OK) return tc_buffer_release(buf), TC_NODE_ERR;
  tc_node n = tc_trace_leaf(t, buf, type, id, tc_trace_device(t));
  tc_buffer_release(buf);
  return n;
}

// ---- elementwise ----

// A 16-bit value that was widened is what it was: formulas, and their gradients, widen and round at
// each end.
tc_node tc_rec_cast(tc_trace *t, tc_node a, tc_type type) {
  if (!ok(t, a) || !good_type(t, type)) return TC_NODE_ERR;
  const tc_rec *r = tc_rec_of(t, a);
  if (tc_rec_op(r) == TC_OP_CAST && tc_type_is_half(type) && r->dtype == TC_F32 && type_of(t, tc_rec_in(r)[0]) == type)
    return tc_rec_in(r)[0];
  return type_of(t, a) == type ? a : tc_trace_append_plain(t, TC_OP_CAST, type, shape_of(t, a), false, a, 0);
}

tc_node tc_rec_unary(tc_trace *t, tc_op op, tc_node a) {
  if (!ok(t, a)) return TC_NODE_ERR;
  tc_type type = type_of(t, a), out = type;
  tc_dtype_rule rule = tc_op_rule(op);
  if (rule == TC_RULE_floating && tc_number_kind_of[type] != TC_NUMBER_FLOAT) a = tc_rec_cast(t, a, out = TC_F32);
  if (rule == TC_RULE_boolean) out = TC_BOOL;
  if (rule == TC_RULE_integral && tc_number_kind_of[type] == TC_NUMBER_FLOAT)
    return tc_rec_fail(t, TC_ERR_DTYPE, "%s is not an integer type", tc_type_name(type));
  if (type == TC_BOOL && op == TC_OP_SIGN) return a;
  // a power with a number, whose type is i64
  if (type == TC_BOOL && op == TC_OP_SQUARE) a = tc_rec_cast(t, a, out = TC_I64);
  if (type == TC_BOOL && rule == TC_RULE_number)
    return tc_rec_fail(t, TC_ERR_DTYPE, "bool has no %s; cast it first", tc_op_names[op]);
  if (!ok(t, a)) return TC_NODE_ERR;
  return tc_trace_append_plain(t, op, out, shape_of(t, a), false, a, 0);
}

tc_node tc_rec_polygamma(tc_trace *t, int64_t n, tc_node a) {
  if (!ok(t, a)) return TC_NODE_ERR;
  if (n < 0) return tc_rec_fail(t, TC_ERR_ARG, "n is %lld, and may not be negative", (long long)n);
  if (tc_number_kind_of[type_of(t, a)] != TC_NUMBER_FLOAT) a = tc_rec_cast(t, a, TC_F32);
  return tc_rec_append_like(t, TC_OP_POLYGAMMA, a, (uint64_t)n);
}

// PyTorch's rule within one category: the wider; u8 with a signed type takes the next wider signed
// one; f16 with bf16 is f32.
tc_type tc_type_promote(tc_type a, tc_type b) {
  if (a == b) return a;
  tc_type lo = TC_MIN(a, b), hi = TC_MAX_OF(a, b);
  if (lo == TC_U8 && hi == TC_I8) return TC_I16;
  if (lo == TC_F16 && hi == TC_BF16) return TC_F32;
  return hi;
}

tc_type tc_promote_types(tc_type a, tc_type b) {
  bool known = (unsigned)a < (unsigned)TC_N_TYPES && (unsigned)b < (unsigned)TC_N_TYPES;
  return known ? tc_type_promote(a, b) : TC_N_TYPES;
}

// Operands of rank 0 only decide when their kind is higher, as in PyTorch.
static __attribute__((noinline)) tc_type promote_unequal(const tc_trace *t, tc_node a, tc_node b) {
  tc_type ta = type_of(t, a), tb = type_of(t, b);
  bool sa = tc_node_dims(t, a)->rank == 0, sb = tc_node_dims(t, b)->rank == 0;
  if (sa == sb) return tc_type_promote(ta, tb);
  tc_type tensor = sa ? tb : ta, scalar = sa ? ta : tb;
  return tc_number_kind_of[scalar] > tc_number_kind_of[tensor] ? scalar : tensor;
}

static inline tc_type promote(const tc_trace *t, tc_node a, tc_node b) {
  tc_type ta = type_of(t, a);
  return TC_LIKELY(ta == type_of(t, b)) ? ta : promote_unequal(t, a, b);
}

// The shape two broadcast to; TC_SHAPE_NONE after reporting.
uint32_t tc_rec_broadcast(tc_trace *t, uint32_t sa, uint32_t sb) {
  if (TC_LIKELY(sa == sb)) return sa;
  const tc_dims *a = &tc_dims_at(sa)->d, *b = &tc_dims_at(sb)->d;
  if (a->rank == 0 || b->rank == 0) return a->rank == 0 ? sb : sa;
  tc_dims out = {.rank = TC_MAX_OF(a->rank, b->rank)};
  for (int i = 0; i < out.rank; i++) {
    int ia = i - (out.rank - a->rank), ib = i - (out.rank - b->rank);
    int64_t da = ia < 0 ? 1 : a->dim[ia], db = ib < 0 ? 1 : b->dim[ib];
    if (da != db && da != 1 && db != 1) {
      char ta[128], tb[128];
      tc_rec_fail(t, TC_ERR_SHAPE, "shapes %s and %s do not broadcast: axis %d is %lld and %lld",
                  tc_dims_text(a, ta, sizeof ta), tc_dims_text(b, tb, sizeof tb), i, (long long)da, (long long)db);
      return TC_SHAPE_NONE;
    }
    out.dim[i] = da == 1 ? db : da;
  }
  return tc_rec_intern(t, &out);
}

// Arithmetic whose f16 or bf16 result has an operand of another type computes in f32. Rounded to 16
// bits first, that operand would lose digits: a count beyond 65,504 is infinite, an eps of 1e-8 is
// 0.
// What compares or chooses sees both in one type, so that x == 0.1 can be true.
static bool is_arithmetic(tc_dtype_rule rule) {
  return rule == TC_RULE_arithmetic || rule == TC_RULE_number || rule == TC_RULE_real;
}

static __attribute__((noinline)) tc_node binary_unequal(tc_trace *t, tc_op op, tc_node a, tc_node b) {
  tc_type type = promote(t, a, b);
  tc_dtype_rule rule = tc_op_rule(op);
  if (tc_type_is_half(type) && (type_of(t, a) != type || type_of(t, b) != type) && is_arithmetic(rule))
    return tc_rec_cast(t, tc_rec_binary(t, op, tc_rec_cast(t, a, TC_F32), tc_rec_cast(t, b, TC_F32)), type);
  if (rule == TC_RULE_logical) type = TC_BOOL;
  if (rule == TC_RULE_real && tc_number_kind_of[type] != TC_NUMBER_FLOAT) type = TC_F32;
  if ((rule == TC_RULE_integral || rule == TC_RULE_integer) && tc_number_kind_of[type] == TC_NUMBER_FLOAT)
    return tc_rec_fail(t, TC_ERR_DTYPE, "%s is not an integer type", tc_type_name(type));
  if (type == TC_BOOL && (rule == TC_RULE_number || rule == TC_RULE_integer))
    return tc_rec_fail(t, TC_ERR_DTYPE, "bool has no %s; %s", tc_op_names[op],
                       op == TC_OP_SUB ? "use logical_xor" : "cast it first");
  uint32_t shape = tc_rec_broadcast(t, shape_of(t, a), shape_of(t, b));
  if (type_of(t, a) != type) a = tc_rec_cast(t, a, type);
  if (type_of(t, b) != type) b = tc_rec_cast(t, b, type);
  tc_device device;
  if (shape == TC_SHAPE_NONE || !ok(t, a) || !ok(t, b) || !same_device(t, 2, (tc_node[]){a, b}, &device))
    return TC_NODE_ERR;
  return tc_trace_append_plain(t, op, rule == TC_RULE_compare ? TC_BOOL : type, shape, true, a, b);
}

// Whether the rule leaves operands of one floating type as they are, or compares them.
static bool takes_floats(tc_dtype_rule rule) {
  return rule != TC_RULE_logical && rule != TC_RULE_integral && rule != TC_RULE_integer;
}

tc_node tc_rec_binary(tc_trace *t, tc_op op, tc_node a, tc_node b) {
  if (!ok(t, a) || !ok(t, b)) return TC_NODE_ERR;
  const tc_rec *ra = tc_rec_of(t, a), *rb = tc_rec_of(t, b);
  tc_dtype_rule rule = tc_op_rule(op);
  bool equal = ra->dtype == rb->dtype && ra->shape == rb->shape && t->dev[a] == t->dev[b];
  if (TC_UNLIKELY(!equal || tc_number_kind_of[ra->dtype] != TC_NUMBER_FLOAT || !takes_floats(rule)))
    return binary_unequal(t, op, a, b);
  return tc_trace_append_plain(t, op, rule == TC_RULE_compare ? TC_BOOL : (tc_type)ra->dtype, ra->shape, true, a, b);
}

// The type of a number and a tensor together, as PyTorch promotes Python scalars; real: a floating
// one whatever they are.
static tc_type promote_num(tc_type type, tc_num b, bool real) {
  if ((!b.is_int || real) && tc_number_kind_of[type] != TC_NUMBER_FLOAT) return TC_F32;
  return b.is_int && type == TC_BOOL ? TC_I64 : type;
}

// Whether an integer number lies beyond i64, as unsigned ones can: i is then what is left of it,
// and f tells. INT64_MAX itself is 2^63 as a double.
static bool is_beyond_i64(tc_num b) {
  return b.is_int && (fabs(b.f) > 0x1p63 || (fabs(b.f) == 0x1p63 && (b.i < 0) != (b.f < 0)));
}

static tc_node num_of_type(tc_trace *t, tc_type type, tc_num b, tc_device device) {
  if (type == TC_I64 ? is_beyond_i64(b) && !refuse_number(t, type, b.f) : !tc_rec_good_number(t, type, b.f))
    return TC_NODE_ERR;
  return scalar_bits(t, type, tc_number_kind_of[type] == TC_NUMBER_FLOAT ? float_bits(b.f) : (uint64_t)b.i, device);
}

// What a comparison gives of any integers and a number above all of them, or below.
static tc_node full_on_side(tc_trace *t, tc_op op, tc_node a, bool above) {
  uint64_t is_true = op == TC_OP_NE || (above ? op == TC_OP_LT || op == TC_OP_LE : op == TC_OP_GT || op == TC_OP_GE);
  return tc_trace_append(t, TC_OP_FULL, TC_BOOL, shape_of(t, a), 0, NULL, 0, NULL, 1, &is_true, (tc_device)t->dev[a]);
}

tc_node tc_rec_num(tc_trace *t, tc_op op, tc_node a, tc_num b) {
  if (!ok(t, a)) return TC_NODE_ERR;
  // before the number is put into the tensor's type
  tc_type type = promote_num(type_of(t, a), b, tc_op_rule(op) == TC_RULE_real);
  if (tc_type_is_half(type) && is_arithmetic(tc_op_rule(op)))
    return tc_rec_cast(t, tc_rec_num(t, op, tc_rec_cast(t, a, TC_F32), b), type);
  if (tc_op_rule(op) == TC_RULE_compare && !holds_number(type, b.f)) {  // which side of all of the type it is on
    if (is_beyond_i64(b)) return full_on_side(t, op, a, b.f > 0);
    type = TC_I64;
  }
  tc_node n = num_of_type(t, type, b, (tc_device)t->dev[a]);
  return tc_rec_binary(t, op, tc_rec_cast(t, a, type), n);
}

tc_node tc_rec_num_first(tc_trace *t, tc_op op, tc_num a, tc_node b) {
  if (!ok(t, b)) return TC_NODE_ERR;
  tc_type type = promote_num(type_of(t, b), a, tc_op_rule(op) == TC_RULE_real);
  if (tc_type_is_half(type) && is_arithmetic(tc_op_rule(op)))
    return tc_rec_cast(t, tc_rec_num_first(t, op, a, tc_rec_cast(t, b, TC_F32)), type);
  tc_node n = num_of_type(t, type, a, (tc_device)t->dev[b]);
  return tc_rec_binary(t, op, n, tc_rec_cast(t, b, type));
}

tc_node tc_rec_num_beside(tc_trace *t, tc_num b, tc_node a) {
  if (!ok(t, a)) return TC_NODE_ERR;
  tc_type type = promote_num(type_of(t, a), b, false);
  return num_of_type(t, type, b, (tc_device)t->dev[a]);
}

tc_node tc_rec_num_alone(tc_trace *t, tc_num b, bool floating, tc_node at) {
  return ok(t, at) ? num_of_type(t, floating ? TC_F32 : TC_I64, b, (tc_device)t->dev[at]) : TC_NODE_ERR;
}

tc_node tc_rec_where(tc_trace *t, tc_node cond, tc_node a, tc_node b) {
  if (!ok(t, cond) || !ok(t, a) || !ok(t, b)) return TC_NODE_ERR;
  if (type_of(t, cond) != TC_BOOL)
    return tc_rec_fail(t, TC_ERR_DTYPE, "the condition is %s; bool was expected", tc_type_name(type_of(t, cond)));
  tc_type type = promote(t, a, b);
  a = tc_rec_cast(t, a, type);
  b = tc_rec_cast(t, b, type);
  if (!ok(t, cond) || !ok(t, a) || !ok(t, b)) return TC_NODE_ERR;
  uint32_t shape = tc_rec_broadcast(t, shape_of(t, a), shape_of(t, b));
  if (shape != TC_SHAPE_NONE) shape = tc_rec_broadcast(t, shape_of(t, cond), shape);
  return tc_rec_append(t, TC_OP_WHERE, type, shape, 3, (tc_node[]){cond, a, b}, 0, NULL, 0, NULL);
}
