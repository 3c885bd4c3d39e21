// Launches a run: its memory, its cached constants, and its steps. See run.h.
#include "lowering/program/run.h"

#include "lowering/jit/tier_up.h"
#include "lowering/program/execute.h"
#include "lowering/program/gpu/launches.h"
#include "lowering/program/prepare.h"
#include "runtime/options.h"

// Whether a kernel of the program is interpreted because it is not compiled yet.
static bool interprets(tc_program *p) {
  if (!atomic_load_explicit(&p->interprets, memory_order_relaxed)) return false;
  for (uint32_t i = 0; i < p->n_step; i++)
    if (p->step[i].kind == TC_STEP_KERNEL && tc_kernel_tier(p->step[i].kernel) == TC_INTERPRETED_FIRST) return true;
  atomic_store_explicit(&p->interprets, false, memory_order_relaxed);
  return false;
}

// State that workers read of a launch, kept together: its cache lines arrive at once
// (runtime/team.h).
typedef struct launch {
  tc_execution r;
  tc_execution_fault stopped_by;
  uint64_t fixed[512];
} launch;

// Allocates a run's arena and its lists. On the CPU the lists lie behind the arena; on a GPU they
// are in host memory of their own (*beside).
static tc_status take_memory(const tc_plan *plan, size_t lists, tc_buffer **arena, tc_buffer **beside) {
  const tc_program *p = plan->program;
  size_t bytes = p->arena_bytes + (p->gpu ? tc_gpu_launches_bytes(p->gpu) : lists);
  if (!p->gpu) return bytes ? tc_buffer_create(tc_buffer_fit(bytes), arena) : TC_OK;
  TC_TRY(bytes ? tc_buffer_create_on((tc_device)plan->dev[0], bytes, arena) : TC_OK);
  tc_buffer_tell(*arena, TC_HOLDS_ARENA, (tc_call){NULL, 0});
  tc_status st = lists ? tc_buffer_create(lists, beside) : TC_OK;
  if (st != TC_OK) tc_buffer_release(*arena);
  return st;
}

tc_status tc_program_launch(const tc_plan *plan, void *const *leaf, void *const *out, const uint64_t *arg,
                            const tc_call *call, const tc_leaf *held, tc_work_done *prepared) {
  const tc_program *p = plan->program, *q = p->prepare;
  launch l;
  uint64_t *num = l.fixed;
  uint32_t n_storage = plan->n_leaf + plan->n_out + p->n_cached,
           n_lists = p->n_num + n_storage + p->n_cached + q->n_step + q->n_num;
  uint32_t n_words = p->gpu ? TC_MAX_OF(tc_gpu_launches_words(p->gpu), tc_gpu_launches_words(q->gpu)) : 0;
  size_t lists = (n_lists + n_words) * sizeof *num;
  tc_buffer *arena = NULL, *beside = NULL;
  if (lists <= sizeof l.fixed) lists = 0;
  TC_TRY(take_memory(plan, lists, &arena, &beside));
  // aligned: arena_bytes is a multiple of 64
  if (lists) num = p->gpu ? beside->ptr : (uint64_t *)(void *)((char *)arena->ptr + p->arena_bytes);
  void **storage = (void **)(num + p->n_num);
  tc_buffer **cached = (tc_buffer **)(storage + n_storage);
  tc_execution_fill_nums(p, arg, num);
  for (uint32_t i = 0; i < plan->n_leaf; i++) storage[i] = leaf[i];
  for (uint32_t i = 0; i < plan->n_out; i++) storage[plan->n_leaf + i] = out[i];
  for (uint32_t i = 0; i < p->n_cached; i++) cached[i] = NULL;
  l.stopped_by = (tc_execution_fault){.step = NULL};
  l.r = (tc_execution){.p = p,
                       .at = {storage, (char *const *)(void *)(storage + plan->n_leaf), arena ? arena->ptr : NULL},
                       .num = num,
                       .fault = &l.stopped_by,
                       .words = num + n_lists,
                       .timed = tc_options_get()->profile > 1};
  tc_status st = q->n_step
                     ? tc_execution_prepare(&l.r, plan, arg, held, (uint64_t *)(cached + p->n_cached), cached, prepared)
                     : TC_OK;
  if (prepared) prepared->interpreted = interprets(plan->program);
  if (st == TC_OK) st = tc_execution_run(&l.r);
  tc_tier_up_look();
  if (st == TC_OK && p->gpu && prepared) {
    tc_gpu_how how = tc_gpu_launches_how(p->gpu);
    prepared->replayed = how.replayed, prepared->gpu_note = how.note, prepared->copied_bytes = how.copied_bytes;
  }
  if (l.stopped_by.step) tc_execution_report(plan, &l.r, call);
  for (uint32_t i = 0; i < p->n_cached; i++) tc_buffer_release(cached[i]);
  tc_buffer_release(arena);
  tc_buffer_release(beside);
  return st;
}
