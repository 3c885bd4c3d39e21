// A team of threads that runs one plan at a time as a sequence of waves of tasks.
//
// The caller is worker 0 and always takes part; with one thread nothing else is touched. One wake
// per job; between waves an in-job barrier (spin, then futex). A brief job is shared with workers
// that are awake, and wakes them only where one such job follows the other. Workers spin about 50
// us after a job, then park on a futex. A late worker never blocks the caller: tasks are claimed
// from an atomic counter, so the caller runs what others do not. Concurrent callers: the second
// runs its job alone on its own thread. After fork the child starts a new team on first use.
// Signals are blocked in workers. MXCSR is set to default for a job on every thread (the caller's
// is restored).
#ifndef TC_RUNTIME_TEAM_H
#define TC_RUNTIME_TEAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What a kernel sees of the thread that runs it. The first two fields are read by generated code:
// keep their order.
typedef struct tc_worker {
  void *scratch;  // at least the bytes asked for by the job, 64-byte aligned
  const void *math;  // table of functions for calls from generated code
  uint32_t id, n;  // which of how many
  int status;  // first failure a kernel met on this worker in this job
} tc_worker;

#define TC_JOB_LINES 2  // of 64 bytes

typedef struct tc_job {
  void (*task)(void *arg, int wave, int64_t index, tc_worker *worker);
  // its first TC_JOB_LINES are fetched while a worker claims its first task: what tasks read of it
  // lies there
  void *arg;
  int n_waves;
  const int64_t *n_tasks;  // tasks of each wave; a wave of one runs on the caller side without a barrier where possible
  size_t scratch_bytes;
  int max_threads;  // 1: run on the caller
  bool brief;  // takes less than waking a worker
  // neighbouring tasks for each thread, the same ones run after run; else tasks begin in their
  // order, the costly ones first
  bool spread;
} tc_job;

// Runs the job to its end and returns the first non-zero worker status. Blocks. Thread-safe.
int tc_team_run(const tc_job *job);
// Wakes parked workers, so that a job soon to come finds them spinning, if jobs of this thread have
// had use for them lately. Cheap when they are awake.
void tc_team_warm(void);
// 0: back to the topology's count.
void tc_team_set_threads(int n);
int tc_team_threads(void);
// Joins the workers and frees their memory; a later job starts them again.
void tc_team_stop(void);

#endif
