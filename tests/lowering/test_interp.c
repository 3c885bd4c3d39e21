// Every op on every type, on edge values, against scalar C written another way; then loops, ifs,
// variables, masks, tiles and scratch reuse.
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "kernels/ref/ref.h"
#include "lowering/codegen/interp/interp.h"
#include "lowering/kir/libm.h"
#include "lowering/kir/lookup_tables.h"
#include "lowering/kir/verify.h"
#include "runtime/team.h"
#include "tests/amx/model.h"
#include "tests/lowering/kir_build.h"

enum { N = TC_KIR_LANES };  // elements of each operand

static const size_t bytes_of[] = {
#define TC_TYPE(NAME, name, bytes, kind, npy) bytes,
#include <tc/dtypes.def>
#undef TC_TYPE
};

// Runs a kernel, frees it; scratch is filled with garbage first.
static void run(tc_kir *n, void *const *buf, const uint64_t *num, int64_t begin, int64_t end) {
  char text[200];
  cr_assert_eq(tc_kir_verify(n, text, sizeof text), TC_OK, "%s", text);
  tc_interp *p;
  cr_assert_eq(tc_interp_create(n, &p), TC_OK);
  tc_kir_destroy(n);
  const size_t bytes = (tc_interp_scratch(p) + 63) / 64 * 64;
  tc_worker worker = {.scratch = aligned_alloc(64, bytes), .math = tc_kir_math_table()};
  memset(worker.scratch, 0xff, bytes);
  tc_interp_run(p, buf, num, begin, end, &worker);
  free(worker.scratch);
  tc_interp_destroy(p);
}

// out[i] = op(in[0][i], in[1][i], in[2][i]) for N elements, `lanes` at a time.
static void run_op(tc_kir_op op, int64_t imm, int n_in, const tc_type *in_type, tc_type out_type, int lanes,
                   void *const *buf) {
  tc_kir n = {.n_inst = 0};
  uint32_t v[3] = {TC_NONE, TC_NONE, TC_NONE};
  for (int k = 0; k < n_in; k++) put_buffer(&n, in_type[k]);
  put_buffer(&n, out_type);
  const uint32_t b = OP0(&n, BEGIN, TC_I64, 1, 0), e = OP0(&n, FINISH, TC_I64, 1, 0);
  const uint32_t i = OP2(&n, LOOP, TC_I64, 1, lanes, b, e);
  for (int k = 0; k < n_in; k++) v[k] = OP1(&n, LOAD, in_type[k], lanes, k, i);
  const uint32_t r = put(&n, op, out_type, lanes, imm, v[0], v[1], v[2]);
  OP2(&n, STORE, out_type, lanes, n_in, i, r);
  OP0(&n, ENDLOOP, TC_BOOL, 1, 0);
  run(&n, buf, NULL, 0, N);
}

static void put_int(tc_type t, void *p, int i, int64_t v) {
  memcpy((char *)p + (size_t)i * bytes_of[t], &v, bytes_of[t]);
}
static int64_t get_int(tc_type t, const void *p, int i) {
  int64_t v = 0;
  memcpy(&v, (const char *)p + (size_t)i * bytes_of[t], bytes_of[t]);
  const int bits = 8 * (int)bytes_of[t];
  if (t != TC_U8 && t != TC_BOOL && bits < 64 && (v >> (bits - 1)) & 1) v -= INT64_C(1) << bits;
  return v;
}
static int64_t wrap(tc_type t, __int128 v) {
  int64_t p[1] = {0};
  put_int(t, p, 0, (int64_t)(uint64_t)v);
  return get_int(t, p, 0);
}

static int64_t edge_int(tc_type t, unsigned i) {
  static const int64_t edge[] = {
      0,         1,         -1,        2,        3,         7,         8,
      15,        16,        31,        32,       63,        64,        100,
      -2,        -8,        INT8_MIN,  INT8_MAX, INT16_MIN, INT16_MAX, INT32_MIN,
      INT32_MAX, INT64_MIN, INT64_MAX, 255,      1000003,   -77777,    INT64_C(0x123456789abcdef)};
  const int64_t v = edge[i % (sizeof edge / sizeof edge[0])];
  return t == TC_BOOL ? v & 1 : wrap(t, v);
}
static double edge_float(unsigned i) {
  static const double edge[] = {0,
                                -0.0,
                                1,
                                -1,
                                0.5,
                                -0.5,
                                1.5,
                                2.5,
                                -2.5,
                                NAN,
                                INFINITY,
                                -INFINITY,
                                1e-45,
                                -1e-40,
                                3.4028234e38,
                                1e300,
                                65504,
                                65520,
                                65519.99999,
                                6e-8,
                                127,
                                128,
                                -128.5,
                                -129,
                                255,
                                256,
                                32767.5,
                                2147483647.0,
                                2147483648.0,
                                -2147483649.0,
                                9.3e18,
                                -9.3e18,
                                3.14159265358979,
                                -2.718281828,
                                1.0000001,
                                0.99999994,
                                5e-324,
                                1e-8};
  return edge[i % (sizeof edge / sizeof edge[0])];
}

static int64_t want_int(tc_kir_op op, tc_type t, int64_t a, int64_t b) {
  const int bits = 8 * (int)bytes_of[t];
  const uint64_t low = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
  const bool in = b >= 0 && b < bits;
  switch (op) {
    case TC_IR_ADD: return wrap(t, (__int128)a + b);
    case TC_IR_SUB: return wrap(t, (__int128)a - b);
    case TC_IR_MUL: return wrap(t, (__int128)a * b);
    case TC_IR_DIV: return b == 0 ? 0 : wrap(t, (__int128)a / b);
    case TC_IR_REM: return b == 0 ? 0 : wrap(t, (__int128)a % b);
    case TC_IR_NEG: return wrap(t, -(__int128)a);
    case TC_IR_ABS: return wrap(t, a < 0 ? -(__int128)a : a);
    case TC_IR_MIN: return a < b ? a : b;
    case TC_IR_MAX: return a > b ? a : b;
    case TC_IR_AND: return a & b;
    case TC_IR_OR: return a | b;
    case TC_IR_XOR: return a ^ b;
    case TC_IR_NOT: return t == TC_BOOL ? !a : wrap(t, ~a);
    case TC_IR_SHL: return in ? wrap(t, (__int128)((uint64_t)a << b)) : 0;
    case TC_IR_SHR: return in ? a >> b : a < 0 ? -1 : 0;
    case TC_IR_USHR: return in ? wrap(t, (__int128)(((uint64_t)a & low) >> b)) : 0;
    case TC_IR_MULHU: return wrap(t, (__int128)(((uint64_t)(uint32_t)a * (uint64_t)(uint32_t)b) >> 32));
    default: cr_assert_fail("no expectation"); return 0;
  }
}

static bool want_test(tc_kir_op op, int less, int equal, int greater) {
  switch (op) {
    case TC_IR_EQ: return equal;
    case TC_IR_NE: return !equal;
    case TC_IR_LT: return less;
    case TC_IR_LE: return less || equal;
    case TC_IR_GT: return greater;
    default: return greater || equal;
  }
}

static const tc_type int_types[] = {TC_U8, TC_I8, TC_I16, TC_I32, TC_I64, TC_BOOL};
static const int lanes_tried[] = {1, 2, 8, N};

// Pairs of edges: operand 1 turns once while operand 0 stays.
#define ALL_PAIRS(i, round) (unsigned)((i) + (round) * 7)

Test(interp, integer_ops_wrap_and_never_trap) {
  static const tc_kir_op of_integers[] = {TC_IR_ADD, TC_IR_SUB, TC_IR_MUL, TC_IR_DIV,  TC_IR_REM,  TC_IR_NEG,
                                          TC_IR_ABS, TC_IR_MIN, TC_IR_MAX, TC_IR_AND,  TC_IR_OR,   TC_IR_XOR,
                                          TC_IR_NOT, TC_IR_SHL, TC_IR_SHR, TC_IR_USHR, TC_IR_MULHU};
  for (size_t o = 0; o < sizeof of_integers / sizeof of_integers[0]; o++) {
    const tc_kir_op op = of_integers[o];
    const bool of_bits = op == TC_IR_AND || op == TC_IR_OR || op == TC_IR_XOR || op == TC_IR_NOT;
    for (int k = 0; k < 6; k++) {
      const tc_type t = int_types[k];
      if (t == TC_BOOL && !of_bits) continue;
      if (op == TC_IR_MULHU && t != TC_I32) continue;
      const int n_in = op == TC_IR_NEG || op == TC_IR_ABS || op == TC_IR_NOT ? 1 : 2;
      for (int l = 0; l < 4; l++)
        for (int round = 0; round < 28; round++) {
          int64_t a[N], b[N], r[N];
          for (int i = 0; i < N; i++)
            put_int(t, a, i, edge_int(t, (unsigned)i)), put_int(t, b, i, edge_int(t, (unsigned)(i + round)));
          void *buf[] = {a, n_in == 2 ? b : r, r};
          run_op(op, 0, n_in, (tc_type[]){t, t}, t, lanes_tried[l], buf);
          for (int i = 0; i < N; i++) {
            const int64_t x = get_int(t, a, i), y = get_int(t, b, i), want = want_int(op, t, x, y);
            cr_assert_eq(get_int(t, r, i), want, "%s type %d: %ld, %ld gives %ld, not %ld", tc_kir_op_name(op), (int)t,
                         (long)x, (long)y, (long)get_int(t, r, i), (long)want);
          }
        }
    }
  }
}

Test(interp, comparisons_and_select_on_every_type) {
  static const tc_kir_op comparisons[] = {TC_IR_EQ, TC_IR_NE, TC_IR_LT, TC_IR_LE, TC_IR_GT, TC_IR_GE};
  for (size_t o = 0; o < 6; o++) {
    const tc_kir_op op = comparisons[o];
    for (int l = 0; l < 4; l++)
      for (int round = 0; round < 38; round++) {
        for (int k = 0; k < 6; k++) {
          const tc_type t = int_types[k];
          int64_t a[N], b[N], s[N];
          uint8_t r[N];
          for (int i = 0; i < N; i++)
            put_int(t, a, i, edge_int(t, (unsigned)i)), put_int(t, b, i, edge_int(t, (unsigned)(i + round)));
          run_op(op, 0, 2, (tc_type[]){t, t}, TC_BOOL, lanes_tried[l], (void *[]){a, b, r});
          run_op(TC_IR_SELECT, 0, 3, (tc_type[]){TC_BOOL, t, t}, t, lanes_tried[l], (void *[]){r, a, b, s});
          for (int i = 0; i < N; i++) {
            const int64_t x = get_int(t, a, i), y = get_int(t, b, i);
            cr_assert_eq(r[i], want_test(op, x < y, x == y, x > y));
            cr_assert_eq(get_int(t, s, i), r[i] ? x : y);
          }
        }
        double a[N], b[N], s[N];
        float fa[N], fb[N];
        uint8_t r[N], fr[N];
        for (unsigned i = 0; i < N; i++)
          fa[i] = (float)(a[i] = edge_float(i)), fb[i] = (float)(b[i] = edge_float(i + (unsigned)round));
        run_op(op, 0, 2, (tc_type[]){TC_F64, TC_F64}, TC_BOOL, lanes_tried[l], (void *[]){a, b, r});
        run_op(op, 0, 2, (tc_type[]){TC_F32, TC_F32}, TC_BOOL, lanes_tried[l], (void *[]){fa, fb, fr});
        run_op(TC_IR_SELECT, 0, 3, (tc_type[]){TC_BOOL, TC_F64, TC_F64}, TC_F64, lanes_tried[l],
               (void *[]){r, a, b, s});
        for (int i = 0; i < N; i++) {
          cr_assert_eq(r[i], want_test(op, a[i] < b[i], a[i] == b[i], a[i] > b[i]));
          cr_assert_eq(fr[i], want_test(op, fa[i] < fb[i], fa[i] == fb[i], fa[i] > fb[i]));
          cr_assert_eq(memcmp(&s[i], r[i] ? &a[i] : &b[i], 8), 0);
        }
      }
  }
}

// Same bits, or both NaN.
#define SAME(x, y) (((x) != (x) && (y) != (y)) || ((x) == (y) && !signbit(x) == !signbit(y)))

#define WANT_FLOAT(T, f) \
  static T want_##T(tc_kir_op op, T a, T b, T c) { \
    switch (op) { \
      case TC_IR_ADD: return a + b; \
      case TC_IR_SUB: return a - b; \
      case TC_IR_MUL: return a * b; \
      case TC_IR_DIV: return a / b; \
      case TC_IR_FMA: return fma##f(a, b, c); \
      case TC_IR_NEG: return -a; \
      case TC_IR_ABS: return fabs##f(a); \
      case TC_IR_SQRT: return sqrt##f(a); \
      case TC_IR_FLOOR: return floor##f(a); \
      case TC_IR_CEIL: return ceil##f(a); \
      case TC_IR_TRUNC: return trunc##f(a); \
      case TC_IR_RINT: return nearbyint##f(a); \
      case TC_IR_MIN: return isnan(a) || a < b ? a : b; \
      case TC_IR_MAX: return isnan(a) || a > b ? a : b; \
      default: return 0; \
    } \
  }
WANT_FLOAT(float, f)
WANT_FLOAT(double, )

#define CHECK_FLOAT(T, type) \
  do { \
    T a[N], b[N], c[N], r[N]; \
    for (unsigned i = 0; i < N; i++) \
      a[i] = (T)edge_float(i), b[i] = (T)edge_float(i + (unsigned)round), \
      c[i] = (T)edge_float(i + 3 * (unsigned)round); \
    run_op(op, 0, n_in, (tc_type[]){type, type, type}, type, lanes_tried[l], \
           (void *[]){a, n_in > 1 ? b : r, n_in > 2 ? c : r, r}); \
    for (int i = 0; i < N; i++) { \
      const T want = want_##T(op, a[i], b[i], c[i]); \
      cr_assert(SAME(r[i], want), "%s: %a, %a, %a gives %a, not %a", tc_kir_op_name(op), (double)a[i], (double)b[i], \
                (double)c[i], (double)r[i], (double)want); \
    } \
  } while (0)

Test(interp, float_ops_are_ieee) {
  static const tc_kir_op unary[] = {TC_IR_NEG, TC_IR_ABS, TC_IR_SQRT, TC_IR_FLOOR, TC_IR_CEIL, TC_IR_TRUNC, TC_IR_RINT};
  static const tc_kir_op binary[] = {TC_IR_ADD, TC_IR_SUB, TC_IR_MUL, TC_IR_DIV, TC_IR_MIN, TC_IR_MAX};
  for (int k = 0; k < 14; k++) {
    const tc_kir_op op = k < 7 ? unary[k] : k < 13 ? binary[k - 7] : TC_IR_FMA;
    const int n_in = k < 7 ? 1 : k < 13 ? 2 : 3;
    for (int l = 0; l < 4; l++)
      for (int round = 0; round < 38; round++) {
        CHECK_FLOAT(float, TC_F32);
        CHECK_FLOAT(double, TC_F64);
      }
  }
}

// Against the definition of Intel's VDPBF16PS, of anything, and of what is about as small as the
// smallest floats.
Test(interp, dot_is_of_two_pairs) {
  uint32_t state = 1;
  for (int l = 0; l < 4; l++)
    for (int round = 0; round < 200; round++) {
      int32_t a[N], b[N];
      float c[N], r[N];
      for (int i = 0; i < N; i++) {
        uint32_t word[3];
        for (int k = 0; k < 3; k++) state = state * 1664525u + 1013904223u, word[k] = state ^ state >> 13;
        if (round % 2)
          word[0] = (word[0] & 0x807F807F) | 0x1F801F80, word[1] = (word[1] & 0x81FF81FF) | 0x1F801F80,
          word[2] &= 0x80FFFFFF;
        memcpy(&a[i], &word[0], 4), memcpy(&b[i], &word[1], 4), memcpy(&c[i], &word[2], 4);
      }
      run_op(TC_IR_DOT, 0, 3, (tc_type[]){TC_I32, TC_I32, TC_F32}, TC_F32, lanes_tried[l], (void *[]){a, b, c, r});
      for (int i = 0; i < N; i++) {
        const uint32_t x = (uint32_t)a[i], y = (uint32_t)b[i];
        const float want = model_float(model_vdpbf16ps(model_bits(c[i]), x, y));
        cr_assert(SAME(r[i], want), "%x . %x + %a gives %a, not %a", x, y, (double)c[i], (double)r[i], (double)want);
      }
    }
}

// Against the definition, of every pair of signs, with sums that wrap and the extreme bytes.
Test(interp, dot4_is_of_four_bytes_and_wraps) {
  uint32_t state = 7;
  for (int l = 0; l < 4; l++)
    for (int round = 0; round < 200; round++) {
      int32_t a[N], b[N], c[N], r[N];
      for (int i = 0; i < N; i++) {
        uint32_t word[3];
        for (int k = 0; k < 3; k++) state = state * 1664525u + 1013904223u, word[k] = state ^ state >> 13;
        if (round % 3 == 1) word[0] = 0x80808080, word[1] = i % 2 ? 0x7F7F7F7F : 0x80808080;
        if (round % 3 == 2) word[0] |= 0xF0F0F0F0, word[1] &= 0x8F8F8F8F, word[2] = i % 2 ? 0x7FFFFFFF : 0x80000000;
        memcpy(&a[i], &word[0], 4), memcpy(&b[i], &word[1], 4), memcpy(&c[i], &word[2], 4);
      }
      run_op(TC_IR_DOT4, round % 4, 3, (tc_type[]){TC_I32, TC_I32, TC_I32}, TC_I32, lanes_tried[l],
             (void *[]){a, b, c, r});
      for (int i = 0; i < N; i++) {
        int64_t want = c[i];
        for (int k = 0; k < 4; k++) {
          uint8_t x = (uint8_t)((uint32_t)a[i] >> 8 * k), y = (uint8_t)((uint32_t)b[i] >> 8 * k);
          want += (round & 1 ? (int8_t)x : x) * (round & 2 ? (int8_t)y : y);
        }
        cr_assert_eq(r[i], (int32_t)want, "%x . %x + %d gives %d, not %d", (unsigned)a[i], (unsigned)b[i], c[i], r[i],
                     (int32_t)want);
      }
    }
}

// By the low bits of any index, whether vectors are whole or not.
Test(interp, lookup_takes_an_entry_by_low_bits) {
  for (int l = 0; l < 4; l++)
    for (int row = 0; row < TC_KIR_TABLE_ROWS; row++) {
      int32_t a[N];
      float r[N];
      for (int i = 0; i < N; i++) a[i] = (int32_t)((uint32_t)edge_int(TC_I32, (unsigned)(i + row)) + (uint32_t)i);
      run_op(TC_IR_LOOKUP, row, 1, (tc_type[]){TC_I32}, TC_F32, lanes_tried[l], (void *[]){a, r});
      for (int i = 0; i < N; i++) {
        const float want = tc_kir_table[row][a[i] & 15];
        cr_assert(memcmp(&r[i], &want, sizeof want) == 0, "entry %d of table %d is %a, not %a", a[i], row, (double)r[i],
                  (double)want);
      }
    }
}

Test(interp, ldexp_rounds_once) {
  for (int l = 0; l < 4; l++)
    for (int round = -189; round <= 128; round++) {
      float a[N], b[N], r[N];
      for (int i = 0; i < N; i++) a[i] = (float)(i % 2 ? -1 : 1) * (0.5f + 1.5f * (float)i / N), b[i] = (float)round;
      a[3] = NAN;
      run_op(TC_IR_LDEXP, 0, 2, (tc_type[]){TC_F32, TC_F32}, TC_F32, lanes_tried[l], (void *[]){a, b, r});
      for (int i = 0; i < N; i++) {
        const float want = ldexpf(a[i], round);
        cr_assert(SAME(r[i], want), "%a * 2^%d gives %a, not %a", (double)a[i], round, (double)r[i], (double)want);
      }
    }
}

// The value of an element as the widest exact type of its kind.
typedef struct wide {
  bool is_int;
  int64_t i;
  double d;
} wide;

static wide take_wide(tc_type t, const void *p, int i) {
  const uint16_t h = ((const uint16_t *)p)[i];
  switch (t) {
    case TC_F64: return (wide){.d = ((const double *)p)[i]};
    case TC_F32: return (wide){.d = (double)((const float *)p)[i]};
    case TC_F16: return (wide){.d = (double)tc_f16_to_f32(h)};
    case TC_BF16: return (wide){.d = (double)tc_bf16_to_f32(h)};
    default: return (wide){.is_int = true, .i = get_int(t, p, i)};
  }
}

// Nearest of the 65536 values of a 16-bit type, ties to even, by search: exact, and nothing like
// what is tested.
static uint16_t nearest_half(float (*value)(uint16_t), uint16_t infinity, long double v) {
  const uint16_t sign = signbit(v) ? 0x8000 : 0;
  const long double m = fabsl(v);
  uint16_t low = 0, high = infinity;  // value(low) <= m
  if (m >= INFINITY) return (uint16_t)(sign | infinity);
  while (high - low > 1) {
    const uint16_t mid = (uint16_t)((low + high) / 2);
    if ((long double)value(mid) <= m)
      low = mid;
    else
      high = mid;
  }
  const long double l = (long double)value(low);
  const long double next =
      high == infinity ? 2 * l - (long double)value((uint16_t)(low - 1)) : (long double)value(high);
  const bool up = m - l > next - m || (m - l == next - m && (low & 1));
  return (uint16_t)(sign | (up ? high : low));
}

static bool is_wanted_cast(tc_type to, const void *r, int i, wide v) {
  const long double x = v.is_int ? (long double)v.i : (long double)v.d;
  const uint16_t h = ((const uint16_t *)r)[i];
  switch (to) {
    case TC_F64: return SAME(((const double *)r)[i], (double)x);
    case TC_F32: return SAME(((const float *)r)[i], (float)x);
    case TC_F16: return isnan(x) ? isnan(tc_f16_to_f32(h)) : h == nearest_half(tc_f16_to_f32, 0x7c00, x);
    case TC_BF16: return isnan(x) ? isnan(tc_bf16_to_f32(h)) : h == nearest_half(tc_bf16_to_f32, 0x7f80, x);
    case TC_BOOL: return get_int(to, r, i) == (x != 0);
    default: break;
  }
  if (v.is_int) return get_int(to, r, i) == wrap(to, v.i);
  const int bits = 8 * (int)bytes_of[to];
  const long double high = to == TC_U8 ? 255 : ldexpl(1, bits - 1) - 1, low = to == TC_U8 ? 0 : -ldexpl(1, bits - 1);
  return get_int(to, r, i) == (int64_t)(isnan(x) ? 0 : x >= high ? high : x <= low ? low : truncl(x));
}

static void put_any(tc_type t, void *p, int i, unsigned seed) {
  const double d = edge_float(seed);
  switch (t) {
    case TC_F64: ((double *)p)[i] = d; break;
    case TC_F32: ((float *)p)[i] = (float)d; break;
    case TC_F16: ((uint16_t *)p)[i] = tc_f32_to_f16((float)d); break;
    case TC_BF16: ((uint16_t *)p)[i] = tc_f32_to_bf16((float)d); break;
    default: put_int(t, p, i, edge_int(t, seed)); break;
  }
}

Test(interp, casts_between_all_pairs_round_once_and_saturate) {
  for (tc_type to = 0; to < TC_N_TYPES; to++)
    for (tc_type from = 0; from < TC_N_TYPES; from++)
      for (int l = 0; l < 4; l++) {
        double a[N], r[N];
        for (int i = 0; i < N; i++) put_any(from, a, i, (unsigned)i);
        run_op(TC_IR_CAST, 0, 1, &from, to, lanes_tried[l], (void *[]){a, r});
        for (int i = 0; i < N; i++)
          cr_assert(is_wanted_cast(to, r, i, take_wide(from, a, i)), "type %d to %d, element %d (%g)", (int)from,
                    (int)to, i,
                    take_wide(from, a, i).is_int ? (double)take_wide(from, a, i).i : take_wide(from, a, i).d);
      }
}

// Rounded as any other, but that denormals are zeros of their sign.
Test(interp, settled_casts_take_denormals_for_zeros) {
  uint32_t state = 1;
  for (int l = 0; l < 4; l++)
    for (int round = 0; round < 200; round++) {
      float a[N];
      uint16_t r[N];
      for (int i = 0; i < N; i++) {
        state = state * 1664525u + 1013904223u;
        uint32_t bits = state ^ state >> 13;
        if (round % 2) bits &= 0x81FFFFFF;
        memcpy(&a[i], &bits, sizeof bits);
      }
      run_op(TC_IR_CAST, 1, 1, (tc_type[]){TC_F32}, TC_BF16, lanes_tried[l], (void *[]){a, r});
      for (int i = 0; i < N; i++)
        cr_assert_eq(r[i], tc_f32_to_bf16(model_float(model_daz(model_bits(a[i])))), "%a gives %x", (double)a[i], r[i]);
    }
}

Test(interp, casts_to_16_bits_do_not_round_twice) {
  uint64_t state = 12345;
  for (int round = 0; round < 200; round++) {
    double d[N], r[N];
    int64_t k[N];
    for (int i = 0; i < N; i++) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const double tie = (1.0 + (double)((state >> 40) % 4096) / 4096) * ldexp(1, (int)((state >> 32) % 50) - 27);
      d[i] = i % 3 == 0 ? tie : i % 3 == 1 ? nextafter(tie, 9) : nextafter(tie, 0);
      k[i] = (int64_t)(state >> (state % 61)) * (i & 1 ? -1 : 1) + (i % 5 == 0);
    }
    for (int t = 0; t < 2; t++) {
      const tc_type to = t ? TC_F16 : TC_BF16;
      run_op(TC_IR_CAST, 0, 1, (tc_type[]){TC_F64}, to, 16, (void *[]){d, r});
      for (int i = 0; i < N; i++) cr_assert(is_wanted_cast(to, r, i, (wide){.d = d[i]}), "%a", d[i]);
      run_op(TC_IR_CAST, 0, 1, (tc_type[]){TC_I64}, to, 16, (void *[]){k, r});
      for (int i = 0; i < N; i++)
        cr_assert(is_wanted_cast(to, r, i, (wide){.is_int = true, .i = k[i]}), "%ld", (long)k[i]);
    }
  }
}

Test(interp, bitcasts_keep_bits) {
  double a[N];
  int64_t r[N];
  for (unsigned i = 0; i < N; i++) a[i] = edge_float(i);
  for (int l = 0; l < 4; l++) {
    run_op(TC_IR_BITCAST, 0, 1, (tc_type[]){TC_F64}, TC_I64, lanes_tried[l], (void *[]){a, r});
    cr_assert_eq(memcmp(a, r, sizeof a), 0);
    run_op(TC_IR_BITCAST, 0, 1, (tc_type[]){TC_I32}, TC_F32, lanes_tried[l], (void *[]){a, r});
    cr_assert_eq(memcmp(a, r, N * 4), 0);
  }
}

Test(interp, every_function_of_the_math_table) {
  double a[N], b[N], r[N];
  for (unsigned i = 0; i < N; i++) a[i] = edge_float(i), b[i] = edge_float(i + 5);
  const void *const *table = tc_kir_math_table();
  for (int row = 0; row < TC_KIR_MATH_ROWS; row++) {
    const int n_in = tc_kir_math_operands(row);
    run_op(TC_IR_CALL, row, n_in, (tc_type[]){TC_F64, TC_F64}, TC_F64, 8, (void *[]){a, n_in == 2 ? b : r, r});
    for (int i = 0; i < N; i++) {
      const double want = n_in == 1 ? ((double (*)(double))(uintptr_t)table[row])(a[i])
                                    : ((double (*)(double, double))(uintptr_t)table[row])(a[i], b[i]);
      cr_assert(SAME(r[i], want));
    }
  }
  cr_expect_eq(tc_kir_math_operands(-1), 0);
  cr_expect_eq(tc_kir_math_operands(TC_KIR_MATH_ROWS), 0);
}

Test(interp, reduce_combines_halves) {
  for (int lanes = 1; lanes <= N; lanes *= 2) {
    static const tc_kir_op ops[] = {TC_IR_ADD, TC_IR_MUL, TC_IR_MIN, TC_IR_MAX, TC_IR_AND, TC_IR_OR};
    for (int k = 0; k < 6; k++) {
      int64_t in[N], out[2] = {0}, t[N];
      float f[N], fout[2] = {0}, ft[N];
      for (unsigned i = 0; i < N; i++) in[i] = t[i] = edge_int(TC_I64, i), f[i] = ft[i] = 1.0f + (float)(i * i) / 7.0f;
      for (int type = 0; type < (k < 4 ? 2 : 1); type++) {
        const tc_type ty = type ? TC_F32 : TC_I64;
        tc_kir n = {.n_inst = 0};
        put_buffer(&n, ty), put_buffer(&n, ty);
        const uint32_t z = put_i64(&n, 0), v = OP1(&n, LOAD, ty, lanes, 0, z), r = OP1(&n, REDUCE, ty, 1, ops[k], v);
        OP2(&n, STORE, ty, 1, 1, z, r);
        run(&n, type ? (void *[]){f, fout} : (void *[]){in, out}, NULL, 0, 0);
      }
      for (int h = lanes / 2; h > 0; h /= 2)
        for (int i = 0; i < h; i++)
          t[i] = want_int(ops[k], TC_I64, t[i], t[i + h]), ft[i] = want_float(ops[k], ft[i], ft[i + h], 0);
      cr_assert_eq(out[0], t[0]);
      if (k < 4) cr_assert(SAME(fout[0], ft[0]), "%d lanes", lanes);
    }
  }
}

Test(interp, zip_takes_lanes_by_turns) {
  for (int lanes = 2; lanes <= N; lanes *= 2) {
    float a[N], b[N], out[2 * N];
    for (int i = 0; i < N; i++) a[i] = (float)i, b[i] = (float)(100 + i);
    tc_kir n = {.n_inst = 0};
    put_buffer(&n, TC_F32), put_buffer(&n, TC_F32), put_buffer(&n, TC_F32);
    const uint32_t z = put_i64(&n, 0), at = put_i64(&n, lanes), x = OP1(&n, LOAD, TC_F32, lanes, 0, z),
                   y = OP1(&n, LOAD, TC_F32, lanes, 1, z);
    OP2(&n, STORE, TC_F32, lanes, 2, z, OP2(&n, UNPACK, TC_F32, lanes, 0, x, y));
    OP2(&n, STORE, TC_F32, lanes, 2, at, OP2(&n, UNPACK, TC_F32, lanes, 1, x, y));
    run(&n, (void *[]){a, b, out}, NULL, 0, 0);
    for (int i = 0; i < 2 * lanes; i++)
      cr_assert_eq(out[i], i % 2 ? b[i / 2] : a[i / 2], "%d lanes: [%d] is %g", lanes, i, (double)out[i]);
  }
}

Test(interp, interleave_takes_lanes_by_turns) {
  static const tc_type types[] = {TC_BOOL, TC_I16, TC_F32, TC_F64};
  for (int k = 0; k < 4; k++)
    for (int lanes = 2; lanes <= 64; lanes *= 2) {
      unsigned char in[2][32 * 8], out[64 * 8], want[64 * 8];
      const size_t bytes = (size_t)1 << k;
      for (unsigned i = 0; i < sizeof in[0]; i++)
        in[0][i] = k ? (unsigned char)(2 * i) : i & 1, in[1][i] = k ? (unsigned char)(2 * i + 1) : i >> 1 & 1;
      tc_kir n = {.n_inst = 0};
      put_buffer(&n, types[k]), put_buffer(&n, types[k]), put_buffer(&n, types[k]);
      const uint32_t z = put_i64(&n, 0), a = OP1(&n, LOAD, types[k], lanes / 2, 0, z),
                     b = OP1(&n, LOAD, types[k], lanes / 2, 1, z);
      OP2(&n, STORE, types[k], lanes, 2, z, OP2(&n, INTERLEAVE, types[k], lanes, 0, a, b));
      run(&n, (void *[]){in[0], in[1], out}, NULL, 0, 0);
      for (size_t i = 0; i < (size_t)lanes; i++) memcpy(want + i * bytes, in[i % 2] + i / 2 * bytes, bytes);
      cr_assert_eq(memcmp(out, want, (size_t)lanes * bytes), 0, "%d lanes of %zu bytes", lanes, bytes);
    }
}

Test(interp, masked_tails_touch_nothing_beyond) {
  for (int total = 0; total <= 37; total++) {
    // exact size: ASan sees one lane too many
    float *in = malloc((size_t)total * 4 + 1), *out = malloc((size_t)total * 4 + 1);
    for (int i = 0; i < total; i++) in[i] = (float)i, out[i] = -1;
    tc_kir n = {.n_inst = 0};
    put_buffer(&n, TC_F32), put_buffer(&n, TC_F32);
    const uint32_t b = OP0(&n, BEGIN, TC_I64, 1, 0), e = OP0(&n, FINISH, TC_I64, 1, 0),
                   lane = OP0(&n, LANES, TC_I64, 16, 0);
    const uint32_t one = OP0(&n, CONST, TC_F32, 16, 0x3f800000), es = OP1(&n, SPLAT, TC_I64, 16, 0, e);
    const uint32_t i = OP2(&n, LOOP, TC_I64, 1, 16, b, e);
    const uint32_t is = OP1(&n, SPLAT, TC_I64, 16, 0, i), at = OP2(&n, ADD, TC_I64, 16, 0, is, lane),
                   m = OP2(&n, LT, TC_BOOL, 16, 0, at, es);
    const uint32_t x = OP2(&n, LOAD, TC_F32, 16, 0, i, m), y = OP2(&n, GATHER, TC_F32, 16, 0, at, m);
    const uint32_t s = OP2(&n, ADD, TC_F32, 16, 0, x, y), r = OP2(&n, ADD, TC_F32, 16, 0, s, one);
    OP3(&n, STORE, TC_F32, 16, 1, i, r, m);
    OP3(&n, SCATTER, TC_F32, 16, 1, at, r, m);
    OP1(&n, PREFETCH, TC_BOOL, 1, 0, i);
    OP0(&n, ENDLOOP, TC_BOOL, 1, 0);
    run(&n, (void *[]){in, out}, NULL, 0, total);
    for (int k = 0; k < total; k++) cr_assert_eq(out[k], 2 * (float)k + 1);
    free(in), free(out);
  }
}

Test(interp, masked_loads_give_zero_and_scatter_goes_up) {
  const uint8_t mask[4] = {1, 0, 0, 1};
  const int16_t in[4] = {5, 6, 7, 8};
  const int64_t where[4] = {2, 2, 0, 2};
  int16_t loaded[4], out[4] = {-1, -1, -1, -1};
  tc_kir n = {.n_inst = 0};
  put_buffer(&n, TC_BOOL), put_buffer(&n, TC_I16), put_buffer(&n, TC_I64), put_buffer(&n, TC_I16),
      put_buffer(&n, TC_I16);
  const uint32_t z = put_i64(&n, 0), m = OP1(&n, LOAD, TC_BOOL, 4, 0, z), v = OP2(&n, LOAD, TC_I16, 4, 1, z, m);
  const uint32_t w = OP1(&n, LOAD, TC_I64, 4, 2, z), all = OP1(&n, LOAD, TC_I16, 4, 1, z);
  OP2(&n, STORE, TC_I16, 4, 3, z, v);
  OP2(&n, SCATTER, TC_I16, 4, 4, w, all);
  run(&n, (void *[]){(void *)mask, (void *)in, (void *)where, loaded, out}, NULL, 0, 0);
  cr_expect(loaded[0] == 5 && loaded[1] == 0 && loaded[2] == 0 && loaded[3] == 8);
  cr_expect(out[0] == 7 && out[1] == -1 && out[2] == 8 && out[3] == -1);
}

// sum over i in [0, rows), j in [0, i) of (odd j ? j : -1), kept in a variable through loops and
// ifs; out[row] after each row.
static void nested(int64_t rows, int64_t *out) {
  tc_kir n = {.n_num = 1};
  put_buffer(&n, TC_I64);
  const uint32_t b = put_i64(&n, 0), e = OP0(&n, NUM, TC_I64, 1, 0), one = put_i64(&n, 1), minus = put_i64(&n, -1);
  const uint32_t sum = OP1(&n, VAR, TC_I64, 1, 0, b);
  const uint32_t i = OP2(&n, LOOP, TC_I64, 1, 1, b, e);
  const uint32_t row = OP1(&n, VAR, TC_I64, 1, 0, minus);  // set again in each iteration
  const uint32_t row1 = OP2(&n, ADD, TC_I64, 1, 0, row, one);
  OP2(&n, SET, TC_I64, 1, 0, row, row1);
  const uint32_t j = OP2(&n, LOOP, TC_I64, 1, 1, b, i);
  const uint32_t odd = OP2(&n, AND, TC_I64, 1, 0, j, one), is = OP2(&n, EQ, TC_BOOL, 1, 0, odd, one),
                 not = OP1(&n, NOT, TC_BOOL, 1, 0, is);
  OP1(&n, IF, TC_BOOL, 1, 0, is);
  const uint32_t more = OP2(&n, ADD, TC_I64, 1, 0, sum, j);
  OP2(&n, SET, TC_I64, 1, 0, sum, more);
  OP0(&n, ENDIF, TC_BOOL, 1, 0);
  OP1(&n, IF, TC_BOOL, 1, 0, not);
  OP2(&n, SET, TC_I64, 1, 0, row, sum);  // a plain copy, undone below
  const uint32_t less = OP2(&n, ADD, TC_I64, 1, 0, row, minus);
  OP2(&n, SET, TC_I64, 1, 0, sum, less);
  OP2(&n, SET, TC_I64, 1, 0, row, b);
  OP0(&n, ENDIF, TC_BOOL, 1, 0);
  OP0(&n, ENDLOOP, TC_BOOL, 1, 0);
  const uint32_t total = OP2(&n, ADD, TC_I64, 1, 0, sum, row);
  OP2(&n, STORE, TC_I64, 1, 0, i, total);
  OP0(&n, ENDLOOP, TC_BOOL, 1, 0);
  run(&n, (void *[]){out}, (uint64_t[]){(uint64_t)rows}, 0, 0);
}

Test(interp, variables_are_carried_through_nested_loops_and_ifs) {
  for (int64_t rows = -1; rows < 9; rows++) {
    int64_t out[10], sum = 0;
    for (int i = 0; i < 10; i++) out[i] = 1234;
    nested(rows, out);
    for (int64_t i = 0; i < 10; i++) {
      if (i < rows)
        for (int64_t j = 0; j < i; j++) sum += j & 1 ? j : -1;
      cr_assert_eq(out[i], i < rows ? sum : 1234, "row %ld of %ld", (long)i, (long)rows);
    }
  }
}

Test(interp, loops_stop_short_of_overflow) {
  int64_t count[1] = {0};
  tc_kir n = {.n_inst = 0};
  put_buffer(&n, TC_I64);
  const uint32_t b = put_i64(&n, INT64_MAX - 5), e = put_i64(&n, INT64_MAX), z = put_i64(&n, 0), one = put_i64(&n, 1);
  OP2(&n, LOOP, TC_I64, 1, 4, b, e);
  const uint32_t v = OP1(&n, LOAD, TC_I64, 1, 0, z), v1 = OP2(&n, ADD, TC_I64, 1, 0, v, one);
  OP2(&n, STORE, TC_I64, 1, 0, z, v1);
  OP0(&n, ENDLOOP, TC_BOOL, 1, 0);
  run(&n, (void *[]){count}, NULL, 0, 0);
  cr_expect_eq(count[0], 2);
}

Test(interp, numbers_convert_and_tiles_hold) {
  const double pi = 3.14159265358979;
  uint64_t num[2];
  memcpy(&num[0], &pi, 8);
  num[1] = (uint64_t)INT64_C(-257);
  static const tc_type types[] = {TC_F32, TC_F64, TC_U8, TC_I8, TC_I16, TC_I32, TC_I64, TC_BOOL};
  for (int k = 0; k < 8; k++) {
    double out[8];
    tc_kir n = {.n_num = 2, .scratch_bytes = 192};
    put_buffer(&n, types[k]);
    put_tile(&n, TC_I32, 16, 0);
    put_tile(&n, types[k], 8, 128);
    const uint32_t z = put_i64(&n, 0), v = OP0(&n, NUM, types[k], 8, k >= 2);
    OP2(&n, STORE, types[k], 8, 2, z, v);
    const uint32_t w = OP1(&n, LOAD, types[k], 8, 2, z);
    OP2(&n, STORE, types[k], 8, 0, z, w);
    run(&n, (void *[]){out}, num, 0, 0);
    const wide got = take_wide(types[k], out, 7);
    if (k < 2)
      cr_expect_eq(got.d, k == 0 ? (double)(float)pi : pi);
    else
      cr_expect_eq(got.i, types[k] == TC_BOOL ? 1 : wrap(types[k], -257));
  }
}

// Two ops of which the second alone reads the first, in one kernel, are the same two in kernels of
// their own; of NaNs any may come.
static void expect_joined(tc_kir_op first, tc_kir_op second, int at, void *const *in) {
  const bool pick = second == TC_IR_SELECT, fma = first == TC_IR_FMA;
  const tc_type middle_type = pick ? TC_BOOL : TC_F32;
  float middle[N], want[N], got[N];
  run_op(first, 0, fma ? 3 : 2, (tc_type[]){TC_F32, TC_F32, TC_F32}, middle_type, N,
         (void *[]){in[0], in[1], fma ? in[2] : middle, middle});
  tc_type types[] = {TC_F32, TC_F32, TC_F32};
  void *operands[] = {in[2], in[3], in[3], want};
  const int n_in = pick || fma ? 3 : 2;
  operands[at] = middle, types[at] = middle_type, operands[n_in] = want;
  run_op(second, 0, n_in, types, TC_F32, N, operands);
  tc_kir n = {.n_inst = 0};
  uint32_t v[4];
  for (int k = 0; k < 5; k++) put_buffer(&n, TC_F32);
  const uint32_t zero = put_i64(&n, 0);
  for (uint32_t k = 0; k < 4; k++) v[k] = OP1(&n, LOAD, TC_F32, N, k, zero);
  const uint32_t a = put(&n, first, middle_type, N, 0, v[0], v[1], fma ? v[2] : TC_NONE);
  uint32_t src[] = {v[2], v[3], v[3]};
  src[at] = a;
  const uint32_t b = put(&n, second, TC_F32, N, 0, src[0], src[1], n_in == 3 ? src[2] : TC_NONE);
  OP2(&n, STORE, TC_F32, N, 4, zero, b);
  run(&n, (void *[]){in[0], in[1], in[2], in[3], got}, NULL, 0, 0);
  for (int i = 0; i < N; i++)
    cr_expect(memcmp(&got[i], &want[i], sizeof got[i]) == 0 || (isnan(got[i]) && isnan(want[i])),
              "%s, then %s with it as operand %d: %a, not %a", tc_kir_op_name(first), tc_kir_op_name(second), at,
              (double)got[i], (double)want[i]);
}

Test(interp, joined_ops_are_the_two) {
  static const tc_kir_op ops[] = {TC_IR_ADD, TC_IR_SUB, TC_IR_MUL, TC_IR_MIN, TC_IR_MAX},
                         tests[] = {TC_IR_EQ, TC_IR_NE, TC_IR_LT, TC_IR_LE, TC_IR_GT, TC_IR_GE};
  float in[4][N + 1];
  for (int k = 0; k < 4; k++)
    for (unsigned i = 0; i <= N; i++) in[k][i] = (float)edge_float(i * (unsigned)(2 * k + 1) + (unsigned)k);
  void *const plain[] = {in[0], in[1], in[2], in[3]}, *const off[] = {(char *)in[0] + 4, (char *)in[1] + 1, in[2],
                                                                      (char *)in[3] + 2};
  for (int turn = 0; turn < 2; turn++) {
    for (int i = 0; i < 25; i++)
      for (int at = 0; at < 2; at++) expect_joined(ops[i / 5], ops[i % 5], at, turn ? off : plain);
    expect_joined(TC_IR_FMA, TC_IR_FMA, 0, turn ? off : plain);
    for (int i = 0; i < 6; i++) expect_joined(tests[i], TC_IR_SELECT, 0, turn ? off : plain);
  }
}

// What was loaded, and what was computed from a variable, stays what it was when memory and the
// variable change before it is read.
Test(interp, joined_ops_see_no_later_store) {
  float x[16], y[16];
  for (int i = 0; i < 16; i++) x[i] = (float)i;
  tc_kir n = {.n_inst = 0};
  put_buffer(&n, TC_F32), put_buffer(&n, TC_F32);
  const uint32_t zero = put_i64(&n, 0), v = OP1(&n, LOAD, TC_F32, 16, 0, zero),
                 twice = OP2(&n, ADD, TC_F32, 16, 0, v, v);
  const uint32_t var = OP1(&n, VAR, TC_F32, 16, 0, twice), product = OP2(&n, MUL, TC_F32, 16, 0, var, var);
  OP2(&n, STORE, TC_F32, 16, 0, zero, twice);
  OP2(&n, SET, TC_F32, 16, 0, var, product);
  const uint32_t sum = OP2(&n, ADD, TC_F32, 16, 0, v, twice), difference = OP2(&n, SUB, TC_F32, 16, 0, var, product);
  OP2(&n, STORE, TC_F32, 16, 1, zero, OP2(&n, ADD, TC_F32, 16, 0, sum, difference));
  run(&n, (void *[]){x, y}, NULL, 0, 0);
  for (int i = 0; i < 16; i++)
    cr_expect(x[i] == (float)(2 * i) && y[i] == (float)(3 * i), "%d: %g %g", i, (double)x[i], (double)y[i]);
  tc_kir m = {.n_inst = 0};  // a difference that the variable is changed after
  put_buffer(&m, TC_F32);
  const uint32_t at = put_i64(&m, 0), one = OP1(&m, LOAD, TC_F32, 16, 0, at),
                 w = OP1(&m, VAR, TC_F32, 16, 0, OP2(&m, ADD, TC_F32, 16, 0, one, one));
  const uint32_t less = OP2(&m, SUB, TC_F32, 16, 0, w, one);
  OP2(&m, SET, TC_F32, 16, 0, w, OP2(&m, MUL, TC_F32, 16, 0, w, w));
  OP2(&m, STORE, TC_F32, 16, 0, at, OP2(&m, ADD, TC_F32, 16, 0, less, one));
  run(&m, (void *[]){x}, NULL, 0, 0);
  for (int i = 0; i < 16; i++) cr_expect(x[i] == (float)(4 * i), "%d: %g", i, (double)x[i]);
}

Test(interp, refuses_malformed_kernels_and_survives_lack_of_memory) {
  tc_kir n = {.n_inst = 0};
  OP2(&n, LOOP, TC_I64, 1, 1, 0, 0);
  tc_interp *none;
  cr_expect(tc_interp_create(&n, &none) != TC_OK && none == NULL);
  tc_kir_destroy(&n);
  for (int k = 1; k < 8; k++) {
    tc_kir m = {.n_inst = 0};
    put_i64(&m, 0);
    (void)tc_alloc_fail_at(k, 0);
    tc_interp *p;
    tc_status st = tc_interp_create(&m, &p);
    (void)tc_alloc_fail_at(0, 0);
    cr_expect(st == TC_ERR_MEMORY && p == NULL, "allocation %d: %s", k, tc_status_text(st));
    tc_kir_destroy(&m);
  }
}
