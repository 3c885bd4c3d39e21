// Which outputs are written over the leaves that they are assigned to. See homes.h.
#include "lowering/homes.h"

#include "lowering/group.h"
#include "runtime/options.h"

// Whether a row cannot fail half way, its indices having been checked, and writes no more than a part if the rest is there already: f16 and bf16 are added
// up in memory that must be had.
static bool writes_part(const tc_gnode *x) {
  bool adds = x->op == TC_OP_SCATTER_ADD || x->op == TC_OP_INDEX_ADD, narrow = x->type == TC_F16 || x->type == TC_BF16;
  return tc_graph_part_of(x->op) >= 0 && !(adds && narrow);
}

// Of a step, what it writes first.
static const tc_gnode *node_of(const tc_program *p, const tc_step *s) {
  return &p->graph.node[s->node];
}

// The leaf that output o is assigned to, if it dies here and nothing later needs it; else TC_LEAF_NONE.
static uint32_t assigned_leaf(const tc_plan *plan, uint32_t o, bool hazard) {
  const tc_rec *r = tc_plan_rec(plan, plan->out[o].node);
  if (tc_rec_op(r) != TC_OP_ASSIGN) return TC_LEAF_NONE;
  uint32_t leaf = plan->leaf_of[r->in[1]];
  bool dies = leaf != TC_LEAF_NONE && (plan->flag[r->in[1]] & TC_NODE_SOLE) && (!plan->hold_leaf[leaf] || hazard);
  return dies ? leaf : TC_LEAF_NONE;
}

static tc_step *writer_of(const tc_program *p, uint32_t place) {
  for (uint32_t i = 0; i < p->n_step; i++)
    for (uint32_t j = 0; j < p->step[i].n_bind; j++)
      if (p->bind[p->step[i].first_bind + j] == place && tc_step_writes(&p->step[i], j)) return &p->step[i];
  return NULL;
}

static bool reads(const tc_program *p, const tc_step *s, uint32_t place) {
  for (uint32_t j = 0; j < s->n_bind; j++)
    if (p->bind[s->first_bind + j] == place && !tc_step_writes(s, j)) return true;
  return false;
}

// Whether no step reads what this one writes.
static bool is_last(const tc_program *p, const tc_step *writer) {
  for (uint32_t j = 0; j < writer->n_bind; j++) {
    if (!tc_step_writes(writer, j)) continue;
    for (uint32_t i = 0; i < p->n_step; i++)
      if (&p->step[i] != writer && reads(p, &p->step[i], p->bind[writer->first_bind + j])) return false;
  }
  return true;
}

void tc_homes_delay_writers(const tc_program *p, const tc_plan *plan) {
  for (uint32_t o = 0; o < plan->n_out; o++) {
    uint32_t leaf = plan->out[o].bytes >= TC_LARGE_BYTES ? assigned_leaf(plan, o, false) : TC_LEAF_NONE, wave = 0;
    tc_step *writer = leaf != TC_LEAF_NONE ? writer_of(p, plan->n_leaf + o) : NULL;
    if (!writer || !is_last(p, writer)) continue;
    for (uint32_t i = 0; i < p->n_step; i++)
      if (&p->step[i] != writer && reads(p, &p->step[i], leaf)) wave = TC_MAX_OF(wave, p->step[i].wave + 1);
    writer->wave = TC_MAX_OF(writer->wave, wave);
  }
}

// Whether nothing needs the leaf once the writer has begun. A run that fails leaves old values: nothing is written in place before the last check.
static bool may_write_over(const tc_program *p, const tc_step *writer, uint32_t leaf, bool hazard) {
  for (uint32_t i = 0; i < p->n_step; i++) {
    const tc_step *s = &p->step[i];
    if (s->kind == TC_STEP_CHECK && s->wave >= writer->wave) return false;
    for (uint32_t j = 0; j < s->n_bind && !hazard; j++) {
      if (p->bind[s->first_bind + j] != leaf) continue;
      if (s == writer ? !(s->same >> j & 1) : s->wave >= writer->wave) return false;
    }
  }
  return true;
}

void tc_homes_choose(tc_program *p, tc_plan *plan) {
  bool hazard = tc_planted("hazard");
  for (uint32_t o = 0; o < plan->n_out; o++) {
    uint32_t leaf = assigned_leaf(plan, o, hazard);
    tc_step *writer = leaf != TC_LEAF_NONE ? writer_of(p, plan->n_leaf + o) : NULL;
    // A library does not look whether a run has failed.
    if (!writer || writer->kind == TC_STEP_CALL || (writer->kind == TC_STEP_ROW && !writes_part(node_of(p, writer)))) continue;
    bool safe = may_write_over(p, writer, leaf, hazard);
    for (uint32_t k = 0; k < o && safe; k++) safe = plan->out[k].home != leaf;
    if (!safe) continue;
    plan->out[o].home = leaf;
    if (writer->kind != TC_STEP_ROW) continue;
    const tc_gnode *x = node_of(p, writer);
    writer->work = 6.0 * (double)p->graph.node[x->in[tc_graph_part_of(x->op)]].shape->count + 100;
    if (x->op == TC_OP_WRITE_SLICE) writer->extent = 1;
  }
}
