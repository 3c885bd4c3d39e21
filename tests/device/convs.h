// Convolutions for tests of libraries: small ones with whole numbers, by the definition and on a
// device; and what is the same of every library of them. A test says which it is of: static const
// vendor tested = {..}.
#pragma once

#include "tests/device/numbers.h"
#include "tests/device/simulated.h"

#define WORK(f) \
  &(tc_gpu_work) { \
    TC_GPU_CONVOLUTIONS, .conv = (f) \
  }
enum { MOST = 16, GUARD = 64, MOST_ELEMENTS = 4096 };  // algorithms; elements behind a result that nobody may touch

typedef struct vendor {
  int row;
  const char *driver, *variable, *library;  // the simulated ones; where the library's path stands
  const char *place[2];  // a variable that is set for it, and its value; NULL: none
} vendor;
static const vendor tested;

#define OF_DRIVER(type, name) ((type)symbol_of(tested.driver, name))

static inline tc_gpu *open_tested(void) {
  tc_gpu *g;
  OK(tc_gpu_get(tc_device_of_row(tested.row, 0), &g));
  return g;
}

static inline void set_place(void) {
  if (tested.place[0]) setenv(tested.place[0], tested.place[1], 1);
}

static inline void simulate_library(const char *const *setting) {
  set_place();
  simulate(setting);
  setenv(tested.variable, built(tested.library), 1);
  tc_options_reload();
}

static inline void finish(void) {
  tc_gpu_shutdown();
  cr_expect_eq(OF_DRIVER(int (*)(void), "sim_faults")(), 0, "%s", OF_DRIVER(const char *(*)(void), "sim_fault_text")());
  cr_expect_eq(OF_DRIVER(int (*)(void), "sim_live_objects")(), 0);
}

static inline bool fail_at(const char *spec) {
  return OF_DRIVER(bool (*)(const char *), "sim_fail")(spec);
}

// Image, weight, result: how many elements.
typedef struct problem {
  tc_gpu_conv_facts f;
  tc_gpu *g;
  int64_t n[3];
  int made;  // which of them
  char *want;
  void *at[4];  // on the device; the last one: the workspace
} problem;

static inline int64_t product_of(const int64_t *d, int n) {
  int64_t all = 1;
  for (int i = 0; i < n; i++) all *= d[i];
  return all;
}

// Adds every product of an image's element and a weight to the one that the library should make, by
// the definition, for up to three axes.
static inline void sum_up(const problem *p, int *sum) {
  const tc_gpu_conv_facts *f = &p->f;
  int64_t x[3] = {1, 1, 1}, w[3] = {1, 1, 1}, y[3] = {1, 1, 1}, s[3] = {1, 1, 1}, d[3] = {1, 1, 1}, l[3] = {0}, at[3];
  for (int i = 0, k = 3 - f->axes; i < f->axes; i++, k++)
    x[k] = f->image[i], w[k] = f->taps[i], y[k] = f->result[i], s[k] = f->stride[i], d[k] = f->dilation[i],
    l[k] = f->low[i];
  int64_t in = f->in / f->groups, out = f->out / f->groups, taps = product_of(w, 3), windows = product_of(y, 3),
          places = product_of(x, 3);
  for (int64_t i = 0; i < f->batch * windows * taps * f->out * in; i++) {
    int64_t c = i % in, o = i / in % f->out, t = i / in / f->out % taps, q = i / in / f->out / taps % windows,
            b = i / in / f->out / taps / windows;
    int64_t tap[3] = {t / w[2] / w[1], t / w[2] % w[1], t % w[2]},
            win[3] = {q / y[2] / y[1], q / y[2] % y[1], q % y[2]};
    bool inside = true;
    for (int k = 0; k < 3; k++) at[k] = win[k] * s[k] + tap[k] * d[k] - l[k], inside &= at[k] >= 0 && at[k] < x[k];
    if (!inside) continue;
    int64_t e[3] = {(b * places + (at[0] * x[1] + at[1]) * x[2] + at[2]) * f->in + o / out * in + c,
                    (o * taps + t) * in + c, (b * windows + q) * f->out + o};
    sum[e[p->made]] += number(e[(p->made + 1) % 3]) * number(e[(p->made + 2) % 3]);
  }
}

static inline problem problem_make(tc_gpu *g, const tc_gpu_conv_facts *f) {
  problem p = {.f = *f, .g = g, .made = f->direction == TC_GPU_FORWARD ? 2 : f->direction == TC_GPU_BY_IMAGE ? 0 : 1};
  size_t size = tc_type_bytes(f->type);
  static int sum[MOST_ELEMENTS];
  p.n[0] = f->batch * product_of(f->image, f->axes) * f->in,
  p.n[1] = f->out * product_of(f->taps, f->axes) * (f->in / f->groups);
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

static inline void problem_end(problem *p) {
  for (int i = 0; i < 4; i++) tc_gpu_free(p->g, p->at[i]);
  free(p->want);
}

static inline void say(const problem *p, uint64_t *words) {
  int first = p->made == 0 ? 2 : 0, second = p->made == 1 ? 2 : 1;
  words[0] = (uint64_t)(uintptr_t)p->at[first], words[1] = (uint64_t)(uintptr_t)p->at[second],
  words[2] = (uint64_t)(uintptr_t)p->at[p->made];
  words[3] = 0, words[4] = (uint64_t)(uintptr_t)p->at[3], words[5] = 0;
}

// Runs the sequence of this convolution alone, on a result of zeros; whether it is right and the
// rest of its memory as it was.
static inline tc_status run(const problem *p, tc_gpu_sequence *s) {
  uint64_t words[TC_GPU_CALL_WORDS];
  size_t bytes = ((size_t)p->n[p->made] + GUARD) * tc_type_bytes(p->f.type);
  char *got = calloc(1, bytes);
  say(p, words);
  OK(tc_gpu_write(p->g, p->at[p->made], got, bytes));
  tc_status st = tc_gpu_sequence_run(s, words);
  if (st == TC_OK) {
    OK(tc_gpu_read(p->g, got, p->at[p->made], bytes));
    cr_expect_eq(memcmp(got, p->want, bytes), 0, "direction %d, %d channels of %s", p->f.direction, (int)p->f.in,
                 tc_type_name(p->f.type));
  }
  free(got);
  return st;
}

static inline tc_gpu_call *call_of(problem *p, const tc_gpu_algorithm *a) {
  tc_gpu_call *x;
  OK(tc_gpu_call_create(p->g, WORK(p->f), a, &x));
  tc_gpu_free(p->g, p->at[3]);
  p->at[3] = NULL;
  if (tc_gpu_call_workspace(x)) OK(tc_gpu_alloc(p->g, tc_gpu_call_workspace(x), &p->at[3]));
  return x;
}

// The algorithm's results, launched once and replayed twice; false: the library refuses it, with
// these words.
static inline bool computes(tc_gpu *g, const tc_gpu_conv_facts *f, const tc_gpu_algorithm *a, const char *refusal) {
  tc_gpu_call *x;
  if (tc_gpu_call_create(g, WORK(*f), a, &x) != TC_OK) {
    cr_expect(strstr(tc_last_error()->message, refusal), "%s", tc_last_error()->message);
    tc_clear_error();
    return false;
  }
  tc_gpu_call_release(x);
  problem p = problem_make(g, f);
  x = call_of(&p, a);
  tc_gpu_sequence *s = sequence_of(g, x);
  tc_gpu_call_release(x);  // the sequence has its own
  for (int time = 0; time < 3; time++) {
    OK(run(&p, s));
    cr_expect_eq(tc_gpu_sequence_plain(s) == NULL, time > 0, "%s", tc_gpu_sequence_plain(s));
  }
  tc_gpu_sequence_destroy(s);
  problem_end(&p);
  return true;
}

// In each direction runs whose operands and result are elsewhere each time, by the library's first
// choice.
static inline void replays_at_ever_new_addresses(tc_gpu *g, tc_gpu_conv_facts f) {
  tc_gpu_algorithm a;
  int n;
  OK(tc_gpu_call_find(g, WORK(f), &a, 1, &n));
  cr_assert(n > 0);
  problem p[7];
  p[0] = problem_make(g, &f);
  tc_gpu_call *x = call_of(&p[0], &a);
  tc_gpu_sequence *s = sequence_of(g, x);
  for (int time = 0; time < 7; time++) {
    if (time > 0) p[time] = problem_make(g, &f), p[time].at[3] = p[0].at[3];
    OK(run(&p[time], s));
    cr_expect_eq(tc_gpu_sequence_plain(s) == NULL, time > 3, "%s", tc_gpu_sequence_plain(s));
  }
  size_t elements = (size_t)(p[0].n[0] + p[0].n[1] + p[0].n[2]);
  cr_expect_eq(tc_gpu_sequence_copied(s), elements * tc_type_bytes(f.type), "%zu bytes", tc_gpu_sequence_copied(s));
  for (int time = 0; time < 7; time++) {
    if (time > 0) p[time].at[3] = NULL;
    problem_end(&p[time]);
  }
  tc_gpu_sequence_destroy(s);
  tc_gpu_call_release(x);
}

static inline tc_gpu_conv_facts with_results(tc_gpu_conv_facts f) {
  for (int i = 0; i < f.axes; i++)
    f.result[i] = (f.image[i] + f.low[i] + f.high[i] - f.dilation[i] * (f.taps[i] - 1) - 1) / f.stride[i] + 1;
  return f;
}

// Of so many axes of 7, taps of 3.
static inline tc_gpu_conv_facts square(tc_type type, tc_gpu_direction direction, int axes, int64_t stride,
                                       int64_t dilation, int64_t low, int64_t high) {
  tc_gpu_conv_facts f = {
      .type = type, .direction = direction, .axes = axes, .batch = 2, .in = 3, .out = 4, .groups = 1};
  for (int i = 0; i < axes; i++)
    f.image[i] = axes == 3 ? 4 + i : 7 + i, f.taps[i] = axes == 3 ? 2 : 3, f.stride[i] = stride,
    f.dilation[i] = dilation, f.low[i] = low, f.high[i] = high;
  return with_results(f);
}

static inline tc_gpu_conv_facts usual(void) {
  return square(TC_F32, TC_GPU_FORWARD, 2, 1, 1, 1, 1);
}

// Why the library at the path, or without one named, is not there.
static inline const char *absent(const char *path, const char *const *setting) {
  if (path) setenv(tested.variable, path, 1);
  set_place();
  simulate(setting);
  const char *why = tc_gpu_library_absent(open_tested(), TC_GPU_CONVOLUTIONS);
  cr_assert(why);
  tc_gpu_algorithm a[MOST];
  int n;
  FAILS(tc_gpu_call_find(open_tested(), WORK(usual()), a, MOST, &n), TC_ERR_DEVICE, why);
  cr_expect_eq(n, 0);
  return why;
}

// Each time that a convolution's making and runs call the function it fails once: that is a status
// of no memory, a launch that is asked for again, or a graph that is not made; nothing is lost, and
// the next time it works. least: times that it was a status.
static inline void may_fail(tc_gpu *g, const problem *p, const char *function, int result, int least, int most) {
  uint64_t (*calls)(const char *) = OF_DRIVER(uint64_t (*)(const char *), "sim_calls");
  bool done = false;
  int failed = 0;
  for (int k = 1; !done; k++) {
    char spec[96];
    tc_gpu_algorithm a;
    tc_gpu_call *x = NULL;
    tc_gpu_sequence *s = NULL;
    int n = 0;
    uint64_t before = calls(function);
    snprintf(spec, sizeof spec, "%s:%d=%d", function, k, result);
    cr_assert(k < most && fail_at(spec));
    tc_status st = tc_gpu_call_find(g, WORK(p->f), &a, 1, &n);
    if (st == TC_OK) st = tc_gpu_call_create(g, WORK(p->f), &a, &x);
    if (st == TC_OK) s = sequence_of(g, x);
    for (int time = 0; time < 2 && st == TC_OK; time++) st = run(p, s);
    done = calls(function) - before < (uint64_t)k;
    // A capture that fails is launched.
    cr_expect(st == TC_OK || (!done && st == TC_ERR_MEMORY), "%s: %s", spec, tc_last_error()->message);
    failed += st != TC_OK;
    cr_assert(fail_at(NULL));
    tc_gpu_sequence_destroy(s);
    tc_gpu_call_release(x);
    tc_clear_error();
  }
  cr_expect(failed >= least, "%s: %d", function, failed);
}
