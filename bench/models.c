// Training: whole steps of small networks (forward, loss, backward, optimizer, loss in hand) and an
// epoch of the digits model.
#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>

#define MAX_LAYERS 4

typedef struct net {
  int n_layers;
  tc_tensor params[2 * MAX_LAYERS];  // weight [out, in] and bias [out] of each layer
  tc_optimizer *opt;
  tc_tensor x, y;
  bool classes;   // y holds class numbers: cross entropy; else mean squared error
  double smoothing;
  int64_t batch;  // 0: x is one batch; else an epoch takes batches of so many rows,
  int64_t *order; // in this order
} net;

// Weights uniform within 1 / sqrt(in), as PyTorch's Linear starts.
static void add_layer(net *m, int64_t in, int64_t out) {
  uint32_t seed = 10 + 2 * (uint32_t)m->n_layers;
  double bound = 1 / sqrt((double)in);
  tc_scope scope = tc_scope_begin();
  m->params[2 * m->n_layers] = tc_param(tc_mul(bench_tensor(TC_SHAPE(out, in), seed), bound));
  m->params[2 * m->n_layers + 1] = tc_param(tc_mul(bench_tensor(TC_SHAPE(out), seed + 1), bound));
  tc_scope_end(scope);
  m->n_layers++;
}

static tc_tensor class_numbers(int64_t n, int64_t n_classes) {
  int64_t *data = malloc((size_t)n * sizeof(int64_t));
  if (data == NULL) return (tc_tensor){0, 0};
  for (int64_t i = 0; i < n; i++) data[i] = i * 7 % n_classes;
  tc_tensor t = tc_from_host(data, TC_SHAPE(n), TC_I64);
  free(data);
  return t;
}

static tc_tensor loss_of(const net *m, tc_tensor x, tc_tensor y) {
  for (int i = 0; i < m->n_layers; i++) {
    x = tc_linear(x, m->params[2 * i], m->params[2 * i + 1]);
    if (i + 1 < m->n_layers) x = tc_relu(x);
  }
  return m->classes ? tc_cross_entropy_with(x, y, m->smoothing, -1) : tc_mse_loss(x, y);
}

// Records one step; the loss goes to the caller's scope.
static tc_status train(net *m, tc_tensor x, tc_tensor y, tc_tensor *loss) {
  *loss = loss_of(m, x, y);
  tc_status st = tc_backward(*loss);
  if (st == TC_OK) st = tc_optimizer_step(m->opt);
  if (st == TC_OK) st = tc_zero_grad(m->opt);
  tc_keep(*loss);
  return st;
}

// One step with its loss in hand.
static tc_status train_step(net *m, float *out) {
  tc_tensor loss;
  tc_scope outer = tc_scope_begin(), scope = tc_scope_begin();
  tc_status st = train(m, m->x, m->y, &loss);
  tc_scope_end(scope);
  if (st == TC_OK) st = tc_item_f32(loss, out);
  tc_scope_end(outer);
  return st;
}

static double run_steps(void *arg, int n) {
  float loss;
  double start = bench_now();
  for (int i = 0; i < n; i++)
    if (train_step(arg, &loss) != TC_OK) return -1;
  return bench_now() - start;
}

// As the example does: batches of rows picked by their numbers, one mean loss read at the end.
static tc_status train_epoch(net *m, float *out) {
  int64_t n = tc_shape(m->x).dim[0] / m->batch;
  tc_status st = TC_OK;
  tc_scope outer = tc_scope_begin();
  tc_tensor total = tc_scalar(0), loss;
  for (int64_t k = 0; k < n && st == TC_OK; k++) {
    tc_scope scope = tc_scope_begin();
    tc_tensor at = tc_from_host(m->order + k * m->batch, TC_SHAPE(m->batch), TC_I64);
    st = train(m, tc_index_select(m->x, 0, at), tc_index_select(m->y, 0, at), &loss);
    tc_scope_end(scope);
    total = tc_add(total, loss);
  }
  if (st == TC_OK) st = tc_item_f32(tc_div(total, (double)n), out);
  tc_scope_end(outer);
  return st;
}

static double run_epochs(void *arg, int n) {
  float loss;
  double start = bench_now();
  for (int i = 0; i < n; i++)
    if (train_epoch(arg, &loss) != TC_OK) return -1;
  return bench_now() - start;
}

// The loss is a number, and smaller after some steps on the same data.
static bool learns(void *arg) {
  net *m = arg;
  float first = NAN, loss = NAN;
  for (int i = 0; i < (m->batch ? 3 : 20); i++) {
    if ((m->batch ? train_epoch(m, &loss) : train_step(m, &loss)) != TC_OK) return false;
    if (i == 0) first = loss;
  }
  return isfinite(loss) && loss < first;
}

static void finish(net *m) {
  tc_optimizer_destroy(m->opt);
  for (int i = 0; i < 2 * m->n_layers; i++) tc_release(m->params[i]);
}

static const tc_adam_options adam = {.lr = 1e-3, TC_ADAM_DEFAULTS};

void bench_mlp(void) {
  net small = {.x = bench_tensor(TC_SHAPE(32, 10), 1), .y = bench_tensor(TC_SHAPE(32, 1), 2)};
  add_layer(&small, 10, 128);
  add_layer(&small, 128, 1);
  small.opt = tc_adam(small.params, 4, adam);
  bench_measure(&(bench_row){
      .bench = "mlp", .name = "mlptrain_small", .unit = "us", .run = run_steps, .arg = &small, .check = learns});
  finish(&small);

  net mid = {.x = bench_tensor(TC_SHAPE(128, 784), 1), .y = class_numbers(128, 10), .classes = true};
  add_layer(&mid, 784, 512);
  add_layer(&mid, 512, 512);
  add_layer(&mid, 512, 10);
  mid.opt = tc_adam(mid.params, 6, adam);
  // Products forward and backward; the first layer's input wants no gradient.
  double flops = 2.0 * 128 * (784.0 * 512 * 2 + 512.0 * 512 * 3 + 512.0 * 10 * 3);
  bench_measure(&(bench_row){.bench = "mlp",
                             .name = "mlptrain_mid",
                             .unit = "ms",
                             .work = flops,
                             .roof = BENCH_FMA,
                             .run = run_steps,
                             .arg = &mid,
                             .check = learns});
  finish(&mid);
}

// The model, batches and number of rows of examples/digits.c with made-up values: speed does not
// depend on them.
void bench_digits(void) {
  enum { ROWS = 1437 * 5 };
  static int64_t order[ROWS];
  for (int64_t i = 0; i < ROWS; i++) order[i] = i * 1009 % ROWS;  // 1009 is prime: a permutation
  net m = {.x = bench_tensor(TC_SHAPE(ROWS, 64), 1),
           .y = class_numbers(ROWS, 10),
           .classes = true,
           .smoothing = 0.2,
           .batch = 64,
           .order = order};
  add_layer(&m, 64, 256);
  add_layer(&m, 256, 10);
  m.opt = tc_adam(m.params, 4, adam);
  bench_measure(
      &(bench_row){.bench = "digits", .name = "epoch", .unit = "ms", .run = run_epochs, .arg = &m, .check = learns});
  finish(&m);
}

bool bench_first_mlp_step(void) {
  float loss = NAN;
  net small = {.x = bench_tensor(TC_SHAPE(32, 10), 1), .y = bench_tensor(TC_SHAPE(32, 1), 2)};
  add_layer(&small, 10, 128);
  add_layer(&small, 128, 1);
  small.opt = tc_adam(small.params, 4, adam);
  bool ok = train_step(&small, &loss) == TC_OK && isfinite(loss);
  finish(&small);
  return ok;
}

// ---- Scalars and sizes that vary ----

// A step with this learning rate, and a scalar of its own besides.
static tc_status step_at(net *m, int i) {
  float loss, sum;
  tc_scope scope = tc_scope_begin();
  tc_status st = tc_set_lr(m->opt, 1e-3 / (1 + i));
  if (st == TC_OK) st = train_step(m, &loss);
  if (st == TC_OK) st = tc_item_f32(tc_sum(tc_mul(m->x, 0.5 + i), TC_ALL, false), &sum);
  tc_scope_end(scope);
  return st;
}

// Compiles in 1,000 steps after the first.
static double compiles_by_rate(void *arg, int n) {
  (void)n;
  if (step_at(arg, 0) != TC_OK) return -1;
  uint64_t compiles = tc_cache_stats().compiles;
  for (int i = 1; i <= 1000; i++)
    if (step_at(arg, i) != TC_OK) return -1;
  return (double)(tc_cache_stats().compiles - compiles);
}

void bench_rates(void) {
  net small = {.x = bench_tensor(TC_SHAPE(32, 10), 1), .y = bench_tensor(TC_SHAPE(32, 1), 2)};
  add_layer(&small, 10, 128);
  add_layer(&small, 128, 1);
  small.opt = tc_adam(small.params, 4, adam);
  bench_measure(&(bench_row){
      .bench = "rates", .name = "1000", .unit = "compiles", .n_samples = 1, .run = compiles_by_rate, .arg = &small});
  finish(&small);
}

enum { DYN_CALLS = 64 };

// Sizes from 1 to 128 in an order that repeats some: as cases.py.
static int64_t dyn_batch(int i) {
  return 1 + (i * 37 + i * i * 11) % 128;
}

static double dyn_pass(const net *m, double *sum) {
  float out[128 * 10];
  double start = bench_now();
  *sum = 0;
  for (int i = 0; i < DYN_CALLS; i++) {
    int64_t n = dyn_batch(i);
    tc_scope scope = tc_scope_begin();
    tc_tensor x = tc_slice(m->x, 0, 0, n, 1);
    for (int l = 0; l < 2; l++) {
      x = tc_linear(x, m->params[2 * l], m->params[2 * l + 1]);
      if (l == 0) x = tc_relu(x);
    }
    tc_status st = tc_to_host(x, out, (size_t)n * 10 * sizeof(float));
    tc_scope_end(scope);
    if (st != TC_OK) return -1;
    *sum += (double)out[n * 10 - 1];
  }
  return bench_now() - start;
}

static double dyn_first(void *arg, int n) {
  double sum;
  (void)n;
  tc_cache_clear();
  return dyn_pass(arg, &sum);
}

static double dyn_second(void *arg, int n) {
  double seconds = 0, sum;
  for (int i = 0; i < n && seconds >= 0; i++) {
    double one = dyn_pass(arg, &sum);
    seconds = one < 0 ? -1 : seconds + one;
  }
  return seconds;
}

static double dyn_compiles(void *arg, int n) {
  uint64_t before = tc_cache_stats().compiles;
  return dyn_first(arg, n) < 0 ? -1 : (double)(tc_cache_stats().compiles - before);
}

// Each call's last value against the whole batch's.
static bool dyn_right(void *arg) {
  const net *m = arg;
  double sum, want = 0;
  tc_scope scope = tc_scope_begin();
  tc_tensor all = tc_linear(tc_relu(tc_linear(m->x, m->params[0], m->params[1])), m->params[2], m->params[3]);
  for (int i = 0; i < DYN_CALLS; i++) want += (double)bench_element(all, dyn_batch(i) * 10 - 1);
  tc_scope_end(scope);
  return dyn_pass(m, &sum) >= 0 && bench_near(sum, want, 1e-4);
}

enum { BIND_KERNELS = 30, BIND_MOST = 4096, BIND_SIZES = 64 };

static double bind_call(const net *m, int64_t n) {
  static float out[BIND_MOST * 16];
  tc_scope scope = tc_scope_begin();
  double start = bench_now();
  tc_tensor x = tc_slice(m->x, 0, 0, n, 1);
  for (int l = 0; l < BIND_KERNELS; l++) x = tc_relu(tc_linear(x, m->params[0], m->params[1]));
  tc_status st = tc_to_host(x, out, (size_t)n * 16 * sizeof(float));
  double seconds = bench_now() - start;
  tc_scope_end(scope);
  return st == TC_OK ? seconds : -1;
}

// Of calls at sizes that were not met before, what the same calls do not take again: the least
// tenth, since kernels run meanwhile. A pass goes over all sizes, and the caches forget it.
static double bind_cost(void *arg, int n) {
  (void)n;
  double more[BIND_SIZES];
  tc_cache_clear();
  for (int64_t k = 0; k < 400; k++)
    if (bind_call(arg, 40 + k % 4) < 0) return -1;
  for (int64_t k = 0; k < BIND_SIZES; k++) {
    double first = bind_call(arg, 50 + k), second = bind_call(arg, 50 + k);
    if (first < 0 || second < 0) return -1;
    int64_t at = k;
    for (; at > 0 && more[at - 1] > first - second; at--) more[at] = more[at - 1];
    more[at] = first - second;
  }
  return more[BIND_SIZES / 10];
}

static void bench_bind(void) {
  net m = {.x = bench_tensor(TC_SHAPE(BIND_MOST, 16), 1)};
  add_layer(&m, 16, 16);
  bench_measure(&(bench_row){.bench = "dyn", .name = "bind", .unit = "s", .n_samples = 5, .run = bind_cost, .arg = &m});
  finish(&m);
}

void bench_dyn(void) {
  net m = {.x = bench_tensor(TC_SHAPE(128, 64), 1)};
  add_layer(&m, 64, 256);
  add_layer(&m, 256, 10);
  tc_no_grad_begin();
  bench_row row = {
      .bench = "dyn", .name = "first", .unit = "s", .n_samples = 3, .run = dyn_first, .arg = &m, .check = dyn_right};
  bench_measure(&row);
  row.name = "compiles", row.unit = "compiles", row.n_samples = 1, row.run = dyn_compiles;
  bench_measure(&row);
  row.name = "second", row.unit = "s", row.n_samples = 0, row.run = dyn_second;
  bench_measure(&row);
  bench_bind();
  tc_no_grad_end();
  finish(&m);
}
