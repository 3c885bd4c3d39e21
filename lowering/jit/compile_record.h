// Records of kernels that were found or made, for a profile's file.
// Threads: thread-safe; each thread adds up the stages of what it makes.
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef enum tc_compile_stage {
  TC_STAGE_EMIT,  // the kernel IR becomes LLVM's IR or a GPU's source
  TC_STAGE_GENERATE,  // that becomes an object, by LLVM's passes too
  TC_STAGE_LOAD,  // the object becomes code or is read from disk, or the interpreter gets the kernel
  TC_N_STAGES
} tc_compile_stage;

// Adds time to a stage of the kernel that this thread makes.
void tc_compile_stage_add(tc_compile_stage stage, uint64_t ns);
// Writes the record of a kernel whose making began at start_ns, and forgets its stages.
// tier: static, as in tc_prof_compile. sequence: of the sync that waits for it, 0: none.
void tc_compile_record(const char *name, const char *tier, uint32_t sequence, uint64_t start_ns, size_t code_bytes);
