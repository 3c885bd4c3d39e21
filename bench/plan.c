// First steps of long programs: their plans are made, their few kernels found, and they run. Each
// call forgets plans and kernels before; kernels are interpreted or compiled as in a program.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tc/control.h>

#include "bench/bench.h"

#define GRU_BATCH 4
#define LENGTHS 32  // of a GRU's sequences, from 20 to 200

typedef struct program {
  int n;  // parameters, steps or rows
  int units, batch;  // of a GRU
  bool scans;  // true: by tc_scan
  bool (*step)(struct program *);  // the whole of it, its result in hand
  bool (*right)(const struct program *);
  float got[2];  // by the latest step
} program;

static bool read_floats(program *p, tc_tensor a, tc_tensor b) {
  p->got[0] = bench_element(a, 7), p->got[1] = bench_element(b, 1);
  return isfinite(p->got[0]) && isfinite(p->got[1]);
}

// ---- parameters under AdamW, with clipping ----

static bool adamw(program *p) {
  tc_tensor *w = malloc((size_t)p->n * sizeof *w);
  for (int i = 0; i < p->n; i++) w[i] = tc_param(tc_full(TC_SHAPE(8, 16), .5, TC_F32));
  tc_optimizer *opt = tc_adamw(w, p->n, (tc_adam_options){.lr = 1e-2, TC_ADAM_DEFAULTS, .weight_decay = .01});
  tc_scope s = tc_scope_begin();
  tc_tensor x = tc_ones(TC_SHAPE(4, 8), TC_F32), loss = tc_zeros(TC_SCALAR, TC_F32);
  for (int i = 0; i < p->n; i++) loss = tc_add(loss, tc_mean(tc_square(tc_matmul(x, w[i])), TC_ALL, false));
  bool ok = tc_backward(loss) == TC_OK;
  (void)tc_clip_grad_norm(w, p->n, 1);
  ok = ok && tc_optimizer_step(opt) == TC_OK && tc_zero_grad(opt) == TC_OK && isfinite(bench_element(loss, 0));
  tc_scope_end(s);
  ok = ok && read_floats(p, w[0], w[p->n - 1]);
  tc_optimizer_destroy(opt);
  for (int i = 0; i < p->n; i++) tc_release(w[i]);
  free(w);
  return ok;
}

// The first step is the learning rate long, but for eps, after the decay.
static bool adamw_right(const program *p) {
  return bench_near(p->got[0], .5 * (1 - 1e-4) - .01, 1e-4) && p->got[0] == p->got[1];
}

// ---- chains of [100] f64 ----

static bool finish_chain(program *p, tc_tensor x, tc_tensor y) {
  bool ok = tc_backward(tc_sum(y, TC_ALL, false)) == TC_OK;
  tc_tensor g = tc_cast(tc_grad(x), TC_F32);
  ok = ok && read_floats(p, g, g);
  tc_release(x);
  return ok;
}

static bool sines(program *p) {
  tc_scope s = tc_scope_begin();
  tc_tensor x = tc_param(tc_full(TC_SHAPE(100), .5, TC_F64)), y = x;
  for (int i = 0; i < p->n; i++) y = tc_sin(y);
  bool ok = finish_chain(p, x, y);
  tc_scope_end(s);
  return ok;
}

static bool sines_right(const program *p) {
  double y = .5, slope = 1;
  for (int i = 0; i < p->n; i++) slope *= cos(y), y = sin(y);
  return bench_near(p->got[0], slope, 1e-6 + 1e-3 * slope);
}

static bool pendulum(program *p) {
  tc_scope s = tc_scope_begin();
  tc_tensor x = tc_param(tc_full(TC_SHAPE(100), .5, TC_F64)), v = tc_zeros(TC_SHAPE(100), TC_F64), y = x;
  for (int i = 0; i < p->n; i++) {
    v = tc_add(v, tc_mul(tc_neg(tc_sin(y)), .001));
    y = tc_add(y, tc_mul(v, .001));
  }
  bool ok = finish_chain(p, x, y);
  tc_scope_end(s);
  return ok;
}

static bool pendulum_right(const program *p) {
  double y = .5, v = 0, dy = 1, dv = 0;
  for (int i = 0; i < p->n; i++) {
    dv -= cos(y) * dy * .001, v -= sin(y) * .001;
    dy += dv * .001, y += v * .001;
  }
  return bench_near(p->got[0], dy, 1e-6);
}

// ---- recurrences ----

typedef struct gru_weights {
  tc_tensor in, state, x;
  bool there;  // values of the first two, so that a first step's plan is the next one's
} gru_weights;

static tc_tensor part(tc_tensor x, int64_t i, int64_t units) {
  return tc_slice(x, 1, i * units, (i + 1) * units, 1);
}

static tc_tensor gru_cell(const gru_weights *w, tc_tensor x, tc_tensor h, int64_t units) {
  tc_tensor a = tc_matmul(x, w->in), b = tc_matmul(h, w->state);
  tc_tensor r = tc_sigmoid(tc_add(part(a, 0, units), part(b, 0, units))),
            z = tc_sigmoid(tc_add(part(a, 1, units), part(b, 1, units)));
  tc_tensor n = tc_tanh(tc_add(part(a, 2, units), tc_mul(r, part(b, 2, units))));
  return tc_add(n, tc_mul(z, tc_sub(h, n)));
}

static tc_status gru_body(void *user, const tc_tensor *in, tc_tensor *out) {
  out[0] = gru_cell(user, in[1], in[0], tc_shape(in[0]).dim[1]);
  return TC_OK;
}

static tc_tensor weight(int64_t rows, int64_t columns, uint32_t seed) {
  return tc_param(tc_mul(bench_tensor(TC_SHAPE(rows, columns), seed), 1 / sqrt((double)rows)));
}

static gru_weights gru_begin(const program *p) {
  gru_weights w = {weight(p->units, 3 * p->units, 1), weight(p->units, 3 * p->units, 2),
                   bench_tensor(TC_SHAPE(p->n, p->batch, p->units), 3)};
  w.there = tc_eval(2, (tc_tensor[]){w.in, w.state}) == TC_OK;
  return w;
}

static void gru_end(gru_weights *w) {
  tc_release(w->in), tc_release(w->state);
}

static bool gru_step(program *p, gru_weights *w) {
  tc_scope s = tc_scope_begin();
  tc_tensor h = tc_zeros(TC_SHAPE(p->batch, p->units), TC_F32);
  bool ok = w->there;
  if (p->scans)
    ok = ok && tc_scan(gru_body, w, &h, 1, &w->x, 1, &h, 0, NULL) == TC_OK;
  else
    for (int i = 0; i < p->n; i++) h = gru_cell(w, tc_select(w->x, 0, i), h, p->units);
  ok = ok && tc_backward(tc_mean(tc_square(h), TC_ALL, false)) == TC_OK;
  tc_tensor all[] = {tc_grad(w->in), tc_grad(w->state), h};
  ok = ok && tc_eval(3, all) == TC_OK && read_floats(p, all[2], all[0]);
  tc_scope_end(s);
  return ok && tc_zero_grad_of(2, (tc_tensor[]){w->in, w->state}) == TC_OK;
}

static bool gru(program *p) {
  tc_scope s = tc_scope_begin();
  gru_weights w = gru_begin(p);
  bool ok = gru_step(p, &w);
  gru_end(&w);
  tc_scope_end(s);
  return ok;
}

// The state, run step by step.
static bool gru_right(const program *p) {
  tc_scope s = tc_scope_begin();
  gru_weights w = gru_begin(p);
  bool ok = true;
  tc_no_grad_begin();
  tc_tensor h = tc_zeros(TC_SHAPE(p->batch, p->units), TC_F32);
  for (int i = 0; i < p->n; i++) {
    tc_scope inner = tc_scope_begin();
    h = tc_keep(gru_cell(&w, tc_select(w.x, 0, i), h, p->units));
    ok = ok && tc_eval(1, &h) == TC_OK;
    tc_scope_end(inner);
  }
  ok = ok && bench_near(bench_element(h, 7), p->got[0], 1e-4) && p->got[1] != 0;
  tc_no_grad_end();
  gru_end(&w);
  tc_scope_end(s);
  return ok;
}

static tc_tensor cell(tc_tensor w, tc_tensor x, tc_tensor h) {
  tc_tensor z = tc_sigmoid(tc_add(tc_matmul(h, w), x));
  return tc_add(tc_mul(z, h), tc_mul(tc_add(tc_neg(z), 1), tc_tanh(tc_matmul(h, w))));
}

static bool recurrence(program *p) {
  tc_scope s = tc_scope_begin();
  tc_tensor w = weight(16, 16, 1), x = bench_tensor(TC_SHAPE(8, p->n, 16), 2), h = tc_full(TC_SHAPE(8, 16), .5, TC_F32);
  for (int i = 0; i < p->n; i++) h = cell(w, tc_select(x, 1, i), h);
  bool ok = tc_backward(tc_mean(h, TC_ALL, false)) == TC_OK;
  tc_tensor all[] = {tc_grad(w), h};
  ok = ok && tc_eval(2, all) == TC_OK && read_floats(p, h, all[0]);
  tc_release(w);
  tc_scope_end(s);
  return ok;
}

static bool recurrence_right(const program *p) {
  tc_scope s = tc_scope_begin();
  bool ok = true;
  tc_no_grad_begin();
  tc_tensor w = weight(16, 16, 1), x = bench_tensor(TC_SHAPE(8, p->n, 16), 2), h = tc_full(TC_SHAPE(8, 16), .5, TC_F32);
  for (int i = 0; i < p->n; i++) {
    tc_scope inner = tc_scope_begin();
    h = tc_keep(cell(w, tc_select(x, 1, i), h));
    ok = ok && tc_eval(1, &h) == TC_OK;
    tc_scope_end(inner);
  }
  ok = ok && bench_near(bench_element(h, 7), p->got[0], 1e-6);
  tc_no_grad_end();
  tc_release(w);
  tc_scope_end(s);
  return ok;
}

// ---- a table that is filled row by row and not read ----

static bool table(program *p) {
  tc_scope s = tc_scope_begin();
  tc_tensor y = tc_zeros(TC_SHAPE(p->n), TC_F32);
  bool ok = true;
  for (int64_t i = 1; i < p->n && ok; i++)
    ok = tc_assign_slice(y, &i, (int64_t[]){i + 1}, NULL, tc_add(tc_slice(y, 0, i - 1, i, 1), 1)) == TC_OK;
  ok = ok && tc_sync(NULL) == TC_OK && read_floats(p, y, y);
  tc_scope_end(s);
  return ok;
}

static bool table_right(const program *p) {
  return p->got[0] == 7 && p->got[1] == 1;
}

// ---- rows ----

// Seconds of first steps.
static double first(void *arg, int n) {
  program *p = arg;
  double seconds = 0;
  for (int i = 0; i < n; i++) {
    tc_cache_clear();
    double start = bench_now();
    if (!p->step(p)) return -1;
    seconds += bench_now() - start;
  }
  return seconds;
}

static bool is_right(void *arg) {
  program *p = arg;
  return p->step(p) && p->right(p);
}

// Plans made by a second step.
static double second_plans(void *arg, int n) {
  program *p = arg;
  tc_scope s = tc_scope_begin();
  gru_weights w = gru_begin(p);
  (void)n;
  bool ok = gru_step(p, &w);
  uint64_t before = tc_cache_stats().plan_misses;
  ok = gru_step(p, &w) && ok;
  uint64_t made = tc_cache_stats().plan_misses - before;
  gru_end(&w);
  tc_scope_end(s);
  return ok ? (double)made : -1;
}

// What planning all lengths takes, over what running them takes.
static double lengths(void *arg, int n) {
  const program *like = arg;
  double planning = 0, running = 0;
  (void)n;
  tc_cache_clear();
  for (int i = 0; i < LENGTHS; i++) {
    program p = *like;
    p.n = 20 + i * 180 / (LENGTHS - 1);
    tc_scope s = tc_scope_begin();
    gru_weights w = gru_begin(&p);
    double start = bench_now();
    bool ok = gru_step(&p, &w);
    double planned = bench_now();
    ok = gru_step(&p, &w) && ok;
    double run = bench_now() - planned;
    running += run, planning += planned - start - run;
    gru_end(&w);
    tc_scope_end(s);
    if (!ok) return -1;
  }
  return planning / running;
}

static void measure_first(const char *name, program p) {
  if (!bench_wants(name)) return;
  bench_measure(&(bench_row){.bench = "plan",
                             .name = name,
                             .unit = "s",
                             .n_items = 1,
                             .n_samples = 3,
                             .run = first,
                             .arg = &p,
                             .check = is_right});
}

void bench_plan(void) {
  static const int n_params[] = {250, 1000, 2000}, n_sines[] = {1000, 5000}, n_swings[] = {1000, 2000},
                   n_units[] = {400, 800, 1600};
  char name[32];
  for (int i = 0; i < 3; i++)
    snprintf(name, sizeof name, "adamw%d", n_params[i]),
        measure_first(name, (program){.n = n_params[i], .step = adamw, .right = adamw_right});
  for (int i = 0; i < 2; i++)
    snprintf(name, sizeof name, "sines%d", n_sines[i]),
        measure_first(name, (program){.n = n_sines[i], .step = sines, .right = sines_right});
  for (int i = 0; i < 2; i++)
    snprintf(name, sizeof name, "pendulum%d", n_swings[i]),
        measure_first(name, (program){.n = n_swings[i], .step = pendulum, .right = pendulum_right});
  program g = {.units = 64, .batch = GRU_BATCH, .step = gru, .right = gru_right};
  for (int i = 0; i < 3; i++) snprintf(name, sizeof name, "gru%d", g.n = n_units[i]), measure_first(name, g);
  bench_row second = {
      .bench = "plan", .name = "gru1600_second", .unit = "plans", .n_samples = 1, .run = second_plans, .arg = &g};
  bench_measure(&second);
  program scan = g;
  scan.scans = true;
  measure_first("gru1600_scan", scan);
  for (int i = 0; i < 3; i++)
    snprintf(name, sizeof name, "recurrence%d", n_units[i]),
        measure_first(name, (program){.n = n_units[i], .step = recurrence, .right = recurrence_right});
  measure_first("table4000", (program){.n = 4000, .step = table, .right = table_right});
  program many = {.units = 256, .batch = 32};
  bench_row row = {
      .bench = "plan", .name = "gru256_lengths", .unit = "runs", .n_samples = 1, .run = lengths, .arg = &many};
  bench_measure(&row);
}
