// Runs in flight: how far a program is ahead of a device, and how far the device has come.
//
// An event, the run's mark, is recorded behind every run, in a ring of TC_GPU_AHEAD marks. Before a
// run is launched, the mark whose place it takes is waited for. So a run without a mark is over. A
// reader of a run's result waits for that run's mark alone, and not for what came after.
// Invariants: at most TC_GPU_AHEAD runs are in flight.
// Threads: under the device's lock.
#include "device/gpu/state.h"
#include "runtime/arena.h"
#include "runtime/options.h"

// pre: begun.
static tc_status make_marks(tc_gpu_in_flight *a) {
  if (TC_LIKELY(a->mark)) return TC_OK;
  a->n = (uint32_t)tc_options_get()->gpu_ahead;  // at least 2: a run never waits for the one just before it
  a->mark = tc_calloc(a->n, sizeof *a->mark);
  return a->mark ? TC_OK : TC_FAIL(TC_ERR_MEMORY, "no memory for the marks of %u runs", a->n);
}

tc_status tc_gpu_in_flight_wait(tc_gpu *g) {
  tc_gpu_in_flight *a = &g->in_flight;
  TC_TRY(make_marks(a));
  void **mark = &a->mark[a->n_runs % a->n];
  if (TC_UNLIKELY(!*mark)) return tc_gpu_event(g, false, mark);
  return tc_gpu_await(g, *mark, "waiting for earlier runs");
}

tc_status tc_gpu_in_flight_mark(tc_gpu *g) {
  tc_gpu_in_flight *a = &g->in_flight;
  uint64_t n = a->n_runs;
  TC_TRY(tc_gpu_check(g, tc_gpu_port_record(&g->port, TC_GPU_WORK, a->mark[n % a->n]), "recording an event"));
  atomic_store_explicit(&a->n_runs, n + 1, memory_order_release);
  return TC_OK;
}

void *tc_gpu_in_flight_of(const tc_gpu *g, uint64_t run) {
  const tc_gpu_in_flight *a = &g->in_flight;
  return run == 0 || run + a->n <= a->n_runs ? NULL : a->mark[(run - 1) % a->n];
}

uint64_t tc_gpu_runs(const tc_gpu *g) {
  return atomic_load_explicit(&g->in_flight.n_runs, memory_order_acquire);
}

void tc_gpu_in_flight_fini(tc_gpu *g, bool reached) {
  tc_gpu_in_flight *a = &g->in_flight;
  for (uint32_t i = 0; reached && a->mark && i < a->n; i++) tc_gpu_event_destroy(g, a->mark[i]);
  tc_free(a->mark);
  *a = (tc_gpu_in_flight){0};
}
