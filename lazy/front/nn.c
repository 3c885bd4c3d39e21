// Modules over named parameters. Initial values and formulas are those of torch.nn.
#define TC_NO_SITES
#include "lazy/front/nn.h"

#include <math.h>

#include "lazy/front/operand.h"

// ---- Adding a module's parameters ----

// A weight [out, ..] and a bias [out], uniform within 1 / sqrt of the inputs of one output.
static tc_status add_weights(const char *op, tc_nn_params *p, const char *path, tc_dims shape, bool bias,
                             tc_site site) {
  double n = 1;
  for (int i = 1; i < shape.rank; i++) n *= (double)shape.dim[i];
  double bound = n > 0 ? 1 / sqrt(n) : 0;
  tc_nn_adding a = tc_nn_begin_adding(p, site);
  tc_status st = tc_nn_add_leaf(op, p, path, "weight", tc_nn_kaiming_uniform_at(shape, sqrt(5), site), site);
  if (st == TC_OK && bias)
    st = tc_nn_add_leaf(op, p, path, "bias", tc_nn_uniform_at(tc_dims_of(1, shape.dim), -bound, bound, site), site);
  return tc_nn_end_adding(a, st);
}

// ---- Linear, embedding ----

tc_status tc_nn_add_linear_at(tc_nn_params *p, const char *path, int64_t in, int64_t out, bool bias, tc_site site) {
  TC_CALLED_AS("nn_add_linear");
  return add_weights("nn_add_linear", p, path, tc_dims_of(2, (int64_t[]){out, in}), bias, site);
}

// The linear layer at a path, of numbers or of bytes.
static tc_tensor apply_linear(const char *op, const tc_nn_params *p, const char *path, tc_tensor x, tc_site site) {
  tc_tensor bias = tc_nn_get_leaf(op, p, path, "bias", true, site),
            bytes = tc_nn_get_leaf(op, p, path, "weight_int8", true, site);
  if (!tc_is_null(bytes))
    return tc_linear_int8_at(x, bytes, tc_nn_get_leaf(op, p, path, "weight_scale", false, site), bias, site);
  return tc_linear_at(x, tc_nn_get_leaf(op, p, path, "weight", false, site), bias, site);
}

tc_tensor tc_nn_linear_at(const tc_nn_params *p, const char *path, tc_tensor x, tc_site site) {
  TC_CALLED_AS("nn_linear");
  return apply_linear("nn_linear", p, path, x, site);
}

tc_status tc_nn_add_embedding_at(tc_nn_params *p, const char *path, int64_t n, int64_t dim, tc_site site) {
  TC_CALLED_AS("nn_add_embedding");
  tc_nn_adding a = tc_nn_begin_adding(p, site);
  tc_status st = tc_nn_add_leaf("nn_add_embedding", p, path, "weight",
                                tc_randn_at(tc_dims_of(2, (int64_t[]){n, dim}), TC_F32, site), site);
  if (st == TC_OK) st = tc_nn_mark_table("nn_add_embedding", p, path, site);
  return tc_nn_end_adding(a, st);
}

tc_tensor tc_nn_embedding_at(const tc_nn_params *p, const char *path, tc_tensor ids, tc_site site) {
  TC_CALLED_AS("nn_embedding");
  return tc_embedding_at(tc_nn_get_leaf("nn_embedding", p, path, "weight", false, site), ids, site);
}

tc_tensor tc_nn_dropout_at(const tc_nn_params *p, tc_tensor x, double probability, tc_site site) {
  TC_CALLED_AS("nn_dropout");
  const char *op = "nn_dropout";
  if (p == NULL) return tc_poison(tc_fail(TC_ERR_ARG, op, site, "there is no list"));
  if (tc_nn_training(p)) return tc_dropout_at(x, probability, site);
  if (!(probability >= 0 && probability <= 1))
    return tc_poison(tc_fail(TC_ERR_ARG, op, site, "p is %g, not within [0, 1]", probability));
  tc_status st = tc_operand_check(op, x, site);
  return st == TC_OK ? x : tc_poison(st);
}

// ---- Norms ----

// weight of ones, and bias of zeros.
static tc_status add_norm(const char *op, tc_nn_params *p, const char *path, int64_t dim, bool bias, tc_site site) {
  tc_nn_adding a = tc_nn_begin_adding(p, site);
  tc_status st = tc_nn_add_leaf(op, p, path, "weight", tc_ones_at(tc_dims_of(1, &dim), TC_F32, site), site);
  if (st == TC_OK && bias)
    st = tc_nn_add_leaf(op, p, path, "bias", tc_zeros_at(tc_dims_of(1, &dim), TC_F32, site), site);
  return tc_nn_end_adding(a, st);
}

tc_status tc_nn_add_layer_norm_at(tc_nn_params *p, const char *path, int64_t dim, tc_site site) {
  TC_CALLED_AS("nn_add_layer_norm");
  return add_norm("nn_add_layer_norm", p, path, dim, true, site);
}

tc_tensor tc_nn_layer_norm_at(const tc_nn_params *p, const char *path, tc_tensor x, double eps, tc_site site) {
  TC_CALLED_AS("nn_layer_norm");
  tc_tensor weight = tc_nn_get_leaf("nn_layer_norm", p, path, "weight", false, site);
  return tc_layer_norm_at(x, weight, tc_nn_get_leaf("nn_layer_norm", p, path, "bias", true, site), eps, site);
}

tc_status tc_nn_add_rms_norm_at(tc_nn_params *p, const char *path, int64_t dim, tc_site site) {
  TC_CALLED_AS("nn_add_rms_norm");
  return add_norm("nn_add_rms_norm", p, path, dim, false, site);
}

tc_tensor tc_nn_rms_norm_at(const tc_nn_params *p, const char *path, tc_tensor x, double eps, tc_site site) {
  TC_CALLED_AS("nn_rms_norm");
  return tc_rms_norm_at(x, tc_nn_get_leaf("nn_rms_norm", p, path, "weight", false, site), eps, site);
}

tc_status tc_nn_add_group_norm_at(tc_nn_params *p, const char *path, int64_t channels, tc_site site) {
  TC_CALLED_AS("nn_add_group_norm");
  return add_norm("nn_add_group_norm", p, path, channels, true, site);
}

tc_tensor tc_nn_group_norm_at(const tc_nn_params *p, const char *path, tc_tensor x, int64_t groups, double eps,
                              tc_site site) {
  TC_CALLED_AS("nn_group_norm");
  tc_tensor weight = tc_nn_get_leaf("nn_group_norm", p, path, "weight", false, site);
  return tc_group_norm_at(x, groups, weight, tc_nn_get_leaf("nn_group_norm", p, path, "bias", true, site), eps, site);
}

tc_status tc_nn_add_batch_norm_at(tc_nn_params *p, const char *path, int64_t channels, tc_site site) {
  TC_CALLED_AS("nn_add_batch_norm");
  const char *op = "nn_add_batch_norm";
  tc_dims shape = tc_dims_of(1, &channels);
  tc_nn_adding a = tc_nn_begin_adding(p, site);
  tc_status st = add_norm(op, p, path, channels, true, site);
  if (st == TC_OK) st = tc_nn_add_buffer_leaf(op, p, path, "running_mean", tc_zeros_at(shape, TC_F32, site), site);
  if (st == TC_OK) st = tc_nn_add_buffer_leaf(op, p, path, "running_var", tc_ones_at(shape, TC_F32, site), site);
  if (st == TC_OK)
    st = tc_nn_add_buffer_leaf(op, p, path, "num_batches_tracked", tc_zeros_at(TC_SCALAR, TC_I64, site), site);
  return tc_nn_end_adding(a, st);
}

tc_tensor tc_nn_batch_norm_at(const tc_nn_params *p, const char *path, tc_tensor x, double momentum, double eps,
                              tc_site site) {
  TC_CALLED_AS("nn_batch_norm");
  const char *op = "nn_batch_norm";
  tc_tensor weight = tc_nn_get_leaf(op, p, path, "weight", false, site),
            bias = tc_nn_get_leaf(op, p, path, "bias", true, site);
  tc_tensor mean = tc_nn_get_leaf(op, p, path, "running_mean", false, site),
            var = tc_nn_get_leaf(op, p, path, "running_var", false, site);
  tc_tensor count = tc_nn_get_leaf(op, p, path, "num_batches_tracked", true, site);
  tc_batch_norm_options options = {.training = tc_nn_training(p), .momentum = momentum, .eps = eps};
  if (momentum == 0) options.momentum = TC_ZERO;
  if (eps == 0) options.eps = TC_ZERO;
  tc_tensor y = tc_batch_norm_at(x, mean, var, weight, bias, options, site);
  if (!options.training || tc_is_null(count) || !tc_is_valid(y)) return y;
  tc_status st = tc_assign_at(count, tc_add_num_at(count, tc_num_int(1), site), site);
  return st == TC_OK ? y : tc_poison(st);
}

// ---- Convolution ----

tc_status tc_nn_add_conv2d_at(tc_nn_params *p, const char *path, int64_t in, int64_t out, tc_dims size, int64_t groups,
                              bool bias, tc_site site) {
  TC_CALLED_AS("nn_add_conv2d");
  const char *op = "nn_add_conv2d";
  if (size.rank != 1 && size.rank != 2)
    return tc_fail(TC_ERR_ARG, op, site, "size has %d numbers, 1 or 2 are asked for", size.rank);
  if (groups < 1 || in % groups || out % groups)
    return tc_fail(TC_ERR_ARG, op, site, "%lld channels to %lld cannot be cut into %lld groups", (long long)in,
                   (long long)out, (long long)groups);
  tc_dims shape = tc_dims_of(4, (int64_t[]){out, in / groups, size.dim[0], size.dim[size.rank - 1]});
  return add_weights(op, p, path, shape, bias, site);
}

tc_tensor tc_nn_conv2d_at(const tc_nn_params *p, const char *path, tc_tensor x, tc_conv_options options, tc_site site) {
  TC_CALLED_AS("nn_conv2d");
  tc_tensor weight = tc_nn_get_leaf("nn_conv2d", p, path, "weight", false, site);
  return tc_conv2d_at(x, weight, tc_nn_get_leaf("nn_conv2d", p, path, "bias", true, site), options, site);
}

// ---- Attention ----

// [b, t, dim] -> [b, n_heads, t, dim / n_heads]
static tc_tensor split_heads(tc_tensor x, int n_heads, tc_site site) {
  tc_dims d = tc_shape_at(x, site);
  tc_tensor split = tc_reshape_at(x, tc_dims_of(4, (int64_t[]){d.dim[0], d.dim[1], n_heads, d.dim[2] / n_heads}), site);
  return tc_permute_at(split, tc_dims_of(4, (int64_t[]){0, 2, 1, 3}), site);
}

static tc_status check_attention(tc_tensor query, tc_tensor key, tc_tensor value, const tc_nn_attention_options *o,
                                 tc_site site) {
  const char *op = tc_outer_op;
  TC_TRY(tc_operand_check(op, query, site));
  TC_TRY(tc_operand_check(op, key, site));
  TC_TRY(tc_operand_check(op, value, site));
  if (!tc_is_null(o->mask)) TC_TRY(tc_operand_check(op, o->mask, site));
  tc_dims q = tc_shape_at(query, site), k = tc_shape_at(key, site), v = tc_shape_at(value, site);
  bool fits = q.rank == 3 && k.rank == 3 && v.rank == 3 && k.dim[1] == v.dim[1];
  for (int i = 0; i < 3; i += 2) fits = fits && q.dim[i] == k.dim[i] && q.dim[i] == v.dim[i];
  char text[3][64];
  if (!fits)
    return tc_fail(TC_ERR_SHAPE, op, site, "query is %s, key %s, value %s", tc_dims_text(&q, text[0], 64),
                   tc_dims_text(&k, text[1], 64), tc_dims_text(&v, text[2], 64));
  if (o->n_heads <= 0 || q.dim[2] % o->n_heads != 0)
    return tc_fail(TC_ERR_SHAPE, op, site, "%d heads of dim %lld", o->n_heads, (long long)q.dim[2]);
  return TC_OK;
}

tc_tensor tc_nn_attention_at(tc_tensor query, tc_tensor key, tc_tensor value, tc_nn_attention_options o, tc_site site) {
  TC_CALLED_AS("nn_attention");
  tc_status st = check_attention(query, key, value, &o, site);
  if (st != TC_OK) return tc_poison(st);
  tc_dims q = tc_shape_at(query, site);
  tc_attention_options options = {.causal = o.causal, .dropout = o.dropout};
  tc_tensor mixed =
      tc_scaled_dot_product_attention_at(split_heads(query, o.n_heads, site), split_heads(key, o.n_heads, site),
                                         split_heads(value, o.n_heads, site), o.mask, options, site);
  return tc_reshape_at(tc_permute_at(mixed, tc_dims_of(4, (int64_t[]){0, 2, 1, 3}), site), q, site);
}

static tc_status add_attention(const char *op, tc_nn_params *p, const char *path, int64_t dim, bool bias,
                               tc_site site) {
  int64_t three;
  if (__builtin_mul_overflow(dim, 3, &three))
    return tc_fail(TC_ERR_SHAPE, op, site, "three projections of %lld are too many", (long long)dim);
  TC_TRY(tc_nn_add_leaf(op, p, path, "in_proj_weight",
                        tc_nn_xavier_uniform_at(tc_dims_of(2, (int64_t[]){three, dim}), 1, site), site));
  TC_TRY(tc_nn_add_leaf(op, p, path, "out_proj.weight",
                        tc_nn_kaiming_uniform_at(tc_dims_of(2, (int64_t[]){dim, dim}), sqrt(5), site), site));
  if (!bias) return TC_OK;
  TC_TRY(tc_nn_add_leaf(op, p, path, "in_proj_bias", tc_zeros_at(tc_dims_of(1, &three), TC_F32, site), site));
  return tc_nn_add_leaf(op, p, path, "out_proj.bias", tc_zeros_at(tc_dims_of(1, &dim), TC_F32, site), site);
}

tc_status tc_nn_add_multihead_attention_at(tc_nn_params *p, const char *path, int64_t dim, bool bias, tc_site site) {
  TC_CALLED_AS("nn_add_multihead_attention");
  tc_nn_adding a = tc_nn_begin_adding(p, site);
  tc_status st = add_attention("nn_add_multihead_attention", p, path, dim, bias, site);
  return tc_nn_end_adding(a, st);
}

typedef struct projection {
  tc_tensor weight, bias;
  int64_t dim;
} projection;

// x through thirds first to last - 1 of the input projection.
static tc_tensor project(tc_tensor x, const projection *p, int first, int last, tc_site site) {
  tc_tensor weight = tc_slice_at(p->weight, 0, first * p->dim, last * p->dim, 1, site), bias = p->bias;
  if (!tc_is_null(bias)) bias = tc_slice_at(bias, 0, first * p->dim, last * p->dim, 1, site);
  return tc_linear_at(x, weight, bias, site);
}

static bool is_same(tc_tensor a, tc_tensor b) {
  return a.slot == b.slot && a.gen == b.gen;
}

tc_tensor tc_nn_multihead_attention_at(const tc_nn_params *p, const char *path, tc_tensor query, tc_tensor key,
                                       tc_tensor value, tc_nn_attention_options o, tc_site site) {
  TC_CALLED_AS("nn_multihead_attention");
  const char *op = "nn_multihead_attention";
  projection in = {tc_nn_get_leaf(op, p, path, "in_proj_weight", false, site),
                   tc_nn_get_leaf(op, p, path, "in_proj_bias", true, site), 0};
  tc_status st = tc_operand_check(op, in.weight, site);
  if (st != TC_OK) return tc_poison(st);
  if (!tc_nn_training(p)) o.dropout = 0;
  in.dim = tc_shape_at(in.weight, site).dim[0] / 3;
  tc_tensor qkv[3], x[3] = {query, key, value};
  bool self = is_same(query, key) && is_same(key, value);
  tc_tensor all = self ? project(query, &in, 0, 3, site) : query;  // one product instead of three
  for (int i = 0; i < 3; i++)
    qkv[i] = self ? tc_slice_at(all, -1, i * in.dim, (i + 1) * in.dim, 1, site) : project(x[i], &in, i, i + 1, site);
  char out_proj[TC_NN_PATH_BYTES];
  tc_nn_path(out_proj, sizeof out_proj, "%s.out_proj", path);
  return apply_linear(op, p, out_proj, tc_nn_attention_at(qkv[0], qkv[1], qkv[2], o, site), site);
}
