// Elementwise work on operands too large for the caches, of several widths in one kernel, with a
// part of a block at the end, against the reference.
#include <math.h>
#include <tc/tc.h>

#include "tests/expect.h"

enum { N = (1 << 20) + 37 };

typedef tc_tensor make_fn(tc_tensor a, tc_tensor b, tc_tensor mask);

static tc_tensor chained(tc_tensor a, tc_tensor b, tc_tensor mask) {
  (void)mask;
  return tc_relu(tc_add(tc_mul(a, b), a));
}

static tc_tensor chosen(tc_tensor a, tc_tensor b, tc_tensor mask) {
  return tc_where(mask, tc_sub(a, b), tc_mul(b, b));
}

static tc_tensor compared(tc_tensor a, tc_tensor b, tc_tensor mask) {
  return tc_logical_and(tc_gt(a, b), mask);
}

// Each op rounds once, so every element is the reference's.
static void is_the_references(make_fn *make, const char *name, tc_type a_type, tc_type b_type) {
  double n_differ = NAN;
  tc_scope scope = tc_scope_begin();
  tc_tensor a = tc_randn(TC_SHAPE(N), a_type), b = tc_randn(TC_SHAPE(N), b_type),
            mask = tc_gt(tc_randn(TC_SHAPE(N), TC_F32), 0);
  EXPECT_OK(tc_eval(3, (tc_tensor[]){a, b, mask}));
  tc_tensor here = make(a, b, mask),
            want = tc_to(make(tc_to(a, "tc:ref"), tc_to(b, "tc:ref"), tc_to(mask, "tc:ref")), "tc:cpu");
  EXPECT_OK(tc_eval(1, &here));
  EXPECT_OK(tc_item_f64(tc_sum(tc_cast(tc_ne(here, want), TC_F64), TC_ALL, false), &n_differ));
  EXPECT(n_differ == 0, "%s of types %d and %d: %g of %d differ", name, (int)a_type, (int)b_type, n_differ, (int)N);
  tc_scope_end(scope);
}

int main(void) {
  static const tc_type types[][2] = {
      {TC_F32, TC_F32}, {TC_F64, TC_F64}, {TC_BF16, TC_BF16}, {TC_F32, TC_BF16}, {TC_F64, TC_F32}};
  tc_seed(5);
  for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
    is_the_references(chained, "chain", types[i][0], types[i][1]);
    is_the_references(chosen, "choice", types[i][0], types[i][1]);
    is_the_references(compared, "comparison", types[i][0], types[i][1]);
  }
  return expect_done("numerics-large_operands");
}
