// Kernels of a device's own, which are compiled once and kept until the device is closed.
// Threads: thread-safe.
#include "device/gpu/state.h"
#include "runtime/status.h"

tc_status tc_gpu_code_keep(tc_gpu *g, const char *name, const char *source, tc_gpu_code **slot) {
  tc_gpu_code *c;
  TC_TRY(tc_gpu_compile(g, name, source, &c));
  pthread_mutex_lock(&g->lock);
  tc_gpu_code *other = *slot;  // made by a thread that was faster
  if (!other) *slot = c;
  pthread_mutex_unlock(&g->lock);
  if (other) tc_gpu_code_release(c);
  return TC_OK;
}
