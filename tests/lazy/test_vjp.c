// Every differentiable row of the op table against central differences in f64 (elementwise ones
// make themselves from the table), a smooth subset a second time through TC_CREATE_GRAPH, and the
// choices at ties and zeros against PyTorch's. Public API only.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include <tc/tc.h>

#define NONE ((tc_tensor){0, 0})

enum { MAX_IN = 3, MAX_ELEMENTS = 64 };

typedef tc_tensor function(const tc_tensor *x);

typedef struct gradient_case {
  function *f;
  int n;  // differentiable inputs
  tc_dims shape[MAX_IN];
  double low, high;  // inputs are spread over [low, high], none equal to another
} gradient_case;

#define OK(call) cr_assert_eq((call), TC_OK, "%s", tc_last_error()->message)

static uint32_t scrambled(uint32_t i) {
  i = (i + 1) * 2654435761u;
  i ^= i >> 15;
  return i * 2246822519u >> 8;
}

static double unit(uint32_t i) {
  return (scrambled(i) % 65521 + 0.5) / 65521;
}

static int64_t count(const tc_dims *d) {
  int64_t n = 1;
  for (int32_t i = 0; i < d->rank; i++) n *= d->dim[i];
  return n;
}

// Fixed weights, so that every element of the result matters differently.
static tc_tensor weighted_sum(tc_tensor y, uint32_t salt) {
  double w[MAX_ELEMENTS * 4];
  int64_t n = tc_numel(y);
  cr_assert_leq(n, (int64_t)(sizeof w / sizeof w[0]), "%s", tc_last_error()->message);
  for (int64_t i = 0; i < n; i++) w[i] = unit((uint32_t)i + salt) * 2 - 0.7;
  return tc_sum(tc_mul(y, tc_from_host(w, tc_shape(y), TC_F64)), TC_ALL, false);
}

static void make_inputs(const gradient_case *c, double (*values)[MAX_ELEMENTS], tc_tensor *out) {
  for (int k = 0; k < c->n; k++) {
    out[k] = tc_from_host(values[k], c->shape[k], TC_F64);
    OK(tc_set_requires_grad(out[k], true));
  }
}

static double loss_at(const gradient_case *c, double (*values)[MAX_ELEMENTS]) {
  tc_tensor x[MAX_IN];
  double v = NAN;
  tc_scope s = tc_scope_begin();
  make_inputs(c, values, x);
  OK(tc_item_f64(weighted_sum(c->f(x), 7), &v));
  tc_scope_end(s);
  return v;
}

// The gradient of weighted_sum(f), weighted once more: a scalar whose own gradient is of second
// order.
static tc_tensor slope(const gradient_case *c, const tc_tensor *x) {
  tc_tensor g[MAX_IN], total = {0, 0};
  OK(tc_grads_of(weighted_sum(c->f(x), 7), x, c->n, g, TC_CREATE_GRAPH));
  for (int k = 0; k < c->n; k++) {
    tc_tensor part = weighted_sum(g[k], 100 + (uint32_t)k);
    total = k == 0 ? part : tc_add(total, part);
  }
  return total;
}

static double slope_at(const gradient_case *c, double (*values)[MAX_ELEMENTS]) {
  tc_tensor x[MAX_IN];
  double v = NAN;
  tc_scope s = tc_scope_begin();
  make_inputs(c, values, x);
  OK(tc_item_f64(slope(c, x), &v));
  tc_scope_end(s);
  return v;
}

static void spread(const gradient_case *c, double (*values)[MAX_ELEMENTS]) {
  for (int k = 0; k < c->n; k++) {
    cr_assert_leq(count(&c->shape[k]), MAX_ELEMENTS);
    for (int64_t i = 0; i < count(&c->shape[k]); i++)
      values[k][i] = c->low + (c->high - c->low) * unit((uint32_t)(i + 1000 * k));
  }
}

static void compare(const gradient_case *c, double (*values)[MAX_ELEMENTS], const tc_tensor *grads, double step,
                    double tolerance, double at(const gradient_case *, double (*)[MAX_ELEMENTS])) {
  for (int k = 0; k < c->n; k++) {
    double got[MAX_ELEMENTS];
    size_t n = (size_t)count(&c->shape[k]);
    OK(tc_to_host(grads[k], got, n * sizeof got[0]));
    for (size_t i = 0; i < n; i++) {
      double keep = values[k][i];
      values[k][i] = keep + step;
      double up = at(c, values);
      values[k][i] = keep - step;
      double want = (up - at(c, values)) / (2 * step);
      values[k][i] = keep;
      cr_expect(fabs(got[i] - want) <= tolerance * (1 + fabs(want)),
                "input %d element %zu: %.12g, by differences %.12g", k, i, got[i], want);
    }
  }
}

static void check_values(const gradient_case *c, double (*values)[MAX_ELEMENTS]) {
  tc_tensor x[MAX_IN], g[MAX_IN];
  tc_scope s = tc_scope_begin();
  make_inputs(c, values, x);
  OK(tc_grads_of(weighted_sum(c->f(x), 7), x, c->n, g, 0));
  compare(c, values, g, 1e-6, 1e-7, loss_at);
  tc_scope_end(s);
}

static void check_twice_values(const gradient_case *c, double (*values)[MAX_ELEMENTS]) {
  tc_tensor x[MAX_IN], g[MAX_IN];
  tc_scope s = tc_scope_begin();
  make_inputs(c, values, x);
  OK(tc_grads_of(slope(c, x), x, c->n, g, 0));
  compare(c, values, g, 1e-5, 1e-6, slope_at);
  tc_scope_end(s);
}

static void check(const gradient_case *c) {
  double values[MAX_IN][MAX_ELEMENTS];
  spread(c, values);
  check_values(c, values);
}

static void check_twice(const gradient_case *c) {
  double values[MAX_IN][MAX_ELEMENTS];
  spread(c, values);
  check_twice_values(c, values);
}

#define S(...) tc_dims_of(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__})
// GRADIENT(name, n inputs, low, high, expression in x[0].., shapes): first order. SMOOTH: first and
// second.
#define CASE_(name, n_in, low_, high_, expr, ...) \
  static tc_tensor f_##name(const tc_tensor *x) { \
    return expr; \
  } \
  static gradient_case case_##name(void) { \
    return (gradient_case){.f = f_##name, .n = n_in, .shape = {__VA_ARGS__}, .low = low_, .high = high_}; \
  } \
  Test(vjp, name##_is_the_slope) { \
    gradient_case c = case_##name(); \
    check(&c); \
  }
#define GRADIENT(name, n_in, low, high, expr, ...) CASE_(name, n_in, low, high, expr, __VA_ARGS__)
#define SMOOTH(name, n_in, low, high, expr, ...) \
  CASE_(name, n_in, low, high, expr, __VA_ARGS__) \
  Test(vjp, name##_is_the_slope_twice) { \
    gradient_case c = case_##name(); \
    check_twice(&c); \
  }

// ---- Elementwise rows of the op table, where their samples are near 0; and times an operand, so
// that all have a slope of second order ----
static const struct {
  double low, high;
} domain[] = {
#define TC_SAMPLE(NAME, shapes, types, low, high, ...) \
  {low < -2 ? -2 : low < 0.25 && low > 0 ? 0.25 : low, high > 3 ? 3 : high},
#include "tests/samples.def"
#undef TC_SAMPLE
};
enum {
#define TC_SAMPLE(NAME, ...) SAMPLE_##NAME,
#include "tests/samples.def"
#undef TC_SAMPLE
};

#define CALL_1(name) tc_##name(x[0])
#define CALL_2(name) tc_##name(x[0], x[1])
#define LOW(sample) domain[SAMPLE_##sample].low
#define HIGH(sample) domain[SAMPLE_##sample].high
#define ROW(name, n, sample) \
  GRADIENT(name, n, LOW(sample), HIGH(sample), CALL_##n(name), S(2, 3), S(3)) \
  SMOOTH(name##_times_a, n, LOW(sample), HIGH(sample), tc_mul(CALL_##n(name), x[0]), S(2, 3), S(3))
#define NO_ROW(name, n, sample)
// ROW, or NO_ROW where the vjp is one of these: flat, or with arguments that a row below gives.
#define LEFT_OUT_zero ~, NO_ROW
#define LEFT_OUT_cast ~, NO_ROW
#define LEFT_OUT_polygamma ~, NO_ROW
#define SECOND(a, b, ...) b
#define SECOND_OF(...) SECOND(__VA_ARGS__)
#define UNLESS_LEFT_OUT(vjp) SECOND_OF(LEFT_OUT_##vjp, ROW, ~)

#define ELEM_1(name, vjp, sample) UNLESS_LEFT_OUT(vjp)(name, 1, sample)
#define ELEM_2(name, vjp, sample) UNLESS_LEFT_OUT(vjp)(name, 2, sample)
#define ELEM_3(name, vjp, sample)
#define KIND_ELEM(name, arity, vjp, sample) ELEM_##arity(name, vjp, sample)
#define KIND_GEN(...)
#define KIND_RNG(...)
#define KIND_MOVE(...)
#define KIND_FOLD(...)
#define KIND_SCAN(...)
#define KIND_CONTRACT(...)
#define KIND_INDEX(...)
#define KIND_ATTENTION(...)
#define KIND_COMPOSED(...)
#define KIND_CONTROL(...)
#define KIND_EFFECT(...)
#define TC_OP(NAME, name, kind, arity, dtype, vjp, saves, autocast, lower, reference, sample) \
  KIND_##kind(name, arity, vjp, sample)
#include <tc/ops.def>
#undef TC_OP

// ---- Elementwise, elsewhere or with more arguments ----
GRADIENT(sign_gives_zero, 1, -2, 2, tc_mul(tc_sign(x[0]), x[0]), S(5))
GRADIENT(floor_gives_zero, 1, -2, 2, tc_mul(tc_floor(x[0]), x[0]), S(5))
SMOOTH(log1p_below_zero, 1, -0.5, 0, tc_log1p(x[0]), S(2, 3))
GRADIENT(fmod_of_negatives, 2, 0.6, 3, tc_fmod(tc_neg(x[0]), x[1]), S(2, 3), S(3))
GRADIENT(remainder_of_negatives, 2, 0.6, 3, tc_remainder(tc_neg(x[0]), x[1]), S(2, 3), S(3))
SMOOTH(div_by_a_column, 2, 0.5, 3, tc_div(x[0], x[1]), S(2, 3), S(2, 1))
SMOOTH(lgamma_below_zero, 1, -2.8, -2.2, tc_lgamma(x[0]), S(2, 3))
SMOOTH(digamma, 1, 0.5, 3, tc_digamma(x[0]), S(2, 3))
SMOOTH(polygamma, 1, 0.5, 3, tc_polygamma(2, x[0]), S(2, 3))
SMOOTH(cast, 1, -2, 2, tc_square(tc_cast(x[0], TC_F64)), S(3))
SMOOTH(mul_of_a_scalar, 2, -2, 2, tc_mul(x[0], x[1]), TC_SCALAR, S(2, 3))
SMOOTH(pow_of_a_number, 1, -2, 2, tc_pow(x[0], 3), S(2, 3))
SMOOTH(where, 2, -2, 2, tc_square(tc_where(tc_gt(x[0], 0), x[0], x[1])), S(2, 3), S(3))

// ---- Movement ----
SMOOTH(reshape, 1, -2, 2, tc_square(tc_reshape(x[0], S(3, 2))), S(2, 3))
SMOOTH(permute, 1, -2, 2, tc_square(tc_permute(x[0], S(2, 0, 1))), S(2, 3, 4))
SMOOTH(expand, 1, -2, 2, tc_square(tc_expand(x[0], S(4, 2, 3))), S(2, 1))
SMOOTH(slice, 1, -2, 2, tc_square(tc_slice(x[0], 1, 1, 6, 2)), S(2, 7))
SMOOTH(slice_backwards, 1, -2, 2, tc_square(tc_slice(x[0], 0, 5, 0, -2)), S(7))
GRADIENT(empty_slice, 1, -2, 2, tc_cat(2, (const tc_tensor[]){tc_slice(x[0], 0, 2, 2, 1), x[0]}, 0), S(4))
SMOOTH(flip, 1, -2, 2, tc_square(tc_flip(x[0], S(0, 1))), S(2, 3))
SMOOTH(unfold, 1, -2, 2, tc_square(tc_unfold(x[0], 0, 3, 2)), S(8, 2))
SMOOTH(unfold_of_overlaps, 1, -2, 2, tc_square(tc_unfold(x[0], -1, 4, 1)), S(2, 7))
SMOOTH(unfold_of_tiles, 1, -2, 2, tc_square(tc_unfold(x[0], 1, 2, 2)), S(2, 5))
SMOOTH(pad, 1, -2, 2, tc_square(tc_pad(x[0], S(1, 0), S(2, 3), 0.5)), S(2, 3))
SMOOTH(cat, 2, -2, 2, tc_square(tc_cat(2, x, 1)), S(2, 3), S(2, 1))

static tc_tensor written(const tc_tensor *x) {
  tc_tensor y = tc_mul(x[0], 1.0);
  OK(tc_assign_slice(y, (const int64_t[]){0, 1}, (const int64_t[]){2, 4}, (const int64_t[]){1, 2}, x[1]));
  return y;
}
SMOOTH(assign_slice, 2, -2, 2, tc_square(written(x)), S(2, 5), S(2, 2))

// ---- Reductions, scans, products ----
SMOOTH(sum, 1, -2, 2, tc_square(tc_sum(x[0], S(0, 2), false)), S(2, 3, 2))
SMOOTH(sum_keepdim, 1, -2, 2, tc_square(tc_sum(x[0], S(-1), true)), S(2, 3))
SMOOTH(prod, 1, 0.5, 2, tc_prod(x[0], S(0, 2), false), S(2, 3, 3))
SMOOTH(prod_of_all, 1, -2, 2, tc_prod(x[0], TC_ALL, false), S(7))
GRADIENT(max, 1, -2, 2, tc_max(x[0], S(1), false), S(3, 4))
GRADIENT(min, 1, -2, 2, tc_min(x[0], TC_ALL, false), S(3, 4))
SMOOTH(cumsum, 1, -2, 2, tc_square(tc_cumsum(x[0], 1)), S(2, 4))
SMOOTH(cumprod, 1, -2, 2, tc_cumprod(x[0], 0), S(6, 2))
GRADIENT(cummax, 1, -2, 2, tc_cummax(x[0], 1), S(2, 6))
GRADIENT(cummin, 1, -2, 2, tc_cummin(x[0], 1), S(2, 6))
SMOOTH(logcumsumexp, 1, -2, 2, tc_logcumsumexp(x[0], 1), S(2, 5))
GRADIENT(sort, 1, -2, 2, tc_sort(x[0], 0, true), S(5, 2))
GRADIENT(topk, 1, -2, 2, tc_topk(x[0], 2, 1, true), S(2, 5))
GRADIENT(kthvalue, 1, -2, 2, tc_kthvalue(x[0], 2, 1, false), S(2, 5))
GRADIENT(median, 1, -2, 2, tc_median(x[0], 1, true), S(2, 5))
SMOOTH(rotary_embedding, 3, -2, 2, tc_rotary_embedding(x[0], x[1], x[2], (tc_rotary_options){.offset = 1}), S(2, 3, 4),
       S(4, 2), S(4, 2))
SMOOTH(rotary_embedding_of_neighbours, 3, -2, 2,
       tc_rotary_embedding(x[0], x[1], x[2], (tc_rotary_options){.interleaved = true}), S(3, 6), S(4, 2), S(4, 2))
SMOOTH(softmax, 1, -2, 2, tc_softmax(x[0], 1), S(2, 4))
SMOOTH(log_softmax, 1, -2, 2, tc_log_softmax(x[0], 0), S(4, 2))
SMOOTH(attention, 3, -1, 1,
       tc_scaled_dot_product_attention(x[0], x[1], x[2], NONE, (tc_attention_options){.causal = true}), S(1, 4, 3, 2),
       S(2, 3, 2), S(2, 3, 3))
SMOOTH(attention_to_a_length, 3, -1, 1,
       tc_scaled_dot_product_attention(x[0], x[1], x[2], NONE, (tc_attention_options){.scale = 1.5, .key_length = 4}),
       S(3, 2), S(5, 2), S(5, 1))
SMOOTH(attention_with_a_bias, 3, -1, 1,
       tc_scaled_dot_product_attention(x[0], x[1], x[1], x[2], (tc_attention_options){0}), S(2, 3, 2), S(2, 4, 2),
       S(3, 4))
SMOOTH(matmul, 2, -2, 2, tc_matmul(x[0], x[1]), S(2, 3), S(3, 4))
SMOOTH(matmul_of_batches, 2, -2, 2, tc_matmul(x[0], x[1]), S(3, 1, 2, 2), S(2, 2, 3))
SMOOTH(matmul_of_vectors, 2, -2, 2, tc_square(tc_matmul(x[0], x[1])), S(4), S(4))
SMOOTH(matmul_of_matrix_and_vector, 2, -2, 2, tc_matmul(x[0], x[1]), S(2, 3), S(3))

// ---- Windows ----
SMOOTH(conv1d, 3, -1, 1, tc_conv1d(x[0], x[1], x[2], (tc_conv_options){.stride = S(2), .dilation = S(2)}), S(2, 2, 7),
       S(3, 2, 3), S(3))
SMOOTH(conv2d, 2, -1, 1, tc_conv2d(x[0], x[1], NONE, (tc_conv_options){.padding = S(1), .stride = S(2, 1)}),
       S(1, 2, 5, 4), S(3, 2, 3, 3))
SMOOTH(conv2d_in_groups, 3, -1, 1, tc_conv2d(x[0], x[1], x[2], (tc_conv_options){.padding = S(0, 1), .groups = 2}),
       S(1, 4, 3, 4), S(2, 2, 2, 3), S(2))
SMOOTH(conv2d_by_channel, 2, -1, 1, tc_conv2d(x[0], x[1], NONE, (tc_conv_options){.groups = 3}), S(1, 3, 4, 4),
       S(6, 1, 2, 2))
SMOOTH(conv3d, 2, -1, 1, tc_conv3d(x[0], x[1], NONE, (tc_conv_options){.padding = S(0, 1, 0)}), S(1, 2, 2, 3, 3),
       S(2, 2, 2, 2, 2))
SMOOTH(conv_transpose1d, 3, -1, 1,
       tc_conv_transpose1d(x[0], x[1], x[2],
                           (tc_conv_options){.stride = S(2), .padding = S(1), .output_padding = S(1)}),
       S(2, 2, 4), S(2, 3, 3), S(3))
SMOOTH(conv_transpose2d_past_the_last_window, 2, -1, 1,
       tc_conv_transpose2d(x[0], x[1], NONE, (tc_conv_options){.dilation = S(1, 2), .output_padding = S(0, 1)}),
       S(2, 2, 2, 3), S(2, 1, 2, 1))
SMOOTH(conv_transpose2d, 2, -1, 1,
       tc_conv_transpose2d(x[0], x[1], NONE, (tc_conv_options){.dilation = S(2, 1), .groups = 2}), S(1, 4, 3, 2),
       S(4, 1, 2, 2))
SMOOTH(conv_transpose3d, 3, -1, 1,
       tc_conv_transpose3d(x[0], x[1], x[2],
                           (tc_conv_options){.stride = S(1, 2, 1), .padding = S(0, 1, 0), .groups = 2}),
       S(1, 2, 2, 2, 2), S(2, 1, 2, 2, 2), S(2))
SMOOTH(max_pool2d, 1, -2, 2, tc_square(tc_max_pool2d(x[0], S(3), (tc_pool_options){.stride = S(2), .padding = S(1)})),
       S(1, 2, 5, 5))
SMOOTH(max_pool1d_of_many, 1, -2, 2, tc_square(tc_max_pool1d(x[0], S(20), (tc_pool_options){.stride = S(1)})), S(1, 24))
SMOOTH(max_pool3d, 1, -2, 2,
       tc_square(tc_max_pool3d(x[0], S(2),
                               (tc_pool_options){.stride = S(1, 2, 2), .padding = S(1), .ceil_mode = true})),
       S(1, 2, 3, 3))
SMOOTH(max_pool2d_with_channels_last, 1, -2, 2,
       tc_square(tc_max_pool2d(tc_permute(x[0], S(0, 3, 1, 2)), S(3),
                               (tc_pool_options){.stride = S(2), .padding = S(1)})),
       S(1, 4, 4, 2))
SMOOTH(avg_pool1d_of_many, 1, -2, 2,
       tc_square(tc_avg_pool1d(x[0], S(20), (tc_pool_options){.stride = S(1), .padding = S(2)})), S(1, 24))
SMOOTH(avg_pool3d, 1, -2, 2,
       tc_square(tc_avg_pool3d(x[0], S(2),
                               (tc_pool_options){.stride = S(1, 2, 2), .padding = S(1), .ceil_mode = true})),
       S(1, 2, 3, 3))
SMOOTH(adaptive_max_pool2d, 1, -2, 2, tc_square(tc_adaptive_max_pool2d(x[0], S(2, 3))), S(1, 2, 5, 4))
SMOOTH(avg_pool2d, 1, -2, 2,
       tc_square(tc_avg_pool2d(x[0], S(3, 2), (tc_pool_options){.padding = S(1), .exclude_padding = true})),
       S(1, 2, 5, 4))
SMOOTH(adaptive_avg_pool2d, 1, -2, 2, tc_square(tc_adaptive_avg_pool2d(x[0], S(2, 3))), S(1, 2, 5, 4))
SMOOTH(batch_norm, 3, -2, 2,
       tc_batch_norm(x[0], NONE, NONE, x[1], x[2], (tc_batch_norm_options){.training = true, TC_BATCH_NORM_DEFAULTS}),
       S(3, 2, 4), S(2), S(2))
SMOOTH(group_norm, 3, -2, 2, tc_group_norm(x[0], 2, x[1], x[2], 1e-3), S(2, 4, 3), S(4), S(4))
SMOOTH(instance_norm, 1, -2, 2, tc_instance_norm(x[0], NONE, NONE, 1e-3), S(2, 2, 5))
SMOOTH(rms_norm, 2, -2, 2, tc_rms_norm(x[0], x[1], 1e-3), S(3, 4), S(4))
SMOOTH(interpolate, 1, -2, 2, tc_square(tc_interpolate(x[0], S(5, 3), (tc_interpolate_options){.mode = TC_LINEAR})),
       S(1, 2, 3, 4))
SMOOTH(interpolate_to_the_nearest, 1, -2, 2,
       tc_square(tc_interpolate(x[0], S(6, 3), (tc_interpolate_options){TC_NEAREST})), S(1, 2, 3, 4))

// ---- By index ----
static tc_tensor index_of(const int64_t *values, tc_dims shape) {
  return tc_from_host(values, shape, TC_I64);
}
#define INDEX(shape, ...) index_of((const int64_t[]){__VA_ARGS__}, shape)
SMOOTH(gather, 1, -2, 2, tc_square(tc_gather(x[0], 1, INDEX(S(2, 4), 0, 2, 2, -1, 1, 1, 0, 1))), S(2, 3))
SMOOTH(index_select, 1, -2, 2, tc_square(tc_index_select(x[0], 0, INDEX(S(4), 0, 2, 2, -1))), S(3, 2))
SMOOTH(index_select_by_a_matrix, 1, -2, 2, tc_square(tc_index_select(x[0], 1, INDEX(S(2, 2), 0, 2, 2, 1))), S(2, 3))
SMOOTH(scatter, 2, -2, 2, tc_square(tc_scatter(x[0], 1, INDEX(S(2, 2), 0, 2, 1, 0), x[1])), S(2, 3), S(2, 2))
SMOOTH(scatter_of_repeats, 2, -2, 2, tc_square(tc_scatter(x[0], 0, INDEX(S(4), 1, 2, 1, 1), x[1])), S(3), S(4))
SMOOTH(scatter_add, 2, -2, 2, tc_square(tc_scatter_add(x[0], 1, INDEX(S(2, 3), 0, 0, 1, 2, 2, 2), x[1])), S(2, 3),
       S(2, 3))
SMOOTH(scatter_add_of_a_part, 2, -2, 2, tc_square(tc_scatter_add(x[0], 0, INDEX(S(1, 2), 0, 1), x[1])), S(3, 2),
       S(2, 3))
SMOOTH(gather_of_a_scalar, 1, -2, 2, tc_square(tc_gather(x[0], 0, INDEX(S(2), 0, -1))), TC_SCALAR)
SMOOTH(index_select_of_a_scalar, 1, -2, 2, tc_square(tc_index_select(x[0], 0, INDEX(TC_SCALAR, 0))), TC_SCALAR)
SMOOTH(scatter_of_a_scalar, 2, -2, 2, tc_square(tc_scatter(x[0], 0, INDEX(TC_SCALAR, 0), x[1])), TC_SCALAR, TC_SCALAR)
SMOOTH(scatter_add_of_a_scalar, 2, -2, 2, tc_square(tc_scatter_add(x[0], 0, INDEX(S(2), 0, 0), x[1])), TC_SCALAR, S(2))
SMOOTH(index_add, 2, -2, 2, tc_square(tc_index_add(x[0], 0, INDEX(S(3), 1, 0, 1), x[1])), S(2, 2), S(3, 2))

// ---- Zeros in products: the gradient and its gradient are finite ----
Test(vjp, prod_with_zeros_is_the_slope_at_both_orders) {
  gradient_case c = case_prod_of_all();
  for (int n_zeros = 1; n_zeros <= 3; n_zeros++) {
    double values[MAX_IN][MAX_ELEMENTS];
    spread(&c, values);
    for (int i = 0; i < n_zeros; i++) values[0][2 * i] = 0;
    check_values(&c, values);
    check_twice_values(&c, values);
  }
}

Test(vjp, cumprod_with_zeros_is_the_slope_at_both_orders) {
  gradient_case c = case_cumprod();
  double values[MAX_IN][MAX_ELEMENTS];
  spread(&c, values);
  values[0][2] = values[0][7] = values[0][9] = 0;
  check_values(&c, values);
  check_twice_values(&c, values);
}

// Products of some elements leave the type's range, and the whole is zero.
Test(vjp, products_of_large_values_with_a_zero_have_finite_slopes) {
  static const float large[] = {1e20f, 1e15f, 0, 1e20f, 1e-20f}, want[] = {0, 0, 1e35f, 0, 0};
  tc_scope s = tc_scope_begin();
  tc_tensor x = tc_from_host(large, S(5), TC_F32), g;
  float got[19];
  OK(tc_set_requires_grad(x, true));
  OK(tc_grads_of(tc_prod(x, TC_ALL, false), &x, 1, &g, 0));
  OK(tc_to_host(g, got, 5 * sizeof got[0]));
  for (int i = 0; i < 5; i++)
    cr_expect(fabsf(got[i] - want[i]) <= 1e-5f * want[i], "prod: slope %d is %g, not %g", i, (double)got[i],
              (double)want[i]);
  x = tc_detach(tc_where(tc_eq(tc_arange(0, 19, 1, TC_I64), 9), tc_zeros(S(19), TC_F16), tc_full(S(19), 3, TC_F16)));
  OK(tc_set_requires_grad(x, true));
  OK(tc_grads_of(tc_sum(tc_cumprod(x, 0), TC_ALL, false), &x, 1, &g, 0));
  OK(tc_to_host(tc_cast(g, TC_F32), got, sizeof got));
  for (int i = 0; i < 19; i++)
    cr_expect(i < 9    ? got[i] > 6000 && got[i] < 10000
              : i == 9 ? got[i] > 0
                       : got[i] == 0,
              "cumprod: slope %d is %g", i, (double)got[i]);
  tc_scope_end(s);
}

// ---- Ties and kinks, as PyTorch decides them ----
static void expect_grad(function *f, int n_in, const double *values, int64_t n, const double *want) {
  tc_tensor x[MAX_IN], g[MAX_IN];
  tc_scope s = tc_scope_begin();
  for (int k = 0; k < n_in; k++) {
    x[k] = tc_from_host(values + k * n, tc_dims_of(1, &n), TC_F64);
    OK(tc_set_requires_grad(x[k], true));
  }
  OK(tc_grads_of(tc_sum(f(x), TC_ALL, false), x, n_in, g, 0));
  for (int k = 0; k < n_in; k++) {
    double got[MAX_ELEMENTS];
    OK(tc_to_host(g[k], got, (size_t)n * sizeof got[0]));
    for (int64_t i = 0; i < n; i++)
      cr_expect_float_eq(got[i], want[k * n + i], 1e-12, "input %d element %d: %g, not %g", k, (int)i, got[i],
                         want[k * n + i]);
  }
  tc_scope_end(s);
}

static tc_tensor max_of_all(const tc_tensor *x) {
  return tc_max(x[0], TC_ALL, false);
}

Test(vjp, ties_share_the_gradient) {
  expect_grad(f_maximum, 2, (const double[]){1, 2, 3, 1, 3, 2}, 3, (const double[]){0.5, 0, 1, 0.5, 1, 0});
  expect_grad(f_minimum, 2, (const double[]){1, 2, 3, 1, 3, 2}, 3, (const double[]){0.5, 1, 0, 0.5, 0, 1});
  expect_grad(max_of_all, 1, (const double[]){4, 1, 4, 2}, 4, (const double[]){0.5, 0, 0.5, 0});
}

static tc_tensor cummax_of_line(const tc_tensor *x) {
  return tc_cummax(x[0], 0);
}

Test(vjp, cummax_gives_to_the_last_equal_place) {
  expect_grad(cummax_of_line, 1, (const double[]){1, 3, 2, 3, 0, 5}, 6, (const double[]){1, 2, 0, 2, 0, 1});
}

static tc_tensor clamped(const tc_tensor *x) {
  return tc_clamp(x[0], -1, 2);
}

static tc_tensor clamped_crosswise(const tc_tensor *x) {
  return tc_clamp(x[0], 2, 1);
}

Test(vjp, clamp_is_flat_on_its_bounds) {
  expect_grad(clamped, 1, (const double[]){-1, 2, 0, 3, -2}, 5, (const double[]){0, 0, 1, 0, 0});
  expect_grad(clamped, 1, (const double[]){NAN, 1, NAN}, 3, (const double[]){0, 1, 0});
  expect_grad(clamped_crosswise, 1, (const double[]){0, 1, 1.5, 2, 3}, 5, (const double[]){0, 0, 0, 0, 0});
}

// What NaN was added to is NaN, and so are its gradients, back to the NaN and before it.
Test(vjp, nan_in_a_cumulative_sum_shows_in_gradients) {
  double got[3];
  tc_scope s = tc_scope_begin();
  tc_tensor x = tc_from_host((const double[]){NAN, 1, 2}, TC_SHAPE(3), TC_F64), g;
  OK(tc_set_requires_grad(x, true));
  OK(tc_grads_of(tc_sum(tc_logcumsumexp(x, 0), TC_ALL, false), &x, 1, &g, 0));
  OK(tc_to_host(g, got, sizeof got));
  for (int i = 0; i < 3; i++) cr_expect(isnan(got[i]), "element %d: %g", i, got[i]);
  tc_tensor y = tc_from_host((const double[]){1, 2, 3}, TC_SHAPE(3), TC_F64);
  OK(tc_set_requires_grad(y, true));
  tc_tensor weighted = tc_mul(tc_logcumsumexp(y, 0), tc_from_host((const double[]){1, NAN, 1}, TC_SHAPE(3), TC_F64));
  OK(tc_grads_of(tc_sum(weighted, TC_ALL, false), &y, 1, &g, 0));
  OK(tc_to_host(g, got, sizeof got));
  cr_expect(isnan(got[0]) && isnan(got[1]) && got[2] > 0, "%g %g %g", got[0], got[1], got[2]);
  tc_scope_end(s);
}

Test(vjp, kinks_are_flat) {
  expect_grad(f_relu, 1, (const double[]){-1, 0, 2}, 3, (const double[]){0, 0, 1});
  expect_grad(f_abs, 1, (const double[]){-1, 0, 2}, 3, (const double[]){-1, 0, 1});
}

Test(vjp, pow_at_zero_is_finite) {
  expect_grad(f_pow, 2, (const double[]){0, 0, 0, 2, 0, 1, 2, 0}, 4, (const double[]){0, 1, 0, 0, 0, 0, 0, log(2)});
}

static tc_tensor chosen(const tc_tensor *x) {
  return tc_where(tc_gt(x[0], 0), tc_mul(x[0], 3.0), tc_square(x[0]));
}

Test(vjp, where_gives_only_to_the_chosen) {
  expect_grad(chosen, 1, (const double[]){-2, 0, 2}, 3, (const double[]){-4, 0, 3});
}

// ---- Passes ----
static tc_tensor half_detached(const tc_tensor *x) {
  return tc_mul(tc_detach(x[0]), x[0]);
}

Test(vjp, detach_stops_the_gradient) {
  expect_grad(half_detached, 1, (const double[]){1, 2, 3}, 3, (const double[]){1, 2, 3});
}

static tc_tensor assigned(const tc_tensor *x) {
  tc_tensor y = tc_mul(x[0], 5.0);
  OK(tc_assign(y, tc_square(x[0])));
  return y;
}

Test(vjp, assign_passes_the_gradient_of_the_new_value) {
  expect_grad(assigned, 1, (const double[]){1, 2, 3}, 3, (const double[]){2, 4, 6});
}
