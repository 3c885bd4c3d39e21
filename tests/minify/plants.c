// Planted bugs of lowering, for tests of tc-run --minify and --bisect. A program or library that
// is linked with --wrap calls these functions in the place of lowering's own; which bug is planted
// says PLANT in the environment. The library itself has none of them.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lowering/emit/emitter.h"
#include "lowering/fusion/fusion.h"
#include "lowering/graph/graph.h"
#include "lowering/kir/scalar_ops.h"

static bool is_planted(const char *name) {
  const char *plant = getenv("PLANT");
  return plant && strcmp(plant, name) == 0;
}

static bool has_op(const tc_graph *g, tc_op op) {
  for (uint32_t n = 0; n < g->n; n++)
    if (g->node[n].op == op) return true;
  return false;
}

static void replace_op(tc_graph *g, tc_op from, tc_op to) {
  for (uint32_t n = 0; n < g->n; n++)
    if (g->node[n].op == from) g->node[n].op = to;
}

// ---- passes ----

#define WRAP(pass) \
  tc_status __real_tc_pass_##pass(tc_graph *g); \
  tc_status __wrap_tc_pass_##pass(tc_graph *g); \
  tc_status __wrap_tc_pass_##pass(tc_graph *g)

WRAP(fold_transpose) {
  tc_status st = __real_tc_pass_fold_transpose(g);
  if (is_planted("maximum")) replace_op(g, TC_OP_MAXIMUM, TC_OP_MINIMUM);
  return st;
}

// A pass without which nothing is lowered.
WRAP(expand_softmax) {
  tc_status st = __real_tc_pass_expand_softmax(g);
  if (is_planted("softmax")) replace_op(g, TC_OP_RECIPROCAL, TC_OP_SQRT);
  return st;
}

WRAP(mark_prologue) {
  if (is_planted("crash") && has_op(g, TC_OP_TANH)) abort();
  return __real_tc_pass_mark_prologue(g);
}

WRAP(store_at_producer) {
  while (is_planted("hang") && has_op(g, TC_OP_TANH)) (void)usleep(1000);
  return __real_tc_pass_store_at_producer(g);
}

WRAP(sink_permute) {
  if (is_planted("error") && has_op(g, TC_OP_TANH)) return TC_FAIL(TC_ERR_COMPILE, "no code for tanh");
  return __real_tc_pass_sink_permute(g);
}

// Operands go round in a circle.
WRAP(commute_matmul) {
  tc_status st = __real_tc_pass_commute_matmul(g);
  for (uint32_t n = 0; n < g->n && is_planted("circle"); n++)
    if (g->node[n].op == TC_OP_TANH) g->node[n].in[0] = n;
  return st;
}

// ---- emitters ----

static bool fused;  // a kernel of several nodes is emitted; plans of a process are made one after the other

tc_status __real_tc_emit_fusion(tc_emit_result *out, const tc_fusion_plan *gr, const tc_fusion *fusion,
                                const tc_gemm_tiling *tiling, tc_arena *arena);
tc_status __wrap_tc_emit_fusion(tc_emit_result *out, const tc_fusion_plan *gr, const tc_fusion *fusion,
                                const tc_gemm_tiling *tiling, tc_arena *arena);
tc_status __wrap_tc_emit_fusion(tc_emit_result *out, const tc_fusion_plan *gr, const tc_fusion *fusion,
                                const tc_gemm_tiling *tiling, tc_arena *arena) {
  fused = fusion->n_member > 1;
  return __real_tc_emit_fusion(out, gr, fusion, tiling, arena);
}

tc_val __real_tc_build_scalar_op(tc_kir_builder *e, uint32_t op, tc_type type, tc_val a, tc_val b, tc_val c);
tc_val __wrap_tc_build_scalar_op(tc_kir_builder *e, uint32_t op, tc_type type, tc_val a, tc_val b, tc_val c);
tc_val __wrap_tc_build_scalar_op(tc_kir_builder *e, uint32_t op, tc_type type, tc_val a, tc_val b, tc_val c) {
  if (op == TC_OP_TANH && is_planted("tanh")) op = TC_OP_SIN;
  if (op == TC_OP_TANH && is_planted("fused") && fused) op = TC_OP_SIN;
  if (op == TC_OP_TANH && is_planted("nan")) op = TC_OP_ACOSH;
  return __real_tc_build_scalar_op(e, op, type, a, b, c);
}
