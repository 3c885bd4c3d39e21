// The functions that kernels call lane by lane: names for the rows of libm.def, and the table
// workers carry as worker->math.
// Threads: thread-safe, pure. Owns nothing.
#pragma once

#include <stdint.h>

// The imm of a CALL.
typedef enum tc_kir_math {
#define TC_KIR_MATH(NAME, function, operands) TC_KIR_MATH_##NAME,
#include "lowering/kir/libm.def"
#undef TC_KIR_MATH
  TC_KIR_MATH_ROWS
} tc_kir_math;

// Pointers in the order of the rows; each takes that row's count of doubles and returns a double.
// Static memory.
const void *tc_kir_math_table(void);
// 1 or 2; 0 for a row that is not there.
int tc_kir_math_operands(int64_t row);
