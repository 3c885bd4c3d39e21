// Finds in a fusion the matmul that a library could compute. See library_gemm.h.
#include "lowering/autotune/library_gemm.h"

#include <string.h>

#include "lowering/fusion/access.h"

// alignment in bytes that the library's fastest algorithms need; tensors begin at multiples of 64
#define ALIGNED 16

static bool stored(const tc_fusion_plan *gr, uint32_t n) {
  return gr->stored[tc_fusion_root(gr, n)];
}

// Follows element idx of node n through views to memory. False: something is computed on the way.
static bool follow(const tc_fusion_plan *gr, const tc_extents *e, uint32_t n, const tc_index *idx, uint32_t *out_node,
                   tc_index *out) {
  tc_index here[TC_MAX_RANK], next[TC_MAX_RANK];
  memcpy(here, idx, sizeof here);
  while (!stored(gr, n)) {
    const tc_gnode *x = &gr->graph->node[n];
    tc_op_kind kind = tc_op_kind_of(x->op);
    if ((kind != TC_KIND_MOVE && kind != TC_KIND_EFFECT) || x->op == TC_OP_PAD || x->op == TC_OP_CAT ||
        x->op == TC_OP_WRITE_SLICE)
      return false;
    if (!tc_view_operand(gr->graph, n, 0, here, e, next)) return false;
    n = x->in[0];
    memcpy(here, next, sizeof here);
  }
  *out_node = n;
  if (!tc_ix_flatten(here, &gr->graph->node[n].shape->d, e, out)) return false;
  tc_ix_simplify(out, e);
  return true;
}

// Finds matmul operand k as a strided matrix. False: it has no such strides. An axis of one element
// has stride 0, which nobody reads.
static bool find_operand(const tc_fusion_plan *gr, const tc_fusion *gp, const tc_extents *e, uint32_t matmul, int k,
                         tc_library_gemm_operand *out, tc_gpu_operand *o) {
  const tc_gnode *x = &gr->graph->node[matmul];
  uint8_t rows = k ? TC_RANGE_K0 : TC_RANGE_F, columns = k ? TC_RANGE_K : TC_RANGE_K0;
  int64_t down, across, n_rows = e->of[rows], n_columns = e->of[columns];
  tc_index idx[TC_MAX_RANK], flat;
  if (!tc_view_position(gp, e, TC_LEVEL_FULL, &x->shape->d, idx)) return false;
  idx[x->shape->d.rank - 2] = tc_ix_range(rows), idx[x->shape->d.rank - 1] = tc_ix_range(columns);
  if (!follow(gr, e, x->in[k], idx, &out->node, &flat) || gr->graph->node[out->node].type != x->type) return false;
  if (!tc_ix_take_stride(&flat, rows, &down) || !tc_ix_take_stride(&flat, columns, &across) ||
      !tc_ix_take_stride(&flat, TC_RANGE_A, &o->batch))
    return false;
  if (n_rows == 1) down = n_columns * TC_MAX_OF(across, 1);
  if (n_columns == 1) across = 1;
  o->transposed = across != 1 && (down == 1 || n_rows == 1);
  o->row = o->transposed ? across : down;
  out->first = flat.base;
  return flat.n == 0 && flat.base >= 0 && o->batch >= 0 && (o->transposed ? down == 1 || n_rows == 1 : across == 1) &&
         o->row >= (o->transposed ? n_rows : n_columns);
}

// Whether node n, one of two members, adds a bias row to the matmul.
static bool find_bias(const tc_fusion_plan *gr, const tc_fusion *gp, const tc_extents *e, uint32_t matmul, uint32_t n,
                      tc_library_gemm_operand *out) {
  const tc_gnode *x = &gr->graph->node[n];
  tc_index idx[TC_MAX_RANK], next[TC_MAX_RANK], flat;
  int64_t across;
  if (x->op != TC_OP_ADD || x->type != TC_F32 || gr->graph->node[matmul].type != TC_F32 || stored(gr, matmul))
    return false;
  int k = x->in[0] == matmul;
  if (x->in[1 - k] != matmul || x->in[k] == matmul || gr->graph->node[x->in[k]].type != TC_F32) return false;
  if (x->shape->count != gr->graph->node[matmul].shape->count) return false;
  if (!tc_view_position(gp, e, TC_LEVEL_FULL, &x->shape->d, idx) || !tc_view_operand(gr->graph, n, k, idx, e, next))
    return false;
  if (!follow(gr, e, x->in[k], next, &out->node, &flat) || !tc_ix_take_stride(&flat, TC_RANGE_K, &across)) return false;
  out->first = flat.base;
  return flat.n == 0 && flat.base >= 0 && (across == 1 || e->of[TC_RANGE_K] == 1);
}

// Whether the node's address may differ in each run. Blocks of the run's arena have stable
// addresses.
static bool may_move(const tc_fusion_plan *gr, uint32_t n) {
  const tc_gnode *x = &gr->graph->node[tc_fusion_root(gr, n)];
  return x->out != TC_LEAF_NONE || (x->leaf != TC_LEAF_NONE && !x->stable_address);
}

static uint32_t alignment_of(const tc_library_gemm *v) {
  int64_t bytes = (int64_t)tc_type_bytes(v->work.matmul.type);
  int64_t first = (v->left.first | v->right.first | (v->after == TC_AFTER_BIAS ? v->bias.first : 0)) * bytes;
  return first % ALIGNED == 0 ? ALIGNED : (uint32_t)(first & -first);
}

bool tc_library_gemm_find(const tc_fusion_plan *gr, const tc_fusion *gp, tc_library_gemm *out) {
  const tc_graph *g = gr->graph;
  *out = (tc_library_gemm){.work.library = TC_GPU_MATMULS, .node = TC_NONE};
  for (uint32_t i = 0; i < gp->n_member; i++) {
    if (g->node[gp->member[i]].op != TC_OP_MATMUL) continue;
    if (out->node != TC_NONE) return false;
    out->node = gp->member[i];
  }
  if (out->node == TC_NONE) return false;
  const tc_gnode *x = &g->node[out->node];
  tc_gpu_matmul_facts *f = &out->work.matmul;
  tc_extents e = tc_view_extents(gp->a, gp->f, gp->k);
  *f = (tc_gpu_matmul_facts){.type = x->type,
                             .batch = gp->a,
                             .m = gp->f,
                             .n = gp->k,
                             .k = g->node[x->in[0]].shape->d.dim[x->shape->d.rank - 1]};
  e.of[TC_RANGE_K0] = f->k;
  if ((x->type != TC_F32 && x->type != TC_F16 && x->type != TC_BF16) || x->shape->count == 0 || f->k == 0 ||
      f->batch > INT32_MAX)
    return false;
  if (!find_operand(gr, gp, &e, out->node, 0, &out->left, &f->left) ||
      !find_operand(gr, gp, &e, out->node, 1, &out->right, &f->right))
    return false;
  out->result = out->node;
  out->after = gp->n_member == 1 ? TC_AFTER_NOTHING : TC_AFTER_MORE;
  uint32_t other = gp->member[gp->member[0] == out->node];
  if (gp->n_member == 2 && find_bias(gr, gp, &e, out->node, other, &out->bias))
    out->after = TC_AFTER_BIAS, out->result = other, f->epilogue = TC_GPU_BIAS;
  f->alignment = alignment_of(out);
  out->moves[0] = may_move(gr, out->left.node), out->moves[1] = may_move(gr, out->right.node),
  out->moves[2] = may_move(gr, out->result);
  out->moves[3] = out->after == TC_AFTER_BIAS && may_move(gr, out->bias.node);
  return true;
}
