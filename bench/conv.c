// Convolutions and attention, f32. The weight of a convolution is a parameter, as in a model that
// is evaluated. A result is evaluated and dropped; of attention's backward pass the output and
// three gradients are.
#include "bench/bench.h"

#include <math.h>
#include <stddef.h>
#include <tc/nn.h>

// ---- conv ----

typedef struct layer {
  const char *name;
  int64_t n, in, side, out, window, stride;
  tc_tensor x, weight;
} layer;

static int64_t padding(const layer *l) {
  return l->window / 2;
}

static int64_t out_side(const layer *l) {
  return (l->side + 2 * padding(l) - l->window) / l->stride + 1;
}

static tc_tensor convolve(const layer *l) {
  tc_conv_options options = {.stride = TC_SHAPE(l->stride), .padding = TC_SHAPE(padding(l))};
  return tc_conv2d(l->x, l->weight, (tc_tensor){0, 0}, options);
}

static double run_conv(void *arg, int n) {
  double start = bench_now();
  for (int i = 0; i < n; i++) {
    tc_scope scope = tc_scope_begin();
    tc_tensor y = convolve(arg);
    tc_status st = tc_eval(1, &y);
    tc_scope_end(scope);
    if (st != TC_OK) return -1;
  }
  return bench_now() - start;
}

// One element in double.
static double conv_element(const layer *l, const float *x, const float *w, int64_t image, int64_t o, int64_t row,
                           int64_t column) {
  double sum = 0;
  for (int64_t c = 0; c < l->in; c++)
    for (int64_t i = 0; i < l->window; i++)
      for (int64_t j = 0; j < l->window; j++) {
        int64_t h = row * l->stride + i - padding(l), v = column * l->stride + j - padding(l);
        if (h < 0 || h >= l->side || v < 0 || v >= l->side) continue;
        sum += (double)x[((image * l->in + c) * l->side + h) * l->side + v] *
               (double)w[((o * l->in + c) * l->window + i) * l->window + j];
      }
  return sum;
}

// A corner, an edge and the inside, of the first and the last image and output.
static bool conv_right(void *arg) {
  const layer *l = arg;
  int64_t side = out_side(l),
          at[3][4] = {
              {0, 0, 0, 0}, {l->n - 1, l->out - 1, side - 1, side / 2}, {l->n / 2, l->out / 2, side / 2, side / 3}};
  const float *x = tc_map(l->x), *w = tc_map(l->weight);
  bool right = x && w;
  tc_scope scope = tc_scope_begin();
  tc_tensor y = convolve(l);
  for (int i = 0; right && i < 3; i++) {
    const int64_t *p = at[i];
    double want = conv_element(l, x, w, p[0], p[1], p[2], p[3]);
    right = bench_near(bench_element(y, ((p[0] * l->out + p[1]) * side + p[2]) * side + p[3]), want, 1e-3);
  }
  tc_scope_end(scope);
  return (x == NULL || tc_unmap(l->x) == TC_OK) && (w == NULL || tc_unmap(l->weight) == TC_OK) && right;
}

void bench_conv(void) {
  tc_no_grad_begin();
  static layer layers[] = {
#define CONV(name, n, in, side, out, window, stride) {name, n, in, side, out, window, stride, {0, 0}, {0, 0}},
#include "bench/convs.def"
#undef CONV
  };
  for (size_t i = 0; i < sizeof(layers) / sizeof(layers[0]); i++) {
    layer *l = &layers[i];
    if (!bench_wants(l->name)) continue;
    tc_scope scope = tc_scope_begin();
    l->x = bench_tensor(TC_SHAPE(l->n, l->in, l->side, l->side), 1);
    l->weight = tc_param(bench_tensor(TC_SHAPE(l->out, l->in, l->window, l->window), 2));
    double positions = (double)(l->n * l->out * out_side(l) * out_side(l));
    bench_measure(&(bench_row){.bench = "conv",
                               .name = l->name,
                               .unit = "GFLOP/s",
                               .work = 2 * positions * (double)(l->in * l->window * l->window),
                               .roof = BENCH_FMA,
                               .run = run_conv,
                               .arg = l,
                               .check = conv_right});
    tc_release(l->weight);
    tc_scope_end(scope);
  }
  tc_no_grad_end();
}

// ---- attention: causal, 4 sequences of 512, 12 heads of 64 ----

enum { BATCH = 4, HEADS = 12, T = 512, D = 64 };

typedef struct heads {
  tc_tensor in[3], grad;  // query, key, value; the gradient of the output
} heads;

static tc_tensor attend(const heads *h) {
  return tc_nn_attention(h->in[0], h->in[1], h->in[2], (tc_nn_attention_options){.n_heads = HEADS, .causal = true});
}

static double run_forward(void *arg, int n) {
  double start = bench_now();
  for (int i = 0; i < n; i++) {
    tc_scope scope = tc_scope_begin();
    tc_no_grad_begin();
    tc_tensor y = attend(arg);
    tc_status st = tc_eval(1, &y);
    tc_no_grad_end();
    tc_scope_end(scope);
    if (st != TC_OK) return -1;
  }
  return bench_now() - start;
}

// out: the output and the gradients of query, key and value.
static tc_status forward_backward(const heads *h, tc_tensor out[4]) {
  out[0] = attend(h);
  tc_status st = tc_backward_with(out[0], h->grad, 0);
  for (int i = 0; i < 3; i++) out[1 + i] = tc_grad(h->in[i]);
  return st == TC_OK ? tc_eval(4, out) : st;
}

static double run_backward(void *arg, int n) {
  heads *h = arg;
  double start = bench_now();
  for (int i = 0; i < n; i++) {
    tc_tensor out[4];
    tc_scope scope = tc_scope_begin();
    tc_status st = forward_backward(h, out);
    tc_scope_end(scope);
    if (st == TC_OK) st = tc_zero_grad_of(3, h->in);
    if (st != TC_OK) return -1;
  }
  return bench_now() - start;
}

// The weights of query t of one head, in double.
static void weights_of(const float *q, const float *k, int64_t at, int64_t t, double *out) {
  double sum = 0;
  for (int64_t s = 0; s <= t; s++) {
    double dot = 0;
    for (int64_t d = 0; d < D; d++) dot += (double)q[at + t * HEADS * D + d] * (double)k[at + s * HEADS * D + d];
    sum += out[s] = exp(dot / sqrt(D));
  }
  for (int64_t s = 0; s <= t; s++) out[s] /= sum;
}

// One element each of the output and of the gradients of query and value, by the formulas.
static bool attention_right(void *arg) {
  static double p[T];
  const heads *h = arg;
  const int64_t image = 2, head = 7, t = 400, d = 5, s = 500, at = image * T * HEADS * D + head * D, row = HEADS * D;
  const float *q = tc_map(h->in[0]), *k = tc_map(h->in[1]), *v = tc_map(h->in[2]), *g = tc_map(h->grad);
  if (!q || !k || !v || !g) return false;
  double want[3] = {0}, mean = 0;
  weights_of(q, k, at, t, p);
  for (int64_t i = 0; i <= t; i++) want[0] += p[i] * (double)v[at + i * row + d];
  for (int64_t i = 0; i <= t; i++) {  // softmax's gradient: p (dp - sum of p dp), dp = g . v
    double dp = 0;
    for (int64_t e = 0; e < D; e++) dp += (double)g[at + t * row + e] * (double)v[at + i * row + e];
    mean += p[i] * dp;
    want[1] += p[i] * dp * (double)k[at + i * row + d] / sqrt(D);
  }
  for (int64_t i = 0; i <= t; i++) want[1] -= p[i] * mean * (double)k[at + i * row + d] / sqrt(D);
  for (int64_t i = s; i < T; i++) {
    weights_of(q, k, at, i, p);
    want[2] += p[s] * (double)g[at + i * row + d];
  }
  for (int i = 0; i < 3; i++)
    if (tc_unmap(h->in[i]) != TC_OK) return false;
  if (tc_unmap(h->grad) != TC_OK) return false;
  tc_tensor out[4];
  tc_scope scope = tc_scope_begin();
  bool right = forward_backward(h, out) == TC_OK &&
               bench_near(bench_element(out[0], at + t * row + d), want[0], 1e-5) &&
               bench_near(bench_element(out[1], at + t * row + d), want[1], 1e-5) &&
               bench_near(bench_element(out[3], at + s * row + d), want[2], 1e-5);
  tc_scope_end(scope);
  return tc_zero_grad_of(3, h->in) == TC_OK && right;
}

void bench_attention(void) {
  tc_scope scope = tc_scope_begin();
  tc_dims shape = TC_SHAPE(BATCH, T, HEADS * D);
  heads h = {.grad = bench_tensor(shape, 4)};
  for (int i = 0; i < 3; i++) h.in[i] = tc_param(bench_tensor(shape, (uint32_t)i + 1));
  // Two products over half of all pairs, and four more backward.
  double product = 2.0 * BATCH * HEADS * T * (T + 1) / 2.0 * D;
  bench_row row = {
      .bench = "attention", .name = "forward", .unit = "ms", .roof = BENCH_FMA, .arg = &h, .check = attention_right};
  row.work = 2 * product, row.run = run_forward;
  bench_measure(&row);
  row.name = "forward_backward", row.work = 6 * product, row.run = run_backward;
  bench_measure(&row);
  tc_scope_end(scope);
  for (int i = 0; i < 3; i++) tc_release(h.in[i]);
}
