// Gives every call its site: declares name_at for each function of tc.h that records, can fail or
// syncs, and makes the plain names macros that pass one constant string. Made by tools/make_sites.py.
// Define TC_NO_SITES before tc.h to leave the names alone. In C a number as an operand chooses the _num form.
// clang-format off
#ifndef TC_SITES_H
#define TC_SITES_H

#ifdef __cplusplus
extern "C" {
#endif

TC_API tc_status tc_embed_at(tc_site site);
TC_API tc_status tc_set_num_threads_at(int n, tc_site site);
TC_API tc_status tc_set_memory_cap_at(size_t bytes, tc_site site);
TC_API tc_status tc_set_memory_budget_at(size_t bytes, tc_site site);
TC_API tc_status tc_set_allocator_at(tc_allocator allocator, tc_site site);
TC_API tc_status tc_explain_at(tc_status (*fn)(void *user), void *user, tc_explanation *out, tc_site site) TC_MUST_USE;
TC_API tc_status tc_expect_syncs_at(int n, tc_site site) TC_MUST_USE;
TC_API tc_status tc_metrics_get_at(const char *name, uint64_t *out, tc_site site) TC_MUST_USE;
TC_API tc_status tc_profile_start_at(const char *file, tc_site site) TC_MUST_USE;
TC_API tc_status tc_profile_stop_at(tc_site site);
TC_API tc_status tc_region_begin_at(const tc_region_options *options, tc_site site);
TC_API void tc_region_end_at(tc_site site);
TC_API tc_status tc_set_options_at(const tc_region_options *options, tc_site site) TC_MUST_USE;
TC_API tc_status tc_register_backend_at(const char *name, tc_backend_fn fn, void *user, tc_site site) TC_MUST_USE;
TC_API tc_status tc_reset_at(tc_site site);
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
TC_API tc_tensor tc_borrow_strided_at(void *data, tc_dims shape, const int64_t *strides, tc_type type, int flags, void (*release)(void *arg),
                                      void *arg, tc_site site);
TC_API tc_status tc_forget_at(tc_tensor t, tc_site site) TC_MUST_USE;
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
TC_API tc_status tc_sync_of_at(tc_tensor t, tc_site site) TC_MUST_USE;
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
TC_API tc_status tc_autocast_begin_at(tc_type type, tc_site site);
TC_API tc_status tc_autocast_begin_with_at(tc_autocast_options options, tc_site site);
TC_API tc_status tc_autocast_end_at(tc_site site);
TC_API tc_status tc_set_rng_state_at(tc_rng_state state, tc_site site);
TC_API tc_optimizer *tc_sgd_at(const tc_tensor *params, int n, tc_sgd_options options, tc_site site);
TC_API tc_optimizer *tc_adam_at(const tc_tensor *params, int n, tc_adam_options options, tc_site site);
TC_API tc_optimizer *tc_adamw_at(const tc_tensor *params, int n, tc_adam_options options, tc_site site);
TC_API tc_optimizer *tc_rmsprop_at(const tc_tensor *params, int n, tc_rmsprop_options options, tc_site site);
TC_API tc_optimizer *tc_adagrad_at(const tc_tensor *params, int n, tc_adagrad_options options, tc_site site);
TC_API tc_optimizer *tc_nadam_at(const tc_tensor *params, int n, tc_nadam_options options, tc_site site);
TC_API tc_optimizer *tc_radam_at(const tc_tensor *params, int n, tc_radam_options options, tc_site site);
TC_API tc_optimizer *tc_adamax_at(const tc_tensor *params, int n, tc_adamax_options options, tc_site site);
TC_API tc_optimizer *tc_lion_at(const tc_tensor *params, int n, tc_lion_options options, tc_site site);
TC_API tc_status tc_optimizer_add_group_at(tc_optimizer *opt, const tc_tensor *params, int n, tc_group_options options, tc_site site) TC_MUST_USE;
TC_API tc_status tc_optimizer_step_at(tc_optimizer *opt, tc_site site);
TC_API tc_status tc_zero_grad_at(tc_optimizer *opt, tc_site site);
TC_API tc_status tc_set_lr_at(tc_optimizer *opt, double lr, tc_site site);
TC_API double tc_get_lr_at(const tc_optimizer *opt, tc_site site);
TC_API tc_status tc_set_group_lr_at(tc_optimizer *opt, int group, double lr, tc_site site);
TC_API double tc_get_group_lr_at(const tc_optimizer *opt, int group, tc_site site);
TC_API double tc_get_initial_lr_at(const tc_optimizer *opt, int group, tc_site site);
TC_API tc_status tc_set_initial_lr_at(tc_optimizer *opt, int group, double lr, tc_site site);
TC_API tc_status tc_set_momentum_at(tc_optimizer *opt, double momentum, tc_site site);
TC_API double tc_get_momentum_at(const tc_optimizer *opt, tc_site site);
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
#endif

#ifdef __cplusplus
#define tc_to_host(...) tc_to_host_at(__VA_ARGS__, TC_HERE)
#define tc_to_host_async(...) tc_to_host_async_at(__VA_ARGS__, TC_HERE)
#else
#define tc_to_host(...) tc_to_host_as_at(TC_C_1_(TC_C_KIND3_(__VA_ARGS__), __VA_ARGS__), __VA_ARGS__, TC_HERE)
#define tc_to_host_async(...) tc_to_host_async_as_at(TC_C_1_(TC_C_KIND3_(__VA_ARGS__), __VA_ARGS__), __VA_ARGS__, TC_HERE)
#endif
#define tc_explain(fn, user, ...) tc_explain_at(fn, user, __VA_ARGS__, TC_HERE)
#define tc_expect_syncs(...) tc_expect_syncs_at(__VA_ARGS__, TC_HERE)
#define tc_metrics_get(name, ...) tc_metrics_get_at(name, __VA_ARGS__, TC_HERE)
#define tc_profile_start(...) tc_profile_start_at(__VA_ARGS__, TC_HERE)
#define tc_set_options(...) tc_set_options_at(__VA_ARGS__, TC_HERE)
#define tc_register_backend(name, fn, ...) tc_register_backend_at(name, fn, __VA_ARGS__, TC_HERE)
#define tc_set_default_device(...) tc_set_default_device_at(__VA_ARGS__, TC_HERE)
#define tc_push_device(...) tc_push_device_at(__VA_ARGS__, TC_HERE)
#define tc_forget(...) tc_forget_at(__VA_ARGS__, TC_HERE)
#define tc_item_f32(t, ...) tc_item_f32_at(t, __VA_ARGS__, TC_HERE)
#define tc_item_f64(t, ...) tc_item_f64_at(t, __VA_ARGS__, TC_HERE)
#define tc_item_i32(t, ...) tc_item_i32_at(t, __VA_ARGS__, TC_HERE)
#define tc_item_i64(t, ...) tc_item_i64_at(t, __VA_ARGS__, TC_HERE)
#define tc_item_bool(t, ...) tc_item_bool_at(t, __VA_ARGS__, TC_HERE)
#define tc_to_host_wait(...) tc_to_host_wait_at(__VA_ARGS__, TC_HERE)
#define tc_eval(n, ...) tc_eval_at(n, __VA_ARGS__, TC_HERE)
#define tc_sync(...) tc_sync_at(__VA_ARGS__, TC_HERE)
#define tc_sync_of(...) tc_sync_of_at(__VA_ARGS__, TC_HERE)
#define tc_map_shared(t, out_data, ...) tc_map_shared_at(t, out_data, __VA_ARGS__, TC_HERE)
#define tc_save_npy(path, ...) tc_save_npy_at(path, __VA_ARGS__, TC_HERE)
#define tc_optimizer_add_group(opt, params, n, ...) tc_optimizer_add_group_at(opt, params, n, __VA_ARGS__, TC_HERE)
#define tc_allclose(a, b, rtol, atol, ...) tc_allclose_at(a, b, rtol, atol, __VA_ARGS__, TC_HERE)

#endif

// What is wrong in a call is told at the caller's line: by clang always, by gcc where the macro is a system header's.
#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wpedantic"
#pragma clang diagnostic ignored "-Wvariadic-macros"
#else
#pragma GCC system_header
#endif

// The site of a call.
#define TC_HERE ((tc_site)(uintptr_t)(__FILE__ ":" TC_STR(__LINE__)))

#ifndef TC_NO_SITES

#ifndef __cplusplus
#define TC_ITEM_OF_(out) _Generic((out), bool *: TC_BOOL, int32_t *: TC_I32, int64_t *: TC_I64, float *: TC_F32, double *: TC_F64, default: TC_N_TYPES)
#define TC_ITEM_TYPE_(out) \
  __extension__({ \
    _Static_assert(TC_ITEM_OF_(out) != TC_N_TYPES, "out of tc_item is no pointer to a bool, int32_t, int64_t, float or double"); \
    TC_ITEM_OF_(out); \
  })

// The tc_ctype of a pointer to elements, or to arrays of them of any rank. Nothing here is evaluated: variables carry types, so that p is written once.
#define TC_C_EACH_(c, NAME) c *: TC_C_##NAME, const c *: TC_C_##NAME,
#ifdef __FLT16_MAX__
__extension__ typedef _Float16 tc_c_float16_;
#define TC_C_HALF_ TC_C_EACH_(tc_c_float16_, FLOAT16)
#else
#define TC_C_HALF_
#endif
#if !defined(__clang__) && __GNUC__ >= 13 && __STDC_VERSION__ > 201710L
#define TC_C_NULLPTR_ __typeof__(nullptr): (char *)0,
#else
#define TC_C_NULLPTR_
#endif
#define TC_C_IS_POINTER_(v) (__builtin_classify_type(v) == __builtin_classify_type((char *)0))
// Of what cannot be looked behind, void and what is no pointer: a pointer to char.
#define TC_C_SOUND_(p) \
  __builtin_choose_expr(TC_C_IS_POINTER_(p), _Generic(p, TC_C_NULLPTR_ void *: (char *)0, const void *: (char *)0, default: p), (char *)0)
// Of a pointer to an array that to its first element; any other as it is. An array alone is of another type as a value.
#define TC_C_INTO_(p) \
  __builtin_choose_expr(__builtin_types_compatible_p(__typeof__(*p), __typeof__(((void)0, *p))), p, ((void)0, *p))
#define TC_C_OF_(p) _Generic(TC_C_ELEMENTS_(p), \
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
#define TC_C_ELEMENTS_(p) \
  __extension__({ \
    __typeof__(((void)0, (p))) tc_c_; \
    __typeof__(TC_C_SOUND_(tc_c_)) tc_c_0_; \
    __typeof__(TC_C_INTO_(tc_c_0_)) tc_c_1_; \
    __typeof__(TC_C_INTO_(tc_c_1_)) tc_c_2_; \
    __typeof__(TC_C_INTO_(tc_c_2_)) tc_c_3_; \
    __typeof__(TC_C_INTO_(tc_c_3_)) tc_c_4_; \
    __typeof__(TC_C_INTO_(tc_c_4_)) tc_c_5_; \
    __typeof__(TC_C_INTO_(tc_c_5_)) tc_c_6_; \
    __typeof__(TC_C_INTO_(tc_c_6_)) tc_c_7_; \
    __typeof__(TC_C_INTO_(tc_c_7_)) tc_c_8_; \
    _Static_assert(!TC_C_IS_POINTER_(*tc_c_8_), "the pointer is to pointers; one to the elements was expected (a void * is not checked)"); \
    tc_c_8_; \
  })
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
#define TC_C_AFTER7_(a, b, c, d, e, f, g, h, ...) h
#define TC_C_KIND7_(...) TC_C_2ND_OF_(TC_C_AFTER7_(__VA_ARGS__, TC_C_END_, 0, 0, 0)(), STRIDES)
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

static inline tc_tensor tc_operand_tensor_(tc_tensor t) {
  return t;
}
static inline tc_num tc_operand_unsigned_(unsigned long long v) {
  tc_num n = tc_num_int((int64_t)v);
  n.f = (double)v;
  return n;
}
#define TC_INTEGERS_(r) \
  _Bool: r, char: r, signed char: r, unsigned char: r, short: r, unsigned short: r, int: r, unsigned: r, long: r, long long: r
#define TC_WIDE_(r) unsigned long: r, unsigned long long: r
#define TC_FLOATS_(r) float: r, double: r, long double: r
#define TC_IS_TENSOR_(a) _Generic((a), tc_tensor: 1, default: 0)
#define TC_IS_OPERAND_(b) _Generic((b), tc_tensor: 1, TC_INTEGERS_(1), TC_WIDE_(1), TC_FLOATS_(1), default: 0)
#define TC_OPERAND_(b) \
  _Generic((b), tc_tensor: tc_operand_tensor_, TC_FLOATS_(tc_num_float), TC_WIDE_(tc_operand_unsigned_), default: tc_num_int)(b)
// Each operand is written once: nested calls stay linear in size, and a mistake is reported once. id makes the names new at every depth.
#define TC_BINARY_(name, a, b, id) TC_BINARY_AT_(name, a, b, id)
#define TC_BINARY_AT_(name, a, b, id) \
  __extension__({ \
    __auto_type tc_a_##id = (a); \
    __auto_type tc_b_##id = (b); \
    _Static_assert(TC_IS_TENSOR_(tc_a_##id), "the first operand of " #name " is not a tensor; numbers come second, as in tc_rsub(x, 1)"); \
    _Static_assert(TC_IS_OPERAND_(tc_b_##id), "the second operand of " #name " is neither a tensor nor a number"); \
    _Generic(tc_b_##id, tc_tensor: name##_at, default: name##_num_at)(tc_a_##id, TC_OPERAND_(tc_b_##id), TC_HERE); \
  })
#define TC_SELECT_(name, cond, a, b, id) TC_SELECT_AT_(name, cond, a, b, id)
#define TC_SELECT_AT_(name, cond, a, b, id) \
  __extension__({ \
    __auto_type tc_a_##id = (a); \
    __auto_type tc_b_##id = (b); \
    _Static_assert(TC_IS_OPERAND_(tc_a_##id), "the second operand of " #name " is neither a tensor nor a number"); \
    _Static_assert(TC_IS_OPERAND_(tc_b_##id), "the third operand of " #name " is neither a tensor nor a number"); \
    _Generic(tc_a_##id, tc_tensor: _Generic(tc_b_##id, tc_tensor: name##_at, default: name##_tensor_num_at), \
             default: _Generic(tc_b_##id, tc_tensor: name##_num_tensor_at, default: name##_num_num_at)) \
        (cond, TC_OPERAND_(tc_a_##id), TC_OPERAND_(tc_b_##id), TC_HERE); \
  })
#define tc_add(a, b) TC_BINARY_(tc_add, a, b, __COUNTER__)
#define tc_sub(a, b) TC_BINARY_(tc_sub, a, b, __COUNTER__)
#define tc_mul(a, b) TC_BINARY_(tc_mul, a, b, __COUNTER__)
#define tc_div(a, b) TC_BINARY_(tc_div, a, b, __COUNTER__)
#define tc_pow(a, b) TC_BINARY_(tc_pow, a, b, __COUNTER__)
#define tc_maximum(a, b) TC_BINARY_(tc_maximum, a, b, __COUNTER__)
#define tc_minimum(a, b) TC_BINARY_(tc_minimum, a, b, __COUNTER__)
#define tc_fmod(a, b) TC_BINARY_(tc_fmod, a, b, __COUNTER__)
#define tc_remainder(a, b) TC_BINARY_(tc_remainder, a, b, __COUNTER__)
#define tc_floor_divide(a, b) TC_BINARY_(tc_floor_divide, a, b, __COUNTER__)
#define tc_eq(a, b) TC_BINARY_(tc_eq, a, b, __COUNTER__)
#define tc_ne(a, b) TC_BINARY_(tc_ne, a, b, __COUNTER__)
#define tc_lt(a, b) TC_BINARY_(tc_lt, a, b, __COUNTER__)
#define tc_le(a, b) TC_BINARY_(tc_le, a, b, __COUNTER__)
#define tc_gt(a, b) TC_BINARY_(tc_gt, a, b, __COUNTER__)
#define tc_ge(a, b) TC_BINARY_(tc_ge, a, b, __COUNTER__)
#define tc_rsub(a, b) TC_BINARY_(tc_rsub, a, b, __COUNTER__)
#define tc_rdiv(a, b) TC_BINARY_(tc_rdiv, a, b, __COUNTER__)
#define tc_rpow(a, b) TC_BINARY_(tc_rpow, a, b, __COUNTER__)
#define tc_where(cond, a, b) TC_SELECT_(tc_where, cond, a, b, __COUNTER__)
#endif

#ifdef __cplusplus
#define tc_from_host(...) tc_from_host_at(__VA_ARGS__, TC_HERE)
#define tc_from_host_strided(...) tc_from_host_strided_at(__VA_ARGS__, TC_HERE)
#define tc_borrow(...) tc_borrow_at(__VA_ARGS__, TC_HERE)
#define tc_borrow_strided(...) tc_borrow_strided_at(__VA_ARGS__, TC_HERE)
#else
#define tc_from_host(...) tc_from_host_as_at(TC_C_0_(TC_C_KIND3_(__VA_ARGS__), __VA_ARGS__), __VA_ARGS__, TC_HERE)
#define tc_from_host_strided(...) tc_from_host_strided_as_at(TC_C_0_(TC_C_KIND4_(__VA_ARGS__), __VA_ARGS__), __VA_ARGS__, TC_HERE)
#define tc_borrow(...) tc_borrow_as_at(TC_C_0_(TC_C_KIND6_(__VA_ARGS__), __VA_ARGS__), __VA_ARGS__, TC_HERE)
#define tc_borrow_strided(...) tc_borrow_strided_as_at(TC_C_0_(TC_C_KIND7_(__VA_ARGS__), __VA_ARGS__), __VA_ARGS__, TC_HERE)
#endif

#define tc_zeros(shape, type...) tc_zeros_at(shape, __VA_OPT__(type,) TC_HERE)
#define tc_ones(shape, type...) tc_ones_at(shape, __VA_OPT__(type,) TC_HERE)
#define tc_empty(shape, type...) tc_empty_at(shape, __VA_OPT__(type,) TC_HERE)
#define tc_full(shape, value, type...) tc_full_at(shape, value, __VA_OPT__(type,) TC_HERE)
#define tc_full_int(shape, value, type...) tc_full_int_at(shape, value, __VA_OPT__(type,) TC_HERE)
#define tc_scalar(value...) tc_scalar_at(__VA_OPT__(value,) TC_HERE)
#define tc_zeros_like(x...) tc_zeros_like_at(__VA_OPT__(x,) TC_HERE)
#define tc_ones_like(x...) tc_ones_like_at(__VA_OPT__(x,) TC_HERE)
#define tc_full_like(x, value...) tc_full_like_at(x, __VA_OPT__(value,) TC_HERE)
#define tc_arange(start, stop, step, type...) tc_arange_at(start, stop, step, __VA_OPT__(type,) TC_HERE)
#define tc_linspace(start, stop, n, type...) tc_linspace_at(start, stop, n, __VA_OPT__(type,) TC_HERE)
#define tc_eye(n, m, type...) tc_eye_at(n, m, __VA_OPT__(type,) TC_HERE)
#define tc_tri(n, m, k, type...) tc_tri_at(n, m, k, __VA_OPT__(type,) TC_HERE)
#define tc_rand(shape, type...) tc_rand_at(shape, __VA_OPT__(type,) TC_HERE)
#define tc_randn(shape, type...) tc_randn_at(shape, __VA_OPT__(type,) TC_HERE)
#define tc_randint(low, high, shape, type...) tc_randint_at(low, high, shape, __VA_OPT__(type,) TC_HERE)
#define tc_bernoulli(p, shape...) tc_bernoulli_at(p, __VA_OPT__(shape,) TC_HERE)
#define tc_randperm(n...) tc_randperm_at(__VA_OPT__(n,) TC_HERE)
#define tc_rand_like(x...) tc_rand_like_at(__VA_OPT__(x,) TC_HERE)
#define tc_randn_like(x...) tc_randn_like_at(__VA_OPT__(x,) TC_HERE)
#define tc_neg(x...) tc_neg_at(__VA_OPT__(x,) TC_HERE)
#define tc_abs(x...) tc_abs_at(__VA_OPT__(x,) TC_HERE)
#define tc_sign(x...) tc_sign_at(__VA_OPT__(x,) TC_HERE)
#define tc_floor(x...) tc_floor_at(__VA_OPT__(x,) TC_HERE)
#define tc_ceil(x...) tc_ceil_at(__VA_OPT__(x,) TC_HERE)
#define tc_round(x...) tc_round_at(__VA_OPT__(x,) TC_HERE)
#define tc_trunc(x...) tc_trunc_at(__VA_OPT__(x,) TC_HERE)
#define tc_square(x...) tc_square_at(__VA_OPT__(x,) TC_HERE)
#define tc_sqrt(x...) tc_sqrt_at(__VA_OPT__(x,) TC_HERE)
#define tc_rsqrt(x...) tc_rsqrt_at(__VA_OPT__(x,) TC_HERE)
#define tc_reciprocal(x...) tc_reciprocal_at(__VA_OPT__(x,) TC_HERE)
#define tc_exp(x...) tc_exp_at(__VA_OPT__(x,) TC_HERE)
#define tc_exp2(x...) tc_exp2_at(__VA_OPT__(x,) TC_HERE)
#define tc_expm1(x...) tc_expm1_at(__VA_OPT__(x,) TC_HERE)
#define tc_log(x...) tc_log_at(__VA_OPT__(x,) TC_HERE)
#define tc_log2(x...) tc_log2_at(__VA_OPT__(x,) TC_HERE)
#define tc_log10(x...) tc_log10_at(__VA_OPT__(x,) TC_HERE)
#define tc_log1p(x...) tc_log1p_at(__VA_OPT__(x,) TC_HERE)
#define tc_sin(x...) tc_sin_at(__VA_OPT__(x,) TC_HERE)
#define tc_cos(x...) tc_cos_at(__VA_OPT__(x,) TC_HERE)
#define tc_tan(x...) tc_tan_at(__VA_OPT__(x,) TC_HERE)
#define tc_asin(x...) tc_asin_at(__VA_OPT__(x,) TC_HERE)
#define tc_acos(x...) tc_acos_at(__VA_OPT__(x,) TC_HERE)
#define tc_atan(x...) tc_atan_at(__VA_OPT__(x,) TC_HERE)
#define tc_sinh(x...) tc_sinh_at(__VA_OPT__(x,) TC_HERE)
#define tc_cosh(x...) tc_cosh_at(__VA_OPT__(x,) TC_HERE)
#define tc_tanh(x...) tc_tanh_at(__VA_OPT__(x,) TC_HERE)
#define tc_asinh(x...) tc_asinh_at(__VA_OPT__(x,) TC_HERE)
#define tc_acosh(x...) tc_acosh_at(__VA_OPT__(x,) TC_HERE)
#define tc_atanh(x...) tc_atanh_at(__VA_OPT__(x,) TC_HERE)
#define tc_erf(x...) tc_erf_at(__VA_OPT__(x,) TC_HERE)
#define tc_erfinv(x...) tc_erfinv_at(__VA_OPT__(x,) TC_HERE)
#define tc_lgamma(x...) tc_lgamma_at(__VA_OPT__(x,) TC_HERE)
#define tc_digamma(x...) tc_digamma_at(__VA_OPT__(x,) TC_HERE)
#define tc_polygamma(n, x...) tc_polygamma_at(n, __VA_OPT__(x,) TC_HERE)
#define tc_sigmoid(x...) tc_sigmoid_at(__VA_OPT__(x,) TC_HERE)
#define tc_relu(x...) tc_relu_at(__VA_OPT__(x,) TC_HERE)
#define tc_isnan(x...) tc_isnan_at(__VA_OPT__(x,) TC_HERE)
#define tc_isinf(x...) tc_isinf_at(__VA_OPT__(x,) TC_HERE)
#define tc_isfinite(x...) tc_isfinite_at(__VA_OPT__(x,) TC_HERE)
#define tc_logical_not(x...) tc_logical_not_at(__VA_OPT__(x,) TC_HERE)
#define tc_bitwise_not(x...) tc_bitwise_not_at(__VA_OPT__(x,) TC_HERE)
#define tc_cast(x, type...) tc_cast_at(x, __VA_OPT__(type,) TC_HERE)
#define tc_atan2(a, b...) tc_atan2_at(a, __VA_OPT__(b,) TC_HERE)
#define tc_logical_and(a, b...) tc_logical_and_at(a, __VA_OPT__(b,) TC_HERE)
#define tc_logical_or(a, b...) tc_logical_or_at(a, __VA_OPT__(b,) TC_HERE)
#define tc_logical_xor(a, b...) tc_logical_xor_at(a, __VA_OPT__(b,) TC_HERE)
#define tc_bitwise_and(a, b...) tc_bitwise_and_at(a, __VA_OPT__(b,) TC_HERE)
#define tc_bitwise_or(a, b...) tc_bitwise_or_at(a, __VA_OPT__(b,) TC_HERE)
#define tc_bitwise_xor(a, b...) tc_bitwise_xor_at(a, __VA_OPT__(b,) TC_HERE)
#define tc_shift_left(a, b...) tc_shift_left_at(a, __VA_OPT__(b,) TC_HERE)
#define tc_shift_right(a, b...) tc_shift_right_at(a, __VA_OPT__(b,) TC_HERE)
#define tc_add_num(a, b...) tc_add_num_at(a, __VA_OPT__(b,) TC_HERE)
#define tc_sub_num(a, b...) tc_sub_num_at(a, __VA_OPT__(b,) TC_HERE)
#define tc_mul_num(a, b...) tc_mul_num_at(a, __VA_OPT__(b,) TC_HERE)
#define tc_div_num(a, b...) tc_div_num_at(a, __VA_OPT__(b,) TC_HERE)
#define tc_pow_num(a, b...) tc_pow_num_at(a, __VA_OPT__(b,) TC_HERE)
#define tc_maximum_num(a, b...) tc_maximum_num_at(a, __VA_OPT__(b,) TC_HERE)
#define tc_minimum_num(a, b...) tc_minimum_num_at(a, __VA_OPT__(b,) TC_HERE)
#define tc_fmod_num(a, b...) tc_fmod_num_at(a, __VA_OPT__(b,) TC_HERE)
#define tc_remainder_num(a, b...) tc_remainder_num_at(a, __VA_OPT__(b,) TC_HERE)
#define tc_floor_divide_num(a, b...) tc_floor_divide_num_at(a, __VA_OPT__(b,) TC_HERE)
#define tc_eq_num(a, b...) tc_eq_num_at(a, __VA_OPT__(b,) TC_HERE)
#define tc_ne_num(a, b...) tc_ne_num_at(a, __VA_OPT__(b,) TC_HERE)
#define tc_lt_num(a, b...) tc_lt_num_at(a, __VA_OPT__(b,) TC_HERE)
#define tc_le_num(a, b...) tc_le_num_at(a, __VA_OPT__(b,) TC_HERE)
#define tc_gt_num(a, b...) tc_gt_num_at(a, __VA_OPT__(b,) TC_HERE)
#define tc_ge_num(a, b...) tc_ge_num_at(a, __VA_OPT__(b,) TC_HERE)
#define tc_rsub_num(a, b...) tc_rsub_num_at(a, __VA_OPT__(b,) TC_HERE)
#define tc_rdiv_num(a, b...) tc_rdiv_num_at(a, __VA_OPT__(b,) TC_HERE)
#define tc_rpow_num(a, b...) tc_rpow_num_at(a, __VA_OPT__(b,) TC_HERE)
#define tc_where_tensor_num(cond, a, b...) tc_where_tensor_num_at(cond, a, __VA_OPT__(b,) TC_HERE)
#define tc_where_num_tensor(cond, a, b...) tc_where_num_tensor_at(cond, a, __VA_OPT__(b,) TC_HERE)
#define tc_where_num_num(cond, a, b...) tc_where_num_num_at(cond, a, __VA_OPT__(b,) TC_HERE)
#define tc_clamp(x, low, high...) tc_clamp_at(x, low, __VA_OPT__(high,) TC_HERE)
#define tc_masked_fill(x, mask, value...) tc_masked_fill_at(x, mask, __VA_OPT__(value,) TC_HERE)
#define tc_reshape(x, shape...) tc_reshape_at(x, __VA_OPT__(shape,) TC_HERE)
#define tc_permute(x, axes...) tc_permute_at(x, __VA_OPT__(axes,) TC_HERE)
#define tc_transpose(x, axis0, axis1...) tc_transpose_at(x, axis0, __VA_OPT__(axis1,) TC_HERE)
#define tc_expand(x, shape...) tc_expand_at(x, __VA_OPT__(shape,) TC_HERE)
#define tc_squeeze(x, axes...) tc_squeeze_at(x, __VA_OPT__(axes,) TC_HERE)
#define tc_unsqueeze(x, axis...) tc_unsqueeze_at(x, __VA_OPT__(axis,) TC_HERE)
#define tc_flatten(x, first_axis, last_axis...) tc_flatten_at(x, first_axis, __VA_OPT__(last_axis,) TC_HERE)
#define tc_slice(x, axis, start, stop, step...) tc_slice_at(x, axis, start, stop, __VA_OPT__(step,) TC_HERE)
#define tc_select(x, axis, i...) tc_select_at(x, axis, __VA_OPT__(i,) TC_HERE)
#define tc_unfold(x, axis, size, step...) tc_unfold_at(x, axis, size, __VA_OPT__(step,) TC_HERE)
#define tc_flip(x, axes...) tc_flip_at(x, __VA_OPT__(axes,) TC_HERE)
#define tc_roll(x, shift, axis...) tc_roll_at(x, shift, __VA_OPT__(axis,) TC_HERE)
#define tc_pad(x, low, high, value...) tc_pad_at(x, low, high, __VA_OPT__(value,) TC_HERE)
#define tc_cat(n, xs, axis...) tc_cat_at(n, xs, __VA_OPT__(axis,) TC_HERE)
#define tc_stack(n, xs, axis...) tc_stack_at(n, xs, __VA_OPT__(axis,) TC_HERE)
#define tc_tile(x, counts...) tc_tile_at(x, __VA_OPT__(counts,) TC_HERE)
#define tc_repeat_interleave(x, count, axis...) tc_repeat_interleave_at(x, count, __VA_OPT__(axis,) TC_HERE)
#define tc_diagonal(x, offset...) tc_diagonal_at(x, __VA_OPT__(offset,) TC_HERE)
#define tc_tril(x, k...) tc_tril_at(x, __VA_OPT__(k,) TC_HERE)
#define tc_triu(x, k...) tc_triu_at(x, __VA_OPT__(k,) TC_HERE)
#define tc_detach(x...) tc_detach_at(__VA_OPT__(x,) TC_HERE)
#define tc_to(x, device...) tc_to_at(x, __VA_OPT__(device,) TC_HERE)
#define tc_sum(x, axes, keepdim...) tc_sum_at(x, axes, __VA_OPT__(keepdim,) TC_HERE)
#define tc_prod(x, axes, keepdim...) tc_prod_at(x, axes, __VA_OPT__(keepdim,) TC_HERE)
#define tc_mean(x, axes, keepdim...) tc_mean_at(x, axes, __VA_OPT__(keepdim,) TC_HERE)
#define tc_var(x, axes, correction, keepdim...) tc_var_at(x, axes, correction, __VA_OPT__(keepdim,) TC_HERE)
#define tc_std(x, axes, correction, keepdim...) tc_std_at(x, axes, correction, __VA_OPT__(keepdim,) TC_HERE)
#define tc_min(x, axes, keepdim...) tc_min_at(x, axes, __VA_OPT__(keepdim,) TC_HERE)
#define tc_max(x, axes, keepdim...) tc_max_at(x, axes, __VA_OPT__(keepdim,) TC_HERE)
#define tc_argmin(x, axis, keepdim...) tc_argmin_at(x, axis, __VA_OPT__(keepdim,) TC_HERE)
#define tc_argmax(x, axis, keepdim...) tc_argmax_at(x, axis, __VA_OPT__(keepdim,) TC_HERE)
#define tc_any(x, axes, keepdim...) tc_any_at(x, axes, __VA_OPT__(keepdim,) TC_HERE)
#define tc_all(x, axes, keepdim...) tc_all_at(x, axes, __VA_OPT__(keepdim,) TC_HERE)
#define tc_logsumexp(x, axes, keepdim...) tc_logsumexp_at(x, axes, __VA_OPT__(keepdim,) TC_HERE)
#define tc_norm(x, p, axes, keepdim...) tc_norm_at(x, p, axes, __VA_OPT__(keepdim,) TC_HERE)
#define tc_cumsum(x, axis...) tc_cumsum_at(x, __VA_OPT__(axis,) TC_HERE)
#define tc_cumprod(x, axis...) tc_cumprod_at(x, __VA_OPT__(axis,) TC_HERE)
#define tc_cummax(x, axis...) tc_cummax_at(x, __VA_OPT__(axis,) TC_HERE)
#define tc_cummin(x, axis...) tc_cummin_at(x, __VA_OPT__(axis,) TC_HERE)
#define tc_logcumsumexp(x, axis...) tc_logcumsumexp_at(x, __VA_OPT__(axis,) TC_HERE)
#define tc_sort(x, axis, descending...) tc_sort_at(x, axis, __VA_OPT__(descending,) TC_HERE)
#define tc_argsort(x, axis, descending...) tc_argsort_at(x, axis, __VA_OPT__(descending,) TC_HERE)
#define tc_topk(x, k, axis, largest...) tc_topk_at(x, k, axis, __VA_OPT__(largest,) TC_HERE)
#define tc_argtopk(x, k, axis, largest...) tc_argtopk_at(x, k, axis, __VA_OPT__(largest,) TC_HERE)
#define tc_kthvalue(x, k, axis, keepdim...) tc_kthvalue_at(x, k, axis, __VA_OPT__(keepdim,) TC_HERE)
#define tc_median(x, axis, keepdim...) tc_median_at(x, axis, __VA_OPT__(keepdim,) TC_HERE)
#define tc_searchsorted(sorted, values, right...) tc_searchsorted_at(sorted, values, __VA_OPT__(right,) TC_HERE)
#define tc_bucketize(x, boundaries, right...) tc_bucketize_at(x, boundaries, __VA_OPT__(right,) TC_HERE)
#define tc_softmax(x, axis...) tc_softmax_at(x, __VA_OPT__(axis,) TC_HERE)
#define tc_log_softmax(x, axis...) tc_log_softmax_at(x, __VA_OPT__(axis,) TC_HERE)
#define tc_layer_norm(x, weight, bias, eps...) tc_layer_norm_at(x, weight, bias, __VA_OPT__(eps,) TC_HERE)
#define tc_rms_norm(x, weight, eps...) tc_rms_norm_at(x, weight, __VA_OPT__(eps,) TC_HERE)
#define tc_batch_norm(x, running_mean, running_var, weight, bias, options...) tc_batch_norm_at(x, running_mean, running_var, weight, bias, __VA_OPT__(options,) TC_HERE)
#define tc_group_norm(x, groups, weight, bias, eps...) tc_group_norm_at(x, groups, weight, bias, __VA_OPT__(eps,) TC_HERE)
#define tc_instance_norm(x, weight, bias, eps...) tc_instance_norm_at(x, weight, bias, __VA_OPT__(eps,) TC_HERE)
#define tc_conv1d(x, weight, bias, options...) tc_conv1d_at(x, weight, bias, __VA_OPT__(options,) TC_HERE)
#define tc_conv2d(x, weight, bias, options...) tc_conv2d_at(x, weight, bias, __VA_OPT__(options,) TC_HERE)
#define tc_conv3d(x, weight, bias, options...) tc_conv3d_at(x, weight, bias, __VA_OPT__(options,) TC_HERE)
#define tc_conv_transpose1d(x, weight, bias, options...) tc_conv_transpose1d_at(x, weight, bias, __VA_OPT__(options,) TC_HERE)
#define tc_conv_transpose2d(x, weight, bias, options...) tc_conv_transpose2d_at(x, weight, bias, __VA_OPT__(options,) TC_HERE)
#define tc_conv_transpose3d(x, weight, bias, options...) tc_conv_transpose3d_at(x, weight, bias, __VA_OPT__(options,) TC_HERE)
#define tc_max_pool1d(x, size, options...) tc_max_pool1d_at(x, size, __VA_OPT__(options,) TC_HERE)
#define tc_max_pool2d(x, size, options...) tc_max_pool2d_at(x, size, __VA_OPT__(options,) TC_HERE)
#define tc_max_pool3d(x, size, options...) tc_max_pool3d_at(x, size, __VA_OPT__(options,) TC_HERE)
#define tc_max_pool1d_indices(x, size, options...) tc_max_pool1d_indices_at(x, size, __VA_OPT__(options,) TC_HERE)
#define tc_max_pool2d_indices(x, size, options...) tc_max_pool2d_indices_at(x, size, __VA_OPT__(options,) TC_HERE)
#define tc_max_pool3d_indices(x, size, options...) tc_max_pool3d_indices_at(x, size, __VA_OPT__(options,) TC_HERE)
#define tc_avg_pool1d(x, size, options...) tc_avg_pool1d_at(x, size, __VA_OPT__(options,) TC_HERE)
#define tc_avg_pool2d(x, size, options...) tc_avg_pool2d_at(x, size, __VA_OPT__(options,) TC_HERE)
#define tc_avg_pool3d(x, size, options...) tc_avg_pool3d_at(x, size, __VA_OPT__(options,) TC_HERE)
#define tc_adaptive_avg_pool1d(x, size...) tc_adaptive_avg_pool1d_at(x, __VA_OPT__(size,) TC_HERE)
#define tc_adaptive_avg_pool2d(x, size...) tc_adaptive_avg_pool2d_at(x, __VA_OPT__(size,) TC_HERE)
#define tc_adaptive_avg_pool3d(x, size...) tc_adaptive_avg_pool3d_at(x, __VA_OPT__(size,) TC_HERE)
#define tc_adaptive_max_pool1d(x, size...) tc_adaptive_max_pool1d_at(x, __VA_OPT__(size,) TC_HERE)
#define tc_adaptive_max_pool2d(x, size...) tc_adaptive_max_pool2d_at(x, __VA_OPT__(size,) TC_HERE)
#define tc_adaptive_max_pool3d(x, size...) tc_adaptive_max_pool3d_at(x, __VA_OPT__(size,) TC_HERE)
#define tc_interpolate(x, size, options...) tc_interpolate_at(x, size, __VA_OPT__(options,) TC_HERE)
#define tc_gather(x, axis, index...) tc_gather_at(x, axis, __VA_OPT__(index,) TC_HERE)
#define tc_take_along_dim(x, index, axis...) tc_take_along_dim_at(x, index, __VA_OPT__(axis,) TC_HERE)
#define tc_scatter(x, axis, index, src...) tc_scatter_at(x, axis, index, __VA_OPT__(src,) TC_HERE)
#define tc_scatter_add(x, axis, index, src...) tc_scatter_add_at(x, axis, index, __VA_OPT__(src,) TC_HERE)
#define tc_index_select(x, axis, index...) tc_index_select_at(x, axis, __VA_OPT__(index,) TC_HERE)
#define tc_index_add(x, axis, index, src...) tc_index_add_at(x, axis, index, __VA_OPT__(src,) TC_HERE)
#define tc_embedding(weight, ids...) tc_embedding_at(weight, __VA_OPT__(ids,) TC_HERE)
#define tc_one_hot(ids, n...) tc_one_hot_at(ids, __VA_OPT__(n,) TC_HERE)
#define tc_matmul(a, b...) tc_matmul_at(a, __VA_OPT__(b,) TC_HERE)
#define tc_bmm(a, b...) tc_bmm_at(a, __VA_OPT__(b,) TC_HERE)
#define tc_linear(x, weight, bias...) tc_linear_at(x, weight, __VA_OPT__(bias,) TC_HERE)
#define tc_dot(a, b...) tc_dot_at(a, __VA_OPT__(b,) TC_HERE)
#define tc_outer(a, b...) tc_outer_at(a, __VA_OPT__(b,) TC_HERE)
#define tc_quantize(x, scale, zero_point, type, options...) tc_quantize_at(x, scale, zero_point, type, __VA_OPT__(options,) TC_HERE)
#define tc_dequantize(q, scale, zero_point, options...) tc_dequantize_at(q, scale, zero_point, __VA_OPT__(options,) TC_HERE)
#define tc_linear_int8(x, weight, scale, bias...) tc_linear_int8_at(x, weight, scale, __VA_OPT__(bias,) TC_HERE)
#define tc_scaled_dot_product_attention(q, k, v, mask, options...) tc_scaled_dot_product_attention_at(q, k, v, mask, __VA_OPT__(options,) TC_HERE)
#define tc_gelu(x...) tc_gelu_at(__VA_OPT__(x,) TC_HERE)
#define tc_gelu_tanh(x...) tc_gelu_tanh_at(__VA_OPT__(x,) TC_HERE)
#define tc_silu(x...) tc_silu_at(__VA_OPT__(x,) TC_HERE)
#define tc_softplus(x...) tc_softplus_at(__VA_OPT__(x,) TC_HERE)
#define tc_leaky_relu(x, slope...) tc_leaky_relu_at(x, __VA_OPT__(slope,) TC_HERE)
#define tc_elu(x, alpha...) tc_elu_at(x, __VA_OPT__(alpha,) TC_HERE)
#define tc_relu6(x...) tc_relu6_at(__VA_OPT__(x,) TC_HERE)
#define tc_hardtanh(x...) tc_hardtanh_at(__VA_OPT__(x,) TC_HERE)
#define tc_hardsigmoid(x...) tc_hardsigmoid_at(__VA_OPT__(x,) TC_HERE)
#define tc_hardswish(x...) tc_hardswish_at(__VA_OPT__(x,) TC_HERE)
#define tc_mish(x...) tc_mish_at(__VA_OPT__(x,) TC_HERE)
#define tc_log_sigmoid(x...) tc_log_sigmoid_at(__VA_OPT__(x,) TC_HERE)
#define tc_softsign(x...) tc_softsign_at(__VA_OPT__(x,) TC_HERE)
#define tc_dropout(x, p...) tc_dropout_at(x, __VA_OPT__(p,) TC_HERE)
#define tc_rotary_embedding(x, cos, sin, options...) tc_rotary_embedding_at(x, cos, sin, __VA_OPT__(options,) TC_HERE)
#define tc_rotary_angles(n, dim, base...) tc_rotary_angles_at(n, dim, __VA_OPT__(base,) TC_HERE)
#define tc_mse_loss(x, y...) tc_mse_loss_at(x, __VA_OPT__(y,) TC_HERE)
#define tc_l1_loss(x, y...) tc_l1_loss_at(x, __VA_OPT__(y,) TC_HERE)
#define tc_huber_loss(x, y, delta...) tc_huber_loss_at(x, y, __VA_OPT__(delta,) TC_HERE)
#define tc_mse_loss_with(x, y, options...) tc_mse_loss_with_at(x, y, __VA_OPT__(options,) TC_HERE)
#define tc_l1_loss_with(x, y, options...) tc_l1_loss_with_at(x, y, __VA_OPT__(options,) TC_HERE)
#define tc_huber_loss_with(x, y, options...) tc_huber_loss_with_at(x, y, __VA_OPT__(options,) TC_HERE)
#define tc_smooth_l1_loss(x, y, options...) tc_smooth_l1_loss_at(x, y, __VA_OPT__(options,) TC_HERE)
#define tc_cross_entropy(logits, target...) tc_cross_entropy_at(logits, __VA_OPT__(target,) TC_HERE)
#define tc_cross_entropy_with(logits, target, label_smoothing, ignore_index...) tc_cross_entropy_with_at(logits, target, label_smoothing, __VA_OPT__(ignore_index,) TC_HERE)
#define tc_nll_loss(log_probs, target...) tc_nll_loss_at(log_probs, __VA_OPT__(target,) TC_HERE)
#define tc_cross_entropy_loss(logits, target, options...) tc_cross_entropy_loss_at(logits, target, __VA_OPT__(options,) TC_HERE)
#define tc_nll_loss_with(log_probs, target, options...) tc_nll_loss_with_at(log_probs, target, __VA_OPT__(options,) TC_HERE)
#define tc_bce_with_logits(x, y...) tc_bce_with_logits_at(x, __VA_OPT__(y,) TC_HERE)
#define tc_bce_with_logits_loss(x, y, options...) tc_bce_with_logits_loss_at(x, y, __VA_OPT__(options,) TC_HERE)
#define tc_bce_loss(x, y, options...) tc_bce_loss_at(x, y, __VA_OPT__(options,) TC_HERE)
#define tc_kl_div_loss(x, y, options...) tc_kl_div_loss_at(x, y, __VA_OPT__(options,) TC_HERE)
#define tc_cosine_similarity(a, b, axis, eps...) tc_cosine_similarity_at(a, b, axis, __VA_OPT__(eps,) TC_HERE)
#define tc_cosine_embedding_loss(a, b, y, options...) tc_cosine_embedding_loss_at(a, b, y, __VA_OPT__(options,) TC_HERE)
#define tc_triplet_margin_loss(anchor, positive, negative, options...) tc_triplet_margin_loss_at(anchor, positive, negative, __VA_OPT__(options,) TC_HERE)
#define tc_set_num_threads(n...) tc_set_num_threads_at(__VA_OPT__(n,) TC_HERE)
#define tc_set_memory_cap(bytes...) tc_set_memory_cap_at(__VA_OPT__(bytes,) TC_HERE)
#define tc_set_memory_budget(bytes...) tc_set_memory_budget_at(__VA_OPT__(bytes,) TC_HERE)
#define tc_set_allocator(allocator...) tc_set_allocator_at(__VA_OPT__(allocator,) TC_HERE)
#define tc_region_begin(options...) tc_region_begin_at(__VA_OPT__(options,) TC_HERE)
#define tc_scope_end(scope...) tc_scope_end_at(__VA_OPT__(scope,) TC_HERE)
#define tc_keep(t...) tc_keep_at(__VA_OPT__(t,) TC_HERE)
#define tc_retain(t...) tc_retain_at(__VA_OPT__(t,) TC_HERE)
#define tc_release(t...) tc_release_at(__VA_OPT__(t,) TC_HERE)
#define tc_shape(t...) tc_shape_at(__VA_OPT__(t,) TC_HERE)
#define tc_dtype(t...) tc_dtype_at(__VA_OPT__(t,) TC_HERE)
#define tc_numel(t...) tc_numel_at(__VA_OPT__(t,) TC_HERE)
#define tc_device_of(t...) tc_device_of_at(__VA_OPT__(t,) TC_HERE)
#define tc_map(t...) tc_map_at(__VA_OPT__(t,) TC_HERE)
#define tc_unmap(t...) tc_unmap_at(__VA_OPT__(t,) TC_HERE)
#define tc_print(t...) tc_print_at(__VA_OPT__(t,) TC_HERE)
#define tc_format(t...) tc_format_at(__VA_OPT__(t,) TC_HERE)
#define tc_load_npy(path...) tc_load_npy_at(__VA_OPT__(path,) TC_HERE)
#define tc_assign(t, value...) tc_assign_at(t, __VA_OPT__(value,) TC_HERE)
#define tc_assign_slice(t, start, stop, step, value...) tc_assign_slice_at(t, start, stop, step, __VA_OPT__(value,) TC_HERE)
#define tc_param(t...) tc_param_at(__VA_OPT__(t,) TC_HERE)
#define tc_set_requires_grad(t, on...) tc_set_requires_grad_at(t, __VA_OPT__(on,) TC_HERE)
#define tc_backward(y...) tc_backward_at(__VA_OPT__(y,) TC_HERE)
#define tc_backward_with(y, grad, flags...) tc_backward_with_at(y, grad, __VA_OPT__(flags,) TC_HERE)
#define tc_grads_of(y, xs, n, out, flags...) tc_grads_of_at(y, xs, n, out, __VA_OPT__(flags,) TC_HERE)
#define tc_zero_grad_of(n, params...) tc_zero_grad_of_at(n, __VA_OPT__(params,) TC_HERE)
#define tc_autocast_begin(type...) tc_autocast_begin_at(__VA_OPT__(type,) TC_HERE)
#define tc_autocast_begin_with(options...) tc_autocast_begin_with_at(__VA_OPT__(options,) TC_HERE)
#define tc_set_rng_state(state...) tc_set_rng_state_at(__VA_OPT__(state,) TC_HERE)
#define tc_sgd(params, n, options...) tc_sgd_at(params, n, __VA_OPT__(options,) TC_HERE)
#define tc_adam(params, n, options...) tc_adam_at(params, n, __VA_OPT__(options,) TC_HERE)
#define tc_adamw(params, n, options...) tc_adamw_at(params, n, __VA_OPT__(options,) TC_HERE)
#define tc_rmsprop(params, n, options...) tc_rmsprop_at(params, n, __VA_OPT__(options,) TC_HERE)
#define tc_adagrad(params, n, options...) tc_adagrad_at(params, n, __VA_OPT__(options,) TC_HERE)
#define tc_nadam(params, n, options...) tc_nadam_at(params, n, __VA_OPT__(options,) TC_HERE)
#define tc_radam(params, n, options...) tc_radam_at(params, n, __VA_OPT__(options,) TC_HERE)
#define tc_adamax(params, n, options...) tc_adamax_at(params, n, __VA_OPT__(options,) TC_HERE)
#define tc_lion(params, n, options...) tc_lion_at(params, n, __VA_OPT__(options,) TC_HERE)
#define tc_optimizer_step(opt...) tc_optimizer_step_at(__VA_OPT__(opt,) TC_HERE)
#define tc_zero_grad(opt...) tc_zero_grad_at(__VA_OPT__(opt,) TC_HERE)
#define tc_set_lr(opt, lr...) tc_set_lr_at(opt, __VA_OPT__(lr,) TC_HERE)
#define tc_get_lr(opt...) tc_get_lr_at(__VA_OPT__(opt,) TC_HERE)
#define tc_set_group_lr(opt, group, lr...) tc_set_group_lr_at(opt, group, __VA_OPT__(lr,) TC_HERE)
#define tc_get_group_lr(opt, group...) tc_get_group_lr_at(opt, __VA_OPT__(group,) TC_HERE)
#define tc_get_initial_lr(opt, group...) tc_get_initial_lr_at(opt, __VA_OPT__(group,) TC_HERE)
#define tc_set_initial_lr(opt, group, lr...) tc_set_initial_lr_at(opt, group, __VA_OPT__(lr,) TC_HERE)
#define tc_set_momentum(opt, momentum...) tc_set_momentum_at(opt, __VA_OPT__(momentum,) TC_HERE)
#define tc_get_momentum(opt...) tc_get_momentum_at(__VA_OPT__(opt,) TC_HERE)
#define tc_optimizer_state(opt, i...) tc_optimizer_state_at(opt, __VA_OPT__(i,) TC_HERE)
#define tc_optimizer_set_state(opt, i, value...) tc_optimizer_set_state_at(opt, i, __VA_OPT__(value,) TC_HERE)
#define tc_clip_grad_norm(params, n, max_norm...) tc_clip_grad_norm_at(params, n, __VA_OPT__(max_norm,) TC_HERE)
#define tc_nonzero(x...) tc_nonzero_at(__VA_OPT__(x,) TC_HERE)
#define tc_masked_select(x, mask...) tc_masked_select_at(x, __VA_OPT__(mask,) TC_HERE)
#define tc_unique(x...) tc_unique_at(__VA_OPT__(x,) TC_HERE)
#define tc_split(x, size, axis, n, out...) tc_split_at(x, size, axis, n, __VA_OPT__(out,) TC_HERE)
#define tc_meshgrid(n, xs, out...) tc_meshgrid_at(n, xs, __VA_OPT__(out,) TC_HERE)
#define tc_einsum(spec, n, operands...) tc_einsum_at(spec, n, __VA_OPT__(operands,) TC_HERE)
#define tc_embed() tc_embed_at(TC_HERE)
#define tc_profile_stop() tc_profile_stop_at(TC_HERE)
#define tc_region_end() tc_region_end_at(TC_HERE)
#define tc_reset() tc_reset_at(TC_HERE)
#define tc_pop_device() tc_pop_device_at(TC_HERE)
#define tc_scope_begin() tc_scope_begin_at(TC_HERE)
#define tc_autocast_end() tc_autocast_end_at(TC_HERE)

#endif

#ifdef __clang__
#pragma clang diagnostic pop
#endif

#endif
