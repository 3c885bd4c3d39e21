// Checks of a device at work: memory, order, threads, training, opening it again. See conform.h.
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/conform/conform.h"

static bool is_ok(tc_status st, const char *what) {
  return conform_check(st == TC_OK, "%s: %s", what, st == TC_OK ? "" : tc_last_error()->message);
}

// ---- memory ----

// Values go to the device, from it to tc:cpu and back, and are the same bytes.
static void check_round_trip(const char *device, tc_type type, int64_t n) {
  size_t bytes = (size_t)n * tc_type_bytes(type);
  unsigned char *in = malloc(bytes + 1), *out = calloc(bytes + 1, 1);
  char what[80];
  snprintf(what, sizeof what, "%lld elements of %s", (long long)n, tc_type_name(type));
  for (size_t i = 0; i < bytes; i++) in[i] = type == TC_BOOL ? i % 2 : (unsigned char)(i * 7 + 1);
  tc_scope scope = tc_scope_begin();
  tc_tensor x = tc_from_host(in, TC_SHAPE(n), type), there = tc_to(tc_to(x, "tc:cpu"), device);
  if (is_ok(tc_to_host(there, out, bytes), what))
    conform_check(memcmp(in, out, bytes) == 0, "%s: other bytes came back", what);
  const void *map = tc_map(x);
  conform_check(map != NULL && (bytes == 0 || memcmp(in, map, bytes) == 0), "%s: tc_map", what);
  if (map) (void)tc_unmap(x);
  tc_scope_end(scope);
  free(in);
  free(out);
}

// What no device has is an error, and work goes on.
static void check_refusal(void) {
  tc_scope scope = tc_scope_begin();
  float v = 0;
  tc_tensor huge = tc_zeros(TC_SHAPE(1 << 20, 1 << 20, 1 << 6), TC_F32);
  tc_status st = tc_eval(1, &huge);
  conform_check(st != TC_OK, "256 TiB were given");
  tc_clear_error();
  tc_tensor one = tc_add(tc_ones(TC_SHAPE(1), TC_F32), 2);
  if (is_ok(tc_item_f32(one, &v), "after a refusal")) conform_check(v == 3, "after a refusal: %g, not 3", (double)v);
  tc_scope_end(scope);
}

void conform_memory(const char *device) {
  static const int64_t sizes[] = {0, 1, 3, 17, 1000, 300000};
  conform_begin("memory");
  for (int type = 0; type < TC_N_TYPES; type++)
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) check_round_trip(device, (tc_type)type, sizes[i]);
  check_refusal();
  tc_trim();
  check_round_trip(device, TC_F32, 1000);
  conform_end();
}

// ---- order ----

// Many steps whose memory is used again at once: a device that runs out of order mixes them up.
void conform_order(const char *device) {
  enum { N = 4096, STEPS = 200 };
  static float got[N];
  float want = 1;
  (void)device;
  conform_begin("order");
  tc_scope outer = tc_scope_begin();
  tc_tensor x = tc_ones(TC_SHAPE(N), TC_F32);
  for (int i = 0; i < STEPS; i++) {
    tc_scope inner = tc_scope_begin();
    (void)tc_assign(x, tc_add(tc_mul(x, 0.5), (double)(i % 7)));
    want = want * 0.5f + (float)(i % 7);
    if (i % 3 == 0 && !is_ok(tc_eval(1, &x), "eval")) break;
    tc_scope_end(inner);
  }
  if (is_ok(tc_to_host(x, got, sizeof got), "to_host")) {
    int wrong = 0;
    for (int i = 0; i < N; i++) wrong += got[i] != want;
    conform_check(wrong == 0, "%d of %d elements are wrong after %d steps in order", wrong, N, STEPS);
  }
  is_ok(tc_sync(device), "tc_sync");
  tc_scope_end(outer);
  conform_end();
}

// ---- threads ----

typedef struct worker {
  const char *device;
  int number;
} worker;

static void *work(void *arg) {
  const worker *w = arg;
  if (tc_set_default_device(w->device) != TC_OK) return NULL;
  for (int i = 0; i < 30; i++) {
    tc_scope scope = tc_scope_begin();
    double sum = 0, v = w->number + i * 0.25;
    tc_tensor x = tc_full(TC_SHAPE(100, 50), v, TC_F64);
    tc_tensor y = tc_sum(tc_sub(tc_square(x), tc_mul(x, 2)), TC_ALL, false);
    tc_status st = tc_item_f64(y, &sum);
    double want = 5000 * (v * v - 2 * v);
    conform_check(st == TC_OK && fabs(sum - want) <= 1e-9 * (1 + fabs(want)), "thread %d: %.17g, not %.17g; %s",
                  w->number, sum, want, st == TC_OK ? "" : tc_last_error()->message);
    tc_scope_end(scope);
  }
  return NULL;
}

void conform_threads(const char *device) {
  enum { N = 4 };
  pthread_t thread[N];
  worker w[N];
  conform_begin("threads");
  for (int i = 0; i < N; i++) {
    w[i] = (worker){device, i};
    if (pthread_create(&thread[i], NULL, work, &w[i]) != 0) work(&w[i]), thread[i] = pthread_self();
  }
  for (int i = 0; i < N; i++)
    if (!pthread_equal(thread[i], pthread_self())) pthread_join(thread[i], NULL);
  conform_end();
}

// ---- training ----

#define STEPS 25

// Trains a network of two layers; its losses.
static bool train(const char *device, float *loss) {
  tc_status st = tc_set_default_device(device);
  tc_seed(7);
  tc_scope outer = tc_scope_begin();
  tc_tensor x = tc_randn(TC_SHAPE(32, 8), TC_F32), y = tc_sin(tc_sum(x, TC_AXES(1), true));
  tc_tensor w[4] = {tc_param(tc_mul(tc_randn(TC_SHAPE(8, 16), TC_F32), 0.3)), tc_param(tc_zeros(TC_SHAPE(16), TC_F32)),
                    tc_param(tc_mul(tc_randn(TC_SHAPE(16, 1), TC_F32), 0.3)), tc_param(tc_zeros(TC_SHAPE(1), TC_F32))};
  tc_optimizer *opt = tc_adam(w, 4, (tc_adam_options){.lr = 0.02});
  for (int i = 0; i < STEPS && st == TC_OK; i++) {
    tc_scope scope = tc_scope_begin(), inner = tc_scope_begin();
    tc_tensor h = tc_relu(tc_add(tc_matmul(x, w[0]), w[1]));
    tc_tensor l = tc_mse_loss(tc_add(tc_matmul(h, w[2]), w[3]), y);
    (void)tc_backward(l);
    (void)tc_optimizer_step(opt);
    (void)tc_zero_grad(opt);
    tc_keep(l);
    tc_scope_end(inner);
    st = tc_item_f32(l, &loss[i]);
    tc_scope_end(scope);
  }
  bool ok = is_ok(st, device);
  tc_optimizer_destroy(opt);
  for (int i = 0; i < 4; i++) tc_release(w[i]);
  tc_scope_end(outer);
  return ok;
}

void conform_training(const char *device) {
  float want[STEPS] = {0}, got[STEPS] = {0};
  conform_begin("training");
  if (train("tc:ref", want) && train(device, got))
    for (int i = 0; i < STEPS; i++)
      conform_check(fabsf(got[i] - want[i]) <= 1e-4f * (1 + fabsf(want[i])), "loss %d is %.7g; tc:ref has %.7g", i,
                    (double)got[i], (double)want[i]);
  conform_check(want[STEPS - 1] < want[0] / 2, "training does not learn on tc:ref: %g", (double)want[STEPS - 1]);
  is_ok(tc_set_default_device(device), "the default device");
  conform_end();
}

// ---- opening it again ----

static bool adds(const char *device) {
  tc_scope scope = tc_scope_begin();
  float v = 0;
  tc_status st = tc_set_default_device(device);
  if (st == TC_OK) st = tc_item_f32(tc_add(tc_full(TC_SHAPE(1), 20, TC_F32), 22), &v);
  tc_scope_end(scope);
  return st == TC_OK && v == 42;
}

void conform_reopening(const char *device) {
  conform_begin("reopening");
  for (int i = 0; i < 3; i++) {
    tc_shutdown();
    conform_check(adds(device), "after tc_shutdown: %s", tc_last_error()->message);
  }
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) _exit(adds(device) ? 0 : tc_last_error()->status == TC_ERR_DEVICE ? 1 : 2);
  int status = 0;
  bool ended = child > 0 && waitpid(child, &status, 0) == child;
  // Without TC_BACKEND_FORK_SAFE an error is right.
  conform_check(ended && WIFEXITED(status) && WEXITSTATUS(status) < 2, "a child of fork() crashed or computed wrong");
  conform_check(adds(device), "after a fork: %s", tc_last_error()->message);
  conform_end();
}
