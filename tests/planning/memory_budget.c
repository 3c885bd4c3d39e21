// A memory budget changes how much the temporaries of a step of training take, and no bit of what
// it gives: random draws, products, folds, convolutions and attention are made again as they were.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tc/nn.h>

#include "examples/models/resnet.h"
#include "tests/expect.h"
#include "tests/ramp.h"

// ---- what the library says of its plans ----

static size_t full, fitted;  // bytes of temporaries of the largest plan since they were 0, without and with a budget

static void hear(const char *line, void *arg) {
  (void)arg;
  const char *at = strstr(line, "arena of ");
  size_t before, budget, after;
  if (!at || sscanf(at, "arena of %zu bytes, budget %zu: %zu", &before, &budget, &after) != 3) return;
  if (before >= full) full = before, fitted = after;
}

// ---- models ----

enum { LAYERS = 16, WIDTH = 64, ROWS = 128, IMAGES = 2, SIDE = 32, HEADS = 4, STEPS = 2 };

typedef struct model {
  tc_nn_params *params;
  tc_tensor x, labels;
} model;

static void add_squares(model *m, int n) {
  for (int i = 0; i < n; i++)
    EXPECT(tc_is_valid(tc_nn_add(m->params, TC_NN_PATH("%d", i), ramp(TC_SHAPE(WIDTH, WIDTH), 0.2))), "weight %d", i);
}

static void perceptron(model *m) {
  m->x = ramp(TC_SHAPE(ROWS, WIDTH), 1);
  add_squares(m, LAYERS);
}

static tc_tensor perceptron_loss(const model *m) {
  tc_tensor h = m->x;
  for (int i = 0; i < LAYERS; i++) h = tc_dropout(tc_gelu(tc_matmul(h, tc_nn_tensors(m->params)[i])), 0.1);
  return tc_mean(tc_square(h), TC_ALL, false);
}

static void resnet(model *m) {
  const resnet_config config = {false, 3, 8, 10, {1, 1, 1, 1}, {8, 16, 16, 16}, {8, 16, 16, 16}};
  m->x = ramp(TC_SHAPE(IMAGES, 3, SIDE, SIDE), 1), m->labels = tc_arange(0, IMAGES, 1, TC_I64);
  EXPECT_OK(resnet_add(m->params, &config));
}

static tc_tensor resnet_loss(const model *m) {
  return tc_cross_entropy(resnet_forward(m->params, m->x), m->labels);
}

static void transformer(model *m) {
  m->x = ramp(TC_SHAPE(2, ROWS, WIDTH), 1);
  add_squares(m, 4 * LAYERS / 4);
}

static tc_tensor heads(tc_tensor x) {
  return tc_transpose(tc_reshape(x, TC_SHAPE(2, ROWS, HEADS, WIDTH / HEADS)), 1, 2);
}

static tc_tensor transformer_loss(const model *m) {
  tc_tensor h = m->x;
  const tc_tensor *w = tc_nn_tensors(m->params);
  for (int i = 0; i < LAYERS / 4; i++, w += 4) {
    tc_tensor n = tc_layer_norm(h, (tc_tensor){0}, (tc_tensor){0}, 1e-5);
    tc_tensor a =
        tc_scaled_dot_product_attention(heads(tc_matmul(n, w[0])), heads(tc_matmul(n, w[1])), heads(tc_matmul(n, w[2])),
                                        (tc_tensor){0}, (tc_attention_options){.causal = true});
    h = tc_add(h, tc_gelu(tc_matmul(tc_reshape(tc_transpose(a, 1, 2), TC_SHAPE(2, ROWS, WIDTH)), w[3])));
  }
  return tc_mean(tc_square(h), TC_ALL, false);
}

// ---- steps ----

typedef struct kind {
  const char *name;
  void (*make)(model *m);
  tc_tensor (*loss)(const model *m);
  double least;  // of a budget, as a part of the whole, that is known to hold
} kind;

static void step(const model *m, const kind *k, tc_optimizer *opt, float *loss) {
  tc_scope scope = tc_scope_begin();
  tc_tensor l = k->loss(m);
  EXPECT_OK(tc_backward(l));
  EXPECT_OK(tc_optimizer_step(opt));
  EXPECT_OK(tc_zero_grad(opt));
  tc_keep(l);
  tc_scope_end(scope);
  EXPECT_OK(tc_item_f32(l, loss));
}

// Losses, and sums of the squares of all parameters, to the bit.
static void train(const kind *k, size_t budget, float out[STEPS + 1]) {
  EXPECT_OK(tc_set_memory_budget(budget));
  full = fitted = 0;
  tc_seed(7);
  tc_scope scope = tc_scope_begin();
  model m = {.params = tc_nn_params_create()};
  k->make(&m);
  tc_optimizer *opt =
      tc_sgd(tc_nn_tensors(m.params), tc_nn_count(m.params), (tc_sgd_options){.lr = 0.05, .momentum = 0.9});
  for (int i = 0; i < STEPS; i++) step(&m, k, opt, &out[i]);
  tc_tensor sum = tc_scalar(0);
  for (int i = 0; i < tc_nn_count(m.params); i++)
    sum = tc_add(sum, tc_sum(tc_square(tc_nn_tensors(m.params)[i]), TC_ALL, false));
  EXPECT_OK(tc_item_f32(sum, &out[STEPS]));
  tc_optimizer_destroy(opt);
  tc_nn_params_destroy(m.params);
  tc_scope_end(scope);
}

static void budgets_change_no_bit(const kind *k) {
  float want[STEPS + 1], got[STEPS + 1];
  train(k, 0, want);
  train(k, 1, got);  // as little as can be found
  EXPECT(memcmp(want, got, sizeof want) == 0, "%s: other bits at the least", k->name);
  size_t whole = full, least = fitted;
  printf("%s: %zu bytes, at the least %zu\n", k->name, whole, least);
  EXPECT(whole > 0 && least < whole, "%s: %zu bytes of %zu", k->name, least, whole);
  static const double parts[] = {1, 0.7, 0.5, 0.3};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    size_t budget = (size_t)(parts[i] * (double)whole);
    train(k, budget, got);
    printf("  %.0f %%: %zu\n", 100 * parts[i], fitted ? fitted : whole);
    EXPECT(memcmp(want, got, sizeof want) == 0, "%s: other bits at %.1f", k->name, parts[i]);
    EXPECT(fitted <= budget || parts[i] < k->least, "%s: %zu bytes at %.1f, not %zu", k->name, fitted, parts[i],
           budget);
  }
}

int main(void) {
  setenv("TC_LOG", "memory", 1);
  tc_set_log(hear, NULL);
  static const kind kinds[] = {{"perceptron", perceptron, perceptron_loss, 0.5},
                               {"ResNet", resnet, resnet_loss, 0.85},
                               {"transformer", transformer, transformer_loss, 0.7}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) budgets_change_no_bit(&kinds[i]);
  return expect_done("planning-memory_budget");
}
