// Regions: a name and options that a thread has for a while, and options of the process.
//
// All of a trace was recorded under options that make the same plans. Where a region of others
// begins or ends, the trace is cut.
// In: fields of a region. Out: tc_options_mine, and the trace's copy. By that copy another thread
// that runs the trace plans it as the one that recorded it.
// Threads: a region is its thread's; tc_set_options is thread-safe. Owner: the thread.
#define TC_NO_SITES
#include <string.h>

#include "lazy/lowering.h"
#include "lazy/sync/graph_backend.h"
#include "lazy/sync/plan_build.h"
#include "lazy/sync/region.h"
#include "lazy/sync/sync.h"
#include "lazy/trace/deferred_error.h"
#include "lazy/trace/thread_trace.h"
#include "runtime/arena.h"
#include "runtime/option_sets.h"
#include "runtime/reentry.h"

// ---- fields as text ----

typedef struct text {
  char data[4096];
  size_t n;
} text;

static void add_pair(text *t, const char *key, const char *value) {
  int n = snprintf(t->data + t->n, sizeof t->data - t->n, "%s%s=%s", t->n ? "," : "", key, value);
  t->n += (size_t)n;
}

static tc_status add_setting(text *t, const char *key, tc_setting is, const char *const words[4], const char *op,
                             tc_site site) {
  if (is == TC_INHERIT) return TC_OK;
  if ((unsigned)is > TC_AUTO || !words[is])
    return tc_fail(TC_ERR_ARG, op, site, "%s is %d, not TC_INHERIT, TC_ON or TC_OFF%s", key, (int)is,
                   words[TC_AUTO] ? " or TC_AUTO" : "");
  add_pair(t, key, words[is]);
  return TC_OK;
}

static tc_status write_fields(const tc_region_options *o, text *t, const char *op, tc_site site) {
  static const char *const on_off[4] = {NULL, "1", "0", NULL}, *const sizes[4] = {NULL, "1", "0", "auto"};
  const char *of_fn = NULL;
  if (o->backend && o->backend_fn)
    return tc_fail(TC_ERR_ARG, op, site, "both backend '%.64s' and backend_fn are given", o->backend);
  if (o->backend_fn && !(of_fn = tc_backend_name_of(o->backend_fn, o->backend_user, op, site)))
    return tc_last_error()->status;
  t->n = 0, t->data[0] = 0;
  size_t all =
      (o->mode ? strlen(o->mode) : 0) + (o->backend ? strlen(o->backend) : 0) + (o->options ? strlen(o->options) : 0);
  if (all + 256 > sizeof t->data)
    return tc_fail(TC_ERR_ARG, op, site, "the options are longer than %zu bytes", sizeof t->data - 256);
  if (o->mode) add_pair(t, "mode", o->mode);
  TC_TRY(add_setting(t, "fullgraph", o->fullgraph, on_off, op, site));
  TC_TRY(add_setting(t, "dynamic", o->dynamic, sizes, op, site));
  TC_TRY(add_setting(t, "disable", o->disable, on_off, op, site));
  if (o->backend || of_fn) add_pair(t, "backend", of_fn ? of_fn : o->backend);
  if (o->options && *o->options)
    t->n += (size_t)snprintf(t->data + t->n, sizeof t->data - t->n, "%s%s", t->n ? "," : "", o->options);
  return TC_OK;
}

// The options of these fields over others; the same where no field gives any.
static tc_status resolve(const tc_region_options *o, const tc_options *under, bool region, const char *op, tc_site site,
                         const tc_options **out) {
  text t;
  *out = under;
  TC_TRY(write_fields(o, &t, op, site));
  if (t.n == 0) return TC_OK;
  TC_TRY(tc_options_overlay(under, t.data, region, op, site, out));
  tc_status st = strcmp((*out)->backend, under->backend) == 0 ? TC_OK : tc_backend_check((*out)->backend, op, site);
  if (st != TC_OK) *out = under;
  return st;
}

// ---- cutting the trace ----

// pre: locked. What is alive is stored: later it would be computed under other options.
static tc_status run_all(tc_trace *t, tc_site site) {
  tc_node *asked = tc_malloc((t->n_node + 1) * sizeof *asked);
  int n = 0;
  if (!asked) return tc_fail(TC_ERR_MEMORY, tc_inside_call.op, site, "no room to run what is pending");
  for (uint32_t i = 0; i < t->n_node; i++)
    if ((t->flag[i] & TC_NODE_LIVE) && tc_rec_op(tc_rec_of(t, i)) != TC_OP_LEAF) asked[n++] = i;
  tc_status st = tc_trace_sync(t, TC_CAUSE_REGION, site, n, asked);
  tc_free(asked);
  return st;
}

// Runs what this thread has pending, where `now` would make other plans of it. begins: a region
// does, else one ends. A body of control flow cannot run: it fails when it ends.
static tc_status cut(const tc_options *was, const tc_options *now, bool begins, tc_site site) {
  tc_trace *t = tc_trace_mine;
  if (was->plan_class == now->plan_class || !t) return TC_OK;
  tc_biased_lock_own(&t->lock);
  tc_status st = TC_OK;
  bool pending = t->n_node > t->n_leaf;
  if (t->outline)
    t->body_fault = "begins a region whose options make other plans; begin it around the call";
  else if (pending && (t->record_only || (begins && was->fullgraph)))
    st = tc_fail(TC_ERR_STATE, tc_inside_call.op, site,
                 "%u records are pending that other options were set for, and would run before these: %s",
                 t->n_node - t->n_leaf,
                 t->record_only ? "this thread only records (tc_record_only_begin, tc_export)"
                                : "they are in a region with fullgraph, which would be cut");
  else if (pending)
    st = run_all(t, site);
  tc_biased_unlock_own(&t->lock);
  return st;
}

static void set_mine(const tc_options *o) {
  tc_trace *t = tc_trace_mine;
  tc_options_mine = o;
  if (!t) return;
  tc_biased_lock_own(&t->lock);
  t->options = o;
  tc_trace_set_bounds(t);
  tc_biased_unlock_own(&t->lock);
}

// ---- public functions ----

static bool gives_options(const tc_region_options *o) {
  return o->mode || o->fullgraph || o->dynamic || o->disable || o->backend || o->backend_fn || o->options;
}

static tc_status begin(const tc_region_options *o, tc_site site) {
  const tc_options *outside = tc_options_mine, *was = tc_options_get(), *now = was;
  tc_status st = tc_region_push(o ? o->name : NULL, outside, site);
  if (st != TC_OK) return st;
  if (!o || (o->name ? !*o->name : !gives_options(o)))
    return tc_fail(TC_ERR_ARG, "region_begin", site, "%s",
                   o && o->name ? "the region's name is empty" : "a region needs a name or an option");
  TC_TRY(resolve(o, was, true, "region_begin", site, &now));
  if (now == was) return TC_OK;
  TC_TRY(cut(was, now, true, site));
  return set_mine(now), TC_OK;
}

tc_status tc_region_begin_at(const tc_region_options *o, tc_site site) {
  if (!tc_enter("region_begin", site)) return TC_ERR_STATE;
  tc_status st = begin(o, site);
  tc_leave();
  return tc_defer_error(st, site);
}

void tc_region_end_at(tc_site site) {
  const tc_options *outside;
  if (!tc_enter("region_end", site)) return;
  tc_status st = TC_OK;
  if (!tc_region_pop(&outside)) {
    (void)tc_fail(TC_ERR_STATE, "region_end", site, "no region is open in this thread");
  } else if (outside != tc_options_mine) {
    st = cut(tc_options_get(), outside ? outside : tc_options_of_process(), false, site);
    set_mine(outside);
  }
  tc_leave();
  (void)tc_defer_error(st, site);
}

tc_status tc_region_check(uint32_t depth, const char *op, const char *what, tc_site site) {
  char place[160];
  uint32_t now = tc_region_depth();
  if (TC_LIKELY(now == depth)) return TC_OK;
  if (now < depth)
    return tc_fail(TC_ERR_STATE, op, site, "%s has ended a region that it did not begin: remove that tc_region_end",
                   what);
  while (tc_region_depth() > depth + 1) tc_region_end_at(site);
  tc_site_text(tc_region_site(), place, sizeof place);
  tc_region_end_at(site);
  return tc_fail(TC_ERR_STATE, op, site,
                 "%s has not ended %u of its regions, the first begun at %s: call tc_region_end", what, now - depth,
                 place[0] ? place : "an unknown place");
}

static tc_status set_process(const tc_region_options *o, tc_site site) {
  const tc_options *was, *now;
  if (!o || o->name)
    return tc_fail(TC_ERR_ARG, "set_options", site, "%s", o ? "a name is a region's" : "they are NULL");
  do {
    was = tc_options_of_process();
    TC_TRY(resolve(o, was, false, "set_options", site, &now));
    if (!tc_options_mine) TC_TRY(cut(was, now, true, site));
  } while (!tc_options_publish(was, now));
  if (now->memory_budget != was->memory_budget) tc_plan_set_budget((uint64_t)now->memory_budget);
  return TC_OK;
}

tc_status tc_set_options_at(const tc_region_options *o, tc_site site) {
  if (!tc_enter("set_options", site)) return TC_ERR_STATE;
  tc_status st = set_process(o, site);
  tc_leave();
  return st;
}

const char *tc_list_options(int i, const char **out_meaning) {
  for (int row = 0; row < TC_N_OPTION_ROWS && i >= 0; row++) {
    if (tc_option_rows[row].by == TC_BY_start || i-- > 0) continue;
    if (out_meaning) *out_meaning = tc_option_rows[row].meaning;
    return tc_option_rows[row].key;
  }
  return NULL;
}

const char *tc_list_modes(int i, const char **out_meaning) {
  return tc_option_mode(i, out_meaning);
}

tc_status tc_reset_at(tc_site site) {
  if (tc_inside) return tc_refuse_inside("reset", site);
  tc_cache_clear();
  return TC_OK;
}
