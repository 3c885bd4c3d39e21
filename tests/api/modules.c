// Named parameters and modules: a state dict that PyTorch saved gives PyTorch's results
// (tests/golden/attention.safetensors, made by tools/golden_io.py); initial values have the bounds
// and moments of torch.nn.init; a wrong name or shape is an error that says so.
#include <math.h>
#include <string.h>
#include <tc/nn.h>

#include "tests/expect.h"
#include "tests/files/files.h"

static void expect_close(tc_tensor got, tc_tensor want, const char *what) {
  bool same = false;
  EXPECT_OK(tc_allclose(got, want, 1e-5, 1e-5, &same));
  EXPECT(same, "%s differs from PyTorch's", what);
}

static tc_nn_params *golden_model(void) {
  tc_nn_params *p = tc_nn_params_create();
  EXPECT_OK(tc_nn_add_embedding(p, "embed", 11, 8));
  EXPECT_OK(tc_nn_add_multihead_attention(p, "attn", 8, true));
  EXPECT_OK(tc_nn_add_layer_norm(p, "norm", 8));
  EXPECT_OK(tc_nn_add_linear(p, "fc", 8, 5, true));
  return p;
}

static tc_tensor forward(const tc_nn_params *p, const tc_archive *a, const char *keys_of, tc_nn_attention_options o) {
  tc_tensor x = tc_nn_embedding(p, "embed", tc_archive_get(a, "ids")),
            keys = tc_nn_embedding(p, "embed", tc_archive_get(a, keys_of));
  x = tc_add(x, tc_nn_multihead_attention(p, "attn", x, keys, keys, o));
  return tc_nn_linear(p, "fc", tc_nn_layer_norm(p, "norm", x, 1e-5));
}

static void a_state_dict_gives_pytorchs_results(void) {
  tc_scope scope = tc_scope_begin();
  tc_archive *a = tc_safetensors_open("tests/golden/attention.safetensors");
  tc_nn_params *p = golden_model();
  EXPECT(tc_nn_count(p) == 9, "%d parameters", tc_nn_count(p));
  EXPECT_OK(tc_nn_load(p, a, NULL));
  expect_close(forward(p, a, "ids", (tc_nn_attention_options){2}), tc_archive_get(a, "out.plain"), "attention");
  expect_close(forward(p, a, "other", (tc_nn_attention_options){2}), tc_archive_get(a, "out.cross"),
               "attention over other keys");
  expect_close(forward(p, a, "ids", (tc_nn_attention_options){2, .causal = true}), tc_archive_get(a, "out.causal"),
               "causal attention");
  tc_tensor seen = tc_archive_get(a, "seen"), added = tc_archive_get(a, "added");
  expect_close(forward(p, a, "ids", (tc_nn_attention_options){2, .mask = seen}), tc_archive_get(a, "out.seen"),
               "masked attention");
  expect_close(forward(p, a, "ids", (tc_nn_attention_options){2, .mask = added}), tc_archive_get(a, "out.added"),
               "attention with a bias");
  tc_nn_set_training(p, false);
  expect_close(forward(p, a, "ids", (tc_nn_attention_options){2, .dropout = 0.5}), tc_archive_get(a, "out.plain"),
               "dropout in evaluation");
  tc_nn_set_training(p, true);
  bool same = true;
  EXPECT_OK(tc_allclose(forward(p, a, "ids", (tc_nn_attention_options){2, .dropout = 0.5}),
                        tc_archive_get(a, "out.plain"), 1e-5, 1e-5, &same));
  EXPECT(!same, "nothing was dropped in training");
  // Saved and loaded under other names, it is the same model.
  const char *path = files_path("saved.safetensors");
  EXPECT_OK(tc_nn_save(p, path));
  tc_archive *saved = tc_safetensors_open(path);
  EXPECT(tc_archive_metadata(saved, "format") && strcmp(tc_archive_metadata(saved, "format"), "pt") == 0,
         "the mark of PyTorch's files");
  tc_nn_params *q = golden_model();
  EXPECT_OK(tc_nn_load(q, saved, ""));
  expect_close(forward(q, a, "ids", (tc_nn_attention_options){2}), tc_archive_get(a, "out.plain"), "the saved model");
  tc_archive_close(saved);
  EXPECT_FAILS(tc_nn_load(p, a, "model."), TC_ERR_ARG,
               "has no 'model.embed.weight' (f32 [11, 8]); the nearest is 'embed.weight'");
  tc_nn_params_destroy(q);
  q = tc_nn_params_create();
  EXPECT_OK(tc_nn_add_linear(q, "fc", 8, 6, true));
  EXPECT_FAILS(tc_nn_load(q, a, NULL), TC_ERR_SHAPE,
               "'fc.weight' should be f32 [6, 8], in tests/golden/attention.safetensors it is f32 [5, 8]");
  tc_nn_params_destroy(q);
  tc_nn_params_destroy(p);
  tc_archive_close(a);
  tc_scope_end(scope);
  EXPECT(files_fini() == 1, "temporaries are left");
}

// Extremes, mean and standard deviation of 40000 draws.
static void expect_moments(tc_tensor t, double low, double high, double mean, double std, const char *what) {
  float least = 0, most = 0, m = 0, s = 0;
  EXPECT_OK(tc_item_f32(tc_min(t, TC_ALL, false), &least));
  EXPECT_OK(tc_item_f32(tc_max(t, TC_ALL, false), &most));
  EXPECT_OK(tc_item_f32(tc_mean(t, TC_ALL, false), &m));
  EXPECT_OK(tc_item_f32(tc_std(t, TC_ALL, 1, false), &s));
  double slack = (high - low) * 0.01;
  bool bounded =
      isinf(low) || (least >= (float)low && least < low + slack && most <= (float)high && most > high - slack);
  EXPECT(bounded, "%s lies in [%g, %g]", what, (double)least, (double)most);
  // the mean's own deviation is std / sqrt(40000)
  EXPECT(fabs((double)m - mean) < 5 * std / 200, "%s has mean %g", what, (double)m);
  EXPECT(fabs((double)s - std) < 0.02 * std, "%s has standard deviation %g, should be %g", what, (double)s, std);
}

static void initial_values_are_pytorchs(void) {
  tc_seed(11);
  tc_scope scope = tc_scope_begin();
  // fan_in 400, fan_out 100; the kernel's 400 and 2500
  tc_dims shape = TC_SHAPE(100, 400), kernel = TC_SHAPE(100, 16, 5, 5);
  double b = sqrt(6.0 / 500), k = 1 / sqrt(400);
  expect_moments(tc_nn_uniform(shape, -2, 3), -2, 3, 0.5, 5 / sqrt(12), "uniform");
  expect_moments(tc_nn_normal(shape, 1, 0.5), -INFINITY, INFINITY, 1, 0.5, "normal");
  expect_moments(tc_nn_xavier_uniform(shape, 1), -b, b, 0, b / sqrt(3), "xavier_uniform");
  expect_moments(tc_nn_xavier_normal(shape, 2), -INFINITY, INFINITY, 0, 2 * sqrt(2.0 / 500), "xavier_normal");
  expect_moments(tc_nn_xavier_normal(kernel, 1), -INFINITY, INFINITY, 0, sqrt(2.0 / 2900), "xavier_normal of a kernel");
  expect_moments(tc_nn_kaiming_uniform(shape, sqrt(5)), -k, k, 0, k / sqrt(3), "kaiming_uniform");
  expect_moments(tc_nn_kaiming_uniform(kernel, 0), -sqrt(6.0 / 400), sqrt(6.0 / 400), 0, sqrt(2.0 / 400),
                 "kaiming_uniform of a kernel");
  EXPECT_FAILS(tc_nn_xavier_uniform(TC_SHAPE(3), 1), TC_ERR_SHAPE, "[3] has no fans");
  EXPECT_FAILS(tc_nn_xavier_normal(TC_SCALAR, 1), TC_ERR_SHAPE, "[] has no fans");
  EXPECT_FAILS(tc_nn_kaiming_uniform(TC_SHAPE(3), 1), TC_ERR_SHAPE, "[3] has no fans");
  EXPECT_FAILS(tc_nn_uniform(shape, 3, 2), TC_ERR_ARG, "no numbers from 3 to 2");
  EXPECT_FAILS(tc_nn_uniform(shape, NAN, 0), TC_ERR_ARG, "no numbers from nan to 0");
  EXPECT_FAILS(tc_nn_uniform(shape, -1e308, 1e308), TC_ERR_ARG, "no numbers from -1e+308 to 1e+308");
  EXPECT_FAILS(tc_nn_normal(shape, 0, NAN), TC_ERR_ARG, "a standard deviation is not nan");
  EXPECT_FAILS(tc_nn_normal(shape, INFINITY, 1), TC_ERR_ARG, "a mean is not inf");
  EXPECT_FAILS(tc_nn_kaiming_uniform(shape, NAN), TC_ERR_ARG, "no numbers from");

  tc_nn_params *p = tc_nn_params_create();
  EXPECT_OK(tc_nn_add_linear(p, "fc", 400, 100, true));
  EXPECT_OK(tc_nn_add_linear(p, "wide", 4, 40000, true));
  EXPECT_OK(tc_nn_add_embedding(p, "embed", 400, 100));
  EXPECT_OK(tc_nn_add_multihead_attention(p, "attn", 100, true));
  EXPECT_OK(tc_nn_add_layer_norm(p, "norm", 40000));
  expect_moments(tc_nn_get(p, "fc.weight"), -k, k, 0, k / sqrt(3), "linear's weight");
  expect_moments(tc_nn_get(p, "wide.bias"), -0.5, 0.5, 0, 0.5 / sqrt(3), "linear's bias");
  expect_moments(tc_nn_get(p, "embed.weight"), -INFINITY, INFINITY, 0, 1, "embedding's weight");
  double in = sqrt(6.0 / 400);
  tc_tensor proj = tc_nn_get(p, "attn.in_proj_weight");  // [300, 100]
  expect_moments(proj, -in, in, 0, in / sqrt(3), "attention's weight");
  float ones = 0, zeros = 1;
  EXPECT_OK(tc_item_f32(tc_sum(tc_nn_get(p, "norm.weight"), TC_ALL, false), &ones));
  EXPECT_OK(tc_item_f32(tc_sum(tc_abs(tc_nn_get(p, "attn.in_proj_bias")), TC_ALL, false), &zeros));
  EXPECT(ones == 40000 && zeros == 0, "%g %g", (double)ones, (double)zeros);
  tc_nn_params_destroy(p);
  tc_scope_end(scope);
}

// A module is there whole or not at all, and can be added once what was in its way is gone.
static void a_failed_module_leaves_nothing(void) {
  tc_scope scope = tc_scope_begin();
  tc_nn_params *p = tc_nn_params_create();
  tc_tensor x = tc_ones(TC_SHAPE(2), TC_F32), first = tc_nn_add(p, "first", x);
  static const char *const in_the_way[] = {"fc.bias", "norm.bias", "conv.bias", "attn.out_proj.bias",
                                           "bn.num_batches_tracked"};
  for (int i = 0; i < 5; i++) (void)tc_nn_add_buffer(p, in_the_way[i], x);
  EXPECT_FAILS(tc_nn_add_linear(p, "fc", 2, 2, true), TC_ERR_ARG, "the name 'fc.bias' is taken");
  EXPECT_FAILS(tc_nn_add_layer_norm(p, "norm", 2), TC_ERR_ARG, "the name 'norm.bias' is taken");
  EXPECT_FAILS(tc_nn_add_conv2d(p, "conv", 2, 2, TC_SHAPE(3), 1, true), TC_ERR_ARG, "the name 'conv.bias' is taken");
  EXPECT_FAILS(tc_nn_add_multihead_attention(p, "attn", 2, true), TC_ERR_ARG, "the name 'attn.out_proj.bias' is taken");
  EXPECT_FAILS(tc_nn_add_multihead_attention(p, "wide", INT64_MAX, true), TC_ERR_SHAPE,
               "three projections of 9223372036854775807 are too many");
  EXPECT_FAILS(tc_nn_add_batch_norm(p, "bn", 2), TC_ERR_ARG, "the name 'bn.num_batches_tracked' is taken");
  EXPECT(tc_nn_count(p) == 1 && tc_nn_count_all(p) == 6, "%d parameters and %d buffers", tc_nn_count(p),
         tc_nn_count_all(p) - tc_nn_count(p));
  EXPECT(memcmp(&tc_nn_tensors(p)[0], &first, sizeof first) == 0, "the first parameter is another");
  for (int i = 0; i < 5; i++) {
    tc_tensor t = tc_nn_get(p, in_the_way[i]);
    EXPECT(memcmp(&tc_nn_tensors(p)[i + 1], &t, sizeof t) == 0 && strcmp(tc_nn_names(p)[i + 1], in_the_way[i]) == 0,
           "%s moved", in_the_way[i]);
  }
  EXPECT(!tc_nn_has(p, "fc.weight") && !tc_nn_has(p, "bn.running_mean") && !tc_nn_has(p, "attn.in_proj_weight"),
         "halves of modules are left");
  EXPECT_OK(tc_nn_add_linear(p, "fc", 2, 2, false));
  EXPECT(tc_nn_count(p) == 2 && strcmp(tc_nn_names(p)[1], "fc.weight") == 0, "the module could not be added after all");
  tc_nn_params_destroy(p);
  tc_scope_end(scope);
}

static void dropout_is_checked_in_evaluation_too(void) {
  tc_scope scope = tc_scope_begin();
  tc_nn_params *p = tc_nn_params_create();
  tc_tensor x = tc_ones(TC_SHAPE(2), TC_F32);
  for (int training = 0; training < 2; training++) {
    tc_nn_set_training(p, training);
    EXPECT_FAILS(tc_nn_dropout(p, x, -1), TC_ERR_ARG, "p is -1, not within [0, 1]");
    EXPECT_FAILS(tc_nn_dropout(p, x, NAN), TC_ERR_ARG, "p is nan, not within [0, 1]");
    EXPECT_FAILS(tc_nn_dropout(p, (tc_tensor){0, 0}, 0.5), TC_ERR_HANDLE, "null");
  }
  EXPECT_FAILS(tc_nn_dropout(NULL, x, 0.5), TC_ERR_ARG, "there is no list");
  tc_nn_params_destroy(p);
  tc_scope_end(scope);
}

static void names_are_checked(void) {
  tc_scope scope = tc_scope_begin();
  tc_nn_params *p = tc_nn_params_create();
  tc_tensor x = tc_ones(TC_SHAPE(2, 3), TC_F32), w = tc_nn_add(p, TC_NN_PATH("layer.%d.weight", 3), x);
  char path[TC_NN_PATH_BYTES + 8];
  EXPECT(tc_requires_grad(w), "a parameter wants no gradient");
  EXPECT(strcmp(tc_nn_names(p)[0], "layer.3.weight") == 0, "%s", tc_nn_names(p)[0]);
  EXPECT(memcmp(&tc_nn_tensors(p)[0], &w, sizeof w) == 0, "the list has another handle");
  EXPECT_FAILS(tc_nn_add(p, "layer.3.weight", x), TC_ERR_ARG, "the name 'layer.3.weight' is taken");
  EXPECT_FAILS(tc_nn_add(p, "", x), TC_ERR_ARG, "without a name");
  EXPECT_FAILS(tc_nn_add(NULL, "x", x), TC_ERR_ARG, "no list");
  EXPECT_FAILS(tc_nn_add(p, "x", (tc_tensor){0, 0}), TC_ERR_HANDLE, "null tensor");
  EXPECT_FAILS(tc_nn_get(p, "layer.3.wieght"), TC_ERR_ARG,
               "no parameter 'layer.3.wieght'; the nearest is 'layer.3.weight'");
  EXPECT_FAILS(tc_nn_get(p, "x"), TC_ERR_ARG, "no parameter 'x', nor anything like it among 1");
  EXPECT_FAILS(tc_nn_linear(p, "layer.4", x), TC_ERR_ARG, "no parameter 'layer.4.weight'");
  EXPECT_FAILS(tc_nn_embedding(p, "layer.4", x), TC_ERR_ARG, "no parameter 'layer.4.weight'");
  memset(path, 'x', sizeof path);
  path[sizeof path - 1] = 0;
  EXPECT_FAILS(tc_nn_linear(p, path, x), TC_ERR_ARG, "is longer than 256 bytes");
  EXPECT_FAILS(tc_nn_add_linear(p, NULL, 3, 4, true), TC_ERR_ARG, "path is NULL");
  EXPECT_FAILS(tc_nn_add_linear(p, "fc", -3, 4, true), TC_ERR_SHAPE, "-3");
  tc_tensor y = tc_nn_linear(p, "layer.3", x);  // without a bias there is none
  EXPECT(tc_shape(y).dim[1] == 2, "linear");
  EXPECT(tc_nn_count(p) == 1, "%d parameters after failures", tc_nn_count(p));
  tc_nn_params_destroy(p);
  tc_nn_params_destroy(NULL);
  EXPECT(!tc_is_valid(w), "a parameter outlived its list");
  // A list that does not hold grows past its first room.
  p = tc_nn_params_create();
  for (int i = 0; i < 100; i++) (void)tc_nn_add(p, TC_NN_PATH("p%d", i), x);
  for (int i = 0; i < 100; i++)
    EXPECT(strcmp(tc_nn_names(p)[i], TC_NN_PATH("p%d", i)) == 0 && tc_is_valid(tc_nn_get(p, TC_NN_PATH("p%d", i))),
           "p%d", i);
  tc_nn_params_destroy(p);
  tc_scope_end(scope);
}

static void attention_refuses_what_does_not_fit(void) {
  tc_scope scope = tc_scope_begin();
  tc_tensor q = tc_ones(TC_SHAPE(2, 3, 8), TC_F32), k = tc_ones(TC_SHAPE(2, 5, 8), TC_F32),
            flat = tc_ones(TC_SHAPE(3, 8), TC_F32);
  EXPECT_FAILS(tc_nn_attention(q, k, q, (tc_nn_attention_options){2}), TC_ERR_SHAPE,
               "query is [2, 3, 8], key [2, 5, 8], value [2, 3, 8]");
  EXPECT_FAILS(tc_nn_attention(flat, flat, flat, (tc_nn_attention_options){2}), TC_ERR_SHAPE, "query is [3, 8]");
  EXPECT_FAILS(tc_nn_attention(q, k, k, (tc_nn_attention_options){3}), TC_ERR_SHAPE, "3 heads of dim 8");
  EXPECT_FAILS(tc_nn_attention(q, k, k, (tc_nn_attention_options){0}), TC_ERR_SHAPE, "0 heads");
  EXPECT_FAILS(tc_nn_attention(q, k, k, (tc_nn_attention_options){2, .mask = tc_ones(TC_SHAPE(4, 5), TC_BOOL)}),
               TC_ERR_SHAPE, "4");
  // Equal keys are seen alike: the result is the mean of the values, whatever is seen.
  float got[48];
  EXPECT_OK(tc_to_host(tc_nn_attention(q, k, k, (tc_nn_attention_options){2, .causal = true}), got, sizeof got));
  for (int i = 0; i < 48; i++) EXPECT(fabsf(got[i] - 1) < 1e-6f, "element %d is %g", i, (double)got[i]);
  tc_scope_end(scope);
}

static bool is_equal(tc_tensor a, tc_tensor b) {
  bool same = false;
  EXPECT_OK(tc_allclose(a, b, 0, 0, &same));
  return same;
}

// Each module is the op of that name over its parameters.
static void modules_are_their_ops(void) {
  tc_scope scope = tc_scope_begin();
  tc_nn_params *p = tc_nn_params_create();
  tc_tensor x = tc_randn(TC_SHAPE(3, 4, 7, 5), TC_F32), none = {0, 0};
  EXPECT_OK(tc_nn_add_conv2d(p, "conv", 4, 6, TC_SHAPE(3, 2), 2, true));
  EXPECT_OK(tc_nn_add_conv2d(p, "plain", 4, 6, TC_SHAPE(3), 1, false));
  EXPECT_OK(tc_nn_add_rms_norm(p, "rms", 5));
  EXPECT_OK(tc_nn_add_group_norm(p, "group", 4));
  EXPECT_OK(tc_nn_add_batch_norm(p, "bn", 4));
  EXPECT(tc_nn_has(p, "conv.bias") && !tc_nn_has(p, "plain.bias") && !tc_nn_has(p, "rms.bias"), "biases");
  tc_dims d = tc_shape(tc_nn_get(p, "conv.weight"));
  EXPECT(d.rank == 4 && d.dim[0] == 6 && d.dim[1] == 2 && d.dim[2] == 3 && d.dim[3] == 2,
         "the weight of a convolution");
  double bound = 1 / sqrt(2 * 3 * 2);
  float most = 0;
  EXPECT_OK(tc_item_f32(tc_max(tc_abs(tc_nn_get(p, "conv.bias")), TC_ALL, false), &most));
  EXPECT(most > 0 && (double)most <= bound, "a bias of %g", (double)most);
  for (int i = 0; i < tc_nn_count(p); i++)
    EXPECT_OK(tc_assign(tc_nn_tensors(p)[i], tc_randn_like(tc_nn_tensors(p)[i])));
  tc_conv_options o = {.stride = TC_SHAPE(2), .padding = TC_SHAPE(1), .groups = 2};
  tc_tensor want = tc_conv2d(x, tc_nn_get(p, "conv.weight"), tc_nn_get(p, "conv.bias"), o);
  EXPECT(is_equal(tc_nn_conv2d(p, "conv", x, o), want), "conv2d");
  o.groups = 1;
  EXPECT(is_equal(tc_nn_conv2d(p, "plain", x, o), tc_conv2d(x, tc_nn_get(p, "plain.weight"), none, o)),
         "conv2d without bias");
  EXPECT(is_equal(tc_nn_rms_norm(p, "rms", x, 1e-6), tc_rms_norm(x, tc_nn_get(p, "rms.weight"), 1e-6)), "rms_norm");
  want = tc_group_norm(x, 2, tc_nn_get(p, "group.weight"), tc_nn_get(p, "group.bias"), 1e-5);
  EXPECT(is_equal(tc_nn_group_norm(p, "group", x, 2, 1e-5), want), "group_norm");
  EXPECT_FAILS(tc_nn_conv2d(p, "conw", x, o), TC_ERR_ARG, "no parameter 'conw.weight'; the nearest is 'conv.weight'");
  EXPECT_FAILS(tc_nn_add_conv2d(p, "c", 4, 6, TC_SHAPE(3), 4, true), TC_ERR_ARG,
               "4 channels to 6 cannot be cut into 4 groups");
  EXPECT_FAILS(tc_nn_add_conv2d(p, "c", 4, 6, TC_SHAPE(3, 3, 3), 1, true), TC_ERR_ARG, "size has 3 numbers");
  tc_nn_params_destroy(p);
  tc_scope_end(scope);
}

// The running statistics move in training and are used in evaluation; batches are counted.
static void batch_norm_has_two_modes(void) {
  tc_scope scope = tc_scope_begin();
  tc_nn_params *p = tc_nn_params_create();
  tc_tensor x = tc_add(tc_mul(tc_randn(TC_SHAPE(64, 2, 5), TC_F32), 3), 10), none = {0, 0};
  float mean = 0, var = 0;
  int64_t count = -1;
  EXPECT_OK(tc_nn_add_batch_norm(p, "bn", 2));
  tc_tensor by_batch =
      tc_batch_norm(x, none, none, none, none, (tc_batch_norm_options){.training = true, TC_BATCH_NORM_DEFAULTS});
  EXPECT(is_equal(tc_nn_batch_norm(p, "bn", x, 0.5, 1e-5), by_batch), "training");
  EXPECT_OK(tc_item_f32(tc_mean(tc_nn_get(p, "bn.running_mean"), TC_ALL, false), &mean));
  EXPECT_OK(tc_item_f32(tc_mean(tc_nn_get(p, "bn.running_var"), TC_ALL, false), &var));
  EXPECT_OK(tc_item_i64(tc_nn_get(p, "bn.num_batches_tracked"), &count));
  EXPECT(fabsf(mean - 5) < 0.5f && fabsf(var - 5) < 1 && count == 1, "mean %g, variance %g, %d batches", (double)mean,
         (double)var, (int)count);
  tc_nn_set_training(p, false);
  tc_tensor by_running = tc_batch_norm(x, tc_nn_get(p, "bn.running_mean"), tc_nn_get(p, "bn.running_var"), none, none,
                                       (tc_batch_norm_options){TC_BATCH_NORM_DEFAULTS});
  EXPECT(is_equal(tc_nn_batch_norm(p, "bn", x, 0.5, 1e-5), by_running), "evaluation");
  EXPECT_OK(tc_item_i64(tc_nn_get(p, "bn.num_batches_tracked"), &count));
  EXPECT(count == 1, "%d batches after evaluation", (int)count);
  tc_nn_params_destroy(p);
  tc_scope_end(scope);
}

static void buffers_follow_the_parameters(void) {
  static const char *const names[] = {
      "a.weight", "a.bias", "b.weight", "b.bias", "a.running_mean", "a.running_var", "a.num_batches_tracked",
      "b.count"};
  tc_scope scope = tc_scope_begin();
  tc_nn_params *p = tc_nn_params_create();
  EXPECT_OK(tc_nn_add_batch_norm(p, "a", 3));
  tc_tensor count = tc_nn_add_buffer(p, "b.count", tc_full_int(TC_SHAPE(2), 7, TC_I32));
  EXPECT_OK(tc_nn_add_layer_norm(p, "b", 3));
  EXPECT(tc_nn_count(p) == 4 && tc_nn_count_all(p) == 8, "%d and %d", tc_nn_count(p), tc_nn_count_all(p));
  for (int i = 0; i < 8; i++) {
    tc_tensor t = tc_nn_get(p, names[i]);
    EXPECT(strcmp(tc_nn_names(p)[i], names[i]) == 0, "%d is %s", i, tc_nn_names(p)[i]);
    EXPECT(memcmp(&t, &tc_nn_tensors(p)[i], sizeof t) == 0 && tc_requires_grad(t) == (i < 4), "%s", names[i]);
  }
  EXPECT_FAILS(tc_nn_add_buffer(p, "a.weight", count), TC_ERR_ARG, "the name 'a.weight' is taken");
  EXPECT_OK(tc_nn_cast(p, TC_F16));
  for (int i = 0; i < 8; i++) {
    tc_type want = i < 6 ? TC_F16 : i == 6 ? TC_I64 : TC_I32;
    EXPECT(tc_dtype(tc_nn_tensors(p)[i]) == want && tc_requires_grad(tc_nn_tensors(p)[i]) == (i < 4),
           "%s after the cast", names[i]);
  }
  float ones = 0;
  EXPECT_OK(tc_item_f32(tc_sum(tc_cast(tc_nn_get(p, "a.running_var"), TC_F32), TC_ALL, false), &ones));
  EXPECT(ones == 3, "%g", (double)ones);
  EXPECT_FAILS(tc_nn_cast(p, TC_I32), TC_ERR_DTYPE, "parameters are floating, not i32");
  EXPECT_FAILS(tc_nn_cast(NULL, TC_F32), TC_ERR_ARG, "there is no list");
  EXPECT_FAILS(tc_nn_save(NULL, files_path("none.safetensors")), TC_ERR_ARG, "there is no list");
  EXPECT_FAILS(tc_nn_load(NULL, NULL, NULL), TC_ERR_ARG, "there is no list");
  EXPECT_FAILS(tc_nn_uniform(TC_SHAPE(2), 2, 1), TC_ERR_ARG, "no numbers from 2 to 1");
  EXPECT_FAILS(tc_nn_normal(TC_SHAPE(2), 0, -1), TC_ERR_ARG, "a standard deviation is not -1");
  tc_nn_params_destroy(p);
  tc_scope_end(scope);
  EXPECT(!tc_is_valid(count), "a buffer outlived its list");
}

static void dropout_is_of_training_alone(void) {
  tc_scope scope = tc_scope_begin();
  tc_nn_params *p = tc_nn_params_create();
  tc_tensor x = tc_ones(TC_SHAPE(1000), TC_F32);
  int64_t n = 0;
  EXPECT(tc_nn_training(p), "a new list trains");
  EXPECT_OK(tc_item_i64(tc_sum(tc_eq(tc_nn_dropout(p, x, 0.5), 0), TC_ALL, false), &n));
  EXPECT(n > 400 && n < 600, "%d of 1000 dropped", (int)n);
  tc_nn_set_training(p, false);
  EXPECT_OK(tc_item_i64(tc_sum(tc_eq(tc_nn_dropout(p, x, 0.5), 0), TC_ALL, false), &n));
  EXPECT(n == 0, "%d dropped in evaluation", (int)n);
  tc_nn_params_destroy(p);
  tc_scope_end(scope);
}

// Outside every scope a handle lives until it is released: the list's alone may.
static void nothing_is_left_of_a_list(void) {
  size_t live[2];
  for (int i = 0; i < 2; i++) {
    for (int k = 0; k < 3; k++) {
      tc_nn_params *p = tc_nn_params_create();
      EXPECT_OK(tc_nn_add_layer_norm(p, "layer", 64));
      EXPECT_OK(tc_nn_add_rms_norm(p, "rms", 64));
      EXPECT_OK(tc_nn_add_group_norm(p, "group", 64));
      EXPECT_OK(tc_nn_add_batch_norm(p, "batch", 64));
      EXPECT_OK(tc_nn_add_linear(p, "fc", 8, 8, true));
      EXPECT_OK(tc_nn_add_conv2d(p, "conv", 3, 8, TC_SHAPE(3), 1, true));
      EXPECT_OK(tc_nn_add_embedding(p, "words", 9, 8));
      EXPECT_OK(tc_nn_add_multihead_attention(p, "attn", 8, true));
      EXPECT_OK(tc_sync(NULL));
      tc_nn_params_destroy(p);
    }
    live[i] = tc_memory_stats().live_bytes;
  }
  EXPECT(live[0] == live[1], "%zu bytes, then %zu", live[0], live[1]);
}

int main(void) {
  nothing_is_left_of_a_list();
  bool files = has_library(tc_safetensors_open_at);
  initial_values_are_pytorchs();
  names_are_checked();
  a_failed_module_leaves_nothing();
  dropout_is_checked_in_evaluation_too();
  attention_refuses_what_does_not_fit();
  modules_are_their_ops();
  batch_norm_has_two_modes();
  buffers_follow_the_parameters();
  dropout_is_of_training_alone();
  if (files) a_state_dict_gives_pytorchs_results();
  tc_shutdown();
  return expect_done("api-modules");
}
