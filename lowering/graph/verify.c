// What holds of a graph between passes. See graph.h.
#include "lowering/graph/graph.h"
#include "lowering/graph/permute.h"

static const tc_gnode *operand(const tc_graph *g, const tc_gnode *x, int k) {
  return &g->node[x->in[k]];
}

static bool has_arity(const tc_gnode *x) {
  int arity = tc_op_arity[x->op];
  if (x->op == TC_OP_ASSIGN) return x->n_in == 1;  // the other is `old`
  return arity > 2 ? x->n_in >= 1 && (arity == 9 || x->n_in == arity) : x->n_in == arity;
}

// Whether `from` is read as `to` by repeating extents of one.
static bool broadcasts(const tc_dims *from, const tc_dims *to) {
  int more = to->rank - from->rank;
  for (int i = 0; i < from->rank && more >= 0; i++)
    if (from->dim[i] != to->dim[i + more] && from->dim[i] != 1) return false;
  return more >= 0;
}

static bool is_permuted(const tc_gnode *x, const tc_dims *from) {
  const tc_dims *to = &x->shape->d;
  unsigned seen = 0;
  for (int i = 0; i < to->rank; i++) {
    int axis = tc_permute_axis(x->attr[0], i);
    if (axis >= from->rank || from->dim[axis] != to->dim[i]) return false;
    seen |= 1u << axis;
  }
  return from->rank == to->rank && seen == (1u << to->rank) - 1;
}

static bool is_joined(const tc_graph *g, const tc_gnode *x) {
  int64_t sum = 0;
  for (int k = 0; k < x->n_in; k++) {
    const tc_dims *d = &operand(g, x, k)->shape->d;
    if (d->rank != x->shape->d.rank) return false;
    sum += d->dim[x->attr[0]];
  }
  return sum == x->shape->d.dim[x->attr[0]];
}

static bool is_padded(const tc_gnode *x, const tc_dims *from) {
  bool fits = from->rank == x->shape->d.rank;
  for (int i = 0; i < from->rank && fits; i++)
    fits = x->shape->d.dim[i] == from->dim[i] + (int64_t)x->attr[i] + (int64_t)x->attr[from->rank + i];
  return fits;
}

static bool has_moved_shape(const tc_graph *g, const tc_gnode *x) {
  const tc_dims *from = &operand(g, x, 0)->shape->d, *to = &x->shape->d;
  switch (x->op) {
    case TC_OP_PERMUTE: return is_permuted(x, from);
    case TC_OP_EXPAND: return broadcasts(from, to);
    case TC_OP_SLICE:
      return from->rank == to->rank && x->n_attr >= to->rank &&
             (x->n_arg || x->n_attr == 2 * to->rank || to->rank == 0);
    case TC_OP_PAD: return is_padded(x, from);
    case TC_OP_CAT: return is_joined(g, x);
    case TC_OP_WINDOW: return to->rank == from->rank + 1;
    case TC_OP_FLIP:
    case TC_OP_ROLL:
    case TC_OP_WRITE_SLICE: return tc_dims_equal(from, to);
    default: return tc_dims_count(from) == x->shape->count;  // the same elements in the same order
  }
}

static bool has_folded_shape(const tc_graph *g, const tc_gnode *x) {
  const tc_dims *from = &operand(g, x, 0)->shape->d;
  int64_t count = 1;
  for (int i = 0; i < from->rank; i++)
    if (!(x->attr[0] >> i & 1)) count *= from->dim[i];
  return count == x->shape->count;
}

static bool has_matmul_shape(const tc_graph *g, const tc_gnode *x) {
  const tc_dims *a = &operand(g, x, 0)->shape->d, *b = &operand(g, x, 1)->shape->d, *d = &x->shape->d;
  int r = d->rank;
  return r >= 2 && a->rank == r && b->rank == r && a->dim[r - 2] == d->dim[r - 2] && b->dim[r - 1] == d->dim[r - 1] &&
         a->dim[r - 1] == b->dim[r - 2];
}

static bool has_shape(const tc_graph *g, const tc_gnode *x) {
  bool fits = true;
  if (x->n_in == 0) return true;
  switch (tc_op_kind_of(x->op)) {
    case TC_KIND_ELEM:
      for (int k = 0; k < x->n_in; k++) fits = fits && broadcasts(&operand(g, x, k)->shape->d, &x->shape->d);
      return fits;
    case TC_KIND_MOVE:
    case TC_KIND_EFFECT: return has_moved_shape(g, x);
    case TC_KIND_FOLD: return has_folded_shape(g, x);
    case TC_KIND_COMPOSED: return operand(g, x, 0)->shape == x->shape;
    default: return x->op != TC_OP_MATMUL || has_matmul_shape(g, x);
  }
}

static bool has_type(const tc_graph *g, const tc_gnode *x) {
  bool fits = true;
  switch (tc_op_rule(x->op)) {
    case TC_RULE_same:
    case TC_RULE_floating:
    case TC_RULE_integral:
    case TC_RULE_integer:
    case TC_RULE_arithmetic:
    case TC_RULE_number:
    case TC_RULE_real:
    case TC_RULE_logical:
    case TC_RULE_promote:
      for (int k = 0; k < x->n_in && (k == 0 || x->op != TC_OP_UNWINDOW); k++)
        fits = fits && operand(g, x, k)->type == x->type;
      return fits || tc_op_kind_of(x->op) == TC_KIND_CONTRACT;  // whose sums may be of a wider type
    case TC_RULE_compare: return x->type == TC_BOOL && operand(g, x, 0)->type == operand(g, x, 1)->type;
    case TC_RULE_select: return operand(g, x, 1)->type == x->type && operand(g, x, 2)->type == x->type;
    case TC_RULE_first: return operand(g, x, 0)->type == x->type;
    case TC_RULE_boolean: return x->type == TC_BOOL;
    case TC_RULE_index: return x->type == TC_I64;
    default: return true;
  }
}

static tc_status verify_node(const tc_graph *g, uint32_t n, const char *after) {
  const tc_gnode *x = &g->node[n];
  const char *what = NULL;
  if (x->leaf != TC_LEAF_NONE)
    what = x->out != TC_LEAF_NONE ? "a leaf is an output" : NULL;
  else if (!tc_graph_is_zeros(x) && !has_arity(x))
    what = "the operands are not as many as the op has";
  else if (!has_shape(g, x))
    what = "the shape does not follow from the operands'";
  else if (!tc_graph_is_zeros(x) && !has_type(g, x))
    what = "the type does not follow from the operands'";
  return what ? TC_FAIL(TC_ERR_STATE, "after pass %s: %%%u = %s: %s", after, n, tc_op_names[x->op], what) : TC_OK;
}

static tc_status verify_operands(const tc_graph *g, const char *after) {
  for (uint32_t n = 0; n < g->n; n++)
    for (int k = 0; k < g->node[n].n_in; k++)
      if (g->node[n].in[k] >= g->n)
        return TC_FAIL(TC_ERR_STATE, "after pass %s: %%%u: an operand is no node", after, n);
  return TC_OK;
}

// Every output of the plan is one node's.
static tc_status verify_outputs(const tc_graph *g, const char *after, uint8_t *seen) {
  for (uint32_t n = 0; n < g->n; n++) {
    uint32_t out = g->node[n].out;
    if (out == TC_LEAF_NONE) continue;
    if (out >= g->plan->n_out || seen[out]++)
      return TC_FAIL(TC_ERR_STATE, "after pass %s: %%%u: output %u is stored twice, or is none", after, n, out);
  }
  for (uint32_t o = 0; o < g->plan->n_out; o++)
    if (!seen[o]) return TC_FAIL(TC_ERR_STATE, "after pass %s: nothing stores output %u", after, o);
  return TC_OK;
}

// The order has what outputs need, operands first, and readers are counted.
static tc_status verify_schedule(const tc_graph *g, const char *after, uint32_t n_needed, uint32_t *readers) {
  if (g->n_order != n_needed)
    return TC_FAIL(TC_ERR_STATE, "after pass %s: %u nodes are scheduled of %u", after, g->n_order, n_needed);
  uint8_t *done = (uint8_t *)(readers + g->n);
  for (uint32_t i = 0; i < g->n_order; i++) {
    const tc_gnode *x = &g->node[g->order[i]];
    for (int k = 0; k < x->n_in; k++) {
      if (!done[x->in[k]])
        return TC_FAIL(TC_ERR_STATE, "after pass %s: %%%u comes before its operand %%%u", after, g->order[i], x->in[k]);
      readers[x->in[k]]++;
    }
    done[g->order[i]] = 1;
  }
  for (uint32_t n = 0; n < g->n; n++)
    if (g->node[n].n_readers != readers[n])
      return TC_FAIL(TC_ERR_STATE, "after pass %s: %%%u has %u readers", after, n, readers[n]);
  return TC_OK;
}

tc_status tc_graph_verify(const tc_graph *g, const char *after) {
  TC_TRY(verify_operands(g, after));
  tc_arena scratch = {0};
  uint32_t n_needed = 0, *needed = tc_graph_order(g, &scratch, &n_needed);
  uint8_t *seen = tc_arena_alloc(&scratch, g->plan->n_out + 1);
  uint32_t *readers = tc_arena_alloc(&scratch, (g->n + 1) * (sizeof *readers + 1));
  tc_status st = TC_OK;
  if (n_needed == UINT32_MAX)
    st = TC_FAIL(TC_ERR_STATE, "after pass %s: nodes are operands of each other in a circle", after);
  for (uint32_t i = 0; needed && i < n_needed && st == TC_OK; i++) st = verify_node(g, needed[i], after);
  if (st == TC_OK && seen) st = verify_outputs(g, after, seen);
  if (st == TC_OK && g->order && needed && readers) st = verify_schedule(g, after, n_needed, readers);
  tc_arena_fini(&scratch);
  return st;  // without memory nothing is verified
}
