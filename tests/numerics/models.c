// The models of examples/models against PyTorch, on small ones that are committed
// (tests/golden/model_*.safetensors, made by tools/golden_models.py): results in evaluation, losses
// of training steps, running statistics, tokens by a cache. Nothing that is off by a thousandth
// passes. Loading copies nothing; from the third token on there is no new plan and no memory is
// taken.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tc/nn.h>

#include "examples/models/bert.h"
#include "examples/models/gpt2.h"
#include "examples/models/resnet.h"
#include "examples/models/weights.h"
#include "tests/expect.h"

enum { STEPS = 4, HEADS = 4 };
static const double lr = 0.02, momentum = 0.9;

static tc_archive *open_golden(const char *name) {
  char path[100];
  snprintf(path, sizeof path, "tests/golden/model_%s.safetensors", name);
  tc_archive *a = tc_safetensors_open(path);
  EXPECT(a != NULL, "%s: %s", path, tc_last_error()->message);
  return a;
}

static float *floats(tc_tensor t) {
  size_t bytes = (size_t)tc_numel(t) * sizeof(float);
  float *out = malloc(bytes);
  EXPECT_OK(tc_to_host(t, out, bytes));
  return out;
}

static double distance(const float *got, const float *want, int64_t n) {
  double most = 0;
  for (int64_t i = 0; i < n; i++) {
    double d = fabs((double)got[i] - (double)want[i]);
    if (!(d <= most)) most = d;  // NaN, too
  }
  return most;
}

// Closer than 1e-4 of the largest, and never further than half a thousandth.
static double allowed(const float *want, int64_t n) {
  double largest = 0;
  for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs((double)want[i]));
  return fmin(1e-4 * fmax(largest, 1), 5e-4);
}

static void expect_near(const char *what, const float *got, tc_tensor expected) {
  int64_t n = tc_numel(expected);
  float *want = floats(expected);
  double d = distance(got, want, n), most = allowed(want, n);
  EXPECT(d <= most, "%s differs from PyTorch's by %g", what, d);
  want[n / 2] += 1e-3f;  // what is off by so much would be found
  EXPECT(distance(got, want, n) > most, "%s may be off by a thousandth", what);
  free(want);
}

static void expect_result(const char *what, tc_tensor got, tc_tensor want) {
  tc_dims a = tc_shape(got), b = tc_shape(want);
  EXPECT(a.rank == b.rank && memcmp(a.dim, b.dim, sizeof a.dim) == 0, "%s has another shape", what);
  float *values = floats(got);
  expect_near(what, values, want);
  free(values);
}

// One step, whose loss is read; everything it makes dies.
static float step(tc_tensor loss_of(const tc_nn_params *, const tc_archive *), const tc_nn_params *p,
                  const tc_archive *a, tc_optimizer *opt) {
  float out = NAN;
  tc_scope outer = tc_scope_begin(), scope = tc_scope_begin();
  tc_tensor loss = loss_of(p, a);
  EXPECT_OK(tc_backward(loss));
  EXPECT_OK(tc_optimizer_step(opt));
  EXPECT_OK(tc_zero_grad(opt));
  tc_keep(loss);
  tc_scope_end(scope);
  EXPECT_OK(tc_item_f32(loss, &out));
  tc_scope_end(outer);
  return out;
}

static void expect_losses(const char *what, tc_tensor loss_of(const tc_nn_params *, const tc_archive *),
                          const tc_nn_params *p, const tc_archive *a, tc_optimizer *opt) {
  float loss[STEPS];
  EXPECT(opt != NULL, "no optimizer: %s", tc_last_error()->message);
  for (int i = 0; i < STEPS; i++) loss[i] = step(loss_of, p, a, opt);
  expect_near(what, loss, tc_archive_get(a, "golden.losses"));
  tc_optimizer_destroy(opt);
}

// Ends the scope in which p was made and loaded.
static void loaded(const char *name, const tc_nn_params *p, tc_scope scope) {
  tc_scope_end(scope);
  EXPECT_OK(tc_eval(tc_nn_count_all(p), tc_nn_tensors(p)));
  size_t live = tc_memory_stats().live_bytes;
  // Only the batch counts are 8 bytes that lie anywhere in the file, and then copied.
  EXPECT(live < 64 * 256, "%s: %zu bytes are held after loading", name, live);
}

// ---- ResNet ----

static tc_tensor resnet_loss(const tc_nn_params *p, const tc_archive *a) {
  return tc_cross_entropy(resnet_forward(p, tc_archive_get(a, "golden.input")), tc_archive_get(a, "golden.labels"));
}

static void resnet_gives_pytorchs_results(const char *name) {
  tc_archive *a = open_golden(name);
  resnet_config c;
  tc_scope scope = tc_scope_begin(), loading = tc_scope_begin();
  tc_nn_params *p = tc_nn_params_create();
  EXPECT(resnet_config_of(a, &c), "%s: no sizes", name);
  EXPECT_OK(resnet_add(p, &c));
  EXPECT_OK(tc_nn_load(p, a, NULL));
  loaded(name, p, loading);
  tc_nn_set_training(p, false);
  expect_result(name, resnet_forward(p, tc_archive_get(a, "golden.input")), tc_archive_get(a, "golden.output"));
  tc_nn_set_training(p, true);
  tc_sgd_options options = {.lr = lr, .momentum = momentum};
  expect_losses(name, resnet_loss, p, a, tc_sgd(tc_nn_tensors(p), tc_nn_count(p), options));
  int64_t count;
  EXPECT_OK(tc_item_i64(tc_nn_get(p, "bn1.num_batches_tracked"), &count));
  EXPECT(count == STEPS + (tc_archive_has(a, "bn1.num_batches_tracked") ? 7 : 0), "%lld batches counted",
         (long long)count);
  // The weights in the file are as they were.
  expect_result(name, tc_archive_get(a, "golden.output"), tc_archive_get(a, "golden.output"));
  tc_nn_params *q = tc_nn_params_create();
  EXPECT_OK(resnet_add(q, &c));
  EXPECT_OK(tc_nn_load(q, a, NULL));
  tc_nn_set_training(q, false);
  expect_result(name, resnet_forward(q, tc_archive_get(a, "golden.input")), tc_archive_get(a, "golden.output"));
  tc_nn_params_destroy(q);
  tc_nn_params_destroy(p);
  tc_scope_end(scope);
  tc_archive_close(a);
}

// ---- BERT ----

static void bert_gives_pytorchs_results(void) {
  tc_archive *a = open_golden("bert");
  bert_config c;
  tc_tensor none = {0, 0};
  const char *prefix = weights_prefix(a, "bert.", "embeddings.");
  tc_scope scope = tc_scope_begin(), loading = tc_scope_begin();
  tc_nn_params *p = tc_nn_params_create();
  EXPECT(strcmp(prefix, "bert.") == 0, "the prefix is '%s'", prefix);
  EXPECT(bert_config_of(a, prefix, &c), "no sizes");
  EXPECT_OK(bert_add(p, &c));
  EXPECT_OK(bert_load(p, a, prefix));
  loaded("bert", p, loading);
  tc_tensor ids = tc_archive_get(a, "golden.input"), mask = tc_archive_get(a, "golden.mask"),
            types = tc_archive_get(a, "golden.types");
  expect_result("bert", bert_forward(p, ids, none, none, HEADS), tc_archive_get(a, "golden.plain"));
  expect_result("bert with padding", bert_forward(p, ids, types, mask, HEADS), tc_archive_get(a, "golden.output"));
  tc_nn_params_destroy(p);
  tc_scope_end(scope);
  tc_archive_close(a);
}

// ---- GPT-2 ----

static tc_tensor loss_of_gpt2(const tc_nn_params *p, const tc_archive *a) {
  return gpt2_loss(p, tc_archive_get(a, "golden.input"), HEADS);
}

// The likeliest token after each row; how many plans were made.
static tc_tensor next(const tc_nn_params *p, tc_tensor ids, gpt2_cache *cache, uint64_t *out_plans) {
  uint64_t before = tc_cache_stats().plan_misses;
  tc_scope scope = tc_scope_begin();
  tc_tensor hidden = gpt2_forward(p, ids, HEADS, cache);
  tc_tensor token = tc_argmax(gpt2_logits(p, tc_slice(hidden, 1, -1, INT64_MAX, 1)), 2, false);
  int64_t value[2] = {0};
  EXPECT_OK(tc_to_host(token, value, sizeof value));
  tc_scope_end(scope);
  *out_plans = tc_cache_stats().plan_misses - before;
  return tc_from_host(value, TC_SHAPE(2, 1), TC_I64);
}

// Tokens after those of the input, each from the cache.
static void generation_gives_pytorchs_tokens(const tc_nn_params *p, const tc_archive *a) {
  enum { N = 12 };
  tc_tensor ids = tc_archive_get(a, "golden.input"), token[N];
  size_t live = 0;
  gpt2_cache cache;
  tc_no_grad_begin();
  EXPECT_OK(gpt2_cache_init(&cache, p, 2, tc_shape(ids).dim[1] + N, HEADS));
  for (int i = 0; i < N; i++) {
    uint64_t plans;
    token[i] = next(p, i ? token[i - 1] : ids, &cache, &plans);
    // A token handed over is a buffer that stays, of the smallest size there is.
    size_t now = tc_memory_stats().live_bytes;
    if (i > 2) EXPECT(plans == 0, "token %d made %d plans", i, (int)plans);
    if (i > 2) EXPECT(now <= live + 512, "token %d holds %zu bytes more", i, now - live);
    live = now;
  }
  EXPECT(cache.n == tc_shape(ids).dim[1] + N - 1, "%d tokens in the cache", (int)cache.n);
  bool same = false;
  EXPECT_OK(tc_allclose(tc_cast(tc_cat(N, token, 1), TC_F32), tc_cast(tc_archive_get(a, "golden.greedy"), TC_F32), 0, 0,
                        &same));
  EXPECT(same, "other tokens than PyTorch's");
  gpt2_cache_fini(&cache);
  tc_no_grad_end();
}

static void gpt2_gives_pytorchs_results(void) {
  tc_archive *a = open_golden("gpt2");
  gpt2_config c;
  const char *prefix = weights_prefix(a, "transformer.", "h.");
  tc_scope scope = tc_scope_begin(), loading = tc_scope_begin();
  tc_nn_params *p = tc_nn_params_create();
  EXPECT(strcmp(prefix, "transformer.") == 0, "the prefix is '%s'", prefix);
  EXPECT(gpt2_config_of(a, prefix, &c), "no sizes");
  EXPECT(c.n_layers == 2 && c.n_positions == 24 && c.inner == 24, "other sizes");
  EXPECT_OK(gpt2_add(p, &c));
  EXPECT_OK(tc_nn_load(p, a, prefix));
  loaded("gpt2", p, loading);
  tc_tensor ids = tc_archive_get(a, "golden.input");
  expect_result("gpt2", gpt2_logits(p, gpt2_forward(p, ids, HEADS, NULL)), tc_archive_get(a, "golden.output"));
  generation_gives_pytorchs_tokens(p, a);
  tc_adam_options options = {.lr = lr / 10, TC_ADAM_DEFAULTS, .weight_decay = 0.01};
  expect_losses("gpt2", loss_of_gpt2, p, a, tc_adamw(tc_nn_tensors(p), tc_nn_count(p), options));
  tc_nn_params_destroy(p);
  tc_scope_end(scope);
  tc_archive_close(a);
}

int main(void) {
#ifndef TC_HAVE_JANSSON
  printf("built without jansson: there are no safetensors files\n");
  return 77;
#endif
  resnet_gives_pytorchs_results("resnet18");
  resnet_gives_pytorchs_results("resnet50");
  bert_gives_pytorchs_results();
  gpt2_gives_pytorchs_results();
  return expect_done("numerics-models");
}
