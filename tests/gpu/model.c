// What a GPU is asked to do, against a model of it that shares no code with what asks: on the
// simulated driver, with a program that records and evals several steps ahead of a device that runs
// nothing before it must.
//
// The model takes a program's steps and the memory of a run, before the run's words are made, and
// says which kernels must begin, in which order, with which words in their table, and which
// products a vendor's library must make, of which operands, copied or not (model_copies.h). The
// simulator says what begins, what is in the table then, and what a library is given. On tc:cuda
// and tc:hip, with products generated and made by libraries. Besides: memory in use is nobody
// else's; temporaries that are alive together lie apart; what a step writes is its run's own, and
// no kept result; no more runs are on their way than may be; and results are tc:cpu's. Bugs that
// are planted behind the model's back must each be seen, in a process of their own.
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "device/gpu/graph_copies.h"
#include "lazy/trace/trace.h"
#include "lowering/program/gpu/launches.h"
#include "runtime/options.h"
#include "tests/gpu/model_copies.h"
#include "tests/sim/built.h"

enum { STEPS = 24, KEPT = STEPS / 3, READ = 2 * KEPT + 1, AHEAD = 6, ROWS = 16 };

typedef enum plant {
  NO_PLANT,
  STALE_WORDS,
  STALE_PRODUCTS,
  SWAPPED_LAUNCHES,
  SHARED_BLOCKS,
  SHARED_BUFFERS,
  GIVEN_BACK_EARLY,
  STALE_COPIES,
  CUT_COPIES,
  UNCOPIED_RESULTS,
  SHARED_PLACES
} plant;
static plant planted;
static tc_buffer *kept_by_test;  // the memory of a result that the test keeps

// ---- buffers ----

tc_status __real_tc_buffer_create_on(tc_device d, size_t bytes, tc_buffer **out);
tc_status __wrap_tc_buffer_create_on(tc_device d, size_t bytes, tc_buffer **out);
tc_status __wrap_tc_buffer_create_on(tc_device d, size_t bytes, tc_buffer **out) {
  tc_status st = __real_tc_buffer_create_on(d, bytes, out);
  if (st != TC_OK || !(*out)->memory) return st;
  if (planted == SHARED_BUFFERS && kept_by_test && (*out)->bytes == kept_by_test->bytes)
    (*out)->ptr = kept_by_test->ptr, kept_by_test = NULL;
  uintptr_t at = (uintptr_t)(*out)->ptr, end = at + (*out)->bytes;
  for (int i = 0; i < n_live; i++)
    if (at < live[i].end && live[i].at < end) MISTAKE(MEMORY, "a new buffer lies in one that is in use");
  EXPECT(n_live < MOST_LIVE, "too many buffers");
  if (n_live == MOST_LIVE) exit(1);
  live[n_live].buf = *out, live[n_live].at = at, live[n_live++].end = end;
  lowest = at < lowest ? at : lowest, highest = end > highest ? end : highest;
  return st;
}

void __real_tc_buffer_release(tc_buffer *b);
void __wrap_tc_buffer_release(tc_buffer *b);
void __wrap_tc_buffer_release(tc_buffer *b) {
  for (int i = 0; b && b->memory && tc_buffer_refs(b) == 1 && i < n_live; i++)
    if (live[i].buf == b) live[i] = live[--n_live];
  __real_tc_buffer_release(b);
}

// ---- the run that is asked for ----

typedef struct list {
  const tc_gpu_sequence *of;
  tc_gpu_launch *launch;
  uint32_t n, n_words, n_runs;
  uint64_t *before;  // words of the run before
} list;
static list lists[MOST_LISTS];
static int n_lists;

static uint64_t (*n_calls)(const char *name);  // of the driver
static const char *graph_launch;

// The run that is being asked for.
static struct {
  const tc_program *p;
  const tc_storages *at;
  const uint64_t *num, *skip;
  uint32_t step;
} now;

static uint64_t model_word(uint32_t place) {
  const tc_plan *plan = now.p->graph.plan;
  if (!(place & ARENA_BIT)) return (uint64_t)(uintptr_t)now.at->storage[place];
  const tc_allocation *b = &now.p->allocation[place - ARENA_BIT];
  const char *donor = b->in == IN_ARENA ? now.at->arena : now.at->storage[plan->n_leaf + b->in];
  return (uint64_t)(uintptr_t)(donor + b->offset);
}

// Whether buffer i of those in use is one of the run's.
static bool is_of_run(const tc_plan *plan, int i) {
  uint32_t n = plan->n_leaf + plan->n_out + (now.p->prepare ? now.p->n_cached : 0);
  if (now.at->arena && live_at((uintptr_t)now.at->arena) == i) return true;
  for (uint32_t k = 0; k < n; k++)
    if (now.at->storage[k] && live_at((uintptr_t)now.at->storage[k]) == i) return true;
  return !now.p->prepare;  // of what is prepared, the whole program has the list
}

static const char *name_of(const tc_step *s) {
  return s->kind == TC_STEP_CALL ? "a library's product" : s->kernel->name;
}

static void check_operand(const tc_plan *plan, const tc_step *s, uint32_t j) {
  uint32_t place = now.p->binding[s->first_binding + j], o = place - plan->n_leaf;
  bool writes = tc_step_writes(s, j);
  int i = live_at((uintptr_t)model_word(place));
  if (i < 0) {
    MISTAKE(MEMORY, "%s: operand %u lies in no memory that is in use", name_of(s), j);
  } else if (writes && place < plan->n_leaf) {
    MISTAKE(MEMORY, "%s writes an operand of the run", name_of(s));
  } else if (writes && !(place & ARENA_BIT) &&
             o < plan->n_out) {  // the trace's and the result's references, or the result's alone
    uint32_t refs = plan->out[o].donor != TC_LEAF_NONE ? 2 : 1;
    if (tc_buffer_refs(live[i].buf) != refs) MISTAKE(MEMORY, "%s writes a result that others hold", name_of(s));
  }
}

// The words of a kernel's launch.
static void model_kernel(const tc_plan *plan, const tc_step *s, const tc_gpu_launch *l, awaited *a) {
  const tc_gpu_shape *shape = &s->kernel->gpu_shape;
  uint32_t n = s->n_binding + s->n_num;
  if (a->n_words < n + TC_GPU_WORDS) {
    MISTAKE(LIST, "%s has %u words of %u", s->kernel->name, a->n_words, n + TC_GPU_WORDS);
    return;
  }
  uint64_t *w = a->words, chunk = w[n + TC_GPU_WORD_CHUNK], fault = w[n + TC_GPU_WORD_FAULT];
  for (uint32_t j = 0; j < s->n_binding; j++) {
    check_operand(plan, s, j);
    w[j] = model_word(now.p->binding[s->first_binding + j]);
  }
  for (uint32_t j = 0; j < s->n_num; j++) w[s->n_binding + j] = now.num[s->first_num + j];
  w[n + TC_GPU_WORD_EXTENT] = (uint64_t)s->extent;
  if (l->threads != shape->threads || (uint64_t)l->blocks * shape->groups * chunk < (uint64_t)s->extent)
    MISTAKE(LIST, "%s: blocks of %u threads, %u of them, do not do %lld units", s->kernel->name, l->threads, l->blocks,
            (long long)s->extent);
  if (fault && live_at((uintptr_t)fault) != live_at((uintptr_t)now.at->arena))
    MISTAKE(MEMORY, "%s: its fault word is not in the arena", s->kernel->name);
}

// The words of a library's product: its operands, where they begin, the result, a bias, and in the
// arena a workspace and the fault word.
static void model_call(const tc_plan *plan, const tc_step *s, awaited *a) {
  const uint32_t *binding = now.p->binding + s->first_binding;
  for (uint32_t j = 0; j < s->n_binding; j++) check_operand(plan, s, j);
  if (a->n_words < CALL_WORDS) {
    MISTAKE(LIST, "a library's product has %u words", a->n_words);
    return;
  }
  uint64_t *w = a->words;
  w[LEFT] = model_word(binding[0]) + s->offset[0], w[RIGHT] = model_word(binding[1]) + s->offset[1];
  w[RESULT] = model_word(binding[s->n_binding - 1]);
  w[BIAS] = s->n_binding == 4 ? model_word(binding[2]) + s->offset[2] : 0;
  for (int k = WORKSPACE; k <= FAULT; k++)
    if (w[k] && live_at((uintptr_t)w[k]) != live_at((uintptr_t)now.at->arena))
      MISTAKE(MEMORY, "a library's %s is not in the arena", k == FAULT ? "fault word" : "workspace");
}

static bool is_launch_of(const awaited *a, const tc_step *s) {
  return s->kind == TC_STEP_CALL ? !a->kernel : a->kernel && strcmp(a->kernel, s->kernel->name) == 0;
}

// The launches of one sequence are those of its steps, in order: a kernel and a library's product
// one, a row some.
static void model_run(const list *x, const uint64_t *words, run *r) {
  const tc_plan *plan = now.p->graph.plan;
  uint32_t first = n_awaited, end = now.p->n_step, k = 0;
  for (uint32_t i = 0; i < x->n && n_awaited < MOST_BEGUN; i++) {
    const tc_gpu_launch *l = &x->launch[i];
    uint32_t n = (i + 1 < x->n ? x->launch[i + 1].first_word : x->n_words) - l->first_word;
    awaited *a = &begin[n_awaited++];
    *a = (awaited){l->call ? NULL : l->code->name,  l->blocks,     l->threads, n,
                   malloc((n + 1) * sizeof *words), i + 1 == x->n, r};
    r->calls |= !a->kernel;
    memcpy(a->words, words + l->first_word, n * sizeof *words);
    for (uint32_t j = 0; j < n; j++) {
      if (a->words[j] < lowest || a->words[j] >= highest) continue;
      int at = live_at((uintptr_t)a->words[j]);
      if (at < 0 || !is_of_run(plan, at))
        MISTAKE(MEMORY, "%s: word %u is memory of another", a->kernel ? a->kernel : "a library's product", j);
    }
  }
  EXPECT(n_awaited < MOST_BEGUN, "too many launches");
  if (!now.p->prepare) {  // a sequence is a step
    while (now.skip[now.step] || now.p->step[now.step].extent == 0) now.step++;
    end = now.step + 1;
  }
  bool rows = false;
  for (; now.step < end; now.step++) {
    const tc_step *s = &now.p->step[now.step];
    bool calls = s->kind == TC_STEP_CALL;
    if (!calls && s->kind != TC_STEP_KERNEL) rows = true;
    if (!calls && (s->kind != TC_STEP_KERNEL || s->extent == 0)) continue;
    while (rows && k < x->n && !is_launch_of(&begin[first + k], s)) k++;
    rows = false;
    if (k == x->n || !is_launch_of(&begin[first + k], s)) {
      MISTAKE(LIST, "launch %u is not %s", k, name_of(s));
      return;
    }
    if (calls)
      model_call(plan, s, &begin[first + k]);
    else
      model_kernel(plan, s, &x->launch[k], &begin[first + k]);
    k++;
  }
  if (!rows && k != x->n) MISTAKE(LIST, "%u launches of %u are no step's", x->n - k, x->n);
}

// ---- memory of a program ----

typedef struct life {
  uint32_t first, last;  // steps
} life;

static life life_of(const tc_program *p, uint32_t place) {
  life of = {UINT32_MAX, 0};
  for (uint32_t i = 0; i < p->n_step; i++)
    for (uint32_t j = 0; j < p->step[i].n_binding; j++)
      if (p->binding[p->step[i].first_binding + j] == place) of = (life){TC_MIN(of.first, i), i};
  return of;
}

static bool together(const tc_program *p, uint32_t a, uint32_t b) {
  life x = life_of(p, ARENA_BIT | a), y = life_of(p, ARENA_BIT | b);
  return x.first <= y.last && y.first <= x.last;
}

static uint32_t n_reused;  // blocks that lie where another one was before

static void model_memory(const tc_program *p) {
  const tc_plan *plan = p->graph.plan;
  for (uint32_t a = 0; a < p->n_allocation; a++) {
    const tc_allocation *x = &p->allocation[a];
    size_t room = x->in == IN_ARENA ? p->arena_bytes : plan->out[x->in].bytes;
    if (x->offset + x->bytes > room) MISTAKE(MEMORY, "block %u ends behind its home", a);
    if (x->in != IN_ARENA && life_of(p, ARENA_BIT | a).last >= life_of(p, plan->n_leaf + x->in).first)
      MISTAKE(MEMORY, "block %u lies in a result that is there", a);
    for (uint32_t b = 0; b < a; b++) {
      const tc_allocation *y = &p->allocation[b];
      bool overlap = x->in == y->in && x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes;
      if (overlap && together(p, a, b)) MISTAKE(MEMORY, "blocks %u and %u share memory", a, b);
      n_reused += overlap;
    }
  }
  for (uint32_t o = 0; o < plan->n_out; o++) {
    uint32_t donor = plan->out[o].donor, writer = life_of(p, plan->n_leaf + o).first;
    for (uint32_t i = writer; donor != TC_LEAF_NONE && i < p->n_step; i++)
      for (uint32_t j = 0; j < p->step[i].n_binding; j++)
        if (p->binding[p->step[i].first_binding + j] == donor && !(i == writer && p->step[i].same >> j & 1))
          MISTAKE(MEMORY, "result %u is written over leaf %u, which step %u reads", o, donor, i);
  }
}

// ---- between the layers ----

tc_status __real_tc_gpu_launches_create(const tc_program *p, bool one_by_one, tc_gpu_launches **out);
tc_status __wrap_tc_gpu_launches_create(const tc_program *p, bool one_by_one, tc_gpu_launches **out);
tc_status __wrap_tc_gpu_launches_create(const tc_program *p, bool one_by_one, tc_gpu_launches **out) {
  for (uint32_t a = 0; planted == SHARED_BLOCKS && !one_by_one && a < p->n_allocation; a++)
    for (uint32_t b = 0; b < a; b++)
      if (p->allocation[a].bytes <= p->allocation[b].bytes && together(p, a, b))
        p->allocation[a].in = p->allocation[b].in, p->allocation[a].offset = p->allocation[b].offset;
  if (!one_by_one) model_memory(p);
  return __real_tc_gpu_launches_create(p, one_by_one, out);
}

tc_status __real_tc_gpu_launches_run(tc_gpu_launches *l, const tc_program *p, const tc_storages *at,
                                     const uint64_t *num, const uint64_t *skip, uint64_t *words,
                                     const tc_gpu_between *between, uint64_t *out_fault);
tc_status __wrap_tc_gpu_launches_run(tc_gpu_launches *l, const tc_program *p, const tc_storages *at,
                                     const uint64_t *num, const uint64_t *skip, uint64_t *words,
                                     const tc_gpu_between *between, uint64_t *out_fault);
tc_status __wrap_tc_gpu_launches_run(tc_gpu_launches *l, const tc_program *p, const tc_storages *at,
                                     const uint64_t *num, const uint64_t *skip, uint64_t *words,
                                     const tc_gpu_between *between, uint64_t *out_fault) {
  now.p = p, now.at = at, now.num = num, now.skip = skip, now.step = 0;
  return __real_tc_gpu_launches_run(l, p, at, num, skip, words, between, out_fault);
}

tc_status __real_tc_gpu_sequence_create(tc_gpu *g, const tc_gpu_launch *launch, uint32_t n, uint32_t n_words,
                                        tc_gpu_sequence **out);
tc_status __wrap_tc_gpu_sequence_create(tc_gpu *g, const tc_gpu_launch *launch, uint32_t n, uint32_t n_words,
                                        tc_gpu_sequence **out);
tc_status __wrap_tc_gpu_sequence_create(tc_gpu *g, const tc_gpu_launch *launch, uint32_t n, uint32_t n_words,
                                        tc_gpu_sequence **out) {
  tc_gpu_launch *mine = malloc(n * sizeof *mine), *given = malloc(n * sizeof *given);
  memcpy(mine, launch, n * sizeof *mine);
  memcpy(given, launch, n * sizeof *given);
  if (planted == SWAPPED_LAUNCHES && n > 1) given[0] = mine[1], given[1] = mine[0];
  tc_status st = __real_tc_gpu_sequence_create(g, given, n, n_words, out);
  free(given);
  EXPECT(st == TC_OK && n_lists < MOST_LISTS, "no sequence");
  lists[n_lists++] = (list){*out, mine, n, n_words, 0, calloc(n_words + 1, sizeof(uint64_t))};
  return st;
}

// Runs of a sequence before one copies operands that move: so many sets of addresses have graphs of
// their own.
enum { COPYING = 4 };

// What the driver is given of a run's words, with the bug that is planted: words of the run before,
// all of a run; those of calls that are told them; or of calls' first operands that are copied.
static const uint64_t *words_given(const list *x, const uint64_t *words, uint64_t *mine) {
  bool all = planted == STALE_WORDS && x->n_runs == 5;
  uint32_t n = planted == STALE_PRODUCTS && x->n_runs < COPYING  ? FAULT
               : planted == STALE_COPIES && x->n_runs >= COPYING ? 1
                                                                 : 0;
  if (!all && n == 0) return words;
  memcpy(mine, all ? x->before : words, x->n_words * sizeof *mine);
  for (uint32_t i = 0; i < x->n && x->n_runs > 0; i++)
    if (x->launch[i].call)
      memcpy(mine + x->launch[i].first_word, x->before + x->launch[i].first_word, n * sizeof *mine);
  return mine;
}

tc_status __real_tc_gpu_sequence_run(tc_gpu_sequence *s, const uint64_t *words);
tc_status __wrap_tc_gpu_sequence_run(tc_gpu_sequence *s, const uint64_t *words);
tc_status __wrap_tc_gpu_sequence_run(tc_gpu_sequence *s, const uint64_t *words) {
  list *x = lists;
  while (x->of != s) x++;
  run *r = run_begin();
  model_run(x, words, r);
  uint64_t *mine = malloc((x->n_words + 1) * sizeof *mine), n_graphs = n_calls(graph_launch);
  tc_status st = __real_tc_gpu_sequence_run(s, words_given(x, words, mine));
  r->replayed = n_calls(graph_launch) > n_graphs;
  free(mine);
  memcpy(x->before, words, x->n_words * sizeof *words);
  x->n_runs++;
  n_asked++;
  most_ahead = TC_MAX_OF(most_ahead, n_asked - n_done);
  if (n_asked - n_done > AHEAD) MISTAKE(QUEUE, "%u runs are on their way", n_asked - n_done);
  return st;
}

// Copies that are planted: they are short of some bytes, or none goes out. What calls are told
// stays.
uint32_t __real_tc_gpu_graph_copies_nodes(tc_gpu *g, const tc_gpu_graph_copies *m, uint32_t call, bool behind,
                                          const uint64_t *table, tc_gpu_async_copy *copy, tc_gpu_node *node);
uint32_t __wrap_tc_gpu_graph_copies_nodes(tc_gpu *g, const tc_gpu_graph_copies *m, uint32_t call, bool behind,
                                          const uint64_t *table, tc_gpu_async_copy *copy, tc_gpu_node *node);
uint32_t __wrap_tc_gpu_graph_copies_nodes(tc_gpu *g, const tc_gpu_graph_copies *m, uint32_t call, bool behind,
                                          const uint64_t *table, tc_gpu_async_copy *copy, tc_gpu_node *node) {
  uint32_t n = __real_tc_gpu_graph_copies_nodes(g, m, call, behind, table, copy, node);
  for (uint32_t i = 0; planted == CUT_COPIES && i < n; i++) copy[i].bytes -= 16;
  return planted == UNCOPIED_RESULTS && behind ? 0 : n;
}

const char *__real_tc_gpu_graph_copies_place(tc_gpu *g, tc_gpu_graph_copies *m, const tc_gpu_launch *launch);
const char *__wrap_tc_gpu_graph_copies_place(tc_gpu *g, tc_gpu_graph_copies *m, const tc_gpu_launch *launch);
const char *__wrap_tc_gpu_graph_copies_place(tc_gpu *g, tc_gpu_graph_copies *m, const tc_gpu_launch *launch) {
  const char *why = __real_tc_gpu_graph_copies_place(g, m, launch);
  if (planted == SHARED_PLACES && !why && kept_by_test) m->place = kept_by_test->ptr;
  return why;
}

static void see_kernel(const awaited *a, const sim_begun *b) {
  const uint64_t *table = *(const uint64_t *const *)b->parameter;
  if (!a->kernel || strcmp(a->kernel, b->kernel) != 0 || a->blocks != b->blocks || a->threads != b->threads)
    MISTAKE(LIST, "%s of %u blocks begins, not %s of %u", b->kernel, b->blocks,
            a->kernel ? a->kernel : "a library's product", a->blocks);
  else if (memcmp(table, a->words, a->n_words * sizeof *table) != 0)
    MISTAKE(WORDS, "the table of %s is not that of its run", b->kernel);
}

static void see(void *arg, const sim_begun *b) {
  (void)arg;
  bool copies = b->kernel && strcmp(b->kernel, "tc_copy_operand") == 0;
  look_at_copies(b->kernel, copies);
  if (copies) {
    see_copy(b->parameter);
    return;
  }
  if (b->kernel && strncmp(b->kernel, "tc_fill_", 8) == 0) return;  // whose work is looked at in what follows
  if (n_begun == n_awaited) {
    MISTAKE(LIST, "%s begins, and nothing is awaited", b->kernel ? b->kernel : "a library's product");
    return;
  }
  const awaited *a = &begin[n_begun++];
  if (b->kernel)
    see_kernel(a, b);
  else
    see_product(a, b->parameter);
  if (!unfinished) run_end(a);
}

// ---- the program ----

static tc_tensor filled(int rows, int columns, int seed) {
  float x[ROWS * 32];
  for (int i = 0; i < rows * columns; i++) x[i] = (float)((i * 7 + seed * 13) % 23 - 11) / 8;
  return tc_from_host(x, TC_SHAPE(rows, columns), TC_F32);
}

// Steps of two plans, that update a state and keep some results, some of them products, and of one
// whose products have no operand of the step's; all is read at the end.
static void run_program(float out[READ][ROWS * ROWS]) {
  tc_scope s = tc_scope_begin();
  tc_tensor a = filled(16, 32, 1), b = filled(32, 16, 2), state = filled(ROWS, 16, 3), kept[2 * KEPT];
  int n_cached = 0;
  for (int k = 0; k < STEPS; k++) {
    tc_scope inner = tc_scope_begin();
    tc_scope layers = tc_scope_begin();  // whose values nobody asks for
    tc_tensor h = filled(k % 4 == 3 ? ROWS / 2 : ROWS, 16, k), results[2];
    for (int layer = 0; layer < 3; layer++) {
      results[1] = tc_matmul(tc_relu(tc_add(tc_matmul(h, a), (float)k / 8)), b);
      h = tc_tanh(results[1]);
    }
    results[0] = h = tc_keep(tc_softmax(tc_mul(h, 1 + (float)k), 1));
    results[1] = tc_keep(results[1]);
    tc_scope_end(layers);
    EXPECT_OK(tc_assign(state, tc_add(tc_mul(state, 0.5f), tc_sum(h, TC_AXES(0), true))));
    for (int i = 0; i < 2 && k % 3 == 0; i++) kept[n_cached++] = tc_retain(results[i]);
    EXPECT_OK(tc_eval(2, results));
    tc_tensor other = tc_tanh(tc_matmul(tc_mul(a, 1 / (1 + (float)k)), b));
    EXPECT_OK(tc_eval(1, &other));
    if (k == 6 && planted) {
      tc_trace *t;
      kept_by_test = tc_slot_find(kept[0], &t)->buf;
      if (planted == GIVEN_BACK_EARLY) tc_buffer_release(kept_by_test);
    }
    tc_scope_end(inner);
  }
  for (int i = 0; i < n_cached; i++) {
    EXPECT_OK(tc_to_host(kept[i], out[i], (size_t)tc_numel(kept[i]) * sizeof(float)));
    tc_release(kept[i]);
  }
  EXPECT_OK(tc_to_host(state, out[n_cached], sizeof out[n_cached]));
  const int64_t at[] = {3, 0, 15};  // and what waits for its check of indices
  tc_tensor rows = tc_index_select(state, 0, tc_from_host(at, TC_SHAPE(3), TC_I64));
  EXPECT_OK(tc_eval(1, &rows));
  tc_scope_end(s);
}

// Where it is run.
typedef struct way {
  const char *name, *device, *driver, *gfx;  // gfx: of AMD's
  const char *variable, *library;  // who makes products; NULL: generated kernels
} way;

static void choose(const way *w) {
  if (w->gfx) setenv("TC_SIM_GFX", w->gfx, 1);
  if (w->library) setenv(w->variable, built(w->library), 1);
  EXPECT(!w->library || !w->gfx || built_kernels(w->gfx), "no files of kernels");
  setenv("TC_GPU_LIBRARIES", w->library ? "always" : "never", 1);
  tc_options_reload();
}

// What was found.
static unsigned model(const way *w) {
  static float want[READ][ROWS * ROWS], got[READ][ROWS * ROWS];
  void *sim = dlopen(built(w->driver), RTLD_NOW);
  void (*watch)(void (*)(void *, const sim_begun *), void *) = sim ? (__typeof__(watch))dlsym(sim, "sim_watch") : NULL;
  n_calls = sim ? (__typeof__(n_calls))dlsym(sim, "sim_calls") : NULL,
  graph_launch = w->gfx ? "hipGraphLaunch" : "cuGraphLaunch";
  EXPECT(watch && n_calls, "%s", dlerror());
  if (!watch || !n_calls) return VALUES;
  choose(w);
  watch(see, NULL);
  plant mine = planted;
  planted = NO_PLANT;
  EXPECT_OK(tc_set_default_device("tc:cpu"));
  run_program(want);
  planted = mine;
  EXPECT_OK(tc_set_default_device(w->device));
  run_program(got);
  for (int i = 0; i < READ; i++)
    for (int j = 0; j < ROWS * ROWS; j++)
      if (!(fabsf(got[i][j] - want[i][j]) <= 1e-4f * (1 + fabsf(want[i][j]))))
        MISTAKE(VALUES, "result %d is %g, not %g", i, got[i][j], want[i][j]);
  uint32_t n_copying, n_others;
  count_replays(&n_copying, &n_others);
  if (planted) return found;
  EXPECT(found == 0, "mistakes of kinds %u", found);
  EXPECT(n_begun == n_awaited && n_begun > STEPS * 4, "%u of %u launches began", n_begun, n_awaited);
  EXPECT(most_ahead == AHEAD, "at most %u runs were on their way", most_ahead);
  EXPECT(w->library ? n_products >= STEPS * 7 : n_products == 0, "%u products by a library", n_products);
  EXPECT(!w->library || (n_copying >= STEPS / 2 && n_others >= STEPS / 4),
         "%u graphs that copy for products, and %u others", n_copying, n_others);
  EXPECT(!unfinished, "a result is not copied at the end");
  EXPECT(n_reused > 0, "no memory is used twice within a plan");
  tc_shutdown();
  runs_end();
  EXPECT(n_live == 0, "%d buffers are in use at the end", n_live);
  return found;
}

typedef struct trial {
  const way *way;
  plant plant;
} trial;

static double model_planted(const void *arg) {
  const trial *t = arg;
  planted = t->plant, quiet = planted != NO_PLANT;
  unsigned kinds = model(t->way);
  fflush(stdout);
  return kinds;
}

int main(void) {
  static const way ways[] = {
      {"tc:cuda", "tc:cuda", "libsim-cuda.so", NULL, NULL, NULL},
      {"tc:hip, stages of 64", "tc:hip", "libsim-hip.so", "gfx90a", NULL, NULL},
      {"cuBLASLt", "tc:cuda", "libsim-cuda.so", NULL, "TC_CUBLASLT_LIBRARY", "libsim-cublaslt.so"},
      {"hipBLASLt", "tc:hip", "libsim-hip.so", "gfx90a", "TC_HIPBLASLT_LIBRARY", "libsim-hipblaslt.so"},
      {"rocBLAS, stages of 32", "tc:hip", "libsim-hip.so", "gfx1100", "TC_ROCBLAS_LIBRARY", "libsim-rocblas.so"}};
  static const struct {
    plant what;
    const char *name;
    unsigned kind;
  } plants[] = {{STALE_WORDS, "a table that was not written again", WORDS},
                {STALE_PRODUCTS, "products of the run before", WORDS},
                {SWAPPED_LAUNCHES, "two launches that changed places", LIST},
                {SHARED_BLOCKS, "two temporaries in one place", MEMORY},
                {SHARED_BUFFERS, "a result where a kept one lies", MEMORY},
                {GIVEN_BACK_EARLY, "memory of a kept result that is given back", VALUES},
                {STALE_COPIES, "copies of the run before's operands", WORDS},
                {CUT_COPIES, "copies that are not of all", LIST},
                {UNCOPIED_RESULTS, "results that are not copied", LIST},
                {SHARED_PLACES, "operands copied to where a kept result lies", MEMORY}};
  if (!built_simulators()) return puts("skipped: the simulated driver was not built"), 77;
  setenv("TC_SIM_EAGER", "0", 1);  // nothing runs before it is waited for
  setenv("TC_GPU_AHEAD", "6", 1);
  setenv("TC_COMPILER", "interp", 1);
  for (size_t k = 0; k < sizeof ways / sizeof ways[0]; k++) {
    EXPECT(in_child(model_planted, &(trial){&ways[k], NO_PLANT}) == 0, "%s: the model and the program differ",
           ways[k].name);
    for (size_t i = 0; i < sizeof plants / sizeof plants[0]; i++) {
      bool of_calls = plants[i].what == STALE_PRODUCTS || plants[i].what >= STALE_COPIES;
      if (of_calls && !ways[k].library) continue;
      double kinds = in_child(model_planted, &(trial){&ways[k], plants[i].what});
      EXPECT(kinds > 0 && ((unsigned)kinds & plants[i].kind), "%s: %s was not seen as it should: %g", ways[k].name,
             plants[i].name, kinds);
    }
  }
  return expect_done("gpu-model");
}
