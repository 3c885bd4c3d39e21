// What kernels of a plan are made for: vectors of a CPU (lowering/isa.h), or threads of a GPU. Threads: thread-safe.
#ifndef TC_LOWERING_TARGET_H
#define TC_LOWERING_TARGET_H

#include "device/gpu.h"

typedef struct tc_target {
  tc_gpu *gpu;
  int threads_most;     // of a group; 0: a CPU, and so is the rest
  int warp;             // threads that run together
  int processors;       // that run blocks
  size_t shared_bytes;  // of a block
  bool mma;             // has m16n8k16 of f16 and bf16
} tc_target;

static inline bool tc_target_is_gpu(const tc_target *t) {
  return t->threads_most > 0;
}

// The target of a device's tensors; opens the device.
tc_status tc_target_of(tc_device d, tc_target *out);
// Lanes of a vector that each thread holds where a schedule has no reason for others: 16 bytes of f32.
#define TC_LANES_OF_THREAD 4
// How a nest whose vectors have so many lanes is run on a GPU: threads of a group, and groups of a block.
void tc_target_threads(const tc_target *t, int lanes, uint16_t *threads, uint16_t *groups);

#endif
