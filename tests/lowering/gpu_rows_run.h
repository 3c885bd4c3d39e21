// Runs rows on the simulated device: operands are copied there, the launches become a sequence, and
// the result comes back.
#pragma once

#include "kernels/ref/ref.h"
#include "lazy/trace/trace.h"
#include "lowering/program/gpu/rows.h"
#include "tests/device/simulated.h"

typedef struct rows_job {
  tc_gpu_row_call call;
  const uint64_t *arg;
  const void *in[TC_REF_MAX_IN];
  void *out;
} rows_job;

static tc_gpu *rows_gpu;

static inline size_t rows_bytes(const tc_gpu_tensor *t) {
  size_t n = tc_type_bytes(t->type);
  for (int i = 0; i < t->d.rank; i++) n *= (size_t)t->d.dim[i];
  return n;
}

static inline void *rows_copy(const void *from, size_t bytes) {
  void *p;
  OK(tc_gpu_alloc(rows_gpu, bytes ? bytes : 1, &p));
  if (bytes && from) OK(tc_gpu_write(rows_gpu, p, from, bytes));
  return p;
}

static inline uint64_t rows_address(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

static inline void rows_launch(const tc_gpu_row *row, void *const *in, void *out, const uint64_t *arg, void *fault) {
  tc_gpu_launch launch[64];
  static uint64_t word[64 * 64 + 2 * TC_REF_MAX_IN];
  uint32_t n = 0;
  tc_gpu_sequence *s;
  char *scratch = rows_copy(NULL, row->scratch_bytes);
  cr_assert(row->n_launch <= 64);
  for (uint32_t i = 0; i < row->n_launch; i++) {
    const tc_gpu_row_launch *l = &row->launch[i];
    launch[i] =
        (tc_gpu_launch){.blocks = l->blocks, .threads = l->threads, .shared_bytes = l->shared_bytes, .first_word = n};
    OK(tc_gpu_compile(rows_gpu, l->name, l->source, &launch[i].code));
    for (uint32_t k = 0; k < l->n_word; k++) {
      uint64_t v = l->word[k].value;
      switch (l->word[k].kind) {
        case TC_ROW_WORD_CONST: break;
        case TC_ROW_WORD_OPERAND: v = rows_address(in[v]); break;
        case TC_ROW_WORD_RESULT: v = rows_address(out); break;
        case TC_ROW_WORD_SCRATCH: v += rows_address(scratch); break;
        case TC_ROW_WORD_ARG: v = arg[v]; break;
        case TC_ROW_WORD_FAULT: v = rows_address(fault); break;
      }
      word[n++] = v;
    }
  }
  if (row->n_launch) {
    OK(tc_gpu_sequence_create(rows_gpu, launch, row->n_launch, n, &s));
    OK(tc_gpu_sequence_run(s, word));
    OK(tc_gpu_wait(rows_gpu));
    cr_assert_eq(CALL(int (*)(void), "sim_faults")(), 0, "%s", CALL(const char *(*)(void), "sim_fault_text")());
    tc_gpu_sequence_destroy(s);
  }
  for (uint32_t i = 0; i < row->n_launch; i++) tc_gpu_code_release(launch[i].code);
  tc_gpu_free(rows_gpu, scratch);
}

// Opens the device, or skips the test.
static inline void rows_open(void) {
  simulate(NULL);
  rows_gpu = open_gpu(0);
}

static inline void rows_run(const rows_job *job) {
  const tc_gpu_row_call *c = &job->call;
  size_t bytes = rows_bytes(&c->out);
  void *in[TC_REF_MAX_IN], *out = c->in_place ? NULL : rows_copy(NULL, bytes);
  tc_arena arena = {0};
  tc_gpu_row row;
  for (int i = 0; i < c->n_in; i++) in[i] = c->filled && i == 0 ? NULL : rows_copy(job->in[i], rows_bytes(&c->in[i]));
  OK(tc_gpu_row_make(c, &arena, &row));
  rows_launch(&row, in, c->in_place ? in[0] : out, job->arg, NULL);
  if (bytes) OK(tc_gpu_read(rows_gpu, job->out, c->in_place ? in[0] : out, bytes));
  for (int i = 0; i < c->n_in; i++)
    if (in[i]) tc_gpu_free(rows_gpu, in[i]);
  if (out) tc_gpu_free(rows_gpu, out);
  tc_arena_fini(&arena);
}

// What the fault word is after a check of n indices.
static inline uint64_t rows_check(const int64_t *index, uint64_t n, uint64_t extent, uint64_t base) {
  uint64_t told = UINT64_MAX;
  void *in[] = {rows_copy(index, n * sizeof *index)}, *fault = rows_copy(&told, sizeof told);
  tc_arena arena = {0};
  tc_gpu_row row;
  OK(tc_gpu_row_check(n, extent, base, &arena, &row));
  rows_launch(&row, in, NULL, NULL, fault);
  OK(tc_gpu_read(rows_gpu, &told, fault, sizeof told));
  tc_gpu_free(rows_gpu, in[0]);
  tc_gpu_free(rows_gpu, fault);
  tc_arena_fini(&arena);
  return told;
}

// Zeros over n bytes from offset on, of what else is 0x5a: n bytes of padding around nothing.
static inline void rows_zero(uint8_t *out, size_t bytes, uint64_t offset, uint64_t n) {
  const tc_gpu_tensor nothing = {TC_U8, {.rank = 1}}, zeros = {TC_U8, {.rank = 1, .dim = {(int64_t)n}}};
  const tc_gpu_row_call call = {
      .op = TC_OP_PAD, .n_in = 1, .in = &nothing, .out = zeros, .attr = (uint64_t[]){0, n}, .n_arg = 1};
  char *there = rows_copy(memset(out, 0x5a, bytes), bytes);
  tc_arena arena = {0};
  tc_gpu_row row;
  OK(tc_gpu_row_make(&call, &arena, &row));
  rows_launch(&row, (void *[]){NULL}, there + offset, (uint64_t[]){0}, NULL);
  OK(tc_gpu_read(rows_gpu, out, there, bytes));
  tc_gpu_free(rows_gpu, there);
  tc_arena_fini(&arena);
}
