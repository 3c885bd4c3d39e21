// A small transformer that learns to write like this project's documentation, character by character: embeddings, two layers of causal attention
// with four heads, AdamW. Exits 1 if the loss does not fall; prints a sample. tools/char_gpt_torch.py is the same program in PyTorch, with the same
// weights at the start and the same batches.
//   example-char_gpt [steps = 300] [file ..]     default files: docs/*.md and README.md
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tc/tc.h>

enum { BATCH = 16, T = 32, DIM = 64, HEADS = 4, LAYERS = 2, SAMPLE = 200, MAX_TEXT = 1 << 20 };
// Parameters of a layer, after those of the model.
enum { LN1, LN1_BIAS, QKV, PROJECT, LN2, LN2_BIAS, UP, UP_BIAS, DOWN, DOWN_BIAS, PER_LAYER };
enum { TOKEN, POSITION, LN, LN_BIAS, HEAD, LAYER_0, N_PARAMS = LAYER_0 + LAYERS * PER_LAYER };

static char text[MAX_TEXT + 1];
static int n_text, n_chars, id_of[256];
static char char_of[256];
static tc_tensor p[N_PARAMS];

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
  for (int i = 0; i < T; i++) out[i] = id_of[(unsigned char)s[i]];
  return tc_from_host(out, TC_SHAPE(1, T), TC_I64);
}

// ---- Model ----

// Uniform within bound. Made here and not by tc_rand, so that PyTorch can start from the same.
static tc_tensor uniform(tc_dims shape, double bound) {
  static float data[4 * DIM * DIM];  // the largest
  for (int64_t i = 0; i < shape.dim[0] * shape.dim[1]; i++) data[i] = (float)(bound * (random_below(1u << 24) * 0x1p-23 - 1));
  return tc_param(tc_from_host(data, shape, TC_F32));
}

static void params_create(void) {
  tc_scope scope = tc_scope_begin();
  p[TOKEN] = uniform(TC_SHAPE(n_chars, DIM), 0.035);
  p[POSITION] = uniform(TC_SHAPE(T, DIM), 0.035);
  p[LN] = tc_param(tc_ones(TC_SHAPE(DIM), TC_F32));
  p[LN_BIAS] = tc_param(tc_zeros(TC_SHAPE(DIM), TC_F32));
  p[HEAD] = uniform(TC_SHAPE(n_chars, DIM), 0.035);
  for (int l = 0; l < LAYERS; l++) {
    tc_tensor *q = p + LAYER_0 + l * PER_LAYER;
    q[LN1] = tc_param(tc_ones(TC_SHAPE(DIM), TC_F32));
    q[LN1_BIAS] = tc_param(tc_zeros(TC_SHAPE(DIM), TC_F32));
    q[QKV] = uniform(TC_SHAPE(3 * DIM, DIM), 0.14);
    q[PROJECT] = uniform(TC_SHAPE(DIM, DIM), 0.07);
    q[LN2] = tc_param(tc_ones(TC_SHAPE(DIM), TC_F32));
    q[LN2_BIAS] = tc_param(tc_zeros(TC_SHAPE(DIM), TC_F32));
    q[UP] = uniform(TC_SHAPE(4 * DIM, DIM), 0.14);
    q[UP_BIAS] = tc_param(tc_zeros(TC_SHAPE(4 * DIM), TC_F32));
    q[DOWN] = uniform(TC_SHAPE(DIM, 4 * DIM), 0.035);
    q[DOWN_BIAS] = tc_param(tc_zeros(TC_SHAPE(DIM), TC_F32));
  }
  tc_scope_end(scope);
}

static const tc_tensor no_bias = {0, 0};

// x [b, T, DIM]; every position sees itself and those before it.
static tc_tensor attention(const tc_tensor *q, tc_tensor x) {
  tc_tensor qkv = tc_reshape(tc_linear(x, q[QKV], no_bias), TC_SHAPE(-1, T, 3, HEADS, DIM / HEADS));
  qkv = tc_permute(qkv, TC_AXES(2, 0, 3, 1, 4));  // [3, b, HEADS, T, DIM / HEADS]
  tc_tensor query = tc_select(qkv, 0, 0), key = tc_select(qkv, 0, 1), value = tc_select(qkv, 0, 2);
  tc_tensor scores = tc_mul(tc_matmul(query, tc_transpose(key, -2, -1)), 1 / sqrt(DIM / HEADS));
  tc_tensor future = tc_eq(tc_tril(tc_ones(TC_SHAPE(T, T), TC_F32), 0), 0.0);
  tc_tensor weights = tc_softmax(tc_masked_fill(scores, future, -INFINITY), -1);
  tc_tensor mixed = tc_permute(tc_matmul(weights, value), TC_AXES(0, 2, 1, 3));
  return tc_linear(tc_reshape(mixed, TC_SHAPE(-1, T, DIM)), q[PROJECT], no_bias);
}

// ids [b, T] -> logits [b, T, n_chars].
static tc_tensor forward(tc_tensor ids) {
  tc_tensor x = tc_add(tc_embedding(p[TOKEN], ids), p[POSITION]);
  for (int l = 0; l < LAYERS; l++) {
    const tc_tensor *q = p + LAYER_0 + l * PER_LAYER;
    x = tc_add(x, attention(q, tc_layer_norm(x, q[LN1], q[LN1_BIAS], 1e-5)));
    tc_tensor up = tc_gelu(tc_linear(tc_layer_norm(x, q[LN2], q[LN2_BIAS], 1e-5), q[UP], q[UP_BIAS]));
    x = tc_add(x, tc_linear(up, q[DOWN], q[DOWN_BIAS]));
  }
  return tc_linear(tc_layer_norm(x, p[LN], p[LN_BIAS], 1e-5), p[HEAD], no_bias);
}

// One step on a random batch. The loss is read where out is not NULL: elsewhere nothing waits.
static void train(tc_optimizer *opt, float *out) {
  tc_scope scope = tc_scope_begin();
  tc_tensor inputs[BATCH], targets[BATCH];
  int64_t ids[T];
  for (int b = 0; b < BATCH; b++) {
    const char *s = text + random_below((uint32_t)(n_text - T));
    inputs[b] = ids_at(s, ids), targets[b] = ids_at(s + 1, ids);
  }
  tc_tensor logits = tc_reshape(forward(tc_cat(BATCH, inputs, 0)), TC_SHAPE(BATCH * T, n_chars));
  tc_tensor loss = tc_cross_entropy(logits, tc_reshape(tc_cat(BATCH, targets, 0), TC_SHAPE(BATCH * T)));
  check(tc_backward(loss));
  check(tc_optimizer_step(opt));
  check(tc_zero_grad(opt));
  if (out) check(tc_item_f32(loss, out));
  tc_scope_end(scope);
}

// The character that follows s[0..T), drawn from the model's distribution, somewhat sharpened.
static char next_char(const char *s) {
  tc_scope scope = tc_scope_begin();
  int64_t ids[T];
  float prob[256];
  tc_tensor last = tc_select(tc_select(forward(ids_at(s, ids)), 0, 0), 0, T - 1);
  check(tc_to_host(tc_softmax(tc_div(last, 0.8), 0), prob, (size_t)n_chars * sizeof *prob));
  tc_scope_end(scope);
  double u = random_below(1u << 24) / (double)(1 << 24);
  int c = 0;
  while (c < n_chars - 1 && (u -= (double)prob[c]) >= 0) c++;
  return char_of[c];
}

int main(int argc, char **argv) {
  int n_steps = argc > 1 ? atoi(argv[1]) : 300;
  read_text(argc > 2 ? argc - 2 : 0, argv + 2);
  number_chars();
  if (n_text < 4 * T || n_steps < 2) return fprintf(stderr, "usage: %s [steps] [file of text ..]\n", argv[0]), 1;
  params_create();
  tc_optimizer *opt = tc_adamw(p, N_PARAMS, (tc_adam_options){.lr = 2e-3, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .weight_decay = 0.01});

  printf("%d characters of %d kinds\n", n_text, n_chars);
  float first = 0, loss = 0;
  for (int i = 0; i < n_steps; i++) {
    bool read = i % 20 == 0 || i == n_steps - 1;
    train(opt, read ? &loss : NULL);
    if (i == 0) first = loss;
    if (read) printf("step %4d  loss %.4f\n", i, (double)loss);
    fflush(stdout);
  }
  char sample[T + SAMPLE + 1] = "";
  memcpy(sample, text, T);
  for (int i = 0; i < SAMPLE; i++) sample[T + i] = next_char(sample + i);
  printf("---- sample ----\n%s\n", sample);
  tc_optimizer_destroy(opt);
  for (int i = 0; i < N_PARAMS; i++) tc_release(p[i]);
  return loss < first ? 0 : 1;
}
