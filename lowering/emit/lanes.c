// Chooses how many lanes a kernel has, and emits lane numbers and masks.
#include "lowering/emit/shorthand.h"
#include "lowering/target/cpu_target.h"

#define FEW 4  // nodes; fewer cheap ones need few registers

tc_val tc_emit_numbers(tc_emit_ctx *s, tc_type type, int lanes) {
  return tc_build_raw(&s->e, TC_IR_LANES, type, lanes, TC_NONE, TC_NONE, TC_NONE, 0);
}

tc_val tc_emit_lane_numbers(tc_emit_ctx *s) {
  return tc_emit_numbers(s, TC_I64, s->lanes);
}

tc_val tc_emit_run_numbers(tc_emit_ctx *s) {
  return bin(s, TC_IR_AND, tc_emit_lane_numbers(s), i64(s, s->threads.run - 1));
}

tc_val tc_emit_both(tc_emit_ctx *s, tc_val a, tc_val b) {
  return a == TC_NONE ? b : b == TC_NONE ? a : bin(s, TC_IR_AND, a, b);
}

void tc_emit_set_mask(tc_emit_ctx *s, tc_val start, tc_val end) {
  tc_val left = least(s, sub(s, end, start), i64(s, s->lanes));
  tc_val lanes = tc_emit_numbers(s, TC_I32, s->lanes);  // narrow type: fewer compares
  s->mask = bin(s, TC_IR_LT, lanes, cast(s, left, TC_I32));
}

int tc_emit_power_for(int64_t n, int most) {
  int lanes = 1;
  while (lanes < most && lanes < n) lanes *= 2;
  return lanes;
}

void tc_emit_set_threads(tc_emit_ctx *s, int lanes) {
  if (tc_target_is_gpu(s->target)) tc_target_threads(s->target, lanes, &s->x->kir.threads, &s->x->kir.groups);
}

// Fusions of few cheap ops take a whole block of lanes. A chain of ops, or one expensive function,
// keeps a dozen values and constants live at once. Its block is a quarter as many vectors as there
// are registers; for several expensive functions, an eighth. Longer blocks spill, shorter ones
// expose latency. With 32 registers of 16 lanes a quarter is a whole block.
// Measured: Zen 3, against 64 lanes: 10 cheap ops by 32 lanes 1.2 to 2.0 times as fast,
// sin(a) + cos(b) by 16 lanes 1.15. More: docs/measurements.md.
int tc_emit_lanes_of_work(const tc_emit_ctx *s) {
  const tc_isa *isa = tc_compiler_isa();
  int n_expensive = 0, vector = isa->vector_bytes / (int)sizeof(float);
  for (uint32_t i = 0; i < s->gp->n_member; i++) {
    const tc_gnode *x = &s->g->node[s->gp->member[i]];
    n_expensive += tc_build_cost(x->op, tc_emit_compute_type(x->type)) >= EXPENSIVE_COST;
  }
  return n_expensive == 0 && s->gp->n_member < FEW ? LANES : isa->registers / (n_expensive <= 1 ? 4 : 8) * vector;
}

void tc_emit_begin_rows(tc_emit_ctx *s, int64_t inner, int64_t blocks, int64_t k0) {
  tc_val o = tc_emit_begin_units(s), upper = blocks == 1 ? o : div_by(s, o, blocks);
  if (inner) {
    tc_val block = blocks == 1 ? i64(s, 0) : rem_by(s, o, blocks);
    s->at[TC_RANGE_K] = mul(s, block, i64(s, s->lanes));
    if (inner % s->lanes) tc_emit_set_mask(s, s->at[TC_RANGE_K], i64(s, inner));
  } else {
    s->at[TC_RANGE_K] = i64(s, 0);
  }
  s->at[TC_RANGE_K0] = k0 == 1 ? i64(s, 0) : rem_by(s, upper, k0);
  s->at[TC_RANGE_A] = k0 == 1 ? upper : div_by(s, upper, k0);
  s->bound[TC_RANGE_A] = s->bound[TC_RANGE_K] = s->bound[TC_RANGE_K0] = true;
}
