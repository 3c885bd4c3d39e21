// Work of every kind that a GPU has kernels for, recorded on the default device, and what the code of each is meant to have. Of zeros: values do not matter.
#ifndef TC_TESTS_PLAIN_GPU_KINDS_H
#define TC_TESTS_PLAIN_GPU_KINDS_H

#include <stdlib.h>
#include <tc/tc.h>

#include "tests/plain/expect.h"

typedef struct gpu_kind {
  const char *kind, *name;
  void (*record)(const struct gpu_kind *k);
  tc_type type;
  int64_t n[4];  // extents, as the function says
  const char *nvidia, *amd, *mfma;  // words of the code (tests/compiled.h); mfma: instead of amd where there are matrix instructions, or NULL
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
  tc_tensor a = LEAF(k->type, k->n[0], k->n[1]), b = LEAF(k->type, k->n[0], k->n[1]), c = LEAF(k->type, k->n[0], k->n[1]);
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
  tc_tensor x[] = {wanting(LEAF(k->type, k->n[0], k->n[1])), wanting(LEAF(k->type, k->n[1])), wanting(LEAF(k->type, k->n[1]))};
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
  tc_tensor y = tc_batch_norm(x[0], LEAF(TC_F32, c), LEAF(TC_F32, c), x[1], x[2], (tc_batch_norm_options){.training = true, TC_BATCH_NORM_DEFAULTS});
  made_grads(tc_mul(y, LEAF(k->type, k->n[0], c, 14, 14)), 3, x);
}

static void group_norm(const gpu_kind *k) {
  made_one(tc_group_norm(LEAF(k->type, k->n[0], k->n[1], 14, 14), 8, LEAF(k->type, k->n[1]), LEAF(k->type, k->n[1]), 1e-5));
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
  made_one(tc_gelu(tc_linear(LEAF(k->type, k->n[0], k->n[2]), LEAF(k->type, k->n[1], k->n[2]), LEAF(k->type, k->n[1]))));
}

static void linear_grads(const gpu_kind *k) {
  tc_tensor x[] = {wanting(LEAF(k->type, k->n[0], k->n[2])), wanting(LEAF(k->type, k->n[1], k->n[2])), wanting(LEAF(k->type, k->n[1]))};
  made_grads(tc_mul(tc_relu(tc_linear(x[0], x[1], x[2])), LEAF(k->type, k->n[0], k->n[1])), 3, x);
}

static void products(const gpu_kind *k) {
  made_one(tc_bmm(LEAF(k->type, 6, k->n[0], k->n[2]), LEAF(k->type, 6, k->n[2], k->n[1])));
}

static void of_the_left_turned(const gpu_kind *k) {
  made_one(tc_add(tc_matmul(tc_transpose(LEAF(k->type, k->n[2], k->n[0]), 0, 1), LEAF(k->type, k->n[2], k->n[1])), LEAF(k->type, k->n[0], k->n[1])));
}

// ---- convolutions: n0 channels to n1, n2 by n2, windows of n3 ----

static void conv(const gpu_kind *k) {
  tc_conv_options same = {.padding = TC_SHAPE(k->n[3] / 2, k->n[3] / 2)};
  made_one(tc_relu(
      tc_conv2d(LEAF(k->type, 4, k->n[0], k->n[2], k->n[2]), LEAF(k->type, k->n[1], k->n[0], k->n[3], k->n[3]), LEAF(k->type, k->n[1]), same)));
}

static void conv_strided(const gpu_kind *k) {
  tc_conv_options by_two = {.padding = TC_SHAPE(k->n[3] / 2, k->n[3] / 2), .stride = TC_SHAPE(2, 2)};
  made_one(tc_conv2d(LEAF(k->type, 4, k->n[0], k->n[2], k->n[2]), LEAF(k->type, k->n[1], k->n[0], k->n[3], k->n[3]), NONE, by_two));
}

static void conv_grads(const gpu_kind *k) {
  tc_conv_options same = {.padding = TC_SHAPE(k->n[3] / 2, k->n[3] / 2)};
  tc_tensor x[] = {wanting(LEAF(k->type, 4, k->n[0], k->n[2], k->n[2])), wanting(LEAF(k->type, k->n[1], k->n[0], k->n[3], k->n[3]))};
  made_grads(tc_mul(tc_conv2d(x[0], x[1], NONE, same), LEAF(k->type, 4, k->n[1], k->n[2], k->n[2])), 2, x);
}

static void conv_depthwise(const gpu_kind *k) {
  tc_conv_options same = {.padding = TC_SHAPE(1, 1), .groups = k->n[0]};
  made_one(tc_conv2d(LEAF(k->type, 4, k->n[0], k->n[2], k->n[2]), LEAF(k->type, k->n[0], 1, k->n[3], k->n[3]), NONE, same));
}

static void conv_transposed(const gpu_kind *k) {
  tc_conv_options by_two = {.stride = TC_SHAPE(2, 2)};
  made_one(tc_conv_transpose2d(LEAF(k->type, 2, k->n[0], k->n[2], k->n[2]), LEAF(k->type, k->n[0], k->n[1], k->n[3], k->n[3]), NONE, by_two));
}

static void conv_line(const gpu_kind *k) {
  made_one(tc_conv1d(LEAF(k->type, 4, k->n[0], k->n[2]), LEAF(k->type, k->n[1], k->n[0], k->n[3]), NONE, (tc_conv_options){.groups = 1}));
}

static void max_pool(const gpu_kind *k) {
  tc_tensor x = wanting(LEAF(k->type, 4, k->n[0], k->n[2], k->n[2]));
  tc_tensor y = tc_max_pool2d(x, TC_SHAPE(k->n[3], k->n[3]), (tc_pool_options){.stride = TC_SHAPE(2, 2)});
  made_grads(tc_square(y), 1, &x);
}

static void avg_pool(const gpu_kind *k) {
  made_one(tc_avg_pool2d(LEAF(k->type, 4, k->n[0], k->n[2], k->n[2]), TC_SHAPE(k->n[3], k->n[3]), (tc_pool_options){.stride = TC_SHAPE(2, 2)}));
}

static void interpolate(const gpu_kind *k) {
  tc_tensor x = wanting(LEAF(k->type, 2, k->n[0], k->n[2], k->n[2]));
  made_grads(tc_square(tc_interpolate(x, TC_SHAPE(2 * k->n[2] + 1, 2 * k->n[2] + 1), (tc_interpolate_options){.mode = TC_LINEAR})), 1, &x);
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
  made_one(
      tc_scaled_dot_product_attention(heads(k, 4, k->n[0]), heads(k, 4, k->n[1]), heads(k, 4, k->n[1]), mask, (tc_attention_options){.scale = 0.5}));
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
  made_one(tc_scatter(LEAF(k->type, k->n[1], k->n[2]), 0, LEAF(TC_I64, k->n[0], k->n[2]), LEAF(k->type, k->n[0], k->n[2])));
}

static void scatter_add(const gpu_kind *k) {
  made_one(tc_scatter_add(LEAF(k->type, k->n[1], k->n[2]), 0, LEAF(TC_I64, k->n[0], k->n[2]), LEAF(k->type, k->n[0], k->n[2])));
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
static void turned(const gpu_kind *k) {
  made_one(tc_add(tc_transpose(LEAF(k->type, k->n[0], k->n[1]), 0, 1), LEAF(k->type, k->n[1], k->n[0])));
}

static void cat(const gpu_kind *k) {
  made_one(tc_cat(3, (tc_tensor[]){LEAF(k->type, k->n[0], k->n[1]), LEAF(k->type, k->n[0], 7), LEAF(k->type, k->n[0], k->n[1])}, 1));
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

// ---- all: of each kind those first that CI takes ----

#define WIDE "ld.global.nc.v4|ld.global.v4 st.global.v4"
#define HALF_WIDE "ld.global.nc.v2|ld.global.v2|ld.global.nc.v4 st.global.v2|st.global.v4"
#define READS "ld.global.nc.v4|ld.global.v4"
#define AMD_WIDE "global_load_dwordx4|global_load_b128 global_store_dwordx4|global_store_b128"
#define AMD_HALF_WIDE \
  "global_load_dwordx2|global_load_b64|global_load_dwordx4|global_load_b128 " \
  "global_store_dwordx2|global_store_b64|global_store_dwordx4|global_store_b128"
#define AMD_READS "global_load_dwordx4|global_load_b128"
#define MMA "mma.sync.aligned.m16n8k16 ldmatrix.sync.aligned cp.async.cg.shared.global"
#define MMA_ODD "mma.sync.aligned.m16n8k16 ldmatrix.sync.aligned"
#define FMA "fma.rn.f32"
#define FMA_64 "fma.rn.f64"
#define AMD_FMA "v_fma_f32|v_fmac_f32|v_pk_fma_f32|v_dual_fmac_f32"
#define AMD_FMA_64 "v_fma_f64|v_fmac_f64"
#define MFMA "v_mfma_f32_16x16x"

static const gpu_kind gpu_kinds[] = {
    {"elementwise", "f32", chain, TC_F32, {1024, 1024}, WIDE, AMD_WIDE, NULL},
    {"elementwise", "bf16", chain, TC_BF16, {1024, 1024}, HALF_WIDE, AMD_HALF_WIDE, NULL},
    {"elementwise", "odd extents", chain, TC_F32, {33, 1021}, NULL, NULL, NULL},
    {"elementwise", "a part of rows", part_and_bias, TC_F16, {100, 1000}, NULL, NULL, NULL},
    {"elementwise", "casts", casts, TC_BF16, {512, 512}, NULL, NULL, NULL},
    {"elementwise", "i64", whole_numbers, TC_I64, {512, 512}, NULL, NULL, NULL},
    {"elementwise", "f64", chain, TC_F64, {1024, 1024}, NULL, NULL, NULL},
    {"elementwise", "i32", whole_numbers, TC_I32, {512, 512}, NULL, NULL, NULL},
    {"functions", "functions, f32", functions, TC_F32, {512, 512}, WIDE, AMD_WIDE, NULL},
    {"functions", "functions, f64", functions, TC_F64, {512, 512}, NULL, NULL, NULL},
    {"functions", "rare functions, f32", rare_functions, TC_F32, {512, 512}, NULL, NULL, NULL},
    {"functions", "rare functions, f64", rare_functions, TC_F64, {512, 512}, NULL, NULL, NULL},
    {"functions", "polygamma", polygamma, TC_F64, {64, 512}, NULL, NULL, NULL},
    {"reduction", "sums of rows, f32", sum_of, TC_F32, {512, 4096, 1}, READS, AMD_READS, NULL},
    {"reduction", "sums of columns, f32", sum_of, TC_F32, {4096, 512, 0}, READS, AMD_READS, NULL},
    {"reduction", "sum of all, f32", sum_of, TC_F32, {1024, 4096, -1}, READS, AMD_READS, NULL},
    {"reduction", "sums of rows, bf16", sum_of, TC_BF16, {512, 4096, 1}, NULL, NULL, NULL},
    {"reduction", "first of most, f32", first_of_most, TC_F32, {512, 1000, 1}, NULL, NULL, NULL},
    {"reduction", "an axis in the middle", middle, TC_F16, {64, 500}, NULL, NULL, NULL},
    {"reduction", "sums of columns, f64", sum_of, TC_F64, {4096, 96, 0}, NULL, NULL, NULL},
    {"reduction", "sum of all, i32", sum_of, TC_I32, {512, 4096, -1}, NULL, NULL, NULL},
    {"reduction", "products, f64", product_of, TC_F64, {100, 1001, 1}, NULL, NULL, NULL},
    {"reduction", "most, f16", most_of, TC_F16, {512, 1000, 0}, NULL, NULL, NULL},
    {"reduction", "any", any_of, TC_BOOL, {512, 1000, 1}, NULL, NULL, NULL},
    {"reduction", "variance", variance_of, TC_F32, {512, 4096, 1}, NULL, NULL, NULL},
    {"reduction", "logsumexp, columns", logsumexp_of, TC_F32, {1000, 200, 0}, NULL, NULL, NULL},
    {"rows", "softmax, f32", softmax, TC_F32, {512, 4096, 1}, WIDE, AMD_WIDE, NULL},
    {"rows", "softmax, long", softmax, TC_F32, {32, 40000, 1}, NULL, NULL, NULL},
    {"rows", "layer norm, very long", layer_norm, TC_BF16, {32, 131072}, NULL, NULL, NULL},
    {"rows", "softmax, f16", softmax, TC_F16, {512, 4096, 1}, HALF_WIDE, AMD_HALF_WIDE, NULL},
    {"rows", "softmax, odd", softmax, TC_F32, {100, 1001, 1}, NULL, NULL, NULL},
    {"rows", "layer norm, f32", layer_norm, TC_F32, {512, 4096}, WIDE, AMD_WIDE, NULL},
    {"rows", "softmax of columns", softmax, TC_BF16, {300, 512, 0}, NULL, NULL, NULL},
    {"rows", "layer norm, f64", layer_norm, TC_F64, {64, 1000}, NULL, NULL, NULL},
    {"rows", "rms norm, f16", rms_norm, TC_F16, {512, 4096}, HALF_WIDE, AMD_HALF_WIDE, NULL},
    {"rows", "group norm", group_norm, TC_F16, {8, 64}, NULL, NULL, NULL},
    {"rows with gradients", "log softmax, gradients", softmax_grads, TC_F32, {256, 2048}, NULL, NULL, NULL},
    {"rows with gradients", "layer norm, gradients, bf16", layer_norm_grads, TC_BF16, {512, 1024}, NULL, NULL, NULL},
    {"rows with gradients", "layer norm, gradients, f32", layer_norm_grads, TC_F32, {512, 4096}, NULL, NULL, NULL},
    {"rows with gradients", "cross entropy, f32", cross_entropy, TC_F32, {64, 32000}, NULL, NULL, NULL},
    {"rows with gradients", "cross entropy, bf16", cross_entropy, TC_BF16, {64, 50257}, NULL, NULL, NULL},
    {"rows with gradients", "batch norm", batch_norm, TC_F32, {8, 64}, NULL, NULL, NULL},
    {"rows with gradients", "batch norm, bf16", batch_norm, TC_BF16, {8, 128}, NULL, NULL, NULL},
    {"sorts and scans", "short rows", sort, TC_F32, {64, 100}, NULL, NULL, NULL},
    {"sorts and scans", "long rows", sort, TC_F16, {4, 20000}, NULL, NULL, NULL},
    {"sorts and scans", "sums, long", cumsum, TC_F32, {4, 20000}, NULL, NULL, NULL},
    {"sorts and scans", "the first five", topk, TC_BF16, {64, 1000}, NULL, NULL, NULL},
    {"sorts and scans", "logcumsumexp", logcumsumexp, TC_F16, {64, 3000}, NULL, NULL, NULL},
    {"sorts and scans", "places", searchsorted, TC_F32, {500, 1000}, NULL, NULL, NULL},
    {"sorts and scans", "rows, i64", sort, TC_I64, {8, 3000}, NULL, NULL, NULL},
    {"sorts and scans", "medians", median, TC_F64, {64, 500}, NULL, NULL, NULL},
    {"sorts and scans", "sums, short", cumsum, TC_I32, {64, 100}, NULL, NULL, NULL},
    {"sorts and scans", "products", cumprod, TC_F64, {64, 3000}, NULL, NULL, NULL},
    {"sorts and scans", "the most so far", cummax, TC_I8, {64, 3000}, NULL, NULL, NULL},
    {"products of halves", "bf16", product, TC_BF16, {1024, 1024, 1024}, MMA, AMD_FMA, MFMA},
    {"products of halves", "f16, turned, bias, gelu", linear, TC_F16, {1024, 768, 3072}, MMA, AMD_FMA, MFMA},
    {"products of halves", "bf16, odd", product, TC_BF16, {1023, 1025, 1027}, MMA_ODD, AMD_FMA, MFMA},
    {"products of halves", "four rows, f16", product, TC_F16, {4, 4096, 4096}, READS, AMD_READS, NULL},
    {"products of halves", "bf16, in parts of k", product, TC_BF16, {64, 64, 16384}, MMA, AMD_FMA, MFMA},
    {"products of halves", "one row, bf16", linear, TC_BF16, {1, 4096, 4096}, READS " shfl.sync", AMD_READS " " AMD_FMA, NULL},
    {"products of halves", "f16, the left one turned", of_the_left_turned, TC_F16, {512, 512, 1000}, MMA, AMD_FMA, MFMA},
    {"products of halves", "bf16, gradients", linear_grads, TC_BF16, {512, 768, 256}, MMA, AMD_FMA, MFMA},
    {"products of halves", "many, f16", products, TC_F16, {128, 128, 64}, MMA, AMD_FMA, MFMA},
    {"other products",
     "f32",
     product,
     TC_F32,
     {1024, 1024, 1024},
     FMA " ld.shared.v4 st.global.v4",
     AMD_FMA " ds_read_b128|ds_load_b128 " AMD_READS,
     NULL},
    {"other products", "f32, odd", product, TC_F32, {1023, 1025, 1027}, FMA, AMD_FMA, NULL},
    {"other products", "f64", product, TC_F64, {512, 512, 512}, FMA_64, AMD_FMA_64, NULL},
    {"other products", "f32, in parts of k", product, TC_F32, {64, 64, 16384}, FMA, AMD_FMA, NULL},
    {"other products", "one column, f32", product, TC_F32, {4096, 1, 2048}, FMA, AMD_FMA, NULL},
    {"other products", "i32", product, TC_I32, {256, 256, 256}, NULL, NULL, NULL},
    {"other products", "f32, gradients", linear_grads, TC_F32, {512, 768, 256}, FMA " ld.shared.v4", AMD_FMA, NULL},
    {"other products", "many, f32", products, TC_F32, {100, 36, 64}, FMA, AMD_FMA, NULL},
    {"convolution", "bf16", conv, TC_BF16, {64, 128, 28, 3}, MMA_ODD, AMD_FMA, MFMA},
    {"convolution", "f32", conv, TC_F32, {64, 64, 28, 3}, FMA, AMD_FMA, NULL},
    {"convolution", "f16, one by one", conv, TC_F16, {256, 64, 14, 1}, MMA_ODD, AMD_FMA, MFMA},
    {"convolution", "three channels", conv_strided, TC_F32, {3, 64, 64, 7}, FMA, AMD_FMA, NULL},
    {"convolution", "bf16, strided", conv_strided, TC_BF16, {64, 128, 28, 3}, MMA_ODD, AMD_FMA, MFMA},
    {"convolution", "depthwise", conv_depthwise, TC_F32, {64, 64, 28, 3}, NULL, NULL, NULL},
    {"convolution", "transposed", conv_transposed, TC_F16, {64, 32, 14, 2}, NULL, NULL, NULL},
    {"convolution", "of lines", conv_line, TC_F32, {32, 48, 200, 5}, FMA, AMD_FMA, NULL},
    {"windows with gradients", "gradients, bf16", conv_grads, TC_BF16, {64, 64, 28, 3}, MMA_ODD, AMD_FMA, MFMA},
    {"windows with gradients", "gradients, f32", conv_grads, TC_F32, {32, 64, 28, 3}, FMA, AMD_FMA, NULL},
    {"windows with gradients", "pool of the most, gradients", max_pool, TC_F32, {64, 64, 28, 2}, NULL, NULL, NULL},
    {"windows with gradients", "pool of means", avg_pool, TC_BF16, {64, 64, 28, 3}, NULL, NULL, NULL},
    {"windows with gradients", "interpolated, gradients", interpolate, TC_F32, {16, 16, 20, 1}, NULL, NULL, NULL},
    {"attention", "bf16, heads of 128, causal", attention, TC_BF16, {512, 512, 128, 1}, MMA, NULL, NULL},
    {"attention", "f32, heads of 64, causal", attention, TC_F32, {512, 512, 64, 1}, FMA " ld.shared.v4", AMD_FMA " ds_read_b128|ds_load_b128", NULL},
    {"attention", "decoding, bf16", attention_grouped, TC_BF16, {1, 4096, 128, 1}, MMA, NULL, NULL},
    {"attention", "f16, shared keys", attention_grouped, TC_F16, {256, 512, 128, 1}, MMA, NULL, NULL},
    {"attention", "f64, heads of 128", attention, TC_F64, {256, 256, 128, 1}, FMA_64, AMD_FMA_64, NULL},
    {"attention", "f32, heads of 256", attention, TC_F32, {512, 512, 256, 0}, FMA, AMD_FMA, NULL},
    {"attention", "f16, heads of 64", attention, TC_F16, {500, 503, 64, 0}, MMA, NULL, NULL},
    {"attention", "bf16, heads of 256", attention, TC_BF16, {512, 512, 256, 1}, MMA, NULL, NULL},
    {"attention", "bf16, a mask of bools", attention_masked, TC_BF16, {256, 300, 64, 1}, MMA, NULL, NULL},
    {"attention", "f16, a mask of numbers", attention_masked, TC_F16, {256, 300, 128, 0}, MMA, NULL, NULL},
    {"attention", "decoding, f32", attention, TC_F32, {1, 4096, 64, 0}, FMA, AMD_FMA, NULL},
    {"attention's gradients", "gradients, bf16, heads of 128", attention_grads, TC_BF16, {512, 512, 128, 1}, MMA, NULL, NULL},
    {"attention's gradients", "gradients, f16, heads of 64", attention_grads, TC_F16, {300, 310, 64, 0}, MMA, NULL, NULL},
    {"attention's gradients", "gradients, bf16, heads of 256", attention_grads, TC_BF16, {256, 256, 256, 1}, MMA, NULL, NULL},
    {"attention's gradients", "gradients, f32, heads of 64", attention_grads, TC_F32, {512, 512, 64, 1}, FMA, AMD_FMA, NULL},
    {"attention's gradients", "gradients, f32, heads of 128", attention_grads, TC_F32, {256, 256, 128, 1}, FMA, AMD_FMA, NULL},
    {"attention's gradients", "gradients, f64, heads of 64", attention_grads, TC_F64, {256, 256, 64, 1}, FMA_64, AMD_FMA_64, NULL},
    {"by index", "gather", gather, TC_F32, {40, 300, 500}, NULL, NULL, NULL},
    {"by index", "embedding, bf16", embedding, TC_BF16, {500, 1000, 512}, NULL, NULL, NULL},
    {"by index", "embedding's gradient, f32", embedding_grads, TC_F32, {500, 1000, 512}, NULL, NULL, NULL},
    {"by index", "embedding's gradient, bf16", embedding_grads, TC_BF16, {5000, 100, 64}, NULL, NULL, NULL},
    {"by index", "scatter", scatter, TC_F16, {100, 300, 40}, NULL, NULL, NULL},
    {"by index", "scatter-add, f32", scatter_add, TC_F32, {100, 300, 40}, NULL, NULL, NULL},
    {"by index", "scatter-add, f64", scatter_add, TC_F64, {100, 300, 40}, NULL, NULL, NULL},
    {"by index", "index-add", index_add, TC_I64, {100, 300, 40}, NULL, NULL, NULL},
    {"by index", "one hot", one_hot, TC_F32, {100, 300}, NULL, NULL, NULL},
    {"draws", "uniform, f32", uniform, TC_F32, {512, 512}, NULL, NULL, NULL},
    {"draws", "uniform, f64", uniform, TC_F64, {512, 511}, NULL, NULL, NULL},
    {"draws", "normal, f32", normal, TC_F32, {512, 512}, NULL, NULL, NULL},
    {"draws", "normal, f16", normal, TC_F16, {512, 512}, NULL, NULL, NULL},
    {"draws", "whole numbers", random_integers, TC_I32, {512, 512}, NULL, NULL, NULL},
    {"draws", "dropout, bf16", dropout, TC_BF16, {512, 512}, NULL, NULL, NULL},
    {"draws", "a permutation", permutation, TC_I64, {5000}, NULL, NULL, NULL},
    {"copies", "turned, f32", turned, TC_F32, {512, 768}, NULL, NULL, NULL},
    {"copies", "turned, f16", turned, TC_F16, {500, 513}, NULL, NULL, NULL},
    {"copies", "joined", cat, TC_BF16, {512, 512}, NULL, NULL, NULL},
    {"copies", "flipped and rolled", flipped_and_rolled, TC_F64, {100, 200}, NULL, NULL, NULL},
    {"copies", "padded", padded, TC_U8, {100, 200}, NULL, NULL, NULL},
    {"copies", "tiled", tiled, TC_I32, {100, 200}, NULL, NULL, NULL},
    {"copies", "a part assigned", assigned, TC_F32, {100, 200}, NULL, NULL, NULL},
    {"training", "a step of AdamW, f32", adam, TC_F32, {256, 512}, NULL, NULL, NULL},
    {"training", "a step of AdamW, bf16", adam, TC_BF16, {512, 256}, NULL, NULL, NULL},
};
enum { n_gpu_kinds = sizeof gpu_kinds / sizeof *gpu_kinds };

// Records and evals it, and has the texts of its kernels kept in the directory.
static inline void gpu_kind_make(const gpu_kind *k, const char *dir) {
  gpu_kind_dir = dir;
  k->record(k);
}

#endif
