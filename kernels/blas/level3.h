// Level 3 beside the product, on matrices that were checked and brought to one side. See level3.c.
// Threads: thread-safe. Owner: none; packed operands lie in the scratch memory of the team.
#pragma once

#include "kernels/blas/packed.h"
#include "runtime/team.h"

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

// c = alpha * a * b + beta * c, where a or b is symmetric or c's triangle is wanted. second:
// another product that is added to c; NULL: none.
typedef struct tc_blas_symmetric_job {
  tc_type type;
  tc_blas_product product;
  tc_blas_symmetric symmetric;
  tc_blas_part part;
  const tc_blas_product *second;
  int max_threads;
} tc_blas_symmetric_job;

tc_status tc_blas_run_symmetric(const char *op, const tc_blas_symmetric_job *job);

// A call's parts, which are tasks of the team.
typedef struct tc_blas_parts {
  void (*task)(void *arg, int stage, int64_t index, tc_worker *worker);
  void *arg;
  int64_t count;
  int threads;
  double work;  // multiply-adds
  size_t scratch_bytes;
} tc_blas_parts;

#define TC_BLAS_STACK_BYTES 24576  // scratch memory of small calls, which then do without the team

// How many threads so many multiply-adds are worth.
int tc_blas_threads_for(double work, int max_threads);
// Runs parts, in the default rounding mode. TC_ERR_MEMORY, before any runs: no scratch memory.
tc_status tc_blas_parts_run(const char *op, const tc_blas_parts *parts);
