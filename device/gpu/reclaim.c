// What happens when a device's memory is short. Caches are freed and the request is tried again;
// then it fails with a list of what holds the memory.
//
// The lowest caches are the driver's pool and memory for copies that run beside kernels. Then come
// code, graphs and calls that wait for runs under way. Highest are pooled buffers (device/buffer.c)
// and derived values (its keeper). For these two the device's lock is released, because their
// owners take it inside their own.
// Threads: under the device's lock; tc_gpu_evict without it.
#include "device/gpu/state.h"

static void (*_Atomic evict)(tc_device d);  // registered by the layer that pools buffers; NULL: there are none yet

void tc_gpu_set_evict(void (*by)(tc_device d)) {
  atomic_store_explicit(&evict, by, memory_order_release);
}

void tc_gpu_evict(tc_gpu *g) {
  void (*by)(tc_device) = atomic_load_explicit(&evict, memory_order_acquire);
  if (by) by(g->device);
}

void tc_gpu_upload_trim(tc_gpu *g) {
  tc_gpu_upload *u = &g->upload;
  for (uint32_t i = 0; i < u->n_there; i++)
    tc_gpu_note(g, tc_gpu_port_give(&g->port, u->there[i].at), "giving back memory");
  u->n_there = u->next = 0;
}

static void trim_copies(tc_gpu *g, tc_gpu_async_read *list) {
  for (tc_gpu_async_read *l = list; l; l = l->next) {
    if (l->there) tc_gpu_note(g, tc_gpu_port_give(&g->port, l->there), "giving back memory");
    l->there = NULL;
  }
}

// The lock of reading precedes the device's, which this thread holds. If another thread reads, its
// memory stays.
void tc_gpu_async_read_trim(tc_gpu *g) {
  if (pthread_mutex_trylock(&g->reading) != 0) return;
  trim_copies(g, g->reads);
  trim_copies(g, g->free_reads);
  pthread_mutex_unlock(&g->reading);
}

tc_status tc_gpu_trim(tc_gpu *g) {
  TC_TRY(tc_gpu_check(g, tc_gpu_port_wait(&g->port), "waiting for memory"));
  tc_gpu_retired_fini(g);
  tc_gpu_upload_trim(g);
  tc_gpu_async_read_trim(g);
  return tc_gpu_check(g, g->driver->entry->pool_trim(g->port.pool, 0), "giving back memory");
}

tc_status tc_gpu_reclaim_for(tc_gpu *g) {
  uint64_t opened = g->opened;
  tc_gpu_end(g);
  tc_gpu_evict(g);
  tc_status st = tc_gpu_begin(g, "waiting for memory");
  if (st != TC_OK) {
    pthread_mutex_lock(&g->lock);
    g->outside = true;
    return st;
  }
  if (g->opened != opened) return TC_FAIL(TC_ERR_DEVICE, "%s was shut down", tc_device_name(g->device));
  return tc_gpu_trim(g);
}

tc_status tc_gpu_event(tc_gpu *g, bool timer, void **out) {
  unsigned flags = timer ? 0 : TC_GPU_EVENT_DISABLE_TIMING;
  int result = g->driver->entry->event_create(out, flags);
  if (tc_gpu_is_out_of_memory(g, result)) {
    TC_TRY(tc_gpu_trim(g));
    result = g->driver->entry->event_create(out, flags);
  }
  return tc_gpu_check(g, result, "making an event");
}

tc_status tc_gpu_pinned(tc_gpu *g, size_t bytes, void **out) {
  int result = g->driver->entry->host_alloc(out, bytes, 0);
  if (tc_gpu_is_out_of_memory(g, result)) {
    TC_TRY(tc_gpu_trim(g));
    result = g->driver->entry->host_alloc(out, bytes, 0);
  }
  return tc_gpu_check(g, result, "taking pinned memory for copies");
}

void tc_gpu_event_destroy(tc_gpu *g, void *event) {
  if (event) tc_gpu_note(g, g->driver->entry->event_destroy(event), "destroying an event");
}

void tc_gpu_pinned_free(tc_gpu *g, void *at) {
  if (at) tc_gpu_note(g, g->driver->entry->host_free(at), "giving back pinned memory");
}
