// A number of the caller's that an integer tensor cannot hold is refused by every op, with the
// number, the type and what that holds; its nearest neighbours are taken. Comparisons are right
// with any number, and bounds that lie beyond the type bind nothing.
#include <math.h>

#include "tests/expect.h"

typedef struct range {
  tc_type type;
  double low, high;
} range;

static const range ranges[] = {
    {TC_U8, 0, 255},           {TC_I8, -128, 127}, {TC_I16, -32768, 32767}, {TC_I32, -2147483648.0, 2147483647},
    {TC_I64, -0x1p63, 0x1p63},
};

static tc_tensor of(double v, tc_type type) {
  return tc_cast(tc_full(TC_SHAPE(2), v, TC_F64), type);
}

typedef tc_tensor maker(double v, const range *r);

static tc_tensor full(double v, const range *r) {
  return tc_full(TC_SHAPE(2), v, r->type);
}
static tc_tensor full_of_none(double v, const range *r) {
  return tc_full(TC_SHAPE(0), v, r->type);
}
static tc_tensor full_like(double v, const range *r) {
  return tc_full_like(of(0, r->type), v);
}
static tc_tensor pad(double v, const range *r) {
  return tc_slice(tc_pad(of(0, r->type), TC_SHAPE(2), TC_SHAPE(0), v), 0, 0, 2, 1);
}
static tc_tensor masked_fill(double v, const range *r) {
  return tc_masked_fill(of(0, r->type), tc_ones(TC_SHAPE(2), TC_BOOL), v);
}
static tc_tensor arange_from(double v, const range *r) {
  double step = fmax(1, fabs(v));
  return tc_arange(v, v + step, step, r->type);
}
// A fraction at the end makes it another road.
static tc_tensor arange_to(double v, const range *r) {
  if (!(fabs(v) < 0x1p50)) return arange_from(v, r);
  double by = v > 0 ? 1.5 : -1.5;
  tc_tensor x = tc_arange(v - by, v + by / 4, by, r->type);
  return tc_is_valid(x) ? tc_slice(x, 0, 1, 2, 1) : x;
}
static tc_tensor linspace_from(double v, const range *r) {
  return tc_slice(tc_linspace(v, 1, 3, r->type), 0, 0, 1, 1);
}
static tc_tensor linspace_to(double v, const range *r) {
  return tc_slice(tc_linspace(1, v, 3, r->type), 0, 2, 3, 1);
}

static void check_makers(void) {
  static const struct {
    const char *name;
    maker *make;
  } makers[] = {{"full", full},        {"full", full_of_none},       {"full_like", full_like},
                {"pad", pad},          {"masked_fill", masked_fill}, {"arange", arange_from},
                {"arange", arange_to}, {"linspace", linspace_from},  {"linspace", linspace_to}};
  for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
    for (size_t k = 0; k < sizeof ranges / sizeof *ranges; k++) {
      const range *r = &ranges[k];
      const bool is_wide = r->type == TC_I64;
      const double good[] = {r->low, is_wide ? 0x1p62 : r->high},
                   bad[] = {is_wide ? -0x1.1p63 : r->low - 1, is_wide ? r->high : r->high + 1, 1e300, NAN};
      const char *name = makers[i].name, *type = tc_type_name(r->type);
      tc_scope s = tc_scope_begin();
      for (int j = 0; j < 2; j++) {
        double v[2] = {NAN, NAN};
        tc_tensor x = makers[i].make(good[j], r);
        int64_t n = tc_numel(x);
        EXPECT_OK(tc_to_host(tc_cast(x, TC_F64), v, (size_t)n * sizeof v[0]));
        EXPECT(tc_dtype(x) == r->type && (n == 0 || v[0] == good[j]), "%s %s %g: %g", name, type, good[j], v[0]);
      }
      for (int j = 0; j < 4; j++) {
        tc_clear_error();
        EXPECT(!tc_is_valid(makers[i].make(bad[j], r)), "%s %s %g", name, type, bad[j]);
        const tc_error *e = tc_last_error();
        EXPECT(e->status == TC_ERR_ARG && strstr(e->message, name), "%s %s %g", name, type, bad[j]);
        if (strcmp(name, "arange") != 0 || isfinite(bad[j]))
          EXPECT(strstr(e->message, type), "%s %s %g", name, type, bad[j]);
        tc_clear_error();
      }
      tc_scope_end(s);
    }
}

static void check_operands(void) {
  tc_tensor u = of(200, TC_U8), i = of(-5, TC_I8);
#define REFUSED(call, words) EXPECT_FAILS(call, TC_ERR_ARG, words)
  REFUSED(tc_add(u, 300), "add: 300 is not a number of u8, which holds 0 to 255");
  REFUSED(tc_add(u, -1), "add: -1 is not a number of u8");
  REFUSED(tc_sub(u, 256), "sub: 256 is not a number of u8");
  REFUSED(tc_mul(i, 128), "mul: 128 is not a number of i8, which holds -128 to 127");
  REFUSED(tc_pow(i, -200), "pow: -200 is not a number of i8");
  REFUSED(tc_maximum(i, 1000), "maximum: 1000 is not a number of i8");
  REFUSED(tc_minimum(u, -2), "minimum: -2 is not a number of u8");
  REFUSED(tc_fmod(i, 200), "fmod: 200 is not a number of i8");
  REFUSED(tc_remainder(i, 200), "remainder: 200 is not a number of i8");
  REFUSED(tc_floor_divide(i, 200), "floor_divide: 200 is not a number of i8");
  REFUSED(tc_add(tc_cast(u, TC_I32), INT64_C(1) << 31), "add: 2147483648 is not a number of i32");
  REFUSED(tc_full_int(TC_SHAPE(2), 300, TC_U8), "full_int: 300 is not a number of u8");
  REFUSED(tc_full_int(TC_SHAPE(2), -1, TC_U8), "full_int: -1 is not a number of u8");
  REFUSED(tc_randint(0, 257, TC_SHAPE(2), TC_U8), "randint: 256 is not a number of u8");
  REFUSED(tc_randint(-1, 5, TC_SHAPE(2), TC_U8), "randint: -1 is not a number of u8");
  REFUSED(tc_randint(0, INT64_MAX, TC_SHAPE(2), TC_I64), "more than 2^32");
  REFUSED(tc_randint(5, 5, TC_SHAPE(2), TC_I64), "low must be less than high");
  // What the type holds is added, and wraps as the type does; a fraction makes a float of it.
  int64_t v[2] = {0, 0};
  EXPECT_OK(tc_to_host(tc_cast(tc_add(u, 100), TC_I64), v, sizeof v));
  EXPECT(v[0] == 44, "%lld", (long long)v[0]);
  EXPECT(tc_dtype(tc_add(u, 300.0)) == TC_F32 && tc_dtype(tc_div(u, 300)) == TC_F32, "type");
  EXPECT(tc_dtype(tc_add(tc_ones(TC_SHAPE(1), TC_BOOL), 300)) == TC_I64, "type");
  EXPECT_OK(tc_to_host(tc_full_int(TC_SHAPE(2), INT64_MAX, TC_I64), v, sizeof v));
  EXPECT(v[0] == INT64_MAX, "%lld", (long long)v[0]);
  tc_tensor same = tc_add(tc_zeros(TC_SHAPE(2), TC_I64), INT64_MAX);
  EXPECT_OK(tc_to_host(same, v, sizeof v));
  EXPECT(v[0] == INT64_MAX, "%lld", (long long)v[0]);
}

// Unsigned numbers that int64_t cannot hold.
static void check_unsigned_operands(void) {
  const uint64_t beyond[] = {UINT64_C(1) << 63, (UINT64_C(1) << 63) + 1, UINT64_MAX};
  const tc_type types[] = {TC_BOOL, TC_U8, TC_I8, TC_I16, TC_I32, TC_I64};
  tc_tensor yes = tc_ones(TC_SHAPE(2), TC_BOOL);
  for (size_t k = 0; k < sizeof types / sizeof *types; k++)
    for (size_t j = 0; j < sizeof beyond / sizeof *beyond; j++) {
      const uint64_t v = beyond[j];
      tc_tensor x = tc_ones(TC_SHAPE(2), types[k]);
      char words[64];
      snprintf(words, sizeof words, "is not a number of %s, which holds",
               tc_type_name(types[k] == TC_BOOL ? TC_I64 : types[k]));
      REFUSED(tc_add(x, v), words);
      REFUSED(tc_rsub(x, v), words);
      REFUSED(tc_mul(x, (unsigned long long)v), words);
      REFUSED(tc_maximum(x, (size_t)v), words);
      REFUSED(tc_floor_divide(x, v), words);
      REFUSED(tc_where(yes, v, x), words);
      REFUSED(tc_where(yes, x, v), words);
      REFUSED(tc_where(yes, v, 1), "is not a number of i64");
      REFUSED(tc_where(yes, 1, v), "is not a number of i64");
      // A floating result has them.
      double f[2] = {0, 0};
      EXPECT_OK(tc_to_host(tc_cast(tc_div(x, v), TC_F64), f, sizeof f));
      EXPECT(f[0] > 0 && f[0] == (double)(1 / (float)v), "%g", f[0]);
    }
  // The greatest of int64_t, near which doubles are 1024 apart, are taken.
  for (uint64_t v = INT64_MAX - 600; v <= INT64_MAX; v += 100) {
    int64_t got[2] = {0, 0};
    EXPECT_OK(tc_to_host(tc_add(tc_zeros(TC_SHAPE(2), TC_I64), v), got, sizeof got));
    EXPECT(got[0] == (int64_t)v, "%lld", (long long)got[0]);
  }
}

static void expect_all(const char *what, tc_tensor t, bool right) {
  bool v[2] = {!right, !right};
  EXPECT(tc_dtype(t) == TC_BOOL, "%s", what);
  EXPECT_OK(tc_to_host(t, v, sizeof v));
  EXPECT(v[0] == right && v[1] == right, "%s", what);
}

static void check_comparisons(void) {
  for (size_t k = 0; k < sizeof ranges / sizeof *ranges - 1; k++) {
    const range *r = &ranges[k];
    for (int high = 0; high < 2; high++) {
      tc_tensor x = of(high ? r->low : r->high, r->type);
      int64_t beyond = (int64_t)(high ? r->high + 1 : r->low - 1);
      expect_all("lt", tc_lt(x, beyond), high), expect_all("le", tc_le(x, beyond), high);
      expect_all("gt", tc_gt(x, beyond), !high), expect_all("ge", tc_ge(x, beyond), !high);
      expect_all("eq", tc_eq(x, beyond), false), expect_all("ne", tc_ne(x, beyond), true);
    }
    tc_tensor x = of(r->high, r->type);
    expect_all("clamp", tc_eq(tc_clamp(x, r->low - 1e6, r->high + 1e6), x), true);
    expect_all("clamp", tc_eq(tc_clamp(x, -INFINITY, INFINITY), x), true);
  }
  const tc_type types[] = {TC_BOOL, TC_U8, TC_I8, TC_I16, TC_I32, TC_I64};
  const uint64_t beyond[] = {UINT64_C(1) << 63, UINT64_MAX};
  for (size_t k = 0; k < sizeof types / sizeof *types; k++)
    for (int64_t at = types[k] == TC_BOOL || types[k] == TC_U8 ? 0 : -1; at <= 1; at++)
      for (int j = 0; j < 2; j++) {
        tc_tensor x = tc_full_int(TC_SHAPE(2), at, types[k]);
        uint64_t v = beyond[j];
        expect_all("lt", tc_lt(x, v), true), expect_all("le", tc_le(x, v), true);
        expect_all("gt", tc_gt(x, v), false), expect_all("ge", tc_ge(x, v), false);
        expect_all("eq", tc_eq(x, v), false), expect_all("ne", tc_ne(x, v), true);
      }
  tc_tensor most = tc_full_int(TC_SHAPE(2), INT64_MAX, TC_I64);
  expect_all("lt", tc_lt(most, UINT64_C(1) << 63), true), expect_all("eq", tc_eq(most, UINT64_C(1) << 63), false);
  expect_all("eq", tc_eq(most, (uint64_t)INT64_MAX), true), expect_all("lt", tc_lt(most, INT64_MAX), false);
  expect_all("lt", tc_lt(tc_ones(TC_SHAPE(2), TC_F32), UINT64_MAX), true);
  EXPECT_FAILS(tc_clamp(of(1, TC_I32), NAN, 1), TC_ERR_ARG, "clamp: bounds are nan and 1");
}

int main(void) {
  check_makers();
  check_operands();
  check_unsigned_operands();
  check_comparisons();
  // Floats and bools become what is nearest.
  EXPECT_FAILS(tc_arange(0, 2, 1, TC_BOOL), TC_ERR_DTYPE, "bool has no ranges");
  EXPECT_FAILS(tc_arange(0, 2, 0.5, TC_BOOL), TC_ERR_DTYPE, "bool has no ranges");
  EXPECT_FAILS(tc_linspace(0, 2, 5, TC_BOOL), TC_ERR_DTYPE, "bool has no ranges");
  expect_all("f16", tc_isinf(tc_full(TC_SHAPE(2), 1e30, TC_F16)), true);
  expect_all("bool", tc_full(TC_SHAPE(2), -3, TC_BOOL), true);
  // No numbers, so none to hold.
  EXPECT(tc_numel(tc_arange(300, 300, 1, TC_U8)) == 0 && tc_numel(tc_linspace(300, 400, 0, TC_U8)) == 0, "empty");
  return expect_done("errors-number_bounds");
}
