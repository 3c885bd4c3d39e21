// Sequences of launches whose kernels read one table in device memory.
//
// Idea: the table is written by kernels of its own, whose parameter, passed by value, is the words: the driver keeps a copy from the launch on, so the next run
// can be asked for while this one runs. The line's order keeps the runs of one sequence apart, so one table is enough. The second run makes a graph of
// all kernels in one straight chain; from then on a run patches the first nodes and launches the graph.
// A library's call cannot be patched: its addresses, the guard, are the graph's. A run with others finds another graph, or makes one when they come again.
// Threads: under the device's lock, so two threads in one sequence take turns.
#include <stdlib.h>
#include <string.h>

#include "device/gpu/state.h"
#include "runtime/arena.h"
#include "runtime/log.h"

// A kernel that writes words of a table is told where and how many, and then come the words. By room for them: what fits the parameters of drivers of every
// age is 4,096 bytes, of newer ones 32,764, of which the compiler takes 32,000.
#define FILL_HEAD_WORDS 2
#define NO_GRAPH "the driver refused to make or launch its graph"
#define NO_ROOM "memory was short for its graph"
// Graphs of a sequence, each for other addresses of its calls: results that the program keeps take turns with those before. One is given up for others'
// sake when it was not launched for many runs.
#define GRAPHS 4
#define UNUSED_RUNS 64
static const uint32_t fill_words[TC_GPU_FILLS] = {62, 510, 1534, 3998};

typedef struct fill {
  uint32_t first, n, size;  // words of the table; size: the row of fill_words
} fill;

// What a run with these addresses is replayed by.
typedef struct graph {
  uint64_t *guard;  // n_guard words
  uint64_t last;  // run that had them; 0: none
  tc_gpu_replay *replay;  // NULL: not yet
  tc_gpu_retired *retired;  // taken ahead, so that giving it up cannot fail
} graph;

struct tc_gpu_sequence {
  tc_gpu *g;
  uint64_t opened, runs;
  uint32_t n, n_words, n_fills, n_calls, n_guard;
  const char *refused;  // why there is no second try to make the graph, static; NULL: there may be
  const char *_Atomic plain;  // why the last run was no replay
  uint64_t *table;  // on the device
  tc_holder holder;  // of it
  uint64_t *value;  // of the kernel that writes words, while it is launched
  fill *fill;
  tc_gpu_launch *launch;
  uint64_t **first;  // per launch: its words, what its kernel's parameter is
  tc_gpu_request *request;  // of each library's call, in order
  graph graph[GRAPHS];  // without calls, whose guard is empty, one
};

// ---- the kernels that write tables ----

tc_status tc_gpu_fill_make(tc_gpu *g, uint32_t size) {
  char name[32], source[640];
  tc_gpu_code *c;
  snprintf(name, sizeof name, "tc_fill_%u", fill_words[size]);
  snprintf(source, sizeof source,
           "#include \"tc_words.h\"\n"
           "typedef struct { u64 *to; u64 n; u64 word[%u]; } tc_fill;\n"
           "TC_KERNEL_OF(%s, 128, tc_fill) {\n"
           "  for (i32 i = TC_THREAD; i < (i32)tc_value->n; i += 128) tc_value->to[i] = tc_value->word[i];\n"
           "}\n",
           fill_words[size], name);
  TC_TRY(tc_gpu_compile(g, name, source, &c));
  pthread_mutex_lock(&g->lock);
  tc_gpu_code *other = g->fill[size];  // of a thread that was faster
  if (!other) g->fill[size] = c;
  pthread_mutex_unlock(&g->lock);
  if (other) tc_gpu_code_release(c);
  return TC_OK;
}

// Words of the largest kernel that the driver takes.
static uint32_t most_words(const tc_gpu *g) {
  uint32_t largest = TC_GPU_FILLS;
  while (largest > 1 && (fill_words[largest - 1] + FILL_HEAD_WORDS) * sizeof(uint64_t) > g->driver->most_value_bytes()) largest--;
  return fill_words[largest - 1];
}

static uint32_t size_of(uint32_t n_words) {
  uint32_t size = 0;
  while (fill_words[size] < n_words) size++;
  return size;
}

uint32_t tc_gpu_fills_missing(tc_gpu *g, uint32_t n_words) {
  uint32_t most = most_words(g), rest = n_words % most, missing = 0;
  if (n_words >= most) missing |= 1u << size_of(most);
  if (rest) missing |= 1u << size_of(rest);
  pthread_mutex_lock(&g->lock);
  for (uint32_t i = 0; i < TC_GPU_FILLS; i++)
    if (g->fill[i]) missing &= ~(1u << i);
  pthread_mutex_unlock(&g->lock);
  return missing;
}

static tc_status fills_plan(tc_gpu_sequence *s) {
  tc_gpu *g = s->g;
  uint32_t most = most_words(g);
  s->n_fills = (s->n_words + most - 1) / most;
  s->fill = tc_calloc(s->n_fills, sizeof *s->fill);
  s->value = tc_calloc(most + FILL_HEAD_WORDS, sizeof *s->value);
  if (!s->fill || !s->value) return TC_FAIL(TC_ERR_MEMORY, "no memory for a sequence of %u kernels", s->n);
  for (uint32_t i = 0; i < s->n_fills; i++) {
    fill *f = &s->fill[i];
    f->first = i * most, f->n = TC_MIN(most, s->n_words - f->first), f->size = size_of(f->n);
  }
  uint32_t missing = tc_gpu_fills_missing(g, s->n_words);
  for (uint32_t i = 0; i < TC_GPU_FILLS; i++)
    if (missing >> i & 1) TC_TRY(tc_gpu_fill_make(g, i));
  return TC_OK;
}

static tc_gpu_node fill_node(tc_gpu_sequence *s, uint32_t i, const uint64_t *words) {
  const fill *f = &s->fill[i];
  s->value[0] = (uint64_t)(uintptr_t)(s->table + f->first), s->value[1] = f->n;
  memcpy(s->value + FILL_HEAD_WORDS, words + f->first, f->n * sizeof *words);
  return (tc_gpu_node){.function = s->g->fill[f->size]->loaded.function, .blocks = 1, .threads = 128, .parameter = s->value};
}

// How many of them a graph begins with; the others are launched before it.
static uint32_t n_fills_within(const tc_gpu_sequence *s) {
  return s->g->driver->replay_is_fixed() ? 0 : s->n_fills;
}

static void *pointer(uint64_t word) {
  return (void *)(uintptr_t)word;
}

// *n_before counts a library's calls.
static tc_gpu_node launch_node(tc_gpu_sequence *s, uint32_t i, const uint64_t *words, uint32_t *n_before) {
  const tc_gpu_launch *l = &s->launch[i];
  const tc_gpu_call *c = l->call;
  if (c) {
    const uint64_t *w = words + l->first_word;
    tc_gpu_request *r = &s->request[(*n_before)++];
    *r = (tc_gpu_request){c->work.library, c->made, &c->algorithm, pointer(w[0]), pointer(w[1]), pointer(w[3]), pointer(w[2]), pointer(w[4])};
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
  if (of != g) return TC_FAIL(TC_ERR_DEVICE, "%s was loaded on %s, not on %s", name, tc_device_name(of->device), tc_device_name(g->device));
  if (l->call && (l->first_word > n_words || n_words - l->first_word < TC_GPU_CALL_WORDS))
    return TC_FAIL(TC_ERR_ARG, "%s: its words begin at %u of %u", name, l->first_word, n_words);
  if (l->call) return TC_OK;
  if (l->blocks == 0 || l->blocks > INT32_MAX) return TC_FAIL(TC_ERR_ARG, "%s: a grid of %u blocks", name, l->blocks);
  if (l->threads == 0 || l->threads > (uint32_t)f->most_threads)
    return TC_FAIL(TC_ERR_ARG, "%s: blocks of %u threads, where %s has at most %d", name, l->threads, f->name, f->most_threads);
  if (l->shared_bytes > f->shared_bytes)
    return TC_FAIL(TC_ERR_ARG, "%s: a block needs %u bytes of shared memory, where %s has %zu", name, l->shared_bytes, f->name, f->shared_bytes);
  if (l->first_word > n_words) return TC_FAIL(TC_ERR_ARG, "%s: its words begin at %u of %u", name, l->first_word, n_words);
  return TC_OK;
}

// pre: begun.
static tc_status allow_shared(tc_gpu *g, tc_gpu_code *c, uint32_t bytes) {
  if (bytes <= TC_MAX_OF(c->shared_bytes, (uint32_t)48 << 10)) return TC_OK;
  TC_TRY(tc_gpu_check(g, g->driver->allow_shared(&g->port, c->loaded.function, bytes), "asking for a block's shared memory"));
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

// Room for what a library's calls and their graphs need. False: no memory.
static bool calls_plan(tc_gpu_sequence *s, const tc_gpu_launch *launch) {
  for (uint32_t i = 0; i < s->n; i++) s->n_calls += launch[i].call != NULL;
  s->n_guard = s->n_calls * TC_GPU_CALL_WORDS;
  s->request = tc_calloc(TC_MAX_OF(s->n_calls, 1u), sizeof *s->request);
  bool room = s->request != NULL;
  for (uint32_t i = 0; i < (s->n_calls ? GRAPHS : 1) && room; i++) {
    graph *x = &s->graph[i];
    x->guard = tc_calloc(TC_MAX_OF(s->n_guard, 1u), sizeof *x->guard);
    x->retired = tc_calloc(1, sizeof *x->retired);
    room = x->guard && x->retired;
  }
  return room;
}

tc_status tc_gpu_sequence_create(tc_gpu *g, const tc_gpu_launch *launch, uint32_t n, uint32_t n_words, tc_gpu_sequence **out) {
  tc_status st = TC_OK;
  void *table = NULL;
  *out = NULL;
  tc_gpu_sequence *s = tc_calloc(1, sizeof *s);
  if (!s) return TC_FAIL(TC_ERR_MEMORY, "no memory for a sequence of %u kernels", n);
  s->g = g, s->opened = g->opened, s->n = n, s->n_words = n_words, s->plain = "it has not run";
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

// Gives the graph up. pre: begun, the device opened as often as then. Without memory for another one's end there is none in its place.
static void graph_retire(tc_gpu_sequence *s, graph *x) {
  x->retired->replay = x->replay;
  tc_gpu_retire(s->g, x->retired);
  x->retired = tc_calloc(1, sizeof *x->retired);
  x->replay = NULL, x->last = 0;
}

void tc_gpu_sequence_destroy(tc_gpu_sequence *s) {
  if (!s) return;
  tc_gpu *g = s->g;
  bool reach = tc_gpu_reach(g);
  for (int i = 0; i < GRAPHS; i++) {
    graph *x = &s->graph[i];
    if (x->replay && reach && s->opened == g->opened) graph_retire(s, x);
    if (x->replay) g->driver->replay_destroy(&g->port, x->replay, true);
    tc_free(x->guard);
    tc_free(x->retired);
  }
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

// pre: begun. Nothing where nobody wants the time.
static tc_status record_timer(tc_gpu *g, void *timer) {
  return timer ? tc_gpu_check(g, g->driver->event_record(&g->port, TC_GPU_WORK, timer), "recording an event") : TC_OK;
}

// The driver's result. pre: begun.
static int fills_launch(tc_gpu_sequence *s, const uint64_t *words) {
  int result = 0;
  for (uint32_t i = 0; i < s->n_fills && result == 0; i++) {
    tc_gpu_node node = fill_node(s, i, words);
    result = s->g->driver->launch(&s->g->port, &node);
  }
  return result;
}

// Where memory is short others may have had the device while room was made for it, so that a table is then written once more. pre: begun.
static tc_status write_table(tc_gpu_sequence *s, const uint64_t *words) {
  tc_gpu *g = s->g;
  int result = fills_launch(s, words);
  if (tc_gpu_is_short(g, result)) {
    TC_TRY(tc_gpu_make_room(g));
    result = fills_launch(s, words);
  }
  return tc_gpu_check(g, result, "launching the kernel that writes a table");
}

static tc_status launch_failed(tc_gpu_sequence *s, uint32_t i, int result) {
  const tc_gpu_launch *l = &s->launch[i];
  char what[160];
  snprintf(what, sizeof what, l->call ? "asking a library for %.80s" : "launching %.80s, %u blocks of %u threads", name_of(l), l->blocks, l->threads);
  return tc_gpu_check(s->g, result, what);
}

// *n_calls: as in launch_node. pre: begun.
static tc_status ask_plainly(tc_gpu_sequence *s, uint32_t i, const uint64_t *words, uint32_t *n_calls) {
  tc_gpu *g = s->g;
  uint32_t n_before = *n_calls;
  tc_gpu_node node = launch_node(s, i, words, n_calls);
  int result = g->driver->launch(&g->port, &node);
  if (TC_LIKELY(result == 0)) return TC_OK;
  if (tc_gpu_is_short(g, result)) {
    TC_TRY(tc_gpu_make_room(g));
    TC_TRY(write_table(s, words));
    *n_calls = n_before;
    node = launch_node(s, i, words, n_calls);
    result = g->driver->launch(&g->port, &node);
  }
  return launch_failed(s, i, result);
}

static tc_status launch_plainly(tc_gpu_sequence *s, uint32_t i, const uint64_t *words, uint32_t *n_calls, const tc_gpu_ranges *ranges) {
  if (TC_LIKELY(!ranges)) return ask_plainly(s, i, words, n_calls);
  (void)ranges->push(name_of(&s->launch[i]));
  tc_status st = ask_plainly(s, i, words, n_calls);
  (void)ranges->pop();
  return st;
}

// timer: n + 1 of them, recorded before and behind every launch; NULL: none.
static tc_status run_plainly(tc_gpu_sequence *s, const uint64_t *words, void *const *timer) {
  const tc_gpu_ranges *ranges = tc_gpu_ranges_of(s->g->device);
  TC_TRY(write_table(s, words));
  TC_TRY(record_timer(s->g, timer ? timer[0] : NULL));
  for (uint32_t i = 0, n_calls = 0; i < s->n; i++) {
    TC_TRY(launch_plainly(s, i, words, &n_calls, ranges));
    TC_TRY(record_timer(s->g, timer ? timer[i + 1] : NULL));
  }
  return TC_OK;
}

// What an attempt to make or launch a graph came to: whether it is worth another, since memory was short and is not any more. pre: begun.
static bool is_worth_another(tc_gpu *g, int result, tc_status *st) {
  if (!tc_gpu_is_short(g, result)) return false;
  *st = tc_gpu_trim(g);
  return *st == TC_OK;
}

// Static text why there is no graph to replay, or NULL: *st says whether the device is there. pre: begun; the second run or a later one.
static const char *graph_make(tc_gpu_sequence *s, graph *x, const uint64_t *words, tc_status *st) {
  tc_gpu *g = s->g;
  if (g->driver->no_replay()) return g->driver->no_replay();
  uint32_t n_fills = n_fills_within(s), n = n_fills + s->n;
  if (s->refused) return s->refused;
  tc_gpu_node *node = tc_calloc(n, sizeof *node);
  uint64_t *values = tc_calloc(n_fills, (fill_words[TC_GPU_FILLS - 1] + FILL_HEAD_WORDS) * sizeof *values);
  s->refused = NO_GRAPH;
  if (node && (values || n_fills == 0)) {
    for (uint32_t i = 0; i < n_fills; i++) {
      node[i] = fill_node(s, i, words);
      uint64_t *own = values + i * (fill_words[TC_GPU_FILLS - 1] + FILL_HEAD_WORDS);
      memcpy(own, s->value, (fill_words[s->fill[i].size] + FILL_HEAD_WORDS) * sizeof *own);
      node[i].parameter = own;
    }
    for (uint32_t i = 0, n_calls = 0; i < s->n; i++) node[n_fills + i] = launch_node(s, i, words, &n_calls);
    int result = g->driver->replay_create(&g->port, node, n, &x->replay);
    if (is_worth_another(g, result, st)) result = g->driver->replay_create(&g->port, node, n, &x->replay);
    s->refused = result == 0 ? NULL : tc_gpu_is_short(g, result) ? NO_ROOM : NO_GRAPH;
    tc_gpu_note(g, result, "making a graph");
  }
  tc_free(values);
  tc_free(node);
  return s->refused;
}

// pre: begun; the graph was made with these words if `fresh`. The driver's result.
static int replay_ask(tc_gpu_sequence *s, const graph *x, const uint64_t *words, bool fresh) {
  tc_gpu *g = s->g;
  uint32_t n_fills = n_fills_within(s);
  int result = n_fills == 0 ? fills_launch(s, words) : 0;
  for (uint32_t i = 0; i < n_fills && !fresh && result == 0; i++) {
    tc_gpu_node node = fill_node(s, i, words);
    result = g->driver->replay_set(&g->port, x->replay, i, &node);
  }
  return result == 0 ? g->driver->replay_launch(&g->port, x->replay) : result;
}

// pre: begun; there is a graph. Static text why the driver does not replay it, or NULL: *st says how it went.
static const char *replay_run(tc_gpu_sequence *s, const graph *x, const uint64_t *words, bool fresh, tc_status *st) {
  tc_gpu *g = s->g;
  const char *name;
  const tc_gpu_ranges *ranges = tc_gpu_ranges_of(g->device);
  if (TC_UNLIKELY(ranges != NULL)) (void)ranges->push("a graph of kernels");
  int result = replay_ask(s, x, words, fresh);
  if (is_worth_another(g, result, st)) result = replay_ask(s, x, words, fresh);
  if (TC_UNLIKELY(ranges != NULL)) (void)ranges->pop();
  tc_gpu_verdict verdict = g->driver->judge(result, &name);
  if (*st == TC_OK && (verdict == TC_GPU_FINE || verdict == TC_GPU_GONE)) *st = tc_gpu_check(g, result, "launching a graph");
  if (*st != TC_OK || verdict == TC_GPU_FINE) return NULL;
  tc_gpu_note(g, result, "launching a graph");
  return s->refused = verdict == TC_GPU_SHORT ? NO_ROOM : NO_GRAPH;
}

static bool guards(const tc_gpu_sequence *s, const graph *x, const uint64_t *words) {
  uint32_t at = 0;
  for (uint32_t i = 0; i < s->n && at < s->n_guard; i++) {
    if (!s->launch[i].call) continue;
    if (memcmp(x->guard + at, words + s->launch[i].first_word, TC_GPU_CALL_WORDS * sizeof *words) != 0) return false;
    at += TC_GPU_CALL_WORDS;
  }
  return true;
}

static void guard(const tc_gpu_sequence *s, graph *x, const uint64_t *words) {
  for (uint32_t i = 0, at = 0; i < s->n && at < s->n_guard; i++) {
    if (!s->launch[i].call) continue;
    memcpy(x->guard + at, words + s->launch[i].first_word, TC_GPU_CALL_WORDS * sizeof *words);
    at += TC_GPU_CALL_WORDS;
  }
}

// The graph of these addresses, or, where they are new, room for one; NULL: there is none. pre: begun.
static graph *graph_of(tc_gpu_sequence *s, const uint64_t *words) {
  graph *room = NULL;
  for (int i = 0; i < GRAPHS; i++) {
    graph *x = &s->graph[i];
    if (!x->retired) continue;
    if (x->last && guards(s, x, words)) return x;
    bool spare = !x->replay || s->runs - x->last > UNUSED_RUNS;
    if (spare && (!room || x->last < room->last)) room = x;
  }
  if (!room) return NULL;
  if (room->replay) graph_retire(s, room);
  guard(s, room, words);
  room->last = 0;
  return room->retired ? room : NULL;
}

// pre: begun. Static text why it is to be launched plainly, or NULL: *st says how the replay went.
static const char *replay(tc_gpu_sequence *s, const uint64_t *words, tc_status *st) {
  graph *x = graph_of(s, words);
  if (!x) return "its libraries' operands are at ever other addresses";
  bool first = x->last == 0, fresh = !x->replay;
  x->last = s->runs;
  if (first) return s->runs > 1 ? "its libraries' operands are at new addresses" : "its first run launches kernel by kernel";
  const char *plain = x->replay && !s->refused ? NULL : graph_make(s, x, words, st);
  return plain ? plain : replay_run(s, x, words, fresh, st);
}

// pre: begun.
static tc_status run_begin(tc_gpu_sequence *s) {
  tc_gpu *g = s->g;
  if (s->opened != g->opened) return TC_FAIL(TC_ERR_DEVICE, "%s was shut down since the kernels were loaded", tc_device_name(g->device));
  return tc_gpu_ahead_wait(g);
}

tc_status tc_gpu_sequence_run(tc_gpu_sequence *s, const uint64_t *words) {
  tc_gpu *g = s->g;
  const char *plain = NULL;
  if (s->n == 0) return TC_OK;
  TC_TRY(tc_gpu_begin(g, "running kernels"));
  tc_status st = run_begin(s);
  if (st == TC_OK) s->runs++, plain = replay(s, words, &st);
  if (st == TC_OK && plain) st = run_plainly(s, words, NULL);
  if (st == TC_OK) st = tc_gpu_ahead_mark(g);
  atomic_store(&s->plain, plain);
  tc_gpu_end(g);
  return st;
}

// pre: begun; the timers are there.
static tc_status run_timed(tc_gpu_sequence *s, const uint64_t *words, void *const *timer, tc_gpu_tell *tell) {
  tc_gpu *g = s->g;
  TC_TRY(run_begin(s));
  TC_TRY(run_plainly(s, words, timer));
  TC_TRY(tc_gpu_ahead_mark(g));
  TC_TRY(tc_gpu_check(g, g->driver->event_wait(&g->port, timer[s->n]), "waiting for kernels that are timed"));
  for (uint32_t i = 0; i < s->n; i++) {
    float ms = 0;
    TC_TRY(tc_gpu_check(g, g->driver->timer_between(&g->port, timer[i], timer[i + 1], &ms), "asking what a kernel took"));
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
  for (uint32_t i = 0; i <= s->n && !atomic_load(&g->lost) && !g->outside; i++)
    if (timer[i]) tc_gpu_note(g, g->driver->event_destroy(&g->port, timer[i]), "destroying an event");
  atomic_store(&s->plain, "its kernels are timed one by one");
  tc_gpu_end(g);
  tc_free(timer);
  return st;
}

const char *tc_gpu_sequence_plain(const tc_gpu_sequence *s) {
  return atomic_load(&s->plain);
}
