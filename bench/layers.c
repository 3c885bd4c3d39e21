// Layers that training is bound by memory in: norms, cross entropy and embedding with their
// gradients, and the optimizer's update.
// A step with gradients leaves in memory what a framework's does: the result and the gradient of
// each parameter.
#include "bench/bench.h"

#include <math.h>
#include <stddef.h>

#define N_PARAMS 100

typedef struct layer {
  tc_tensor p[3];  // what wants a gradient; parameter 0 is the input
  int n;
  tc_tensor g;     // gradient of the result; none: it is a scalar
  tc_tensor ids;   // classes or words
  tc_tensor (*make)(const struct layer *);
  bool forward;    // only
} layer;

// Tensors of one's own, which release gives back: outside every scope a handle lives until the end.
static tc_tensor own(tc_dims shape, uint32_t seed) {
  tc_scope scope = tc_scope_begin();
  tc_tensor t = tc_retain(bench_tensor(shape, seed));
  tc_scope_end(scope);
  return t;
}

static tc_tensor parameter(tc_dims shape, uint32_t seed) {
  tc_scope scope = tc_scope_begin();
  tc_tensor t = tc_param(bench_tensor(shape, seed));
  tc_scope_end(scope);
  return t;
}

// Distinct numbers below n_classes, one a row.
static tc_tensor numbers(int64_t n, int64_t n_classes) {
  int64_t data[512];
  for (int64_t i = 0; i < n; i++) data[i] = i * 97 % n_classes;
  tc_scope scope = tc_scope_begin();
  tc_tensor t = tc_retain(tc_from_host(data, TC_SHAPE(n), TC_I64));
  tc_scope_end(scope);
  return t;
}

static void release(layer *l) {
  for (int i = 0; i < l->n; i++) tc_release(l->p[i]);
  if (l->g.gen) tc_release(l->g);
  if (l->ids.gen) tc_release(l->ids);
  tc_trim();
}

// One step in the caller's scope: the result and its gradients, evaluated.
static tc_status step(const layer *l, tc_tensor out[4]) {
  out[0] = l->make(l);
  if (l->forward) return tc_eval(1, out);
  tc_status st = l->g.gen ? tc_backward_with(out[0], l->g, 0) : tc_backward(out[0]);
  for (int i = 0; i < l->n; i++) out[i + 1] = tc_grad(l->p[i]);
  return st == TC_OK ? tc_eval(l->n + 1, out) : st;
}

// Gradients go before the scope, so that the next step does not add to them.
static tc_status step_end(const layer *l, tc_scope scope) {
  tc_status st = l->forward ? TC_OK : tc_zero_grad_of(l->n, l->p);
  tc_scope_end(scope);
  return st;
}

static double run_steps(void *arg, int n) {
  double start = bench_now();
  for (int i = 0; i < n; i++) {
    tc_tensor out[4];
    tc_scope scope = tc_scope_begin();
    bool made = step(arg, out) == TC_OK;
    if (step_end(arg, scope) != TC_OK || !made) return -1;
  }
  return bench_now() - start;
}

// n times something that ends with its result computed.
static double run_each(tc_status once(void *arg), void *arg, int n) {
  double start = bench_now();
  for (int i = 0; i < n; i++)
    if (once(arg) != TC_OK) return -1;
  return bench_now() - start;
}

// Element i of result k of a step.
static double element(const layer *l, int k, int64_t i) {
  tc_tensor out[4];
  tc_scope scope = tc_scope_begin();
  float v = step(l, out) == TC_OK ? bench_element(out[k], i) : NAN;
  return step_end(l, scope) == TC_OK ? (double)v : NAN;
}

// The sum of n floats of t, `stride` apart.
static double sum_of(tc_tensor t, int64_t n, int64_t stride) {
  const float *p = tc_map(t);
  if (p == NULL) return NAN;
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += (double)p[i * stride];
  return tc_unmap(t) == TC_OK ? sum : NAN;
}

// ---- norms ----

static tc_tensor layer_norm(const layer *l) {
  return tc_layer_norm(l->p[0], l->p[1], l->p[2], 1e-5);
}

static tc_tensor rms_norm(const layer *l) {
  return tc_rms_norm(l->p[0], l->p[1], 1e-6);
}

static tc_tensor batch_norm(const layer *l) {
  tc_tensor none = {0, 0}, x = tc_permute(l->p[0], TC_AXES(0, 3, 1, 2));
  tc_tensor y =
      tc_batch_norm(x, none, none, l->p[1], l->p[2], (tc_batch_norm_options){.training = true, TC_BATCH_NORM_DEFAULTS});
  return tc_permute(y, TC_AXES(0, 2, 3, 1));
}

// Element 5 of the first row.
static bool row_norm_right(void *arg) {
  const layer *l = arg;
  int64_t n = tc_shape(l->p[0]).dim[1];
  const float *x = tc_map(l->p[0]);
  if (x == NULL) return false;
  double mean = 0, var = 0, x5 = (double)x[5];
  for (int64_t i = 0; i < n && l->make == layer_norm; i++) mean += (double)x[i] / (double)n;
  for (int64_t i = 0; i < n; i++) var += ((double)x[i] - mean) * ((double)x[i] - mean) / (double)n;
  if (tc_unmap(l->p[0]) != TC_OK) return false;
  double want = (x5 - mean) / sqrt(var + 1e-5) * (double)bench_element(l->p[1], 5);
  if (l->make == layer_norm) want += (double)bench_element(l->p[2], 5);
  return bench_near(element(l, 0, 5), want, 1e-4);
}

// The bias's gradient is the sum of the result's.
static bool gradient_right(void *arg) {
  const layer *l = arg;
  int64_t channels = tc_shape(l->p[2]).dim[0], rows = 1;
  tc_dims d = tc_shape(l->g);
  for (int i = 0; i < d.rank - 1; i++) rows *= d.dim[i];
  return bench_near(element(l, 3, 0), sum_of(l->g, rows, channels), 1e-4) && isfinite(element(l, 1, 7));
}

static void measure_norm(const char *name, layer l, tc_dims shape, int n_tensors, bool (*check)(void *)) {
  int64_t channels = shape.dim[shape.rank - 1], count = 1;
  for (int i = 0; i < shape.rank; i++) count *= shape.dim[i];
  l.p[0] = parameter(shape, 1);
  for (int i = 1; i < l.n; i++) l.p[i] = parameter(TC_SHAPE(channels), 1 + (uint32_t)i);
  if (!l.forward) l.g = own(shape, 9);
  bench_measure(&(bench_row){.bench = "norm",
                             .name = name,
                             .unit = "ms",
                             .work = n_tensors * 4.0 * (double)count,
                             .roof = BENCH_TRIAD,
                             .run = run_steps,
                             .arg = &l,
                             .check = check});
  release(&l);
}

// Of the roof: each tensor of the input's size once, read or written.
void bench_norm(void) {
  tc_dims rows = TC_SHAPE(4096, 1024), images = TC_SHAPE(16, 32, 32, 64);
  measure_norm("layernorm", (layer){.n = 3, .make = layer_norm, .forward = true}, rows, 2, row_norm_right);
  measure_norm("rmsnorm", (layer){.n = 2, .make = rms_norm, .forward = true}, rows, 2, row_norm_right);
  measure_norm("layernorm_grad", (layer){.n = 3, .make = layer_norm}, rows, 4, gradient_right);
  measure_norm("batchnorm_grad", (layer){.n = 3, .make = batch_norm}, images, 4, gradient_right);
}

// ---- cross entropy ----

static tc_tensor cross_entropy(const layer *l) {
  return tc_cross_entropy(l->p[0], l->ids);
}

// The gradient at the first row's class is (its probability - 1) / rows.
static bool xent_right(void *arg) {
  const layer *l = arg;
  tc_dims d = tc_shape(l->p[0]);
  const float *x = tc_map(l->p[0]);
  if (x == NULL) return false;
  double sum = 0, at = exp((double)x[0]);
  for (int64_t i = 0; i < d.dim[1]; i++) sum += exp((double)x[i]);
  if (tc_unmap(l->p[0]) != TC_OK) return false;
  return bench_near(element(l, 1, 0) * (double)d.dim[0], at / sum - 1, 1e-5);
}

void bench_xent(void) {
  layer l = {.p = {parameter(TC_SHAPE(512, 50257), 1)}, .n = 1, .ids = numbers(512, 50257), .make = cross_entropy};
  bench_measure(&(bench_row){.bench = "xent",
                             .name = "512x50257",
                             .unit = "ms",
                             .work = 2 * 4.0 * 512 * 50257,
                             .roof = BENCH_TRIAD,
                             .run = run_steps,
                             .arg = &l,
                             .check = xent_right});
  release(&l);
}

// ---- embedding ----

static tc_tensor embedding(const layer *l) {
  return tc_embedding(l->p[0], l->ids);
}

// The gradient of word 97 is that of its one place, the second, and no other word's.
static bool embedding_right(void *arg) {
  const layer *l = arg;
  return bench_near(element(l, 1, 97 * 768 + 3), (double)bench_element(l->g, 768 + 3), 0) &&
         bench_near(element(l, 1, 98 * 768 + 3), 0, 0);
}

// ---- a table's step of training: words looked up, their gradient, the update ----

typedef struct table {
  const layer *l;
  tc_optimizer *opt;
} table;

static tc_optimizer *table_sgd(tc_tensor p) {
  return tc_sgd(&p, 1, (tc_sgd_options){.lr = 1e-3});
}

static tc_optimizer *table_adamw(tc_tensor p) {
  return tc_adamw(&p, 1, (tc_adam_options){.lr = 1e-3, .weight_decay = TC_ZERO});
}

static tc_status train_table(void *arg) {
  const table *t = arg;
  tc_scope scope = tc_scope_begin();
  tc_status st = tc_backward_with(embedding(t->l), t->l->g, 0);
  if (st == TC_OK) st = tc_optimizer_step(t->opt);
  if (st == TC_OK) st = tc_zero_grad(t->opt);
  tc_scope_end(scope);
  return st == TC_OK ? tc_sync(NULL) : st;
}

static double run_table(void *arg, int n) {
  return run_each(train_table, arg, n);
}

// Word 97 goes against its gradient, word 98, which was not looked up, stays.
static bool table_right(void *arg) {
  const table *t = arg;
  tc_tensor p = t->l->p[0];
  double before[2] = {(double)bench_element(p, 97 * 768), (double)bench_element(p, 98 * 768)},
         g = (double)bench_element(t->l->g, 768);
  if (train_table(arg) != TC_OK) return false;
  double moved = (double)bench_element(p, 97 * 768) - before[0];
  return moved * g < 0 && bench_near((double)bench_element(p, 98 * 768), before[1], 0);
}

// bytes: what every step reads and writes of the whole table; 0: nothing.
static void measure_table(const char *name, const layer *l, tc_optimizer *make(tc_tensor p), double bytes) {
  table t = {.l = l, .opt = make(l->p[0])};
  bench_measure(&(bench_row){.bench = "embedding",
                             .name = name,
                             .unit = "ms",
                             .work = bytes,
                             .roof = bytes > 0 ? BENCH_TRIAD : BENCH_NO_ROOF,
                             .run = run_table,
                             .arg = &t,
                             .check = table_right});
  tc_optimizer_destroy(t.opt);
}

void bench_embedding(void) {
  layer l = {.p = {parameter(TC_SHAPE(50257, 768), 1)}, .n = 1, .ids = numbers(512, 50257), .make = embedding};
  l.g = own(TC_SHAPE(512, 768), 2);
  bench_measure(&(bench_row){.bench = "embedding",
                             .name = "50257x768",
                             .unit = "ms",
                             .work = 4.0 * 50257 * 768,
                             .roof = BENCH_TRIAD,
                             .run = run_steps,
                             .arg = &l,
                             .check = embedding_right});
  measure_table("sgd_50257x768", &l, table_sgd, 0);
  measure_table("adamw_50257x768", &l, table_adamw, 6.0 * 4 * 50257 * 768);
  release(&l);
}

// ---- optimizers ----

typedef struct update {
  tc_tensor p[N_PARAMS];
  tc_optimizer *opt;
} update;

static tc_status update_once(void *arg) {
  update *u = arg;
  tc_status st = tc_optimizer_step(u->opt);
  return st == TC_OK ? tc_sync(NULL) : st;
}

static double run_updates(void *arg, int n) {
  return run_each(update_once, arg, n);
}

// A step of Adam along a gradient that stays is lr against it; weight decay is below the tolerance.
static bool adam_right(void *arg) {
  update *u = arg;
  double before = (double)bench_element(u->p[2], 0), g = (double)bench_element(tc_grad(u->p[2]), 0);
  return update_once(u) == TC_OK &&
         bench_near((double)bench_element(u->p[2], 0), before - (g > 0 ? 1e-3 : -1e-3), 1e-5);
}

// A step of SGD is lr times the gradient more than 0.9 times the step before.
static bool sgd_right(void *arg) {
  update *u = arg;
  double p[3] = {(double)bench_element(u->p[2], 0)}, g = (double)bench_element(tc_grad(u->p[2]), 0);
  for (int i = 1; i < 3; i++) {
    if (update_once(u) != TC_OK) return false;
    p[i] = (double)bench_element(u->p[2], 0);
  }
  return bench_near(p[2], p[1] + 0.9 * (p[1] - p[0]) - 1e-3 * g, 1e-5);
}

static void measure_update(const char *name, update *u, int n_tensors, bool (*check)(void *)) {
  bench_measure(&(bench_row){.bench = "optim",
                             .name = name,
                             .unit = "ms",
                             .work = n_tensors * 4.0 * N_PARAMS * 256 * 1024,
                             .roof = BENCH_TRIAD,
                             .run = run_updates,
                             .arg = u,
                             .check = check});
  tc_optimizer_destroy(u->opt);
}

// The gradients are there before, and stay.
static bool make_gradients(update *u) {
  for (uint32_t i = 0; i < N_PARAMS; i++) {
    tc_scope scope = tc_scope_begin();
    u->p[i] = parameter(TC_SHAPE(256, 1024), i + 1);
    bool made =
        tc_backward_with(u->p[i], bench_tensor(TC_SHAPE(256, 1024), i + 1000), 0) == TC_OK && tc_sync(NULL) == TC_OK;
    tc_scope_end(scope);
    if (!made) return false;
  }
  return true;
}

// Of the roof: what an update reads and writes, the gradient, and parameter and moments twice.
void bench_optim(void) {
  update u = {.opt = NULL};
  if (!make_gradients(&u)) fprintf(stderr, "  %s\n", tc_last_error()->message);
  u.opt = tc_adam(u.p, N_PARAMS, (tc_adam_options){.lr = 1e-3, TC_ADAM_DEFAULTS});
  measure_update("adam100", &u, 7, adam_right);
  u.opt = tc_adamw(u.p, N_PARAMS, (tc_adam_options){.lr = 1e-3, TC_ADAM_DEFAULTS, .weight_decay = 1e-2});
  measure_update("adamw100", &u, 7, adam_right);
  u.opt = tc_sgd(u.p, N_PARAMS, (tc_sgd_options){.lr = 1e-3, .momentum = 0.9});
  measure_update("sgd100", &u, 5, sgd_right);
  for (int i = 0; i < N_PARAMS; i++) tc_release(u.p[i]);
  tc_trim();
}
