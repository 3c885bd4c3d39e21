// Runs the steps that make a program's constants. See constants.h.
#include "lowering/export/constants.h"

#include <string.h>

#include "lowering/export/kernels.h"
#include "lowering/program/execute.h"
#include "runtime/arena.h"
#include "runtime/status.h"

static tc_status no_room(void) {
  return TC_FAIL(TC_ERR_MEMORY, "no room for constants");
}

void tc_stored_constants_free(tc_stored_constants *kept) {
  while (kept) {
    tc_stored_constants *next = kept->next;
    tc_buffer_release(kept->buf);
    tc_free(kept);
    kept = next;
  }
}

static tc_status interpret_steps(tc_program *q) {
  for (uint32_t i = 0; i < q->n_step; i++) {
    tc_step *s = &q->step[i];
    TC_TRY(tc_kernel_of_ir("constant", &s->pending->kir, &s->kernel));
    q->scratch_bytes = TC_MAX_OF(q->scratch_bytes, s->kernel->scratch_bytes);
  }
  return TC_OK;
}

static tc_status take_memory(const tc_program *p, uint32_t first, void **storage, tc_stored_constants **kept) {
  for (uint32_t i = 0; i < p->n_cached; i++) {
    tc_stored_constants *c = tc_calloc(1, sizeof *c);
    if (!c) return no_room();
    c->next = *kept, *kept = c;
    TC_TRY(tc_buffer_create(p->cached_bytes[i], &c->buf));
    TC_TRY(tc_buffer_clear(c->buf, p->cached_bytes[i]));  // bytes that no kernel writes are in the file, too
    storage[first + i] = c->buf->ptr;
  }
  return TC_OK;
}

tc_status tc_stored_constants_make(const tc_recorded *r, const tc_program *p, tc_tcx_writer *w, uint32_t *out,
                                   tc_stored_constants **kept) {
  tc_program *q = p->prepare;
  const tc_plan *plan = r->plan;
  uint32_t first = plan->n_leaf + plan->n_out;
  void **storage = tc_calloc(first + p->n_cached + 1, sizeof *storage);
  uint64_t *num = tc_calloc(q->n_num + 1, sizeof *num);
  tc_execution_fault fault = {.step = NULL};
  tc_status st = storage && num ? TC_OK : no_room();
  for (uint32_t i = 0; i < plan->n_leaf && st == TC_OK; i++) storage[i] = r->leaf[i].buf ? r->leaf[i].buf->ptr : NULL;
  if (st == TC_OK) st = take_memory(p, first, storage, kept);
  if (st == TC_OK) st = interpret_steps(q);
  if (st == TC_OK) {
    tc_execution_fill_nums(q, r->arg, num);
    tc_execution run = {
        .p = q, .at = {storage, (char *const *)(storage + plan->n_leaf), NULL}, .num = num, .fault = &fault};
    st = tc_execution_run(&run);
  }
  for (uint32_t i = 0; i < p->n_cached && st == TC_OK; i++) {
    const tc_tcx_weight weight = {.name = tc_tcx_add_text(w, ""),
                                  .type = TC_U8,
                                  .rank = 1,
                                  .dim = {(int64_t)p->cached_bytes[i]},
                                  .bytes = p->cached_bytes[i]};
    if ((out[i] = tc_tcx_add_weight(w, weight, storage[first + i])) == TC_TCX_NONE) st = no_room();
  }
  tc_free(storage), tc_free(num);
  return st;
}
