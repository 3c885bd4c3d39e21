// A GPU that is lost while a program uses it, by a fault or because it vanished, in the calls that
// a user makes: what it holds, and work on it, is an error that says why; work that has nothing to
// do with it goes on at once, on tc:cpu and on devices that answer when they are asked; one that
// does not is not used. Simulated. Each case is a process of its own.
#include <dlfcn.h>
#include <stdlib.h>

#include "runtime/options.h"
#include "tests/child.h"
#include "tests/sim/built.h"

// A driver, and a device that vanishes: what its calls give from then on.
static const struct vendor {
  const char *device, *second, *library, *upload, *wait;
  int gone[6];
} vendors[] = {
    {"tc:cuda", "tc:cuda:1", "libsim-cuda.so", "cuMemcpyHtoDAsync", "cuStreamSynchronize", {999, 46, 101, 100, 3, 4}},
    {"tc:hip", "tc:hip:1", "libsim-hip.so", "hipMemcpyAsync", "hipStreamSynchronize", {999, 101, 100, 3, 4}},
};

static const struct vendor *at;

static void *simulator(void) {
  void *sim = dlopen(built(at->library), RTLD_NOW);
  if (!sim) puts(dlerror()), exit(1);
  return sim;
}

// From now on: "*" is each function of the driver.
static void fail(const char *function, const char *nth_and_result) {
  char rule[96];
  snprintf(rule, sizeof rule, "%s:%s", function, nth_and_result);
  EXPECT(((bool (*)(const char *))dlsym(simulator(), "sim_fail"))(rule), "%s", rule);
}

static void no_mistakes(void) {
  EXPECT(((int (*)(void))dlsym(simulator(), "sim_faults"))() == 0, "%s",
         ((const char *(*)(void))dlsym(simulator(), "sim_fault_text"))());
}

// Nothing is said of another device: neither an error nor a value that is wrong.
static void use(const char *device, float x) {
  const float v[] = {x, 2 * x};
  float sum = 0;
  tc_scope s = tc_scope_begin();
  EXPECT_OK(tc_set_default_device(device));
  tc_tensor a = tc_from_host(v, TC_SHAPE(2), TC_F32);
  EXPECT(tc_is_valid(a) && tc_last_error()->status == TC_OK, "%s", device);
  EXPECT(tc_item_f32(tc_sum(tc_square(a), TC_ALL, false), &sum) == TC_OK && sum == 5 * x * x, "%s: %g", device,
         (double)sum);
  EXPECT(tc_last_error()->status == TC_OK, "%s", device);
  tc_scope_end(s);
}

// An error of the device that is lost, which says why.
static void lost(tc_status st, const char *device, const char *why) {
  const tc_error *e = tc_last_error();
  EXPECT(st == TC_ERR_DEVICE && e->status == st && strstr(e->message, device) && strstr(e->message, why),
         "should say %s, %s", device, why);
  tc_clear_error();
}

static void end(void) {
  use("tc:cpu", 3);
  no_mistakes();
  tc_shutdown();
}

// ---- work that was pending on it ----

// The fault comes as data goes there, while other work is pending, whose plan is known or not.
static void lose(bool known, tc_tensor *out_pending, tc_tensor *out_stored) {
  const float v[] = {1, 2, 3, 4};
  EXPECT_OK(tc_set_default_device(at->device));
  *out_stored = tc_retain(tc_exp(tc_ones(TC_SHAPE(4), TC_F32)));
  EXPECT_OK(tc_eval(1, out_stored));
  if (known) EXPECT_OK(tc_eval(1, (tc_tensor[]){tc_add(tc_zeros(TC_SHAPE(8), TC_F32), 1)}));
  EXPECT_OK(tc_sync(NULL));
  fail(at->upload, "1=700!");
  EXPECT(!tc_is_valid(tc_from_host(v, TC_SHAPE(4), TC_F32)), "it was copied");
  lost(tc_last_error()->status, at->device, "(700)");
  *out_pending = tc_retain(tc_add(tc_zeros(TC_SHAPE(8), TC_F32), 1));  // recording asks nothing of the device
  EXPECT(tc_is_valid(*out_pending), "recorded");
}

static int pending(const void *known) {
  tc_tensor waiting, stored;
  float v[8];
  lose(*(const bool *)known, &waiting, &stored);
  use("tc:cpu", 7);  // the very first op
  use("tc:cpu", 8);
  lost(tc_to_host(waiting, v, sizeof v), at->device, "(700)");
  lost(tc_to_host(stored, v, 16), at->device, "(700)");
  lost(tc_item_f32(tc_sum(tc_mul(stored, 2), TC_ALL, false), v), at->device, "(700)");
  lost(tc_item_f32(tc_sum(tc_mul(waiting, 2), TC_ALL, false), v), at->device, "(700)");
  lost(tc_set_default_device(at->device), at->device, "(700)");
  tc_release(waiting);
  tc_release(stored);
  end();
  return child_failed();
}

// So much is recorded that it must run, which it cannot; what comes next is recorded.
static int pending_much(const void *unused) {
  tc_tensor waiting, stored;
  (void)unused;
  lose(false, &waiting, &stored);
  for (int k = 0; k < 600; k++) EXPECT(tc_is_valid(tc_zeros(TC_SHAPE(8), TC_F32)), "recorded");
  use("tc:cpu", 7);
  end();
  return child_failed();
}

// Where memory of the caller's would have been written, and is not, the next op tells.
static int pending_for_the_caller(const void *unused) {
  float mine[] = {1, 2};
  tc_tensor waiting, stored;
  (void)unused;
  EXPECT_OK(tc_set_default_device(at->device));
  tc_tensor own = tc_borrow(mine, TC_SHAPE(2), TC_F32, TC_WRITABLE, NULL, NULL);
  EXPECT_OK(tc_sync(NULL));
  lose(false, &waiting, &stored);
  EXPECT_OK(tc_assign(own, tc_full(TC_SHAPE(2), 5, TC_F32)));
  EXPECT_OK(tc_set_default_device("tc:cpu"));
  EXPECT(!tc_is_valid(tc_from_host(mine, TC_SHAPE(2), TC_F32)), "nothing is said");
  lost(tc_last_error()->status, at->device, "(700)");
  EXPECT(mine[0] == 1 && mine[1] == 2, "%g %g", (double)mine[0], (double)mine[1]);
  end();
  return child_failed();
}

// ---- one that vanishes: every later call of the driver fails ----

static tc_tensor step(tc_tensor w, tc_tensor x, tc_optimizer *opt) {
  tc_tensor loss = tc_mean(tc_square(tc_sub(tc_matmul(x, w), 1)), TC_ALL, false);
  EXPECT_OK(tc_backward(loss));
  EXPECT_OK(tc_optimizer_step(opt));
  EXPECT_OK(tc_zero_grad(opt));
  return loss;
}

static int vanish(const void *result) {
  char rule[32], number[16];
  float v[8], loss;
  snprintf(rule, sizeof rule, "*=%d", *(const int *)result);
  snprintf(number, sizeof number, "(%d)", *(const int *)result);
  EXPECT_OK(tc_set_default_device("tc:cpu"));
  tc_tensor here = tc_retain(tc_exp(tc_zeros(TC_SHAPE(2), TC_F32)));
  EXPECT_OK(tc_set_default_device(at->device));
  tc_tensor x = tc_retain(tc_ones(TC_SHAPE(2, 4), TC_F32)), w = tc_param(tc_full(TC_SHAPE(4, 2), 0.1f, TC_F32));
  tc_optimizer *opt = tc_sgd(&w, 1, (tc_sgd_options){.lr = 0.01f});
  for (int k = 0; k < 3; k++) EXPECT_OK(tc_item_f32(step(w, x, opt), &loss));
  tc_tensor copied = tc_retain(tc_add(w, 1));
  EXPECT_OK(tc_to_host_async(copied, v, sizeof v));
  fail("*", rule);
  lost(tc_item_f32(step(w, x, opt), &loss), at->device, number);
  lost(tc_to_host(w, v, sizeof v), at->device, number);
  lost(tc_to_host_wait(v), at->device, number);
  lost(tc_set_default_device(at->device), at->device, number);
  EXPECT(tc_to_host(here, v, 8) == TC_OK && v[0] == 1, "a tensor of tc:cpu: %g", (double)v[0]);
  EXPECT_OK(tc_set_default_device("tc"));
  EXPECT(strcmp(tc_get_default_device(), "tc:cpu") == 0, "tc is %s", tc_get_default_device());
  tc_optimizer_destroy(opt);
  tc_release(w), tc_release(x), tc_release(here), tc_release(copied);
  end();
  return child_failed();
}

// ---- others ----

static void lose_the_first(void) {
  EXPECT_OK(tc_set_default_device(at->second));
  use(at->second, 1);
  EXPECT_OK(tc_set_default_device(at->device));
  fail("kernel", "1=719!");
  float v;
  lost(tc_item_f32(tc_sum(tc_exp(tc_ones(TC_SHAPE(3), TC_F32)), TC_ALL, false), &v), at->device, "(719)");
}

static int others_answer(const void *unused) {
  (void)unused;
  lose_the_first();
  use(at->second, 2);
  use(at == vendors ? "tc:hip" : "tc:cuda", 4);
  end();
  return child_failed();
}

// The second one is asked, and does not answer. It is not used, then or later.
static int others_are_gone(const void *unused) {
  float v;
  (void)unused;
  lose_the_first();
  EXPECT_OK(tc_set_default_device(at->second));
  tc_tensor a = tc_retain(tc_exp(tc_ones(TC_SHAPE(3), TC_F32)));
  fail(at->wait, "1=999!");
  for (int k = 0; k < 3; k++)
    lost(tc_item_f32(tc_sum(a, TC_ALL, false), &v), at->second,
         "asked whether it answers, after another device was lost");
  lost(tc_set_default_device(at->second), at->second, "asked whether it answers, after another device was lost");
  use(at == vendors ? "tc:hip" : "tc:cuda", 4);
  end();
  return child_failed();
}

// It refuses to answer. It is asked again before it is used, until it does.
static int others_are_slow_to_answer(const void *unused) {
  float v;
  (void)unused;
  lose_the_first();
  EXPECT_OK(tc_set_default_device(at->second));
  fail(at->wait, "*=1");
  for (int k = 0; k < 3; k++)
    lost(tc_item_f32(tc_sum(tc_exp(tc_ones(TC_SHAPE(3), TC_F32)), TC_ALL, false), &v), at->second,
         "asked whether it answers");
  fail(at->wait, "999=1");
  use(at->second, 2);
  end();
  return child_failed();
}

int main(void) {
  static const bool known[] = {false, true};
  if (!built_simulators()) return puts("skipped: the simulated driver was not built"), 77;
  setenv("TC_COMPILER", "interp", 1);
  setenv("TC_SIM_DEVICES", "2", 1);
  setenv("TC_MAX_NODES", "100", 1);
  unsetenv("TC_DEVICE");
  tc_options_reload();
  for (at = vendors; at < vendors + sizeof vendors / sizeof *vendors; at++) {
    for (int k = 0; k < 2; k++) EXPECT(child_status(pending, &known[k]) == 0, "%s: pending work, %d", at->device, k);
    EXPECT(child_status(pending_much, NULL) == 0, "%s: much pending work", at->device);
    EXPECT(child_status(pending_for_the_caller, NULL) == 0, "%s: pending for the caller", at->device);
    for (int k = 0; k < 6 && at->gone[k]; k++)
      EXPECT(child_status(vanish, &at->gone[k]) == 0, "%s vanishes, %d", at->device, at->gone[k]);
    EXPECT(child_status(others_answer, NULL) == 0, "%s: others answer", at->second);
    EXPECT(child_status(others_are_gone, NULL) == 0, "%s: others are gone", at->second);
    EXPECT(child_status(others_are_slow_to_answer, NULL) == 0, "%s: others are slow", at->second);
  }
  return expect_done("gpu-lost");
}
