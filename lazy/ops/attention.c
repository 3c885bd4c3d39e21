// Attention: the public op and its rows. Its gradient is lazy/autograd/vjp_attention.c.
//
// Operands become rank 4, [n, heads, rows, elements], by views. One row, ATTENTION, mixes values
// and never stores the scores.
// The gradient reads LSE and delta of each row. LSE is the greatest score, and the log of the sum
// of exponentials of the scores less that; delta is the sum of dout * out.
// With LSE each weight is recomputed by itself:
//   p = exp(s - max - log sum)   ds = p (dout v^T - delta)
//   dq = ds k   dk = ds^T q   dv = p^T dout
// Other rows compose attention, scores and all, for:
// - dropout of weights;
// - heads too long for the kernels, or of no elements;
// - no keys;
// - gradients of a mask, and gradients that are differentiated again.
// Source: Dao et al., FlashAttention (2022); rows that see nothing as in PyTorch's _safe_softmax.
// Threads: under the trace's lock. Owner: nobody.
#define TC_NO_SITES
#include <math.h>
#include <string.h>

#include "lazy/ops/attention.h"
#include "lazy/record/formula.h"
#include "lazy/record/append.h"

#define MAX_GPU_F64_HEAD 128  // whose tiles fit the block's memory of every GPU

static tc_dims dims4(int64_t a, int64_t b, int64_t c, int64_t d) {
  return (tc_dims){4, {a, b, c, d}};
}

static tc_dims order4(int64_t a, int64_t b, int64_t c, int64_t d) {
  return dims4(a, b, c, d);
}

// ---- Rows ----

static tc_node scalar(tc_trace *t, tc_node like, tc_type type, uint64_t bits) {
  uint32_t shape = tc_dims_intern(&(tc_dims){0});
  if (like == TC_NODE_ERR || shape == TC_SHAPE_NONE) return TC_NODE_ERR;
  return tc_trace_append(t, TC_OP_FULL, type, shape, 0, NULL, 0, NULL, 1, &bits, (tc_device)t->dev[like]);
}

tc_node tc_attention_row(tc_trace *t, const tc_attention *a, tc_op op, tc_type type, const tc_dims *shape, int n,
                         const tc_node *first) {
  tc_node in[9];
  memcpy(in, first, (size_t)n * sizeof in[0]);
  in[n++] = a->scale;
  if (a->has_length) in[n++] = a->length;
  if (a->has_mask) in[n++] = a->mask;
  uint32_t id = tc_dims_intern(shape);
  for (int i = 0; i < n; i++) {
    if (in[i] == TC_NODE_ERR) return TC_NODE_ERR;
    if (t->dev[in[i]] != t->dev[in[0]])
      return tc_rec_fail(t, TC_ERR_DEVICE, "operands are on %s and %s", tc_device_name((tc_device)t->dev[in[0]]),
                         tc_device_name((tc_device)t->dev[in[i]]));
  }
  if (id == TC_SHAPE_NONE) return tc_rec_fail(t, TC_ERR_MEMORY, "no room for a shape");
  uint64_t attr[3] = {a->causal, a->has_length, a->has_mask};
  return tc_trace_append(t, op, type, id, n, in, 3, attr, 0, NULL, (tc_device)t->dev[in[0]]);
}

tc_node tc_attention_swapped(tc_trace *t, tc_node a) {
  tc_dims order = order4(0, 2, 1, 3);
  return tc_rec_permute(t, a, &order);
}

static tc_node attend(tc_trace *t, const tc_attention *a) {
  const tc_dims *q = tc_node_dims(t, a->q), *v = tc_node_dims(t, a->v);
  tc_dims out = dims4(q->dim[0], q->dim[2], q->dim[1], v->dim[3]);
  return tc_attention_swapped(
      t, tc_attention_row(t, a, TC_OP_ATTENTION, tc_node_type(t, a->q), &out, 3, (tc_node[]){a->q, a->k, a->v}));
}

// ---- The same of other rows ----

tc_node tc_attention_repeated(tc_trace *t, tc_node x, int64_t heads) {
  tc_dims d = *tc_node_dims(t, x);
  if (d.dim[1] == heads) return x;
  tc_dims split = {5, {d.dim[0], d.dim[1], 1, d.dim[2], d.dim[3]}}, wide = split,
          joined = dims4(d.dim[0], heads, d.dim[2], d.dim[3]);
  wide.dim[2] = heads / d.dim[1];
  return tc_rec_reshape(t, tc_rec_expand(t, tc_rec_reshape(t, x, &split), &wide), &joined);
}

tc_node tc_attention_transposed(tc_trace *t, tc_node x) {
  tc_dims order = order4(0, 1, 3, 2);
  return tc_rec_permute(t, x, &order);
}

// A mask of the keys that each query attends to, by causality and length. TC_NODE_ERR with *all:
// every key.
static tc_node seen_keys(tc_trace *t, const tc_attention *a, bool *all) {
  int64_t l = tc_node_dims(t, a->q)->dim[2], s = tc_node_dims(t, a->k)->dim[2];
  *all = !a->causal && !a->has_length;
  if (*all) return TC_NODE_ERR;
  tc_node j = tc_rec_iota(t, &(tc_dims){2, {1, s}}, TC_I64, 0, 1),
          i = tc_rec_iota(t, &(tc_dims){2, {l, 1}}, TC_I64, 0, 1);
  tc_node short_of = a->has_length ? tc_rec_binary(t, TC_OP_LT, j, a->length) : TC_NODE_ERR;
  if (!a->causal) return short_of;
  tc_node behind = tc_rec_binary(t, TC_OP_LE, j, a->has_length ? f_add(t, f_int(t, TC_OP_SUB, i, l), a->length) : i);
  return a->has_length ? tc_rec_binary(t, TC_OP_LOGICAL_AND, short_of, behind) : behind;
}

tc_node tc_attention_weights(tc_trace *t, const tc_attention *a) {
  tc_node k = tc_attention_repeated(t, f_widen(t, a->k), tc_node_dims(t, a->q)->dim[1]);
  tc_node s = f_mul(t, tc_rec_matmul(t, f_widen(t, a->q), tc_attention_transposed(t, k)), a->scale);
  if (s == TC_NODE_ERR || tc_node_dims(t, s)->dim[3] == 0) return s;
  bool all;
  tc_node seen = seen_keys(t, a, &all);
  if (!all) s = f_keep(t, seen, s, -INFINITY);
  if (a->has_mask) s = tc_node_type(t, a->mask) == TC_BOOL ? f_keep(t, a->mask, s, -INFINITY) : f_add(t, s, a->mask);
  tc_node max = tc_rec_detach(t, tc_rec_fold(t, TC_OP_MAX, s, 1u << 3, true));
  max = f_fill(t, f_num(t, TC_OP_EQ, max, -INFINITY), 0, max);
  tc_node e = f_exp(t, f_sub(t, s, max)), sum = tc_rec_fold(t, TC_OP_SUM, e, 1u << 3, true);
  return f_div(t, e, f_fill(t, f_num(t, TC_OP_EQ, sum, 0), 1, sum));
}

static tc_node composed(tc_trace *t, const tc_attention *a, double dropout) {
  tc_node weights = tc_attention_weights(t, a);
  if (dropout > 0) weights = tc_compose_dropout(t, weights, dropout);
  tc_node v = tc_attention_repeated(t, f_widen(t, a->v), tc_node_dims(t, a->q)->dim[1]);
  return f_narrow(t, tc_rec_matmul(t, weights, v), tc_node_type(t, a->q));
}

// ---- The public op ----

// Axes of extent one in front, up to the rank.
static tc_node ranked(tc_trace *t, tc_node x, int rank) {
  if (x == TC_NODE_ERR) return x;
  tc_dims d = *tc_node_dims(t, x), wide = {.rank = rank};
  for (int i = 0; i < rank; i++) wide.dim[i] = i < rank - d.rank ? 1 : d.dim[i - (rank - d.rank)];
  return tc_rec_reshape(t, x, &wide);
}

// x with the leading axes as given, joined into one.
static tc_node joined(tc_trace *t, tc_node x, const tc_dims *lead) {
  if (x == TC_NODE_ERR) return x;
  tc_dims d = *tc_node_dims(t, x), wide = d;
  for (int i = 0; i < lead->rank; i++) wide.dim[i] = lead->dim[i];
  const int64_t *last = d.dim + lead->rank;
  return tc_rec_reshape(t, tc_rec_expand(t, x, &wide), &(tc_dims){4, {tc_dims_count(lead), last[0], last[1], last[2]}});
}

static tc_node misfit(tc_trace *t, const tc_node *x) {
  char text[3][128];
  for (int i = 0; i < 3; i++) (void)tc_dims_text(tc_node_dims(t, x[i]), text[i], sizeof text[i]);
  return tc_rec_fail(
      t, TC_ERR_SHAPE,
      "q is %s, k %s, v %s; [.., hq, l, e], [.., hkv, s, e] and [.., hkv, s, ev] are needed, and hkv that divides hq",
      text[0], text[1], text[2]);
}

// Brings q, k and v to rank 4; *lead: what their leading axes broadcast to. False after reporting.
static bool take_operands(tc_trace *t, const tc_node *in, tc_attention *a, tc_dims *lead, int *rank) {
  tc_node x[3];
  *rank = 3;
  for (int i = 0; i < 3; i++) {
    tc_type type = tc_node_type(t, in[i]);
    if (!tc_type_is_float(type) || type != tc_node_type(t, in[0]))
      return tc_rec_fail(t, TC_ERR_DTYPE, "q is %s, k %s, v %s; one floating type was expected",
                         tc_type_name(tc_node_type(t, in[0])), tc_type_name(tc_node_type(t, in[1])),
                         tc_type_name(tc_node_type(t, in[2]))),
             false;
    if (tc_node_dims(t, in[i])->rank < 2) return misfit(t, in), false;
    *rank = TC_MAX_OF(*rank, (int)tc_node_dims(t, in[i])->rank);
  }
  *lead = (tc_dims){.rank = *rank - 3};
  for (int i = 0; i < lead->rank; i++) lead->dim[i] = 1;
  for (int i = 0; i < 3; i++) {
    if ((x[i] = ranked(t, in[i], *rank)) == TC_NODE_ERR) return false;
    for (int k = 0; k < lead->rank; k++) {
      int64_t have = tc_node_dims(t, x[i])->dim[k];
      if (have != 1 && lead->dim[k] != 1 && have != lead->dim[k]) return misfit(t, in), false;
      if (have != 1) lead->dim[k] = have;
    }
  }
  const int64_t *q = tc_node_dims(t, x[0])->dim + lead->rank, *k = tc_node_dims(t, x[1])->dim + lead->rank,
                *v = tc_node_dims(t, x[2])->dim + lead->rank;
  bool fits = q[2] == k[2] && k[1] == v[1] && k[0] == v[0] && (k[0] ? q[0] % k[0] == 0 : q[0] == 0);
  if (!fits) return misfit(t, in), false;
  a->q = joined(t, x[0], lead), a->k = joined(t, x[1], lead), a->v = joined(t, x[2], lead);
  return a->q != TC_NODE_ERR && a->k != TC_NODE_ERR && a->v != TC_NODE_ERR;
}

static bool take_mask(tc_trace *t, tc_node mask, tc_attention *a, const tc_dims *lead, int rank) {
  tc_type type = tc_node_type(t, mask);
  tc_dims d = *tc_node_dims(t, mask), q = *tc_node_dims(t, a->q), want = {.rank = rank};
  char have[128], wanted[128];
  if (type != TC_BOOL && !tc_type_is_float(type))
    return tc_rec_fail(t, TC_ERR_DTYPE, "the mask is %s; bool or a floating type was expected", tc_type_name(type)),
           false;
  for (int i = 0; i < lead->rank; i++) want.dim[i] = lead->dim[i];
  want.dim[rank - 3] = q.dim[1], want.dim[rank - 2] = q.dim[2], want.dim[rank - 1] = tc_node_dims(t, a->k)->dim[2];
  bool fits = d.rank <= rank, leads = false;
  for (int i = 0; fits && i < d.rank; i++) {
    int64_t there = want.dim[rank - d.rank + i];
    fits = d.dim[i] == 1 || d.dim[i] == there;
    leads |= d.dim[i] != 1 && rank - d.rank + i < lead->rank;
  }
  if (!fits)
    return tc_rec_fail(t, TC_ERR_SHAPE, "the mask is %s; it was expected to broadcast to %s",
                       tc_dims_text(&d, have, sizeof have), tc_dims_text(&want, wanted, sizeof wanted)),
           false;
  mask = ranked(t, mask, rank);
  tc_dims one = {.rank = lead->rank};
  for (int i = 0; i < one.rank; i++) one.dim[i] = 1;
  a->mask = joined(t, mask, leads ? lead : &one);
  return a->has_mask = true, a->mask != TC_NODE_ERR;
}

static bool take_options(tc_trace *t, const tc_attention_options *o, tc_attention *a) {
  int64_t s = tc_node_dims(t, a->k)->dim[2], e = tc_node_dims(t, a->q)->dim[3];
  double scale = tc_option(o->scale, 1 / sqrt((double)TC_MAX_OF(e, INT64_C(1))));
  uint64_t bits;
  if (o->key_length < 0 || o->key_length > s)
    return tc_rec_fail(t, TC_ERR_ARG, "key_length is %lld, not within 0 and %lld", (long long)o->key_length,
                       (long long)s),
           false;
  if (!(o->dropout >= 0 && o->dropout <= 1))
    return tc_rec_fail(t, TC_ERR_ARG, "dropout is %g, not within 0 and 1", o->dropout), false;
  memcpy(&bits, &scale, sizeof bits);
  a->causal = o->causal, a->has_length = o->key_length > 0;
  a->scale = scalar(t, a->q, TC_F64, bits);
  if (a->has_length) a->length = scalar(t, a->q, TC_I64, (uint64_t)o->key_length);
  return t->op_status == TC_OK;
}

tc_tensor tc_scaled_dot_product_attention_at(tc_tensor q, tc_tensor k, tc_tensor v, tc_tensor mask,
                                             tc_attention_options options, tc_site site) {
  tc_trace *t = tc_op_begin("scaled_dot_product_attention", site);
  tc_node in[3] = {tc_op_in(t, q), tc_op_in(t, k), tc_op_in(t, v)},
          m = f_given(mask) ? tc_op_in_uncast(t, mask) : TC_NODE_ERR;
  tc_attention a = {0};
  tc_dims lead;
  int rank;
  bool ok =
      in[0] != TC_NODE_ERR && in[1] != TC_NODE_ERR && in[2] != TC_NODE_ERR && (m != TC_NODE_ERR || !f_given(mask));
  ok = ok && take_operands(t, in, &a, &lead, &rank) && (m == TC_NODE_ERR || take_mask(t, m, &a, &lead, rank)) &&
       take_options(t, &options, &a);
  if (!ok) return tc_op_end(t, TC_NODE_ERR);
  tc_dims shape = lead, d = *tc_node_dims(t, a.q);
  int64_t e = d.dim[3], ev = tc_node_dims(t, a.v)->dim[3];
  bool has_heads = false;
  for (int i = 0; i < 3; i++) has_heads |= tc_node_dims(t, in[i])->rank > 2;
  if (has_heads) shape.dim[shape.rank++] = d.dim[1];
  shape.dim[shape.rank++] = d.dim[2], shape.dim[shape.rank++] = ev;
  bool empty = e == 0 || ev == 0 || tc_node_dims(t, a.k)->dim[2] == 0;
  int64_t most = TC_MAX_HEAD;
  if (tc_device_kind_of((tc_device)t->dev[in[0]]) == TC_DEVICE_GPU && tc_node_type(t, in[0]) == TC_F64)
    most = MAX_GPU_F64_HEAD;
  bool in_rows = options.dropout > 0 || e > most || ev > most || empty;
  return tc_op_end(t, tc_rec_reshape(t, in_rows ? composed(t, &a, options.dropout) : attend(t, &a), &shape));
}
