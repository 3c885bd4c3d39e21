// The public ops that are one record: factories, elementwise ops, reductions, scans, indexing and
// products.
// Unary and binary functions come from the op table, so a new row needs a line in api.def and none
// here. Movement is in lazy/ops/ops_move.c, what takes several records in lazy/ops/compose.c. All
// checks happen in the recording primitives; nothing here computes.
// Threads: thread-compatible, each thread records its own trace.
#define TC_NO_SITES
#include "lazy/record/formula.h"
#include "lazy/record/op.h"

// ---- Factories ----

static tc_tensor full(const char *name, const tc_dims *shape, tc_type type, double value, tc_site site) {
  tc_trace *t = tc_op_begin(name, site);
  return tc_op_end(t, tc_rec_full(t, shape, type, value));
}

tc_tensor tc_zeros_at(tc_dims shape, tc_type type, tc_site site) {
  return full("zeros", &shape, type, 0.0, site);
}

tc_tensor tc_ones_at(tc_dims shape, tc_type type, tc_site site) {
  return full("ones", &shape, type, 1.0, site);
}

// Zeros: results may not depend on what a buffer held before, and a fill is fused away by whatever
// overwrites it.
tc_tensor tc_empty_at(tc_dims shape, tc_type type, tc_site site) {
  return full("empty", &shape, type, 0.0, site);
}

tc_tensor tc_full_at(tc_dims shape, double value, tc_type type, tc_site site) {
  return full("full", &shape, type, value, site);
}

tc_tensor tc_full_int_at(tc_dims shape, int64_t value, tc_type type, tc_site site) {
  tc_trace *t = tc_op_begin("full_int", site);
  return tc_op_end(t, tc_rec_full_int(t, &shape, type, value));
}

tc_tensor tc_scalar_at(double value, tc_site site) {
  tc_dims shape = TC_SCALAR;
  return full("scalar", &shape, TC_F32, value, site);
}

static tc_tensor full_like(const char *name, tc_tensor x, double value, tc_site site) {
  tc_trace *t = tc_op_begin(name, site);
  tc_node a = tc_op_in(t, x);
  if (a == TC_NODE_ERR) return tc_op_end(t, a);
  return tc_op_end(t, tc_rec_full(t, tc_node_dims(t, a), tc_node_type(t, a), value));
}

tc_tensor tc_zeros_like_at(tc_tensor x, tc_site site) {
  return full_like("zeros_like", x, 0.0, site);
}

tc_tensor tc_ones_like_at(tc_tensor x, tc_site site) {
  return full_like("ones_like", x, 1.0, site);
}

tc_tensor tc_full_like_at(tc_tensor x, double value, tc_site site) {
  return full_like("full_like", x, value, site);
}

tc_tensor tc_rand_at(tc_dims shape, tc_type type, tc_site site) {
  tc_trace *t = tc_op_begin("rand", site);
  return tc_op_end(t, tc_rec_rng(t, TC_OP_RAND, &shape, type, 0, 0));
}

tc_tensor tc_randn_at(tc_dims shape, tc_type type, tc_site site) {
  tc_trace *t = tc_op_begin("randn", site);
  return tc_op_end(t, tc_rec_rng(t, TC_OP_RANDN, &shape, type, 0, 0));
}

tc_tensor tc_randint_at(int64_t low, int64_t high, tc_dims shape, tc_type type, tc_site site) {
  tc_trace *t = tc_op_begin("randint", site);
  if (low >= high)
    return tc_op_end(
        t, tc_rec_fail(t, TC_ERR_ARG, "low must be less than high, got [%lld, %lld)", (long long)low, (long long)high));
  return tc_op_end(t, tc_rec_rng(t, TC_OP_RANDINT, &shape, type, low, high));
}

static tc_tensor random_like(const char *name, tc_op op, tc_tensor x, tc_site site) {
  tc_trace *t = tc_op_begin(name, site);
  tc_node a = tc_op_in(t, x);
  if (a == TC_NODE_ERR) return tc_op_end(t, a);
  return tc_op_end(t, tc_rec_rng(t, op, tc_node_dims(t, a), tc_node_type(t, a), 0, 0));
}

tc_tensor tc_rand_like_at(tc_tensor x, tc_site site) {
  return random_like("rand_like", TC_OP_RAND, x, site);
}

tc_tensor tc_randn_like_at(tc_tensor x, tc_site site) {
  return random_like("randn_like", TC_OP_RANDN, x, site);
}

// ---- Elementwise ----
// One function per ELEM row of arity 1 and 2; cast and polygamma (dtype "given") and where (arity
// 3) take more and follow.

static tc_tensor record_unary(const char *name, tc_op op, tc_tensor x, tc_site site) {
  tc_trace *t = tc_op_begin_inline(name, site);
  tc_node a = tc_op_in_inline(t, x, true);
  return tc_op_end_inline(t, tc_rec_unary(t, op, a));
}

static tc_tensor record_binary(const char *name, tc_op op, tc_tensor a, tc_tensor b, tc_site site) {
  tc_trace *t = tc_op_begin_inline(name, site);
  tc_node na = tc_op_in_inline(t, a, true), nb = tc_op_in_inline(t, b, true);
  tc_autocast_promote(t, &na, &nb);
  return tc_op_end_inline(t, tc_rec_binary(t, op, na, nb));
}

static tc_tensor record_num(const char *name, tc_op op, tc_tensor a, tc_num b, tc_site site) {
  tc_trace *t = tc_op_begin_inline(name, site);
  tc_node na = tc_op_in_inline(t, a, true);
  return tc_op_end_inline(t, tc_rec_num(t, op, na, b));
}

#define UNARY(NAME, name) \
  tc_tensor tc_##name##_at(tc_tensor x, tc_site site) { \
    return record_unary(#name, TC_OP_##NAME, x, site); \
  }
#define UNARY_same(NAME, name) UNARY(NAME, name)
#define UNARY_floating(NAME, name) UNARY(NAME, name)
#define UNARY_boolean(NAME, name) UNARY(NAME, name)
#define UNARY_integral(NAME, name) UNARY(NAME, name)
#define UNARY_number(NAME, name) UNARY(NAME, name)
#define UNARY_given(NAME, name)

#define BINARY(NAME, name) \
  tc_tensor tc_##name##_at(tc_tensor a, tc_tensor b, tc_site site) { \
    return record_binary(#name, TC_OP_##NAME, a, b, site); \
  }

#define ELEM_1(NAME, name, dtype) UNARY_##dtype(NAME, name)
#define ELEM_2(NAME, name, dtype) BINARY(NAME, name)
#define ELEM_3(NAME, name, dtype)

#define ROW_ELEM(NAME, name, arity, dtype) ELEM_##arity(NAME, name, dtype)
#define ROW_GEN(NAME, name, arity, dtype)
#define ROW_RNG(NAME, name, arity, dtype)
#define ROW_MOVE(NAME, name, arity, dtype)
#define ROW_FOLD(NAME, name, arity, dtype)
#define ROW_SCAN(NAME, name, arity, dtype)
#define ROW_CONTRACT(NAME, name, arity, dtype)
#define ROW_ATTENTION(NAME, name, arity, dtype)
#define ROW_INDEX(NAME, name, arity, dtype)
#define ROW_COMPOSED(NAME, name, arity, dtype)
#define ROW_CONTROL(NAME, name, arity, dtype)
#define ROW_EFFECT(NAME, name, arity, dtype)

#define TC_OP(NAME, name, kind, arity, dtype, vjp, saves, autocast, lower, reference, sample) \
  ROW_##kind(NAME, name, arity, dtype)
#include <tc/ops.def>
#undef TC_OP

#define NUMBER(NAME, name) \
  tc_tensor tc_##name##_num_at(tc_tensor a, tc_num b, tc_site site) { \
    return record_num(#name, TC_OP_##NAME, a, b, site); \
  }
NUMBER(ADD, add)
NUMBER(SUB, sub)
NUMBER(MUL, mul)
NUMBER(DIV, div)
NUMBER(POW, pow)
NUMBER(MAXIMUM, maximum)
NUMBER(MINIMUM, minimum)
NUMBER(FMOD, fmod)
NUMBER(REMAINDER, remainder)
NUMBER(FLOOR_DIVIDE, floor_divide)
NUMBER(EQ, eq)
NUMBER(NE, ne)
NUMBER(LT, lt)
NUMBER(LE, le)
NUMBER(GT, gt)
NUMBER(GE, ge)

// Swapped operands, for a number on the left: tc_rsub(a, b) is b - a.
#define TURNED(NAME, name) \
  tc_tensor tc_r##name##_at(tc_tensor a, tc_tensor b, tc_site site) { \
    tc_trace *t = tc_op_begin("r" #name, site); \
    tc_node na = tc_op_in(t, a), nb = tc_op_in(t, b); \
    return tc_op_end(t, tc_rec_binary(t, TC_OP_##NAME, nb, na)); \
  } \
  tc_tensor tc_r##name##_num_at(tc_tensor a, tc_num b, tc_site site) { \
    tc_trace *t = tc_op_begin("r" #name, site); \
    tc_node na = tc_op_in(t, a); \
    return tc_op_end(t, tc_rec_num_first(t, TC_OP_##NAME, b, na)); \
  }
TURNED(SUB, sub)
TURNED(DIV, div)
TURNED(POW, pow)

tc_tensor tc_cast_at(tc_tensor x, tc_type type, tc_site site) {
  tc_trace *t = tc_op_begin("cast", site);
  tc_node a = tc_op_in(t, x);
  return tc_op_end(t, tc_rec_cast(t, a, type));
}

static tc_tensor polygamma(const char *name, int64_t n, tc_tensor x, tc_site site) {
  tc_trace *t = tc_op_begin(name, site);
  return tc_op_end(t, tc_rec_polygamma(t, n, tc_op_in(t, x)));
}

tc_tensor tc_digamma_at(tc_tensor x, tc_site site) {
  return polygamma("digamma", 0, x, site);
}

tc_tensor tc_polygamma_at(int64_t n, tc_tensor x, tc_site site) {
  return polygamma("polygamma", n, x, site);
}

tc_tensor tc_where_at(tc_tensor cond, tc_tensor a, tc_tensor b, tc_site site) {
  tc_trace *t = tc_op_begin("where", site);
  tc_node nc = tc_op_in(t, cond), na = tc_op_in(t, a), nb = tc_op_in(t, b);
  return tc_op_end(t, tc_rec_where(t, nc, na, nb));
}

tc_tensor tc_where_tensor_num_at(tc_tensor cond, tc_tensor a, tc_num b, tc_site site) {
  tc_trace *t = tc_op_begin("where", site);
  tc_node nc = tc_op_in(t, cond), na = tc_op_in(t, a);
  return tc_op_end(t, tc_rec_where(t, nc, na, tc_rec_num_beside(t, b, na)));
}

tc_tensor tc_where_num_tensor_at(tc_tensor cond, tc_num a, tc_tensor b, tc_site site) {
  tc_trace *t = tc_op_begin("where", site);
  tc_node nc = tc_op_in(t, cond), nb = tc_op_in(t, b);
  return tc_op_end(t, tc_rec_where(t, nc, tc_rec_num_beside(t, a, nb), nb));
}

tc_tensor tc_where_num_num_at(tc_tensor cond, tc_num a, tc_num b, tc_site site) {
  tc_trace *t = tc_op_begin("where", site);
  tc_node nc = tc_op_in(t, cond);
  bool floating = !a.is_int || !b.is_int;
  return tc_op_end(t, tc_rec_where(t, nc, tc_rec_num_alone(t, a, floating, nc), tc_rec_num_alone(t, b, floating, nc)));
}

// ---- Reductions and scans ----

#define FOLD(NAME, name) \
  tc_tensor tc_##name##_at(tc_tensor x, tc_dims axes, bool keepdim, tc_site site) { \
    tc_trace *t = tc_op_begin(#name, site); \
    tc_node a = tc_op_in(t, x); \
    uint32_t mask; \
    if (a == TC_NODE_ERR || !tc_rec_axes(t, a, &axes, &mask)) return tc_op_end(t, TC_NODE_ERR); \
    return tc_op_end(t, tc_rec_fold(t, TC_OP_##NAME, a, mask, keepdim)); \
  }
FOLD(SUM, sum)
FOLD(PROD, prod)
FOLD(MIN, min)
FOLD(MAX, max)
FOLD(ANY, any)
FOLD(ALL, all)

tc_node tc_compose_row_of(tc_trace *t, tc_node a) {
  tc_dims row = TC_SHAPE(1);
  return a != TC_NODE_ERR && tc_node_dims(t, a)->rank == 0 ? tc_rec_reshape(t, a, &row) : a;
}

int tc_compose_axis(tc_trace *t, tc_node a, int axis, tc_node *out_row) {
  *out_row = tc_compose_row_of(t, a);
  if (*out_row == TC_NODE_ERR) return -1;
  return *out_row == a || axis == 0 || axis == -1 ? tc_rec_axis(t, *out_row, axis, 0) : tc_rec_axis(t, a, axis, 0);
}

tc_node tc_compose_like_row(tc_trace *t, tc_node a, tc_node row, tc_node result) {
  tc_dims scalar = TC_SCALAR;
  return a == row ? result : tc_rec_reshape(t, result, &scalar);
}

static tc_tensor arg_fold(const char *name, tc_op op, tc_tensor x, int axis, bool keepdim, tc_site site) {
  tc_trace *t = tc_op_begin(name, site);
  tc_node a = tc_op_in(t, x), row;
  int k = tc_compose_axis(t, a, axis, &row);
  return tc_op_end(
      t, k < 0 ? TC_NODE_ERR : tc_compose_like_row(t, a, row, tc_rec_fold(t, op, row, UINT32_C(1) << k, keepdim)));
}

tc_tensor tc_argmin_at(tc_tensor x, int axis, bool keepdim, tc_site site) {
  return arg_fold("argmin", TC_OP_ARGMIN, x, axis, keepdim, site);
}

tc_tensor tc_argmax_at(tc_tensor x, int axis, bool keepdim, tc_site site) {
  return arg_fold("argmax", TC_OP_ARGMAX, x, axis, keepdim, site);
}

// One operand and one axis: scans and softmaxes.
#define ALONG(NAME, name, record) \
  tc_tensor tc_##name##_at(tc_tensor x, int axis, tc_site site) { \
    tc_trace *t = tc_op_begin(#name, site); \
    tc_node a = tc_op_in(t, x), row; \
    int k = tc_compose_axis(t, a, axis, &row); \
    return tc_op_end(t, k < 0 ? TC_NODE_ERR : tc_compose_like_row(t, a, row, record(t, TC_OP_##NAME, row, k))); \
  }
ALONG(CUMSUM, cumsum, tc_rec_scan)
ALONG(CUMPROD, cumprod, tc_rec_scan)
ALONG(CUMMAX, cummax, tc_rec_scan)
ALONG(CUMMIN, cummin, tc_rec_scan)
ALONG(LOGCUMSUMEXP, logcumsumexp, tc_rec_scan)
ALONG(SOFTMAX, softmax, tc_rec_softmax)
ALONG(LOG_SOFTMAX, log_softmax, tc_rec_softmax)

// ---- By index ----

// If x has rank 0, then x, index and src are treated as tensors of one element and one axis.

tc_tensor tc_gather_at(tc_tensor x, int axis, tc_tensor index, tc_site site) {
  tc_trace *t = tc_op_begin("gather", site);
  tc_node a = tc_op_in(t, x), i = tc_op_in(t, index), row;
  int k = tc_compose_axis(t, a, axis, &row);
  tc_node at = row == a ? i : tc_compose_row_of(t, i);
  return tc_op_end(t, k < 0 ? TC_NODE_ERR : tc_compose_like_row(t, i, at, tc_rec_gather(t, row, k, at)));
}

tc_tensor tc_index_select_at(tc_tensor x, int axis, tc_tensor index, tc_site site) {
  tc_trace *t = tc_op_begin("index_select", site);
  tc_node a = tc_op_in(t, x), i = tc_op_in(t, index), row;
  int k = tc_compose_axis(t, a, axis, &row);
  if (k >= 0 && row != a && i != TC_NODE_ERR &&
      (tc_node_dims(t, i)->rank > 1 || tc_dims_count(tc_node_dims(t, i)) != 1))
    return tc_op_end(t, tc_rec_fail(t, TC_ERR_SHAPE, "x has rank 0; one index is needed"));
  return tc_op_end(t, k < 0 ? TC_NODE_ERR : tc_compose_like_row(t, a, row, tc_rec_index_select(t, row, k, i)));
}

// src is not cast, as in PyTorch: a cast would silently lose what x's type cannot hold.
static tc_node source_in(tc_trace *t, tc_tensor src, tc_node *x) {
  tc_node s = tc_op_in(t, src);
  tc_autocast_promote(t, x, &s);
  if (*x == TC_NODE_ERR || s == TC_NODE_ERR || tc_node_type(t, s) == tc_node_type(t, *x)) return s;
  return tc_rec_fail(t, TC_ERR_DTYPE, "x is %s, src is %s; one type was expected, cast src first",
                     tc_type_name(tc_node_type(t, *x)), tc_type_name(tc_node_type(t, s)));
}

#define SCATTER(NAME, name) \
  tc_tensor tc_##name##_at(tc_tensor x, int axis, tc_tensor index, tc_tensor src, tc_site site) { \
    tc_trace *t = tc_op_begin(#name, site); \
    tc_node a = tc_op_in(t, x), i = tc_op_in(t, index), s = source_in(t, src, &a), row; \
    int k = tc_compose_axis(t, a, axis, &row); \
    if (row != a) i = tc_compose_row_of(t, i), s = tc_compose_row_of(t, s); \
    return tc_op_end( \
        t, k < 0 ? TC_NODE_ERR : tc_compose_like_row(t, a, row, tc_rec_scatter(t, TC_OP_##NAME, row, k, i, s))); \
  }
SCATTER(SCATTER, scatter)
SCATTER(SCATTER_ADD, scatter_add)
SCATTER(INDEX_ADD, index_add)

// ---- Products ----

tc_tensor tc_matmul_at(tc_tensor a, tc_tensor b, tc_site site) {
  tc_trace *t = tc_op_begin("matmul", site);
  tc_node na = tc_op_in(t, a), nb = tc_op_in(t, b);
  return tc_op_end(t, tc_rec_matmul(t, na, nb));
}
