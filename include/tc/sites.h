// Gives every call its site: declares name_at for each function of tc.h that records, can fail or syncs, and makes the plain names macros that pass
// one constant string. Made by tools/make_sites.py.
// Define TC_NO_SITES before tc.h to leave the names alone. In C a number as second operand chooses the _num form.
#ifndef TC_SITES_H
#define TC_SITES_H

#ifdef __cplusplus
extern "C" {
#endif

TC_API tc_status tc_set_num_threads_at(int n, tc_site site);
TC_API tc_status tc_set_memory_cap_at(size_t bytes, tc_site site);
TC_API tc_status tc_set_memory_budget_at(size_t bytes, tc_site site);
TC_API tc_status tc_set_allocator_at(tc_allocator allocator, tc_site site);
TC_API tc_status tc_set_default_device_at(const char *device, tc_site site) TC_MUST_USE;
TC_API tc_status tc_push_device_at(const char *device, tc_site site) TC_MUST_USE;
TC_API tc_status tc_pop_device_at(tc_site site);
TC_API tc_scope tc_scope_begin_at(tc_site site);
TC_API void tc_scope_end_at(tc_scope scope, tc_site site);
TC_API tc_tensor tc_keep_at(tc_tensor t, tc_site site);
TC_API tc_tensor tc_retain_at(tc_tensor t, tc_site site);
TC_API void tc_release_at(tc_tensor t, tc_site site);
TC_API tc_dims tc_shape_at(tc_tensor t, tc_site site);
TC_API tc_type tc_dtype_at(tc_tensor t, tc_site site);
TC_API int64_t tc_numel_at(tc_tensor t, tc_site site);
TC_API const char *tc_device_of_at(tc_tensor t, tc_site site);
TC_API tc_tensor tc_from_host_at(const void *data, tc_dims shape, tc_type type, tc_site site);
TC_API tc_tensor tc_from_host_strided_at(const void *data, tc_dims shape, const int64_t *strides, tc_type type, tc_site site);
TC_API tc_tensor tc_borrow_at(void *data, tc_dims shape, tc_type type, int flags, void (*release)(void *arg), void *arg, tc_site site);
TC_API tc_status tc_item_f32_at(tc_tensor t, float *out, tc_site site) TC_MUST_USE;
TC_API tc_status tc_item_f64_at(tc_tensor t, double *out, tc_site site) TC_MUST_USE;
TC_API tc_status tc_item_i32_at(tc_tensor t, int32_t *out, tc_site site) TC_MUST_USE;
TC_API tc_status tc_item_i64_at(tc_tensor t, int64_t *out, tc_site site) TC_MUST_USE;
TC_API tc_status tc_item_bool_at(tc_tensor t, bool *out, tc_site site) TC_MUST_USE;
TC_API tc_status tc_to_host_at(tc_tensor t, void *out, size_t bytes, tc_site site) TC_MUST_USE;
TC_API tc_status tc_to_host_async_at(tc_tensor t, void *out, size_t bytes, tc_site site) TC_MUST_USE;
TC_API tc_status tc_to_host_wait_at(const void *out, tc_site site) TC_MUST_USE;
TC_API tc_status tc_eval_at(int n, const tc_tensor *tensors, tc_site site) TC_MUST_USE;
TC_API tc_status tc_sync_at(const char *device, tc_site site) TC_MUST_USE;
TC_API const void *tc_map_at(tc_tensor t, tc_site site);
TC_API tc_status tc_unmap_at(tc_tensor t, tc_site site);
TC_API tc_status tc_map_shared_at(tc_tensor t, const void **out_data, void **out_share, tc_site site) TC_MUST_USE;
TC_API tc_status tc_print_at(tc_tensor t, tc_site site);
TC_API char *tc_format_at(tc_tensor t, tc_site site);
TC_API tc_status tc_save_npy_at(const char *path, tc_tensor t, tc_site site) TC_MUST_USE;
TC_API tc_tensor tc_load_npy_at(const char *path, tc_site site);
TC_API tc_status tc_assign_at(tc_tensor t, tc_tensor value, tc_site site);
TC_API tc_status tc_assign_slice_at(tc_tensor t, const int64_t *start, const int64_t *stop, const int64_t *step, tc_tensor value, tc_site site);
TC_API tc_tensor tc_param_at(tc_tensor t, tc_site site);
TC_API tc_status tc_set_requires_grad_at(tc_tensor t, bool on, tc_site site);
TC_API tc_status tc_backward_at(tc_tensor y, tc_site site);
TC_API tc_status tc_backward_with_at(tc_tensor y, tc_tensor grad, int flags, tc_site site);
TC_API tc_status tc_grads_of_at(tc_tensor y, const tc_tensor *xs, int n, tc_tensor *out, int flags, tc_site site);
TC_API tc_status tc_zero_grad_of_at(int n, const tc_tensor *params, tc_site site);
TC_API tc_status tc_set_rng_state_at(tc_rng_state state, tc_site site);
TC_API tc_optimizer *tc_sgd_at(const tc_tensor *params, int n, tc_sgd_options options, tc_site site);
TC_API tc_optimizer *tc_adam_at(const tc_tensor *params, int n, tc_adam_options options, tc_site site);
TC_API tc_optimizer *tc_adamw_at(const tc_tensor *params, int n, tc_adam_options options, tc_site site);
TC_API tc_optimizer *tc_rmsprop_at(const tc_tensor *params, int n, tc_rmsprop_options options, tc_site site);
TC_API tc_status tc_optimizer_add_group_at(tc_optimizer *opt, const tc_tensor *params, int n, tc_group_options options, tc_site site) TC_MUST_USE;
TC_API tc_status tc_optimizer_step_at(tc_optimizer *opt, tc_site site);
TC_API tc_status tc_zero_grad_at(tc_optimizer *opt, tc_site site);
TC_API tc_status tc_set_lr_at(tc_optimizer *opt, double lr, tc_site site);
TC_API double tc_get_lr_at(const tc_optimizer *opt, tc_site site);
TC_API tc_status tc_set_group_lr_at(tc_optimizer *opt, int group, double lr, tc_site site);
TC_API double tc_get_group_lr_at(const tc_optimizer *opt, int group, tc_site site);
TC_API tc_tensor tc_optimizer_state_at(const tc_optimizer *opt, int i, tc_site site);
TC_API tc_status tc_optimizer_set_state_at(tc_optimizer *opt, int i, tc_tensor value, tc_site site);
TC_API tc_tensor tc_clip_grad_norm_at(const tc_tensor *params, int n, double max_norm, tc_site site);
TC_API tc_tensor tc_nonzero_at(tc_tensor x, tc_site site);
TC_API tc_tensor tc_masked_select_at(tc_tensor x, tc_tensor mask, tc_site site);
TC_API tc_tensor tc_unique_at(tc_tensor x, tc_site site);
TC_API tc_status tc_allclose_at(tc_tensor a, tc_tensor b, double rtol, double atol, bool *out, tc_site site) TC_MUST_USE;
TC_API tc_status tc_split_at(tc_tensor x, int64_t size, int axis, int n, tc_tensor *out, tc_site site);
TC_API tc_status tc_meshgrid_at(int n, const tc_tensor *xs, tc_tensor *out, tc_site site);
TC_API tc_tensor tc_einsum_at(const char *spec, int n, const tc_tensor *operands, tc_site site);

#ifdef __cplusplus
}
#endif

#ifndef TC_NO_SITES

#ifndef __cplusplus
static inline tc_tensor tc_operand_tensor_(tc_tensor t) {
  return t;
}
#define TC_OPERAND_(b) _Generic((b), tc_tensor: tc_operand_tensor_, float: tc_num_float, double: tc_num_float, default: tc_num_int)(b)
// Each operand is written once: nested calls stay linear in size, and a mistake is reported once. id makes the names new at every depth.
#define TC_BINARY_(tensors, number, a, b, id) TC_BINARY_AT_(tensors, number, a, b, id)
#define TC_BINARY_AT_(tensors, number, a, b, id) \
  __extension__({ \
    tc_tensor tc_a_##id = (a); \
    __auto_type tc_b_##id = (b); \
    _Generic(tc_b_##id, tc_tensor: tensors, default: number)(tc_a_##id, TC_OPERAND_(tc_b_##id), TC_HERE); \
  })
#define tc_add(a, b) TC_BINARY_(tc_add_at, tc_add_num_at, a, b, __COUNTER__)
#define tc_sub(a, b) TC_BINARY_(tc_sub_at, tc_sub_num_at, a, b, __COUNTER__)
#define tc_mul(a, b) TC_BINARY_(tc_mul_at, tc_mul_num_at, a, b, __COUNTER__)
#define tc_div(a, b) TC_BINARY_(tc_div_at, tc_div_num_at, a, b, __COUNTER__)
#define tc_pow(a, b) TC_BINARY_(tc_pow_at, tc_pow_num_at, a, b, __COUNTER__)
#define tc_maximum(a, b) TC_BINARY_(tc_maximum_at, tc_maximum_num_at, a, b, __COUNTER__)
#define tc_minimum(a, b) TC_BINARY_(tc_minimum_at, tc_minimum_num_at, a, b, __COUNTER__)
#define tc_fmod(a, b) TC_BINARY_(tc_fmod_at, tc_fmod_num_at, a, b, __COUNTER__)
#define tc_remainder(a, b) TC_BINARY_(tc_remainder_at, tc_remainder_num_at, a, b, __COUNTER__)
#define tc_floor_divide(a, b) TC_BINARY_(tc_floor_divide_at, tc_floor_divide_num_at, a, b, __COUNTER__)
#define tc_eq(a, b) TC_BINARY_(tc_eq_at, tc_eq_num_at, a, b, __COUNTER__)
#define tc_ne(a, b) TC_BINARY_(tc_ne_at, tc_ne_num_at, a, b, __COUNTER__)
#define tc_lt(a, b) TC_BINARY_(tc_lt_at, tc_lt_num_at, a, b, __COUNTER__)
#define tc_le(a, b) TC_BINARY_(tc_le_at, tc_le_num_at, a, b, __COUNTER__)
#define tc_gt(a, b) TC_BINARY_(tc_gt_at, tc_gt_num_at, a, b, __COUNTER__)
#define tc_ge(a, b) TC_BINARY_(tc_ge_at, tc_ge_num_at, a, b, __COUNTER__)
#endif

// The one element of t, converted to what out points to.
#define tc_item(t, out) tc_item_at(t, TC_ITEM_TYPE_(out), out, TC_HERE)
#ifdef __cplusplus
extern "C++" {
inline tc_type tc_item_type_(const bool *) {
  return TC_BOOL;
}
inline tc_type tc_item_type_(const int32_t *) {
  return TC_I32;
}
inline tc_type tc_item_type_(const int64_t *) {
  return TC_I64;
}
inline tc_type tc_item_type_(const float *) {
  return TC_F32;
}
inline tc_type tc_item_type_(const double *) {
  return TC_F64;
}
}
#define TC_ITEM_TYPE_(out) tc_item_type_(out)
#else
#define TC_ITEM_TYPE_(out) _Generic((out), bool *: TC_BOOL, int32_t *: TC_I32, int64_t *: TC_I64, float *: TC_F32, double *: TC_F64)

// The tc_ctype of a pointer to elements, or to rows of them.
// clang-format off
#define TC_C_EACH_(c, NAME) c *: TC_C_##NAME, const c *: TC_C_##NAME, c(*)[]: TC_C_##NAME, const c(*)[]: TC_C_##NAME,
#if defined(__FLT16_MAX__) && !defined(__STRICT_ANSI__)
#define TC_C_HALF_ TC_C_EACH_(_Float16, FLOAT16)
#else
#define TC_C_HALF_
#endif
#define TC_C_OF_(p) _Generic((p), \
  TC_C_EACH_(bool, BOOL) \
  TC_C_EACH_(signed char, SCHAR) \
  TC_C_EACH_(short, SHORT) \
  TC_C_EACH_(unsigned short, USHORT) \
  TC_C_EACH_(int, INT) \
  TC_C_EACH_(unsigned int, UINT) \
  TC_C_EACH_(long, LONG) \
  TC_C_EACH_(unsigned long, ULONG) \
  TC_C_EACH_(long long, LLONG) \
  TC_C_EACH_(unsigned long long, ULLONG) \
  TC_C_EACH_(float, FLOAT) \
  TC_C_EACH_(double, DOUBLE) \
  TC_C_HALF_ default: TC_C_ANY)
// clang-format on
// The pointer among a call's arguments. One that is a compound literal, (float[]){1, 2}, is several arguments to the preprocessor: then there are more than
// parameters, and the first begins with the literal's type in parentheses. What comes after the last parameter is else TC_C_END_, which () expands.
#define TC_C_1ST_(a, ...) a
#define TC_C_2ND_(a, b, ...) b
#define TC_C_1ST_OF_(...) TC_C_1ST_(__VA_ARGS__, 0)
#define TC_C_2ND_OF_(...) TC_C_2ND_(__VA_ARGS__, 0, 0)
#define TC_C_PASTE_(a, b) a##b
#define TC_C_PASTE2_(a, b) a##b
#define TC_C_END_() 0, WHOLE,
#define TC_C_AFTER3_(a, b, c, d, ...) d
#define TC_C_KIND3_(...) TC_C_2ND_OF_(TC_C_AFTER3_(__VA_ARGS__, TC_C_END_, 0, 0, 0)(), SPLIT)
#define TC_C_AFTER4_(a, b, c, d, e, ...) e
#define TC_C_KIND4_(...) TC_C_2ND_OF_(TC_C_AFTER4_(__VA_ARGS__, TC_C_END_, 0, 0, 0)(), STRIDES)
#define TC_C_AFTER6_(a, b, c, d, e, f, g, ...) g
#define TC_C_KIND6_(...) TC_C_2ND_OF_(TC_C_AFTER6_(__VA_ARGS__, TC_C_END_, 0, 0, 0)(), SPLIT)
#define TC_C_0_(kind, ...) TC_C_PASTE_(TC_C_0_, kind)(__VA_ARGS__)
#define TC_C_0_WHOLE(...) TC_C_OF_(TC_C_1ST_OF_(__VA_ARGS__))
#define TC_C_0_SPLIT(...) TC_C_BEGIN_(TC_C_1ST_OF_(__VA_ARGS__))
#define TC_C_BEGIN_(...) TC_C_BEGIN_AS_(TC_C_2ND_OF_(TC_C_PARENTHESES_ __VA_ARGS__, OTHER), __VA_ARGS__)
// Where strides may be the literal, what does not begin so is whole.
#define TC_C_0_STRIDES(...) TC_C_STRIDED_(TC_C_1ST_OF_(__VA_ARGS__))
#define TC_C_STRIDED_(...) TC_C_BEGIN_AS_(TC_C_2ND_OF_(TC_C_PARENTHESES_ __VA_ARGS__, SIMPLE), __VA_ARGS__)
#define TC_C_PARENTHESES_(...) 0, LITERAL,
#define TC_C_BEGIN_AS_(kind, ...) TC_C_PASTE2_(TC_C_BEGIN_, kind)(__VA_ARGS__)
#define TC_C_BEGIN_LITERAL(...) TC_C_OF_(*(__typeof__(TC_C_1ST_OF_(TC_C_TYPE_ __VA_ARGS__)) *)0)
#define TC_C_BEGIN_OTHER(...) TC_C_ANY
#define TC_C_BEGIN_SIMPLE(...) TC_C_OF_((__VA_ARGS__))
#define TC_C_TYPE_(...) __VA_ARGS__,
#define TC_C_1_(kind, ...) TC_C_PASTE_(TC_C_1_, kind)(__VA_ARGS__)
#define TC_C_1_WHOLE(...) TC_C_OF_(TC_C_2ND_OF_(__VA_ARGS__))
#define TC_C_1_SPLIT(...) TC_C_ANY
#endif

#ifdef __cplusplus
#define tc_from_host(...) tc_from_host_at(__VA_ARGS__, TC_HERE)
#define tc_from_host_strided(...) tc_from_host_strided_at(__VA_ARGS__, TC_HERE)
#define tc_borrow(...) tc_borrow_at(__VA_ARGS__, TC_HERE)
#define tc_to_host(...) tc_to_host_at(__VA_ARGS__, TC_HERE)
#define tc_to_host_async(...) tc_to_host_async_at(__VA_ARGS__, TC_HERE)
#else
#define tc_from_host(...) tc_from_host_as_at(TC_C_0_(TC_C_KIND3_(__VA_ARGS__), __VA_ARGS__), __VA_ARGS__, TC_HERE)
#define tc_from_host_strided(...) tc_from_host_strided_as_at(TC_C_0_(TC_C_KIND4_(__VA_ARGS__), __VA_ARGS__), __VA_ARGS__, TC_HERE)
#define tc_borrow(...) tc_borrow_as_at(TC_C_0_(TC_C_KIND6_(__VA_ARGS__), __VA_ARGS__), __VA_ARGS__, TC_HERE)
#define tc_to_host(...) tc_to_host_as_at(TC_C_1_(TC_C_KIND3_(__VA_ARGS__), __VA_ARGS__), __VA_ARGS__, TC_HERE)
#define tc_to_host_async(...) tc_to_host_async_as_at(TC_C_1_(TC_C_KIND3_(__VA_ARGS__), __VA_ARGS__), __VA_ARGS__, TC_HERE)
#endif

#define tc_zeros(...) tc_zeros_at(__VA_ARGS__, TC_HERE)
#define tc_ones(...) tc_ones_at(__VA_ARGS__, TC_HERE)
#define tc_empty(...) tc_empty_at(__VA_ARGS__, TC_HERE)
#define tc_full(...) tc_full_at(__VA_ARGS__, TC_HERE)
#define tc_full_int(...) tc_full_int_at(__VA_ARGS__, TC_HERE)
#define tc_scalar(...) tc_scalar_at(__VA_ARGS__, TC_HERE)
#define tc_zeros_like(...) tc_zeros_like_at(__VA_ARGS__, TC_HERE)
#define tc_ones_like(...) tc_ones_like_at(__VA_ARGS__, TC_HERE)
#define tc_full_like(...) tc_full_like_at(__VA_ARGS__, TC_HERE)
#define tc_arange(...) tc_arange_at(__VA_ARGS__, TC_HERE)
#define tc_linspace(...) tc_linspace_at(__VA_ARGS__, TC_HERE)
#define tc_eye(...) tc_eye_at(__VA_ARGS__, TC_HERE)
#define tc_tri(...) tc_tri_at(__VA_ARGS__, TC_HERE)
#define tc_rand(...) tc_rand_at(__VA_ARGS__, TC_HERE)
#define tc_randn(...) tc_randn_at(__VA_ARGS__, TC_HERE)
#define tc_randint(...) tc_randint_at(__VA_ARGS__, TC_HERE)
#define tc_bernoulli(...) tc_bernoulli_at(__VA_ARGS__, TC_HERE)
#define tc_randperm(...) tc_randperm_at(__VA_ARGS__, TC_HERE)
#define tc_rand_like(...) tc_rand_like_at(__VA_ARGS__, TC_HERE)
#define tc_randn_like(...) tc_randn_like_at(__VA_ARGS__, TC_HERE)
#define tc_neg(...) tc_neg_at(__VA_ARGS__, TC_HERE)
#define tc_abs(...) tc_abs_at(__VA_ARGS__, TC_HERE)
#define tc_sign(...) tc_sign_at(__VA_ARGS__, TC_HERE)
#define tc_floor(...) tc_floor_at(__VA_ARGS__, TC_HERE)
#define tc_ceil(...) tc_ceil_at(__VA_ARGS__, TC_HERE)
#define tc_round(...) tc_round_at(__VA_ARGS__, TC_HERE)
#define tc_trunc(...) tc_trunc_at(__VA_ARGS__, TC_HERE)
#define tc_square(...) tc_square_at(__VA_ARGS__, TC_HERE)
#define tc_sqrt(...) tc_sqrt_at(__VA_ARGS__, TC_HERE)
#define tc_rsqrt(...) tc_rsqrt_at(__VA_ARGS__, TC_HERE)
#define tc_reciprocal(...) tc_reciprocal_at(__VA_ARGS__, TC_HERE)
#define tc_exp(...) tc_exp_at(__VA_ARGS__, TC_HERE)
#define tc_exp2(...) tc_exp2_at(__VA_ARGS__, TC_HERE)
#define tc_expm1(...) tc_expm1_at(__VA_ARGS__, TC_HERE)
#define tc_log(...) tc_log_at(__VA_ARGS__, TC_HERE)
#define tc_log2(...) tc_log2_at(__VA_ARGS__, TC_HERE)
#define tc_log10(...) tc_log10_at(__VA_ARGS__, TC_HERE)
#define tc_log1p(...) tc_log1p_at(__VA_ARGS__, TC_HERE)
#define tc_sin(...) tc_sin_at(__VA_ARGS__, TC_HERE)
#define tc_cos(...) tc_cos_at(__VA_ARGS__, TC_HERE)
#define tc_tan(...) tc_tan_at(__VA_ARGS__, TC_HERE)
#define tc_asin(...) tc_asin_at(__VA_ARGS__, TC_HERE)
#define tc_acos(...) tc_acos_at(__VA_ARGS__, TC_HERE)
#define tc_atan(...) tc_atan_at(__VA_ARGS__, TC_HERE)
#define tc_sinh(...) tc_sinh_at(__VA_ARGS__, TC_HERE)
#define tc_cosh(...) tc_cosh_at(__VA_ARGS__, TC_HERE)
#define tc_tanh(...) tc_tanh_at(__VA_ARGS__, TC_HERE)
#define tc_asinh(...) tc_asinh_at(__VA_ARGS__, TC_HERE)
#define tc_acosh(...) tc_acosh_at(__VA_ARGS__, TC_HERE)
#define tc_atanh(...) tc_atanh_at(__VA_ARGS__, TC_HERE)
#define tc_erf(...) tc_erf_at(__VA_ARGS__, TC_HERE)
#define tc_erfinv(...) tc_erfinv_at(__VA_ARGS__, TC_HERE)
#define tc_lgamma(...) tc_lgamma_at(__VA_ARGS__, TC_HERE)
#define tc_digamma(...) tc_digamma_at(__VA_ARGS__, TC_HERE)
#define tc_polygamma(...) tc_polygamma_at(__VA_ARGS__, TC_HERE)
#define tc_sigmoid(...) tc_sigmoid_at(__VA_ARGS__, TC_HERE)
#define tc_relu(...) tc_relu_at(__VA_ARGS__, TC_HERE)
#define tc_isnan(...) tc_isnan_at(__VA_ARGS__, TC_HERE)
#define tc_isinf(...) tc_isinf_at(__VA_ARGS__, TC_HERE)
#define tc_isfinite(...) tc_isfinite_at(__VA_ARGS__, TC_HERE)
#define tc_logical_not(...) tc_logical_not_at(__VA_ARGS__, TC_HERE)
#define tc_bitwise_not(...) tc_bitwise_not_at(__VA_ARGS__, TC_HERE)
#define tc_cast(...) tc_cast_at(__VA_ARGS__, TC_HERE)
#define tc_atan2(...) tc_atan2_at(__VA_ARGS__, TC_HERE)
#define tc_logical_and(...) tc_logical_and_at(__VA_ARGS__, TC_HERE)
#define tc_logical_or(...) tc_logical_or_at(__VA_ARGS__, TC_HERE)
#define tc_logical_xor(...) tc_logical_xor_at(__VA_ARGS__, TC_HERE)
#define tc_bitwise_and(...) tc_bitwise_and_at(__VA_ARGS__, TC_HERE)
#define tc_bitwise_or(...) tc_bitwise_or_at(__VA_ARGS__, TC_HERE)
#define tc_bitwise_xor(...) tc_bitwise_xor_at(__VA_ARGS__, TC_HERE)
#define tc_shift_left(...) tc_shift_left_at(__VA_ARGS__, TC_HERE)
#define tc_shift_right(...) tc_shift_right_at(__VA_ARGS__, TC_HERE)
#define tc_add_num(...) tc_add_num_at(__VA_ARGS__, TC_HERE)
#define tc_sub_num(...) tc_sub_num_at(__VA_ARGS__, TC_HERE)
#define tc_mul_num(...) tc_mul_num_at(__VA_ARGS__, TC_HERE)
#define tc_div_num(...) tc_div_num_at(__VA_ARGS__, TC_HERE)
#define tc_pow_num(...) tc_pow_num_at(__VA_ARGS__, TC_HERE)
#define tc_maximum_num(...) tc_maximum_num_at(__VA_ARGS__, TC_HERE)
#define tc_minimum_num(...) tc_minimum_num_at(__VA_ARGS__, TC_HERE)
#define tc_fmod_num(...) tc_fmod_num_at(__VA_ARGS__, TC_HERE)
#define tc_remainder_num(...) tc_remainder_num_at(__VA_ARGS__, TC_HERE)
#define tc_floor_divide_num(...) tc_floor_divide_num_at(__VA_ARGS__, TC_HERE)
#define tc_eq_num(...) tc_eq_num_at(__VA_ARGS__, TC_HERE)
#define tc_ne_num(...) tc_ne_num_at(__VA_ARGS__, TC_HERE)
#define tc_lt_num(...) tc_lt_num_at(__VA_ARGS__, TC_HERE)
#define tc_le_num(...) tc_le_num_at(__VA_ARGS__, TC_HERE)
#define tc_gt_num(...) tc_gt_num_at(__VA_ARGS__, TC_HERE)
#define tc_ge_num(...) tc_ge_num_at(__VA_ARGS__, TC_HERE)
#define tc_where(...) tc_where_at(__VA_ARGS__, TC_HERE)
#define tc_clamp(...) tc_clamp_at(__VA_ARGS__, TC_HERE)
#define tc_masked_fill(...) tc_masked_fill_at(__VA_ARGS__, TC_HERE)
#define tc_reshape(...) tc_reshape_at(__VA_ARGS__, TC_HERE)
#define tc_permute(...) tc_permute_at(__VA_ARGS__, TC_HERE)
#define tc_transpose(...) tc_transpose_at(__VA_ARGS__, TC_HERE)
#define tc_expand(...) tc_expand_at(__VA_ARGS__, TC_HERE)
#define tc_squeeze(...) tc_squeeze_at(__VA_ARGS__, TC_HERE)
#define tc_unsqueeze(...) tc_unsqueeze_at(__VA_ARGS__, TC_HERE)
#define tc_flatten(...) tc_flatten_at(__VA_ARGS__, TC_HERE)
#define tc_slice(...) tc_slice_at(__VA_ARGS__, TC_HERE)
#define tc_select(...) tc_select_at(__VA_ARGS__, TC_HERE)
#define tc_unfold(...) tc_unfold_at(__VA_ARGS__, TC_HERE)
#define tc_flip(...) tc_flip_at(__VA_ARGS__, TC_HERE)
#define tc_roll(...) tc_roll_at(__VA_ARGS__, TC_HERE)
#define tc_pad(...) tc_pad_at(__VA_ARGS__, TC_HERE)
#define tc_cat(...) tc_cat_at(__VA_ARGS__, TC_HERE)
#define tc_stack(...) tc_stack_at(__VA_ARGS__, TC_HERE)
#define tc_tile(...) tc_tile_at(__VA_ARGS__, TC_HERE)
#define tc_repeat_interleave(...) tc_repeat_interleave_at(__VA_ARGS__, TC_HERE)
#define tc_diagonal(...) tc_diagonal_at(__VA_ARGS__, TC_HERE)
#define tc_tril(...) tc_tril_at(__VA_ARGS__, TC_HERE)
#define tc_triu(...) tc_triu_at(__VA_ARGS__, TC_HERE)
#define tc_detach(...) tc_detach_at(__VA_ARGS__, TC_HERE)
#define tc_to(...) tc_to_at(__VA_ARGS__, TC_HERE)
#define tc_sum(...) tc_sum_at(__VA_ARGS__, TC_HERE)
#define tc_prod(...) tc_prod_at(__VA_ARGS__, TC_HERE)
#define tc_mean(...) tc_mean_at(__VA_ARGS__, TC_HERE)
#define tc_var(...) tc_var_at(__VA_ARGS__, TC_HERE)
#define tc_std(...) tc_std_at(__VA_ARGS__, TC_HERE)
#define tc_min(...) tc_min_at(__VA_ARGS__, TC_HERE)
#define tc_max(...) tc_max_at(__VA_ARGS__, TC_HERE)
#define tc_argmin(...) tc_argmin_at(__VA_ARGS__, TC_HERE)
#define tc_argmax(...) tc_argmax_at(__VA_ARGS__, TC_HERE)
#define tc_any(...) tc_any_at(__VA_ARGS__, TC_HERE)
#define tc_all(...) tc_all_at(__VA_ARGS__, TC_HERE)
#define tc_logsumexp(...) tc_logsumexp_at(__VA_ARGS__, TC_HERE)
#define tc_norm(...) tc_norm_at(__VA_ARGS__, TC_HERE)
#define tc_cumsum(...) tc_cumsum_at(__VA_ARGS__, TC_HERE)
#define tc_cumprod(...) tc_cumprod_at(__VA_ARGS__, TC_HERE)
#define tc_cummax(...) tc_cummax_at(__VA_ARGS__, TC_HERE)
#define tc_cummin(...) tc_cummin_at(__VA_ARGS__, TC_HERE)
#define tc_logcumsumexp(...) tc_logcumsumexp_at(__VA_ARGS__, TC_HERE)
#define tc_sort(...) tc_sort_at(__VA_ARGS__, TC_HERE)
#define tc_argsort(...) tc_argsort_at(__VA_ARGS__, TC_HERE)
#define tc_topk(...) tc_topk_at(__VA_ARGS__, TC_HERE)
#define tc_argtopk(...) tc_argtopk_at(__VA_ARGS__, TC_HERE)
#define tc_kthvalue(...) tc_kthvalue_at(__VA_ARGS__, TC_HERE)
#define tc_median(...) tc_median_at(__VA_ARGS__, TC_HERE)
#define tc_searchsorted(...) tc_searchsorted_at(__VA_ARGS__, TC_HERE)
#define tc_bucketize(...) tc_bucketize_at(__VA_ARGS__, TC_HERE)
#define tc_softmax(...) tc_softmax_at(__VA_ARGS__, TC_HERE)
#define tc_log_softmax(...) tc_log_softmax_at(__VA_ARGS__, TC_HERE)
#define tc_layer_norm(...) tc_layer_norm_at(__VA_ARGS__, TC_HERE)
#define tc_rms_norm(...) tc_rms_norm_at(__VA_ARGS__, TC_HERE)
#define tc_batch_norm(...) tc_batch_norm_at(__VA_ARGS__, TC_HERE)
#define tc_group_norm(...) tc_group_norm_at(__VA_ARGS__, TC_HERE)
#define tc_instance_norm(...) tc_instance_norm_at(__VA_ARGS__, TC_HERE)
#define tc_conv1d(...) tc_conv1d_at(__VA_ARGS__, TC_HERE)
#define tc_conv2d(...) tc_conv2d_at(__VA_ARGS__, TC_HERE)
#define tc_conv3d(...) tc_conv3d_at(__VA_ARGS__, TC_HERE)
#define tc_conv_transpose1d(...) tc_conv_transpose1d_at(__VA_ARGS__, TC_HERE)
#define tc_conv_transpose2d(...) tc_conv_transpose2d_at(__VA_ARGS__, TC_HERE)
#define tc_conv_transpose3d(...) tc_conv_transpose3d_at(__VA_ARGS__, TC_HERE)
#define tc_max_pool1d(...) tc_max_pool1d_at(__VA_ARGS__, TC_HERE)
#define tc_max_pool2d(...) tc_max_pool2d_at(__VA_ARGS__, TC_HERE)
#define tc_max_pool3d(...) tc_max_pool3d_at(__VA_ARGS__, TC_HERE)
#define tc_max_pool1d_indices(...) tc_max_pool1d_indices_at(__VA_ARGS__, TC_HERE)
#define tc_max_pool2d_indices(...) tc_max_pool2d_indices_at(__VA_ARGS__, TC_HERE)
#define tc_max_pool3d_indices(...) tc_max_pool3d_indices_at(__VA_ARGS__, TC_HERE)
#define tc_avg_pool1d(...) tc_avg_pool1d_at(__VA_ARGS__, TC_HERE)
#define tc_avg_pool2d(...) tc_avg_pool2d_at(__VA_ARGS__, TC_HERE)
#define tc_avg_pool3d(...) tc_avg_pool3d_at(__VA_ARGS__, TC_HERE)
#define tc_adaptive_avg_pool1d(...) tc_adaptive_avg_pool1d_at(__VA_ARGS__, TC_HERE)
#define tc_adaptive_avg_pool2d(...) tc_adaptive_avg_pool2d_at(__VA_ARGS__, TC_HERE)
#define tc_adaptive_avg_pool3d(...) tc_adaptive_avg_pool3d_at(__VA_ARGS__, TC_HERE)
#define tc_adaptive_max_pool1d(...) tc_adaptive_max_pool1d_at(__VA_ARGS__, TC_HERE)
#define tc_adaptive_max_pool2d(...) tc_adaptive_max_pool2d_at(__VA_ARGS__, TC_HERE)
#define tc_adaptive_max_pool3d(...) tc_adaptive_max_pool3d_at(__VA_ARGS__, TC_HERE)
#define tc_interpolate(...) tc_interpolate_at(__VA_ARGS__, TC_HERE)
#define tc_gather(...) tc_gather_at(__VA_ARGS__, TC_HERE)
#define tc_take_along_dim(...) tc_take_along_dim_at(__VA_ARGS__, TC_HERE)
#define tc_scatter(...) tc_scatter_at(__VA_ARGS__, TC_HERE)
#define tc_scatter_add(...) tc_scatter_add_at(__VA_ARGS__, TC_HERE)
#define tc_index_select(...) tc_index_select_at(__VA_ARGS__, TC_HERE)
#define tc_index_add(...) tc_index_add_at(__VA_ARGS__, TC_HERE)
#define tc_embedding(...) tc_embedding_at(__VA_ARGS__, TC_HERE)
#define tc_one_hot(...) tc_one_hot_at(__VA_ARGS__, TC_HERE)
#define tc_matmul(...) tc_matmul_at(__VA_ARGS__, TC_HERE)
#define tc_bmm(...) tc_bmm_at(__VA_ARGS__, TC_HERE)
#define tc_linear(...) tc_linear_at(__VA_ARGS__, TC_HERE)
#define tc_dot(...) tc_dot_at(__VA_ARGS__, TC_HERE)
#define tc_outer(...) tc_outer_at(__VA_ARGS__, TC_HERE)
#define tc_scaled_dot_product_attention(...) tc_scaled_dot_product_attention_at(__VA_ARGS__, TC_HERE)
#define tc_gelu(...) tc_gelu_at(__VA_ARGS__, TC_HERE)
#define tc_gelu_tanh(...) tc_gelu_tanh_at(__VA_ARGS__, TC_HERE)
#define tc_silu(...) tc_silu_at(__VA_ARGS__, TC_HERE)
#define tc_softplus(...) tc_softplus_at(__VA_ARGS__, TC_HERE)
#define tc_leaky_relu(...) tc_leaky_relu_at(__VA_ARGS__, TC_HERE)
#define tc_elu(...) tc_elu_at(__VA_ARGS__, TC_HERE)
#define tc_relu6(...) tc_relu6_at(__VA_ARGS__, TC_HERE)
#define tc_hardtanh(...) tc_hardtanh_at(__VA_ARGS__, TC_HERE)
#define tc_hardsigmoid(...) tc_hardsigmoid_at(__VA_ARGS__, TC_HERE)
#define tc_hardswish(...) tc_hardswish_at(__VA_ARGS__, TC_HERE)
#define tc_mish(...) tc_mish_at(__VA_ARGS__, TC_HERE)
#define tc_log_sigmoid(...) tc_log_sigmoid_at(__VA_ARGS__, TC_HERE)
#define tc_softsign(...) tc_softsign_at(__VA_ARGS__, TC_HERE)
#define tc_dropout(...) tc_dropout_at(__VA_ARGS__, TC_HERE)
#define tc_rotary_embedding(...) tc_rotary_embedding_at(__VA_ARGS__, TC_HERE)
#define tc_rotary_angles(...) tc_rotary_angles_at(__VA_ARGS__, TC_HERE)
#define tc_mse_loss(...) tc_mse_loss_at(__VA_ARGS__, TC_HERE)
#define tc_l1_loss(...) tc_l1_loss_at(__VA_ARGS__, TC_HERE)
#define tc_huber_loss(...) tc_huber_loss_at(__VA_ARGS__, TC_HERE)
#define tc_cross_entropy(...) tc_cross_entropy_at(__VA_ARGS__, TC_HERE)
#define tc_cross_entropy_with(...) tc_cross_entropy_with_at(__VA_ARGS__, TC_HERE)
#define tc_nll_loss(...) tc_nll_loss_at(__VA_ARGS__, TC_HERE)
#define tc_bce_with_logits(...) tc_bce_with_logits_at(__VA_ARGS__, TC_HERE)
#define tc_set_num_threads(...) tc_set_num_threads_at(__VA_ARGS__, TC_HERE)
#define tc_set_memory_cap(...) tc_set_memory_cap_at(__VA_ARGS__, TC_HERE)
#define tc_set_memory_budget(...) tc_set_memory_budget_at(__VA_ARGS__, TC_HERE)
#define tc_set_allocator(...) tc_set_allocator_at(__VA_ARGS__, TC_HERE)
#define tc_set_default_device(...) tc_set_default_device_at(__VA_ARGS__, TC_HERE)
#define tc_push_device(...) tc_push_device_at(__VA_ARGS__, TC_HERE)
#define tc_scope_end(...) tc_scope_end_at(__VA_ARGS__, TC_HERE)
#define tc_keep(...) tc_keep_at(__VA_ARGS__, TC_HERE)
#define tc_retain(...) tc_retain_at(__VA_ARGS__, TC_HERE)
#define tc_release(...) tc_release_at(__VA_ARGS__, TC_HERE)
#define tc_shape(...) tc_shape_at(__VA_ARGS__, TC_HERE)
#define tc_dtype(...) tc_dtype_at(__VA_ARGS__, TC_HERE)
#define tc_numel(...) tc_numel_at(__VA_ARGS__, TC_HERE)
#define tc_device_of(...) tc_device_of_at(__VA_ARGS__, TC_HERE)
#define tc_item_f32(...) tc_item_f32_at(__VA_ARGS__, TC_HERE)
#define tc_item_f64(...) tc_item_f64_at(__VA_ARGS__, TC_HERE)
#define tc_item_i32(...) tc_item_i32_at(__VA_ARGS__, TC_HERE)
#define tc_item_i64(...) tc_item_i64_at(__VA_ARGS__, TC_HERE)
#define tc_item_bool(...) tc_item_bool_at(__VA_ARGS__, TC_HERE)
#define tc_to_host_wait(...) tc_to_host_wait_at(__VA_ARGS__, TC_HERE)
#define tc_eval(...) tc_eval_at(__VA_ARGS__, TC_HERE)
#define tc_sync(...) tc_sync_at(__VA_ARGS__, TC_HERE)
#define tc_map(...) tc_map_at(__VA_ARGS__, TC_HERE)
#define tc_unmap(...) tc_unmap_at(__VA_ARGS__, TC_HERE)
#define tc_map_shared(...) tc_map_shared_at(__VA_ARGS__, TC_HERE)
#define tc_print(...) tc_print_at(__VA_ARGS__, TC_HERE)
#define tc_format(...) tc_format_at(__VA_ARGS__, TC_HERE)
#define tc_save_npy(...) tc_save_npy_at(__VA_ARGS__, TC_HERE)
#define tc_load_npy(...) tc_load_npy_at(__VA_ARGS__, TC_HERE)
#define tc_assign(...) tc_assign_at(__VA_ARGS__, TC_HERE)
#define tc_assign_slice(...) tc_assign_slice_at(__VA_ARGS__, TC_HERE)
#define tc_param(...) tc_param_at(__VA_ARGS__, TC_HERE)
#define tc_set_requires_grad(...) tc_set_requires_grad_at(__VA_ARGS__, TC_HERE)
#define tc_backward(...) tc_backward_at(__VA_ARGS__, TC_HERE)
#define tc_backward_with(...) tc_backward_with_at(__VA_ARGS__, TC_HERE)
#define tc_grads_of(...) tc_grads_of_at(__VA_ARGS__, TC_HERE)
#define tc_zero_grad_of(...) tc_zero_grad_of_at(__VA_ARGS__, TC_HERE)
#define tc_set_rng_state(...) tc_set_rng_state_at(__VA_ARGS__, TC_HERE)
#define tc_sgd(...) tc_sgd_at(__VA_ARGS__, TC_HERE)
#define tc_adam(...) tc_adam_at(__VA_ARGS__, TC_HERE)
#define tc_adamw(...) tc_adamw_at(__VA_ARGS__, TC_HERE)
#define tc_rmsprop(...) tc_rmsprop_at(__VA_ARGS__, TC_HERE)
#define tc_optimizer_add_group(...) tc_optimizer_add_group_at(__VA_ARGS__, TC_HERE)
#define tc_optimizer_step(...) tc_optimizer_step_at(__VA_ARGS__, TC_HERE)
#define tc_zero_grad(...) tc_zero_grad_at(__VA_ARGS__, TC_HERE)
#define tc_set_lr(...) tc_set_lr_at(__VA_ARGS__, TC_HERE)
#define tc_get_lr(...) tc_get_lr_at(__VA_ARGS__, TC_HERE)
#define tc_set_group_lr(...) tc_set_group_lr_at(__VA_ARGS__, TC_HERE)
#define tc_get_group_lr(...) tc_get_group_lr_at(__VA_ARGS__, TC_HERE)
#define tc_optimizer_state(...) tc_optimizer_state_at(__VA_ARGS__, TC_HERE)
#define tc_optimizer_set_state(...) tc_optimizer_set_state_at(__VA_ARGS__, TC_HERE)
#define tc_clip_grad_norm(...) tc_clip_grad_norm_at(__VA_ARGS__, TC_HERE)
#define tc_nonzero(...) tc_nonzero_at(__VA_ARGS__, TC_HERE)
#define tc_masked_select(...) tc_masked_select_at(__VA_ARGS__, TC_HERE)
#define tc_unique(...) tc_unique_at(__VA_ARGS__, TC_HERE)
#define tc_allclose(...) tc_allclose_at(__VA_ARGS__, TC_HERE)
#define tc_split(...) tc_split_at(__VA_ARGS__, TC_HERE)
#define tc_meshgrid(...) tc_meshgrid_at(__VA_ARGS__, TC_HERE)
#define tc_einsum(...) tc_einsum_at(__VA_ARGS__, TC_HERE)
#define tc_pop_device() tc_pop_device_at(TC_HERE)
#define tc_scope_begin() tc_scope_begin_at(TC_HERE)

#endif

#endif
