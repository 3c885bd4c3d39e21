// An operand of a matrix product or of a convolution, found in memory through views. Inside
// expansion.
#ifndef TC_LOWERING_EMIT_STRIDED_OPERAND_H
#define TC_LOWERING_EMIT_STRIDED_OPERAND_H

#include "lowering/emit/context.h"

// Element base + row * row_stride + column * col_stride. The left one may lie in pieces, as windows
// and moved axes do: base + rows(row) + segments(k) + (k % segment) * col_stride.
typedef struct tc_strided_operand {
  int buf;
  tc_type type;
  tc_index base;  // over A and arguments
  int64_t row, col;
  bool scattered;          // rows have no one stride
  tc_index rows, segments; // over F; over K0 at the start of a segment
  int64_t segment;         // steps of k at stride col; the extent of K0 if there is one
  // of the right one: its columns lie in panels of so many side by side, col being a panel's stride
  // over its columns; 0: not
  int64_t panel;
  // of the right one: panels are of pairs of bf16 along k, side by side, which are read as words:
  // type, strides and base are theirs
  bool words;
  // Of the right one, where it is made (mark_prologue.h): the node it is made of, which is what is
  // in memory or the cast of that. TC_NONE: it is in memory.
  uint32_t widened;
  tc_index widened_at;  // the element of that node, by its place
  uint32_t node;  // the operand, and its position over A, K0 and K
  tc_index position[TC_MAX_RANK];
  tc_val at;  // base of the present batch
} tc_strided_operand;

// Finds operand k of the product; its rows follow range row and its columns range col, of which K0
// is the one summed over. False if it must be stored first, which the expansion then says.
bool tc_strided_operand_find(tc_emit_ctx *s, uint32_t node, int k, uint8_t row, uint8_t col, tc_strided_operand *f);

// An operand of rank 4, in memory through views: each axis by one stride from base, which is over
// arguments alone.
typedef struct tc_operand4 {
  int buf;
  int64_t stride[4];
  tc_index base;
} tc_operand4;

// Finds operand k of the node; false if it must be stored first, which the expansion then says.
bool tc_operand4_find(tc_emit_ctx *s, uint32_t node, int k, tc_operand4 *o);

#endif
