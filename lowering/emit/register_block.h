// The micro-kernel of every matrix kernel (BLIS's term): rows x columns of sums in registers, to
// which one step of k adds.
//
// In: the vectors of the right side at that step, and a function that loads an element of the left
// side. Out: instructions on the sums, which are variables.
// Each emitter has its own loop over k, initial sums and epilogue (README.md).
#pragma once

#include "lowering/emit/context.h"

// How a product is added to a sum.
typedef enum tc_multiply_way {
  TC_MULTIPLY_ROUNDED,  // multiply, then add: rounded twice
  TC_MULTIPLY_FUSED,  // multiply-add: rounded once
  TC_MULTIPLY_PAIRS,  // dot product of pairs of bf16, which are read as 32-bit words
  // dot product of four bytes, which are read as 32-bit words: of types a and b
  TC_MULTIPLY_U8_U8,
  TC_MULTIPLY_I8_U8,
  TC_MULTIPLY_U8_I8,
  TC_MULTIPLY_I8_I8,
} tc_multiply_way;

// Loads the element of the left side in row `row`. It is broadcast over lanes where it is used.
typedef tc_val tc_load_lhs(void *of, int row);

typedef struct tc_register_block {
  tc_multiply_way way;
  int rows, columns;  // MR; vectors of a row, NR lanes together
  tc_load_lhs *lhs;
  void *of;  // first argument of lhs
} tc_register_block;

// A tc_load_lhs for elements that are already loaded. of: an array of tc_val, one for each row.
tc_val tc_lhs_loaded(void *of, int row);
// Returns how four bytes of these types are multiplied.
tc_multiply_way tc_multiply_bytes(tc_type left, tc_type right);
// Returns sum + a * b.
tc_val tc_multiply_add(tc_emit_ctx *s, tc_multiply_way way, tc_val a, tc_val b, tc_val sum);
// Emits acc[i * columns + j] += lhs(i) * rhs[j]. The left side is loaded again for each sum, where
// it is used.
void tc_register_block_add(tc_emit_ctx *s, const tc_register_block *b, const tc_val *rhs, const tc_val *acc);
// Returns the estimated time of `flops` floating-point operations, in the unit of tc_emit_result's
// work.
double tc_register_block_work(double flops);
