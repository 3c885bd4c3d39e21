// The programs of PyTorch's introduction to torch.compile, in C: sin + cos in three ways, a module,
// an MLP whose backend fails, and ResNet-18 eager against reduce-overhead.
//   example-torch_compile_tour [--small]     --small: a small ResNet and few calls, for slow devices
// Source: PyTorch's tutorial "Introduction to torch.compile".
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tc/compile.h>
#include <tc/nn.h>
#include <time.h>

#include "examples/models/resnet.h"

static void check(tc_status st) {
  if (st == TC_OK) return;
  fprintf(stderr, "%s\n", tc_last_error()->message);
  exit(1);
}

static uint64_t metric(const char *name) {
  uint64_t value = 0;
  check(tc_metrics_get(name, &value));
  return value;
}

// ---- sin + cos, in three ways ----

static tc_tensor foo(tc_tensor x, tc_tensor y) {
  return tc_add(tc_sin(x), tc_cos(y));
}

static tc_status foo_compiled(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)user, (void)n_in, (void)n_out;
  return out[0] = foo(in[0], in[1]), TC_OK;
}

static void tell(const char *way, tc_tensor z) {
  uint64_t before = metric("syncs");
  double sum;
  check(tc_item(tc_sum(tc_cast(z, TC_F64), TC_ALL, false), &sum));
  printf("  %-22s sum %.4f, %d run\n", way, sum, (int)(metric("syncs") - before));
}

static void sin_cos(void) {
  tc_tensor x = tc_linspace(0, 3, 100, TC_F32), y = tc_linspace(-1, 1, 100, TC_F32);
  puts("sin(x) + cos(y)");
  tell("as it is", foo(x, y));

  check(tc_region_begin(&(tc_region_options){.name = "foo", .fullgraph = true}));
  tc_tensor z = foo(x, y);
  double early;
  if (tc_item(tc_sum(tc_cast(z, TC_F64), TC_ALL, false), &early) == TC_OK) exit(1);  // it would be cut in two
  tc_clear_error();
  tc_region_end();
  tell("in a region", z);

  tc_compiled *c = tc_compile(foo_compiled, NULL, NULL);
  check(tc_compiled_call(c, (tc_tensor[]){x, y}, 2, &z, 1));
  tell("as a compiled function", z);
  tc_compiled_destroy(c);
}

// ---- a module: relu(Linear(100, 10)) ----

static tc_tensor my_module(const tc_nn_params *p, tc_tensor x) {
  return tc_relu(tc_nn_linear(p, "lin", x));
}

static void module(void) {
  tc_nn_params *p = tc_nn_params_create();
  check(tc_nn_add_linear(p, "lin", 100, 10, true));
  check(tc_region_begin(&(tc_region_options){.name = "MyModule", .mode = "reduce-overhead"}));
  tc_tensor out = my_module(p, tc_randn(TC_SHAPE(10, 100), TC_F32)), low = tc_min(out, TC_ALL, false);
  float least;
  check(tc_item(low, &least));
  tc_region_end();
  printf("relu(Linear(100, 10)) of 10 rows: %d x %d, least %g\n", (int)tc_shape(out).dim[0], (int)tc_shape(out).dim[1],
         (double)least);
  tc_nn_params_destroy(p);
}

// ---- an MLP whose backend fails: torch._dynamo.config.suppress_errors ----

// A backend that takes graphs without matmul alone.
static tc_status no_matmul(const tc_graph_view *graph, tc_graph_runner *out, void *user) {
  (void)user, (void)out;
  for (int i = 0; i < graph->n_nodes; i++)
    if (strcmp(graph->node[i].op, "matmul") == 0) return TC_ERR_COMPILE;
  return TC_OK;
}

static tc_tensor mlp(const tc_nn_params *p, tc_tensor x) {
  return tc_nn_linear(p, "fc2", tc_relu(tc_nn_linear(p, "fc1", x)));
}

static void suppressed(void) {
  tc_nn_params *p = tc_nn_params_create();
  check(tc_nn_add_linear(p, "fc1", 32, 64, true));
  check(tc_nn_add_linear(p, "fc2", 64, 8, true));
  tc_tensor x = tc_randn(TC_SHAPE(16, 32), TC_F32);
  float got[16 * 8], want[16 * 8];
  puts("an MLP, by a backend that refuses matmul");
  check(tc_region_begin(&(tc_region_options){.name = "MLP", .backend_fn = no_matmul}));
  if (tc_to_host(mlp(p, x), got, sizeof got) == TC_OK) exit(1);
  printf("  without suppress_errors: %s\n", tc_status_text(tc_last_error()->status));
  tc_clear_error();
  check(tc_region_begin(&(tc_region_options){.options = "suppress_errors=1"}));
  check(tc_to_host(mlp(p, x), got, sizeof got));
  tc_region_end();
  tc_region_end();
  check(tc_to_host(mlp(p, x), want, sizeof want));
  printf("  with it: %d suppressed, %s as without the backend\n", (int)metric("errors_suppressed"),
         memcmp(got, want, sizeof got) == 0 ? "the same bits" : "other bits");
  tc_nn_params_destroy(p);
}

// ---- ResNet-18, eager and with less overhead ----

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// The median of n calls in a region of these options, which a first call makes the plans of.
static double time_calls(const tc_nn_params *p, tc_tensor x, int n, const tc_region_options *o, float *logits,
                         size_t bytes) {
  double took[16];
  check(tc_region_begin(o));
  for (int i = -1; i < n; i++) {
    tc_scope s = tc_scope_begin();
    double start = seconds();
    check(tc_to_host(resnet_forward(p, x), logits, bytes));
    if (i >= 0) took[i] = seconds() - start;
    tc_scope_end(s);
  }
  tc_region_end();
  qsort(took, (size_t)n, sizeof took[0], by_value);
  return (took[(n - 1) / 2] + took[n / 2]) / 2;
}

static void resnet(bool small) {
  enum { CLASSES = 1000, MOST = 16 };
  static float eager_logits[MOST * CLASSES], logits[MOST * CLASSES];
  int rows = small ? 2 : 16, side = small ? 32 : 128, n = small ? 3 : 10;
  resnet_config config = RESNET18;
  if (small) config.stem = 8, memcpy(config.inner, (int64_t[]){8, 16, 32, 64}, sizeof config.inner);
  if (small) memcpy(config.outer, config.inner, sizeof config.outer);
  tc_nn_params *p = tc_nn_params_create();
  check(resnet_add(p, &config));
  tc_nn_set_training(p, false);
  tc_no_grad_begin();
  tc_tensor x = tc_randn(TC_SHAPE(rows, 3, side, side), TC_F32);
  check(tc_sync(NULL));
  size_t bytes = (size_t)rows * CLASSES * sizeof(float);
  double eager = time_calls(p, x, n, &(tc_region_options){.name = "eager", .disable = true}, eager_logits, bytes);
  double less = time_calls(p, x, n, &(tc_region_options){.mode = "reduce-overhead"}, logits, bytes);
  double worst = 0;
  for (int i = 0; i < rows * CLASSES; i++) {
    double d = (double)logits[i] - (double)eager_logits[i];
    worst = worst > d ? worst : d;
    worst = worst > -d ? worst : -d;
  }
  printf("ResNet-18 of %d x 3 x %d x %d, medians of %d calls\n", rows, side, side, n);
  printf("  eager            %8.2f ms\n  reduce-overhead  %8.2f ms, %.2f times as fast\n", eager * 1e3, less * 1e3,
         eager / less);
  printf("  logits %s\n", worst < 1e-3 ? "agree" : "differ");
  tc_no_grad_end();
  tc_nn_params_destroy(p);
}

int main(int argc, char **argv) {
  tc_seed(1);
  tc_scope s = tc_scope_begin();
  sin_cos();
  module();
  suppressed();
  resnet(argc > 1 && strcmp(argv[1], "--small") == 0);
  tc_scope_end(s);
  return 0;
}
