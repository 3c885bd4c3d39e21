// What steps of training hold at most, as numbers that follow from the shapes: parameters and an
// optimizer's state change where they are, a gradient dies in its update, and memory for
// temporaries grows without what it was before.
#include <stdlib.h>

#include <tc/nn.h>

#include "examples/models/resnet.h"
#include "tests/child.h"
#include "tests/ramp.h"

#define MIB (1024.0 * 1024.0)

// ---- models ----

typedef struct model {
  tc_nn_params *params;
  tc_tensor x, labels;
  tc_tensor (*loss)(const struct model *m);
  tc_optimizer *opt;
} model;

enum { LAYERS = 40, WIDTH = 256, ROWS = 32 };

static tc_tensor perceptron_loss(const model *m) {
  tc_tensor h = m->x;
  for (int i = 0; i < LAYERS; i++) h = tc_relu(tc_matmul(h, tc_nn_tensors(m->params)[i]));
  return tc_mean(tc_square(h), TC_ALL, false);
}

static void perceptron(model *m) {
  *m = (model){.params = tc_nn_params_create(), .x = ramp(TC_SHAPE(ROWS, WIDTH), 1), .loss = perceptron_loss};
  for (int i = 0; i < LAYERS; i++)
    EXPECT(tc_is_valid(tc_nn_add(m->params, TC_NN_PATH("%d", i), ramp(TC_SHAPE(WIDTH, WIDTH), 0.1))), "layer %d", i);
  m->opt = tc_adam(tc_nn_tensors(m->params), LAYERS, (tc_adam_options){.lr = 1e-3, TC_ADAM_DEFAULTS});
}

enum { IMAGES = 8, SIDE = 128, CHANNELS = 32 };  // of the first layers

static tc_tensor resnet_loss(const model *m) {
  return tc_cross_entropy(resnet_forward(m->params, m->x), m->labels);
}

static void resnet(model *m) {
  const resnet_config config = {false, 3, CHANNELS, 10, {2, 2, 2, 2}, {32, 64, 128, 256}, {32, 64, 128, 256}};
  *m = (model){.params = tc_nn_params_create(), .x = ramp(TC_SHAPE(IMAGES, 3, SIDE, SIDE), 1), .loss = resnet_loss};
  m->labels = tc_arange(0, IMAGES, 1, TC_I64);
  EXPECT_OK(resnet_add(m->params, &config));
  m->opt = tc_sgd(tc_nn_tensors(m->params), tc_nn_count(m->params), (tc_sgd_options){.lr = 0.01, .momentum = 0.9});
}

// ---- peaks ----

// Two steps, since the first has no state to write over; the loss is read where the step's scope
// has ended, or inside it.
static void train(const model *m, bool inside) {
  for (int i = 0; i < 2; i++) {
    float value;
    tc_scope outer = tc_scope_begin(), step = tc_scope_begin();
    tc_tensor loss = m->loss(m);
    EXPECT_OK(tc_backward(loss));
    EXPECT_OK(tc_optimizer_step(m->opt));
    EXPECT_OK(tc_zero_grad(m->opt));
    if (inside) EXPECT_OK(tc_item_f32(loss, &value));
    tc_keep(loss);
    tc_scope_end(step);
    EXPECT_OK(tc_item_f32(loss, &value));
    tc_scope_end(outer);
  }
}

typedef struct peak_case {
  const char *name;
  void (*make)(model *m);
  bool inside;
  double most;  // bytes over parameters and input
} peak_case;

// In the child: bytes over parameters and input.
static double measure(const void *arg) {
  const peak_case *c = arg;
  model m;
  // Far less than parameters and state, which the trace of a step is alone to hold, but which its
  // assigns write over.
  setenv("TC_MAX_BYTES", "4194304", 1);
  tc_scope scope = tc_scope_begin();
  c->make(&m);
  EXPECT_OK(tc_eval(tc_nn_count_all(m.params), tc_nn_tensors(m.params)));
  EXPECT_OK(tc_eval(1, &m.x));
  double before = (double)tc_memory_stats().live_bytes;
  train(&m, c->inside);
  double peak = (double)tc_memory_stats().peak_bytes - before;
  tc_optimizer_destroy(m.opt);
  tc_nn_params_destroy(m.params);
  tc_scope_end(scope);
  return peak;
}

static void a_step_holds_what_its_shapes_need(void) {
  const double weight = 4.0 * WIDTH * WIDTH, rows = 4.0 * ROWS * WIDTH;
  const double plane = 4.0 * IMAGES * CHANNELS * (SIDE / 4) * (SIDE / 4),
               widest = 4.0 * 9 * (8 * CHANNELS) * (8 * CHANNELS);
  const peak_case cases[] = {
      // Two moments a parameter, a layer's result, and what works at one layer.
      {"a perceptron", perceptron, false, 2 * LAYERS * weight + 2 * LAYERS * rows + 4 * weight},
      {"a perceptron, its loss read inside", perceptron, true, 2 * LAYERS * weight + 4 * LAYERS * rows + 4 * weight},
      // What convolutions and the activations after them give, in planes of the first stage: 8
      // before the pooling, 1 after it, then by stages 8, 5, 2.5 and 1.25; a quarter for signs. All
      // weights, for the moments, are 4.7 of the widest, and what Winograd's algorithm makes of
      // that is up to 4.
      {"a ResNet", resnet, false, 32 * plane + 8.7 * widest},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    double peak = in_child(measure, &cases[i]);
    EXPECT(peak >= 0, "%s: no peak", cases[i].name);
    EXPECT(peak <= cases[i].most, "%s: %.2f MiB held, at most %.2f", cases[i].name, peak / MIB, cases[i].most / MIB);
  }
}

// ---- temporaries of several plans ----

static void run_rows(tc_tensor x, tc_tensor w, int64_t rows) {
  float sum;
  tc_scope scope = tc_scope_begin();
  tc_tensor h = tc_matmul(tc_matmul(tc_slice(x, 0, 0, rows, 1), w), w);
  EXPECT_OK(tc_item_f32(tc_sum(h, TC_ALL, false), &sum));
  tc_scope_end(scope);
}

// A product of up to 16 MiB between two: plans for more and more rows hold the largest, not all;
// and then none asks for memory again.
static void temporaries_do_not_add_up(void) {
  enum { STEP = 4096, SIZES = 4 };
  tc_scope scope = tc_scope_begin();
  tc_tensor operands[] = {ramp(TC_SHAPE(SIZES * STEP, WIDTH), 1), ramp(TC_SHAPE(WIDTH, WIDTH), 1)};
  EXPECT_OK(tc_eval(2, operands));
  tc_trim();
  size_t before = tc_memory_stats().live_bytes;
  for (int i = 1; i <= SIZES; i++) run_rows(operands[0], operands[1], i * STEP);
  tc_memory m = tc_memory_stats();
  double held = (double)(m.live_bytes + m.pooled_bytes - before), most = 2 * 4.0 * SIZES * STEP * WIDTH + 0.25 * MIB;
  EXPECT(held <= most, "%.2f MiB held, at most %.2f", held / MIB, most / MIB);
  for (int i = SIZES; i >= 1; i--) run_rows(operands[0], operands[1], i * STEP);
  EXPECT(tc_memory_stats().n_allocs == m.n_allocs, "%llu allocations",
         (unsigned long long)(tc_memory_stats().n_allocs - m.n_allocs));
  tc_scope_end(scope);
}

int main(void) {
  a_step_holds_what_its_shapes_need();  // first: its processes are forked before this one uses tc
  temporaries_do_not_add_up();
  return expect_done("planning-step_memory");
}
