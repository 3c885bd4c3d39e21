// What a printed kernel and its launch agree on: the shape of a block, and the words of the table
// that the kernel reads.
// In: the printer writes a shape. Out: whoever launches the kernel reads it.
// Threads: constant. Owner: none.
#pragma once

#include "lowering/kir/kir.h"

// What a launch of a printed kernel must know.
typedef struct tc_gpu_shape {
  uint32_t threads;       // of a block: those of all its groups
  uint32_t groups;        // of a block
  uint32_t cluster;       // blocks of a group, 1 or more: the grid is a multiple of them
  uint32_t shared_bytes;  // of a block
  uint32_t n_map;
  tc_tensor_map map[TC_KIR_MAPS];  // of the kernel, whose words it reads, too
} tc_gpu_shape;

// Words of a kernel's table behind those of buffers and scalars. They are the units in all, the
// units a group does, and the address of the run's fault word. Group q of the grid does units [q
// chunk, (q + 1) chunk)
// as far as there are any. Where the fault word's address is not 0 and the word not all ones, a
// kernel does nothing.
enum { TC_GPU_WORD_EXTENT, TC_GPU_WORD_CHUNK, TC_GPU_WORD_FAULT, TC_GPU_WORDS };

// Behind them come tensor maps, as the device has them. The first begins at the next multiple of so
// many words. The words of a kernel with maps begin at such a multiple, too.
#define TC_GPU_TENSOR_MAP_ALIGNED 16
static inline uint32_t tc_gpu_tensor_map_word(uint32_t n_buf, uint32_t n_num) {
  return (n_buf + n_num + TC_GPU_WORDS + TC_GPU_TENSOR_MAP_ALIGNED - 1) / TC_GPU_TENSOR_MAP_ALIGNED *
         TC_GPU_TENSOR_MAP_ALIGNED;
}
