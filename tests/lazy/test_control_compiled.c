// Control flow inside compiled functions, and compiled functions inside its bodies: what they give is
// what they give without. Public API only.
#include <criterion/criterion.h>
#include <string.h>
#include <tc/compile.h>
#include <tc/control.h>
#include <tc/tc.h>

#define OK(call) cr_assert_eq((call), TC_OK, "%s", tc_last_error()->message)

typedef struct model {
  tc_tensor w;
  tc_compiled *inner;  // NULL: the body computes in C
} model;

static tc_status step(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  const model *m = user;
  out[0] = tc_tanh(tc_add(tc_mul(in[0], m->w), in[1]));
  return TC_OK;
}

static tc_status cell(void *user, const tc_tensor *in, tc_tensor *out) {
  const model *m = user;
  tc_tensor h;
  tc_status st = m->inner ? tc_compiled_call(m->inner, in, 2, &h, 1) : step(user, in, 2, &h, 1);
  out[0] = h;
  out[1] = tc_dropout(h, 0.5);
  return st;
}

static tc_status train(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  tc_tensor o[2];
  tc_status st = tc_scan(cell, user, &in[0], 1, &in[1], 1, o, 1, NULL);
  if (st != TC_OK) return st;
  out[0] = tc_sum(tc_square(o[1]), TC_ALL, false);
  out[1] = o[1];
  return tc_backward(out[0]);
}

// Losses and gradients of three calls, by one way of calling.
static void run_calls(tc_compiled *c, model *m, float *loss, float *grad, float *ys) {
  tc_seed(11);
  tc_tensor h = tc_full(TC_SHAPE(6), 0.25, TC_F32), xs = tc_randn(TC_SHAPE(4, 6), TC_F32);
  OK(tc_eval(2, (tc_tensor[]){h, xs}));
  for (int i = 0; i < 3; i++) {
    tc_scope scope = tc_scope_begin();
    tc_tensor in[2] = {h, xs}, out[2];
    if (c)
      OK(tc_compiled_call(c, in, 2, out, 2));
    else
      OK(train(m, in, 2, out, 2));
    OK(tc_item_f32(out[0], &loss[i]));
    OK(tc_to_host(out[1], ys + i * 24, 24 * sizeof *ys));
    OK(tc_to_host(tc_grad(m->w), grad + i * 6, 6 * sizeof *grad));
    tc_scope_end(scope);
  }
}

Test(control_compiled, a_compiled_scan_draws_and_differentiates_as_one_that_is_called) {
  float loss[3][3], grad[3][18], ys[3][72];
  for (int way = 0; way < 3; way++) {  // plain, compiled, and a compiled function inside the body
    model m = {.w = tc_param(tc_full(TC_SHAPE(6), 0.5, TC_F32))};
    if (way == 2) m.inner = tc_compile(step, &m, NULL);
    tc_compiled *c = way == 1 ? tc_compile(train, &m, NULL) : NULL;
    run_calls(c, &m, loss[way], grad[way], ys[way]);
    tc_compiled_destroy(c);
    tc_compiled_destroy(m.inner);
    tc_release(m.w);
  }
  cr_assert_neq(memcmp(ys[0], ys[0] + 24, 24 * sizeof(float)), 0, "calls draw anew");
  for (int way = 1; way < 3; way++) {
    cr_assert_eq(memcmp(loss[0], loss[way], sizeof loss[0]), 0, "way %d: %g %g %g, plain %g %g %g", way,
                 (double)loss[way][0], (double)loss[way][1], (double)loss[way][2], (double)loss[0][0],
                 (double)loss[0][1], (double)loss[0][2]);
    cr_assert_eq(memcmp(ys[0], ys[way], sizeof ys[0]), 0, "way %d", way);
    cr_assert_eq(memcmp(grad[0], grad[way], sizeof grad[0]), 0, "way %d", way);
  }
}
