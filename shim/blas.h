// libtc's direct products, as far as the shim calls them: <tc/blas.h> where it has them, else the
// same declared here.
#pragma once

#include <stdint.h>

#if __has_include(<tc/blas.h>)
#include <tc/blas.h>
#else
typedef enum tc_status { TC_OK = 0 } tc_status;
typedef enum tc_type { TC_F32 = 8, TC_F64 = 9 } tc_type;
typedef enum tc_blas_order { TC_COL_MAJOR = 0, TC_ROW_MAJOR = 1 } tc_blas_order;
typedef enum tc_blas_trans { TC_NO_TRANS = 0, TC_TRANS = 1 } tc_blas_trans;
typedef struct tc_gemm_call {
  tc_type type;
  tc_blas_order order;
  tc_blas_trans transa, transb;
  int64_t m, n, k;
  double alpha;
  const void *a;
  int64_t lda;
  const void *b;
  int64_t ldb;
  double beta;
  void *c;
  int64_t ldc;
  const struct tc_gemm_batch *batch;
  int max_threads;
} tc_gemm_call;
#endif

#ifndef TC_HAVE_BLAS3
typedef enum tc_blas_side { TC_LEFT = 0, TC_RIGHT = 1 } tc_blas_side;
typedef enum tc_blas_uplo { TC_LOWER = 0, TC_UPPER = 1 } tc_blas_uplo;
typedef enum tc_blas_diag { TC_NON_UNIT = 0, TC_UNIT = 1 } tc_blas_diag;
typedef struct tc_blas3_call {
  tc_type type;
  tc_blas_order order;
  tc_blas_side side;
  tc_blas_uplo uplo;
  tc_blas_trans transa;
  tc_blas_diag diag;
  int64_t m, n, k;
  double alpha;
  const void *a;
  int64_t lda;
  const void *b;  // of trsm and trmm: written
  int64_t ldb;
  double beta;
  void *c;
  int64_t ldc;
  int max_threads;
} tc_blas3_call;
#endif
