// Options that are left out are PyTorch's defaults, in every struct of options, and TC_ZERO is a
// true zero.
#include <math.h>
#include <tc/nn.h>

#include "tests/expect.h"

enum { N = 3, N_STEPS = 4 };

// Steps of a quadratic whose last element has no gradient; the parameter afterwards.
static void train(tc_optimizer *opt, tc_tensor p, float *out) {
  EXPECT(opt != NULL, "no optimizer");
  for (int i = 0; i < N_STEPS && opt; i++) {
    tc_scope scope = tc_scope_begin();
    (void)tc_backward(
        tc_sum(tc_mul(tc_square(p), tc_from_host((float[]){1, 2, 0}, TC_SHAPE(N), TC_F32)), TC_ALL, false));
    (void)tc_optimizer_step(opt);
    (void)tc_zero_grad(opt);
    tc_scope_end(scope);
  }
  EXPECT_OK(tc_to_host(p, out, N * sizeof *out));
  tc_optimizer_destroy(opt);
  tc_release(p);
}

static tc_tensor start(void) {
  return tc_param(tc_from_host((float[]){1, -2, 3}, TC_SHAPE(N), TC_F32));
}

#define SAME(make, struct_type, left_out, written) \
  do { \
    float a[N], b[N]; \
    tc_tensor p = start(), q = start(); \
    train(make(&p, 1, (struct_type)left_out), p, a); \
    train(make(&q, 1, (struct_type)written), q, b); \
    EXPECT(memcmp(a, b, sizeof a) == 0 && isfinite(a[0]) && isfinite(a[2]) && a[0] != 1, "%s: %g %g %g and %g %g %g", \
           #make, (double)a[0], (double)a[1], (double)a[2], (double)b[0], (double)b[1], (double)b[2]); \
  } while (0)
#define LIST(...) {__VA_ARGS__}

static void optimizers_left_out(void) {
  SAME(tc_sgd, tc_sgd_options, LIST(0), LIST(.lr = 1e-3));
  SAME(tc_adam, tc_adam_options, LIST(.lr = 1e-3),
       LIST(.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = TC_ZERO));
  SAME(tc_adam, tc_adam_options, LIST(0), LIST(.lr = 1e-3, TC_ADAM_DEFAULTS));
  SAME(tc_adamw, tc_adam_options, LIST(0), LIST(.lr = 1e-3, TC_ADAM_DEFAULTS, .weight_decay = 0.01));
  SAME(tc_adam, tc_adam_options, LIST(.decoupled = true), LIST(.lr = 1e-3, .decoupled = true, .weight_decay = 0.01));
  SAME(tc_rmsprop, tc_rmsprop_options, LIST(0), LIST(.lr = 0.01, TC_RMSPROP_DEFAULTS));
  tc_tensor p = start();
  tc_optimizer *opt = tc_rmsprop(&p, 1, (tc_rmsprop_options){0});
  EXPECT(tc_get_lr(opt) == 0.01, "the rate is %g", tc_get_lr(opt));
  EXPECT_OK(tc_set_lr(opt, 0));
  EXPECT(tc_get_lr(opt) == 0, "an argument of 0 is %g", tc_get_lr(opt));
  tc_optimizer_destroy(opt);
  tc_release(p);
}

// By hand: one step of Adam without momenta and eps is lr times the gradient's sign, 0 / 0 where
// there is none; AdamW shrinks by nothing.
static void a_true_zero(void) {
  float v[N];
  tc_tensor p = start();
  tc_optimizer *opt = tc_adamw(
      &p, 1, (tc_adam_options){.lr = 0.5, .beta1 = TC_ZERO, .beta2 = TC_ZERO, .eps = TC_ZERO, .weight_decay = TC_ZERO});
  (void)tc_backward(tc_sum(tc_mul(tc_square(p), tc_from_host((float[]){1, 2, 0}, TC_SHAPE(N), TC_F32)), TC_ALL, false));
  EXPECT_OK(tc_optimizer_step(opt));
  EXPECT_OK(tc_to_host(p, v, sizeof v));
  EXPECT(v[0] == 0.5f && v[1] == -1.5f && isnan(v[2]), "%g %g %g", (double)v[0], (double)v[1], (double)v[2]);
  tc_optimizer_destroy(opt);
  opt = tc_sgd(&p, 1, (tc_sgd_options){.lr = TC_ZERO});
  EXPECT(opt && tc_get_lr(opt) == 0 && !signbit(tc_get_lr(opt)), "a rate of zero is %g", opt ? tc_get_lr(opt) : NAN);
  tc_optimizer_destroy(opt);
  tc_release(p);
  EXPECT(tc_rmsprop(&(tc_tensor){0, 0}, 1, (tc_rmsprop_options){.lr = TC_ZERO}) == NULL, "made of nothing");
  tc_clear_error();
}

static float first(tc_tensor t) {
  float v = NAN;
  EXPECT_OK(tc_item_f32(tc_select(tc_flatten(t, 0, -1), 0, 0), &v));
  return v;
}

static void ops_left_out(void) {
  tc_tensor none = {0, 0}, x = tc_from_host((float[]){0, 2, 0, 0}, TC_SHAPE(2, 2), TC_F32);
  tc_tensor mean = tc_zeros(TC_SHAPE(2), TC_F32), var = tc_ones(TC_SHAPE(2), TC_F32);
  // The second channel: values 2 and 0, mean 1, variance 1 (2 unbiased).
  tc_tensor y = tc_batch_norm(x, mean, var, none, none, (tc_batch_norm_options){.training = true});
  float mean2 = first(tc_select(mean, 0, 1)), var2 = first(tc_select(var, 0, 1)), y2 = first(tc_select(y, 1, 1)),
        y1 = first(y);
  EXPECT(fabsf(mean2 - 0.1f) < 1e-6f && fabsf(var2 - 1.1f) < 1e-6f && fabsf(y2 - 0.999995f) < 1e-6f && y1 == 0,
         "%g %g %g %g", (double)mean2, (double)var2, (double)y2, (double)y1);
  y = tc_batch_norm(x, mean, var, none, none,
                    (tc_batch_norm_options){.training = true, .momentum = TC_ZERO, .eps = TC_ZERO});
  EXPECT(first(tc_select(mean, 0, 1)) == mean2 && first(tc_select(y, 1, 1)) == 1 && isnan(first(y)), "%g",
         (double)first(y));
  // Arguments are what they say.
  tc_nn_params *p = tc_nn_params_create();
  EXPECT_OK(tc_nn_add_batch_norm(p, "bn", 2));
  y = tc_nn_batch_norm(p, "bn", x, 0, 0);
  EXPECT(first(tc_select(y, 1, 1)) == 1 && first(tc_select(tc_nn_get(p, "bn.running_mean"), 0, 1)) == 0, "%g",
         (double)first(tc_select(y, 1, 1)));
  tc_nn_params_destroy(p);
  // Scores of scale 0 weigh all keys alike.
  tc_tensor q = tc_full(TC_SHAPE(1, 1, 1, 4), 3, TC_F32),
            k = tc_reshape(tc_arange(0, 8, 1, TC_F32), TC_SHAPE(1, 1, 2, 4));
  float plain = first(tc_scaled_dot_product_attention(q, k, k, none, (tc_attention_options){0}));
  float half = first(tc_scaled_dot_product_attention(q, k, k, none, (tc_attention_options){.scale = 0.5}));
  float even = first(tc_scaled_dot_product_attention(q, k, k, none, (tc_attention_options){.scale = TC_ZERO}));
  EXPECT(plain == half && even == 2, "%g %g %g", (double)plain, (double)half, (double)even);
}

int main(void) {
  tc_scope scope = tc_scope_begin();
  optimizers_left_out();
  a_true_zero();
  ops_left_out();
  tc_scope_end(scope);
  return expect_done("api-defaults");
}
