// What is done where a device's memory is short: what is cached goes, it is tried again, and then comes an error with a list of what holds the memory.
//
// Caches are, from below: what the driver's pool keeps; memory for copies that run beside kernels; code, graphs and calls that wait for runs under way to
// end; buffers in the pools (device/buffer.c) and prepared values (its keeper), which the lock of the device must be given up for, since their owners take
// it inside their own.
#include "device/buffer.h"
#include "device/gpu/state.h"

bool tc_gpu_is_short(const tc_gpu *g, int result) {
  const char *name;
  return TC_UNLIKELY(result != 0) && g->driver->judge(result, &name) == TC_GPU_SHORT;
}

tc_status tc_gpu_trim(tc_gpu *g) {
  TC_TRY(tc_gpu_check(g, g->driver->wait(&g->port), "waiting for memory"));
  tc_gpu_retired_fini(g);
  tc_gpu_upload_trim(g);
  tc_gpu_later_trim(g);
  return tc_gpu_check(g, g->driver->trim(&g->port), "giving back memory");
}

tc_status tc_gpu_make_room(tc_gpu *g) {
  uint64_t opened = g->opened;
  tc_gpu_end(g);
  tc_buffer_reclaim(g->device);
  tc_status st = tc_gpu_begin(g, "waiting for memory");
  if (st != TC_OK) {
    pthread_mutex_lock(&g->lock);
    g->outside = true;
    return st;
  }
  if (g->opened != opened) return TC_FAIL(TC_ERR_DEVICE, "%s was shut down", tc_device_name(g->device));
  return tc_gpu_trim(g);
}

tc_status tc_gpu_tell_short(tc_gpu *g, const char *what) {
  char holders[800];
  size_t room = 0, all = g->facts.memory_bytes;
  (void)g->driver->room(&g->port, &room);
  return TC_FAIL(TC_ERR_MEMORY, "%s: %s; %zu of %zu bytes are free: %s", tc_device_name(g->device), what, room, all,
                 tc_holders_tell(g->device, all - TC_MIN(all, room), holders, sizeof holders));
}

tc_status tc_gpu_event(tc_gpu *g, bool timer, void **out) {
  int (*create)(tc_gpu_port *, void **) = timer ? g->driver->timer_create : g->driver->event_create;
  int result = create(&g->port, out);
  if (tc_gpu_is_short(g, result)) {
    TC_TRY(tc_gpu_trim(g));
    result = create(&g->port, out);
  }
  return tc_gpu_check(g, result, "making an event");
}

tc_status tc_gpu_pinned(tc_gpu *g, size_t bytes, void **out) {
  int result = g->driver->staging_take(&g->port, bytes, out);
  if (tc_gpu_is_short(g, result)) {
    TC_TRY(tc_gpu_trim(g));
    result = g->driver->staging_take(&g->port, bytes, out);
  }
  return tc_gpu_check(g, result, "taking pinned memory for copies");
}
