// Compiled functions: tc/compile.h.
//
// In: a function and a call's arguments. Out: its results, recorded.
// The arguments become nodes, guards find the graph that serves them, and its fragment is taken
// into the thread's trace. Where none serves, the function is traced for one more.
// Invariants: graphs are added, never changed or removed, before the compiled function ends.
// Threads: calls find graphs without a lock; adding one takes it. Owner: the caller of tc_compile.
#define TC_NO_SITES
#include <pthread.h>
#include <string.h>
#include <tc/compile.h>

#include "lazy/compile/guards.h"
#include "lazy/compile/same_graph.h"
#include "lazy/compile/trace_body.h"
#include "lazy/record/append.h"
#include "lazy/record/record.h"
#include "lazy/sync/open_ends.h"
#include "lazy/sync/sync.h"
#include "runtime/arena.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/profile_file.h"

enum {
  DEFAULT_LIMIT = 8,
  MOST_PASSING = 4  // failures to trace that may pass, until it is given up
};

typedef struct graph {
  tc_guards guards;
  tc_fragment *fragment;  // the graph's one reference
} graph;

struct tc_compiled {
  tc_compile_fn fn;
  void *user;
  const char *name;  // borrowed
  tc_static *statics;
  int n_statics, limit;
  bool fullgraph, has_region;
  tc_region_options region;  // of its calls, if it has one
  tc_site site;
  graph **graphs;  // limit of them
  _Atomic int n_graphs, latest;  // latest: the one taken last
  _Atomic bool is_recorded;  // true: it has no graph, and is recorded in each call
  _Atomic bool limit_told;
  _Atomic uint64_t n_calls, n_traced, n_recorded, n_checked;
  _Atomic int n_passing;  // failures to trace that may pass
  pthread_mutex_t lock;  // of adding graphs, and why
  char why[320];
};

// One call.
typedef struct call {
  tc_compiled *c;
  const tc_tensor *in;
  const double *num;
  tc_tensor *out;
  int n_in, n_num, n_out;
  tc_site site;
} call;

// ---- making and unmaking ----

static tc_status check_options(tc_compile_fn fn, const tc_compile_options *o, tc_site site) {
  if (!fn) return tc_fail(TC_ERR_ARG, "compile", site, "fn is NULL");
  if (o->limit < 0)
    return tc_fail(TC_ERR_ARG, "compile", site, "limit is %d; 0 is the default, %d", o->limit, DEFAULT_LIMIT);
  if (o->n_statics < 0 || (o->n_statics > 0 && !o->statics))
    return tc_fail(TC_ERR_ARG, "compile", site, "%d statics%s", o->n_statics,
                   o->n_statics < 0 ? "" : " at a null pointer");
  for (int i = 0; i < o->n_statics; i++)
    if (o->statics[i].bytes && !o->statics[i].data)
      return tc_fail(TC_ERR_ARG, "compile", site, "static %d has %zu bytes at a null pointer", i, o->statics[i].bytes);
  return TC_OK;
}

tc_compiled *tc_compile_at(tc_compile_fn fn, void *user, const tc_compile_options *options, tc_site site) {
  static const tc_compile_options none;
  const tc_compile_options *o = options ? options : &none;
  if (check_options(fn, o, site) != TC_OK) return NULL;
  int limit = o->limit ? o->limit : DEFAULT_LIMIT;
  tc_compiled *c = tc_calloc(1, sizeof *c);
  graph **graphs = tc_calloc((size_t)limit, sizeof *graphs);
  tc_static *statics = tc_malloc(((size_t)o->n_statics + 1) * sizeof *statics);
  if (!c || !graphs || !statics || pthread_mutex_init(&c->lock, NULL) != 0) {
    tc_free(c), tc_free(graphs), tc_free(statics);
    tc_fail(TC_ERR_MEMORY, "compile", site, "no room for a compiled function");
    return NULL;
  }
  if (o->n_statics) memcpy(statics, o->statics, (size_t)o->n_statics * sizeof *statics);
  c->fn = fn, c->user = user, c->name = o->name ? o->name : "compiled", c->site = site;
  c->fullgraph = o->fullgraph, c->limit = limit, c->has_region = o->region != NULL;
  if (o->region) c->region = *o->region;
  c->statics = statics, c->n_statics = o->n_statics, c->graphs = graphs;
  return c;
}

static void destroy_graph(graph *g) {
  tc_guards_free(&g->guards);
  tc_fragment_release(g->fragment);
  tc_free(g);
}

void tc_compiled_destroy(tc_compiled *c) {
  if (!c) return;
  for (int i = 0; i < atomic_load(&c->n_graphs); i++) destroy_graph(c->graphs[i]);
  pthread_mutex_destroy(&c->lock);
  tc_free(c->graphs), tc_free(c->statics), tc_free(c);
}

// ---- a call whose graph is known ----

// Whether arguments of this thread are in several memories, or in memory that another borrow
// covers, too: no graph holds them together.
static bool has_no_one_memory(const tc_trace *t, const call *k) {
  tc_device first = TC_DEVICE_CPU;
  bool has_first = false;
  for (int i = 0; i < k->n_in; i++) {
    tc_trace *owner;
    const tc_slot *s = tc_slot_find(k->in[i], &owner);
    if (!s || owner != t || s->gen != k->in[i].gen) continue;
    if (s->buf && atomic_load_explicit(&s->buf->aliased, memory_order_relaxed)) return true;
    tc_device d = (tc_device)s->device;
    if (!has_first) first = d, has_first = true;
    if (d != first && tc_device_memory(d) != tc_device_memory(first)) return true;
  }
  return false;
}

// The nodes of the arguments and numbers, in the trace's scratch. NULL after reporting.
static tc_node *take_arguments(tc_trace *t, const call *k) {
  uint32_t n = (uint32_t)(k->n_in + k->n_num);
  if (!TC_GROW(t->operand, t->cap_operand, n + 1)) return tc_rec_fail(t, TC_ERR_MEMORY, "no room to record"), NULL;
  for (int i = 0; i < k->n_in; i++)
    if ((t->operand[i] = tc_op_in(t, k->in[i])) == TC_NODE_ERR) return NULL;
  for (int i = 0; i < k->n_num; i++)
    if ((t->operand[k->n_in + i] = tc_rec_full(t, &(tc_dims){0}, TC_F32, k->num[i])) == TC_NODE_ERR) return NULL;
  return t->operand;
}

static tc_call_facts facts_of(const call *k, const tc_node *arg) {
  return (tc_call_facts){.in = k->in,
                         .num = k->num,
                         .n_in = k->n_in,
                         .n_num = k->n_num,
                         .n_out = k->n_out,
                         .node = arg,
                         .statics = k->c->statics,
                         .n_statics = k->c->n_statics};
}

// Whether the graph serves the call; its operands are in the trace's scratch, behind the arguments.
static bool serves(tc_trace *t, const graph *g, const tc_call_facts *facts, tc_guard_failure *failed) {
  const tc_fragment *f = g->fragment;
  uint32_t n_arg = (uint32_t)(facts->n_in + facts->n_num);
  if (!tc_guards_hold(t, &g->guards, f, facts, failed)) return false;
  if (!TC_GROW(t->operand, t->cap_operand, n_arg + f->n_operand + 1))
    return tc_rec_fail(t, TC_ERR_MEMORY, "no room to record"), false;
  tc_node *operand = t->operand + n_arg;
  if (!tc_fragment_operands(t, f, t->operand, operand)) return false;
  if (!tc_guards_hold_operands(t, f, operand, failed)) return false;
  return true;
}

// The graph that serves a call, from the *nth to be asked on: the latest first. NULL: none does,
// and *failed says what kept the latest from it, or the op has failed.
static const graph *find_graph(tc_trace *t, const call *k, int *nth, tc_guard_failure *failed) {
  tc_compiled *c = k->c;
  int n = atomic_load_explicit(&c->n_graphs, memory_order_acquire);
  int latest = atomic_load_explicit(&c->latest, memory_order_relaxed);
  tc_guard_failure other;
  for (; *nth < n; ++*nth) {
    int g = *nth == 0 ? latest : *nth <= latest ? *nth - 1 : *nth;
    tc_call_facts facts = facts_of(k, t->operand);
    if (serves(t, c->graphs[g], &facts, *nth == 0 ? failed : &other)) return c->graphs[g];
    if (t->op_status != TC_OK) return NULL;
  }
  return NULL;
}

static void make_latest(tc_compiled *c, const graph *g) {
  int n = 0;
  while (c->graphs[n] != g) n++;
  atomic_store_explicit(&c->latest, n, memory_order_relaxed);
}

static bool take_fragment(tc_trace *t, const call *k, const tc_fragment *f) {
  const tc_node *operand = t->operand + k->n_in + k->n_num;
  tc_node first = tc_fragment_append(t, f, operand);
  if (first == TC_NODE_ERR || !tc_fragment_effects(t, f, k->in, operand, first) ||
      !tc_fragment_results(t, f, k->in, operand, first, k->out))
    return false;
  if (f->has_landmark) tc_rec_landmark(t);
  return true;
}

// What a call that finds no graph tells of it.
typedef struct miss {
  bool several;  // true: its arguments are in several memories
  char text[512];
} miss;

// *taken false with TC_OK: no graph serves the call.
static tc_status take_call(const call *k, bool *taken, miss *m) {
  tc_guard_failure failed = {TC_GUARD_HOLDS};
  *taken = false;
  tc_trace *t = tc_op_begin("compiled_call", k->site);
  if (TC_UNLIKELY(has_no_one_memory(t, k))) return m->several = true, tc_op_done(t);
  const tc_node *arg = t->op_status == TC_OK ? take_arguments(t, k) : NULL;
  const graph *g = NULL;
  int nth = 0;
  for (; arg && !*taken && (g = find_graph(t, k, &nth, &failed)) != NULL; nth++) {
    *taken = take_fragment(t, k, g->fragment);
    if (TC_UNLIKELY(t->op_status != TC_OK)) break;
    if (nth == 0 && !*taken) failed.kind = TC_GUARD_OWNER;
    if (nth && *taken) make_latest(k->c, g);
  }
  if (!*taken && arg && t->op_status == TC_OK && failed.kind != TC_GUARD_HOLDS) {
    const graph *latest = k->c->graphs[atomic_load_explicit(&k->c->latest, memory_order_relaxed)];
    tc_call_facts facts = facts_of(k, t->operand);
    tc_guards_tell(t, &latest->guards, latest->fragment, &facts, &failed, m->text, sizeof m->text);
  }
  return tc_op_done(t);
}

// ---- a call that is recorded, or traced ----

static void poison_results(const call *k, tc_status st) {
  for (int i = 0; i < k->n_out; i++) k->out[i] = tc_poison(st);
}

// The arguments and numbers as tensors; NULL after reporting.
static tc_tensor *make_tensors(const call *k) {
  tc_tensor *all = tc_malloc(((size_t)k->n_in + (size_t)k->n_num + 1) * sizeof *all);
  if (!all) return tc_fail(TC_ERR_MEMORY, "compiled_call", k->site, "no room for %d arguments", k->n_in), NULL;
  if (k->n_in) memcpy(all, k->in, (size_t)k->n_in * sizeof *all);
  for (int i = 0; i < k->n_num; i++) {
    tc_trace *t = tc_op_begin("compiled_call", k->site);
    if (k->n_in) (void)tc_op_in(t, k->in[0]);  // beside which it is made
    all[k->n_in + i] = tc_op_end(t, tc_rec_full(t, &(tc_dims){0}, TC_F32, k->num[i]));
  }
  return all;
}

static tc_status record_call(const call *k) {
  atomic_fetch_add_explicit(&k->c->n_recorded, 1, memory_order_relaxed);
  for (int i = 0; i < k->n_out; i++) k->out[i] = (tc_tensor){0, 0};
  tc_tensor *all = make_tensors(k);
  tc_open_ends before = tc_open_ends_now();
  tc_status st = all ? k->c->fn(k->c->user, all, k->n_in + k->n_num, k->out, k->n_out) : TC_ERR_MEMORY;
  tc_status open = tc_open_ends_check(&before, "compiled_call", "the function", k->site);
  if (st == TC_OK) st = open;
  tc_free(all);
  if (st != TC_OK) poison_results(k, st);
  return st;
}

static tc_status fail_without_graph(const tc_compiled *c, const char *why, tc_site site) {
  return tc_fail(TC_ERR_STATE, "compiled_call", site, "%s has no graph, which fullgraph asks for: it has %s", c->name,
                 why);
}

// The function is recorded from now on; said once.
static tc_status give_up(tc_compiled *c, const char *why, tc_site site) {
  char place[160];
  pthread_mutex_lock(&c->lock);
  bool first = !atomic_exchange(&c->is_recorded, true);
  if (first) snprintf(c->why, sizeof c->why, "%s", why);
  pthread_mutex_unlock(&c->lock);
  if (c->fullgraph) return fail_without_graph(c, why, site);
  tc_site_text(c->site, place, sizeof place);
  if (first && tc_log_on(TC_LOG_GUARDS))
    tc_log_line(TC_LOG_GUARDS, "%s, compiled at %s, is recorded in each call: it has %s", c->name,
                place[0] ? place : "an unknown place", why);
  return TC_OK;
}

// What refers to numbers as if they were tensors of the caller's.
static bool uses_number_as_tensor(const call *k, const tc_fragment *f) {
  bool uses = false;
  for (uint32_t i = 0; i < f->n_assign; i++) uses |= f->assign[i].arg >= k->n_in;
  for (uint32_t i = 0; i < f->n_result; i++)
    uses |= f->result[i].kind == TC_RESULT_ARG && f->result[i].number >= (uint32_t)k->n_in;
  return uses;
}

static graph *make_graph(const call *k, tc_fragment *f) {
  graph *g = tc_calloc(1, sizeof *g);
  tc_trace *t = tc_op_begin("compiled_call", k->site);
  const tc_node *arg = g && t->op_status == TC_OK ? take_arguments(t, k) : NULL;
  tc_call_facts facts = facts_of(k, arg);
  bool ok = arg && tc_guards_make(t, &facts, &g->guards);
  tc_status st = tc_op_done(t);
  if (ok && st == TC_OK) return g->fragment = f, g;
  if (g) tc_guards_free(&g->guards);
  tc_free(g);
  if (st == TC_OK) tc_fail(TC_ERR_MEMORY, "compiled_call", k->site, "no room for guards");
  return NULL;
}

// why: the guard that kept the latest graph from serving the call. "": there was none.
static void tell_graph(const tc_compiled *c, int n, uint32_t n_records, const char *why) {
  const char *colon = why[0] ? ": " : "";
  if (tc_log_on(TC_LOG_GUARDS))
    tc_log_line(TC_LOG_GUARDS, "%s: traced for graph %d, %u records%s%s", c->name, n, n_records, colon, why);
  tc_trace *t = tc_profile_is_on() ? tc_trace_mine : NULL;
  if (t) snprintf(t->graph_note, sizeof t->graph_note, "%s was traced for graph %d%s%.200s", c->name, n, colon, why);
}

// Adds a graph, which becomes c's. False: there are too many.
static bool add_graph(tc_compiled *c, graph *g, const miss *m) {
  pthread_mutex_lock(&c->lock);
  int n = atomic_load(&c->n_graphs);
  bool room = n < c->limit;
  if (room) {
    c->graphs[n] = g;
    atomic_store_explicit(&c->n_graphs, n + 1, memory_order_release);
    atomic_store(&c->latest, n);
  }
  pthread_mutex_unlock(&c->lock);
  if (room) tell_graph(c, n, g->fragment->n_node, m->text);
  return room;
}

static tc_status trace_fragment(const call *k, tc_fragment **f, tc_no_fragment *why) {
  tc_tensor *all = make_tensors(k);
  if (!all) return TC_ERR_MEMORY;
  tc_status st =
      tc_body_trace("compiled_call", k->c->fn, k->c->user, all, k->n_in + k->n_num, k->out, k->n_out, k->site, f, why);
  for (int i = 0; i < k->n_num; i++) tc_release_at(all[k->n_in + i], 0);
  tc_free(all);
  return st;
}

static tc_status trace_call(const call *k, miss *m) {
  tc_compiled *c = k->c;
  tc_fragment *f;
  tc_no_fragment why;
  bool taken;
  atomic_fetch_add_explicit(&c->n_traced, 1, memory_order_relaxed);
  TC_TRY(trace_fragment(k, &f, &why));
  if (!f) {
    bool again = why.may_pass && atomic_fetch_add_explicit(&c->n_passing, 1, memory_order_relaxed) + 1 < MOST_PASSING;
    tc_status st = !again         ? give_up(c, why.text, k->site)
                   : c->fullgraph ? fail_without_graph(c, why.text, k->site)
                                  : TC_OK;
    if (st != TC_OK) poison_results(k, st);
    return st;
  }
  if (uses_number_as_tensor(k, f)) {
    tc_fragment_release(f);
    TC_TRY(give_up(c, "a number that it assigns or returns", k->site));
    return record_call(k);
  }
  graph *g = make_graph(k, f);
  if (!g) return tc_fragment_release(f), tc_last_error()->status;
  if (!add_graph(c, g, m)) return destroy_graph(g), record_call(k);
  tc_status st = take_call(k, &taken, m);
  if (taken || st != TC_OK) return st;
  TC_TRY(give_up(c, m->text, k->site));
  return record_call(k);
}

// No graph serves, and there are as many as may be.
static tc_status exceed_limit(const call *k, const miss *m) {
  tc_compiled *c = k->c;
  if (c->fullgraph)
    return tc_fail(TC_ERR_STATE, "compiled_call", k->site, "%s needs another graph than its %d, the limit: %s", c->name,
                   c->limit, m->text);
  if (!atomic_exchange(&c->limit_told, true)) {
    pthread_mutex_lock(&c->lock);
    snprintf(c->why, sizeof c->why, "it needs more than %d graphs: %.200s", c->limit, m->text);
    pthread_mutex_unlock(&c->lock);
    if (tc_log_on(TC_LOG_GUARDS))
      tc_log_line(TC_LOG_GUARDS, "%s: calls that none of its %d graphs, the limit, serves are recorded: %s", c->name,
                  c->limit, m->text);
  }
  return record_call(k);
}

// ---- TC_CHECK_COMPILED ----

// Traces the function and compares with the graph that serves the call, if there is one.
static tc_status check_graph(const call *k) {
  tc_fragment *f;
  tc_no_fragment why;
  char text[512] = "";
  tc_guard_failure failed = {TC_GUARD_HOLDS};
  tc_trace *t = tc_op_begin("compiled_call", k->site);
  const tc_node *arg = t->op_status == TC_OK ? take_arguments(t, k) : NULL;
  int nth = 0;
  const graph *g = arg ? find_graph(t, k, &nth, &failed) : NULL;
  tc_status st = tc_op_done(t);
  if (st != TC_OK || !g) return st;
  atomic_fetch_add_explicit(&k->c->n_checked, 1, memory_order_relaxed);
  TC_TRY(trace_fragment(k, &f, &why));
  if (!f)
    tc_text_append(text, sizeof text, "it has %s now", why.text);
  else
    (void)tc_fragment_same(g->fragment, f, text, sizeof text);
  tc_fragment_release(f);
  if (!text[0]) return TC_OK;
  return tc_fail(
      TC_ERR_STATE, "compiled_call", k->site,
      "TC_CHECK_COMPILED: what %s reads in C has changed its graph: %s; make that an argument, a number or a static",
      k->c->name, text);
}

// ---- calls ----

static tc_status check_call(const call *k) {
  if (!k->c) return tc_fail(TC_ERR_ARG, "compiled_call", k->site, "no compiled function");
  if (k->n_in < 0 || (k->n_in > 0 && !k->in))
    return tc_fail(TC_ERR_ARG, "compiled_call", k->site, "%d arguments%s", k->n_in,
                   k->n_in < 0 ? "" : " at a null pointer");
  if (k->n_num < 0 || (k->n_num > 0 && !k->num))
    return tc_fail(TC_ERR_ARG, "compiled_call", k->site, "%d numbers%s", k->n_num,
                   k->n_num < 0 ? "" : " at a null pointer");
  if (k->n_out < 0 || (k->n_out > 0 && !k->out))
    return tc_fail(TC_ERR_ARG, "compiled_call", k->site, "%d results%s", k->n_out,
                   k->n_out < 0 ? "" : " at a null pointer");
  return TC_OK;
}

// A function over several memories has sync points between them.
static tc_status refuse_several(const call *k) {
  if (k->c->fullgraph)
    return tc_fail(TC_ERR_DEVICE, "compiled_call", k->site,
                   "arguments are in several memories, and fullgraph asks for one graph");
  return record_call(k);
}

static tc_status run_call(const call *k, uint64_t nth) {
  tc_compiled *c = k->c;
  miss m = {.several = false};
  bool taken;
  const tc_options *o = tc_options_get();
  if (TC_UNLIKELY(atomic_load_explicit(&c->is_recorded, memory_order_relaxed))) {
    if (c->fullgraph) return give_up(c, c->why, k->site);
    return record_call(k);
  }
  if (TC_UNLIKELY(o->eager)) return record_call(k);
  if (TC_UNLIKELY(o->check_compiled > 0) && nth % (uint64_t)o->check_compiled == 0 && atomic_load(&c->n_graphs))
    TC_TRY(check_graph(k));
  tc_status st = take_call(k, &taken, &m);
  if (TC_LIKELY(taken) || st != TC_OK) return st;
  if (m.several) return refuse_several(k);
  return atomic_load(&c->n_graphs) < c->limit ? trace_call(k, &m) : exceed_limit(k, &m);
}

tc_status tc_compiled_call_with_at(tc_compiled *c, const tc_tensor *in, int n_in, const double *num, int n_num,
                                   tc_tensor *out, int n_out, tc_site site) {
  const call k = {.c = c, .in = in, .num = num, .out = out, .n_in = n_in, .n_num = n_num, .n_out = n_out, .site = site};
  TC_TRY(check_call(&k));
  tc_status st = TC_UNLIKELY(c->has_region) ? tc_region_begin_at(&c->region, site) : TC_OK;
  if (st == TC_OK) st = run_call(&k, atomic_fetch_add_explicit(&c->n_calls, 1, memory_order_relaxed) + 1);
  if (TC_UNLIKELY(c->has_region)) tc_region_end_at(site);
  if (TC_UNLIKELY(st != TC_OK)) poison_results(&k, st);
  return st;
}

tc_status tc_compiled_call_at(tc_compiled *c, const tc_tensor *in, int n_in, tc_tensor *out, int n_out, tc_site site) {
  return tc_compiled_call_with_at(c, in, n_in, NULL, 0, out, n_out, site);
}

// ---- questions ----

tc_compiled_info tc_compiled_stats(const tc_compiled *c) {
  tc_compiled_info info = {0};
  if (!c) return info;
  info.n_graphs = atomic_load(&c->n_graphs), info.n_calls = atomic_load(&c->n_calls);
  info.n_traced = atomic_load(&c->n_traced), info.n_recorded = atomic_load(&c->n_recorded);
  info.n_checked = atomic_load(&c->n_checked);
  pthread_mutex_lock((pthread_mutex_t *)&c->lock);
  memcpy(info.why_recorded, c->why, sizeof info.why_recorded);
  pthread_mutex_unlock((pthread_mutex_t *)&c->lock);
  uint64_t others = info.n_traced + info.n_recorded;
  info.n_taken = info.n_calls > others ? info.n_calls - others : 0;
  return info;
}

size_t tc_compiled_guards(const tc_compiled *c, int n, char *out, size_t bytes) {
  char text[8192] = "";
  if (!c || n < 0 || n >= atomic_load_explicit(&c->n_graphs, memory_order_acquire)) return 0;
  const graph *g = c->graphs[n];
  tc_guards_text(&g->guards, g->fragment, c->statics, c->n_statics, text, sizeof text);
  size_t length = strlen(text), most = bytes ? TC_MIN(length, bytes - 1) : 0;
  if (bytes) memcpy(out, text, most), out[most] = '\0';
  return length;
}
