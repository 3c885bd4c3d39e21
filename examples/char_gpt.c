// A small transformer that learns to write like this project's documentation, character by
// character: embeddings, two layers of causal attention with four heads, dropout, AdamW. Exits 1 if
// the loss does not fall; prints a sample. tools/char_gpt_torch.py is the same program in PyTorch,
// with the same weights at the start and the same batches, without dropout.
//   example-char_gpt [--small] [steps = 300 [dropout = 0.1 [file ..]]]     default files: docs/*.md and README.md
// --small, for slow devices: one layer of 16 wide, with two heads; four rows of 8 characters; 20
// are drawn.
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tc/nn.h>

enum { BATCH = 16, T = 32, DIM = 64, SAMPLE = 200, MAX_TEXT = 1 << 20 };  // at most
static int batch = BATCH, t = T, dim = DIM, n_heads = 4, n_layers = 2, n_sampled = SAMPLE;

static char text[MAX_TEXT + 1];
static int n_text, n_chars, id_of[256];
static char char_of[256];
static tc_nn_params *model;

static void check(tc_status st) {
  if (st == TC_OK) return;
  fprintf(stderr, "%s\n", tc_last_error()->message);
  exit(1);
}

// ---- Text ----

static void append_file(const char *path) {
  FILE *f = fopen(path, "r");
  if (f == NULL) return;
  n_text += (int)fread(text + n_text, 1, (size_t)(MAX_TEXT - n_text), f);
  fclose(f);
}

static void read_text(int n_files, char **files) {
  glob_t found = {0};
  for (int i = 0; i < n_files; i++) append_file(files[i]);
  if (n_files == 0 && glob("docs/*.md", 0, NULL, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc; i++) append_file(found.gl_pathv[i]);
    globfree(&found);
  }
  if (n_files == 0) append_file("README.md");
}

// Numbers the characters that occur, in order of their codes.
static void number_chars(void) {
  memset(id_of, -1, sizeof id_of);
  for (int i = 0; i < n_text; i++) id_of[(unsigned char)text[i]] = 0;
  for (int c = 0; c < 256; c++)
    if (id_of[c] == 0) id_of[c] = n_chars, char_of[n_chars++] = (char)c;
}

static uint32_t random_below(uint32_t n) {
  static uint64_t state = 1;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((state >> 32) * n >> 32);
}

static tc_tensor ids_at(const char *s, int64_t *out) {
  for (int i = 0; i < t; i++) out[i] = id_of[(unsigned char)s[i]];
  return tc_from_host(out, TC_SHAPE(1, t), TC_I64);
}

// ---- Model ----

// Uniform within bound. Made here and not by tc_nn_uniform, so that PyTorch can start from the
// same.
static void add_uniform(const char *name, int64_t rows, int64_t columns, double bound) {
  static float data[4 * DIM * DIM];  // the largest
  for (int64_t i = 0; i < rows * columns; i++) data[i] = (float)(bound * (random_below(1u << 24) * 0x1p-23 - 1));
  (void)tc_nn_add(model, name, tc_from_host(data, TC_SHAPE(rows, columns), TC_F32));
}

static void model_create(void) {
  tc_scope scope = tc_scope_begin();
  model = tc_nn_params_create();
  add_uniform("token.weight", n_chars, dim, 0.035);
  add_uniform("position.weight", t, dim, 0.035);
  check(tc_nn_add_layer_norm(model, "norm", dim));
  add_uniform("head.weight", n_chars, dim, 0.035);
  for (int l = 0; l < n_layers; l++) {
    check(tc_nn_add_layer_norm(model, TC_NN_PATH("layer.%d.norm1", l), dim));
    add_uniform(TC_NN_PATH("layer.%d.attention.in_proj_weight", l), 3 * dim, dim, 0.14);
    add_uniform(TC_NN_PATH("layer.%d.attention.out_proj.weight", l), dim, dim, 0.07);
    check(tc_nn_add_layer_norm(model, TC_NN_PATH("layer.%d.norm2", l), dim));
    add_uniform(TC_NN_PATH("layer.%d.up.weight", l), 4 * dim, dim, 0.14);
    (void)tc_nn_add(model, TC_NN_PATH("layer.%d.up.bias", l), tc_zeros(TC_SHAPE(4 * dim), TC_F32));
    add_uniform(TC_NN_PATH("layer.%d.down.weight", l), dim, 4 * dim, 0.035);
    (void)tc_nn_add(model, TC_NN_PATH("layer.%d.down.bias", l), tc_zeros(TC_SHAPE(dim), TC_F32));
  }
  tc_scope_end(scope);
}

static tc_tensor maybe_drop(tc_tensor x, double dropout) {
  return dropout > 0 ? tc_dropout(x, dropout) : x;
}

// ids [b, T] -> logits [b, T, n_chars]. dropout: 0 but in training.
static tc_tensor forward(tc_tensor ids, double dropout) {
  tc_nn_attention_options heads = {.n_heads = n_heads, .causal = true};
  tc_tensor x = tc_add(tc_nn_embedding(model, "token", ids), tc_nn_get(model, "position.weight"));
  for (int l = 0; l < n_layers; l++) {
    tc_tensor h = tc_nn_layer_norm(model, TC_NN_PATH("layer.%d.norm1", l), x, 1e-5);
    h = tc_nn_multihead_attention(model, TC_NN_PATH("layer.%d.attention", l), h, h, h, heads);
    x = tc_add(x, maybe_drop(h, dropout));
    h = tc_nn_layer_norm(model, TC_NN_PATH("layer.%d.norm2", l), x, 1e-5);
    h = tc_gelu(tc_nn_linear(model, TC_NN_PATH("layer.%d.up", l), h));
    x = tc_add(x, maybe_drop(tc_nn_linear(model, TC_NN_PATH("layer.%d.down", l), h), dropout));
  }
  return tc_nn_linear(model, "head", tc_nn_layer_norm(model, "norm", x, 1e-5));
}

// One step on a random batch. The loss is read where out is not NULL: elsewhere nothing waits.
static void train(tc_optimizer *opt, double dropout, float *out) {
  tc_scope outer = tc_scope_begin(), scope = tc_scope_begin();
  tc_tensor inputs[BATCH], targets[BATCH];
  int64_t ids[T];
  for (int b = 0; b < batch; b++) {
    const char *s = text + random_below((uint32_t)(n_text - t));
    inputs[b] = ids_at(s, ids), targets[b] = ids_at(s + 1, ids);
  }
  tc_tensor logits = tc_reshape(forward(tc_cat((size_t)batch, inputs, 0), dropout), TC_SHAPE(batch * t, n_chars));
  tc_tensor loss = tc_cross_entropy(logits, tc_reshape(tc_cat((size_t)batch, targets, 0), TC_SHAPE(batch * t)));
  check(tc_backward(loss));
  check(tc_optimizer_step(opt));
  check(tc_zero_grad(opt));
  tc_keep(loss);
  tc_scope_end(scope);  // of the step only the loss is left: a step that is read is like any other
  if (out) check(tc_item_f32(loss, out));
  tc_scope_end(outer);
}

// The character that follows s[0..T), drawn from the model's distribution, somewhat sharpened.
static char next_char(const char *s) {
  tc_scope scope = tc_scope_begin();
  int64_t ids[T];
  float prob[256];
  tc_tensor last = tc_select(tc_select(forward(ids_at(s, ids), 0), 0, 0), 0, t - 1);
  check(tc_to_host(tc_softmax(tc_div(last, 0.8), 0), prob, (size_t)n_chars * sizeof *prob));
  tc_scope_end(scope);
  double u = random_below(1u << 24) / (double)(1 << 24);
  int c = 0;
  while (c < n_chars - 1 && (u -= (double)prob[c]) >= 0) c++;
  return char_of[c];
}

int main(int argc, char **argv) {
  const char *program = argv[0];
  bool small = argc > 1 && strcmp(argv[1], "--small") == 0;
  if (small) argc--, argv++, batch = 4, t = 8, dim = 16, n_heads = 2, n_layers = 1, n_sampled = 20;
  int n_steps = argc > 1 ? atoi(argv[1]) : 300;
  double dropout = argc > 2 ? atof(argv[2]) : 0.1;
  read_text(argc > 3 ? argc - 3 : 0, argv + 3);
  number_chars();
  if (n_text < 4 * t || n_steps < 2)
    return fprintf(stderr, "usage: %s [--small] [steps [dropout [file of text ..]]]\n", program), 1;
  tc_seed(1);
  model_create();
  tc_optimizer *opt =
      tc_adamw(tc_nn_tensors(model), tc_nn_count(model),
               (tc_adam_options){.lr = 2e-3, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .weight_decay = 0.01});

  printf("%d characters of %d kinds\n", n_text, n_chars);
  float first = 0, loss = 0;
  for (int i = 0; i < n_steps; i++) {
    bool read = i % 20 == 0 || i == n_steps - 1;
    train(opt, dropout, read ? &loss : NULL);
    if (i == 0) first = loss;
    if (read) printf("step %4d  loss %.4f\n", i, (double)loss);
    fflush(stdout);
  }
  char sample[T + SAMPLE + 1] = "";
  memcpy(sample, text, (size_t)t);
  for (int i = 0; i < n_sampled; i++) sample[t + i] = next_char(sample + i);
  printf("---- sample ----\n%s\n", sample);
  tc_optimizer_destroy(opt);
  tc_nn_params_destroy(model);
  return loss < first ? 0 : 1;
}
