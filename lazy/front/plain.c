// The plain symbols, for callers without the macros of sites.h: bindings, C++ and function
// pointers. Made by tools/make_sites.py.
// The site is the caller's code address; the message resolves it to symbol and module when it is printed.
// Threads: as the functions they call.
#define TC_NO_SITES
// clang-format off
#include <tc/nn.h>

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

tc_status tc_set_memory_budget(size_t bytes) {
  return tc_set_memory_budget_at(bytes, CALLER);
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

tc_status tc_to_host_async(tc_tensor t, void *out, size_t bytes) {
  return tc_to_host_async_at(t, out, bytes, CALLER);
}

tc_status tc_to_host_wait(const void *out) {
  return tc_to_host_wait_at(out, CALLER);
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

tc_status tc_map_shared(tc_tensor t, const void **out_data, void **out_share) {
  return tc_map_shared_at(t, out_data, out_share, CALLER);
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

tc_status tc_set_rng_state(tc_rng_state state) {
  return tc_set_rng_state_at(state, CALLER);
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

tc_status tc_optimizer_add_group(tc_optimizer *opt, const tc_tensor *params, int n, tc_group_options options) {
  return tc_optimizer_add_group_at(opt, params, n, options, CALLER);
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

tc_status tc_set_group_lr(tc_optimizer *opt, int group, double lr) {
  return tc_set_group_lr_at(opt, group, lr, CALLER);
}

double tc_get_group_lr(const tc_optimizer *opt, int group) {
  return tc_get_group_lr_at(opt, group, CALLER);
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

tc_archive *tc_safetensors_open(const char *path) {
  return tc_safetensors_open_at(path, CALLER);
}

tc_archive *tc_npz_open(const char *path) {
  return tc_npz_open_at(path, CALLER);
}

tc_tensor tc_archive_get(const tc_archive *a, const char *name) {
  return tc_archive_get_at(a, name, CALLER);
}

tc_status tc_archive_load(const tc_archive *a, const char *prefix, int n, const char *const *names, const tc_tensor *tensors) {
  return tc_archive_load_at(a, prefix, n, names, tensors, CALLER);
}

tc_status tc_safetensors_save(const char *path, int n, const char *const *names, const tc_tensor *tensors) {
  return tc_safetensors_save_at(path, n, names, tensors, CALLER);
}

tc_status tc_safetensors_save_with(const char *path, int n, const char *const *names, const tc_tensor *tensors, int n_meta, const char *const *meta) {
  return tc_safetensors_save_with_at(path, n, names, tensors, n_meta, meta, CALLER);
}

tc_status tc_npz_save(const char *path, int n, const char *const *names, const tc_tensor *tensors) {
  return tc_npz_save_at(path, n, names, tensors, CALLER);
}

tc_status tc_checkpoint_save(const char *path, int n, const char *const *names, const tc_tensor *params, const tc_optimizer *opt, int64_t step) {
  return tc_checkpoint_save_at(path, n, names, params, opt, step, CALLER);
}

tc_status tc_checkpoint_load(const char *path, int n, const char *const *names, const tc_tensor *params, tc_optimizer *opt, int64_t *out_step) {
  return tc_checkpoint_load_at(path, n, names, params, opt, out_step, CALLER);
}

tc_status tc_checkpoint_save_with(const char *path, int n, const char *const *names, const tc_tensor *params, int n_opts, tc_optimizer *const *opts,
                                  int64_t step) {
  return tc_checkpoint_save_with_at(path, n, names, params, n_opts, opts, step, CALLER);
}

tc_status tc_checkpoint_load_with(const char *path, int n, const char *const *names, const tc_tensor *params, int n_opts, tc_optimizer *const *opts,
                                  int64_t *out_step) {
  return tc_checkpoint_load_with_at(path, n, names, params, n_opts, opts, out_step, CALLER);
}

struct DLManagedTensorVersioned *tc_to_dlpack(tc_tensor t) {
  return tc_to_dlpack_at(t, CALLER);
}

struct DLManagedTensor *tc_to_dlpack_legacy(tc_tensor t) {
  return tc_to_dlpack_legacy_at(t, CALLER);
}

tc_tensor tc_from_dlpack(struct DLManagedTensorVersioned *m) {
  return tc_from_dlpack_at(m, CALLER);
}

tc_tensor tc_from_dlpack_legacy(struct DLManagedTensor *m) {
  return tc_from_dlpack_legacy_at(m, CALLER);
}

tc_nn_params *tc_nn_params_create(void) {
  return tc_nn_params_create_at(CALLER);
}

tc_tensor tc_nn_add(tc_nn_params *p, const char *name, tc_tensor init) {
  return tc_nn_add_at(p, name, init, CALLER);
}

tc_tensor tc_nn_add_buffer(tc_nn_params *p, const char *name, tc_tensor init) {
  return tc_nn_add_buffer_at(p, name, init, CALLER);
}

tc_tensor tc_nn_get(const tc_nn_params *p, const char *name) {
  return tc_nn_get_at(p, name, CALLER);
}

tc_status tc_nn_cast(tc_nn_params *p, tc_type type) {
  return tc_nn_cast_at(p, type, CALLER);
}

tc_status tc_nn_load(const tc_nn_params *p, const tc_archive *a, const char *prefix) {
  return tc_nn_load_at(p, a, prefix, CALLER);
}

tc_status tc_nn_save(const tc_nn_params *p, const char *path) {
  return tc_nn_save_at(p, path, CALLER);
}

tc_status tc_nn_checkpoint_save(const tc_nn_params *p, const char *path, int n_opts, tc_optimizer *const *opts, int64_t step) {
  return tc_nn_checkpoint_save_at(p, path, n_opts, opts, step, CALLER);
}

tc_status tc_nn_checkpoint_load(const tc_nn_params *p, const char *path, int n_opts, tc_optimizer *const *opts, int64_t *out_step) {
  return tc_nn_checkpoint_load_at(p, path, n_opts, opts, out_step, CALLER);
}

tc_status tc_nn_add_linear(tc_nn_params *p, const char *path, int64_t in, int64_t out, bool bias) {
  return tc_nn_add_linear_at(p, path, in, out, bias, CALLER);
}

tc_tensor tc_nn_linear(const tc_nn_params *p, const char *path, tc_tensor x) {
  return tc_nn_linear_at(p, path, x, CALLER);
}

tc_status tc_nn_add_embedding(tc_nn_params *p, const char *path, int64_t n, int64_t dim) {
  return tc_nn_add_embedding_at(p, path, n, dim, CALLER);
}

tc_tensor tc_nn_embedding(const tc_nn_params *p, const char *path, tc_tensor ids) {
  return tc_nn_embedding_at(p, path, ids, CALLER);
}

tc_status tc_nn_add_layer_norm(tc_nn_params *p, const char *path, int64_t dim) {
  return tc_nn_add_layer_norm_at(p, path, dim, CALLER);
}

tc_tensor tc_nn_layer_norm(const tc_nn_params *p, const char *path, tc_tensor x, double eps) {
  return tc_nn_layer_norm_at(p, path, x, eps, CALLER);
}

tc_status tc_nn_add_rms_norm(tc_nn_params *p, const char *path, int64_t dim) {
  return tc_nn_add_rms_norm_at(p, path, dim, CALLER);
}

tc_tensor tc_nn_rms_norm(const tc_nn_params *p, const char *path, tc_tensor x, double eps) {
  return tc_nn_rms_norm_at(p, path, x, eps, CALLER);
}

tc_status tc_nn_add_group_norm(tc_nn_params *p, const char *path, int64_t channels) {
  return tc_nn_add_group_norm_at(p, path, channels, CALLER);
}

tc_tensor tc_nn_group_norm(const tc_nn_params *p, const char *path, tc_tensor x, int64_t groups, double eps) {
  return tc_nn_group_norm_at(p, path, x, groups, eps, CALLER);
}

tc_status tc_nn_add_batch_norm(tc_nn_params *p, const char *path, int64_t channels) {
  return tc_nn_add_batch_norm_at(p, path, channels, CALLER);
}

tc_tensor tc_nn_batch_norm(const tc_nn_params *p, const char *path, tc_tensor x, double momentum, double eps) {
  return tc_nn_batch_norm_at(p, path, x, momentum, eps, CALLER);
}

tc_status tc_nn_add_conv2d(tc_nn_params *p, const char *path, int64_t in, int64_t out, tc_dims size, int64_t groups, bool bias) {
  return tc_nn_add_conv2d_at(p, path, in, out, size, groups, bias, CALLER);
}

tc_tensor tc_nn_conv2d(const tc_nn_params *p, const char *path, tc_tensor x, tc_conv_options options) {
  return tc_nn_conv2d_at(p, path, x, options, CALLER);
}

tc_status tc_nn_add_multihead_attention(tc_nn_params *p, const char *path, int64_t dim, bool bias) {
  return tc_nn_add_multihead_attention_at(p, path, dim, bias, CALLER);
}

tc_tensor tc_nn_multihead_attention(const tc_nn_params *p, const char *path, tc_tensor query, tc_tensor key, tc_tensor value,
                                    tc_nn_attention_options options) {
  return tc_nn_multihead_attention_at(p, path, query, key, value, options, CALLER);
}

tc_tensor tc_nn_attention(tc_tensor query, tc_tensor key, tc_tensor value, tc_nn_attention_options options) {
  return tc_nn_attention_at(query, key, value, options, CALLER);
}

tc_tensor tc_nn_dropout(const tc_nn_params *p, tc_tensor x, double probability) {
  return tc_nn_dropout_at(p, x, probability, CALLER);
}

tc_tensor tc_nn_uniform(tc_dims shape, double low, double high) {
  return tc_nn_uniform_at(shape, low, high, CALLER);
}

tc_tensor tc_nn_normal(tc_dims shape, double mean, double std) {
  return tc_nn_normal_at(shape, mean, std, CALLER);
}

tc_tensor tc_nn_xavier_uniform(tc_dims shape, double gain) {
  return tc_nn_xavier_uniform_at(shape, gain, CALLER);
}

tc_tensor tc_nn_xavier_normal(tc_dims shape, double gain) {
  return tc_nn_xavier_normal_at(shape, gain, CALLER);
}

tc_tensor tc_nn_kaiming_uniform(tc_dims shape, double a) {
  return tc_nn_kaiming_uniform_at(shape, a, CALLER);
}
