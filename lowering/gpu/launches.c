#include "lowering/gpu/launches.h"

#include <string.h>

// Where a word of a launch's table comes from.
typedef enum word_kind { WORD_PLACE, WORD_NUM, WORD_CONST, WORD_SCRATCH, WORD_FAULT } word_kind;
typedef struct word {
  word_kind kind;
  uint64_t value;  // place, number of the program's scalar, the word itself, offset
} word;

struct tc_gpu_launches {
  tc_gpu_sequence **sequence;  // one, or one a step
  uint32_t *first_word;        // of each sequence, and the end
  uint32_t n_sequence;
  word *word;
  uint32_t n_word, cap_word;
  tc_gpu_launch *launch;  // of the sequence being made
  uint32_t n_launch, cap_launch;
  tc_gpu *gpu;
  size_t scratch_bytes;  // of rows, one after the other
  bool checks;
};

static bool room(void **array, uint32_t *cap, uint32_t n, size_t bytes) {
  if (n < *cap) return true;
  uint32_t to = TC_MAX_OF(*cap * 2, 64);
  void *p = tc_realloc(*array, to * bytes);
  if (!p) return false;
  *array = p, *cap = to;
  return true;
}

static tc_status no_room(void) {
  return TC_FAIL(TC_ERR_MEMORY, "no room for a program's launches");
}

static bool add_word(tc_gpu_launches *l, word_kind kind, uint64_t value) {
  if (!room((void **)&l->word, &l->cap_word, l->n_word, sizeof l->word[0])) return false;
  l->word[l->n_word++] = (word){kind, value};
  return true;
}

// Of the launch at hand, whose words begin here.
static tc_gpu_launch *add_launch(tc_gpu_launches *l, uint32_t sequence) {
  if (!room((void **)&l->launch, &l->cap_launch, l->n_launch, sizeof l->launch[0])) return NULL;
  l->launch[l->n_launch] = (tc_gpu_launch){.first_word = l->n_word - l->first_word[sequence]};
  return &l->launch[l->n_launch++];
}

// A kernel's groups do a unit each.
static tc_status add_kernel(tc_gpu_launches *l, const tc_program *p, const tc_step *s, uint32_t sequence) {
  const tc_gpu_shape *shape = &s->kernel->gpu_shape;
  tc_gpu_launch *x = add_launch(l, sequence);
  if (!x) return no_room();
  int64_t most = INT32_MAX, chunk = tc_ceil_div(s->extent, most * shape->groups), groups = tc_ceil_div(s->extent, TC_MAX_OF(chunk, 1));
  x->code = s->kernel->gpu_code;
  x->blocks = (uint32_t)TC_MAX_OF(tc_ceil_div(groups, shape->groups), 1);
  x->threads = shape->threads, x->shared_bytes = shape->shared_bytes;
  bool ok = true;
  for (uint32_t i = 0; i < s->n_bind; i++) ok = ok && add_word(l, WORD_PLACE, p->bind[s->first_bind + i]);
  for (uint32_t i = 0; i < s->n_num; i++) ok = ok && add_word(l, WORD_NUM, s->first_num + i);
  ok = ok && add_word(l, WORD_CONST, (uint64_t)s->extent) && add_word(l, WORD_CONST, (uint64_t)TC_MAX_OF(chunk, 1));
  ok = ok && (l->checks ? add_word(l, WORD_FAULT, 0) : add_word(l, WORD_CONST, 0));
  return ok ? TC_OK : no_room();
}

static tc_status add_step(tc_gpu_launches *l, const tc_program *p, const tc_step *s, uint32_t sequence) {
  if (s->kind == TC_STEP_KERNEL) return s->extent > 0 ? add_kernel(l, p, s, sequence) : TC_OK;
  return TC_FAIL(TC_ERR_DEVICE, "%s has no kernel for a GPU", s->kind == TC_STEP_CHECK ? "a check of indices" : tc_op_names[s->op]);
}

static tc_status end_sequence(tc_gpu_launches *l, uint32_t sequence) {
  uint32_t n = l->n_launch;
  l->n_launch = 0;
  l->first_word[sequence + 1] = l->n_word;
  return n ? tc_gpu_sequence_create(l->gpu, l->launch, n, l->n_word - l->first_word[sequence], &l->sequence[sequence]) : TC_OK;
}

static tc_status fill(tc_gpu_launches *l, const tc_program *p, bool one_by_one) {
  for (uint32_t i = 0; i < p->n_step; i++) l->checks |= p->step[i].kind == TC_STEP_CHECK;
  for (uint32_t i = 0; i < p->n_step; i++) {
    TC_TRY(add_step(l, p, &p->step[i], one_by_one ? i : 0));
    if (one_by_one) TC_TRY(end_sequence(l, i));
  }
  return one_by_one ? TC_OK : end_sequence(l, 0);
}

tc_status tc_gpu_launches_create(const tc_program *p, bool one_by_one, tc_gpu_launches **out) {
  *out = NULL;
  tc_gpu_launches *l = tc_calloc(1, sizeof *l);
  if (!l) return no_room();
  l->gpu = p->graph.target.gpu;
  l->n_sequence = one_by_one ? p->n_step : 1;
  l->sequence = tc_calloc(l->n_sequence + 1, sizeof l->sequence[0]);
  l->first_word = tc_calloc(l->n_sequence + 2, sizeof l->first_word[0]);
  tc_status st = l->sequence && l->first_word ? fill(l, p, one_by_one) : no_room();
  tc_free(l->launch);
  l->launch = NULL;
  if (st != TC_OK) return tc_gpu_launches_destroy(l), st;
  *out = l;
  return TC_OK;
}

void tc_gpu_launches_destroy(tc_gpu_launches *l) {
  if (!l) return;
  for (uint32_t i = 0; l->sequence && i < l->n_sequence; i++) tc_gpu_sequence_destroy(l->sequence[i]);
  tc_free(l->sequence);
  tc_free(l->first_word);
  tc_free(l->word);
  tc_free(l->launch);
  tc_free(l);
}

#define FAULT_BYTES 64  // the word, and room to the next line

size_t tc_gpu_launches_bytes(const tc_gpu_launches *l) {
  return l->scratch_bytes + (l->checks ? FAULT_BYTES : 0);
}

uint32_t tc_gpu_launches_words(const tc_gpu_launches *l) {
  return l->n_word;
}

tc_status tc_gpu_launches_run(const tc_gpu_launches *l, const tc_program *p, const tc_places *at, const uint64_t *num, const uint64_t *skip,
                              uint64_t *words, uint64_t *out_fault) {
  char *behind = at->arena + p->arena_bytes, *fault = behind + l->scratch_bytes;
  *out_fault = TC_GPU_NO_FAULT;
  for (uint32_t i = 0; i < l->n_word; i++) {
    const word *w = &l->word[i];
    switch (w->kind) {
      case WORD_PLACE: words[i] = (uint64_t)(uintptr_t)tc_place_pointer(p, at, (uint32_t)w->value); break;
      case WORD_NUM: words[i] = num[w->value]; break;
      case WORD_CONST: words[i] = w->value; break;
      case WORD_SCRATCH: words[i] = (uint64_t)(uintptr_t)(behind + w->value); break;
      case WORD_FAULT: words[i] = (uint64_t)(uintptr_t)fault; break;
    }
  }
  if (l->checks) TC_TRY(tc_gpu_write(l->gpu, fault, out_fault, sizeof *out_fault));
  for (uint32_t i = 0; i < l->n_sequence; i++)
    if (l->sequence[i] && !(skip && skip[i])) TC_TRY(tc_gpu_sequence_run(l->sequence[i], words + l->first_word[i]));
  return l->checks ? tc_gpu_read(l->gpu, out_fault, fault, sizeof *out_fault) : TC_OK;
}
