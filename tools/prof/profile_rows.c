// Rows of records, read from a profile's file when they are asked for.
// In: places that profile.c has checked. Out: see profile.h.
// Invariants: rows that are not in the file any more read as none. Threads: one.
#include <stdlib.h>

#include "tools/prof/profile.h"

// Rows at an offset of the file, whose number was checked against their record.
static const void *read_rows(tc_profile *p, uint64_t offset, uint64_t n, size_t each) {
  free(p->rows);
  p->rows = n && offset + n * each <= p->size ? malloc(n * each) : NULL;
  if (p->rows && !tc_profile_bytes(p, offset, p->rows, n * each)) {
    free(p->rows);
    p->rows = NULL;
  }
  return p->rows;
}

static uint64_t rows_begin(const tc_profile *p, const tc_prof_plan *plan) {
  return 8ull * p->plan[plan->id].at + sizeof *plan;
}

const tc_prof_kernel *tc_profile_kernels(tc_profile *p, const tc_prof_plan *plan) {
  if (!read_rows(p, rows_begin(p, plan), plan->n_kernels, sizeof(tc_prof_kernel))) return NULL;
  tc_prof_kernel *row = p->rows;
  for (uint32_t i = 0; i < plan->n_kernels; i++) row[i].flops = tc_profile_number(row[i].flops);
  return row;
}

const tc_prof_boundary *tc_profile_boundaries(tc_profile *p, const tc_prof_plan *plan) {
  uint64_t before = (uint64_t)plan->n_kernels * sizeof(tc_prof_kernel);
  return read_rows(p, rows_begin(p, plan) + before, plan->n_boundaries, sizeof(tc_prof_boundary));
}

const tc_prof_block *tc_profile_blocks(tc_profile *p, const tc_prof_plan *plan) {
  uint64_t before =
      (uint64_t)plan->n_kernels * sizeof(tc_prof_kernel) + (uint64_t)plan->n_boundaries * sizeof(tc_prof_boundary);
  return read_rows(p, rows_begin(p, plan) + before, plan->n_blocks, sizeof(tc_prof_block));
}

const tc_prof_kernel_time *tc_profile_times(tc_profile *p, const tc_record_at *at) {
  return read_rows(p, at->offset + sizeof(tc_prof_kernel_times), at->n, sizeof(tc_prof_kernel_time));
}

const tc_prof_live *tc_profile_live(tc_profile *p, const tc_record_at *at) {
  return read_rows(p, at->offset + sizeof(tc_prof_memory), at->n, sizeof(tc_prof_live));
}

const uint64_t *tc_profile_stack(tc_profile *p, uint32_t id, uint32_t *n) {
  tc_prof_stack s;
  *n = 0;
  if (id == 0 || id >= p->n_stacks || !p->stack[id] || !tc_profile_bytes(p, p->stack[id], &s, sizeof s)) return NULL;
  *n = s.head.n;
  return read_rows(p, p->stack[id] + sizeof s, s.head.n, sizeof(uint64_t));
}
