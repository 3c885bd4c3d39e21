// What this processor is, without asking a compiler. Threads: thread-safe, pure.
#ifndef TC_LOWERING_TARGET_HOST_CPU_H
#define TC_LOWERING_TARGET_HOST_CPU_H

#include <stdbool.h>
#include <stddef.h>

#define TC_HOST_FEATURES_BYTES 128
#define TC_HOST_FACTS_BYTES 256

// Which of the features that rows of isa.def need it has and its system lets programs use, as LLVM
// names them: "+avx2,+fma".
void tc_host_features(char out[TC_HOST_FEATURES_BYTES]);
// Whether it reads memory faster as whole rows side by side than as parts of rows, one after the
// other.
bool tc_host_reads_rows(void);
// Whether it computes vectors of 64 bytes, if it has them, as two halves.
bool tc_host_halves_vectors(void);
// All that a compiler may learn of it: two machines with equal facts are given equal code by one
// compiler. Equal on every core, and in every process.
void tc_host_facts(char out[TC_HOST_FACTS_BYTES]);

#endif
