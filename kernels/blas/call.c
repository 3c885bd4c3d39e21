// The public product: checks a call and hands it to gemm.c. See tc/blas.h.
// Row-major matrices are column-major ones of the transposed product, c' = b' a'.
// Threads: thread-safe, pure.
#include <tc/blas.h>

#include "kernels/blas/gemm.h"
#include "runtime/status.h"

#define FAIL(...) tc_fail(TC_ERR_ARG, "gemm", 0, __VA_ARGS__)

// A matrix as column-major: where it lies, over a whole batch.
typedef struct operand {
  const char *name;
  int64_t rows, cols, ld;
  int bytes;  // of an element
  int64_t low, high;  // offsets in bytes: of the first byte of the batch, and behind the last one
} operand;

// Sets low and high. False: beyond the address space.
static inline bool set_range(operand *x, int64_t stride, int64_t batch) {
  int64_t last, reach, span;
  if (__builtin_mul_overflow(x->cols - 1, x->ld, &last) || __builtin_add_overflow(last, x->rows, &last) ||
      __builtin_mul_overflow(last, x->bytes, &span))
    return false;
  x->low = 0;
  x->high = x->rows == 0 || x->cols == 0 ? 0 : span;
  if (TC_LIKELY(batch <= 1)) return true;
  if (__builtin_mul_overflow(stride, x->bytes, &reach) || __builtin_mul_overflow(reach, batch - 1, &reach))
    return false;
  if (reach < 0) x->low = reach;
  return reach <= 0 || !__builtin_add_overflow(x->high, reach, &x->high);
}

// Whether blocks of one matrix, `distance` bytes from x to y, have no row in common. One product.
static bool rows_differ(const operand *x, const operand *y, int64_t distance) {
  int64_t ld = x->ld * x->bytes;
  if (ld != y->ld * y->bytes) return false;
  int64_t first = distance % ld + (distance % ld < 0 ? ld : 0);
  return first >= x->rows * x->bytes && first + y->rows * y->bytes <= ld;
}

// Whether c, at `out`, overlaps an operand at `in`.
static inline bool overlaps(const operand *c, const void *out, const operand *x, const void *in, bool one) {
  int64_t distance = (int64_t)((uintptr_t)in - (uintptr_t)out);
  uintptr_t c_low = (uintptr_t)out + (uintptr_t)c->low, c_high = (uintptr_t)out + (uintptr_t)c->high;
  uintptr_t x_low = (uintptr_t)in + (uintptr_t)x->low, x_high = (uintptr_t)in + (uintptr_t)x->high;
  if (TC_LIKELY(c_low >= x_high || x_low >= c_high)) return false;
  return c->high != c->low && x->high != x->low && !(one && rows_differ(c, x, distance));
}

// Whether matrices of a batch overlap each other: neither far enough apart nor interleaved.
static bool overlaps_itself(const operand *c, int64_t stride, int64_t batch) {
  if (batch <= 1 || c->rows == 0 || c->cols == 0) return false;
  uint64_t distance = stride < 0 ? -(uint64_t)stride : (uint64_t)stride;
  if (distance >= (uint64_t)((c->cols - 1) * c->ld + c->rows)) return false;
  return distance < (uint64_t)c->rows || distance * (uint64_t)(batch - 1) + (uint64_t)c->rows > (uint64_t)c->ld;
}

static inline tc_status check_operand(const operand *x, bool is_read, const void *at, const void *list) {
  if (TC_UNLIKELY(x->ld < x->rows || x->ld < 1))
    return FAIL("ld%s is %lld; at least %lld expected", x->name, (long long)x->ld,
                (long long)TC_MAX_OF(x->rows, INT64_C(1)));
  if (TC_UNLIKELY(is_read && !at && !list)) return FAIL("%s is NULL", x->name);
  return TC_OK;
}

static tc_status check_lists(const tc_gemm_call *g, const operand *a, const operand *b, const operand *c, bool reads) {
  operand one[3] = {*a, *b, *c};
  const int64_t strides[] = {g->stride_a, g->stride_b, g->stride_c};
  for (int64_t i = 0; i < g->batch; i++) {
    const void *at[] = {g->a, g->b, g->c};
    const void *const *lists[] = {g->a_list, g->b_list, (const void *const *)g->c_list};
    for (int x = 0; x < 3; x++) {
      at[x] = lists[x] ? lists[x][i] : (const char *)at[x] + i * strides[x] * one[x].bytes;
      if (!at[x] && (x == 2 || reads)) return FAIL("%s_list[%lld] is NULL", one[x].name, (long long)i);
    }
    for (int x = 0; x < 2 && reads; x++)
      if (overlaps(c, at[2], &one[x], at[x], true))
        return FAIL("c overlaps %s in product %lld", one[x].name, (long long)i);
  }
  return TC_OK;
}

// pre: sizes, leading dimensions and pointers are right.
static inline tc_status check_overlaps(const tc_gemm_call *g, operand *a, operand *b, operand *c, bool reads) {
  bool listed = g->a_list || g->b_list || g->c_list;
  int64_t batch = listed ? 1 : g->batch;
  if (TC_UNLIKELY(!set_range(a, g->stride_a, batch) || !set_range(b, g->stride_b, batch) ||
                  !set_range(c, g->stride_c, batch)))
    return FAIL("the matrices exceed the address space");
  if (TC_UNLIKELY(listed)) return check_lists(g, a, b, c, reads);
  if (TC_UNLIKELY(overlaps_itself(c, g->stride_c, batch)))
    return FAIL("products of the batch overlap: stride_c is %lld", (long long)g->stride_c);
  if (!reads) return TC_OK;
  if (TC_UNLIKELY(overlaps(c, g->c, a, g->a, batch <= 1))) return FAIL("c overlaps a");
  if (TC_UNLIKELY(overlaps(c, g->c, b, g->b, batch <= 1))) return FAIL("c overlaps b");
  return TC_OK;
}

static tc_status check_words(const tc_gemm_call *g) {
  if ((unsigned)g->order > TC_ROW_MAJOR) return FAIL("order is %d", (int)g->order);
  if ((unsigned)g->transa > TC_TRANS || (unsigned)g->transb > TC_TRANS)
    return FAIL("transa is %d, transb %d", (int)g->transa, (int)g->transb);
  if (g->type != TC_F16 && g->type != TC_BF16)
    return tc_fail(TC_ERR_DTYPE, "gemm", 0, "type is %s; f16, bf16, f32 or f64 expected", tc_type_name(g->type));
  return TC_OK;
}

tc_status tc_gemm(const tc_gemm_call *g) {
  if (TC_UNLIKELY(!g)) return FAIL("the call is NULL");
  if (TC_UNLIKELY((g->type != TC_F32 && g->type != TC_F64) || (unsigned)g->order > TC_ROW_MAJOR ||
                  (unsigned)g->transa > TC_TRANS || (unsigned)g->transb > TC_TRANS))
    TC_TRY(check_words(g));
  if (TC_UNLIKELY((g->m | g->n | g->k | g->batch | g->max_threads) < 0))
    return FAIL("m is %lld, n %lld, k %lld, batch %lld, max_threads %d; none may be negative", (long long)g->m,
                (long long)g->n, (long long)g->k, (long long)g->batch, g->max_threads);
  bool swapped = g->order == TC_ROW_MAJOR, transposed_a = g->transa != TC_NO_TRANS,
       transposed_b = g->transb != TC_NO_TRANS;
  int bytes = g->type == TC_F64 ? 8 : 4, in_bytes = g->type == TC_F16 || g->type == TC_BF16 ? 2 : bytes;
  bool reads = g->k > 0 && g->alpha != 0, works = g->m > 0 && g->n > 0;
  // Column-major, a has as many rows as op(a) has unless it is transposed; row-major the other way.
  operand a = {"a", transposed_a != swapped ? g->k : g->m, transposed_a != swapped ? g->m : g->k, g->lda, in_bytes, 0,
               0};
  operand b = {"b", transposed_b != swapped ? g->n : g->k, transposed_b != swapped ? g->k : g->n, g->ldb, in_bytes, 0,
               0};
  operand c = {"c", swapped ? g->n : g->m, swapped ? g->m : g->n, g->ldc, bytes, 0, 0};
  TC_TRY(check_operand(&a, works && reads, g->a, g->a_list));
  TC_TRY(check_operand(&b, works && reads, g->b, g->b_list));
  TC_TRY(check_operand(&c, works, g->c, g->c_list));
  if (!works) return TC_OK;
  TC_TRY(check_overlaps(g, &a, &b, &c, reads));
  tc_blas_batch batch = {.type = g->type, .max_threads = g->max_threads, .count = TC_MAX_OF(g->batch, INT64_C(1))};
  tc_blas_product *p = &batch.product;
  p->k = g->k;
  p->alpha = g->alpha;
  p->beta = g->beta;
  p->c = g->c;
  p->ldc = g->ldc;
  int64_t a_row = transposed_a != swapped ? g->lda : 1, a_col = transposed_a != swapped ? 1 : g->lda;
  int64_t b_row = transposed_b != swapped ? g->ldb : 1, b_col = transposed_b != swapped ? 1 : g->ldb;
  p->m = swapped ? g->n : g->m;
  p->n = swapped ? g->m : g->n;
  p->a = swapped ? g->b : g->a;
  p->b = swapped ? g->a : g->b;
  p->a_row = swapped ? b_col : a_row;
  p->a_col = swapped ? b_row : a_col;
  p->b_row = swapped ? a_col : b_row;
  p->b_col = swapped ? a_row : b_col;
  batch.stride_a = swapped ? g->stride_b : g->stride_a;
  batch.stride_b = swapped ? g->stride_a : g->stride_b;
  batch.stride_c = g->stride_c;
  batch.a_list = swapped ? g->b_list : g->a_list;
  batch.b_list = swapped ? g->a_list : g->b_list;
  batch.c_list = g->c_list;
  return tc_blas_gemm(&batch);
}
