// GPT-2: its sizes and weights by Hugging Face's names, keys and values of former tokens, and the
// forward pass. See gpt2.h.
#include "examples/models/gpt2.h"

#include <math.h>
#include <stdlib.h>

#include "examples/models/weights.h"

static const double eps = 1e-5;

bool gpt2_config_of(const tc_archive *a, const char *prefix, gpt2_config *out) {
  int64_t words[2], positions[2], inner[2], n_layers;
  if (!weights_shape(a, prefix, "wte.weight", 2, "[words, width]", words) ||
      !weights_shape(a, prefix, "wpe.weight", 2, "[positions, width]", positions) ||
      !weights_shape(a, prefix, "h.0.mlp.c_fc.weight", 2, "[width, inner width]", inner) ||
      !weights_layers(a, prefix, "h.", ".mlp.c_fc.weight", 2, "[width, inner width]", &n_layers))
    return false;
  *out = (gpt2_config){words[0], positions[0], words[1], inner[1], n_layers};
  return true;
}

// ---- Parameters ----

static tc_status add_normal(tc_nn_params *p, const char *name, int64_t rows, int64_t columns, double std) {
  return tc_is_valid(tc_nn_add(p, name, tc_nn_normal(TC_SHAPE(rows, columns), 0, std))) ? TC_OK
                                                                                        : tc_last_error()->status;
}

// weight [in, out] and bias [out].
static tc_status add_dense(tc_nn_params *p, const char *path, int64_t in, int64_t out, double std) {
  tc_status st = add_normal(p, TC_NN_PATH("%s.weight", path), in, out, std);
  if (st != TC_OK) return st;
  return tc_is_valid(tc_nn_add(p, TC_NN_PATH("%s.bias", path), tc_zeros(TC_SHAPE(out), TC_F32)))
             ? TC_OK
             : tc_last_error()->status;
}

static tc_status add_layer(tc_nn_params *p, const gpt2_config *c, const char *path) {
  // what is added to the residual stream starts smaller
  double std = 0.02, into_sum = std / sqrt(2.0 * (double)c->n_layers);
  tc_status st = tc_nn_add_layer_norm(p, TC_NN_PATH("%s.ln_1", path), c->dim);
  if (st == TC_OK) st = add_dense(p, TC_NN_PATH("%s.attn.c_attn", path), c->dim, 3 * c->dim, std);
  if (st == TC_OK) st = add_dense(p, TC_NN_PATH("%s.attn.c_proj", path), c->dim, c->dim, into_sum);
  if (st == TC_OK) st = tc_nn_add_layer_norm(p, TC_NN_PATH("%s.ln_2", path), c->dim);
  if (st == TC_OK) st = add_dense(p, TC_NN_PATH("%s.mlp.c_fc", path), c->dim, c->inner, std);
  if (st == TC_OK) st = add_dense(p, TC_NN_PATH("%s.mlp.c_proj", path), c->inner, c->dim, into_sum);
  return st;
}

tc_status gpt2_add(tc_nn_params *p, const gpt2_config *c) {
  tc_status st = add_normal(p, "wte.weight", c->n_words, c->dim, 0.02);
  if (st == TC_OK) st = add_normal(p, "wpe.weight", c->n_positions, c->dim, 0.02);
  for (int l = 0; l < c->n_layers && st == TC_OK; l++) st = add_layer(p, c, TC_NN_PATH("h.%d", l));
  if (st == TC_OK) st = tc_nn_add_layer_norm(p, "ln_f", c->dim);
  return st;
}

tc_status gpt2_quantize(tc_nn_params *p) {
  tc_status st = tc_nn_quantize_dynamic(p, "h.*", 1);
  if (st != TC_OK) return st;
  if (!tc_is_valid(tc_nn_add(p, "lm_head.weight", tc_nn_get(p, "wte.weight")))) return tc_last_error()->status;
  return tc_nn_quantize_dynamic(p, "lm_head", 0);
}

// ---- Keys and values of former tokens ----

static int count_layers(const tc_nn_params *p) {
  int n = 0;
  while (tc_nn_has(p, TC_NN_PATH("h.%d.attn.c_attn.bias", n))) n++;
  return n;
}

// Zeros, which have no weight in a sum until they are written; where NaN was, it would spread.
static tc_tensor zeros(tc_dims shape, tc_type type) {
  return tc_retain(tc_zeros(shape, type));
}

tc_status gpt2_cache_init(gpt2_cache *cache, const tc_nn_params *p, int64_t b, int64_t n_max, int n_heads) {
  tc_tensor words = tc_nn_get(p, "wte.weight");
  tc_dims shape = TC_SHAPE(b, n_heads, n_max, tc_shape(words).dim[1] / n_heads);
  *cache = (gpt2_cache){.n_layers = count_layers(p), .n_max = n_max};
  cache->key = calloc((size_t)cache->n_layers + 1, sizeof *cache->key);
  cache->value = calloc((size_t)cache->n_layers + 1, sizeof *cache->value);
  if (!cache->key || !cache->value) return gpt2_cache_fini(cache), TC_ERR_MEMORY;
  tc_scope scope = tc_scope_begin();
  for (int l = 0; l < cache->n_layers; l++)
    cache->key[l] = zeros(shape, tc_dtype(words)), cache->value[l] = zeros(shape, tc_dtype(words));
  tc_status st = tc_eval(cache->n_layers, cache->key);
  if (st == TC_OK) st = tc_eval(cache->n_layers, cache->value);
  tc_scope_end(scope);
  if (st != TC_OK) gpt2_cache_fini(cache);
  return st;
}

void gpt2_cache_fini(gpt2_cache *cache) {
  for (int l = 0; l < cache->n_layers; l++) {
    if (cache->key) tc_release(cache->key[l]);
    if (cache->value) tc_release(cache->value[l]);
  }
  free(cache->key);
  free(cache->value);
  *cache = (gpt2_cache){0};
}

// ---- Forward ----

// A weight lies [in, out], but as bytes [out, in], as any linear layer's.
static tc_tensor dense(const tc_nn_params *p, const char *path, tc_tensor x) {
  if (tc_nn_has(p, TC_NN_PATH("%s.weight_int8", path))) return tc_nn_linear(p, path, x);
  tc_tensor weight = tc_nn_get(p, TC_NN_PATH("%s.weight", path)), bias = tc_nn_get(p, TC_NN_PATH("%s.bias", path));
  return tc_add(tc_matmul(x, weight), bias);
}

// The part of x [b, t, 3 dim] for one of query, key, value, in heads: [b, n_heads, t, dim /
// n_heads].
static tc_tensor heads_of(tc_tensor x, int part, int n_heads) {
  tc_dims d = tc_shape(x);
  int64_t dim = d.dim[2] / 3;
  tc_tensor y = tc_slice(x, 2, part * dim, (part + 1) * dim, 1);
  return tc_permute(tc_reshape(y, TC_SHAPE(d.dim[0], d.dim[1], n_heads, dim / n_heads)), TC_AXES(0, 2, 1, 3));
}

// Puts x [b, n_heads, t, d] at the end of the tokens that are there.
static tc_status append(tc_tensor to, int64_t at, tc_tensor x) {
  tc_dims d = tc_shape(x);
  return tc_assign_slice(to, (int64_t[]){0, 0, at, 0}, (int64_t[]){d.dim[0], d.dim[1], at + d.dim[2], d.dim[3]}, NULL,
                         x);
}

// The last of the new tokens sees all keys that there are then, each one before it a key less; no
// more of the cache is read.
static tc_tensor cached_attention(tc_tensor qkv, int n_heads, const gpt2_cache *cache, int l) {
  tc_dims d = tc_shape(qkv);
  int64_t t = d.dim[1];
  tc_status st = append(cache->key[l], cache->n, heads_of(qkv, 1, n_heads));
  if (st == TC_OK) st = append(cache->value[l], cache->n, heads_of(qkv, 2, n_heads));
  if (st != TC_OK) return qkv;  // the error is kept, and told at the sync point
  tc_attention_options o = {.causal = true, .key_length = cache->n + t};
  tc_tensor mixed =
      tc_scaled_dot_product_attention(heads_of(qkv, 0, n_heads), cache->key[l], cache->value[l], (tc_tensor){0, 0}, o);
  return tc_reshape(tc_permute(mixed, TC_AXES(0, 2, 1, 3)), TC_SHAPE(d.dim[0], t, d.dim[2] / 3));
}

static tc_tensor attention(tc_tensor qkv, int n_heads, const gpt2_cache *cache, int l) {
  if (cache) return cached_attention(qkv, n_heads, cache, l);
  int64_t dim = tc_shape(qkv).dim[2] / 3;
  tc_tensor part[3];
  for (int i = 0; i < 3; i++) part[i] = tc_slice(qkv, 2, i * dim, (i + 1) * dim, 1);
  return tc_nn_attention(part[0], part[1], part[2], (tc_nn_attention_options){.n_heads = n_heads, .causal = true});
}

tc_tensor gpt2_forward(const tc_nn_params *p, tc_tensor ids, int n_heads, gpt2_cache *cache) {
  int64_t t = tc_shape(ids).dim[1], first = cache ? cache->n : 0;
  tc_tensor x = tc_add(tc_nn_embedding(p, "wte", ids), tc_slice(tc_nn_get(p, "wpe.weight"), 0, first, first + t, 1));
  int n_layers = count_layers(p);
  for (int l = 0; l < n_layers; l++) {
    tc_tensor y = dense(p, TC_NN_PATH("h.%d.attn.c_attn", l), tc_nn_layer_norm(p, TC_NN_PATH("h.%d.ln_1", l), x, eps));
    x = tc_add(x, dense(p, TC_NN_PATH("h.%d.attn.c_proj", l), attention(y, n_heads, cache, l)));
    y = dense(p, TC_NN_PATH("h.%d.mlp.c_fc", l), tc_nn_layer_norm(p, TC_NN_PATH("h.%d.ln_2", l), x, eps));
    x = tc_add(x, dense(p, TC_NN_PATH("h.%d.mlp.c_proj", l), tc_gelu_tanh(y)));
  }
  if (cache) cache->n += t;
  return tc_nn_layer_norm(p, "ln_f", x, eps);
}

tc_tensor gpt2_logits(const tc_nn_params *p, tc_tensor hidden) {
  if (tc_nn_has(p, "lm_head.weight_int8")) return tc_nn_linear(p, "lm_head", hidden);
  return tc_linear(hidden, tc_nn_get(p, "wte.weight"), (tc_tensor){0, 0});
}

tc_tensor gpt2_loss(const tc_nn_params *p, tc_tensor ids, int n_heads) {
  tc_dims d = tc_shape(ids);
  int64_t n = d.dim[0] * (d.dim[1] - 1);
  tc_tensor hidden = gpt2_forward(p, tc_slice(ids, 1, 0, -1, 1), n_heads, NULL);
  tc_tensor logits = tc_reshape(gpt2_logits(p, hidden), TC_SHAPE(n, -1));
  return tc_cross_entropy(logits, tc_reshape(tc_slice(ids, 1, 1, INT64_MAX, 1), TC_SHAPE(n)));
}
