// Recurrent modules: unrolled sequences, and single steps.
//
// In: x [t, b, in], a first state. Out: the results of all steps, and the last state.
// Formulas are those of torch.nn (aten/src/ATen/native/RNN.cpp). The product with the inputs of all
// steps is one matmul.
// Invariants: where sequences have lengths, a step behind a sequence's end keeps its state and
// gives 0. Read from the end, the state begins to change at the sequence's last step.
// Threads: thread-compatible. Owner: nobody.
#define TC_NO_SITES
#include <math.h>
#include <stdlib.h>

#include "lazy/front/nn.h"
#include "lazy/front/operand.h"
#include "lazy/record/known_value.h"

// A kind of module: how many products of the state a step has.
typedef enum kind { RNN, RELU_RNN, GRU, LSTM } kind;
static const int n_gates[] = {[RNN] = 1, [RELU_RNN] = 1, [GRU] = 3, [LSTM] = 4};

typedef struct weights {
  tc_tensor w_ih, w_hh, b_ih, b_hh;
} weights;

// ---- Adding ----

// The four parameters with this ending of their names.
static tc_status add_weights(const char *op, tc_nn_params *p, const char *path, const char *ending, int gates,
                             int64_t in, int64_t hidden, bool bias, tc_site site) {
  static const char *const names[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
  int64_t rows;
  if (in < 0 || hidden < 1 || __builtin_mul_overflow(hidden, gates, &rows))
    return tc_fail(TC_ERR_SHAPE, op, site, "%lld inputs to %lld hidden values", (long long)in, (long long)hidden);
  double bound = 1 / sqrt((double)hidden);
  for (int i = 0; i < (bias ? 4 : 2); i++) {
    char leaf[64];
    snprintf(leaf, sizeof leaf, "%s%s", names[i], ending);
    tc_dims shape = tc_dims_of(i < 2 ? 2 : 1, (int64_t[]){rows, i == 0 ? in : hidden});
    TC_TRY(tc_nn_add_leaf(op, p, path, leaf, tc_nn_uniform_at(shape, -bound, bound, site), site));
  }
  return TC_OK;
}

// "_l0", "_l0_reverse"
static void write_ending(char out[48], int layer, bool reverse) {
  snprintf(out, 48, "_l%d%s", layer, reverse ? "_reverse" : "");
}

static tc_status add_module(const char *op, tc_nn_params *p, const char *path, kind k, int64_t in, int64_t hidden,
                            tc_nn_rnn_options o, tc_site site) {
  int n_layers = o.n_layers ? o.n_layers : 1, n_ways = o.bidirectional ? 2 : 1;
  if (n_layers < 1) return tc_fail(TC_ERR_ARG, op, site, "n_layers is %d", n_layers);
  tc_nn_adding a = tc_nn_begin_adding(p, site);
  tc_status st = TC_OK;
  for (int i = 0; i < n_layers * n_ways && st == TC_OK; i++) {
    char ending[48];
    write_ending(ending, i / n_ways, i % n_ways);
    st = add_weights(op, p, path, ending, n_gates[k], i / n_ways ? n_ways * hidden : in, hidden, !o.no_bias, site);
  }
  return tc_nn_end_adding(a, st);
}

#define ADD_MODULE(name, k) \
  tc_status tc_nn_add_##name##_at(tc_nn_params *p, const char *path, int64_t in, int64_t hidden, tc_nn_rnn_options o, \
                                  tc_site site) { \
    TC_CALLED_AS("nn_add_" #name); \
    return add_module("nn_add_" #name, p, path, k, in, hidden, o, site); \
  }
ADD_MODULE(rnn, RNN)
ADD_MODULE(gru, GRU)
ADD_MODULE(lstm, LSTM)

// ---- A step ----

// Part i of the last axis, of size n.
static tc_tensor part_of(tc_tensor x, int i, int64_t n, tc_site site) {
  return tc_slice_at(x, -1, i * n, (i + 1) * n, 1, site);
}

// gi [b, g hidden]: the input's product, with its bias.
static tc_nn_rnn_state next_state(kind k, tc_tensor gi, tc_nn_rnn_state s, const weights *w, int64_t n, tc_site site) {
  tc_tensor gh = tc_linear_at(s.h, w->w_hh, w->b_hh, site);
  if (k == GRU) {
    tc_tensor r = tc_sigmoid_at(tc_add_at(part_of(gi, 0, n, site), part_of(gh, 0, n, site), site), site);
    tc_tensor z = tc_sigmoid_at(tc_add_at(part_of(gi, 1, n, site), part_of(gh, 1, n, site), site), site);
    tc_tensor gated = tc_mul_at(r, part_of(gh, 2, n, site), site);
    tc_tensor fresh = tc_tanh_at(tc_add_at(part_of(gi, 2, n, site), gated, site), site);
    tc_tensor h = tc_add_at(tc_mul_at(tc_sub_at(s.h, fresh, site), z, site), fresh, site);
    return (tc_nn_rnn_state){h, s.c};
  }
  tc_tensor sum = tc_add_at(gi, gh, site);
  if (k == RNN) return (tc_nn_rnn_state){tc_tanh_at(sum, site), s.c};
  if (k == RELU_RNN) return (tc_nn_rnn_state){tc_relu_at(sum, site), s.c};
  tc_tensor in = tc_sigmoid_at(part_of(sum, 0, n, site), site), keep = tc_sigmoid_at(part_of(sum, 1, n, site), site);
  tc_tensor cell = tc_tanh_at(part_of(sum, 2, n, site), site), out = tc_sigmoid_at(part_of(sum, 3, n, site), site);
  tc_tensor c = tc_add_at(tc_mul_at(keep, s.c, site), tc_mul_at(in, cell, site), site);
  return (tc_nn_rnn_state){tc_mul_at(out, tc_tanh_at(c, site), site), c};
}

// ---- Sequences ----

typedef struct sequence {
  const char *op;
  const tc_nn_params *p;
  const char *path;
  kind k;
  int64_t t, b, hidden;
  tc_tensor *out;      // of each step, [b, hidden]
  tc_tensor *is_there;  // of each step, [b, 1] bool; NULL: all are
  tc_site site;
} sequence;

static weights weights_of(const sequence *q, const char *ending) {
  char leaf[4][64];
  static const char *const names[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
  tc_tensor t[4];
  for (int i = 0; i < 4; i++) {
    snprintf(leaf[i], sizeof leaf[i], "%s%s", names[i], ending);
    t[i] = tc_nn_get_leaf(q->op, q->p, q->path, leaf[i], i >= 2, q->site);
  }
  return (weights){t[0], t[1], t[2], t[3]};
}

static bool has_weights(const sequence *q, const char *ending) {
  char name[TC_NN_PATH_BYTES];
  int n =
      snprintf(name, sizeof name, "%s%sweight_hh%s", q->path ? q->path : "", q->path && q->path[0] ? "." : "", ending);
  return n < TC_NN_PATH_BYTES && tc_nn_has(q->p, name);
}

// x [t, b, in] through one direction of a layer -> [t, b, hidden]; s becomes the last state.
static tc_tensor run_direction(sequence *q, tc_tensor x, const weights *w, bool reverse, tc_nn_rnn_state *s) {
  tc_tensor gi = tc_linear_at(x, w->w_ih, w->b_ih, q->site);
  tc_nn_rnn_state now = *s;
  for (int64_t i = 0; i < q->t; i++) {
    int64_t at = reverse ? q->t - 1 - i : i;
    tc_nn_rnn_state next = next_state(q->k, tc_select_at(gi, 0, at, q->site), now, w, q->hidden, q->site);
    tc_tensor out = next.h;
    if (q->is_there) {
      tc_tensor there = q->is_there[at];
      out = tc_where_tensor_num_at(there, next.h, tc_num_float(0), q->site);
      next.h = tc_where_at(there, next.h, now.h, q->site);
      if (q->k == LSTM) next.c = tc_where_at(there, next.c, now.c, q->site);
    }
    q->out[at] = out, now = next;
  }
  *s = now;
  return tc_stack_at((int)q->t, q->out, 0, q->site);
}

// A state of zeros, [b, hidden], of the weights' type and where they are.
static tc_tensor zero_state(const sequence *q, const weights *w) {
  tc_dims shape = tc_dims_of(2, (int64_t[]){q->b, q->hidden});
  return tc_zeros_like_at(tc_expand_at(tc_select_at(w->w_hh, 0, 0, q->site), shape, q->site), q->site);
}

// State i of [n, b, hidden].
static tc_tensor state_at(const sequence *q, const weights *w, tc_tensor all, int i) {
  return tc_is_null(all) ? zero_state(q, w) : tc_select_at(all, 0, i, q->site);
}

static tc_status check_state(const sequence *q, tc_tensor s, const char *what, int n) {
  if (tc_is_null(s)) return TC_OK;
  TC_TRY(tc_operand_check(q->op, s, q->site));
  tc_dims d = tc_shape_at(s, q->site);
  char text[64];
  if (d.rank == 3 && d.dim[0] == n && d.dim[1] == q->b && d.dim[2] == q->hidden) return TC_OK;
  return tc_fail(TC_ERR_SHAPE, q->op, q->site, "the state's %s is %s, [%d, %lld, %lld] is needed", what,
                 tc_dims_text(&d, text, sizeof text), n, (long long)q->b, (long long)q->hidden);
}

static tc_status check_input(sequence *q, tc_tensor x, tc_tensor lengths) {
  TC_TRY(tc_operand_check(q->op, x, q->site));
  weights w = weights_of(q, "_l0");
  TC_TRY(tc_operand_check(q->op, w.w_ih, q->site));
  TC_TRY(tc_operand_check(q->op, w.w_hh, q->site));
  tc_dims d = tc_shape_at(x, q->site), in = tc_shape_at(w.w_ih, q->site), hh = tc_shape_at(w.w_hh, q->site);
  char text[2][64];
  if (hh.rank != 2 || hh.dim[0] != n_gates[q->k] * hh.dim[1])
    return tc_fail(TC_ERR_SHAPE, q->op, q->site, "weight_hh_l0 of '%.100s' is %s, which is of another kind of module",
                   q->path, tc_dims_text(&hh, text[0], 64));
  if (d.rank != 3 || in.rank != 2 || d.dim[2] != in.dim[1] || d.dim[0] < 1)
    return tc_fail(TC_ERR_SHAPE, q->op, q->site, "x is %s in the order [t, b, in], and weight_ih_l0 %s",
                   tc_dims_text(&d, text[0], 64), tc_dims_text(&in, text[1], 64));
  q->t = d.dim[0], q->b = d.dim[1], q->hidden = hh.dim[1];
  if (tc_is_null(lengths)) return TC_OK;
  TC_TRY(tc_operand_check(q->op, lengths, q->site));
  tc_dims n = tc_shape_at(lengths, q->site);
  tc_type type = tc_dtype_at(lengths, q->site);
  if (n.rank != 1 || n.dim[0] != q->b)
    return tc_fail(TC_ERR_SHAPE, q->op, q->site, "lengths is %s, [%lld] is needed: one for each sequence",
                   tc_dims_text(&n, text[0], 64), (long long)q->b);
  if (tc_is_floating(type) || type == TC_BOOL)
    return tc_fail(TC_ERR_DTYPE, q->op, q->site, "lengths is %s, an integer type is needed", tc_type_name(type));
  int64_t wrong, at = tc_find_outside(lengths, 0, q->t, &wrong);
  if (at >= 0)
    return tc_fail(TC_ERR_INDEX, q->op, q->site, "lengths[%lld] is %lld; x has %lld steps, so it may be from 0 to %lld",
                   (long long)at, (long long)wrong, (long long)q->t, (long long)q->t);
  return TC_OK;
}

static void find_there(const sequence *q, tc_tensor lengths) {
  tc_tensor column = tc_reshape_at(lengths, tc_dims_of(2, (int64_t[]){q->b, 1}), q->site);
  for (int64_t i = 0; i < q->t; i++) q->is_there[i] = tc_gt_num_at(column, tc_num_int(i), q->site);
}

// All layers over x [t, b, in]; last has the states of all.
static tc_tensor run_layers(sequence *q, tc_tensor x, int n_layers, int n_ways, const tc_nn_rnn_options *o,
                            const tc_nn_rnn_state *first, tc_tensor *last_h, tc_tensor *last_c) {
  for (int layer = 0; layer < n_layers; layer++) {
    tc_tensor ways[2];
    for (int way = 0; way < n_ways; way++) {
      char ending[48];
      int i = layer * n_ways + way;
      write_ending(ending, layer, way);
      weights w = weights_of(q, ending);
      tc_nn_rnn_state s = {state_at(q, &w, first->h, i), {0, 0}};
      if (q->k == LSTM) s.c = state_at(q, &w, first->c, i);
      ways[way] = run_direction(q, x, &w, way, &s);
      last_h[i] = s.h, last_c[i] = s.c;
    }
    x = n_ways == 2 ? tc_cat_at(2, ways, 2, q->site) : ways[0];
    if (o->dropout > 0 && layer < n_layers - 1) x = tc_nn_dropout_at(q->p, x, o->dropout, q->site);
  }
  return x;
}

static tc_tensor run_sequence(sequence *q, tc_tensor x, tc_nn_rnn_state *state, const tc_nn_rnn_options *o) {
  int n_layers = 0, n_ways = has_weights(q, "_l0_reverse") ? 2 : 1;
  char ending[48];
  for (write_ending(ending, 0, false); has_weights(q, ending); write_ending(ending, n_layers, false)) n_layers++;
  int n = n_layers * n_ways;
  tc_nn_rnn_state first = state ? *state : (tc_nn_rnn_state){{0, 0}, {0, 0}};
  tc_status st = check_state(q, first.h, "h", n);
  if (st == TC_OK && q->k == LSTM) st = check_state(q, first.c, "c", n);
  if (st == TC_OK && !(o->dropout >= 0 && o->dropout <= 1))
    st = tc_fail(TC_ERR_ARG, q->op, q->site, "dropout is %g, not within [0, 1]", o->dropout);
  if (st != TC_OK) return tc_poison(st);
  bool masked = !tc_is_null(o->lengths);
  tc_tensor *all = malloc(((size_t)q->t * 2 + 2 * (size_t)n) * sizeof *all);
  if (!all) return tc_poison(tc_fail(TC_ERR_MEMORY, q->op, q->site, "%lld steps", (long long)q->t));
  tc_tensor *last = all + 2 * q->t;
  q->out = all, q->is_there = masked ? all + q->t : NULL;
  if (masked) find_there(q, o->lengths);
  tc_tensor y = run_layers(q, x, n_layers, n_ways, o, &first, last, last + n);
  if (state) state->h = tc_stack_at(n, last, 0, q->site);
  if (state && q->k == LSTM) state->c = tc_stack_at(n, last + n, 0, q->site);
  free(all);
  return y;
}

static tc_tensor run_module(const char *op, kind k, const tc_nn_params *p, const char *path, tc_tensor x,
                            tc_nn_rnn_state *state, const tc_nn_rnn_options *o, tc_site site) {
  sequence q = {.op = op, .p = p, .path = path, .k = k, .site = site};
  tc_scope scope = tc_scope_begin_at(site);
  if (o->batch_first && tc_is_valid(x) && tc_shape_at(x, site).rank >= 2) x = tc_transpose_at(x, 0, 1, site);
  tc_status st = check_input(&q, x, o->lengths);
  tc_tensor y = st == TC_OK ? run_sequence(&q, x, state, o) : tc_poison(st);
  if (o->batch_first && tc_is_valid(y)) y = tc_transpose_at(y, 0, 1, site);
  if (tc_is_valid(y)) {
    (void)tc_keep_at(y, site);
    if (state) (void)tc_keep_at(state->h, site);
    if (state && k == LSTM) (void)tc_keep_at(state->c, site);
  }
  tc_scope_end_at(scope, 0);
  return y;
}

tc_tensor tc_nn_rnn_at(const tc_nn_params *p, const char *path, tc_tensor x, tc_nn_rnn_state *state,
                       tc_nn_rnn_options o, tc_site site) {
  TC_CALLED_AS("nn_rnn");
  return run_module("nn_rnn", o.relu ? RELU_RNN : RNN, p, path, x, state, &o, site);
}

tc_tensor tc_nn_gru_at(const tc_nn_params *p, const char *path, tc_tensor x, tc_nn_rnn_state *state,
                       tc_nn_rnn_options o, tc_site site) {
  TC_CALLED_AS("nn_gru");
  return run_module("nn_gru", GRU, p, path, x, state, &o, site);
}

tc_tensor tc_nn_lstm_at(const tc_nn_params *p, const char *path, tc_tensor x, tc_nn_rnn_state *state,
                        tc_nn_rnn_options o, tc_site site) {
  TC_CALLED_AS("nn_lstm");
  return run_module("nn_lstm", LSTM, p, path, x, state, &o, site);
}

// ---- Cells ----

static tc_status add_cell(const char *op, tc_nn_params *p, const char *path, kind k, int64_t in, int64_t hidden,
                          bool bias, tc_site site) {
  tc_nn_adding a = tc_nn_begin_adding(p, site);
  return tc_nn_end_adding(a, add_weights(op, p, path, "", n_gates[k], in, hidden, bias, site));
}

#define ADD_CELL(name, k) \
  tc_status tc_nn_add_##name##_at(tc_nn_params *p, const char *path, int64_t in, int64_t hidden, bool bias, \
                                  tc_site site) { \
    TC_CALLED_AS("nn_add_" #name); \
    return add_cell("nn_add_" #name, p, path, k, in, hidden, bias, site); \
  }
ADD_CELL(rnn_cell, RNN)
ADD_CELL(gru_cell, GRU)
ADD_CELL(lstm_cell, LSTM)

static tc_status check_cell(sequence *q, tc_tensor x, const weights *w, const tc_nn_rnn_state *s) {
  TC_TRY(tc_operand_check(q->op, x, q->site));
  TC_TRY(tc_operand_check(q->op, w->w_ih, q->site));
  TC_TRY(tc_operand_check(q->op, w->w_hh, q->site));
  tc_dims d = tc_shape_at(x, q->site), in = tc_shape_at(w->w_ih, q->site), hh = tc_shape_at(w->w_hh, q->site);
  char text[2][64];
  if (hh.rank != 2 || hh.dim[0] != n_gates[q->k] * hh.dim[1])
    return tc_fail(TC_ERR_SHAPE, q->op, q->site, "weight_hh of '%.100s' is %s, which is of another kind of cell",
                   q->path, tc_dims_text(&hh, text[0], 64));
  if (d.rank != 2 || in.rank != 2 || d.dim[1] != in.dim[1])
    return tc_fail(TC_ERR_SHAPE, q->op, q->site, "x is %s, weight_ih %s; [b, in] and [.., in] are needed",
                   tc_dims_text(&d, text[0], 64), tc_dims_text(&in, text[1], 64));
  q->b = d.dim[0], q->hidden = hh.dim[1];
  for (int i = 0; i < 2; i++) {
    tc_tensor t = i ? s->c : s->h;
    if (tc_is_null(t)) continue;
    TC_TRY(tc_operand_check(q->op, t, q->site));
    tc_dims have = tc_shape_at(t, q->site);
    if (have.rank != 2 || have.dim[0] != q->b || have.dim[1] != q->hidden)
      return tc_fail(TC_ERR_SHAPE, q->op, q->site, "%s is %s, [%lld, %lld] is needed", i ? "c" : "h",
                     tc_dims_text(&have, text[0], 64), (long long)q->b, (long long)q->hidden);
  }
  return TC_OK;
}

static tc_nn_rnn_state run_cell(const char *op, kind k, const tc_nn_params *p, const char *path, tc_tensor x,
                                tc_nn_rnn_state s, tc_site site) {
  sequence q = {.op = op, .p = p, .path = path, .k = k, .site = site};
  weights w = weights_of(&q, "");
  tc_status st = check_cell(&q, x, &w, &s);
  if (st != TC_OK) return (tc_nn_rnn_state){tc_poison(st), tc_poison(st)};
  if (tc_is_null(s.h)) s.h = zero_state(&q, &w);
  if (tc_is_null(s.c) && k == LSTM) s.c = zero_state(&q, &w);
  return next_state(k, tc_linear_at(x, w.w_ih, w.b_ih, site), s, &w, q.hidden, site);
}

tc_tensor tc_nn_rnn_cell_at(const tc_nn_params *p, const char *path, tc_tensor x, tc_tensor h, bool relu,
                            tc_site site) {
  TC_CALLED_AS("nn_rnn_cell");
  return run_cell("nn_rnn_cell", relu ? RELU_RNN : RNN, p, path, x, (tc_nn_rnn_state){h, {0, 0}}, site).h;
}

tc_tensor tc_nn_gru_cell_at(const tc_nn_params *p, const char *path, tc_tensor x, tc_tensor h, tc_site site) {
  TC_CALLED_AS("nn_gru_cell");
  return run_cell("nn_gru_cell", GRU, p, path, x, (tc_nn_rnn_state){h, {0, 0}}, site).h;
}

tc_tensor tc_nn_lstm_cell_at(const tc_nn_params *p, const char *path, tc_tensor x, tc_nn_rnn_state *state,
                             tc_site site) {
  TC_CALLED_AS("nn_lstm_cell");
  if (!state) return tc_poison(tc_fail(TC_ERR_ARG, "nn_lstm_cell", site, "state is NULL; give one of {0, 0} to begin"));
  *state = run_cell("nn_lstm_cell", LSTM, p, path, x, *state, site);
  return state->h;
}
