// Two threads of one program, each with a GPU of its own, or both with one: what they train comes
// out as it does alone, to the bit, and as on tc:cpu within the tolerance. Where one of the devices
// is lost meanwhile that thread is told, and the other goes on. Simulated.
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "runtime/options.h"
#include "tests/expect.h"
#include "tests/sim/built.h"

enum { STEPS = 25, WIDTH = 12 };

// What a thread does, and what came of it.
typedef struct job {
  const char *device;
  float scale;  // of its data
  pthread_barrier_t *start;
  tc_status status;
  char message[256];
  float loss[STEPS], w[WIDTH * WIDTH], later[WIDTH];
} job;

static tc_status step(tc_tensor w, tc_tensor x, tc_optimizer *opt, job *j, int k) {
  tc_scope s = tc_scope_begin();
  const int64_t at[] = {k % WIDTH, 3, (k + 5) % WIDTH};
  tc_tensor rows = tc_index_select(x, 0, tc_from_host(at, TC_SHAPE(3), TC_I64));
  tc_tensor loss = tc_mean(tc_square(tc_sub(tc_softmax(tc_matmul(rows, w), 1), rows)), TC_ALL, false);
  tc_status st = tc_backward(loss);
  if (st == TC_OK) st = tc_optimizer_step(opt);
  if (st == TC_OK) st = tc_zero_grad(opt);
  if (st == TC_OK) st = tc_to_host_async(tc_sum(w, TC_AXES(0), false), j->later, sizeof j->later);
  if (st == TC_OK) st = tc_item_f32(loss, &j->loss[k]);
  tc_status came = tc_to_host_wait(j->later);
  tc_scope_end(s);
  return st == TC_OK ? came : st;
}

static void *train(void *arg) {
  job *j = arg;
  float v[WIDTH * WIDTH];
  for (int i = 0; i < WIDTH * WIDTH; i++) v[i] = j->scale * (float)(i * 7 % 11) / 11;
  if (j->start) pthread_barrier_wait(j->start);
  j->status = tc_set_default_device(j->device);
  tc_scope s = tc_scope_begin();
  tc_tensor x = tc_from_host(v, TC_SHAPE(WIDTH, WIDTH), TC_F32),
            w = tc_param(tc_mul(tc_from_host(v, TC_SHAPE(WIDTH, WIDTH), TC_F32), 0.5f));
  tc_optimizer *opt = tc_sgd(&w, 1, (tc_sgd_options){.lr = 0.5, .momentum = 0.5});
  if (!opt) j->status = tc_last_error()->status;
  for (int k = 0; k < STEPS && j->status == TC_OK; k++) j->status = step(w, x, opt, j, k);
  if (j->status == TC_OK) j->status = tc_to_host(w, j->w, sizeof j->w);
  snprintf(j->message, sizeof j->message, "%s", tc_last_error()->message);
  tc_optimizer_destroy(opt);
  tc_release(w);
  tc_scope_end(s);
  return NULL;
}

static void together(job j[2]) {
  pthread_t thread[2];
  pthread_barrier_t start;
  pthread_barrier_init(&start, NULL, 2);
  for (int i = 0; i < 2; i++) j[i].start = &start, pthread_create(&thread[i], NULL, train, &j[i]);
  for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
  pthread_barrier_destroy(&start);
}

static job of(const char *device, int i) {
  return (job){.device = device, .scale = (float)(i + 1)};
}

static void compare(const job *j, const job *alone, bool same_bits) {
  EXPECT(j->status == TC_OK && alone->status == TC_OK, "%s: %s %s", j->device, j->message, alone->message);
  for (int k = 0; k < STEPS; k++)
    EXPECT(same_bits ? j->loss[k] == alone->loss[k] : fabsf(j->loss[k] - alone->loss[k]) < 1e-5f,
           "%s: loss %d is %g, not %g", j->device, k, (double)j->loss[k], (double)alone->loss[k]);
  for (int i = 0; i < WIDTH * WIDTH; i++)
    EXPECT(same_bits ? j->w[i] == alone->w[i] : fabsf(j->w[i] - alone->w[i]) < 1e-4f, "%s: weight %d is %g, not %g",
           j->device, i, (double)j->w[i], (double)alone->w[i]);
}

static void test_pair(const char *const *device) {
  job j[2], alone[2], here[2];
  for (int i = 0; i < 2; i++) alone[i] = of(device[i], i), here[i] = of("tc:cpu", i), train(&alone[i]), train(&here[i]);
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 2; i++) j[i] = of(device[i], i);
    together(j);
    for (int i = 0; i < 2; i++) compare(&j[i], &alone[i], true), compare(&j[i], &here[i], false);
  }
}

// Whoever asked for the kernel that faults.
static void test_one_is_lost(const char *const *device, void *sim) {
  job j[2], here[2];
  for (int i = 0; i < 2; i++) j[i] = of(device[i], i), here[i] = of("tc:cpu", i), train(&here[i]);
  EXPECT(((bool (*)(const char *))dlsym(sim, "sim_fail"))("kernel:150=719!"), "not understood");
  together(j);
  int told = j[0].status != TC_OK ? 0 : 1;
  EXPECT(j[told].status == TC_ERR_DEVICE && strstr(j[told].message, "is lost") && strstr(j[told].message, device[told]),
         "%s", j[told].message);
  compare(&j[1 - told], &here[1 - told], false);
  job again = of(device[1 - told], 1 - told), gone = of(device[told], told);
  train(&again), train(&gone);
  compare(&again, &here[1 - told], false);
  EXPECT(gone.status == TC_ERR_DEVICE, "%s goes on", device[told]);
  tc_clear_error();
}

int main(void) {
  static const char *const pairs[][2] = {
      {"tc:cuda", "tc:cuda:1"}, {"tc:hip", "tc:hip:1"}, {"tc:cuda", "tc:hip"}, {"tc:cuda", "tc:cuda"}};
  if (!built_simulators()) return puts("skipped: the simulated driver was not built"), 77;
  setenv("TC_COMPILER", "interp", 1);
  setenv("TC_SIM_DEVICES", "2", 1);
  tc_options_reload();
  void *const sim[] = {dlopen(built("libsim-cuda.so"), RTLD_NOW), dlopen(built("libsim-hip.so"), RTLD_NOW)};
  if (!sim[0] || !sim[1]) return puts(dlerror()), 1;
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) test_pair(pairs[i]);
  for (int i = 0; i < 2; i++) test_one_is_lost(pairs[i], sim[i]);
  for (int i = 0; i < 2; i++)
    EXPECT(((int (*)(void))dlsym(sim[i], "sim_faults"))() == 0, "%s: the simulator found mistakes", pairs[i][0]);
  tc_shutdown();
  EXPECT(tc_memory_stats().gpu_live_bytes == 0, "%zu bytes are held", tc_memory_stats().gpu_live_bytes);
  return expect_done("gpu_two");
}
