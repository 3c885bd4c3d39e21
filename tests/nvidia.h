// What the code that NVRTC makes says of its kernels. Compiled only: nothing is run. Tests only.
// Threads: thread-safe.
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct cubin_facts {
  int registers;  // of a thread
  int stack;  // bytes of a thread, which is where registers are spilled to
  int shared;  // bytes of the block's memory beside what the launch asks for
} cubin_facts;

// The most of any function. false: it is no cubin, or does not say.
bool cubin_read(const void *image, size_t bytes, cubin_facts *out);
