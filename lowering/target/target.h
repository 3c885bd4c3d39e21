// The target of a plan's kernels: a CPU's vectors (lowering/target/isa.h), or a GPU's threads.
// Threads: thread-safe.
#pragma once

#include "device/gpu.h"

typedef struct tc_target {
  tc_gpu *gpu;
  int threads_most;  // most threads of a group; 0: a CPU, and the fields below are 0
  int warp;  // threads that run in lockstep
  int processors;  // multiprocessors, which run blocks
  size_t shared_bytes;  // shared memory of a block
  bool mma;  // true: has m16n8k16 of f16 and bf16
  bool wgmma;  // true: has matmuls of four warps, and the option allows them
  // most blocks that a group's threads may span; 0: a group is in one block
  int cluster;
  bool mfma;  // true: has 16x16x16 of f16 and bf16, of 64 threads
} tc_target;

static inline bool tc_target_is_gpu(const tc_target *t) {
  return t->threads_most > 0;
}

// The target of a device's tensors; opens the device.
tc_status tc_target_of(tc_device d, tc_target *out);
// Clusters hold rows of more than TC_CLUSTER_ROW elements, up to TC_CLUSTER_ROW_MOST, if there are
// at least TC_CLUSTER_ROWS rows. A row is read once although it exceeds a block's memory. Fewer
// rows, or longer ones, are split into parts that fill the device.
#define TC_CLUSTER_ROW 32768
#define TC_CLUSTER_ROW_MOST 131072
#define TC_CLUSTER_ROWS 16
// Whether clusters reduce `rows` rows of n elements. Depends on the shape, which decides the order
// of sums.
static inline bool tc_target_clusters(const tc_target *t, int64_t rows, int64_t n) {
  return t->cluster > 0 && rows >= TC_CLUSTER_ROWS && n > TC_CLUSTER_ROW && n <= TC_CLUSTER_ROW_MOST;
}
// Default number of a vector's lanes that a thread holds: 16 bytes of f32.
#define TC_LANES_OF_THREAD 4
// Launch shape of a kernel whose vectors have `lanes` lanes: threads of a group, and groups of a
// block.
void tc_target_threads(const tc_target *t, int lanes, uint16_t *threads, uint16_t *groups);
