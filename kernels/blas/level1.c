// The public routines on vectors: checks a call, finds where vectors begin, and hands them to the
// kernels of vector_tile.h. See tc/blas.h.
// Threads: thread-safe, pure.
#include "kernels/blas/level1.h"

#include <tc/blas.h>

#include "kernels/blas/operand.h"
#include "runtime/status.h"

#define FAIL(...) tc_fail(TC_ERR_ARG, op, 0, __VA_ARGS__)
#define PLAIN_LENGTH (UINT64_C(1) << 24)

// A type that is none has no kernels; anything else is left to check_vector.
static tc_status check_call(const char *op, tc_type type, int64_t n) {
  if (type != TC_F32 && type != TC_F64)
    return tc_fail(TC_ERR_DTYPE, op, 0, "type is %d; TC_F32 or TC_F64 expected", (int)type);
  return n < 0 ? FAIL("n is %lld; it may not be negative", (long long)n) : TC_OK;
}

static __attribute__((noinline)) tc_status check_any_vector(const char *op, tc_type type, char name, int64_t n,
                                                            const void *x, int64_t inc) {
  uintptr_t end;
  if (n == 0) return TC_OK;
  if (!x) return FAIL("%c is NULL", name);
  tc_blas_operand vector = tc_blas_operand_of_vector(name, x, n, inc);
  return tc_blas_find_end(&vector, type == TC_F64 ? 8 : 4, &end) ? TC_OK : FAIL("%c exceeds the address space", name);
}

// A vector of common lengths is recognized at once: it reaches no address that overflows.
static inline tc_status check_vector(const char *op, tc_type type, char name, int64_t n, const void *x, int64_t inc) {
  if (TC_LIKELY(x && (uint64_t)n < PLAIN_LENGTH && (uint64_t)inc + PLAIN_LENGTH < 2 * PLAIN_LENGTH)) return TC_OK;
  return check_any_vector(op, type, name, n, x, inc);
}

static tc_status check_two(const char *op, tc_type type, int64_t n, const void *x, int64_t incx, const void *y,
                           int64_t incy) {
  TC_TRY(check_call(op, type, n));
  TC_TRY(check_vector(op, type, 'x', n, x, incx));
  return check_vector(op, type, 'y', n, y, incy);
}

static tc_status check_one(const char *op, tc_type type, int64_t n, const void *x, int64_t incx) {
  TC_TRY(check_call(op, type, n));
  if (incx < 1) return FAIL("incx is %lld; at least 1 expected", (long long)incx);
  return check_vector(op, type, 'x', n, x, incx);
}

// Where the first element lies, in the order of the call.
static void *first(const void *x, tc_type type, int64_t n, int64_t inc) {
  return (char *)(uintptr_t)x + (inc < 0 ? (1 - n) * inc * (type == TC_F64 ? 8 : 4) : 0);
}

static double rounded(tc_type type, double x) {
  return type == TC_F32 ? (double)(float)x : x;
}

tc_status tc_blas_axpy(tc_type type, int64_t n, double alpha, const void *x, int64_t incx, void *y, int64_t incy) {
  if (rounded(type, alpha) == 0) {
    TC_TRY(check_call("axpy", type, n));
    return check_vector("axpy", type, 'y', n, y, incy);
  }
  TC_TRY(check_two("axpy", type, n, x, incx, y, incy));
  if (n > 0)
    tc_blas_vector_kernels_of(type)->axpy(n, alpha, first(x, type, n, incx), incx, first(y, type, n, incy), incy);
  return TC_OK;
}

tc_status tc_blas_copy(tc_type type, int64_t n, const void *x, int64_t incx, void *y, int64_t incy) {
  TC_TRY(check_two("copy", type, n, x, incx, y, incy));
  if (n > 0) tc_blas_vector_kernels_of(type)->copy(n, first(x, type, n, incx), incx, first(y, type, n, incy), incy);
  return TC_OK;
}

tc_status tc_blas_swap(tc_type type, int64_t n, void *x, int64_t incx, void *y, int64_t incy) {
  TC_TRY(check_two("swap", type, n, x, incx, y, incy));
  if (n > 0) tc_blas_vector_kernels_of(type)->swap(n, first(x, type, n, incx), incx, first(y, type, n, incy), incy);
  return TC_OK;
}

tc_status tc_blas_scal(tc_type type, int64_t n, double alpha, void *x, int64_t incx) {
  TC_TRY(check_one("scal", type, n, x, incx));
  if (n > 0) tc_blas_vector_kernels_of(type)->scal(n, alpha, x, incx);
  return TC_OK;
}

tc_status tc_blas_dot(tc_type type, int64_t n, const void *x, int64_t incx, const void *y, int64_t incy, double *out) {
  const char *op = "dot";
  if (!out) return FAIL("out is NULL");
  *out = 0;
  TC_TRY(check_two(op, type, n, x, incx, y, incy));
  if (n > 0)
    *out = tc_blas_vector_kernels_of(type)->dot(n, first(x, type, n, incx), incx, first(y, type, n, incy), incy);
  return TC_OK;
}

tc_status tc_blas_asum(tc_type type, int64_t n, const void *x, int64_t incx, double *out) {
  const char *op = "asum";
  if (!out) return FAIL("out is NULL");
  *out = 0;
  TC_TRY(check_one(op, type, n, x, incx));
  if (n > 0) *out = tc_blas_vector_kernels_of(type)->asum(n, x, incx);
  return TC_OK;
}

tc_status tc_blas_nrm2(tc_type type, int64_t n, const void *x, int64_t incx, double *out) {
  const char *op = "nrm2";
  if (!out) return FAIL("out is NULL");
  *out = 0;
  TC_TRY(check_one(op, type, n, x, incx));
  if (n > 0) *out = tc_blas_vector_kernels_of(type)->nrm2(n, x, incx);
  return TC_OK;
}

tc_status tc_blas_iamax(tc_type type, int64_t n, const void *x, int64_t incx, int64_t *out) {
  const char *op = "iamax";
  if (!out) return FAIL("out is NULL");
  *out = -1;
  TC_TRY(check_one(op, type, n, x, incx));
  if (n > 0) *out = tc_blas_vector_kernels_of(type)->iamax(n, x, incx);
  return TC_OK;
}
