// Row kernels: GPU launches for rows of the op table without generated kernels, for which the CPU
// runs reference kernels. They cover scans, sorting, searching, writing and adding by index,
// overlapping sums, concatenation, slice writes and fills, and the check of indices.
// A row becomes a list of launches of kernels from kernels/gpu/. Their text names types and ops,
// never extents, so one kernel serves all shapes. Launches hold the source of each word; a run
// supplies the values.
// Invariants: tiling follows from shapes and types alone, so a row has the same bits on every run
// and device. Operands and results are dense. Indices out of range are skipped. Once the fault word
// is set, later kernels do nothing.
// Threads: thread-safe, pure. Owner: results live in the caller's arena.
#pragma once

#include <tc/tc.h>

#include "lazy/record/record.h"
#include "runtime/arena.h"

typedef enum tc_row_word_kind {
  TC_ROW_WORD_CONST,  // the value itself
  TC_ROW_WORD_OPERAND,  // address of operand number `value`
  TC_ROW_WORD_RESULT,  // address of the result
  TC_ROW_WORD_SCRATCH,  // address of byte `value` of the row's scratch memory
  TC_ROW_WORD_ARG,  // the row's run-time argument number `value`
  TC_ROW_WORD_FAULT,  // address of the run's fault word; 0 where the run checks no index
} tc_row_word_kind;

typedef struct tc_gpu_word {
  tc_row_word_kind kind;
  uint64_t value;
} tc_gpu_word;

typedef struct tc_gpu_row_launch {
  const char *name, *source;  // name and source of the kernel, as for tc_gpu_compile
  uint32_t blocks, threads, shared_bytes;
  const tc_gpu_word *word;
  uint32_t n_word;
} tc_gpu_row_launch;

// A row's launches, which run one after another. A row without work has none.
typedef struct tc_gpu_row {
  tc_gpu_row_launch *launch;
  uint32_t n_launch;
  size_t scratch_bytes;  // aligned to 16; not initialized, and not kept afterwards
} tc_gpu_row;

typedef struct tc_gpu_tensor {
  tc_type type;
  tc_dims d;
} tc_gpu_tensor;

// attr and the numbers of arguments are as the head of ops.def says.
typedef struct tc_gpu_row_call {
  tc_op op;
  int n_in;
  const tc_gpu_tensor *in;
  tc_gpu_tensor out;
  const uint64_t *attr;
  int n_arg;
  // true: operand 0 has no memory: it is argument n_arg, repeated (tc_fusion_is_filled)
  bool filled;
  bool in_place;  // true: operand 0 is the result's memory
} tc_gpu_row_call;

// Lowers a row, also one without elements to read, such as a sum over nothing.
// TC_ERR_ARG: no such kernel; TC_ERR_SHAPE: more elements than one launch can cover; TC_ERR_MEMORY.
tc_status tc_gpu_row_make(const tc_gpu_row_call *call, tc_arena *arena, tc_gpu_row *out);
// Checks that `count` indices, operand 0, lie within [-extent, extent). The fault word becomes the
// minimum of its value and base + position of each bad index. If its value is already less than
// base, nothing is read.
tc_status tc_gpu_row_check(uint64_t count, uint64_t extent, uint64_t base, tc_arena *arena, tc_gpu_row *out);
