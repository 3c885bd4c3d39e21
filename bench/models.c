// Training: whole steps of small networks (forward, loss, backward, optimizer, loss in hand) and an epoch of the digits model.
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
  int64_t batch;  // 0: x is one batch; else an epoch takes batches of so many rows
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
  return m->classes ? tc_cross_entropy(x, y) : tc_mse_loss(x, y);
}

// One step; its loss into *out, or, where out is NULL, nothing is read.
static tc_status train(net *m, tc_tensor x, tc_tensor y, float *out) {
  tc_scope scope = tc_scope_begin();
  tc_tensor loss = loss_of(m, x, y);
  tc_status st = tc_backward(loss);
  if (st == TC_OK) st = tc_optimizer_step(m->opt);
  if (st == TC_OK) st = tc_zero_grad(m->opt);
  if (st == TC_OK && out) st = tc_item_f32(loss, out);
  tc_scope_end(scope);
  return st;
}

static double run_steps(void *arg, int n) {
  net *m = arg;
  float loss;
  double start = bench_now();
  for (int i = 0; i < n; i++)
    if (train(m, m->x, m->y, &loss) != TC_OK) return -1;
  return bench_now() - start;
}

// Batch after batch in a fixed order; the loss of the last is read.
static tc_status train_epoch(net *m, float *loss) {
  int64_t n = tc_shape(m->x).dim[0] / m->batch;
  for (int64_t k = 0; k < n; k++) {
    tc_scope scope = tc_scope_begin();
    tc_tensor x = tc_slice(m->x, 0, k * m->batch, (k + 1) * m->batch, 1);
    tc_tensor y = tc_slice(m->y, 0, k * m->batch, (k + 1) * m->batch, 1);
    tc_status st = train(m, x, y, k + 1 == n ? loss : NULL);
    tc_scope_end(scope);
    if (st != TC_OK) return st;
  }
  return TC_OK;
}

static double run_epochs(void *arg, int n) {
  float loss;
  double start = bench_now();
  for (int i = 0; i < n; i++)
    if (train_epoch(arg, &loss) != TC_OK) return -1;
  return bench_now() - start;
}

// The loss is a number, and smaller after twenty steps on the same data.
static bool learns(void *arg) {
  net *m = arg;
  float first = NAN, loss = NAN;
  for (int i = 0; i < 20; i++) {
    if ((m->batch ? train_epoch(m, &loss) : train(m, m->x, m->y, &loss)) != TC_OK) return false;
    if (i == 0) first = loss;
  }
  return isfinite(loss) && loss < first;
}

static void finish(net *m) {
  tc_optimizer_destroy(m->opt);
  for (int i = 0; i < 2 * m->n_layers; i++) tc_release(m->params[i]);
}

static const tc_adam_options adam = {.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};

void bench_mlp(void) {
  net small = {.x = bench_tensor(TC_SHAPE(32, 10), 1), .y = bench_tensor(TC_SHAPE(32, 1), 2)};
  add_layer(&small, 10, 128);
  add_layer(&small, 128, 1);
  small.opt = tc_adam(small.params, 4, adam);
  bench_measure(&(bench_row){.bench = "mlp", .name = "mlptrain_small", .unit = "us", .run = run_steps, .arg = &small, .check = learns});
  finish(&small);

  net mid = {.x = bench_tensor(TC_SHAPE(128, 784), 1), .y = class_numbers(128, 10), .classes = true};
  add_layer(&mid, 784, 512);
  add_layer(&mid, 512, 512);
  add_layer(&mid, 512, 10);
  mid.opt = tc_adam(mid.params, 6, adam);
  // Products forward and backward; the first layer's input wants no gradient.
  double flops = 2.0 * 128 * (784.0 * 512 * 2 + 512.0 * 512 * 3 + 512.0 * 10 * 3);
  bench_measure(&(bench_row){
      .bench = "mlp", .name = "mlptrain_mid", .unit = "ms", .work = flops, .roof = BENCH_FMA, .run = run_steps, .arg = &mid, .check = learns});
  finish(&mid);
}

// Shapes of the digits data (1797 images of 8x8) with made-up values: speed does not depend on them.
void bench_digits(void) {
  net m = {.x = bench_tensor(TC_SHAPE(1797, 64), 1), .y = class_numbers(1797, 10), .classes = true, .batch = 64};
  add_layer(&m, 64, 128);
  add_layer(&m, 128, 10);
  m.opt = tc_adam(m.params, 4, adam);
  bench_measure(&(bench_row){.bench = "digits", .name = "epoch", .unit = "ms", .run = run_epochs, .arg = &m, .check = learns});
  finish(&m);
}
