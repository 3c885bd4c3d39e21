// BERT: its sizes and weights by Hugging Face's names, and the forward pass. See bert.h.
#include "examples/models/bert.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/models/weights.h"

static const double eps = 1e-12;

bool bert_config_of(const tc_archive *a, const char *prefix, bert_config *out) {
  int64_t words[2], positions[2], types[2], inner[2], n_layers;
  if (!weights_shape(a, prefix, "embeddings.word_embeddings.weight", 2, "[words, width]", words) ||
      !weights_shape(a, prefix, "embeddings.position_embeddings.weight", 2, "[positions, width]", positions) ||
      !weights_shape(a, prefix, "embeddings.token_type_embeddings.weight", 2, "[types, width]", types) ||
      !weights_shape(a, prefix, "encoder.layer.0.intermediate.dense.weight", 2, "[inner width, width]", inner) ||
      !weights_layers(a, prefix, "encoder.layer.", ".intermediate.dense.weight", 2, "[inner width, width]", &n_layers))
    return false;
  *out = (bert_config){words[0], positions[0], types[0], words[1], inner[0], n_layers};
  return true;
}

// ---- Parameters ----

static tc_status add_normal(tc_nn_params *p, const char *name, int64_t rows, int64_t columns) {
  return tc_is_valid(tc_nn_add(p, name, tc_nn_normal(TC_SHAPE(rows, columns), 0, 0.02))) ? TC_OK
                                                                                         : tc_last_error()->status;
}

static tc_status add_linear(tc_nn_params *p, const char *path, int64_t in, int64_t out) {
  tc_status st = add_normal(p, TC_NN_PATH("%s.weight", path), out, in);
  if (st != TC_OK) return st;
  return tc_is_valid(tc_nn_add(p, TC_NN_PATH("%s.bias", path), tc_zeros(TC_SHAPE(out), TC_F32)))
             ? TC_OK
             : tc_last_error()->status;
}

static tc_status add_layer(tc_nn_params *p, const bert_config *c, const char *path) {
  tc_status st = add_linear(p, TC_NN_PATH("%s.attention.self.query", path), c->dim, c->dim);
  if (st == TC_OK) st = add_linear(p, TC_NN_PATH("%s.attention.self.key", path), c->dim, c->dim);
  if (st == TC_OK) st = add_linear(p, TC_NN_PATH("%s.attention.self.value", path), c->dim, c->dim);
  if (st == TC_OK) st = add_linear(p, TC_NN_PATH("%s.attention.output.dense", path), c->dim, c->dim);
  if (st == TC_OK) st = tc_nn_add_layer_norm(p, TC_NN_PATH("%s.attention.output.LayerNorm", path), c->dim);
  if (st == TC_OK) st = add_linear(p, TC_NN_PATH("%s.intermediate.dense", path), c->dim, c->inner);
  if (st == TC_OK) st = add_linear(p, TC_NN_PATH("%s.output.dense", path), c->inner, c->dim);
  if (st == TC_OK) st = tc_nn_add_layer_norm(p, TC_NN_PATH("%s.output.LayerNorm", path), c->dim);
  return st;
}

tc_status bert_add(tc_nn_params *p, const bert_config *c) {
  tc_status st = add_normal(p, "embeddings.word_embeddings.weight", c->n_words, c->dim);
  if (st == TC_OK) st = add_normal(p, "embeddings.position_embeddings.weight", c->n_positions, c->dim);
  if (st == TC_OK) st = add_normal(p, "embeddings.token_type_embeddings.weight", c->n_types, c->dim);
  if (st == TC_OK) st = tc_nn_add_layer_norm(p, "embeddings.LayerNorm", c->dim);
  for (int l = 0; l < c->n_layers && st == TC_OK; l++) st = add_layer(p, c, TC_NN_PATH("encoder.layer.%d", l));
  return st;
}

// The name that a parameter has in a file, whichever of the two it is; from malloc.
static char *name_in_file(const tc_archive *a, const char *prefix, const char *name) {
  static const char *const old[][2] = {{"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}};
  char *out;
  if (asprintf(&out, "%s%s", prefix, name) < 0) return NULL;
  for (int i = 0; i < 2 && !tc_archive_has(a, out); i++) {
    char *end = strstr(out, old[i][0]);
    char *older;
    if (end == NULL || asprintf(&older, "%.*s%s", (int)(end - out), out, old[i][1]) < 0) continue;
    if (!tc_archive_has(a, older)) {
      free(older);
      continue;
    }
    free(out);
    out = older;
  }
  return out;
}

tc_status bert_load(const tc_nn_params *p, const tc_archive *a, const char *prefix) {
  int n = tc_nn_count(p);
  char **name = calloc((size_t)n + 1, sizeof *name);
  tc_status st = name ? TC_OK : TC_ERR_MEMORY;
  for (int i = 0; i < n && st == TC_OK; i++)
    if ((name[i] = name_in_file(a, prefix, tc_nn_names(p)[i])) == NULL) st = TC_ERR_MEMORY;
  if (st == TC_OK) st = tc_archive_load(a, NULL, n, (const char *const *)name, tc_nn_tensors(p));
  for (int i = 0; i < n && name; i++) free(name[i]);
  free(name);
  return st;
}

tc_status bert_quantize(tc_nn_params *p) {
  return tc_nn_quantize_dynamic(p, "encoder.layer.*", 0);
}

// ---- Forward ----

static tc_tensor layer(const tc_nn_params *p, const char *path, tc_tensor x, tc_nn_attention_options o) {
  tc_tensor query = tc_nn_linear(p, TC_NN_PATH("%s.attention.self.query", path), x);
  tc_tensor key = tc_nn_linear(p, TC_NN_PATH("%s.attention.self.key", path), x);
  tc_tensor value = tc_nn_linear(p, TC_NN_PATH("%s.attention.self.value", path), x);
  tc_tensor y = tc_nn_linear(p, TC_NN_PATH("%s.attention.output.dense", path), tc_nn_attention(query, key, value, o));
  x = tc_nn_layer_norm(p, TC_NN_PATH("%s.attention.output.LayerNorm", path), tc_add(x, y), eps);
  y = tc_gelu(tc_nn_linear(p, TC_NN_PATH("%s.intermediate.dense", path), x));
  y = tc_nn_linear(p, TC_NN_PATH("%s.output.dense", path), y);
  return tc_nn_layer_norm(p, TC_NN_PATH("%s.output.LayerNorm", path), tc_add(x, y), eps);
}

static bool is_none(tc_tensor t) {
  return t.slot == 0 && t.gen == 0;
}

tc_tensor bert_forward(const tc_nn_params *p, tc_tensor ids, tc_tensor types, tc_tensor mask, int n_heads) {
  tc_dims d = tc_shape(ids);
  int64_t b = d.dim[0], t = d.dim[1];
  tc_nn_attention_options o = {.n_heads = n_heads};
  // The least float, not a bool: what it is added to no longer counts, and a row that is all
  // padding attends to all alike.
  if (!is_none(mask)) o.mask = tc_reshape(tc_mul(tc_cast(tc_eq(mask, 0), TC_F32), -FLT_MAX), TC_SHAPE(b, 1, 1, t));
  tc_tensor position = tc_slice(tc_nn_get(p, "embeddings.position_embeddings.weight"), 0, 0, t, 1);
  tc_tensor type_weight = tc_nn_get(p, "embeddings.token_type_embeddings.weight");
  tc_tensor type = is_none(types) ? tc_select(type_weight, 0, 0) : tc_embedding(type_weight, types);
  tc_tensor x = tc_add(tc_add(tc_nn_embedding(p, "embeddings.word_embeddings", ids), type), position);
  x = tc_nn_layer_norm(p, "embeddings.LayerNorm", x, eps);
  for (int l = 0; tc_nn_has(p, TC_NN_PATH("encoder.layer.%d.attention.self.query.bias", l)); l++)
    x = layer(p, TC_NN_PATH("encoder.layer.%d", l), x, o);
  return x;
}
