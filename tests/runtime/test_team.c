// The team: every task once, stages in order, statuses, scratch memory, float mode, and what one
// thread must not cost.
// Races are looked for by tests/race/team.c.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // cpu_set_t
#endif
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "runtime/arena.h"
#include "runtime/status.h"
#include "runtime/team.h"
#include "runtime/topology.h"

typedef struct record {
  atomic_int runs[3][100];
  atomic_int n_wrong, n_threads;
  pthread_t caller;
} record;

static void record_task(void *arg, int stage, int64_t index, tc_worker *worker) {
  record *r = arg;
  for (int i = 0; stage > 0 && i < 100; i++)
    if (r->runs[stage - 1][i] != 1) r->n_wrong++;
  if ((worker->id == 0) != (pthread_equal(pthread_self(), r->caller) != 0)) r->n_wrong++;
  if ((uintptr_t)worker->scratch % 64 != 0) r->n_wrong++;
  memset(worker->scratch, 1, 1000);
#if defined(__x86_64__)
  if ((_mm_getcsr() & ~0x3fu) != 0x1f80) r->n_wrong++;
#endif
  r->n_threads = (int)worker->n;
  r->runs[stage][index]++;
}

static int record_run(record *r, int max_threads, bool spread) {
  memset(r, 0, sizeof *r);
  r->caller = pthread_self();
  tc_job job = {record_task, r, 3, (const int64_t[]){100, 100, 100}, 1000, max_threads, false, spread};
  int status = tc_team_run(&job);
  for (int w = 0; w < 3; w++)
    for (int i = 0; i < 100; i++)
      if (r->runs[w][i] != 1) r->n_wrong++;
  return status;
}

Test(team, every_task_runs_once_and_stages_in_order) {
  static record r;
  for (int threads = 1; threads <= 40; threads += 13) {
    tc_team_set_threads(threads);
    for (int i = 0; i < 20; i++) {
      cr_assert_eq(record_run(&r, 0, i % 2), 0);
      cr_assert_eq(r.n_wrong, 0);
      cr_assert_eq(r.n_threads, threads);
    }
  }
  cr_assert_eq(record_run(&r, 2, false), 0);
  cr_assert_eq(r.n_threads, 2);
  tc_team_stop();
  cr_assert_eq(record_run(&r, 0, false), 0);
  cr_assert_eq(r.n_wrong, 0);
  tc_team_stop();
}

#define SHARED_TASKS 101

typedef struct shared {
  atomic_int who[SHARED_TASKS];
  atomic_bool helped;
} shared;

static void share_task(void *arg, int stage, int64_t index, tc_worker *worker) {
  shared *s = arg;
  (void)stage;
  s->who[index] = (int)worker->id;
  if (worker->id) s->helped = true;
  for (int i = 0; index == 0 && !s->helped && i < 10000; i++) usleep(1000);
  for (volatile int i = 0; i < 2000; i++) continue;
}

Test(team, threads_of_a_spread_stage_go_through_shares_of_their_own_and_help_at_the_ends_of_others) {
  static shared s;
  for (int threads = 2; threads <= 5; threads++) {
    tc_team_set_threads(threads);
    for (int run = 0; run < 20; run++) {
      memset(&s, 0, sizeof s);
      tc_job job = {share_task, &s, 1, (const int64_t[]){SHARED_TASKS}, 0, 0, false, true};
      cr_assert_eq(tc_team_run(&job), 0);
      cr_assert(s.helped);
      for (int id = 0; id < threads; id++) {
        int from = SHARED_TASKS * id / threads, end = SHARED_TASKS * (id + 1) / threads, at = from;
        while (at < end && s.who[at] == id) at++;
        if (threads == 2) cr_assert_gt(at, from);
        for (; at < end; at++) cr_assert_neq(s.who[at], id, "task %d of [%d, %d)", at, from, end);
      }
    }
  }
  tc_team_stop();
}

static void fail_task(void *arg, int stage, int64_t index, tc_worker *worker) {
  (void)stage;
  if (index == *(int *)arg && worker->status == 0) worker->status = 7;
}

Test(team, status_of_a_worker_is_returned_and_forgotten) {
  tc_team_set_threads(3);
  for (int at = 0; at < 12; at++) {
    tc_job job = {fail_task, &at, 1, (const int64_t[]){10}, 0, 0};
    cr_assert_eq(tc_team_run(&job), at < 10 ? 7 : 0);
  }
  tc_team_stop();
}

// Half a microsecond, and the ids of those that ran it.
static void brief_task(void *arg, int stage, int64_t index, tc_worker *worker) {
  (void)stage, (void)index;
  atomic_fetch_or((atomic_uint *)arg, 1u << worker->id);
  for (volatile int i = 0; i < 500; i++) continue;
}

static unsigned brief_run(void) {
  atomic_uint ids = 0;
  tc_job job = {brief_task, &ids, 1, (const int64_t[]){2}, 0, 0, true};
  cr_assert_eq(tc_team_run(&job), 0);
  return ids;
}

Test(team, brief_jobs_wake_workers_only_where_many_follow_each_other) {
  tc_team_set_threads(2);
  for (int i = 0; i < 50; i++) {
    cr_assert_eq(brief_run(), 1);
    usleep(100);
  }
  unsigned ids = 1;
  for (int i = 0; i < 10000000 && ids == 1; i++) ids = brief_run();
  cr_assert_eq(ids, 3);
  for (int i = 0; i < 1000 && ids != 1; i++) {
    usleep(10000);  // the worker parks, unless other processes keep it from running
    ids = brief_run();
  }
  cr_assert_eq(ids, 1);
  for (int i = 0; i < 10; i++) {
    usleep(100);
    cr_assert_eq(brief_run(), 1);
  }
  tc_team_stop();
}

static void late_task(void *arg, int stage, int64_t index, tc_worker *worker) {
  brief_task(arg, stage, index, worker);
  if (worker->id) usleep(50000);  // longer than the caller itself may be kept from running
}

Test(team, brief_jobs_stay_alone_for_a_while_after_a_worker_came_late) {
  struct timespec from, now;
  atomic_uint ids = 0;
  tc_job job = {late_task, &ids, 1, (const int64_t[]){2}, 0, 0, true};
  tc_team_set_threads(2);
  for (int i = 0; i < 10000000 && ids != 3; i++) cr_assert_eq(tc_team_run(&job), 0);
  cr_assert_eq(ids, 3);
  clock_gettime(CLOCK_MONOTONIC, &from);
  for (;;) {
    unsigned of = brief_run();
    clock_gettime(CLOCK_MONOTONIC, &now);
    if ((now.tv_sec - from.tv_sec) * 1000000000 + (now.tv_nsec - from.tv_nsec) > 5000000) break;
    cr_assert_eq(of, 1);
  }
  ids = 1;
  for (int i = 0; i < 10000000 && ids == 1; i++) ids = brief_run();
  cr_assert_eq(ids, 3);  // and are shared again
  tc_team_stop();
}

Test(team, one_thread_allocates_nothing) {
  int never = -1;
  tc_job job = {fail_task, &never, 1, (const int64_t[]){10}, 0, 1};
  tc_alloc_fail_at(1, 1);
  cr_assert_eq(tc_team_run(&job), 0);
  cr_assert_eq(tc_alloc_fail_at(0, 0), 0);
}

Test(team, lack_of_memory_is_a_status_or_fewer_threads) {
  static record r;
  tc_team_set_threads(3);
  for (int n = 1; n <= 4; n++) {
    tc_team_stop();
    tc_alloc_fail_at(n, 1);
    int status = record_run(&r, 0, false);
    tc_alloc_fail_at(0, 0);
    if (n == 1) {
      cr_assert_eq(status, TC_ERR_MEMORY);
    } else {
      cr_assert_eq(status, 0);
      cr_assert_eq(r.n_wrong, 0);
      cr_assert_eq(r.n_threads, TC_MIN(n - 1, 3));
    }
  }
  tc_team_stop();
}

Test(team, caller_keeps_its_float_mode_mask_and_signals) {
  static record r;
  cpu_set_t before, after;
  sigset_t signals;
  tc_team_set_threads(3);
  sched_getaffinity(0, sizeof before, &before);
#if defined(__x86_64__)
  _mm_setcsr(0x9fc0);  // flush to zero, denormals are zero
#endif
  cr_assert_eq(record_run(&r, 0, false), 0);
  cr_assert_eq(r.n_wrong, 0);
#if defined(__x86_64__)
  cr_assert_eq(_mm_getcsr(), 0x9fc0);
  _mm_setcsr(0x1f80);
#endif
  sched_getaffinity(0, sizeof after, &after);
  cr_assert(CPU_EQUAL(&before, &after));
  pthread_sigmask(SIG_SETMASK, NULL, &signals);
  cr_assert_eq(sigismember(&signals, SIGINT), 0);
  tc_team_stop();
}

typedef struct crossing {
  _Atomic int at[2][2];  // where each thread did its task, by stages; -1: not yet
} crossing;

// Two tasks that wait for each other, so that each thread does one. Between them the caller is
// moved to where the worker is.
static void crossing_task(void *arg, int stage, int64_t index, tc_worker *worker) {
  crossing *c = arg;
  (void)index;
  c->at[stage][worker->id] = sched_getcpu();
  for (time_t end = time(NULL) + 20; worker->n > 1 && (c->at[stage][0] < 0 || c->at[stage][1] < 0) && time(NULL) < end;)
    sched_yield();
  if (stage > 0 || worker->id > 0) return;
  cpu_set_t there;
  CPU_ZERO(&there);
  CPU_SET((size_t)c->at[0][1], &there);
  sched_setaffinity(0, sizeof there, &there);
}

Test(team, a_worker_gives_way_to_a_caller_that_was_moved_to_its_core) {
  cpu_set_t before;
  if (!tc_topology_get()->owns_machine || tc_topology_get()->n_cores < 2) cr_skip_test("no two cores of its own");
  sched_getaffinity(0, sizeof before, &before);
  tc_team_set_threads(2);
  for (int i = 0; i < 3; i++) {
    crossing c = {{{-1, -1}, {-1, -1}}};
    tc_job job = {.task = crossing_task, .arg = &c, .n_stages = 2, .n_tasks = (const int64_t[]){2, 2}};
    int status = tc_team_run(&job);
    sched_setaffinity(0, sizeof before, &before);
    cr_assert_eq(status, 0);
    cr_assert_eq(c.at[1][0], c.at[0][1]);
    cr_assert_neq(c.at[1][1], c.at[1][0]);
  }
  tc_team_stop();
}

typedef struct masks {
  _Atomic int n_cpus;  // of the worker's mask
  _Atomic int seen;
} masks;

static void masks_task(void *arg, int stage, int64_t index, tc_worker *worker) {
  masks *m = arg;
  cpu_set_t set;
  (void)stage, (void)index;
  if (worker->id > 0 && sched_getaffinity(0, sizeof set, &set) == 0) m->n_cpus = CPU_COUNT(&set);
  m->seen++;
  for (time_t end = time(NULL) + 20; worker->n > 1 && m->seen < 2 && time(NULL) < end;) sched_yield();
}

Test(team, workers_that_are_not_pinned_run_on_all_cores_wherever_their_caller_is_pinned) {
  cpu_set_t before, here;
  int n_cores = tc_topology_get()->n_cores;
  masks m = {0};
  if (n_cores < 2) cr_skip_test("no two cores");
  sched_getaffinity(0, sizeof before, &before);
  CPU_ZERO(&here);
  CPU_SET((size_t)sched_getcpu(), &here);
  tc_team_set_threads(n_cores + 1);  // more than cores are not pinned
  sched_setaffinity(0, sizeof here, &here);
  tc_job job = {.task = masks_task, .arg = &m, .n_stages = 1, .n_tasks = (const int64_t[]){2}};
  int status = tc_team_run(&job);
  sched_setaffinity(0, sizeof before, &before);
  cr_assert_eq(status, 0);
  cr_assert_eq(m.n_cpus, n_cores);
  tc_team_stop();
}

Test(team, public_setting_is_bounded_by_the_machine) {
  int most = tc_topology_get()->n_threads;
  cr_assert_eq(tc_set_num_threads(1), TC_OK);
  cr_assert_eq(tc_num_threads(), 1);
  cr_assert_eq(tc_set_num_threads(most + 5), TC_OK);
  cr_assert_eq(tc_num_threads(), most);
  cr_assert_eq(tc_set_num_threads(-1), TC_ERR_ARG);
  cr_assert_eq(tc_set_num_threads(0), TC_OK);
  cr_assert(tc_num_threads() <= most);
}
