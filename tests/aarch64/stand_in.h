// Stand-ins for the functions that kernels call lane by lane: a C library rounds differently on
// another machine, and what is tested is that the right function gets the right operands. Plain
// arithmetic without multiply-add, different for each row of libm.def.
#pragma once

#include "lowering/kir/libm.h"

typedef void stand_in_any(void);

#define TC_KIR_MATH(NAME, function, operands) \
  static double stand_in_one_##NAME(double x) { \
    return x * (TC_KIR_MATH_##NAME + 2) / 8 + 0.5; \
  } \
  static double stand_in_two_##NAME(double x, double y) { \
    return x * (TC_KIR_MATH_##NAME + 2) / 8 - y; \
  }
#include "lowering/kir/libm.def"
#undef TC_KIR_MATH

static stand_in_any *const stand_in_table[] = {
#define TC_KIR_MATH(NAME, function, operands) \
  operands == 1 ? (stand_in_any *)stand_in_one_##NAME : (stand_in_any *)stand_in_two_##NAME,
#include "lowering/kir/libm.def"
#undef TC_KIR_MATH
};
