// The plain symbols, for callers without the macros of sites.h: bindings, C++ and function pointers. Made by tools/make_sites.py.
// The site is the caller's code address; the message resolves it to symbol and module when it is printed.
// Threads: as the functions they call.
#define TC_NO_SITES
#include "runtime/status.h"

#define CALLER tc_site_return(__builtin_return_address(0))

#define TC_FN(name, params, args) \
  tc_tensor(name) params { \
    return name##_at(TC_P args, CALLER); \
  }
#include <tc/api.def>
#undef TC_FN

tc_status tc_set_num_threads(int n) {
  return tc_set_num_threads_at(n, CALLER);
}

tc_status tc_set_memory_cap(size_t bytes) {
  return tc_set_memory_cap_at(bytes, CALLER);
}

tc_status tc_set_allocator(tc_allocator allocator) {
  return tc_set_allocator_at(allocator, CALLER);
}

tc_status tc_set_default_device(const char *device) {
  return tc_set_default_device_at(device, CALLER);
}

tc_status tc_push_device(const char *device) {
  return tc_push_device_at(device, CALLER);
}

tc_status tc_pop_device(void) {
  return tc_pop_device_at(CALLER);
}

tc_scope tc_scope_begin(void) {
  return tc_scope_begin_at(CALLER);
}

void tc_scope_end(tc_scope scope) {
  tc_scope_end_at(scope, CALLER);
}

tc_tensor tc_keep(tc_tensor t) {
  return tc_keep_at(t, CALLER);
}

tc_tensor tc_retain(tc_tensor t) {
  return tc_retain_at(t, CALLER);
}

void tc_release(tc_tensor t) {
  tc_release_at(t, CALLER);
}

tc_dims tc_shape(tc_tensor t) {
  return tc_shape_at(t, CALLER);
}

tc_type tc_dtype(tc_tensor t) {
  return tc_dtype_at(t, CALLER);
}

int64_t tc_numel(tc_tensor t) {
  return tc_numel_at(t, CALLER);
}

const char *tc_device_of(tc_tensor t) {
  return tc_device_of_at(t, CALLER);
}

tc_tensor tc_from_host(const void *data, tc_dims shape, tc_type type) {
  return tc_from_host_at(data, shape, type, CALLER);
}

tc_tensor tc_from_host_strided(const void *data, tc_dims shape, const int64_t *strides, tc_type type) {
  return tc_from_host_strided_at(data, shape, strides, type, CALLER);
}

tc_tensor tc_borrow(void *data, tc_dims shape, tc_type type, int flags, void (*release)(void *arg), void *arg) {
  return tc_borrow_at(data, shape, type, flags, release, arg, CALLER);
}

tc_status tc_item_f32(tc_tensor t, float *out) {
  return tc_item_f32_at(t, out, CALLER);
}

tc_status tc_item_f64(tc_tensor t, double *out) {
  return tc_item_f64_at(t, out, CALLER);
}

tc_status tc_item_i32(tc_tensor t, int32_t *out) {
  return tc_item_i32_at(t, out, CALLER);
}

tc_status tc_item_i64(tc_tensor t, int64_t *out) {
  return tc_item_i64_at(t, out, CALLER);
}

tc_status tc_item_bool(tc_tensor t, bool *out) {
  return tc_item_bool_at(t, out, CALLER);
}

tc_status tc_to_host(tc_tensor t, void *out, size_t bytes) {
  return tc_to_host_at(t, out, bytes, CALLER);
}

tc_status tc_eval(int n, const tc_tensor *tensors) {
  return tc_eval_at(n, tensors, CALLER);
}

tc_status tc_sync(const char *device) {
  return tc_sync_at(device, CALLER);
}

const void *tc_map(tc_tensor t) {
  return tc_map_at(t, CALLER);
}

tc_status tc_unmap(tc_tensor t) {
  return tc_unmap_at(t, CALLER);
}

tc_status tc_print(tc_tensor t) {
  return tc_print_at(t, CALLER);
}

char *tc_format(tc_tensor t) {
  return tc_format_at(t, CALLER);
}

tc_status tc_save_npy(const char *path, tc_tensor t) {
  return tc_save_npy_at(path, t, CALLER);
}

tc_tensor tc_load_npy(const char *path) {
  return tc_load_npy_at(path, CALLER);
}

tc_status tc_assign(tc_tensor t, tc_tensor value) {
  return tc_assign_at(t, value, CALLER);
}

tc_status tc_assign_slice(tc_tensor t, const int64_t *start, const int64_t *stop, const int64_t *step, tc_tensor value) {
  return tc_assign_slice_at(t, start, stop, step, value, CALLER);
}

tc_tensor tc_param(tc_tensor t) {
  return tc_param_at(t, CALLER);
}

tc_status tc_set_requires_grad(tc_tensor t, bool on) {
  return tc_set_requires_grad_at(t, on, CALLER);
}

tc_status tc_backward(tc_tensor y) {
  return tc_backward_at(y, CALLER);
}

tc_status tc_backward_with(tc_tensor y, tc_tensor grad, int flags) {
  return tc_backward_with_at(y, grad, flags, CALLER);
}

tc_status tc_grads_of(tc_tensor y, const tc_tensor *xs, int n, tc_tensor *out, int flags) {
  return tc_grads_of_at(y, xs, n, out, flags, CALLER);
}

tc_status tc_zero_grad_of(int n, const tc_tensor *params) {
  return tc_zero_grad_of_at(n, params, CALLER);
}

tc_optimizer *tc_sgd(const tc_tensor *params, int n, tc_sgd_options options) {
  return tc_sgd_at(params, n, options, CALLER);
}

tc_optimizer *tc_adam(const tc_tensor *params, int n, tc_adam_options options) {
  return tc_adam_at(params, n, options, CALLER);
}

tc_optimizer *tc_adamw(const tc_tensor *params, int n, tc_adam_options options) {
  return tc_adamw_at(params, n, options, CALLER);
}

tc_optimizer *tc_rmsprop(const tc_tensor *params, int n, tc_rmsprop_options options) {
  return tc_rmsprop_at(params, n, options, CALLER);
}

tc_status tc_optimizer_step(tc_optimizer *opt) {
  return tc_optimizer_step_at(opt, CALLER);
}

tc_status tc_zero_grad(tc_optimizer *opt) {
  return tc_zero_grad_at(opt, CALLER);
}

tc_status tc_set_lr(tc_optimizer *opt, double lr) {
  return tc_set_lr_at(opt, lr, CALLER);
}

double tc_get_lr(const tc_optimizer *opt) {
  return tc_get_lr_at(opt, CALLER);
}

tc_tensor tc_optimizer_state(const tc_optimizer *opt, int i) {
  return tc_optimizer_state_at(opt, i, CALLER);
}

tc_status tc_optimizer_set_state(tc_optimizer *opt, int i, tc_tensor value) {
  return tc_optimizer_set_state_at(opt, i, value, CALLER);
}

tc_tensor tc_clip_grad_norm(const tc_tensor *params, int n, double max_norm) {
  return tc_clip_grad_norm_at(params, n, max_norm, CALLER);
}

tc_tensor tc_nonzero(tc_tensor x) {
  return tc_nonzero_at(x, CALLER);
}

tc_tensor tc_masked_select(tc_tensor x, tc_tensor mask) {
  return tc_masked_select_at(x, mask, CALLER);
}

tc_tensor tc_unique(tc_tensor x) {
  return tc_unique_at(x, CALLER);
}

tc_status tc_allclose(tc_tensor a, tc_tensor b, double rtol, double atol, bool *out) {
  return tc_allclose_at(a, b, rtol, atol, out, CALLER);
}

tc_status tc_split(tc_tensor x, int64_t size, int axis, int n, tc_tensor *out) {
  return tc_split_at(x, size, axis, n, out, CALLER);
}

tc_status tc_meshgrid(int n, const tc_tensor *xs, tc_tensor *out) {
  return tc_meshgrid_at(n, xs, out, CALLER);
}

tc_tensor tc_einsum(const char *spec, int n, const tc_tensor *operands) {
  return tc_einsum_at(spec, n, operands, CALLER);
}
