// The elementwise ops of include/tc/ops.def as kernel IR, and their cost.
// In: an op, its compute type, its operands. Out: the result, appended by a builder.
// Invariants: an op and a type give the same instructions in every context.
// Threads: thread-compatible. Owner: the builder owns the instructions.
#pragma once

#include "lowering/kir/builder.h"

// Builds the op on values of one compute type (F32 for f16 and bf16), by kernel IR polynomials
// where there are any. Compares give BOOL. b of POLYGAMMA is its n, in F64.
tc_val tc_build_scalar_op(tc_kir_builder *e, uint32_t op, tc_type type, tc_val a, tc_val b, tc_val c);
// The op's cost on one element, in additions.
double tc_build_cost(uint32_t op, tc_type type);
