// Regions and options: nesting, inheritance, wrong keys, fullgraph, disable, plans of their own,
// pinned plans, backends of the program's, suppressed errors; and the process's options.
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tc/compile.h>

#include "runtime/arena.h"
#include "runtime/options.h"
#include "tests/expect.h"

#define REGION(...) EXPECT_OK(tc_region_begin(&(tc_region_options){__VA_ARGS__}))

static uint64_t metric(const char *name) {
  uint64_t value = 0;
  EXPECT_OK(tc_metrics_get(name, &value));
  return value;
}

// sin(x) + cos(x) of so many elements; their sum.
static double sin_cos(int n) {
  double v = 0;
  tc_scope s = tc_scope_begin();
  tc_tensor x = tc_linspace(0, 3, n, TC_F32);
  EXPECT_OK(tc_item(tc_sum(tc_cast(tc_add(tc_sin(x), tc_cos(x)), TC_F64), TC_ALL, false), &v));
  tc_scope_end(s);
  return v;
}

// ---- what is inherited ----

static void check_inheritance(void) {
  const tc_options *outside = tc_options_get();
  REGION(.options = "strict=1,max_nodes=500");
  EXPECT(tc_options_get()->strict == 1 && tc_options_get()->max_nodes == 500, "%lld",
         (long long)tc_options_get()->max_nodes);
  const tc_options *strict = tc_options_get();
  REGION(.name = "named");
  EXPECT(tc_options_get() == strict, "a name alone");
  REGION(.options = "strict=0", .mode = "max-autotune");
  EXPECT(tc_options_get()->strict == 0 && tc_options_get()->max_nodes == 500 && tc_options_get()->autotune == 1 &&
             tc_options_get()->pin_plans == 1 && tc_options_get()->interpret_first == 0,
         "the inner one");
  REGION(.mode = "default");
  EXPECT(tc_options_get()->autotune == 0 && tc_options_get()->pin_plans == 0, "a mode takes the other's place");
  tc_region_end();
  REGION(.mode = "max-autotune-no-cudagraphs", .options = "TC_AUTOTUNE=0");
  EXPECT(tc_options_get()->autotune == 0 && tc_options_get()->gpu_replay == 0, "a value goes before the mode's");
  tc_region_end();
  tc_region_end();
  EXPECT(tc_options_get() == strict, "restored");
  tc_region_end();
  tc_region_end();
  EXPECT(tc_options_get() == outside, "restored");
  for (int i = 0; i < 3; i++) {
    REGION(.options = "max_nodes=500,strict=1");
    EXPECT(tc_options_get() == strict, "equal options are one set");
    tc_region_end();
  }
  tc_region_end();
  EXPECT(tc_last_error()->status == TC_ERR_STATE && strstr(tc_last_error()->message, "no region is open"), "%s",
         tc_last_error()->message);
  tc_clear_error();
}

static void *look(void *arg) {
  (void)arg;
  EXPECT(tc_options_get()->strict == 0, "another thread's region");
  REGION(.options = "max_nodes=77");
  EXPECT(tc_options_get()->strict == 0 && tc_options_get()->max_nodes == 77, "its own");
  tc_region_end();
  return NULL;
}

static void check_threads(void) {
  pthread_t other;
  REGION(.options = "strict=1");
  EXPECT(pthread_create(&other, NULL, look, NULL) == 0, "no thread");
  pthread_join(other, NULL);
  EXPECT(tc_options_get()->strict == 1, "this thread's");
  tc_region_end();
}

// ---- wrong use ----

#define REFUSED(code, words, ...) \
  do { \
    EXPECT_FAILS(tc_region_begin(&(tc_region_options){__VA_ARGS__}), code, words); \
    tc_region_end(); \
    EXPECT(tc_last_error()->status == TC_OK, "its end is due"); \
  } while (0)

static void check_wrong(void) {
  REFUSED(TC_ERR_ARG, "there is no option 'stric', the nearest is strict", .options = "stric=1");
  REFUSED(TC_ERR_ARG, "there is no option 'zzzzzzzz'; tc_list_options", .options = "zzzzzzzz=1");
  REFUSED(TC_ERR_ARG, "strict is '2', not one of 0,1", .options = "strict=2");
  REFUSED(TC_ERR_ARG, "strict has no value: write strict=VALUE", .options = "max_nodes=7,strict");
  REFUSED(TC_ERR_ARG, "max_nodes is 'x', not a whole number from 0 on", .options = "max_nodes=x");
  REFUSED(TC_ERR_ARG, "gpu_tile is '64', not two whole numbers", .options = "gpu_tile=64");
  REFUSED(TC_ERR_ARG, "set TC_ISA in the environment", .options = "isa=avx2");
  REFUSED(TC_ERR_ARG, "tc_set_options sets it", .options = "plan_cache=7");
  REFUSED(TC_ERR_ARG, "mode is 'fast', not one of default,reduce-overhead", .mode = "fast");
  REFUSED(TC_ERR_ARG, "there is no backend 'eagre', the nearest is eager", .backend = "eagre");
  REFUSED(TC_ERR_ARG, "there is no backend 'inductor'; tc_list_backends", .backend = "inductor");
  REFUSED(TC_ERR_ARG, "fullgraph is 3, not TC_INHERIT, TC_ON or TC_OFF", .fullgraph = TC_AUTO);
  REFUSED(TC_ERR_ARG, "a region needs a name or an option", .name = NULL);
  REFUSED(TC_ERR_ARG, "the region's name is empty", .name = "");
  EXPECT_FAILS(tc_region_begin(NULL), TC_ERR_ARG, "a region needs a name or an option");
  tc_region_end();
  EXPECT_FAILS(tc_set_options(&(tc_region_options){.name = "x"}), TC_ERR_ARG, "a name is a region's");
  EXPECT_FAILS(tc_set_options(NULL), TC_ERR_ARG, "NULL");
  EXPECT_FAILS(tc_set_options(&(tc_region_options){.options = "log=plan"}), TC_ERR_ARG,
               "set TC_LOG in the environment");
  // Whoever ignores it hears of it at the next sync point.
  float x;
  (void)tc_region_begin(&(tc_region_options){.options = "stric=1"});
  tc_region_end();
  EXPECT(tc_item(tc_ones(TC_SHAPE(1), TC_F32), &x) == TC_ERR_ARG && strstr(tc_last_error()->message, "stric"), "%s",
         tc_last_error()->message);
  tc_clear_error();
  EXPECT_OK(tc_item(tc_ones(TC_SHAPE(1), TC_F32), &x));
}

static void check_lists(void) {
  const char *(*const lists[])(int, const char **) = {tc_list_options, tc_list_modes, tc_list_backends};
  const char *const one_of[] = {"strict", "reduce-overhead", "ref"};
  for (int l = 0; l < 3; l++) {
    bool found = false;
    int n = 0;
    const char *meaning = NULL;
    for (const char *name; (name = lists[l](n, &meaning)) != NULL; n++) {
      found |= strcmp(name, one_of[l]) == 0;
      EXPECT(meaning && *meaning && strcmp(name, "isa") != 0, "%s", name);
    }
    EXPECT(found && !lists[l](-1, NULL) && !lists[l](n, NULL), "%s of %d", one_of[l], n);
  }
}

// ---- one graph ----

static void check_fullgraph(void) {
  tc_scope s = tc_scope_begin();
  float x = 0;
  REGION(.name = "whole", .fullgraph = true);
  tc_tensor a = tc_full(TC_SHAPE(4), 3, TC_F32), b = tc_mul(a, a);
  EXPECT_FAILS(tc_item(tc_sum(b, TC_ALL, false), &x), TC_ERR_STATE, "fullgraph: the value is pending, a sum at ");
  EXPECT_FAILS(tc_nonzero(b), TC_ERR_STATE, "nonzero: fullgraph: the value is pending, a nonzero at ");
  EXPECT_FAILS(tc_print(b), TC_ERR_STATE, "read it after the region, or after a tc_eval");
  EXPECT_OK(tc_eval(1, &b));  // planned
  EXPECT_OK(tc_item(tc_sum(b, TC_ALL, false), &x) == TC_ERR_STATE ? TC_OK : TC_ERR_STATE);
  tc_clear_error();
  tc_tensor c = tc_add(b, 1);
  REGION(.fullgraph = TC_OFF);
  EXPECT_OK(tc_item(tc_sum(c, TC_ALL, false), &x));
  EXPECT(x == 40, "%g", (double)x);
  tc_region_end();
  c = tc_add(c, 1);
  EXPECT_FAILS(tc_region_begin(&(tc_region_options){.options = "strict=1"}), TC_ERR_STATE, "with fullgraph");
  tc_region_end();
  EXPECT_OK(tc_expect_syncs(-1));
  for (int i = 0; i < 40; i++) {  // no scope's end cuts it
    tc_scope inner = tc_scope_begin();
    for (int k = 0; k < 20; k++) c = tc_add(c, 1);
    tc_keep(c);
    tc_scope_end(inner);
  }
  EXPECT_OK(tc_expect_syncs(0));
  tc_region_end();
  EXPECT_OK(tc_item(tc_sum(c, TC_ALL, false), &x));
  EXPECT(x == 40 + 4 * 801, "%g", (double)x);
  REGION(.fullgraph = true, .options = "max_nodes=16");
  for (int i = 0; i < 200 && c.slot < UINT32_MAX - 255; i++) c = tc_neg(c);
  EXPECT(tc_last_error()->status == TC_ERR_STATE && strstr(tc_last_error()->message, "region is one graph"), "%s",
         tc_last_error()->message);
  tc_clear_error();
  tc_region_end();
  tc_scope_end(s);
}

// ---- op by op, and plans of their own ----

static void check_disable(void) {
  double want = sin_cos(100);
  uint64_t syncs = metric("syncs");
  EXPECT(sin_cos(100) == want && metric("syncs") == syncs + 1, "fused");
  REGION(.disable = true);
  syncs = metric("syncs");
  EXPECT(sin_cos(100) == want && metric("syncs") >= syncs + 5, "op by op: %llu syncs",
         (unsigned long long)(metric("syncs") - syncs));
  REGION(.disable = TC_OFF);
  syncs = metric("syncs");
  EXPECT(sin_cos(100) == want && metric("syncs") == syncs + 1, "fused again");
  tc_region_end();
  tc_region_end();
  REGION(.backend = "eager");
  syncs = metric("syncs");
  EXPECT(sin_cos(100) == want && metric("syncs") >= syncs + 5, "op by op");
  tc_region_end();
}

// The latest sync.
static tc_sync_point latest(void) {
  tc_sync_point p = {0};
  EXPECT(tc_sync_points(1, &p) == 1, "no sync");
  return p;
}

static void check_keys(void) {
  double plain = sin_cos(1000), strict;
  (void)sin_cos(1000);
  EXPECT(latest().hit, "the plan outside");
  REGION(.options = "strict=1");
  strict = sin_cos(1000);
  EXPECT(!latest().hit, "a plan of its own");
  EXPECT(sin_cos(1000) == strict && latest().hit, "it is found again");
  REGION(.name = "inner", .options = "max_nodes=700,strict=1");
  EXPECT(sin_cos(1000) == strict && latest().hit, "what makes no other plans shares them");
  tc_region_end();
  tc_region_end();
  EXPECT(sin_cos(1000) == plain && latest().hit, "the plan outside is there");
  EXPECT(fabs(strict - plain) < 1e-4, "%.17g %.17g", strict, plain);
}

// What is pending where a region of other options begins or ends runs under its own.
static void check_cuts(void) {
  tc_scope s = tc_scope_begin();
  float before[64], inside[64], want[64];
  tc_tensor x = tc_linspace(-9, 9, 64, TC_F32);
  EXPECT_OK(tc_to_host(tc_exp(x), before, sizeof before));
  tc_tensor outer = tc_exp(x);
  REGION(.name = "strict", .options = "strict=1");
  EXPECT(strcmp(latest().cause, "region") == 0, "%s", latest().cause);
  tc_tensor inner = tc_exp(x), read = tc_add(inner, 1);
  EXPECT_OK(tc_to_host(tc_exp(x), want, sizeof want));
  inner = tc_exp(tc_mul(x, 1)), read = tc_add(inner, 1);
  tc_region_end();
  EXPECT(strcmp(latest().cause, "region") == 0, "%s", latest().cause);
  EXPECT_OK(tc_expect_syncs(-1));
  EXPECT_OK(tc_to_host(outer, inside, sizeof inside));
  EXPECT(memcmp(inside, before, sizeof inside) == 0, "recorded outside");
  EXPECT_OK(tc_to_host(inner, inside, sizeof inside));
  EXPECT(memcmp(inside, want, sizeof inside) == 0, "recorded inside");
  EXPECT_OK(tc_expect_syncs(0));
  uint64_t syncs = metric("syncs");
  (void)tc_neg(read);
  REGION(.name = "a name cuts nothing");
  REGION(.mode = "reduce-overhead");
  tc_region_end();
  tc_region_end();
  EXPECT(metric("syncs") == syncs, "no options, no cut");
  tc_record_only_begin();
  EXPECT_FAILS(tc_region_begin(&(tc_region_options){.options = "strict=1"}), TC_ERR_STATE, "this thread only records");
  tc_region_end();
  tc_record_only_end();
  tc_scope_end(s);
}

static tc_status twice(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)user, (void)n_in, (void)n_out;
  out[0] = tc_exp(in[0]);
  return TC_OK;
}

// A compiled function has graphs of its own in a region of other options.
static void check_compiled(void) {
  tc_compiled *c = tc_compile(twice, NULL, NULL);
  for (int i = 0; i < 6; i++) {
    tc_scope s = tc_scope_begin();
    float v = 0;
    tc_tensor in = tc_zeros(TC_SHAPE(1), TC_F32), out;
    REGION(.name = "compiled", .options = i % 2 ? "strict=1" : NULL);
    EXPECT_OK(tc_compiled_call(c, &in, 1, &out, 1));
    EXPECT_OK(tc_item(out, &v));
    EXPECT(v == 1 && tc_compiled_stats(c).n_graphs == (i ? 2 : 1), "%d graphs", tc_compiled_stats(c).n_graphs);
    tc_region_end();
    tc_scope_end(s);
  }
  tc_compiled_destroy(c);
}

// ---- pinned plans ----

static void crowd(int first, int n) {
  for (int i = first; i < first + n; i++) (void)sin_cos(i);
}

static void check_pins(void) {
  EXPECT_OK(tc_set_options(&(tc_region_options){.dynamic = TC_OFF, .options = "plan_cache=8"}));
  (void)sin_cos(5000);
  crowd(100, 30);
  (void)sin_cos(5000);
  EXPECT(!latest().hit, "it left the cache");
  REGION(.mode = "reduce-overhead");
  (void)sin_cos(5000);
  tc_region_end();
  crowd(200, 30);
  (void)sin_cos(5000);
  EXPECT(latest().hit, "a pinned plan stays");
  REGION(.mode = "reduce-overhead");
  crowd(300, 20);  // more than the cache has room for
  tc_region_end();
  EXPECT(tc_cache_stats().n_plans >= 20, "%zu", tc_cache_stats().n_plans);
  EXPECT_OK(tc_reset());
  EXPECT(tc_cache_stats().n_plans == 0 && tc_cache_stats().n_kernels == 0, "%zu", tc_cache_stats().n_plans);
  (void)sin_cos(5000);
  EXPECT(!latest().hit, "forgotten");
  EXPECT_OK(tc_set_options(&(tc_region_options){.dynamic = TC_AUTO, .options = "plan_cache=1024"}));
}

// ---- sizes ----

// How many kernels are made for ten sizes of one graph.
static uint64_t compiles(int first) {
  uint64_t before = tc_cache_stats().kernel_misses;
  for (int i = 0; i < 10; i++) (void)sin_cos(first + 8 * i);
  return tc_cache_stats().kernel_misses - before;
}

static void check_dynamic(void) {
  EXPECT_OK(tc_reset());
  REGION(.dynamic = TC_OFF, .options = "generic_kernels=0");
  EXPECT(strcmp(tc_options_get()->dynamic, "0") == 0, "%s", tc_options_get()->dynamic);
  EXPECT(compiles(20000) >= 10, "each size has its own");
  tc_region_end();
  REGION(.dynamic = TC_ON);
  EXPECT(strcmp(tc_options_get()->dynamic, "1") == 0, "%s", tc_options_get()->dynamic);
  uint64_t made = compiles(30000);
  EXPECT(made <= 4, "%llu", (unsigned long long)made);
  REGION(.dynamic = TC_AUTO);
  EXPECT(strcmp(tc_options_get()->dynamic, "auto") == 0, "%s", tc_options_get()->dynamic);
  tc_region_end();
  tc_region_end();
}

// ---- backends ----

typedef struct counted {
  int n_asked, n_run, n_released;
  char ops[256], site[160];
  bool refuses;
  tc_status run_status;
} counted;

// Runs the graph of one input: out[0] = 2 * in[0] + scalar[0].
static tc_status run_double(const void *const *in, void *const *out, const uint64_t *scalar, void *state) {
  counted *c = state;
  double plus;
  memcpy(&plus, &scalar[0], sizeof plus);
  for (int i = 0; i < 4; i++) ((float *)out[0])[i] = 2 * ((const float *)in[0])[i] + (float)plus;
  c->n_run++;
  return c->run_status;
}

static void release(void *state) {
  ((counted *)state)->n_released++;
}

static tc_status show(const tc_graph_view *g, tc_graph_runner *out, void *user) {
  counted *c = user;
  c->n_asked++;
  c->ops[0] = 0;
  for (int i = 0; i < g->n_nodes; i++) {
    const tc_graph_node *n = &g->node[i];
    snprintf(c->ops + strlen(c->ops), sizeof c->ops - strlen(c->ops), "%s%s[%d]", i ? " " : "", n->op, n->shape.rank);
    for (int k = 0; k < n->n_operands; k++) EXPECT(n->operand[k] < (uint32_t)i, "%d", i);
    snprintf(c->site, sizeof c->site, "%s", n->site);
  }
  EXPECT(strcmp(g->device, "tc:cpu") == 0 && g->n_outputs >= 1, "%s", g->device);
  if (c->refuses) return TC_ERR_COMPILE;
  // x * 1 + s: a leaf, two scalars, two ops
  if (strcmp(c->ops, "leaf[1] full[0] add[1]") == 0) *out = (tc_graph_runner){run_double, release, c};
  return TC_OK;
}

static void check_backend(void) {
  static counted c, named;
  tc_scope s = tc_scope_begin();
  float data[4] = {1, 2, 3, 4}, got[4];
  tc_tensor x = tc_from_host(data, TC_SHAPE(4), TC_F32);
  EXPECT_OK(tc_sync(NULL));
  REGION(.name = "mine", .backend_fn = show, .backend_user = &c);
  for (int i = 0; i < 3; i++) {  // another scalar is no other plan
    EXPECT_OK(tc_to_host(tc_add(x, 10 * (i + 1)), got, sizeof got));
    EXPECT(got[0] == 2 + 10.0f * (float)(i + 1) && got[3] == 8 + 10.0f * (float)(i + 1), "%g", (double)got[0]);
    EXPECT(c.n_asked == 1 && c.n_run == i + 1 && strcmp(latest().tier, "own") == 0, "%d %d %s", c.n_asked, c.n_run,
           latest().tier);
  }
  EXPECT(strstr(c.site, "regions.c:"), "%s", c.site);
  EXPECT_OK(tc_to_host(tc_mul(x, x), got, sizeof got));  // it leaves this one to tc
  EXPECT(got[3] == 16 && c.n_asked == 2 && strcmp(c.ops, "leaf[1] mul[1]") == 0, "%s", c.ops);
  c.run_status = TC_ERR_DEVICE;
  EXPECT_FAILS(tc_to_host(tc_add(x, 1), got, sizeof got), TC_ERR_DEVICE, "ran its graph of 3 nodes");
  c.run_status = TC_OK, c.refuses = true;
  EXPECT_FAILS(tc_to_host(tc_sub(x, x), got, sizeof got), TC_ERR_COMPILE, "refuses the graph of 2 nodes");
  uint64_t suppressed = metric("errors_suppressed");
  REGION(.options = "suppress_errors=1");
  EXPECT_OK(tc_to_host(tc_sub(x, x), got, sizeof got));
  EXPECT(got[0] == 0 && metric("errors_suppressed") == suppressed + 1, "%g", (double)got[0]);
  tc_region_end();
  tc_region_end();
  EXPECT_OK(tc_to_host(tc_add(x, 10), got, sizeof got));
  EXPECT(got[0] == 11 && strcmp(latest().tier, "own") != 0, "outside: %g", (double)got[0]);
  EXPECT_OK(tc_register_backend("doubling", show, &named));
  EXPECT_OK(tc_register_backend("doubling", show, &named));
  EXPECT_FAILS(tc_register_backend("doubling", show, &c), TC_ERR_STATE, "another backend already");
  EXPECT_FAILS(tc_register_backend("ref", show, &c), TC_ERR_STATE, "another backend already");
  EXPECT_FAILS(tc_register_backend("a,b", show, &c), TC_ERR_ARG, "comma");
  EXPECT_FAILS(tc_register_backend(NULL, show, &c), TC_ERR_ARG, "the name is missing");
  EXPECT_FAILS(tc_register_backend("none", NULL, &c), TC_ERR_ARG, "the function is missing");
  REGION(.backend = "doubling");
  EXPECT_OK(tc_to_host(tc_add(x, 10), got, sizeof got));
  EXPECT(got[0] == 12 && named.n_asked == 1, "%g", (double)got[0]);
  tc_region_end();
  for (int i = 0; i < 2; i++) {  // by the name that it has as a device
    EXPECT_OK(tc_region_begin(&(tc_region_options){.backend = i ? "tc:doubling" : "tc:ref"}));
    EXPECT(strcmp(tc_options_get()->backend, i ? "doubling" : "ref") == 0, "%s", tc_options_get()->backend);
    tc_region_end();
  }
  REFUSED(TC_ERR_ARG, "both backend 'ref' and backend_fn", .backend = "ref", .backend_fn = show);
  tc_scope_end(s);  // what a run that failed left holds its plan
  EXPECT_OK(tc_reset());
  EXPECT(c.n_released == 1 && named.n_released == 1, "%d %d", c.n_released, named.n_released);
}

// tc's own backends: a step of training has the same bits, op by op, fused and interpreted; from
// reference kernels within rounding.
static void train_step(float *out) {
  tc_scope s = tc_scope_begin();
  tc_seed(3);
  tc_tensor x = tc_randn(TC_SHAPE(8, 16), TC_F32), w = tc_param(tc_randn(TC_SHAPE(4, 16), TC_F32));
  tc_tensor loss = tc_mean(tc_square(tc_softmax(tc_matmul(x, tc_transpose(w, 0, 1)), 1)), TC_ALL, false);
  EXPECT_OK(tc_backward(loss));
  EXPECT_OK(tc_to_host(tc_grad(w), out, 64 * sizeof *out));
  tc_release(w);
  tc_scope_end(s);
}

static void check_rows(void) {
  static const char *const same[] = {"eager", "interp"};
  float want[64], got[64];
  train_step(want);
  for (int i = 0; i < 2; i++) {
    REGION(.backend = same[i]);
    train_step(got);
    tc_region_end();
    EXPECT(memcmp(want, got, sizeof want) == 0, "%s", same[i]);
  }
  REGION(.backend = "ref");
  train_step(got);
  double by_rows = sin_cos(100);
  EXPECT(strcmp(latest().tier, "ref") == 0, "%s", latest().tier);
  tc_region_end();
  EXPECT(fabs(by_rows - sin_cos(100)) < 1e-4, "%g", by_rows);
  for (int i = 0; i < 64; i++) EXPECT(fabsf(want[i] - got[i]) < 1e-6f, "%g %g", (double)want[i], (double)got[i]);
}

// ---- allocations that fail ----

// With the n-th allocation failing, a region begins or it does not; a value in it is right or an
// error; and afterwards everything is as it was.
static void fail_each(void) {
  static counted c;
  tc_scope s = tc_scope_begin();
  tc_tensor x = tc_from_host((const float[]){1, 2, 3, 4}, TC_SHAPE(4), TC_F32);
  const tc_options *outside = tc_options_get();
  bool reached = true;
  for (int n = 1; reached; n++) {
    char options[64];
    float got[4] = {0};
    tc_scope inner = tc_scope_begin();
    snprintf(options, sizeof options, "strict=1,max_nodes=%d", 1000 + n);  // a set that is new
    tc_tensor pending = tc_neg(x);
    tc_alloc_fail_at(n, 0);
    tc_status st = tc_region_begin(&(tc_region_options){.options = options, .backend_fn = show, .backend_user = &c});
    tc_status read = tc_to_host(tc_add(x, 5 + n), got, sizeof got);
    tc_region_end();
    reached = tc_alloc_fail_at(0, 0) >= n;
    tc_clear_error();
    EXPECT(st == TC_OK || st == TC_ERR_MEMORY, "%d", (int)st);
    EXPECT(read == TC_OK || read == TC_ERR_MEMORY || st != TC_OK, "%d", (int)read);
    if (read == TC_OK) EXPECT(got[3] == (st == TC_OK ? 8 : 4) + 5.0f + (float)n, "%g", (double)got[3]);
    EXPECT(tc_options_get() == outside, "the options outside");
    st = tc_to_host(pending, got, sizeof got);
    EXPECT(st == TC_OK ? got[3] == -4 : st == TC_ERR_MEMORY, "%d: %g", (int)st, (double)got[3]);
    tc_clear_error();
    tc_scope_end(inner);
  }
  tc_scope_end(s);
  EXPECT_OK(tc_reset());
}

// ---- the process ----

static int with_environment(void) {
  float x;
  uint64_t syncs = metric("syncs");
  EXPECT_OK(tc_item(tc_sum(tc_neg(tc_ones(TC_SHAPE(3), TC_F32)), TC_ALL, false), &x));
  EXPECT(metric("syncs") >= syncs + 3, "TC_DISABLE");
  REGION(.disable = TC_OFF);
  syncs = metric("syncs");
  EXPECT_OK(tc_item(tc_sum(tc_neg(tc_ones(TC_SHAPE(3), TC_F32)), TC_ALL, false), &x));
  EXPECT(metric("syncs") == syncs + 1, "a region goes before the environment");
  tc_region_end();
  EXPECT_OK(tc_set_options(&(tc_region_options){.disable = TC_OFF}));
  syncs = metric("syncs");
  EXPECT_OK(tc_item(tc_sum(tc_neg(tc_ones(TC_SHAPE(3), TC_F32)), TC_ALL, false), &x));
  EXPECT(metric("syncs") == syncs + 1, "tc_set_options, too");
  EXPECT_OK(tc_set_options(&(tc_region_options){.mode = "reduce-overhead"}));
  EXPECT(tc_options_get()->pin_plans == 1, "its mode");
  return expect_done("api-regions, TC_DISABLE=1");
}

int main(int argc, char **argv) {
  if (argc > 1) return with_environment();
  check_inheritance();
  check_threads();
  check_wrong();
  check_lists();
  check_fullgraph();
  check_disable();
  check_keys();
  check_cuts();
  check_compiled();
  check_pins();
  check_dynamic();
  check_backend();
  check_rows();
  fail_each();
  pid_t child = fork();
  if (child == 0) {
    setenv("TC_DISABLE", "1", 1);
    execl("/proc/self/exe", argv[0], "environment", NULL);
    _exit(127);
  }
  int status = 0;
  EXPECT(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0,
         "TC_DISABLE=1: %d", status);
  return expect_done("api-regions");
}
