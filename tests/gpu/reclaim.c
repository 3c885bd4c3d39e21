// Where a simulated GPU's memory is short: what is cached goes and it is tried again, whatever was
// asked for, without a trace of an error; what then is still short is TC_ERR_MEMORY, whose message
// lists who holds the memory, and the program goes on. Runs do without cached constants that have no
// room.
#include <dlfcn.h>
#include <stdlib.h>

#include "tests/expect.h"
#include "tests/sim/built.h"

#define MIB ((int64_t)1 << 20)
#define PLACE "reclaim.c:"

// What may say that memory is short, in words of either driver.
typedef struct functions {
  const char *device, *library, *load, *pinned, *event, *launch, *instantiate, *replay, *set;
} functions;
static const functions of[] = {
    {"tc:cuda", "libsim-cuda.so", "cuModuleLoadData", "cuMemHostAlloc", "cuEventCreate", "cuLaunchKernel",
     "cuGraphInstantiateWithFlags", "cuGraphLaunch", "cuGraphExecKernelNodeSetParams_v2"},
    {"tc:hip", "libsim-hip.so", "hipModuleLoadData", "hipHostMalloc", "hipEventCreateWithFlags",
     "hipModuleLaunchKernel", "hipGraphInstantiateWithFlags", "hipGraphLaunch", "hipGraphExecKernelNodeSetParams"},
};

static bool (*sim_fail)(const char *spec);

static void short_of(const char *function, const char *nth) {
  char spec[96] = "";
  if (function) snprintf(spec, sizeof spec, "%s:%s=2", function, nth);
  EXPECT(sim_fail(spec), "%s", spec);
}

static void expect_no_error(const char *what) {
  EXPECT(tc_last_error()->status == TC_OK, "%s", what);
  tc_clear_error();
}

static void expect_words(const char *const *words) {
  for (; *words; words++) EXPECT(strstr(tc_last_error()->message, *words), "\"%s\"", *words);
  tc_clear_error();
}

static tc_tensor ones(int64_t mib) {
  return tc_ones(TC_SHAPE(mib * MIB / 4), TC_F32);
}

static tc_status eval(tc_tensor x) {
  return tc_eval(1, &x);
}

// Of a device of 64 MiB.
static void a_list_says_who_holds_the_memory(const functions *f) {
  tc_scope scope = tc_scope_begin();
  float *data = calloc(24, MIB), v = 1;
  char wanted[80];
  EXPECT_OK(tc_set_default_device(f->device));
  tc_tensor a = tc_from_host(data, TC_SHAPE(24 * MIB / 4), TC_F32), b = tc_exp(tc_full(TC_SHAPE(MIB / 4), 0, TC_F32)),
            c = tc_add(b, 1);
  EXPECT_OK(tc_eval(2, (const tc_tensor[]){b, c}));
  EXPECT(eval(ones(48)) == TC_ERR_MEMORY, "48 MiB of 38");
  snprintf(wanted, sizeof wanted, "%s: 50331648 bytes are wanted; ", f->device);
  expect_words((const char *const[]){
      wanted, "of 67108864 bytes are free: 3 tensors hold 26.0 MiB (the largest 24.0 MiB of from_host at ",
      "1.0 MiB of exp at ", "1.0 MiB of add at ", PLACE, "plans' tables ", "kernels, by their images, ",
      "the driver, libraries and other programs ", NULL});
  EXPECT(tc_item_f32(tc_sum(tc_slice(a, 0, 0, 100, 1), TC_ALL, false), &v) == TC_OK && v == 0, "the rest goes on: %g",
         (double)v);
  tc_scope_end(scope);
  EXPECT_OK(tc_sync(NULL));
  expect_no_error("after the list");
  free(data);
}

// On a fresh device, where nothing small lies in between: the second tensor has room only where the
// first one lay.
static void pools_are_given_back_without_an_error(const functions *f) {
  float *data = calloc(56, MIB), v = 0;
  EXPECT_OK(tc_set_default_device(f->device));
  for (int64_t mib = 40; mib <= 56 && data; mib += 16) {
    tc_scope scope = tc_scope_begin();
    data[mib * MIB / 4 - 1] = (float)mib;
    tc_tensor x = tc_from_host(data, TC_SHAPE(mib * MIB / 4), TC_F32);
    EXPECT(tc_is_valid(x), "%d MiB", (int)mib);
    expect_no_error("what was pooled made room");
    EXPECT(mib < 56 || (tc_item_f32(tc_slice(x, 0, mib * MIB / 4 - 1, mib * MIB / 4, 1), &v) == TC_OK && v == 56), "%g",
           (double)v);
    tc_scope_end(scope);
    EXPECT_OK(tc_sync(NULL));
  }
  free(data);
}

// Steps of a plan of three kernels, one of which writes over its operand; other numbers at each
// call, so that nothing is found made. Whether the last was replayed, and why not.
static tc_status run(int shape, double *out, bool *replayed, const char **note) {
  tc_scope scope = tc_scope_begin();
  enum { N = 6 };
  float got[N] = {0};
  tc_tensor w = tc_full(TC_SHAPE(N, 3 + shape), 1, TC_F32), x = tc_full(TC_SHAPE(3 + shape, 3 + shape), 0.5, TC_F32),
            y = w;
  tc_status st = tc_eval(2, (const tc_tensor[]){w, x});
  for (int i = 0; i < 4 && st == TC_OK; i++) {
    y = tc_sum(tc_exp(tc_matmul(w, x)), tc_dims_of(1, (const int64_t[]){1}), false);
    tc_assign(w, tc_mul(tc_add(w, 0.5), 0.5));
    st = tc_eval(2, (const tc_tensor[]){y, w});
  }
  tc_sync_point p = {0};
  if (tc_sync_points(1, &p) == 1) *replayed = p.replayed, *note = p.gpu_note;
  if (st == TC_OK) st = tc_to_host(y, got, sizeof got);
  *out = 0;
  for (int i = 0; i < N; i++) *out += (double)got[i];
  tc_scope_end(scope);
  return st;
}

static int n_shapes;  // each with kernels of its own

static double expected(int shape) {
  double want;
  bool replayed;
  const char *note;
  EXPECT_OK(tc_set_default_device("tc:cpu"));
  EXPECT_OK(run(shape, &want, &replayed, &note));
  return want;
}

static bool near(double a, double b) {
  return a - b < 1e-3 && b - a < 1e-3;
}

static void what_is_short_once_is_tried_again(const functions *f) {
  const char *const functions[] = {f->load, f->pinned, f->event, f->launch, f->instantiate, f->replay, f->set};
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    for (int nth = 1; nth <= 3; nth += 2) {
      double got, want = expected(++n_shapes);
      char text[8];
      bool replayed = false;
      const char *note = NULL;
      snprintf(text, sizeof text, "%d", nth);
      EXPECT_OK(tc_set_default_device(f->device));
      tc_trim();
      short_of(functions[i], text);
      EXPECT(run(n_shapes, &got, &replayed, &note) == TC_OK, "%s fails the %dth time", functions[i], nth);
      EXPECT(near(got, want), "%s fails the %dth time: %g, not %g", functions[i], nth, got, want);
      EXPECT(replayed, "%s fails the %dth time: %s", functions[i], nth, note);
      short_of(NULL, NULL);
      expect_no_error(functions[i]);
    }
  }
}

static void what_is_short_always(const functions *f) {
  double got, want = expected(++n_shapes);
  bool replayed;
  const char *note, *const graphs[] = {f->instantiate, f->replay};
  EXPECT_OK(tc_set_default_device(f->device));
  short_of(f->load, "*");
  EXPECT(run(n_shapes, &got, &replayed, &note) == TC_ERR_MEMORY, "no kernel is loaded");
  expect_words((const char *const[]){"loading a kernel", "tensors hold", NULL});
  short_of(f->launch, "*");
  EXPECT(run(n_shapes, &got, &replayed, &note) == TC_ERR_MEMORY, "nothing is launched");
  expect_words((const char *const[]){"launching ", "hold", NULL});
  short_of(NULL, NULL);
  EXPECT(run(n_shapes, &got, &replayed, &note) == TC_OK && near(got, want), "afterwards: %g, not %g", got, want);
  for (int i = 0; i < 2; i++) {
    want = expected(++n_shapes);
    EXPECT_OK(tc_set_default_device(f->device));
    short_of(graphs[i], "*");
    EXPECT(run(n_shapes, &got, &replayed, &note) == TC_OK && near(got, want), "%s: %g, not %g", graphs[i], got, want);
    EXPECT(!replayed && note && strcmp(note, "memory was short for its graph") == 0, "%s: %s", graphs[i],
           note ? note : "");
    short_of(NULL, NULL);
    expect_no_error(graphs[i]);
  }
}

// Forms of parameters that have no room at once, but have it one after another in a run's arena.
static void forms_are_left_out(const functions *f) {
  enum { N = 4, SIDE = 360, PIECE = 1 << 19, MOST = 128, FREE = 3 };
  tc_scope scope = tc_scope_begin();
  tc_tensor w[N], piece[MOST];
  float *data = calloc(1, PIECE), got = 0;
  int n = 0;
  EXPECT_OK(tc_set_default_device(f->device));
  tc_trim();
  for (int i = 0; i < N; i++) w[i] = tc_param(tc_full(TC_SHAPE(SIDE, SIDE), i, TC_F32));
  EXPECT_OK(tc_eval(N, w));
  for (bool room = true; n < MOST && room; n += room) {
    tc_scope of_one = tc_scope_begin();
    piece[n] = tc_from_host(data, TC_SHAPE(PIECE / 4), TC_F32);
    if ((room = tc_is_valid(piece[n]))) tc_retain(piece[n]);
    tc_scope_end(of_one);
  }
  tc_clear_error();
  for (int i = n; i > n - FREE; i--) tc_release(piece[i - 1]);
  EXPECT_OK(tc_sync(NULL));
  for (int run = 0; run < 2; run++) {
    tc_tensor x = tc_ones(TC_SHAPE(1, SIDE), TC_F32);
    tc_no_grad_begin();
    for (int i = 0; i < N; i++) x = tc_matmul(x, tc_softmax(w[i], 1));
    tc_no_grad_end();
    EXPECT(tc_item_f32(tc_mean(x, TC_ALL, false), &got) == TC_OK && got > 0.99f && got < 1.01f, "%g", (double)got);
    EXPECT(tc_memory_stats().prepared_bytes == 0, "%zu bytes kept", tc_memory_stats().prepared_bytes);
    expect_no_error("forms without room");
  }
  for (int i = 0; i < n - FREE; i++) tc_release(piece[i]);
  for (int i = 0; i < N; i++) tc_release(w[i]);
  tc_scope_end(scope);
  EXPECT_OK(tc_sync(NULL));
  free(data);
}

int main(void) {
  if (!built_simulators()) return printf("skipped: the simulated driver was not built\n"), 77;
  setenv("TC_SIM_MEMORY_MIB", "64", 1);
  setenv("TC_COMPILER", "interp", 1);
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    void *driver = dlopen(built(of[i].library), RTLD_NOW | RTLD_LOCAL);
    *(void **)&sim_fail = driver ? dlsym(driver, "sim_fail") : NULL;
    if (!sim_fail) return printf("%s\n", dlerror()), 1;
    pools_are_given_back_without_an_error(&of[i]);
    a_list_says_who_holds_the_memory(&of[i]);
    what_is_short_once_is_tried_again(&of[i]);
    what_is_short_always(&of[i]);
    forms_are_left_out(&of[i]);
  }
  tc_shutdown();
  return expect_done("gpu-reclaim");
}
