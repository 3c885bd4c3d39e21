// Numbers as operands: first, second, both of tc_where's, and of every C type; their types, values,
// gradients and errors.
#include <math.h>
#include <tc/tc.h>

#include "tests/expect.h"

#define EXPECT_IS(condition) EXPECT(condition, "is not so")

static double value_of(tc_tensor t) {
  double v = NAN;
  EXPECT_OK(tc_item_f64(t, &v));
  return v;
}

static tc_tensor one(double v, tc_type type) {
  return tc_full(TC_SHAPE(1), v, type);
}

static void test_number_first(void) {
  tc_tensor x = one(4, TC_F32), i = one(4, TC_I32);
  EXPECT_IS(value_of(tc_rsub(x, 1)) == -3);
  EXPECT_IS(value_of(tc_rdiv(x, 2)) == 0.5);
  EXPECT_IS(value_of(tc_rpow(x, 3)) == 81);
  EXPECT_IS(value_of(tc_rsub(i, 1)) == -3);
  EXPECT_IS(tc_dtype(tc_rsub(i, 1)) == TC_I32);
  EXPECT_IS(tc_dtype(tc_rsub(i, 1.0)) == TC_F32);
  EXPECT_IS(value_of(tc_rdiv(i, 2)) == 0.5);
  EXPECT_IS(tc_dtype(tc_rdiv(i, 2)) == TC_F32);
  EXPECT_IS(value_of(tc_rsub(x, one(1, TC_F32))) == -3);
  EXPECT_IS(value_of(tc_rdiv(x, one(2, TC_F32))) == 0.5);
  EXPECT_IS(tc_dtype(tc_rsub(one(1, TC_F16), 1)) == TC_F16);
  EXPECT_IS(tc_dtype(tc_rdiv(one(1, TC_BF16), 2.5)) == TC_BF16);
  EXPECT_IS(tc_dtype(tc_rsub(one(1, TC_BOOL), 1)) == TC_I64);
}

// 16777217 has no float, 1e-300 none either: neither may pass through one. A number beyond int64_t
// keeps its value in floating tensors.
static void test_every_c_type(void) {
  tc_tensor x = one(0, TC_F64);
  EXPECT_IS(value_of(tc_add(x, (char)3)) == 3);
  EXPECT_IS(value_of(tc_add(x, (unsigned short)3)) == 3);
  EXPECT_IS(value_of(tc_add(x, true)) == 1);
  EXPECT_IS(value_of(tc_add(x, 16777217)) == 16777217);
  EXPECT_IS(value_of(tc_add(x, -5LL)) == -5);
  EXPECT_IS(value_of(tc_add(x, 7u)) == 7);
  EXPECT_IS(value_of(tc_add(x, 1e-300)) == 1e-300);
  EXPECT_IS(value_of(tc_add(x, 2.5f)) == 2.5);
  EXPECT_IS(value_of(tc_add(x, 2.5L)) == 2.5);
  EXPECT_IS(value_of(tc_add(x, UINT64_C(18446744073709551615))) == 0x1p64);
  const tc_tensor held = x;
  const double number = 2.5;
  EXPECT_IS(value_of(tc_add(held, number)) == 2.5);
  EXPECT_IS(value_of(tc_add(held, held)) == 0);
}

static void test_where(void) {
  tc_tensor yes = one(1, TC_BOOL), no = one(0, TC_BOOL), x = one(4, TC_F32), i = one(4, TC_I32);
  EXPECT_IS(value_of(tc_where(yes, x, 0)) == 4);
  EXPECT_IS(value_of(tc_where(no, x, 0)) == 0);
  EXPECT_IS(value_of(tc_where(yes, -2.5, x)) == -2.5);
  EXPECT_IS(value_of(tc_where(no, 1, -1)) == -1);
  EXPECT_IS(value_of(tc_where(yes, x, i)) == 4);
  EXPECT_IS(tc_dtype(tc_where(yes, x, 0)) == TC_F32);
  EXPECT_IS(tc_dtype(tc_where(yes, i, 0)) == TC_I32);
  EXPECT_IS(tc_dtype(tc_where(yes, i, 0.5)) == TC_F32);
  EXPECT_IS(tc_dtype(tc_where(yes, one(1, TC_F16), 0.5)) == TC_F16);
  EXPECT_IS(tc_dtype(tc_where(yes, 1, no)) == TC_I64);
  EXPECT_IS(tc_dtype(tc_where(yes, 1, 0)) == TC_I64);
  EXPECT_IS(tc_dtype(tc_where(yes, 1, 0.0)) == TC_F32);
  // as a double; the bits are below
  EXPECT_IS(value_of(tc_where(yes, INT64_C(9007199254740993), one(0, TC_I64))) == 9007199254740992.0);
  int64_t whole;
  EXPECT_IS(tc_item_i64(tc_where(yes, INT64_C(9007199254740993), one(0, TC_I64)), &whole) == TC_OK);
  EXPECT_IS(whole == INT64_C(9007199254740993));
  tc_dims d = tc_shape(tc_where(tc_ones(TC_SHAPE(2, 1), TC_BOOL), tc_ones(TC_SHAPE(3), TC_F32), 0));
  EXPECT_IS(d.rank == 2);
  EXPECT_IS(d.dim[0] == 2);
  EXPECT_IS(d.dim[1] == 3);
}

// d(1 - x) = -1, d(2 / x) = -2 / x^2, d(3^x) = 3^x log 3, at x = 2; of tc_where the gradient is the
// condition's.
static void test_gradients(void) {
  tc_tensor x = tc_param(tc_scalar(2)), dx;
  tc_tensor y[] = {tc_rsub(x, 1), tc_rdiv(x, 2), tc_rpow(x, 3), tc_where(tc_gt(x, 0), x, 0),
                   tc_where(tc_gt(x, 0), 0, x)};
  const double want[] = {-1, -0.5, 9.88751059801299, 1, 0};
  for (int k = 0; k < 5; k++) {
    EXPECT_OK(tc_grads_of(y[k], &x, 1, &dx, TC_RETAIN));
    EXPECT_IS(fabs(value_of(dx) - want[k]) < 1e-5);
  }
  EXPECT_IS(tc_grads_of(tc_rdiv(x, 2), &x, 1, &dx, TC_CREATE_GRAPH) == TC_OK);
  EXPECT_IS(tc_grads_of(dx, &x, 1, &dx, 0) == TC_OK);
  EXPECT_IS(fabs(value_of(dx) - 0.5) < 1e-6);  // 4 / x^3
  tc_release(x);
}

static void test_errors(void) {
  tc_tensor flag = one(1, TC_BOOL), x = one(1, TC_F32), u = one(1, TC_U8);
  EXPECT_FAILS(tc_rsub(flag, flag), TC_ERR_DTYPE, "rsub: bool has no sub");
  EXPECT_FAILS(tc_rsub(tc_zeros(TC_SHAPE(2), TC_F32), tc_zeros(TC_SHAPE(3), TC_F32)), TC_ERR_SHAPE,
               "rsub: shapes [3] and [2] do not broadcast");
  EXPECT_FAILS(tc_where(x, x, 0), TC_ERR_DTYPE, "where: the condition is f32; bool was expected");
  EXPECT_FAILS(tc_where(x, 1, 0), TC_ERR_DTYPE, "where: the condition is f32; bool was expected");
  EXPECT_FAILS(tc_where(flag, u, 300), TC_ERR_ARG, "where: 300 is not a number of u8");
  EXPECT_FAILS(tc_rsub(u, 300), TC_ERR_ARG, "rsub: 300 is not a number of u8");
  EXPECT_FAILS(tc_where(flag, 300, u), TC_ERR_ARG, "where: 300 is not a number of u8");
  tc_tensor poison = tc_matmul(x, tc_zeros(TC_SHAPE(2, 2), TC_F32));
  tc_clear_error();
  EXPECT(!tc_is_valid(tc_where(flag, poison, 0)) && tc_last_error()->status == TC_ERR_SHAPE,
         "an op on poison tells what it was poisoned with");
  EXPECT(!tc_is_valid(tc_rdiv(poison, 2)), "poison");
}

int main(void) {
  test_number_first();
  test_every_c_type();
  test_where();
  test_gradients();
  test_errors();
  return expect_done("api-numbers");
}
