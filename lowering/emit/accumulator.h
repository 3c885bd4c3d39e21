// Folds of a group as instructions, for kernels over rows. Inside expansion; not for others.
//
// Always: a fold runs in the lanes that the kernel has, one accumulator each; where they lie along
// F they are combined at the end, by halves.
#ifndef TC_LOWERING_EMIT_ACCUMULATOR_H
#define TC_LOWERING_EMIT_ACCUMULATOR_H

#include "lowering/emit/context.h"

typedef struct tc_fold {
  uint32_t node;
  tc_val acc, index;  // variables; index for argmax and argmin
  tc_val total;  // likewise: of the chains that ended (summation.h); TC_NONE if there is one
  int tile;  // of a COLUMN member: where its sums are while rows go by, or -1
  tc_type type;
} tc_fold;

// chains: whether a sum of floats is several chains.
void tc_fold_begin(tc_emit_ctx *s, tc_fold *f, uint32_t n, bool chains);
// Takes the operand's value at the present iteration.
void tc_fold_step(tc_emit_ctx *s, tc_fold *f);
// The chain of a sum that has several ends here; nothing for other folds.
void tc_fold_end_chain(tc_emit_ctx *s, const tc_fold *f);
// The fold's value at its row is remembered: lanes combined where they ran along F.
void tc_fold_end(tc_emit_ctx *s, const tc_fold *f);
// What leaves the fold unchanged. Bools fold as I32.
tc_val tc_fold_identity(tc_emit_ctx *s, tc_op op, tc_type type);

#endif
