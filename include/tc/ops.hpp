// The ops of api.def, and what else of tc.h gives a tensor, as functions of tc.hpp, which
// includes this in its namespace. Made by tools/make_sites.py.
// clang-format off

inline tensor zeros(const dims &shape, tc_type type = TC_F32, location at = location()) {
  recording r(at);
  return r.take(tc_zeros_at(shape, type, r.site));
}
inline tensor ones(const dims &shape, tc_type type = TC_F32, location at = location()) {
  recording r(at);
  return r.take(tc_ones_at(shape, type, r.site));
}
inline tensor empty(const dims &shape, tc_type type = TC_F32, location at = location()) {
  recording r(at);
  return r.take(tc_empty_at(shape, type, r.site));
}
inline tensor full(const dims &shape, double value, tc_type type = TC_F32, location at = location()) {
  recording r(at);
  return r.take(tc_full_at(shape, value, type, r.site));
}
inline tensor full_int(const dims &shape, int64_t value, tc_type type, location at = location()) {
  recording r(at);
  return r.take(tc_full_int_at(shape, value, type, r.site));
}
inline tensor scalar(double value, location at = location()) {
  recording r(at);
  return r.take(tc_scalar_at(value, r.site));
}
inline tensor zeros_like(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_zeros_like_at(x, r.site));
}
inline tensor ones_like(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_ones_like_at(x, r.site));
}
inline tensor full_like(const tensor &x, double value, location at = location()) {
  recording r(at);
  return r.take(tc_full_like_at(x, value, r.site));
}
inline tensor arange(double start, double stop, double step, tc_type type, location at = location()) {
  recording r(at);
  return r.take(tc_arange_at(start, stop, step, type, r.site));
}
inline tensor linspace(double start, double stop, int64_t n, tc_type type = TC_F32, location at = location()) {
  recording r(at);
  return r.take(tc_linspace_at(start, stop, n, type, r.site));
}
inline tensor eye(int64_t n, int64_t m, tc_type type = TC_F32, location at = location()) {
  recording r(at);
  return r.take(tc_eye_at(n, m, type, r.site));
}
inline tensor tri(int64_t n, int64_t m, int64_t k, tc_type type = TC_F32, location at = location()) {
  recording r(at);
  return r.take(tc_tri_at(n, m, k, type, r.site));
}
inline tensor rand(const dims &shape, tc_type type = TC_F32, location at = location()) {
  recording r(at);
  return r.take(tc_rand_at(shape, type, r.site));
}
inline tensor randn(const dims &shape, tc_type type = TC_F32, location at = location()) {
  recording r(at);
  return r.take(tc_randn_at(shape, type, r.site));
}
inline tensor randint(int64_t low, int64_t high, const dims &shape, tc_type type, location at = location()) {
  recording r(at);
  return r.take(tc_randint_at(low, high, shape, type, r.site));
}
inline tensor bernoulli(double p, const dims &shape, location at = location()) {
  recording r(at);
  return r.take(tc_bernoulli_at(p, shape, r.site));
}
inline tensor randperm(int64_t n, location at = location()) {
  recording r(at);
  return r.take(tc_randperm_at(n, r.site));
}
inline tensor rand_like(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_rand_like_at(x, r.site));
}
inline tensor randn_like(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_randn_like_at(x, r.site));
}
inline tensor neg(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_neg_at(x, r.site));
}
inline tensor abs(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_abs_at(x, r.site));
}
inline tensor sign(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_sign_at(x, r.site));
}
inline tensor floor(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_floor_at(x, r.site));
}
inline tensor ceil(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_ceil_at(x, r.site));
}
inline tensor round(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_round_at(x, r.site));
}
inline tensor trunc(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_trunc_at(x, r.site));
}
inline tensor square(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_square_at(x, r.site));
}
inline tensor sqrt(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_sqrt_at(x, r.site));
}
inline tensor rsqrt(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_rsqrt_at(x, r.site));
}
inline tensor reciprocal(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_reciprocal_at(x, r.site));
}
inline tensor exp(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_exp_at(x, r.site));
}
inline tensor exp2(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_exp2_at(x, r.site));
}
inline tensor expm1(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_expm1_at(x, r.site));
}
inline tensor log(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_log_at(x, r.site));
}
inline tensor log2(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_log2_at(x, r.site));
}
inline tensor log10(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_log10_at(x, r.site));
}
inline tensor log1p(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_log1p_at(x, r.site));
}
inline tensor sin(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_sin_at(x, r.site));
}
inline tensor cos(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_cos_at(x, r.site));
}
inline tensor tan(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_tan_at(x, r.site));
}
inline tensor asin(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_asin_at(x, r.site));
}
inline tensor acos(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_acos_at(x, r.site));
}
inline tensor atan(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_atan_at(x, r.site));
}
inline tensor sinh(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_sinh_at(x, r.site));
}
inline tensor cosh(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_cosh_at(x, r.site));
}
inline tensor tanh(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_tanh_at(x, r.site));
}
inline tensor asinh(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_asinh_at(x, r.site));
}
inline tensor acosh(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_acosh_at(x, r.site));
}
inline tensor atanh(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_atanh_at(x, r.site));
}
inline tensor erf(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_erf_at(x, r.site));
}
inline tensor erfinv(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_erfinv_at(x, r.site));
}
inline tensor lgamma(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_lgamma_at(x, r.site));
}
inline tensor digamma(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_digamma_at(x, r.site));
}
inline tensor polygamma(int64_t n, const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_polygamma_at(n, x, r.site));
}
inline tensor sigmoid(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_sigmoid_at(x, r.site));
}
inline tensor relu(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_relu_at(x, r.site));
}
inline tensor isnan(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_isnan_at(x, r.site));
}
inline tensor isinf(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_isinf_at(x, r.site));
}
inline tensor isfinite(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_isfinite_at(x, r.site));
}
inline tensor logical_not(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_logical_not_at(x, r.site));
}
inline tensor bitwise_not(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_bitwise_not_at(x, r.site));
}
inline tensor cast(const tensor &x, tc_type type, location at = location()) {
  recording r(at);
  return r.take(tc_cast_at(x, type, r.site));
}
inline tensor add(const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_add_at(a, b, r.site));
}
inline tensor sub(const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_sub_at(a, b, r.site));
}
inline tensor mul(const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_mul_at(a, b, r.site));
}
inline tensor div(const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_div_at(a, b, r.site));
}
inline tensor pow(const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_pow_at(a, b, r.site));
}
inline tensor maximum(const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_maximum_at(a, b, r.site));
}
inline tensor minimum(const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_minimum_at(a, b, r.site));
}
inline tensor fmod(const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_fmod_at(a, b, r.site));
}
inline tensor remainder(const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_remainder_at(a, b, r.site));
}
inline tensor floor_divide(const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_floor_divide_at(a, b, r.site));
}
inline tensor atan2(const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_atan2_at(a, b, r.site));
}
inline tensor eq(const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_eq_at(a, b, r.site));
}
inline tensor ne(const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_ne_at(a, b, r.site));
}
inline tensor lt(const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_lt_at(a, b, r.site));
}
inline tensor le(const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_le_at(a, b, r.site));
}
inline tensor gt(const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_gt_at(a, b, r.site));
}
inline tensor ge(const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_ge_at(a, b, r.site));
}
inline tensor logical_and(const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_logical_and_at(a, b, r.site));
}
inline tensor logical_or(const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_logical_or_at(a, b, r.site));
}
inline tensor logical_xor(const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_logical_xor_at(a, b, r.site));
}
inline tensor bitwise_and(const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_bitwise_and_at(a, b, r.site));
}
inline tensor bitwise_or(const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_bitwise_or_at(a, b, r.site));
}
inline tensor bitwise_xor(const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_bitwise_xor_at(a, b, r.site));
}
inline tensor shift_left(const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_shift_left_at(a, b, r.site));
}
inline tensor shift_right(const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_shift_right_at(a, b, r.site));
}
inline tensor add(const tensor &a, const number &b, location at = location()) {
  recording r(at);
  return r.take(tc_add_num_at(a, b, r.site));
}
inline tensor sub(const tensor &a, const number &b, location at = location()) {
  recording r(at);
  return r.take(tc_sub_num_at(a, b, r.site));
}
inline tensor mul(const tensor &a, const number &b, location at = location()) {
  recording r(at);
  return r.take(tc_mul_num_at(a, b, r.site));
}
inline tensor div(const tensor &a, const number &b, location at = location()) {
  recording r(at);
  return r.take(tc_div_num_at(a, b, r.site));
}
inline tensor pow(const tensor &a, const number &b, location at = location()) {
  recording r(at);
  return r.take(tc_pow_num_at(a, b, r.site));
}
inline tensor maximum(const tensor &a, const number &b, location at = location()) {
  recording r(at);
  return r.take(tc_maximum_num_at(a, b, r.site));
}
inline tensor minimum(const tensor &a, const number &b, location at = location()) {
  recording r(at);
  return r.take(tc_minimum_num_at(a, b, r.site));
}
inline tensor fmod(const tensor &a, const number &b, location at = location()) {
  recording r(at);
  return r.take(tc_fmod_num_at(a, b, r.site));
}
inline tensor remainder(const tensor &a, const number &b, location at = location()) {
  recording r(at);
  return r.take(tc_remainder_num_at(a, b, r.site));
}
inline tensor floor_divide(const tensor &a, const number &b, location at = location()) {
  recording r(at);
  return r.take(tc_floor_divide_num_at(a, b, r.site));
}
inline tensor eq(const tensor &a, const number &b, location at = location()) {
  recording r(at);
  return r.take(tc_eq_num_at(a, b, r.site));
}
inline tensor ne(const tensor &a, const number &b, location at = location()) {
  recording r(at);
  return r.take(tc_ne_num_at(a, b, r.site));
}
inline tensor lt(const tensor &a, const number &b, location at = location()) {
  recording r(at);
  return r.take(tc_lt_num_at(a, b, r.site));
}
inline tensor le(const tensor &a, const number &b, location at = location()) {
  recording r(at);
  return r.take(tc_le_num_at(a, b, r.site));
}
inline tensor gt(const tensor &a, const number &b, location at = location()) {
  recording r(at);
  return r.take(tc_gt_num_at(a, b, r.site));
}
inline tensor ge(const tensor &a, const number &b, location at = location()) {
  recording r(at);
  return r.take(tc_ge_num_at(a, b, r.site));
}
inline tensor rsub(const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_rsub_at(a, b, r.site));
}
inline tensor rdiv(const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_rdiv_at(a, b, r.site));
}
inline tensor rpow(const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_rpow_at(a, b, r.site));
}
inline tensor rsub(const tensor &a, const number &b, location at = location()) {
  recording r(at);
  return r.take(tc_rsub_num_at(a, b, r.site));
}
inline tensor rdiv(const tensor &a, const number &b, location at = location()) {
  recording r(at);
  return r.take(tc_rdiv_num_at(a, b, r.site));
}
inline tensor rpow(const tensor &a, const number &b, location at = location()) {
  recording r(at);
  return r.take(tc_rpow_num_at(a, b, r.site));
}
inline tensor where(const tensor &cond, const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_where_at(cond, a, b, r.site));
}
inline tensor where(const tensor &cond, const tensor &a, const number &b, location at = location()) {
  recording r(at);
  return r.take(tc_where_tensor_num_at(cond, a, b, r.site));
}
inline tensor where(const tensor &cond, const number &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_where_num_tensor_at(cond, a, b, r.site));
}
inline tensor where(const tensor &cond, const number &a, const number &b, location at = location()) {
  recording r(at);
  return r.take(tc_where_num_num_at(cond, a, b, r.site));
}
inline tensor clamp(const tensor &x, double low, double high, location at = location()) {
  recording r(at);
  return r.take(tc_clamp_at(x, low, high, r.site));
}
inline tensor masked_fill(const tensor &x, const tensor &mask, double value, location at = location()) {
  recording r(at);
  return r.take(tc_masked_fill_at(x, mask, value, r.site));
}
inline tensor reshape(const tensor &x, const dims &shape, location at = location()) {
  recording r(at);
  return r.take(tc_reshape_at(x, shape, r.site));
}
inline tensor permute(const tensor &x, const dims &axes = TC_ALL, location at = location()) {
  recording r(at);
  return r.take(tc_permute_at(x, axes, r.site));
}
inline tensor transpose(const tensor &x, int axis0, int axis1, location at = location()) {
  recording r(at);
  return r.take(tc_transpose_at(x, axis0, axis1, r.site));
}
inline tensor expand(const tensor &x, const dims &shape, location at = location()) {
  recording r(at);
  return r.take(tc_expand_at(x, shape, r.site));
}
inline tensor squeeze(const tensor &x, const dims &axes = TC_ALL, location at = location()) {
  recording r(at);
  return r.take(tc_squeeze_at(x, axes, r.site));
}
inline tensor unsqueeze(const tensor &x, int axis, location at = location()) {
  recording r(at);
  return r.take(tc_unsqueeze_at(x, axis, r.site));
}
inline tensor flatten(const tensor &x, int first_axis, int last_axis, location at = location()) {
  recording r(at);
  return r.take(tc_flatten_at(x, first_axis, last_axis, r.site));
}
inline tensor slice(const tensor &x, int axis, int64_t start, int64_t stop, int64_t step, location at = location()) {
  recording r(at);
  return r.take(tc_slice_at(x, axis, start, stop, step, r.site));
}
inline tensor select(const tensor &x, int axis, int64_t i, location at = location()) {
  recording r(at);
  return r.take(tc_select_at(x, axis, i, r.site));
}
inline tensor unfold(const tensor &x, int axis, int64_t size, int64_t step, location at = location()) {
  recording r(at);
  return r.take(tc_unfold_at(x, axis, size, step, r.site));
}
inline tensor flip(const tensor &x, const dims &axes = TC_ALL, location at = location()) {
  recording r(at);
  return r.take(tc_flip_at(x, axes, r.site));
}
inline tensor roll(const tensor &x, int64_t shift, int axis, location at = location()) {
  recording r(at);
  return r.take(tc_roll_at(x, shift, axis, r.site));
}
inline tensor pad(const tensor &x, const dims &low, const dims &high, double value, location at = location()) {
  recording r(at);
  return r.take(tc_pad_at(x, low, high, value, r.site));
}
inline tensor cat(const tensors &xs, int axis, location at = location()) {
  recording r(at);
  return r.take(tc_cat_at(xs.n(), xs.data(), axis, r.site));
}
inline tensor stack(const tensors &xs, int axis, location at = location()) {
  recording r(at);
  return r.take(tc_stack_at(xs.n(), xs.data(), axis, r.site));
}
inline tensor tile(const tensor &x, const dims &counts, location at = location()) {
  recording r(at);
  return r.take(tc_tile_at(x, counts, r.site));
}
inline tensor repeat_interleave(const tensor &x, int64_t count, int axis, location at = location()) {
  recording r(at);
  return r.take(tc_repeat_interleave_at(x, count, axis, r.site));
}
inline tensor diagonal(const tensor &x, int64_t offset, location at = location()) {
  recording r(at);
  return r.take(tc_diagonal_at(x, offset, r.site));
}
inline tensor tril(const tensor &x, int64_t k, location at = location()) {
  recording r(at);
  return r.take(tc_tril_at(x, k, r.site));
}
inline tensor triu(const tensor &x, int64_t k, location at = location()) {
  recording r(at);
  return r.take(tc_triu_at(x, k, r.site));
}
inline tensor detach(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_detach_at(x, r.site));
}
inline tensor to(const tensor &x, const char *device, location at = location()) {
  recording r(at);
  return r.take(tc_to_at(x, device, r.site));
}
inline tensor sum(const tensor &x, const dims &axes = TC_ALL, bool keepdim = false, location at = location()) {
  recording r(at);
  return r.take(tc_sum_at(x, axes, keepdim, r.site));
}
inline tensor prod(const tensor &x, const dims &axes = TC_ALL, bool keepdim = false, location at = location()) {
  recording r(at);
  return r.take(tc_prod_at(x, axes, keepdim, r.site));
}
inline tensor mean(const tensor &x, const dims &axes = TC_ALL, bool keepdim = false, location at = location()) {
  recording r(at);
  return r.take(tc_mean_at(x, axes, keepdim, r.site));
}
inline tensor var(const tensor &x, const dims &axes = TC_ALL, double correction = 1, bool keepdim = false, location at = location()) {
  recording r(at);
  return r.take(tc_var_at(x, axes, correction, keepdim, r.site));
}
inline tensor std(const tensor &x, const dims &axes = TC_ALL, double correction = 1, bool keepdim = false, location at = location()) {
  recording r(at);
  return r.take(tc_std_at(x, axes, correction, keepdim, r.site));
}
inline tensor min(const tensor &x, const dims &axes = TC_ALL, bool keepdim = false, location at = location()) {
  recording r(at);
  return r.take(tc_min_at(x, axes, keepdim, r.site));
}
inline tensor max(const tensor &x, const dims &axes = TC_ALL, bool keepdim = false, location at = location()) {
  recording r(at);
  return r.take(tc_max_at(x, axes, keepdim, r.site));
}
inline tensor argmin(const tensor &x, int axis, bool keepdim = false, location at = location()) {
  recording r(at);
  return r.take(tc_argmin_at(x, axis, keepdim, r.site));
}
inline tensor argmax(const tensor &x, int axis, bool keepdim = false, location at = location()) {
  recording r(at);
  return r.take(tc_argmax_at(x, axis, keepdim, r.site));
}
inline tensor any(const tensor &x, const dims &axes = TC_ALL, bool keepdim = false, location at = location()) {
  recording r(at);
  return r.take(tc_any_at(x, axes, keepdim, r.site));
}
inline tensor all(const tensor &x, const dims &axes = TC_ALL, bool keepdim = false, location at = location()) {
  recording r(at);
  return r.take(tc_all_at(x, axes, keepdim, r.site));
}
inline tensor logsumexp(const tensor &x, const dims &axes = TC_ALL, bool keepdim = false, location at = location()) {
  recording r(at);
  return r.take(tc_logsumexp_at(x, axes, keepdim, r.site));
}
inline tensor norm(const tensor &x, double p, const dims &axes = TC_ALL, bool keepdim = false, location at = location()) {
  recording r(at);
  return r.take(tc_norm_at(x, p, axes, keepdim, r.site));
}
inline tensor cumsum(const tensor &x, int axis, location at = location()) {
  recording r(at);
  return r.take(tc_cumsum_at(x, axis, r.site));
}
inline tensor cumprod(const tensor &x, int axis, location at = location()) {
  recording r(at);
  return r.take(tc_cumprod_at(x, axis, r.site));
}
inline tensor cummax(const tensor &x, int axis, location at = location()) {
  recording r(at);
  return r.take(tc_cummax_at(x, axis, r.site));
}
inline tensor cummin(const tensor &x, int axis, location at = location()) {
  recording r(at);
  return r.take(tc_cummin_at(x, axis, r.site));
}
inline tensor logcumsumexp(const tensor &x, int axis, location at = location()) {
  recording r(at);
  return r.take(tc_logcumsumexp_at(x, axis, r.site));
}
inline tensor sort(const tensor &x, int axis, bool descending = false, location at = location()) {
  recording r(at);
  return r.take(tc_sort_at(x, axis, descending, r.site));
}
inline tensor argsort(const tensor &x, int axis, bool descending = false, location at = location()) {
  recording r(at);
  return r.take(tc_argsort_at(x, axis, descending, r.site));
}
inline tensor topk(const tensor &x, int64_t k, int axis, bool largest, location at = location()) {
  recording r(at);
  return r.take(tc_topk_at(x, k, axis, largest, r.site));
}
inline tensor argtopk(const tensor &x, int64_t k, int axis, bool largest, location at = location()) {
  recording r(at);
  return r.take(tc_argtopk_at(x, k, axis, largest, r.site));
}
inline tensor kthvalue(const tensor &x, int64_t k, int axis, bool keepdim = false, location at = location()) {
  recording r(at);
  return r.take(tc_kthvalue_at(x, k, axis, keepdim, r.site));
}
inline tensor median(const tensor &x, int axis, bool keepdim = false, location at = location()) {
  recording r(at);
  return r.take(tc_median_at(x, axis, keepdim, r.site));
}
inline tensor searchsorted(const tensor &sorted, const tensor &values, bool right = false, location at = location()) {
  recording r(at);
  return r.take(tc_searchsorted_at(sorted, values, right, r.site));
}
inline tensor bucketize(const tensor &x, const tensor &boundaries, bool right = false, location at = location()) {
  recording r(at);
  return r.take(tc_bucketize_at(x, boundaries, right, r.site));
}
inline tensor softmax(const tensor &x, int axis, location at = location()) {
  recording r(at);
  return r.take(tc_softmax_at(x, axis, r.site));
}
inline tensor log_softmax(const tensor &x, int axis, location at = location()) {
  recording r(at);
  return r.take(tc_log_softmax_at(x, axis, r.site));
}
inline tensor layer_norm(const tensor &x, const tensor &weight, const tensor &bias, double eps, location at = location()) {
  recording r(at);
  return r.take(tc_layer_norm_at(x, weight, bias, eps, r.site));
}
inline tensor rms_norm(const tensor &x, const tensor &weight, double eps, location at = location()) {
  recording r(at);
  return r.take(tc_rms_norm_at(x, weight, eps, r.site));
}
inline tensor batch_norm(const tensor &x, const tensor &running_mean, const tensor &running_var, const tensor &weight, const tensor &bias, tc_batch_norm_options options, location at = location()) {
  recording r(at);
  return r.take(tc_batch_norm_at(x, running_mean, running_var, weight, bias, options, r.site));
}
inline tensor group_norm(const tensor &x, int64_t groups, const tensor &weight, const tensor &bias, double eps, location at = location()) {
  recording r(at);
  return r.take(tc_group_norm_at(x, groups, weight, bias, eps, r.site));
}
inline tensor instance_norm(const tensor &x, const tensor &weight, const tensor &bias, double eps, location at = location()) {
  recording r(at);
  return r.take(tc_instance_norm_at(x, weight, bias, eps, r.site));
}
inline tensor conv1d(const tensor &x, const tensor &weight, const tensor &bias = tensor(), tc_conv_options options = tc_conv_options(), location at = location()) {
  recording r(at);
  return r.take(tc_conv1d_at(x, weight, bias, options, r.site));
}
inline tensor conv2d(const tensor &x, const tensor &weight, const tensor &bias = tensor(), tc_conv_options options = tc_conv_options(), location at = location()) {
  recording r(at);
  return r.take(tc_conv2d_at(x, weight, bias, options, r.site));
}
inline tensor conv3d(const tensor &x, const tensor &weight, const tensor &bias = tensor(), tc_conv_options options = tc_conv_options(), location at = location()) {
  recording r(at);
  return r.take(tc_conv3d_at(x, weight, bias, options, r.site));
}
inline tensor conv_transpose1d(const tensor &x, const tensor &weight, const tensor &bias = tensor(), tc_conv_options options = tc_conv_options(), location at = location()) {
  recording r(at);
  return r.take(tc_conv_transpose1d_at(x, weight, bias, options, r.site));
}
inline tensor conv_transpose2d(const tensor &x, const tensor &weight, const tensor &bias = tensor(), tc_conv_options options = tc_conv_options(), location at = location()) {
  recording r(at);
  return r.take(tc_conv_transpose2d_at(x, weight, bias, options, r.site));
}
inline tensor conv_transpose3d(const tensor &x, const tensor &weight, const tensor &bias = tensor(), tc_conv_options options = tc_conv_options(), location at = location()) {
  recording r(at);
  return r.take(tc_conv_transpose3d_at(x, weight, bias, options, r.site));
}
inline tensor max_pool1d(const tensor &x, const dims &size, tc_pool_options options = tc_pool_options(), location at = location()) {
  recording r(at);
  return r.take(tc_max_pool1d_at(x, size, options, r.site));
}
inline tensor max_pool2d(const tensor &x, const dims &size, tc_pool_options options = tc_pool_options(), location at = location()) {
  recording r(at);
  return r.take(tc_max_pool2d_at(x, size, options, r.site));
}
inline tensor max_pool3d(const tensor &x, const dims &size, tc_pool_options options = tc_pool_options(), location at = location()) {
  recording r(at);
  return r.take(tc_max_pool3d_at(x, size, options, r.site));
}
inline tensor max_pool1d_indices(const tensor &x, const dims &size, tc_pool_options options = tc_pool_options(), location at = location()) {
  recording r(at);
  return r.take(tc_max_pool1d_indices_at(x, size, options, r.site));
}
inline tensor max_pool2d_indices(const tensor &x, const dims &size, tc_pool_options options = tc_pool_options(), location at = location()) {
  recording r(at);
  return r.take(tc_max_pool2d_indices_at(x, size, options, r.site));
}
inline tensor max_pool3d_indices(const tensor &x, const dims &size, tc_pool_options options = tc_pool_options(), location at = location()) {
  recording r(at);
  return r.take(tc_max_pool3d_indices_at(x, size, options, r.site));
}
inline tensor avg_pool1d(const tensor &x, const dims &size, tc_pool_options options = tc_pool_options(), location at = location()) {
  recording r(at);
  return r.take(tc_avg_pool1d_at(x, size, options, r.site));
}
inline tensor avg_pool2d(const tensor &x, const dims &size, tc_pool_options options = tc_pool_options(), location at = location()) {
  recording r(at);
  return r.take(tc_avg_pool2d_at(x, size, options, r.site));
}
inline tensor avg_pool3d(const tensor &x, const dims &size, tc_pool_options options = tc_pool_options(), location at = location()) {
  recording r(at);
  return r.take(tc_avg_pool3d_at(x, size, options, r.site));
}
inline tensor adaptive_avg_pool1d(const tensor &x, const dims &size, location at = location()) {
  recording r(at);
  return r.take(tc_adaptive_avg_pool1d_at(x, size, r.site));
}
inline tensor adaptive_avg_pool2d(const tensor &x, const dims &size, location at = location()) {
  recording r(at);
  return r.take(tc_adaptive_avg_pool2d_at(x, size, r.site));
}
inline tensor adaptive_avg_pool3d(const tensor &x, const dims &size, location at = location()) {
  recording r(at);
  return r.take(tc_adaptive_avg_pool3d_at(x, size, r.site));
}
inline tensor adaptive_max_pool1d(const tensor &x, const dims &size, location at = location()) {
  recording r(at);
  return r.take(tc_adaptive_max_pool1d_at(x, size, r.site));
}
inline tensor adaptive_max_pool2d(const tensor &x, const dims &size, location at = location()) {
  recording r(at);
  return r.take(tc_adaptive_max_pool2d_at(x, size, r.site));
}
inline tensor adaptive_max_pool3d(const tensor &x, const dims &size, location at = location()) {
  recording r(at);
  return r.take(tc_adaptive_max_pool3d_at(x, size, r.site));
}
inline tensor interpolate(const tensor &x, const dims &size, tc_interpolate_options options = tc_interpolate_options(), location at = location()) {
  recording r(at);
  return r.take(tc_interpolate_at(x, size, options, r.site));
}
inline tensor gather(const tensor &x, int axis, const tensor &index, location at = location()) {
  recording r(at);
  return r.take(tc_gather_at(x, axis, index, r.site));
}
inline tensor take_along_dim(const tensor &x, const tensor &index, int axis, location at = location()) {
  recording r(at);
  return r.take(tc_take_along_dim_at(x, index, axis, r.site));
}
inline tensor scatter(const tensor &x, int axis, const tensor &index, const tensor &src, location at = location()) {
  recording r(at);
  return r.take(tc_scatter_at(x, axis, index, src, r.site));
}
inline tensor scatter_add(const tensor &x, int axis, const tensor &index, const tensor &src, location at = location()) {
  recording r(at);
  return r.take(tc_scatter_add_at(x, axis, index, src, r.site));
}
inline tensor index_select(const tensor &x, int axis, const tensor &index, location at = location()) {
  recording r(at);
  return r.take(tc_index_select_at(x, axis, index, r.site));
}
inline tensor index_add(const tensor &x, int axis, const tensor &index, const tensor &src, location at = location()) {
  recording r(at);
  return r.take(tc_index_add_at(x, axis, index, src, r.site));
}
inline tensor embedding(const tensor &weight, const tensor &ids, location at = location()) {
  recording r(at);
  return r.take(tc_embedding_at(weight, ids, r.site));
}
inline tensor one_hot(const tensor &ids, int64_t n, location at = location()) {
  recording r(at);
  return r.take(tc_one_hot_at(ids, n, r.site));
}
inline tensor matmul(const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_matmul_at(a, b, r.site));
}
inline tensor bmm(const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_bmm_at(a, b, r.site));
}
inline tensor linear(const tensor &x, const tensor &weight, const tensor &bias = tensor(), location at = location()) {
  recording r(at);
  return r.take(tc_linear_at(x, weight, bias, r.site));
}
inline tensor dot(const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_dot_at(a, b, r.site));
}
inline tensor outer(const tensor &a, const tensor &b, location at = location()) {
  recording r(at);
  return r.take(tc_outer_at(a, b, r.site));
}
inline tensor quantize(const tensor &x, const tensor &scale, const tensor &zero_point, tc_type type = TC_F32, tc_quantize_options options = tc_quantize_options(), location at = location()) {
  recording r(at);
  return r.take(tc_quantize_at(x, scale, zero_point, type, options, r.site));
}
inline tensor dequantize(const tensor &q, const tensor &scale, const tensor &zero_point, tc_quantize_options options = tc_quantize_options(), location at = location()) {
  recording r(at);
  return r.take(tc_dequantize_at(q, scale, zero_point, options, r.site));
}
inline tensor linear_int8(const tensor &x, const tensor &weight, const tensor &scale, const tensor &bias = tensor(), location at = location()) {
  recording r(at);
  return r.take(tc_linear_int8_at(x, weight, scale, bias, r.site));
}
inline tensor scaled_dot_product_attention(const tensor &q, const tensor &k, const tensor &v, const tensor &mask = tensor(), tc_attention_options options = tc_attention_options(), location at = location()) {
  recording r(at);
  return r.take(tc_scaled_dot_product_attention_at(q, k, v, mask, options, r.site));
}
inline tensor gelu(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_gelu_at(x, r.site));
}
inline tensor gelu_tanh(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_gelu_tanh_at(x, r.site));
}
inline tensor silu(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_silu_at(x, r.site));
}
inline tensor softplus(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_softplus_at(x, r.site));
}
inline tensor leaky_relu(const tensor &x, double slope, location at = location()) {
  recording r(at);
  return r.take(tc_leaky_relu_at(x, slope, r.site));
}
inline tensor elu(const tensor &x, double alpha, location at = location()) {
  recording r(at);
  return r.take(tc_elu_at(x, alpha, r.site));
}
inline tensor relu6(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_relu6_at(x, r.site));
}
inline tensor hardtanh(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_hardtanh_at(x, r.site));
}
inline tensor hardsigmoid(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_hardsigmoid_at(x, r.site));
}
inline tensor hardswish(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_hardswish_at(x, r.site));
}
inline tensor mish(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_mish_at(x, r.site));
}
inline tensor log_sigmoid(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_log_sigmoid_at(x, r.site));
}
inline tensor softsign(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_softsign_at(x, r.site));
}
inline tensor dropout(const tensor &x, double p, location at = location()) {
  recording r(at);
  return r.take(tc_dropout_at(x, p, r.site));
}
inline tensor rotary_embedding(const tensor &x, const tensor &cos, const tensor &sin, tc_rotary_options options = tc_rotary_options(), location at = location()) {
  recording r(at);
  return r.take(tc_rotary_embedding_at(x, cos, sin, options, r.site));
}
inline tensor rotary_angles(int64_t n, int64_t dim, double base, location at = location()) {
  recording r(at);
  return r.take(tc_rotary_angles_at(n, dim, base, r.site));
}
inline tensor mse_loss(const tensor &x, const tensor &y, location at = location()) {
  recording r(at);
  return r.take(tc_mse_loss_at(x, y, r.site));
}
inline tensor l1_loss(const tensor &x, const tensor &y, location at = location()) {
  recording r(at);
  return r.take(tc_l1_loss_at(x, y, r.site));
}
inline tensor huber_loss(const tensor &x, const tensor &y, double delta, location at = location()) {
  recording r(at);
  return r.take(tc_huber_loss_at(x, y, delta, r.site));
}
inline tensor mse_loss_with(const tensor &x, const tensor &y, tc_loss_options options = tc_loss_options(), location at = location()) {
  recording r(at);
  return r.take(tc_mse_loss_with_at(x, y, options, r.site));
}
inline tensor l1_loss_with(const tensor &x, const tensor &y, tc_loss_options options = tc_loss_options(), location at = location()) {
  recording r(at);
  return r.take(tc_l1_loss_with_at(x, y, options, r.site));
}
inline tensor huber_loss_with(const tensor &x, const tensor &y, tc_loss_options options = tc_loss_options(), location at = location()) {
  recording r(at);
  return r.take(tc_huber_loss_with_at(x, y, options, r.site));
}
inline tensor smooth_l1_loss(const tensor &x, const tensor &y, tc_loss_options options = tc_loss_options(), location at = location()) {
  recording r(at);
  return r.take(tc_smooth_l1_loss_at(x, y, options, r.site));
}
inline tensor cross_entropy(const tensor &logits, const tensor &target, location at = location()) {
  recording r(at);
  return r.take(tc_cross_entropy_at(logits, target, r.site));
}
inline tensor cross_entropy_with(const tensor &logits, const tensor &target, double label_smoothing, int64_t ignore_index, location at = location()) {
  recording r(at);
  return r.take(tc_cross_entropy_with_at(logits, target, label_smoothing, ignore_index, r.site));
}
inline tensor nll_loss(const tensor &log_probs, const tensor &target, location at = location()) {
  recording r(at);
  return r.take(tc_nll_loss_at(log_probs, target, r.site));
}
inline tensor cross_entropy_loss(const tensor &logits, const tensor &target, tc_cross_entropy_options options = tc_cross_entropy_options(), location at = location()) {
  recording r(at);
  return r.take(tc_cross_entropy_loss_at(logits, target, options, r.site));
}
inline tensor nll_loss_with(const tensor &log_probs, const tensor &target, tc_cross_entropy_options options = tc_cross_entropy_options(), location at = location()) {
  recording r(at);
  return r.take(tc_nll_loss_with_at(log_probs, target, options, r.site));
}
inline tensor bce_with_logits(const tensor &x, const tensor &y, location at = location()) {
  recording r(at);
  return r.take(tc_bce_with_logits_at(x, y, r.site));
}
inline tensor bce_with_logits_loss(const tensor &x, const tensor &y, tc_bce_options options = tc_bce_options(), location at = location()) {
  recording r(at);
  return r.take(tc_bce_with_logits_loss_at(x, y, options, r.site));
}
inline tensor bce_loss(const tensor &x, const tensor &y, tc_bce_options options = tc_bce_options(), location at = location()) {
  recording r(at);
  return r.take(tc_bce_loss_at(x, y, options, r.site));
}
inline tensor kl_div_loss(const tensor &x, const tensor &y, tc_kl_div_options options = tc_kl_div_options(), location at = location()) {
  recording r(at);
  return r.take(tc_kl_div_loss_at(x, y, options, r.site));
}
inline tensor cosine_similarity(const tensor &a, const tensor &b, int axis, double eps, location at = location()) {
  recording r(at);
  return r.take(tc_cosine_similarity_at(a, b, axis, eps, r.site));
}
inline tensor cosine_embedding_loss(const tensor &a, const tensor &b, const tensor &y, tc_margin_options options = tc_margin_options(), location at = location()) {
  recording r(at);
  return r.take(tc_cosine_embedding_loss_at(a, b, y, options, r.site));
}
inline tensor triplet_margin_loss(const tensor &anchor, const tensor &positive, const tensor &negative, tc_margin_options options = tc_margin_options(), location at = location()) {
  recording r(at);
  return r.take(tc_triplet_margin_loss_at(anchor, positive, negative, options, r.site));
}
inline tensor load_npy(const char *path, location at = location()) {
  recording r(at);
  return r.take(tc_load_npy_at(path, r.site));
}
inline tensor clip_grad_norm(const tensors &params, double max_norm, location at = location()) {
  recording r(at);
  return r.take(tc_clip_grad_norm_at(params.data(), params.n(), max_norm, r.site));
}
inline tensor nonzero(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_nonzero_at(x, r.site));
}
inline tensor masked_select(const tensor &x, const tensor &mask = tensor(), location at = location()) {
  recording r(at);
  return r.take(tc_masked_select_at(x, mask, r.site));
}
inline tensor unique(const tensor &x, location at = location()) {
  recording r(at);
  return r.take(tc_unique_at(x, r.site));
}
inline tensor einsum(const char *spec, const tensors &operands, location at = location()) {
  recording r(at);
  return r.take(tc_einsum_at(spec, operands.n(), operands.data(), r.site));
}
