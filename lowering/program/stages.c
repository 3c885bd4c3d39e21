// Steps by waves, and waves in tasks. See stages.h.
#include "lowering/program/stages.h"

#include "runtime/arena.h"
#include "runtime/passes.h"
#include "runtime/team.h"

// What a second thread must save in a wave. A wave of two empty tasks takes 0.4 to 0.9 us; the operands must come from the other core's cache besides:
// a step of an MLP, two waves that could save 1.7 and 2 us, takes 12.7 us on two threads and 8.6 on one.
#define SPLIT_NS 3000.0
// A task of a lone product, at least. Its operands are read many times, and by both threads of the step before too; a hot wave costs 0.3 us.
#define BRIEF_TASK_NS 1000.0

// Divides the wave's steps into tasks; returns how many. One: the whole wave, on the thread that launched.
static int64_t divide_wave(tc_program *p, uint32_t wave) {
  double work = 0, longest = 0;
  int64_t n = 0;
  for (uint32_t i = p->wave_first[wave]; i < p->wave_first[wave + 1]; i++) work += p->step[i].work;
  tc_count(TC_PASS_WAVES, 1 + p->wave_first[wave + 1] - p->wave_first[wave]);
  for (uint32_t i = p->wave_first[wave]; i < p->wave_first[wave + 1]; i++) {
    tc_step *s = &p->step[i];
    s->grain = tc_team_grain(s->work, work, s->extent);
    s->first_task = n, n += tc_step_tasks(s);
    longest = TC_MAX_OF(longest, s->work / (double)tc_step_tasks(s));
  }
  double together = TC_MAX_OF(longest, work / TC_MAX_OF(tc_team_threads(), 2));
  return work - together < SPLIT_NS ? 1 : n;
}

// A lone product that is too short to wake a worker for is divided for those that are awake.
static void divide_brief(tc_program *p) {
  tc_step *s = p->step;
  if (p->n_step != 1 || !s->is_product || p->wave_tasks[0] > 1) return;
  int64_t tasks = TC_MIN(TC_MIN((int64_t)(s->work / BRIEF_TASK_NS), s->extent), tc_team_threads());
  if (tasks < 2) return;
  s->grain = tc_ceil_div(s->extent, tasks);
  p->wave_tasks[0] = tc_step_tasks(s);
  p->brief = true;
}

bool tc_waves_schedule(tc_program *p) {
  uint32_t n_wave = 0;
  for (uint32_t i = 0; i < p->n_step; i++) n_wave = TC_MAX_OF(n_wave, p->step[i].wave + 1);
  p->n_wave = n_wave;
  p->wave_first = tc_calloc(n_wave + 2, sizeof *p->wave_first);
  p->wave_tasks = tc_calloc(n_wave + 1, sizeof *p->wave_tasks);
  tc_step *sorted = tc_malloc((p->n_step + 1) * sizeof *sorted);
  if (!p->wave_first || !p->wave_tasks || !sorted) return tc_free(sorted), false;
  // A counting sort: wave_first[w + 1] is where wave w goes on, and in the end where it ends.
  for (uint32_t i = 0; i < p->n_step; i++)
    if (p->step[i].wave + 2 <= n_wave) p->wave_first[p->step[i].wave + 2]++;
  for (uint32_t w = 2; w <= n_wave; w++) p->wave_first[w] += p->wave_first[w - 1];
  for (int checks = 1; checks >= 0; checks--)
    for (uint32_t i = 0; i < p->n_step; i++)
      if ((p->step[i].kind == TC_STEP_CHECK) == checks) sorted[p->wave_first[p->step[i].wave + 1]++] = p->step[i];
  tc_free(p->step);
  p->step = sorted;
  for (uint32_t w = 0; w < n_wave; w++) p->wave_tasks[w] = divide_wave(p, w);
  divide_brief(p);
  return true;
}

// Kernels that were met in a wave, found by a hash.
typedef struct met {
  struct {
    const tc_kernel *kernel;
    uint32_t wave;
  } *at;
  uint32_t mask;
} met;

static bool is_first(met *m, const tc_kernel *k, uint32_t wave) {
  if (!m->at) return true;
  uint32_t i = (uint32_t)(((uint64_t)(uintptr_t)k / 16 + wave * UINT64_C(0xD6E8FEB86659FD93)) * UINT64_C(0x9E3779B97F4A7C15) >> 32) & m->mask;
  for (; m->at[i].kernel && (m->at[i].kernel != k || m->at[i].wave != wave); i = (i + 1) & m->mask) tc_count(TC_PASS_WAVES, 1);
  if (m->at[i].kernel) return false;
  m->at[i].kernel = k, m->at[i].wave = wave;
  return true;
}

uint32_t tc_waves_count_kernels(const tc_program *p, const uint64_t *skip) {
  uint32_t n = 0, size = 16;
  while (size < 2 * p->n_step) size *= 2;
  met m = {tc_calloc(size, sizeof *m.at), size - 1};  // without memory each step counts
  for (uint32_t w = 0; w < p->n_wave; w++)
    for (uint32_t i = p->wave_first[w]; i < p->wave_first[w + 1]; i++) {
      n += p->step[i].call != NULL;
      n += p->step[i].kernel && !(skip && skip[i]) && is_first(&m, p->step[i].kernel, w);
    }
  tc_free(m.at);
  return n;
}
