// How far a program may be ahead of a device: at most TC_GPU_AHEAD runs are on their way, then the next one waits.
//
// Idea: behind every half of so many runs an event is recorded. Before a half begins, the event behind the half before the latest is waited for: a run never
// waits for the one just before it, and an event costs one run in some.
#include "device/gpu/state.h"
#include "runtime/options.h"

static uint32_t half(void) {
  return (uint32_t)TC_MIN(TC_MAX_OF(tc_options_get()->gpu_ahead / 2, 1), 1 << 20);
}

tc_status tc_gpu_ahead_wait(tc_gpu *g) {
  tc_gpu_ahead *a = &g->ahead;
  if (TC_LIKELY(a->n < half())) return TC_OK;
  uint32_t older = a->newest ^ 1;
  if (!a->mark[older]) TC_TRY(tc_gpu_event(g, false, &a->mark[older]));
  TC_TRY(tc_gpu_check(g, g->driver->event_record(&g->port, a->mark[older]), "recording an event"));
  a->newest = older, a->n = 0;
  if (!a->mark[older ^ 1]) return TC_OK;
  return tc_gpu_check(g, g->driver->event_wait(&g->port, a->mark[older ^ 1]), "waiting for earlier runs");
}

void tc_gpu_ahead_fini(tc_gpu *g) {
  for (int i = 0; i < 2; i++)
    if (g->ahead.mark[i]) tc_gpu_note(g, g->driver->event_destroy(&g->port, g->ahead.mark[i]), "destroying an event");
  g->ahead = (tc_gpu_ahead){0};
}
