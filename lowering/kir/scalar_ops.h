// The elementwise ops of include/tc/ops.def as instructions of the kernel IR, and what they cost.
// In: an op, the type that it computes in, its operands. Out: the result, appended by a builder.
// Invariants: a type and an op give the same instructions everywhere, whatever is around. Threads:
// thread-compatible. Owner: the builder's.
#ifndef TC_LOWERING_KIR_SCALAR_OPS_H
#define TC_LOWERING_KIR_SCALAR_OPS_H

#include "lowering/kir/builder.h"

// The elementwise op of the table on values of one type (compute type: F32 for f16 and bf16),
// IR-level polynomials where there are any. Results of compares are BOOL. b of POLYGAMMA is its n,
// in F64.
tc_val tc_build_scalar_op(tc_kir_builder *e, uint32_t op, tc_type type, tc_val a, tc_val b, tc_val c);
// What the op costs on one element, an addition being 1.
double tc_build_cost(uint32_t op, tc_type type);

#endif
