// Convolution, pooling and norms beyond golden values: what a wrong call says, what batch norm
// leaves behind, and that windows are read where they lie.
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tc/tc.h>

#include "runtime/options.h"

#define OK(call) cr_assert_eq((call), TC_OK, "%s", tc_last_error()->message)
#define NONE ((tc_tensor){0, 0})
#define S(...) TC_SHAPE(__VA_ARGS__)

static tc_tensor zeros(tc_dims shape) {
  return tc_zeros(shape, TC_F32);
}

// ---- What a wrong call says ----

static void expect_refusal(tc_tensor y, tc_status status, const char *says) {
  double v;
  cr_expect_neq(tc_item_f64(y, &v), TC_OK);
  cr_expect_eq(tc_last_error()->status, status, "%s", tc_last_error()->message);
  cr_expect_not_null(strstr(tc_last_error()->message, says), "\"%s\" is not in \"%s\"", says, tc_last_error()->message);
  tc_clear_error();
}

Test(conv, a_call_that_does_not_fit_says_why) {
  tc_tensor x = zeros(S(1, 3, 5, 5)), w = zeros(S(4, 3, 3, 3));
  tc_conv_options none = {.groups = 0};
  expect_refusal(tc_conv2d(x, zeros(S(4, 2, 3, 3)), NONE, none), TC_ERR_SHAPE,
                 "[1, 3, 5, 5] does not fit weight [4, 2, 3, 3] in 1 groups");
  expect_refusal(tc_conv2d(zeros(S(3, 5)), w, NONE, none), TC_ERR_SHAPE, "does not fit weight");
  expect_refusal(tc_conv1d(x, w, NONE, none), TC_ERR_SHAPE, "with 1 axes after them");
  expect_refusal(tc_conv2d(x, w, zeros(S(3)), none), TC_ERR_SHAPE, "bias is [3], weight has 4 outputs");
  expect_refusal(tc_conv2d(x, zeros(S(4, 3, 6, 3)), NONE, none), TC_ERR_SHAPE,
                 "a window of size 6 and dilation 1 does not fit an extent of 5");
  expect_refusal(tc_conv2d(x, w, NONE, (tc_conv_options){.dilation = S(3)}), TC_ERR_SHAPE, "size 3 and dilation 3");
  expect_refusal(tc_conv2d(x, w, NONE, (tc_conv_options){.stride = S(0)}), TC_ERR_ARG,
                 "stride is 0; at least 1 is needed");
  expect_refusal(tc_conv2d(x, w, NONE, (tc_conv_options){.padding = S(1, -1)}), TC_ERR_ARG, "padding is -1");
  expect_refusal(tc_conv2d(x, w, NONE, (tc_conv_options){.padding = S(1, 1, 1)}), TC_ERR_ARG,
                 "padding has 3 numbers; 1 or 2 are needed");
  expect_refusal(tc_conv2d(x, w, NONE, (tc_conv_options){.groups = -1}), TC_ERR_ARG, "groups is -1");
  expect_refusal(tc_conv2d(x, zeros(S(4, 1, 3, 3)), NONE, (tc_conv_options){.groups = 3}), TC_ERR_SHAPE, "in 3 groups");
  expect_refusal(tc_conv2d(x, w, NONE, (tc_conv_options){.output_padding = S(1)}), TC_ERR_ARG,
                 "output_padding is for transposed");
  expect_refusal(
      tc_conv2d(zeros(S(1, 4, 5, 5)), zeros(S(0, 4, 3, 3)), NONE, (tc_conv_options){.groups = (INT64_C(1) << 62) + 1}),
      TC_ERR_SHAPE, "does not fit weight");
  expect_refusal(tc_conv2d(x, w, NONE, (tc_conv_options){.stride = S(INT64_C(1) << 40)}), TC_ERR_ARG,
                 "at most 2147483647 is possible");
  expect_refusal(tc_conv2d(tc_cast(x, TC_BOOL), tc_cast(w, TC_BOOL), NONE, none), TC_ERR_DTYPE,
                 "bool has no convolution");
  expect_refusal(tc_conv_transpose2d(x, w, NONE, none), TC_ERR_SHAPE, "[in, out / groups, ...]");
  expect_refusal(tc_conv_transpose1d(zeros(S(1, 2, 3)), zeros(S(2, 2, 2)), NONE,
                                     (tc_conv_options){.stride = S(2), .output_padding = S(2)}),
                 TC_ERR_ARG, "output_padding is 2; it must be less than the stride, 2");
  expect_refusal(tc_conv_transpose1d(zeros(S(1, 2, 1)), zeros(S(2, 2, 2)), NONE, (tc_conv_options){.padding = S(1)}),
                 TC_ERR_SHAPE, "padding 1 leaves nothing of 2 elements");
  expect_refusal(tc_conv_transpose1d(zeros(S(1, 2, 0)), zeros(S(2, 2, 3)), NONE, (tc_conv_options){0}), TC_ERR_SHAPE,
                 "a window of size 3 and an extent of 0; at least 1 is needed");
  expect_refusal(tc_unfold(x, 4, 2, 1), TC_ERR_ARG, "axis 4 is out of range");
  expect_refusal(tc_unfold(x, 2, 0, 1), TC_ERR_ARG, "windows have size 0");
  expect_refusal(tc_unfold(zeros(S(1, 1, 1, 1, 1, 1, 1, 2)), 7, 2, 1), TC_ERR_SHAPE, "rank 9");
}

// Ones around zeros, with channels last or first: the weight's sums over what lies outside. A
// picture, whose convolution looks for padding, and a wider image.
Test(conv, what_the_user_padded_by_a_value_is_no_padding_by_zeros) {
  for (int channels = 3; channels <= 16; channels += 13)
    for (int last = 0; last < 2; last++) {
      tc_tensor x = last ? zeros(S(1, 9, 9, channels)) : zeros(S(1, channels, 9, 9));
      x = last ? tc_permute(tc_pad(x, S(0, 2, 2, 0), S(0, 2, 2, 0), 1), TC_AXES(0, 3, 1, 2))
               : tc_pad(x, S(0, 0, 2, 2), S(0, 0, 2, 2), 1);
      tc_tensor y = tc_conv2d(x, tc_ones(S(16, channels, 5, 5), TC_F32), NONE, (tc_conv_options){.groups = 1});
      float corner, middle;
      OK(tc_item_f32(tc_slice(tc_slice(tc_slice(tc_slice(y, 0, 0, 1, 1), 1, 0, 1, 1), 2, 0, 1, 1), 3, 0, 1, 1),
                     &corner));
      OK(tc_item_f32(tc_slice(tc_slice(tc_slice(tc_slice(y, 0, 0, 1, 1), 1, 0, 1, 1), 2, 4, 5, 1), 3, 4, 5, 1),
                     &middle));
      cr_expect_eq(corner, (float)(channels * (25 - 9)), "%d channels: %g", channels, (double)corner);
      cr_expect_eq(middle, 0, "%d channels: %g", channels, (double)middle);
    }
}

Test(conv, what_cannot_be_ordered_or_transposed_says_why) {
  tc_tensor x = zeros(S(3, 4)), table = zeros(S(5, 2));
  expect_refusal(tc_topk(x, 5, 1, true), TC_ERR_ARG, "topk: k is 5; axis 1 has 4 elements");
  expect_refusal(tc_sort(x, 2, false), TC_ERR_ARG, "sort: axis 2 is out of range");
  expect_refusal(tc_kthvalue(x, 0, 0, false), TC_ERR_ARG, "kthvalue: k is 0; axis 0 has 3 elements");
  expect_refusal(tc_median(zeros(S(2, 0)), 1, false), TC_ERR_SHAPE, "median: axis 1 has no elements");
  expect_refusal(tc_searchsorted(x, zeros(S(2, 4)), false), TC_ERR_SHAPE,
                 "searchsorted: sorted is [3, 4], values are [2, 4]");
  expect_refusal(tc_bucketize(x, x, false), TC_ERR_SHAPE, "bucketize: boundaries are [3, 4]");
  expect_refusal(tc_rotary_embedding(x, table, table, (tc_rotary_options){.offset = 3}), TC_ERR_ARG,
                 "3 positions from 3 on are not within the 5");
  expect_refusal(tc_rotary_embedding(x, zeros(S(5, 3)), zeros(S(5, 3)), (tc_rotary_options){.offset = 0}), TC_ERR_SHAPE,
                 "x [3, 4], cos [5, 3]");
  expect_refusal(tc_rotary_angles(4, 3, 10000), TC_ERR_ARG, "dim 3");
}

// The position is an argument: one plan, one kernel.
Test(conv, a_rotary_embedding_is_one_kernel_whatever_the_position) {
  tc_tensor x = tc_rand(S(2, 3, 1, 8), TC_F16), table = tc_rand(S(5, 4), TC_F32);
  cr_assert_eq(tc_eval(2, (const tc_tensor[]){x, table}), TC_OK);
  for (int neighbours = 0; neighbours < 2; neighbours++)
    for (int at = 0; at < 3; at++) {
      tc_tensor y = tc_rotary_embedding(x, table, table, (tc_rotary_options){.interleaved = neighbours, .offset = at});
      cr_assert_eq(tc_eval(1, &y), TC_OK);
      tc_sync_point p;
      cr_assert_eq(tc_sync_points(1, &p), 1);
      cr_expect(p.n_kernels == 1 && p.hit == (at > 0), "position %d: %u kernels, %s plan", at, p.n_kernels,
                p.hit ? "the same" : "a new");
      tc_release(y);
    }
}

Test(conv, pools_norms_and_resizing_that_do_not_fit_say_why) {
  tc_tensor x = zeros(S(2, 3, 4, 4)), c = zeros(S(3));
  tc_pool_options none = {.exclude_padding = false};
  tc_batch_norm_options training = {.training = true, TC_BATCH_NORM_DEFAULTS}, evaluation = {TC_BATCH_NORM_DEFAULTS};
  expect_refusal(tc_max_pool2d(x, S(2), (tc_pool_options){.padding = S(2)}), TC_ERR_ARG,
                 "padding 2 is more than half of a window of 2");
  expect_refusal(
      tc_max_pool2d(x, S(1, 2), (tc_pool_options){.stride = S(1, 5), .padding = S(0, 1), .dilation = S(1, 5)}),
      TC_ERR_ARG, "window 0 along axis 3 has elements of the padding alone");
  expect_refusal(tc_max_pool2d(x, S(2), (tc_pool_options){.stride = S(1), .padding = S(2), .dilation = S(5)}),
                 TC_ERR_ARG, "window 1 along axis 2 has elements of the padding alone");
  expect_refusal(tc_max_pool2d(x, S(5), none), TC_ERR_SHAPE, "a window of 5 does not fit in 4 elements of axis 2");
  expect_refusal(tc_max_pool2d(x, S(2), (tc_pool_options){.divisor_override = 3}), TC_ERR_ARG,
                 "divisor_override are for averages");
  expect_refusal(tc_max_pool2d(x, TC_SCALAR, none), TC_ERR_ARG, "size is 0");
  expect_refusal(tc_max_pool1d(x, S(2), none), TC_ERR_SHAPE, "x has rank 4; 3, or 2 without a batch, is needed");
  expect_refusal(tc_avg_pool2d(x, S(2), (tc_pool_options){.dilation = S(2)}), TC_ERR_ARG,
                 "dilation is 2; it is for max pooling");
  expect_refusal(tc_avg_pool2d(x, S(2), (tc_pool_options){.stride = S(0)}), TC_ERR_ARG, "stride is 0");
  expect_refusal(tc_adaptive_avg_pool2d(x, S(0)), TC_ERR_ARG, "size is 0");
  expect_refusal(tc_adaptive_avg_pool2d(c, S(1)), TC_ERR_SHAPE, "x has rank 1");
  expect_refusal(tc_adaptive_avg_pool2d(zeros(S(1, 1, 0, 2)), S(1)), TC_ERR_SHAPE, "axis 2 of x has no elements");
  expect_refusal(tc_batch_norm(x, NONE, NONE, NONE, NONE, evaluation), TC_ERR_ARG,
                 "running_mean and running_var are needed");
  expect_refusal(tc_batch_norm(zeros(S(1, 3)), NONE, NONE, NONE, NONE, training), TC_ERR_SHAPE,
                 "one value for each channel");
  expect_refusal(tc_batch_norm(x, c, c, zeros(S(4)), NONE, training), TC_ERR_SHAPE,
                 "weight is [4], x has 3 to go with it");
  expect_refusal(tc_batch_norm(x, zeros(S(2)), c, NONE, NONE, training), TC_ERR_SHAPE, "running_mean is [2]");
  expect_refusal(tc_group_norm(x, 2, NONE, NONE, 1e-5), TC_ERR_ARG, "3 channels cannot be cut into 2 groups");
  expect_refusal(tc_group_norm(c, 1, NONE, NONE, 1e-5), TC_ERR_SHAPE, "x has rank 1, at least 2 is needed");
  expect_refusal(tc_rms_norm(x, c, 1e-5), TC_ERR_SHAPE, "weight is [3], x has 4 to go with it");
  expect_refusal(tc_layer_norm(x, NONE, c, 1e-5), TC_ERR_SHAPE, "bias is [3], x has 4 to go with it");
  expect_refusal(tc_interpolate(x, S(2), (tc_interpolate_options){.align_corners = true}), TC_ERR_ARG,
                 "align_corners is for TC_LINEAR");
  expect_refusal(tc_interpolate(x, S(2, 2, 2), (tc_interpolate_options){TC_LINEAR}), TC_ERR_ARG, "size has 3 numbers");
  expect_refusal(tc_interpolate(zeros(S(2, 2)), S(2), (tc_interpolate_options){TC_LINEAR}), TC_ERR_SHAPE,
                 "x has rank 2");
}

// ---- Batch norm ----

// Channel 0 holds 1 2 3 6 (mean 3, variance 14/4, unbiased 14/3), channel 1 holds 0 0 4 4 (mean 2,
// variance 4, unbiased 16/3).
static tc_tensor two_channels(void) {
  const float v[] = {1, 2, 0, 0, 3, 6, 4, 4};
  return tc_from_host(v, S(2, 2, 2), TC_F32);
}

static void expect_values(tc_tensor t, const double *want, int n) {
  float got[8];
  OK(tc_to_host(t, got, (size_t)n * sizeof got[0]));
  for (int i = 0; i < n; i++)
    cr_expect_float_eq(got[i], want[i], 1e-5, "element %d is %g, not %g", i, (double)got[i], want[i]);
}

Test(conv, batch_norm_moves_the_running_values_by_momentum) {
  tc_tensor mean = zeros(S(2)), var = tc_ones(S(2), TC_F32), x = two_channels();
  tc_tensor y = tc_batch_norm(x, mean, var, NONE, NONE,
                              (tc_batch_norm_options){.training = true, .momentum = 0.25, .eps = TC_ZERO});
  expect_values(mean, (const double[]){0.75, 0.5}, 2);
  expect_values(var, (const double[]){0.75 + 14.0 / 12, 0.75 + 16.0 / 12}, 2);
  expect_values(y, (const double[]){-2 / sqrt(3.5), -1 / sqrt(3.5), -1, -1, 0, 3 / sqrt(3.5), 1, 1}, 8);
}

Test(conv, an_empty_batch_leaves_the_running_values) {
  tc_tensor mean = tc_full(S(2), 1, TC_F32), var = tc_full(S(2), 4, TC_F32);
  tc_tensor y = tc_batch_norm(zeros(S(0, 2, 3)), mean, var, NONE, NONE,
                              (tc_batch_norm_options){.training = true, TC_BATCH_NORM_DEFAULTS});
  OK(tc_eval(1, &y));
  expect_values(mean, (const double[]){1, 1}, 2);
  expect_values(var, (const double[]){4, 4}, 2);
}

Test(conv, evaluation_reads_the_running_values_and_leaves_them) {
  tc_tensor mean = tc_full(S(2), 1, TC_F32), var = tc_full(S(2), 4, TC_F32);
  tc_tensor y =
      tc_batch_norm(two_channels(), mean, var, NONE, NONE, (tc_batch_norm_options){.momentum = 0.5, .eps = TC_ZERO});
  expect_values(y, (const double[]){0, 0.5, -0.5, -0.5, 1, 2.5, 1.5, 1.5}, 8);
  expect_values(mean, (const double[]){1, 1}, 2);
  expect_values(var, (const double[]){4, 4}, 2);
}

Test(conv, running_values_have_no_history) {
  tc_tensor mean = zeros(S(2)), var = tc_ones(S(2), TC_F32), x = tc_param(two_channels()), g;
  tc_tensor y =
      tc_batch_norm(x, mean, var, NONE, NONE, (tc_batch_norm_options){.training = true, TC_BATCH_NORM_DEFAULTS});
  cr_expect_neq(tc_grads_of(tc_sum(tc_add(mean, var), TC_ALL, false), &x, 1, &g, 0), TC_OK,
                "the running mean depends on x");
  tc_clear_error();
  OK(tc_grads_of(tc_sum(tc_square(y), TC_ALL, false), &x, 1, &g, 0));
  tc_release(x);
}

// A model's step: its running values are assigned again and again, in memory that does not grow.
Test(conv, running_values_are_updated_step_by_step) {
  tc_tensor mean = zeros(S(2)), var = tc_ones(S(2), TC_F32), w = tc_param(tc_ones(S(2), TC_F32));
  double m = 0;
  for (int step = 0; step < 5; step++, m = 0.9 * m + 0.1 * 3) {
    tc_scope s = tc_scope_begin();
    tc_tensor y = tc_batch_norm(two_channels(), mean, var, w, NONE,
                                (tc_batch_norm_options){.training = true, TC_BATCH_NORM_DEFAULTS});
    OK(tc_backward(tc_sum(tc_square(y), TC_ALL, false)));
    OK(tc_sync(NULL));
    tc_scope_end(s);
  }
  float got[2];
  OK(tc_to_host(mean, got, sizeof got));
  cr_expect_float_eq(got[0], m, 1e-5, "%g, not %g", (double)got[0], m);
  tc_release(w);
}

// ---- Windows are views ----

// 4 images of 32 by 28 by 28: windows of 3 by 3 would hold nine times as much as x.
Test(conv, a_convolution_does_not_store_its_windows) {
  enum { X_BYTES = 4 * 32 * 28 * 28 * 4 };
  OK(tc_set_default_device("tc:cpu"));
  tc_tensor x = tc_rand(S(4, 32, 28, 28), TC_F32), w = tc_rand(S(32, 32, 3, 3), TC_F32);
  OK(tc_sync(NULL));
  size_t before = tc_memory_stats().live_bytes;
  tc_tensor y = tc_relu(tc_conv2d(x, w, NONE, (tc_conv_options){.padding = S(1)}));
  OK(tc_eval(1, &y));
  cr_expect_lt(tc_memory_stats().peak_bytes - before, 5 * (size_t)X_BYTES, "%zu bytes",
               tc_memory_stats().peak_bytes - before);
}

static uint64_t kernels_of_last_sync(void) {
  tc_sync_point p;
  return tc_sync_points(1, &p) == 1 ? p.n_kernels : 0;
}

Test(conv, windows_are_read_where_they_lie) {
  OK(tc_set_default_device("tc:cpu"));
  tc_tensor x = tc_rand(S(64, 1000), TC_F32);
  OK(tc_sync(NULL));
  tc_tensor y = tc_sum(tc_square(tc_unfold(tc_sin(x), 1, 8, 3)), TC_AXES(-1), false);
  size_t before = tc_memory_stats().peak_bytes;
  OK(tc_eval(1, &y));
  cr_expect_leq(kernels_of_last_sync(), 2, "%d kernels", (int)kernels_of_last_sync());
  cr_expect_lt(tc_memory_stats().peak_bytes - before, 64 * 332 * 8 * sizeof(float), "the windows were stored");
}

// ---- Results with channels first are made so ----

enum { ALONE, BESIDE_CHANNELS_LAST, READ_TWICE };  // what else is asked for
// what follows, each after those before it; before a residual a scale for each channel, too
enum { NOTHING, BIAS, RELU, RESIDUAL };

typedef struct image {
  int n, c, h, w, o, size, stride, groups;  // windows of 1 by size
  bool in_place;  // pixels lie side by side where the weight multiplies them, and are many enough; or channels are few
  int more_rows, padding, dilation;  // of windows, beyond one; 0: by 1
} image;

typedef struct operands {
  tc_tensor x, w, bias, scale, residual;
} operands;

static tc_tensor waves(tc_dims d, double step, tc_type type) {
  int64_t n = 1;
  for (int i = 0; i < d.rank; i++) n *= d.dim[i];
  return tc_cast(tc_sin(tc_mul(tc_reshape(tc_arange(0, (double)n, 1, TC_F32), d), step)), type);
}

static operands operands_of(const image *m, tc_type type) {
  int reach = m->dilation ? m->dilation : 1, twice = 2 * m->padding;
  int wide = (m->w + twice - 1 - (m->size - 1) * reach) / m->stride + 1,
      high = (m->h + twice - 1 - m->more_rows * reach) / m->stride + 1;
  operands p = {.x = waves(S(m->n, m->c, m->h, m->w), 0.37, type),
                .w = waves(S(m->o, m->c / m->groups, 1 + m->more_rows, m->size), 0.73, type),
                .bias = waves(S(m->o), 0.9, type),
                .scale = waves(S(m->o, 1, 1), 1.1, type),
                .residual = waves(S(m->n, m->o, high, wide), 0.11, type)};
  OK(tc_eval(5, (tc_tensor[]){p.x, p.w, p.bias, p.scale, p.residual}));
  return p;
}

static tc_tensor convolved(const image *m, const operands *p, int follows) {
  tc_conv_options o = {.stride = S(m->stride),
                       .padding = S(m->padding),
                       .dilation = S(m->dilation ? m->dilation : 1),
                       .groups = m->groups};
  tc_tensor y = tc_conv2d(p->x, p->w, follows >= BIAS ? p->bias : NONE, o);
  if (follows == RESIDUAL) y = tc_add(tc_mul(y, p->scale), p->residual);
  return follows >= RELU ? tc_relu(y) : y;
}

// The result's bytes, and of how many kernels it was.
static uint64_t bytes_of(const image *m, const operands *p, int follows, int asked, tc_type type, unsigned char *out,
                         size_t bytes) {
  tc_scope s = tc_scope_begin();
  tc_tensor y = tc_keep(convolved(m, p, follows)), other = y;
  if (asked == BESIDE_CHANNELS_LAST) other = tc_keep(tc_permute(y, S(0, 2, 3, 1)));
  if (asked == READ_TWICE) other = tc_keep(tc_neg(y));
  tc_scope_end(s);
  OK(tc_eval(2, (tc_tensor[]){y, other}));
  uint64_t kernels = kernels_of_last_sync();
  cr_assert_eq(tc_dtype(y), type);
  OK(tc_to_host(y, out, bytes));
  if (asked != ALONE) tc_release(other);
  tc_release(y);
  return kernels;
}

// Moved by a kernel of its own, where something else reads the product as it lies, or made in that
// order: the same sums.
static void expect_same_bits(const image *m, tc_type type) {
  tc_scope s = tc_scope_begin();
  operands p = operands_of(m, type);
  size_t bytes = (size_t)tc_numel(p.residual) * tc_type_bytes(type);
  unsigned char *alone = malloc(bytes), *beside = malloc(bytes);
  for (int follows = NOTHING; follows <= RESIDUAL; follows++) {
    uint64_t kernels = bytes_of(m, &p, follows, ALONE, type, alone, bytes);
    cr_expect_eq(kernels == 1, m->in_place, "[%d %d %d %d] by %d, what follows %d: %d kernels", m->n, m->c, m->h, m->w,
                 m->o, follows, (int)kernels);
    for (int asked = BESIDE_CHANNELS_LAST; asked <= READ_TWICE; asked++) {
      (void)bytes_of(m, &p, follows, asked, type, beside, bytes);
      cr_expect(memcmp(alone, beside, bytes) == 0,
                "[%d %d %d %d] by %d of %dx%d, stride %d, groups %d, %s, what follows %d, asked for %d", m->n, m->c,
                m->h, m->w, m->o, 1 + m->more_rows, m->size, m->stride, m->groups, tc_type_name(type), follows, asked);
    }
  }
  free(alone), free(beside);
  tc_scope_end(s);
}

Test(conv, a_result_with_channels_first_is_made_so_where_pixels_lie_side_by_side) {
  static const image images[] = {
      {2, 16, 32, 32, 48, 1, 1, 1, true},  {1, 16, 8, 8, 16, 1, 1, 1, true},  {3, 5, 9, 11, 7, 1, 1, 1, true},
      {1, 3, 13, 5, 1, 1, 1, 1, true},     {2, 1, 1, 200, 8, 9, 1, 1, true},  {2, 16, 7, 7, 32, 1, 1, 1, false},
      {2, 16, 18, 18, 32, 1, 2, 1, false}, {2, 16, 9, 9, 32, 1, 1, 4, false}, {1, 2, 8, 100, 8, 9, 1, 1, false},
  };
  static const tc_type types[] = {TC_F32, TC_F64, TC_BF16};
  OK(tc_set_default_device("tc:cpu"));
  for (size_t i = 0; i < sizeof images / sizeof images[0]; i++)
    for (int k = 0; k < (i % 4 == 0 ? 3 : 1); k++) expect_same_bits(&images[i], types[k]);
}

// Outputs, rows and pixels that fill no block; windows wider than the image, or that see nothing of
// it; more rows than one unit; an image of one pixel.
Test(conv, a_picture_is_convolved_in_one_kernel) {
  static const image images[] = {
      {2, 3, 30, 40, 13, 7, 2, 1, true, 6, 3, 1}, {1, 1, 9, 16, 5, 3, 1, 1, true, 2, 1, 1},
      {1, 4, 21, 70, 8, 5, 3, 1, true, 1, 4, 2},  {2, 2, 5, 80, 3, 2, 4, 1, true, 2, 0, 1},
      {1, 3, 150, 33, 4, 3, 1, 1, true, 4, 9, 3}, {1, 2, 1, 1, 7, 5, 1, 1, true, 3, 12, 1},
      {1, 3, 8, 300, 6, 9, 2, 1, true, 2, 2, 1},  {1, 3, 8, 12, 6, 3, 1, 1, false, 2, 1, 1},
      {1, 5, 8, 40, 6, 3, 1, 1, false, 2, 1, 1},
  };
  OK(tc_set_default_device("tc:cpu"));
  for (size_t i = 0; i < sizeof images / sizeof images[0]; i++)
    expect_same_bits(&images[i], i % 3 == 1 ? TC_F64 : TC_F32);
}

// ---- Each road that a convolution and its gradients may take, against the reference ----

typedef struct road {
  int n, c, h, w, o, size, stride, padding, dilation, groups;
} road;

static float *values_of(tc_tensor t, int64_t *count) {
  tc_dims d = tc_shape(t);
  *count = 1;
  for (int i = 0; i < d.rank; i++) *count *= d.dim[i];
  float *v = malloc((size_t)*count * sizeof *v + 1);
  OK(tc_to_host(t, v, (size_t)*count * sizeof *v));
  return v;
}

// What y and the gradients by x and w are on a device, for values that a formula gives.
static void run_road(const road *r, const char *device, float *out[3], int64_t count[3]) {
  OK(tc_set_default_device(device));
  tc_scope s = tc_scope_begin();
  tc_dims dx = S(r->n, r->c, r->h, r->w), dw = S(r->o, r->c / r->groups, r->size, r->size);
  tc_tensor x = tc_param(tc_sin(tc_mul(tc_reshape(tc_arange(0, r->n * r->c * r->h * r->w, 1, TC_F32), dx), 0.37)));
  tc_tensor w = tc_param(
      tc_cos(tc_mul(tc_reshape(tc_arange(0, r->o * (r->c / r->groups) * r->size * r->size, 1, TC_F32), dw), 0.73)));
  tc_conv_options o = {
      .stride = S(r->stride), .padding = S(r->padding), .dilation = S(r->dilation), .groups = r->groups};
  tc_tensor y = tc_conv2d(x, w, NONE, o), g[3] = {y};
  tc_tensor loss =
      tc_sum(tc_mul(y, tc_sin(tc_reshape(tc_arange(0, tc_numel(y), 1, TC_F32), tc_shape(y)))), TC_ALL, false);
  OK(tc_grads_of(loss, (tc_tensor[]){x, w}, 2, g + 1, 0));
  for (int i = 0; i < 3; i++) out[i] = values_of(g[i], &count[i]);
  tc_scope_end(s);
  tc_release(x), tc_release(w);
  OK(tc_set_default_device("tc:cpu"));
}

// allowed: of y and dx, and of dw, against the largest of each.
static void expect_road(const road *r, double allowed, double allowed_dw) {
  float *got[3], *want[3];
  int64_t n[3], m[3];
  run_road(r, "tc:cpu", got, n);
  run_road(r, "tc:ref", want, m);
  for (int i = 0; i < 3; i++) {
    double worst = 0, largest = 0;
    cr_assert_eq(n[i], m[i]);
    for (int64_t k = 0; k < n[i]; k++) {
      double e = fabs((double)got[i][k] - (double)want[i][k]);
      if (!(e <= worst)) worst = e;
      largest = fmax(largest, fabs((double)want[i][k]));
    }
    cr_expect(worst <= (i == 2 ? allowed_dw : allowed) * largest,
              "[%d %d %d %d] by %d of %d, stride %d, padding %d, dilation %d, groups %d: %s is off by %g of %g", r->n,
              r->c, r->h, r->w, r->o, r->size, r->stride, r->padding, r->dilation, r->groups,
              (const char *[]){"y", "dx", "dw"}[i], worst, largest);
    free(got[i]), free(want[i]);
  }
}

// Whether x is a leaf, or what batch norm made with channels last: also where channels or windows
// along an axis are one.
Test(conv, an_average_s_bits_do_not_depend_on_how_its_image_was_made) {
  static const int64_t shape[][4] = {{3, 1, 12, 20}, {3, 3, 12, 20}, {2, 5, 6, 3}, {1, 1, 3, 3},
                                     {1, 4, 3, 3},   {2, 1, 3, 9},   {1, 4, 3, 9}};
  tc_batch_norm_options training = {.training = true, TC_BATCH_NORM_DEFAULTS};
  OK(tc_set_default_device("tc:cpu"));
  for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++) {
    tc_scope scope = tc_scope_begin();
    const int64_t *d = shape[i];
    float *v[2];
    int64_t n[2];
    for (int made = 0; made < 2; made++) {
      tc_seed(7);
      tc_tensor x = tc_batch_norm(tc_randn(S(d[0], d[1], d[2], d[3]), TC_F32), NONE, NONE, NONE, NONE, training);
      if (made) OK(tc_eval(1, &x));
      v[made] = values_of(tc_avg_pool2d(x, S(3), (tc_pool_options){.stride = S(1)}), &n[made]);
    }
    cr_assert_eq(n[0], n[1]);
    cr_expect_eq(memcmp(v[0], v[1], (size_t)n[0] * sizeof(float)), 0, "[%d %d %d %d]", (int)d[0], (int)d[1], (int)d[2],
                 (int)d[3]);
    free(v[0]), free(v[1]);
    tc_scope_end(scope);
  }
}

// By windows of a product, with strides and dilations that differ by axis: f32's sums, each rounded
// once.
Test(conv, narrow_windows_are_added_before_they_are_rounded) {
  static const tc_type types[] = {TC_BF16, TC_F16};
  tc_conv_options o = {.stride = S(1, 2), .dilation = S(1, 3)};
  OK(tc_set_default_device("tc:cpu"));
  for (int t = 0; t < 2; t++) {
    tc_scope scope = tc_scope_begin();
    tc_tensor x = tc_cast(tc_randn(S(2, 8, 5, 14), TC_F32), types[t]),
              w = tc_cast(tc_randn(S(8, 4, 4, 5), TC_F32), types[t]);
    tc_tensor y[2] = {tc_conv_transpose2d(x, w, NONE, o),
                      tc_conv_transpose2d(tc_cast(x, TC_F32), tc_cast(w, TC_F32), NONE, o)};
    y[0] = tc_cast(y[0], TC_F32), y[1] = tc_cast(tc_cast(y[1], types[t]), TC_F32);
    int64_t n[2], n_other = 0;
    float *v[2] = {values_of(y[0], &n[0]), values_of(y[1], &n[1])};
    cr_assert_eq(n[0], n[1]);
    for (int64_t i = 0; i < n[0]; i++) n_other += v[0][i] != v[1][i];
    // f32's may end between two
    cr_expect(n_other * 100 <= n[0], "%s: %d of %d elements differ", tc_type_name(types[t]), (int)n_other, (int)n[0]);
    free(v[0]), free(v[1]);
    tc_scope_end(scope);
  }
}

Test(conv, products_and_phases_and_windows_give_the_reference_s_values) {
  static const road roads[] = {
      {2, 3, 9, 11, 5, 3, 1, 1, 1, 1},  {1, 4, 12, 8, 8, 3, 2, 1, 1, 1},  {2, 8, 7, 7, 16, 1, 2, 0, 1, 1},
      {1, 4, 10, 9, 6, 5, 3, 2, 1, 1},  {1, 3, 14, 14, 8, 7, 2, 3, 1, 1}, {1, 4, 9, 9, 4, 2, 3, 1, 1, 1},
      {2, 4, 10, 10, 6, 3, 1, 2, 2, 2}, {1, 6, 8, 8, 6, 3, 1, 1, 1, 6},   {1, 4, 8, 9, 8, 3, 2, 1, 1, 4},
      {1, 4, 9, 9, 4, 3, 2, 0, 2, 1},   {1, 2, 5, 5, 3, 2, 1, 2, 1, 1},   {3, 5, 4, 4, 7, 4, 4, 0, 1, 1},
      {3, 6, 9, 11, 5, 1, 1, 0, 1, 1},  {1, 70, 8, 8, 70, 1, 1, 0, 1, 1}, {2, 8, 16, 16, 12, 1, 1, 0, 1, 2},
  };
  for (size_t i = 0; i < sizeof roads / sizeof roads[0]; i++) expect_road(&roads[i], 2e-6, 2e-6);
}

// The bits of dw on tc:cpu with TC_WINOGRAD as said and so many threads.
static float *gradient_of(const road *r, const char *winograd, int threads, int64_t *count) {
  float *out[3];
  int64_t n[3];
  setenv("TC_WINOGRAD", winograd, 1);
  tc_options_reload();
  OK(tc_set_num_threads(threads));
  run_road(r, "tc:cpu", out, n);
  free(out[0]), free(out[1]);
  return *count = n[2], out[2];
}

static bool same_gradients(const road *r, const char *winograd, int threads) {
  int64_t n, m;
  float *a = gradient_of(r, "1", 1, &n), *b = gradient_of(r, winograd, threads, &m);
  bool same = n == m && memcmp(a, b, (size_t)n * sizeof *a) == 0;
  return free(a), free(b), same;
}

// Against the largest result, which is small beside the terms it sums: a weight's gradient, of
// waves, a three hundredth of their magnitudes. Tiles that hang over the edge, maps smaller than a
// tile, padding wider than one, channels and outputs that fill no panel or unit, more tiles than
// one block, several parts of which the last is shorter. Where the gradient by the weight goes by
// tiles, it does so in the same order on any number of threads.
Test(conv, winograd_is_within_its_error) {
  static const struct {
    road r;
    bool tiles;
  } roads[] = {
      {{1, 16, 9, 9, 16, 3, 1, 1, 1, 1}, false},  {{2, 32, 8, 13, 48, 3, 1, 1, 1, 1}, true},
      {{3, 16, 2, 3, 80, 3, 1, 2, 1, 1}, false},  {{1, 64, 14, 14, 32, 3, 1, 0, 1, 1}, true},
      {{5, 16, 33, 30, 16, 3, 1, 1, 1, 1}, true}, {{4, 96, 4, 4, 96, 3, 1, 1, 1, 1}, false},
      {{4, 64, 6, 6, 64, 3, 1, 1, 1, 1}, true},   {{5, 16, 28, 44, 16, 3, 1, 1, 1, 1}, true},
      {{1, 64, 8, 8, 64, 3, 1, 5, 1, 1}, true},   {{2, 80, 16, 16, 112, 3, 1, 1, 1, 1}, true},
  };
  for (size_t i = 0; i < sizeof roads / sizeof roads[0]; i++) {
    expect_road(&roads[i].r, 4e-5, 1.5e-4);
    cr_expect_neq(same_gradients(&roads[i].r, "0", 1), roads[i].tiles, "road %zu", i);
    cr_expect(same_gradients(&roads[i].r, "1", 2) && same_gradients(&roads[i].r, "1", 7), "road %zu depends on threads",
              i);
  }
}

// The result and, of many channels, both gradients of a convolution of x and w in this type,
// widened to f32. Few channels have a bias: its sum is rounded once, too.
static int convolve_as(tc_type type, tc_type stored, int channels, int outputs, float *out[3], size_t bytes[3]) {
  enum { SIDE = 24 };
  const bool few = channels < 16;
  tc_scope s = tc_scope_begin();
  tc_dims dx = S(2, channels, SIDE, SIDE), dw = S(outputs, channels, 3, 3);
  tc_tensor x = tc_sin(tc_reshape(tc_arange(0, 2 * channels * SIDE * SIDE, 1, TC_F32), dx));
  tc_tensor w = tc_cos(tc_reshape(tc_arange(0, outputs * channels * 9, 1, TC_F32), dw));
  tc_tensor b = few ? tc_cast(tc_cast(tc_arange(0, outputs, 1, TC_F32), stored), type) : NONE;
  x = tc_param(tc_cast(tc_cast(x, stored), type)), w = tc_param(tc_cast(tc_cast(w, stored), type));
  tc_tensor y = tc_conv2d(x, w, b, (tc_conv_options){.padding = S(1), .groups = 1}), result[3] = {y};
  if (!few) {
    OK(tc_backward(tc_sum(y, TC_ALL, false)));
    result[1] = tc_grad(x), result[2] = tc_grad(w);
  }
  for (int k = 0; k < (few ? 1 : 3); k++) {
    tc_tensor wide = tc_cast(tc_cast(result[k], stored), TC_F32);
    bytes[k] = (size_t)tc_numel(wide) * sizeof(float);
    out[k] = malloc(bytes[k]);
    OK(tc_to_host(wide, out[k], bytes[k]));
  }
  tc_scope_end(s);
  tc_release(x), tc_release(w);
  return few ? 1 : 3;
}

// By Winograd's algorithm, and directly where channels are few.
Test(conv, narrow_types_are_those_of_f32_rounded_once) {
  static const tc_type types[] = {TC_BF16, TC_F16};
  static const int sizes[][2] = {{32, 48}, {3, 16}, {1, 4}, {4, 64}};
  for (size_t i = 0; i < 8; i++) {
    float *narrow[3], *wide[3];
    size_t n[3], m[3];
    const tc_type type = types[i % 2];
    const int *size = sizes[i / 2], results = convolve_as(type, type, size[0], size[1], narrow, n);
    (void)convolve_as(TC_F32, type, size[0], size[1], wide, m);
    for (int k = 0; k < results; k++) {
      cr_expect(n[k] == m[k] && memcmp(narrow[k], wide[k], n[k]) == 0, "%s: %d channels, result %d", tc_type_name(type),
                size[0], k);
      free(narrow[k]), free(wide[k]);
    }
  }
}

// Steps in place, of weights whose gradient is made in one part and in several.
Test(conv, an_optimizer_behind_a_gradient_by_tiles_does_as_the_reference) {
  enum { N = 4, C = 64, LARGEST = 32 };
  static const int sides[] = {6, LARGEST};  // 36 tiles of 2 x 2, and 256 of 4 x 4, in two parts
  static float got[2][C * C * 9];
  for (int k = 0; k < 2; k++) {
    for (int d = 0; d < 2; d++) {
      OK(tc_set_default_device(d ? "tc:ref" : "tc:cpu"));
      tc_scope s = tc_scope_begin();
      tc_dims dx = S(N, C, sides[k], sides[k]), dw = S(C, C, 3, 3);
      tc_tensor x = tc_sin(tc_reshape(tc_arange(0, N * C * sides[k] * sides[k], 1, TC_F32), dx));
      tc_tensor w = tc_param(tc_mul(tc_cos(tc_reshape(tc_arange(0, C * C * 9, 1, TC_F32), dw)), 0.05));
      tc_optimizer *opt = tc_sgd(&w, 1, (tc_sgd_options){.lr = 0.1, .momentum = 0.9});
      for (int i = 0; i < (k ? 2 : 10); i++) {
        tc_tensor y = tc_conv2d(x, w, NONE, (tc_conv_options){.padding = S(1), .groups = 1});
        OK(tc_backward(tc_mean(tc_square(tc_sub(y, x)), TC_ALL, false)));
        OK(tc_optimizer_step(opt));
        OK(tc_zero_grad(opt));
      }
      OK(tc_to_host(w, got[d], sizeof got[d]));
      tc_optimizer_destroy(opt);
      tc_scope_end(s);
      tc_release(w);
    }
    for (int i = 0; i < C * C * 9; i++)
      cr_assert_float_eq(got[0][i], got[1][i], 2e-6, "side %d, weight %d: %g, not %g", sides[k], i, (double)got[0][i],
                         (double)got[1][i]);
  }
}

Test(conv, strict_sums_are_direct) {
  enum { C = 32, SIDE = 34, OUT = 32, N = OUT * (SIDE - 2) * (SIDE - 2) };
  static const char *const options[3][2] = {{"1", "0"}, {"0", "0"}, {"1", "1"}};  // Winograd, strict
  static float x[C * SIDE * SIDE], w[OUT * C * 9], y[3][N];
  for (int i = 0; i < C * SIDE * SIDE; i++) x[i] = sinf(0.37f * (float)i);
  for (int i = 0; i < OUT * C * 9; i++) w[i] = cosf(0.73f * (float)i);
  for (int i = 0; i < 3; i++) {
    setenv("TC_WINOGRAD", options[i][0], 1);
    setenv("TC_STRICT", options[i][1], 1);
    tc_options_reload();
    tc_scope s = tc_scope_begin();
    tc_tensor image = tc_from_host(x, S(1, C, SIDE, SIDE), TC_F32), weight = tc_from_host(w, S(OUT, C, 3, 3), TC_F32);
    OK(tc_to_host(tc_conv2d(image, weight, NONE, (tc_conv_options){.groups = 1}), y[i], sizeof y[i]));
    tc_scope_end(s);
  }
  cr_expect(memcmp(y[1], y[2], sizeof y[1]) == 0, "strict is not direct");
  cr_expect(memcmp(y[0], y[2], sizeof y[0]) != 0, "Winograd's algorithm has the bits of direct sums");
}
