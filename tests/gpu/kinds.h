// Work of every kind that a GPU has kernels for, recorded on the default device, and what the code
// of each is meant to have. Of zeros: values do not matter.
#pragma once

#include <stdlib.h>
#include <tc/tc.h>

#include "device/gpu.h"
#include "tests/expect.h"

typedef struct gpu_kind {
  const char *kind, *name;
  void (*record)(const struct gpu_kind *k);
  tc_type type;
  int64_t n[4];  // extents, as the function says
  // words of the code (tests/compiled.h); mfma: instead of amd where there are matrix instructions,
  // or NULL
  const char *nvidia, *amd, *mfma;
} gpu_kind;

// ---- how it is recorded ----

static const char *gpu_kind_dir;

// Only what follows is kept: operands are there.
static void made(int n, const tc_tensor *y) {
  setenv("TC_SIM_KEEP", gpu_kind_dir, 1);
  EXPECT_OK(tc_eval(n, y));
  unsetenv("TC_SIM_KEEP");
}

static void made_one(tc_tensor y) {
  made(1, &y);
}

static tc_tensor leaf(tc_dims d, tc_type type) {
  static char zeros[48 << 20];
  return tc_from_host(zeros, d, type);
}

#define LEAF(type, ...) leaf(TC_SHAPE(__VA_ARGS__), type)
#define NONE ((tc_tensor){0, 0})

// The value and its gradients by these.
static void made_grads(tc_tensor y, int n, const tc_tensor *x) {
  tc_tensor all[8] = {y};
  EXPECT_OK(tc_grads_of(tc_sum(y, tc_dims_all(), false), x, n, all + 1, 0));
  made(n + 1, all);
}

static tc_tensor wanting(tc_tensor x) {
  EXPECT_OK(tc_set_requires_grad(x, true));
  return x;
}

// ---- elementwise: [n0, n1] ----

static void chain(const gpu_kind *k) {
  tc_tensor a = LEAF(k->type, k->n[0], k->n[1]), b = LEAF(k->type, k->n[0], k->n[1]),
            c = LEAF(k->type, k->n[0], k->n[1]);
  made_one(tc_relu(tc_add(tc_mul(a, b), c)));
}

static void part_and_bias(const gpu_kind *k) {
  tc_tensor x = tc_slice(LEAF(k->type, k->n[0], k->n[1]), 1, 3, k->n[1] - 2, 1);
  made_one(tc_gelu(tc_add(x, LEAF(k->type, k->n[1] - 5))));
}

static void functions(const gpu_kind *k) {
  tc_tensor x = LEAF(k->type, k->n[0], k->n[1]);
  made_one(tc_add(tc_add(tc_exp(x), tc_sin(tc_log1p(x))), tc_add(tc_tanh(x), tc_erf(tc_sigmoid(x)))));
}

static void rare_functions(const gpu_kind *k) {
  tc_tensor x = LEAF(k->type, k->n[0], k->n[1]), y = LEAF(k->type, k->n[0], k->n[1]);
  made_one(tc_add(tc_atan2(tc_lgamma(x), tc_pow(x, y)), tc_add(tc_erfinv(x), tc_digamma(y))));
}

static void polygamma(const gpu_kind *k) {
  made_one(tc_polygamma(2, LEAF(k->type, k->n[0], k->n[1])));
}

static void whole_numbers(const gpu_kind *k) {
  tc_tensor x = LEAF(k->type, k->n[0], k->n[1]), y = LEAF(k->type, k->n[0], k->n[1]);
  made_one(tc_where(tc_lt(x, y), tc_floor_divide(x, y), tc_bitwise_xor(tc_remainder(x, y), tc_shift_left(x, y))));
}

static void casts(const gpu_kind *k) {
  tc_tensor x = LEAF(TC_U8, k->n[0], k->n[1]), y = LEAF(k->type, k->n[0], k->n[1]);
  made_one(tc_cast(tc_add(tc_cast(x, TC_F16), tc_cast(y, TC_F16)), TC_I64));
}

// ---- reductions: [n0, n1], of rows, columns or all ----

static tc_dims axes_of(const gpu_kind *k) {
  return k->n[2] < 0 ? tc_dims_all() : TC_SHAPE(k->n[2]);
}

static void sum_of(const gpu_kind *k) {
  made_one(tc_sum(LEAF(k->type, k->n[0], k->n[1]), axes_of(k), false));
}

static void product_of(const gpu_kind *k) {
  made_one(tc_prod(LEAF(k->type, k->n[0], k->n[1]), axes_of(k), false));
}

static void most_of(const gpu_kind *k) {
  made_one(tc_max(LEAF(k->type, k->n[0], k->n[1]), axes_of(k), false));
}

static void first_of_most(const gpu_kind *k) {
  made_one(tc_argmax(LEAF(k->type, k->n[0], k->n[1]), (int)k->n[2], false));
}

static void any_of(const gpu_kind *k) {
  made_one(tc_any(LEAF(k->type, k->n[0], k->n[1]), axes_of(k), false));
}

static void variance_of(const gpu_kind *k) {
  made_one(tc_var(LEAF(k->type, k->n[0], k->n[1]), axes_of(k), 1, false));
}

static void logsumexp_of(const gpu_kind *k) {
  made_one(tc_logsumexp(LEAF(k->type, k->n[0], k->n[1]), axes_of(k), false));
}

static void middle(const gpu_kind *k) {
  made_one(tc_mean(LEAF(k->type, k->n[0], k->n[1], 48), TC_SHAPE(1), false));
}

// ---- rows: [n0, n1] ----

static void softmax(const gpu_kind *k) {
  made_one(tc_softmax(LEAF(k->type, k->n[0], k->n[1]), (int)k->n[2]));
}

static void softmax_grads(const gpu_kind *k) {
  tc_tensor x = wanting(LEAF(k->type, k->n[0], k->n[1])), y = LEAF(k->type, k->n[0], k->n[1]);
  made_grads(tc_mul(tc_log_softmax(x, 1), y), 1, &x);
}

static void layer_norm(const gpu_kind *k) {
  made_one(tc_layer_norm(LEAF(k->type, k->n[0], k->n[1]), LEAF(k->type, k->n[1]), LEAF(k->type, k->n[1]), 1e-5));
}

static void layer_norm_grads(const gpu_kind *k) {
  tc_tensor x[] = {wanting(LEAF(k->type, k->n[0], k->n[1])), wanting(LEAF(k->type, k->n[1])),
                   wanting(LEAF(k->type, k->n[1]))};
  made_grads(tc_mul(tc_layer_norm(x[0], x[1], x[2], 1e-5), LEAF(k->type, k->n[0], k->n[1])), 3, x);
}

static void rms_norm(const gpu_kind *k) {
  made_one(tc_rms_norm(LEAF(k->type, k->n[0], k->n[1]), LEAF(k->type, k->n[1]), 1e-5));
}

static void cross_entropy(const gpu_kind *k) {
  tc_tensor x = wanting(LEAF(k->type, k->n[0], k->n[1]));
  made_grads(tc_cross_entropy(x, LEAF(TC_I64, k->n[0])), 1, &x);
}

static void batch_norm(const gpu_kind *k) {
  const int64_t c = k->n[1];
  tc_tensor x[] = {wanting(LEAF(k->type, k->n[0], c, 14, 14)), wanting(LEAF(TC_F32, c)), wanting(LEAF(TC_F32, c))};
  tc_tensor y = tc_batch_norm(x[0], LEAF(TC_F32, c), LEAF(TC_F32, c), x[1], x[2],
                              (tc_batch_norm_options){.training = true, TC_BATCH_NORM_DEFAULTS});
  made_grads(tc_mul(y, LEAF(k->type, k->n[0], c, 14, 14)), 3, x);
}

static void group_norm(const gpu_kind *k) {
  made_one(
      tc_group_norm(LEAF(k->type, k->n[0], k->n[1], 14, 14), 8, LEAF(k->type, k->n[1]), LEAF(k->type, k->n[1]), 1e-5));
}

// ---- sorts and scans: [n0, n1], along the last axis ----

static void sort(const gpu_kind *k) {
  made_one(tc_sort(LEAF(k->type, k->n[0], k->n[1]), 1, false));
}

static void topk(const gpu_kind *k) {
  made_one(tc_topk(LEAF(k->type, k->n[0], k->n[1]), 5, 1, true));
}

static void median(const gpu_kind *k) {
  made_one(tc_median(LEAF(k->type, k->n[0], k->n[1]), 1, false));
}

static void searchsorted(const gpu_kind *k) {
  made_one(tc_searchsorted(LEAF(k->type, k->n[1]), LEAF(k->type, k->n[0]), false));
}

static void cumsum(const gpu_kind *k) {
  made_one(tc_cumsum(LEAF(k->type, k->n[0], k->n[1]), 1));
}

static void cumprod(const gpu_kind *k) {
  made_one(tc_cumprod(LEAF(k->type, k->n[0], k->n[1]), 1));
}

static void cummax(const gpu_kind *k) {
  made_one(tc_cummax(LEAF(k->type, k->n[0], k->n[1]), 1));
}

static void logcumsumexp(const gpu_kind *k) {
  made_one(tc_logcumsumexp(LEAF(k->type, k->n[0], k->n[1]), 1));
}

// ---- products: [n0, n2] @ [n2, n1] ----

static void product(const gpu_kind *k) {
  made_one(tc_matmul(LEAF(k->type, k->n[0], k->n[2]), LEAF(k->type, k->n[2], k->n[1])));
}

static void linear(const gpu_kind *k) {
  made_one(
      tc_gelu(tc_linear(LEAF(k->type, k->n[0], k->n[2]), LEAF(k->type, k->n[1], k->n[2]), LEAF(k->type, k->n[1]))));
}

static void linear_grads(const gpu_kind *k) {
  tc_tensor x[] = {wanting(LEAF(k->type, k->n[0], k->n[2])), wanting(LEAF(k->type, k->n[1], k->n[2])),
                   wanting(LEAF(k->type, k->n[1]))};
  made_grads(tc_mul(tc_relu(tc_linear(x[0], x[1], x[2])), LEAF(k->type, k->n[0], k->n[1])), 3, x);
}

static void products(const gpu_kind *k) {
  made_one(tc_bmm(LEAF(k->type, 6, k->n[0], k->n[2]), LEAF(k->type, 6, k->n[2], k->n[1])));
}

static void of_the_left_transposed(const gpu_kind *k) {
  made_one(tc_add(tc_matmul(tc_transpose(LEAF(k->type, k->n[2], k->n[0]), 0, 1), LEAF(k->type, k->n[2], k->n[1])),
                  LEAF(k->type, k->n[0], k->n[1])));
}

// ---- convolutions: n0 channels to n1, n2 by n2, windows of n3 ----

static void conv(const gpu_kind *k) {
  tc_conv_options same = {.padding = TC_SHAPE(k->n[3] / 2, k->n[3] / 2)};
  made_one(tc_relu(tc_conv2d(LEAF(k->type, 4, k->n[0], k->n[2], k->n[2]),
                             LEAF(k->type, k->n[1], k->n[0], k->n[3], k->n[3]), LEAF(k->type, k->n[1]), same)));
}

static void conv_strided(const gpu_kind *k) {
  tc_conv_options by_two = {.padding = TC_SHAPE(k->n[3] / 2, k->n[3] / 2), .stride = TC_SHAPE(2, 2)};
  made_one(tc_conv2d(LEAF(k->type, 4, k->n[0], k->n[2], k->n[2]), LEAF(k->type, k->n[1], k->n[0], k->n[3], k->n[3]),
                     NONE, by_two));
}

static void conv_grads(const gpu_kind *k) {
  tc_conv_options same = {.padding = TC_SHAPE(k->n[3] / 2, k->n[3] / 2)};
  tc_tensor x[] = {wanting(LEAF(k->type, 4, k->n[0], k->n[2], k->n[2])),
                   wanting(LEAF(k->type, k->n[1], k->n[0], k->n[3], k->n[3]))};
  made_grads(tc_mul(tc_conv2d(x[0], x[1], NONE, same), LEAF(k->type, 4, k->n[1], k->n[2], k->n[2])), 2, x);
}

static void conv_depthwise(const gpu_kind *k) {
  tc_conv_options same = {.padding = TC_SHAPE(1, 1), .groups = k->n[0]};
  made_one(
      tc_conv2d(LEAF(k->type, 4, k->n[0], k->n[2], k->n[2]), LEAF(k->type, k->n[0], 1, k->n[3], k->n[3]), NONE, same));
}

static void conv_transposed(const gpu_kind *k) {
  tc_conv_options by_two = {.stride = TC_SHAPE(2, 2)};
  made_one(tc_conv_transpose2d(LEAF(k->type, 2, k->n[0], k->n[2], k->n[2]),
                               LEAF(k->type, k->n[0], k->n[1], k->n[3], k->n[3]), NONE, by_two));
}

static void conv_line(const gpu_kind *k) {
  made_one(tc_conv1d(LEAF(k->type, 4, k->n[0], k->n[2]), LEAF(k->type, k->n[1], k->n[0], k->n[3]), NONE,
                     (tc_conv_options){.groups = 1}));
}

static void max_pool(const gpu_kind *k) {
  tc_tensor x = wanting(LEAF(k->type, 4, k->n[0], k->n[2], k->n[2]));
  tc_tensor y = tc_max_pool2d(x, TC_SHAPE(k->n[3], k->n[3]), (tc_pool_options){.stride = TC_SHAPE(2, 2)});
  made_grads(tc_square(y), 1, &x);
}

static void avg_pool(const gpu_kind *k) {
  made_one(tc_avg_pool2d(LEAF(k->type, 4, k->n[0], k->n[2], k->n[2]), TC_SHAPE(k->n[3], k->n[3]),
                         (tc_pool_options){.stride = TC_SHAPE(2, 2)}));
}

static void interpolate(const gpu_kind *k) {
  tc_tensor x = wanting(LEAF(k->type, 2, k->n[0], k->n[2], k->n[2]));
  made_grads(tc_square(tc_interpolate(x, TC_SHAPE(2 * k->n[2] + 1, 2 * k->n[2] + 1),
                                      (tc_interpolate_options){.mode = TC_LINEAR})),
             1, &x);
}

// ---- attention: n0 rows, n1 keys, heads of n2, n3: causal ----

static tc_tensor heads(const gpu_kind *k, int64_t n, int64_t rows) {
  return LEAF(k->type, 1, n, rows, k->n[2]);
}

static void attention(const gpu_kind *k) {
  const tc_attention_options o = {.causal = k->n[3] != 0};
  made_one(tc_scaled_dot_product_attention(heads(k, 4, k->n[0]), heads(k, 4, k->n[1]), heads(k, 4, k->n[1]), NONE, o));
}

// Keys that two heads share, of which some count.
static void attention_grouped(const gpu_kind *k) {
  const tc_attention_options o = {.causal = k->n[3] != 0, .key_length = k->n[1] - 7};
  made_one(tc_scaled_dot_product_attention(heads(k, 8, k->n[0]), heads(k, 4, k->n[1]), heads(k, 4, k->n[1]), NONE, o));
}

static void attention_masked(const gpu_kind *k) {
  tc_tensor mask = k->n[3] ? LEAF(TC_BOOL, k->n[0], k->n[1]) : LEAF(k->type, k->n[0], k->n[1]);
  made_one(tc_scaled_dot_product_attention(heads(k, 4, k->n[0]), heads(k, 4, k->n[1]), heads(k, 4, k->n[1]), mask,
                                           (tc_attention_options){.scale = 0.5}));
}

static void attention_grads(const gpu_kind *k) {
  tc_tensor x[] = {wanting(heads(k, 4, k->n[0])), wanting(heads(k, 4, k->n[1])), wanting(heads(k, 4, k->n[1]))};
  tc_tensor y = tc_scaled_dot_product_attention(x[0], x[1], x[2], NONE, (tc_attention_options){.causal = k->n[3] != 0});
  made_grads(tc_mul(y, heads(k, 4, k->n[0])), 3, x);
}

// ---- by index: n0 of [n1, n2] ----

static void gather(const gpu_kind *k) {
  made_one(tc_gather(LEAF(k->type, k->n[1], k->n[2]), 1, LEAF(TC_I64, k->n[1], k->n[0])));
}

static void embedding(const gpu_kind *k) {
  made_one(tc_embedding(LEAF(k->type, k->n[1], k->n[2]), LEAF(TC_I32, k->n[0])));
}

static void embedding_grads(const gpu_kind *k) {
  tc_tensor w = wanting(LEAF(k->type, k->n[1], k->n[2]));
  made_grads(tc_mul(tc_embedding(w, LEAF(TC_I64, k->n[0])), LEAF(k->type, k->n[0], k->n[2])), 1, &w);
}

static void scatter(const gpu_kind *k) {
  made_one(
      tc_scatter(LEAF(k->type, k->n[1], k->n[2]), 0, LEAF(TC_I64, k->n[0], k->n[2]), LEAF(k->type, k->n[0], k->n[2])));
}

static void scatter_add(const gpu_kind *k) {
  made_one(tc_scatter_add(LEAF(k->type, k->n[1], k->n[2]), 0, LEAF(TC_I64, k->n[0], k->n[2]),
                          LEAF(k->type, k->n[0], k->n[2])));
}

static void index_add(const gpu_kind *k) {
  made_one(tc_index_add(LEAF(k->type, k->n[1], k->n[2]), 0, LEAF(TC_I64, k->n[0]), LEAF(k->type, k->n[0], k->n[2])));
}

static void one_hot(const gpu_kind *k) {
  made_one(tc_cast(tc_one_hot(LEAF(TC_I64, k->n[0]), k->n[1]), k->type));
}

// ---- draws: n0 by n1 ----

static void uniform(const gpu_kind *k) {
  made_one(tc_rand(TC_SHAPE(k->n[0], k->n[1]), k->type));
}

static void normal(const gpu_kind *k) {
  made_one(tc_randn(TC_SHAPE(k->n[0], k->n[1]), k->type));
}

static void random_integers(const gpu_kind *k) {
  made_one(tc_randint(-5, 1000, TC_SHAPE(k->n[0], k->n[1]), k->type));
}

static void dropout(const gpu_kind *k) {
  made_one(tc_add(tc_dropout(LEAF(k->type, k->n[0], k->n[1]), 0.1), LEAF(k->type, k->n[0], k->n[1])));
}

static void permutation(const gpu_kind *k) {
  made_one(tc_randperm(k->n[0]));
}

// ---- copies: [n0, n1] ----

// What reads it has another order, so that it is written: a view alone moves nothing.
static void transposed(const gpu_kind *k) {
  made_one(tc_add(tc_transpose(LEAF(k->type, k->n[0], k->n[1]), 0, 1), LEAF(k->type, k->n[1], k->n[0])));
}

static void cat(const gpu_kind *k) {
  made_one(tc_cat(
      3, (tc_tensor[]){LEAF(k->type, k->n[0], k->n[1]), LEAF(k->type, k->n[0], 7), LEAF(k->type, k->n[0], k->n[1])},
      1));
}

static void flipped_and_rolled(const gpu_kind *k) {
  made_one(tc_roll(tc_flip(LEAF(k->type, k->n[0], k->n[1]), TC_SHAPE(1)), 3, 0));
}

static void padded(const gpu_kind *k) {
  made_one(tc_pad(LEAF(k->type, k->n[0], k->n[1]), TC_SHAPE(1, 2), TC_SHAPE(0, 3), 1));
}

static void tiled(const gpu_kind *k) {
  made_one(tc_tile(tc_tril(LEAF(k->type, k->n[0], k->n[1]), 1), TC_SHAPE(2, 2)));
}

static void assigned(const gpu_kind *k) {
  tc_tensor x = LEAF(k->type, k->n[0], k->n[1]);
  EXPECT_OK(tc_assign_slice(x, (const int64_t[]){2, 3}, (const int64_t[]){k->n[0], k->n[1]}, (const int64_t[]){1, 1},
                            LEAF(k->type, k->n[0] - 2, k->n[1] - 3)));
  made_one(x);
}

// ---- training: a layer of n0 by n1 ----

static void adam(const gpu_kind *k) {
  tc_tensor w = tc_param(LEAF(k->type, k->n[0], k->n[1])), x = LEAF(k->type, 64, k->n[0]);
  tc_optimizer *o = tc_adamw(&w, 1, (tc_adam_options){.lr = 1e-3, .weight_decay = 0.01, TC_ADAM_DEFAULTS});
  EXPECT(o != NULL, "no optimizer");
  setenv("TC_SIM_KEEP", gpu_kind_dir, 1);
  EXPECT_OK(tc_backward(tc_mse_loss(tc_matmul(x, w), LEAF(k->type, 64, k->n[1]))));
  EXPECT_OK(tc_optimizer_step(o));
  made_one(w);
  tc_optimizer_destroy(o);
}

// ---- the device's own: the kernel that copies operands of libraries' calls, and one that writes
// tables ----

static void own(const gpu_kind *k) {
  tc_gpu *g;
  (void)k;
  EXPECT_OK(tc_gpu_get(tc_device_default(), &g));
  uint32_t missing = tc_gpu_own_missing(g, TC_GPU_CALL_WORDS, true);
  setenv("TC_SIM_KEEP", gpu_kind_dir, 1);
  for (uint32_t i = 0; i < 32; i++)
    if (missing >> i & 1) EXPECT_OK(tc_gpu_own_make(g, i));
  unsetenv("TC_SIM_KEEP");
}

// ---- all ----

static const gpu_kind gpu_kinds[] = {
#include "tests/gpu/kinds.def"
};
enum { n_gpu_kinds = sizeof gpu_kinds / sizeof *gpu_kinds };

// Records and evals it, and has the texts of its kernels kept in the directory: all of them, so
// that no earlier kind's kernel may be there.
static inline void gpu_kind_make(const gpu_kind *k, const char *dir) {
  gpu_kind_dir = dir;
  tc_cache_clear();
  k->record(k);
}
