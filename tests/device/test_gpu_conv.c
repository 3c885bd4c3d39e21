// Convolutions by a vendor's library (device/gpu.h), on the simulated driver and its cuDNN. What calls of libraries have in common is in test_gpu_product.c.
#include "runtime/arena.h"
#include "tests/device/numbers.h"
#include "tests/device/simulated.h"

#define WORK(f) \
  &(tc_gpu_work) { \
    TC_GPU_CONVOLUTIONS, .conv = (f) \
  }
enum { MOST = 16, GUARD = 64, MOST_ELEMENTS = 4096 };  // algorithms; elements behind a result that nobody may touch

static void simulate_library(const char *const *setting) {
  simulate(setting);
  setenv("TC_CUDNN_LIBRARY", built("libsim-cudnn.so"), 1);
  tc_options_reload();
}

static void finish(void) {
  tc_gpu_shutdown();
  cr_expect_eq(CALL(int (*)(void), "sim_faults")(), 0, "%s", CALL(const char *(*)(void), "sim_fault_text")());
  cr_expect_eq(CALL(int (*)(void), "sim_live_objects")(), 0);
}

static bool fail_at(const char *spec) {
  return CALL(bool (*)(const char *), "sim_fail")(spec);
}

// ---- problems ----

// Image, weight, result: how many elements.
typedef struct problem {
  tc_gpu_conv_facts f;
  tc_gpu *g;
  int64_t n[3];
  int made;  // which of them
  char *want;
  void *at[4];  // on the device; the last one: the workspace
} problem;

static int64_t product_of(const int64_t *d, int n) {
  int64_t all = 1;
  for (int i = 0; i < n; i++) all *= d[i];
  return all;
}

// Adds every product of an image's element and a weight to the one that the library should make, by the definition, for up to three axes.
static void sum_up(const problem *p, int *sum) {
  const tc_gpu_conv_facts *f = &p->f;
  int64_t x[3] = {1, 1, 1}, w[3] = {1, 1, 1}, y[3] = {1, 1, 1}, s[3] = {1, 1, 1}, d[3] = {1, 1, 1}, l[3] = {0}, at[3];
  for (int i = 0, k = 3 - f->axes; i < f->axes; i++, k++)
    x[k] = f->image[i], w[k] = f->taps[i], y[k] = f->result[i], s[k] = f->stride[i], d[k] = f->dilation[i], l[k] = f->low[i];
  int64_t in = f->in / f->groups, out = f->out / f->groups, taps = product_of(w, 3), windows = product_of(y, 3), places = product_of(x, 3);
  for (int64_t i = 0; i < f->batch * windows * taps * f->out * in; i++) {
    int64_t c = i % in, o = i / in % f->out, t = i / in / f->out % taps, q = i / in / f->out / taps % windows, b = i / in / f->out / taps / windows;
    int64_t tap[3] = {t / w[2] / w[1], t / w[2] % w[1], t % w[2]}, win[3] = {q / y[2] / y[1], q / y[2] % y[1], q % y[2]};
    bool inside = true;
    for (int k = 0; k < 3; k++) at[k] = win[k] * s[k] + tap[k] * d[k] - l[k], inside &= at[k] >= 0 && at[k] < x[k];
    if (!inside) continue;
    int64_t e[3] = {(b * places + (at[0] * x[1] + at[1]) * x[2] + at[2]) * f->in + o / out * in + c, (o * taps + t) * in + c,
                    (b * windows + q) * f->out + o};
    sum[e[p->made]] += number(e[(p->made + 1) % 3]) * number(e[(p->made + 2) % 3]);
  }
}

static problem problem_make(tc_gpu *g, const tc_gpu_conv_facts *f) {
  problem p = {.f = *f, .g = g, .made = f->direction == TC_GPU_FORWARD ? 2 : f->direction == TC_GPU_BY_IMAGE ? 0 : 1};
  size_t size = tc_type_bytes(f->type);
  static int sum[MOST_ELEMENTS];
  p.n[0] = f->batch * product_of(f->image, f->axes) * f->in, p.n[1] = f->out * product_of(f->taps, f->axes) * (f->in / f->groups);
  p.n[2] = f->batch * product_of(f->result, f->axes) * f->out;
  cr_assert(p.n[0] < MOST_ELEMENTS && p.n[1] < MOST_ELEMENTS && p.n[2] < MOST_ELEMENTS);
  memset(sum, 0, sizeof sum);
  sum_up(&p, sum);
  p.want = calloc((size_t)p.n[p.made] + GUARD, 4);
  for (int64_t i = 0; i < p.n[p.made]; i++) put(f->type, p.want, i, sum[i]);
  for (int k = 0; k < 3; k++) {
    char *host = calloc((size_t)p.n[k] + GUARD, 4);
    for (int64_t i = 0; i < p.n[k] && k != p.made; i++) put(f->type, host, i, number(i));
    OK(tc_gpu_alloc(g, ((size_t)p.n[k] + GUARD) * size, &p.at[k]));
    OK(tc_gpu_write(g, p.at[k], host, ((size_t)p.n[k] + GUARD) * size));
    free(host);
  }
  return p;
}

static void problem_end(problem *p) {
  for (int i = 0; i < 4; i++) tc_gpu_free(p->g, p->at[i]);
  free(p->want);
}

static void say(const problem *p, uint64_t *words) {
  int first = p->made == 0 ? 2 : 0, second = p->made == 1 ? 2 : 1;
  words[0] = (uint64_t)(uintptr_t)p->at[first], words[1] = (uint64_t)(uintptr_t)p->at[second], words[2] = (uint64_t)(uintptr_t)p->at[p->made];
  words[3] = 0, words[4] = (uint64_t)(uintptr_t)p->at[3];
}

// Runs the sequence of this convolution alone, on a result of zeros; whether it is right and the rest of its memory as it was.
static tc_status run(const problem *p, tc_gpu_sequence *s) {
  uint64_t words[5];
  size_t bytes = ((size_t)p->n[p->made] + GUARD) * tc_type_bytes(p->f.type);
  char *got = calloc(1, bytes);
  say(p, words);
  OK(tc_gpu_write(p->g, p->at[p->made], got, bytes));
  tc_status st = tc_gpu_sequence_run(s, words);
  if (st == TC_OK) {
    OK(tc_gpu_read(p->g, got, p->at[p->made], bytes));
    cr_expect_eq(memcmp(got, p->want, bytes), 0, "direction %d, %d channels of %s", p->f.direction, (int)p->f.in, tc_type_name(p->f.type));
  }
  free(got);
  return st;
}

static tc_gpu_call *call_of(problem *p, const tc_gpu_algorithm *a) {
  tc_gpu_call *x;
  OK(tc_gpu_call_create(p->g, WORK(p->f), a, &x));
  tc_gpu_free(p->g, p->at[3]);
  p->at[3] = NULL;
  if (tc_gpu_call_workspace(x)) OK(tc_gpu_alloc(p->g, tc_gpu_call_workspace(x), &p->at[3]));
  return x;
}

static tc_gpu_sequence *sequence_of(tc_gpu *g, tc_gpu_call *x) {
  tc_gpu_sequence *s;
  tc_gpu_launch launch = {.call = x};
  OK(tc_gpu_sequence_create(g, &launch, 1, 5, &s));
  return s;
}

static tc_gpu_conv_facts with_results(tc_gpu_conv_facts f) {
  for (int i = 0; i < f.axes; i++) f.result[i] = (f.image[i] + f.low[i] + f.high[i] - f.dilation[i] * (f.taps[i] - 1) - 1) / f.stride[i] + 1;
  return f;
}

// Of so many axes of 7, taps of 3.
static tc_gpu_conv_facts square(tc_type type, tc_gpu_direction direction, int axes, int64_t stride, int64_t dilation, int64_t low, int64_t high) {
  tc_gpu_conv_facts f = {.type = type, .direction = direction, .axes = axes, .batch = 2, .in = 3, .out = 4, .groups = 1};
  for (int i = 0; i < axes; i++)
    f.image[i] = axes == 3 ? 4 + i : 7 + i, f.taps[i] = axes == 3 ? 2 : 3, f.stride[i] = stride, f.dilation[i] = dilation, f.low[i] = low,
    f.high[i] = high;
  return with_results(f);
}

static tc_gpu_conv_facts usual(void) {
  return square(TC_F32, TC_GPU_FORWARD, 2, 1, 1, 1, 1);
}

// ---- results ----

Test(gpu_conv, every_type_direction_and_shape_by_every_algorithm_launched_and_replayed) {
  simulate_library(NULL);
  tc_gpu *g = open_gpu(0);
  cr_assert_null(tc_gpu_library_absent(g, TC_GPU_CONVOLUTIONS), "%s", tc_gpu_library_absent(g, TC_GPU_CONVOLUTIONS));
  cr_expect_str_eq(tc_gpu_library_name(g, TC_GPU_CONVOLUTIONS), "cuDNN 9.10.2");
  static const tc_type types[] = {TC_F32, TC_F16, TC_BF16};
  for (int i = 0; i < 54; i++) {
    int kind = i / 9;
    tc_gpu_conv_facts f = square(types[i % 3], (tc_gpu_direction)(i / 3 % 3), 1 + (kind + 1) % 3, 1 + kind % 2, 1 + kind / 3, kind % 3, kind / 2);
    if (kind == 5) f.groups = 2, f.in = 4;
    tc_gpu_algorithm a[MOST];
    int n, good = 0;
    OK(tc_gpu_call_find(g, WORK(f), a, MOST, &n));
    // Of the engines that are taken, one wants too much memory and one refuses to be a plan.
    cr_expect_eq(n, kind == 5 ? 2 : f.type == TC_F32 ? 5 : 6, "algorithms of problem %d: %d", i, n);
    for (int k = 0; k < n; k++) {
      problem p = problem_make(g, &f);
      tc_gpu_call *x;
      if (tc_gpu_call_create(g, WORK(f), &a[k], &x) != TC_OK) {
        cr_expect(strstr(tc_last_error()->message, "asking a library for an algorithm: CUDNN_STATUS_NOT_SUPPORTED"), "%s", tc_last_error()->message);
        tc_clear_error();
        problem_end(&p);
        continue;
      }
      tc_gpu_call_release(x);
      x = call_of(&p, &a[k]), good++;
      tc_gpu_sequence *s = sequence_of(g, x);
      tc_gpu_call_release(x);  // the sequence has its own
      for (int time = 0; time < 3; time++) {
        OK(run(&p, s));
        cr_expect_eq(tc_gpu_sequence_plain(s) == NULL, time > 0, "%s", tc_gpu_sequence_plain(s));
      }
      tc_gpu_sequence_destroy(s);
      problem_end(&p);
    }
    cr_expect_eq(good, kind == 5 ? 2 : f.type == TC_F32 ? 3 : 4, "problem %d: %d", i, good);
  }
  finish();
}

// What a run under way uses stays until it is over, and the call's last reference is gone before.
Test(gpu_conv, a_call_is_given_up_behind_its_runs) {
  simulate_library((const char *[]){"TC_SIM_EAGER=0", NULL});
  tc_gpu *g = open_gpu(0);
  tc_gpu_conv_facts f = usual();
  tc_gpu_algorithm a;
  uint64_t words[5], (*calls)(const char *) = CALL(uint64_t (*)(const char *), "sim_calls");
  int n;
  OK(tc_gpu_call_find(g, WORK(f), &a, 1, &n));
  problem p = problem_make(g, &f);
  tc_gpu_call *x = call_of(&p, &a);
  tc_gpu_sequence *s = sequence_of(g, x);
  say(&p, words);
  for (int i = 0; i < 3; i++) OK(tc_gpu_sequence_run(s, words));
  uint64_t before = calls("cudnnBackendDestroyDescriptor");
  tc_gpu_sequence_destroy(s);
  tc_gpu_call_release(x);
  cr_expect_eq(calls("cudnnBackendDestroyDescriptor"), before);
  OK(tc_gpu_wait(g));
  cr_expect(calls("cudnnBackendDestroyDescriptor") > before);
  problem_end(&p);
  finish();
}

// ---- algorithms ----

Test(gpu_conv, an_algorithm_is_its_engine_with_its_knobs) {
  simulate_library((const char *[]){"TC_SIM_ENGINE=1", NULL});
  tc_gpu *g = open_gpu(0);
  tc_gpu_conv_facts f = usual();
  tc_gpu_algorithm a[MOST];
  tc_gpu_call *x;
  uint32_t slot[16];
  int n;
  OK(tc_gpu_call_find(g, WORK(f), a, MOST, &n));
  memcpy(slot, a[0].data, sizeof slot);
  cr_expect(slot[0] == (2u << 24 | 0) && slot[1] == (2u << 24 | 2) && slot[2] == 14u << 24, "%x %x %x", slot[0], slot[1], slot[2]);
  memcpy(slot, a[1].data, sizeof slot);
  cr_expect(slot[0] == (1u << 24 | 1) && slot[1] == (2u << 24 | 3), "%x %x", slot[0], slot[1]);
  OK(tc_gpu_call_create(g, WORK(f), &a[1], &x));
  cr_expect(tc_gpu_call_workspace(x) > 0);
  tc_gpu_call_release(x);
  static const uint32_t wrong[][2] = {{2, 0}, {4, 0}, {7, 0}, {99, 0}, {1u << 24, 3u << 24}, {1u << 24, 2u << 24 | 99}, {255u << 24, 0}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {  // other bits, TF32, unheard of, none; no such knob, no such value, too many
    memset(slot, 0, sizeof slot);
    memcpy(slot, wrong[i], sizeof wrong[i]);
    memcpy(a[0].data, slot, sizeof slot);
    cr_expect_eq(tc_gpu_call_create(g, WORK(f), &a[0], &x), TC_ERR_DEVICE, "%d", (int)i);
    cr_expect_null(x);
    tc_clear_error();
  }
  f.result[0]++;
  FAILS(tc_gpu_call_find(g, WORK(f), a, MOST, &n), TC_ERR_ARG, "is said wrongly");
  f = usual(), f.groups = 2;
  FAILS(tc_gpu_call_find(g, WORK(f), a, MOST, &n), TC_ERR_ARG, "is said wrongly");
  f = usual(), f.type = TC_F64;
  FAILS(tc_gpu_call_find(g, WORK(f), a, MOST, &n), TC_ERR_ARG, "is said wrongly");
  finish();
}

// ---- what may be absent, and fail ----

static const char *absent(const char *path, const char *const *setting) {
  if (path) setenv("TC_CUDNN_LIBRARY", path, 1);
  simulate(setting);
  const char *why = tc_gpu_library_absent(open_gpu(0), TC_GPU_CONVOLUTIONS);
  cr_assert(why);
  tc_gpu_algorithm a[MOST];
  int n;
  FAILS(tc_gpu_call_find(open_gpu(0), WORK(usual()), a, MOST, &n), TC_ERR_DEVICE, why);
  cr_expect_eq(n, 0);
  return why;
}

#define SAYS(text, words) cr_expect(strstr((text), (words)), "\"%s\" is not in \"%s\"", (words), (text))

Test(gpu_conv, without_a_library_one_sentence_says_so) {
  SAYS(absent(NULL, NULL), "a simulated device has no library of convolutions but one that TC_CUDNN_LIBRARY names");
  finish();
}

Test(gpu_conv, a_library_that_does_not_open_is_told) {
  SAYS(absent("/nowhere/libcudnn.so.9", NULL), "cuDNN, NVIDIA's library of convolutions, cannot be opened: /nowhere/libcudnn.so.9");
  finish();
}

Test(gpu_conv, a_library_of_something_else_is_told) {
  SAYS(absent(built("libsim-nvrtc.so"), NULL), "has no cudnnGetVersion: cuDNN 9 is needed");
  finish();
}

Test(gpu_conv, a_library_of_another_version_is_told) {
  SAYS(absent(built("libsim-cudnn.so"), (const char *[]){"TC_SIM_CUDNN=8.9.7,12", NULL}),
       "is cuDNN 8.9.7 for CUDA 12, and for the driver of CUDA 13");
  finish();
}

Test(gpu_conv, a_library_too_new_for_the_driver_is_told) {
  SAYS(absent(built("libsim-cudnn.so"), (const char *[]){"TC_SIM_CUDNN=9.40.0,14", NULL}),
       "is cuDNN 9.40.0 for CUDA 14, and for the driver of CUDA 13");
  finish();
}

Test(gpu_conv, a_library_that_does_not_start_is_told) {
  SAYS(absent(built("libsim-cudnn.so"), (const char *[]){"TC_SIM_FAIL=cudnnCreate:*=1001", NULL}),
       "cuDNN 9.10.2 does not start on tc:cuda: CUDNN_STATUS_NOT_INITIALIZED");
  finish();
}

// Any call to the library may fail: a status, nothing is lost, and the next time it works.
Test(gpu_conv, every_call_of_the_library_may_fail) {
  static const char *const functions[] = {"cudnnBackendCreateDescriptor", "cudnnBackendSetAttribute", "cudnnBackendGetAttribute",
                                          "cudnnBackendFinalize", "cudnnBackendExecute"};
  simulate_library(NULL);
  tc_gpu *g = open_gpu(0);
  tc_gpu_conv_facts f = usual();
  problem p = problem_make(g, &f);
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    bool done = false;
    int failed = 0;
    for (int k = 1; !done; k++) {
      char spec[64];
      tc_gpu_algorithm a;
      tc_gpu_call *x = NULL;
      tc_gpu_sequence *s = NULL;
      int n;
      uint64_t (*calls)(const char *) = CALL(uint64_t (*)(const char *), "sim_calls");
      uint64_t before = calls(functions[i]);
      snprintf(spec, sizeof spec, "%s:%d=4003", functions[i], k);
      cr_assert(k < 1000 && fail_at(spec));
      tc_status st = tc_gpu_call_find(g, WORK(f), &a, 1, &n);
      if (st == TC_OK) st = tc_gpu_call_create(g, WORK(f), &a, &x);
      if (st == TC_OK) s = sequence_of(g, x);
      for (int time = 0; time < 2 && st == TC_OK; time++) st = run(&p, s);
      done = calls(functions[i]) - before < (uint64_t)k;
      // A capture that fails is launched.
      cr_expect(st == TC_OK || (!done && st == TC_ERR_MEMORY), "%s: %s", spec, tc_last_error()->message);
      failed += st != TC_OK;
      cr_assert(fail_at(NULL));
      tc_gpu_sequence_destroy(s);
      tc_gpu_call_release(x);
      tc_clear_error();
    }
    cr_expect(failed > (i < 4 ? 5 : 0), "%s: %d", functions[i], failed);
  }
  problem_end(&p);
  finish();
}

Test(gpu_conv, what_is_not_supported_has_no_algorithms) {
  simulate_library(NULL);
  tc_gpu_algorithm a[MOST];
  int n;
  tc_gpu *g = open_gpu(0);
  OK(tc_gpu_call_find(g, WORK(usual()), a, MOST, &n));
  cr_expect(n > 0);
  // The seventh that is finalized is what asks for engines; any of them before it is an error.
  cr_assert(fail_at("cudnnBackendFinalize:7=3000"));
  OK(tc_gpu_call_find(g, WORK(usual()), a, MOST, &n));
  cr_expect_eq(n, 0);
  cr_assert(fail_at("cudnnBackendFinalize:6=3000"));
  FAILS(tc_gpu_call_find(g, WORK(usual()), a, MOST, &n), TC_ERR_DEVICE, "describing work to its library: CUDNN_STATUS_NOT_SUPPORTED");
  finish();
}
