// GPT-2 with the weights of Hugging Face's GPT2Model: the logits of token ids, some steps of
// training, or tokens that follow. The model is examples/models/gpt2.c.
//   example-gpt2 --weights w.safetensors --input ids.npy --output logits.npy             ids [b, t], logits [b, t, words]
//   example-gpt2 --weights w.safetensors --input ids.npy --train 10 --save new.safetensors
//   example-gpt2 --weights w.safetensors --input ids.npy --generate 50 --top-k 40 --vocab vocab.json
#include "examples/models/gpt2.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "examples/models/cli.h"
#include "examples/models/vocab.h"
#include "examples/models/weights.h"

typedef struct work {
  tc_nn_params *model;
  tc_tensor ids;
  int n_heads;
} work;

// The head that makes logits is the table of words. A file may have it once more, but none of its
// own.
static void expect_tied(const cli *c, const tc_archive *a, const char *prefix) {
  if (!tc_archive_has(a, "lm_head.weight")) return;
  tc_tensor head = tc_archive_get(a, "lm_head.weight"), words = tc_archive_get(a, TC_NN_PATH("%swte.weight", prefix));
  tc_dims h = tc_shape(head), w = tc_shape(words);
  int64_t same = h.rank == 2 && w.rank == 2 && h.dim[0] == w.dim[0] && h.dim[1] == w.dim[1];
  if (same) {
    tc_tensor equal = tc_logical_or(tc_eq(head, words), tc_logical_and(tc_isnan(head), tc_isnan(words)));
    cli_check(tc_item_i64(tc_cast(tc_all(equal, TC_ALL, false), TC_I64), &same));
  }
  if (!same)
    cli_fail("%s: 'lm_head.weight' is another than the table of words, which is this model's head", c->weights);
}

// Everything in one scope, so that initial values are not made where a file gives others.
static gpt2_config model_create(const cli *c, tc_nn_params **out) {
  gpt2_config config = GPT2_SMALL;
  tc_scope scope = tc_scope_begin();
  tc_nn_params *p = *out = tc_nn_params_create();
  tc_archive *a = cli_weights(c);
  const char *prefix = weights_prefix(a, "transformer.", "h.");
  if (a && !gpt2_config_of(a, prefix, &config)) cli_fail("%s: not the weights of a GPT-2", c->weights);
  if (a) cli_remark_layers(c, config.n_layers);
  cli_check(gpt2_add(p, &config));
  cli_check(tc_nn_cast(p, c->dtype));
  if (a) cli_check(tc_nn_load(p, a, prefix));
  if (a) expect_tied(c, a, prefix), cli_remark_unused(c, a, p, prefix);
  if (c->int8) cli_check(gpt2_quantize(p));
  tc_archive_close(a);
  tc_scope_end(scope);
  return config;
}

static tc_tensor rows(const work *w, int64_t first, int64_t n) {
  return tc_slice(w->ids, 0, first, first + n, 1);
}

static tc_tensor logits(void *arg, int64_t first, int64_t n) {
  const work *w = arg;
  return gpt2_logits(w->model, gpt2_forward(w->model, rows(w, first, n), w->n_heads, NULL));
}

static tc_tensor loss(void *arg, int64_t first, int64_t n) {
  const work *w = arg;
  return gpt2_loss(w->model, rows(w, first, n), w->n_heads);
}

static void train(const cli *c, work *w) {
  tc_dims d = tc_shape(w->ids);
  if (d.dim[1] < 2) cli_fail("--input %s has rows of one token: nothing follows", c->input);
  tc_adam_options options = {.lr = c->lr >= 0 ? c->lr : 1e-3, TC_ADAM_DEFAULTS, .weight_decay = 0.01};
  tc_optimizer *opt = tc_adamw(tc_nn_tensors(w->model), tc_nn_count(w->model), options);
  cli_train(c, d.dim[0], opt, loss, w);
  tc_optimizer_destroy(opt);
}

// ---- Generation ----

static double uniform(void) {
  static uint64_t state;
  if (state == 0) state = tc_get_rng_state().seed * 2 + 1;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (double)(state >> 11) * 0x1p-53;
}

// One of the k greatest logits of n, drawn by their softmax.
static int64_t draw(const float *logit, int64_t n, int64_t k) {
  int64_t *best = malloc((size_t)k * sizeof *best), n_best = 0, got;
  double sum = 0;
  if (best == NULL) cli_fail("no memory for --top-k %lld", (long long)k);
  for (int64_t i = 0; i < n; i++) {  // kept in order, the greatest first
    if (n_best == k && !(logit[i] > logit[best[k - 1]])) continue;
    int64_t at = n_best < k ? n_best++ : k - 1;
    for (; at > 0 && logit[i] > logit[best[at - 1]]; at--) best[at] = best[at - 1];
    best[at] = i;
  }
  for (int64_t i = 0; i < n_best; i++) sum += exp((double)logit[best[i]] - (double)logit[best[0]]);
  double u = uniform() * sum;
  int64_t i = 0;
  while (i < n_best - 1 && (u -= exp((double)logit[best[i]] - (double)logit[best[0]])) >= 0) i++;
  got = best[i];
  free(best);
  return got;
}

// The next token of each row by its logits [b, n].
static void draw_rows(tc_tensor all, int64_t k, int64_t *out) {
  tc_dims d = tc_shape(all);
  int64_t b = d.dim[0], n = d.dim[1];
  float *logit = malloc((size_t)(b * n) * sizeof *logit);
  if (logit == NULL) cli_fail("no memory for logits");
  cli_check(tc_to_host(all, logit, (size_t)(b * n) * sizeof *logit));
  for (int64_t r = 0; r < b; r++) out[r] = draw(logit + r * n, n, k < n ? k : n);
  free(logit);
}

// Appends ids [b, t] to the cache and gives the token that follows each row.
static void next(const cli *c, const work *w, tc_tensor ids, gpt2_cache *cache, int64_t *out) {
  tc_dims d = tc_shape(ids);
  tc_scope outer = tc_scope_begin(), scope = tc_scope_begin();
  cli_amp_begin(c);
  tc_tensor hidden = gpt2_forward(w->model, ids, w->n_heads, cache);
  tc_tensor all = gpt2_logits(w->model, tc_select(hidden, 1, d.dim[1] - 1));
  cli_amp_end(c);
  tc_tensor result = tc_keep(c->top_k ? tc_cast(all, TC_F32) : tc_argmax(all, 1, false));
  tc_scope_end(scope);  // nothing else is asked of the run
  if (c->top_k)
    draw_rows(result, c->top_k, out);
  else
    cli_check(tc_to_host(result, out, (size_t)d.dim[0] * sizeof *out));
  tc_scope_end(outer);
}

static void print_token(const vocab *v, int64_t id) {
  if (v->token == NULL)
    printf("%lld ", (long long)id);
  else if (id < v->n && v->token[id].text)
    fwrite(v->token[id].text, 1, v->token[id].n_bytes, stdout);
  else
    putchar('?');
}

// Prints the tokens that follow rows first to first + n, a row a line. One row is printed as it
// comes.
static void generate_rows(const cli *c, const work *w, const vocab *v, int64_t first, int64_t n) {
  tc_tensor given = rows(w, first, n);
  int64_t *token = malloc((size_t)(n * c->generate) * sizeof *token);
  gpt2_cache cache;
  if (token == NULL) cli_fail("no memory for tokens");
  cli_check(gpt2_cache_init(&cache, w->model, n, tc_shape(given).dim[1] + c->generate - 1, w->n_heads));
  cli_progress("tokens", first * c->generate, tc_shape(w->ids).dim[0] * c->generate);
  for (int64_t i = 0; i < c->generate; i++) {
    tc_scope scope = tc_scope_begin();
    tc_tensor ids = i == 0 ? given : tc_from_host(token + (i - 1) * n, TC_SHAPE(n, 1), TC_I64);
    next(c, w, ids, &cache, token + i * n);
    tc_scope_end(scope);
    if (n == 1) print_token(v, token[i]), cli_flush();
    cli_progress("tokens", first * c->generate + (i + 1) * n, tc_shape(w->ids).dim[0] * c->generate);
  }
  for (int64_t r = 0; r < n; r++) {
    for (int64_t i = 0; i < c->generate && n > 1; i++) print_token(v, token[i * n + r]);
    printf("\n");
  }
  gpt2_cache_fini(&cache);
  free(token);
}

static void generate(const cli *c, const work *w, const vocab *v) {
  int64_t b = tc_shape(w->ids).dim[0], each = c->batch && c->batch < b ? c->batch : b;
  tc_no_grad_begin();
  for (int64_t first = 0; first < b; first += each) {
    tc_scope scope = tc_scope_begin();
    generate_rows(c, w, v, first, first + each < b ? each : b - first);
    tc_scope_end(scope);
  }
  tc_no_grad_end();
}

int main(int argc, char **argv) {
  cli c = cli_parse(
      argc, argv, "GPT-2: logits [b, t, words] of token ids [b, t], training by AdamW, or tokens that follow.",
      "weights input output train lr save generate top-k vocab heads batch dtype int8 amp device threads seed ");
  vocab v = {0};
  if (c.input == NULL) cli_fail("--input is missing; %s --help tells what there is", argv[0]);
  if (!c.output && !c.train && !c.generate) cli_fail("nothing to do: give --output, --train or --generate");
  if (c.vocab && !vocab_read(&v, c.vocab)) cli_fail("--vocab %s cannot be used", c.vocab);
  tc_scope scope = tc_scope_begin();
  work w = {.ids = cli_load_ids("input", c.input)};
  gpt2_config config = model_create(&c, &w.model);
  w.n_heads = cli_heads(&c, config.dim);
  // the last token, made or learned, has no place
  int64_t t = tc_shape(w.ids).dim[1] + (c.generate ? c.generate - 1 : c.output ? 0 : -1);
  if (t > config.n_positions)
    cli_fail("%lld tokens are more than the model's %lld positions", (long long)t, (long long)config.n_positions);
  if (c.train) train(&c, &w);
  if (c.output) cli_save(c.output, cli_in_batches(&c, tc_shape(w.ids).dim[0], logits, &w));
  if (c.generate) generate(&c, &w, &v);
  if (c.save) cli_check(tc_nn_save(w.model, c.save));
  vocab_fini(&v);
  tc_nn_params_destroy(w.model);
  tc_scope_end(scope);
  cli_flush();
  return 0;
}
