// Chooses outputs that are written over the leaves they are assigned to. See memory_plan.h.
#include "lowering/program/memory_plan.h"

#include "lowering/program/storage_users.h"
#include "lowering/fusion/fusion.h"
#include "runtime/arena.h"
#include "runtime/options.h"
#include "runtime/passes.h"

// Whether a row only updates a part of its output in place and cannot fail half way. Its indices
// were checked before. f16 and bf16 sums need temporary memory, so they can fail.
static bool is_slice_update_step(const tc_gnode *x) {
  bool adds = x->op == TC_OP_SCATTER_ADD || x->op == TC_OP_INDEX_ADD, narrow = x->type == TC_F16 || x->type == TC_BF16;
  return tc_graph_slice_update_of(x->op) >= 0 && !(adds && narrow);
}

// The leaf that output o is assigned to, if the leaf dies here and nothing later needs it; else
// TC_LEAF_NONE. hazard: a planted bug, see docs/testing.md.
static uint32_t assigned_leaf(const tc_plan *plan, uint32_t o, bool hazard) {
  const tc_rec *r = tc_plan_rec(plan, plan->out[o].node);
  if (tc_rec_op(r) != TC_OP_ASSIGN) return TC_LEAF_NONE;
  uint32_t leaf = plan->leaf_of[r->in[1]];
  bool dies = leaf != TC_LEAF_NONE && (plan->flag[r->in[1]] & TC_NODE_SOLE) && (!plan->hold_leaf[leaf] || hazard);
  return dies ? leaf : TC_LEAF_NONE;
}

// The users of each storage, and the last check of indices.
typedef struct users {
  const tc_program *p;
  tc_storage_users all, writers;
  tc_arena arena;
  // one more than the stage of the last index check, or of control flow, which may fail; 0: none
  uint32_t last_check;
} users;

static bool users_init(users *u, const tc_program *p, const tc_plan *plan) {
  *u = (users){.p = p};
  for (uint32_t i = 0; i < p->n_step; i++)
    if (p->step[i].kind == TC_STEP_CHECK || p->step[i].kind == TC_STEP_CONTROL)
      u->last_check = TC_MAX_OF(u->last_check, p->step[i].stage + 1);
  return tc_storage_users_init(&u->all, p, plan, false, &u->arena) &&
         tc_storage_users_init(&u->writers, p, plan, true, &u->arena);
}

static tc_step *writer_of(const users *u, uint32_t storage) {
  uint32_t first = tc_storage_users_first(&u->writers, storage);
  return first < tc_storage_users_end(&u->writers, storage) ? &u->p->step[u->writers.step[first]] : NULL;
}

static bool reads_storage(const tc_program *p, const tc_step *s, uint32_t storage) {
  for (uint32_t j = 0; j < s->n_binding; j++)
    if (p->binding[s->first_binding + j] == storage && !tc_step_writes(s, j)) return true;
  return false;
}

// One more than the last stage in which a step other than the writer reads the storage; 0: none.
static uint32_t read_until(const users *u, uint32_t storage, const tc_step *writer) {
  uint32_t stage = 0;
  for (uint32_t i = tc_storage_users_first(&u->all, storage); i < tc_storage_users_end(&u->all, storage); i++) {
    const tc_step *s = &u->p->step[u->all.step[i]];
    tc_count(TC_PASS_IN_PLACE, 1);
    if (s != writer && reads_storage(u->p, s, storage)) stage = TC_MAX_OF(stage, s->stage + 1);
  }
  return stage;
}

// Whether no other step reads what this one writes.
static bool is_last(const users *u, const tc_step *writer) {
  for (uint32_t j = 0; j < writer->n_binding; j++)
    if (tc_step_writes(writer, j) && read_until(u, u->p->binding[writer->first_binding + j], writer)) return false;
  return true;
}

bool tc_in_place_delay_writers(const tc_program *p, const tc_plan *plan) {
  users u;
  bool ok = users_init(&u, p, plan);
  for (uint32_t o = 0; o < plan->n_out && ok; o++) {
    uint32_t leaf = plan->out[o].bytes >= TC_LARGE_BYTES ? assigned_leaf(plan, o, false) : TC_LEAF_NONE;
    tc_step *writer = leaf != TC_LEAF_NONE ? writer_of(&u, plan->n_leaf + o) : NULL;
    if (writer && is_last(&u, writer)) writer->stage = TC_MAX_OF(writer->stage, read_until(&u, leaf, writer));
  }
  tc_arena_fini(&u.arena);
  return ok;
}

// Whether nothing needs the leaf once the writer has begun. A failed run leaves old values, so
// nothing is written in place before the last index check.
static bool may_write_over(const users *u, const tc_step *writer, uint32_t leaf, bool hazard) {
  if (u->last_check > writer->stage) return false;
  for (uint32_t i = tc_storage_users_first(&u->all, leaf); i < tc_storage_users_end(&u->all, leaf) && !hazard; i++) {
    const tc_step *s = &u->p->step[u->all.step[i]];
    tc_count(TC_PASS_IN_PLACE, 1);
    if (s != writer && s->stage >= writer->stage) return false;
    for (uint32_t j = 0; j < s->n_binding && s == writer; j++)
      if (u->p->binding[s->first_binding + j] == leaf && !(s->same >> j & 1)) return false;
  }
  return true;
}

bool tc_in_place_choose(tc_program *p, tc_plan *plan) {
  users u;
  // a loaded back end may fail at any step
  if (plan->n_node > 0 && tc_device_kind_of((tc_device)plan->dev[0]) == TC_DEVICE_LOADED) return true;
  bool hazard = tc_planted("hazard"), ok = users_init(&u, p, plan), *taken = tc_arena_alloc(&u.arena, plan->n_leaf + 1);
  ok = ok && taken;
  for (uint32_t o = 0; o < plan->n_out && ok; o++) {
    uint32_t leaf = assigned_leaf(plan, o, hazard);
    tc_step *writer = leaf != TC_LEAF_NONE ? writer_of(&u, plan->n_leaf + o) : NULL;
    // these do not test whether a run has failed
    if (!writer || writer->kind == TC_STEP_CALL || writer->kind == TC_STEP_CONTROL) continue;
    const tc_gnode *x = &p->graph.node[writer->node];
    if (writer->kind == TC_STEP_ROW && !is_slice_update_step(x)) continue;
    if (taken[leaf] || !may_write_over(&u, writer, leaf, hazard)) continue;
    taken[leaf] = true;
    plan->out[o].donor = leaf;
    if (writer->kind != TC_STEP_ROW) continue;
    writer->work = 6.0 * (double)p->graph.node[x->in[tc_graph_slice_update_of(x->op)]].shape->count + 100;
    if (x->op == TC_OP_WRITE_SLICE) writer->extent = 1;
  }
  tc_arena_fini(&u.arena);
  return ok;
}
