// Emits one step of k of a block of sums in registers. See register_block.h.
#include "lowering/emit/register_block.h"

#include "lowering/emit/shorthand.h"
#include "lowering/target/cpu_target.h"

tc_multiply_way tc_multiply_bytes(tc_type left, tc_type right) {
  if (left == TC_I8) return right == TC_I8 ? TC_MULTIPLY_I8_I8 : TC_MULTIPLY_I8_U8;
  return right == TC_I8 ? TC_MULTIPLY_U8_I8 : TC_MULTIPLY_U8_U8;
}

tc_val tc_multiply_add(tc_emit_ctx *s, tc_multiply_way way, tc_val a, tc_val b, tc_val sum) {
  switch (way) {
    case TC_MULTIPLY_PAIRS: return tc_build_dot(&s->e, a, b, sum);
    case TC_MULTIPLY_U8_U8: return tc_build_dot4(&s->e, a, b, sum, 0);
    case TC_MULTIPLY_I8_U8: return tc_build_dot4(&s->e, a, b, sum, 1);
    case TC_MULTIPLY_U8_I8: return tc_build_dot4(&s->e, a, b, sum, 2);
    case TC_MULTIPLY_I8_I8: return tc_build_dot4(&s->e, a, b, sum, 3);
    case TC_MULTIPLY_FUSED: return tc_build_fma(&s->e, a, b, sum);
    default: return add(s, sum, mul(s, a, b));
  }
}

tc_val tc_lhs_loaded(void *of, int row) {
  return ((const tc_val *)of)[row];
}

void tc_register_block_add(tc_emit_ctx *s, const tc_register_block *b, const tc_val *rhs, const tc_val *acc) {
  for (int i = 0; i < b->rows * b->columns; i++) {
    tc_val a = b->lhs(b->of, i / b->columns);
    set(s, acc[i], tc_multiply_add(s, b->way, a, rhs[i % b->columns], acc[i]));
  }
}

double tc_register_block_work(double flops) {
  return flops / (tc_compiler_vector_bytes() == 64 ? 200 : 90) + 50;
}
