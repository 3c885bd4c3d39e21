// Sync points: closes the pending trace, finds its plan, runs it, publishes what was stored and leaves a run where values or history remain.
#include <stdlib.h>
#include <string.h>

#include "device/gpu/ranges.h"
#include "lazy/trace/plan.h"
#include "lazy/text/text.h"
#include "runtime/arena.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/passes.h"
#include "runtime/profile.h"
#include "runtime/reentry.h"
#include "runtime/team.h"

#define CUT_NODES 128
#define CUT_BYTES (UINT64_C(1) << 20)

static const char *const cause_names[TC_N_CAUSES] = {"item",   "to_host", "map",      "print",        "save",       "eval",
                                                     "sync",   "bound",   "landmark", "cross-thread", "data-shape", "eager",
                                                     "replay", "retake",  "to",       "memory",       "backward"};

static tc_slot *slot_at(uint32_t slot) {
  tc_trace *owner;
  return tc_slot_find((tc_tensor){slot, 0}, &owner);
}

// Appends flags, sole bits and environment after the records, so that the key is one run of words; returns its length, 0 out of memory.
static uint32_t close_key(tc_trace *t, int n_asked, const tc_node *asked, bool peek) {
  uint32_t flag_words = (t->n_node + 7) / 8, n = t->n_word + flag_words + 2;
  if (n > t->cap_word) {
    uint64_t *p = tc_realloc(t->word, (size_t)n * 2 * sizeof *p);
    if (!p) return 0;
    t->word = p, t->cap_word = n * 2;
  }
  t->word[t->n_word + flag_words - (flag_words > 0)] = 0;
  uint8_t *flags = (uint8_t *)(t->word + t->n_word), in_key = peek ? TC_NODE_USER : (uint8_t)~TC_NODE_FREED_IN;
  for (uint32_t i = 0; i < t->n_node; i++) flags[i] = t->flag[i] & in_key;
  for (uint32_t i = 0; i < t->n_leaf && !peek; i++)
    if (tc_buffer_refs(t->leaf[i].buf) == 1 && t->leaf[i].buf->origin != TC_ORIGIN_BORROWED) flags[t->leaf[i].node] |= TC_NODE_SOLE;
  for (int i = 0; i < n_asked; i++) flags[asked[i]] |= TC_NODE_ASKED;
  const tc_options *o = tc_options_get();
  uint64_t lowered =
      (uint64_t)(o->strict != 0) << 1 | (uint64_t)(o->winograd != 0) << 2 | (uint64_t)(o->autotune != 0) << 3 | (uint64_t)tc_team_threads() << 8;
  t->word[t->n_word + flag_words] = (uint64_t)o->eager | (o->prepare ? TC_KEY_PREPARES : 0) | lowered << 32;
  t->word[t->n_word + flag_words + 1] = tc_plan_budget_now();
  return n;
}

// Memory for every output: a leaf's own where the plan writes in place, else fresh. Behind the outputs is room for the pointers of a launch.
static tc_status take_outputs(tc_trace *t, const tc_plan *p) {
  uint32_t need = 2 * p->n_out + p->n_leaf;
  if (need > t->cap_out) {
    tc_buffer **out = tc_realloc(t->out, need * sizeof *out);
    if (!out) return TC_FAIL(TC_ERR_MEMORY, "no room for results");
    t->out = out, t->cap_out = need;
  }
  for (uint32_t i = 0; i < p->n_out; i++) {
    if (p->out[i].home != TC_LEAF_NONE) {
      t->out[i] = tc_buffer_retain(t->leaf[p->out[i].home].buf);
      tc_buffer_restamp(t->out[i]);
      continue;
    }
    tc_status st = tc_buffer_create_on((tc_device)p->dev[p->out[i].node], p->out[i].bytes, &t->out[i]);
    if (st == TC_OK) {
      tc_buffer_tell(t->out[i], TC_HOLDS_TENSOR, t->call[p->out[i].node]);
      continue;
    }
    while (i-- > 0) tc_buffer_release(t->out[i]);
    return st;
  }
  return TC_OK;
}

// Where the run puts a value, or NULL; borrowed.
static tc_buffer *stored_at(const tc_trace *t, const tc_plan *p, uint32_t n) {
  if (p->out_of[n] != TC_LEAF_NONE) return t->out[p->out_of[n]];
  uint32_t alias = tc_plan_alias(p, n);
  return alias != TC_LEAF_NONE ? t->leaf[alias].buf : NULL;
}

// Whether somebody beside this trace, which ends, holds what the caller's memory held before the assigns to it, or will once the run is published.
static bool is_seen(const tc_trace *t, const tc_plan *p, const struct tc_user *u) {
  uint32_t old = slot_at(u->slot)->node;
  while (tc_rec_op(tc_rec_of(t, old)) == TC_OP_ASSIGN) old = tc_rec_of(t, old)->in[1];
  uint32_t leaf = p->leaf_of[old];
  bool ours = leaf != TC_LEAF_NONE && t->leaf[leaf].buf == u->buf;
  return tc_buffer_refs(u->buf) > 1 + (uint32_t)ours || (ours && p->leaves_run && p->hold_leaf[leaf]);
}

// Memory for old content that somebody sees: publishing must not fail for want of it. Adds what was taken to *bytes.
static tc_status take_spares(tc_trace *t, const tc_plan *p, size_t *bytes) {
  for (uint32_t i = 0; i < t->n_user; i++) {
    struct tc_user *u = &t->user[i];
    if (!is_seen(t, p, u)) continue;
    TC_TRY(tc_buffer_create(u->buf->bytes, &u->spare));
    *bytes += u->spare->bytes;
  }
  return TC_OK;
}

// Gives back what outputs and spares of a run were taken; published ones have other holders.
static void drop_taken(tc_trace *t, const tc_plan *p) {
  for (uint32_t i = 0; i < p->n_out; i++) tc_buffer_release(t->out[i]);
  for (uint32_t i = 0; i < t->n_user; i++) {
    tc_buffer_release(t->user[i].spare);
    t->user[i].spare = NULL;
  }
}

// The pending trace, once its key is closed, as text.
static void write_trace(FILE *out, const tc_trace *t, const char *cause, tc_site site) {
  char place[160], title[200];
  tc_site_text(site, place, sizeof place);
  snprintf(title, sizeof title, "%s at %s", cause, place[0] ? place : "an unknown place");
  tc_text_write_trace(out, t, (const uint8_t *)(t->word + t->n_word), TC_TEXT_LOG_BYTES, title);
}

// For a profiler's timeline, where somebody looks at one of a GPU's.
static const tc_gpu_ranges *range_begin(const tc_trace *t, const tc_sync_point *rec) {
  const tc_gpu_ranges *r = t->n_node ? tc_gpu_ranges_of((tc_device)t->dev[0]) : NULL;
  char place[160], text[200];
  if (TC_LIKELY(!r)) return NULL;
  tc_site_text(rec->site, place, sizeof place);
  snprintf(text, sizeof text, "%s at %s", rec->cause, place[0] ? place : "an unknown place");
  (void)r->push(text);
  return r;
}

static void log_trace(const tc_trace *t, const tc_sync_point *rec) {
  tc_log_message m;
  if (tc_log_begin(&m)) write_trace(m.to, t, rec->cause, rec->site);
  tc_log_end(&m, TC_LOG_TRACE);
}

// Writable memory of the caller that a GPU's plan reads goes there for this run.
static tc_status stage_leaves(tc_trace *t, const tc_plan *p) {
  for (uint32_t i = 0; i < p->n_leaf; i++) {
    tc_device d = (tc_device)p->dev[t->leaf[i].node];
    tc_buffer *there, *here = t->leaf[i].buf;
    if (here->memory == tc_device_memory(d)) continue;
    TC_TRY(tc_buffer_create_on(d, here->bytes, &there));
    tc_status st = tc_buffer_copy(there, here, here->bytes);
    if (st != TC_OK) return tc_buffer_release(there), st;
    t->leaf[i].buf = there;
    tc_buffer_release(here);
  }
  return TC_OK;
}

// TC_VERIFY=1: the run between two looks at it. The trace is written before, while leaves that are written in place still hold their old content.
static tc_status launch_verified(tc_trace *t, const tc_plan *p, void *const *leaf, void *const *out, tc_work_done *prepared, tc_sync_point *rec) {
  tc_log_message before, m;
  FILE *text = tc_log_begin(&before), *to = tc_log_begin(&m);
  if (text) write_trace(text, t, rec->cause, rec->site), fflush(text);
  if (to) fprintf(to, "TC_VERIFY: results differ\n");
  struct tc_verified *expected = text && to ? tc_lowering.verify_begin(p, leaf, t->arg, to) : NULL;
  tc_status st = tc_lowering.launch(p, leaf, out, t->arg, t->call, t->leaf, prepared);
  if (expected) rec->n_wrong = tc_lowering.verify_end(p, leaf, out, expected, st == TC_OK, to);
  if (rec->n_wrong) {
    if (before.text) fputs(before.text, to);
    tc_log_end(&m, TC_LOG_WARN);
  } else {
    tc_log_drop(&m);
  }
  tc_log_drop(&before);
  return st;
}

// TC_ANOMALY=1: nothing has run yet, so what was to be assigned keeps its old value.
static tc_status refuse_anomaly(const tc_trace *t, const tc_plan *p, void *const *leaf) {
  tc_anomaly found;
  if (!tc_lowering.find_anomaly(p, leaf, t->arg, &found)) return TC_OK;
  tc_call by = t->call[found.node], of = found.node < t->n_of ? t->of[found.node] : (tc_call){NULL, 0};
  char here[160], there[160];
  tc_site_text(by.site, here, sizeof here);
  tc_site_text(of.site, there, sizeof there);
  const char *part = of.op ? ", a part of the gradient of " : "", *at = of.op ? " at " : "", *op = of.op ? of.op : "";
  tc_log_line(TC_LOG_WARN, "TC_ANOMALY: %s at %s: %s%s%s%s%s", by.op, here, found.text, part, op, at, of.op ? there : "");
  return tc_fail(TC_ERR_ANOMALY, by.op, by.site, "%s%s%s%s%s", found.text, part, op, at, of.op ? there : "");
}

static tc_status launch(tc_trace *t, const tc_plan *p, tc_work_done *prepared, tc_sync_point *rec) {
  void **ptr = (void **)(t->out + p->n_out);
  for (uint32_t i = 0; i < p->n_leaf; i++) ptr[i] = t->leaf[i].buf->ptr;
  for (uint32_t i = 0; i < p->n_out; i++) ptr[p->n_leaf + i] = t->out[i]->ptr;
  if (TC_UNLIKELY(tc_options_get()->anomaly)) TC_TRY(refuse_anomaly(t, p, ptr));
  tc_status st = TC_UNLIKELY(tc_options_get()->verify) ? launch_verified(t, p, ptr, ptr + p->n_leaf, prepared, rec)
                                                       : tc_lowering.launch(p, ptr, ptr + p->n_leaf, t->arg, t->call, t->leaf, prepared);
  for (uint32_t i = 0; i < p->n_out && st == TC_OK; i++) tc_buffer_set_made(t->out[i]);
  return st;
}

// ---- runs ----

static _Atomic uint64_t run_serial;

// A run of the plan with room for what these counts ask for; NULL out of memory.
static tc_run *run_allocate(tc_plan *p, uint32_t n_past, uint32_t n_want) {
  tc_buffer *memory;
  size_t bytes = sizeof(tc_run) + p->n_leaf * sizeof(tc_leaf) + n_past * sizeof(tc_past) + p->n_out * sizeof(tc_buffer *) +
                 p->n_arg * sizeof(uint64_t) + n_want * sizeof(tc_want) + p->n_node * (sizeof(tc_call) + sizeof(uint32_t) + 1) + 64;
  if (tc_buffer_create(bytes, &memory) != TC_OK) return NULL;
  tc_run *r = memset(memory->ptr, 0, bytes);
  r->memory = memory;
  r->serial = atomic_fetch_add_explicit(&run_serial, 1, memory_order_relaxed) + 1;
  atomic_store_explicit(&r->refs, 1, memory_order_relaxed);
  r->leaf = (tc_leaf *)(r + 1);
  r->past = (tc_past *)(r->leaf + p->n_leaf);
  r->out = (tc_buffer **)(r->past + n_past);
  r->arg = (uint64_t *)(r->out + p->n_out);
  r->call = (tc_call *)(r->arg + p->n_arg);
  r->want = (tc_want *)(r->call + p->n_node);
  r->memo = (uint32_t *)(r->want + n_want);
  r->flag = (uint8_t *)(r->memo + p->n_node);
  r->n_leaf = p->n_leaf, r->n_past = n_past, r->n_out = p->n_out, r->n_want = n_want, r->n_arg = p->n_arg;
  r->plan = tc_plan_retain(p);
  return r;
}

// What the run r of the trace leaves behind. failed: nothing was stored, so every leaf is kept and every value is a recipe.
static void run_fill(tc_run *r, const tc_trace *t, bool failed) {
  const tc_plan *p = r->plan;
  r->failed = failed, r->freed_by = t->freed_by;
  for (uint32_t i = 0; i < p->n_leaf; i++) {
    r->leaf[i] = (tc_leaf){t->leaf[i].node, NULL};
    if (p->hold_leaf[i] || failed) r->leaf[i].buf = tc_buffer_retain(t->leaf[i].buf);
  }
  for (uint32_t i = 0; i < t->n_past; i++) r->past[i] = (tc_past){t->past[i].node, t->past[i].home, tc_run_retain(t->past[i].run)};
  for (uint32_t i = 0; i < p->n_out; i++) r->out[i] = p->hold_out[i] && !failed ? tc_buffer_retain(t->out[i]) : NULL;
  if (p->n_arg) memcpy(r->arg, t->arg, p->n_arg * sizeof r->arg[0]);
  if (t->n_want) memcpy(r->want, t->want, t->n_want * sizeof r->want[0]);
  memcpy(r->flag, t->flag, p->n_node);
  memcpy(r->call, t->call, p->n_node * sizeof r->call[0]);
}

tc_run *tc_run_create_carried(tc_plan *p, tc_run *of, uint32_t home, tc_tensor param, tc_call call) {
  tc_run *r = run_allocate(p, of != NULL, of == NULL);
  if (!r) return NULL;
  r->call[0] = r->call[1] = call;
  r->flag[0] = r->flag[1] = of ? of->flag[home] & (TC_NODE_TAPE | TC_NODE_NO_HISTORY) : TC_NODE_TAPE;
  if (of)
    r->past[0] = (tc_past){0, home, tc_run_retain(of)}, r->freed_by = of->freed_by;
  else
    r->want[0] = (tc_want){0, param}, r->flag[0] |= TC_NODE_WANT;
  return r;
}

// The run, if there is one, joins those that are to be freed if this was its last reference.
static void run_drop(tc_run *r, tc_run **dead) {
  if (!r || atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) != 1) return;
  r->next_dead = *dead;
  *dead = r;
}

// A run may be the last to hold others, and these others yet: they are freed one by one, not by recursion.
void tc_run_release(tc_run *r) {
  tc_run *dead = NULL;
  if (r) run_drop(r, &dead);
  while ((r = dead) != NULL) {
    dead = r->next_dead;
    tc_count(TC_PASS_RUNS, 1 + r->n_leaf + r->n_past + r->n_out);
    for (uint32_t i = 0; i < r->n_leaf; i++) tc_buffer_release(r->leaf[i].buf);
    for (uint32_t i = 0; i < r->n_past; i++) run_drop(r->past[i].run, &dead);
    for (uint32_t i = 0; i < r->n_out; i++) tc_buffer_release(r->out[i]);
    tc_plan_release(r->plan);
    tc_buffer_release(r->memory);
  }
}

// Gives back the values that neither a recipe that somebody may ask for nor history needs. A failed run has stored nothing, so it needs every leaf.
static void drop_unneeded(tc_run *r) {
  const tc_plan *p = r->plan;
  uint8_t needed = (uint8_t)((r->n_recipes ? TC_HELD_FOR_RECIPES : 0) | (r->freed ? 0 : TC_HELD_FOR_HISTORY));
  if (r->failed && needed) return;
  tc_count(TC_PASS_RUNS, r->n_leaf + r->n_out);
  for (uint32_t i = 0; i < r->n_leaf; i++) {
    if (p->hold_leaf[i] & needed) continue;
    tc_buffer_release(r->leaf[i].buf);
    r->leaf[i].buf = NULL;
  }
  for (uint32_t i = 0; i < r->n_out; i++) {
    if (p->hold_out[i] & needed) continue;
    tc_buffer_release(r->out[i]);
    r->out[i] = NULL;
  }
}

void tc_slot_set_run(tc_slot *s, tc_run *run) {
  tc_run *was = s->run;
  bool had_recipe = s->flags & TC_SLOT_RECIPE, has_recipe = run && !s->buf;
  if (!was && !run) return;
  if (run && run->n_slots++ == 0) (void)tc_run_retain(run);
  if (has_recipe) run->n_recipes++;
  s->run = run;
  s->flags = (uint8_t)(has_recipe ? s->flags | TC_SLOT_RECIPE : s->flags & ~TC_SLOT_RECIPE);
  if (!was) return;
  bool none_left = had_recipe && --was->n_recipes == 0, last = --was->n_slots == 0;
  if (none_left && atomic_load_explicit(&was->refs, memory_order_relaxed) > (uint32_t)last) drop_unneeded(was);
  if (last) tc_run_release(was);
}

void tc_run_free_history(tc_run *r, tc_site by) {
  const tc_plan *p = r->plan;
  uint32_t n_past = r->n_past;
  r->n_past = 0;
  for (uint32_t i = 0; i < n_past; i++) tc_run_release(r->past[i].run);
  tc_count(TC_PASS_RUNS, p->n_node);
  for (uint32_t i = 0; i < p->n_node; i++)
    if ((r->flag[i] & TC_NODE_TAPE) && !(r->flag[i] & TC_NODE_WANT)) r->flag[i] = (uint8_t)((r->flag[i] & ~TC_NODE_TAPE) | TC_NODE_FREED);
  r->freed = true, r->freed_by = by;
  drop_unneeded(r);
}

static bool todo_push(tc_trace *t, uint32_t *n_todo, uint32_t node) {
  if (*n_todo == t->cap_todo) {
    uint32_t cap = TC_MAX_OF(2 * t->cap_todo, 64), *p = tc_realloc(t->todo, cap * sizeof *p);
    if (!p) return tc_rec_fail(t, TC_ERR_MEMORY, "no room to record"), false;
    t->todo = p, t->cap_todo = cap;
  }
  t->todo[(*n_todo)++] = node;
  return true;
}

// Records one record of run r in t, its operands being there.
static tc_node record_again(tc_trace *t, const tc_run *r, uint32_t node) {
  const tc_plan *p = r->plan;
  const tc_rec *rec = tc_plan_rec(p, node);
  tc_node in[512];
  int n_in = tc_rec_arity(rec), n_attr = tc_rec_attrs(rec);
  for (int i = 0; i < n_in; i++) in[i] = r->memo[tc_rec_in(rec)[i]];
  bool tape = tc_rec_tape(t, false);
  tc_node n = tc_trace_append(t, tc_rec_op(rec), (tc_type)rec->dtype, rec->shape, n_in, in, n_attr, tc_rec_attr(rec), (int)tc_rec_args(rec),
                              r->arg + p->arg_at[node], (tc_device)p->dev[node]);
  if (n != TC_NODE_ERR) t->call[n] = r->call[node];
  tc_rec_tape(t, tape);
  return n;
}

// Records node of run r again in t, without history: a stored value or leaf becomes a leaf; a recipe its records, operands first. Recipes are long:
// what is still to do lies in the trace's memory, not on the stack.
static tc_node replay(tc_trace *t, tc_run *r, uint32_t root) {
  const tc_plan *p = r->plan;
  uint32_t n_todo = 0;
  if (!todo_push(t, &n_todo, root)) return TC_NODE_ERR;
  while (n_todo) {
    uint32_t node = t->todo[n_todo - 1];
    tc_count(TC_PASS_RUNS, 1);
    if (r->memo[node] != TC_NODE_ERR) {
      n_todo--;
      continue;
    }
    const tc_rec *rec = tc_plan_rec(p, node);
    bool leaf = tc_rec_op(rec) == TC_OP_LEAF, stored = p->out_of[node] != TC_LEAF_NONE;
    tc_buffer *buf = leaf ? r->leaf[p->leaf_of[node]].buf : stored ? r->out[p->out_of[node]] : NULL;
    if (!buf && (leaf || (stored && !r->failed))) return tc_rec_fail(t, TC_ERR_STATE, "the value of an earlier %s is gone", r->call[node].op);
    uint32_t n_before = n_todo;
    for (int i = buf ? 0 : tc_rec_arity(rec); i-- > 0;)
      if (r->memo[tc_rec_in(rec)[i]] == TC_NODE_ERR && !todo_push(t, &n_todo, tc_rec_in(rec)[i])) return TC_NODE_ERR;
    if (n_todo > n_before) continue;
    tc_node n = buf ? tc_trace_leaf(t, buf, (tc_type)rec->dtype, rec->shape, (tc_device)p->dev[node]) : record_again(t, r, node);
    if (n == TC_NODE_ERR) return n;
    r->memo[node] = n;
  }
  return r->memo[root];
}

tc_node tc_run_replay(tc_trace *t, tc_run *r, uint32_t node) {
  if (r->memo_epoch != t->epoch || r->memo_trace != t) {
    memset(r->memo, 0xFF, r->plan->n_node * sizeof r->memo[0]);
    r->memo_epoch = t->epoch, r->memo_trace = t;
  }
  tc_node n = replay(t, r, node);
  return n == TC_NODE_ERR ? n : tc_trace_past(t, n, r, node);
}

// ---- running ----

// What a sync runs, and how that went.
typedef struct work {
  uint32_t n_rec_words, n_word;  // of the closed key
  tc_plan *plan;
  tc_run *run;      // room for what stays of it, taken before it is launched: what has written in place must not fail; NULL: nothing stays
  size_t beside;    // bytes taken for it, and for old content, where they are of the memory that the run is in
  bool hit, taken;  // taken: results have memory, which the trace holds
  uint64_t compiled, launched, allocated;  // in ticks: what making the plan took, when it began to run, what getting new memory took until then
  tc_work_done done;
} work;

// What publishing needs beside the results.
static tc_status take_beside(tc_trace *t, work *w) {
  size_t bytes = 0;
  TC_TRY(take_spares(t, w->plan, &bytes));
  if (w->plan->leaves_run && !(w->run = run_allocate(w->plan, t->n_past, t->n_want))) return TC_FAIL(TC_ERR_MEMORY, "no room for a run");
  if (w->run) bytes += w->run->memory->bytes;
  w->beside = t->n_node && tc_device_memory((tc_device)t->dev[0]) ? 0 : bytes;
  return TC_OK;
}

static tc_status run_plan(tc_trace *t, work *w, tc_sync_point *rec) {
  w->done = (tc_work_done){0}, w->beside = 0;
  tc_status st = tc_plan_get(t, w->n_rec_words, w->n_word, &w->plan, &w->hit, &w->compiled);
  tc_buffer_peak_begin(t->n_node ? (tc_device)t->dev[0] : TC_DEVICE_CPU);
  if (st == TC_OK) st = stage_leaves(t, w->plan);
  if (st == TC_OK) st = take_outputs(t, w->plan);
  w->taken = st == TC_OK;
  if (st == TC_OK && !t->dropped) st = take_beside(t, w);
  w->allocated = tc_buffer_new_ticks(), w->launched = tc_ticks();
  return st == TC_OK ? launch(t, w->plan, &w->done, rec) : st;
}

// The plan that the key names; where there is no room for what that prepares, the one that makes it in the run. Each run asks anew.
static tc_status run_pending(tc_trace *t, work *w, tc_sync_point *rec) {
  tc_error_mark before = tc_error_now();
  tc_status st = run_plan(t, w, rec);
  if (TC_LIKELY(!w->done.lacks_forms)) return st;
  (void)tc_error_tell(before);
  drop_taken(t, w->plan);
  tc_run_release(w->run);
  tc_plan_release(w->plan);
  w->run = NULL, w->plan = NULL;
  t->word[w->n_word - 2] &= ~TC_KEY_PREPARES;
  return run_plan(t, w, rec);
}

// ---- closing ----

static void set_freed(tc_slot *s, bool freed) {
  s->flags = (uint8_t)(freed ? s->flags | TC_SLOT_FREED : s->flags & ~TC_SLOT_FREED);
}

// Hands a stored value to its slot. Writable borrowed memory is reached by copy where the plan did not write there itself.
static tc_status publish(tc_trace *t, const tc_plan *p, tc_run *run) {
  tc_status st = TC_OK;
  for (uint32_t n = 0; n < t->n_node; n++) {
    if (t->slot_of[n] == TC_SLOT_NONE || p->leaf_of[n] != TC_LEAF_NONE) continue;
    tc_slot *s = slot_at(t->slot_of[n]);
    tc_buffer *stored = stored_at(t, p, n);
    bool history = (t->flag[n] & TC_NODE_TAPE) && !(t->flag[n] & TC_NODE_WANT);
    tc_buffer_release(s->buf);
    s->buf = stored ? tc_buffer_retain(stored) : NULL;
    tc_slot_set_run(s, history || !stored ? run : NULL);
    set_freed(s, stored && (t->flag[n] & TC_NODE_NO_HISTORY) && !(t->flag[n] & TC_NODE_WANT));
    s->home = n;
  }
  for (uint32_t i = 0; i < t->n_user; i++) {
    struct tc_user *u = &t->user[i];
    tc_slot *s = slot_at(u->slot);
    tc_buffer *now = s->buf;
    if (!now || now == u->buf) continue;
    if (u->spare) {
      tc_buffer_move(u->buf, u->spare);
      tc_buffer_release(u->buf);
      u->buf = u->spare, u->spare = NULL;
    }
    tc_status copied = tc_buffer_copy(u->buf, now, TC_MIN(u->buf->bytes, now->bytes));
    if (st == TC_OK) st = copied;
    tc_buffer_release(s->buf);
    s->buf = tc_buffer_retain(u->buf);
  }
  return st;
}

// After a run that failed before it wrote in place: assigned tensors stand for their old value again; what was pending becomes a recipe of the failed
// run, so that what does not depend on the failure can still be had and what does fails again when asked. Without a plan pending values are lost.
static void restore(tc_trace *t, tc_run *run, tc_status st) {
  for (uint32_t n = 0; n < t->n_node; n++) {
    if (t->slot_of[n] == TC_SLOT_NONE || tc_rec_op(tc_rec_of(t, n)) == TC_OP_LEAF) continue;
    tc_slot *s = slot_at(t->slot_of[n]);
    uint32_t old = n;
    while (tc_rec_op(tc_rec_of(t, old)) == TC_OP_ASSIGN) old = tc_rec_of(t, old)->in[1];
    tc_buffer *buf = tc_rec_op(tc_rec_of(t, old)) == TC_OP_LEAF ? tc_trace_leaf_of(t, old) : NULL;
    tc_buffer_release(s->buf);
    s->buf = buf ? tc_buffer_retain(buf) : NULL;
    tc_slot_set_run(s, buf ? NULL : run);
    set_freed(s, buf && (t->flag[old] & TC_NODE_NO_HISTORY) && !(t->flag[old] & TC_NODE_WANT));
    s->home = old;
    s->err = buf || run ? TC_OK : st;
  }
  for (uint32_t i = 0; i < t->n_user; i++) {  // a leaf may be the copy that a GPU read
    tc_slot *s = slot_at(t->user[i].slot);
    tc_buffer_release(s->buf);
    s->buf = tc_buffer_retain(t->user[i].buf);
  }
}

// Without closing: the owner is inside an op and its numbers must stay. Nothing is written in place and only the asked slots are served.
static void publish_asked(tc_trace *t, const tc_plan *p, int n_asked, const tc_node *asked) {
  for (int i = 0; i < n_asked; i++) {
    tc_buffer *stored = stored_at(t, p, asked[i]);
    if (t->slot_of[asked[i]] == TC_SLOT_NONE || !stored) continue;
    tc_slot *s = slot_at(t->slot_of[asked[i]]);
    tc_buffer_release(s->buf);
    s->buf = tc_buffer_retain(stored);
  }
}

// One error is owed at a time: one that stands, or that clearing does not settle (clears: 0), stays before one that clearing settles.
static void owe(tc_trace *t, tc_status st, tc_site site, uint64_t clears) {
  bool stands = t->owed != TC_OK && (!t->owed_clears || t->owed_clears == tc_error_clears());
  if (stands && clears) return;
  t->owed = st, t->owed_site = site, t->owed_clears = clears;
  t->owed_error = (tc_error_mark){tc_error_now().status == st ? tc_error_now().id : 0, st, true};
}

// Owes the error of a run that failed if it has undone an assign that the call it failed in may not tell of: where the program did not ask for the run, or
// another thread did. Where an op tells of it, clearing the error settles it.
static void owe_undone(tc_trace *t, tc_cause cause, tc_site site, tc_status st) {
  static const bool is_asked[TC_N_CAUSES] = {[TC_CAUSE_ITEM] = true, [TC_CAUSE_TO_HOST] = true, [TC_CAUSE_MAP] = true,  [TC_CAUSE_PRINT] = true,
                                             [TC_CAUSE_SAVE] = true, [TC_CAUSE_EVAL] = true,    [TC_CAUSE_SYNC] = true, [TC_CAUSE_REPLAY] = true};
  bool silent = cause == TC_CAUSE_LANDMARK || cause == TC_CAUSE_EAGER || t != tc_trace_mine;
  uint32_t n = 0;
  while (n < t->n_node && tc_rec_op(tc_rec_of(t, n)) != TC_OP_ASSIGN) n++;
  if (n == t->n_node || (is_asked[cause] && t == tc_trace_mine)) return;
  owe(t, st, site, silent ? 0 : tc_error_clears());
}

tc_status tc_trace_owed(tc_trace *t, const char *op, tc_site site) {
  if (TC_LIKELY(t->owed == TC_OK)) return TC_OK;
  tc_status st = t->owed;
  char at[160];
  tc_site_text(t->owed_site, at, sizeof at);
  t->owed = TC_OK;
  if (t->owed_clears && t->owed_clears != tc_error_clears()) return TC_OK;
  if (tc_error_tell(t->owed_error)) return st;
  return tc_fail(st, op, site, "what failed at %s has left tensors as they were", at[0] ? at : "an unknown place");
}

tc_status tc_owe(tc_status st, tc_site site) {
  if (TC_LIKELY(st == TC_OK) || tc_inside || !tc_enter("owe", site)) return st;
  tc_trace *t = tc_trace_self();
  if (t) {
    tc_biased_lock_own(&t->lock);
    owe(t, st, site, tc_error_clears());
    tc_biased_unlock_own(&t->lock);
  }
  tc_leave();
  return st;
}

tc_status tc_trace_sync(tc_trace *t, tc_cause cause, tc_site site, int n_asked, const tc_node *asked) {
  if (t->n_node == t->n_leaf && n_asked == 0) {
    if (!t->dropped) tc_trace_reset(t);
    return TC_OK;
  }
  tc_pool_watch(t, site);
  uint64_t began = tc_ticks();
  tc_sync_point rec;  // every field is set here or at the end
  rec.cause = cause_names[cause], rec.site = site, rec.n_nodes = t->n_node, rec.n_wrong = 0;
  rec.before_ns = t->synced ? tc_ticks_between(t->synced, began) : 0;
  const tc_gpu_ranges *range = range_begin(t, &rec);
  bool peek = t->dropped;
  work w = {.n_rec_words = t->n_word, .n_word = close_key(t, n_asked, asked, peek), .launched = began};
  if (w.n_word && tc_log_on(TC_LOG_TRACE)) log_trace(t, &rec);
  tc_status st = w.n_word ? run_pending(t, &w, &rec) : TC_FAIL(TC_ERR_MEMORY, "no room for a key");
  tc_plan *p = w.plan;
  const tc_work_done *done = &w.done;
  tc_peak peak = tc_buffer_peak_end();
  uint64_t allocated = w.n_word ? tc_buffer_new_ticks() : 0, ran = tc_ticks();
  if (peek) {
    if (st == TC_OK) publish_asked(t, p, n_asked, asked);
  } else if (st == TC_OK) {
    if (w.run) run_fill(w.run, t, false);
    st = publish(t, p, w.run);
    if (st != TC_OK) owe_undone(t, cause, site, st);
  } else {
    owe_undone(t, cause, site, st);
    if (p && !w.run) w.run = run_allocate(p, t->n_past, t->n_want);
    if (w.run) run_fill(w.run, t, true);
    restore(t, w.run, st);
  }
  if (w.taken) drop_taken(t, p);
  tc_run_release(w.run);
  if (!peek) tc_trace_reset(t);
  rec.hash = p ? p->hash.lo : 0, rec.n_left = p ? p->n_left : 0, rec.tier = done->interpreted ? "interp" : p ? p->tier : "none";
  rec.n_kernels = p ? p->n_kernels + done->n_kernels : 0, rec.bytes = p ? p->bytes_moved + done->bytes : 0;
  rec.planned_bytes = peak.before_bytes + (p ? p->taken_bytes + done->taken_bytes : 0) + w.beside, rec.peak_bytes = peak.most_bytes;
  rec.replayed = done->replayed, rec.gpu_note = done->gpu_note, rec.copied_bytes = done->copied_bytes;
  rec.hit = w.hit, rec.n_compiled = p && !w.hit ? p->n_compiled : 0;
  tc_plan_release(p);
  if (TC_UNLIKELY(range != NULL)) (void)range->pop();
  t->synced = tc_ticks();
  uint64_t before = tc_ticks_between(began, w.launched), running = tc_ticks_between(w.launched, ran), later = allocated - w.allocated;
  rec.compile_ns = w.compiled, rec.allocate_ns = allocated;
  rec.lookup_ns = before - TC_MIN(before, w.compiled + w.allocated), rec.run_ns = running - TC_MIN(running, later);
  rec.publish_ns = tc_ticks_between(ran, t->synced), rec.total_ns = tc_ticks_between(began, t->synced);
  rec.status = st;
  tc_profile_add(&rec);
  return st;
}

tc_status tc_trace_make_way(tc_trace *t, tc_cause cause, tc_site site) {
  tc_device d = t->n_node ? (tc_device)t->dev[0] : TC_DEVICE_CPU;
  bool owes = t->n_user > 0;
  tc_error_mark before = tc_error_now();
  tc_status st = tc_trace_sync(t, cause, site, 0, NULL);
  if (st == TC_OK || owes || !tc_device_absent(d)) return st;
  (void)tc_error_tell(before);
  return TC_OK;
}

static bool is_live_history(const tc_trace *t, uint32_t n) {
  return (t->flag[n] & (TC_NODE_LIVE | TC_NODE_TAPE | TC_NODE_WANT)) == (TC_NODE_LIVE | TC_NODE_TAPE);
}

// Whether anything on the tape is alive. What was found last mostly still is, else something recorded lately.
static bool has_live_history(tc_trace *t) {
  if (t->live_tape < t->n_node && is_live_history(t, t->live_tape)) return true;
  for (uint32_t n = t->n_node; n-- > 0;) {
    tc_count(TC_PASS_OUTPUTS, 1);
    if (is_live_history(t, n)) return t->live_tape = n, true;
  }
  return false;
}

// Cuts a long trace where the program repeats: at a landmark with nothing on the tape alive. The site of the first cut is preferred from then on, so
// that iteration k meets the plan of iteration k-1.
// A scope that assigned much ends with a cut though the trace is short: two steps in one trace would hold old and new parameters at once.
// A scope that was opened in this trace ends soon, as a step's does, or a loss is read in it; by then gradients are cleared and less is alive. Before that
// one optimizer's step is passed by; a second one means that the scope is around the loop.
// The rest of a step that a bound has cut ends with the optimizer's step, however short: what would be left of it moves the next step's cut.
void tc_trace_landmark(tc_trace *t, tc_site site, bool is_scope) {
  bool rest = t->cut_at_bound && !is_scope;
  if (TC_LIKELY(t->n_node < CUT_NODES && !(is_scope && t->assigned_bytes >= CUT_BYTES) && !rest)) return;
  bool late = (int64_t)t->n_node >= tc_options_get()->max_nodes;
  bool young = !is_scope && t->n_mark > t->n_old_mark, elsewhere = is_scope ? t->cut_site && t->cut_site != site : young;
  if (young && !t->passed && !rest) {
    t->passed = true;
    return;
  }
  if (elsewhere && t->n_node < 4 * CUT_NODES && !late && !rest) return;
  if (has_live_history(t)) return;
  if (!rest) t->cut_site = site;
  (void)tc_trace_sync(t, TC_CAUSE_LANDMARK, site, 0, NULL);
}

void tc_rec_landmark(tc_trace *t) {
  tc_trace_landmark(t, t->op_site, false);
}

// ---- values ----

tc_status tc_trace_store(tc_trace *t, tc_slot *s, tc_tensor handle, tc_cause cause, tc_site site, tc_buffer **out) {
  *out = NULL;
  bool pending = s->epoch == t->epoch && tc_rec_op(tc_rec_of(t, s->node)) != TC_OP_LEAF;
  if (!pending && s->err) {
    const char *name = tc_device_name((tc_device)s->device), *absent = tc_device_absent((tc_device)s->device);
    if (absent) return tc_fail(s->err, tc_inside_call.op, site, "the value was lost with %s: %s", name, absent);
    return tc_fail(s->err, tc_inside_call.op, site, "the value was lost by a run that failed");
  }
  if (!s->buf || pending) {
    if (!pending) t->op_status = TC_OK, t->op = tc_inside_call.op, t->op_site = site;
    tc_node n = tc_trace_node(t, s, handle);
    if (n == TC_NODE_ERR) return t->op_status;
    TC_TRY(tc_trace_sync(t, cause, site, 1, &n));
  }
  if (!s->buf) return tc_fail(TC_ERR_STATE, tc_inside_call.op, site, "the tensor has no value");
  *out = tc_buffer_retain(s->buf);
  return TC_OK;
}

// What this thread is owed, where the value that is read is not of its trace.
static tc_status tell_owed(const char *op, tc_site site) {
  tc_trace *t = tc_trace_mine;
  if (!t) return TC_OK;
  tc_biased_lock_own(&t->lock);
  tc_status st = tc_trace_owed(t, op, site);
  tc_biased_unlock_own(&t->lock);
  return st;
}

tc_status tc_value_copy(tc_stored *v) {
  size_t bytes = (size_t)tc_dims_at(v->shape)->count * tc_type_bytes(v->type);
  tc_buffer *copy = NULL;
  tc_status st = tc_buffer_create(bytes, &copy);
  if (st == TC_OK && bytes) st = tc_buffer_copy(copy, v->buf, bytes);
  if (st != TC_OK) tc_buffer_release(copy), copy = NULL;
  tc_buffer_release(v->buf);
  v->buf = copy;
  return st;
}

tc_status tc_value(tc_tensor h, tc_cause cause, tc_site site, tc_stored *out) {
  const char *op = tc_inside_call.op;
  tc_trace *t;
  *out = (tc_stored){.buf = NULL};
  (void)tc_trace_self();
  tc_slot *s = tc_slot_find(h, &t);
  bool own = s && h.gen && t == tc_trace_mine;
  if (!own && cause != TC_CAUSE_CROSS_THREAD) TC_TRY(tell_owed(op, site));  // an op's operand is no sync point
  if (!s && h.slot >= TC_POISON) return tc_poison_told(h);
  if (!s || h.gen == 0) return tc_fail(TC_ERR_HANDLE, op, site, "%s", tc_handle_fault(h));
  TC_TRY(tc_trace_here(t, op, site));
  tc_trace_lock(t);
  tc_status st = own ? tc_trace_owed(t, op, site) : TC_OK;
  if (st == TC_OK && s->gen != h.gen) st = tc_fail(TC_ERR_HANDLE, op, site, "%s", tc_handle_fault(h));
  if (st == TC_OK) {
    *out = (tc_stored){NULL, s->shape, (tc_type)s->dtype, (tc_device)s->device, s->flags & TC_SLOT_GRAD, NULL};
    st = tc_trace_store(t, s, h, cause, site, &out->buf);
  }
  if (st == TC_OK && out->buf->origin == TC_ORIGIN_USER) {
    if (cause == TC_CAUSE_ITEM || cause == TC_CAUSE_TO_HOST) return out->locked = t, TC_OK;
    st = tc_value_copy(out);  // assigns write there: this is read later, or in another trace
  }
  tc_trace_unlock(t);
  return st;
}

void tc_value_end(const tc_stored *v) {
  if (v->locked) tc_trace_unlock(v->locked);
  tc_buffer_release(v->buf);
}
