// The public product: checks a call and hands it to gemm.c. See tc/blas.h.
// Row-major matrices are column-major ones of the transposed product: c' = b' a'. So the operands
// change places, and what follows knows columns alone.
// Threads: thread-safe, pure.
#include <tc/blas.h>

#include "kernels/blas/gemm.h"
#include "kernels/blas/operand.h"
#include "runtime/status.h"

#define FAIL(...) tc_fail(TC_ERR_ARG, "gemm", 0, __VA_ARGS__)

// A matrix of a call, as columns of unit stride.
typedef struct operand {
  tc_blas_operand first;  // of the first product
  const void *const *list;  // NULL: the products of a batch are `stride` elements apart
  int64_t stride;
  int bytes;  // of an element
} operand;

// The bytes of an operand over a whole batch, from `low` to before `high`, and of one product.
typedef struct range {
  uintptr_t low, high;
  int64_t bytes;
} range;

// False: beyond the address space.
static bool range_of(const operand *x, int64_t batch, range *out) {
  int64_t reach;
  *out = (range){(uintptr_t)x->first.at, (uintptr_t)x->first.at, 0};
  if (x->first.length == 0 || x->first.lines == 0) return true;
  if (!tc_blas_find_end(&x->first, x->bytes, &out->high)) return false;
  out->bytes = (int64_t)(out->high - out->low);
  if (batch <= 1) return true;
  if (__builtin_mul_overflow(x->stride, x->bytes, &reach) || __builtin_mul_overflow(reach, batch - 1, &reach))
    return false;
  if (reach < 0) return !__builtin_add_overflow(out->low, reach, &out->low);
  return !__builtin_add_overflow(out->high, reach, &out->high);
}

// Whether two operands overlap. Blocks of one matrix without a common row do not, nor operands with
// places of their own in each stride of a batch.
static bool overlap(const operand *x, const range *in_x, const operand *y, const range *in_y, int64_t batch) {
  if (in_x->low >= in_y->high || in_y->low >= in_x->high) return false;
  if (batch <= 1) return !tc_blas_lines_differ(&x->first, &y->first, x->bytes, y->bytes);
  int64_t period = x->stride * x->bytes;  // range_of has multiplied both
  return period != y->stride * y->bytes ||
         !tc_blas_are_interleaved(x->first.at, in_x->bytes, y->first.at, in_y->bytes, period);
}

// Whether matrices of a batch overlap each other: neither far enough apart nor interleaved.
static bool overlaps_itself(const operand *c, int64_t batch) {
  uint64_t distance = c->stride < 0 ? -(uint64_t)c->stride : (uint64_t)c->stride;
  uint64_t rows = (uint64_t)c->first.length;
  if (distance >= (uint64_t)((c->first.lines - 1) * c->first.ld) + rows) return false;
  return distance < rows || distance * (uint64_t)(batch - 1) + rows > (uint64_t)c->first.ld;
}

// pre: the operands have elements.
static tc_status check_ranges(const operand *a, const operand *b, const operand *c, int64_t batch, bool reads) {
  range in_a, in_b, out;
  if (!range_of(a, batch, &in_a) || !range_of(b, batch, &in_b) || !range_of(c, batch, &out))
    return FAIL("the matrices exceed the address space");
  if (batch > 1 && overlaps_itself(c, batch))
    return FAIL("matrices c of the batch overlap: stride_c is %lld", (long long)c->stride);
  if (!reads) return TC_OK;
  if (overlap(c, &out, a, &in_a, batch)) return FAIL("c overlaps %s", a->first.name);
  if (overlap(c, &out, b, &in_b, batch)) return FAIL("c overlaps %s", b->first.name);
  return TC_OK;
}

// The operand of one product of a batch with lists.
static operand operand_at(const operand *x, int64_t i) {
  operand one = *x;
  if (x->list)
    one.first.at = x->list[i];
  else
    one.first.at = (const void *)((uintptr_t)x->first.at + (uintptr_t)i * (uintptr_t)x->stride * (uintptr_t)x->bytes);
  return one;
}

static tc_status check_lists(const operand *a, const operand *b, const operand *c, int64_t batch, bool reads) {
  for (int64_t i = 0; i < batch; i++) {
    operand one_a = operand_at(a, i), one_b = operand_at(b, i), one_c = operand_at(c, i);
    if (!one_c.first.at || (reads && (!one_a.first.at || !one_b.first.at)))
      return FAIL("a matrix of product %lld is NULL", (long long)i);
    TC_TRY(check_ranges(&one_a, &one_b, &one_c, 1, reads));
  }
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

// alpha or beta in the type of c.
static inline double scalar_of(tc_type type, double x) {
  return type == TC_F64 ? x : (double)(float)x;
}

// Any call but a plain one.
static __attribute__((noinline)) tc_status check_and_run(const tc_gemm_call *g) {
  if (!g) return FAIL("the call is NULL");
  TC_TRY(check_words(g));
  const tc_gemm_batch *many = g->batch ? g->batch : &(tc_gemm_batch){.count = 1};
  bool swaps = g->order == TC_ROW_MAJOR, reads = g->k > 0 && scalar_of(g->type, g->alpha) != 0;
  bool works = g->m > 0 && g->n > 0 && many->count > 0;
  int bytes = g->type == TC_F64 ? 8 : 4, in_bytes = g->type == TC_F16 || g->type == TC_BF16 ? 2 : bytes;
  int64_t m = swaps ? g->n : g->m, n = swaps ? g->m : g->n, k = g->k;
  bool trans_a = (swaps ? g->transb : g->transa) != TC_NO_TRANS;
  bool trans_b = (swaps ? g->transa : g->transb) != TC_NO_TRANS;
  operand a = {{"a", g->a, 0, 0, g->lda}, many->a_list, many->stride_a, in_bytes};
  operand b = {{"b", g->b, 0, 0, g->ldb}, many->b_list, many->stride_b, in_bytes};
  operand c = {{"c", g->c, m, n, g->ldc}, (const void *const *)many->c_list, many->stride_c, bytes};
  if (swaps) {
    operand first = a;
    a = b;
    b = first;
  }
  a.first.length = trans_a ? k : m;
  a.first.lines = trans_a ? m : k;
  b.first.length = trans_b ? n : k;
  b.first.lines = trans_b ? k : n;
  TC_TRY(tc_blas_check_operand("gemm", &a.first, works && reads && !a.list));
  TC_TRY(tc_blas_check_operand("gemm", &b.first, works && reads && !b.list));
  TC_TRY(tc_blas_check_operand("gemm", &c.first, works && !c.list));
  if (!works) return TC_OK;
  tc_blas_product p = {.m = m, .n = n, .k = k, .a = a.first.at, .b = b.first.at, .c = g->c, .ldc = c.first.ld};
  p.alpha = scalar_of(g->type, g->alpha);
  p.beta = scalar_of(g->type, g->beta);
  p.a_row = trans_a ? a.first.ld : 1;
  p.a_col = trans_a ? 1 : a.first.ld;
  p.b_row = trans_b ? b.first.ld : 1;
  p.b_col = trans_b ? 1 : b.first.ld;
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

// A factor of a plain call: columns of unit stride, as many as `cols` of it.
typedef struct factor {
  const void *at;
  int64_t ld, rows, cols;
} factor;

static inline factor factor_of(const void *at, int64_t ld, bool trans, int64_t rows, int64_t cols) {
  return (factor){at, ld, trans ? cols : rows, trans ? rows : cols};
}

static inline bool are_apart(const factor *x, const factor *y, int64_t bytes) {
  uintptr_t x_at = (uintptr_t)x->at, y_at = (uintptr_t)y->at;
  return x_at + (uintptr_t)(x->cols * x->ld * bytes) <= y_at || y_at + (uintptr_t)(y->cols * y->ld * bytes) <= x_at;
}

// Whether a call is one product of f32 or f64 of matrices that are far from each other. True: it is
// right. False: it is to be looked at.
static inline bool is_plain(const tc_gemm_call *g, const factor *a, const factor *b, const factor *c) {
  uint64_t lengths = ((uint64_t)g->m - 1) | ((uint64_t)g->n - 1) | ((uint64_t)g->k - 1);
  int64_t bytes = g->type == TC_F64 ? 8 : 4;
  if ((g->type != TC_F64 && g->type != TC_F32) || g->batch || g->max_threads < 0) return false;
  if (((unsigned)g->transa | (unsigned)g->transb | (unsigned)g->order) > 1 || !a->at || !b->at || !c->at) return false;
  lengths |= ((uint64_t)a->ld - 1) | ((uint64_t)b->ld - 1) | ((uint64_t)c->ld - 1);
  if (lengths >= PLAIN_LENGTH || a->ld < a->rows || b->ld < b->rows || c->ld < c->rows) return false;
  return are_apart(c, a, bytes) && are_apart(c, b, bytes);
}

tc_status tc_gemm(const tc_gemm_call *g) {
  if (TC_UNLIKELY(!g)) return check_and_run(g);
  tc_blas_product p;
  bool swaps = g->order != TC_COL_MAJOR;
  bool trans_a = (swaps ? g->transb : g->transa) != TC_NO_TRANS;
  bool trans_b = (swaps ? g->transa : g->transb) != TC_NO_TRANS;
  p.m = swaps ? g->n : g->m;
  p.n = swaps ? g->m : g->n;
  p.k = g->k;
  factor a = factor_of(swaps ? g->b : g->a, swaps ? g->ldb : g->lda, trans_a, p.m, p.k);
  factor b = factor_of(swaps ? g->a : g->b, swaps ? g->lda : g->ldb, trans_b, p.k, p.n);
  factor c = {g->c, g->ldc, p.m, p.n};
  if (TC_UNLIKELY(!is_plain(g, &a, &b, &c))) return check_and_run(g);
  p.alpha = scalar_of(g->type, g->alpha);
  p.beta = scalar_of(g->type, g->beta);
  p.a = a.at;
  p.a_row = trans_a ? a.ld : 1;
  p.a_col = trans_a ? 1 : a.ld;
  p.b = b.at;
  p.b_row = trans_b ? b.ld : 1;
  p.b_col = trans_b ? 1 : b.ld;
  p.c = g->c;
  p.ldc = g->ldc;
  return tc_blas_gemm(g->type, &p, g->max_threads);
}
