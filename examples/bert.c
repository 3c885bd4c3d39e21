// BERT with the weights of Hugging Face's BertModel: the last hidden state of each token. The model
// is examples/models/bert.c.
//   example-bert --weights w.safetensors --input ids.npy --mask m.npy --output y.npy     ids and mask [b, t], y [b, t, dim]
#include "examples/models/bert.h"

#include <string.h>

#include "examples/models/cli.h"
#include "examples/models/weights.h"

typedef struct work {
  tc_nn_params *model;
  tc_tensor ids, types, mask;
  int n_heads;
} work;

// Everything in one scope, so that initial values are not made where a file gives others.
static bert_config model_create(const cli *c, tc_nn_params **out) {
  bert_config config = BERT_BASE;
  tc_scope scope = tc_scope_begin();
  tc_nn_params *p = *out = tc_nn_params_create();
  tc_archive *a = cli_weights(c);
  const char *prefix = weights_prefix(a, "bert.", "embeddings.");
  if (a && !bert_config_of(a, prefix, &config)) cli_fail("%s: not the weights of a BERT", c->weights);
  if (a) cli_remark_layers(c, config.n_layers);
  cli_check(bert_add(p, &config));
  cli_check(tc_nn_cast(p, c->dtype));
  if (a) cli_check(bert_load(p, a, prefix));
  if (c->int8) cli_check(bert_quantize(p));
  tc_archive_close(a);
  tc_scope_end(scope);
  return config;
}

static tc_tensor rows(tc_tensor t, int64_t first, int64_t n) {
  return t.gen ? tc_slice(t, 0, first, first + n, 1) : t;
}

static tc_tensor hidden(void *arg, int64_t first, int64_t n) {
  const work *w = arg;
  return bert_forward(w->model, rows(w->ids, first, n), rows(w->types, first, n), rows(w->mask, first, n), w->n_heads);
}

// An array beside the ids, or {0, 0} where it is not given.
static tc_tensor beside(const char *option, const char *path, tc_tensor ids) {
  if (path == NULL) return (tc_tensor){0, 0};
  tc_tensor t = cli_load_ids(option, path);
  tc_dims a = tc_shape(t), b = tc_shape(ids);
  if (memcmp(a.dim, b.dim, 2 * sizeof a.dim[0]) != 0)
    cli_fail("--%s %s is [%lld, %lld], the input [%lld, %lld]", option, path, (long long)a.dim[0], (long long)a.dim[1],
             (long long)b.dim[0], (long long)b.dim[1]);
  return t;
}

int main(int argc, char **argv) {
  cli c = cli_parse(argc, argv, "BERT: the last hidden state [b, t, dim] of token ids [b, t].",
                    "weights input mask types output heads batch dtype int8 amp device threads seed ");
  if (!c.input || !c.output) cli_fail("--input or --output is missing; %s --help tells what there is", argv[0]);
  tc_scope scope = tc_scope_begin();
  work w = {.ids = cli_load_ids("input", c.input)};
  w.mask = beside("mask", c.mask, w.ids);
  w.types = beside("types", c.types, w.ids);
  bert_config config = model_create(&c, &w.model);
  w.n_heads = cli_heads(&c, config.dim);
  int64_t t = tc_shape(w.ids).dim[1];
  if (t > config.n_positions)
    cli_fail("--input %s has %lld tokens a row, the model %lld positions", c.input, (long long)t,
             (long long)config.n_positions);
  cli_save(c.output, cli_in_batches(&c, tc_shape(w.ids).dim[0], hidden, &w));
  tc_nn_params_destroy(w.model);
  tc_scope_end(scope);
  return 0;
}
