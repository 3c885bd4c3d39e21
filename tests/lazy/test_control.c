// Control flow against the same work written out in C: values, gradients and random draws have the
// same bits. And what is refused, with what it says. Public API only.
#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <tc/control.h>
#include <tc/tc.h>

#define OK(call) cr_assert_eq((call), TC_OK, "%s", tc_last_error()->message)

enum { MOST_STEPS = 40, BATCH = 3 };

// Compares bits, in which -0 is 0: a sum over padded slices makes 0 of it.
static void expect_same(const char *what, tc_tensor a, tc_tensor b) {
  tc_dims da = tc_shape(a), db = tc_shape(b);
  cr_assert(da.rank >= 0 && db.rank >= 0, "%s: %s", what, tc_last_error()->message);
  cr_assert_eq(tc_numel(a), tc_numel(b), "%s", what);
  size_t n = (size_t)tc_numel(a);
  double *x = malloc(n * 8 + 8), *y = malloc(n * 8 + 8);
  OK(tc_to_host(tc_cast(a, TC_F64), x, n * 8));
  OK(tc_to_host(tc_cast(b, TC_F64), y, n * 8));
  for (size_t i = 0; i < n; i++) {
    x[i] += 0.0, y[i] += 0.0;
    cr_assert_eq(memcmp(&x[i], &y[i], 8), 0, "%s: element %zu is %.9g, written out %.9g", what, i, x[i], y[i]);
  }
  free(x);
  free(y);
}

static void expect_error(tc_status st, tc_status want, const char *words) {
  cr_assert_eq(st, want, "%s: %s", tc_status_text(st), tc_last_error()->message);
  cr_assert(strstr(tc_last_error()->message, words), "\"%s\" does not say \"%s\"", tc_last_error()->message, words);
  cr_assert(strstr(tc_last_error()->message, "test_control.c"), "%s", tc_last_error()->message);
}

// ---- a GRU, and its loop ----

static tc_status gru(void *user, const tc_tensor *in, tc_tensor *out) {
  const tc_tensor *w = user, h = in[0], x = in[1];  // w: of x, of h, biases
  tc_tensor of_x = tc_add(tc_matmul(x, w[0]), w[2]), of_h = tc_add(tc_matmul(h, w[1]), w[3]), a[3], b[3];
  int64_t size = tc_shape(h).dim[1];
  tc_status st = tc_split(of_x, size, 1, 3, a);
  if (st == TC_OK) st = tc_split(of_h, size, 1, 3, b);
  if (st != TC_OK) return st;
  tc_tensor r = tc_sigmoid(tc_add(a[0], b[0])), z = tc_sigmoid(tc_add(a[1], b[1]));
  tc_tensor n = tc_tanh(tc_add(a[2], tc_mul(r, b[2])));
  out[0] = out[1] = tc_add(tc_mul(tc_rsub(z, 1), n), tc_mul(z, h));
  return TC_OK;
}

// carry, slices -> last carries, stacked results: as tc_scan, written out.
static void loop(tc_body_fn *body, void *user, const tc_tensor *carry, int n_carry, const tc_tensor *xs, int n_xs,
                 tc_tensor *out, int n_ys, int n_step, bool reverse) {
  tc_tensor in[16], y[8][MOST_STEPS], o[16];
  memcpy(in, carry, (size_t)n_carry * sizeof *in);
  for (int step = 0; step < n_step; step++) {
    int at = reverse ? n_step - 1 - step : step;
    for (int i = 0; i < n_xs; i++) in[n_carry + i] = tc_select(xs[i], 0, at);
    OK(body(user, in, o));
    memcpy(in, o, (size_t)n_carry * sizeof *in);
    for (int i = 0; i < n_ys; i++) y[i][at] = o[n_carry + i];
  }
  memcpy(out, in, (size_t)n_carry * sizeof *in);
  for (int i = 0; i < n_ys; i++) out[n_carry + i] = tc_stack(n_step, y[i], 0);
}

typedef struct gru_case {
  int n_step, size;
  tc_type type;
  bool reverse;
  int loss;  // 0: of all h, 1: of the last, 2: of both, 3: of both, and weights and the first h are used behind
} gru_case;

static tc_tensor loss_of(const gru_case *c, const tc_tensor *p, const tc_tensor *out) {
  tc_tensor all = tc_sum(tc_mul(out[1], out[1]), TC_ALL, false), last = tc_sum(tc_sin(out[0]), TC_ALL, false);
  if (c->loss < 2) return c->loss ? last : all;
  tc_tensor both = tc_add(all, last);
  if (c->loss == 2) return both;
  return tc_add(both, tc_add(tc_sum(tc_square(p[1]), TC_ALL, false), tc_sum(tc_exp(p[5]), TC_ALL, false)));
}

static void check_gru(const gru_case *c) {
  const tc_dims shape[] = {TC_SHAPE(5, 3 * c->size), TC_SHAPE(c->size, 3 * c->size), TC_SHAPE(3 * c->size),
                           TC_SHAPE(3 * c->size),    TC_SHAPE(c->n_step, BATCH, 5),  TC_SHAPE(BATCH, c->size)};
  tc_tensor p[6], g[2][6], out[2][2];
  tc_seed(7);
  for (int i = 0; i < 6; i++) p[i] = tc_param(tc_cast(tc_mul(tc_randn(shape[i], TC_F32), 0.4), c->type));
  OK(tc_eval(6, p));
  for (int how = 0; how < 2; how++) {
    const tc_scan_options o = {.reverse = c->reverse};
    if (how == 0)
      OK(tc_scan(gru, p, &p[5], 1, &p[4], 1, out[0], 1, &o));
    else
      loop(gru, p, &p[5], 1, &p[4], 1, out[1], 1, c->n_step, c->reverse);
    OK(tc_grads_of(loss_of(c, p, out[how]), p, 6, g[how], 0));
  }
  expect_same("the last h", out[0][0], out[1][0]);
  expect_same("all h", out[0][1], out[1][1]);
  for (int i = 0; i < 6; i++) {
    static const char *const names[] = {"w_ih", "w_hh", "b_ih", "b_hh", "x", "h"};
    expect_same(names[i], g[0][i], g[1][i]);
  }
  for (int i = 0; i < 6; i++) tc_release(p[i]);
}

Test(control, a_scanned_gru_trains_with_the_bits_of_the_loop) {
  for (int loss = 0; loss < 4; loss++)
    for (int reverse = 0; reverse < 2; reverse++) check_gru(&(gru_case){9, 16, TC_F32, reverse, loss});
  check_gru(&(gru_case){1, 16, TC_F32, false, 2});
  check_gru(&(gru_case){2, 16, TC_F32, true, 0});
  check_gru(&(gru_case){5, 7, TC_F32, false, 2});  // slices that are not aligned
  check_gru(&(gru_case){5, 3, TC_F64, false, 2});
  check_gru(&(gru_case){4, 16, TC_BF16, false, 2});
  check_gru(&(gru_case){40, 8, TC_F32, false, 2});
}

Test(control, parameters_get_gradients_through_a_scan_and_an_optimizer_trains_them) {
  float first = 0, v = 0;
  tc_seed(1);
  tc_tensor p[4] = {tc_param(tc_mul(tc_randn(TC_SHAPE(5, 24), TC_F32), 0.3)),
                    tc_param(tc_mul(tc_randn(TC_SHAPE(8, 24), TC_F32), 0.3)), tc_param(tc_zeros(TC_SHAPE(24), TC_F32)),
                    tc_param(tc_zeros(TC_SHAPE(24), TC_F32))};
  tc_tensor xs = tc_randn(TC_SHAPE(12, BATCH, 5), TC_F32), h = tc_zeros(TC_SHAPE(BATCH, 8), TC_F32);
  tc_optimizer *opt = tc_adam(p, 4, (tc_adam_options){.lr = 0.02});
  for (int step = 0; step < 20; step++) {
    tc_scope scope = tc_scope_begin();
    tc_tensor out[2];
    OK(tc_scan(gru, p, &h, 1, &xs, 1, out, 1, NULL));
    tc_tensor loss = tc_mean(tc_square(tc_sub(out[0], 0.5)), TC_ALL, false);
    OK(tc_backward(loss));
    OK(tc_optimizer_step(opt));
    OK(tc_zero_grad(opt));
    OK(tc_item_f32(loss, &v));
    if (step == 0) first = v;
    tc_scope_end(scope);
  }
  cr_assert_lt(v, first * 0.5f, "%g to %g", (double)first, (double)v);
  tc_optimizer_destroy(opt);
  for (int i = 0; i < 4; i++) tc_release(p[i]);
}

// ---- several carries, scalars, draws ----

static tc_status mixed(void *user, const tc_tensor *in, tc_tensor *out) {
  const tc_tensor *w = user;
  // carries: a sum, a count, the former x; a slice
  tc_tensor noise = tc_mul(tc_rand_like(in[3]), 0.5);
  out[0] = tc_add(tc_mul(in[0], w[0]), tc_mul(tc_sub(in[3], in[2]), noise));
  out[1] = tc_add(in[1], 1);
  out[2] = in[3];
  out[3] = tc_mul(out[0], tc_cast(in[1], TC_F32));
  out[4] = in[1];
  out[5] = tc_dropout(tc_add(in[3], w[1]), 0.5);
  return TC_OK;
}

Test(control, carries_of_several_types_and_random_draws_are_the_loops) {
  for (int n = 1; n < 8; n += 3) {
    tc_seed(5);
    tc_tensor w[2] = {tc_param(tc_from_host((float[]){0.5f, 2, -1}, TC_SHAPE(3), TC_F32)),
                      tc_param(tc_ones(TC_SHAPE(3), TC_F32))};
    tc_tensor xs = tc_param(tc_randn(TC_SHAPE(n, 3), TC_F32)), wanted[] = {w[0], w[1], xs}, g[2][3], out[2][6],
              behind[2];
    tc_tensor carry[3] = {tc_zeros(TC_SHAPE(3), TC_F32), tc_zeros(TC_SHAPE(), TC_I64), tc_ones(TC_SHAPE(3), TC_F32)};
    OK(tc_eval(3, wanted));
    tc_rng_state state = tc_get_rng_state();
    for (int how = 0; how < 2; how++) {
      OK(tc_set_rng_state(state));
      if (how == 0)
        OK(tc_scan(mixed, w, carry, 3, &xs, 1, out[0], 3, NULL));
      else
        loop(mixed, w, carry, 3, &xs, 1, out[1], 3, n, false);
      behind[how] = tc_rand(TC_SHAPE(4), TC_F32);
      tc_tensor loss = tc_add(tc_sum(out[how][3], TC_ALL, false), tc_sum(tc_square(out[how][5]), TC_ALL, false));
      OK(tc_grads_of(tc_add(loss, tc_sum(tc_square(out[how][0]), TC_ALL, false)), wanted, 3, g[how], 0));
    }
    expect_same("draws behind", behind[0], behind[1]);
    for (int i = 0; i < 6; i++) expect_same("results", out[0][i], out[1][i]);
    for (int i = 0; i < 3; i++) expect_same("gradients", g[0][i], g[1][i]);
    for (int i = 0; i < 3; i++) tc_release(wanted[i]);
  }
}

// ---- nested ----

static tc_status inner(void *user, const tc_tensor *in, tc_tensor *out) {
  out[0] = tc_tanh(tc_add(tc_mul(in[0], *(const tc_tensor *)user), in[1]));
  out[1] = tc_mul(out[0], tc_rand_like(in[0]));
  return TC_OK;
}

typedef struct nest {
  tc_tensor w;
  bool written_out;
} nest;

static tc_status outer(void *user, const tc_tensor *in, tc_tensor *out) {
  nest *n = user;
  tc_tensor o[2];
  if (n->written_out)
    loop(inner, &n->w, &in[0], 1, &in[1], 1, o, 1, 4, false);
  else if (tc_scan(inner, &n->w, &in[0], 1, &in[1], 1, o, 1, NULL) != TC_OK)
    return tc_last_error()->status;
  out[0] = tc_mul(o[0], n->w);
  out[1] = tc_sum(o[1], TC_AXES(0), false);
  return TC_OK;
}

Test(control, a_scan_of_scans_has_the_bits_of_two_loops) {
  tc_seed(2);
  tc_tensor w = tc_param(tc_randn(TC_SHAPE(6), TC_F32)), xs = tc_param(tc_randn(TC_SHAPE(5, 4, 6), TC_F32));
  tc_tensor h = tc_param(tc_randn(TC_SHAPE(6), TC_F32)), wanted[] = {w, xs, h}, g[2][3], out[2][2];
  OK(tc_eval(3, wanted));
  tc_rng_state state = tc_get_rng_state();
  for (int how = 0; how < 2; how++) {
    nest n = {w, how};
    OK(tc_set_rng_state(state));
    if (how == 0)
      OK(tc_scan(outer, &n, &h, 1, &xs, 1, out[0], 1, NULL));
    else
      loop(outer, &n, &h, 1, &xs, 1, out[1], 1, 5, false);
    OK(tc_grads_of(tc_sum(tc_mul(out[how][1], out[how][1]), TC_ALL, false), wanted, 3, g[how], 0));
  }
  expect_same("h", out[0][0], out[1][0]);
  expect_same("ys", out[0][1], out[1][1]);
  for (int i = 0; i < 3; i++) expect_same("gradients", g[0][i], g[1][i]);
}

// ---- gradients of gradients ----

static tc_status cubic(void *user, const tc_tensor *in, tc_tensor *out) {
  const tc_tensor *w = user;
  out[0] = tc_tanh(tc_add(tc_mul(tc_mul(in[0], in[0]), w[0]), tc_mul(in[1], in[0])));
  out[1] = tc_square(out[0]);
  return TC_OK;
}

Test(control, the_gradient_of_a_scans_gradient_is_the_loops) {
  tc_seed(4);
  tc_tensor w = tc_param(tc_randn(TC_SHAPE(3), TC_F64)), xs = tc_param(tc_randn(TC_SHAPE(4, 3), TC_F64));
  tc_tensor h = tc_param(tc_randn(TC_SHAPE(3), TC_F64)), wanted[] = {w, xs, h}, g[2][3], gg[2][3];
  OK(tc_eval(3, wanted));
  for (int how = 0; how < 2; how++) {
    tc_tensor out[2];
    if (how == 0)
      OK(tc_scan(cubic, &w, &h, 1, &xs, 1, out, 1, NULL));
    else
      loop(cubic, &w, &h, 1, &xs, 1, out, 1, 4, false);
    OK(tc_grads_of(tc_sum(out[1], TC_ALL, false), wanted, 3, g[how], TC_CREATE_GRAPH));
    tc_tensor norm = tc_full(TC_SHAPE(), 0, TC_F64);
    for (int i = 0; i < 3; i++) norm = tc_add(norm, tc_sum(tc_square(g[how][i]), TC_ALL, false));
    OK(tc_grads_of(norm, wanted, 3, gg[how], 0));
  }
  for (int i = 0; i < 3; i++) {
    expect_same("gradients", g[0][i], g[1][i]);
    double a[12], b[12];
    size_t n = (size_t)tc_numel(gg[0][i]);
    OK(tc_to_host(gg[0][i], a, n * 8));
    OK(tc_to_host(gg[1][i], b, n * 8));
    for (size_t k = 0; k < n; k++)
      cr_assert_float_eq(a[k], b[k], 1e-12 * (1 + fabs(b[k])), "%zu of %d: %.17g, the loop %.17g", k, i, a[k], b[k]);
  }
}

// ---- without steps, without slices ----

static tc_status doubles(void *user, const tc_tensor *in, tc_tensor *out) {
  (void)user;
  out[0] = tc_mul(in[0], 2);
  return TC_OK;
}

Test(control, a_scan_without_steps_gives_its_carry_and_one_without_slices_has_a_length) {
  float v[3];
  tc_tensor x = tc_param(tc_from_host((float[]){1, 2, 3}, TC_SHAPE(3), TC_F32)), out, g;
  OK(tc_scan(doubles, NULL, &x, 1, NULL, 0, &out, 0, &(tc_scan_options){.length = 0}));
  OK(tc_grads_of(tc_sum(out, TC_ALL, false), &x, 1, &g, 0));
  expect_same("the carry", out, x);
  expect_same("its gradient", g, tc_ones(TC_SHAPE(3), TC_F32));
  OK(tc_scan(doubles, NULL, &x, 1, NULL, 0, &out, 0, &(tc_scan_options){.length = 5}));
  OK(tc_grads_of(tc_sum(out, TC_ALL, false), &x, 1, &g, TC_RETAIN));
  OK(tc_to_host(out, v, sizeof v));
  cr_assert(v[0] == 32 && v[1] == 64 && v[2] == 96);
  OK(tc_to_host(g, v, sizeof v));
  cr_assert(v[0] == 32 && v[2] == 32);
}

Test(control, a_loss_that_was_read_before_the_backward_gives_the_same_gradients) {
  tc_tensor g[2];
  for (int early = 0; early < 2; early++) {
    tc_seed(3);
    tc_tensor w = tc_param(tc_randn(TC_SHAPE(3), TC_F64)), xs = tc_randn(TC_SHAPE(4, 3), TC_F64), out[2];
    tc_tensor h = tc_randn(TC_SHAPE(3), TC_F64);
    OK(tc_scan(cubic, &w, &h, 1, &xs, 1, out, 1, NULL));
    tc_tensor loss = tc_sum(out[1], TC_ALL, false);
    double v;
    if (early) OK(tc_item_f64(loss, &v));
    OK(tc_grads_of(loss, &w, 1, &g[early], 0));
  }
  expect_same("gradients", g[0], g[1]);
}

// ---- cond ----

static tc_status grows(void *user, const tc_tensor *in, tc_tensor *out) {
  out[0] = tc_mul(in[0], *(const tc_tensor *)user);
  out[1] = tc_rand(TC_SHAPE(2), TC_F32);
  return TC_OK;
}

static tc_status sinks(void *user, const tc_tensor *in, tc_tensor *out) {
  out[0] = tc_add(tc_sin(in[0]), tc_square(*(const tc_tensor *)user));
  out[1] = tc_add(tc_rand(TC_SHAPE(2), TC_F32), tc_rand(TC_SHAPE(2), TC_F32));
  return TC_OK;
}

Test(control, cond_runs_the_branch_that_its_bool_says_and_gives_its_gradients) {
  tc_seed(1);
  tc_tensor w = tc_param(tc_randn(TC_SHAPE(4), TC_F32)), x = tc_param(tc_randn(TC_SHAPE(4), TC_F32)), wanted[] = {w, x};
  OK(tc_eval(2, wanted));
  tc_rng_state state = tc_get_rng_state();
  for (int taken = 0; taken < 2; taken++) {
    tc_tensor out[2][2], g[2][2];
    for (int how = 0; how < 2; how++) {
      OK(tc_set_rng_state(state));
      if (how == 0)
        OK(tc_cond(tc_gt(tc_full(TC_SHAPE(), taken, TC_F32), tc_full(TC_SHAPE(), 0.5, TC_F32)), grows, sinks, &w, &x, 1,
                   out[0], 2));
      else
        OK((taken ? grows : sinks)(&w, &x, out[1]));
      tc_tensor behind = tc_sum(tc_square(x), TC_ALL, false);
      OK(tc_grads_of(tc_add(behind, tc_sum(tc_square(out[how][0]), TC_ALL, false)), wanted, 2, g[how], 0));
    }
    for (int i = 0; i < 2; i++) expect_same("results", out[0][i], out[1][i]);
    for (int i = 0; i < 2; i++) expect_same("gradients", g[0][i], g[1][i]);
  }
}

static tc_status one_or_the_other(void *user, const tc_tensor *in, tc_tensor *out) {
  tc_tensor o[2];
  tc_status st = tc_cond(tc_gt(tc_sum(in[0], TC_ALL, false), 0), grows, sinks, user, in, 1, o, 2);
  out[0] = tc_mul(o[0], 0.75);
  out[1] = o[1];
  return st;
}

static tc_status one_or_the_other_in_c(void *user, const tc_tensor *in, tc_tensor *out) {
  bool up = false;
  tc_tensor o[2];
  OK(tc_item_bool(tc_gt(tc_sum(in[0], TC_ALL, false), 0), &up));
  tc_rng_state state = tc_get_rng_state();
  OK((up ? grows : sinks)(user, in, o));
  state.counter += 2;  // a branch takes as many counters as the other
  OK(tc_set_rng_state(state));
  out[0] = tc_mul(o[0], 0.75);
  out[1] = o[1];
  return TC_OK;
}

Test(control, a_branch_inside_a_scan_is_taken_step_by_step) {
  tc_seed(6);
  tc_tensor w = tc_param(tc_from_host((float[]){-1.5f, 1, -2, 0.5f}, TC_SHAPE(4), TC_F32));
  tc_tensor x = tc_param(tc_randn(TC_SHAPE(4), TC_F32)), wanted[] = {w, x}, out[2][2], g[2][2];
  OK(tc_eval(2, wanted));
  tc_rng_state state = tc_get_rng_state();
  OK(tc_scan(one_or_the_other, &w, &x, 1, NULL, 0, out[0], 1, &(tc_scan_options){.length = 9}));
  OK(tc_grads_of(tc_sum(out[0][0], TC_ALL, false), wanted, 2, g[0], 0));
  OK(tc_set_rng_state(state));
  loop(one_or_the_other_in_c, &w, &x, 1, NULL, 0, out[1], 1, 9, false);
  OK(tc_grads_of(tc_sum(out[1][0], TC_ALL, false), wanted, 2, g[1], 0));
  for (int i = 0; i < 2; i++) expect_same("results", out[0][i], out[1][i]);
  for (int i = 0; i < 2; i++) expect_same("gradients", g[0][i], g[1][i]);
}

// ---- while ----

static tc_status is_small(void *user, const tc_tensor *in, tc_tensor *out) {
  out[0] = tc_lt(tc_sum(in[0], TC_ALL, false), *(const tc_tensor *)user);
  return TC_OK;
}

static tc_status counts_up(void *user, const tc_tensor *in, tc_tensor *out) {
  (void)user;
  out[0] = tc_add(tc_mul(in[0], 1.25), tc_rand_like(in[0]));
  out[1] = tc_add(in[1], 1);
  return TC_OK;
}

Test(control, while_runs_until_its_test_is_false) {
  tc_seed(1);
  tc_tensor carry[2] = {tc_ones(TC_SHAPE(5), TC_F32), tc_zeros(TC_SHAPE(), TC_I32)}, out[2],
            limit = tc_full(TC_SHAPE(), 400, TC_F32);
  OK(tc_eval(2, carry));
  tc_rng_state state = tc_get_rng_state();
  OK(tc_while(is_small, counts_up, &limit, carry, 2, out));
  int32_t n, want = 0;
  OK(tc_item_i32(out[1], &n));
  OK(tc_set_rng_state(state));
  tc_tensor in[2] = {carry[0], carry[1]}, o[2];
  for (;; want++) {
    bool on;
    OK(is_small(&limit, in, o));
    OK(tc_item_bool(o[0], &on));
    if (!on) break;
    OK(counts_up(NULL, in, o));
    memcpy(in, o, sizeof in);
  }
  cr_assert_eq(n, want);
  cr_assert_gt(n, 5);
  expect_same("the last carry", out[0], in[0]);
  limit = tc_full(TC_SHAPE(), -1, TC_F32);  // the same plan; no step at all
  OK(tc_while(is_small, counts_up, &limit, carry, 2, out));
  expect_same("the carry", out[0], carry[0]);
}

// ---- checkpoint ----

static tc_status block(void *user, const tc_tensor *in, tc_tensor *out) {
  const tc_tensor *w = user;
  tc_tensor h = in[0];
  for (int i = 0; i < 3; i++) h = tc_dropout(tc_gelu(tc_matmul(h, w[i])), 0.25);
  out[0] = tc_add(h, in[0]);
  return TC_OK;
}

Test(control, a_checkpoint_gives_the_bits_of_the_region_and_draws_alike) {
  tc_tensor g[2][4], y[2], behind[2];
  for (int how = 0; how < 2; how++) {
    tc_seed(9);
    tc_tensor w[4];
    for (int i = 0; i < 3; i++) w[i] = tc_param(tc_mul(tc_randn(TC_SHAPE(16, 16), TC_F32), 0.3));
    tc_tensor x = w[3] = tc_param(tc_randn(TC_SHAPE(8, 16), TC_F32));
    for (int layer = 0; layer < 3; layer++) {
      if (how == 0)
        OK(tc_checkpoint(block, w, &x, 1, &y[0], 1));
      else
        OK(block(w, &x, &y[1]));
      x = y[how];
    }
    behind[how] = tc_rand(TC_SHAPE(3), TC_F32);
    OK(tc_grads_of(tc_mean(tc_square(x), TC_ALL, false), w, 4, g[how], 0));
    OK(tc_eval(4, g[how]));
  }
  expect_same("the result", y[0], y[1]);
  expect_same("draws behind", behind[0], behind[1]);
  for (int i = 0; i < 4; i++) expect_same("gradients", g[0][i], g[1][i]);
}

// ---- plans, threads ----

Test(control, scans_of_any_length_share_the_plan_of_their_body) {
  tc_tensor w[4] = {tc_rand(TC_SHAPE(5, 24), TC_F32), tc_rand(TC_SHAPE(8, 24), TC_F32), tc_rand(TC_SHAPE(24), TC_F32),
                    tc_rand(TC_SHAPE(24), TC_F32)};
  OK(tc_eval(4, w));
  uint64_t misses[3];
  for (int i = 0; i < 3; i++) {
    tc_tensor xs = tc_ones(TC_SHAPE(i + 3, BATCH, 5), TC_F32), h = tc_zeros(TC_SHAPE(BATCH, 8), TC_F32), out[2];
    OK(tc_eval(1, &xs));
    misses[i] = tc_cache_stats().plan_misses;
    OK(tc_scan(gru, w, &h, 1, &xs, 1, out, 1, NULL));
    OK(tc_eval(2, out));
    misses[i] = tc_cache_stats().plan_misses - misses[i];
  }
  cr_assert_eq(misses[0], 2u, "the scan and its body");
  cr_assert_eq(misses[1], 1u);
  cr_assert_eq(misses[2], 1u);
}

static void *scan_in_thread(void *arg) {
  float *sum = arg;
  for (int i = 0; i < 20; i++) {
    tc_scope scope = tc_scope_begin();
    tc_tensor w = tc_full(TC_SHAPE(3), 0.5, TC_F64), xs = tc_ones(TC_SHAPE(6, 3), TC_F64),
              h = tc_ones(TC_SHAPE(3), TC_F64), out[2];
    OK(tc_scan(cubic, &w, &h, 1, &xs, 1, out, 1, NULL));
    OK(tc_item_f32(tc_cast(tc_sum(out[1], TC_ALL, false), TC_F32), sum));
    tc_scope_end(scope);
  }
  return NULL;
}

Test(control, threads_record_and_run_one_body_at_a_time_each) {
  pthread_t thread[4];
  float sum[4];
  for (int i = 0; i < 4; i++) cr_assert_eq(pthread_create(&thread[i], NULL, scan_in_thread, &sum[i]), 0);
  for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
  for (int i = 1; i < 4; i++) cr_assert_eq(sum[i], sum[0]);
}

// ---- wrong use ----

static tc_status reads(void *user, const tc_tensor *in, tc_tensor *out) {
  float v;
  (void)user;
  out[0] = in[0];
  return tc_item_f32(tc_sum(in[0], TC_ALL, false), &v);
}

static tc_status narrows(void *user, const tc_tensor *in, tc_tensor *out) {
  (void)user;
  out[0] = in[0];
  out[1] = tc_sum(in[1], TC_AXES(0), false);
  return TC_OK;
}

static tc_status casts(void *user, const tc_tensor *in, tc_tensor *out) {
  (void)user;
  out[0] = tc_cast(in[0], TC_F64);
  return TC_OK;
}

static tc_status fails(void *user, const tc_tensor *in, tc_tensor *out) {
  (void)user;
  out[0] = tc_matmul(in[0], in[0]);
  return TC_OK;
}

static tc_status gives_up(void *user, const tc_tensor *in, tc_tensor *out) {
  (void)user, (void)in, (void)out;
  return TC_ERR_ARG;
}

static tc_status forgets(void *user, const tc_tensor *in, tc_tensor *out) {
  (void)user, (void)in, (void)out;
  return TC_OK;
}

static tc_status assigns(void *user, const tc_tensor *in, tc_tensor *out) {
  out[0] = tc_add(in[0], 1);
  return tc_assign(*(tc_tensor *)user, out[0]);
}

static tc_status keeps(void *user, const tc_tensor *in, tc_tensor *out) {
  out[0] = tc_add(in[0], 1);
  *(tc_tensor *)user = tc_keep(tc_mul(out[0], 3));
  return TC_OK;
}

static tc_status differentiates(void *user, const tc_tensor *in, tc_tensor *out) {
  out[0] = tc_add(in[0], *(tc_tensor *)user);
  return tc_backward(tc_sum(out[0], TC_ALL, false));
}

static tc_status tests_many(void *user, const tc_tensor *in, tc_tensor *out) {
  (void)user;
  out[0] = tc_gt(in[0], 0);
  return TC_OK;
}

Test(control, errors_say_which_body_result_and_carry) {
  const tc_scan_options three = {.length = 3};
  tc_tensor x = tc_ones(TC_SHAPE(3, 2), TC_F32), y = tc_ones(TC_SHAPE(4), TC_F32), both[] = {x, y}, out[3],
            kept = tc_ones(TC_SHAPE(3, 2), TC_F32);
  expect_error(tc_scan(reads, NULL, &x, 1, NULL, 0, out, 0, &three), TC_ERR_STATE, "inside the body");
  cr_assert(!tc_is_valid(out[0]));
  expect_error(tc_scan(narrows, NULL, both, 2, NULL, 0, out, 0, &three), TC_ERR_SHAPE,
               "scan: carry 1 is f32 [4], and the body gives f32 []");
  expect_error(tc_scan(casts, NULL, &x, 1, NULL, 0, out, 0, &three), TC_ERR_DTYPE,
               "carry 0 is f32 [3, 2], and the body gives f64");
  expect_error(tc_scan(fails, NULL, &x, 1, NULL, 0, out, 0, &three), TC_ERR_SHAPE, "matmul");
  expect_error(tc_scan(gives_up, NULL, &x, 1, NULL, 0, out, 0, &three), TC_ERR_ARG, "the body returned");
  expect_error(tc_scan(forgets, NULL, &x, 1, NULL, 0, out, 0, &three), TC_ERR_ARG, "did not set result 0 of 1");
  expect_error(tc_scan(assigns, &kept, &x, 1, NULL, 0, out, 0, &three), TC_ERR_STATE, "outside");
  expect_error(tc_scan(keeps, &kept, &x, 1, NULL, 0, out, 0, &three), TC_ERR_STATE, "outlives");
  float v[4];
  cr_assert_neq(tc_to_host(kept, v, sizeof v), TC_OK);
  kept = tc_param(tc_ones(TC_SHAPE(2), TC_F32));
  expect_error(tc_scan(differentiates, &kept, &x, 1, NULL, 0, out, 0, &three), TC_ERR_STATE, "tc_grads_of");
  tc_clear_error();  // what assigns and backwards failed with is not told again
  expect_error(tc_scan(doubles, NULL, &x, 1, NULL, 0, out, 0, NULL), TC_ERR_ARG, "how many steps");
  expect_error(tc_scan(narrows, NULL, &x, 1, both, 2, out, 0, NULL), TC_ERR_SHAPE, "scanned tensor 1 are 4");
  expect_error(tc_while(tests_many, doubles, NULL, &x, 1, out), TC_ERR_SHAPE, "one bool");
  expect_error(tc_while(doubles, doubles, NULL, &x, 1, out), TC_ERR_DTYPE, "one bool");
  expect_error(tc_cond(x, doubles, doubles, NULL, &x, 1, out, 1), TC_ERR_DTYPE, "predicate is f32");
  expect_error(tc_cond(tc_gt(x, 0), doubles, doubles, NULL, &x, 1, out, 1), TC_ERR_SHAPE, "predicate is bool [3, 2]");
  expect_error(tc_cond(tc_full(TC_SHAPE(), 1, TC_BOOL), doubles, casts, NULL, &x, 1, out, 1), TC_ERR_DTYPE,
               "of the first body, result 0");
  expect_error(tc_checkpoint(NULL, NULL, &x, 1, out, 1), TC_ERR_ARG, "null");
  // and the thread goes on
  OK(tc_scan(doubles, NULL, &x, 1, NULL, 0, out, 0, &three));
  expect_same("the carry", out[0], tc_full(TC_SHAPE(3, 2), 8, TC_F32));
}

Test(control, a_backward_through_while_says_that_there_is_none) {
  tc_tensor carry[2] = {tc_param(tc_ones(TC_SHAPE(5), TC_F32)), tc_zeros(TC_SHAPE(), TC_I32)}, out[2],
            limit = tc_full(TC_SHAPE(), 20, TC_F32), g;
  OK(tc_while(is_small, counts_up, &limit, carry, 2, out));
  expect_error(tc_grads_of(tc_sum(out[0], TC_ALL, false), carry, 1, &g, 0), TC_ERR_GRAD, "tc_scan");
}

static tc_status ends_all(void *user, const tc_tensor *in, tc_tensor *out) {
  (void)user;
  out[0] = tc_add(in[0], 1);
  tc_shutdown();
  return TC_OK;
}

static tc_status ends_thread(void *user, const tc_tensor *in, tc_tensor *out) {
  (void)user;
  out[0] = tc_add(in[0], 1);
  pthread_exit(NULL);
}

static tc_tensor left;

static void *ends_inside(void *arg) {
  (void)arg;
  tc_tensor x = tc_ones(TC_SHAPE(2), TC_F32), out;
  left = tc_retain(tc_add(x, 1));
  (void)!tc_scan(ends_thread, NULL, &x, 1, NULL, 0, &out, 0, &(tc_scan_options){.length = 3});
  return NULL;
}

Test(control, a_body_may_end_its_thread_or_all_tensors) {
  const tc_scan_options three = {.length = 3};
  pthread_t thread;
  float v[2];
  cr_assert_eq(pthread_create(&thread, NULL, ends_inside, NULL), 0);
  pthread_join(thread, NULL);
  cr_assert_neq(tc_to_host(left, v, sizeof v), TC_OK);
  tc_release(left);
  tc_tensor x = tc_ones(TC_SHAPE(2), TC_F32), out;
  cr_assert_eq(tc_scan(ends_all, NULL, &x, 1, NULL, 0, &out, 0, &three), TC_ERR_HANDLE, "%s", tc_last_error()->message);
  x = tc_ones(TC_SHAPE(2), TC_F32);
  OK(tc_scan(doubles, NULL, &x, 1, NULL, 0, &out, 0, &three));
  OK(tc_to_host(out, v, sizeof v));
  cr_assert_eq(v[1], 8);
}

static tc_status looks_up(void *user, const tc_tensor *in, tc_tensor *out) {
  out[0] = tc_add(in[0], tc_index_select(*(tc_tensor *)user, 0, tc_reshape(in[1], TC_SHAPE(1))));
  return TC_OK;
}

Test(control, an_index_out_of_range_in_a_body_is_told_with_its_line_and_undoes_assigns) {
  tc_tensor table = tc_arange(0, 4, 1, TC_F32), sum = tc_zeros(TC_SHAPE(1), TC_F32),
            at = tc_from_host((int64_t[]){0, 3, 9}, TC_SHAPE(3), TC_I64);
  tc_tensor total = tc_zeros(TC_SHAPE(1), TC_F32), out;
  float v = 5;
  OK(tc_eval(1, &total));
  OK(tc_scan(looks_up, &table, &sum, 1, &at, 1, &out, 0, NULL));
  OK(tc_assign(total, out));
  expect_error(tc_item_f32(out, &v), TC_ERR_INDEX, "index 9");
  OK(tc_item_f32(total, &v));
  cr_assert_eq(v, 0);
}

static tc_status without_gradients(void *user, const tc_tensor *in, tc_tensor *out) {
  (void)user;
  tc_no_grad_begin();
  tc_tensor k = tc_exp(in[0]);
  tc_no_grad_end();
  return out[0] = tc_mul(in[0], k), TC_OK;
}

static tc_status seeds_anew(void *user, const tc_tensor *in, tc_tensor *out) {
  (void)user;
  tc_seed(3);
  return out[0] = tc_add(in[0], tc_rand(TC_SHAPE(2), TC_F32)), TC_OK;
}

Test(control, a_body_that_turns_gradients_off_or_seeds_is_refused) {
  tc_tensor x = tc_ones(TC_SHAPE(2), TC_F32), out;
  tc_seed(3);
  cr_expect_eq(tc_checkpoint(without_gradients, NULL, &x, 1, &out, 1), TC_ERR_STATE);
  cr_expect(strstr(tc_last_error()->message, "calls tc_no_grad_begin") != NULL, "%s", tc_last_error()->message);
  cr_expect_eq(tc_checkpoint(seeds_anew, NULL, &x, 1, &out, 1), TC_ERR_STATE);
  cr_expect(strstr(tc_last_error()->message, "seeds the random numbers") != NULL, "%s", tc_last_error()->message);
}

static tc_status unbalanced(void *user, const tc_tensor *in, tc_tensor *out) {
  if (*(int *)user) {
    tc_no_grad_end();
  } else {
    tc_no_grad_begin();
  }
  return out[0] = tc_exp(in[0]), TC_OK;
}

Test(control, a_body_that_leaves_gradients_off_or_turns_them_on_is_refused_and_nothing_stays) {
  static const char *const words[] = {"calls tc_no_grad_begin",
                                      "has ended a tc_no_grad_begin of its caller's: remove that tc_no_grad_end"};
  tc_tensor w = tc_param(tc_ones(TC_SHAPE(2), TC_F32)), out, yes = tc_full((tc_dims){0}, 1, TC_BOOL);
  for (int k = 0; k < 2; k++) {
    if (k) tc_no_grad_begin();
    expect_error(tc_checkpoint(unbalanced, &k, &w, 1, &out, 1), TC_ERR_STATE, words[k]);
    expect_error(tc_cond(yes, unbalanced, unbalanced, &k, &w, 1, &out, 1), TC_ERR_STATE, words[k]);
    expect_error(tc_scan(unbalanced, &k, &w, 1, NULL, 0, &out, 0, &(tc_scan_options){.length = 2}), TC_ERR_STATE,
                 words[k]);
    cr_expect_eq(tc_requires_grad(tc_neg(w)), k == 0);
    if (k) tc_no_grad_end();
    cr_expect(tc_requires_grad(tc_neg(w)));
  }
  tc_release(w);
}

static tc_status in_strict_region(void *user, const tc_tensor *in, tc_tensor *out) {
  (void)user;
  tc_status st = tc_region_begin(&(tc_region_options){.options = "strict=1"});
  out[0] = tc_exp(in[0]);
  tc_region_end();
  return st;
}

Test(control, a_region_of_other_options_in_a_body_is_refused_at_the_call) {
  tc_tensor x = tc_ones(TC_SHAPE(2), TC_F32), out;
  float v[2];
  expect_error(tc_checkpoint(in_strict_region, NULL, &x, 1, &out, 1), TC_ERR_STATE,
               "begins a region whose options make other plans; begin it around the call");
  expect_error(tc_scan(in_strict_region, NULL, &x, 1, NULL, 0, &out, 0, &(tc_scan_options){.length = 2}), TC_ERR_STATE,
               "begins a region whose options make other plans");
  OK(tc_to_host(tc_neg(x), v, sizeof v));  // no error is left for the next sync point
}
