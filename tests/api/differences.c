// What api.def says of where tc differs from PyTorch on purpose, line by line.
#include <math.h>

#include "tests/expect.h"

#define NONE ((tc_tensor){0, 0})
#define IS(t, kind, ...) \
  do { \
    const double want[] = {__VA_ARGS__}; \
    is(#t, t, kind, sizeof want / sizeof *want, want, __LINE__); \
  } while (0)

static void is(const char *what, tc_tensor t, tc_type type, size_t n, const double *want, int line) {
  double got[16];
  EXPECT(tc_is_valid(t) && tc_dtype(t) == type && tc_numel(t) == (int64_t)n, "line %d: %s is %s, %lld elements", line,
         what, tc_type_name(tc_dtype(t)), (long long)tc_numel(t));
  if (!tc_is_valid(t) || tc_numel(t) != (int64_t)n) return;
  EXPECT_OK(tc_to_host(tc_cast(t, TC_F64), got, n * sizeof got[0]));
  for (size_t i = 0; i < n; i++)
    EXPECT(fabs(got[i] - want[i]) < 1e-6, "line %d: %s, element %zu is %g, not %g", line, what, i, got[i], want[i]);
}

static void means_of_integers(void) {
  tc_tensor i = tc_reshape(tc_arange(0, 16, 1, TC_I32), TC_SHAPE(1, 1, 4, 4)), few = tc_arange(0, 4, 1, TC_U8),
            on = tc_gt(few, 0);
  IS(tc_avg_pool2d(i, TC_SHAPE(2), (tc_pool_options){0}), TC_F32, 2.5, 4.5, 10.5, 12.5);
  IS(tc_adaptive_avg_pool2d(i, TC_SHAPE(2)), TC_F32, 2.5, 4.5, 10.5, 12.5);
  IS(tc_interpolate(i, TC_SHAPE(2), (tc_interpolate_options){.mode = TC_LINEAR}), TC_F32, 2.5, 4.5, 10.5, 12.5);
  IS(tc_interpolate(i, TC_SHAPE(2), (tc_interpolate_options){0}), TC_I32, 0, 2, 8, 10);
  IS(tc_max_pool2d(i, TC_SHAPE(2), (tc_pool_options){0}), TC_I32, 5, 7, 13, 15);
  IS(tc_mean(few, TC_ALL, false), TC_F32, 1.5);
  IS(tc_mean(on, TC_ALL, false), TC_F32, 0.75);
  IS(tc_var(few, TC_ALL, 0, false), TC_F32, 1.25);
  IS(tc_std(few, TC_ALL, 0, false), TC_F32, sqrt(1.25));
  IS(tc_norm(few, 1, TC_ALL, false), TC_F32, 6);
}

static void mixed_types(void) {
  tc_tensor x = tc_ones(TC_SHAPE(1, 1, 2, 2), TC_F32), w = tc_full(TC_SHAPE(1, 1, 2, 2), 2, TC_F64),
            m = tc_ones(TC_SHAPE(1, 2), TC_I32), h = tc_ones(TC_SHAPE(2, 1), TC_F16);
  IS(tc_conv2d(x, w, NONE, (tc_conv_options){0}), TC_F64, 8);
  IS(tc_conv2d(tc_cast(x, TC_I32), tc_cast(w, TC_F16), NONE, (tc_conv_options){0}), TC_F16, 8);
  IS(tc_matmul(m, h), TC_F16, 2);
  IS(tc_linear(m, tc_transpose(h, 0, 1), NONE), TC_F16, 2);
  IS(tc_einsum("ij,jk->ik", 2, (tc_tensor[]){m, h}), TC_F16, 2);
}

static void sources_broadcast_and_are_not_cast(void) {
  tc_tensor x = tc_zeros(TC_SHAPE(3, 2), TC_F32), at = tc_arange(0, 2, 1, TC_I64),
            both = tc_zeros(TC_SHAPE(2, 2), TC_I64), one = tc_ones(TC_SHAPE(1), TC_F32);
  IS(tc_index_add(x, 0, at, one), TC_F32, 1, 1, 1, 1, 0, 0);
  IS(tc_scatter_add(x, 0, both, one), TC_F32, 2, 2, 0, 0, 0, 0);
  IS(tc_scatter(x, 0, both, tc_scalar(4)), TC_F32, 4, 4, 0, 0, 0, 0);
  for (int k = 0; k < TC_N_TYPES; k++) {
    tc_tensor other = tc_ones(TC_SHAPE(2, 2), (tc_type)k);
    if (k == TC_F32) continue;
    EXPECT_FAILS(tc_index_add(x, 0, at, other), TC_ERR_DTYPE, "index_add: x is f32, src is");
    EXPECT_FAILS(tc_scatter(x, 0, both, other), TC_ERR_DTYPE, tc_type_name((tc_type)k));
    EXPECT_FAILS(tc_scatter_add(x, 0, both, other), TC_ERR_DTYPE, "scatter_add: x is f32, src is");
    EXPECT_FAILS(tc_scatter(other, 0, both, tc_ones(TC_SHAPE(2, 2), TC_F32)), TC_ERR_DTYPE, "src is f32");
  }
}

static void ranges_and_powers(void) {
  tc_tensor k = tc_arange(-2, 3, 1, TC_I32), zero = tc_zeros(TC_SHAPE(1), TC_I32), one = tc_ones(TC_SHAPE(1), TC_I32);
  EXPECT(tc_numel(tc_arange(5, 0, 1, TC_F32)) == 0 && tc_numel(tc_arange(0, 5, -1, TC_I32)) == 0, "a wrong sign");
  EXPECT_FAILS(tc_arange(0, 1, 0, TC_F32), TC_ERR_ARG, "step is 0");
  IS(tc_pow(k, -1), TC_I32, 0, -1, 0, 1, 0);
  IS(tc_pow(k, -2), TC_I32, 0, 1, 0, 1, 0);
  IS(tc_pow(k, tc_full(TC_SHAPE(5), -3, TC_I32)), TC_I32, 0, -1, 0, 1, 0);
  IS(tc_pow(k, 0), TC_I32, 1, 1, 1, 1, 1);
  IS(tc_floor_divide(one, 0), TC_I32, 0);
  IS(tc_remainder(one, zero), TC_I32, 0);
  IS(tc_fmod(one, zero), TC_I32, 0);
}

static void of_nothing(void) {
  const tc_dims shapes[] = {TC_SHAPE(0, 4, 2), TC_SHAPE(2, 0, 2), TC_SHAPE(2, 4, 0)};
  for (int k = 0; k < 3; k++) {
    tc_tensor x = tc_zeros(shapes[k], TC_F32);
    EXPECT(tc_numel(tc_group_norm(x, 2, NONE, NONE, 1e-5)) == 0 && tc_numel(tc_instance_norm(x, NONE, NONE, 1e-5)) == 0,
           "shape %d", k);
    EXPECT(tc_numel(tc_layer_norm(x, NONE, NONE, 1e-5)) == 0, "shape %d", k);
  }
  tc_tensor lone = tc_full(TC_SHAPE(1, 2, 1), 7, TC_F32), bias = tc_arange(1, 3, 1, TC_F32),
            none = tc_zeros(TC_SHAPE(0), TC_F32);
  IS(tc_group_norm(lone, 2, NONE, bias, 1e-5), TC_F32, 1, 2);
  IS(tc_instance_norm(lone, NONE, bias, 1e-5), TC_F32, 1, 2);
  EXPECT_FAILS(tc_median(none, 0, false), TC_ERR_SHAPE, "axis 0 has no elements");
  EXPECT_FAILS(tc_kthvalue(none, 1, 0, false), TC_ERR_ARG, "axis 0 has 0 elements");
  EXPECT_FAILS(tc_max(none, TC_ALL, false), TC_ERR_SHAPE, "max: x is [0] and has no elements to choose from");
  EXPECT_FAILS(tc_min(none, TC_AXES(0), true), TC_ERR_SHAPE, "has no elements to choose from");
  EXPECT_FAILS(tc_argmax(none, 0, false), TC_ERR_SHAPE, "has no elements to choose from");
}

static void bounds_and_signs(void) {
  bool nan = false;
  tc_tensor x = tc_arange(0, 3, 1, TC_I32), minus = tc_full(TC_SHAPE(1), -0.0, TC_F32),
            zeros = tc_cat(2, (tc_tensor[]){tc_neg(minus), minus}, 0);
  EXPECT_FAILS(tc_clamp(x, 0, NAN), TC_ERR_ARG, "bounds are 0 and nan");
  EXPECT_OK(tc_item_bool(tc_isnan(tc_clamp(tc_full(TC_SCALAR, NAN, TC_F32), 0, 1)), &nan));
  EXPECT(nan, "clamp of NaN");
  IS(tc_clamp(x, 0.5, 1.5), TC_F32, 0.5, 1, 1.5);
  IS(tc_clamp(x, 2, 1), TC_I32, 1, 1, 1);
  float v[2] = {1, 1};
  EXPECT_OK(tc_to_host(tc_sort(zeros, 0, false), v, sizeof v));
  EXPECT(!signbit(v[0]) && signbit(v[1]), "equal elements stay in their order");
  EXPECT_OK(tc_item_f32(tc_sum(minus, TC_ALL, false), v));
  EXPECT_OK(tc_item_f32(tc_relu(minus), v + 1));
  EXPECT(!signbit(v[0]) && !signbit(v[1]), "a sum and relu of -0");
}

int main(void) {
  means_of_integers();
  mixed_types();
  sources_broadcast_and_are_not_cast();
  ranges_and_powers();
  of_nothing();
  bounds_and_signs();
  return expect_done("api-differences");
}
