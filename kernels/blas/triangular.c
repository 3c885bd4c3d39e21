// Triangular solves and products in blocks of the triangle, in place.
//
//   solve, lower:     x0 = alpha * (a00 \ x0)
//                     x1 = alpha * x1 - a10 * x0    a product of packed.c
//                     x1 = a11 \ x1                 kernels of triangle.h
//   product, lower:   x1 = alpha * a11 * x1; x1 = x1 + alpha * a10 * x0; x0 = alpha * a00 * x0
//
// An upper triangle is walked from its other end. One right-hand side alone is left to level1.h.
// Diagonal blocks are substituted, never inverted.
// So the residual is that of plain substitution.
// Threads: columns of x are independent, and each worker takes some, whatever vectors they fall in.
// Blocks follow from n alone. So no bit depends on threads.
#include <math.h>

#include "kernels/blas/gemm.h"
#include "kernels/blas/level1.h"
#include "kernels/blas/level3.h"
#include "runtime/status.h"

// The longest block of a triangle: 256 f64, 512 f32.
// Measured: Zen 5, 1 thread, trmm of 512, GFLOP/s: f64 120, of 192 118; f32 238, of 384 232.
#define BLOCK_BYTES 2048

typedef struct triangular_job {
  const tc_blas_triangular *call;
  const tc_blas_kernels *kernels;
  const tc_blas_triangle_kernels *triangles;
  double alpha;
  bool scales;  // x is multiplied by the call's alpha first, and alpha is 1 from there
  int64_t block;  // rows of a diagonal block
  int64_t part;  // columns of x for a task
  int64_t sides_bytes, corners_bytes, panel_bytes;
} triangular_job;

static int64_t align_up(int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

static bool has_reciprocals(const triangular_job *job, tc_blas_view a, int64_t n) {
  return job->triangles->has_reciprocals(a.at, a.row + a.col, n);
}

// Runs one diagonal block on its rows of x.
static void run_diagonal(const triangular_job *job, int64_t i, double alpha, tc_blas_view x, int64_t count,
                         char *scratch) {
  const tc_blas_triangular *call = job->call;
  tc_blas_view a = tc_blas_view_at(call->a, i, i, job->kernels->bytes);
  tc_blas_triangle t = {.n = TC_MIN(job->block, call->n - i), .alpha = alpha};
  t.is_upper = call->is_upper;
  t.is_unit = call->is_unit;
  t.is_product = call->is_product;
  t.divides = !t.is_product && !t.is_unit && !has_reciprocals(job, a, t.n);
  t.sides = scratch;
  t.corners = scratch + job->sides_bytes;
  void *panel = scratch + job->sides_bytes + job->corners_bytes;
  job->triangles->pack(&t, a.at, a.row, a.col);
  job->triangles->run(&t, x.at, x.row, x.col, count, panel);
}

// x[i..] = beta * x[i..] + alpha * a's side * x[other rows], of one diagonal block's rows.
static void add_side(const triangular_job *job, int64_t i, double alpha, double beta, tc_blas_view x, int64_t count,
                     void *scratch) {
  const tc_blas_triangular *call = job->call;
  int bytes = job->kernels->bytes;
  int64_t rows = TC_MIN(job->block, call->n - i), from = call->is_upper ? i + rows : 0;
  int64_t k = call->is_upper ? call->n - from : i;
  if (k == 0) return;
  tc_blas_product p = tc_blas_product_of(rows, count, k, alpha, tc_blas_view_at(call->a, i, from, bytes),
                                         tc_blas_view_at(x, from, 0, bytes), beta, tc_blas_view_at(x, i, 0, bytes));
  tc_blas_packed_multiply(job->kernels, &p, scratch);
}

// x = alpha * x.
static void scale_columns(const tc_blas_triangular *call, tc_blas_view x, int64_t count, int bytes) {
  tc_blas_product p = {.m = call->n, .n = count, .beta = call->alpha, .c = x.at, .ldc = x.col};
  if (x.row != 1) {
    p.m = count;
    p.n = call->n;
    p.ldc = x.row;
  }
  tc_blas_scale(&p, bytes);
}

static void run_columns(const triangular_job *job, int64_t first, int64_t count, void *scratch) {
  const tc_blas_triangular *call = job->call;
  int bytes = job->kernels->bytes;
  tc_blas_view x = tc_blas_view_at(call->x, 0, first, bytes);
  int64_t last = call->n <= job->block ? 0 : (call->n - 1) / job->block * job->block;
  bool falls = call->is_upper != call->is_product;
  if (job->scales) scale_columns(call, x, count, bytes);
  for (int64_t step = 0; step <= last; step += job->block) {
    int64_t i = falls ? last - step : step;
    tc_blas_view rows = tc_blas_view_at(x, i, 0, bytes);
    if (call->is_product) {
      run_diagonal(job, i, job->alpha, rows, count, scratch);
      add_side(job, i, job->alpha, 1, x, count, scratch);
    } else {
      add_side(job, i, -1, job->alpha, x, count, scratch);
      run_diagonal(job, i, step == 0 ? job->alpha : 1, rows, count, scratch);
    }
  }
}

static void run_part(void *arg, int stage, int64_t index, tc_worker *worker) {
  (void)stage;
  const triangular_job *job = arg;
  int64_t first = index * job->part;
  run_columns(job, first, TC_MIN(job->part, job->call->count - first), worker->scratch);
}

static size_t choose_blocks(triangular_job *job) {
  const tc_blas_triangular *call = job->call;
  int64_t bytes = job->kernels->bytes, nr = job->kernels->nr;
  // A short triangle is one block. Divisions would take a tenth of a small call.
  job->block =
      call->n * bytes <= BLOCK_BYTES ? call->n + nr - 1 : tc_blas_even_pieces(call->n, BLOCK_BYTES / bytes, nr);
  job->sides_bytes = align_up(job->block * job->block * bytes);
  job->corners_bytes = align_up(job->block * nr * bytes);
  job->panel_bytes = job->block * job->kernels->mr * bytes;
  size_t diagonal = (size_t)(job->sides_bytes + job->corners_bytes + job->panel_bytes);
  if (call->n <= job->block) return diagonal;
  int64_t widest = TC_MAX_OF(job->block, job->part);
  size_t side = tc_blas_packed_bytes(job->kernels, widest, widest, call->n - 1);
  return TC_MAX_OF(diagonal, side);
}

// Runs one right-hand side, for which nothing is worth packing.
static void run_vector(const tc_blas_triangular *call) {
  tc_blas_triangle t = {.n = call->n, .alpha = call->alpha};
  t.is_upper = call->is_upper;
  t.is_unit = call->is_unit;
  t.is_product = call->is_product;
  tc_blas_vector_kernels_of(call->type)->triangle(&t, call->a.at, call->a.row, call->a.col, call->x.at, call->x.row);
}

tc_status tc_blas_run_triangular(const char *op, const tc_blas_triangular *call) {
  triangular_job job = {.call = call, .kernels = tc_blas_kernels_of(call->type), .alpha = call->alpha};
  int64_t lanes = tc_blas_lanes(job.kernels);
  job.triangles = tc_blas_triangle_kernels_of(job.kernels);
  if (call->alpha == 0) {
    scale_columns(call, call->x, call->count, job.kernels->bytes);
    return TC_OK;
  }
  if (call->count == 1) {
    run_vector(call);
    return TC_OK;
  }
  // Unknowns that fill a block up are zero, and stay so.
  job.scales = !isfinite(call->alpha);
  if (job.scales) job.alpha = 1;
  double work = (double)call->n * (double)call->n * (double)call->count / 2;
  int threads = tc_blas_threads_for(work, call->max_threads);
  job.part = call->count;
  if (threads > 1)
    job.part = tc_blas_even_pieces(call->count, tc_blas_divide_up(call->count, threads) + lanes - 1, lanes);
  size_t scratch_bytes = choose_blocks(&job);
  if (threads == 1 && scratch_bytes <= TC_BLAS_STACK_BYTES) {
    _Alignas(64) char scratch[TC_BLAS_STACK_BYTES];
    run_columns(&job, 0, call->count, scratch);
    return TC_OK;
  }
  tc_blas_parts parts = {.task = run_part, .arg = &job, .threads = threads, .work = work};
  parts.count = tc_blas_divide_up(call->count, job.part);
  parts.scratch_bytes = scratch_bytes;
  return tc_blas_parts_run(op, &parts);
}
