// A team of threads that runs one plan at a time, as a sequence of stages of tasks.
//
// The caller is worker 0 and always takes part; with one thread nothing else is touched. A job
// wakes the workers once; between stages there is a barrier (spin, then futex). A brief job is
// shared with workers that are awake, and wakes them only if such jobs follow each other closely.
// Workers spin about 50 us after a job, then park on a futex.
// Invariants: a late worker never blocks the caller. Tasks are claimed from an atomic counter, so
// the caller runs what others do not. Of two concurrent callers the second runs its job alone on
// its own thread. After fork the child starts a new team at its first job. Workers block signals.
// MXCSR has its default during a job on every thread, and the caller's is restored.
// Threads: thread-safe.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What a kernel sees of the thread that runs it. Generated code reads the first two fields: keep
// their order.
typedef struct tc_worker {
  void *scratch;  // at least the job's scratch_bytes, at a multiple of 64 bytes
  const void *math;  // a table of functions for calls from generated code
  uint32_t id, n;  // worker id of n
  int status;  // the first failure of a kernel on this worker in this job; 0: none
} tc_worker;

#define TC_JOB_LINES 2  // of 64 bytes

typedef struct tc_job {
  void (*task)(void *arg, int stage, int64_t index, tc_worker *worker);
  // A worker prefetches its first TC_JOB_LINES while it claims its first task: data that tasks read
  // of it belongs there.
  void *arg;
  int n_stages;
  const int64_t *n_tasks;  // tasks of each stage; a stage of one runs on the caller, without a barrier
  size_t scratch_bytes;
  int max_threads;  // 1: run on the caller; 0: as many as the team has
  bool brief;  // true: it takes less time than waking a worker
  // True: each thread gets neighbouring tasks, the same ones run after run. False: tasks begin in
  // their order, the costly ones first.
  bool spread;
} tc_job;

// Runs the job to its end and returns the first non-zero status of a worker. Blocks. Thread-safe.
int tc_team_run(const tc_job *job);
// Wakes parked workers for a job that comes soon, if jobs of this thread lately had use for them.
// Cheap when they are awake.
void tc_team_warm(void);
// n = 0 restores the topology's count.
void tc_team_set_threads(int n);
int tc_team_threads(void);
// Joins the workers and frees their memory; a later job starts them again.
void tc_team_stop(void);
// Units of one task of a step that takes `work` ns, of `all` ns of the stage it belongs to, and has
// so many units.
int64_t tc_team_grain(double work, double all, int64_t extent);
