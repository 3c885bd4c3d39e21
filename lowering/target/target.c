// Makes a target from a device's facts, and divides vectors among its threads. See target.h.
#include "lowering/target/target.h"

#include "runtime/options.h"

// Threads of a block of small groups: enough to hide latency, and few enough that small work fills
// the device.
#define BLOCK_THREADS 128

tc_status tc_target_of(tc_device d, tc_target *out) {
  *out = (tc_target){.gpu = NULL};
  if (tc_device_kind_of(d) != TC_DEVICE_GPU) return TC_OK;
  TC_TRY(tc_gpu_get(d, &out->gpu));
  const tc_gpu_facts *f = tc_gpu_facts_of(out->gpu);
  out->threads_most = f->most_threads, out->warp = f->warp, out->processors = f->processors;
  out->shared_bytes = f->shared_bytes;
  out->mma = f->matrix == TC_GPU_MMA_SM80, out->mfma = f->matrix == TC_GPU_MFMA;
  out->wgmma = f->wgmma && tc_options_get()->gpu_wgmma;
  out->cluster = f->cluster;
  return TC_OK;
}

void tc_target_threads(const tc_target *t, int lanes, uint16_t *threads, uint16_t *groups) {
  int n = TC_MAX_OF(lanes / TC_LANES_OF_THREAD, 1);
  *threads = (uint16_t)n;
  *groups = (uint16_t)(n <= t->warp ? TC_MAX_OF(BLOCK_THREADS / n, 1) : 1);
}
