// Records of a trace as calls of the public functions that record them.
//
//   %3 = sum f32[64] tc:cpu in %2 attr 2      tc_sum(t2, TC_AXES(1), false)
//
// In: a record. Out: a C expression, in which %2 is t2.
// Threads: thread-compatible. Owner: nobody.
#pragma once

#include "lazy/text/text.h"

// "TC_SHAPE(2, 3)".
void tc_c_shape_write(FILE *out, const tc_dims *d);
// "TC_F32".
void tc_c_type_write(FILE *out, tc_type type);
// A double as C has it: "0.5", "INFINITY".
void tc_c_number_write(FILE *out, double v);

// Writes the expression that makes node n, which is no leaf. False: no public function records such
// a node, and what was written is no expression. It may use functions of the program's own:
//   variable(shape, type)                   something to differentiate by
//   differentiated(t)                       the same with t's value
//   gradient(y, g)                          of y by the latest of these, where y's gradient is g
//   written(x, start, stop, step, value)    x with a slice of it assigned
//   assigned(old, value)
//   drawn(seed, counter, stream, expression)
bool tc_c_call_write(FILE *out, const tc_text *x, uint32_t n);
// Whether that expression names operand i.
bool tc_c_call_reads(const tc_text *x, uint32_t n, int i);
