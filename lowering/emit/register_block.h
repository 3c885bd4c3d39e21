// The core of every matrix kernel, which BLIS calls the micro-kernel: rows x columns of sums in
// registers, to which a step of k adds.
//
// In: the vectors of the right side at that step, and how an element of the left side is loaded.
// Out: instructions on the sums, which are variables.
// Each emitter has a loop over k, first values of the sums, and an epilogue of its own (README.md).
#ifndef TC_LOWERING_EMIT_REGISTER_BLOCK_H
#define TC_LOWERING_EMIT_REGISTER_BLOCK_H

#include "lowering/emit/context.h"

// How a product is added to a sum.
typedef enum tc_multiply_way {
  TC_MULTIPLY_ROUNDED,  // rounded twice
  TC_MULTIPLY_FUSED,  // a multiply-add, rounded once
  TC_MULTIPLY_PAIRS,  // a dot product of pairs of bf16, as words
} tc_multiply_way;

// The element of the left side in row `row`, spread over lanes where it is used.
typedef tc_val tc_load_lhs(void *of, int row);

typedef struct tc_register_block {
  tc_multiply_way way;
  int rows, columns;  // MR; vectors of a row, which are NR lanes together
  tc_load_lhs *lhs;
  void *of;  // what lhs is given
} tc_register_block;

// Of a left side that is loaded already: of is its elements, a tc_val a row.
tc_val tc_lhs_loaded(void *of, int row);
// sum + a * b.
tc_val tc_multiply_add(tc_emit_ctx *s, tc_multiply_way way, tc_val a, tc_val b, tc_val sum);
// acc[i * columns + j] += lhs(i) * rhs[j]. The left side is loaded for each sum, where it is used.
void tc_register_block_add(tc_emit_ctx *s, const tc_register_block *b, const tc_val *rhs, const tc_val *acc);
// What so many floating-point operations take, in the unit of tc_emit_result's work.
double tc_register_block_work(double flops);

#endif
