// Lowers steps to launches and their words, and fills in the words of a run. See launches.h.
#include "lowering/program/gpu/launches.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "lowering/jit/gpu_launch.h"
#include "lowering/program/gpu/rows.h"
#include "runtime/options.h"
#include "runtime/profile.h"

// Where a word of a launch's table comes from.
typedef enum word_kind { WORD_PLACE, WORD_NUM, WORD_CONST, WORD_SCRATCH, WORD_FAULT, WORD_MAP } word_kind;
typedef struct word {
  word_kind kind;
  uint64_t value;  // storage number, number of the program's scalar, the word itself, or offset
  uint64_t offset;  // PLACE: bytes from its beginning
} word;

// The source of a tensor map's words. first_word: the first word of its kernel. The latest words
// are kept, since most runs find operands where the last one did.
typedef struct map {
  tc_tensor_map of;
  uint32_t first_word;
  uint64_t at, words[TC_GPU_TENSOR_MAP_WORDS];  // the latest address and words, under the lock; at 0: none
} map;

// The code of a launch, until that is compiled.
typedef struct wanted {
  const tc_step *step;         // of a KERNEL
  uint32_t chunk;  // KERNEL: number of the word that holds the units per thread block
  const char *name, *source;  // of a row's kernel; NULL: none
  tc_kernel *kernel;  // of a row: a reference
} wanted;

struct tc_gpu_launches {
  tc_gpu_sequence **sequence;  // one for all steps, or one per step; NULL: it has no launches
  uint32_t *first_word, *first_launch;  // per sequence: its first word and launch, then the end
  uint32_t n_sequence;
  word *word;
  uint32_t n_word, cap_word;
  map *map;
  uint32_t n_map, cap_map;
  pthread_mutex_t lock;  // guards the maps' latest words
  // launch and wanted: NULL once sequences exist
  tc_gpu_launch *launch;
  wanted *wanted;
  uint32_t n_launch, cap_launch, cap_wanted;
  tc_arena arena;  // memory of rows; empty once sequences exist
  uint64_t n_checks;  // CHECK steps seen so far
  tc_gpu *gpu;
  size_t scratch_bytes;  // the most of any step: steps run one after another
  bool checks;
};

static tc_status no_room(void) {
  return TC_FAIL(TC_ERR_MEMORY, "no room for a program's launches");
}

static bool add_word(tc_gpu_launches *l, word_kind kind, uint64_t value) {
  if (!TC_GROW(l->word, l->cap_word, l->n_word + 1)) return false;
  l->word[l->n_word++] = (word){kind, value, 0};
  return true;
}

static bool add_place(tc_gpu_launches *l, uint32_t place, uint64_t offset) {
  bool added = add_word(l, WORD_PLACE, place);
  if (added) l->word[l->n_word - 1].offset = offset;
  return added;
}

// Adds a launch, whose words begin at the present end.
static tc_gpu_launch *add_launch(tc_gpu_launches *l, uint32_t sequence) {
  if (!TC_GROW(l->launch, l->cap_launch, l->n_launch + 1)) return NULL;
  if (!TC_GROW(l->wanted, l->cap_wanted, l->n_launch + 1)) return NULL;
  l->launch[l->n_launch] = (tc_gpu_launch){.first_word = l->n_word - l->first_word[sequence]};
  l->wanted[l->n_launch] = (wanted){.step = NULL};
  return &l->launch[l->n_launch++];
}

// Pads the words to an offset where a tensor map may lie.
static bool align_words(tc_gpu_launches *l, uint32_t sequence) {
  while ((l->n_word - l->first_word[sequence]) % TC_GPU_TENSOR_MAP_ALIGNED)
    if (!add_word(l, WORD_CONST, 0)) return false;
  return true;
}

static bool add_map(tc_gpu_launches *l, const tc_tensor_map *m, uint32_t first_word) {
  if (!TC_GROW(l->map, l->cap_map, l->n_map + 1)) return false;
  bool added = true;
  for (int i = 0; i < TC_GPU_TENSOR_MAP_WORDS; i++) added = added && add_word(l, WORD_MAP, l->n_map);
  l->map[l->n_map++] = (map){.of = *m, .first_word = first_word};
  return added;
}

// Fills in a map's words at `out`. words: those of the run.
static tc_status fill_map(tc_gpu_launches *l, uint64_t number, const uint64_t *words, uint64_t *out) {
  map *m = &l->map[number];
  const uint64_t *own = words + m->first_word;
  tc_status st = TC_OK;
  pthread_mutex_lock(&l->lock);
  if (own[m->of.buffer] && m->at != own[m->of.buffer]) {  // a skipped step may have no operand
    st = tc_gpu_launch_tensor_map(l->gpu, &m->of, own, m->words);
    m->at = st == TC_OK ? own[m->of.buffer] : 0;
  }
  memcpy(out, m->words, sizeof m->words);
  pthread_mutex_unlock(&l->lock);
  return st;
}

static tc_status add_kernel(tc_gpu_launches *l, const tc_program *p, const tc_step *s, uint32_t sequence) {
  const tc_kir *kir = &s->pending->kir;
  bool ok = kir->n_map == 0 || align_words(l, sequence);
  if (!ok || !add_launch(l, sequence)) return no_room();
  uint32_t first = l->n_word;
  for (uint32_t i = 0; i < s->n_binding; i++) ok = ok && add_word(l, WORD_PLACE, p->binding[s->first_binding + i]);
  for (uint32_t i = 0; i < s->n_num; i++) ok = ok && add_word(l, WORD_NUM, s->first_num + i);
  ok = ok && add_word(l, WORD_CONST, (uint64_t)s->extent);
  l->wanted[l->n_launch - 1] = (wanted){.step = s, .chunk = l->n_word};
  ok = ok && add_word(l, WORD_CONST, 0);
  ok = ok && (l->checks ? add_word(l, WORD_FAULT, 0) : add_word(l, WORD_CONST, 0));
  ok = ok && (kir->n_map == 0 || align_words(l, sequence));
  for (uint32_t i = 0; i < kir->n_map; i++) ok = ok && add_map(l, &kir->map[i], first);
  return ok ? TC_OK : no_room();
}

// Adds a library call. Its workspace is scratch memory shared with rows, since steps run one after
// another.
static tc_status add_call(tc_gpu_launches *l, const tc_program *p, const tc_step *s, uint32_t sequence) {
  size_t workspace = tc_gpu_call_workspace(s->call);
  const uint32_t *binding = p->binding + s->first_binding;
  tc_gpu_launch *x = add_launch(l, sequence);
  if (!x) return no_room();
  x->call = s->call;
  l->scratch_bytes = TC_MAX_OF(l->scratch_bytes, (workspace + 63) & ~(size_t)63);
  bool biased = s->n_binding == 4,
       ok = add_place(l, binding[0], s->offset[0]) && add_place(l, binding[1], s->offset[1]);
  ok = ok && add_place(l, binding[s->n_binding - 1], 0);
  ok = ok && (biased ? add_place(l, binding[2], s->offset[2]) : add_word(l, WORD_CONST, 0));
  ok = ok && add_word(l, workspace ? WORD_SCRATCH : WORD_CONST, 0);
  return ok && add_word(l, l->checks ? WORD_FAULT : WORD_CONST, 0) ? TC_OK : no_room();
}

static bool add_row_word(tc_gpu_launches *l, const tc_program *p, const tc_step *s, const tc_gpu_word *w) {
  switch (w->kind) {
    case TC_ROW_WORD_CONST: return add_word(l, WORD_CONST, w->value);
    case TC_ROW_WORD_OPERAND: return add_word(l, WORD_PLACE, p->binding[s->first_binding + w->value]);
    case TC_ROW_WORD_RESULT: return add_word(l, WORD_PLACE, p->binding[s->first_binding + s->n_binding - 1]);
    case TC_ROW_WORD_SCRATCH: return add_word(l, WORD_SCRATCH, w->value);
    case TC_ROW_WORD_ARG: return add_word(l, WORD_NUM, s->first_num + w->value);
    case TC_ROW_WORD_FAULT: return add_word(l, l->checks ? WORD_FAULT : WORD_CONST, 0);
  }
  return false;
}

// Adds the launches of a row. Rows share scratch memory, since they run one after another.
static tc_status add_row_launches(tc_gpu_launches *l, const tc_program *p, const tc_step *s, const tc_gpu_row *row,
                                  uint32_t sequence) {
  l->scratch_bytes = TC_MAX_OF(l->scratch_bytes, (row->scratch_bytes + 63) & ~(size_t)63);
  for (uint32_t i = 0; i < row->n_launch; i++) {
    const tc_gpu_row_launch *from = &row->launch[i];
    tc_gpu_launch *x = add_launch(l, sequence);
    bool ok = x != NULL;
    if (ok) x->blocks = from->blocks, x->threads = from->threads, x->shared_bytes = from->shared_bytes;
    if (ok) l->wanted[l->n_launch - 1] = (wanted){.name = from->name, .source = from->source};
    for (uint32_t k = 0; k < from->n_word && ok; k++) ok = add_row_word(l, p, s, &from->word[k]);
    if (!ok) return no_room();
  }
  return TC_OK;
}

// Whether the step's first operand, which it writes into, is its result's memory.
static bool is_in_place(const tc_program *p, const tc_step *s) {
  const tc_plan *plan = p->graph.plan;
  uint32_t from = p->binding[s->first_binding], to = p->binding[s->first_binding + s->n_binding - 1];
  bool is_out = !(to & ARENA_BIT) && to >= plan->n_leaf && to < plan->n_leaf + plan->n_out;
  return from == to || (is_out && plan->out[to - plan->n_leaf].donor == from && from < plan->n_leaf);
}

static tc_status add_row(tc_gpu_launches *l, const tc_program *p, const tc_step *s, uint32_t sequence) {
  const tc_gnode *x = &p->graph.node[s->node];
  tc_gpu_tensor *in = tc_arena_alloc(&l->arena, ((size_t)x->n_in + 1) * sizeof *in);
  tc_gpu_row row;
  if (!in) return no_room();
  for (int i = 0; i < x->n_in; i++)
    in[i] = (tc_gpu_tensor){p->graph.node[x->in[i]].type, p->graph.node[x->in[i]].shape->d};
  const tc_gpu_row_call call = {.op = x->op,
                                .n_in = x->n_in,
                                .in = in,
                                .out = {x->type, x->shape->d},
                                .attr = x->attr,
                                .n_arg = x->n_arg,
                                .filled = s->n_num > (uint32_t)x->n_arg,
                                .in_place = x->n_in > 0 && is_in_place(p, s)};
  TC_TRY(tc_gpu_row_make(&call, &l->arena, &row));
  return add_row_launches(l, p, s, &row, sequence);
}

static tc_status add_check(tc_gpu_launches *l, const tc_program *p, const tc_step *s, uint32_t sequence) {
  tc_gpu_row row;
  TC_TRY(tc_gpu_row_check((uint64_t)s->extent, p->num[s->first_num].value, l->n_checks++ << TC_GPU_FAULT_SHIFT,
                          &l->arena, &row));
  return add_row_launches(l, p, s, &row, sequence);
}

static tc_status add_step(tc_gpu_launches *l, const tc_program *p, const tc_step *s, uint32_t sequence) {
  switch ((tc_step_kind)s->kind) {
    case TC_STEP_KERNEL: return s->extent > 0 ? add_kernel(l, p, s, sequence) : TC_OK;
    case TC_STEP_CALL: return add_call(l, p, s, sequence);
    case TC_STEP_ROW: return add_row(l, p, s, sequence);
    case TC_STEP_CHECK: return add_check(l, p, s, sequence);
    case TC_STEP_CONTROL: return TC_OK;
    case TC_STEP_ZERO:
    case TC_STEP_LOADED: break;  // other devices have them
  }
  return TC_FAIL(TC_ERR_STATE, "%s is no step of a GPU", tc_op_names[s->op]);
}

static tc_status fill_launches(tc_gpu_launches *l, const tc_program *p, bool one_by_one) {
  for (uint32_t i = 0; i < p->n_step; i++) l->checks |= p->step[i].kind == TC_STEP_CHECK;
  uint32_t sequence = 0;
  for (uint32_t i = 0; i < p->n_step; i++) {
    if (one_by_one) sequence = i;
    TC_TRY(add_step(l, p, &p->step[i], sequence));
    l->first_word[sequence + 1] = l->n_word, l->first_launch[sequence + 1] = l->n_launch;
    if (p->step[i].kind != TC_STEP_CONTROL) continue;
    sequence++;
    l->first_word[sequence + 1] = l->n_word, l->first_launch[sequence + 1] = l->n_launch;
  }
  return TC_OK;
}

tc_status tc_gpu_launches_create(const tc_program *p, bool one_by_one, tc_gpu_launches **out) {
  *out = NULL;
  tc_gpu_launches *l = tc_calloc(1, sizeof *l);
  if (!l) return no_room();
  pthread_mutex_init(&l->lock, NULL);
  l->gpu = p->graph.target.gpu;
  l->n_sequence = one_by_one ? p->n_step : 1 + p->n_control;
  l->sequence = tc_calloc(l->n_sequence + 1, sizeof l->sequence[0]);
  l->first_word = tc_calloc(l->n_sequence + 2, sizeof l->first_word[0]);
  l->first_launch = tc_calloc(l->n_sequence + 2, sizeof l->first_launch[0]);
  tc_status st = l->sequence && l->first_word && l->first_launch ? fill_launches(l, p, one_by_one) : no_room();
  if (st != TC_OK) return tc_gpu_launches_destroy(l), st;
  *out = l;
  return TC_OK;
}

// ---- their kernels ----

uint32_t tc_gpu_launches_own(const tc_gpu_launches *l) {
  uint32_t missing = 0;
  for (uint32_t i = 0; i < l->n_sequence; i++) {
    bool calls = false;
    for (uint32_t k = l->first_launch[i]; k < l->first_launch[i + 1]; k++) calls |= l->launch[k].call != NULL;
    missing |= tc_gpu_own_missing(l->gpu, l->first_word[i + 1] - l->first_word[i], calls);
  }
  return missing;
}

uint32_t tc_gpu_launches_requests(const tc_gpu_launches *l, tc_kernel_request *request) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < l->n_launch; i++) {
    if (!l->wanted[i].source) continue;
    if (request) request[n] = (tc_kernel_request){.text = l->wanted[i].source, .stem = l->wanted[i].name};
    n++;
  }
  return n;
}

// Frees what sequences do not need.
static void drop_wanted(tc_gpu_launches *l) {
  for (uint32_t i = 0; i < l->n_launch; i++) tc_kernel_release(l->wanted[i].kernel);
  tc_free(l->wanted);
  tc_free(l->launch);
  tc_free(l->first_launch);
  tc_arena_fini(&l->arena);
  l->wanted = NULL, l->launch = NULL, l->first_launch = NULL, l->n_launch = 0;
}

tc_status tc_gpu_launches_finish(tc_gpu_launches *l, const tc_kernel_request *made) {
  tc_status st = TC_OK;
  for (uint32_t i = 0; i < l->n_launch; i++) {
    wanted *w = &l->wanted[i];
    if (w->source) l->launch[i].code = (w->kernel = made++->kernel)->gpu_code;
    if (w->step)
      l->word[w->chunk].value = (uint64_t)tc_gpu_launch_kernel(w->step->kernel, w->step->extent, &l->launch[i]);
  }
  for (uint32_t i = 0; i < l->n_sequence && st == TC_OK; i++) {
    uint32_t first = l->first_launch[i], n = l->first_launch[i + 1] - first;
    if (n)
      st = tc_gpu_sequence_create(l->gpu, l->launch + first, n, l->first_word[i + 1] - l->first_word[i],
                                  &l->sequence[i]);
  }
  drop_wanted(l);
  return st;
}

void tc_gpu_launches_destroy(tc_gpu_launches *l) {
  if (!l) return;
  drop_wanted(l);
  for (uint32_t i = 0; l->sequence && i < l->n_sequence; i++) tc_gpu_sequence_destroy(l->sequence[i]);
  tc_free(l->sequence);
  tc_free(l->first_word);
  tc_free(l->word);
  tc_free(l->map);
  pthread_mutex_destroy(&l->lock);
  tc_free(l);
}

size_t tc_gpu_launches_held(const tc_gpu_launches *l) {
  size_t bytes = sizeof *l + l->cap_word * sizeof *l->word + l->cap_map * sizeof *l->map;
  bytes += (l->n_sequence + 1) * sizeof *l->sequence + (l->n_sequence + 2) * sizeof *l->first_word;
  for (uint32_t i = 0; i < l->n_sequence; i++) bytes += l->sequence[i] ? tc_gpu_sequence_held(l->sequence[i]) : 0;
  return bytes;
}

#define FAULT_BYTES 64  // the word, padded to a cache line
#define SCRATCH_ALIGNED 256  // alignment of a library's workspace; arena_bytes is a multiple of 64

size_t tc_gpu_launches_bytes(const tc_gpu_launches *l) {
  return l->scratch_bytes + (l->checks ? FAULT_BYTES : 0) + (l->scratch_bytes ? SCRATCH_ALIGNED - 64 : 0);
}

tc_gpu_how tc_gpu_launches_how(const tc_gpu_launches *l) {
  const tc_gpu_sequence *s = l->sequence[0];
  const char *plain = l->n_sequence > 1 ? "its control flow is run by the host"
                      : s               ? tc_gpu_sequence_plain(s)
                                        : "it has no kernels";
  tc_gpu_how how = {.replayed = !plain, .note = plain};
  if (plain) return how;
  how.copied_bytes = tc_gpu_sequence_copied(s);
  if (how.copied_bytes) how.note = "its libraries' operands or results are at ever other addresses, and are copied";
  if (l->checks)
    how.note =
        how.copied_bytes
            ? "its run waits for the check of its indices, and copies its libraries' operands or results, which are at ever other addresses"
            : "its run waits for the check of its indices";
  return how;
}

uint32_t tc_gpu_launches_words(const tc_gpu_launches *l) {
  return l->n_word;
}

// Whose kernels this thread times next.
static _Thread_local struct {
  const tc_program *p;
  tc_step_time *times;  // NULL: none are timed
  uint32_t next;  // the step that the next kernel may be of
  uint64_t at;  // where the next one begins, in ticks
} timing;

void tc_gpu_launches_time(const tc_program *p, tc_step_time *times) {
  timing.p = p, timing.times = times, timing.next = 0, timing.at = tc_ticks();
}

// A step may be several kernels, of which one has its name.
static void tell_time(const char *name, uint64_t ns) {
  uint64_t begin = timing.at, end = begin + (uint64_t)((double)ns / tc_tick_ns());
  timing.at = end;
  for (uint32_t i = timing.next; i < timing.p->n_step; i++) {
    const tc_step *s = &timing.p->step[i];
    const char *own = s->kernel ? s->kernel->name : tc_op_names[s->op];
    if (strncmp(name, own, strlen(own)) != 0) continue;
    atomic_store(&timing.times[i].begin, begin), atomic_store(&timing.times[i].end, end);
    atomic_store(&timing.times[i].workers, 1);
    timing.next = i + 1;
    return;
  }
}

static tc_status run_sequence(const tc_gpu_launches *l, uint32_t i, const uint64_t *words) {
  if (TC_LIKELY(!timing.times)) return tc_gpu_sequence_run(l->sequence[i], words + l->first_word[i]);
  return tc_gpu_sequence_time(l->sequence[i], words + l->first_word[i], tell_time);
}

// The bodies' kernels are not timed as the program's.
static tc_status run_between(const tc_gpu_between *between, const tc_step *s) {
  tc_step_time *times = timing.times;
  const tc_program *p = timing.p;
  timing.times = NULL;
  tc_status st = between->run(between->arg, s);
  timing.times = times, timing.p = p;
  return st;
}

tc_status tc_gpu_launches_run(tc_gpu_launches *l, const tc_program *p, const tc_storages *at, const uint64_t *num,
                              const uint64_t *skip, uint64_t *words, const tc_gpu_between *between,
                              uint64_t *out_fault) {
  size_t end =
      l->scratch_bytes ? (p->arena_bytes + SCRATCH_ALIGNED - 1) & ~(size_t)(SCRATCH_ALIGNED - 1) : p->arena_bytes;
  char *behind = at->arena + end, *fault = behind + l->scratch_bytes;
  *out_fault = TC_GPU_NO_FAULT;
  for (uint32_t i = 0; i < l->n_word; i++) {
    const word *w = &l->word[i];
    switch (w->kind) {
      case WORD_PLACE: words[i] = (uint64_t)(uintptr_t)tc_storage_pointer(p, at, (uint32_t)w->value) + w->offset; break;
      case WORD_NUM: words[i] = num[w->value]; break;
      case WORD_CONST: words[i] = w->value; break;
      case WORD_SCRATCH: words[i] = (uint64_t)(uintptr_t)(behind + w->value); break;
      case WORD_FAULT: words[i] = (uint64_t)(uintptr_t)fault; break;
      case WORD_MAP:
        TC_TRY(fill_map(l, w->value, words, words + i));
        i += TC_GPU_TENSOR_MAP_WORDS - 1;
        break;
    }
  }
  if (l->checks) TC_TRY(tc_gpu_write(l->gpu, fault, out_fault, sizeof *out_fault));
  const tc_step *s = p->step;
  for (uint32_t i = 0; i < l->n_sequence; i++) {
    if (l->sequence[i] && !(skip && skip[i])) TC_TRY(run_sequence(l, i, words));
    if (p->n_control == 0 || i + 1 == l->n_sequence) continue;
    while (s->kind != TC_STEP_CONTROL) s++;
    if (l->checks) TC_TRY(tc_gpu_read(l->gpu, out_fault, fault, sizeof *out_fault));
    if (*out_fault != TC_GPU_NO_FAULT) return TC_OK;
    TC_TRY(run_between(between, s++));
  }
  if (p->n_control) TC_TRY(tc_gpu_copies_end(l->gpu));
  return l->checks ? tc_gpu_read(l->gpu, out_fault, fault, sizeof *out_fault) : TC_OK;
}
