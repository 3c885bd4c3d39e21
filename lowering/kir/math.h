// Builds functions of floats as kernel IR: polynomials and lookups in f32, calls of libm in f64.
// In: values. Out: a value of the same type and lanes. Under TC_STRICT f32 uses libm too;
// scalar_ops.h decides which.
// Invariants: no contraction and no reassociation, so every generator gives the same bits.
// Threads: thread-compatible. Owner: the builder owns the instructions.
#pragma once

#include "lowering/kir/builder.h"
#include "lowering/kir/libm.h"

// Row fn of libm.def on a, or with `two` on a and b, lane by lane in F64; the result has the type
// of a.
tc_val tc_kir_call_libm(tc_kir_builder *e, int64_t fn, tc_val a, tc_val b, bool two);

// In f32. Each one's error is beside its definition.
tc_val tc_kir_exp_f32(tc_kir_builder *e, tc_val x);
tc_val tc_kir_log_f32(tc_kir_builder *e, tc_val x);
tc_val tc_kir_trig_f32(tc_kir_builder *e, tc_val x, bool cosine);
tc_val tc_kir_tanh_f32(tc_kir_builder *e, tc_val x);
tc_val tc_kir_erf_f32(tc_kir_builder *e, tc_val x);
tc_val tc_kir_gelu_f32(tc_kir_builder *e, tc_val x);
tc_val tc_kir_gelu_tanh_f32(tc_kir_builder *e, tc_val x);
// In f64.
tc_val tc_kir_gelu_f64(tc_kir_builder *e, tc_val x);
tc_val tc_kir_gelu_tanh_f64(tc_kir_builder *e, tc_val x);
// In f32 or f64.
tc_val tc_kir_sigmoid(tc_kir_builder *e, tc_val x, tc_type type);
// e^x of x <= 0, or NaN, with fewer operations than EXP. The bits are the same except with lookups,
// which are within 1 ULP, and 0 below 2^-126.
tc_val tc_build_exp_of_negative(tc_kir_builder *e, tc_type type, tc_val x);
// pre: the target has lookups. 2^x in f32 of x >= -127, where it is 0. Its error is at most 1.6e-9
// and rounding.
// t is x + TC_EMIT_ROUNDER_OF_SIXTEENTHS: that addition rounds x to sixteenths. r is x minus the
// rounded x.
#define TC_EMIT_ROUNDER_OF_SIXTEENTHS 786432.0
tc_val tc_build_power_of_sixteenths(tc_kir_builder *e, tc_val t, tc_val r);
