// What a caller may do wrong, and what must then be true; what a handle stands for, before and
// after assigns, scopes and shutdown.
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tc/dlpack.h>
#include <tc/nn.h>

#include "tests/expect.h"

#pragma GCC diagnostic ignored "-Wunused-result"  // often it is the error that is looked at

static tc_tensor f32(int rank, int64_t a, int64_t b) {
  return tc_ones(tc_dims_of((size_t)rank, (const int64_t[]){a, b}), TC_F32);
}

// ---- Errors: each wrong call gives poison, its status and a text that names op and values; what
// follows on poison stays silent ----

static void expect_error(tc_tensor bad, tc_status want, const char *op, const char *has, const char *has_too,
                         const char *file_line) {
  const tc_error *e = tc_last_error();
  EXPECT(!tc_is_valid(bad), "%s: a wrong %s gave a value", file_line, op);
  EXPECT(e->status == want, "%s: %s: status is %s, should be %s", file_line, op, tc_status_text(e->status),
         tc_status_text(want));
  EXPECT(e->message && strstr(e->message, op), "%s: text does not name %s", file_line, op);
  EXPECT(!has || strstr(e->message, has), "%s: text has no '%s'", file_line, has);
  EXPECT(!has_too || strstr(e->message, has_too), "%s: text has no '%s'", file_line, has_too);
  EXPECT(e->site && strstr(e->site, "lifecycle.c"), "%s: site is %s", file_line, e->site ? e->site : "NULL");
  // Poison passes through without a new error, and its status comes back at the sync.
  char first[600];
  float v;
  snprintf(first, sizeof first, "%s", e->message);
  tc_tensor after = tc_sum(tc_relu(tc_add(bad, 1)), TC_ALL, false);
  EXPECT(!tc_is_valid(after), "%s: an op on poison gave a value", file_line);
  EXPECT(tc_item_f32(after, &v) == want, "%s: the sync does not say what went wrong", file_line);
  EXPECT(strcmp(first, tc_last_error()->message) == 0, "%s: the first error was not kept: %s", file_line, first);
  tc_clear_error();
  EXPECT(tc_last_error()->status == TC_OK && !*tc_last_error()->message, "%s: the error is not cleared", file_line);
}
#define EXPECT_ERROR(bad, status, op, has, has_too) \
  expect_error(bad, status, op, has, has_too, __FILE__ ":" TC_STR(__LINE__))

// The call, made on this line, failed and says so with the user's name of it.
static void expect_said(const char *op, const char *has, int line) {
  const tc_error *e = tc_last_error();
  char site[160];
  snprintf(site, sizeof site, "%s:%d", __FILE__, line);
  EXPECT(e->status != TC_OK, "line %d: %s failed without an error", line, op);
  EXPECT(e->op && strcmp(e->op, op) == 0, "line %d: the op is %s, should be %s", line, e->op, op);
  EXPECT(e->site && strcmp(e->site, site) == 0, "line %d: the site of %s is %s", line, op, e->site);
  EXPECT(strncmp(e->message, op, strlen(op)) == 0 && strstr(e->message, site) && strstr(e->message, has), "line %d: %s",
         line, e->message);
  tc_clear_error();
}
#define EXPECT_SAID(call, op, has) ((void)(call), expect_said(op, has, __LINE__))

static void bools_are_no_numbers(void) {
  static tc_tensor (*const of_numbers[])(tc_tensor, tc_tensor) = {
      tc_sub, tc_pow, tc_fmod, tc_remainder, tc_floor_divide, tc_shift_left, tc_shift_right};
  static const char *const name[] = {"sub", "pow", "fmod", "remainder", "floor_divide", "shift_left", "shift_right"};
  tc_scope scope = tc_scope_begin();
  tc_tensor b = tc_cast(tc_ones(TC_SHAPE(3), TC_F32), TC_BOOL);
  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    EXPECT(!tc_is_valid(of_numbers[i](b, b)), "%s of bools", name[i]);
    EXPECT(tc_last_error()->status == TC_ERR_DTYPE && strstr(tc_last_error()->message, name[i]), "%s",
           tc_last_error()->message);
    tc_clear_error();
    EXPECT(tc_is_valid(of_numbers[i](b, tc_cast(b, TC_I32))), "%s of a bool and an i32", name[i]);
  }
  tc_scope_end(scope);
}

// Builds without libjansson or libzip say that of files.
static void files_say(tc_tensor x, tc_tensor stale) {
  const char *name = "x", *nowhere = "/nonexistent/x";
  DLManagedTensorVersioned strange = {.version.major = 99},
                           remote = {.version.major = 1, .dl_tensor.device.device_type = kDLCUDA};
  DLManagedTensor huge = {
      .dl_tensor = {.device.device_type = kDLCPU, .ndim = TC_MAX_RANK + 1, .dtype = {kDLFloat, 32, 1}}};
  EXPECT_SAID(tc_safetensors_open(nowhere), "safetensors_open", "");
  EXPECT_SAID(tc_npz_open(nowhere), "npz_open", "");
  EXPECT_SAID(tc_archive_get(NULL, name), "archive_get", "no archive");
  EXPECT_SAID(tc_archive_load(NULL, NULL, 1, &name, &x), "archive_load", "no archive");
  EXPECT_SAID(tc_safetensors_save(nowhere, 1, &name, &x), "safetensors_save", "");
  EXPECT_SAID(tc_safetensors_save_with(nowhere, 1, &name, &x, 0, NULL), "safetensors_save_with", "");
  EXPECT_SAID(tc_npz_save(nowhere, 1, &name, &x), "npz_save", "");
  EXPECT_SAID(tc_checkpoint_save(nowhere, 1, &name, &x, NULL, 0), "checkpoint_save", "");
  EXPECT_SAID(tc_checkpoint_load(nowhere, 1, &name, &x, NULL, NULL), "checkpoint_load", "");
  EXPECT_SAID(tc_to_dlpack(stale), "to_dlpack", "released");
  EXPECT_SAID(tc_to_dlpack_legacy(stale), "to_dlpack_legacy", "released");
  EXPECT_SAID(tc_from_dlpack(&strange), "from_dlpack", "99.0");
  EXPECT_SAID(tc_from_dlpack(&remote), "from_dlpack", "device 2");
  EXPECT_SAID(tc_from_dlpack_legacy(&huge), "from_dlpack_legacy", "rank 9");
}

// A module's errors are told as the module's, though the ops that it is made of find them.
static void modules_say(tc_tensor x, tc_tensor stale) {
  tc_nn_params *p = tc_nn_params_create();
  tc_tensor row = tc_reshape(x, TC_SHAPE(1, 1, 3)), flat = tc_zeros(TC_SHAPE(3), TC_F32);
  EXPECT(tc_nn_add_linear(p, "fc", 4, 2, true) == TC_OK && tc_nn_add_embedding(p, "words", 5, 2) == TC_OK &&
             tc_nn_add_layer_norm(p, "norm", 4) == TC_OK &&
             tc_nn_add_multihead_attention(p, "attn", 3, true) == TC_OK && tc_nn_add_batch_norm(p, "bn", 4) == TC_OK &&
             tc_nn_add_conv2d(p, "conv", 4, 4, TC_SHAPE(3), 1, true) == TC_OK,
         "no modules");
  EXPECT_SAID(tc_nn_add(p, "x", stale), "nn_add", "released");
  EXPECT_SAID(tc_nn_get(p, "fc.wight"), "nn_get", "'fc.weight'");
  EXPECT_SAID(tc_nn_load(p, NULL, NULL), "nn_load", "no archive");
  EXPECT_SAID(tc_nn_save(p, "/nonexistent/x"), "nn_save", "");
  EXPECT_SAID(tc_nn_add_linear(p, "fc", 4, 2, true), "nn_add_linear", "taken");
  EXPECT_SAID(tc_nn_linear(p, "fc", x), "nn_linear", "[3]");
  EXPECT_SAID(tc_nn_add_embedding(p, "negative", -1, 2), "nn_add_embedding", "-1");
  EXPECT_SAID(tc_nn_embedding(p, "words", x), "nn_embedding", "f32");
  EXPECT_SAID(tc_nn_add_layer_norm(p, "negative", -1), "nn_add_layer_norm", "-1");
  EXPECT_SAID(tc_nn_layer_norm(p, "norm", x, 1e-5), "nn_layer_norm", "has 3");
  EXPECT_SAID(tc_nn_add_buffer(p, "x", stale), "nn_add_buffer", "released");
  EXPECT_SAID(tc_nn_cast(p, TC_BOOL), "nn_cast", "bool");
  EXPECT_SAID(tc_nn_add_rms_norm(p, "negative", -1), "nn_add_rms_norm", "-1");
  EXPECT_SAID(tc_nn_rms_norm(p, "norm", x, 1e-5), "nn_rms_norm", "has 3");
  EXPECT_SAID(tc_nn_add_group_norm(p, "negative", -1), "nn_add_group_norm", "-1");
  EXPECT_SAID(tc_nn_group_norm(p, "norm", row, 3, 1e-5), "nn_group_norm", "1 channels cannot be cut into 3 groups");
  EXPECT_SAID(tc_nn_add_batch_norm(p, "negative", -1), "nn_add_batch_norm", "-1");
  EXPECT_SAID(tc_nn_batch_norm(p, "bn", row, 0.1, 1e-5), "nn_batch_norm", "x has 1");
  EXPECT_SAID(tc_nn_add_conv2d(p, "negative", 4, 4, TC_SHAPE(-1), 1, true), "nn_add_conv2d", "-1");
  EXPECT_SAID(tc_nn_conv2d(p, "conv", x, (tc_conv_options){.groups = 1}), "nn_conv2d", "[3]");
  EXPECT_SAID(tc_nn_add_multihead_attention(p, "negative", -1, true), "nn_add_multihead_attention", "-1");
  EXPECT_SAID(tc_nn_multihead_attention(p, "attn", row, row, row, (tc_nn_attention_options){.n_heads = 2}),
              "nn_multihead_attention", "2 heads of dim 3");
  EXPECT_SAID(tc_nn_attention(x, x, x, (tc_nn_attention_options){.n_heads = 1}), "nn_attention", "query is [3]");
  EXPECT_SAID(tc_nn_dropout(p, x, 2), "nn_dropout", "2");
  EXPECT_SAID(tc_nn_uniform(TC_SHAPE(-1), 0, 1), "nn_uniform", "-1");
  EXPECT_SAID(tc_nn_normal(TC_SHAPE(-1), 0, 1), "nn_normal", "-1");
  EXPECT_SAID(tc_nn_xavier_uniform(tc_shape(flat), 1), "nn_xavier_uniform", "[3] has no fans");
  EXPECT_SAID(tc_nn_xavier_normal(tc_shape(flat), 1), "nn_xavier_normal", "[3] has no fans");
  EXPECT_SAID(tc_nn_kaiming_uniform(tc_shape(flat), 1), "nn_kaiming_uniform", "[3] has no fans");
  tc_nn_params_destroy(p);
}

static void every_call_that_fails_is_named_with_its_line(void) {
  const tc_tensor none = {0, 0};
  const int64_t zero[1] = {0}, one[1] = {1};
  float f;
  double d;
  int32_t i;
  int64_t l;
  bool b;
  const void *data;
  void *share;
  tc_scope scope = tc_scope_begin(), inner = tc_scope_begin();
  tc_tensor stale = f32(1, 3, 0);
  tc_scope_end(inner);
  tc_tensor x = f32(1, 3, 0), out[3], whole = tc_zeros(TC_SHAPE(3), TC_I64);
  tc_tensor p = tc_param(f32(1, 3, 0)), twice[2] = {p, p};
  tc_optimizer *opt = tc_sgd(&p, 1, (tc_sgd_options){.lr = 0.1});
  EXPECT_SAID(tc_set_num_threads(-1), "set_num_threads", "-1");
  EXPECT_SAID(tc_set_allocator((tc_allocator){.free = (void (*)(void *, size_t, void *))(uintptr_t)1}), "set_allocator",
              "together");
  EXPECT_SAID(tc_set_default_device("moon"), "set_default_device", "\"moon\"");
  EXPECT_SAID(tc_push_device("tc:cuda"), "push_device", "\"tc:cuda\"");
  EXPECT_SAID(tc_pop_device(), "pop_device", "");
  EXPECT_SAID(tc_to(x, "tc:moon"), "to", "\"tc:moon\"");
  EXPECT_SAID(tc_to(x, NULL), "to", "NULL");
  EXPECT_SAID(tc_sync("moon"), "sync", "\"moon\"");
  EXPECT_SAID(tc_scope_end(inner), "scope_end", "ended already");
  EXPECT_SAID(tc_keep(stale), "keep", "released");
  EXPECT_SAID(tc_retain(stale), "retain", "released");
  EXPECT_SAID(tc_release(stale), "release", "released");
  EXPECT_SAID(tc_shape(stale), "shape", "released");
  EXPECT_SAID(tc_dtype(stale), "dtype", "released");
  EXPECT_SAID(tc_numel(stale), "numel", "released");
  EXPECT_SAID(tc_device_of(stale), "device_of", "released");
  EXPECT_SAID(tc_from_host(NULL, TC_SHAPE(3), TC_F32), "from_host", "NULL");
  EXPECT_SAID(tc_from_host_strided(NULL, TC_SHAPE(3), one, TC_F32), "from_host_strided", "NULL");
  EXPECT_SAID(tc_borrow(NULL, TC_SHAPE(3), TC_F32, TC_READ_ONLY, NULL, NULL), "borrow", "NULL");
  EXPECT_SAID(tc_item_f32(stale, &f), "item", "released");
  EXPECT_SAID(tc_item_f64(x, &d), "item", "[3]");
  EXPECT_SAID(tc_item_i32(none, &i), "item", "null");
  EXPECT_SAID(tc_item_i64(stale, &l), "item", "released");
  EXPECT_SAID(tc_item_bool(tc_scalar(1), NULL), "item", "NULL");
  EXPECT_SAID(tc_item_bool(stale, &b), "item", "released");
  EXPECT_SAID(tc_item_at(tc_scalar(1), TC_F16, &d, TC_HERE), "item", "f64");
  EXPECT_SAID(tc_item_at(tc_scalar(1), (tc_type)99, &d, TC_HERE), "item", "f64");
  EXPECT_SAID(tc_map_shared(tc_scalar(1), NULL, &share), "map_shared", "out_data is NULL");
  EXPECT_SAID(tc_map_shared(tc_scalar(1), &data, NULL), "map_shared", "out_share is NULL");
  EXPECT(tc_sync_points(5, NULL) == 0, "sync points were written to NULL");
  EXPECT_SAID(tc_to_host(x, &f, sizeof f), "to_host", "12 bytes");
  EXPECT_SAID(tc_eval(1, &stale), "eval", "released");
  EXPECT_SAID(tc_map(stale), "map", "released");
  EXPECT_SAID(tc_unmap(x), "unmap", "not mapped");
  EXPECT_SAID(tc_print(stale), "print", "released");
  EXPECT_SAID(tc_format(stale), "format", "released");
  EXPECT_SAID(tc_save_npy("/nonexistent/x.npy", x), "save_npy", "/nonexistent/x.npy");
  EXPECT_SAID(tc_load_npy("/nonexistent/x.npy"), "load_npy", "/nonexistent/x.npy");
  EXPECT_SAID(tc_load_npy("/"), "load_npy", "Is a directory");
  EXPECT_SAID(tc_assign(x, f32(1, 2, 0)), "assign", "[2]");
  EXPECT_SAID(tc_assign_slice(x, zero, one, zero, x), "assign_slice", "step is 0");
  EXPECT_SAID(tc_param(whole), "param", "i64");
  EXPECT_SAID(tc_set_requires_grad(whole, true), "set_requires_grad", "i64");
  EXPECT_SAID(tc_backward(x), "backward", "[3]");
  EXPECT_SAID(tc_backward_with(x, f32(1, 2, 0), 0), "backward", "the gradient is [2], the tensor [3]");
  EXPECT_SAID(tc_grads_of(tc_sum(x, TC_ALL, false), &x, 1, out, 0), "grads_of", "tensor 0");
  EXPECT_SAID(tc_zero_grad_of(1, &stale), "zero_grad", "parameter 0");
  EXPECT_SAID(tc_sgd(twice, 2, (tc_sgd_options){.lr = 0.1}), "sgd", "parameters 0 and 1 are the same");
  EXPECT_SAID(tc_adam(twice, 2, (tc_adam_options){.lr = 0.1, TC_ADAM_DEFAULTS}), "adam", "the same");
  EXPECT_SAID(tc_adamw(&p, 1, (tc_adam_options){.lr = NAN, TC_ADAM_DEFAULTS}), "adamw", "lr");
  EXPECT_SAID(tc_rmsprop(&whole, 1, (tc_rmsprop_options){.lr = 0.1}), "rmsprop", "i64");
  EXPECT_SAID(tc_optimizer_step(NULL), "optimizer_step", "no optimizer");
  EXPECT_SAID(tc_zero_grad(NULL), "zero_grad", "no optimizer");
  EXPECT_SAID(tc_set_lr(opt, -1), "set_lr", "-1");
  EXPECT_SAID(tc_get_lr(NULL), "get_lr", "no optimizer");
  EXPECT_SAID(tc_optimizer_state(opt, 7), "optimizer_state", "7");
  EXPECT_SAID(tc_optimizer_set_state(opt, 7, x), "optimizer_set_state", "7");
  EXPECT_SAID(tc_clip_grad_norm(&p, 1, -1), "clip_grad_norm", "-1");
  EXPECT_SAID(tc_nonzero(stale), "nonzero", "released");
  EXPECT_SAID(tc_masked_select(x, whole), "masked_select", "i64");
  EXPECT_SAID(tc_masked_select(x, tc_zeros(TC_SHAPE(2), TC_BOOL)), "masked_select", "do not broadcast");
  EXPECT_SAID(tc_unique(stale), "unique", "released");
  EXPECT_SAID(tc_allclose(x, f32(1, 2, 0), 0, 0, &b), "allclose", "do not broadcast");
  EXPECT_SAID(tc_split(x, 2, 0, 3, out), "split", "2 pieces");
  EXPECT_SAID(tc_meshgrid(0, &x, out), "meshgrid", "0 operands");
  EXPECT_SAID(tc_einsum("ij", 1, &x), "einsum", "\"ij\"");
  tc_tensor there = tc_to(x, "tc:ref");
  EXPECT_SAID(tc_einsum("i,i", 2, (const tc_tensor[]){x, there}), "einsum", "tc:ref");
  EXPECT_SAID(tc_map_shared(stale, &data, &share), "map_shared", "released");
  EXPECT_SAID(tc_set_rng_state((tc_rng_state){.stream = UINT64_MAX}), "set_rng_state", "beyond");
  files_say(x, stale);
  modules_say(x, stale);
  for (int depth = 1; depth < 256; depth++) (void)tc_scope_begin();
  EXPECT_SAID(tc_scope_begin(), "scope_begin", "too deeply");
  tc_optimizer_destroy(opt);
  tc_release(p);
  tc_scope_end(scope);
  // Without the macros: the caller's code address.
  (void)(tc_add)(f32(1, 2, 0), f32(1, 3, 0));
  EXPECT(strncmp(tc_last_error()->site, "0x", 2) == 0 || strchr(tc_last_error()->site, '+'),
         "the site of a plain symbol is %s", tc_last_error()->site);
  tc_clear_error();
  (tc_release)(stale);
  EXPECT(strcmp(tc_last_error()->op, "release") == 0 && tc_last_error()->site[0], "a plain symbol: %s",
         tc_last_error()->message);
  tc_clear_error();
}

static void memory_that_a_sync_does_not_get_is_told_by_the_sync(void) {
  tc_scope s = tc_scope_begin();
  tc_tensor x = tc_add(tc_rand(TC_SHAPE(1 << 20), TC_F32), 1);
  EXPECT_OK(tc_set_memory_cap(1 << 20));
  EXPECT_SAID(tc_eval(1, &x), "eval", "no room for 4194304 bytes");
  static const float data[1 << 19];
  EXPECT_SAID(tc_from_host(data, TC_SHAPE(1 << 19), TC_F32), "from_host", "no room for 2097152 bytes");
  EXPECT_OK(tc_set_memory_cap(0));
  tc_scope_end(s);
}

static void shapes_that_do_not_fit(void) {
  tc_scope s = tc_scope_begin();
  EXPECT_ERROR(tc_add(f32(2, 2, 3), f32(2, 2, 4)), TC_ERR_SHAPE, "add", "3", "4");
  EXPECT_ERROR(tc_matmul(f32(2, 2, 3), f32(2, 4, 5)), TC_ERR_SHAPE, "matmul", "3", "4");
  EXPECT_ERROR(tc_matmul(tc_scalar(1), f32(2, 4, 5)), TC_ERR_SHAPE, "matmul", NULL, NULL);
  EXPECT_ERROR(tc_bmm(f32(2, 2, 3), f32(2, 3, 2)), TC_ERR_SHAPE, "bmm", NULL, NULL);
  EXPECT_ERROR(tc_reshape(f32(2, 2, 3), TC_SHAPE(4, 2)), TC_ERR_SHAPE, "reshape", "2", "4");
  EXPECT_ERROR(tc_reshape(f32(2, 2, 3), TC_SHAPE(-1, 4)), TC_ERR_SHAPE, "reshape", NULL, NULL);
  EXPECT_ERROR(tc_expand(f32(2, 2, 3), TC_SHAPE(4, 3)), TC_ERR_SHAPE, "expand", NULL, NULL);
  EXPECT_ERROR(tc_where(tc_zeros(TC_SHAPE(2), TC_BOOL), f32(1, 3, 0), f32(1, 2, 0)), TC_ERR_SHAPE, "where", "2", "3");
  EXPECT_ERROR(tc_linear(f32(2, 2, 3), f32(2, 5, 4), (tc_tensor){0, 0}), TC_ERR_SHAPE, "linear", "3", "4");
  EXPECT_ERROR(tc_cat(2, (const tc_tensor[]){f32(2, 2, 3), f32(2, 2, 4)}, 0), TC_ERR_SHAPE, "cat", "3", "4");
  EXPECT_ERROR(tc_stack(2, (const tc_tensor[]){f32(2, 2, 3), f32(2, 2, 4)}, 0), TC_ERR_SHAPE, "stack", NULL, NULL);
  EXPECT_ERROR(tc_max(f32(1, 0, 0), TC_ALL, false), TC_ERR_SHAPE, "max", NULL, NULL);
  EXPECT_ERROR(tc_cross_entropy(f32(2, 3, 4), tc_zeros(TC_SHAPE(2), TC_I64)), TC_ERR_SHAPE, "cross_entropy", NULL,
               NULL);
  tc_scope_end(s);
}

static tc_status status_of(tc_tensor bad) {
  tc_status st = tc_is_valid(bad) ? TC_OK : tc_last_error()->status;
  tc_clear_error();
  return st;
}

static void axes_ranks_and_arguments(void) {
  tc_scope s = tc_scope_begin();
  tc_tensor x = f32(2, 2, 3);
  const tc_tensor bad[] = {tc_sum(x, TC_AXES(2), false),
                           tc_sum(x, TC_AXES(-3), false),
                           tc_sum(x, TC_AXES(0, 0), false),
                           tc_permute(x, TC_AXES(0, 0)),
                           tc_permute(x, TC_AXES(0)),
                           tc_transpose(x, 0, 2),
                           tc_softmax(x, 5),
                           tc_unsqueeze(x, 4),
                           tc_squeeze(x, TC_AXES(7)),
                           tc_slice(x, 2, 0, 1, 1),
                           tc_slice(x, 0, 0, 1, 0),
                           tc_select(x, 0, 2),
                           tc_select(x, 0, -3),
                           tc_cumsum(x, 2),
                           tc_argmax(x, -3, false),
                           tc_gather(x, 2, tc_zeros(TC_SHAPE(1, 1), TC_I64)),
                           tc_arange(0, 1, 0, TC_F32),
                           tc_arange(0, NAN, 1, TC_F32),
                           tc_zeros(TC_SHAPE(-2), TC_F32),
                           tc_zeros(TC_SHAPE(2), TC_N_TYPES),
                           tc_reshape(x, TC_SHAPE(-1, -1)),
                           tc_repeat_interleave(x, -1, 0),
                           tc_dropout(x, 1.5),
                           tc_linspace(0, 1, -1, TC_F32),
                           tc_cat(0, NULL, 0),
                           tc_randint(3, 3, TC_SHAPE(2), TC_I64),
                           tc_pad(x, TC_SHAPE(0, -5), TC_SHAPE(0, 0), 0)};
  for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) EXPECT(!tc_is_valid(bad[k]), "wrong call %zu gave a value", k);
  tc_clear_error();
  tc_dims nine = tc_dims_of(9, (const int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1});
  EXPECT(status_of(tc_zeros(nine, TC_F32)) != TC_OK, "rank 9");
  tc_dims eight = tc_dims_of(8, (const int64_t[]){1, 1, 1, 1, 1, 1, 1, 1});
  tc_tensor full = tc_zeros(eight, TC_F32);
  EXPECT(tc_is_valid(full), "rank 8 is allowed");
  EXPECT(status_of(tc_unsqueeze(full, 0)) != TC_OK, "rank 9 by unsqueeze");
  EXPECT(status_of(tc_stack(1, &full, 0)) != TC_OK, "rank 9 by stack");
  tc_scope_end(s);
}

static double item(tc_tensor x) {
  double v = NAN;
  EXPECT_OK(tc_item_f64(x, &v));
  return v;
}

// PyTorch 2.15: a scalar has one axis to be named, 0 or -1.
static void a_scalar_has_one_axis(void) {
  tc_scope s = tc_scope_begin();
  for (int axis = -1; axis <= 0; axis++) {
    tc_dims axes = TC_AXES(axis);
    tc_tensor x = tc_scalar(3);
    const tc_tensor same[] = {tc_sum(x, axes, false),     tc_sum(x, axes, true),        tc_prod(x, axes, false),
                              tc_mean(x, axes, false),    tc_max(x, axes, false),       tc_min(x, axes, true),
                              tc_norm(x, 2, axes, false), tc_logsumexp(x, axes, false), tc_cumsum(x, axis),
                              tc_cumprod(x, axis),        tc_cummax(x, axis),           tc_flip(x, axes),
                              tc_squeeze(x, axes)};
    for (size_t k = 0; k < sizeof same / sizeof *same; k++)
      EXPECT(tc_shape(same[k]).rank == 0 && item(same[k]) == 3, "call %zu: %g", k, item(same[k]));
    EXPECT(
        item(tc_softmax(x, axis)) == 1 && item(tc_log_softmax(x, axis)) == 0 && tc_shape(tc_softmax(x, axis)).rank == 0,
        "softmax");
    EXPECT(item(tc_argmax(x, axis, false)) == 0 && tc_shape(tc_argmin(x, axis, true)).rank == 0, "argmax");
    EXPECT(isnan(item(tc_var(x, axes, 1, false))) && item(tc_std(x, axes, 0, false)) == 0, "var and std");
    EXPECT(item(tc_any(x, axes, false)) == 1 && item(tc_all(x, axes, true)) == 1, "any and all");
    tc_tensor p = tc_param(x);
    EXPECT_OK(tc_backward(tc_mul(tc_cumsum(tc_sum(p, axes, false), axis), 2)));
    EXPECT(item(tc_grad(p)) == 2, "the gradient is %g", item(tc_grad(p)));
    tc_release(p);
  }
  const tc_tensor bad[] = {tc_sum(tc_scalar(3), TC_AXES(1), false),
                           tc_sum(tc_scalar(3), TC_AXES(-2), false),
                           tc_sum(tc_scalar(3), TC_AXES(0, -1), false),
                           tc_softmax(tc_scalar(3), 1),
                           tc_argmax(tc_scalar(3), -2, false),
                           tc_cat(1, (const tc_tensor[]){tc_scalar(3)}, 1),
                           tc_select(tc_scalar(3), 0, 1),
                           tc_layer_norm(tc_scalar(3), f32(1, 1, 0), f32(1, 1, 0), 0)};
  for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) EXPECT(!tc_is_valid(bad[k]), "wrong call %zu gave a value", k);
  tc_clear_error();
  tc_scope_end(s);
}

// PyTorch 2.15: "value cannot be converted to type int64_t without overflow"; fractions are cut
// off. Nothing wraps, u8 neither, where PyTorch takes -255 to -1.
static void numbers_that_do_not_fit_the_type(void) {
  static const struct {
    tc_type type;
    double value, want;  // NAN: an error
  } cases[] = {{TC_I64, INFINITY, NAN}, {TC_I64, NAN, NAN}, {TC_I64, 0x1p63, NAN},       {TC_I64, -0x1p63, -0x1p63},
               {TC_I32, 0x1p31, NAN},   {TC_I32, 3.7, 3},   {TC_I32, -3.7, -3},          {TC_U8, 256, NAN},
               {TC_U8, 255.5, 255},     {TC_U8, -1, NAN},   {TC_U8, -255, NAN},          {TC_U8, -256, NAN},
               {TC_U8, -0.5, 0},        {TC_I8, 128, NAN},  {TC_I8, -128, -128},         {TC_I16, -32769, NAN},
               {TC_BOOL, INFINITY, 1},  {TC_BOOL, 300, 1},  {TC_F32, INFINITY, INFINITY}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    tc_scope s = tc_scope_begin();
    double value = cases[k].value, want = cases[k].want;
    tc_tensor x = tc_zeros(TC_SHAPE(1), cases[k].type), on = tc_ones(TC_SHAPE(1), TC_BOOL);
    tc_tensor made[5] = {tc_full(TC_SHAPE(1), value, cases[k].type), tc_full_like(x, value),
                         tc_masked_fill(x, on, value), tc_slice(tc_pad(x, TC_SHAPE(1), TC_SHAPE(0), value), 0, 0, 1, 1),
                         x};
    int n = 4;
    if (value == trunc(value) && fabs(value) < 0x1p62)
      made[n++] = tc_full_int(TC_SHAPE(1), (int64_t)value, cases[k].type);
    for (int i = 0; i < n; i++) {
      EXPECT(tc_is_valid(made[i]) == !isnan(want), "case %zu, function %d", k, i);
      if (!isnan(want)) EXPECT(item(made[i]) == want, "case %zu, function %d gives %g", k, i, item(made[i]));
    }
    EXPECT(tc_last_error()->status == (isnan(want) ? TC_ERR_ARG : TC_OK), "case %zu", k);
    tc_clear_error();
    tc_scope_end(s);
  }
  tc_scope c = tc_scope_begin();
  tc_tensor byte = tc_full_int(TC_SHAPE(1), 200, TC_U8), small = tc_full_int(TC_SHAPE(1), -100, TC_I8);
  const float wide[] = {NAN, INFINITY, -INFINITY, 300.f, -5.f};
  int8_t bytes[5];
  uint8_t unsigned_bytes[5];
  tc_tensor wide_values = tc_from_host(wide, TC_SHAPE(5), TC_F32);
  EXPECT_OK(tc_to_host(tc_cast(wide_values, TC_I8), bytes, 5));
  EXPECT_OK(tc_to_host(tc_cast(wide_values, TC_U8), unsigned_bytes, 5));
  EXPECT(memcmp(bytes, (const int8_t[]){0, 127, -128, 127, -5}, 5) == 0,
         "floats beyond i8 become its nearest bound, NaN 0");
  EXPECT(memcmp(unsigned_bytes, (const uint8_t[]){0, 255, 0, 255, 0}, 5) == 0, "and of u8");
  EXPECT(item(tc_clamp(byte, 0, 300)) == 200 && item(tc_clamp(byte, -5, 220)) == 200 &&
             item(tc_clamp(byte, -5, 100)) == 100,
         "bounds beyond u8");
  EXPECT(item(tc_clamp(small, -300, 300)) == -100 && item(tc_clamp(small, -INFINITY, -101)) == -101,
         "bounds beyond i8");
  EXPECT(item(tc_clamp(tc_full_int(TC_SHAPE(1), 7, TC_I64), -1e300, 0x1p63)) == 7, "bounds beyond i64");
  tc_scope_end(c);
  static const struct {
    tc_type type;
    int64_t low, high;
    bool fits;
  } draws[] = {{TC_U8, 0, 256, true},
               {TC_U8, 0, 257, false},
               {TC_U8, -1, 5, false},
               {TC_I8, -128, 128, true},
               {TC_I8, -129, 0, false},
               {TC_I8, 0, 129, false},
               {TC_BOOL, 0, 2, true},
               {TC_BOOL, 0, 3, false},
               {TC_I32, 0, INT64_C(1) << 31, true},
               {TC_I32, 0, (INT64_C(1) << 31) + 1, false}};
  for (size_t k = 0; k < sizeof draws / sizeof *draws; k++) {
    tc_scope s = tc_scope_begin();
    EXPECT(tc_is_valid(tc_randint(draws[k].low, draws[k].high, TC_SHAPE(2), draws[k].type)) == draws[k].fits,
           "draw %zu", k);
    tc_clear_error();
    tc_scope_end(s);
  }
}

static void types_that_do_not_fit(void) {
  tc_scope s = tc_scope_begin();
  EXPECT_ERROR(tc_bitwise_and(f32(1, 2, 0), f32(1, 2, 0)), TC_ERR_DTYPE, "bitwise_and", "f32", NULL);
  EXPECT_ERROR(tc_bitwise_not(f32(1, 2, 0)), TC_ERR_DTYPE, "bitwise_not", "f32", NULL);
  EXPECT_ERROR(tc_where(f32(1, 2, 0), f32(1, 2, 0), f32(1, 2, 0)), TC_ERR_DTYPE, "where", "f32", NULL);
  EXPECT_ERROR(tc_gather(f32(1, 2, 0), 0, f32(1, 2, 0)), TC_ERR_DTYPE, "gather", "f32", NULL);
  EXPECT_ERROR(tc_index_select(tc_scalar(1), 0, tc_zeros(TC_SHAPE(2), TC_I64)), TC_ERR_SHAPE, "index_select",
               "one index", NULL);
  EXPECT_ERROR(tc_gather(tc_scalar(1), 1, tc_zeros(TC_SCALAR, TC_I64)), TC_ERR_ARG, "gather", "axis 1", NULL);
  EXPECT_ERROR(tc_index_select(f32(1, 2, 0), 0, f32(1, 2, 0)), TC_ERR_DTYPE, "index_select", "f32", NULL);
  EXPECT_ERROR(tc_embedding(f32(2, 2, 2), f32(1, 2, 0)), TC_ERR_DTYPE, "embedding", NULL, NULL);
  tc_scope_end(s);
}

static void extents_whose_product_overflows(void) {
  tc_scope s = tc_scope_begin();
  const int64_t huge = INT64_C(1) << 62;
  float v;
  EXPECT(!tc_is_valid(tc_zeros(TC_SHAPE(huge, 4), TC_F32)), "2^64 elements");
  EXPECT(!tc_is_valid(tc_zeros(TC_SHAPE(INT64_MAX, INT64_MAX, INT64_MAX), TC_F64)), "2^189 elements");
  EXPECT(!tc_is_valid(tc_zeros(TC_SHAPE(INT64_MAX / 4), TC_F64)), "the bytes overflow, not the elements");
  EXPECT(!tc_is_valid(tc_expand(tc_scalar(1), TC_SHAPE(huge, 8))), "expand");
  EXPECT(!tc_is_valid(tc_eye(huge, huge, TC_F32)), "eye");
  EXPECT(!tc_is_valid(tc_tile(f32(1, 4, 0), TC_SHAPE(huge))), "tile");
  EXPECT(!tc_is_valid(tc_pad(f32(1, 4, 0), TC_SHAPE(INT64_MAX), TC_SHAPE(INT64_MAX), 0)), "pad");
  EXPECT(!tc_is_valid(
             tc_outer(tc_zeros(TC_SHAPE(INT64_C(1) << 33), TC_F32), tc_zeros(TC_SHAPE(INT64_C(1) << 33), TC_F32))),
         "outer");
  EXPECT(!tc_is_valid(tc_repeat_interleave(f32(1, 4, 0), INT64_MAX, 0)), "repeat_interleave");
  tc_clear_error();
  tc_tensor much = tc_zeros(TC_SHAPE(INT64_C(1) << 45), TC_F32);  // countable, but no machine has it
  EXPECT(tc_item_f32(tc_select(tc_cumsum(much, 0), 0, 5), &v) != TC_OK, "128 TiB were had");
  tc_clear_error();
  EXPECT(tc_is_valid(tc_zeros(TC_SHAPE(0, INT64_C(1) << 40), TC_F32)), "no elements is a size");
  EXPECT_OK(tc_set_memory_cap(1 << 20));
  EXPECT(tc_eval(1, (const tc_tensor[]){tc_add(tc_rand(TC_SHAPE(1 << 20), TC_F32), 1)}) == TC_ERR_MEMORY,
         "4 MiB under a cap of 1");
  EXPECT_OK(tc_set_memory_cap(0));
  tc_clear_error();
  EXPECT_OK(tc_item_f32(tc_sum(f32(1, 8, 0), TC_ALL, false), &v));
  EXPECT(v == 8, "after all that 8 ones sum to %g", (double)v);
  tc_scope_end(s);
}

#define EXPECT_INDEX(call, op, has, line) \
  do { \
    EXPECT((call) == TC_ERR_INDEX, "an index out of range"); \
    expect_said(op, has, line); \
  } while (0)

// The plan is found again, compiled for the first line: an error names the line of this run.
static void an_index_out_of_range_names_the_users_call(void) {
  static const int64_t good[2] = {0, 2}, bad[2] = {1, 3};
  tc_scope s = tc_scope_begin();
  float v[16];
  tc_tensor table = f32(2, 3, 2), scores = f32(2, 2, 3), rows[4];
  for (int round = 0; round < 2; round++) {
    rows[0] = tc_embedding(table, tc_from_host(good, TC_SHAPE(2), TC_I64));
    EXPECT_OK(tc_to_host(rows[0], v, 16));
    int line = __LINE__ + 1;
    rows[1] = tc_embedding(table, tc_from_host(bad, TC_SHAPE(2), TC_I64));
    EXPECT_INDEX(tc_to_host(rows[1], v, 16), "embedding", "index 3 at position 1 is out of range for extent 3", line);
    EXPECT_INDEX(tc_to_host(rows[1], v, 16), "embedding", "index 3", line);  // a recipe of the run that failed
    // and what is made of it
    EXPECT_INDEX(tc_to_host(tc_sum(rows[1], TC_AXES(0), false), v, 8), "embedding", "index 3", line);
    rows[2] = tc_embedding(table, tc_from_host(bad, TC_SHAPE(2), TC_I64));
    EXPECT_INDEX(tc_to_host(rows[2], v, 16), "embedding", "index 3", __LINE__ - 1);
  }
  tc_tensor loss = tc_cross_entropy(scores, tc_from_host(bad, TC_SHAPE(2), TC_I64));
  EXPECT_INDEX(tc_item_f32(loss, v), "cross_entropy", "index 3 at position 1", __LINE__ - 1);
  static const int64_t wrong[][2] = {{1, -1}, {0, -3}, {2, -4}, {0, INT64_MIN}, {0, INT64_MAX}};
  static const char *const said[] = {"index -1 at position 1 is out of range for extent 3", "index -3", "index -4",
                                     "index -9223372036854775808", "index 9223372036854775807"};
  for (int i = 0; i < 5; i++) {
    loss = tc_cross_entropy(scores, tc_from_host(wrong[i], TC_SHAPE(2), TC_I64));
    EXPECT_INDEX(tc_item_f32(loss, v), "cross_entropy", said[i], __LINE__ - 1);
  }
  tc_tensor row = tc_embedding(table, tc_full_int(TC_SHAPE(1), INT64_MAX, TC_I64));
  EXPECT_INDEX(tc_eval(1, &row), "embedding", "index 9223372036854775807", __LINE__ - 1);
  tc_tensor near = tc_take_along_dim(scores, tc_full_int(TC_SHAPE(2, 1), -4, TC_I32), 1);
  EXPECT_INDEX(tc_eval(1, &near), "take_along_dim", "index -4 at position 0", __LINE__ - 1);
  tc_tensor added = tc_index_add(scores, 1, tc_full_int(TC_SHAPE(1), 5, TC_I32), f32(2, 2, 1));
  EXPECT_INDEX(tc_eval(1, &added), "index_add", "index 5", __LINE__ - 1);
  // Enough work for a team: a worker's finding is told by this thread.
  tc_tensor ids = tc_full_int(TC_SHAPE(1 << 16), 3, TC_I64), more = tc_exp(tc_rand(TC_SHAPE(1 << 20), TC_F32));
  tc_tensor much = tc_embedding(table, ids);
  EXPECT_INDEX(tc_eval(2, (const tc_tensor[]){much, more}), "embedding", "index 3", __LINE__ - 1);
  tc_scope_end(s);
}

static void an_index_out_of_range_spoils_nothing(void) {
  tc_scope s = tc_scope_begin();
  float v[3] = {0};
  tc_tensor x = tc_param(tc_from_host((const float[]){1, 2, 3}, TC_SHAPE(3), TC_F32));
  tc_tensor good = tc_mul(x, 2), index = tc_from_host((const int64_t[]){0, 3}, TC_SHAPE(2), TC_I64);
  tc_tensor bad = tc_index_select(x, 0, index);
  EXPECT(tc_is_valid(bad), "an index is data: it is not looked at when recording");
  (void)tc_assign(x, tc_add(x, tc_sum(bad, TC_ALL, false)));
  EXPECT(tc_eval(1, &bad) == TC_ERR_INDEX, "index 3 of 3");
  EXPECT(strstr(tc_last_error()->message, "index_select") && strstr(tc_last_error()->message, "3"),
         "text names op and value");
  tc_clear_error();
  EXPECT_OK(tc_to_host(x, v, sizeof v));
  EXPECT(v[0] == 1 && v[1] == 2 && v[2] == 3, "a failed run left %g %g %g", (double)v[0], (double)v[1], (double)v[2]);
  tc_clear_error();
  tc_tensor again = tc_mul(x, 2);
  (void)good;
  EXPECT_OK(tc_to_host(again, v, sizeof v));
  EXPECT(v[2] == 6, "the library is not usable afterwards");
  EXPECT(tc_to_host(tc_gather(x, 0, tc_from_host((const int64_t[]){-4}, TC_SHAPE(1), TC_I64)), v, 4) == TC_ERR_INDEX,
         "gather -4 of 3");
  tc_clear_error();
  EXPECT(tc_to_host(tc_embedding(f32(2, 3, 1), tc_full_int(TC_SHAPE(1), 3, TC_I32)), v, 4) == TC_ERR_INDEX,
         "embedding 3 of 3");
  tc_clear_error();
  EXPECT_OK(tc_to_host(tc_gather(x, 0, tc_from_host((const int64_t[]){-3}, TC_SHAPE(1), TC_I64)), v, 4));
  EXPECT(v[0] == 1, "-3 of 3 is the first");
  tc_release(x);
  tc_scope_end(s);
}

// ---- Handles ----

static void stale_and_null_handles(void) {
  float v;
  tc_scope s = tc_scope_begin();
  tc_tensor x = f32(1, 3, 0);
  tc_scope_end(s);
  s = tc_scope_begin();
  tc_tensor other = tc_full(TC_SHAPE(3), 7, TC_F32);  // may get x's slot
  EXPECT(!tc_is_valid(x), "a handle outlives its scope");
  EXPECT_ERROR(tc_add(x, 1), TC_ERR_HANDLE, "add", NULL, NULL);
  const tc_tensor none = {0, 0}, garbage = {123456789, 3}, wild = {UINT32_C(0x7fffffff), UINT32_MAX};
  EXPECT_ERROR(tc_add(none, 1), TC_ERR_HANDLE, "add", NULL, NULL);
  EXPECT_ERROR(tc_add(garbage, 1), TC_ERR_HANDLE, "add", NULL, NULL);
  EXPECT_ERROR(tc_add(wild, 1), TC_ERR_HANDLE, "add", NULL, NULL);
  EXPECT(tc_item_f32(x, &v) == TC_ERR_HANDLE, "reading a stale handle");
  tc_clear_error();
  EXPECT(tc_to_host((tc_tensor){0, 0}, &v, 4) == TC_ERR_HANDLE, "reading no tensor");
  tc_clear_error();
  EXPECT(tc_assign(x, other) == TC_ERR_HANDLE, "assigning to a stale handle");
  tc_clear_error();
  EXPECT(!tc_map((tc_tensor){0, 0}), "mapping no tensor");
  tc_clear_error();
  tc_release((tc_tensor){0, 0}), tc_release(x), tc_keep(x);
  tc_clear_error();
  EXPECT(tc_shape((tc_tensor){0, 0}).rank <= 0 && tc_numel(x) <= 0, "no tensor has a shape");
  tc_clear_error();
  EXPECT_OK(tc_item_f32(tc_sum(other, TC_ALL, false), &v));
  EXPECT(v == 21, "a stale handle damaged another: %g", (double)v);
  EXPECT(tc_item_f32(other, &v) != TC_OK, "an item of three elements");
  tc_clear_error();
  EXPECT(tc_to_host(other, &v, 4) != TC_OK, "4 bytes for 12");
  tc_clear_error();
  tc_scope_end(s);
}

static void scopes_keep_retain_release(void) {
  float v = 0;
  tc_scope outer = tc_scope_begin(), inner = tc_scope_begin();
  tc_tensor kept = tc_keep(tc_add(f32(0, 0, 0), 1)), retained = tc_retain(tc_add(f32(0, 0, 0), 2)),
            dropped = tc_add(f32(0, 0, 0), 3);
  tc_scope_end(inner);
  EXPECT(tc_is_valid(kept) && tc_is_valid(retained) && !tc_is_valid(dropped), "kept %d, retained %d, dropped %d",
         tc_is_valid(kept), tc_is_valid(retained), tc_is_valid(dropped));
  EXPECT_OK(tc_item_f32(tc_add(kept, retained), &v));
  EXPECT(v == 5, "%g", (double)v);
  tc_scope_begin();  // left open: its parent closes it
  tc_tensor open = f32(0, 0, 0);
  tc_scope_end(outer);
  EXPECT(!tc_is_valid(kept) && !tc_is_valid(open) && tc_is_valid(retained), "the outer scope's end");
  EXPECT_OK(tc_item_f32(retained, &v));
  EXPECT(v == 3, "%g", (double)v);
  tc_release(retained);
  EXPECT(!tc_is_valid(retained), "released");
}

static void devices_are_checked(void) {
  tc_scope s = tc_scope_begin();
  float v = 0;
  EXPECT(tc_set_default_device("tc:nonesuch") == TC_ERR_DEVICE, "an unknown device");
  EXPECT(strstr(tc_last_error()->message, "nonesuch") != NULL, "text names the device");
  tc_clear_error();
  EXPECT(strcmp(tc_get_default_device(), "tc:cpu") == 0, "the default changed to %s", tc_get_default_device());
  tc_tensor here = f32(1, 2, 0);
  EXPECT_OK(tc_push_device("tc:ref"));
  tc_tensor there = f32(1, 2, 0);
  EXPECT_OK(tc_pop_device());
  EXPECT(strcmp(tc_device_of(there), "tc:ref") == 0 && strcmp(tc_get_default_device(), "tc:cpu") == 0, "push and pop");
  EXPECT_ERROR(tc_add(here, there), TC_ERR_DEVICE, "add", "tc:cpu", "tc:ref");
  EXPECT_OK(tc_item_f32(tc_sum(tc_add(here, tc_to(there, "tc:cpu")), TC_ALL, false), &v));
  EXPECT(v == 4, "%g", (double)v);
  tc_scope_end(s);
}

// ---- Values ----

static void a_slice_keeps_its_value_when_its_source_is_assigned(void) {
  for (int early = 0; early < 2; early++) {  // pending, or already stored
    tc_scope s = tc_scope_begin();
    float v[4], w[2], u[4];
    tc_tensor x = tc_from_host((const float[]){1, 2, 3, 4}, TC_SHAPE(4), TC_F32), part = tc_slice(x, 0, 1, 3, 1),
              twice = tc_mul(x, 2), same = tc_reshape(x, TC_SHAPE(2, 2));
    if (early) EXPECT_OK(tc_eval(2, (const tc_tensor[]){x, part}));
    EXPECT_OK(tc_assign(x, tc_add(x, 10)));
    EXPECT_OK(tc_assign_slice(x, (const int64_t[]){0}, (const int64_t[]){4}, (const int64_t[]){2}, tc_scalar(0)));
    EXPECT_OK(tc_to_host(x, v, sizeof v));
    EXPECT_OK(tc_to_host(part, w, sizeof w));
    EXPECT_OK(tc_to_host(twice, u, sizeof u));
    EXPECT(v[0] == 0 && v[1] == 12 && v[2] == 0 && v[3] == 14, "assigned: %g %g %g %g", (double)v[0], (double)v[1],
           (double)v[2], (double)v[3]);
    EXPECT(w[0] == 2 && w[1] == 3, "the slice changed: %g %g", (double)w[0], (double)w[1]);
    EXPECT(u[0] == 2 && u[3] == 8, "the product changed: %g %g", (double)u[0], (double)u[3]);
    EXPECT_OK(tc_to_host(same, v, sizeof v));
    EXPECT(v[0] == 1 && v[3] == 4, "the reshape changed: %g %g", (double)v[0], (double)v[3]);
    EXPECT(tc_assign(x, tc_zeros(TC_SHAPE(5), TC_F32)) == TC_ERR_SHAPE, "another shape");
    tc_clear_error();
    tc_tensor y = tc_mul(x, 1);
    EXPECT_OK(tc_assign(x, tc_flip(x, TC_AXES(0))));  // reads and writes the same memory
    EXPECT_OK(tc_to_host(x, v, sizeof v));
    EXPECT_OK(tc_to_host(y, u, sizeof u));
    EXPECT(v[0] == 14 && v[1] == 0 && v[2] == 12 && v[3] == 0 && u[1] == 12 && u[3] == 14,
           "flipped in place: %g %g %g %g", (double)v[0], (double)v[1], (double)v[2], (double)v[3]);
    tc_scope_end(s);
  }
}

static int n_released;
static void count_release(void *arg) {
  n_released += arg == &n_released;
}

static void borrowed_memory_is_the_callers(void) {
  float mine[4] = {1, 2, 3, 4}, theirs[4] = {1, 2, 3, 4}, v = 0;
  tc_scope s = tc_scope_begin();
  tc_tensor r = tc_borrow(mine, TC_SHAPE(4), TC_F32, TC_READ_ONLY, count_release, &n_released),
            w = tc_borrow(theirs, TC_SHAPE(4), TC_F32, TC_WRITABLE, NULL, NULL);
  EXPECT_OK(tc_assign(r, tc_mul(r, 10)));
  EXPECT_OK(tc_assign(w, tc_mul(w, 10)));
  EXPECT_OK(tc_sync(NULL));
  EXPECT(mine[3] == 4, "read-only memory was written: %g", (double)mine[3]);
  EXPECT(theirs[3] == 40, "an assign did not land: %g", (double)theirs[3]);
  EXPECT_OK(tc_item_f32(tc_sum(r, TC_ALL, false), &v));
  EXPECT(v == 100, "%g", (double)v);
  const float *view = tc_map(w);
  tc_tensor same = tc_detach(w);
  EXPECT_OK(tc_assign(w, tc_add(w, 1)));
  EXPECT_OK(tc_sync(NULL));
  EXPECT(view && view[3] == 40 && theirs[3] == 41, "a view changes with the caller's memory: %g, %g",
         view ? (double)view[3] : 0, (double)theirs[3]);
  EXPECT_OK(tc_unmap(w));
  EXPECT_OK(tc_item_f32(tc_sum(same, TC_ALL, false), &v));
  EXPECT(v == 100, "%g", (double)v);
  tc_scope_end(s);
  EXPECT_OK(tc_sync(NULL));
  EXPECT(n_released == 1, "released %d times", n_released);
  tc_scope t = tc_scope_begin();
  view = tc_map(tc_add(f32(1, 3, 0), 1));
  EXPECT(view && view[2] == 2, "mapped");
  tc_scope_end(t);
}

// Nobody else becomes its owner, and where nobody sees its old content nothing is taken to keep
// that.
static void writable_memory_has_one_owner(void) {
  enum { N = 1 << 18 };
  static float mine[N], read[N];
  float v = 0;
  tc_scope s = tc_scope_begin();
  tc_tensor w = tc_borrow(mine, TC_SHAPE(N), TC_F32, TC_WRITABLE, NULL, NULL), same = tc_detach(w),
            turned = tc_reshape(w, TC_SHAPE(N / 2, 2));
  for (int i = 0; i < 2; i++) {  // recorded again from what a run has left
    EXPECT_OK(tc_item_f32(tc_sum(same, TC_ALL, false), &v));
    EXPECT_OK(tc_item_f32(tc_sum(turned, TC_ALL, false), &v));
  }
  EXPECT_OK(tc_assign(same, tc_full(TC_SHAPE(N), 7, TC_F32)));
  EXPECT_OK(tc_assign(turned, tc_full(TC_SHAPE(N / 2, 2), 8, TC_F32)));
  EXPECT_OK(tc_sync(NULL));
  EXPECT(mine[5] == 0, "an assign to another tensor landed in the caller's memory: %g", (double)mine[5]);
  EXPECT_OK(tc_assign(w, tc_full(TC_SHAPE(N), 9, TC_F32)));
  EXPECT_OK(tc_sync(NULL));
  EXPECT(mine[5] == 9, "an assign did not land: %g", (double)mine[5]);
  EXPECT_OK(tc_item_f32(tc_select(same, 0, 5), &v));
  EXPECT(v == 7, "%g", (double)v);
  tc_scope_end(s);
  s = tc_scope_begin();
  w = tc_borrow(mine, TC_SHAPE(N), TC_F32, TC_WRITABLE, NULL, NULL);
  tc_trim();
  EXPECT_OK(tc_set_memory_cap(tc_memory_stats().live_bytes + sizeof mine + sizeof mine / 2));
  tc_scope inner = tc_scope_begin();
  EXPECT_OK(tc_assign(w, tc_add(w, 1)));
  tc_scope_end(inner);  // else the sum, which is made of the old content, may be asked for yet
  EXPECT_OK(tc_sync(NULL));
  tc_trim();
  EXPECT_OK(tc_set_memory_cap(tc_memory_stats().live_bytes + 4096));
  EXPECT_OK(tc_to_host(w, read, sizeof read));
  EXPECT_OK(tc_set_memory_cap(0));
  EXPECT(mine[5] == 10 && read[5] == 10, "%g and %g", (double)mine[5], (double)read[5]);
  tc_scope_end(s);
}

static tc_tensor asked_about;
static void ask_and_count(void *arg) {
  EXPECT(!tc_is_valid(asked_about) && tc_last_error()->status == TC_ERR_STATE,
         "a callback at a thread's end asks for a tensor");
  count_release(arg);
}

static void *assign_and_end(void *memory) {
  asked_about = tc_borrow(memory, TC_SHAPE(4), TC_F32, TC_WRITABLE, ask_and_count, &n_released);
  EXPECT_OK(tc_set_requires_grad(asked_about, true));
  // it has a gradient, which goes with it
  EXPECT_OK(tc_backward(tc_sum(tc_mul(asked_about, asked_about), TC_ALL, false)));
  EXPECT_OK(tc_assign(asked_about, tc_detach(tc_add(asked_about, 1))));
  return NULL;
}

// An assign reaches the caller's memory though nobody has the handle any more, whatever takes its
// slot; of a thread that ends with it pending it is given up.
static void what_is_released_is_assigned_yet(void) {
  enum { N = 1 << 16 };
  static float mine[4];
  float last = 0;
  pthread_t t;
  n_released = 0;
  for (int early = 0; early < 2; early++) {
    tc_scope s = tc_scope_begin();
    tc_tensor w = tc_borrow(mine, TC_SHAPE(4), TC_F32, TC_WRITABLE, count_release, &n_released);
    EXPECT_OK(tc_assign(w, tc_add(w, 1)));
    EXPECT_OK(tc_assign(w, tc_add(w, 1)));
    if (early) tc_release(w);
    EXPECT(tc_is_valid(w) == !early, "a handle after its release");
    tc_scope_end(s);
    EXPECT(!tc_is_valid(w), "a handle after its scope");
    s = tc_scope_begin();
    tc_tensor others[4];
    for (int i = 0; i < 4; i++) others[i] = tc_full(TC_SHAPE(N), i, TC_F32);
    EXPECT_OK(tc_eval(4, others));
    EXPECT(mine[3] == (float)(2 * early + 2) && n_released == early + 1, "%g, released %d times", (double)mine[3],
           n_released);
    for (int i = 0; i < 4; i++) {
      EXPECT_OK(tc_item_f32(tc_select(others[i], 0, N - 1), &last));
      EXPECT(last == (float)i, "%g where %d was made", (double)last, i);
    }
    tc_scope_end(s);
  }
  EXPECT(pthread_create(&t, NULL, assign_and_end, mine) == 0 && pthread_join(t, NULL) == 0, "no thread");
  EXPECT(n_released == 3 && mine[3] == 4, "released %d times, %g", n_released, (double)mine[3]);
}

// Memory that an assign shares is written by neither; that of the caller is not shared.
static void what_is_assigned_is_not_copied(void) {
  enum { N = 1 << 18 };
  static float mine[N];
  float a0 = 0, b0 = 0, c0 = 0;
  tc_scope scope = tc_scope_begin();
  tc_tensor a = tc_full(TC_SHAPE(N), 1, TC_F32), b = tc_zeros(TC_SHAPE(N), TC_F32),
            c = tc_reshape(a, TC_SHAPE(N / 2, 2));
  EXPECT_OK(tc_eval(2, (tc_tensor[]){a, b}));
  size_t before = tc_memory_stats().live_bytes;
  EXPECT_OK(tc_assign(b, a));
  tc_tensor p = tc_param(a);
  EXPECT_OK(tc_eval(3, (tc_tensor[]){b, c, p}));
  EXPECT(tc_memory_stats().live_bytes < before, "%zu bytes, %zu before", tc_memory_stats().live_bytes, before);
  EXPECT_OK(tc_assign(a, tc_add(a, 1)));
  EXPECT_OK(tc_assign(b, tc_mul(b, 5)));
  EXPECT_OK(tc_sync(NULL));
  EXPECT_OK(tc_item_f32(tc_select(a, 0, 7), &a0));
  EXPECT_OK(tc_item_f32(tc_select(b, 0, 7), &b0));
  EXPECT_OK(tc_item_f32(tc_select(p, 0, 7), &c0));
  EXPECT(a0 == 2 && b0 == 5 && c0 == 1, "%g %g %g", (double)a0, (double)b0, (double)c0);
  EXPECT_OK(tc_item_f32(tc_select(tc_select(c, 0, 7), 0, 1), &c0));
  EXPECT(c0 == 1, "%g", (double)c0);
  // An old value that lives on under another name in the run that replaces it.
  EXPECT_OK(tc_assign(b, a));
  tc_scope inner = tc_scope_begin();
  EXPECT_OK(tc_assign(a, tc_add(a, 1)));
  tc_scope_end(inner);
  EXPECT_OK(tc_sync(NULL));
  EXPECT_OK(tc_item_f32(tc_select(b, 0, 7), &b0));
  EXPECT_OK(tc_item_f32(tc_select(a, 0, 7), &a0));
  EXPECT(a0 == 3 && b0 == 2, "%g %g", (double)a0, (double)b0);
  // What nobody else holds any more is not copied either.
  EXPECT_OK(tc_sync(NULL));
  before = tc_memory_stats().live_bytes;
  inner = tc_scope_begin();
  tc_tensor gone = tc_full(TC_SHAPE(N), 4, TC_F32);
  EXPECT_OK(tc_eval(1, &gone));
  EXPECT_OK(tc_assign(b, gone));
  tc_scope_end(inner);
  tc_sync_point ran = {0};
  EXPECT_OK(tc_sync(NULL));
  EXPECT(tc_sync_points(1, &ran) == 1 && ran.n_kernels == 0 && tc_memory_stats().live_bytes <= before,
         "%u kernels, %zu bytes, %zu before", ran.n_kernels, tc_memory_stats().live_bytes, before);
  EXPECT_OK(tc_item_f32(tc_select(b, 0, 7), &b0));
  EXPECT(b0 == 4, "%g", (double)b0);
  tc_tensor user = tc_borrow(mine, TC_SHAPE(N), TC_F32, TC_WRITABLE, NULL, NULL);
  EXPECT_OK(tc_assign(b, user));
  EXPECT_OK(tc_assign(user, a));
  EXPECT_OK(tc_sync(NULL));
  EXPECT(mine[7] == 3, "%g", (double)mine[7]);
  EXPECT_OK(tc_item_f32(tc_select(b, 0, 7), &b0));
  EXPECT(b0 == 0, "%g", (double)b0);
  EXPECT_OK(tc_assign(a, tc_mul(a, 2)));
  EXPECT_OK(tc_sync(NULL));
  EXPECT(mine[7] == 3, "%g", (double)mine[7]);
  tc_release(p);
  tc_scope_end(scope);
}

static void ten_reads_run_the_graph_once(void) {
  tc_scope s = tc_scope_begin();
  tc_tensor x = tc_rand(TC_SHAPE(64, 64), TC_F32), y = tc_matmul(tc_tanh(x), x), out[10];
  float v[10];
  for (int k = 0; k < 10; k++) out[k] = tc_sum(tc_mul(y, k), TC_ALL, false);
  tc_cache_info before = tc_cache_stats();
  for (int k = 0; k < 10; k++) EXPECT_OK(tc_item_f32(out[k], &v[k]));
  tc_cache_info after = tc_cache_stats();
  uint64_t runs = after.plan_hits + after.plan_misses - before.plan_hits - before.plan_misses;
  EXPECT(runs == 1, "ten scalars read in a row took %llu runs", (unsigned long long)runs);
  EXPECT(fabsf(v[9] - 9 * v[1]) <= 1e-3f * fabsf(v[9]), "%g is not 9 times %g", (double)v[9], (double)v[1]);
  float again = 0;
  EXPECT_OK(tc_item_f32(out[3], &again));
  EXPECT(again == v[3], "a value read twice differs");
  tc_scope_end(s);
}

static void different_graphs_over_equal_shapes_are_different(void) {
  tc_scope s = tc_scope_begin();
  float v = 0, w = 0;
  for (int k = 0; k < 3; k++) {
    tc_tensor a = tc_scalar(2 + k), b = tc_scalar(3), c = tc_scalar(5);
    EXPECT_OK(tc_item_f32(tc_add(tc_mul(a, b), c), &v));
    EXPECT_OK(tc_item_f32(tc_add(tc_mul(a, c), b), &w));
    EXPECT(v == (float)((2 + k) * 3 + 5) && w == (float)((2 + k) * 5 + 3), "%g %g", (double)v, (double)w);
    for (int n = 0; n < 4; n++) {  // numbers are arguments: 0 and 1 are no special code, and no new plan
      EXPECT_OK(tc_item_f32(tc_add(tc_mul(a, n), n * 0.5), &v));
      EXPECT(v == (float)((2 + k) * n) + (float)n * 0.5f, "%g", (double)v);
    }
  }
  tc_scope_end(s);
}

static uint64_t misses_of_a_sum(float *v) {
  uint64_t before = tc_cache_stats().plan_misses;
  tc_scope s = tc_scope_begin();
  EXPECT_OK(tc_item_f32(tc_sum(tc_exp(f32(1, 6, 0)), TC_ALL, false), v));
  tc_scope_end(s);
  return tc_cache_stats().plan_misses - before;
}

static void *sum_before_and_after(void *arg) {
  pthread_barrier_t *turn = arg;
  float v = 0, w = 0;
  (void)misses_of_a_sum(&v);
  EXPECT(misses_of_a_sum(&w) == 0 && v == w, "a known plan: %g and %g", (double)v, (double)w);
  for (int k = 0; k < 2; k++) pthread_barrier_wait(turn);
  EXPECT(misses_of_a_sum(&w) == 1 && v == w, "a plan is found after another thread has cleared the cache: %g and %g",
         (double)v, (double)w);
  EXPECT(misses_of_a_sum(&w) == 0 && v == w, "and then: %g and %g", (double)v, (double)w);
  return NULL;
}

static void a_threads_latest_plans_go_with_the_cache(void) {
  pthread_t t;
  pthread_barrier_t turn;
  EXPECT(pthread_barrier_init(&turn, NULL, 2) == 0 && pthread_create(&t, NULL, sum_before_and_after, &turn) == 0,
         "no thread");
  pthread_barrier_wait(&turn);
  tc_cache_clear();
  EXPECT(tc_cache_stats().n_plans == 0, "%zu plans", tc_cache_stats().n_plans);
  pthread_barrier_wait(&turn);
  pthread_join(t, NULL);
  pthread_barrier_destroy(&turn);
}

static void use_after_shutdown(void) {
  float v = 0;
  tc_tensor x = tc_retain(tc_add(f32(1, 4, 0), 1)), p = tc_param(f32(1, 4, 0));
  tc_optimizer *opt = tc_sgd(&p, 1, (tc_sgd_options){.lr = 0.1});
  tc_optimizer_destroy(opt);
  tc_shutdown();
  EXPECT(!tc_is_valid(x) && !tc_is_valid(p), "handles outlive the shutdown");
  EXPECT(tc_item_f32(x, &v) == TC_ERR_HANDLE, "reading after shutdown");
  tc_clear_error();
  tc_release(x), tc_release(p);
  tc_clear_error();
  for (int k = 0; k < 3; k++) {
    EXPECT_OK(tc_set_default_device("tc:cpu"));
    EXPECT_OK(tc_item_f32(tc_sum(f32(1, 4, 0), TC_ALL, false), &v));
    EXPECT(v == 4, "after shutdown 4 ones sum to %g", (double)v);
    tc_shutdown();
  }
  tc_shutdown();  // twice is no harm
}

// Whoever unmaps ends a view of its own: another thread's may be of another value, and in use.
typedef struct viewer {
  tc_tensor t;
  pthread_barrier_t turn;
} viewer;

static void *view(void *arg) {
  viewer *v = arg;
  const float *at = tc_map(v->t);
  EXPECT(at && *at == 1, "the first value is not 1");
  pthread_barrier_wait(&v->turn);
  pthread_barrier_wait(&v->turn);
  EXPECT(at && *at == 1, "what is mapped changed");
  EXPECT_OK(tc_unmap(v->t));
  pthread_barrier_wait(&v->turn);
  return NULL;
}

static void put(tc_tensor t, double value) {
  tc_scope s = tc_scope_begin();
  EXPECT_OK(tc_assign(t, tc_full(tc_shape(t), value, TC_F32)));
  EXPECT_OK(tc_eval(1, &t));
  tc_scope_end(s);
}

static void views_of_threads_are_their_own(void) {
  viewer v = {.t = tc_retain(tc_ones(TC_SHAPE(1 << 20), TC_F32))};
  pthread_t other;
  pthread_barrier_init(&v.turn, NULL, 2);
  EXPECT_OK(tc_eval(1, &v.t));
  EXPECT(pthread_create(&other, NULL, view, &v) == 0, "no thread");
  pthread_barrier_wait(&v.turn);
  put(v.t, 2);
  const float *at = tc_map(v.t);
  pthread_barrier_wait(&v.turn);
  pthread_barrier_wait(&v.turn);
  put(v.t, 3);
  tc_trim();
  EXPECT(at && at[1 << 19] == 2, "the view of another thread took this one's place");
  EXPECT_OK(tc_unmap(v.t));
  EXPECT_SAID(tc_unmap(v.t), "unmap", "not mapped");
  pthread_join(other, NULL);
  pthread_barrier_destroy(&v.turn);
  tc_release(v.t);
}

int main(void) {
  bools_are_no_numbers();
  EXPECT_OK(tc_set_default_device("tc:cpu"));
  every_call_that_fails_is_named_with_its_line();
  memory_that_a_sync_does_not_get_is_told_by_the_sync();
  a_scalar_has_one_axis();
  numbers_that_do_not_fit_the_type();
  shapes_that_do_not_fit();
  axes_ranks_and_arguments();
  types_that_do_not_fit();
  extents_whose_product_overflows();
  an_index_out_of_range_names_the_users_call();
  an_index_out_of_range_spoils_nothing();
  stale_and_null_handles();
  views_of_threads_are_their_own();
  scopes_keep_retain_release();
  devices_are_checked();
  a_slice_keeps_its_value_when_its_source_is_assigned();
  borrowed_memory_is_the_callers();
  writable_memory_has_one_owner();
  what_is_released_is_assigned_yet();
  what_is_assigned_is_not_copied();
  ten_reads_run_the_graph_once();
  different_graphs_over_equal_shapes_are_different();
  a_threads_latest_plans_go_with_the_cache();
  use_after_shutdown();
  return expect_done("api-lifecycle");
}
