// What kernels of a plan are made for: vectors of a CPU (lowering/target/isa.h), or threads of a
// GPU. Threads: thread-safe.
#ifndef TC_LOWERING_TARGET_TARGET_H
#define TC_LOWERING_TARGET_TARGET_H

#include "device/gpu.h"

typedef struct tc_target {
  tc_gpu *gpu;
  int threads_most;     // of a group; 0: a CPU, and so is the rest
  int warp;             // threads that run together
  int processors;       // that run blocks
  size_t shared_bytes;  // of a block
  bool mma;             // has m16n8k16 of f16 and bf16
  bool wgmma;           // products of four warps are asked for, and there
  // Blocks that a group's threads may be spread over; 0: a group is in one block.
  int cluster;
  bool mfma;            // has 16x16x16 of f16 and bf16, of 64 threads
} tc_target;

static inline bool tc_target_is_gpu(const tc_target *t) {
  return t->threads_most > 0;
}

// The target of a device's tensors; opens the device.
tc_status tc_target_of(tc_device d, tc_target *out);
// Rows of more elements than these, up to most, and as many of them, are held by clusters where
// there are any: a row is read once where a block has no room for it. Fewer rows, or longer ones,
// are made in parts that fill the device.
#define TC_CLUSTER_ROW 32768
#define TC_CLUSTER_ROW_MOST 131072
#define TC_CLUSTER_ROWS 16
// Whether clusters fold so many rows of so many elements: by shape, since it decides the order of
// sums.
static inline bool tc_target_clusters(const tc_target *t, int64_t rows, int64_t n) {
  return t->cluster > 0 && rows >= TC_CLUSTER_ROWS && n > TC_CLUSTER_ROW && n <= TC_CLUSTER_ROW_MOST;
}
// Lanes of a vector that each thread holds where a schedule has no reason for others: 16 bytes of
// f32.
#define TC_LANES_OF_THREAD 4
// How a kernel whose vectors have so many lanes is run on a GPU: threads of a group, and groups of
// a block.
void tc_target_threads(const tc_target *t, int lanes, uint16_t *threads, uint16_t *groups);

#endif
