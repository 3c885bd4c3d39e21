// Race checks of the team, a plain program for -fsanitize=thread: many jobs and stages, concurrent
// callers, stop, resizing, nesting and fork. With an argument it also prints the cost of an empty
// fork-join. Exit code 0: every task ran exactly once and in order of stages.
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/team.h"

enum { N_STAGES = 6, MOST_TASKS = 64, N_CALLERS = 4 };
static const int64_t n_tasks[N_STAGES] = {64, 1, 7, 0, 2, 33};

// Plain memory on purpose: each stage reads what all tasks of the stage before wrote.
typedef struct grid {
  int64_t cell[N_STAGES][MOST_TASKS];
  atomic_int n_wrong;
} grid;

static int stage_before(int stage) {
  do stage--;
  while (stage >= 0 && n_tasks[stage] == 0);
  return stage;
}

static void grid_task(void *arg, int stage, int64_t index, tc_worker *worker) {
  grid *g = arg;
  int before = stage_before(stage);
  int64_t sum = 1;
  for (int64_t i = 0; before >= 0 && i < n_tasks[before]; i++) sum += g->cell[before][i];
  g->cell[stage][index] += sum;
  memset(worker->scratch, (int)worker->id, 256);
  if (worker->id >= worker->n || (uintptr_t)worker->scratch % 64 != 0) atomic_fetch_add(&g->n_wrong, 1);
}

static bool grid_is_right(const grid *g) {
  int64_t sum = 0;
  for (int stage = 0; stage < N_STAGES; stage++) {
    for (int64_t i = 0; i < n_tasks[stage]; i++)
      if (g->cell[stage][i] != sum + 1) return false;
    if (n_tasks[stage]) sum = (sum + 1) * n_tasks[stage];
  }
  return g->n_wrong == 0;
}

static int grids_run(int n, int max_threads) {
  int n_bad = 0;
  for (int i = 0; i < n; i++) {
    grid g = {0};
    tc_job job = {grid_task,      &g, N_STAGES, n_tasks, 256 + (size_t)(i % 5) * 1000, max_threads, i / 50 % 2 == 1,
                  i / 25 % 2 == 1};
    if (tc_team_run(&job) != 0 || !grid_is_right(&g)) n_bad++;
    if (i % 100 == 0) usleep(200);  // long enough to park
    if (i % 7 == 0) tc_team_warm();
  }
  return n_bad;
}

static void *caller_main(void *arg) {
  return (void *)(intptr_t)grids_run(500, (int)(intptr_t)arg);
}

static int callers_run(void) {
  pthread_t threads[N_CALLERS];
  intptr_t n_bad = 0;
  for (intptr_t i = 0; i < N_CALLERS; i++) pthread_create(&threads[i], NULL, caller_main, (void *)i);
  for (int i = 0; i < 20; i++) {
    tc_team_set_threads(i % 5 + 1);
    if (i % 4 == 0) tc_team_stop();
    usleep(500);
  }
  tc_team_set_threads(4);
  for (int i = 0; i < N_CALLERS; i++) {
    void *result;
    pthread_join(threads[i], &result);
    n_bad += (intptr_t)result;
  }
  return (int)n_bad;
}

static void kir_task(void *arg, int stage, int64_t index, tc_worker *worker) {
  (void)stage, (void)index, (void)worker;
  atomic_fetch_add((atomic_int *)arg, grids_run(2, 0));
}

static int nested_run(void) {
  atomic_int n_bad = 0;
  tc_job job = {kir_task, &n_bad, 1, (const int64_t[]){16}, 64, 0};
  tc_team_run(&job);
  return n_bad;
}

// Forks from a thread while others run jobs; the child uses a team of its own. A child under TSan
// cannot start threads, so it stays serial.
static int forks_run(void) {
  int n_bad = 0;
  pthread_t other;
  void *result;
  pthread_create(&other, NULL, caller_main, (void *)0);
  for (int i = 0; i < 5; i++) {
    pid_t child = fork();
    if (child == 0) {
#ifdef __SANITIZE_THREAD__
      _exit(grids_run(20, 1));
#else
      _exit(grids_run(20, 0));
#endif
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) n_bad++;
  }
  pthread_join(other, &result);
  return n_bad + (int)(intptr_t)result;
}

static void empty_task(void *arg, int stage, int64_t index, tc_worker *worker) {
  (void)arg, (void)stage, (void)index, (void)worker;
}

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// A job of n_stages stages with a task a thread; idle_us of sleep between jobs.
static void cost_print(const char *what, int n_stages, int64_t tasks, unsigned idle_us, int n) {
  int64_t *counts = calloc((size_t)n_stages, sizeof *counts);
  double *us = calloc((size_t)n, sizeof *us);
  for (int i = 0; i < n_stages; i++) counts[i] = tasks;
  tc_job job = {empty_task, NULL, n_stages, counts, 0, 0};
  for (int i = 0; i < n; i++) {
    if (idle_us) usleep(idle_us);
    double from = now_us();
    tc_team_run(&job);
    us[i] = now_us() - from;
  }
  qsort(us, (size_t)n, sizeof *us, compare);
  printf("%-44s p50 %8.3f us  p90 %8.3f us  p99 %8.3f us\n", what, us[n / 2], us[n * 9 / 10], us[n * 99 / 100]);
  free(counts);
  free(us);
}

int main(int argc, char **argv) {
  (void)argv;
  int n_bad = 0;
  tc_team_set_threads(4);
  n_bad += grids_run(3000, 0);
  n_bad += grids_run(500, 2);
  n_bad += nested_run();
  n_bad += callers_run();
  n_bad += forks_run();
  if (argc > 1) {
    tc_team_set_threads(2);
    cost_print("hot job, 2 threads, 2 empty tasks", 1, 2, 0, 100000);
    cost_print("hot job of 100 stages, 2 empty tasks each", 100, 2, 0, 2000);
    cost_print("job after 1 ms of sleep", 1, 2, 1000, 1000);
    tc_team_set_threads(1);
    cost_print("job on one thread", 1, 2, 0, 100000);
  }
  tc_team_stop();
  if (n_bad) fprintf(stderr, "tests/race/team: %d jobs went wrong\n", n_bad);
  return n_bad != 0;
}
