// Sequences of launches whose kernels read one table in device memory.
//
// The table is written by kernels of its own, whose by-value parameter holds the words. The driver
// copies the parameter at the launch, so the next run can be launched while this one runs. The
// line's order keeps the runs of a sequence apart, so one table is enough. The second run makes a
// graph of all kernels, in one straight chain. From then on a run patches the first nodes and
// launches the graph.
// A library's call cannot be patched: its addresses, the guard, are fixed in the graph. A run with
// other addresses uses another graph, or makes one when they come again. If addresses keep
// changing, one graph has memory of its own for the operands that move, and copies them
// (graph_copies.h).
// Threads: under the device's lock, so two threads in one sequence alternate.
#include <string.h>

#include "device/gpu/graph_copies.h"
#include "device/gpu/state.h"
#include "runtime/arena.h"
#include "runtime/log.h"
#include "runtime/options.h"

#define NO_GRAPH "the driver refused to make or launch its graph"
#define NO_ROOM "memory was short for its graph"
// Graphs of a sequence, each for other addresses of its calls. Results that the program keeps
// alternate with earlier ones, so a few sets of addresses come. A graph may be replaced when it was
// not launched for UNUSED_RUNS runs. If more sets come than GRAPHS, one graph more copies operands
// for sets without a graph. Since then a set gets a graph of its own when it has come STEADY_RUNS
// times.
#define GRAPHS 4
#define UNUSED_RUNS 64
#define STEADY_RUNS 8

typedef struct fill {
  uint32_t first, n, size;  // words of the table; size: which kernel
} fill;

// The graph for runs with these addresses.
typedef struct graph {
  uint64_t *guard;  // a word for each address of the calls
  uint64_t last;  // the latest run with these addresses; 0: none
  uint32_t n_met;  // runs with these addresses
  tc_gpu_replay *replay;  // NULL: not made yet
  tc_gpu_retired *retired;  // allocated ahead, so that retiring the graph cannot fail
} graph;

struct tc_gpu_sequence {
  tc_gpu *g;
  uint64_t opened, runs;
  uint32_t n, n_words, n_fills, n_calls, n_sets;  // n_sets: sets of addresses met, at most GRAPHS + 1
  const char *refused;  // why making the graph is not tried again, static; NULL: it may be
  const char *_Atomic plain;  // why the last run was no replay; NULL: it was one
  uint64_t *table;  // on the device
  tc_holder holder;  // of the table
  uint64_t *value;  // the parameter of the kernel that writes words, while it is launched
  fill *fill;
  tc_gpu_launch *launch;
  uint64_t **first;  // a kernel's parameter for each launch: where its words begin
  tc_gpu_request *request;  // one for each library's call, in order
  graph graph[GRAPHS];  // without calls the first alone is used; its guard is empty
  tc_gpu_graph_copies copies;  // the operands that the next one copies
  graph copying;  // used only with calls
  const char *fixed;  // why there is no such graph, static; NULL: there may be
  _Atomic size_t copied_bytes;  // by the last run
};

// ---- the kernels that write tables ----

static tc_status fills_plan(tc_gpu_sequence *s) {
  tc_gpu *g = s->g;
  uint32_t most = tc_gpu_fill_most(g);
  s->n_fills = (s->n_words + most - 1) / most;
  s->fill = tc_calloc(s->n_fills, sizeof *s->fill);
  s->value = tc_calloc(most + TC_GPU_FILL_HEAD, sizeof *s->value);
  if (!s->fill || !s->value) return TC_FAIL(TC_ERR_MEMORY, "no memory for a sequence of %u kernels", s->n);
  for (uint32_t i = 0; i < s->n_fills; i++) {
    fill *f = &s->fill[i];
    f->first = i * most, f->n = TC_MIN(most, s->n_words - f->first), f->size = tc_gpu_fill_size(f->n);
  }
  for (uint32_t missing = tc_gpu_own_missing(g, s->n_words, s->n_calls > 0), i = 0; missing >> i; i++)
    if (missing >> i & 1) TC_TRY(tc_gpu_own_make(g, i));
  return TC_OK;
}

static tc_gpu_node fill_node(tc_gpu_sequence *s, uint32_t i, const uint64_t *words) {
  const fill *f = &s->fill[i];
  s->value[0] = (uint64_t)(uintptr_t)(s->table + f->first), s->value[1] = f->n;
  memcpy(s->value + TC_GPU_FILL_HEAD, words + f->first, f->n * sizeof *words);
  return (tc_gpu_node){
      .function = s->g->fill[f->size]->loaded.function, .blocks = 1, .threads = 128, .parameter = s->value};
}

// Returns how many of them are nodes of a graph; the others are launched before it.
static uint32_t n_fills_within(const tc_gpu_sequence *s) {
  return s->g->driver->entry->replay_is_fixed ? 0 : s->n_fills;
}

static void *pointer_of(uint64_t word) {
  return (void *)(uintptr_t)word;
}

// Returns the node of launch i. *n_before counts calls of libraries. x is the graph that it is for;
// NULL: it is launched.
static tc_gpu_node launch_node(tc_gpu_sequence *s, uint32_t i, const graph *x, const uint64_t *words,
                               uint32_t *n_before) {
  const tc_gpu_launch *l = &s->launch[i];
  const tc_gpu_call *c = l->call;
  if (c) {
    void *at[TC_GPU_ADDRESSES];
    uint32_t first = *n_before * TC_GPU_ADDRESSES;
    for (uint32_t k = 0; k < TC_GPU_ADDRESSES; k++) {
      uint64_t word = words[l->first_word + k];
      at[k] = x == &s->copying ? tc_gpu_graph_copies_at(&s->copies, first + k, word) : pointer_of(word);
    }
    tc_gpu_request *r = &s->request[(*n_before)++];
    *r = (tc_gpu_request){c->work.library, c->made, &c->algorithm, at[0], at[1], at[3], at[2], at[4]};
    return (tc_gpu_node){.request = r};
  }
  return (tc_gpu_node){l->code->loaded.function, l->blocks, l->threads, l->shared_bytes, &s->first[i], NULL};
}

// ---- making one ----

static const char *name_of(const tc_gpu_launch *l) {
  return l->call ? l->call->name : l->code->name;
}

static tc_status launch_check(tc_gpu *g, const tc_gpu_launch *l, uint32_t n_words) {
  const tc_gpu_facts *f = &g->facts;
  const char *name = name_of(l);
  const tc_gpu *of = l->call ? l->call->g : l->code->g;
  if (of != g)
    return TC_FAIL(TC_ERR_DEVICE, "%s was loaded on %s, not on %s", name, tc_device_name(of->device),
                   tc_device_name(g->device));
  if (l->call && (l->first_word > n_words || n_words - l->first_word < TC_GPU_CALL_WORDS))
    return TC_FAIL(TC_ERR_ARG, "%s: its words begin at %u of %u", name, l->first_word, n_words);
  if (l->call) return TC_OK;
  if (l->blocks == 0 || l->blocks > INT32_MAX) return TC_FAIL(TC_ERR_ARG, "%s: a grid of %u blocks", name, l->blocks);
  if (l->threads == 0 || l->threads > (uint32_t)f->most_threads)
    return TC_FAIL(TC_ERR_ARG, "%s: blocks of %u threads, where %s has at most %d", name, l->threads, f->name,
                   f->most_threads);
  if (l->shared_bytes > f->shared_bytes)
    return TC_FAIL(TC_ERR_ARG, "%s: a block needs %u bytes of shared memory, where %s has %zu", name, l->shared_bytes,
                   f->name, f->shared_bytes);
  if (l->first_word > n_words)
    return TC_FAIL(TC_ERR_ARG, "%s: its words begin at %u of %u", name, l->first_word, n_words);
  return TC_OK;
}

// pre: begun.
static tc_status allow_shared(tc_gpu *g, tc_gpu_code *c, uint32_t bytes) {
  if (!g->driver->allow_shared || bytes <= TC_MAX_OF(c->shared_bytes, (uint32_t)48 << 10)) return TC_OK;
  TC_TRY(tc_gpu_check(g, g->driver->allow_shared(c->loaded.function, bytes), "asking for a block's shared memory"));
  c->shared_bytes = bytes;
  return TC_OK;
}

static tc_status launches_take(tc_gpu_sequence *s, const tc_gpu_launch *launch) {
  tc_status st = TC_OK;
  for (uint32_t i = 0; i < s->n; i++) TC_TRY(launch_check(s->g, &launch[i], s->n_words));
  TC_TRY(tc_gpu_begin(s->g, "making a sequence"));
  for (uint32_t i = 0; i < s->n && st == TC_OK; i++)
    if (!launch[i].call) st = allow_shared(s->g, launch[i].code, launch[i].shared_bytes);
  tc_gpu_end(s->g);
  if (st != TC_OK) return st;
  for (uint32_t i = 0; i < s->n; i++) {
    s->launch[i] = launch[i];
    if (launch[i].call)
      tc_gpu_call_retain(launch[i].call);
    else
      tc_gpu_code_retain(launch[i].code);
    s->first[i] = s->table + launch[i].first_word;
  }
  return TC_OK;
}

static bool graph_plan(tc_gpu_sequence *s, graph *x) {
  x->guard = tc_calloc(TC_MAX_OF(s->copies.n, 1u), sizeof *x->guard);
  x->retired = tc_calloc(1, sizeof *x->retired);
  return x->guard && x->retired;
}

// Allocates what calls of libraries and their graphs need. False: there is no memory.
static bool calls_plan(tc_gpu_sequence *s, const tc_gpu_launch *launch) {
  for (uint32_t i = 0; i < s->n; i++) s->n_calls += launch[i].call != NULL;
  s->request = tc_calloc(TC_MAX_OF(s->n_calls, 1u), sizeof *s->request);
  bool room = s->request && tc_gpu_graph_copies_init(&s->copies, launch, s->n, s->n_calls);
  for (uint32_t i = 0; i < (s->n_calls ? GRAPHS : 1) && room; i++) room = graph_plan(s, &s->graph[i]);
  return room && (s->n_calls == 0 || graph_plan(s, &s->copying));
}

tc_status tc_gpu_sequence_create(tc_gpu *g, const tc_gpu_launch *launch, uint32_t n, uint32_t n_words,
                                 tc_gpu_sequence **out) {
  tc_status st = TC_OK;
  void *table = NULL;
  *out = NULL;
  tc_gpu_sequence *s = tc_calloc(1, sizeof *s);
  if (!s) return TC_FAIL(TC_ERR_MEMORY, "no memory for a sequence of %u kernels", n);
  s->g = g, s->opened = g->opened, s->n = n, s->n_words = n_words, s->plain = "it has not run";
  if (!tc_options_get()->gpu_replay) s->refused = "TC_GPU_REPLAY=0, or a mode without graphs";
  s->launch = tc_calloc(TC_MAX_OF(n, 1u), sizeof *s->launch);
  s->first = tc_calloc(TC_MAX_OF(n, 1u), sizeof *s->first);
  if (!s->launch || !s->first || !calls_plan(s, launch)) {
    st = TC_FAIL(TC_ERR_MEMORY, "no memory for a sequence of %u kernels", n);
    goto done;
  }
  if (n > 0 && n_words > 0) {
    if ((st = fills_plan(s)) != TC_OK) goto done;
    if ((st = tc_gpu_alloc(g, n_words * sizeof *s->table, &table)) != TC_OK) goto done;
    tc_holder_add(&s->holder, g->device, TC_HOLDS_TABLE, n_words * sizeof *s->table);
  }
  s->table = table;
  if ((st = launches_take(s, launch)) != TC_OK) goto done;
  *out = s, s = NULL;  // handed over
done:
  tc_gpu_sequence_destroy(s);
  return st;
}

// Retires the graph. pre: begun, and the device was opened as often as when it was made. Without
// memory for another retired entry, x->retired stays NULL and x gets no graph again.
static void graph_retire(tc_gpu_sequence *s, graph *x) {
  x->retired->replay = x->replay;
  tc_gpu_retire(s->g, x->retired);
  x->retired = tc_calloc(1, sizeof *x->retired);
  x->replay = NULL, x->last = 0;
}

// reach true: begun, and the device was opened as often as when it was made.
static void graph_fini(tc_gpu_sequence *s, graph *x, bool reach) {
  if (x->replay && reach) graph_retire(s, x);
  if (x->replay) tc_gpu_replay_destroy(&s->g->port, x->replay, true);
  tc_free(x->guard);
  tc_free(x->retired);
}

void tc_gpu_sequence_destroy(tc_gpu_sequence *s) {
  if (!s) return;
  tc_gpu *g = s->g;
  bool reach = tc_gpu_reach(g), same = reach && s->opened == g->opened;
  for (int i = 0; i < GRAPHS; i++) graph_fini(s, &s->graph[i], same);
  graph_fini(s, &s->copying, same);
  tc_gpu_graph_copies_fini(g, &s->copies, same);
  if (reach) tc_gpu_end(g);
  tc_holder_remove(&s->holder);
  if (s->opened == g->opened) tc_gpu_free(g, s->table);
  for (uint32_t i = 0; i < s->n && s->launch; i++) {
    if (s->launch[i].call) tc_gpu_call_release(s->launch[i].call);
    if (s->launch[i].code) tc_gpu_code_release(s->launch[i].code);
  }
  tc_free(s->request);
  tc_free(s->first);
  tc_free(s->launch);
  tc_free(s->fill);
  tc_free(s->value);
  tc_free(s);
}

// ---- running ----

// pre: begun. timer NULL: does nothing.
static tc_status record_timer(tc_gpu *g, void *timer) {
  return timer ? tc_gpu_check(g, tc_gpu_port_record(&g->port, TC_GPU_WORK, timer), "recording an event") : TC_OK;
}

// Returns the driver's result. pre: begun.
static int fills_launch(tc_gpu_sequence *s, const uint64_t *words) {
  int result = 0;
  for (uint32_t i = 0; i < s->n_fills && result == 0; i++) {
    tc_gpu_node node = fill_node(s, i, words);
    result = tc_gpu_port_launch(&s->g->port, TC_GPU_WORK, &node);
  }
  return result;
}

// If memory is short, other threads may have the device while room is made, so the table is written
// once more. pre: begun.
static tc_status write_table(tc_gpu_sequence *s, const uint64_t *words) {
  tc_gpu *g = s->g;
  int result = fills_launch(s, words);
  if (tc_gpu_is_out_of_memory(g, result)) {
    TC_TRY(tc_gpu_reclaim_for(g));
    result = fills_launch(s, words);
  }
  return tc_gpu_check(g, result, "launching the kernel that writes a table");
}

static tc_status launch_failed(tc_gpu_sequence *s, uint32_t i, int result) {
  const tc_gpu_launch *l = &s->launch[i];
  char what[160];
  snprintf(what, sizeof what, l->call ? "asking a library for %.80s" : "launching %.80s, %u blocks of %u threads",
           name_of(l), l->blocks, l->threads);
  return tc_gpu_check(s->g, result, what);
}

// *n_calls: as in launch_node. pre: begun.
static tc_status launch_plainly(tc_gpu_sequence *s, uint32_t i, const uint64_t *words, uint32_t *n_calls) {
  tc_gpu *g = s->g;
  uint32_t n_before = *n_calls;
  tc_gpu_node node = launch_node(s, i, NULL, words, n_calls);
  int result = tc_gpu_port_launch(&g->port, TC_GPU_WORK, &node);
  if (TC_LIKELY(result == 0)) return TC_OK;
  if (tc_gpu_is_out_of_memory(g, result)) {
    TC_TRY(tc_gpu_reclaim_for(g));
    TC_TRY(write_table(s, words));
    *n_calls = n_before;
    node = launch_node(s, i, NULL, words, n_calls);
    result = tc_gpu_port_launch(&g->port, TC_GPU_WORK, &node);
  }
  return launch_failed(s, i, result);
}

static tc_status launch_in_range(tc_gpu_sequence *s, uint32_t i, const uint64_t *words, uint32_t *n_calls,
                                 const tc_gpu_ranges *ranges) {
  if (TC_LIKELY(!ranges)) return launch_plainly(s, i, words, n_calls);
  (void)ranges->push(name_of(&s->launch[i]));
  tc_status st = launch_plainly(s, i, words, n_calls);
  (void)ranges->pop();
  return st;
}

// timer: n + 1 events, recorded before and behind every launch; NULL: none.
static tc_status run_plainly(tc_gpu_sequence *s, const uint64_t *words, void *const *timer) {
  const tc_gpu_ranges *ranges = tc_gpu_ranges_of(s->g->device);
  TC_TRY(write_table(s, words));
  TC_TRY(record_timer(s->g, timer ? timer[0] : NULL));
  for (uint32_t i = 0, n_calls = 0; i < s->n; i++) {
    TC_TRY(launch_in_range(s, i, words, &n_calls, ranges));
    TC_TRY(record_timer(s->g, timer ? timer[i + 1] : NULL));
  }
  return TC_OK;
}

// Judges an attempt to make or launch a graph. True: memory was short and no longer is, so it is
// worth another.
static bool is_worth_another(tc_gpu *g, int result, tc_status *st) {
  if (!tc_gpu_is_out_of_memory(g, result)) return false;
  *st = tc_gpu_trim(g);
  return *st == TC_OK;
}

// The nodes of a graph while it is made, and the memory of their parameters.
typedef struct chain {
  tc_gpu_node *node;
  uint64_t *fill;
  tc_gpu_async_copy *copy;
  uint32_t n;
} chain;

static void add_fills(tc_gpu_sequence *s, const uint64_t *words, chain *c) {
  uint32_t n_fills = n_fills_within(s);
  for (; c->n < n_fills; c->n++) {
    c->node[c->n] = fill_node(s, c->n, words);
    uint64_t *own = c->fill + c->n * (tc_gpu_fill_words[TC_GPU_FILLS - 1] + TC_GPU_FILL_HEAD);
    memcpy(own, s->value, (tc_gpu_fill_words[s->fill[c->n].size] + TC_GPU_FILL_HEAD) * sizeof *own);
    c->node[c->n].parameter = own;
  }
}

static void add_launches(tc_gpu_sequence *s, const graph *x, const uint64_t *words, chain *c) {
  tc_gpu_async_copy *copy = c->copy;
  for (uint32_t i = 0, n_calls = 0; i < s->n; i++) {
    bool copies = x == &s->copying && s->launch[i].call;
    uint32_t call = n_calls,
             n = copies ? tc_gpu_graph_copies_nodes(s->g, &s->copies, call, false, s->table, copy, c->node + c->n) : 0;
    copy += n, c->n += n;
    c->node[c->n++] = launch_node(s, i, x, words, &n_calls);
    n = copies ? tc_gpu_graph_copies_nodes(s->g, &s->copies, call, true, s->table, copy, c->node + c->n) : 0;
    copy += n, c->n += n;
  }
}

// Makes the graph. Returns static text why there is none, or NULL; *st says whether the device is
// there. pre: begun, in the second run or a later one.
static const char *graph_make(tc_gpu_sequence *s, graph *x, const uint64_t *words, tc_status *st) {
  tc_gpu *g = s->g;
  if (g->driver->no_replay()) return g->driver->no_replay();
  if (s->refused) return s->refused;
  uint32_t n_fills = n_fills_within(s), n_copies = x == &s->copying ? s->copies.n_copies : 0;
  chain c = {.node = tc_calloc(n_fills + s->n + n_copies, sizeof *c.node),
             .fill = tc_calloc(n_fills, (tc_gpu_fill_words[TC_GPU_FILLS - 1] + TC_GPU_FILL_HEAD) * sizeof *c.fill),
             .copy = tc_calloc(TC_MAX_OF(n_copies, 1u), sizeof *c.copy)};
  s->refused = NO_GRAPH;
  if (c.node && (c.fill || n_fills == 0) && c.copy) {
    add_fills(s, words, &c);
    add_launches(s, x, words, &c);
    int result = tc_gpu_replay_create(&g->port, c.node, c.n, &x->replay);
    if (is_worth_another(g, result, st)) result = tc_gpu_replay_create(&g->port, c.node, c.n, &x->replay);
    s->refused = result == 0 ? NULL : tc_gpu_is_out_of_memory(g, result) ? NO_ROOM : NO_GRAPH;
    tc_gpu_note(g, result, "making a graph");
  }
  tc_free(c.copy);
  tc_free(c.fill);
  tc_free(c.node);
  return s->refused;
}

// Patches and launches the graph; returns the driver's result. fresh: the graph was made with these
// words. pre: begun.
static int launch_graph(tc_gpu_sequence *s, const graph *x, const uint64_t *words, bool fresh) {
  tc_gpu *g = s->g;
  uint32_t n_fills = n_fills_within(s);
  int result = n_fills == 0 ? fills_launch(s, words) : 0;
  for (uint32_t i = 0; i < n_fills && !fresh && result == 0; i++) {
    tc_gpu_node node = fill_node(s, i, words);
    result = tc_gpu_replay_set(&g->port, x->replay, i, &node);
  }
  return result == 0 ? tc_gpu_replay_launch(&g->port, x->replay) : result;
}

// Launches the graph. Returns static text why the driver does not replay it, or NULL; *st is the
// outcome. pre: begun, and there is a graph.
static const char *replay_run(tc_gpu_sequence *s, const graph *x, const uint64_t *words, bool fresh, tc_status *st) {
  tc_gpu *g = s->g;
  const char *name;
  const tc_gpu_ranges *ranges = tc_gpu_ranges_of(g->device);
  if (TC_UNLIKELY(ranges != NULL)) (void)ranges->push("a graph of kernels");
  int result = launch_graph(s, x, words, fresh);
  if (is_worth_another(g, result, st)) result = launch_graph(s, x, words, fresh);
  if (TC_UNLIKELY(ranges != NULL)) (void)ranges->pop();
  tc_gpu_verdict verdict = g->driver->judge(result, &name);
  if (*st == TC_OK && (verdict == TC_GPU_FINE || verdict == TC_GPU_GONE))
    *st = tc_gpu_check(g, result, "launching a graph");
  if (*st != TC_OK || verdict == TC_GPU_FINE) return NULL;
  tc_gpu_note(g, result, "launching a graph");
  return s->refused = verdict == TC_GPU_OUT_OF_MEMORY ? NO_ROOM : NO_GRAPH;
}

static void set_guard(const tc_gpu_sequence *s, graph *x, const uint64_t *words) {
  for (uint32_t i = 0; i < s->copies.n; i++) x->guard[i] = words[s->copies.address[i].word];
}

// Returns the graph of these addresses, or a free slot if they are new; NULL: there is none. pre:
// begun.
static graph *graph_of(tc_gpu_sequence *s, const uint64_t *words) {
  graph *room = NULL;
  for (int i = 0; i < GRAPHS; i++) {
    graph *x = &s->graph[i];
    if (!x->retired) continue;
    if (x->last && tc_gpu_graph_copies_fits(&s->copies, x->guard, words, false)) return x;
    bool spare = !x->replay || s->runs - x->last > UNUSED_RUNS;
    if (spare && (!room || x->last < room->last)) room = x;
  }
  s->n_sets = TC_MIN(s->n_sets + 1, GRAPHS + 1);
  return room;
}

// Takes the slot that graph_of returned. False: there is no memory for it. pre: begun.
static bool graph_take(tc_gpu_sequence *s, graph *x, const uint64_t *words) {
  if (x->replay) graph_retire(s, x);
  set_guard(s, x, words);
  x->last = 0, x->n_met = 0;
  return x->retired != NULL;
}

// Prepares the graph that copies moving operands, so that it fits these words. Returns static text
// why there is none, or NULL. pre: begun.
static const char *copying_find(tc_gpu_sequence *s, const uint64_t *words) {
  graph *x = &s->copying;
  bool more = false, first = x->last == 0;
  if (s->fixed) return s->fixed;
  if (!first && tc_gpu_graph_copies_fits(&s->copies, x->guard, words, true)) return NULL;
  for (int i = 0; i < GRAPHS && first; i++)
    if (s->graph[i].last) more |= tc_gpu_graph_copies_add(&s->copies, s->graph[i].guard, words);
  if (!first) more = tc_gpu_graph_copies_add(&s->copies, x->guard, words);
  if (x->replay) graph_retire(s, x);
  set_guard(s, x, words);
  s->fixed = !x->retired                ? NO_ROOM
             : more || !s->copies.place ? tc_gpu_graph_copies_place(s->g, &s->copies, s->launch)
                                        : NULL;
  return s->fixed;
}

// Retires the graph that copies, with its memory, if no run needed it for long. pre: begun.
static void copying_look(tc_gpu_sequence *s) {
  if (TC_LIKELY(!s->copying.replay) || s->runs - s->copying.last <= UNUSED_RUNS) return;
  graph_retire(s, &s->copying);
  tc_gpu_graph_copies_give(s->g, &s->copies, true);
  if (!s->copying.retired) s->fixed = NO_ROOM;
}

// Replays the graph, and makes it first if needed. Returns static text why the run must launch
// plainly, or NULL; *st is the outcome. pre: begun.
static const char *graph_run(tc_gpu_sequence *s, graph *x, const uint64_t *words, tc_status *st) {
  bool fresh = !x->replay;
  const char *plain = x->replay && !s->refused ? NULL : graph_make(s, x, words, st);
  return plain ? plain : replay_run(s, x, words, fresh, st);
}

// Returns what graph_run returns, for the graph that fits. pre: begun.
static const char *run_replayed(tc_gpu_sequence *s, const uint64_t *words, tc_status *st) {
  graph *x = graph_of(s, words);
  bool known = x && x->last && tc_gpu_graph_copies_fits(&s->copies, x->guard, words, false);
  if (x && !known && !graph_take(s, x, words)) x = NULL;
  if (x) x->last = s->runs, x->n_met++;
  if (known && (x->replay || x->n_met >= (s->copying.replay ? STEADY_RUNS : 2))) {
    copying_look(s);
    return graph_run(s, x, words, st);
  }
  if (s->n_sets <= GRAPHS)
    return s->runs > 1 ? "its libraries' operands are at new addresses" : "its first run launches kernel by kernel";
  const char *plain = s->g->driver->no_replay();
  if (!plain) plain = s->refused ? s->refused : copying_find(s, words);
  if (plain) return plain;
  s->copying.last = s->runs;
  plain = graph_run(s, &s->copying, words, st);
  if (!plain) atomic_store_explicit(&s->copied_bytes, s->copies.copied_bytes, memory_order_relaxed);
  return plain;
}

// pre: begun.
static tc_status run_begin(tc_gpu_sequence *s) {
  tc_gpu *g = s->g;
  if (s->opened != g->opened)
    return TC_FAIL(TC_ERR_DEVICE, "%s was shut down since the kernels were loaded", tc_device_name(g->device));
  return tc_gpu_in_flight_wait(g);
}

tc_status tc_gpu_sequence_run(tc_gpu_sequence *s, const uint64_t *words) {
  tc_gpu *g = s->g;
  const char *plain = NULL;
  if (s->n == 0) return TC_OK;
  TC_TRY(tc_gpu_begin(g, "running kernels"));
  tc_status st = run_begin(s);
  atomic_store_explicit(&s->copied_bytes, 0, memory_order_relaxed);
  if (st == TC_OK) s->runs++, plain = run_replayed(s, words, &st);
  if (st == TC_OK && plain) st = run_plainly(s, words, NULL);
  if (st == TC_OK) st = tc_gpu_in_flight_mark(g);
  atomic_store(&s->plain, plain);
  tc_gpu_end(g);
  return st;
}

// pre: begun; the timers exist.
static tc_status run_timed(tc_gpu_sequence *s, const uint64_t *words, void *const *timer, tc_gpu_tell *tell) {
  tc_gpu *g = s->g;
  TC_TRY(run_begin(s));
  TC_TRY(run_plainly(s, words, timer));
  TC_TRY(tc_gpu_in_flight_mark(g));
  TC_TRY(tc_gpu_await(g, timer[s->n], "waiting for kernels that are timed"));
  for (uint32_t i = 0; i < s->n; i++) {
    float ms = 0;
    TC_TRY(tc_gpu_check(g, g->driver->entry->event_elapsed(&ms, timer[i], timer[i + 1]), "asking what a kernel took"));
    tell(name_of(&s->launch[i]), (uint64_t)((double)ms * 1e6));
  }
  return TC_OK;
}

tc_status tc_gpu_sequence_time(tc_gpu_sequence *s, const uint64_t *words, tc_gpu_tell *tell) {
  tc_gpu *g = s->g;
  if (s->n == 0) return TC_OK;
  void **timer = tc_calloc(s->n + 1, sizeof *timer);
  if (!timer) return TC_FAIL(TC_ERR_MEMORY, "no memory to time %u kernels", s->n);
  tc_status st = tc_gpu_begin(g, "timing kernels");
  if (st != TC_OK) return tc_free(timer), st;
  for (uint32_t i = 0; i <= s->n && st == TC_OK; i++) st = tc_gpu_event(g, true, &timer[i]);
  if (st == TC_OK) st = run_timed(s, words, timer, tell);
  for (uint32_t i = 0; i <= s->n && !atomic_load(&g->lost) && !g->outside; i++) tc_gpu_event_destroy(g, timer[i]);
  atomic_store(&s->plain, "its kernels are timed one by one");
  tc_gpu_end(g);
  tc_free(timer);
  return st;
}

const char *tc_gpu_sequence_plain(const tc_gpu_sequence *s) {
  return atomic_load(&s->plain);
}

size_t tc_gpu_sequence_held(const tc_gpu_sequence *s) {
  return sizeof *s + s->n * (sizeof *s->launch + sizeof *s->first) + s->n_fills * sizeof *s->fill +
         s->n_calls * sizeof *s->request + (tc_gpu_fill_most(s->g) + TC_GPU_FILL_HEAD) * sizeof *s->value;
}

size_t tc_gpu_sequence_copied(const tc_gpu_sequence *s) {
  return atomic_load_explicit(&s->copied_bytes, memory_order_relaxed);
}
