// Building a plan: what a sync stores, keeps and drops. See plan_build.h.
#include "lazy/sync/plan_build.h"

#include <string.h>

#include "lazy/lowering.h"
#include "lazy/trace/body.h"
#include "lazy/sync/graph_backend.h"
#include "runtime/arena.h"
#include "runtime/options.h"
#include "runtime/passes.h"
#include "runtime/reentry.h"

#define SMALL_BYTES 65536  // of an expensive live value that is stored though nobody asked

// A value worth storing rather than recomputing: it reads much more than it writes, or is
// expensive.
static bool is_expensive(const tc_plan *p, uint32_t node) {
  switch (tc_op_kind_of(tc_rec_op(tc_plan_rec(p, node)))) {
    case TC_KIND_RNG:
    case TC_KIND_FOLD:
    case TC_KIND_SCAN:
    case TC_KIND_CONTRACT:
    case TC_KIND_ATTENTION:
    case TC_KIND_INDEX:
    case TC_KIND_COMPOSED:
    case TC_KIND_CONTROL: return true;
    default: return false;
  }
}

// Marks the leaves and outputs that values are made from.
// held: per node the TC_HELD_ bits it is held for; on return also those of what uses it.
static void hold(tc_plan *p, uint8_t *held) {
  for (uint32_t n = p->n_node; n-- > 0;) {
    if (!held[n]) continue;
    if (tc_plan_is_leaf(p, n)) {
      p->hold_leaf[p->leaf_of[n]] |= held[n];
    } else if (p->out_of[n] != TC_LEAF_NONE) {
      p->hold_out[p->out_of[n]] |= held[n];
    } else {
      const tc_rec *r = tc_plan_rec(p, n);
      const uint32_t *in = tc_rec_in(r);
      for (int i = 0; i < tc_rec_arity(r); i++) held[in[i]] |= held[n];
    }
  }
}

// Marks what may still be differentiated through: ancestors on the tape of live values on the tape.
static void mark_history(const tc_plan *p, uint8_t *history) {
  for (uint32_t n = p->n_node; n-- > 0;) {
    if ((p->flag[n] & (TC_NODE_LIVE | TC_NODE_TAPE)) == (TC_NODE_LIVE | TC_NODE_TAPE) &&
        !(p->flag[n] & TC_NODE_REQUIRES_GRAD))
      history[n] = 1;
    if (!history[n] || (p->flag[n] & TC_NODE_REQUIRES_GRAD)) continue;
    const tc_rec *r = tc_plan_rec(p, n);
    const uint32_t *in = tc_rec_in(r);
    for (int i = 0; i < tc_rec_arity(r); i++)
      if (p->flag[in[i]] & TC_NODE_TAPE) history[in[i]] = 1;
  }
}

// Whether the record is differentiated itself. A record on the tape whose operands are not has its
// history in an older run.
static bool on_tape_here(const tc_plan *p, const tc_rec *r) {
  for (int i = 0; i < tc_rec_arity(r); i++)
    if (p->flag[tc_rec_in(r)[i]] & TC_NODE_TAPE) return true;
  return false;
}

// Whether a gradient reads the carries that entered the steps of a scan.
static bool keeps_carries(const tc_rec *r) {
  tc_control_facts f;
  return tc_rec_op(r) == TC_OP_CONTROL && tc_control_facts_of(tc_rec_attr(r), tc_rec_attrs(r), &f) && f.keeps;
}

// Marks in need[] the values that vjps of history will read.
static void mark_saved(const tc_plan *p, const uint8_t *history, uint8_t *need) {
  for (uint32_t n = 0; n < p->n_node; n++) {
    const tc_rec *r = tc_plan_rec(p, n);
    if (!history[n] || tc_plan_is_leaf(p, n) || (p->flag[n] & TC_NODE_REQUIRES_GRAD) || !on_tape_here(p, r)) continue;
    uint8_t saves = tc_op_rows[tc_rec_op(r)].saves;
    const uint32_t *in = tc_rec_in(r);
    if ((saves & TC_SAVES_out) || keeps_carries(r)) need[n] = 1;
    if (saves & TC_SAVES_in)
      for (int i = 0; i < tc_rec_arity(r); i++) need[in[i]] = 1;
  }
}

// Assigned, or a result of control flow, which nothing makes a second time.
static bool is_effect(const tc_plan *p, uint32_t n) {
  tc_op op = tc_rec_op(tc_plan_rec(p, n));
  return tc_op_kind_of(op) == TC_KIND_EFFECT || op == TC_OP_TUPLE_ELEMENT;
}

static size_t bytes_of(const tc_plan *p, uint32_t n) {
  const tc_rec *r = tc_plan_rec(p, n);
  return (size_t)tc_dims_at(r->shape)->count * tc_type_bytes((tc_type)r->dtype);
}

// What recomputing a value that is not stored costs.
typedef struct recipe {
  bool expensive, recomputed;  // takes an expensive op; reads a value that was recomputed already
  double sole;       // bytes of leaves that nobody else holds, at most; twice those that it takes a copy to hold
} recipe;

static recipe recipe_of(const tc_plan *p, const recipe *all, uint32_t n) {
  recipe r = {0};
  if (tc_plan_is_leaf(p, n)) {
    // What the caller's memory held, where the run writes it, lives on in a copy alone.
    bool copied = (p->flag[n] & TC_NODE_USER) && p->over_leaf[p->leaf_of[n]];
    if (p->flag[n] & TC_NODE_SOLE) r.sole = (copied ? 2 : 1) * (double)bytes_of(p, n);
    return r;
  }
  r.expensive = is_expensive(p, n), r.recomputed = p->flag[n] & TC_NODE_REMATERIALIZE;
  const tc_rec *x = tc_plan_rec(p, n);
  for (int i = 0; i < tc_rec_arity(x); i++) {
    uint32_t in = tc_rec_in(x)[i];
    if (p->out_of[in] != TC_LEAF_NONE) continue;
    r.expensive |= all[in].expensive, r.recomputed |= all[in].recomputed, r.sole += all[in].sole;
  }
  return r;
}

// Chooses what is stored: values that are asked for, assigned, kept, live without a reader, or
// saved for backward and expensive. Of other live values these are stored:
// - what is made of a recipe used before: nothing is made a third time, and recipes do not grow;
// - what is smaller than the leaves that it would hold;
// - what is expensive to compute and small.
static bool choose_outputs(tc_plan *p, const uint8_t *need, const uint8_t *read) {
  recipe *all = tc_malloc((p->n_node + 1) * sizeof *all);
  if (!all) return false;
  for (uint32_t n = 0; n < p->n_node; n++) {
    uint8_t f = p->flag[n];
    bool live = f & TC_NODE_LIVE;
    p->out_of[n] = TC_LEAF_NONE;
    all[n] = recipe_of(p, all, n);
    bool store = (f & TC_NODE_ASKED) || (live && ((f & TC_NODE_KEEP) || !read[n] || is_effect(p, n))) ||
                 (need[n] && is_expensive(p, n));
    if (live)
      store |= all[n].recomputed || all[n].sole > (double)bytes_of(p, n) ||
               (all[n].expensive && bytes_of(p, n) <= SMALL_BYTES);
    if (!store || tc_plan_is_leaf(p, n) || tc_plan_alias(p, n) != TC_LEAF_NONE) continue;
    p->out_of[n] = p->n_out;
    p->out[p->n_out++] = (tc_out){n, TC_LEAF_NONE, bytes_of(p, n)};
  }
  tc_free(all);
  return true;
}

static tc_status analyse(tc_plan *p) {
  uint8_t *scratch = tc_calloc(p->n_node + 1, 4);
  if (!scratch) return TC_FAIL(TC_ERR_MEMORY, "no room for a plan");
  tc_count(TC_PASS_OUTPUTS, p->n_node);
  uint8_t *history = scratch, *need = history + p->n_node, *read = need + p->n_node, *held = read + p->n_node;
  for (uint32_t n = 0; n < p->n_node; n++) {
    const tc_rec *r = tc_plan_rec(p, n);
    const uint32_t *in = tc_rec_in(r);
    for (int i = 0; i < tc_rec_arity(r); i++) read[in[i]] = 1;
    if (tc_rec_op(r) == TC_OP_ASSIGN && tc_plan_is_leaf(p, in[1])) p->over_leaf[p->leaf_of[in[1]]] = 1;
  }
  mark_history(p, history);
  mark_saved(p, history, need);
  if (!choose_outputs(p, need, read)) return tc_free(scratch), TC_FAIL(TC_ERR_MEMORY, "no room for a plan");
  for (uint32_t n = 0; n < p->n_node; n++) {
    if (history[n]) p->leaves_run = true;
    if (need[n]) held[n] |= TC_HELD_FOR_HISTORY;
    if ((p->flag[n] & TC_NODE_LIVE) && !tc_plan_is_leaf(p, n) && p->out_of[n] == TC_LEAF_NONE &&
        tc_plan_alias(p, n) == TC_LEAF_NONE) {
      p->leaves_run = true;
      held[n] |= TC_HELD_FOR_RECIPES;
    }
  }
  hold(p, held);
  tc_free(scratch);
  return TC_OK;
}

static tc_plan *of_trace(const tc_trace *t, uint32_t n_rec_words, uint32_t n_word) {
  tc_plan *p = tc_plan_allocate(t->n_node, t->n_leaf, t->n_arg, n_rec_words, n_word);
  if (!p) return NULL;
  memcpy(p->word, t->word, (size_t)n_word * sizeof p->word[0]);
  memcpy(p->at, t->at, p->n_node * sizeof p->at[0]);
  memcpy(p->arg_at, t->arg_at, p->n_node * sizeof p->at[0]);
  memcpy(p->dev, t->dev, p->n_node);
  memset(p->leaf_of, 0xFF, p->n_node * sizeof p->leaf_of[0]);
  for (uint32_t i = 0; i < t->n_leaf; i++) p->leaf_of[t->leaf[i].node] = i;
  tc_plan_find_same_bytes(p);
  return p;
}

void tc_plan_count_bytes(tc_plan *p) {
  size_t per_node = 2 * sizeof p->at[0] + 3 * sizeof p->leaf_of[0] + sizeof p->dev[0];
  p->entry.bytes = sizeof *p + p->n_word * sizeof p->word[0] + (p->n_node + 1) * per_node + 2 * (size_t)p->n_leaf +
                   (p->n_out + 1) * (sizeof p->out[0] + sizeof p->hold_out[0]) +
                   (p->program ? tc_lowering.bytes(p->program) : 0);
  tc_memory_of_plans((ptrdiff_t)p->entry.bytes);
}

tc_status tc_plan_create(const tc_trace *t, uint32_t n_rec_words, uint32_t n_word, tc_hash hash, tc_plan **out) {
  *out = NULL;
  tc_plan *p = of_trace(t, n_rec_words, n_word);
  if (!p) return TC_FAIL(TC_ERR_MEMORY, "no room for a plan");
  p->hash = hash;
  tc_status st = analyse(p);
  if (st != TC_OK) return tc_plan_release(p), st;
  tc_plan_shrink(p);
  *out = p;
  return TC_OK;
}

tc_status tc_plan_build(const tc_trace *t, uint32_t n_rec_words, uint32_t n_word, tc_hash hash, tc_plan **out) {
  TC_TRY(tc_plan_create(t, n_rec_words, n_word, hash, out));
  tc_status st = tc_backend_make(*out, t);
  if (st != TC_OK) return tc_plan_release(*out), *out = NULL, st;
  tc_plan_count_bytes(*out);
  return TC_OK;
}

// ---- the budget ----

// relaxed: it is a number that goes into keys; UINT64_MAX: none was set
static _Atomic uint64_t set_budget = UINT64_MAX;

uint64_t tc_plan_budget_now(void) {
  uint64_t set = atomic_load_explicit(&set_budget, memory_order_relaxed);
  const tc_options *o = tc_options_get();
  return set == UINT64_MAX || o->has_budget ? (uint64_t)o->memory_budget : set;
}

void tc_plan_set_budget(uint64_t bytes) {
  atomic_store_explicit(&set_budget, bytes, memory_order_relaxed);
}

tc_status tc_set_memory_budget_at(size_t bytes, tc_site site) {
  if (!tc_enter("set_memory_budget", site)) return TC_ERR_STATE;
  tc_plan_set_budget(bytes);
  tc_leave();
  return TC_OK;
}

tc_status tc_plan_launch_alone(const tc_plan *p, void *const *leaf, void *const *out) {
  return tc_lowering.launch(p, leaf, out, NULL, NULL, NULL, NULL);
}

tc_status tc_plan_of_record(const tc_plan *p, uint32_t node, tc_device device, tc_plan **out) {
  *out = NULL;
  const tc_rec *r = tc_plan_rec(p, node);
  uint32_t n_in = (uint32_t)tc_rec_arity(r), n_rec_words = 2 * n_in + 2 + r->n_extra;
  tc_plan *q = tc_plan_allocate(n_in + 1, n_in, tc_rec_args(r), n_rec_words, n_rec_words + n_in / 8 + 2);
  if (!q) return TC_FAIL(TC_ERR_MEMORY, "no room for a plan");
  memset(q->word, 0, q->n_word * sizeof q->word[0]);
  memset(q->dev, (int)device, q->n_node);
  for (uint32_t i = 0; i < n_in; i++) {
    const tc_rec *from = tc_plan_rec(p, tc_rec_in(r)[i]);
    q->at[i] = 2 * i, q->leaf_of[i] = i, q->out_of[i] = TC_LEAF_NONE;
    *(tc_rec *)(void *)(q->word + 2 * i) =
        (tc_rec){.op_args = TC_OP_LEAF, .dtype = from->dtype, .shape = from->shape, .in = {(uint32_t)device}};
  }
  q->at[n_in] = 2 * n_in, q->leaf_of[n_in] = TC_LEAF_NONE, q->out_of[n_in] = 0;
  memset(q->arg_at, 0, q->n_node * sizeof q->arg_at[0]);
  memcpy(q->word + 2 * n_in, r, (2 + (size_t)r->n_extra) * sizeof q->word[0]);
  uint32_t *in = (uint32_t *)(uintptr_t)tc_rec_in(tc_plan_rec(q, n_in));
  for (uint32_t i = 0; i < n_in; i++) in[i] = i;
  tc_plan_find_same_bytes(q);
  q->out[q->n_out++] =
      (tc_out){n_in, TC_LEAF_NONE, (size_t)tc_dims_at(r->shape)->count * tc_type_bytes((tc_type)r->dtype)};
  tc_status st = tc_lowering.lower(q);
  if (st != TC_OK) return tc_plan_release(q), st;
  *out = q;
  return TC_OK;
}
