// The host processor's features, without a compiler. Threads: thread-safe, pure.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define TC_HOST_FEATURES_BYTES 160
#define TC_HOST_FACTS_BYTES 256

// Writes the features that rows of isa.def need, as far as the processor has them and the system
// enables them. Names are LLVM's: "+avx2,+fma". Tile registers need a permission besides
// (host_tiles.h).
void tc_host_features(char out[TC_HOST_FEATURES_BYTES]);
// Whether memory is read faster as whole rows side by side than as parts of rows, one after the
// other.
bool tc_host_reads_rows(void);
// Whether it computes vectors of 64 bytes, if it has them, as two halves.
bool tc_host_halves_vectors(void);
// Writes all that a compiler may learn of it: one compiler generates equal code for two machines
// with equal facts. The facts are equal on every core and in every process.
void tc_host_facts(char out[TC_HOST_FACTS_BYTES]);
