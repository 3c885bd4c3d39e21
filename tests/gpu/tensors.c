// Tensors on a GPU, simulated: where values are and how they come and go, two memories in one
// thread, memory of the caller, bad indices, training that meets its plan again, weights that are
// loaded before their initial values were made, attention beside the processor's, copies that are
// waited for later, TC_VERIFY, and memory that returns.
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tc/io.h>
#include <tc/nn.h>

#include "runtime/options.h"
#include "tests/child.h"
#include "tests/files/files.h"
#include "tests/sim/built.h"
#include "tests/sim/core.h"

static float item(tc_tensor t) {
  float v = NAN;
  EXPECT(tc_item_f32(t, &v) == TC_OK, "%s", tc_last_error()->message);
  return v;
}

static void test_where_values_are(void) {
  tc_scope s = tc_scope_begin();
  const float x[] = {1, -2, 3, 4};
  float got[4];
  tc_tensor a = tc_from_host(x, TC_SHAPE(4), TC_F32), b = tc_relu(tc_mul(a, 2));
  EXPECT(strcmp(tc_device_of(b), "tc:cuda") == 0, "%s", tc_device_of(b));
  EXPECT(tc_to_host(b, got, sizeof got) == TC_OK, "%s", tc_last_error()->message);
  EXPECT(got[0] == 2 && got[1] == 0 && got[2] == 6 && got[3] == 8, "%g %g %g %g", got[0], got[1], got[2], got[3]);
  const float *seen = tc_map(b);
  EXPECT(seen && seen[2] == 6, "%s", tc_last_error()->message);
  EXPECT(tc_unmap(b) == TC_OK, "%s", tc_last_error()->message);
  tc_tensor here = tc_to(b, "tc:cpu"), there = tc_to(tc_add(here, 1), "tc:cuda");
  EXPECT(strcmp(tc_device_of(here), "tc:cpu") == 0 && strcmp(tc_device_of(there), "tc:cuda") == 0, "%s %s",
         tc_device_of(here), tc_device_of(there));
  EXPECT(item(tc_sum(there, tc_dims_all(), false)) == 20, "%g", item(tc_sum(there, tc_dims_all(), false)));
  tc_scope_end(s);
}

static void test_two_memories(void) {
  tc_scope s = tc_scope_begin();
  tc_tensor here, there = tc_add(tc_ones(TC_SHAPE(3), TC_F32), 1);  // pending
  EXPECT(tc_push_device("tc:cpu") == TC_OK, "%s", tc_last_error()->message);
  here = tc_add(tc_ones(TC_SHAPE(3), TC_F32), 2);
  EXPECT(tc_pop_device() == TC_OK, "%s", tc_last_error()->message);
  EXPECT(!tc_is_valid(tc_add(here, there)) && tc_last_error()->status == TC_ERR_DEVICE, "%s", tc_last_error()->message);
  tc_clear_error();
  EXPECT(item(tc_sum(there, tc_dims_all(), false)) == 6 && item(tc_sum(here, tc_dims_all(), false)) == 9, "both go on");
  tc_scope_end(s);
}

static int n_released;
static void release(void *arg) {
  (void)arg;
  n_released++;
}

static void test_memory_of_the_caller(void) {
  tc_scope s = tc_scope_begin();
  float x[] = {1, 2, 3}, y[] = {1, 2, 3};
  tc_tensor a = tc_borrow(x, TC_SHAPE(3), TC_F32, TC_READ_ONLY, release, NULL),
            b = tc_borrow(y, TC_SHAPE(3), TC_F32, TC_WRITABLE, NULL, NULL);
  EXPECT(n_released == 1, "%d", n_released);
  x[0] = 100;
  EXPECT(item(tc_sum(a, tc_dims_all(), false)) == 6, "what was copied");
  EXPECT(tc_assign(b, tc_mul(b, 2)) == TC_OK && tc_sync(NULL) == TC_OK, "%s", tc_last_error()->message);
  EXPECT(y[0] == 2 && y[2] == 6, "%g %g", y[0], y[2]);
  y[0] = 10;  // read again by the next run
  EXPECT(item(tc_sum(b, tc_dims_all(), false)) == 20, "%g %g %g", y[0], y[1], y[2]);
  tc_scope_end(s);
}

static void test_bad_index(void) {
  tc_scope s = tc_scope_begin();
  const int64_t at[] = {0, 7, 1};
  tc_tensor table = tc_retain(tc_ones(TC_SHAPE(4, 2), TC_F32)), index = tc_from_host(at, TC_SHAPE(3), TC_I64);
  EXPECT(tc_sync(NULL) == TC_OK, "%s", tc_last_error()->message);
  EXPECT(tc_assign(table, tc_mul(table, tc_sum(tc_index_select(table, 0, index), tc_dims_all(), false))) == TC_OK, "%s",
         tc_last_error()->message);
  float v;
  tc_status st = tc_item_f32(tc_sum(table, tc_dims_all(), false), &v);
  EXPECT(st == TC_ERR_INDEX && strstr(tc_last_error()->message, "index 7 at position 1 is out of range for extent 4"),
         "%s", tc_last_error()->message);
  tc_clear_error();
  EXPECT(item(tc_sum(table, tc_dims_all(), false)) == 8, "the old value");
  tc_release(table);
  tc_scope_end(s);
}

static void test_training(void) {
  tc_scope s = tc_scope_begin();
  tc_tensor w = tc_param(tc_mul(tc_ones(TC_SHAPE(4, 1), TC_F32), 0.5f));
  tc_optimizer *opt = tc_sgd(&w, 1, (tc_sgd_options){.lr = 0.1});
  const float x[] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}, y[] = {1, 2, 3, 4};
  float first = 0, last = 0;
  uint64_t compiles = 0;
  for (int step = 0; step < 6; step++) {
    tc_scope inner = tc_scope_begin();
    tc_tensor loss = tc_mean(tc_square(tc_sub(tc_matmul(tc_from_host(x, TC_SHAPE(4, 4), TC_F32), w),
                                              tc_from_host(y, TC_SHAPE(4, 1), TC_F32))),
                             tc_dims_all(), false);
    EXPECT(tc_backward(loss) == TC_OK && tc_optimizer_step(opt) == TC_OK, "%s", tc_last_error()->message);
    tc_zero_grad(opt);
    last = item(loss);
    tc_scope_end(inner);
    if (step == 0) first = last;
    if (step == 2) compiles = tc_cache_stats().compiles;
  }
  // By hand: each weight w moves by 0.1 * 2 (y - w) / 4, so that the loss is multiplied by 0.95^2 a
  // step.
  EXPECT(fabsf(last - first * powf(0.95f, 10)) < 1e-4f * first, "%g of %g", last, first);
  EXPECT(tc_cache_stats().compiles == compiles, "compiled after the third step");
  tc_optimizer_destroy(opt);
  tc_release(w);
  tc_scope_end(s);
}

// ---- weights that take the place of initial values ----

static tc_nn_params *model_of_seed(uint64_t seed) {
  tc_nn_params *p = tc_nn_params_create();
  tc_seed(seed);
  EXPECT_OK(tc_nn_add_linear(p, "first", 24, 40, true));
  EXPECT_OK(tc_nn_add_batch_norm(p, "norm", 40));
  EXPECT_OK(tc_nn_add_linear(p, "second", 40, 8, true));
  tc_nn_set_training(p, false);
  return p;
}

static float answer(const tc_nn_params *p) {
  tc_tensor x = tc_cos(tc_reshape(tc_arange(0, 5 * 24, 1, TC_F32), TC_SHAPE(5, 24)));
  return item(
      tc_sum(tc_square(tc_nn_linear(p, "second", tc_nn_batch_norm(p, "norm", tc_nn_linear(p, "first", x), 0.1, 1e-5))),
             TC_ALL, false));
}

static void count_kernels(void *arg, const sim_begun *launch) {
  (void)launch;
  ++*(int *)arg;
}

typedef struct steps {
  float answer, before;  // of the first step; the sum of what a weight was until it was loaded, if that is asked for
  int n_first, n_second;  // kernels
} steps;

// Two steps of a new model, whose weights come from a file if there is one.
static steps run_steps(const char *file, bool reads_before,
                       void (*watch)(void (*)(void *, const sim_begun *), void *)) {
  steps found = {0};
  tc_scope s = tc_scope_begin();
  tc_nn_params *p = model_of_seed(2);
  tc_tensor sum = {0};
  if (reads_before) sum = tc_sum(tc_nn_get(p, "first.weight"), TC_ALL, false);
  tc_archive *a = file ? tc_safetensors_open(file) : NULL;
  if (file) EXPECT_OK(tc_nn_load(p, a, NULL));
  tc_archive_close(a);
  watch(count_kernels, &found.n_first);
  found.answer = answer(p);
  watch(count_kernels, &found.n_second);
  EXPECT(answer(p) == found.answer, "another answer");
  watch(NULL, NULL);
  if (reads_before) found.before = item(sum);
  tc_nn_params_destroy(p);
  tc_scope_end(s);
  return found;
}

// A value that is assigned before anybody reads it is not made, and what is loaded stays where it
// was copied to: the first step's kernels are any step's. One that was read is what it was.
static void test_loaded_weights(void) {
  void *sim = dlopen(built("libsim-cuda.so"), RTLD_NOW);
  void (*watch)(void (*)(void *, const sim_begun *), void *) = sim ? (__typeof__(watch))dlsym(sim, "sim_watch") : NULL;
  EXPECT(watch, "%s", dlerror());
  if (!watch || !has_library(tc_safetensors_open_at)) return;
  const char *file = files_path("weights.safetensors");
  tc_scope s = tc_scope_begin();
  tc_nn_params *p = model_of_seed(1);
  EXPECT_OK(tc_nn_save(p, file));
  float want = answer(p);
  tc_nn_params_destroy(p);
  tc_scope_end(s);
  steps made = run_steps(NULL, true, watch), loaded = run_steps(file, false, watch),
        read = run_steps(file, true, watch);
  EXPECT(made.n_first > made.n_second && made.answer != want, "%d kernels make the values, %d do not", made.n_first,
         made.n_second);
  EXPECT(loaded.n_first == loaded.n_second && loaded.n_first > 2 && loaded.answer == want, "%d kernels, then %d",
         loaded.n_first, loaded.n_second);
  EXPECT(read.n_first > read.n_second && read.answer == want && read.before == made.before,
         "%d kernels, then %d; before %g, not %g", read.n_first, read.n_second, (double)read.before,
         (double)made.before);
  EXPECT(files_fini() == 1, "one file");
  dlclose(sim);
}

// Grouped heads, causal, over rows that are no whole blocks: a result and its gradients, as floats;
// from what the device has to `got`.
static void attend(const char *device, tc_type type, float *const *x, float got[4][2 * 4 * 40 * 24]) {
  tc_scope s = tc_scope_begin();
  EXPECT(tc_push_device(device) == TC_OK, "%s", tc_last_error()->message);
  const tc_dims d[3] = {TC_SHAPE(2, 4, 40, 24), TC_SHAPE(2, 2, 40, 24), TC_SHAPE(2, 2, 40, 24)};
  tc_tensor in[3], out[4];
  for (int i = 0; i < 3; i++) {
    in[i] = tc_cast(tc_from_host(x[i], d[i], TC_F32), type);
    EXPECT(tc_set_requires_grad(in[i], true) == TC_OK, "%s", tc_last_error()->message);
  }
  out[0] =
      tc_scaled_dot_product_attention(in[0], in[1], in[2], (tc_tensor){0, 0}, (tc_attention_options){.causal = true});
  tc_tensor loss = tc_sum(tc_square(tc_cast(out[0], TC_F32)), tc_dims_all(), false);
  EXPECT(tc_grads_of(loss, in, 3, out + 1, 0) == TC_OK, "%s", tc_last_error()->message);
  for (int i = 0; i < 4; i++) {
    size_t n = (i < 2 ? 2 * 4 : 2 * 2) * 40 * 24;
    EXPECT(tc_to_host(tc_cast(out[i], TC_F32), got[i], n * sizeof(float)) == TC_OK, "%s", tc_last_error()->message);
  }
  EXPECT(tc_pop_device() == TC_OK, "%s", tc_last_error()->message);
  tc_scope_end(s);
}

static void test_attention(void) {
  static float x[3][2 * 4 * 40 * 24], there[4][2 * 4 * 40 * 24], here[4][2 * 4 * 40 * 24];
  static const struct {
    tc_type type;
    float within;
  } of[] = {{TC_F32, 2e-5f}, {TC_BF16, 3e-2f}};
  uint32_t seed = 1;
  for (int i = 0; i < 3; i++)
    for (size_t k = 0; k < sizeof x[i] / sizeof x[i][0]; k++)
      seed = seed * 1664525 + 1013904223, x[i][k] = (float)((int)(seed >> 16) % 257 - 128) / 64;
  for (size_t t = 0; t < sizeof of / sizeof *of; t++) {
    attend("tc:cuda", of[t].type, (float *[]){x[0], x[1], x[2]}, there);
    attend("tc:cpu", of[t].type, (float *[]){x[0], x[1], x[2]}, here);
    for (int i = 0; i < 4; i++) {
      float most = 0, apart = 0;
      for (size_t k = 0; k < sizeof here[i] / sizeof here[i][0]; k++)
        most = fmaxf(most, fabsf(here[i][k])), apart = fmaxf(apart, fabsf(here[i][k] - there[i][k]));
      EXPECT(apart <= of[t].within * most, "type %zu, result %d: %g of %g", t, i, apart, most);
    }
  }
}

// Whatever was asked for since, each copy has the value of its time; it comes when somebody waits,
// and not before.
static void test_copies_later(void) {
  tc_scope s = tc_scope_begin();
  float out[3][4] = {{0}};
  tc_tensor state = tc_zeros(TC_SHAPE(4), TC_F32);
  for (int k = 0; k < 3; k++) {
    out[k][3] = -1;
    EXPECT(tc_assign(state, tc_add(state, 1)) == TC_OK && tc_to_host_async(state, out[k], sizeof out[k]) == TC_OK, "%s",
           tc_last_error()->message);
  }
  EXPECT(tc_assign(state, tc_mul(state, 100)) == TC_OK && tc_eval(1, &state) == TC_OK, "%s", tc_last_error()->message);
  EXPECT(out[0][3] == -1 && out[2][3] == -1, "%g %g", out[0][3], out[2][3]);
  EXPECT(tc_to_host_wait(out[0]) == TC_OK && out[0][3] == 1 && out[2][3] == -1, "%g %g", out[0][3], out[2][3]);
  EXPECT(tc_to_host_wait(out[0]) == TC_OK && out[2][3] == -1, "it is there already");
  EXPECT(tc_sync(NULL) == TC_OK && out[1][0] == 2 && out[2][3] == 3, "%g %g", out[1][0], out[2][3]);
  out[0][0] = 0;
  EXPECT(tc_to_host_async(state, out[0], sizeof out[0]) == TC_OK && tc_sync("tc:cuda") == TC_OK && out[0][0] == 300,
         "%g", out[0][0]);
  EXPECT_FAILS(tc_to_host_async(state, out[0], 3), TC_ERR_ARG, "of 16 bytes, the buffer has 3");
  EXPECT_FAILS(tc_to_host_async(state, NULL, 16), TC_ERR_ARG, "out is NULL");
  EXPECT_FAILS(tc_to_host_async((tc_tensor){0, 0}, out[0], 16), TC_ERR_HANDLE, "null tensor");
  EXPECT(tc_to_host_async(tc_zeros(TC_SHAPE(0), TC_F32), NULL, 0) == TC_OK, "nothing: %s", tc_last_error()->message);
  EXPECT(tc_push_device("tc:cpu") == TC_OK, "%s", tc_last_error()->message);
  out[0][0] = 0;
  EXPECT(tc_to_host_async(tc_full(TC_SHAPE(1), 7, TC_F32), out[0], sizeof(float)) == TC_OK && out[0][0] == 7,
         "tc:cpu does not wait: %g", out[0][0]);
  EXPECT(tc_to_host_wait(out[0]) == TC_OK && tc_pop_device() == TC_OK, "%s", tc_last_error()->message);
  tc_scope_end(s);
}

// More than may be under way: older copies are waited for; what is larger alone is there at once.
static void test_many_copies_later(void) {
  enum { N = 1 << 20, COPIES = 24, LARGE = 9 << 20 };
  tc_scope s = tc_scope_begin();
  float *x = calloc(LARGE, sizeof *x), *out = calloc((size_t)COPIES * N, sizeof *out),
        *large = calloc(LARGE, sizeof *large);
  EXPECT(x && out && large, "no memory");
  for (int k = 0; k < COPIES; k++) {
    x[k] = x[N - 1] = (float)(k + 1);
    EXPECT(tc_to_host_async(tc_from_host(x, TC_SHAPE(N), TC_F32), out + (size_t)k * N, N * sizeof *x) == TC_OK, "%s",
           tc_last_error()->message);
  }
  EXPECT(out[N - 1] == 1 && out[(size_t)COPIES * N - 1] == 0, "%g %g", out[N - 1], out[(size_t)COPIES * N - 1]);
  EXPECT(tc_to_host_async(tc_from_host(x, TC_SHAPE(LARGE), TC_F32), large, LARGE * sizeof *x) == TC_OK && large[0] == 1,
         "%g", large[0]);
  EXPECT(tc_to_host_wait(NULL) == TC_OK, "%s", tc_last_error()->message);
  for (size_t k = 0; k < COPIES; k++)
    EXPECT(out[k * N + k] == (float)(k + 1) && out[k * N + N - 1] == (float)(k + 1), "copy %zu", k);
  free(x), free(out), free(large);
  tc_scope_end(s);
  EXPECT(tc_sync(NULL) == TC_OK, "%s", tc_last_error()->message);  // the trace lets go of what was never read
}

static double copies_of_a_lost_device(const void *path) {
  float out[2] = {-1, -1};
  EXPECT(tc_set_default_device("tc:cuda") == TC_OK, "%s", tc_last_error()->message);
  bool (*fail)(const char *) = (__typeof__(fail))dlsym(dlopen(path, RTLD_NOW), "sim_fail");
  tc_tensor y = tc_mul(tc_full(TC_SHAPE(2), 3, TC_F32), tc_full(TC_SHAPE(2), 2, TC_F32));
  EXPECT(tc_eval(1, &y) == TC_OK && tc_sync(NULL) == TC_OK && fail("kernel:1=719!"), "%s", tc_last_error()->message);
  tc_tensor z = tc_add(y, 1);
  tc_status st = tc_to_host_async(z, out, sizeof out);
  if (st == TC_OK) st = tc_to_host_wait(out);
  EXPECT(st == TC_ERR_DEVICE && strstr(tc_last_error()->message, "is lost") && out[0] == -1, "%s",
         tc_last_error()->message);
  EXPECT(tc_to_host_wait(out) == TC_OK, "it was given up: %s", tc_last_error()->message);
  float v;
  EXPECT(tc_set_default_device("tc:cpu") == TC_OK &&
             tc_item_f32(tc_sum(tc_ones(TC_SHAPE(3), TC_F32), TC_ALL, false), &v) == TC_OK && v == 3,
         "%s", tc_last_error()->message);
  fflush(stdout);
  return 0;
}

// A child of fork has the CPU, and what the parent waits for does not come there.
static double child_of_fork(const void *unused) {
  float v = 0, out[1];
  (void)unused;
  EXPECT(tc_set_default_device("tc:cuda") == TC_OK, "%s", tc_last_error()->message);
  EXPECT(tc_to_host_async(tc_full(TC_SHAPE(1), 7, TC_F32), out, sizeof out) == TC_OK, "%s", tc_last_error()->message);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    EXPECT(tc_to_host_wait(out) == TC_ERR_DEVICE && strstr(tc_last_error()->message, "forked"), "%s",
           tc_last_error()->message);
    EXPECT(tc_set_default_device("tc:cpu") == TC_OK, "%s", tc_last_error()->message);
    tc_tensor sum = tc_sum(tc_ones(TC_SHAPE(3), TC_F32), TC_ALL, false);
    EXPECT(tc_sync(NULL) == TC_OK && tc_item_f32(sum, &v) == TC_OK && v == 3, "%s", tc_last_error()->message);
    fflush(stdout);
    _exit(atomic_load(&expect_n_failed) != 0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ends with %d", status);
  EXPECT(tc_to_host_wait(NULL) == TC_OK && out[0] == 7, "%g", out[0]);
  tc_shutdown();
  fflush(stdout);
  return 0;
}

// How many results TC_VERIFY=1 finds wrong; a bug is planted, or none ("").
static double wrong_results(const void *plant) {
  const float x[] = {1, 2, 3, 4, 5, 6, 7, 8};
  const int64_t at[] = {1, 0, 1};
  float got[3] = {0};
  tc_sync_point p = {0};
  setenv("TC_VERIFY", "1", 1);
  if (*(const char *)plant) setenv("TC_TEST_PLANT", plant, 1);
  tc_options_reload();
  EXPECT(tc_set_default_device("tc:cuda") == TC_OK, "%s", tc_last_error()->message);
  tc_tensor t = tc_from_host(x, TC_SHAPE(2, 4), TC_F32), state = tc_ones(TC_SHAPE(2, 4), TC_F32);
  tc_tensor y = tc_sum(
      tc_exp(tc_neg(tc_index_select(tc_softmax(tc_slice(t, 1, 0, 4, 2), 1), 0, tc_from_host(at, TC_SHAPE(3), TC_I64)))),
      TC_AXES(1), false);
  EXPECT(tc_assign(state, tc_add(tc_mul(state, 2), t)) == TC_OK && tc_to_host(y, got, sizeof got) == TC_OK, "%s",
         tc_last_error()->message);
  EXPECT(tc_sync_points(1, &p) == 1 && strcmp(p.tier, "gpu") == 0, "%s", p.tier);
  tc_shutdown();
  fflush(stdout);
  return p.n_wrong;
}

int main(void) {
  if (!built_simulators()) return puts("skipped: the simulated driver was not built"), 77;
  EXPECT(in_child(copies_of_a_lost_device, built("libsim-cuda.so")) == 0, "a lost device");
  EXPECT(in_child(child_of_fork, NULL) == 0, "fork");
  EXPECT(in_child(wrong_results, "") == 0, "TC_VERIFY finds something wrong where nothing is");
  EXPECT(in_child(wrong_results, "stride") > 0, "TC_VERIFY does not see a planted bug");
  EXPECT(tc_set_default_device("tc:cuda") == TC_OK, "%s", tc_last_error()->message);
  test_where_values_are();
  test_two_memories();
  test_memory_of_the_caller();
  test_bad_index();
  test_training();
  test_loaded_weights();
  test_attention();
  test_copies_later();
  test_many_copies_later();
  EXPECT(tc_memory_stats().gpu_live_bytes == 0, "%zu bytes are held", tc_memory_stats().gpu_live_bytes);
  tc_shutdown();
  EXPECT(tc_memory_stats().gpu_pooled_bytes == 0, "%zu bytes are pooled", tc_memory_stats().gpu_pooled_bytes);
  return expect_done("gpu-tensors");
}
