// Splits attention of few query rows and many keys, as in decoding, into parts of the keys.
//
// Unsplit, one block of a GPU goes through all keys of a key head.
// A kernel computes each part's weighted sum of values, its sum of weights and its greatest score.
// The weighted sum is not divided yet. Nodes behind it weigh the parts, in order.
//
//   %4 = attention [1,1,2,4]    ->    %6 = attention [4,1,2,1,4], %5 = attention_lse [4,1,2,1,2]
//                                     weights of parts, sums over parts, %4 = their quotient
//
// Invariants: the parts follow from the shape alone, so every device adds in the same order. The
// number of keys in use stays an argument of the kernel. Source: Flash-Decoding (Dao, Haziza,
// Massa, Sizov 2023). Threads: thread-compatible.
#include "lowering/graph/split_k.h"

#include <string.h>

#define ROWS 64  // of a head: more are several blocks
#define ENOUGH 256  // blocks that keep the memory of a large device busy
#define LEAST_KEYS 256  // of a part
#define KEYS_OF_ROW 8  // the same, a row: so that the parts' mixes are a small part of what is read
#define MOST_PARTS 64

typedef struct split {
  tc_graph *g;
  tc_gnode like;  // what nodes are added like
  bool ok;
} split;

static uint32_t add_node(split *s, tc_op op, tc_type type, const tc_dims *d, int n_in, const uint32_t *in, int n_attr,
                         const uint64_t *attr) {
  s->like.type = type;
  uint32_t n = s->ok ? tc_graph_add_with(s->g, &s->like, op, d, n_in, in, n_attr, attr) : TC_GNODE_NONE;
  s->ok = n != TC_GNODE_NONE;
  return s->ok ? n : 0;  // a node that is there, so that what follows need not ask
}

static const tc_dims *dims(const split *s, uint32_t n) {
  return &s->g->node[n].shape->d;
}

static tc_type type_of(const split *s, uint32_t n) {
  return s->g->node[n].type;
}

static uint32_t add_unary(split *s, tc_op op, uint32_t a) {
  return add_node(s, op, type_of(s, a), dims(s, a), 1, &a, 0, NULL);
}

static uint32_t add_binary(split *s, tc_op op, uint32_t a, uint32_t b) {
  return add_node(s, op, op == TC_OP_EQ ? TC_BOOL : type_of(s, a), dims(s, a), 2, (uint32_t[]){a, b}, 0, NULL);
}

static uint32_t add_where(split *s, uint32_t cond, uint32_t a, uint32_t b) {
  return add_node(s, TC_OP_WHERE, type_of(s, a), dims(s, a), 3, (uint32_t[]){cond, a, b}, 0, NULL);
}

static uint32_t add_cast(split *s, uint32_t a, tc_type type) {
  return type_of(s, a) == type ? a : add_node(s, TC_OP_CAST, type, dims(s, a), 1, &a, 0, NULL);
}

static uint32_t add_expand(split *s, uint32_t a, const tc_dims *d) {
  return add_node(s, TC_OP_EXPAND, type_of(s, a), d, 1, &a, 0, NULL);
}

// Reduces the axis of parts, which stays as an axis of one element.
static uint32_t add_fold(split *s, tc_op op, uint32_t a) {
  tc_dims d = *dims(s, a);
  uint64_t attr = UINT64_C(1) | 1u << 8 | (op == TC_OP_MAX ? TC_MAX_OVER_NAN : 0);
  d.dim[0] = 1;
  return add_node(s, op, type_of(s, a), &d, 1, &a, 1, &attr);
}

// Slices column c of the parts' sums [parts, n, hq, l, 2].
static uint32_t add_column(split *s, uint32_t sums, int c) {
  tc_dims d = *dims(s, sums);
  d.dim[4] = 1;
  return add_node(s, TC_OP_SLICE, type_of(s, sums), &d, 1, &sums, 10,
                  (uint64_t[]){1, 1, 1, 1, 1, 0, 0, 0, 0, (uint64_t)c});
}

// Swaps the axes of heads and rows of a result of the parts.
static uint32_t add_swapped(split *s, uint32_t a) {
  tc_dims d = *dims(s, a);
  int64_t heads = d.dim[2];
  d.dim[2] = d.dim[3], d.dim[3] = heads;
  return add_node(s, TC_OP_PERMUTE, type_of(s, a), &d, 1, &a, 1, &(uint64_t){0x0402030100});
}

// The row of attention that makes the parts' mixes, or their sums. n: the whole row's node.
static uint32_t part_row(split *s, tc_op op, uint32_t n, const tc_dims *d, int64_t parts) {
  tc_gnode whole = s->g->node[n];
  uint32_t in[9];
  int n_in = 0;
  for (int i = 0; i < whole.n_in; i++)
    if (i != 2 || op != TC_OP_ATTENTION_LSE || whole.op == TC_OP_ATTENTION_LSE) in[n_in++] = whole.in[i];
  const uint64_t attr[TC_ATTENTION_ATTRS] = {whole.attr[0], whole.attr[1], whole.attr[2], 1, (uint64_t)parts};
  return add_node(s, op, whole.type == TC_F64 ? TC_F64 : TC_F32, d, n_in, in, TC_ATTENTION_ATTRS, attr);
}

// What parts weigh beside each other: 1 where a part has the greatest score, even if none has any.
typedef struct weights {
  uint32_t of_part;
  uint32_t top;  // of all parts' scores
  uint32_t sum;  // of all weights
  uint32_t none;  // whether the row sees nothing, as a number
} weights;

static weights weigh_parts(split *s, uint32_t greatest, uint32_t sum) {
  weights w = {.top = add_fold(s, TC_OP_MAX, greatest)};
  uint32_t top = add_expand(s, w.top, dims(s, greatest)), is_top = add_binary(s, TC_OP_EQ, greatest, top),
           less = add_binary(s, TC_OP_SUB, greatest, top);
  uint32_t power =
      add_node(s, TC_OP_EXP, type_of(s, less), dims(s, less), 1, &less, 1, &(uint64_t){TC_EXP_OF_NEGATIVE});
  w.of_part = add_where(s, is_top, add_cast(s, is_top, type_of(s, power)), power);
  w.sum = add_fold(s, TC_OP_SUM, add_binary(s, TC_OP_MUL, w.of_part, sum));
  w.none = add_cast(s, add_unary(s, TC_OP_LOGICAL_NOT, add_cast(s, w.sum, TC_BOOL)), type_of(s, w.sum));
  return w;
}

// Makes node n the value, which has an axis of one more.
static void become_value(split *s, uint32_t n, uint32_t value) {
  const tc_gnode *x = &s->g->node[n];
  tc_op op = x->type == type_of(s, value) ? TC_OP_RESHAPE : TC_OP_CAST;
  if (op == TC_OP_CAST) value = add_node(s, TC_OP_RESHAPE, type_of(s, value), &x->shape->d, 1, &value, 0, NULL);
  if (s->ok) tc_gnode_become(&s->g->node[n], op, value, 0, 1);
}

static void become_out(split *s, uint32_t n, uint32_t sums, int64_t parts) {
  bool outside = s->g->node[n].n_attr > 3;
  const tc_dims *of = &s->g->node[n].shape->d, *heads = dims(s, sums);
  tc_dims d = TC_SHAPE(parts, heads->dim[1], heads->dim[2], heads->dim[3], of->dim[3]);
  uint32_t mix = part_row(s, TC_OP_ATTENTION, n, &d, parts), greatest = add_column(s, sums, 0),
           sum = add_column(s, sums, 1);
  if (!outside) mix = add_swapped(s, mix), greatest = add_swapped(s, greatest), sum = add_swapped(s, sum);
  weights w = weigh_parts(s, add_expand(s, greatest, dims(s, mix)), add_expand(s, sum, dims(s, mix)));
  uint32_t sum_of_mixes = add_fold(s, TC_OP_SUM, add_binary(s, TC_OP_MUL, w.of_part, mix));
  become_value(s, n, add_binary(s, TC_OP_DIV, sum_of_mixes, add_binary(s, TC_OP_ADD, w.sum, w.none)));
}

// The greatest score, and the logarithm of the sum: zeros where a row sees nothing.
static void become_sums(split *s, uint32_t n, uint32_t sums) {
  weights w = weigh_parts(s, add_column(s, sums, 0), add_column(s, sums, 1));
  uint32_t pair[2] = {add_where(s, add_cast(s, w.none, TC_BOOL), w.sum, w.top),
                      add_unary(s, TC_OP_LOG, add_binary(s, TC_OP_ADD, w.sum, w.none))};
  tc_dims d = *dims(s, sums);
  d.dim[0] = 1;
  become_value(s, n, add_node(s, TC_OP_CAT, type_of(s, sums), &d, 2, pair, 1, &(uint64_t){4}));
}

// Parts of the keys of a row of attention, 1: they are whole.
static int64_t n_parts_of(const tc_graph *g, const tc_gnode *x) {
  const tc_dims *q = &g->node[x->in[0]].shape->d, *k = &g->node[x->in[1]].shape->d;
  int64_t group = q->dim[1] / k->dim[1], keys = k->dim[2], rows = q->dim[2] == 1 ? group : q->dim[2],
          heads = q->dim[0] * q->dim[1];
  if (q->dim[2] == 1) heads /= group;
  int64_t parts = 1, least = TC_MAX_OF(LEAST_KEYS, KEYS_OF_ROW * rows);
  while (rows <= ROWS && heads * parts < ENOUGH && parts < MOST_PARTS && keys / (2 * parts) >= least) parts *= 2;
  return parts == 1 ? 1 : tc_ceil_div(keys, tc_gpu_part_keys(keys, parts));
}

static bool is_whole(const tc_gnode *x, tc_op op) {
  return x->op == op && x->n_attr < TC_ATTENTION_ATTRS && x->shape->count > 0;
}

// Whether node n is the log-sum-exp of what x weighs by.
static bool weighs_alike(const tc_gnode *x, const tc_gnode *n) {
  if (!is_whole(n, TC_OP_ATTENTION_LSE) || n->n_in != x->n_in - 1 ||
      memcmp(n->attr, x->attr, 3 * sizeof x->attr[0]) != 0)
    return false;
  return memcmp(n->in, x->in, 2 * sizeof x->in[0]) == 0 &&
         memcmp(n->in + 2, x->in + 3, (size_t)(n->n_in - 2) * sizeof x->in[0]) == 0;
}

static uint32_t part_sums(split *s, uint32_t n, int64_t parts) {
  const tc_dims *q = dims(s, s->g->node[n].in[0]);
  tc_dims d = TC_SHAPE(parts, q->dim[0], q->dim[1], q->dim[2], 2);
  return part_row(s, TC_OP_ATTENTION_LSE, n, &d, parts);
}

static bool split_attention(tc_graph *g, uint32_t n, uint32_t end, int64_t parts) {
  split s = {.g = g, .like = g->node[n], .ok = true};
  const tc_gnode whole = g->node[n];
  uint32_t sums = part_sums(&s, n, parts);
  for (uint32_t m = 0; m < end && s.ok; m++)
    if (weighs_alike(&whole, &g->node[m])) become_sums(&s, m, sums);
  become_out(&s, n, sums, parts);
  return s.ok;
}

tc_status tc_pass_split_kv(tc_graph *g) {
  uint32_t end = g->n;
  for (uint32_t n = 0; n < end; n++) {
    int64_t parts = is_whole(&g->node[n], TC_OP_ATTENTION) ? n_parts_of(g, &g->node[n]) : 1;
    if (parts > 1 && !split_attention(g, n, end, parts)) return tc_graph_no_memory(g);
  }
  for (uint32_t n = 0; n < end; n++) {  // log-sum-exps of no attention split above
    int64_t parts = is_whole(&g->node[n], TC_OP_ATTENTION_LSE) ? n_parts_of(g, &g->node[n]) : 1;
    split s = {.g = g, .like = g->node[n], .ok = true};
    if (parts > 1) become_sums(&s, n, part_sums(&s, n, parts));
    if (!s.ok) return tc_graph_no_memory(g);
  }
  return TC_OK;
}
