// Shorthand for .c files that build many floating-point instructions; included by those alone.
// `e` is the builder, `x` a value of the type that constants take.
#pragma once

#include "lowering/kir/builder.h"

#define F(v) tc_build_const_f(e, tc_build_type(e, x), (v))
#define ADD(a, b) tc_build_bin(e, TC_IR_ADD, (a), (b))
#define SUB(a, b) tc_build_bin(e, TC_IR_SUB, (a), (b))
#define MUL(a, b) tc_build_bin(e, TC_IR_MUL, (a), (b))
#define DIV(a, b) tc_build_bin(e, TC_IR_DIV, (a), (b))
