// Gradients of attention. See lazy/ops/attention.c.
//
// Of each row the gradient takes two things: delta, the sum of dout * out, and LSE. That is the
// greatest score, and the log of the sum of exponentials of the scores less that.
#include "lazy/autograd/vjp.h"
#include "lazy/ops/attention.h"
#include "lazy/record/formula.h"
#include "lazy/trace/trace.h"

static tc_dims dims4(int64_t a, int64_t b, int64_t c, int64_t d) {
  return (tc_dims){4, {a, b, c, d}};
}

// The other way, for gradients: the sum over the query heads of each key head.
static tc_node gathered(tc_trace *t, tc_node g, int64_t heads) {
  if (g == TC_NODE_ERR) return g;
  tc_dims d = *tc_node_dims(t, g);
  if (d.dim[1] == heads) return g;
  return tc_rec_fold(t, TC_OP_SUM,
                     tc_rec_reshape(t, g, &(tc_dims){5, {d.dim[0], heads, d.dim[1] / heads, d.dim[2], d.dim[3]}}),
                     1u << 2, false);
}

enum { Q, K, V, SCALE };

static tc_attention operands_of(tc_vjp *v) {
  tc_attention a = {.causal = v->attr[0], .has_length = v->attr[1], .has_mask = v->attr[2]};
  int at = SCALE;
  a.q = tc_vjp_in(v, Q), a.k = tc_vjp_in(v, K), a.v = tc_vjp_in(v, V), a.scale = tc_vjp_in(v, at++);
  if (a.has_length) a.length = tc_vjp_in(v, at++);
  if (a.has_mask) a.mask = tc_vjp_in(v, at);
  return a;
}

static void composed_gradient(tc_vjp *v, const tc_attention *a) {
  tc_trace *t = v->t;
  int64_t heads = tc_node_dims(t, a->q)->dim[1], key_heads = tc_node_dims(t, a->k)->dim[1];
  tc_node p = tc_attention_weights(t, a), g = tc_attention_swapped(t, f_widen(t, v->g));
  tc_node k = tc_attention_repeated(t, f_widen(t, a->k), heads),
          values = tc_attention_repeated(t, f_widen(t, a->v), heads);
  tc_vjp_give(v, V, gathered(t, tc_rec_matmul(t, tc_attention_transposed(t, p), g), key_heads));
  tc_node dp = tc_rec_matmul(t, g, tc_attention_transposed(t, values));
  tc_node ds = f_mul(t, p, f_sub(t, dp, tc_rec_fold(t, TC_OP_SUM, f_mul(t, p, dp), 1u << 3, true)));
  if (a->has_mask) tc_vjp_give(v, v->n_in - 1, ds);
  ds = f_mul(t, ds, a->scale);
  tc_vjp_give(v, Q, tc_rec_matmul(t, ds, k));
  tc_vjp_give(v, K, gathered(t, tc_rec_matmul(t, tc_attention_transposed(t, ds), f_widen(t, a->q)), key_heads));
}

void tc_vjp_attention(tc_vjp *v) {
  tc_trace *t = v->t;
  tc_attention a = operands_of(v);
  if (t->op_status != TC_OK) return;
  if (v->create_graph || (a.has_mask && tc_vjp_requires_grad(v, v->n_in - 1))) {
    composed_gradient(v, &a);
    return;
  }
  tc_dims q = *tc_node_dims(t, a.q), k = *tc_node_dims(t, a.k), values = *tc_node_dims(t, a.v);
  tc_dims per_row = dims4(q.dim[0], q.dim[1], q.dim[2], 2), order = {3, {0, 2, 1}};
  tc_type type = tc_node_type(t, a.q), wide = type == TC_F64 ? TC_F64 : TC_F32;
  tc_node g = tc_attention_swapped(t, v->g);
  tc_node delta = tc_rec_fold(t, TC_OP_SUM, f_mul(t, f_widen(t, v->g), f_widen(t, tc_vjp_out(v))), 1u << 3, false);
  tc_node lse = tc_attention_row(t, &a, TC_OP_ATTENTION_LSE, wide, &per_row, 2, (tc_node[]){a.q, a.k});
  tc_node in[6] = {a.q, a.k, a.v, g, lse, tc_rec_permute(t, delta, &order)};
  tc_dims dq = dims4(q.dim[0], q.dim[2], q.dim[1], q.dim[3]);
  tc_dims dk = dims4(k.dim[0], k.dim[2], k.dim[1], k.dim[3]), dv = dims4(k.dim[0], k.dim[2], k.dim[1], values.dim[3]);
  if (tc_vjp_requires_grad(v, Q))
    tc_vjp_give(v, Q, tc_attention_swapped(t, tc_attention_row(t, &a, TC_OP_ATTENTION_DQ, type, &dq, 6, in)));
  if (tc_vjp_requires_grad(v, K))
    tc_vjp_give(v, K, tc_attention_swapped(t, tc_attention_row(t, &a, TC_OP_ATTENTION_DK, type, &dk, 6, in)));
  if (tc_vjp_requires_grad(v, V))
    tc_vjp_give(v, V, tc_attention_swapped(t, tc_attention_row(t, &a, TC_OP_ATTENTION_DV, type, &dv, 6, in)));
}
