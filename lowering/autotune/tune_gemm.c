// Compiles tilings and times them alternately. See tune_gemm.h.
#include "lowering/autotune/tune_gemm.h"

#include <inttypes.h>
#include <string.h>

#include "device/buffer.h"
#include "lowering/autotune/tuning_cache.h"
#include "lowering/jit/kernel_cache.h"
#include "lowering/kir/libm.h"
#include "runtime/arena.h"
#include "runtime/log.h"
#include "runtime/team.h"

#define LEAST_STEPS 1e6  // fewest multiply-adds worth tuning: 10 us
#define MOST_BYTES ((size_t)1 << 31)  // most bytes of an operand
#define MOST_CANDIDATES 96
#define MOST_QUALIFYING 4
#define MOST_ROUNDS 40
#define SLOW 1.12  // a candidate drops out above this multiple of a round's fastest time
#define SLOW_AT_FIRST 1.5
#define LONG_NS 20000000u  // a candidate whose single run takes longer may drop out at once
#define QUALIFYING_NS 150000000u  // longest qualifying, if it has LEAST_ROUNDS at least
#define LEAST_ROUNDS 3
#define MOST_NS 10000000000u  // longest tuning of a matmul: then the best so far is used
#define GAIN 0.98  // a tiling wins if it takes at most this share of the other's time
#define FINAL_NS 400000000u
#define LEAST_FINAL 3
#define MOST_FINAL 100

typedef struct candidate {
  tc_gemm_tiling tiling;
  tc_kernel *kernel;
  int64_t extent, grain;
  uint8_t operand[TC_MAX_BUFS];  // the tuning's operand of each buffer
  uint32_t n_buf;
  uint64_t ns;  // shortest run in the present qualifying
  bool runs;  // true: still takes part in the qualifying
} candidate;

typedef struct tuning {
  const tc_matmul_facts *f;
  const tc_fusion_plan *gr;
  const tc_fusion *group;
  tc_arena *arena;
  uint32_t node[TC_MAX_BUFS], n_operand;
  tc_buffer *operand[TC_MAX_BUFS];
  uint64_t num[TC_MAX_NUMS], start_ns;
  candidate candidate[MOST_CANDIDATES];
  int n_candidate;
} tuning;

void tc_tune_key(const tc_matmul_facts *f, char *out, size_t bytes) {
  const tc_operand *a = &f->left, *b = &f->right;
  snprintf(out, bytes,
           "%s %" PRId64 "x%" PRId64 "x%" PRId64 "x%" PRId64 " left %s %" PRId64 " %" PRId64 " %d %" PRId64
           " right %s %" PRId64 " %" PRId64 " %" PRId64 " threads %d%s",
           tc_type_name(f->acc), f->of.batch, f->of.m, f->of.n, f->of.k, tc_type_name(a->type),
           a->scattered ? 0 : a->row, a->col, a->scattered, a->segment, tc_type_name(b->type), b->row, b->col, b->panel,
           tc_team_threads(), f->tmm ? " tiles" : "");
}

// ---- running ----

typedef struct race_run {
  const tuning *t;
  const candidate *x;
} race_run;

static void candidate_task(void *arg, int stage, int64_t index, tc_worker *w) {
  const race_run *r = arg;
  const candidate *x = r->x;
  void *buf[TC_MAX_BUFS];
  (void)stage;
  for (uint32_t i = 0; i < x->n_buf; i++) buf[i] = r->t->operand[x->operand[i]]->ptr;
  w->math = tc_kir_math_table();
  tc_kernel_fn *fn = atomic_load_explicit(&x->kernel->fn, memory_order_acquire);
  fn(x->kernel->ctx, buf, r->t->num, index * x->grain, TC_MIN((index + 1) * x->grain, x->extent), w);
}

static uint64_t time_run(const tuning *t, const candidate *x) {
  race_run r = {t, x};
  int64_t n_tasks = tc_ceil_div(x->extent, x->grain);
  tc_job job = {.task = candidate_task,
                .arg = &r,
                .n_stages = 1,
                .n_tasks = &n_tasks,
                .scratch_bytes = x->kernel->scratch_bytes,
                .spread = true};
  uint64_t start = tc_now_ns();
  (void)tc_team_run(&job);
  return tc_now_ns() - start;
}

// Runs each remaining candidate once, then drops the slow ones. Returns how many remain.
static int run_round(tuning *t, int round) {
  uint64_t least = UINT64_MAX;
  int n = 0;
  for (int i = 0; i < t->n_candidate; i++) {
    candidate *x = &t->candidate[i];
    if (!x->runs) continue;
    uint64_t ns = time_run(t, x);
    if (round == 0 && ns < LONG_NS) ns = time_run(t, x);  // the first run met cold code and memory
    x->ns = TC_MIN(x->ns, ns);
    least = TC_MIN(least, x->ns);
  }
  double slow = round == 0 && least < LONG_NS ? SLOW_AT_FIRST : SLOW;
  for (int i = 0; i < t->n_candidate; i++) {
    t->candidate[i].runs = t->candidate[i].runs && (double)t->candidate[i].ns <= slow * (double)least;
    n += t->candidate[i].runs;
  }
  return n;
}

// Runs the marked candidates against each other. Returns the fastest.
static int run_qualifying(tuning *t) {
  uint64_t start = tc_now_ns();
  for (int i = 0; i < t->n_candidate; i++) t->candidate[i].ns = UINT64_MAX;
  for (int round = 0; round < MOST_ROUNDS; round++) {
    uint64_t now = (run_round(t, round), tc_now_ns());
    if (now - t->start_ns > MOST_NS || (round + 1 >= LEAST_ROUNDS && now - start > QUALIFYING_NS)) break;
  }
  int best = 0;
  for (int i = 1; i < t->n_candidate; i++)
    if (t->candidate[i].ns < t->candidate[best].ns) best = i;
  return best;
}

// ---- candidates ----

// Finds the operand that holds the node, allocated at its first use. It is zero, so that no index
// or divisor is out of range. False: no memory.
static bool find_operand(tuning *t, uint32_t node, uint8_t *which) {
  const tc_gnode *x = &t->gr->graph->node[node];
  size_t bytes = (size_t)x->shape->count * tc_type_bytes(x->type);
  uint32_t i = 0;
  while (i < t->n_operand && t->node[i] != node) i++;
  *which = (uint8_t)i;
  if (i < t->n_operand) return true;
  if (i == TC_MAX_BUFS || bytes > MOST_BYTES || tc_buffer_create(bytes, &t->operand[i]) != TC_OK) return false;
  memset(t->operand[i]->ptr, 0, bytes);
  t->node[t->n_operand++] = node;
  return true;
}

// Adds a kernel with this tiling to the next qualifying. False: no memory, or it could not be made.
static bool add_candidate(tuning *t, const tc_gemm_tiling *tiling) {
  candidate *x = &t->candidate[t->n_candidate];
  tc_emit_result e;
  uint32_t compiled = 0;
  for (int i = 0; i < t->n_candidate; i++)
    if (memcmp(&t->candidate[i].tiling, tiling, sizeof *tiling) == 0) return true;
  if (t->n_candidate == MOST_CANDIDATES) return true;
  *x = (candidate){.tiling = *tiling, .runs = true};
  tc_arena_reset(t->arena);
  if (tc_emit_fusion(&e, t->gr, t->group, tiling, t->arena) != TC_OK) return false;
  bool made = tc_kernel_get(&e.kir, e.stem, NULL, &x->kernel, &compiled) == TC_OK;
  tc_kir_destroy(&e.kir);
  for (uint32_t i = 0; i < e.n_buf && made; i++) made = find_operand(t, e.buf[i], &x->operand[i]);
  if (!made) return tc_kernel_release(x->kernel), false;
  x->n_buf = e.n_buf, x->extent = e.extent, x->grain = tc_team_grain(e.work, e.work, e.extent);
  for (uint32_t i = 0; i < e.n_num; i++) t->num[i] = e.num[i].is_arg ? 0 : e.num[i].value;
  t->n_candidate++;
  return true;
}

// Whether x is faster in seven of ten pairs of runs, and by GAIN in half of them. The shortest of
// many runs is often luck.
// On a shared machine of two cores, whose runs differ by 5 %, it replaced good tilings of the model
// by slower ones.
static bool wins(const tuning *t, candidate *x, candidate *model) {
  uint64_t start = tc_now_ns();
  int n = 0, n_won = 0, n_clear = 0;
  x->ns = model->ns = UINT64_MAX;
  while (n < LEAST_FINAL || (n < MOST_FINAL && tc_now_ns() - start < FINAL_NS)) {
    candidate *first = n % 2 ? model : x, *second = n % 2 ? x : model;
    uint64_t a = time_run(t, first), b = time_run(t, second), ns = n % 2 ? b : a, of_model = n % 2 ? a : b;
    x->ns = TC_MIN(x->ns, ns), model->ns = TC_MIN(model->ns, of_model);
    n_won += ns < of_model, n_clear += (double)ns <= GAIN * (double)of_model, n++;
  }
  return n_won * 10 >= n * 7 && n_clear * 2 >= n;
}

// Hill climbing over neighbours. Returns the best candidate's index; candidate 0 is the model's.
static int climb(tuning *t) {
  int best = 0;
  for (int round = 0; round < MOST_QUALIFYING; round++) {
    tc_gemm_tiling near[TC_MOST_NEIGHBOURS];
    int n = t->n_candidate, n_near = tc_tiling_neighbours(t->f, &t->candidate[best].tiling, near);
    for (int i = 0; i < n_near; i++) (void)add_candidate(t, &near[i]);
    if (t->n_candidate == n) break;
    for (int i = 0; i < n; i++) t->candidate[i].runs = i == best;
    int next = run_qualifying(t);
    if (next == best || (double)t->candidate[next].ns > GAIN * (double)t->candidate[best].ns ||
        tc_now_ns() - t->start_ns > MOST_NS)
      break;
    best = next;
  }
  return best > 0 && wins(t, &t->candidate[best], &t->candidate[0]) ? best : 0;
}

static void log_entry(const tuning *t, const char *key, int best) {
  const candidate *x = &t->candidate[best], *model = &t->candidate[0];
  const int64_t *c = x->tiling.of;
  char gain[64] = "the model's tiling";
  if (best) snprintf(gain, sizeof gain, "%.3g us, the model's %.3g", (double)x->ns * 1e-3, (double)model->ns * 1e-3);
  tc_log_line(TC_LOG_TUNE,
              "%s: %d tilings timed in %.2f s, %s; %" PRId64 " lanes, %" PRId64 " rows, %s%s%s%s%s%schunks of %" PRId64
              ", units of %" PRId64 " panels and %" PRId64 " tiles; %s",
              key, t->n_candidate, (double)(tc_now_ns() - t->start_ns) * 1e-9, gain, c[TC_TILING_LANES],
              c[TC_TILING_ROWS], c[TC_TILING_TRANSPOSE] ? "transposed, " : "", c[TC_TILING_PACK] ? "packed, " : "",
              c[TC_TILING_PACK_A] ? "left packed, " : "", c[TC_TILING_WIDEN_A] ? "left widened, " : "",
              c[TC_TILING_STREAMED] ? "read once, " : "", c[TC_TILING_BY_PANEL] ? "by panels, " : "",
              c[TC_TILING_CHUNK], c[TC_TILING_UNIT_PANELS], c[TC_TILING_UNIT_TILES], x->kernel->name);
}

// Times tilings. False: there was no memory, or no compiler.
static bool measure_candidates(tuning *t, const char *key, tc_gemm_tiling *tiling) {
  tc_error_mark before = tc_error_now();
  bool made = add_candidate(t, tiling) && tc_kernel_tier(t->candidate[0].kernel) == TC_COMPILED;
  if (made) {
    int best = climb(t);
    *tiling = t->candidate[best].tiling;
    if (tc_log_on(TC_LOG_TUNE)) log_entry(t, key, best);
    tc_tuning_cache_put(key, tiling, t->n_candidate);
  }
  (void)tc_error_tell(before);
  for (int i = 0; i < t->n_candidate; i++) tc_kernel_release(t->candidate[i].kernel);
  for (uint32_t i = 0; i < t->n_operand; i++) tc_buffer_release(t->operand[i]);
  return made;
}

bool tc_tune(const tc_matmul_facts *f, const tc_fusion_plan *gr, const tc_fusion *group, tc_arena *arena,
             tc_gemm_tiling *tiling) {
  char key[TC_TUNING_KEY];
  tc_tiling_params b;
  (void)tc_tiling_choose(&b, f, NULL);
  tc_gemm_tiling model = tc_tiling_of(&b);
  tc_tune_key(f, key, sizeof key);
  bool found = tc_tuning_cache_find(key, tiling);
  if (found && !tc_tiling_choose(&b, f, tiling)) {
    tc_log_line(TC_LOG_WARN, "the choice for %s is no tiling of it and is ignored", key);
    found = false;
  }
  if (!found) {
    bool small = (double)(f->of.batch * f->of.m * f->of.n) * (double)f->of.k < LEAST_STEPS;
    tuning *t = small ? NULL : tc_calloc(1, sizeof *t);
    *tiling = model;
    if (t) *t = (tuning){.f = f, .gr = gr, .group = group, .arena = arena, .start_ns = tc_now_ns()};
    found = t && measure_candidates(t, key, tiling);
    tc_free(t);
    if (!found)
      tc_log_line(TC_LOG_TUNE, "%s: as the model has it, %s", key,
                  small ? "too small to be timed" : "for want of memory or a compiler");
  }
  return found && memcmp(tiling, &model, sizeof model) != 0;
}
