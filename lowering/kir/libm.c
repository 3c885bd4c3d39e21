// The rows of libm.def as a table. See libm.h.
#include "lowering/kir/libm.h"

#include <math.h>

#include "kernels/math.h"

// Row ERFINV is named like the public op; its function of doubles is tc_math_erfinv.

typedef void any_fn(void);

const void *tc_kir_math_table(void) {
  static any_fn *const table[] = {
#define TC_KIR_MATH(NAME, function, operands) (any_fn *)function,
#include "lowering/kir/libm.def"
#undef TC_KIR_MATH
  };
  return table;
}

int tc_kir_math_operands(int64_t row) {
  static const int8_t n[] = {
#define TC_KIR_MATH(NAME, function, operands) operands,
#include "lowering/kir/libm.def"
#undef TC_KIR_MATH
  };
  return row >= 0 && row < TC_KIR_MATH_ROWS ? n[row] : 0;
}
