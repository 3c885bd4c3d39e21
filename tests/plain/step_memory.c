// What steps of training hold at most, as numbers that follow from the shapes: parameters and an optimizer's state change where they are, a gradient dies
// in its update, and memory for temporaries grows without what it was before.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/plain/expect.h"

#define MIB (1024.0 * 1024.0)

static tc_tensor ramp(tc_dims shape, double scale) {
  int64_t n = 1;
  for (int i = 0; i < shape.rank; i++) n *= shape.dim[i];
  return tc_mul(tc_sin(tc_reshape(tc_arange(0, (double)n, 1, TC_F32), shape)), scale);
}

// ---- models ----

enum { MOST = 40 };

typedef struct model {
  int n;  // parameters
  tc_tensor param[MOST], x;
  tc_tensor (*forward)(const struct model *m);
} model;

enum { LAYERS = 40, WIDTH = 256, ROWS = 32 };

static tc_tensor perceptron_forward(const model *m) {
  tc_tensor h = m->x;
  for (int i = 0; i < m->n; i++) h = tc_relu(tc_matmul(h, m->param[i]));
  return tc_mean(tc_square(h), TC_ALL, false);
}

static void perceptron(model *m) {
  *m = (model){.n = LAYERS, .x = ramp(TC_SHAPE(ROWS, WIDTH), 1), .forward = perceptron_forward};
  for (int i = 0; i < LAYERS; i++) m->param[i] = tc_param(ramp(TC_SHAPE(WIDTH, WIDTH), 0.1));
}

enum { CONVS = 16, IMAGES = 4, SIDE = 32, CHANNELS = 16 };

static tc_tensor convolutions_forward(const model *m) {
  tc_tensor h = m->x;
  for (int i = 0; i < m->n; i++)
    h = tc_tanh(tc_conv2d(h, m->param[i], (tc_tensor){0, 0}, (tc_conv_options){.stride = TC_SHAPE(1, 1), .padding = TC_SHAPE(1, 1)}));
  return tc_mean(tc_square(h), TC_ALL, false);
}

static void convolutions(model *m) {
  *m = (model){.n = CONVS, .x = ramp(TC_SHAPE(IMAGES, CHANNELS, SIDE, SIDE), 1), .forward = convolutions_forward};
  for (int i = 0; i < CONVS; i++) m->param[i] = tc_param(ramp(TC_SHAPE(CHANNELS, CHANNELS, 3, 3), 0.1));
}

// ---- peaks ----

// Three steps; the loss is read where the step's scope has ended, or inside it.
static void train(const model *m, bool inside) {
  tc_optimizer *opt = tc_adam(m->param, m->n, (tc_adam_options){.lr = 1e-3, TC_ADAM_DEFAULTS});
  for (int i = 0; i < 3; i++) {
    float value;
    tc_scope outer = tc_scope_begin(), step = tc_scope_begin();
    tc_tensor loss = m->forward(m);
    EXPECT_OK(tc_backward(loss));
    EXPECT_OK(tc_optimizer_step(opt));
    EXPECT_OK(tc_zero_grad(opt));
    if (inside) EXPECT_OK(tc_item_f32(loss, &value));
    tc_keep(loss);
    tc_scope_end(step);
    EXPECT_OK(tc_item_f32(loss, &value));
    tc_scope_end(outer);
  }
  tc_optimizer_destroy(opt);
}

typedef struct peak_case {
  const char *name;
  void (*make)(model *m);
  bool inside;
  double most;  // bytes over parameters and input
} peak_case;

// In the child: bytes over parameters and input.
static double measure(const peak_case *c) {
  model m;
  // Far less than parameters and state, which the trace of a step is alone to hold, but which its assigns write over.
  setenv("TC_MAX_BYTES", "4194304", 1);
  tc_scope scope = tc_scope_begin();
  c->make(&m);
  EXPECT_OK(tc_eval(m.n, m.param));
  EXPECT_OK(tc_eval(1, &m.x));
  double before = (double)tc_memory_stats().live_bytes;
  train(&m, c->inside);
  double peak = (double)tc_memory_stats().peak_bytes - before;
  for (int i = 0; i < m.n; i++) tc_release(m.param[i]);
  tc_scope_end(scope);
  return peak;
}

// In a process of its own: a peak is never less than the one before.
static double peak_of(const peak_case *c) {
  int end[2], status = 0;
  double peak = -1;
  if (pipe(end) != 0) return peak;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    peak = measure(c);
    if (write(end[1], &peak, sizeof peak) != sizeof peak) _exit(1);
    _exit(atomic_load(&expect_n_failed) != 0);
  }
  close(end[1]);
  if (read(end[0], &peak, sizeof peak) != sizeof peak) peak = -1;
  close(end[0]);
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? peak : -1;
}

static void a_step_holds_what_its_shapes_need(void) {
  const double weight = 4.0 * WIDTH * WIDTH, rows = 4.0 * ROWS * WIDTH, image = 4.0 * IMAGES * CHANNELS * SIDE * SIDE;
  const peak_case cases[] = {
      // Two moments a parameter, a layer's result, and what works at one layer.
      {"a perceptron", perceptron, false, 2 * LAYERS * weight + 2 * LAYERS * rows + 4 * weight},
      {"a perceptron, its loss read inside", perceptron, true, 2 * LAYERS * weight + 4 * LAYERS * rows + 4 * weight},
      // Parameters are small beside an image; each convolution's image and its tanh, and gradients of one layer.
      {"convolutions", convolutions, false, 2 * CONVS * image + 6 * image},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    double peak = peak_of(&cases[i]);
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

// A product of up to 16 MiB between two: plans for more and more rows hold the largest, not all; and then none asks for memory again.
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
  EXPECT(tc_memory_stats().n_allocs == m.n_allocs, "%llu allocations", (unsigned long long)(tc_memory_stats().n_allocs - m.n_allocs));
  tc_scope_end(scope);
}

int main(void) {
  a_step_holds_what_its_shapes_need();  // first: its processes are forked before this one uses tc
  temporaries_do_not_add_up();
  return expect_done("step_memory");
}
