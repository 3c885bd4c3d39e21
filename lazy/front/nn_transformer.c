// Transformer layers and their stacks.
//
// In: x [b, t, dim], and a decoder's memory [b, s, dim]. Out: [b, t, dim].
// Formulas and the order of dropout are those of torch.nn.
// Threads: thread-compatible. Owner: nobody.
#define TC_NO_SITES
#include <stdio.h>

#include "lazy/front/nn.h"
#include "lazy/front/operand.h"

typedef char nn_path[TC_NN_PATH_BYTES];

// path.part; one that is too long is cut, and refused by the module that gets it.
static const char *join_path(nn_path out, const char *path, const char *part) {
  return tc_nn_path(out, sizeof(nn_path), "%s.%s", path, part);
}

// ---- Adding ----

static tc_status add_norm(tc_nn_params *p, const char *path, const char *part, int64_t dim, bool no_bias,
                          tc_site site) {
  nn_path at;
  if (!no_bias) return tc_nn_add_layer_norm_at(p, join_path(at, path, part), dim, site);
  return tc_nn_add_rms_norm_at(p, join_path(at, path, part), dim, site);  // has the same weight, and no bias
}

static tc_status add_layer(const char *op, tc_nn_params *p, const char *path, int64_t dim, bool is_decoder,
                           const tc_nn_transformer_options *o, tc_site site) {
  static const char *const norms[] = {"norm1", "norm2", "norm3"};
  int64_t inner = tc_option_int(o->dim_feedforward, 2048);
  nn_path at;
  if (!path) return tc_fail(TC_ERR_ARG, op, site, "path is NULL");
  if (o->n_heads < 1 || dim < 1 || dim % o->n_heads != 0)
    return tc_fail(TC_ERR_SHAPE, op, site, "n_heads is %d, dim %lld: n_heads must divide dim", o->n_heads,
                   (long long)dim);
  if (inner < 1) return tc_fail(TC_ERR_SHAPE, op, site, "dim_feedforward is %lld", (long long)inner);
  TC_TRY(tc_nn_add_multihead_attention_at(p, join_path(at, path, "self_attn"), dim, !o->no_bias, site));
  if (is_decoder)
    TC_TRY(tc_nn_add_multihead_attention_at(p, join_path(at, path, "multihead_attn"), dim, !o->no_bias, site));
  TC_TRY(tc_nn_add_linear_at(p, join_path(at, path, "linear1"), dim, inner, !o->no_bias, site));
  TC_TRY(tc_nn_add_linear_at(p, join_path(at, path, "linear2"), inner, dim, !o->no_bias, site));
  for (int i = 0; i < (is_decoder ? 3 : 2); i++) TC_TRY(add_norm(p, path, norms[i], dim, o->no_bias, site));
  return TC_OK;
}

static tc_status add_whole_layer(const char *op, tc_nn_params *p, const char *path, int64_t dim, bool is_decoder,
                                 const tc_nn_transformer_options *o, tc_site site) {
  tc_nn_adding a = tc_nn_begin_adding(p, site);
  return tc_nn_end_adding(a, add_layer(op, p, path, dim, is_decoder, o, site));
}

static tc_status add_stack(const char *op, tc_nn_params *p, const char *path, int64_t dim, int n_layers,
                           bool is_decoder, const tc_nn_transformer_options *o, tc_site site) {
  if (n_layers < 1) return tc_fail(TC_ERR_ARG, op, site, "n_layers is %d", n_layers);
  if (!path) return tc_fail(TC_ERR_ARG, op, site, "path is NULL");
  tc_nn_adding a = tc_nn_begin_adding(p, site);
  tc_status st = TC_OK;
  for (int i = 0; i < n_layers && st == TC_OK; i++) {
    nn_path at;
    st = add_layer(op, p, tc_nn_path(at, sizeof at, "%s.layers.%d", path, i), dim, is_decoder, o, site);
  }
  if (st == TC_OK && o->final_norm) st = add_norm(p, path, "norm", dim, o->no_bias, site);
  return tc_nn_end_adding(a, st);
}

tc_status tc_nn_add_transformer_encoder_layer_at(tc_nn_params *p, const char *path, int64_t dim,
                                                 tc_nn_transformer_options o, tc_site site) {
  TC_CALLED_AS("nn_add_transformer_encoder_layer");
  return add_whole_layer(tc_outer_op, p, path, dim, false, &o, site);
}

tc_status tc_nn_add_transformer_decoder_layer_at(tc_nn_params *p, const char *path, int64_t dim,
                                                 tc_nn_transformer_options o, tc_site site) {
  TC_CALLED_AS("nn_add_transformer_decoder_layer");
  return add_whole_layer(tc_outer_op, p, path, dim, true, &o, site);
}

tc_status tc_nn_add_transformer_encoder_at(tc_nn_params *p, const char *path, int64_t dim, int n_layers,
                                           tc_nn_transformer_options o, tc_site site) {
  TC_CALLED_AS("nn_add_transformer_encoder");
  return add_stack(tc_outer_op, p, path, dim, n_layers, false, &o, site);
}

tc_status tc_nn_add_transformer_decoder_at(tc_nn_params *p, const char *path, int64_t dim, int n_layers,
                                           tc_nn_transformer_options o, tc_site site) {
  TC_CALLED_AS("nn_add_transformer_decoder");
  return add_stack(tc_outer_op, p, path, dim, n_layers, true, &o, site);
}

// ---- Applying ----

typedef struct layer {
  const tc_nn_params *p;
  const char *path;
  const tc_nn_transformer_options *o;
  double dropout, eps;
  tc_tensor mask, memory_mask;  // with the padding; {0, 0}: none
  tc_site site;
} layer;

// What both a mask and a padding let be seen: of the padding [b, s] as [b, 1, 1, s].
static tc_tensor combine_masks(tc_tensor mask, tc_tensor padding, const char *what, tc_site site) {
  const char *op = tc_outer_op;
  if (tc_is_null(padding)) return mask;
  tc_status st = tc_operand_check(op, padding, site);
  if (st != TC_OK) return tc_poison(st);
  tc_dims d = tc_shape_at(padding, site);
  tc_type type = tc_dtype_at(padding, site);
  char text[64];
  if (d.rank != 2 || type != TC_BOOL)
    return tc_poison(tc_fail(d.rank != 2 ? TC_ERR_SHAPE : TC_ERR_DTYPE, op, site,
                             "%s is %s %s; bool [b, positions] is needed, true where one is there", what,
                             tc_type_name(type), tc_dims_text(&d, text, sizeof text)));
  padding = tc_reshape_at(padding, tc_dims_of(4, (int64_t[]){d.dim[0], 1, 1, d.dim[1]}), site);
  if (tc_is_null(mask)) return padding;
  if (tc_dtype_at(mask, site) == TC_BOOL) return tc_logical_and_at(mask, padding, site);
  return tc_where_tensor_num_at(padding, mask, tc_num_float(-(double)__builtin_inf()), site);
}

static tc_tensor norm(const layer *l, const char *part, tc_tensor x) {
  nn_path at;
  tc_tensor weight = tc_nn_get_leaf(tc_outer_op, l->p, join_path(at, l->path, part), "weight", false, l->site);
  tc_tensor bias = tc_nn_get_leaf(tc_outer_op, l->p, at, "bias", true, l->site);
  return tc_layer_norm_at(x, weight, bias, l->eps, l->site);
}

static tc_tensor attend(const layer *l, const char *part, tc_tensor x, tc_tensor memory, tc_tensor mask, bool causal) {
  nn_path at;
  tc_nn_attention_options o = {.n_heads = l->o->n_heads, .causal = causal, .mask = mask, .dropout = l->dropout};
  tc_tensor y = tc_nn_multihead_attention_at(l->p, join_path(at, l->path, part), x, memory, memory, o, l->site);
  return tc_nn_dropout_at(l->p, y, l->dropout, l->site);
}

static tc_tensor self_attend(const layer *l, tc_tensor x) {
  return attend(l, "self_attn", x, x, l->mask, l->o->causal);
}

static tc_tensor feed_forward(const layer *l, tc_tensor x) {
  nn_path at;
  tc_tensor h = tc_nn_linear_at(l->p, join_path(at, l->path, "linear1"), x, l->site);
  h = l->o->gelu ? tc_gelu_at(h, l->site) : tc_relu_at(h, l->site);
  h = tc_nn_dropout_at(l->p, h, l->dropout, l->site);
  h = tc_nn_linear_at(l->p, join_path(at, l->path, "linear2"), h, l->site);
  return tc_nn_dropout_at(l->p, h, l->dropout, l->site);
}

static tc_tensor run_encoder_layer(const layer *l, tc_tensor x) {
  if (l->o->norm_first) {
    x = tc_add_at(x, self_attend(l, norm(l, "norm1", x)), l->site);
    return tc_add_at(x, feed_forward(l, norm(l, "norm2", x)), l->site);
  }
  x = norm(l, "norm1", tc_add_at(x, self_attend(l, x), l->site));
  return norm(l, "norm2", tc_add_at(x, feed_forward(l, x), l->site));
}

static tc_tensor cross_attend(const layer *l, tc_tensor x, tc_tensor memory) {
  return attend(l, "multihead_attn", x, memory, l->memory_mask, false);
}

static tc_tensor run_decoder_layer(const layer *l, tc_tensor x, tc_tensor memory) {
  if (l->o->norm_first) {
    x = tc_add_at(x, self_attend(l, norm(l, "norm1", x)), l->site);
    x = tc_add_at(x, cross_attend(l, norm(l, "norm2", x), memory), l->site);
    return tc_add_at(x, feed_forward(l, norm(l, "norm3", x)), l->site);
  }
  x = norm(l, "norm1", tc_add_at(x, self_attend(l, x), l->site));
  x = norm(l, "norm2", tc_add_at(x, cross_attend(l, x, memory), l->site));
  return norm(l, "norm3", tc_add_at(x, feed_forward(l, x), l->site));
}

// A layer at path; false after reporting.
static tc_status begin_layer(layer *l, const tc_nn_params *p, const char *path, const tc_nn_transformer_options *o,
                             tc_site site) {
  const char *op = tc_outer_op;
  if (!path) return tc_fail(TC_ERR_ARG, op, site, "path is NULL");
  *l = (layer){.p = p, .path = path, .o = o, .site = site};
  l->dropout = tc_option(o->dropout, 0.1), l->eps = tc_option(o->eps, 1e-5);
  if (!(l->dropout >= 0 && l->dropout <= 1))
    return tc_fail(TC_ERR_ARG, op, site, "dropout is %g, not within [0, 1]", l->dropout);
  if (!(l->eps >= 0)) return tc_fail(TC_ERR_ARG, op, site, "eps is %g, not a number from 0 on", l->eps);
  l->mask = combine_masks(o->mask, o->padding, "padding", site);
  l->memory_mask = combine_masks(o->memory_mask, o->memory_padding, "memory_padding", site);
  if (!tc_is_null(l->mask)) TC_TRY(tc_operand_check(op, l->mask, site));
  return tc_is_null(l->memory_mask) ? TC_OK : tc_operand_check(op, l->memory_mask, site);
}

// memory NULL: an encoder's layer.
static tc_tensor run_layer(const tc_nn_params *p, const char *path, tc_tensor x, const tc_tensor *memory,
                           const tc_nn_transformer_options *o, tc_site site) {
  layer l;
  tc_status st = begin_layer(&l, p, path, o, site);
  if (st != TC_OK) return tc_poison(st);
  return memory ? run_decoder_layer(&l, x, *memory) : run_encoder_layer(&l, x);
}

static bool has_layer(const tc_nn_params *p, const char *path) {
  nn_path at;
  return tc_nn_has(p, join_path(at, path, "linear1.weight"));
}

static tc_tensor run_stack(const tc_nn_params *p, const char *path, tc_tensor x, const tc_tensor *memory,
                           const tc_nn_transformer_options *o, tc_site site) {
  layer l;
  nn_path at;
  tc_status st = begin_layer(&l, p, path, o, site);
  if (st != TC_OK) return tc_poison(st);
  for (int i = 0;; i++) {
    l.path = tc_nn_path(at, sizeof at, "%s.layers.%d", path, i);
    if (i > 0 && !has_layer(p, at)) break;  // without the first one its name is reported
    x = memory ? run_decoder_layer(&l, x, *memory) : run_encoder_layer(&l, x);
  }
  l.path = path;
  return tc_nn_has(p, join_path(at, path, "norm.weight")) ? norm(&l, "norm", x) : x;
}

tc_tensor tc_nn_transformer_encoder_layer_at(const tc_nn_params *p, const char *path, tc_tensor x,
                                             tc_nn_transformer_options o, tc_site site) {
  TC_CALLED_AS("nn_transformer_encoder_layer");
  return run_layer(p, path, x, NULL, &o, site);
}

tc_tensor tc_nn_transformer_decoder_layer_at(const tc_nn_params *p, const char *path, tc_tensor x, tc_tensor memory,
                                             tc_nn_transformer_options o, tc_site site) {
  TC_CALLED_AS("nn_transformer_decoder_layer");
  return run_layer(p, path, x, &memory, &o, site);
}

tc_tensor tc_nn_transformer_encoder_at(const tc_nn_params *p, const char *path, tc_tensor x,
                                       tc_nn_transformer_options o, tc_site site) {
  TC_CALLED_AS("nn_transformer_encoder");
  return run_stack(p, path, x, NULL, &o, site);
}

tc_tensor tc_nn_transformer_decoder_at(const tc_nn_params *p, const char *path, tc_tensor x, tc_tensor memory,
                                       tc_nn_transformer_options o, tc_site site) {
  TC_CALLED_AS("nn_transformer_decoder");
  return run_stack(p, path, x, &memory, &o, site);
}
