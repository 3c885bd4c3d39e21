// Copies between the host and a GPU, simulated, that run beside its kernels: by the simulator's
// clock, which has one for each stream, steps take as long as the slowest of copies in, kernels and
// copies out, and not as long as all of them; a value is read before later runs are over. And by
// values: where copies are slow, or early, every step has its own, though tensors are written in
// place and memory is taken again.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <tc/tc.h>

#include "runtime/options.h"
#include "tests/child.h"
#include "tests/sim/built.h"

enum { SIDE = 512, KERNELS = 9, STEPS = 16, DEPTH = 3, N = 700, VALUED_STEPS = 40 };

typedef struct times {  // sim_times
  double host_ms, end_ms, copies_ms, others_ms;
} times;

// A device, and how the simulator runs it.
typedef struct way {
  const char *device, *driver;
  const char *setting[5];
} way;

static void *of_driver(const way *w, const char *name) {
  void *handle = dlopen(built(w->driver), RTLD_NOW | RTLD_LOCAL), *at = handle ? dlsym(handle, name) : NULL;
  EXPECT(at, "no %s", name);
  return at;
}

static times now(const way *w) {
  return ((times(*)(int))of_driver(w, "sim_time"))(0);
}

static void begin(const way *w) {
  for (int i = 0; i < 5 && w->setting[i]; i++) putenv((char *)w->setting[i]);
  tc_options_reload();
  EXPECT_OK(tc_set_default_device(w->device));
}

static void end(const way *w) {
  EXPECT(tc_memory_stats().gpu_live_bytes == 0, "%s: %zu bytes are held", w->device, tc_memory_stats().gpu_live_bytes);
  tc_shutdown();
  EXPECT(((int (*)(void))of_driver(w, "sim_live_objects"))() == 0, "%s: objects of the driver are left", w->device);
  EXPECT(((int (*)(void))of_driver(w, "sim_faults"))() == 0, "%s",
         ((const char *(*)(void))of_driver(w, "sim_fault_text"))());
}

// ---- by the clock ----

// One kernel each.
static tc_tensor chain(tc_tensor x, int n) {
  for (int i = 0; i < n; i++) x = tc_softmax(x, 1);
  return x;
}

static void step(const float *from, float *to) {
  tc_scope s = tc_scope_begin();
  tc_tensor y = chain(tc_from_host(from, TC_SHAPE(SIDE, SIDE), TC_F32), KERNELS);
  EXPECT_OK(tc_to_host_async(y, to, (size_t)SIDE * SIDE * sizeof *to));
  tc_scope_end(s);
}

// How long the steps take, as a share of what all work in them takes one after the other.
static double share(const void *arg) {
  const way *w = arg;
  size_t n = (size_t)SIDE * SIDE;
  float *from = calloc(n, sizeof *from), *to = calloc(n * DEPTH, sizeof *to);
  begin(w);
  step(from, to);  // its kernels are compiled, and memory is taken
  step(from, to);
  EXPECT_OK(tc_sync(NULL));
  times a = now(w);
  for (int k = 0; k < STEPS; k++) {
    if (k >= DEPTH) EXPECT_OK(tc_to_host_wait(to + (size_t)(k % DEPTH) * n));
    step(from, to + (size_t)(k % DEPTH) * n);
  }
  EXPECT_OK(tc_sync(NULL));
  times b = now(w);
  free(from), free(to);
  end(w);
  return (b.end_ms - a.end_ms) / (b.copies_ms - a.copies_ms + b.others_ms - a.others_ms);
}

// When a value is there, as a share of the time until all is done that was asked for before it was
// read.
static double tier_up_time(const void *arg) {
  const way *w = arg;
  const float x[4] = {1, 2, 3, 4};
  float v;
  begin(w);
  tc_tensor t = tc_from_host(x, TC_SHAPE(1, 4), TC_F32), early = tc_sum(t, TC_ALL, false);
  EXPECT_OK(tc_eval(1, &early));
  times a = now(w);
  for (int i = 0; i < 4; i++) {
    tc_tensor later = chain(t, KERNELS);
    EXPECT_OK(tc_eval(1, &later));
  }
  EXPECT_OK(tc_item_f32(early, &v));
  times b = now(w);
  EXPECT_OK(tc_sync(NULL));
  times c = now(w);
  tc_release(early), tc_release(t);
  return (b.host_ms - a.host_ms) / (c.end_ms - a.host_ms);
}

// ---- by values ----

static float value(int step, int i) {
  return (float)((step * 7 + i * 3) % 11);
}

// s = s / 2 + x, in place, while what s was is on its way to the host, and another result's memory
// was given back.
static double values(const void *arg) {
  const way *w = arg;
  static float from[N], got[DEPTH][N], other[DEPTH][N], state[VALUED_STEPS][N];
  int n_wrong = 0;
  begin(w);
  tc_tensor s = tc_zeros(TC_SHAPE(N), TC_F32);
  for (int k = 0; k < VALUED_STEPS + DEPTH; k++) {
    int slot = k % DEPTH;
    if (k >= DEPTH) {
      EXPECT_OK(tc_to_host_wait(got[slot]));
      EXPECT_OK(tc_to_host_wait(other[slot]));
      for (int i = 0; i < N; i++)
        n_wrong += got[slot][i] != state[k - DEPTH][i] || other[slot][i] != 3 * state[k - DEPTH][i] + 1;
    }
    if (k >= VALUED_STEPS) continue;
    for (int i = 0; i < N; i++) from[i] = value(k, i), state[k][i] = (k ? state[k - 1][i] / 2 : 0) + from[i];
    tc_scope scope = tc_scope_begin();
    EXPECT_OK(tc_assign(s, tc_add(tc_mul(s, tc_scalar(0.5)), tc_from_host(from, TC_SHAPE(N), TC_F32))));
    memset(from, 0, sizeof from);  // it may be written again at once
    EXPECT_OK(tc_to_host_async(s, got[slot], sizeof got[slot]));
    EXPECT_OK(tc_to_host_async(tc_add(tc_mul(s, tc_scalar(3)), tc_scalar(1)), other[slot], sizeof other[slot]));
    tc_scope_end(scope);
  }
  EXPECT(n_wrong == 0, "%s, %s: %d elements are wrong", w->device, w->setting[0], n_wrong);
  tc_release(s);
  end(w);
  return n_wrong;
}

int main(void) {
  static const char *const seeds[] = {"TC_SIM_SEED=1", "TC_SIM_SEED=2", "TC_SIM_SEED=3"};
  static const struct {
    const char *device, *driver;
  } devices[] = {{"tc:cuda", "libsim-cuda.so"}, {"tc:hip", "libsim-hip.so"}};
  if (!built_simulators()) return puts("skipped: the simulated driver was not built"), 77;
  for (int d = 0; d < 2; d++) {
    const way idle = {devices[d].device, devices[d].driver, {"TC_SIM_IDLE=1", "TC_SIM_EAGER=0"}};
    double steps = in_child(share, &idle), reading = in_child(tier_up_time, &idle);
    printf(
        "%s: steps take %.2f of what all work in them takes, reading a value %.2f of the time of all that was asked for\n",
        idle.device, steps, reading);
    EXPECT(steps > 0 && steps < 0.5 && reading > 0 && reading < 0.3, "%s: %.2f and %.2f", idle.device, steps, reading);
    for (int i = 0; i < 3; i++) {
      const way slow = {devices[d].device,
                        devices[d].driver,
                        {seeds[i], "TC_GPU_BESIDE=1", "TC_SIM_SLOW_COPIES=1", "TC_SIM_EAGER=0"}};
      const way eager = {devices[d].device, devices[d].driver, {seeds[i], "TC_GPU_BESIDE=1", "TC_SIM_EAGER=60"}};
      EXPECT(in_child(values, &slow) == 0 && in_child(values, &eager) == 0, "%s, seed %d", devices[d].device, i + 1);
    }
  }
  return expect_done("gpu-overlap");
}
