// The rates of this machine's cores and memory, by loops that do nothing else. See host_rates.h.
#include "lowering/autotune/host_rates.h"

#include <pthread.h>
#include <sys/mman.h>

#include "kernels/peak_rates.h"
#include "runtime/fork.h"
#include "runtime/profile.h"
#include "runtime/status.h"
#include "runtime/team.h"

#define ARRAY_FLOATS (4 << 20)  // three such arrays do not fit into the caches
#define N_ROUNDS 3  // the best of them counts
#define N_FMA 20  // calls of a thread in a round, some 30 us each

static struct {
  pthread_mutex_t lock;
  int threads;  // that the rates are of. 0: not measured
  double flops, bytes;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER};
TC_FORK_SAFE(&self.lock, 9)

typedef struct measurement {
  int threads;
  float *array;
  _Atomic uint64_t work;
} measurement;

static void multiply_task(void *arg, int stage, int64_t index, tc_worker *worker) {
  measurement *m = arg;
  float sink = 0;
  double work = 0;
  (void)stage, (void)index, (void)worker;
  for (int i = 0; i < N_FMA; i++) work += tc_peak_fma(&sink);
  __asm__ volatile("" : : "r"(&sink) : "memory");
  m->work += (uint64_t)work;
}

static void triad_task(void *arg, int stage, int64_t index, tc_worker *worker) {
  measurement *m = arg;
  int64_t share = ARRAY_FLOATS / m->threads / 64 * 64;
  float *a = m->array + share * index;
  (void)stage, (void)worker;
  m->work += (uint64_t)tc_peak_triad(a, a + ARRAY_FLOATS, a + 2 * ARRAY_FLOATS, share);
}

// The best rate of a few rounds, one task a thread.
static double rate_of(measurement *m, void (*task)(void *, int, int64_t, tc_worker *)) {
  double best = 0;
  const int64_t n_tasks[] = {m->threads};
  for (int i = 0; i < N_ROUNDS; i++) {
    m->work = 0;
    uint64_t began = tc_now_ns();
    (void)tc_team_run(&(tc_job){.task = task, .arg = m, .n_stages = 1, .n_tasks = n_tasks});
    double rate = (double)m->work / (double)TC_MAX_OF(tc_now_ns() - began, 1) * 1e9;
    best = TC_MAX_OF(best, rate);
  }
  return best;
}

void tc_host_peak_rates(double *flops, double *bytes) {
  int threads = tc_team_threads();
  pthread_mutex_lock(&self.lock);
  if (self.threads != threads && tc_peak_width() != 0) {
    const size_t bytes_of = 3 * sizeof(float) * ARRAY_FLOATS;
    measurement m = {.threads = threads};
    self.threads = threads, self.flops = rate_of(&m, multiply_task), self.bytes = 0;
    m.array = mmap(NULL, bytes_of, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (m.array != MAP_FAILED) {
      self.bytes = rate_of(&m, triad_task);
      munmap(m.array, bytes_of);
    }
  }
  *flops = self.flops, *bytes = self.bytes;
  pthread_mutex_unlock(&self.lock);
}
