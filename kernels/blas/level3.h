// Level 3 beside the product, on matrices that were checked and brought to one side. See level3.c.
// Threads: thread-safe. Owner: none; packed operands lie in the scratch memory of the team.
#pragma once

#include "kernels/blas/blocks.h"

// Multiply-adds that are worth a second thread, and those below which a job is brief.
#define TC_BLAS_THREAD_WORK 200000
#define TC_BLAS_BRIEF_WORK 2000000

// x = alpha * (a \ x), or alpha * a * x; a is a triangle of n rows, x is [n, count].
typedef struct tc_blas_triangular {
  tc_type type;
  bool is_upper, is_unit, is_product;
  int64_t n, count;
  double alpha;
  tc_blas_view a, x;
  int max_threads;
} tc_blas_triangular;

tc_status tc_blas_run_triangular(const char *op, const tc_blas_triangular *t);

// c = alpha * a * b + beta * c, where a or b is symmetric or c's triangle is wanted. second: another
// product that is added to c; NULL: none.
typedef struct tc_blas_symmetric_job {
  tc_type type;
  tc_blas_product product;
  tc_blas_symmetric symmetric;
  tc_blas_part part;
  const tc_blas_product *second;
  int max_threads;
} tc_blas_symmetric_job;

tc_status tc_blas_run_symmetric(const char *op, const tc_blas_symmetric_job *job);

// How many threads so many multiply-adds are worth.
int tc_blas_threads_for(double work, int max_threads);
