// Recurrent modules and transformer layers against PyTorch (tests/golden/modules.safetensors, made
// by tools/golden_training.py): a state dict that PyTorch wrote, results, and gradients with
// respect to inputs and weights; initial values; and what is refused.
#include <tc/nn.h>

#include "tests/files/files.h"
#include "tests/golden_file.h"

enum { IN = 3, HIDDEN = 4, DIM = 8, HEADS = 2, INNER = 12 };

typedef struct module_case {
  const char *name;
  void (*add)(tc_nn_params *p);
  void (*run)(const tc_nn_params *p, tc_tensor in[8], tc_tensor out[3]);
} module_case;

// Names of inputs and results in the file, in the order of in and out.
enum { X, H, C, LENGTHS, MEMORY, SEEN, SEEN_MEMORY, ADDED, N_IN };
static const char *const in_name[N_IN] = {"x", "h", "c", "lengths", "memory", "seen", "seen_memory", "added_mask"};
static const char *const out_name[3] = {"y", "h", "c"};

// ---- Recurrent ----

#define RNN_CASE(case_, kind, relu_, ...) \
  static void add_##case_(tc_nn_params *p) { \
    EXPECT_OK(tc_nn_add_##kind(p, "m", IN, HIDDEN, (tc_nn_rnn_options){__VA_ARGS__})); \
  } \
  static void run_##case_(const tc_nn_params *p, tc_tensor in[8], tc_tensor out[3]) { \
    tc_nn_rnn_options o = {__VA_ARGS__}; \
    o.lengths = in[LENGTHS], o.relu = relu_; \
    tc_nn_rnn_state s = {in[H], in[C]}; \
    out[0] = tc_nn_##kind(p, "m", in[X], &s, o); \
    out[1] = s.h, out[2] = s.c; \
  }
#define RNN_CASES(F, case_, kind, relu_) \
  F(case_, kind, relu_) \
  F(case_##_two, kind, relu_, .n_layers = 2) \
  F(case_##_both, kind, relu_, .bidirectional = true) \
  F(case_##_deep, kind, relu_, .n_layers = 2, .bidirectional = true, .batch_first = true) \
  F(case_##_plain, kind, relu_, .no_bias = true)
#define ALL_RNN(F) \
  RNN_CASES(F, rnn, rnn, false) \
  RNN_CASES(F, relu, rnn, true) RNN_CASES(F, gru, gru, false) RNN_CASES(F, lstm, lstm, false)
ALL_RNN(RNN_CASE)

static void add_rnn_cell(tc_nn_params *p) {
  EXPECT_OK(tc_nn_add_rnn_cell(p, "m", IN, HIDDEN, true));
}
static void run_rnn_cell(const tc_nn_params *p, tc_tensor in[8], tc_tensor out[3]) {
  out[1] = tc_nn_rnn_cell(p, "m", in[X], in[H], false);
}
static void add_gru_cell(tc_nn_params *p) {
  EXPECT_OK(tc_nn_add_gru_cell(p, "m", IN, HIDDEN, true));
}
static void run_gru_cell(const tc_nn_params *p, tc_tensor in[8], tc_tensor out[3]) {
  out[1] = tc_nn_gru_cell(p, "m", in[X], in[H]);
}
static void add_lstm_cell(tc_nn_params *p) {
  EXPECT_OK(tc_nn_add_lstm_cell(p, "m", IN, HIDDEN, true));
}
static void run_lstm_cell(const tc_nn_params *p, tc_tensor in[8], tc_tensor out[3]) {
  tc_nn_rnn_state s = {in[H], in[C]};
  out[1] = tc_nn_lstm_cell(p, "m", in[X], &s), out[2] = s.c;
}

// ---- Transformers ----

#define SHAPE .n_heads = HEADS, .dim_feedforward = INNER, .dropout = TC_ZERO
#define OPTIONS(...) \
  (tc_nn_transformer_options) { \
    SHAPE, __VA_ARGS__ \
  }
#define LAYER_CASES(way, ...) \
  static void add_encoder##way(tc_nn_params *p) { \
    EXPECT_OK(tc_nn_add_transformer_encoder_layer(p, "m", DIM, OPTIONS(__VA_ARGS__))); \
  } \
  static void run_encoder##way(const tc_nn_params *p, tc_tensor in[8], tc_tensor out[3]) { \
    tc_nn_transformer_options o = OPTIONS(__VA_ARGS__); \
    o.mask = in[ADDED], o.padding = in[SEEN]; \
    out[0] = tc_nn_transformer_encoder_layer(p, "m", in[X], o); \
  } \
  static void run_encoder_causal##way(const tc_nn_params *p, tc_tensor in[8], tc_tensor out[3]) { \
    out[0] = tc_nn_transformer_encoder_layer(p, "m", in[X], OPTIONS(.causal = true, __VA_ARGS__)); \
  } \
  static void add_decoder##way(tc_nn_params *p) { \
    EXPECT_OK(tc_nn_add_transformer_decoder_layer(p, "m", DIM, OPTIONS(__VA_ARGS__))); \
  } \
  static void run_decoder##way(const tc_nn_params *p, tc_tensor in[8], tc_tensor out[3]) { \
    tc_nn_transformer_options o = OPTIONS(.causal = true, __VA_ARGS__); \
    o.padding = in[SEEN], o.memory_padding = in[SEEN_MEMORY]; \
    out[0] = tc_nn_transformer_decoder_layer(p, "m", in[X], in[MEMORY], o); \
  }
LAYER_CASES()
LAYER_CASES(_first, .norm_first = true, .gelu = true)
LAYER_CASES(_plain, .no_bias = true)

static void add_encoder_stack(tc_nn_params *p) {
  EXPECT_OK(tc_nn_add_transformer_encoder(p, "m", DIM, 2, OPTIONS(.final_norm = true)));
}
static void run_encoder_stack(const tc_nn_params *p, tc_tensor in[8], tc_tensor out[3]) {
  out[0] = tc_nn_transformer_encoder(p, "m", in[X], OPTIONS());
}
static void add_decoder_stack(tc_nn_params *p) {
  EXPECT_OK(tc_nn_add_transformer_decoder(p, "m", DIM, 2, OPTIONS()));
}
static void run_decoder_stack(const tc_nn_params *p, tc_tensor in[8], tc_tensor out[3]) {
  out[0] = tc_nn_transformer_decoder(p, "m", in[X], in[MEMORY], OPTIONS());
}

#define RNN_ROW(case_, ...) {#case_, add_##case_, run_##case_},
#define ROW(case_) {#case_, add_##case_, run_##case_}
#define LAYER_ROWS(way) \
  ROW(encoder##way), {"encoder_masked" #way, add_encoder##way, run_encoder##way}, \
      {"encoder_causal" #way, add_encoder##way, run_encoder_causal##way}, ROW(decoder##way)
static const module_case cases[] = {ALL_RNN(RNN_ROW) ROW(rnn_cell),
                                    ROW(gru_cell),
                                    ROW(lstm_cell),
                                    LAYER_ROWS(),
                                    LAYER_ROWS(_first),
                                    LAYER_ROWS(_plain),
                                    ROW(encoder_stack),
                                    ROW(decoder_stack)};
enum { N_CASES = sizeof cases / sizeof cases[0] };

// ---- Against PyTorch ----

static tc_tensor input_of(const tc_archive *a, const char *of, const char *what, tc_type type) {
  if (!tc_archive_has(a, golden_name("%s.in.%s", of, what))) return (tc_tensor){0, 0};
  tc_tensor t = tc_archive_get(a, golden_name("%s.in.%s", of, what));
  if (tc_dtype(t) == TC_F64 || tc_dtype(t) == TC_F32) t = tc_cast(t, type);
  return tc_archive_has(a, golden_name("%s.din.%s", of, what)) ? tc_param(t) : t;
}

static void expect_gradients(const tc_archive *a, const char *of, const tc_nn_params *p, const tc_tensor *in,
                             double tolerance) {
  for (int i = 0; i < N_IN; i++)
    if (tc_archive_has(a, golden_name("%s.din.%s", of, in_name[i])))
      golden_expect(a, golden_name("%s.din.%s", of, in_name[i]), tc_grad(in[i]), tolerance);
  for (int i = 0; i < tc_nn_count(p); i++)
    golden_expect(a, golden_name("%s.dw.%s", of, tc_nn_names(p)[i] + 2), tc_grad(tc_nn_tensors(p)[i]), tolerance);
}

static void run_case(const tc_archive *a, const module_case *c, tc_type type) {
  double tolerance = type == TC_F64 ? 1e-11 : 2e-5;
  char prefix[64];
  tc_scope scope = tc_scope_begin();
  tc_nn_params *p = tc_nn_params_create();
  c->add(p);
  int n_weights = 0;
  snprintf(prefix, sizeof prefix, "%s.w.", c->name);
  for (int i = 0; i < tc_archive_count(a); i++)
    n_weights += strncmp(tc_archive_name(a, i), prefix, strlen(prefix)) == 0;
  EXPECT(n_weights == tc_nn_count_all(p), "%s has %d weights, PyTorch's %d", c->name, tc_nn_count_all(p), n_weights);
  // The names are PyTorch's behind the module's own path.
  for (int i = 0; i < tc_nn_count(p); i++) {
    tc_tensor w = tc_archive_get(a, golden_name("%s%s", prefix, tc_nn_names(p)[i] + 2));
    EXPECT_OK(tc_assign(tc_nn_tensors(p)[i], w));
  }
  EXPECT_OK(tc_nn_cast(p, type));
  tc_tensor in[N_IN], out[3] = {{0, 0}, {0, 0}, {0, 0}}, total = tc_full(TC_SCALAR, 0, type);
  for (int i = 0; i < N_IN; i++) in[i] = input_of(a, c->name, in_name[i], type);
  c->run(p, in, out);
  for (int i = 0; i < 3; i++) {
    if (!tc_archive_has(a, golden_name("%s.out.%s", c->name, out_name[i]))) continue;
    golden_expect(a, golden_name("%s.out.%s", c->name, out_name[i]), out[i], tolerance);
    tc_tensor g = tc_cast(tc_archive_get(a, golden_name("%s.g.%s", c->name, out_name[i])), type);
    total = tc_add(total, tc_sum(tc_mul(out[i], g), TC_ALL, false));
  }
  EXPECT_OK(tc_backward(total));
  expect_gradients(a, c->name, p, in, tolerance);
  for (int i = 0; i < N_IN; i++)
    if (tc_requires_grad(in[i])) tc_release(in[i]);
  tc_nn_params_destroy(p);
  tc_scope_end(scope);
}

static void modules_are_pytorchs(void) {
  tc_archive *a = tc_safetensors_open("tests/golden/modules.safetensors");
  for (int i = 0; i < N_CASES; i++) {
    run_case(a, &cases[i], TC_F64);
    run_case(a, &cases[i], TC_F32);
  }
  tc_archive_close(a);
}

// ---- Without PyTorch ----

// A cell a step is the module; behind a sequence's end nothing changes.
static void a_sequence_is_its_steps(void) {
  tc_scope scope = tc_scope_begin();
  tc_seed(4);
  tc_nn_params *p = tc_nn_params_create();
  EXPECT_OK(tc_nn_add_lstm(p, "m", IN, HIDDEN, (tc_nn_rnn_options){0}));
  EXPECT_OK(tc_nn_add_lstm_cell(p, "cell", IN, HIDDEN, true));
  static const char *const leaves[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
  for (int i = 0; i < 4; i++)
    EXPECT_OK(
        tc_assign(tc_nn_get(p, golden_name("cell.%s", leaves[i])), tc_nn_get(p, golden_name("m.%s_l0", leaves[i]))));
  tc_tensor x = tc_randn(TC_SHAPE(6, 2, IN), TC_F32), lengths = tc_from_host((int32_t[]){6, 4}, TC_SHAPE(2), TC_I32);
  tc_nn_rnn_state last = {{0, 0}, {0, 0}}, s = {{0, 0}, {0, 0}};
  tc_tensor y = tc_nn_lstm(p, "m", x, &last, (tc_nn_rnn_options){.lengths = lengths});
  for (int i = 0; i < 4; i++) (void)tc_nn_lstm_cell(p, "cell", tc_select(x, 0, i), &s);
  bool same = false;
  EXPECT_OK(tc_allclose(tc_select(tc_select(last.h, 0, 0), 0, 1), tc_select(s.h, 0, 1), 1e-6, 1e-6, &same));
  EXPECT(same, "the shorter sequence's last state");
  EXPECT_OK(tc_allclose(tc_select(tc_select(y, 0, 4), 0, 1), tc_zeros(TC_SHAPE(HIDDEN), TC_F32), 0, 0, &same));
  EXPECT(same, "zeros behind its end");
  // Other lengths have the same plan.
  EXPECT_OK(tc_eval(1, &y));
  for (int k = 1; k < 3; k++) {
    uint64_t misses = tc_cache_stats().plan_misses;
    lengths = tc_from_host((int32_t[]){6 - k, k}, TC_SHAPE(2), TC_I32);
    EXPECT_OK(tc_eval(1, &lengths));
    y = tc_nn_lstm(p, "m", x, NULL, (tc_nn_rnn_options){.lengths = lengths});
    EXPECT_OK(tc_eval(1, &y));
    EXPECT(k < 2 || tc_cache_stats().plan_misses == misses, "a new plan for other lengths");
  }
  tc_nn_params_destroy(p);
  tc_scope_end(scope);
}

static tc_nn_rnn_options lengths_of(tc_tensor lengths) {
  return (tc_nn_rnn_options){.lengths = lengths};
}

// Lengths that nobody knows when the module is applied.
static void computed_lengths_are_clamped(void) {
  tc_scope scope = tc_scope_begin();
  tc_nn_params *p = tc_nn_params_create();
  EXPECT_OK(tc_nn_add_gru(p, "m", IN, HIDDEN, (tc_nn_rnn_options){.bidirectional = true}));
  tc_tensor x = tc_randn(TC_SHAPE(5, 3, IN), TC_F32);
  tc_tensor right = tc_from_host((int64_t[]){0, 5, 2}, TC_SHAPE(3), TC_I64);
  tc_tensor wrong = tc_mul(tc_from_host((int64_t[]){-2, 4, 1}, TC_SHAPE(3), TC_I64), 2);
  tc_nn_rnn_state a = {{0, 0}, {0, 0}}, b = a;
  bool same = false;
  EXPECT_OK(tc_allclose(tc_nn_gru(p, "m", x, &a, lengths_of(right)), tc_nn_gru(p, "m", x, &b, lengths_of(wrong)), 0, 0,
                        &same));
  EXPECT(same, "results");
  EXPECT_OK(tc_allclose(a.h, b.h, 0, 0, &same));
  EXPECT(same, "states");
  tc_tensor few = tc_from_host((uint8_t[]){200, 3}, TC_SHAPE(2), TC_U8);
  EXPECT(tc_is_valid(tc_nn_gru(p, "m", tc_zeros(TC_SHAPE(300, 2, IN), TC_F32), NULL, lengths_of(few))), "%s",
         tc_last_error()->message);
  tc_nn_params_destroy(p);
  tc_scope_end(scope);
}

static void dropout_is_between_layers_in_training(void) {
  tc_scope scope = tc_scope_begin();
  tc_nn_params *p = tc_nn_params_create();
  tc_nn_rnn_options two = {.n_layers = 2, .dropout = 0.5}, none = {0};
  EXPECT_OK(tc_nn_add_gru(p, "m", IN, HIDDEN, two));
  EXPECT_OK(tc_nn_add_transformer_encoder_layer(p, "t", DIM,
                                                (tc_nn_transformer_options){.n_heads = 2, .dim_feedforward = 4}));
  tc_tensor x = tc_randn(TC_SHAPE(3, 2, IN), TC_F32), z = tc_randn(TC_SHAPE(2, 3, DIM), TC_F32);
  for (int training = 1; training >= 0; training--) {
    bool same = true;
    tc_nn_set_training(p, training);
    EXPECT_OK(tc_allclose(tc_nn_gru(p, "m", x, NULL, two), tc_nn_gru(p, "m", x, NULL, none), 1e-6, 1e-6, &same));
    EXPECT(same == !training, "gru, training %d", training);
    tc_nn_transformer_options o = {.n_heads = 2}, off = {.n_heads = 2, .dropout = TC_ZERO};
    EXPECT_OK(tc_allclose(tc_nn_transformer_encoder_layer(p, "t", z, o),
                          tc_nn_transformer_encoder_layer(p, "t", z, off), 1e-6, 1e-6, &same));
    EXPECT(same == !training, "transformer, training %d", training);
  }
  float most = 0;
  EXPECT_OK(tc_item_f32(tc_max(tc_abs(tc_nn_get(p, "m.weight_ih_l0")), TC_ALL, false), &most));
  EXPECT(most <= 0.5F && most > 0.3F, "within 1 / sqrt(hidden): %g", (double)most);
  tc_nn_params_destroy(p);
  tc_scope_end(scope);
}

static void wrong_calls_say_what(void) {
  tc_scope scope = tc_scope_begin();
  tc_nn_params *p = tc_nn_params_create();
  tc_nn_rnn_options o = {0};
  EXPECT_FAILS(tc_nn_add_gru(p, "m", IN, 0, o), TC_ERR_SHAPE, "3 inputs to 0 hidden values");
  EXPECT_FAILS(tc_nn_add_gru(p, "m", IN, HIDDEN, (tc_nn_rnn_options){.n_layers = -1}), TC_ERR_ARG, "n_layers is -1");
  EXPECT_FAILS(tc_nn_add_gru(p, NULL, IN, HIDDEN, o), TC_ERR_ARG, "path is NULL");
  EXPECT_OK(tc_nn_add_gru(p, "m", IN, HIDDEN, o));
  EXPECT_FAILS(tc_nn_add_lstm(p, "m", IN, HIDDEN, o), TC_ERR_ARG, "the name 'm.weight_ih_l0' is taken");
  EXPECT(tc_nn_count(p) == 4, "%d parameters", tc_nn_count(p));
  tc_tensor x = tc_zeros(TC_SHAPE(5, 2, IN), TC_F32), two = tc_zeros(TC_SHAPE(2), TC_I64);
  EXPECT_FAILS(tc_nn_gru(p, "n", x, NULL, o), TC_ERR_ARG,
               "there is no parameter 'n.weight_ih_l0'; the nearest is 'm.weight_ih_l0'");
  EXPECT_FAILS(tc_nn_gru(NULL, "m", x, NULL, o), TC_ERR_ARG, "there is no list");
  EXPECT_FAILS(tc_nn_lstm(p, "m", x, NULL, o), TC_ERR_SHAPE,
               "weight_hh_l0 of 'm' is [12, 4], which is of another kind of module");
  EXPECT_FAILS(tc_nn_gru(p, "m", tc_zeros(TC_SHAPE(5, 2, 7), TC_F32), NULL, o), TC_ERR_SHAPE,
               "x is [5, 2, 7] in the order [t, b, in], and weight_ih_l0 [12, 3]");
  EXPECT_FAILS(tc_nn_gru(p, "m", tc_zeros(TC_SHAPE(0, 2, IN), TC_F32), NULL, o), TC_ERR_SHAPE, "x is [0, 2, 3]");
  EXPECT_FAILS(tc_nn_gru(p, "m", x, NULL, (tc_nn_rnn_options){.lengths = tc_zeros(TC_SHAPE(3), TC_I64)}), TC_ERR_SHAPE,
               "lengths is [3], [2] is needed: one for each sequence");
  EXPECT_FAILS(tc_nn_gru(p, "m", x, NULL, (tc_nn_rnn_options){.lengths = tc_zeros(TC_SHAPE(2), TC_F32)}), TC_ERR_DTYPE,
               "lengths is f32, an integer type is needed");
  // In a GPU's memory their values are not known here.
  const char *device = tc_get_default_device();
  bool is_known = strcmp(device, "tc:cuda") != 0 && strcmp(device, "tc:hip") != 0;
  if (is_known)
    EXPECT_FAILS(tc_nn_gru(p, "m", x, NULL, lengths_of(tc_from_host((int64_t[]){5, 6}, TC_SHAPE(2), TC_I64))),
                 TC_ERR_INDEX, "lengths[1] is 6; x has 5 steps, so it may be from 0 to 5");
  EXPECT_FAILS(tc_nn_lstm(p, "m", x, NULL, lengths_of(two)), TC_ERR_SHAPE, "which is of another kind of module");
  if (is_known)
    EXPECT_FAILS(tc_nn_gru(p, "m", x, NULL, lengths_of(tc_from_host((int8_t[]){-1, 5}, TC_SHAPE(2), TC_I8))),
                 TC_ERR_INDEX, "lengths[0] is -1");
  EXPECT_FAILS(tc_nn_gru(p, "m", x, NULL, lengths_of(tc_full_int(TC_SHAPE(2), 9, TC_I32))), TC_ERR_INDEX,
               "lengths[0] is 9");
  tc_nn_rnn_state s = {two, {0, 0}};
  EXPECT_FAILS(tc_nn_gru(p, "m", x, &s, o), TC_ERR_SHAPE, "the state's h is [2], [1, 2, 4] is needed");
  EXPECT_FAILS(tc_nn_gru(p, "m", x, NULL, (tc_nn_rnn_options){.dropout = 2}), TC_ERR_ARG, "dropout is 2");
  EXPECT_OK(tc_nn_add_lstm_cell(p, "c", IN, HIDDEN, false));
  EXPECT_FAILS(tc_nn_lstm_cell(p, "c", tc_select(x, 0, 0), NULL), TC_ERR_ARG, "state is NULL");
  EXPECT_FAILS(tc_nn_gru_cell(p, "c", tc_select(x, 0, 0), (tc_tensor){0, 0}), TC_ERR_SHAPE, "another kind of cell");
  EXPECT_FAILS(tc_nn_lstm_cell(p, "c", x, &(tc_nn_rnn_state){{0, 0}, {0, 0}}), TC_ERR_SHAPE, "x is [5, 2, 3]");
  tc_nn_transformer_options t = {.n_heads = 3};
  EXPECT_FAILS(tc_nn_add_transformer_encoder_layer(p, "t", DIM, t), TC_ERR_SHAPE,
               "n_heads is 3, dim 8: n_heads must divide dim");
  EXPECT_FAILS(tc_nn_add_transformer_decoder(p, "t", DIM, 0, t), TC_ERR_ARG, "n_layers is 0");
  t = (tc_nn_transformer_options){.n_heads = 2, .dim_feedforward = 4};
  EXPECT_OK(tc_nn_add_transformer_encoder(p, "t", DIM, 1, t));
  int n = tc_nn_count(p);
  EXPECT_FAILS(tc_nn_add_transformer_encoder(p, "t", DIM, 2, t), TC_ERR_ARG, "is taken");
  EXPECT(tc_nn_count(p) == n, "%d parameters", tc_nn_count(p));
  tc_tensor z = tc_zeros(TC_SHAPE(2, 5, DIM), TC_F32);
  EXPECT_FAILS(tc_nn_transformer_encoder_layer(p, "t", z, t), TC_ERR_ARG,
               "there is no parameter 't.self_attn.in_proj_weight'");
  t.padding = tc_ones(TC_SHAPE(2, 5), TC_F32);
  EXPECT_FAILS(tc_nn_transformer_encoder(p, "t", z, t), TC_ERR_DTYPE,
               "padding is f32 [2, 5]; bool [b, positions] is needed, true where one is there");
  t.padding = (tc_tensor){0, 0}, t.dropout = 3;
  EXPECT_FAILS(tc_nn_transformer_encoder(p, "t", z, t), TC_ERR_ARG, "dropout is 3, not within [0, 1]");
  EXPECT_FAILS(tc_nn_transformer_encoder(p, NULL, z, t), TC_ERR_ARG, "path is NULL");
  tc_nn_params_destroy(p);
  tc_scope_end(scope);
}

int main(void) {
  if (has_library(tc_safetensors_open_at)) modules_are_pytorchs();
  a_sequence_is_its_steps();
  computed_lengths_are_clamped();
  dropout_is_between_layers_in_training();
  wrong_calls_say_what();
  return expect_done("api-sequence_modules");
}
