// The team of threads. See team.h.
//
// All shared state is the one static struct below, in cache lines by who writes them.
//
// A stage is published as one word, `claim`. Its low 48 bits count unclaimed tasks; its high 16 say
// how many workers may claim them. A thread claims a task by a compare-and-swap that takes one off.
// If it succeeds, it may read the stage's description: the stage cannot end before the claimed task
// is done. If it fails, it has read nothing. So a worker that slept through any number of jobs
// needs no check, and nobody waits for workers that claimed nothing. `left` counts the tasks that
// are not done. The caller waits until only its own are left before it writes the next stage.
//
// Handing a cache line from one core to another takes some 50 ns. Pointers followed one after the
// other take that time each. So the stage lies in one line. A worker that sees a claim has the
// description too. It takes the line once to claim, and writes it when it is done, where the caller
// looks. While it claims it prefetches the task's argument. Nothing else that both sides read is
// written for a stage.
//
// A claim says that there is a task to do. In a spread stage shares say which one: one share a
// thread, each in lines of its own, dealt before the claim word is published. Each thread then
// reads one stream, and half of what it read in the last run is still in the third-level cache.
// Measured: Zen 4, 2 cores: sum of 64 MiB 1.2 -> 0.77 ms, training step of ResNet18 237 -> 210 ms.
//
// Idle workers spin on `claim`, then park on the futex `wakes`. A caller that publishes just when a
// worker parks may not see it, because nobody waits for the caller's store. It looks again when it
// claims, which is a fence.
//
// Owner: the caller that holds `busy` writes the description, starts and stops workers, and grows
// their scratch memory.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // pthread_setaffinity_np
#endif
#include "runtime/team.h"

#include <linux/futex.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/brief_jobs.h"
#include "runtime/float_mode.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/profile_file.h"
#include "runtime/status.h"
#include "runtime/reentry.h"
#include "runtime/scratch.h"
#include "runtime/spin.h"
#include "runtime/thread.h"
#include "runtime/topology.h"

#define LINE 64
#define PAIR 128  // the processor fetches lines in pairs: each side writes in pairs of its own
#define MOST_THREADS 256
#define REMAINING_BITS 48
#define REMAINING_MASK ((UINT64_C(1) << REMAINING_BITS) - 1)
#define LONELY_JOBS 32  // after this many jobs without workers the next one is taken to need none

typedef struct member {
  _Alignas(PAIR) tc_worker worker;  // written by this worker alone, once it has claimed a task
  // The unclaimed tasks of a spread stage: the first one (low half) and the end.
  _Alignas(PAIR) _Atomic uint64_t share;
  _Alignas(PAIR) tc_scratch memory;  // written under busy, when a job needs more of it
  pthread_t thread;
  int core;  // it is pinned to this core's first PU; -1: it is not pinned
} member;

static struct {
  // The stage. The holder of busy writes its description while nobody has a claim, and threads with
  // a claim read it. claim (release, acquire) and left order these accesses.
  _Alignas(PAIR) _Atomic uint64_t claim;
  _Atomic int64_t left;  // tasks that are not done
  void (*task)(void *arg, int stage, int64_t index, tc_worker *worker);
  _Atomic(void *) arg;  // atomic, because it is read before a claim
  int64_t n_tasks;
  int stage;
  bool spread;  // true: each thread has a share
  _Atomic uint32_t caller_asleep;  // futex word: 1 while the caller waits for left to become 0
  _Atomic int status;  // the first failure of a worker in this job; 0: none
  atomic_bool stopping;
  // Written when workers park and wake.
  _Alignas(PAIR) _Atomic uint32_t wakes;  // futex word of parked workers; counts wakes
  _Atomic uint64_t parked[MOST_THREADS / 64];  // one bit for each worker that is parked
  // Written by callers.
  _Alignas(PAIR) atomic_int threads;  // set by tc_team_set_threads; 0: the default
  atomic_int busy;  // 1: a caller's job runs, and that caller holds it
  // Under busy.
  int n_workers;  // threads started: members 1 .. n_workers
  // Where this job's caller was found last; -1 at first. No worker is pinned to that core, unless
  // no other was free.
  int caller_pu;
  int64_t n_helped;  // tasks of this job that workers did
  bool late;  // true: a worker kept the caller waiting for TC_BRIEF_LATE_NS
  member members[MOST_THREADS];
} team;

static _Thread_local tc_scratch own_scratch;  // of this thread as a caller
// Jobs of this thread since one that workers were worth waking for.
static _Thread_local unsigned jobs_alone = LONELY_JOBS;
static _Thread_local tc_brief brief;  // of this thread
static _Thread_local bool in_job;  // true: this thread is inside a task or a job
static pthread_mutex_t key_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t key;  // frees own_scratch when its thread ends
static bool key_made;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

// A wake reaches the waiters whose bits it shares.
static void futex_wait(_Atomic uint32_t *word, uint32_t value, uint32_t bits) {
  syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value, NULL, NULL, bits);
}

static void futex_wake(_Atomic uint32_t *word, uint32_t bits) {
  syscall(SYS_futex, word, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, NULL, NULL, bits);
}

// ---- Scratch memory ----

// Runs at the end of a thread while its thread-local memory is still there.
static void own_scratch_end(void *s) {
  tc_scratch_free(s);
}

// Without a key (none is left) the memory is lost when the thread ends, which is no reason to fail.
static bool own_scratch_reserve(size_t bytes) {
  if (TC_LIKELY(bytes <= own_scratch.bytes)) return true;
  if (!tc_scratch_reserve(&own_scratch, bytes)) return false;
  pthread_mutex_lock(&key_lock);
  if (!key_made) key_made = pthread_key_create(&key, own_scratch_end) == 0;
  if (key_made) pthread_setspecific(key, &own_scratch);
  pthread_mutex_unlock(&key_lock);
  return true;
}

// ---- What every thread of a stage does ----

static bool may_claim(uint64_t claim, uint32_t id) {
  return (claim & REMAINING_MASK) != 0 && id < claim >> REMAINING_BITS;
}

// Claims a task of the stage; *out is the claim word before. False: there is none.
static bool task_claim(uint32_t id, uint64_t *out) {
  uint64_t claim = atomic_load_explicit(&team.claim, memory_order_relaxed);
  while (may_claim(claim, id)) {
    // Acquire: the stage's description was written before its claim word.
    if (!atomic_compare_exchange_weak_explicit(&team.claim, &claim, claim - 1, memory_order_acquire,
                                               memory_order_relaxed))
      continue;
    *out = claim;
    return true;
  }
  return false;
}

// Returns the task that a claim is for. In a spread stage a thread takes its own share from the
// front. So it continues in memory where it was, and meets what its caches hold. Then it takes the
// ends of other shares. Shares hold as many tasks as claims without a task, so one of them has a
// task; those before *whose were empty. *whose starts as the thread's own.
static int64_t task_take(uint32_t id, uint32_t *whose, uint64_t claim) {
  if (!team.spread) return team.n_tasks - (int64_t)(claim & REMAINING_MASK);
  uint32_t n = (uint32_t)(claim >> REMAINING_BITS);
  for (;; *whose = *whose + 1 < n ? *whose + 1 : 0) {
    bool own = *whose == id;
    _Atomic uint64_t *share = &team.members[*whose].share;
    uint64_t is = atomic_load_explicit(share, memory_order_relaxed);
    while ((uint32_t)is < is >> 32)
      if (atomic_compare_exchange_weak_explicit(share, &is, own ? is + 1 : is - (UINT64_C(1) << 32),
                                                memory_order_relaxed, memory_order_relaxed))
        return own ? (int64_t)(uint32_t)is : (int64_t)(is >> 32) - 1;
  }
}

// Runs the claimed task, and others until none is unclaimed; returns how many it ran. A stage stays
// while one of its tasks is claimed, so all are of the same stage.
static int64_t tasks_run(tc_worker *worker, uint64_t claim) {
  void *arg = atomic_load_explicit(&team.arg, memory_order_relaxed);
  int64_t n_run = 0;
  uint32_t whose = worker->id;
  do {
    team.task(arg, team.stage, task_take(worker->id, &whose, claim), worker);
    n_run++;
  } while ((claim & REMAINING_MASK) > 1 && task_claim(worker->id, &claim));
  return n_run;
}

// ---- Workers ----

static void worker_park(const tc_worker *worker) {
  _Atomic uint64_t *parked = &team.parked[worker->id / 64];
  uint64_t bit = UINT64_C(1) << worker->id % 64;
  atomic_fetch_or(parked, bit);
  uint32_t seen = atomic_load(&team.wakes);
  if (!may_claim(atomic_load(&team.claim), worker->id) && !atomic_load(&team.stopping))
    futex_wait(&team.wakes, seen, UINT32_C(1) << worker->id % 32);
  atomic_fetch_and(parked, ~bit);
}

// Prefetches what the argument points to while the worker claims: the caller wrote it just now.
static void argument_fetch(void) {
  const char *arg = atomic_load_explicit(&team.arg, memory_order_relaxed);
  for (int i = 0; i < TC_JOB_LINES; i++) __builtin_prefetch(arg + i * LINE);
}

// After this the thread touches nothing of the stage.
static void tasks_done(int64_t n_run, int status) {
  int none = 0;
  if (TC_UNLIKELY(status))
    atomic_compare_exchange_strong_explicit(&team.status, &none, status, memory_order_relaxed, memory_order_relaxed);
  // Releases the results to the caller. Sequentially consistent with the caller's falling asleep.
  if (atomic_fetch_sub(&team.left, n_run) != n_run) return;
  if (!atomic_load(&team.caller_asleep) || !atomic_exchange(&team.caller_asleep, 0)) return;
  futex_wake(&team.caller_asleep, UINT32_MAX);
  // Linux may have put the caller on this very CPU although its own is idle. It does so when a
  // hypervisor says that an idle CPU is not available.
  sched_yield();
}

// False: there is nothing to do.
static bool worker_work(member *m) {
  uint64_t claim;
  if (!may_claim(atomic_load_explicit(&team.claim, memory_order_relaxed), m->worker.id)) return false;
  argument_fetch();
  if (!task_claim(m->worker.id, &claim)) return false;
  m->worker.scratch = m->memory.aligned;
  m->worker.n = (uint32_t)(claim >> REMAINING_BITS);
  m->worker.status = 0;
  int64_t n_run = tasks_run(&m->worker, claim);
  tasks_done(n_run, m->worker.status);
  return true;
}

static void *worker_main(void *arg) {
  member *m = arg;
  char name[16];
  snprintf(name, sizeof name, "tc-%u", m->worker.id);
  pthread_setname_np(pthread_self(), name);
  in_job = true;  // a job run inside a task runs on this thread alone, with memory of its own
  (void)tc_float_mode_default();
  tc_spin s = {0};
  while (!atomic_load_explicit(&team.stopping, memory_order_relaxed)) {
    if (worker_work(m)) {
      s = (tc_spin){0};
    } else if (tc_spin_over(&s)) {
      worker_park(&m->worker);
      s = (tc_spin){0};
    }
  }
  return NULL;
}

// Returns the bits of ids below n in the word that holds ids from `first` on.
static uint64_t ids_below(int n, int first, int word_bits) {
  return n - first >= word_bits ? UINT64_MAX : (UINT64_C(1) << (n - first)) - 1;
}

static bool some_parked(int n) {
  uint64_t parked = 0;
  for (int first = 0; first < n; first += 64) parked |= atomic_load(&team.parked[first / 64]) & ids_below(n, first, 64);
  return parked != 0;
}

// Wakes the parked workers among ids below n by one system call. Above 32 it may wake others too,
// which park again.
static void workers_wake(int n) {
  if (TC_LIKELY(!some_parked(n))) return;
  atomic_fetch_add(&team.wakes, 1);
  futex_wake(&team.wakes, (uint32_t)ids_below(n, 0, 32));
}

// The child has none of the workers; a child forked by a task must exec or exit. Memory that
// another thread's job was using at the fork is given up, because it may be half changed.
static void reset_in_child(void) {
  bool mid_job = atomic_load(&team.busy) != 0;
  for (int i = 1; mid_job && i < MOST_THREADS; i++) team.members[i].memory = (tc_scratch){0};
  team.n_workers = 0;
  atomic_store(&team.claim, 0);
  atomic_store(&team.left, 0);
  atomic_store(&team.caller_asleep, 0);
  atomic_store(&team.status, 0);
  for (int i = 0; i < MOST_THREADS / 64; i++) atomic_store(&team.parked[i], 0);
  atomic_store(&team.stopping, false);
  atomic_store(&team.busy, 0);
}

static void fork_watch(void) {
  pthread_atfork(NULL, NULL, reset_in_child);
}

// Returns a core to which no worker is pinned and on which the caller does not run; -1: there is
// none.
static int free_core(int caller_core) {
  const tc_topology *t = tc_topology_get();
  for (int core = 0; core < t->n_cores; core++) {
    bool taken = core == caller_core || t->pu_of_core[core] >= CPU_SETSIZE;
    for (int id = 1; id <= team.n_workers && !taken; id++) taken = team.members[id].core == core;
    if (!taken) return core;
  }
  return -1;
}

static void worker_move(int id, int core) {
  if (tc_thread_pin(team.members[id].thread, core)) team.members[id].core = core;
}

// Pins worker id to a core of its own, if the process owns the machine and has no more threads than
// cores. The caller is not pinned. Its current core is left out, because a worker pinned there
// would wait for it.
static void worker_place(int id) {
  const tc_topology *t = tc_topology_get();
  bool own_cores = !tc_options_get()->embed && t->owns_machine && tc_team_threads() <= t->n_cores;
  team.members[id].core = -1;
  int core = own_cores ? free_core(tc_core_of_pu(sched_getcpu())) : -1;
  if (core >= 0)
    worker_move(id, core);
  else
    tc_thread_unpin(team.members[id].thread);
}

// Whoever wakes the caller may move it onto a worker's core, in the middle of a job, too. That
// worker moves to the free core. Otherwise both alternate until the job ends.
// Measured: virtual machine, 2 cores, a token of GPT-2: 20 to 25 -> 12 ms.
static void workers_give_way(void) {
  int caller_pu = sched_getcpu();
  if (TC_LIKELY(caller_pu == team.caller_pu)) return;
  team.caller_pu = caller_pu;
  int caller_core = tc_core_of_pu(caller_pu);
  for (int id = 1; id <= team.n_workers && caller_core >= 0; id++) {
    if (team.members[id].core != caller_core) continue;
    int core = free_core(caller_core);
    if (core >= 0) worker_move(id, core);
    return;
  }
}

static int worker_start(int id) {
  member *m = &team.members[id];
  m->worker.id = (uint32_t)id;
  return tc_thread_start(&m->thread, worker_main, m);
}

// pre: busy is held. Starts as many workers as a job of n threads wants, each with its scratch
// memory. Returns how many threads the job gets.
static int workers_reserve(int n, size_t scratch_bytes) {
  if (TC_UNLIKELY(team.n_workers == 0)) pthread_once(&fork_once, fork_watch);
  while (TC_UNLIKELY(team.n_workers < n - 1)) {
    int error = worker_start(team.n_workers + 1);
    if (error) {
      tc_log_line(TC_LOG_WARN, "thread %d of %d did not start (error %d); running with fewer", team.n_workers + 2, n,
                  error);
      break;
    }
    worker_place(++team.n_workers);
  }
  n = TC_MIN(n, team.n_workers + 1);
  for (int id = 1; id < n; id++)
    if (TC_UNLIKELY(!tc_scratch_reserve(&team.members[id].memory, scratch_bytes))) n = id;
  return n;
}

static void workers_stop(void) {
  atomic_store(&team.stopping, true);
  atomic_fetch_add(&team.wakes, 1);
  futex_wake(&team.wakes, UINT32_MAX);
  for (int id = 1; id <= team.n_workers; id++) pthread_join(team.members[id].thread, NULL);
  team.n_workers = 0;
  for (int id = 1; id < MOST_THREADS; id++) tc_scratch_free(&team.members[id].memory);
  atomic_store(&team.stopping, false);
}

static bool team_try_take(void) {
  return atomic_load_explicit(&team.busy, memory_order_relaxed) == 0 &&
         atomic_exchange_explicit(&team.busy, 1, memory_order_acquire) == 0;
}

// For calls that are no job: waits for another thread's job to end.
static void team_take(void) {
  while (!team_try_take()) sched_yield();
}

static void team_give(void) {
  atomic_store_explicit(&team.busy, 0, memory_order_release);
}

// ---- Jobs ----

// Waits until all tasks but the caller's n_own are done.
static void stage_wait(int64_t n_own) {
  // A worker that waits for this very CPU gets it when the caller sleeps.
  for (tc_spin s = {0}; !tc_spin_over(&s);)
    if (atomic_load_explicit(&team.left, memory_order_acquire) == n_own) return;
  int64_t from = (int64_t)tc_now_ns();
  atomic_fetch_sub(&team.left, n_own);  // from now on the last worker looks whether the caller sleeps
  while (atomic_load(&team.left) != 0) {
    atomic_store(&team.caller_asleep, 1);
    if (atomic_load(&team.left) != 0) futex_wait(&team.caller_asleep, 1, UINT32_MAX);
    atomic_store(&team.caller_asleep, 0);
  }
  team.late |= (int64_t)tc_now_ns() - from >= TC_BRIEF_LATE_NS;
}

// Task 0 is the caller's.
static void shares_deal(int64_t n_tasks, int n_threads) {
  for (int64_t id = 0; id < n_threads; id++) {
    uint64_t first = (uint64_t)(n_tasks * id / n_threads), end = (uint64_t)(n_tasks * (id + 1) / n_threads);
    atomic_store_explicit(&team.members[id].share, end << 32 | TC_MAX_OF(first, 1), memory_order_relaxed);
  }
}

// Task 0 needs no claim.
static void stage_run(const tc_job *job, int stage, int n_threads, tc_worker *caller) {
  int64_t n_tasks = job->n_tasks[stage];
  uint64_t claim;
  TC_ASSERT((uint64_t)n_tasks <= REMAINING_MASK);
  workers_give_way();
  team.task = job->task;
  atomic_store_explicit(&team.arg, job->arg, memory_order_relaxed);
  team.stage = stage;
  team.n_tasks = n_tasks;
  team.spread = job->spread && n_tasks > n_threads && n_tasks <= INT32_MAX;
  if (team.spread) shares_deal(n_tasks, n_threads);
  atomic_store_explicit(&team.left, n_tasks, memory_order_relaxed);
  atomic_store_explicit(&team.claim, (uint64_t)n_threads << REMAINING_BITS | (uint64_t)(n_tasks - 1),
                        memory_order_release);
  workers_wake((int)TC_MIN((int64_t)n_threads, n_tasks));
  job->task(job->arg, stage, 0, caller);
  int64_t n_own = 1;
  if (task_claim(0, &claim)) {
    // A worker that parked just when the stage was published is seen now.
    workers_wake((int)TC_MIN((int64_t)n_threads, n_tasks));
    n_own += tasks_run(caller, claim);
  }
  team.n_helped += n_tasks - n_own;
  uint64_t from = tc_profile_wait_begin();
  stage_wait(n_own);
  tc_profile_wait_end(from);
}

static void stage_run_alone(const tc_job *job, int stage, tc_worker *caller) {
  for (int64_t i = 0; i < job->n_tasks[stage]; i++) job->task(job->arg, stage, i, caller);
}

static int job_run_alone(const tc_job *job, void *memory) {
  tc_worker caller = {.scratch = memory, .n = 1};
  for (int stage = 0; stage < job->n_stages; stage++) stage_run_alone(job, stage, &caller);
  return caller.status;
}

// pre: busy is held; the job is not worth waking n - 1 workers for. Returns whether they are awake,
// or should be because such jobs follow each other closely.
static bool workers_are_near(int n) {
  if (TC_UNLIKELY(tc_brief_is_paused(&brief))) return false;
  return TC_LIKELY(team.n_workers >= n - 1 && !some_parked(n)) || tc_brief_wakes(&brief);
}

// pre: busy is held.
static int job_run_together(const tc_job *job, int n_threads, void *memory) {
  if (job->brief && !workers_are_near(n_threads)) return job_run_alone(job, memory);
  n_threads = workers_reserve(n_threads, job->scratch_bytes);
  if (n_threads == 1) return job_run_alone(job, memory);
  team.caller_pu = -1;
  tc_worker caller = {.scratch = memory, .n = (uint32_t)n_threads};
  atomic_store_explicit(&team.status, 0, memory_order_relaxed);
  team.n_helped = 0, team.late = false;
  for (int stage = 0; stage < job->n_stages; stage++) {
    if (job->n_tasks[stage] > 1)
      stage_run(job, stage, n_threads, &caller);
    else
      stage_run_alone(job, stage, &caller);
  }
  if (job->brief) tc_brief_judge(&brief, team.n_helped > 0, team.late);
  return caller.status ? caller.status : atomic_load_explicit(&team.status, memory_order_relaxed);
}

// Returns how many threads the job can use: no more than its widest stage has tasks.
static int job_threads(const tc_job *job) {
  if (job->max_threads == 1) return 1;
  int64_t widest = 0;
  for (int stage = 0; stage < job->n_stages; stage++) widest = TC_MAX_OF(widest, job->n_tasks[stage]);
  if (widest <= 1) return 1;
  int n = tc_team_threads();
  if (job->max_threads > 1) n = TC_MIN(n, job->max_threads);
  return (int)TC_MIN((int64_t)n, widest);
}

// Runs a job inside a task of this thread. The outer job uses own_scratch.
static int job_run_nested(const tc_job *job) {
  tc_scratch memory = {0};
  if (!tc_scratch_reserve(&memory, job->scratch_bytes)) return TC_ERR_MEMORY;
  int status = job_run_alone(job, memory.aligned);
  tc_scratch_free(&memory);
  return status;
}

int tc_team_run(const tc_job *job) {
  if (TC_UNLIKELY(in_job)) return job_run_nested(job);
  if (!own_scratch_reserve(job->scratch_bytes)) return TC_ERR_MEMORY;
  void *memory = own_scratch.aligned;
  tc_float_mode before = tc_float_mode_default();
  in_job = true;
  int status, n_threads = job_threads(job);
  if (n_threads > 1 && team_try_take()) {
    status = job_run_together(job, n_threads, memory);
    team_give();
  } else {
    status = job_run_alone(job, memory);
    n_threads = 1;
  }
  jobs_alone = n_threads > 1 && !job->brief ? 0 : jobs_alone + (jobs_alone < LONELY_JOBS);
  in_job = false;
  tc_float_mode_restore(before);
  return status;
}

void tc_team_warm(void) {
  if (jobs_alone < LONELY_JOBS) workers_wake(MOST_THREADS);
}

// If there are fewer threads than before, the workers are stopped, because every wake would wake
// the idle ones too.
void tc_team_set_threads(int n) {
  atomic_store(&team.threads, TC_MIN(TC_MAX_OF(n, 0), MOST_THREADS));
  if (in_job) return;
  team_take();
  if (team.n_workers >= tc_team_threads()) workers_stop();
  team_give();
}

int tc_team_threads(void) {
  int n = atomic_load_explicit(&team.threads, memory_order_relaxed);
  if (n > 0) return n;
  int64_t most = TC_MIN(tc_topology_get()->n_threads, MOST_THREADS), wanted = tc_options_get()->num_threads;
  return (int)(wanted > 0 && wanted < most ? wanted : most);
}

void tc_team_stop(void) {
  if (in_job) return;
  team_take();
  workers_stop();
  team_give();
  tc_scratch_free(&own_scratch);
}

tc_status tc_set_num_threads_at(int n, tc_site site) {
  if (n < 0) return tc_fail(TC_ERR_ARG, "set_num_threads", site, "%d threads asked for; 0 or more expected", n);
  if (!tc_enter("set_num_threads", site)) return TC_ERR_STATE;
  tc_team_set_threads(n == 0 ? 0 : TC_MIN(n, tc_topology_get()->n_threads));
  tc_leave();
  return TC_OK;
}

int tc_num_threads(void) {
  return tc_team_threads();
}

// ---- tasks ----

#define TASK_NS 8000.0  // work one task should have
// The most tasks a thread takes of all steps of a stage. A streaming kernel begins each task
// without prefetched operands, on new pages.
// Measured: Zen 4, softmax of 4096x1024: 64 tasks 2 % slower than 24; other cases:
// docs/measurements.md, "Tasks of a thread".
#define MOST_TASKS 32

// Few tasks are rounded up to a multiple of the threads: three on two threads take as long as four.
int64_t tc_team_grain(double work, double all, int64_t extent) {
  int64_t tasks = (int64_t)(work / TASK_NS) + 1, threads = tc_team_threads();
  if (tasks > 1 && tasks < 4 * threads) tasks = (tasks + threads - 1) / threads * threads;
  if (tasks > 1) tasks = TC_MIN(tasks, TC_MAX_OF((int64_t)(work / all * (double)(MOST_TASKS * threads)), 1));
  tasks = TC_MIN(tasks, TC_MAX_OF(extent, 1));
  return TC_MAX_OF((extent + tasks - 1) / tasks, 1);
}

// At exit and at dlclose no thread and no destructor may be left that runs our code. A job that
// still runs elsewhere is not waited for.
__attribute__((destructor)) static void team_unload(void) {
  if (in_job || !tc_frees_at_exit()) return;
  if (team_try_take()) {
    workers_stop();
    team_give();
  }
  tc_scratch_free(&own_scratch);
  pthread_mutex_lock(&key_lock);
  if (key_made) pthread_key_delete(key);
  key_made = false;
  pthread_mutex_unlock(&key_lock);
}
