// Prints a nest with threads as the text of a kernel, in the dialect of device/gpu/README.md.
// Threads: thread-safe, pure. Owns nothing.
#ifndef TC_LOWERING_GPU_PRINT_H
#define TC_LOWERING_GPU_PRINT_H

#include "lowering/nest.h"

// What a launch of a printed kernel must know.
typedef struct tc_gpu_shape {
  uint32_t threads;       // of a block: those of all its groups
  uint32_t groups;        // of a block
  uint32_t cluster;       // blocks of a group, 1 or more: the grid is a multiple of them
  uint32_t shared_bytes;  // of a block
} tc_gpu_shape;

// Words of a kernel's table behind those of buffers and scalars: units in all, units a group does, and the address of the run's fault word. Group q of the
// grid does units [q chunk, (q + 1) chunk) as far as there are any. Where the fault word's address is not 0 and the word not all ones, a kernel does nothing.
enum { TC_GPU_WORD_EXTENT, TC_GPU_WORD_CHUNK, TC_GPU_WORD_FAULT, TC_GPU_WORDS };

// *out_source is the caller's, tc_free. TC_ERR_ARG for a nest that does not verify or has no threads.
tc_status tc_gpu_print(const tc_nest *nest, const char *name, char **out_source, tc_gpu_shape *shape);

#endif
