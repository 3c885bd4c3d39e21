// The public product: checks a call and hands it to gemm.c. See tc/blas.h.
// Row-major matrices are column-major ones of the transposed product: c' = b' a'. So the operands
// change places, and what follows knows columns alone.
// Threads: thread-safe, pure.
#include <tc/blas.h>

#include "kernels/blas/gemm.h"
#include "runtime/status.h"

#define FAIL(...) tc_fail(TC_ERR_ARG, "gemm", 0, __VA_ARGS__)

// A matrix of a call, as columns of unit stride.
typedef struct operand {
  const char *name;
  const void *at;
  const void *const *list;  // NULL: the products of a batch are `stride` elements apart
  int64_t rows, cols, ld, stride;
  int bytes;  // of an element
} operand;

// The bytes of an operand over a whole batch: from `low` to before `high`.
typedef struct range {
  uintptr_t low, high;
} range;

// False: beyond the address space.
static bool range_of(const operand *x, int64_t batch, range *out) {
  int64_t span, reach;
  *out = (range){(uintptr_t)x->at, (uintptr_t)x->at};
  if (x->rows == 0 || x->cols == 0) return true;
  if (__builtin_mul_overflow(x->cols - 1, x->ld, &span) || __builtin_add_overflow(span, x->rows, &span) ||
      __builtin_mul_overflow(span, x->bytes, &span) || __builtin_add_overflow(out->low, span, &out->high))
    return false;
  if (batch <= 1) return true;
  if (__builtin_mul_overflow(x->stride, x->bytes, &reach) || __builtin_mul_overflow(reach, batch - 1, &reach))
    return false;
  if (reach < 0) return !__builtin_add_overflow(out->low, reach, &out->low);
  return !__builtin_add_overflow(out->high, reach, &out->high);
}

// Whether two operands of one product are blocks of one matrix and have no row in common.
static bool rows_differ(const operand *x, const operand *y) {
  int64_t ld = x->ld * x->bytes, distance = (int64_t)((uintptr_t)y->at - (uintptr_t)x->at) % ld;
  if (distance < 0) distance += ld;
  return ld == y->ld * y->bytes && distance >= x->rows * x->bytes && distance + y->rows * y->bytes <= ld;
}

// Whether matrices of a batch overlap each other: neither far enough apart nor interleaved.
static bool overlaps_itself(const operand *c, int64_t batch) {
  uint64_t distance = c->stride < 0 ? -(uint64_t)c->stride : (uint64_t)c->stride;
  if (distance >= (uint64_t)((c->cols - 1) * c->ld + c->rows)) return false;
  return distance < (uint64_t)c->rows || distance * (uint64_t)(batch - 1) + (uint64_t)c->rows > (uint64_t)c->ld;
}

// pre: the operands have elements.
static tc_status check_ranges(const operand *a, const operand *b, const operand *c, int64_t batch, bool reads) {
  range in_a, in_b, out;
  if (!range_of(a, batch, &in_a) || !range_of(b, batch, &in_b) || !range_of(c, batch, &out))
    return FAIL("the matrices exceed the address space");
  if (batch > 1 && overlaps_itself(c, batch))
    return FAIL("matrices c of the batch overlap: stride_c is %lld", (long long)c->stride);
  if (!reads) return TC_OK;
  if (out.low < in_a.high && in_a.low < out.high && (batch > 1 || !rows_differ(c, a)))
    return FAIL("c overlaps %s", a->name);
  if (out.low < in_b.high && in_b.low < out.high && (batch > 1 || !rows_differ(c, b)))
    return FAIL("c overlaps %s", b->name);
  return TC_OK;
}

// The operand of one product of a batch with lists.
static operand operand_at(const operand *x, int64_t i) {
  operand one = *x;
  if (x->list)
    one.at = x->list[i];
  else
    one.at = (const void *)((uintptr_t)x->at + (uintptr_t)(i * x->stride * x->bytes));
  return one;
}

static tc_status check_lists(const operand *a, const operand *b, const operand *c, int64_t batch, bool reads) {
  for (int64_t i = 0; i < batch; i++) {
    operand one_a = operand_at(a, i), one_b = operand_at(b, i), one_c = operand_at(c, i);
    if (!one_c.at || (reads && (!one_a.at || !one_b.at))) return FAIL("a matrix of product %lld is NULL", (long long)i);
    TC_TRY(check_ranges(&one_a, &one_b, &one_c, 1, reads));
  }
  return TC_OK;
}

static tc_status check_operand(const operand *x, bool is_used) {
  if (x->ld < x->rows || x->ld < 1)
    return FAIL("ld%s is %lld; at least %lld expected", x->name, (long long)x->ld,
                (long long)TC_MAX_OF(x->rows, INT64_C(1)));
  if (is_used && !x->at && !x->list) return FAIL("%s is NULL", x->name);
  return TC_OK;
}

static tc_status check_words(const tc_gemm_call *g) {
  if ((unsigned)g->order > TC_ROW_MAJOR) return FAIL("order is %d", (int)g->order);
  if (((unsigned)g->transa | (unsigned)g->transb) > TC_TRANS)
    return FAIL("transa is %d, transb %d", (int)g->transa, (int)g->transb);
  if (g->type != TC_F32 && g->type != TC_F64 && g->type != TC_F16 && g->type != TC_BF16)
    return tc_fail(TC_ERR_DTYPE, "gemm", 0, "type is %d; TC_F16, TC_BF16, TC_F32 or TC_F64 expected", (int)g->type);
  if ((g->m | g->n | g->k | g->max_threads) < 0)
    return FAIL("m is %lld, n %lld, k %lld, max_threads %d; none may be negative", (long long)g->m, (long long)g->n,
                (long long)g->k, g->max_threads);
  if (g->batch && g->batch->count < 0) return FAIL("count of the batch is %lld", (long long)g->batch->count);
  return TC_OK;
}

// Any call but a plain one.
static __attribute__((noinline)) tc_status check_and_run(const tc_gemm_call *g) {
  if (!g) return FAIL("the call is NULL");
  TC_TRY(check_words(g));
  const tc_gemm_batch *many = g->batch ? g->batch : &(tc_gemm_batch){.count = 1};
  bool swaps = g->order == TC_ROW_MAJOR, reads = g->k > 0 && g->alpha != 0;
  bool works = g->m > 0 && g->n > 0 && many->count > 0;
  int bytes = g->type == TC_F64 ? 8 : 4, in_bytes = g->type == TC_F16 || g->type == TC_BF16 ? 2 : bytes;
  int64_t m = swaps ? g->n : g->m, n = swaps ? g->m : g->n, k = g->k;
  bool trans_a = (swaps ? g->transb : g->transa) != TC_NO_TRANS;
  bool trans_b = (swaps ? g->transa : g->transb) != TC_NO_TRANS;
  operand a = {"a", g->a, many->a_list, 0, 0, g->lda, many->stride_a, in_bytes};
  operand b = {"b", g->b, many->b_list, 0, 0, g->ldb, many->stride_b, in_bytes};
  operand c = {"c", g->c, (const void *const *)many->c_list, m, n, g->ldc, many->stride_c, bytes};
  if (swaps) {
    operand first = a;
    a = b;
    b = first;
  }
  a.rows = trans_a ? k : m;
  a.cols = trans_a ? m : k;
  b.rows = trans_b ? n : k;
  b.cols = trans_b ? k : n;
  TC_TRY(check_operand(&a, works && reads));
  TC_TRY(check_operand(&b, works && reads));
  TC_TRY(check_operand(&c, works));
  if (!works) return TC_OK;
  tc_blas_product p = {.m = m, .n = n, .k = k, .alpha = g->alpha, .beta = g->beta, .a = a.at, .b = b.at};
  p.a_row = trans_a ? a.ld : 1;
  p.a_col = trans_a ? 1 : a.ld;
  p.b_row = trans_b ? b.ld : 1;
  p.b_col = trans_b ? 1 : b.ld;
  p.c = g->c;
  p.ldc = c.ld;
  if (a.list || b.list || c.list)
    TC_TRY(check_lists(&a, &b, &c, many->count, reads));
  else
    TC_TRY(check_ranges(&a, &b, &c, many->count, reads));
  if (many->count == 1 && !a.list && !b.list && !c.list) return tc_blas_gemm(g->type, &p, g->max_threads);
  tc_blas_batch all = {.type = g->type, .product = p, .max_threads = g->max_threads, .count = many->count};
  all.stride_a = a.stride;
  all.stride_b = b.stride;
  all.stride_c = c.stride;
  all.a_list = a.list;
  all.b_list = b.list;
  all.c_list = many->c_list;
  return tc_blas_gemm_batch(&all);
}

// Sizes of a plain call are at most this: no product of two of them and a type's bytes overflows.
#define PLAIN_LENGTH (UINT64_C(1) << 24)

// cols of ld elements each.
static inline bool are_apart(const void *x, int64_t x_length, const void *y, int64_t y_length, int64_t bytes) {
  uintptr_t x_at = (uintptr_t)x, y_at = (uintptr_t)y;
  return x_at + (uintptr_t)(x_length * bytes) <= y_at || y_at + (uintptr_t)(y_length * bytes) <= x_at;
}

// Whether a call is one product of f32 or f64, of column-major matrices that are far from each
// other. True: it is right. False: it is to be looked at.
static inline bool is_plain(const tc_gemm_call *g) {
  if ((g->type != TC_F64 && g->type != TC_F32) || g->order != TC_COL_MAJOR || g->batch || g->max_threads < 0)
    return false;
  if (((unsigned)g->transa | (unsigned)g->transb) > TC_TRANS || !g->a || !g->b || !g->c) return false;
  if (((uint64_t)(g->m - 1) | (uint64_t)(g->n - 1) | (uint64_t)(g->k - 1) | (uint64_t)(g->lda - 1) |
       (uint64_t)(g->ldb - 1) | (uint64_t)(g->ldc - 1)) >= PLAIN_LENGTH)
    return false;
  if (g->lda < (g->transa ? g->k : g->m) || g->ldb < (g->transb ? g->n : g->k) || g->ldc < g->m) return false;
  int64_t bytes = g->type == TC_F64 ? 8 : 4, c_length = g->n * g->ldc;
  return are_apart(g->c, c_length, g->a, (g->transa ? g->m : g->k) * g->lda, bytes) &&
         are_apart(g->c, c_length, g->b, (g->transb ? g->k : g->n) * g->ldb, bytes);
}

tc_status tc_gemm(const tc_gemm_call *g) {
  if (TC_UNLIKELY(!g || !is_plain(g))) return check_and_run(g);
  tc_blas_product p;
  p.m = g->m;
  p.n = g->n;
  p.k = g->k;
  p.alpha = g->alpha;
  p.beta = g->beta;
  p.a = g->a;
  p.a_row = g->transa ? g->lda : 1;
  p.a_col = g->transa ? 1 : g->lda;
  p.b = g->b;
  p.b_row = g->transb ? g->ldb : 1;
  p.b_col = g->transb ? 1 : g->ldb;
  p.c = g->c;
  p.ldc = g->ldc;
  return tc_blas_gemm(g->type, &p, g->max_threads);
}
