// A BLAS of 64-bit integers with one product, by all its names, that tells what it was given.
#include <stdint.h>

int64_t provider_calls, provider_m;

static void gemm(int64_t m, int64_t n, int64_t k, double alpha, const double *a, const double *b, double *c) {
  provider_calls++;
  provider_m = m;
  if (m == 1 && n == 1 && k == 1) *c = alpha * *a * *b;
}

#define FORTRAN(name) \
  void name(const char *ta, const char *tb, const int64_t *m, const int64_t *n, const int64_t *k, const double *alpha, \
            const double *a, const int64_t *lda, const double *b, const int64_t *ldb, const double *beta, double *c, \
            const int64_t *ldc) { \
    (void)ta, (void)tb, (void)lda, (void)ldb, (void)beta, (void)ldc; \
    gemm(*m, *n, *k, *alpha, a, b, c); \
  }
#define CBLAS(name) \
  void name(int order, int ta, int tb, int64_t m, int64_t n, int64_t k, double alpha, const double *a, int64_t lda, \
            const double *b, int64_t ldb, double beta, double *c, int64_t ldc) { \
    (void)order, (void)ta, (void)tb, (void)lda, (void)ldb, (void)beta, (void)ldc; \
    gemm(m, n, k, alpha, a, b, c); \
  }

FORTRAN(dgemm_)
FORTRAN(dgemm_64_)
FORTRAN(scipy_dgemm_64_)
CBLAS(cblas_dgemm)
CBLAS(cblas_dgemm64_)
CBLAS(cblas_dgemm_64)
CBLAS(scipy_cblas_dgemm64_)

// For case dlclose: as 32-bit integers the length would be 0.
double ddot_(const int64_t *n, const double *x, const int64_t *incx, const double *y, const int64_t *incy) {
  (void)incx, (void)incy;
  return *n == (int64_t)1 << 32 ? *x * *y : -1;
}
