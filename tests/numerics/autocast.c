// Autocast against PyTorch: the type of each op's result, and the losses of three networks over 50
// steps (autocast_golden.h, made by tools/golden_autocast.py).
// Networks, data and order are those of the tool, number by number. Losses are nearer to PyTorch's
// than those of another order of the data are, and as near as its own in f32 nearly.
#include <math.h>
#include <tc/amp.h>

#include "tests/expect.h"

// ---- Types ----

// As half.c's: shapes alone matter.
#define OPERANDS(X) \
  X(x, 6, 70) \
  X(y, 6, 70) \
  X(p, 6, 70) \
  X(u, 6, 70) \
  X(a, 6, 70) \
  X(w, 70) \
  X(b, 70) \
  X(image, 2, 6, 9, 8) \
  X(kernel, 6, 6, 3, 3) \
  X(line, 2, 6, 19) \
  X(tap, 6, 6, 3) \
  X(block, 1, 2, 5, 6, 4) \
  X(cube, 2, 2, 2, 3, 2) \
  X(c, 6) \
  X(d, 6) \
  X(query, 2, 4, 24, 16) \
  X(key, 2, 4, 24, 16) \
  X(value, 2, 4, 24, 16) \
  X(table, 24, 8) \
  X(table2, 24, 8) \
  X(deep, 3, 70, 9) \
  X(narrow, 3, 9, 5)

typedef struct operands {
#define X(name, ...) tc_tensor name;
  OPERANDS(X)
#undef X
  tc_tensor i;
} operands;

#define NAMED(name, ...) tc_tensor name __attribute__((unused)) = o->name;
#define HALF_EXACT(...)
#define HALF_OP(name, forward, sums, gradient, terms, ...) \
  static __attribute__((unused)) tc_tensor call_##name(const operands *o) { \
    OPERANDS(NAMED) \
    tc_tensor i __attribute__((unused)) = o->i; \
    return (__VA_ARGS__); \
  }
#include "tests/numerics/half.def"

static tc_type type_under_autocast(tc_tensor call(const operands *o), tc_type of) {
  operands o;
  tc_scope scope = tc_scope_begin();
#define X(name, ...) o.name = tc_full(TC_SHAPE(__VA_ARGS__), 0.5, of);
  OPERANDS(X)
#undef X
  o.i = tc_zeros(TC_SHAPE(6, 70), TC_I64);
  EXPECT_OK(tc_autocast_begin(TC_BF16));
  tc_tensor result = call(&o);
  EXPECT_OK(tc_autocast_end());
  EXPECT(tc_is_valid(result), "is poison");
  tc_type type = tc_dtype(result);
  tc_scope_end(scope);
  return type;
}

static int n_types;

static void expect_types(const char *name, tc_tensor call(const operands *o), tc_type of_f32, tc_type of_bf16) {
  tc_type f32 = type_under_autocast(call, TC_F32), bf16 = type_under_autocast(call, TC_BF16);
  EXPECT(f32 == of_f32, "%s of f32 is %s", name, tc_type_name(f32));
  EXPECT(bf16 == of_bf16, "%s of bf16 is %s, PyTorch's %s", name, tc_type_name(bf16), tc_type_name(of_bf16));
  n_types++;
}

static void types_are_pytorchs(void) {
#define AUTOCAST_TYPES(name, of_f32, of_bf16) expect_types(#name, call_##name, TC_##of_f32, TC_##of_bf16);
#include "tests/numerics/autocast_golden.h"
  EXPECT(n_types > 80, "%d", n_types);
}

// ---- Networks ----

#include "tests/numerics/autocast_golden.h"

enum { N_STEPS = 50, N_SEEDS = 3, MOST_PARAMS = 20 };

static uint64_t state;

static double uniform(void) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (double)(state >> 11) * 0x1p-53;
}

static tc_tensor values(tc_dims d, double bound) {
  static float data[32768];
  int64_t n = 1;
  for (int i = 0; i < d.rank; i++) n *= d.dim[i];
  for (int64_t i = 0; i < n; i++) data[i] = (float)(bound * (2 * uniform() - 1));
  return tc_from_host(data, d, TC_F32);
}

typedef struct net {
  tc_tensor p[MOST_PARAMS];
  int n_params, n_rows, batch;
  tc_tensor x, y;  // what batches are rows of
  tc_optimizer *opt;
} net;

static void add(net *m, tc_tensor init) {
  m->p[m->n_params++] = tc_param(init);
}

static void add_weight(net *m, tc_dims d) {
  double in = 1;
  for (int i = 1; i < d.rank; i++) in *= (double)d.dim[i];
  add(m, values(d, 1 / sqrt(in)));
}

static void add_ones(net *m, int64_t n) {
  add(m, tc_ones(TC_SHAPE(n), TC_F32));
}

static void add_zeros(net *m, int64_t n) {
  add(m, tc_zeros(TC_SHAPE(n), TC_F32));
}

static void make_mlp(net *m) {
  m->n_rows = 256, m->batch = 32;
  m->x = tc_keep(values(TC_SHAPE(256, 16), 1));
  m->y = tc_keep(tc_argmax(tc_matmul(m->x, values(TC_SHAPE(16, 8), 1)), 1, false));
  add_weight(m, TC_SHAPE(64, 16)), add_zeros(m, 64), add_ones(m, 64), add_zeros(m, 64);
  add_weight(m, TC_SHAPE(64, 64)), add_zeros(m, 64), add_weight(m, TC_SHAPE(8, 64)), add_zeros(m, 8);
  m->opt = tc_adam(m->p, m->n_params, (tc_adam_options){.lr = 3e-3});
}

static tc_tensor mlp_loss(const net *m, tc_tensor rows) {
  const tc_tensor *p = m->p;
  tc_tensor x = tc_index_select(m->x, 0, rows), y = tc_index_select(m->y, 0, rows);
  tc_tensor h = tc_layer_norm(tc_relu(tc_linear(x, p[0], p[1])), p[2], p[3], 1e-5);
  return tc_cross_entropy(tc_linear(tc_relu(tc_linear(h, p[4], p[5])), p[6], p[7]), y);
}

static void make_conv(net *m) {
  m->n_rows = 128, m->batch = 16;
  m->x = tc_keep(values(TC_SHAPE(128, 3, 8, 8), 1));
  tc_tensor flat = tc_reshape(m->x, TC_SHAPE(128, 192));
  m->y = tc_keep(tc_argmax(tc_matmul(flat, values(TC_SHAPE(192, 8), 1)), 1, false));
  add_weight(m, TC_SHAPE(8, 3, 3, 3)), add_ones(m, 8), add_zeros(m, 8);
  add_weight(m, TC_SHAPE(16, 8, 3, 3)), add_ones(m, 16), add_zeros(m, 16);
  add_weight(m, TC_SHAPE(8, 64)), add_zeros(m, 8);
  m->opt = tc_sgd(m->p, m->n_params, (tc_sgd_options){.lr = 0.05, .momentum = 0.9});
}

static tc_tensor conv_block(tc_tensor x, const tc_tensor *p) {
  tc_tensor none = {0, 0}, h = tc_conv2d(x, p[0], none, (tc_conv_options){.padding = TC_SHAPE(1)});
  return tc_relu(tc_batch_norm(h, none, none, p[1], p[2], (tc_batch_norm_options){.training = true}));
}

static tc_tensor conv_loss(const net *m, tc_tensor rows) {
  tc_tensor x = tc_index_select(m->x, 0, rows), y = tc_index_select(m->y, 0, rows);
  tc_pool_options half = {.stride = TC_SHAPE(2)};
  tc_tensor h = tc_max_pool2d(conv_block(x, m->p), TC_SHAPE(2), half);
  h = tc_max_pool2d(conv_block(h, m->p + 3), TC_SHAPE(2), half);
  return tc_cross_entropy(tc_linear(tc_flatten(h, 1, -1), m->p[6], m->p[7]), y);
}

static void make_transformer(net *m) {
  static int64_t ids[64][13];
  m->n_rows = 64, m->batch = 16;
  for (int r = 0; r < 64; r++) {
    ids[r][0] = (int64_t)(16 * uniform());
    for (int k = 1; k < 13; k++) ids[r][k] = (3 * ids[r][k - 1] + r % 4) % 16;
  }
  m->x = tc_keep(tc_from_host(ids, TC_SHAPE(64, 13), TC_I64));
  add(m, values(TC_SHAPE(16, 32), 1)), add(m, values(TC_SHAPE(12, 32), 1)), add_ones(m, 32), add_zeros(m, 32);
  add_weight(m, TC_SHAPE(96, 32)), add_zeros(m, 96), add_weight(m, TC_SHAPE(32, 32)), add_zeros(m, 32);
  add_ones(m, 32), add_zeros(m, 32), add_weight(m, TC_SHAPE(64, 32)), add_zeros(m, 64);
  add_weight(m, TC_SHAPE(32, 64)), add_zeros(m, 32), add_ones(m, 32), add_zeros(m, 32), add_weight(m, TC_SHAPE(16, 32));
  m->opt = tc_adamw(m->p, m->n_params, (tc_adam_options){.lr = 3e-3});
}

static tc_tensor heads(tc_tensor qkv, int k) {
  return tc_transpose(tc_reshape(tc_slice(qkv, 2, 32 * k, 32 * (k + 1), 1), TC_SHAPE(-1, 12, 2, 16)), 1, 2);
}

static tc_tensor transformer_loss(const net *m, tc_tensor rows) {
  const tc_tensor *p = m->p, none = {0, 0};
  tc_tensor ids = tc_index_select(m->x, 0, rows);
  tc_tensor x = tc_add(tc_embedding(p[0], tc_slice(ids, 1, 0, 12, 1)), p[1]);
  tc_tensor qkv = tc_linear(tc_layer_norm(x, p[2], p[3], 1e-5), p[4], p[5]);
  tc_tensor a = tc_scaled_dot_product_attention(heads(qkv, 0), heads(qkv, 1), heads(qkv, 2), none,
                                                (tc_attention_options){.causal = true});
  x = tc_add(x, tc_linear(tc_reshape(tc_transpose(a, 1, 2), TC_SHAPE(-1, 12, 32)), p[6], p[7]));
  tc_tensor h = tc_gelu(tc_linear(tc_layer_norm(x, p[8], p[9], 1e-5), p[10], p[11]));
  x = tc_add(x, tc_linear(h, p[12], p[13]));
  tc_tensor logits = tc_linear(tc_layer_norm(x, p[14], p[15], 1e-5), p[16], none);
  return tc_cross_entropy(tc_reshape(logits, TC_SHAPE(-1, 16)), tc_flatten(tc_slice(ids, 1, 1, 13, 1), 0, -1));
}

// ---- Training ----

typedef struct kind {
  const char *name;
  void (*make)(net *m);
  tc_tensor (*loss)(const net *m, tc_tensor rows);
  const float (*golden[3])[N_STEPS];  // f32, bf16, f16
} kind;

static const tc_type type_of[3] = {TC_F32, TC_BF16, TC_F16};
static const kind kinds[] = {
#define KIND(name) {#name, make_##name, name##_loss, {golden_##name##_f32, golden_##name##_bf16, golden_##name##_f16}},
    KIND(mlp) KIND(conv) KIND(transformer)};

static float step(const kind *k, const net *m, tc_grad_scaler *scaler, tc_type type) {
  int64_t row[64];
  float loss = 0;
  tc_scope scope = tc_scope_begin();
  for (int i = 0; i < m->batch; i++) row[i] = (int64_t)(m->n_rows * uniform());
  EXPECT_OK(
      tc_autocast_begin_with((tc_autocast_options){.type = type == TC_F32 ? 0 : type, .disabled = type == TC_F32}));
  tc_tensor now = k->loss(m, tc_from_host(row, TC_SHAPE(m->batch), TC_I64));
  EXPECT_OK(tc_autocast_end());
  EXPECT(tc_dtype(now) == TC_F32, "the loss is %s", tc_type_name(tc_dtype(now)));
  EXPECT_OK(tc_zero_grad(m->opt));
  EXPECT_OK(tc_backward(tc_grad_scaler_scale(scaler, now)));
  EXPECT_OK(tc_grad_scaler_step(scaler, m->opt));
  EXPECT_OK(tc_grad_scaler_update(scaler));
  EXPECT_OK(tc_item_f32(now, &loss));
  tc_scope_end(scope);
  return loss;
}

static void train(const kind *k, int seed, tc_type type, int n_steps, float out[N_STEPS]) {
  net m = {0};
  tc_scope scope = tc_scope_begin();
  state = 1;
  k->make(&m);
  EXPECT_OK(tc_eval(m.n_params, m.p));
  state = (uint64_t)seed;
  tc_grad_scaler *scaler =
      tc_grad_scaler_create((tc_grad_scaler_options){.growth_interval = 20, .disabled = type != TC_F16});
  for (int i = 0; i < n_steps; i++) out[i] = step(k, &m, scaler, type);
  tc_grad_scaler_destroy(scaler);
  tc_optimizer_destroy(m.opt);
  for (int i = 0; i < m.n_params; i++) tc_release(m.p[i]);
  tc_scope_end(scope);
}

// The mean distance of two runs' losses, a step.
static double distance(const float *a, const float *b) {
  double sum = 0;
  for (int i = 0; i < N_STEPS; i++) sum += fabs((double)a[i] - (double)b[i]);
  return sum / N_STEPS;
}

// noise: between PyTorch's runs with other orders of the data; rounding: between its losses and its
// own in f32.
static void losses_are_pytorchs(const kind *k, int type) {
  const float(*want)[N_STEPS] = k->golden[type];
  double noise = 0, rounding = 0, off = 0;
  for (int s = 0; s < N_SEEDS; s++) {
    float have[N_STEPS];
    train(k, 1 + s, type_of[type], N_STEPS, have);
    noise += distance(want[s], want[(s + 1) % N_SEEDS]) / N_SEEDS;
    rounding += distance(want[s], k->golden[0][s]) / N_SEEDS;
    off += distance(have, want[s]) / N_SEEDS;
  }
  printf("%-12s %-5s off %.2e, of noise between orders %.2e, of PyTorch's own rounding %.2e\n", k->name,
         tc_type_name(type_of[type]), off, noise, rounding);
  EXPECT(off < 0.5 * noise, "%s in %s: losses are %g off, runs of PyTorch differ by %g", k->name,
         tc_type_name(type_of[type]), off, noise);
  EXPECT(off < 3 * rounding + 2e-4, "%s in %s: losses are %g off, PyTorch's from those in f32 %g", k->name,
         tc_type_name(type_of[type]), off, rounding);
}

int main(void) {
  types_are_pytorchs();
  if (strcmp(tc_get_default_device(), "tc:cpu") != 0) {  // a simulated GPU takes minutes for all
    float have[N_STEPS], first = kinds[0].golden[2][0][0];
    train(&kinds[0], 1, TC_F16, 3, have);
    EXPECT(fabsf(have[0] - first) < 1e-3f && have[2] < first, "%g, %g, %g, at first %g", have[0], have[1], have[2],
           first);
    return expect_done("autocast");
  }
  for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
    for (int type = 0; type < 3; type++) losses_are_pytorchs(&kinds[k], type);
  return expect_done("autocast");
}
