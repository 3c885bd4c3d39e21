// Fragments: a body is traced once, nothing of it stands recorded, and its records taken into a
// trace do what the body would.
#include <criterion/criterion.h>
#include <string.h>
#include <tc/tc.h>

#include "lazy/compile/trace_body.h"
#include "lazy/record/record.h"
#include "lazy/trace/thread_trace.h"

#define OK(call) cr_assert_eq((call), TC_OK, "%s", tc_last_error()->message)
#define EXPECT_SAME(a, b, n) cr_expect_eq(memcmp((a), (b), (n) * sizeof *(a)), 0, "%s and %s differ", #a, #b)
enum { N = 6, MOST = 64 };

static tc_tensor vector(float first) {
  float v[N];
  for (int i = 0; i < N; i++) v[i] = first + 0.5f * (float)i;
  return tc_from_host(v, TC_SHAPE(N), TC_F32);
}

static void read(tc_tensor t, float *out) {
  OK(tc_to_host(t, out, N * sizeof *out));
}

static tc_fragment *traced(tc_compile_fn fn, void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  tc_fragment *f;
  tc_no_fragment why;
  OK(tc_body_trace("test", fn, user, in, n_in, out, n_out, 0, &f, &why));
  cr_assert(f, "%s", why.text);
  return f;
}

// Records the fragment with these arguments.
static void take(const tc_fragment *f, const tc_tensor *in, int n_in, tc_tensor *out) {
  tc_node arg[MOST], operand[MOST];
  tc_trace *t = tc_op_begin("take", 0);
  for (int i = 0; i < n_in; i++) arg[i] = tc_op_in(t, in[i]);
  cr_assert(tc_fragment_operands(t, f, arg, operand));
  tc_node first = tc_fragment_append(t, f, operand);
  cr_assert_neq(first, TC_NODE_ERR);
  cr_assert(tc_fragment_effects(t, f, in, operand, first));
  cr_assert(tc_fragment_results(t, f, in, operand, first, out));
  OK(tc_op_done(t));
}

static uint32_t n_pending(void) {
  return tc_trace_mine ? tc_trace_mine->n_node : 0;
}

// ---- plain bodies ----

static tc_status two_ops(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)user, (void)n_in, (void)n_out;
  out[0] = tc_exp(tc_sub(in[0], in[1]));
  return TC_OK;
}

Test(fragment, a_traced_body_leaves_nothing_recorded) {
  tc_tensor in[] = {vector(1), vector(2)}, out[1];
  tc_fragment *f = traced(two_ops, NULL, in, 2, out, 1);
  cr_expect_eq(f->n_node, 2);
  cr_expect_eq(f->n_operand, 2);
  cr_expect_eq(n_pending(), 2, "the two leaves, not %u", n_pending());
  tc_fragment_release(f);
}

Test(fragment, its_records_compute_what_the_body_does) {
  tc_tensor in[] = {vector(1), vector(2)}, out[1];
  float want[N], got[N];
  read(tc_exp(tc_sub(in[1], in[0])), want);
  tc_fragment *f = traced(two_ops, NULL, in, 2, out, 1);
  tc_tensor turned[] = {in[1], in[0]};
  take(f, turned, 2, out);
  read(out[0], got);
  EXPECT_SAME(got, want, N);
  tc_fragment_release(f);
}

Test(fragment, it_is_taken_amid_other_records) {
  tc_tensor in[] = {vector(1), vector(2)}, out[1];
  float want[N], got[N];
  tc_fragment *f = traced(two_ops, NULL, in, 2, out, 1);
  tc_tensor a = tc_neg(in[0]);
  read(tc_mul(tc_exp(tc_sub(in[1], a)), 3.0), want);
  a = tc_neg(in[0]);
  take(f, (tc_tensor[]){in[1], a}, 2, out);
  read(tc_mul(out[0], 3.0), got);
  EXPECT_SAME(got, want, N);
  tc_fragment_release(f);
}

static tc_status with_found(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  tc_tensor found = *(tc_tensor *)user;
  tc_keep(out[0] = tc_add(tc_mul(in[0], found), 2.0));
  out[1] = in[0], out[2] = found, out[3] = out[0];
  (void)tc_exp(in[0]);
  return TC_OK;
}

Test(fragment, it_holds_the_tensors_that_the_body_found) {
  tc_tensor w = tc_keep(vector(3)), x = vector(1), out[5];
  float want[N], got[N];
  read(tc_add(tc_mul(x, w), 2.0), want);
  tc_fragment *f = traced(with_found, &w, &x, 1, out, 5);
  cr_expect_eq(f->n_node, 3, "what nothing needs is left out: %u", f->n_node);
  take(f, &x, 1, out);
  read(out[0], got);
  EXPECT_SAME(got, want, N);
  cr_expect_eq(out[1].slot, x.slot, "an argument as a result is the argument");
  cr_expect_eq(out[2].slot, w.slot);
  cr_expect_eq(out[3].slot, out[0].slot);
  cr_expect_eq(out[4].gen, 0);
  tc_release(w);
  cr_expect(tc_is_valid(w));
  tc_fragment_release(f);
  cr_expect_not(tc_is_valid(w));
}

// ---- effects ----

static tc_status assigns(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  tc_tensor found = *(tc_tensor *)user;
  OK(tc_assign(found, tc_add(found, in[0])));
  OK(tc_assign(found, tc_mul(found, 2.0)));
  OK(tc_assign(in[0], tc_neg(found)));
  out[0] = tc_add(in[0], 1.0);
  return TC_OK;
}

Test(fragment, it_assigns_what_the_body_does_and_tracing_does_not) {
  tc_tensor w = vector(3), x = vector(1), w2 = vector(3), x2 = vector(1), out[1], out2[1];
  float before[N], after[N], want[3][N], got[3][N];
  read(w, before);
  tc_fragment *f = traced(assigns, &w, &x, 1, out, 1);
  read(w, after);
  EXPECT_SAME(after, before, N);
  for (int i = 0; i < 3; i++) {
    OK(assigns(&w2, &x2, 1, out2, 1));
    take(f, &x, 1, out);
  }
  read(w2, want[0]), read(x2, want[1]), read(out2[0], want[2]);
  read(w, got[0]), read(x, got[1]), read(out[0], got[2]);
  EXPECT_SAME(got[0], want[0], 3 * N);
  tc_fragment_release(f);
}

static tc_status differentiates(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  tc_tensor w = *(tc_tensor *)user;
  out[0] = tc_sum(tc_mul(tc_exp(w), in[0]), TC_ALL, false);
  return tc_backward(out[0]);
}

Test(fragment, a_backward_in_it_sets_and_adds_to_gradients) {
  tc_tensor x = vector(1), w = tc_param(vector(0.1f)), w2 = tc_param(vector(0.1f)), out[1];
  float want[N], got[N];
  OK(tc_eval(2, (tc_tensor[]){w, w2}));
  tc_fragment *first = traced(differentiates, &w, &x, 1, out, 1);
  cr_expect_eq(tc_grad(w).gen, 0, "tracing sets no gradient");
  OK(differentiates(&w2, &x, 1, out, 1));
  take(first, &x, 1, out);
  read(tc_grad(w2), want), read(tc_grad(w), got);
  EXPECT_SAME(got, want, N);
  tc_fragment *second = traced(differentiates, &w, &x, 1, out, 1);
  cr_assert_eq(second->n_grad, 1);
  cr_expect(second->grad[0].had && !first->grad[0].had);
  OK(differentiates(&w2, &x, 1, out, 1));
  take(second, &x, 1, out);
  read(tc_grad(w2), want), read(tc_grad(w), got);
  EXPECT_SAME(got, want, N);
  tc_fragment_release(first), tc_fragment_release(second);
  tc_release(w), tc_release(w2);
}

static tc_status forward(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  out[0] = tc_sum(tc_mul(tc_exp(tc_mul(*(tc_tensor *)user, in[1])), in[0]), TC_ALL, false);
  return TC_OK;
}

Test(fragment, gradients_go_through_it) {
  tc_tensor x = vector(1), w = tc_param(vector(0.1f)), w2 = tc_param(vector(0.1f)), out[1];
  float want[N], got[N];
  OK(tc_eval(2, (tc_tensor[]){w, w2}));
  tc_tensor in[] = {x, tc_sqrt(w)}, in2[] = {x, tc_sqrt(w2)};
  tc_fragment *f = traced(forward, &w, in, 2, out, 1);
  OK(forward(&w2, in2, 2, out, 1));
  OK(tc_backward(out[0]));
  take(f, in, 2, out);
  OK(tc_backward(out[0]));
  read(tc_grad(w2), want), read(tc_grad(w), got);
  EXPECT_SAME(got, want, N);
  tc_fragment_release(f);
  tc_release(w), tc_release(w2);
}

static tc_status draws(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)user, (void)n_in, (void)n_out;
  (void)tc_rand(TC_SHAPE(N), TC_F32);
  out[0] = tc_add(tc_dropout(in[0], 0.5), tc_randn(TC_SHAPE(N), TC_F32));
  return TC_OK;
}

Test(fragment, random_draws_take_the_threads_next_counters) {
  tc_tensor x = vector(1), out[1];
  float want[3][N], got[3][N];
  tc_seed(7);
  for (int i = 0; i < 3; i++) {
    OK(draws(NULL, &x, 1, out, 1));
    read(out[0], want[i]);
  }
  uint64_t counter = tc_get_rng_state().counter;
  tc_seed(3);
  tc_fragment *f = traced(draws, NULL, &x, 1, out, 1);
  cr_expect_eq(tc_get_rng_state().counter, 0);
  tc_seed(7);
  for (int i = 0; i < 3; i++) {
    take(f, &x, 1, out);
    read(out[0], got[i]);
  }
  EXPECT_SAME(got[0], want[0], 3 * N);
  cr_expect_eq(tc_get_rng_state().counter, counter);
  tc_fragment_release(f);
}

// ---- bodies without a graph ----

static void expect_none(tc_compile_fn fn, void *user, const tc_tensor *in, int n_in, tc_tensor *out,
                        const char *words) {
  tc_fragment *f;
  tc_no_fragment why;
  OK(tc_body_trace("test", fn, user, in, n_in, out, 1, 0, &f, &why));
  cr_expect_null(f);
  cr_expect(strstr(why.text, words), "'%s' should say '%s'", why.text, words);
}

static tc_status reads(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)user, (void)n_in, (void)n_out;
  float v[N];
  OK(tc_assign(in[0], tc_add(in[0], 1.0)));
  OK(tc_to_host(in[0], v, sizeof v));
  OK(tc_assign(in[0], tc_mul(in[0], 2.0)));
  out[0] = v[0] > 0 ? tc_neg(in[0]) : in[0];
  return TC_OK;
}

Test(fragment, a_body_with_a_sync_point_stands_recorded_and_arguments_are_assigned) {
  tc_tensor x = vector(1), x2 = vector(1), out[1], out2[1];
  float want[2][N], got[2][N];
  OK(reads(NULL, &x2, 1, out2, 1));
  expect_none(reads, NULL, &x, 1, out, "a value that it reads (to_host at");
  cr_expect(strstr(__FILE__, "test_fragment.c"));
  read(x2, want[0]), read(out2[0], want[1]);
  read(x, got[0]), read(out[0], got[1]);
  EXPECT_SAME(got[0], want[0], 2 * N);
}

static tc_tensor kept;

static tc_status leaves_behind(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)user, (void)n_in, (void)n_out;
  kept = tc_retain(tc_exp(in[0]));
  out[0] = tc_neg(kept);
  return TC_OK;
}

static tc_status copies(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  out[0] = tc_add(in[0], tc_from_host((const float *)user, TC_SHAPE(N), TC_F32));
  return TC_OK;
}

static tc_status differentiates_its_argument(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)user, (void)n_in, (void)n_out;
  out[0] = tc_sum(tc_exp(in[0]), TC_ALL, false);
  return tc_backward_with(out[0], (tc_tensor){0, 0}, TC_RETAIN);
}

Test(fragment, what_a_call_could_not_make_anew_is_no_graph) {
  tc_tensor x = vector(1), out[1];
  float data[N] = {0}, want[N], got[N];
  read(tc_neg(tc_exp(x)), want);
  expect_none(leaves_behind, NULL, &x, 1, out, "a tensor that outlives it");
  read(out[0], got);
  EXPECT_SAME(got, want, N);
  tc_release(kept);
  expect_none(copies, data, &x, 1, out, "memory of the host");
  tc_tensor w = tc_param(vector(1)), y = tc_mul(w, 2.0);
  expect_none(differentiates_its_argument, NULL, &y, 1, out, "a gradient of what was made outside");
  cr_expect(tc_grad(w).gen, "it stands recorded");
  tc_release(w);
}

static tc_status fails(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)user, (void)n_in, (void)n_out;
  out[0] = tc_matmul(in[0], tc_zeros(TC_SHAPE(2, 2), TC_F32));
  return TC_OK;
}

Test(fragment, an_error_in_the_body_is_the_callers) {
  tc_tensor x = vector(1), out[1];
  tc_fragment *f;
  tc_no_fragment why;
  cr_expect_eq(tc_body_trace("test", fails, NULL, &x, 1, out, 1, 0, &f, &why), TC_ERR_SHAPE);
  cr_expect_null(f);
  cr_expect_not(tc_is_valid(out[0]));
  float want[N], got[N];
  read(tc_exp(tc_sub(x, x)), want);
  f = traced(two_ops, NULL, (tc_tensor[]){x, x}, 2, out, 1);
  take(f, (tc_tensor[]){x, x}, 2, out);
  read(out[0], got);
  EXPECT_SAME(got, want, N);
  tc_fragment_release(f);
}

static tc_status calls_another(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_out;
  take(user, in, n_in, out);
  out[0] = tc_neg(out[0]);
  return TC_OK;
}

Test(fragment, a_fragment_taken_in_a_body_is_a_part_of_its_fragment) {
  tc_tensor w = vector(3), x = vector(1), w2 = vector(3), x2 = vector(1), out[1], out2[1];
  float want[3][N], got[3][N];
  tc_fragment *inner = traced(assigns, &w, &x, 1, out, 1), *outer = traced(calls_another, inner, &x, 1, out, 1);
  tc_fragment_release(inner);
  for (int i = 0; i < 2; i++) {
    OK(assigns(&w2, &x2, 1, out2, 1));
    out2[0] = tc_neg(out2[0]);
    take(outer, &x, 1, out);
  }
  read(w2, want[0]), read(x2, want[1]), read(out2[0], want[2]);
  read(w, got[0]), read(x, got[1]), read(out[0], got[2]);
  EXPECT_SAME(got[0], want[0], 3 * N);
  tc_fragment_release(outer);
}
