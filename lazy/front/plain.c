// The plain symbols, for callers without the macros of sites.h: bindings, C++ and function
// pointers. Made by tools/make_sites.py.
// The site is the caller's code address; the message resolves it to symbol and module when it is printed.
// Threads: as the functions they call.
#define TC_NO_SITES
// clang-format off
#include <tc/amp.h>
#include <tc/backend.h>
#include <tc/compile.h>
#include <tc/control.h>
#include <tc/program.h>
#include <tc/train.h>

#include "runtime/status.h"

#define CALLER tc_site_return(__builtin_return_address(0))

#define TC_FN(name, params, args) \
  tc_tensor(name) params { \
    return name##_at(TC_P args, CALLER); \
  }
#include <tc/api.def>
#undef TC_FN

// A function that hands its form the caller's address.
#define PLAIN(result, name, params, ...) \
  result name params { \
    return name##_at(__VA_ARGS__); \
  }
PLAIN(tc_status, tc_embed, (void), CALLER)
PLAIN(tc_status, tc_set_num_threads, (int n), n, CALLER)
PLAIN(tc_status, tc_set_memory_cap, (size_t bytes), bytes, CALLER)
PLAIN(tc_status, tc_set_memory_budget, (size_t bytes), bytes, CALLER)
PLAIN(tc_status, tc_set_allocator, (tc_allocator allocator), allocator, CALLER)
PLAIN(tc_status, tc_explain, (tc_status (*fn)(void *user), void *user, tc_explanation *out), fn, user, out, CALLER)
PLAIN(tc_status, tc_expect_syncs, (int n), n, CALLER)
PLAIN(tc_status, tc_metrics_get, (const char *name, uint64_t *out), name, out, CALLER)
PLAIN(tc_status, tc_profile_start, (const char *file), file, CALLER)
PLAIN(tc_status, tc_profile_stop, (void), CALLER)
PLAIN(tc_status, tc_region_begin, (const tc_region_options *options), options, CALLER)

void tc_region_end(void) {
  tc_region_end_at(CALLER);
}

PLAIN(tc_status, tc_set_options, (const tc_region_options *options), options, CALLER)
PLAIN(tc_status, tc_register_backend, (const char *name, tc_backend_fn fn, void *user), name, fn, user, CALLER)
PLAIN(tc_status, tc_reset, (void), CALLER)
PLAIN(tc_status, tc_set_default_device, (const char *device), device, CALLER)
PLAIN(tc_status, tc_push_device, (const char *device), device, CALLER)
PLAIN(tc_status, tc_pop_device, (void), CALLER)
PLAIN(tc_scope, tc_scope_begin, (void), CALLER)

void tc_scope_end(tc_scope scope) {
  tc_scope_end_at(scope, CALLER);
}

PLAIN(tc_tensor, tc_keep, (tc_tensor t), t, CALLER)
PLAIN(tc_tensor, tc_retain, (tc_tensor t), t, CALLER)

void tc_release(tc_tensor t) {
  tc_release_at(t, CALLER);
}

PLAIN(tc_dims, tc_shape, (tc_tensor t), t, CALLER)
PLAIN(tc_type, tc_dtype, (tc_tensor t), t, CALLER)
PLAIN(int64_t, tc_numel, (tc_tensor t), t, CALLER)
PLAIN(const char *, tc_device_of, (tc_tensor t), t, CALLER)
PLAIN(tc_tensor, tc_from_host, (const void *data, tc_dims shape, tc_type type), data, shape, type, CALLER)
PLAIN(tc_tensor, tc_from_host_strided, (const void *data, tc_dims shape, const int64_t *strides, tc_type type), data,
      shape, strides, type, CALLER)
PLAIN(tc_tensor, tc_borrow, (void *data, tc_dims shape, tc_type type, int flags, void (*release)(void *arg), void
      *arg), data, shape, type, flags, release, arg, CALLER)
PLAIN(tc_tensor, tc_borrow_strided, (void *data, tc_dims shape, const int64_t *strides, tc_type type, int flags, void
      (*release)(void *arg), void *arg), data, shape, strides, type, flags, release, arg, CALLER)
PLAIN(tc_status, tc_forget, (tc_tensor t), t, CALLER)
PLAIN(tc_status, tc_item_f32, (tc_tensor t, float *out), t, out, CALLER)
PLAIN(tc_status, tc_item_f64, (tc_tensor t, double *out), t, out, CALLER)
PLAIN(tc_status, tc_item_i32, (tc_tensor t, int32_t *out), t, out, CALLER)
PLAIN(tc_status, tc_item_i64, (tc_tensor t, int64_t *out), t, out, CALLER)
PLAIN(tc_status, tc_item_bool, (tc_tensor t, bool *out), t, out, CALLER)
PLAIN(tc_status, tc_to_host, (tc_tensor t, void *out, size_t bytes), t, out, bytes, CALLER)
PLAIN(tc_status, tc_to_host_async, (tc_tensor t, void *out, size_t bytes), t, out, bytes, CALLER)
PLAIN(tc_status, tc_to_host_wait, (const void *out), out, CALLER)
PLAIN(tc_status, tc_eval, (int n, const tc_tensor *tensors), n, tensors, CALLER)
PLAIN(tc_status, tc_sync, (const char *device), device, CALLER)
PLAIN(tc_status, tc_sync_of, (tc_tensor t), t, CALLER)
PLAIN(const void *, tc_map, (tc_tensor t), t, CALLER)
PLAIN(tc_status, tc_unmap, (tc_tensor t), t, CALLER)
PLAIN(tc_status, tc_map_shared, (tc_tensor t, const void **out_data, void **out_share), t, out_data, out_share,
      CALLER)
PLAIN(tc_status, tc_print, (tc_tensor t), t, CALLER)
PLAIN(char *, tc_format, (tc_tensor t), t, CALLER)
PLAIN(tc_status, tc_save_npy, (const char *path, tc_tensor t), path, t, CALLER)
PLAIN(tc_tensor, tc_load_npy, (const char *path), path, CALLER)
PLAIN(tc_status, tc_assign, (tc_tensor t, tc_tensor value), t, value, CALLER)
PLAIN(tc_status, tc_assign_slice, (tc_tensor t, const int64_t *start, const int64_t *stop, const int64_t *step,
      tc_tensor value), t, start, stop, step, value, CALLER)
PLAIN(tc_tensor, tc_param, (tc_tensor t), t, CALLER)
PLAIN(tc_status, tc_set_requires_grad, (tc_tensor t, bool on), t, on, CALLER)
PLAIN(tc_status, tc_backward, (tc_tensor y), y, CALLER)
PLAIN(tc_status, tc_backward_with, (tc_tensor y, tc_tensor grad, int flags), y, grad, flags, CALLER)
PLAIN(tc_status, tc_grads_of, (tc_tensor y, const tc_tensor *xs, int n, tc_tensor *out, int flags), y, xs, n, out,
      flags, CALLER)
PLAIN(tc_status, tc_zero_grad_of, (int n, const tc_tensor *params), n, params, CALLER)
PLAIN(tc_status, tc_autocast_begin, (tc_type type), type, CALLER)
PLAIN(tc_status, tc_autocast_begin_with, (tc_autocast_options options), options, CALLER)
PLAIN(tc_status, tc_autocast_end, (void), CALLER)
PLAIN(tc_status, tc_set_rng_state, (tc_rng_state state), state, CALLER)
PLAIN(tc_optimizer *, tc_sgd, (const tc_tensor *params, int n, tc_sgd_options options), params, n, options, CALLER)
PLAIN(tc_optimizer *, tc_adam, (const tc_tensor *params, int n, tc_adam_options options), params, n, options, CALLER)
PLAIN(tc_optimizer *, tc_adamw, (const tc_tensor *params, int n, tc_adam_options options), params, n, options, CALLER)
PLAIN(tc_optimizer *, tc_rmsprop, (const tc_tensor *params, int n, tc_rmsprop_options options), params, n, options,
      CALLER)
PLAIN(tc_optimizer *, tc_adagrad, (const tc_tensor *params, int n, tc_adagrad_options options), params, n, options,
      CALLER)
PLAIN(tc_optimizer *, tc_nadam, (const tc_tensor *params, int n, tc_nadam_options options), params, n, options,
      CALLER)
PLAIN(tc_optimizer *, tc_radam, (const tc_tensor *params, int n, tc_radam_options options), params, n, options,
      CALLER)
PLAIN(tc_optimizer *, tc_adamax, (const tc_tensor *params, int n, tc_adamax_options options), params, n, options,
      CALLER)
PLAIN(tc_optimizer *, tc_lion, (const tc_tensor *params, int n, tc_lion_options options), params, n, options, CALLER)
PLAIN(tc_status, tc_optimizer_add_group, (tc_optimizer *opt, const tc_tensor *params, int n, tc_group_options
      options), opt, params, n, options, CALLER)
PLAIN(tc_status, tc_optimizer_step, (tc_optimizer *opt), opt, CALLER)
PLAIN(tc_status, tc_zero_grad, (tc_optimizer *opt), opt, CALLER)
PLAIN(tc_status, tc_set_lr, (tc_optimizer *opt, double lr), opt, lr, CALLER)
PLAIN(double, tc_get_lr, (const tc_optimizer *opt), opt, CALLER)
PLAIN(tc_status, tc_set_group_lr, (tc_optimizer *opt, int group, double lr), opt, group, lr, CALLER)
PLAIN(double, tc_get_group_lr, (const tc_optimizer *opt, int group), opt, group, CALLER)
PLAIN(double, tc_get_initial_lr, (const tc_optimizer *opt, int group), opt, group, CALLER)
PLAIN(tc_status, tc_set_initial_lr, (tc_optimizer *opt, int group, double lr), opt, group, lr, CALLER)
PLAIN(tc_status, tc_set_momentum, (tc_optimizer *opt, double momentum), opt, momentum, CALLER)
PLAIN(double, tc_get_momentum, (const tc_optimizer *opt), opt, CALLER)
PLAIN(tc_tensor, tc_optimizer_state, (const tc_optimizer *opt, int i), opt, i, CALLER)
PLAIN(tc_status, tc_optimizer_set_state, (tc_optimizer *opt, int i, tc_tensor value), opt, i, value, CALLER)
PLAIN(tc_tensor, tc_clip_grad_norm, (const tc_tensor *params, int n, double max_norm), params, n, max_norm, CALLER)
PLAIN(tc_tensor, tc_nonzero, (tc_tensor x), x, CALLER)
PLAIN(tc_tensor, tc_masked_select, (tc_tensor x, tc_tensor mask), x, mask, CALLER)
PLAIN(tc_tensor, tc_unique, (tc_tensor x), x, CALLER)
PLAIN(tc_status, tc_allclose, (tc_tensor a, tc_tensor b, double rtol, double atol, bool *out), a, b, rtol, atol, out,
      CALLER)
PLAIN(tc_status, tc_split, (tc_tensor x, int64_t size, int axis, int n, tc_tensor *out), x, size, axis, n, out,
      CALLER)
PLAIN(tc_status, tc_meshgrid, (int n, const tc_tensor *xs, tc_tensor *out), n, xs, out, CALLER)
PLAIN(tc_tensor, tc_einsum, (const char *spec, int n, const tc_tensor *operands), spec, n, operands, CALLER)
PLAIN(tc_archive *, tc_safetensors_open, (const char *path), path, CALLER)
PLAIN(tc_archive *, tc_npz_open, (const char *path), path, CALLER)
PLAIN(tc_tensor, tc_archive_get, (const tc_archive *a, const char *name), a, name, CALLER)
PLAIN(tc_status, tc_archive_load, (const tc_archive *a, const char *prefix, int n, const char *const *names, const
      tc_tensor *tensors), a, prefix, n, names, tensors, CALLER)
PLAIN(tc_status, tc_safetensors_save, (const char *path, int n, const char *const *names, const tc_tensor *tensors),
      path, n, names, tensors, CALLER)
PLAIN(tc_status, tc_safetensors_save_with, (const char *path, int n, const char *const *names, const tc_tensor
      *tensors, int n_meta, const char *const *meta), path, n, names, tensors, n_meta, meta, CALLER)
PLAIN(tc_status, tc_npz_save, (const char *path, int n, const char *const *names, const tc_tensor *tensors), path, n,
      names, tensors, CALLER)
PLAIN(tc_status, tc_checkpoint_save, (const char *path, int n, const char *const *names, const tc_tensor *params,
      const tc_optimizer *opt, int64_t step), path, n, names, params, opt, step, CALLER)
PLAIN(tc_status, tc_checkpoint_load, (const char *path, int n, const char *const *names, const tc_tensor *params,
      tc_optimizer *opt, int64_t *out_step), path, n, names, params, opt, out_step, CALLER)
PLAIN(tc_status, tc_checkpoint_save_with, (const char *path, int n, const char *const *names, const tc_tensor *params,
      int n_opts, tc_optimizer *const *opts, int64_t step), path, n, names, params, n_opts, opts, step, CALLER)
PLAIN(tc_status, tc_checkpoint_load_with, (const char *path, int n, const char *const *names, const tc_tensor *params,
      int n_opts, tc_optimizer *const *opts, int64_t *out_step), path, n, names, params, n_opts, opts, out_step,
      CALLER)
PLAIN(struct DLManagedTensorVersioned *, tc_to_dlpack, (tc_tensor t), t, CALLER)
PLAIN(struct DLManagedTensor *, tc_to_dlpack_legacy, (tc_tensor t), t, CALLER)
PLAIN(tc_tensor, tc_from_dlpack, (struct DLManagedTensorVersioned *m), m, CALLER)
PLAIN(tc_tensor, tc_from_dlpack_legacy, (struct DLManagedTensor *m), m, CALLER)
PLAIN(tc_nn_params *, tc_nn_params_create, (void), CALLER)
PLAIN(tc_tensor, tc_nn_add, (tc_nn_params *p, const char *name, tc_tensor init), p, name, init, CALLER)
PLAIN(tc_tensor, tc_nn_add_buffer, (tc_nn_params *p, const char *name, tc_tensor init), p, name, init, CALLER)
PLAIN(tc_tensor, tc_nn_get, (const tc_nn_params *p, const char *name), p, name, CALLER)
PLAIN(tc_status, tc_nn_cast, (tc_nn_params *p, tc_type type), p, type, CALLER)
PLAIN(tc_status, tc_nn_quantize_dynamic, (tc_nn_params *p, const char *pattern, int out_axis), p, pattern, out_axis,
      CALLER)
PLAIN(tc_status, tc_nn_load, (const tc_nn_params *p, const tc_archive *a, const char *prefix), p, a, prefix, CALLER)
PLAIN(tc_status, tc_nn_save, (const tc_nn_params *p, const char *path), p, path, CALLER)
PLAIN(tc_status, tc_nn_checkpoint_save, (const tc_nn_params *p, const char *path, int n_opts, tc_optimizer *const
      *opts, int64_t step), p, path, n_opts, opts, step, CALLER)
PLAIN(tc_status, tc_nn_checkpoint_load, (const tc_nn_params *p, const char *path, int n_opts, tc_optimizer *const
      *opts, int64_t *out_step), p, path, n_opts, opts, out_step, CALLER)
PLAIN(tc_status, tc_nn_add_linear, (tc_nn_params *p, const char *path, int64_t in, int64_t out, bool bias), p, path,
      in, out, bias, CALLER)
PLAIN(tc_tensor, tc_nn_linear, (const tc_nn_params *p, const char *path, tc_tensor x), p, path, x, CALLER)
PLAIN(tc_status, tc_nn_add_embedding, (tc_nn_params *p, const char *path, int64_t n, int64_t dim), p, path, n, dim,
      CALLER)
PLAIN(tc_tensor, tc_nn_embedding, (const tc_nn_params *p, const char *path, tc_tensor ids), p, path, ids, CALLER)
PLAIN(tc_status, tc_nn_add_layer_norm, (tc_nn_params *p, const char *path, int64_t dim), p, path, dim, CALLER)
PLAIN(tc_tensor, tc_nn_layer_norm, (const tc_nn_params *p, const char *path, tc_tensor x, double eps), p, path, x,
      eps, CALLER)
PLAIN(tc_status, tc_nn_add_rms_norm, (tc_nn_params *p, const char *path, int64_t dim), p, path, dim, CALLER)
PLAIN(tc_tensor, tc_nn_rms_norm, (const tc_nn_params *p, const char *path, tc_tensor x, double eps), p, path, x, eps,
      CALLER)
PLAIN(tc_status, tc_nn_add_group_norm, (tc_nn_params *p, const char *path, int64_t channels), p, path, channels,
      CALLER)
PLAIN(tc_tensor, tc_nn_group_norm, (const tc_nn_params *p, const char *path, tc_tensor x, int64_t groups, double eps),
      p, path, x, groups, eps, CALLER)
PLAIN(tc_status, tc_nn_add_batch_norm, (tc_nn_params *p, const char *path, int64_t channels), p, path, channels,
      CALLER)
PLAIN(tc_tensor, tc_nn_batch_norm, (const tc_nn_params *p, const char *path, tc_tensor x, double momentum, double
      eps), p, path, x, momentum, eps, CALLER)
PLAIN(tc_status, tc_nn_add_conv2d, (tc_nn_params *p, const char *path, int64_t in, int64_t out, tc_dims size, int64_t
      groups, bool bias), p, path, in, out, size, groups, bias, CALLER)
PLAIN(tc_tensor, tc_nn_conv2d, (const tc_nn_params *p, const char *path, tc_tensor x, tc_conv_options options), p,
      path, x, options, CALLER)
PLAIN(tc_status, tc_nn_add_multihead_attention, (tc_nn_params *p, const char *path, int64_t dim, bool bias), p, path,
      dim, bias, CALLER)
PLAIN(tc_tensor, tc_nn_multihead_attention, (const tc_nn_params *p, const char *path, tc_tensor query, tc_tensor key,
      tc_tensor value, tc_nn_attention_options options), p, path, query, key, value, options, CALLER)
PLAIN(tc_tensor, tc_nn_attention, (tc_tensor query, tc_tensor key, tc_tensor value, tc_nn_attention_options options),
      query, key, value, options, CALLER)
PLAIN(tc_status, tc_nn_add_rnn, (tc_nn_params *p, const char *path, int64_t in, int64_t hidden, tc_nn_rnn_options
      options), p, path, in, hidden, options, CALLER)
PLAIN(tc_status, tc_nn_add_gru, (tc_nn_params *p, const char *path, int64_t in, int64_t hidden, tc_nn_rnn_options
      options), p, path, in, hidden, options, CALLER)
PLAIN(tc_status, tc_nn_add_lstm, (tc_nn_params *p, const char *path, int64_t in, int64_t hidden, tc_nn_rnn_options
      options), p, path, in, hidden, options, CALLER)
PLAIN(tc_tensor, tc_nn_rnn, (const tc_nn_params *p, const char *path, tc_tensor x, tc_nn_rnn_state *state,
      tc_nn_rnn_options options), p, path, x, state, options, CALLER)
PLAIN(tc_tensor, tc_nn_gru, (const tc_nn_params *p, const char *path, tc_tensor x, tc_nn_rnn_state *state,
      tc_nn_rnn_options options), p, path, x, state, options, CALLER)
PLAIN(tc_tensor, tc_nn_lstm, (const tc_nn_params *p, const char *path, tc_tensor x, tc_nn_rnn_state *state,
      tc_nn_rnn_options options), p, path, x, state, options, CALLER)
PLAIN(tc_status, tc_nn_add_rnn_cell, (tc_nn_params *p, const char *path, int64_t in, int64_t hidden, bool bias), p,
      path, in, hidden, bias, CALLER)
PLAIN(tc_status, tc_nn_add_gru_cell, (tc_nn_params *p, const char *path, int64_t in, int64_t hidden, bool bias), p,
      path, in, hidden, bias, CALLER)
PLAIN(tc_status, tc_nn_add_lstm_cell, (tc_nn_params *p, const char *path, int64_t in, int64_t hidden, bool bias), p,
      path, in, hidden, bias, CALLER)
PLAIN(tc_tensor, tc_nn_rnn_cell, (const tc_nn_params *p, const char *path, tc_tensor x, tc_tensor h, bool relu), p,
      path, x, h, relu, CALLER)
PLAIN(tc_tensor, tc_nn_gru_cell, (const tc_nn_params *p, const char *path, tc_tensor x, tc_tensor h), p, path, x, h,
      CALLER)
PLAIN(tc_tensor, tc_nn_lstm_cell, (const tc_nn_params *p, const char *path, tc_tensor x, tc_nn_rnn_state *state), p,
      path, x, state, CALLER)
PLAIN(tc_status, tc_nn_add_transformer_encoder_layer, (tc_nn_params *p, const char *path, int64_t dim,
      tc_nn_transformer_options options), p, path, dim, options, CALLER)
PLAIN(tc_tensor, tc_nn_transformer_encoder_layer, (const tc_nn_params *p, const char *path, tc_tensor x,
      tc_nn_transformer_options options), p, path, x, options, CALLER)
PLAIN(tc_status, tc_nn_add_transformer_decoder_layer, (tc_nn_params *p, const char *path, int64_t dim,
      tc_nn_transformer_options options), p, path, dim, options, CALLER)
PLAIN(tc_tensor, tc_nn_transformer_decoder_layer, (const tc_nn_params *p, const char *path, tc_tensor x, tc_tensor
      memory, tc_nn_transformer_options options), p, path, x, memory, options, CALLER)
PLAIN(tc_status, tc_nn_add_transformer_encoder, (tc_nn_params *p, const char *path, int64_t dim, int n_layers,
      tc_nn_transformer_options options), p, path, dim, n_layers, options, CALLER)
PLAIN(tc_tensor, tc_nn_transformer_encoder, (const tc_nn_params *p, const char *path, tc_tensor x,
      tc_nn_transformer_options options), p, path, x, options, CALLER)
PLAIN(tc_status, tc_nn_add_transformer_decoder, (tc_nn_params *p, const char *path, int64_t dim, int n_layers,
      tc_nn_transformer_options options), p, path, dim, n_layers, options, CALLER)
PLAIN(tc_tensor, tc_nn_transformer_decoder, (const tc_nn_params *p, const char *path, tc_tensor x, tc_tensor memory,
      tc_nn_transformer_options options), p, path, x, memory, options, CALLER)
PLAIN(tc_tensor, tc_nn_dropout, (const tc_nn_params *p, tc_tensor x, double probability), p, x, probability, CALLER)
PLAIN(tc_tensor, tc_nn_uniform, (tc_dims shape, double low, double high), shape, low, high, CALLER)
PLAIN(tc_tensor, tc_nn_normal, (tc_dims shape, double mean, double std), shape, mean, std, CALLER)
PLAIN(tc_tensor, tc_nn_xavier_uniform, (tc_dims shape, double gain), shape, gain, CALLER)
PLAIN(tc_tensor, tc_nn_xavier_normal, (tc_dims shape, double gain), shape, gain, CALLER)
PLAIN(tc_tensor, tc_nn_kaiming_uniform, (tc_dims shape, double a), shape, a, CALLER)
PLAIN(tc_schedule *, tc_step_lr, (tc_optimizer *opt, int64_t step_size, double gamma), opt, step_size, gamma, CALLER)
PLAIN(tc_schedule *, tc_multi_step_lr, (tc_optimizer *opt, const int64_t *milestones, int n, double gamma), opt,
      milestones, n, gamma, CALLER)
PLAIN(tc_schedule *, tc_exponential_lr, (tc_optimizer *opt, double gamma), opt, gamma, CALLER)
PLAIN(tc_schedule *, tc_cosine_annealing_lr, (tc_optimizer *opt, int64_t t_max, double eta_min), opt, t_max, eta_min,
      CALLER)
PLAIN(tc_schedule *, tc_cosine_annealing_warm_restarts, (tc_optimizer *opt, int64_t t_0, int64_t t_mult, double
      eta_min), opt, t_0, t_mult, eta_min, CALLER)
PLAIN(tc_schedule *, tc_constant_lr, (tc_optimizer *opt, tc_constant_lr_options options), opt, options, CALLER)
PLAIN(tc_schedule *, tc_linear_lr, (tc_optimizer *opt, tc_linear_lr_options options), opt, options, CALLER)
PLAIN(tc_schedule *, tc_polynomial_lr, (tc_optimizer *opt, tc_polynomial_lr_options options), opt, options, CALLER)
PLAIN(tc_schedule *, tc_lambda_lr, (tc_optimizer *opt, double (*fn)(int64_t step, int group, void *user), void *user),
      opt, fn, user, CALLER)
PLAIN(tc_schedule *, tc_one_cycle_lr, (tc_optimizer *opt, tc_one_cycle_lr_options options), opt, options, CALLER)
PLAIN(tc_schedule *, tc_reduce_lr_on_plateau, (tc_optimizer *opt, tc_reduce_lr_on_plateau_options options), opt,
      options, CALLER)
PLAIN(tc_schedule *, tc_sequential_lr, (tc_optimizer *opt, int n, tc_schedule *const *schedules, const int64_t
      *milestones), opt, n, schedules, milestones, CALLER)
PLAIN(tc_schedule *, tc_chained_scheduler, (int n, tc_schedule *const *schedules), n, schedules, CALLER)
PLAIN(tc_status, tc_schedule_step, (tc_schedule *s), s, CALLER)
PLAIN(tc_status, tc_schedule_step_metric, (tc_schedule *s, double metric), s, metric, CALLER)
PLAIN(tc_tensor, tc_schedule_state, (const tc_schedule *s), s, CALLER)
PLAIN(tc_status, tc_schedule_set_state, (tc_schedule *s, tc_tensor state), s, state, CALLER)
PLAIN(tc_ema *, tc_ema_create, (const tc_nn_params *model, tc_ema_options options), model, options, CALLER)
PLAIN(tc_status, tc_ema_update, (tc_ema *ema), ema, CALLER)
PLAIN(tc_status, tc_training_save, (const char *path, const tc_training *training, int64_t step), path, training,
      step, CALLER)
PLAIN(tc_status, tc_training_load, (const char *path, const tc_training *training, int64_t *out_step), path, training,
      out_step, CALLER)
PLAIN(tc_compiled *, tc_compile, (tc_compile_fn fn, void *user, const tc_compile_options *options), fn, user, options,
      CALLER)
PLAIN(tc_status, tc_compiled_call, (tc_compiled *c, const tc_tensor *in, int n_in, tc_tensor *out, int n_out), c, in,
      n_in, out, n_out, CALLER)
PLAIN(tc_status, tc_compiled_call_with, (tc_compiled *c, const tc_tensor *in, int n_in, const double *num, int n_num,
      tc_tensor *out, int n_out), c, in, n_in, num, n_num, out, n_out, CALLER)
PLAIN(tc_grad_scaler *, tc_grad_scaler_create, (tc_grad_scaler_options options), options, CALLER)
PLAIN(tc_tensor, tc_grad_scaler_scale, (tc_grad_scaler *s, tc_tensor loss), s, loss, CALLER)
PLAIN(tc_status, tc_grad_scaler_unscale, (tc_grad_scaler *s, tc_optimizer *opt), s, opt, CALLER)
PLAIN(tc_status, tc_grad_scaler_step, (tc_grad_scaler *s, tc_optimizer *opt), s, opt, CALLER)
PLAIN(tc_status, tc_grad_scaler_update, (tc_grad_scaler *s), s, CALLER)
PLAIN(tc_tensor, tc_grad_scaler_found_inf, (tc_grad_scaler *s, const tc_optimizer *opt), s, opt, CALLER)
PLAIN(double, tc_grad_scaler_get_scale, (tc_grad_scaler *s), s, CALLER)
PLAIN(tc_status, tc_grad_scaler_set_scale, (tc_grad_scaler *s, double scale), s, scale, CALLER)
PLAIN(tc_tensor, tc_grad_scaler_state, (const tc_grad_scaler *s, int i), s, i, CALLER)
PLAIN(tc_status, tc_grad_scaler_use_state, (tc_grad_scaler *s, tc_tensor scale, tc_tensor growth_tracker), s, scale,
      growth_tracker, CALLER)
PLAIN(tc_status, tc_nn_add_grad_scaler, (tc_nn_params *p, const char *path, tc_grad_scaler *s), p, path, s, CALLER)
PLAIN(tc_status, tc_export, (tc_compile_fn fn, void *user, int n_inputs, const tc_export_input *inputs, const
      tc_export_options *options, const char *path), fn, user, n_inputs, inputs, options, path, CALLER)
PLAIN(tc_program_file *, tc_program_load, (const char *path), path, CALLER)
PLAIN(tc_program_file *, tc_program_load_memory, (const void *data, size_t bytes), data, bytes, CALLER)
PLAIN(tc_status, tc_program_verify, (const tc_program_file *p), p, CALLER)
PLAIN(tc_status, tc_program_run, (const tc_program_file *p, int n, const tc_program_input *inputs, tc_tensor
      *outputs), p, n, inputs, outputs, CALLER)
PLAIN(tc_status, tc_program_run_arrays, (const tc_program_file *p, int n_inputs, const tc_program_array *inputs, int
      n_outputs, const tc_program_array *outputs), p, n_inputs, inputs, n_outputs, outputs, CALLER)
PLAIN(tc_status, tc_cond, (tc_tensor pred, tc_body_fn *then, tc_body_fn *otherwise, void *user, const tc_tensor *in,
      int n_in, tc_tensor *out, int n_out), pred, then, otherwise, user, in, n_in, out, n_out, CALLER)
PLAIN(tc_status, tc_while, (tc_body_fn *test, tc_body_fn *body, void *user, const tc_tensor *carry, int n_carry,
      tc_tensor *out), test, body, user, carry, n_carry, out, CALLER)
PLAIN(tc_status, tc_scan, (tc_body_fn *body, void *user, const tc_tensor *carry, int n_carry, const tc_tensor *xs, int
      n_xs, tc_tensor *out, int n_ys, const tc_scan_options *options), body, user, carry, n_carry, xs, n_xs, out,
      n_ys, options, CALLER)
PLAIN(tc_status, tc_checkpoint, (tc_body_fn *fn, void *user, const tc_tensor *in, int n_in, tc_tensor *out, int
      n_out), fn, user, in, n_in, out, n_out, CALLER)
PLAIN(tc_status, tc_backend_load, (const char *path, const char **out_device), path, out_device, CALLER)
