// TC_ANOMALY=1: the sync fails that would store the first NaN or infinity, with the op, what it
// had, its line, and of a gradient the forward op's line; what the program meant is no anomaly;
// nothing that was to be assigned has changed.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/options.h"
#include "tests/expect.h"

static char said[1 << 16];

static void listen(const char *line, void *arg) {
  (void)arg;
  size_t n = strlen(said);
  snprintf(said + n, sizeof said - n, "%s\n", line);
}

#define AT TC_STR(__LINE__)
static const char *line_of(const char *site) {
  const char *colon = strrchr(site, ':');
  return colon ? colon + 1 : "";
}

// The value of t, or what its sync fails with.
static tc_status read(tc_tensor t) {
  tc_clear_error();
  said[0] = 0;
  return tc_eval(1, &t);
}

#define EXPECT_MADE(t, words, line) \
  do { \
    EXPECT(read(t) == TC_ERR_ANOMALY, "no anomaly"); \
    EXPECT(strstr(tc_last_error()->message, words) != NULL, "the error lacks \"%s\"", words); \
    EXPECT(strcmp(line_of(tc_last_error()->site), line) == 0, "line %s", line); \
    EXPECT(strstr(said, "TC_ANOMALY: ") && strstr(said, words), "the log lacks it: %s", said); \
    tc_clear_error(); \
  } while (0)
#define EXPECT_FINE(t) EXPECT(read(t) == TC_OK, "an anomaly: %s", said)

static tc_tensor vector(float a, float b) {
  return tc_from_host((const float[]){a, b}, TC_SHAPE(2), TC_F32);
}

static void forward(void) {
  tc_scope s = tc_scope_begin();
  tc_tensor zero = vector(1, 0), one = vector(1, 1), q;
  const char *line;
  q = tc_div(zero, tc_mul(zero, 2)), line = AT;
  EXPECT_MADE(tc_mul(q, 3), "div f32[2] made nan at element 1, of f32[2] 0, f32[2] 0", line);
  q = tc_log(zero), line = AT;
  EXPECT_MADE(tc_sum(q, TC_ALL, false), "log f32[2] made -inf at element 1, of f32[2] 0", line);
  q = tc_mul(tc_cast(one, TC_F16), 60000), line = AT;
  EXPECT_FINE(q);
  q = tc_add(q, q), line = AT;
  EXPECT_MADE(q, "add f16[2] made inf at element 0, of f16[2] 60000, f16[2] 60000", line);
  q = tc_cast(tc_mul(one, 1e6), TC_F16), line = AT;
  EXPECT_MADE(q, "cast f16[2] made inf at element 0", line);
  q = tc_cast(tc_scalar(1e5), TC_F16), line = AT;  // a finite number of the program's
  EXPECT_MADE(q, "made inf at element 0", line);
  // Inside what an op is composed of: the op's own line.
  q = tc_softmax(tc_add(one, -INFINITY), 0), line = AT;
  EXPECT_MADE(q, "softmax f32[2] made nan at element 0, of f32[2]", line);
  q = tc_std(tc_mul(one, 3e38), TC_ALL, 1, false), line = AT;
  EXPECT_MADE(q, " made ", line);
  // The first of several.
  q = tc_exp(tc_mul(one, 100)), line = AT;
  EXPECT_MADE(tc_sub(q, tc_exp(tc_mul(one, 200))), "exp f32[2] made inf at element 0, of f32[2] 100", line);
  // A broadcast operand's element.
  q = tc_div(tc_ones(TC_SHAPE(2, 2), TC_F32), zero), line = AT;
  EXPECT_MADE(q, "made inf at element 1, of f32[2, 2] 1, f32[2] 0", line);
  tc_scope_end(s);
}

static void meant(void) {
  tc_scope s = tc_scope_begin();
  tc_tensor x = vector(1, 0), none = vector(-INFINITY, NAN);
  EXPECT_FINE(tc_full(TC_SHAPE(2), -INFINITY, TC_F32));
  EXPECT_FINE(tc_full(TC_SHAPE(2), -1e30, TC_F16));
  EXPECT_FINE(tc_add(x, -INFINITY));
  EXPECT_FINE(tc_mul(none, 2));
  EXPECT_FINE(tc_cat(2, (tc_tensor[]){none, x}, 0));
  EXPECT_FINE(tc_where(tc_gt(x, 0), tc_log(x), x));  // masked out
  EXPECT_FINE(tc_softmax(tc_masked_fill(x, tc_gt(x, 0.5), -INFINITY), 0));
  EXPECT_FINE(tc_minimum(tc_reciprocal(x), 5));
  EXPECT_FINE(tc_isnan(tc_div(x, x)));
  tc_scope_end(s);
}

static void backward(void) {
  tc_scope s = tc_scope_begin();
  tc_tensor w = tc_param(vector(4, 0)), before = tc_mul(w, 1);
  EXPECT_FINE(before);
  tc_tensor y = tc_sum(tc_sqrt(w), TC_ALL, false), z;
  const char *line, *forward_line;
  tc_status st;
  st = tc_backward(y), line = AT;
  EXPECT_OK(st);
  char words[64];
  snprintf(words, sizeof words, ", a part of the gradient of sqrt at ");
  EXPECT_MADE(tc_grad(w), words, line);
  EXPECT_OK(tc_zero_grad_of(1, &w));
  // In a step, with the history in an earlier run: the parameter stays as it was, and the sync
  // after the step tells.
  tc_optimizer *opt = tc_sgd(&w, 1, (tc_sgd_options){.lr = 0.1});
  z = tc_sqrt(w), forward_line = AT;
  EXPECT_FINE(z);
  EXPECT_OK(tc_backward(tc_sum(tc_mul(z, 2), TC_ALL, false)));
  EXPECT_OK(tc_optimizer_step(opt));
  EXPECT(read(w) == TC_ERR_ANOMALY && strstr(tc_last_error()->message, ", a part of the gradient of sqrt at "),
         "no anomaly");
  const char *told = tc_last_error()->message, *colon = strstr(told, "gradient of sqrt at ");
  colon = colon ? strchr(colon, ':') : NULL;
  EXPECT(colon && strncmp(colon + 1, forward_line, strlen(forward_line)) == 0, "line %s", forward_line);
  tc_clear_error();
  EXPECT_OK(tc_zero_grad(opt));
  float v[2] = {0};
  EXPECT_OK(tc_to_host(w, v, sizeof v));
  EXPECT(v[0] == 4 && v[1] == 0, "the parameter is %g %g", (double)v[0], (double)v[1]);
  // And training goes on.
  EXPECT_OK(tc_backward(tc_sum(tc_square(w), TC_ALL, false)));
  EXPECT_OK(tc_optimizer_step(opt));
  EXPECT_OK(tc_to_host(w, v, sizeof v));
  EXPECT(fabsf(v[0] - 3.2f) < 1e-6f && v[1] == 0, "the parameter is %g %g", (double)v[0], (double)v[1]);
  tc_optimizer_destroy(opt);
  tc_release(w);
  tc_scope_end(s);
}

// An optimizer's own arithmetic: its line.
static void step(void) {
  tc_tensor w = tc_param(vector(1, 2));
  tc_optimizer *opt = tc_adam(&w, 1, (tc_adam_options){.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8});
  EXPECT_OK(tc_backward(tc_sum(tc_mul(w, 1e30), TC_ALL, false)));
  tc_status st;
  const char *line;
  st = tc_optimizer_step(opt), line = AT;
  EXPECT_OK(st);
  EXPECT_MADE(w, " made inf at element 0", line);
  tc_optimizer_destroy(opt);
  tc_release(w);
}

static void off(void) {
  setenv("TC_ANOMALY", "0", 1);
  tc_options_reload();
  tc_scope s = tc_scope_begin();
  EXPECT_FINE(tc_log(vector(0, 1)));
  tc_scope_end(s);
}

int main(void) {
  const char *device = getenv("TC_TEST_DEVICE");
  setenv("TC_ANOMALY", "1", 1);  // before options are read
  if (device) EXPECT_OK(tc_set_default_device(device));
  tc_set_log(listen, NULL);
  forward();
  meant();
  backward();
  step();
  off();
  return expect_done("errors-anomaly");
}
