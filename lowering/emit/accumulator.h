// Emits the folds (reductions) of a fusion, for kernels over rows. Private to emit/.
//
// Invariants: each lane of the kernel has an accumulator of its own. Where lanes run along F, they
// are combined by halves at the end.
#pragma once

#include "lowering/emit/context.h"

typedef struct tc_fold {
  uint32_t node;
  tc_val acc, index;  // variables; index: position of the extreme, for argmax and argmin only
  // variable: sum of the chains that have ended (summation.h); TC_NONE: the sum is one chain
  tc_val total;
  // for a COLUMN node, the tile that holds its sums while the loop goes over rows; -1: none
  int tile;
  tc_type type;  // of the accumulator; bools fold as I32
} tc_fold;

// Creates the accumulators of fold n. chains: true: a sum of floats is several chains.
void tc_fold_begin(tc_emit_ctx *s, tc_fold *f, uint32_t n, bool chains);
// Adds the operand's value of this iteration to the accumulator.
void tc_fold_step(tc_emit_ctx *s, tc_fold *f);
// Ends a chain: adds it to the total and starts the next one. Does nothing for a fold of one chain.
void tc_fold_end_chain(tc_emit_ctx *s, const tc_fold *f);
// Adds the lanes of another fold of the same node, as the second half to the first.
void tc_fold_join(tc_emit_ctx *s, tc_fold *f, const tc_fold *second);
// Remembers the fold's result, with lanes combined where they ran along F.
void tc_fold_end(tc_emit_ctx *s, const tc_fold *f);
// Returns the identity element of a fold. Bools fold as I32.
tc_val tc_fold_identity(tc_emit_ctx *s, tc_op op, tc_type type);
