// Sorts steps by stage, and divides stages into tasks. See stages.h.
#include "lowering/program/stages.h"

#include "runtime/arena.h"
#include "runtime/passes.h"
#include "runtime/team.h"

// Least time that a second thread must save in a stage. Operands also move between caches.
// Measured: stage of two empty tasks: 0.4 to 0.9 us.
// Measured: MLP step, two stages that could save 1.7 and 2 us: 1 thread 8.6 us, 2 threads 12.7 us.
#define SPLIT_NS 3000.0
// Least time of a task of a lone matmul. It reads its operands many times, and both threads of the
// step before have them cached. Measured: hot stage: 0.3 us.
#define BRIEF_TASK_NS 1000.0

// Divides the stage's steps into tasks, and returns their number. 1: the launching thread runs the
// whole stage.
static int64_t divide_stage(tc_program *p, uint32_t stage) {
  double work = 0, longest = 0;
  int64_t n = 0;
  for (uint32_t i = p->stage_first[stage]; i < p->stage_first[stage + 1]; i++) work += p->step[i].work;
  tc_count(TC_PASS_STAGES, 1 + p->stage_first[stage + 1] - p->stage_first[stage]);
  for (uint32_t i = p->stage_first[stage]; i < p->stage_first[stage + 1]; i++) {
    tc_step *s = &p->step[i];
    s->grain = tc_team_grain(s->work, work, s->extent);
    s->first_task = n, n += tc_step_tasks(s);
    longest = TC_MAX_OF(longest, s->work / (double)tc_step_tasks(s));
  }
  double together = TC_MAX_OF(longest, work / TC_MAX_OF(tc_team_threads(), 2));
  return work - together < SPLIT_NS ? 1 : n;
}

// Divides a lone matmul that is too short to wake a worker for among the workers that are awake.
static void divide_brief(tc_program *p) {
  tc_step *s = p->step;
  p->brief = false;
  if (p->n_step != 1 || !s->is_matmul || p->stage_tasks[0] > 1) return;
  int64_t tasks = TC_MIN(TC_MIN((int64_t)(s->work / BRIEF_TASK_NS), s->extent), tc_team_threads());
  if (tasks < 2) return;
  s->grain = tc_ceil_div(s->extent, tasks);
  p->stage_tasks[0] = tc_step_tasks(s);
  p->brief = true;
}

void tc_stages_divide(tc_program *p) {
  for (uint32_t w = 0; w < p->n_stage; w++) p->stage_tasks[w] = divide_stage(p, w);
  divide_brief(p);
}

bool tc_stages_schedule(tc_program *p) {
  uint32_t n_stage = 0;
  for (uint32_t i = 0; i < p->n_step; i++) n_stage = TC_MAX_OF(n_stage, p->step[i].stage + 1);
  p->n_stage = n_stage;
  p->stage_first = tc_calloc(n_stage + 2, sizeof *p->stage_first);
  p->stage_tasks = tc_calloc(n_stage + 1, sizeof *p->stage_tasks);
  tc_step *sorted = tc_malloc((p->n_step + 1) * sizeof *sorted);
  if (!p->stage_first || !p->stage_tasks || !sorted) return tc_free(sorted), false;
  // A counting sort: stage_first[w + 1] is where the next step of stage w goes, and finally its
  // end.
  for (uint32_t i = 0; i < p->n_step; i++)
    if (p->step[i].stage + 2 <= n_stage) p->stage_first[p->step[i].stage + 2]++;
  for (uint32_t w = 2; w <= n_stage; w++) p->stage_first[w] += p->stage_first[w - 1];
  for (int checks = 1; checks >= 0; checks--)
    for (uint32_t i = 0; i < p->n_step; i++)
      if ((p->step[i].kind == TC_STEP_CHECK) == checks) sorted[p->stage_first[p->step[i].stage + 1]++] = p->step[i];
  tc_free(p->step);
  p->step = sorted;
  tc_stages_divide(p);
  return true;
}

// A hash set of pairs of kernel and stage.
typedef struct met {
  struct {
    const tc_kernel *kernel;
    uint32_t stage;
  } *at;
  uint32_t mask;
} met;

static bool is_first(met *m, const tc_kernel *k, uint32_t stage) {
  if (!m->at) return true;
  uint32_t i =
      (uint32_t)(((uint64_t)(uintptr_t)k / 16 + stage * UINT64_C(0xD6E8FEB86659FD93)) * UINT64_C(0x9E3779B97F4A7C15) >>
                 32) &
      m->mask;
  for (; m->at[i].kernel && (m->at[i].kernel != k || m->at[i].stage != stage); i = (i + 1) & m->mask)
    tc_count(TC_PASS_STAGES, 1);
  if (m->at[i].kernel) return false;
  m->at[i].kernel = k, m->at[i].stage = stage;
  return true;
}

uint32_t tc_stages_count_kernels(const tc_program *p, const uint64_t *skip) {
  uint32_t n = 0, size = 16;
  while (size < 2 * p->n_step) size *= 2;
  met m = {tc_calloc(size, sizeof *m.at), size - 1};  // without memory each step counts as a kernel
  for (uint32_t w = 0; w < p->n_stage; w++)
    for (uint32_t i = p->stage_first[w]; i < p->stage_first[w + 1]; i++) {
      n += p->step[i].call != NULL || p->step[i].kind == TC_STEP_LOADED;
      n += p->step[i].kernel && !(skip && skip[i]) && is_first(&m, p->step[i].kernel, w);
    }
  tc_free(m.at);
  return n;
}
