// Products with a symmetric operand, and of which a triangle is wanted, by threads.
// A product with a symmetric operand is divided in a grid, as in gemm.c; a triangle in strips of
// columns that are equally much work.
// Threads: each worker packs for itself.
#include <math.h>

#include "kernels/blas/gemm.h"
#include "kernels/blas/level3.h"
#include "runtime/status.h"

#define STRIPS_MOST 256

typedef struct symmetric_job {
  const tc_blas_symmetric_job *call;
  const tc_blas_kernels *kernels;
  int64_t part_rows, part_cols, row_parts;  // of a grid
  int64_t strips;  // 0: a grid
} symmetric_job;

// ---- Parts ----

static const void *element(const void *base, int64_t index, int bytes) {
  return (const char *)base + index * bytes;
}

// Returns where strip s begins.
static int64_t strip_begin(const symmetric_job *job, int64_t s) {
  int64_t n = job->call->product.n, unit = job->kernels->mr;
  if (s == 0) return 0;
  if (s >= job->strips) return n;
  double share = (double)s / (double)job->strips;
  double at = job->call->part == TC_BLAS_LOWER ? 1 - sqrt(1 - share) : sqrt(share);
  return TC_MIN((int64_t)(at * (double)n + 0.5 * (double)unit) / unit * unit, n);
}

static tc_blas_product rows_and_columns(const tc_blas_product *whole, int64_t i, int64_t m, int64_t j, int64_t n,
                                        int bytes) {
  tc_blas_product p = *whole;
  p.m = m;
  p.n = n;
  p.a = element(p.a, i * p.a_row, bytes);
  p.b = element(p.b, j * p.b_col, bytes);
  p.c = (char *)p.c + (i + j * p.ldc) * bytes;
  return p;
}

static void run_strip(const symmetric_job *job, int64_t index, void *scratch) {
  const tc_blas_product *whole = &job->call->product;
  int64_t j = strip_begin(job, index), end = strip_begin(job, index + 1);
  bool is_lower = job->call->part == TC_BLAS_LOWER;
  int64_t i = is_lower ? j : 0, rows = is_lower ? whole->m - j : end;
  if (end <= j) return;
  tc_blas_packed s = {.kernels = job->kernels, .part = job->call->part, .diagonal = j - i};
  s.product = rows_and_columns(whole, i, rows, j, end - j, job->kernels->bytes);
  tc_blas_product second;
  if (job->call->second) {
    second = rows_and_columns(job->call->second, i, rows, j, end - j, job->kernels->bytes);
    s.second = &second;
  }
  tc_blas_packed_choose(&s);
  tc_blas_packed_run(&s, scratch);
}

static void run_cell(const symmetric_job *job, int64_t index, void *scratch) {
  const tc_blas_product *whole = &job->call->product;
  int64_t i = index % job->row_parts * job->part_rows, j = index / job->row_parts * job->part_cols;
  tc_blas_packed s = {.kernels = job->kernels, .symmetric = job->call->symmetric};
  s.product = rows_and_columns(whole, i, TC_MIN(job->part_rows, whole->m - i), j, TC_MIN(job->part_cols, whole->n - j),
                               job->kernels->bytes);
  // A symmetric operand begins where it does; its lines are told apart.
  if (s.symmetric == TC_BLAS_A) s.product.a = whole->a;
  if (s.symmetric == TC_BLAS_B) s.product.b = whole->b;
  s.first_line = s.symmetric == TC_BLAS_A ? i : j;
  tc_blas_packed_choose(&s);
  tc_blas_packed_run(&s, scratch);
}

static void run_part(const symmetric_job *job, int64_t index, void *scratch) {
  if (job->strips == 0) {
    run_cell(job, index, scratch);
    return;
  }
  run_strip(job, index, scratch);
}

static void run_task(void *arg, int stage, int64_t index, tc_worker *worker) {
  (void)stage;
  run_part(arg, index, worker->scratch);
}

// ---- The whole ----

static void scale(const tc_blas_symmetric_job *call, int bytes) {
  const tc_blas_product *p = &call->product;
  for (int64_t j = 0; j < p->n; j++) {
    int64_t from = call->part == TC_BLAS_LOWER ? j : 0, to = call->part == TC_BLAS_UPPER ? j + 1 : p->m;
    tc_blas_product column = {.m = to - from, .n = 1, .beta = p->beta, .ldc = p->ldc};
    column.c = (char *)p->c + (from + j * p->ldc) * bytes;
    tc_blas_scale(&column, bytes);
  }
}

// Returns the tasks of a grid whose parts read least.
static int64_t divide(symmetric_job *job, int threads) {
  const tc_blas_product *p = &job->call->product;
  int64_t mr = job->kernels->mr, nr = job->kernels->nr;
  job->part_rows = p->m;
  job->part_cols = p->n;
  job->row_parts = 1;
  if (threads == 1) return 1;
  int64_t row_tiles = tc_blas_divide_up(p->m, mr), col_tiles = tc_blas_divide_up(p->n, nr);
  int64_t best = 1;
  double least = INFINITY;
  for (int64_t rows = 1; rows <= TC_MIN(threads, row_tiles); rows++) {
    if (threads % rows != 0 || threads / rows > col_tiles) continue;
    double read = (double)p->m / (double)rows + (double)p->n / (double)(threads / rows);
    if (read < least) {
      least = read;
      best = rows;
    }
  }
  int64_t cols = TC_MIN(threads / best, col_tiles);
  job->part_rows = tc_blas_divide_up(row_tiles, best) * mr;
  job->part_cols = tc_blas_divide_up(col_tiles, cols) * nr;
  job->row_parts = tc_blas_divide_up(p->m, job->part_rows);
  return job->row_parts * tc_blas_divide_up(p->n, job->part_cols);
}

tc_status tc_blas_run_symmetric(const char *op, const tc_blas_symmetric_job *call) {
  symmetric_job job = {.call = call, .kernels = tc_blas_kernels_of(call->type)};
  const tc_blas_product *p = &call->product;
  if (tc_blas_reads_nothing(p)) {
    scale(call, job.kernels->bytes);
    return TC_OK;
  }
  double work = (double)p->m * (double)p->n * (double)p->k;
  if (call->part != TC_BLAS_ALL) work *= call->second ? 1 : 0.5;
  int threads = tc_blas_threads_for(work, call->max_threads);
  int64_t n_tasks = 0;
  if (call->part == TC_BLAS_ALL) {
    n_tasks = divide(&job, threads);
  } else {
    job.strips = TC_MIN(threads, STRIPS_MOST);
    n_tasks = job.strips;
  }
  size_t scratch_bytes = tc_blas_packed_bytes(job.kernels, p->m, p->n, call->second ? 2 * p->k : p->k);
  if (n_tasks == 1 && scratch_bytes <= TC_BLAS_STACK_BYTES) {
    _Alignas(64) char scratch[TC_BLAS_STACK_BYTES];
    run_part(&job, 0, scratch);
    return TC_OK;
  }
  tc_blas_parts parts = {.task = run_task, .arg = &job, .count = n_tasks, .threads = threads, .work = work};
  parts.scratch_bytes = scratch_bytes;
  return tc_blas_parts_run(op, &parts);
}
