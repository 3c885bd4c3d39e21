// Types of a row's launches on a GPU, and the sources of their words. See rows.h.
#pragma once

#include <tc/tc.h>

#include "lazy/record/record.h"

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
