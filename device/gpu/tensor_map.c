// TMA tensor maps, which the driver encodes.
// Threads: thread-safe.
#include "device/gpu/state.h"

tc_status tc_gpu_tensor_map_make(tc_gpu *g, const tc_gpu_tensor_map *m, const void *at,
                                 uint64_t words[TC_GPU_TENSOR_MAP_WORDS]) {
  if (!g->facts.wgmma) return TC_FAIL(TC_ERR_DEVICE, "%s fetches no boxes", tc_device_name(g->device));
  TC_TRY(tc_gpu_begin(g, "making a map"));
  tc_status st = tc_gpu_check(g, g->driver->map(&g->port, m, at, words), "making a map");
  tc_gpu_end(g);
  return st;
}
