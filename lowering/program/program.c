// Destroys programs, and computes their size. See program.h.
#include "lowering/program/control.h"
#include "lowering/program/facts.h"
#include "lowering/program/program.h"

#include "lowering/program/gpu/launches.h"
#include "lowering/program/loaded.h"
#include "runtime/arena.h"

void tc_steps_drop_pending(tc_step *s) {
  if (s->pending && !s->shares_pending) {
    tc_kir_destroy(&s->pending->kir);
    tc_shape_generic_drop(&s->pending->generic);
    tc_free(s->pending);
  }
  s->pending = NULL;
}

static void drop_steps(tc_program *p) {
  for (uint32_t i = 0; i < p->n_step; i++) {
    tc_kernel_release(p->step[i].kernel);
    tc_gpu_call_release(p->step[i].call);
    tc_control_destroy(p->step[i].control);
    tc_steps_drop_pending(&p->step[i]);
  }
}

void tc_steps_clear(tc_program *p) {
  drop_steps(p);
  p->n_step = p->n_binding = p->n_num = p->n_allocation = p->n_cached = p->n_control = 0;
  if (p->prepare) tc_steps_clear(p->prepare);
}

size_t tc_program_bytes(const void *program) {
  const tc_program *p = program;
  return sizeof *p + p->cap_step * sizeof *p->step + p->cap_binding * sizeof *p->binding + p->cap_num * sizeof *p->num +
         p->cap_allocation * sizeof *p->allocation + p->cap_cached * sizeof *p->cached_bytes +
         (p->n_stage + 2) * sizeof *p->stage_first + (p->n_stage + 1) * sizeof *p->stage_tasks +
         p->n_row_value * sizeof *p->row_value + p->n_row_attr * sizeof *p->row_attr +
         (p->gpu ? tc_gpu_launches_held(p->gpu) : 0) + (p->loaded ? tc_loaded_steps_bytes(p->loaded) : 0) +
         (p->prepare ? tc_program_bytes(p->prepare) : 0);
}

void tc_program_destroy(void *program) {
  tc_program *p = program;
  if (atomic_load_explicit(&p->n_shares, memory_order_acquire) &&
      atomic_fetch_sub_explicit(&p->n_shares, 1, memory_order_acq_rel) > 0)
    return;
  if (p->prepare) tc_program_destroy(p->prepare);
  tc_gpu_launches_destroy(p->gpu);
  tc_loaded_steps_destroy(p->loaded);
  tc_facts_destroy(atomic_load_explicit(&p->facts, memory_order_relaxed));
  drop_steps(p);
  tc_graph_fini(&p->graph);
  void *const owned[] = {p->step,        p->binding,      p->num,       p->allocation, p->stage_first,
                         p->stage_tasks, p->cached_bytes, p->row_value, p->row_attr};
  for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) tc_free(owned[i]);
  tc_arena_fini(&p->arena);
  tc_free(p);
}
