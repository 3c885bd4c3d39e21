// Sync points: closes the pending trace, finds its plan, runs it, publishes what was stored and
// leaves a run where values or history remain.
#include <string.h>

#include "lazy/trace/thread_trace.h"
#include "device/gpu/ranges.h"
#include "lazy/sync/launch.h"
#include "lazy/sync/plan_build.h"
#include "lazy/sync/plan_cache.h"
#include "lazy/sync/plan_miss.h"
#include "lazy/sync/publish.h"
#include "lazy/sync/sync.h"
#include "lazy/sync/sync_record.h"
#include "lazy/trace/capture.h"
#include "lazy/trace/deferred_error.h"
#include "runtime/arena.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/profile.h"
#include "runtime/team.h"

static const char *const cause_names[TC_N_CAUSES] = {
    "item",         "to_host", "map",    "print",  "save", "eval",   "sync",     "bound", "landmark",
    "cross-thread", "eager",   "replay", "retake", "to",   "memory", "backward", "alias", "region"};

uint32_t tc_trace_close_key(tc_trace *t, int n_asked, const tc_node *asked, bool peek) {
  uint32_t flag_words = (t->n_node + 7) / 8, n = t->n_word + flag_words + 2;
  if (!TC_GROW(t->word, t->cap_word, n)) return 0;
  t->word[t->n_word + flag_words - (flag_words > 0)] = 0;
  uint8_t *flags = (uint8_t *)(t->word + t->n_word), in_key = peek ? TC_NODE_USER : (uint8_t)~TC_NODE_FREED_IN;
  for (uint32_t i = 0; i < t->n_node; i++) flags[i] = t->flag[i] & in_key;
  for (uint32_t i = 0; i < t->n_leaf && !peek; i++)
    if (tc_buffer_refs(t->leaf[i].buf) == 1 && t->leaf[i].buf->origin != TC_ORIGIN_BORROWED)
      flags[t->leaf[i].node] |= TC_NODE_SOLE;
  for (uint32_t i = 0; i < t->n_user && !peek; i++)  // beside the leaf only the assign that lands there holds it
    if (tc_buffer_refs(t->user[i].buf) == 2 && !t->user[i].buf->strided && !t->user[i].buf->aliased)
      flags[t->user[i].leaf_node] |= TC_NODE_SOLE;
  for (int i = 0; i < n_asked; i++) flags[asked[i]] |= TC_NODE_ASKED;
  const tc_options *o = tc_options_get();
  t->word[t->n_word + flag_words] =
      o->plan_class | (o->prepare ? TC_KEY_PREPARES : 0) | (uint64_t)tc_team_threads() << 40;
  t->word[t->n_word + flag_words + 1] = tc_plan_budget_now();
  return n;
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

// ---- running ----

// What a sync runs, and how that went.
typedef struct work {
  uint32_t n_rec_words, n_word;  // of the closed key
  tc_plan *plan;
  // space for what remains of it, allocated before the launch: after writes in place nothing may
  // fail; NULL: nothing remains
  tc_run *run;
  size_t beside;    // bytes taken for it, and for old content, where they are of the memory that the run is in
  bool hit, taken;  // taken: results have memory, which the trace holds
  // in ticks: what making the plan took, when it began to run, what getting new memory took until
  // then
  uint64_t compiled, launched, allocated;
  tc_work_done done;
} work;

// What publishing needs beside the results.
static tc_status take_beside(tc_trace *t, work *w) {
  size_t bytes = 0;
  TC_TRY(tc_spares_take(t, w->plan, &bytes));
  if (w->plan->leaves_run && !(w->run = tc_run_allocate(w->plan, t->n_past, t->n_param_node)))
    return TC_FAIL(TC_ERR_MEMORY, "no room for a run");
  if (w->run) bytes += w->run->memory->bytes;
  w->beside = t->n_node && tc_device_memory((tc_device)t->dev[0]) ? 0 : bytes;
  return TC_OK;
}

static tc_status run_plan(tc_trace *t, work *w, tc_sync_point *rec) {
  tc_free(w->done.times);
  w->done = (tc_work_done){0}, w->beside = 0;
  tc_status st = tc_plan_get(t, w->n_rec_words, w->n_word, &w->plan, &w->hit, &w->compiled);
  tc_buffer_peak_begin(t->n_node ? (tc_device)t->dev[0] : TC_DEVICE_CPU);
  if (st == TC_OK) st = tc_leaves_stage(t, w->plan);
  if (st == TC_OK) st = tc_outputs_take(t, w->plan);
  w->taken = st == TC_OK;
  if (st == TC_OK && !t->dropped) st = take_beside(t, w);
  w->allocated = tc_buffer_new_ticks(), w->launched = tc_ticks();
  return st == TC_OK ? tc_plan_launch(t, w->plan, &w->done, rec) : st;
}

// The plan of the key. Where memory for its constant cache is missing, the plan that computes those
// results in the run. Each run tries anew.
static tc_status run_pending(tc_trace *t, work *w, tc_sync_point *rec) {
  tc_error_mark before = tc_error_now();
  tc_status st = run_plan(t, w, rec);
  if (TC_LIKELY(!w->done.lacks_constants)) return st;
  (void)tc_error_tell(before);
  tc_taken_drop(t, w->plan);
  tc_run_release(w->run);
  tc_plan_release(w->plan);
  w->run = NULL, w->plan = NULL;
  t->word[w->n_word - 2] &= ~TC_KEY_PREPARES;
  return run_plan(t, w, rec);
}

// Defers the error of a failed run that has undone an assign, if no call may report it. That is
// where the program did not ask for the run, or another thread did. Where an op reports it,
// clearing the error settles it.
static void defer_undone(tc_trace *t, tc_cause cause, tc_site site, tc_status st) {
  static const bool is_asked[TC_N_CAUSES] = {
      [TC_CAUSE_ITEM] = true, [TC_CAUSE_TO_HOST] = true, [TC_CAUSE_MAP] = true,  [TC_CAUSE_PRINT] = true,
      [TC_CAUSE_SAVE] = true, [TC_CAUSE_EVAL] = true,    [TC_CAUSE_SYNC] = true, [TC_CAUSE_REPLAY] = true};
  bool silent = cause == TC_CAUSE_LANDMARK || cause == TC_CAUSE_EAGER || t != tc_trace_mine;
  uint32_t n = 0;
  while (n < t->n_node && tc_rec_op(tc_rec_of(t, n)) != TC_OP_ASSIGN) n++;
  if (n == t->n_node || (is_asked[cause] && t == tc_trace_mine)) return;
  tc_trace_defer_error(t, st, site, silent ? 0 : tc_error_clears());
}

// Hands the results over, or restores what the run did not make, for st. Returns the sync's status.
static tc_status publish(tc_trace *t, work *w, tc_cause cause, tc_site site, tc_status st) {
  tc_plan *p = w->plan;
  if (st == TC_OK) {
    if (w->run) tc_run_fill(w->run, t, false);
    for (uint32_t i = 0; TC_UNLIKELY(tc_profile_sequence != 0) && i < p->n_out; i++)
      tc_buffer_set_stored(t->out[i], tc_profile_sequence);
    st = tc_values_publish(t, p, w->run);
    if (st != TC_OK) defer_undone(t, cause, site, st);
    return st;
  }
  defer_undone(t, cause, site, st);
  if (p && !w->run) w->run = tc_run_allocate(p, t->n_past, t->n_param_node);
  if (w->run) tc_run_fill(w->run, t, true);
  tc_values_restore(t, w->run, st);
  return st;
}

static void fill_facts(tc_sync_point *rec, const work *w, tc_peak peak) {
  const tc_plan *p = w->plan;
  const tc_work_done *done = &w->done;
  rec->hash = p ? p->hash.lo : 0, rec->n_left = p ? p->n_left : 0,
  rec->tier = done->interpreted ? "interp"
              : p               ? p->tier
                                : "none";
  rec->n_kernels = p ? p->n_kernels + done->n_kernels : 0, rec->bytes = p ? p->bytes_moved + done->bytes : 0;
  rec->planned_bytes = peak.before_bytes + (p ? p->taken_bytes + done->taken_bytes : 0) + w->beside,
  rec->peak_bytes = peak.most_bytes;
  rec->replayed = done->replayed, rec->gpu_note = done->gpu_note, rec->copied_bytes = done->copied_bytes;
  rec->n_fallbacks = done->n_fallbacks, rec->fallback_bytes = done->fallback_bytes;
  rec->bound = p && !w->hit && p->is_bound, rec->hit = w->hit || rec->bound;
  rec->n_compiled = p && !w->hit ? p->n_compiled : 0;
}

// A body of control flow is being recorded: its inputs have no values.
static tc_status refuse_in_body(tc_site site) {
  return tc_fail(TC_ERR_STATE, tc_inside_call.op, site,
                 "a value is asked for inside the body of control flow, which is recorded once and has no values yet: "
                 "make it a carry or a result, and read it behind the call");
}

static tc_status sync_trace(tc_trace *t, tc_cause cause, tc_site site, int n_asked, const tc_node *asked) {
  if (TC_UNLIKELY(t->outline != NULL)) return refuse_in_body(site);
  if (t->n_node == t->n_leaf && n_asked == 0) {
    if (!t->dropped) tc_trace_reset(t);
    return TC_OK;
  }
  if (TC_UNLIKELY(t->capture != NULL) && !t->dropped) {
    bool may_pass = cause == TC_CAUSE_BOUND || cause == TC_CAUSE_CROSS_THREAD;
    (may_pass ? tc_capture_break_for_now : tc_capture_break)(t, "a sync point", cause_names[cause], site);
  }
  tc_pool_watch(t, site);
  uint64_t began = tc_ticks();
  tc_sync_point rec;  // every field is set here or at the end
  rec.cause = cause_names[cause], rec.site = site, rec.n_nodes = t->n_node, rec.n_wrong = 0;
  bool recorded = tc_sync_is_recorded();
  if (TC_UNLIKELY(recorded)) tc_profile_sequence = tc_profile_next_sequence(), began = tc_ticks();
  tc_sync_times times = {.first = t->first, .synced = t->synced, .began = began, .waited_first = tc_profile_waited};
  rec.before_ns = t->synced ? tc_ticks_between(t->synced, began) : 0;
  const tc_gpu_ranges *range = range_begin(t, &rec);
  bool peek = t->dropped;
  work w = {.n_rec_words = t->n_word, .n_word = tc_trace_close_key(t, n_asked, asked, peek), .launched = began};
  if (w.n_word && tc_log_on(TC_LOG_TRACE)) tc_trace_log(t, &rec);
  tc_status st = w.n_word ? run_pending(t, &w, &rec) : TC_FAIL(TC_ERR_MEMORY, "no room for a key");
  tc_plan *p = w.plan;
  tc_peak peak = tc_buffer_peak_end();
  uint64_t allocated = w.n_word ? tc_buffer_new_ticks() : 0, ran = tc_ticks();
  times.waited = tc_profile_waited;
  if (p && tc_log_on(TC_LOG_SYNC)) tc_plan_miss_note(t, w.hit || p->is_bound ? NULL : p, &rec);
  if (TC_UNLIKELY(recorded) && p && w.n_word) {
    tc_sync_record_plan(t, p, &rec);
    times.noting = tc_ticks_between(ran, tc_ticks());
  }
  if (!peek)
    st = publish(t, &w, cause, site, st);
  else if (st == TC_OK)
    tc_values_publish_asked(t, p, n_asked, asked);
  if (w.taken) tc_taken_drop(t, p);
  tc_run_release(w.run);
  if (!peek) tc_trace_reset(t);
  fill_facts(&rec, &w, peak);
  if (TC_UNLIKELY(range != NULL)) (void)range->pop();
  t->synced = tc_ticks();
  uint64_t before = tc_ticks_between(began, w.launched), running = tc_ticks_between(w.launched, ran),
           later = allocated - w.allocated;
  rec.compile_ns = w.compiled, rec.allocate_ns = allocated;
  rec.lookup_ns = before - TC_MIN(before, w.compiled + w.allocated), rec.run_ns = running - TC_MIN(running, later);
  rec.publish_ns = tc_ticks_between(ran, t->synced), rec.total_ns = tc_ticks_between(began, t->synced);
  rec.status = st;
  tc_profile_add(&rec);
  if (TC_UNLIKELY(recorded)) {
    times.launched = w.launched, times.ran = ran, times.published = t->synced, times.making = w.compiled;
    times.allocated_first = w.allocated, times.allocated = allocated;
    times.note = t->graph_note[0] ? t->graph_note : NULL;
    tc_sync_record(&rec, p, &w.done, &times, w.hit || !p ? TC_PROF_MISS_NONE : (uint32_t)tc_plan_miss(p));
    tc_profile_sequence = 0, t->first = 0, t->synced = tc_ticks(), t->graph_note[0] = '\0';
  }
  tc_free(w.done.times);
  tc_plan_release(p);
  return st;
}

// Another thread's trace is planned and run under the options of its thread.
tc_status tc_trace_sync(tc_trace *t, tc_cause cause, tc_site site, int n_asked, const tc_node *asked) {
  if (TC_LIKELY(t == tc_trace_mine)) return sync_trace(t, cause, site, n_asked, asked);
  const tc_options *mine = tc_options_mine;
  tc_options_mine = t->options;
  tc_status st = sync_trace(t, cause, site, n_asked, asked);
  tc_options_mine = mine;
  return st;
}

tc_status tc_trace_may_read(const tc_trace *t, tc_node n, tc_site site) {
  const tc_options *o = tc_options_get();
  bool refuses = *o->sync == 'e';
  if (TC_LIKELY(!refuses && !o->fullgraph)) return TC_OK;
  char place[160];
  tc_call by = t->call[n];
  tc_site_text(by.site, place, sizeof place);
  return tc_fail(TC_ERR_STATE, tc_inside_call.op, site, "%s: the value is pending, a %s at %s: %s",
                 refuses ? "TC_SYNC=error" : "fullgraph", by.op ? by.op : tc_op_names[tc_rec_op(tc_rec_of(t, n))],
                 place[0] ? place : "an unknown place",
                 refuses ? "call tc_eval or tc_sync before it is read"
                         : "read it after the region, or after a tc_eval that ends the graph");
}

tc_status tc_trace_make_way(tc_trace *t, tc_cause cause, tc_site site) {
  static const char *const why[TC_N_CAUSES] = {
      [TC_CAUSE_BOUND] = "are as many, or hold as much memory, as may be pending",
      [TC_CAUSE_ALIAS] = "have an assign to memory that another borrow covers, too",
      [TC_CAUSE_MEMORY] = "are in another memory"};
  bool one_graph = tc_options_get()->fullgraph;
  if (TC_UNLIKELY(t->record_only || one_graph))
    return tc_fail(TC_ERR_STATE, tc_inside_call.op, site,
                   "the %u records pending %s: they run before it, and this %s; call tc_sync before", t->n_node,
                   why[cause] ? why[cause] : "would run",
                   t->record_only ? "thread only records (tc_record_only_begin)" : "region is one graph (fullgraph)");
  tc_device d = t->n_node ? (tc_device)t->dev[0] : TC_DEVICE_CPU;
  bool has_users = t->n_user > 0;
  tc_error_mark before = tc_error_now();
  tc_status st = tc_trace_sync(t, cause, site, 0, NULL);
  if (st == TC_OK || has_users || !tc_device_absent(d)) return st;
  (void)tc_error_tell(before);
  return TC_OK;
}
