// A program that looks at its sync points alone hears of everything that failed: of runs nobody
// asked for, which undo assigns, and of calls that are all effect. It hears once, and not of what
// it has dealt with by clearing the error.
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <tc/tc.h>

#include "tests/expect.h"

#pragma GCC diagnostic ignored "-Wunused-result"  // it is what follows that is looked at

enum { WIDTH = 256, LAYERS = 6, ROWS = 512 };

typedef struct net {
  tc_tensor w[LAYERS], x;
  tc_optimizer *opt;
} net;

static void net_init(net *m) {
  tc_seed(1);
  tc_scope scope = tc_scope_begin();
  for (int i = 0; i < LAYERS; i++) m->w[i] = tc_param(tc_mul(tc_randn(TC_SHAPE(WIDTH, WIDTH), TC_F32), 0.1));
  m->x = tc_retain(tc_randn(TC_SHAPE(ROWS, WIDTH), TC_F32));
  m->opt = tc_adam(m->w, LAYERS, (tc_adam_options){.lr = 1e-3, TC_ADAM_DEFAULTS});
  EXPECT_OK(tc_eval(1, &m->x));
  tc_scope_end(scope);
}

static void net_fini(net *m) {
  tc_optimizer_destroy(m->opt);
  for (int i = 0; i < LAYERS; i++) tc_release(m->w[i]);
  tc_release(m->x);
  tc_trim();
}

static double sum_of(tc_tensor t) {
  float sum = NAN;
  tc_scope scope = tc_scope_begin();
  EXPECT_OK(tc_item_f32(tc_sum(t, TC_ALL, false), &sum));
  tc_scope_end(scope);
  return (double)sum;
}

// README's loop: only the loss is looked at.
static tc_status step(const net *m, float *loss) {
  tc_scope outer = tc_scope_begin(), inner = tc_scope_begin();
  tc_tensor h = m->x;
  for (int i = 0; i < LAYERS; i++) h = tc_tanh(tc_matmul(h, m->w[i]));
  tc_tensor mean = tc_mean(tc_square(h), TC_ALL, false);
  (void)tc_backward(mean);
  (void)tc_optimizer_step(m->opt);
  (void)tc_zero_grad(m->opt);
  tc_keep(mean);
  tc_scope_end(inner);
  tc_status st = tc_item_f32(mean, loss);
  tc_scope_end(outer);
  return st;
}

// Whatever memory a step finds, either it trains or the loss's item fails.
static void a_step_trains_or_fails(void) {
  for (uint64_t extra = 1 << 20; extra <= 16 << 20; extra += 1 << 20) {
    net m;
    float loss;
    net_init(&m);
    double before = sum_of(m.w[0]);
    EXPECT_OK(tc_set_memory_cap(tc_memory_stats().live_bytes + extra));
    tc_status st = step(&m, &loss);
    EXPECT_OK(tc_set_memory_cap(0));
    tc_clear_error();
    double after = sum_of(m.w[0]);
    EXPECT(st == TC_OK || st == TC_ERR_MEMORY, "with %llu bytes: %s", (unsigned long long)extra, tc_status_text(st));
    EXPECT((st == TC_OK) == (before != after), "with %llu bytes the loss is %s and the parameters %s",
           (unsigned long long)extra, st == TC_OK ? "there" : "an error", before == after ? "as they were" : "new");
    net_fini(&m);
  }
}

// x grown by n ops, so that a scope's end, or the next read, runs what was assigned meanwhile.
static tc_tensor grown(tc_tensor x, int n) {
  for (int i = 0; i < n; i++) x = tc_sin(tc_add(x, 1));
  return tc_sum(x, TC_ALL, false);
}

static tc_tensor out_of_range(tc_tensor x) {
  return tc_index_select(x, 0, tc_from_host((int64_t[]){0, 1, 2, 99}, TC_SHAPE(4), TC_I64));
}

// Whatever is missing, of results, of what stays for recipes and of old content that is wanted yet:
// a sync that fails has changed no assigned tensor, and one that does not has kept what was made of
// the old value.
static void what_fails_has_assigned_nothing(void) {
  enum { N = 20000 };
  static float theirs[N], old[N];
  int n_failed = 0, n_ran = 0;
  for (size_t room = 1; room < 8 * N * sizeof(float); room = room < 2048 ? room + 64 : room + 8000) {
    float v, first[2], sum;
    tc_scope scope = tc_scope_begin();
    tc_tensor w[2] = {tc_zeros(TC_SHAPE(N), TC_F32),
                      tc_borrow(memset(theirs, 0, sizeof theirs), TC_SHAPE(N), TC_F32, TC_WRITABLE, NULL, NULL)};
    for (int i = 0; i < 2; i++) EXPECT_OK(tc_assign(w[i], tc_add(w[i], 1)));
    EXPECT_OK(tc_sync(NULL));
    tc_tensor recipe = tc_mul(w[1], 2), was = tc_mul(tc_add(w[0], w[1]), 3);  // alive, and nobody asks for them
    tc_scope inner = tc_scope_begin();
    tc_tensor total = tc_keep(tc_sum(tc_add(recipe, 1), TC_ALL, false));
    for (int i = 0; i < 2; i++) EXPECT_OK(tc_assign(w[i], tc_add(w[i], 1)));
    tc_scope_end(inner);
    tc_trim();
    EXPECT_OK(tc_set_memory_cap(tc_memory_stats().live_bytes + room));
    bool failed = tc_item_f32(total, &v) != TC_OK;
    EXPECT_OK(tc_set_memory_cap(0));
    tc_clear_error();
    for (int i = 0; i < 2; i++) EXPECT_OK(tc_item_f32(tc_select(w[i], 0, 7), &first[i]));
    EXPECT(first[0] == (failed ? 1 : 2) && first[1] == first[0] && theirs[7] == first[1],
           "with room for %zu bytes, %s: %g and %g, %g in the caller's memory", room, failed ? "failed" : "done",
           (double)first[0], (double)first[1], (double)theirs[7]);
    // Where there was no room for a record of the run that failed, pending values are lost, which
    // is said.
    tc_status lost = tc_to_host(was, old, sizeof old), lost_too = tc_item_f32(tc_sum(recipe, TC_ALL, false), &sum);
    EXPECT(failed || (lost == TC_OK && lost_too == TC_OK), "lost by a run that did not fail");
    EXPECT((lost || old[7] == 6) && (lost_too || sum == 2 * N), "with room for %zu bytes the old values give %g and %g",
           room, (double)old[7], (double)sum);
    tc_clear_error();
    tc_scope_end(scope);
    n_failed += failed, n_ran += !failed;
  }
  EXPECT(n_failed > 10 && n_ran > 3, "%d failed, %d ran", n_failed, n_ran);
}

static void a_cut_that_fails_is_told(int n_ops) {
  float v = 0, kept[4];
  tc_scope scope = tc_scope_begin();
  tc_tensor x = tc_ones(TC_SHAPE(4), TC_F32), state = tc_zeros(TC_SHAPE(4), TC_F32);
  EXPECT_OK(tc_eval(2, (tc_tensor[]){x, state}));
  tc_scope inner = tc_scope_begin();
  tc_tensor sum = tc_keep(grown(x, n_ops));
  (void)tc_assign(state, out_of_range(x));
  tc_scope_end(inner);
  EXPECT(tc_item_f32(sum, &v) != TC_OK && strstr(tc_last_error()->message, "index 99"), "%d ops: the sum was read",
         n_ops);
  tc_clear_error();
  EXPECT_OK(tc_item_f32(sum, &v));
  EXPECT_OK(tc_to_host(state, kept, sizeof kept));
  EXPECT(kept[0] == 0 && kept[3] == 0, "%g", (double)kept[0]);
  tc_scope_end(scope);
}

// Calls that fail at once, and are not looked at, but for clearing the error where the program
// does.
static void failed_effects_are_told(void) {
  tc_scope scope = tc_scope_begin();
  tc_tensor a = tc_ones(TC_SHAPE(2), TC_F32), wrong = tc_ones(TC_SHAPE(3), TC_F32);
  for (int clears = 0; clears < 2; clears++) {
    for (int which = 0; which < 4; which++) {
      float v;
      if (which == 0) (void)tc_assign(a, wrong);
      if (which == 1) (void)tc_assign_slice(a, NULL, NULL, NULL, wrong);
      if (which == 2) (void)tc_backward(tc_sum(a, TC_ALL, false));
      if (which == 3) (void)tc_optimizer_step(NULL);
      tc_status first = tc_last_error()->status;
      EXPECT(first != TC_OK, "call %d did not fail", which);
      if (clears) tc_clear_error();
      tc_status st = tc_item_f32(tc_sum(a, TC_ALL, false), &v);
      EXPECT(st == (clears ? TC_OK : first), "call %d, error %s: %s", which, clears ? "cleared" : "not looked at",
             tc_status_text(st));
      tc_clear_error();
      EXPECT_OK(which % 2 ? tc_sync(NULL) : tc_eval(1, &a));
    }
  }
  (void)tc_assign(a, wrong);
  EXPECT(tc_eval(1, &a) == TC_ERR_SHAPE, "eval does not tell");
  tc_clear_error();
  (void)tc_assign(a, wrong);
  EXPECT(tc_sync(NULL) == TC_ERR_SHAPE, "sync does not tell");
  tc_clear_error();
  tc_scope_end(scope);
}

// What was settled does not stand before what fails next.
static void a_second_failure_is_told(void) {
  float v;
  tc_scope scope = tc_scope_begin();
  tc_tensor a = tc_ones(TC_SHAPE(2), TC_F32), wrong = tc_ones(TC_SHAPE(3), TC_F32), one = tc_ones(TC_SCALAR, TC_F32);
  (void)tc_assign(a, wrong);
  tc_clear_error();
  (void)tc_assign(a, wrong);
  EXPECT(tc_item_f32(one, &v) == TC_ERR_SHAPE, "the second assign's failure is lost");
  tc_clear_error();
  EXPECT_OK(tc_item_f32(one, &v));
  tc_scope_end(scope);
}

// A run that nobody waited for and that undid an assign stays deferred, whatever an op and clearing its
// error do afterwards.
static void a_silent_failure_outlives_an_ops(void) {
  float v;
  tc_scope scope = tc_scope_begin();
  tc_tensor x = tc_ones(TC_SHAPE(4), TC_F32), state = tc_zeros(TC_SHAPE(4), TC_F32), one = tc_ones(TC_SCALAR, TC_F32);
  EXPECT_OK(tc_eval(3, (tc_tensor[]){x, state, one}));
  tc_scope inner = tc_scope_begin();
  tc_tensor kept = tc_keep(grown(x, 300));
  (void)tc_assign(state, out_of_range(x));
  tc_scope_end(inner);
  tc_clear_error();
  EXPECT(tc_backward(kept) != TC_OK, "a value that a run lost has gradients");
  tc_clear_error();
  EXPECT(tc_item_f32(one, &v) != TC_OK, "the run that a scope's end began is forgotten");
  tc_clear_error();
  EXPECT_OK(tc_item_f32(one, &v));
  tc_scope_end(scope);
}

// Told once, though the value that is read is no value.
static void poison_is_told_with_it(void) {
  float v;
  tc_scope scope = tc_scope_begin();
  tc_tensor loss = tc_matmul(tc_ones(TC_SHAPE(2, 3), TC_F32), tc_ones(TC_SHAPE(2, 3), TC_F32)),
            one = tc_ones(TC_SCALAR, TC_F32);
  (void)tc_backward(loss);
  EXPECT(tc_item_f32(loss, &v) == TC_ERR_SHAPE, "a loss of wrong shapes was read");
  EXPECT_OK(tc_item_f32(one, &v));
  tc_clear_error();
  tc_scope_end(scope);
}

// Making an optimizer computes its parameters, and has nothing to do with what failed before.
static void an_optimizer_is_made(void) {
  float v;
  tc_scope scope = tc_scope_begin();
  tc_tensor a = tc_param(tc_ones(TC_SHAPE(2), TC_F32)), wrong = tc_ones(TC_SHAPE(3), TC_F32);
  (void)tc_assign(a, wrong);
  tc_optimizer *opt = tc_sgd(&a, 1, (tc_sgd_options){.lr = 1});
  EXPECT(opt != NULL, "an assign's failure was told by an optimizer");
  EXPECT(tc_item_f32(tc_sum(a, TC_ALL, false), &v) == TC_ERR_SHAPE, "an optimizer has told of an assign");
  tc_clear_error();
  tc_optimizer_destroy(opt);
  tc_release(a);
  tc_scope_end(scope);
}

// In a thread that has made nothing: its first call fails, and it reads another thread's value.
static void *fail_and_read(void *t) {
  float v;
  (void)tc_optimizer_step(NULL);
  EXPECT(tc_item_f32(*(tc_tensor *)t, &v) == TC_ERR_ARG, "reading another thread's value does not tell");
  tc_clear_error();
  EXPECT_OK(tc_item_f32(*(tc_tensor *)t, &v));
  return NULL;
}

static void readers_of_other_threads_are_told(void) {
  pthread_t thread;
  tc_scope scope = tc_scope_begin();
  tc_tensor one = tc_ones(TC_SCALAR, TC_F32);
  EXPECT(pthread_create(&thread, NULL, fail_and_read, &one) == 0 && pthread_join(thread, NULL) == 0, "no thread");
  EXPECT_OK(tc_sync(NULL));
  tc_scope_end(scope);
}

static void *fail_and_shut_down(void *nothing) {
  float v;
  (void)tc_optimizer_step(NULL);
  tc_shutdown();
  EXPECT_OK(tc_item_f32(tc_ones(TC_SCALAR, TC_F32), &v));
  tc_clear_error();
  return nothing;
}

// The null tensor is read with a deferred error, by whichever thread.
static void null_is_read_like_others(void) {
  float v;
  tc_scope scope = tc_scope_begin();
  (void)tc_optimizer_step(NULL);
  tc_clear_error();
  (void)tc_assign(tc_ones(TC_SHAPE(2), TC_F32), tc_ones(TC_SHAPE(3), TC_F32));
  EXPECT(tc_item_f32((tc_tensor){0, 0}, &v) == TC_ERR_SHAPE, "the null tensor's error came first");
  tc_clear_error();
  EXPECT(tc_item_f32((tc_tensor){0, 0}, &v) == TC_ERR_HANDLE, "the null tensor was read");
  tc_clear_error();
  tc_scope_end(scope);
}

static void shutdown_defers_nothing(void) {
  float v;
  pthread_t thread;
  tc_scope scope = tc_scope_begin();
  (void)tc_assign(tc_ones(TC_SHAPE(2), TC_F32), tc_ones(TC_SHAPE(3), TC_F32));
  tc_scope_end(scope);
  tc_shutdown();
  scope = tc_scope_begin();
  EXPECT_OK(tc_item_f32(tc_ones(TC_SCALAR, TC_F32), &v));
  tc_clear_error();
  tc_scope_end(scope);
  EXPECT(pthread_create(&thread, NULL, fail_and_shut_down, NULL) == 0 && pthread_join(thread, NULL) == 0, "no thread");
}

static void *read_other(void *t) {
  float v;
  EXPECT(tc_item_f32(*(tc_tensor *)t, &v) != TC_OK, "a sum without memory was read");
  tc_clear_error();
  EXPECT_OK(tc_sync(NULL));  // no deferred error is left for who was told
  return NULL;
}

// A run of this thread's work that another thread asked for undoes this thread's assigns.
static void another_threads_failure_is_told(void) {
  pthread_t thread;
  tc_scope scope = tc_scope_begin();
  tc_tensor x = tc_ones(TC_SHAPE(4), TC_F32), state = tc_zeros(TC_SHAPE(4), TC_F32);
  EXPECT_OK(tc_eval(2, (tc_tensor[]){x, state}));
  tc_tensor sum = tc_sum(tc_add(x, 1), TC_ALL, false);
  (void)tc_assign(state, out_of_range(x));
  EXPECT(pthread_create(&thread, NULL, read_other, &sum) == 0 && pthread_join(thread, NULL) == 0, "no thread");
  EXPECT(tc_sync(NULL) != TC_OK, "the owner was not told");
  tc_clear_error();
  EXPECT_OK(tc_sync(NULL));
  tc_scope_end(scope);
}

int main(void) {
  a_step_trains_or_fails();
  what_fails_has_assigned_nothing();
  a_cut_that_fails_is_told(5);
  a_cut_that_fails_is_told(100);
  failed_effects_are_told();
  a_second_failure_is_told();
  a_silent_failure_outlives_an_ops();
  poison_is_told_with_it();
  an_optimizer_is_made();
  readers_of_other_threads_are_told();
  another_threads_failure_is_told();
  null_is_read_like_others();
  shutdown_defers_nothing();
  return expect_done("errors-deferred_errors");
}
