// Parts of a call of level 3 on the team. See level3.h.
#include "kernels/blas/level3.h"
#include "runtime/float_mode.h"
#include "runtime/status.h"

// Multiply-adds that are worth a second thread, and those below which a job is brief.
#define THREAD_WORK 250000
#define BRIEF_WORK 2000000

int tc_blas_threads_for(double work, int max_threads) {
  if (max_threads == 1 || work < 2 * THREAD_WORK) return 1;
  int threads = tc_team_threads();
  if (max_threads > 0 && max_threads < threads) threads = max_threads;
  double worth = work / THREAD_WORK;
  return worth < threads ? (int)worth : threads;
}

tc_status tc_blas_parts_run(const char *op, const tc_blas_parts *parts) {
  tc_job team = {.task = parts->task, .arg = parts->arg, .n_stages = 1, .n_tasks = &parts->count};
  team.max_threads = parts->threads;
  team.brief = parts->work < BRIEF_WORK;
  team.spread = true;
  team.scratch_bytes = parts->scratch_bytes;
  tc_float_mode before = tc_float_mode_default();
  int status = tc_team_run(&team);
  tc_float_mode_restore(before);
  return status ? tc_fail(TC_ERR_MEMORY, op, 0, "no memory for %zu bytes of packed operands", team.scratch_bytes)
                : TC_OK;
}
