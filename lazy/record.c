// Checked recording: type and shape rules, then one appended record. See record.h.
#include "lazy/record.h"

#include <math.h>
#include <string.h>

#include "lazy/trace.h"
#include "runtime/reentry.h"

typedef enum kind { KIND_BOOL, KIND_INT, KIND_FLOAT } kind;

static const uint8_t kind_of[TC_N_TYPES] = {
#define TC_TYPE(NAME, name, bytes, kind, npy) [TC_##NAME] = KIND_##kind,
#include <tc/dtypes.def>
#undef TC_TYPE
};

typedef enum dtype_rule {
  RULE_same,
  RULE_given,
  RULE_floating,
  RULE_boolean,
  RULE_integral,
  RULE_promote,
  RULE_compare,
  RULE_select,
  RULE_sum,
  RULE_index,
  RULE_first
} dtype_rule;
static const uint8_t rule_of[TC_N_OP_ROWS] = {
#define TC_OP(NAME, name, kind, arity, results, dtype, shape, vjp, saves, autocast, lower, reference, sample) [TC_OP_##NAME] = RULE_##dtype,
#include <tc/ops.def>
#undef TC_OP
};

typedef enum row_kind {
  ROW_ELEM,
  ROW_GEN,
  ROW_RNG,
  ROW_MOVE,
  ROW_FOLD,
  ROW_SCAN,
  ROW_CONTRACT,
  ROW_INDEX,
  ROW_ATTENTION,
  ROW_COMPOSED,
  ROW_EFFECT
} row_kind;
static const uint8_t row_kind_of[TC_N_OP_ROWS] = {
#define TC_OP(NAME, name, kind, arity, results, dtype, shape, vjp, saves, autocast, lower, reference, sample) [TC_OP_##NAME] = ROW_##kind,
#include <tc/ops.def>
#undef TC_OP
};

#define SMALL_OPERANDS 16

bool tc_op_is_elementwise(tc_op op) {
  return row_kind_of[op] == ROW_ELEM;
}

bool tc_type_is_float(tc_type type) {
  return (unsigned)type < (unsigned)TC_N_TYPES && kind_of[type] == KIND_FLOAT;
}

int64_t tc_dims_count(const tc_dims *d) {
  int64_t n = 1;
  for (int i = 0; i < d->rank; i++) n *= d->dim[i];
  return n;
}

static tc_type type_of(const tc_trace *t, tc_node n) {
  return (tc_type)tc_rec_of(t, n)->dtype;
}

static uint32_t shape_of(const tc_trace *t, tc_node n) {
  return tc_rec_of(t, n)->shape;
}

static bool ok(const tc_trace *t, tc_node n) {
  return TC_LIKELY(n != TC_NODE_ERR && t->op_status == TC_OK);
}

static uint32_t intern(tc_trace *t, const tc_dims *d) {
  int64_t n;
  char text[128];
  if (!tc_dims_product(d, &n)) {
    tc_dims shown = *d;
    if (shown.rank < 0 || shown.rank > TC_MAX_RANK)
      tc_rec_fail(t, TC_ERR_SHAPE, "rank %d is not within 0 and %d", (int)d->rank, TC_MAX_RANK);
    else
      tc_rec_fail(t, TC_ERR_SHAPE, "shape %s has a negative extent or more elements than fit in memory", tc_dims_text(&shown, text, sizeof text));
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

static tc_node append(tc_trace *t, tc_op op, tc_type type, uint32_t shape, int n_in, const tc_node *in, int n_attr, const uint64_t *attr, int n_arg,
                      const uint64_t *arg) {
  tc_device device;
  if (shape == TC_SHAPE_NONE || !same_device(t, n_in, in, &device)) return TC_NODE_ERR;
  return tc_trace_append(t, op, type, shape, n_in, in, n_attr, attr, n_arg, arg, device);
}

static tc_node append_dims(tc_trace *t, tc_op op, tc_type type, const tc_dims *d, tc_node a, int n_attr, const uint64_t *attr) {
  return append(t, op, type, intern(t, d), 1, &a, n_attr, attr, 0, NULL);
}

static uint64_t float_bits(double v) {
  uint64_t bits;
  memcpy(&bits, &v, sizeof bits);
  return bits;
}

static uint64_t number_bits(tc_type type, double v) {
  if ((unsigned)type >= (unsigned)TC_N_TYPES) return 0;
  if (kind_of[type] == KIND_FLOAT) return float_bits(v);
  if (type == TC_BOOL) return v != 0;
  if (!(v == v)) return 0;
  return v >= 9223372036854775807.0 ? INT64_MAX : v <= -9223372036854775808.0 ? (uint64_t)INT64_MIN : (uint64_t)(int64_t)v;
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
  if (axes->rank > TC_MAX_RANK) return tc_rec_fail(t, TC_ERR_ARG, "%d axes are more than %d", (int)axes->rank, TC_MAX_RANK), false;
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

// Whether a number can become the type: toward zero into an integer type's range, negative whole ones wrapping in u8, as in PyTorch. Anything
// becomes a float or a bool.
static bool good_number(tc_trace *t, tc_type type, double v) {
  int64_t low, high;
  if (type == TC_BOOL || tc_type_is_float(type)) return true;
  tc_type_range(type, &low, &high);
  double whole = trunc(v), bottom = type == TC_U8 ? v : whole;
  if (type == TC_U8 && v == whole) low = -UINT8_MAX;
  if (bottom >= (double)low && whole <= (double)high && whole < 0x1p63) return true;
  return tc_rec_fail(t, TC_ERR_ARG, "%g cannot become %s", v, tc_type_name(type)), false;
}

// Of rank 0.
static tc_node scalar_bits(tc_trace *t, tc_type type, uint64_t bits, tc_device device) {
  static _Atomic uint32_t known;  // the shape's number + 1
  uint32_t id = atomic_load_explicit(&known, memory_order_acquire);
  if (TC_UNLIKELY(id == 0)) {
    if ((id = intern(t, &(tc_dims){0}) + 1) == 0) return TC_NODE_ERR;
    atomic_store_explicit(&known, id, memory_order_release);
  }
  return tc_trace_append(t, TC_OP_FULL, type, id - 1, 0, NULL, 0, NULL, 1, &bits, device);
}

static tc_node full_bits(tc_trace *t, const tc_dims *shape, tc_type type, uint64_t bits, tc_device device) {
  if (t->op_status != TC_OK || !good_type(t, type)) return TC_NODE_ERR;
  uint32_t id = intern(t, shape);
  return id == TC_SHAPE_NONE ? TC_NODE_ERR : tc_trace_append(t, TC_OP_FULL, type, id, 0, NULL, 0, NULL, 1, &bits, device);
}

tc_node tc_rec_full(tc_trace *t, const tc_dims *shape, tc_type type, double value) {
  if (t->op_status != TC_OK || !good_type(t, type) || !good_number(t, type, value)) return TC_NODE_ERR;
  return full_bits(t, shape, type, number_bits(type, value), tc_trace_device(t));
}

tc_node tc_rec_full_int(tc_trace *t, const tc_dims *shape, tc_type type, int64_t value) {
  if (t->op_status != TC_OK || !good_type(t, type)) return TC_NODE_ERR;
  if (type != TC_I64 && !good_number(t, type, (double)value)) return TC_NODE_ERR;
  uint64_t bits = tc_type_is_float(type) ? float_bits((double)value) : type == TC_BOOL ? value != 0 : (uint64_t)value;
  return full_bits(t, shape, type, bits, tc_trace_device(t));
}

tc_node tc_rec_number(tc_trace *t, tc_node n, double value) {
  return ok(t, n) && good_number(t, type_of(t, n), value) ? tc_rec_const(t, n, value) : TC_NODE_ERR;
}

tc_node tc_rec_const(tc_trace *t, tc_node n, double value) {
  if (!ok(t, n)) return TC_NODE_ERR;
  return scalar_bits(t, type_of(t, n), number_bits(type_of(t, n), value), (tc_device)t->dev[n]);
}

tc_node tc_rec_iota(tc_trace *t, const tc_dims *shape, tc_type type, double start, double step) {
  if (t->op_status != TC_OK || !good_type(t, type)) return TC_NODE_ERR;
  if (type == TC_BOOL) return tc_rec_fail(t, TC_ERR_DTYPE, "a range of bool");
  uint64_t arg[2] = {number_bits(type, start), number_bits(type, step)};
  uint32_t id = intern(t, shape);
  return id == TC_SHAPE_NONE ? TC_NODE_ERR : tc_trace_append(t, TC_OP_IOTA, type, id, 0, NULL, 0, NULL, 2, arg, tc_trace_device(t));
}

// Each thread's stream is the seed's with the stream's number in the counter's top bits, so that draws of threads never meet.
tc_node tc_rec_rng(tc_trace *t, tc_op op, const tc_dims *shape, tc_type type, int64_t low, int64_t high) {
  if (t->op_status != TC_OK || !good_type(t, type)) return TC_NODE_ERR;
  bool floats = op == TC_OP_RAND || op == TC_OP_RANDN;
  if (floats != tc_type_is_float(type)) return tc_rec_fail(t, TC_ERR_DTYPE, "%s cannot be drawn here", tc_type_name(type));
  if (op == TC_OP_RANDINT && (high <= low || (uint64_t)high - (uint64_t)low > UINT64_C(0x100000000)))
    return tc_rec_fail(t, TC_ERR_ARG, "low %lld and high %lld span nothing or more than 2^32", (long long)low, (long long)high);
  int64_t least, most;
  tc_type_range(type, &least, &most);
  if (op == TC_OP_RANDINT && (low < least || high - 1 > most))
    return tc_rec_fail(t, TC_ERR_ARG, "%lld to %lld leaves the range of %s", (long long)low, (long long)high - 1, tc_type_name(type));
  uint64_t arg[4] = {t->seed, t->counter++ | t->stream << 40, (uint64_t)low, (uint64_t)high};
  uint32_t id = intern(t, shape);
  if (id == TC_SHAPE_NONE) return TC_NODE_ERR;
  return tc_trace_append(t, op, type, id, 0, NULL, 0, NULL, op == TC_OP_RANDINT ? 4 : 2, arg, tc_trace_device(t));
}

// ---- elementwise ----

tc_node tc_rec_cast(tc_trace *t, tc_node a, tc_type type) {
  if (!ok(t, a) || !good_type(t, type)) return TC_NODE_ERR;
  return type_of(t, a) == type ? a : tc_trace_append_plain(t, TC_OP_CAST, type, shape_of(t, a), false, a, 0);
}

tc_node tc_rec_unary(tc_trace *t, tc_op op, tc_node a) {
  if (!ok(t, a)) return TC_NODE_ERR;
  tc_type type = type_of(t, a), out = type;
  dtype_rule rule = (dtype_rule)rule_of[op];
  if (rule == RULE_floating && kind_of[type] != KIND_FLOAT) a = tc_rec_cast(t, a, out = TC_F32);
  if (rule == RULE_boolean) out = TC_BOOL;
  if (rule == RULE_integral && kind_of[type] == KIND_FLOAT) return tc_rec_fail(t, TC_ERR_DTYPE, "%s is not an integer type", tc_type_name(type));
  if (type == TC_BOOL && op == TC_OP_SIGN) return a;
  if (type == TC_BOOL && op == TC_OP_SQUARE) a = tc_rec_cast(t, a, out = TC_I64);  // a power with a number, whose type is i64
  if (type == TC_BOOL && (op == TC_OP_NEG || op == TC_OP_RELU)) return tc_rec_fail(t, TC_ERR_DTYPE, "bool has no %s; cast it first", tc_op_names[op]);
  if (!ok(t, a)) return TC_NODE_ERR;
  return tc_trace_append_plain(t, op, out, shape_of(t, a), false, a, 0);
}

tc_node tc_rec_polygamma(tc_trace *t, int64_t n, tc_node a) {
  if (!ok(t, a)) return TC_NODE_ERR;
  if (n < 0) return tc_rec_fail(t, TC_ERR_ARG, "n is %lld, and may not be negative", (long long)n);
  if (kind_of[type_of(t, a)] != KIND_FLOAT) a = tc_rec_cast(t, a, TC_F32);
  uint64_t attr = (uint64_t)n;
  return !ok(t, a) ? TC_NODE_ERR : append(t, TC_OP_POLYGAMMA, type_of(t, a), shape_of(t, a), 1, &a, 1, &attr, 0, NULL);
}

// PyTorch's rule within one category: the wider; u8 with a signed type takes the next wider signed one; f16 with bf16 is f32.
static tc_type promote_types(tc_type a, tc_type b) {
  if (a == b) return a;
  tc_type lo = TC_MIN(a, b), hi = TC_MAX_OF(a, b);
  if (lo == TC_U8 && hi == TC_I8) return TC_I16;
  if (lo == TC_F16 && hi == TC_BF16) return TC_F32;
  return hi;
}

// Operands of rank 0 only decide when their kind is higher, as in PyTorch.
static tc_type promote(const tc_trace *t, tc_node a, tc_node b) {
  tc_type ta = type_of(t, a), tb = type_of(t, b);
  if (TC_LIKELY(ta == tb)) return ta;
  bool sa = tc_node_dims(t, a)->rank == 0, sb = tc_node_dims(t, b)->rank == 0;
  if (sa == sb) return promote_types(ta, tb);
  tc_type tensor = sa ? tb : ta, scalar = sa ? ta : tb;
  return kind_of[scalar] > kind_of[tensor] ? scalar : tensor;
}

// The shape two broadcast to; TC_SHAPE_NONE after reporting.
static uint32_t broadcast(tc_trace *t, uint32_t sa, uint32_t sb) {
  if (TC_LIKELY(sa == sb)) return sa;
  const tc_dims *a = &tc_dims_at(sa)->d, *b = &tc_dims_at(sb)->d;
  if (a->rank == 0 || b->rank == 0) return a->rank == 0 ? sb : sa;
  tc_dims out = {.rank = TC_MAX_OF(a->rank, b->rank)};
  for (int i = 0; i < out.rank; i++) {
    int ia = i - (out.rank - a->rank), ib = i - (out.rank - b->rank);
    int64_t da = ia < 0 ? 1 : a->dim[ia], db = ib < 0 ? 1 : b->dim[ib];
    if (da != db && da != 1 && db != 1) {
      char ta[128], tb[128];
      tc_rec_fail(t, TC_ERR_SHAPE, "shapes %s and %s do not broadcast: axis %d is %lld and %lld", tc_dims_text(a, ta, sizeof ta),
                  tc_dims_text(b, tb, sizeof tb), i, (long long)da, (long long)db);
      return TC_SHAPE_NONE;
    }
    out.dim[i] = da == 1 ? db : da;
  }
  return intern(t, &out);
}

static bool is_arithmetic_on_bool_refused(tc_op op) {
  return op == TC_OP_SUB;
}

// Ops whose results are floating whatever their operands are.
static bool is_real(tc_op op) {
  return op == TC_OP_DIV || op == TC_OP_ATAN2;
}

tc_node tc_rec_binary(tc_trace *t, tc_op op, tc_node a, tc_node b) {
  if (!ok(t, a) || !ok(t, b)) return TC_NODE_ERR;
  tc_type type = promote(t, a, b);
  if (op == TC_OP_LOGICAL_AND || op == TC_OP_LOGICAL_OR || op == TC_OP_LOGICAL_XOR) type = TC_BOOL;
  if (is_real(op) && kind_of[type] != KIND_FLOAT) type = TC_F32;
  if (op >= TC_OP_BITWISE_AND && op <= TC_OP_SHIFT_RIGHT && kind_of[type] == KIND_FLOAT)
    return tc_rec_fail(t, TC_ERR_DTYPE, "%s is not an integer type", tc_type_name(type));
  if (type == TC_BOOL && is_arithmetic_on_bool_refused(op)) return tc_rec_fail(t, TC_ERR_DTYPE, "bool has no %s; use logical_xor", tc_op_names[op]);
  uint32_t shape = broadcast(t, shape_of(t, a), shape_of(t, b));
  if (type_of(t, a) != type) a = tc_rec_cast(t, a, type);
  if (type_of(t, b) != type) b = tc_rec_cast(t, b, type);
  tc_device device;
  if (shape == TC_SHAPE_NONE || !ok(t, a) || !ok(t, b) || !same_device(t, 2, (tc_node[]){a, b}, &device)) return TC_NODE_ERR;
  return tc_trace_append_plain(t, op, rule_of[op] == RULE_compare ? TC_BOOL : type, shape, true, a, b);
}

tc_node tc_rec_num(tc_trace *t, tc_op op, tc_node a, tc_num b) {
  if (!ok(t, a)) return TC_NODE_ERR;
  tc_type type = type_of(t, a);
  if ((!b.is_int || is_real(op)) && kind_of[type] != KIND_FLOAT) type = TC_F32;  // before the number is put into the tensor's type
  if (b.is_int && type == TC_BOOL) type = TC_I64;
  tc_node n = scalar_bits(t, type, kind_of[type] == KIND_FLOAT ? float_bits(b.f) : (uint64_t)b.i, (tc_device)t->dev[a]);
  return tc_rec_binary(t, op, tc_rec_cast(t, a, type), n);
}

tc_node tc_rec_where(tc_trace *t, tc_node cond, tc_node a, tc_node b) {
  if (!ok(t, cond) || !ok(t, a) || !ok(t, b)) return TC_NODE_ERR;
  if (type_of(t, cond) != TC_BOOL) return tc_rec_fail(t, TC_ERR_DTYPE, "the condition is %s; bool was expected", tc_type_name(type_of(t, cond)));
  tc_type type = promote(t, a, b);
  a = tc_rec_cast(t, a, type);
  b = tc_rec_cast(t, b, type);
  if (!ok(t, cond) || !ok(t, a) || !ok(t, b)) return TC_NODE_ERR;
  uint32_t shape = broadcast(t, shape_of(t, a), shape_of(t, b));
  if (shape != TC_SHAPE_NONE) shape = broadcast(t, shape_of(t, cond), shape);
  return shape == TC_SHAPE_NONE ? TC_NODE_ERR : append(t, TC_OP_WHERE, type, shape, 3, (tc_node[]){cond, a, b}, 0, NULL, 0, NULL);
}

// ---- movement ----

tc_node tc_rec_reshape(tc_trace *t, tc_node a, const tc_dims *shape) {
  if (!ok(t, a)) return TC_NODE_ERR;
  tc_dims d = *shape;
  int64_t have = tc_dims_at(shape_of(t, a))->count, known = 1;
  int free_axis = -1;
  bool good = d.rank >= 0 && d.rank <= TC_MAX_RANK;
  for (int i = 0; good && i < d.rank; i++) {
    if (d.dim[i] == -1 && free_axis < 0)
      free_axis = i;
    else
      good = d.dim[i] >= 0 && !__builtin_mul_overflow(known, d.dim[i], &known);
  }
  if (good && free_axis >= 0) {
    good = known != 0 && have % known == 0;
    if (good) d.dim[free_axis] = have / known, known = have;
  }
  if (!good || known != have) {
    char from[128], to[128] = "";
    if (d.rank >= 0 && d.rank <= TC_MAX_RANK) tc_dims_text(shape, to, sizeof to);
    return tc_rec_fail(t, TC_ERR_SHAPE, "%s cannot become %s", tc_dims_text(tc_node_dims(t, a), from, sizeof from), to);
  }
  if (tc_dims_equal(&d, tc_node_dims(t, a))) return a;
  return append_dims(t, TC_OP_RESHAPE, type_of(t, a), &d, a, 0, NULL);
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
  return same ? a : append_dims(t, TC_OP_PERMUTE, type_of(t, a), &out, a, 1, &perm);
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
  return tc_dims_equal(&d, in) ? a : append_dims(t, TC_OP_EXPAND, type_of(t, a), &d, a, 0, NULL);
}

// Whether start + i * step stays within extent for all i < n.
static bool within(int64_t extent, int64_t start, int64_t step, int64_t n) {
  int64_t last;
  if (n == 0) return true;
  if (__builtin_mul_overflow(step, n - 1, &last) || __builtin_add_overflow(last, start, &last)) return false;
  return start >= 0 && start < extent && last >= 0 && last < extent;
}

// Steps and starts as words, after checking that every index lies within d; false after reporting.
static bool slice_words(tc_trace *t, const tc_dims *d, const int64_t *start, const int64_t *step, const tc_dims *out, uint64_t *attr, uint64_t *arg) {
  if (out->rank != d->rank) return tc_rec_fail(t, TC_ERR_SHAPE, "a slice of rank %d from rank %d", (int)out->rank, (int)d->rank), false;
  for (int i = 0; i < d->rank; i++) {
    if (step[i] == 0) return tc_rec_fail(t, TC_ERR_ARG, "the step of axis %d is 0", i), false;
    if (out->dim[i] < 0 || !within(d->dim[i], start[i], step[i], out->dim[i]))
      return tc_rec_fail(t, TC_ERR_SHAPE, "axis %d: %lld elements from %lld by %lld leave the extent %lld", i, (long long)out->dim[i],
                         (long long)start[i], (long long)step[i], (long long)d->dim[i]),
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
  return append(t, TC_OP_SLICE, type_of(t, a), intern(t, out), 1, &a, d->rank, attr, d->rank, arg);
}

tc_node tc_rec_write_slice(tc_trace *t, tc_node old, tc_node value, const int64_t *start, const int64_t *step) {
  if (!ok(t, old) || !ok(t, value)) return TC_NODE_ERR;
  const tc_dims *d = tc_node_dims(t, old);
  uint64_t attr[TC_MAX_RANK], arg[TC_MAX_RANK];
  if (!slice_words(t, d, start, step, tc_node_dims(t, value), attr, arg)) return TC_NODE_ERR;
  value = tc_rec_cast(t, value, type_of(t, old));
  if (!ok(t, value)) return TC_NODE_ERR;
  return append(t, TC_OP_WRITE_SLICE, type_of(t, old), shape_of(t, old), 2, (tc_node[]){old, value}, d->rank, attr, d->rank, arg);
}

tc_node tc_rec_flip(tc_trace *t, tc_node a, uint32_t axes_mask) {
  if (!ok(t, a)) return TC_NODE_ERR;
  uint64_t attr = axes_mask;
  return axes_mask == 0 ? a : append(t, TC_OP_FLIP, type_of(t, a), shape_of(t, a), 1, &a, 1, &attr, 0, NULL);
}

tc_node tc_rec_pad(tc_trace *t, tc_node a, const int64_t *low, const int64_t *high, double value) {
  if (!ok(t, a)) return TC_NODE_ERR;
  tc_dims d = *tc_node_dims(t, a);
  uint64_t attr[2 * TC_MAX_RANK], arg = number_bits(type_of(t, a), value);
  if (!good_number(t, type_of(t, a), value)) return TC_NODE_ERR;
  for (int i = 0; i < d.rank; i++) {
    if (low[i] < 0 || high[i] < 0) return tc_rec_fail(t, TC_ERR_ARG, "axis %d is padded by %lld and %lld", i, (long long)low[i], (long long)high[i]);
    attr[i] = (uint64_t)low[i];
    attr[d.rank + i] = (uint64_t)high[i];
    if (__builtin_add_overflow(d.dim[i], low[i], &d.dim[i]) || __builtin_add_overflow(d.dim[i], high[i], &d.dim[i]))
      return tc_rec_fail(t, TC_ERR_SHAPE, "the padding of axis %d overflows", i);
  }
  return append(t, TC_OP_PAD, type_of(t, a), intern(t, &d), 1, &a, 2 * d.rank, attr, 1, &arg);
}

// How many windows an axis holds; 0 after reporting.
static int64_t window_count(tc_trace *t, int64_t length, int64_t size, int64_t step, int64_t dilation) {
  int64_t reach;
  if (size < 1 || step < 1 || dilation < 1)
    return tc_rec_fail(t, TC_ERR_ARG, "windows have size %lld, step %lld and dilation %lld; each is at least 1", (long long)size, (long long)step,
                       (long long)dilation),
           0;
  if (__builtin_mul_overflow(dilation, size - 1, &reach) || reach >= length)
    return tc_rec_fail(t, TC_ERR_SHAPE, "a window of size %lld and dilation %lld does not fit an extent of %lld", (long long)size,
                       (long long)dilation, (long long)length),
           0;
  return (length - reach - 1) / step + 1;
}

// Windows that tile the axis, perhaps but for its end.
static tc_node tiles(tc_trace *t, tc_node a, int axis, int64_t n, int64_t size) {
  static const int64_t zeros[TC_MAX_RANK], ones[TC_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
  tc_dims d = *tc_node_dims(t, a), split = {.rank = d.rank + 1}, axes = {.rank = d.rank + 1};
  if (d.dim[axis] != n * size) {
    d.dim[axis] = n * size;
    a = tc_rec_slice(t, a, zeros, ones, &d);
  }
  for (int i = 0; i <= d.rank; i++) split.dim[i] = i < axis ? d.dim[i] : i == axis ? n : i == axis + 1 ? size : d.dim[i - 1];
  for (int i = 0; i < d.rank; i++) axes.dim[i] = i <= axis ? i : i + 1;
  axes.dim[d.rank] = axis + 1;
  return tc_rec_permute(t, tc_rec_reshape(t, a, &split), &axes);
}

tc_node tc_rec_window(tc_trace *t, tc_node a, int axis, int64_t size, int64_t step, int64_t dilation) {
  if ((axis = tc_rec_axis(t, a, axis, 0)) < 0) return TC_NODE_ERR;
  tc_dims d = *tc_node_dims(t, a);
  if (d.rank == TC_MAX_RANK) return tc_rec_fail(t, TC_ERR_SHAPE, "the result would have rank %d, the limit is %d", d.rank + 1, TC_MAX_RANK);
  int64_t n = window_count(t, d.dim[axis], size, step, dilation);
  if (n == 0) return TC_NODE_ERR;
  if (step == size && dilation == 1) return tiles(t, a, axis, n, size);
  uint64_t attr[4] = {(uint64_t)axis, (uint64_t)size, (uint64_t)step, (uint64_t)dilation};
  d.dim[axis] = n, d.dim[d.rank++] = size;
  return append_dims(t, TC_OP_WINDOW, type_of(t, a), &d, a, 4, attr);
}

tc_node tc_rec_unwindow(tc_trace *t, tc_node a, int axis, int64_t length, int64_t step, int64_t dilation) {
  if (!ok(t, a)) return TC_NODE_ERR;
  tc_dims d = *tc_node_dims(t, a);
  int64_t size = d.rank > 0 ? d.dim[--d.rank] : 0;
  if (axis < 0 || axis >= d.rank) return tc_rec_fail(t, TC_ERR_ARG, "axis %d is out of range for rank %d", axis, d.rank);
  int64_t n = window_count(t, length, size, step, dilation);
  if (n == 0) return TC_NODE_ERR;
  if (n != d.dim[axis]) return tc_rec_fail(t, TC_ERR_SHAPE, "%lld windows where %lld fit", (long long)d.dim[axis], (long long)n);
  uint64_t attr[4] = {(uint64_t)axis, (uint64_t)size, (uint64_t)step, (uint64_t)dilation};
  d.dim[axis] = length;
  return append_dims(t, TC_OP_UNWINDOW, type_of(t, a), &d, a, 4, attr);
}

#define MOST_JOINED 256  // operands of one record

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
  return append(t, TC_OP_CAT, type, intern(t, &out), n_parts, in, 1, &attr, 0, NULL);
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
      return tc_rec_fail(t, TC_ERR_SHAPE, "%s and %s differ off axis %d", tc_dims_text(a, ta, sizeof ta), tc_dims_text(b, tb, sizeof tb), axis);
    }
    type = promote_types(type, type_of(t, xs[i]));
  }
  return cat_some(t, n, xs, axis, type);
}

tc_node tc_rec_pool(tc_trace *t, tc_node y, tc_node a, int n_attr, const uint64_t *attr) {
  if (!ok(t, y) || !ok(t, a)) return TC_NODE_ERR;
  return append(t, TC_OP_POOL, type_of(t, y), shape_of(t, y), 2, (tc_node[]){y, a}, n_attr, attr, 0, NULL);
}

tc_node tc_rec_detach(tc_trace *t, tc_node a) {
  if (!ok(t, a)) return TC_NODE_ERR;
  tc_node n = append(t, TC_OP_DETACH, type_of(t, a), shape_of(t, a), 1, &a, 0, NULL, 0, NULL);
  if (n != TC_NODE_ERR) t->flag[n] &= (uint8_t)~TC_NODE_TAPE;
  return n;
}

// ---- folds, scans, products, indices ----

tc_node tc_rec_fold(tc_trace *t, tc_op op, tc_node a, uint32_t axes_mask, bool keepdim) {
  if (!ok(t, a)) return TC_NODE_ERR;
  const tc_dims *d = tc_node_dims(t, a);
  tc_type type = type_of(t, a), out = type;
  if (rule_of[op] == RULE_boolean && type != TC_BOOL) {
    a = tc_rec_cast(t, a, TC_BOOL);
  } else if (rule_of[op] == RULE_sum && kind_of[type] != KIND_FLOAT) {
    a = tc_rec_cast(t, a, out = TC_I64);
  }
  if (rule_of[op] == RULE_boolean) out = TC_BOOL;
  if (rule_of[op] == RULE_index) out = TC_I64;
  tc_dims shape = {0};
  bool empty = false;
  for (int i = 0; i < d->rank; i++) {
    bool folded = axes_mask >> i & 1;
    if (folded) empty |= d->dim[i] == 0;
    if (!folded || keepdim) shape.dim[shape.rank++] = folded ? 1 : d->dim[i];
  }
  if (empty && (op == TC_OP_MAX || op == TC_OP_MIN || op == TC_OP_ARGMAX || op == TC_OP_ARGMIN) && tc_dims_count(&shape) > 0)
    return tc_rec_fail(t, TC_ERR_SHAPE, "%s over no elements", tc_op_names[op]);
  if (!ok(t, a)) return TC_NODE_ERR;
  uint64_t attr = axes_mask | (uint64_t)keepdim << 8;
  return append_dims(t, op, out, &shape, a, 1, &attr);
}

tc_node tc_rec_scan(tc_trace *t, tc_op op, tc_node a, int axis) {
  if ((axis = tc_rec_axis(t, a, axis, 0)) < 0) return TC_NODE_ERR;
  if (rule_of[op] == RULE_sum && !tc_type_is_float(type_of(t, a))) a = tc_rec_cast(t, a, TC_I64);
  if (rule_of[op] == RULE_floating && !tc_type_is_float(type_of(t, a))) a = tc_rec_cast(t, a, TC_F32);
  uint64_t attr = (uint64_t)axis;
  return !ok(t, a) ? TC_NODE_ERR : append(t, op, type_of(t, a), shape_of(t, a), 1, &a, 1, &attr, 0, NULL);
}

// Positions are kept in 32 bits while they are sorted (kernels/ref/sort.c).
static bool can_be_sorted(tc_trace *t, tc_node a, int axis) {
  int64_t n = tc_node_dims(t, a)->dim[axis];
  if (n <= UINT32_MAX) return true;
  return tc_rec_fail(t, TC_ERR_SHAPE, "axis %d has %lld elements; %lld can be sorted", axis, (long long)n, (long long)UINT32_MAX), false;
}

tc_node tc_rec_argsort(tc_trace *t, tc_node a, int axis, bool descending) {
  if ((axis = tc_rec_axis(t, a, axis, 0)) < 0 || !can_be_sorted(t, a, axis)) return TC_NODE_ERR;
  uint64_t attr[2] = {(uint64_t)axis, descending};
  return append(t, TC_OP_ARGSORT, TC_I64, shape_of(t, a), 1, &a, 2, attr, 0, NULL);
}

tc_node tc_rec_argtopk(tc_trace *t, tc_node a, int64_t k, int axis, bool descending) {
  if ((axis = tc_rec_axis(t, a, axis, 0)) < 0 || !can_be_sorted(t, a, axis)) return TC_NODE_ERR;
  tc_dims d = *tc_node_dims(t, a);
  if (k < 0 || k > d.dim[axis]) return tc_rec_fail(t, TC_ERR_ARG, "k is %lld; axis %d has %lld elements", (long long)k, axis, (long long)d.dim[axis]);
  uint64_t attr[2] = {(uint64_t)axis, descending};
  d.dim[axis] = k;
  return append_dims(t, TC_OP_ARGTOPK, TC_I64, &d, a, 2, attr);
}

tc_node tc_rec_searchsorted(tc_trace *t, tc_node sorted, tc_node values, bool right) {
  if (!ok(t, sorted) || !ok(t, values)) return TC_NODE_ERR;
  const tc_dims *ds = tc_node_dims(t, sorted), *dv = tc_node_dims(t, values);
  bool fits = ds->rank == 1 || (ds->rank > 1 && ds->rank == dv->rank);
  for (int i = 0; fits && i < ds->rank - 1; i++) fits = ds->dim[i] == dv->dim[i];
  if (!fits) {
    char ts[128], tv[128];
    return tc_rec_fail(t, TC_ERR_SHAPE, "sorted is %s, values are %s; [n], or [.., n] and [.., m], is needed", tc_dims_text(ds, ts, sizeof ts),
                       tc_dims_text(dv, tv, sizeof tv));
  }
  tc_type type = promote_types(type_of(t, sorted), type_of(t, values));
  sorted = tc_rec_cast(t, sorted, type), values = tc_rec_cast(t, values, type);
  uint64_t attr = right;
  if (!ok(t, sorted) || !ok(t, values)) return TC_NODE_ERR;
  return append(t, TC_OP_SEARCHSORTED, TC_I64, shape_of(t, values), 2, (tc_node[]){sorted, values}, 1, &attr, 0, NULL);
}

tc_node tc_rec_softmax(tc_trace *t, tc_op op, tc_node a, int axis) {
  if ((axis = tc_rec_axis(t, a, axis, 0)) < 0) return TC_NODE_ERR;
  if (!tc_type_is_float(type_of(t, a))) a = tc_rec_cast(t, a, TC_F32);
  uint64_t attr = (uint64_t)axis;
  return !ok(t, a) ? TC_NODE_ERR : append(t, op, type_of(t, a), shape_of(t, a), 1, &a, 1, &attr, 0, NULL);
}

static tc_node with_batch(tc_trace *t, tc_node a, const tc_dims *batch, int64_t rows, int64_t cols) {
  tc_dims d = *batch;
  d.dim[d.rank++] = rows;
  d.dim[d.rank++] = cols;
  return tc_rec_expand(t, a, &d);
}

// a [.., m, k] @ b [k, n], of one type: one product of all rows, which is also one product for b's gradient.
static tc_node matmul_rows(tc_trace *t, tc_node a, tc_node b, const tc_dims *da, bool vec_b) {
  int64_t rows = 1, k = da->dim[da->rank - 1];
  for (int i = 0; i < da->rank - 1; i++) rows *= da->dim[i];
  a = tc_rec_reshape(t, a, &(tc_dims){2, {rows, k}});
  tc_node y = tc_rec_matmul(t, a, b);
  if (!ok(t, y)) return TC_NODE_ERR;
  tc_dims out = *da;
  out.dim[out.rank - 1] = tc_node_dims(t, y)->dim[1];
  out.rank -= vec_b;
  return tc_rec_reshape(t, y, &out);
}

// Whether they are matrices as the product takes them.
static bool are_factors(const tc_trace *t, tc_node a, tc_node b) {
  const tc_dims *da = tc_node_dims(t, a), *db = tc_node_dims(t, b);
  return da->rank == 2 && db->rank == 2 && da->dim[1] == db->dim[0] && type_of(t, a) == type_of(t, b) && type_of(t, a) != TC_BOOL;
}

// NumPy's rule: rank 1 gains an axis that the result loses; leading axes broadcast.
tc_node tc_rec_matmul(tc_trace *t, tc_node a, tc_node b) {
  if (!ok(t, a) || !ok(t, b)) return TC_NODE_ERR;
  if (TC_LIKELY(are_factors(t, a, b))) {
    tc_dims d = {2, {tc_node_dims(t, a)->dim[0], tc_node_dims(t, b)->dim[1]}};
    return append(t, TC_OP_MATMUL, type_of(t, a), intern(t, &d), 2, (tc_node[]){a, b}, 0, NULL, 0, NULL);
  }
  tc_dims da = *tc_node_dims(t, a), db = *tc_node_dims(t, b);
  char ta[128], tb[128];
  if (da.rank == 0 || db.rank == 0) return tc_rec_fail(t, TC_ERR_SHAPE, "an operand has rank 0");
  bool vec_a = da.rank == 1, vec_b = db.rank == 1;
  int64_t m = vec_a ? 1 : da.dim[da.rank - 2], k = da.dim[da.rank - 1], kb = vec_b ? db.dim[0] : db.dim[db.rank - 2],
          n = vec_b ? 1 : db.dim[db.rank - 1];
  if (k != kb)
    return tc_rec_fail(t, TC_ERR_SHAPE, "%s @ %s: k is %lld and %lld", tc_dims_text(&da, ta, sizeof ta), tc_dims_text(&db, tb, sizeof tb),
                       (long long)k, (long long)kb);
  if (vec_a) a = tc_rec_reshape(t, a, &(tc_dims){2, {1, k}});
  if (vec_b) b = tc_rec_reshape(t, b, &(tc_dims){2, {k, 1}});
  tc_type type = ok(t, a) && ok(t, b) ? promote_types(type_of(t, a), type_of(t, b)) : TC_F32;
  if (type == TC_BOOL) return tc_rec_fail(t, TC_ERR_DTYPE, "bool has no matmul; cast it first");
  a = tc_rec_cast(t, a, type), b = tc_rec_cast(t, b, type);
  if (da.rank > 2 && db.rank <= 2) return matmul_rows(t, a, b, &da, vec_b);
  tc_dims ba = {.rank = vec_a ? 0 : da.rank - 2}, bb = {.rank = vec_b ? 0 : db.rank - 2};
  memcpy(ba.dim, da.dim, (size_t)ba.rank * sizeof ba.dim[0]);
  memcpy(bb.dim, db.dim, (size_t)bb.rank * sizeof bb.dim[0]);
  uint32_t ia = intern(t, &ba), ib = intern(t, &bb);
  if (ia == TC_SHAPE_NONE || ib == TC_SHAPE_NONE) return TC_NODE_ERR;
  uint32_t batch_id = broadcast(t, ia, ib);
  if (batch_id == TC_SHAPE_NONE) return TC_NODE_ERR;
  tc_dims batch = tc_dims_at(batch_id)->d, out = batch;
  a = with_batch(t, a, &batch, m, k), b = with_batch(t, b, &batch, k, n);
  if (!ok(t, a) || !ok(t, b)) return TC_NODE_ERR;
  out.dim[out.rank++] = m, out.dim[out.rank++] = n;
  tc_node y = append(t, TC_OP_MATMUL, type, intern(t, &out), 2, (tc_node[]){a, b}, 0, NULL, 0, NULL);
  if (!vec_a && !vec_b) return y;
  tc_dims shown = batch;
  if (!vec_a) shown.dim[shown.rank++] = m;
  if (!vec_b) shown.dim[shown.rank++] = n;
  return tc_rec_reshape(t, y, &shown);
}

tc_node tc_rec_conv(tc_trace *t, tc_op op, tc_node a, tc_node b, int n_attr, const uint64_t *attr, const tc_dims *out) {
  if (!ok(t, a) || !ok(t, b)) return TC_NODE_ERR;
  tc_type type = promote_types(type_of(t, a), type_of(t, b));
  if (type == TC_BOOL) return tc_rec_fail(t, TC_ERR_DTYPE, "bool has no convolution; cast it first");
  a = tc_rec_cast(t, a, type), b = tc_rec_cast(t, b, type);
  uint32_t shape = ok(t, a) && ok(t, b) ? intern(t, out) : TC_SHAPE_NONE;
  return shape == TC_SHAPE_NONE ? TC_NODE_ERR : append(t, op, type, shape, 2, (tc_node[]){a, b}, n_attr, attr, 0, NULL);
}

static bool good_index(tc_trace *t, tc_node index) {
  if (!ok(t, index)) return false;
  tc_type type = type_of(t, index);
  if (kind_of[type] == KIND_INT) return true;
  return tc_rec_fail(t, TC_ERR_DTYPE, "indices are %s; i32 or i64 was expected", tc_type_name(type)), false;
}

// Whether index fits in x off axis (equal: must be equal), as torch.gather and torch.scatter ask.
static bool index_fits(tc_trace *t, const tc_dims *x, const tc_dims *index, int axis) {
  bool fits = x->rank == index->rank;
  for (int i = 0; fits && i < x->rank; i++) fits = i == axis || index->dim[i] <= x->dim[i];
  if (fits) return true;
  char tx[128], ti[128];
  tc_rec_fail(t, TC_ERR_SHAPE, "indices %s do not fit in %s off axis %d", tc_dims_text(index, ti, sizeof ti), tc_dims_text(x, tx, sizeof tx), axis);
  return false;
}

tc_node tc_rec_gather(tc_trace *t, tc_node x, int axis, tc_node index) {
  if ((axis = tc_rec_axis(t, x, axis, 0)) < 0 || !good_index(t, index)) return TC_NODE_ERR;
  if (!index_fits(t, tc_node_dims(t, x), tc_node_dims(t, index), axis)) return TC_NODE_ERR;
  index = tc_rec_cast(t, index, TC_I64);
  uint64_t attr = (uint64_t)axis;
  return !ok(t, index) ? TC_NODE_ERR : append(t, TC_OP_GATHER, type_of(t, x), shape_of(t, index), 2, (tc_node[]){x, index}, 1, &attr, 0, NULL);
}

// x's shape with axis replaced by index's axes.
static bool selected_dims(tc_trace *t, tc_node x, int axis, tc_node index, tc_dims *out) {
  const tc_dims *d = tc_node_dims(t, x), *di = tc_node_dims(t, index);
  *out = (tc_dims){0};
  if (d->rank - 1 + di->rank > TC_MAX_RANK) return tc_rec_fail(t, TC_ERR_SHAPE, "the result's rank would be %d", d->rank - 1 + di->rank), false;
  for (int i = 0; i < axis; i++) out->dim[out->rank++] = d->dim[i];
  for (int i = 0; i < di->rank; i++) out->dim[out->rank++] = di->dim[i];
  for (int i = axis + 1; i < d->rank; i++) out->dim[out->rank++] = d->dim[i];
  return true;
}

tc_node tc_rec_index_select(tc_trace *t, tc_node x, int axis, tc_node index) {
  tc_dims out;
  if ((axis = tc_rec_axis(t, x, axis, 0)) < 0 || !good_index(t, index) || !selected_dims(t, x, axis, index, &out)) return TC_NODE_ERR;
  index = tc_rec_cast(t, index, TC_I64);
  uint64_t attr = (uint64_t)axis;
  return !ok(t, index) ? TC_NODE_ERR : append(t, TC_OP_INDEX_SELECT, type_of(t, x), intern(t, &out), 2, (tc_node[]){x, index}, 1, &attr, 0, NULL);
}

tc_node tc_rec_scatter(tc_trace *t, tc_op op, tc_node x, int axis, tc_node index, tc_node src) {
  if ((axis = tc_rec_axis(t, x, axis, 0)) < 0 || !good_index(t, index) || !ok(t, src)) return TC_NODE_ERR;
  tc_dims want = *tc_node_dims(t, index);
  if (op == TC_OP_INDEX_ADD) {
    if (!selected_dims(t, x, axis, index, &want)) return TC_NODE_ERR;
  } else if (!index_fits(t, tc_node_dims(t, x), &want, axis)) {
    return TC_NODE_ERR;
  }
  src = tc_rec_cast(t, src, type_of(t, x));
  if (src != TC_NODE_ERR && op != TC_OP_INDEX_ADD && tc_node_dims(t, src)->rank == want.rank) {  // more of src than indices: the first of it
    static const int64_t zeros[TC_MAX_RANK], ones[TC_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    tc_dims have = *tc_node_dims(t, src), part = have;
    for (int i = 0; i < want.rank; i++) part.dim[i] = TC_MIN(have.dim[i], want.dim[i]);
    if (!tc_dims_equal(&part, &have)) src = tc_rec_slice(t, src, zeros, ones, &part);
  }
  src = tc_rec_expand(t, src, &want);
  index = tc_rec_cast(t, index, TC_I64);
  uint64_t attr = (uint64_t)axis;
  if (!ok(t, src) || !ok(t, index)) return TC_NODE_ERR;
  return append(t, op, type_of(t, x), shape_of(t, x), 3, (tc_node[]){x, index, src}, 1, &attr, 0, NULL);
}

// ---- devices and data ----

tc_node tc_rec_data(tc_trace *t, const void *data, const tc_dims *shape, tc_type type) {
  tc_buffer *buf;
  if (t->op_status != TC_OK || !good_type(t, type)) return TC_NODE_ERR;
  uint32_t id = intern(t, shape);
  if (id == TC_SHAPE_NONE) return TC_NODE_ERR;
  size_t bytes = (size_t)tc_dims_at(id)->count * tc_type_bytes(type);
  if ((t->op_status = tc_buffer_create_on(tc_trace_device(t), bytes, &buf)) != TC_OK) return TC_NODE_ERR;
  if (bytes && (t->op_status = tc_buffer_write(buf, data, bytes)) != TC_OK) return tc_buffer_release(buf), TC_NODE_ERR;
  tc_node n = tc_trace_leaf(t, buf, type, id, tc_trace_device(t), 0);
  tc_buffer_release(buf);
  return n;
}
