// Products in blocks: operands are packed, and tiles of c stay in registers (Goto and van de Geijn,
// "Anatomy of high-performance matrix multiplication").
//
//   for columns of nc:  for chunks of kc along k:  pack b    nc x kc: third-level cache
//     for rows of mc:  pack a                                mc x kc: second-level cache
//       tiles of mr x nr                                     nr x kc: first-level cache
//
// Small products do without packing (kernels.h, direct).
// Invariants: chunks of k follow from k alone, and c is written after each. So no bit depends on
// threads, nor on the road that a product takes.
// Threads: c is divided in parts of whole tiles, a task each; every worker packs for itself. While
// other threads compute products too, each takes fewer.
// Owner: packed operands lie in the scratch memory of the team.
#include "kernels/blas/gemm.h"

#include <stdatomic.h>
#include <string.h>

#include "kernels/blas/half.h"
#include "runtime/float_mode.h"
#include "runtime/status.h"
#include "runtime/team.h"
#include "runtime/topology.h"

#define L2_BYTES_DEFAULT (INT64_C(256) << 10)  // where the topology does not know it
// Multiply-adds that are worth a second thread, and those below which a job is brief.
#define THREAD_WORK 250000
#define BRIEF_WORK 2000000
// Without packing a part has at most so many multiply-adds, and columns that lie so close.
// Measured: Zen 5, 1 thread, n = 256, GFLOP/s: f64 134, packed 127; f32 271, packed 250.
#define DIRECT_WORK (520.0 * 520 * 520)
#define DIRECT_LD_BYTES 20000
#define TASK_WORK 500000.0  // of a task of several products

static atomic_int n_running;  // threads that compute products of some size now

// A batch in parts. Rows and columns of parts are whole tiles, but for the last ones.
typedef struct gemm_job {
  const tc_blas_batch *batch;
  const tc_blas_kernels *kernels;
  int64_t mc, nc, kc;
  int64_t part_rows, part_cols, row_parts, col_parts;
  int64_t n_parts, parts_per_task;  // of all products
  bool direct;  // true: a part is computed where its operands lie, nc columns and kc steps at a time
  size_t a_bytes, b_bytes;  // of packed operands; of a panel of a, if direct
} gemm_job;

static bool is_half(tc_type type) {
  return type == TC_F16 || type == TC_BF16;
}

// ---- Parts of a product ----

// Packs lines of halves. A panel at a time is widened into `wide` first.
static void pack_halves(const gemm_job *job, bool is_b, char *out, const void *in, int64_t across, int64_t along,
                        int64_t lines, int64_t k, float *wide) {
  const tc_blas_kernels *kernels = job->kernels;
  int64_t width = is_b ? kernels->nr : kernels->mr;
  for (int64_t first = 0; first < lines; first += width, out += width * k * kernels->bytes) {
    int64_t there = TC_MIN(lines - first, width);
    bool side_by_side = across == 1;
    int64_t spans = side_by_side ? k : there, length = side_by_side ? there : k;
    for (int64_t i = 0; i < spans; i++)
      tc_blas_widen(job->batch->type, wide + i * length,
                    tc_blas_element(in, first * across + i * (side_by_side ? along : across), 2), length);
    int64_t wide_across = side_by_side ? 1 : k, wide_along = side_by_side ? there : 1;
    if (is_b)
      kernels->pack_b(out, wide, wide_along, wide_across, k, there);
    else
      kernels->pack_a(out, wide, wide_across, wide_along, there, k);
  }
}

static void pack_a(const gemm_job *job, void *out, const tc_blas_product *p, int64_t i, int64_t at, float *wide) {
  int bytes = is_half(job->batch->type) ? 2 : job->kernels->bytes;
  int64_t rows = TC_MIN(job->mc, p->m - i), k = TC_MIN(job->kc, p->k - at);
  const void *a = tc_blas_element(p->a, i * p->a_row + at * p->a_col, bytes);
  if (bytes == 2)
    pack_halves(job, false, out, a, p->a_row, p->a_col, rows, k, wide);
  else
    job->kernels->pack_a(out, a, p->a_row, p->a_col, rows, k);
}

static void pack_b(const gemm_job *job, void *out, const tc_blas_product *p, int64_t at, int64_t j, float *wide) {
  int bytes = is_half(job->batch->type) ? 2 : job->kernels->bytes;
  int64_t cols = TC_MIN(job->nc, p->n - j), k = TC_MIN(job->kc, p->k - at);
  const void *b = tc_blas_element(p->b, at * p->b_row + j * p->b_col, bytes);
  if (bytes == 2)
    pack_halves(job, true, out, b, p->b_col, p->b_row, cols, k, wide);
  else
    job->kernels->pack_b(out, b, p->b_row, p->b_col, k, cols);
}

static void run_blocks(const gemm_job *job, const tc_blas_product *p, char *scratch) {
  void *packed_a = scratch, *packed_b = scratch + job->a_bytes;
  float *wide = (float *)(scratch + job->a_bytes + job->b_bytes);
  for (int64_t j = 0; j < p->n; j += job->nc)
    for (int64_t at = 0; at < p->k; at += job->kc) {
      tc_blas_product block = {.n = TC_MIN(job->nc, p->n - j), .k = TC_MIN(job->kc, p->k - at), .alpha = p->alpha};
      block.beta = at == 0 ? p->beta : 1;
      block.ldc = p->ldc;
      pack_b(job, packed_b, p, at, j, wide);
      for (int64_t i = 0; i < p->m; i += job->mc) {
        block.m = TC_MIN(job->mc, p->m - i);
        block.c = (char *)p->c + (i + j * p->ldc) * job->kernels->bytes;
        pack_a(job, packed_a, p, i, at, wide);
        job->kernels->packed(&block, packed_a, packed_b);
      }
    }
}

// Columns of b stay in the second-level cache while rows of a pass by.
static void run_direct(const gemm_job *job, const tc_blas_product *p, void *panel) {
  int bytes = job->kernels->bytes;
  for (int64_t j = 0; j < p->n; j += job->nc)
    for (int64_t at = 0; at < p->k; at += job->kc) {
      tc_blas_product block = *p;
      block.n = TC_MIN(job->nc, p->n - j);
      block.k = TC_MIN(job->kc, p->k - at);
      if (at > 0) block.beta = 1;
      block.a = tc_blas_element(p->a, at * p->a_col, bytes);
      block.b = tc_blas_element(p->b, at * p->b_row + j * p->b_col, bytes);
      block.c = (char *)p->c + j * p->ldc * bytes;
      job->kernels->direct(&block, panel);
    }
}

// c = beta * c, where a and b are not to be read.
void tc_blas_scale(const tc_blas_product *p, int bytes) {
  for (int64_t j = 0; j < p->n && p->beta != 1; j++) {
    char *column = (char *)p->c + j * p->ldc * bytes;
    if (p->beta == 0)
      memset(column, 0, (size_t)(p->m * bytes));
    else if (bytes == 8)
      for (int64_t i = 0; i < p->m; i++) ((double *)column)[i] *= p->beta;
    else
      for (int64_t i = 0; i < p->m; i++) ((float *)column)[i] *= (float)p->beta;
  }
}

// ---- Batches ----

static tc_blas_product product_at(const tc_blas_batch *batch, int bytes, int64_t i) {
  tc_blas_product p = batch->product;
  int in_bytes = is_half(batch->type) ? 2 : bytes;
  p.c = batch->c_list ? batch->c_list[i] : (char *)p.c + i * batch->stride_c * bytes;
  if (tc_blas_reads_nothing(&p)) return p;
  p.a = batch->a_list ? batch->a_list[i] : tc_blas_element(p.a, i * batch->stride_a, in_bytes);
  p.b = batch->b_list ? batch->b_list[i] : tc_blas_element(p.b, i * batch->stride_b, in_bytes);
  return p;
}

static void run_part(const gemm_job *job, int64_t index, void *scratch) {
  const tc_blas_batch *batch = job->batch;
  int bytes = job->kernels->bytes, in_bytes = is_half(batch->type) ? 2 : bytes;
  int64_t parts = job->row_parts * job->col_parts;
  tc_blas_product p = product_at(batch, bytes, index / parts);
  int64_t i = index % parts % job->row_parts * job->part_rows, j = index % parts / job->row_parts * job->part_cols;
  p.m = TC_MIN(job->part_rows, p.m - i);
  p.n = TC_MIN(job->part_cols, p.n - j);
  p.c = (char *)p.c + (i + j * p.ldc) * bytes;
  if (!tc_blas_reads_nothing(&p)) {
    p.a = tc_blas_element(p.a, i * p.a_row, in_bytes);
    p.b = tc_blas_element(p.b, j * p.b_col, in_bytes);
  }
  if (tc_blas_reads_nothing(&p))
    tc_blas_scale(&p, bytes);
  else if (job->direct)
    run_direct(job, &p, scratch);
  else
    run_blocks(job, &p, scratch);
}

static void run_task(void *arg, int stage, int64_t task, tc_worker *worker) {
  (void)stage;
  const gemm_job *job = arg;
  int64_t first = task * job->parts_per_task, end = TC_MIN(first + job->parts_per_task, job->n_parts);
  for (int64_t i = first; i < end; i++) run_part(job, i, worker->scratch);
}

// Divides c for so many threads: the grid whose parts read least.
static void divide(gemm_job *job, int threads) {
  const tc_blas_product *p = &job->batch->product;
  int64_t row_tiles = tc_blas_divide_up(p->m, job->kernels->mr), col_tiles = tc_blas_divide_up(p->n, job->kernels->nr);
  double least = 0;
  job->row_parts = 1;
  job->col_parts = 1;
  for (int64_t rows = 1; rows <= threads; rows++) {
    int64_t cols = threads / rows;
    if (rows * cols != threads || rows > row_tiles || cols > col_tiles) continue;
    double read = (double)p->m / (double)rows + (double)p->n / (double)cols;
    if (least != 0 && read >= least) continue;
    least = read;
    job->row_parts = rows;
    job->col_parts = cols;
  }
  job->part_rows = tc_blas_divide_up(row_tiles, job->row_parts) * job->kernels->mr;
  job->part_cols = tc_blas_divide_up(col_tiles, job->col_parts) * job->kernels->nr;
  job->row_parts = tc_blas_divide_up(p->m, job->part_rows);
  job->col_parts = tc_blas_divide_up(p->n, job->part_cols);
}

int64_t tc_blas_l2_bytes(void) {
  int64_t bytes = (int64_t)tc_topology_get()->l2_bytes;
  return bytes > 0 ? bytes : L2_BYTES_DEFAULT;
}

// Whether parts gain by doing without packing: the second-level cache holds half of b, and neither
// operand spreads over many pages.
static bool takes_direct(const gemm_job *job) {
  const tc_blas_product *p = &job->batch->product;
  int64_t bytes = job->kernels->bytes, rows = TC_MIN(p->m, job->part_rows), cols = TC_MIN(p->n, job->part_cols);
  if (is_half(job->batch->type) || (double)rows * (double)cols * (double)p->k > DIRECT_WORK) return false;
  int64_t ld = TC_MAX_OF(TC_MAX_OF(p->a_row, p->a_col), TC_MAX_OF(p->b_row, p->b_col));
  return ld * bytes < DIRECT_LD_BYTES && cols * job->kc * bytes <= 2 * tc_blas_l2_bytes();
}

static void choose_blocks(gemm_job *job) {
  const tc_blas_product *p = &job->batch->product;
  const tc_blas_kernels *kernels = job->kernels;
  if (tc_blas_reads_nothing(p)) return;
  job->kc = tc_blas_even_pieces(p->k, TC_BLAS_CHUNK_BYTES / kernels->bytes, 1);
  job->direct = takes_direct(job);
  int64_t line_bytes = job->kc * kernels->bytes;
  int64_t b_bytes = job->direct ? tc_blas_l2_bytes() * 3 / 4 : TC_BLAS_PACKED_B_BYTES;
  job->nc = tc_blas_even_pieces(TC_MIN(p->n, job->part_cols), b_bytes / line_bytes, kernels->nr);
  if (job->direct) {
    job->a_bytes = p->a_row != 1 ? tc_blas_align_up(kernels->mr * line_bytes) : 0;
    return;
  }
  job->mc = tc_blas_even_pieces(TC_MIN(p->m, job->part_rows), tc_blas_l2_bytes() / 2 / line_bytes, kernels->mr);
  job->a_bytes = tc_blas_align_up(job->mc * line_bytes);
  job->b_bytes = tc_blas_align_up(job->nc * line_bytes);
}

// Returns how many threads the batch is worth, of those that nobody else's products use.
static int threads_of(const tc_blas_batch *batch, double work, int others) {
  if (batch->max_threads == 1 || work < 2 * THREAD_WORK) return 1;
  int64_t threads = tc_team_threads() - others;
  if (batch->max_threads > 0) threads = TC_MIN(threads, batch->max_threads);
  return (int)TC_MAX_OF(TC_MIN((double)threads, work / THREAD_WORK), 1);
}

static tc_status run_team(const tc_blas_batch *batch, const tc_blas_kernels *kernels) {
  const tc_blas_product *p = &batch->product;
  tc_float_mode before = tc_float_mode_default();
  double work = (double)p->m * (double)p->n * (tc_blas_reads_nothing(p) ? 1 : (double)p->k) * (double)batch->count;
  int others = atomic_fetch_add_explicit(&n_running, 1, memory_order_relaxed);
  int threads = threads_of(batch, work, others);
  gemm_job job = {.batch = batch, .kernels = kernels};
  divide(&job, batch->count == 1 ? threads : 1);
  choose_blocks(&job);
  job.n_parts = job.row_parts * job.col_parts * batch->count;
  job.parts_per_task =
      (int64_t)TC_MIN((double)tc_blas_divide_up(job.n_parts, threads), TASK_WORK * (double)job.n_parts / work + 1);
  int64_t n_tasks = tc_blas_divide_up(job.n_parts, job.parts_per_task);
  tc_job team = {.task = run_task, .arg = &job, .n_stages = 1, .n_tasks = &n_tasks, .max_threads = threads};
  team.brief = work < BRIEF_WORK;
  team.spread = true;
  size_t wide_bytes = is_half(batch->type) ? (size_t)(TC_MAX_OF(kernels->mr, kernels->nr) * job.kc) * sizeof(float) : 0;
  team.scratch_bytes = job.a_bytes + job.b_bytes + wide_bytes;
  int status = tc_team_run(&team);
  atomic_fetch_sub_explicit(&n_running, 1, memory_order_relaxed);
  tc_float_mode_restore(before);
  return status ? tc_fail(TC_ERR_MEMORY, "gemm", 0, "no memory for %zu bytes of packed operands", team.scratch_bytes)
                : TC_OK;
}

tc_status tc_blas_gemm_batch(const tc_blas_batch *batch) {
  const tc_blas_kernels *kernels = tc_blas_kernels_of(batch->type);
  return run_team(batch, kernels);
}

tc_status tc_blas_gemm_large(tc_type type, const tc_blas_product *product, int max_threads) {
  tc_blas_batch batch = {.type = type, .product = *product, .max_threads = max_threads, .count = 1};
  return run_team(&batch, tc_blas_kernels_of(type));
}
