// The identities, op by op. See graph.h.

#include <string.h>

#include "lowering/graph/permute.h"
#include "runtime/passes.h"

static const tc_gnode *operand(const tc_graph *g, const tc_gnode *x, int k) {
  return &g->node[x->in[k]];
}

// Whether a value of type b can be each value of type a.
static bool type_holds(tc_type b, tc_type a) {
  if (a == b || a == TC_BOOL) return true;
  if (b == TC_BOOL) return false;
  if (tc_type_is_float(a)) return b == TC_F64 || (b == TC_F32 && a != TC_F64);
  size_t bits = 8 * tc_type_bytes(a) - (a != TC_U8);
  switch (b) {
    case TC_F64: return bits <= 53;
    case TC_F32: return bits <= 24;
    case TC_F16: return bits <= 11;
    case TC_BF16: return bits <= 8;
    case TC_U8: return false;
    default: return 8 * tc_type_bytes(b) - 1 >= bits;
  }
}

// A cast of a cast is one cast where the type between holds every value. Floats to integers stay:
// out of range the first type could matter.
static uint32_t simplify_cast(const tc_graph *g, uint32_t n) {
  tc_gnode *x = &g->node[n];
  const tc_gnode *y = operand(g, x, 0);
  if (x->type == y->type) return x->in[0];
  if (y->op != TC_OP_CAST) return n;
  tc_type from = operand(g, y, 0)->type;
  if (!type_holds(y->type, from) || (tc_type_is_float(from) && !tc_type_is_float(x->type))) return n;
  x->in[0] = y->in[0];
  return x->type == from ? x->in[0] : n;
}

// f(f(a)) = a
static uint32_t drop_involution(const tc_graph *g, uint32_t n) {
  const tc_gnode *x = &g->node[n], *y = operand(g, x, 0);
  bool undone =
      y->op == x->op && (x->n_attr == 0 || memcmp(x->attr, y->attr, (size_t)x->n_attr * sizeof x->attr[0]) == 0);
  return undone && x->type == operand(g, y, 0)->type ? y->in[0] : n;
}

static bool is_rounding(tc_op op) {
  return op == TC_OP_FLOOR || op == TC_OP_CEIL || op == TC_OP_ROUND || op == TC_OP_TRUNC;
}

// Takes NEG and ABS from an operand of an even function. In u8, which wraps, the size of -1 is 255.
static uint32_t strip_sign(const tc_graph *g, uint32_t n) {
  tc_gnode *x = &g->node[n];
  tc_op op = operand(g, x, 0)->op;
  if (x->op == TC_OP_ABS && op == TC_OP_NEG && x->type == TC_U8) return n;
  if (op == TC_OP_NEG || op == TC_OP_ABS) x->in[0] = operand(g, x, 0)->in[0];
  return n;
}

// a + -b = a - b; a - -b = a + b, in floats and wrapping integers.
static uint32_t simplify_sum(const tc_graph *g, uint32_t n) {
  tc_gnode *x = &g->node[n];
  if (x->type == TC_BOOL || operand(g, x, 1)->op != TC_OP_NEG) return n;
  x->in[1] = operand(g, x, 1)->in[0];
  x->op = x->op == TC_OP_ADD ? TC_OP_SUB : TC_OP_ADD;
  return n;
}

// -a * -b = a * b, and so for quotients of floats.
static uint32_t simplify_product(const tc_graph *g, uint32_t n) {
  tc_gnode *x = &g->node[n];
  if (operand(g, x, 0)->op != TC_OP_NEG || operand(g, x, 1)->op != TC_OP_NEG ||
      (x->op == TC_OP_DIV && !tc_type_is_float(x->type)))
    return n;
  x->in[0] = operand(g, x, 0)->in[0], x->in[1] = operand(g, x, 1)->in[0];
  return n;
}

// f(a, a) = a
static uint32_t drop_equal_operand(const tc_graph *g, uint32_t n, int k) {
  const tc_gnode *x = &g->node[n];
  return x->in[k] == x->in[k + 1] && x->shape == operand(g, x, k)->shape && x->type == operand(g, x, k)->type ? x->in[k]
                                                                                                              : n;
}

static uint32_t simplify_reshape(const tc_graph *g, uint32_t n) {
  tc_gnode *x = &g->node[n];
  for (; operand(g, x, 0)->op == TC_OP_RESHAPE; x->in[0] = operand(g, x, 0)->in[0]) tc_count(TC_PASS_GRAPH, 1);
  return x->shape == operand(g, x, 0)->shape ? x->in[0] : n;
}

static uint32_t simplify_permute(tc_graph *g, uint32_t n) {
  tc_gnode *x = &g->node[n];
  const tc_gnode *y = operand(g, x, 0);
  int rank = x->shape->d.rank;
  uint64_t order = x->attr[0];
  if (y->op == TC_OP_PERMUTE) {
    uint64_t *joined = tc_arena_alloc(g->arena, sizeof *joined);
    if (!joined) return n;
    for (int i = 0; i < rank; i++)
      *joined |= (uint64_t)tc_permute_axis(y->attr[0], tc_permute_axis(order, i)) << (8 * i);
    x->in[0] = y->in[0], x->attr = joined, order = *joined;
  }
  bool moves = false;
  for (int i = 0; i < rank; i++) moves |= tc_permute_axis(order, i) != i;
  return moves ? n : x->in[0];
}

uint32_t tc_simplify(tc_graph *g, uint32_t n) {
  const tc_gnode *x = &g->node[n];
  switch (x->op) {
    case TC_OP_CAST: return simplify_cast(g, n);
    case TC_OP_NEG:
    case TC_OP_BITWISE_NOT:
    case TC_OP_FLIP:
    case TC_OP_LOGICAL_NOT: return drop_involution(g, n);
    case TC_OP_FLOOR:
    case TC_OP_CEIL:
    case TC_OP_ROUND:
    case TC_OP_TRUNC: return is_rounding(operand(g, x, 0)->op) ? x->in[0] : n;
    case TC_OP_RELU: return operand(g, x, 0)->op == TC_OP_RELU ? x->in[0] : n;
    case TC_OP_ABS: return operand(g, x, 0)->op == TC_OP_ABS ? x->in[0] : strip_sign(g, n);
    case TC_OP_SQUARE: return strip_sign(g, n);
    case TC_OP_ADD:
    case TC_OP_SUB: return simplify_sum(g, n);
    case TC_OP_MUL:
    case TC_OP_DIV: return simplify_product(g, n);
    case TC_OP_MAXIMUM:
    case TC_OP_MINIMUM:
    case TC_OP_LOGICAL_AND:
    case TC_OP_LOGICAL_OR:
    case TC_OP_BITWISE_AND:
    case TC_OP_BITWISE_OR: return drop_equal_operand(g, n, 0);
    case TC_OP_WHERE: return drop_equal_operand(g, n, 1);
    case TC_OP_RESHAPE: return simplify_reshape(g, n);
    case TC_OP_PERMUTE: return simplify_permute(g, n);
    case TC_OP_WRITE_SLICE: return operand(g, x, 1)->shape->count == 0 ? x->in[0] : n;
    default: return n;
  }
}
