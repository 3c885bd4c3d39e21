// An operand of a matmul or convolution, found in memory through views. Private to emit/.
#pragma once

#include "lowering/emit/context.h"

// Describes element base + row * row_stride + column * col_stride. A left operand may be segmented,
// as windows and permuted axes are: base + rows(row) + segments(k) + (k % segment) * col_stride.
typedef struct tc_strided_operand {
  int buf;
  tc_type type;
  tc_index base;  // over A and arguments
  int64_t row, col;  // strides, in elements
  bool scattered;  // true: rows have no single stride
  tc_index rows, segments;  // over F; over K0 at the start of a segment
  int64_t segment;  // steps of k with stride col; the extent of K0: one segment
  // right operand: number of contiguous columns in a panel; col is then a panel's stride divided by
  // its columns. 0: columns are not in panels
  int64_t panel;
  // right operand, true: panels hold pairs of bf16 or four bytes along k, read as 32-bit words;
  // type, strides and base count words
  bool words;
  // right operand with a fused producer (mark_prologue.c): the node that it is computed from, whose
  // value is in memory or a cast of it. TC_NONE: the operand itself is in memory
  uint32_t widened;
  tc_index widened_at;  // position of the element of that node
  uint32_t node;  // the operand; below, its position over A, K0 and K
  tc_index position[TC_MAX_RANK];
  tc_val at;  // base at the current batch
} tc_strided_operand;

// Finds operand k of the node: its rows follow range row and its columns range col. One of them is
// K0, the range that is summed over.
// Returns false if the operand must be stored first; the context's result then names it.
bool tc_strided_operand_find(tc_emit_ctx *s, uint32_t node, int k, uint8_t row, uint8_t col, tc_strided_operand *f);

// An operand of rank 4, in memory through views: one stride for each axis. base is over arguments
// only.
typedef struct tc_operand4 {
  int buf;
  tc_type type;
  int64_t stride[4];
  tc_index base;
} tc_operand4;

// Finds operand k of the node. Returns false if it must be stored first; the context's result then
// names it.
bool tc_operand4_find(tc_emit_ctx *s, uint32_t node, int k, tc_operand4 *o);
