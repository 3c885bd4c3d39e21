// The models that people run: ResNet, BERT, GPT-2, with the code of examples/models/. Parameters are numbers made from their names, the same ones in
// bench/peers/; what the first outputs or losses must be, PyTorch said (expected.def).
#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tc/nn.h>

#include "examples/models/bert.h"
#include "examples/models/gpt2.h"
#include "examples/models/resnet.h"

typedef struct model {
  const char *bench, *name;
  tc_nn_params *params;
  tc_optimizer *opt;
  tc_tensor x, y;
  gpt2_cache cache;
  tc_tensor (*forward)(struct model *m);  // the output, the loss in training, the logits of the next token
  double tolerance;
} model;

enum { HEADS = 12, CONTEXT = 256, MAX_EXPECTED = 4 };

// ---- Numbers ----

// Of the name, by FNV-1a.
static uint32_t seed_of(const char *name) {
  uint32_t h = 2166136261u;
  for (; *name; name++) h = (h ^ (uint8_t)*name) * 16777619u;
  return h;
}

static bool ends_with(const char *name, const char *end) {
  size_t n = strlen(name), m = strlen(end);
  return n >= m && strcmp(name + n - m, end) == 0;
}

// Norms near one, biases near zero, convolutions uniform with variance 2 / (inputs of a sum), all else within 0.035.
static tc_tensor parameter(const char *name, tc_dims shape) {
  bool one = ends_with(name, "running_var") || (shape.rank == 1 && ends_with(name, "weight"));
  double scale = ends_with(name, "running_var") ? 0.5 : shape.rank == 1 ? 0.1 : 0.035;
  if (shape.rank == 4) scale = sqrt(6.0 / (double)(shape.dim[1] * shape.dim[2] * shape.dim[3]));
  int64_t n = 1;
  for (int i = 0; i < shape.rank; i++) n *= shape.dim[i];
  float *data = bench_floats(n, seed_of(name));
  if (data == NULL) return (tc_tensor){0, 0};
  for (int64_t i = 0; i < n; i++) data[i] = data[i] * (float)scale + (one ? 1.0f : 0.0f);
  tc_tensor t = tc_from_host(data, shape, TC_F32);
  free(data);
  return t;
}

static tc_tensor whole_numbers(tc_dims shape, int64_t factor, int64_t below) {
  int64_t n = 1;
  for (int i = 0; i < shape.rank; i++) n *= shape.dim[i];
  int64_t *data = malloc((size_t)n * sizeof(int64_t));
  if (data == NULL) return (tc_tensor){0, 0};
  for (int64_t i = 0; i < n; i++) data[i] = i * factor % below;
  tc_tensor t = tc_from_host(data, shape, TC_I64);
  free(data);
  return t;
}

static tc_status set_parameters(model *m) {
  tc_status st = TC_OK;
  for (int i = 0; i < tc_nn_count_all(m->params) && st == TC_OK; i++) {
    tc_tensor t = tc_nn_tensors(m->params)[i];
    if (tc_dtype(t) != TC_F32) continue;  // a batch norm's number of batches
    tc_scope scope = tc_scope_begin();
    tc_no_grad_begin();
    st = tc_assign(t, parameter(tc_nn_names(m->params)[i], tc_shape(t)));
    tc_no_grad_end();
    tc_scope_end(scope);
  }
  return st == TC_OK ? tc_eval(tc_nn_count_all(m->params), tc_nn_tensors(m->params)) : st;
}

// Sets the parameters and makes them of that type.
static bool parameters_ready(model *m, tc_type type) {
  if (set_parameters(m) != TC_OK) return false;
  if (type != TC_F32 && tc_nn_cast(m->params, type) != TC_OK) return false;
  return tc_eval(tc_nn_count_all(m->params), tc_nn_tensors(m->params)) == TC_OK;
}

// ---- Work ----

static tc_tensor classify(model *m) {
  return resnet_forward(m->params, m->x);
}

static tc_tensor classify_loss(model *m) {
  return tc_cross_entropy(resnet_forward(m->params, m->x), m->y);
}

static tc_tensor encode(model *m) {
  return bert_forward(m->params, m->x, (tc_tensor){0, 0}, (tc_tensor){0, 0}, HEADS);
}

static tc_tensor language_loss(model *m) {
  return gpt2_loss(m->params, m->x, HEADS);
}

// The last place of the context is written anew each time: the work of one token.
static tc_tensor next_token(model *m) {
  m->cache.n = CONTEXT - 1;
  return gpt2_logits(m->params, gpt2_forward(m->params, m->y, HEADS, &m->cache));
}

static tc_status infer(model *m) {
  tc_scope scope = tc_scope_begin();
  tc_no_grad_begin();
  tc_tensor y = m->forward(m);
  tc_status st = tc_eval(1, &y);
  tc_no_grad_end();
  tc_scope_end(scope);
  return st;
}

// A step with its loss in hand, which is read when the step's scope has ended: nothing old is held then.
static tc_status train(model *m, float *loss) {
  tc_scope outer = tc_scope_begin(), scope = tc_scope_begin();
  tc_tensor y = m->forward(m);
  tc_status st = tc_backward(y);
  if (st == TC_OK) st = tc_optimizer_step(m->opt);
  if (st == TC_OK) st = tc_zero_grad(m->opt);
  tc_keep(y);
  tc_scope_end(scope);
  if (st == TC_OK) st = tc_item_f32(y, loss);
  tc_scope_end(outer);
  return st;
}

// The most likely token in hand.
static tc_status decode(model *m, int64_t *token) {
  tc_scope scope = tc_scope_begin();
  tc_no_grad_begin();
  tc_status st = tc_item_i64(tc_argmax(tc_flatten(next_token(m), 0, -1), 0, false), token);
  tc_no_grad_end();
  tc_scope_end(scope);
  return st;
}

static double run_model(void *arg, int n) {
  model *m = arg;
  float loss;
  int64_t token;
  double start = bench_now();
  for (int i = 0; i < n; i++)
    if ((m->opt ? train(m, &loss) : m->cache.key ? decode(m, &token) : infer(m)) != TC_OK) return -1;
  return bench_now() - start;
}

// ---- Right results ----

static const struct expected_row {
  const char *bench, *name;
  double value[MAX_EXPECTED];
} expected[] = {
#define EXPECTED(bench, name, ...) {#bench, name, {__VA_ARGS__}},
#include "bench/expected.def"
#undef EXPECTED
};

static const double *expected_of(const model *m) {
  for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
    if (strcmp(expected[i].bench, m->bench) == 0 && strcmp(expected[i].name, m->name) == 0) return expected[i].value;
  fprintf(stderr, "  no expected values\n");
  return NULL;
}

// The first, last and two elements between.
static bool outputs_right(model *m, const double *want) {
  bool right = true;
  tc_scope scope = tc_scope_begin();
  tc_no_grad_begin();
  tc_tensor y = tc_cast(m->forward(m), TC_F32);
  int64_t n = tc_numel(y), at[MAX_EXPECTED] = {0, n / 3, n / 2, n - 1};
  for (int i = 0; i < MAX_EXPECTED && right; i++) right = bench_near((double)bench_element(y, at[i]), want[i], m->tolerance);
  tc_no_grad_end();
  tc_scope_end(scope);
  return right;
}

// The losses of the first steps, from the parameters' first values.
static bool losses_right(model *m, const double *want) {
  if (set_parameters(m) != TC_OK) return false;
  for (int i = 0; tc_optimizer_state_name(m->opt, i); i++) {
    tc_scope scope = tc_scope_begin();
    tc_tensor state = tc_optimizer_state(m->opt, i);
    tc_status st = tc_optimizer_set_state(m->opt, i, tc_zeros(tc_shape(state), tc_dtype(state)));
    tc_scope_end(scope);
    if (st != TC_OK) return false;
  }
  for (int i = 0; i < MAX_EXPECTED; i++) {
    float loss;
    if (train(m, &loss) != TC_OK || !bench_near((double)loss, want[i], m->tolerance)) return false;
  }
  return true;
}

static bool model_right(void *arg) {
  model *m = arg;
  const double *want = expected_of(m);
  return want && (m->opt ? losses_right(m, want) : outputs_right(m, want));
}

// ---- Making and measuring ----

static void finish(model *m) {
  if (m->cache.key) gpt2_cache_fini(&m->cache);
  tc_optimizer_destroy(m->opt);
  tc_nn_params_destroy(m->params);
  if (m->x.gen) tc_release(m->x);
  if (m->y.gen) tc_release(m->y);
  *m = (model){0};
}

static bool make_resnet(model *m, bool deep, int64_t n, int64_t side) {
  resnet_config c = deep ? RESNET50 : RESNET18;
  m->params = tc_nn_params_create();
  if (resnet_add(m->params, &c) != TC_OK || !parameters_ready(m, TC_F32)) return false;
  tc_scope scope = tc_scope_begin();
  m->x = tc_retain(bench_tensor(TC_SHAPE(n, 3, side, side), 1));
  m->y = tc_retain(whole_numbers(TC_SHAPE(n), 7, 1000));
  tc_scope_end(scope);
  return true;
}

static bool make_bert(model *m, int64_t n, int64_t length, tc_type type) {
  bert_config c = BERT_BASE;
  m->params = tc_nn_params_create();
  if (bert_add(m->params, &c) != TC_OK || !parameters_ready(m, type)) return false;
  tc_scope scope = tc_scope_begin();
  m->x = tc_retain(whole_numbers(TC_SHAPE(n, length), 7919, c.n_words));
  tc_scope_end(scope);
  return true;
}

static bool make_gpt2(model *m, int64_t n, int64_t length, tc_type type) {
  gpt2_config c = GPT2_SMALL;
  m->params = tc_nn_params_create();
  if (gpt2_add(m->params, &c) != TC_OK || !parameters_ready(m, type)) return false;
  tc_scope scope = tc_scope_begin();
  m->x = tc_retain(whole_numbers(TC_SHAPE(n, length), 7919, c.n_words));
  tc_scope_end(scope);
  return true;
}

// Keys and values of the context but for its last token, which is decoded again and again.
static bool fill_cache(model *m) {
  if (gpt2_cache_init(&m->cache, m->params, 1, CONTEXT, HEADS) != TC_OK) return false;
  tc_scope scope = tc_scope_begin();
  tc_no_grad_begin();
  tc_tensor before = gpt2_forward(m->params, tc_slice(m->x, 1, 0, CONTEXT - 1, 1), HEADS, &m->cache);
  tc_status st = tc_eval(1, &before);
  m->y = tc_retain(tc_slice(m->x, 1, CONTEXT - 1, CONTEXT, 1));
  if (st == TC_OK) st = tc_eval(1, &m->y);
  tc_no_grad_end();
  tc_scope_end(scope);
  return st == TC_OK;
}

static void trains(model *m) {
  m->opt = strncmp(m->bench, "resnet", 6) == 0
               ? tc_sgd(tc_nn_tensors(m->params), tc_nn_count(m->params), (tc_sgd_options){.lr = 0.01, .momentum = 0.9})
               : tc_adamw(tc_nn_tensors(m->params), tc_nn_count(m->params), (tc_adam_options){.lr = 1e-4, TC_ADAM_DEFAULTS, .weight_decay = 0.01});
}

static double not_made(void *arg, int n) {
  (void)arg, (void)n;
  return -1;
}

static void measure_model(model *m, bool made, bench_row row) {
  if (made && m->opt == NULL) tc_nn_set_training(m->params, false);
  row.bench = m->bench, row.name = m->name, row.unit = "ms", row.run = made ? run_model : not_made, row.arg = m;
  row.check = made ? model_right : NULL;
  if (!made) fprintf(stderr, "%s %s: %s\n", m->bench, m->name, tc_last_error()->message);
  bench_measure(&row);
  finish(m);
}

// Multiply-adds of one 3x224x224 image: torchvision's tables.
static const double resnet18_flops = 2 * 1.814e9, resnet50_flops = 2 * 4.089e9;

void bench_resnet18_infer(void) {
  model m = {.bench = "resnet18_infer", .name = "16x3x128x128", .forward = classify, .tolerance = 1e-4};
  bool made = make_resnet(&m, false, 16, 128);
  measure_model(&m, made, (bench_row){.work = 16 * resnet18_flops * 128 * 128 / (224 * 224), .roof = BENCH_FMA});
}

static bool make_resnet18_train(model *m) {
  *m = (model){.bench = "resnet18_train", .name = "16x3x128x128", .forward = classify_loss, .tolerance = 1e-2};
  if (!make_resnet(m, false, 16, 128)) return false;
  trains(m);
  return m->opt != NULL;
}

void bench_resnet18_train(void) {
  model m;
  bool made = make_resnet18_train(&m);
  measure_model(&m, made, (bench_row){.work = 3 * 16 * resnet18_flops * 128 * 128 / (224 * 224), .roof = BENCH_FMA});
}

void bench_resnet50_infer(void) {
  const struct {
    const char *name;
    int n;
  } cases[] = {{"1x3x224x224", 1}, {"8x3x224x224", 8}};
  for (int i = 0; i < 2; i++) {
    if (!bench_wants(cases[i].name)) continue;
    model m = {.bench = "resnet50_infer", .name = cases[i].name, .forward = classify, .tolerance = 1e-4};
    bool made = make_resnet(&m, true, cases[i].n, 224);
    measure_model(&m, made, (bench_row){.work = cases[i].n * resnet50_flops, .roof = BENCH_FMA});
  }
}

// Products of 12 layers: four of dim x dim, two of dim x 4 dim, and every pair of positions twice.
static double transformer_flops(double tokens, double length) {
  return 2 * tokens * 12 * (12 * 768.0 * 768.0 + 2 * length * 768);
}

void bench_bert_infer(void) {
  const struct {
    const char *name;
    int n;
    tc_type type;
  } cases[] = {{"1x128", 1, TC_F32}, {"8x128", 8, TC_F32}, {"8x128_bf16", 8, TC_BF16}};
  for (int i = 0; i < 3; i++) {
    if (!bench_wants(cases[i].name)) continue;
    bool half = cases[i].type == TC_BF16;
    model m = {.bench = "bert_infer", .name = cases[i].name, .forward = encode, .tolerance = half ? 0.05 : 1e-4};
    bool made = make_bert(&m, cases[i].n, 128, cases[i].type);
    measure_model(&m, made, (bench_row){.work = transformer_flops(128.0 * cases[i].n, 128), .roof = half ? BENCH_BF16 : BENCH_FMA});
  }
}

static bool make_gpt2_train(model *m) {
  *m = (model){.bench = "gpt2_train", .name = "2x256", .forward = language_loss, .tolerance = 1e-3};
  if (!make_gpt2(m, 2, 257, TC_F32)) return false;
  trains(m);
  return m->opt != NULL;
}

void bench_gpt2_train(void) {
  model m;
  bool made = make_gpt2_train(&m);
  double flops = 3 * (transformer_flops(512, 128) + 2 * 512 * 768.0 * 50257);  // causal: half of all pairs
  measure_model(&m, made, (bench_row){.work = flops, .roof = BENCH_FMA});
}

// The roof is a read of as many bytes: the parameters but for the table of positions, and the cache.
void bench_gpt2_decode(void) {
  const struct {
    const char *name;
    tc_type type;
  } cases[] = {{"f32", TC_F32}, {"bf16", TC_BF16}};
  for (int i = 0; i < 2; i++) {
    if (!bench_wants(cases[i].name)) continue;
    tc_type type = cases[i].type;
    model m = {.bench = "gpt2_decode", .name = cases[i].name, .forward = next_token, .tolerance = type == TC_BF16 ? 0.05 : 1e-4};
    bool made = make_gpt2(&m, 1, CONTEXT, type) && fill_cache(&m);
    double values = 12 * 2.0 * CONTEXT * 768;
    for (int k = 0; made && k < tc_nn_count(m.params); k++)
      if (strcmp(tc_nn_names(m.params)[k], "wpe.weight") != 0) values += (double)tc_numel(tc_nn_tensors(m.params)[k]);
    measure_model(&m, made, (bench_row){.work = values * (double)tc_type_bytes(type), .roof = BENCH_READ});
  }
}

// ---- In fresh processes ----

bool bench_first_resnet18_step(void) {
  resnet_config c = RESNET18;
  model m = {.bench = "resnet18_train", .forward = classify_loss, .params = tc_nn_params_create()};
  float loss = NAN;
  tc_scope scope = tc_scope_begin();
  m.x = tc_retain(bench_tensor(TC_SHAPE(16, 3, 128, 128), 1));
  m.y = tc_retain(whole_numbers(TC_SHAPE(16), 7, 1000));
  tc_scope_end(scope);
  bool ok = resnet_add(m.params, &c) == TC_OK;
  if (ok) trains(&m);
  ok = ok && train(&m, &loss) == TC_OK && isfinite(loss);
  finish(&m);
  return ok;
}

double bench_peak_of_training(const char *name) {
  model m;
  float loss;
  if (!(strcmp(name, "gpt2_train") == 0 ? make_gpt2_train(&m) : make_resnet18_train(&m))) return -1;
  double held = bench_restart_peak();
  for (int i = 0; i < 3; i++)
    if (train(&m, &loss) != TC_OK) return -1;
  double peak = bench_peak() - held;
  finish(&m);
  return peak;
}
