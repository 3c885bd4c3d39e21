// How planning grows: every pass counts its elementary steps (runtime/passes.h), and no count may
// grow faster than the program, at n, 2n and 4n. Counts are the same on every machine, so a pass
// that is quadratic fails here however fast it is.
#include <stdlib.h>

#include "runtime/passes.h"
#include "tests/expect.h"

#define MOST_TIMES 2.3  // of a count, for a program twice as long
#define LEAST_COUNT 20000  // that says something

typedef struct setting {
  int n, width;
  bool gradient;
} setting;

typedef struct shape {
  const char *name;
  void (*run)(setting);
  int n;
  bool alone;  // it has no gradient, and is narrow
} shape;

static tc_tensor ones(int width) {
  return tc_full(TC_SHAPE(width), 1, TC_F32);
}

static void read_value(tc_tensor x) {
  float v;
  EXPECT_OK(tc_item_f32(tc_select(tc_reshape(x, TC_SHAPE(-1)), 0, 0), &v));
}

// The value, or the gradient of its sum.
static void finish(tc_tensor x, tc_tensor y, setting s) {
  if (s.gradient) EXPECT_OK(tc_backward(tc_sum(y, TC_ALL, false)));
  read_value(s.gradient ? tc_grad(x) : y);
}

static void chain(setting s) {
  tc_tensor x = tc_param(ones(s.width)), y = x;
  for (int i = 0; i < s.n; i++) y = tc_sin(y);
  finish(x, y, s);
  tc_release(x);
}

static void ladder(setting s) {
  tc_tensor x = tc_param(ones(s.width)), two = x, one = tc_sin(x);
  for (int i = 0; i < s.n; i++) {
    tc_tensor y = tc_mul(tc_add(tc_sin(one), two), .5);
    two = one, one = y;
  }
  finish(x, one, s);
  tc_release(x);
}

// One value that n others are made of, each folded, so that none is in another's kernel for long.
static void fan(setting s) {
  tc_tensor x = tc_param(ones(s.width)), sum = tc_zeros(TC_SCALAR, TC_F32);
  for (int i = 0; i < s.n; i++) sum = tc_add(sum, tc_max(tc_mul(x, i), TC_ALL, false));
  finish(x, sum, s);
  tc_release(x);
}

static void parameters(setting s) {
  tc_tensor *p = malloc((size_t)s.n * sizeof *p), h = tc_ones(TC_SHAPE(4, 8), TC_F32),
            loss = tc_zeros(TC_SCALAR, TC_F32);
  for (int i = 0; i < s.n; i++) p[i] = tc_param(tc_full(TC_SHAPE(8, s.width / 8), .5, TC_F32));
  tc_optimizer *opt = tc_adamw(p, s.n, (tc_adam_options){.lr = 1e-2, TC_ADAM_DEFAULTS, .weight_decay = .01});
  memset(tc_pass_steps, 0, sizeof tc_pass_steps);  // making them is a plan of its own
  for (int i = 0; i < s.n; i++) loss = tc_add(loss, tc_mean(tc_square(tc_matmul(h, p[i])), TC_ALL, false));
  if (s.gradient) {
    EXPECT_OK(tc_backward(loss));
    (void)tc_clip_grad_norm(p, s.n, 1);
    EXPECT_OK(tc_optimizer_step(opt));
    EXPECT_OK(tc_zero_grad(opt));
  }
  read_value(loss);
  tc_optimizer_destroy(opt);
  for (int i = 0; i < s.n; i++) tc_release(p[i]);
  free(p);
}

static void outputs(setting s) {
  tc_tensor *p = malloc((size_t)s.n * 2 * sizeof *p), *out = p + s.n, sum = tc_zeros(TC_SCALAR, TC_F32);
  for (int i = 0; i < s.n; i++) {
    p[i] = tc_param(ones(s.width));
    out[i] = tc_exp(tc_mul(p[i], 1.0 / (i + 1)));
    sum = tc_add(sum, tc_sum(out[i], TC_ALL, false));
  }
  if (s.gradient) EXPECT_OK(tc_grads_of(sum, p, s.n, out, 0));
  EXPECT_OK(tc_eval(s.n, out));
  for (int i = 0; i < s.n; i++) tc_release(p[i]);
  free(p);
}

static void recurrence(setting s) {
  int64_t k = s.width / 4;
  tc_tensor w = tc_param(tc_full(TC_SHAPE(k, k), 1.0 / (double)k, TC_F32)), x = tc_ones(TC_SHAPE(s.n, 4, k), TC_F32),
            h = tc_zeros(TC_SHAPE(4, k), TC_F32);
  for (int i = 0; i < s.n; i++) {
    tc_tensor z = tc_sigmoid(tc_add(tc_matmul(h, w), tc_select(x, 0, i)));
    h = tc_add(tc_mul(z, h), tc_mul(tc_add(tc_neg(z), 1), tc_tanh(tc_matmul(h, w))));
  }
  finish(w, h, s);
  tc_release(w);
}

// Groups that are begun in one order and need one another in the other.
static void reversed(setting s) {
  tc_tensor *x = malloc((size_t)s.n * sizeof *x), p = tc_param(ones(s.width)), y = tc_zeros(TC_SCALAR, TC_F32);
  for (int i = 0; i < s.n; i++) x[i] = tc_softmax(tc_mul(p, i + 1), 0);
  for (int i = s.n; i-- > 0;) y = tc_max(tc_add(x[i], tc_mul(y, .5)), TC_ALL, false);
  finish(p, y, s);
  tc_release(p);
  free(x);
}

static void table(setting s) {
  tc_tensor y = tc_zeros(TC_SHAPE(s.n, s.width / 4), TC_F32);
  for (int64_t i = 1; i < s.n; i++)
    EXPECT_OK(tc_assign_slice(y, (int64_t[]){i, 0}, (int64_t[]){i + 1, s.width / 4}, NULL,
                              tc_add(tc_slice(y, 0, i - 1, i, 1), 1)));
  EXPECT_OK(tc_sync(NULL));
}

static void lookups(setting s) {
  tc_tensor from = tc_param(tc_ones(TC_SHAPE(8, s.width / 8), TC_F32)),
            sum = tc_zeros(TC_SHAPE(2, s.width / 8), TC_F32);
  tc_tensor index = tc_from_host((int64_t[]){1, 5}, TC_SHAPE(2), TC_I64);
  for (int i = 0; i < s.n; i++) sum = tc_sin(tc_add(sum, tc_index_select(from, 0, index)));
  finish(from, sum, s);
  tc_release(from);
}

static void views(setting s) {
  tc_tensor x = tc_param(ones(s.width)), y = tc_reshape(x, TC_SHAPE(4, s.width / 4)), sum = tc_zeros(TC_SCALAR, TC_F32);
  for (int i = 0; i < s.n; i++) {
    y = tc_reshape(tc_transpose(y, 0, 1), TC_SHAPE(4, s.width / 4));
    if (i % 4 == 0) sum = tc_add(sum, tc_max(y, TC_ALL, false));
  }
  finish(x, sum, s);
  tc_release(x);
}

// A run for each step, whose history the next one's leads to.
static void runs(setting s) {
  tc_tensor x = tc_param(ones(16)), y = x, before = x;
  for (int i = 0; i < s.n; i++) {
    tc_tensor next = tc_mul(tc_add(tc_sin(y), before), .5);
    before = y, y = next;
    read_value(y);
  }
  finish(x, y, s);
  tc_release(x);
}

// Scopes within a long trace, at whose ends it might be cut.
static void scopes(setting s) {
  tc_tensor x = tc_param(ones(s.width)), y = x;
  for (int i = 0; i < s.n; i++) {
    tc_scope inner = tc_scope_begin();
    y = tc_sin(tc_add(y, 1));
    tc_keep(y);
    tc_scope_end(inner);
  }
  finish(x, y, s);
  tc_release(x);
}

static const shape shapes[] = {
    {"chain", chain, 400},           {"ladder", ladder, 250},     {"fan", fan, 200},
    {"parameters", parameters, 300}, {"outputs", outputs, 200},   {"recurrence", recurrence, 50},
    {"reversed", reversed, 100},     {"table", table, 400, true}, {"lookups", lookups, 500},
    {"views", views, 450},           {"runs", runs, 100},         {"scopes", scopes, 250}};

static void count(const shape *x, setting s, uint64_t *out) {
  tc_cache_clear();
  memset(tc_pass_steps, 0, sizeof tc_pass_steps);
  tc_scope all = tc_scope_begin();
  x->run(s);
  tc_scope_end(all);
  memcpy(out, tc_pass_steps, sizeof tc_pass_steps);
}

static void check(const shape *x, int width, bool gradient, bool told) {
  uint64_t steps[3][TC_N_PASSES];
  for (int i = 0; i < 3; i++) count(x, (setting){x->n << i, width, gradient}, steps[i]);
  for (int p = 0; p < TC_N_PASSES; p++) {
    if (told)
      printf("%-12s %5d %d %-10s %10llu %10llu %10llu\n", x->name, width, gradient, tc_pass_names[p],
             (unsigned long long)steps[0][p], (unsigned long long)steps[1][p], (unsigned long long)steps[2][p]);
    for (int i = 1; i < 3; i++)
      EXPECT((double)steps[i][p] <= MOST_TIMES * (double)steps[i - 1][p] + LEAST_COUNT,
             "%s of %d%s, %d wide: %s takes %llu steps, of %d %llu", x->name, x->n << i,
             gradient ? " with its gradient" : "", width, tc_pass_names[p], (unsigned long long)steps[i][p],
             x->n << (i - 1), (unsigned long long)steps[i - 1][p]);
  }
}

int main(int argc, char **argv) {
  const char *only = argc > 1 ? argv[1] : NULL;  // one shape; with a further word its counts are printed
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
    for (int kind = 0; kind < 4;
        // narrow: temporaries fit a cache; wide: memory is planned for less, and readers of the
        // same meet; two of four, or all with TC_TEST_ALL
         kind++)
      if ((!only || strcmp(only, shapes[i].name) == 0) &&
          (kind == 0 || (!shapes[i].alone && (kind == 3 || only || getenv("TC_TEST_ALL")))))
        check(&shapes[i], kind / 2 ? 4096 : 16, kind % 2, argc > 2);
  return expect_done("planning-plan_growth");
}
