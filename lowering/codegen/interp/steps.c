// The interpreter's functions: step_ops.h once per instruction set, and those that need no set. See
// steps.h.
//
// Compile with -ffp-contract=off: no step has anything to contract, but inlining must not create
// it. Never use -ffast-math.
// -fno-math-errno -fno-trapping-math let sqrt, floor, comparisons and the like become vector
// instructions (meson.build).
#include "lowering/codegen/interp/steps.h"

#include <math.h>
#include <string.h>

#include "kernels/ref/ref.h"
#include "lowering/codegen/interp/bf16_dot.h"
#include "lowering/kir/lookup_tables.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define HAVE_X86_SETS 1
#endif

typedef tc_interp_step step;
typedef tc_interp_set step_set;

// ---- Types and conversions the steps use ----

typedef uint8_t T_BOOL, T_U8, UT_BOOL, UT_U8, UT_I8;
typedef int8_t T_I8;
typedef int16_t T_I16;
typedef int32_t T_I32;
typedef int64_t T_I64;
typedef uint16_t T_F16, T_BF16, UT_I16;
typedef float T_F32, UT_F32, W_F32;
typedef double T_F64, UT_F64, W_F64;
typedef uint32_t UT_I32, W_BOOL, W_U8, W_I8, W_I16, W_I32;
typedef uint64_t UT_I64, W_I64;
enum { SG_BOOL, SG_U8 = 0, SG_I8 = 1, SG_I16 = 1, SG_I32 = 1, SG_I64 = 1, SG_F32 = 1, SG_F64 = 1 };
// These types at any address.
#define ANYWHERE __attribute__((aligned(1), may_alias))
typedef uint8_t A_BOOL ANYWHERE, A_U8 ANYWHERE;
typedef int8_t A_I8 ANYWHERE;
typedef int16_t A_I16 ANYWHERE;
typedef int32_t A_I32 ANYWHERE;
typedef int64_t A_I64 ANYWHERE;
typedef uint16_t A_F16 ANYWHERE, A_BF16 ANYWHERE;
typedef float A_F32 ANYWHERE;
typedef double A_F64 ANYWHERE;

static inline float take_bf16(uint16_t v) {
  const uint32_t bits = (uint32_t)v << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

// The same as tc_f32_to_bf16, in a form that vectorises.
static inline uint16_t put_bf16(float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const uint32_t quiet = (bits >> 16) | 0x40;
  return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

// Rounds to odd: toward zero, with the last bit set if anything was lost. Rounding that again to
// f16 or bf16 then rounds only once.
// Source: Boldo and Melquiond, "When double rounding is odd", 2005.
static inline float odd_from_f64(double v) {
  float f = (float)v;
  if ((double)f == v || v != v) return f;
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  if (fabs((double)f) > fabs(v)) bits--;
  bits |= 1;
  memcpy(&f, &bits, sizeof f);
  return f;
}

static inline float odd_from_i64(int64_t v) {
  uint64_t m = v < 0 ? UINT64_C(0) - (uint64_t)v : (uint64_t)v;
  // At most 48 bits stay: exact in a double.
  if (m >> 40) m = (m & ~UINT64_C(0x1ffff)) | ((m & 0x1ffff) != 0 ? UINT64_C(0x10000) : 0);
  const double d = (double)m;
  return odd_from_f64(v < 0 ? -d : d);
}

// Saturating; NaN gives 0. Bounds are exact in the type of v.
#define SATURATING(T, NAME, low, high, min, max) \
  static inline T NAME(double v) { \
    return v != v ? (T)0 : v >= (high) ? (T)(max) : v <= (low) ? (T)(min) : (T)v; \
  }
SATURATING(uint8_t, u8_from, 0.0, 255.0, 0, UINT8_MAX)
SATURATING(int8_t, i8_from, -128.0, 127.0, INT8_MIN, INT8_MAX)
SATURATING(int16_t, i16_from, -32768.0, 32767.0, INT16_MIN, INT16_MAX)
SATURATING(int32_t, i32_from, -0x1p31, 0x1p31, INT32_MIN, INT32_MAX)
SATURATING(int64_t, i64_from, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX)
static inline float power_of_two(int32_t n) {
  const uint32_t bits = (uint32_t)(n + 127) << 23;
  float v;
  memcpy(&v, &bits, sizeof v);
  return v;
}
// LDEXP in two steps, of which the first is exact.
static inline float scaled(float x, float n) {
  const float sum = n + 12582912.0f;  // 1.5 * 2^23: the low bits hold n
  uint32_t bits;
  memcpy(&bits, &sum, sizeof bits);
  const int32_t i = (int32_t)(bits - 0x4B400000u), half = i >> 1;
  return x * power_of_two(half) * power_of_two(i - half);
}
// DOT4, of signed bytes where bits 0 (of x) and 1 (of y) of `is_signed` say so. A flip of the sign
// bit and a subtraction extend a signed byte.
static inline uint32_t dot4_of(int64_t is_signed, uint32_t x, uint32_t y, uint32_t sum) {
  const uint32_t a = is_signed & 1 ? 0x80 : 0, b = is_signed & 2 ? 0x80 : 0;
  for (int shift = 0; shift < 32; shift += 8) sum += (((x >> shift & 0xff) ^ a) - a) * (((y >> shift & 0xff) ^ b) - b);
  return sum;
}
static inline int32_t looked_up(int64_t table, int32_t at) {
  int32_t bits;
  memcpy(&bits, &tc_kir_table[table][at & (TC_KIR_TABLE_LENGTH - 1)], sizeof bits);
  return bits;
}
#define TAKE_BOOL(v) (v)
#define TAKE_U8(v) (v)
#define TAKE_I8(v) (v)
#define TAKE_I16(v) (v)
#define TAKE_I32(v) (v)
#define TAKE_I64(v) (v)
#define TAKE_F16(v) tc_f16_to_f32(v)
#define TAKE_BF16(v) take_bf16(v)
#define TAKE_F32(v) (v)
#define TAKE_F64(v) (v)
#define PUT_BOOL_i(v) ((uint8_t)((v) != 0))
#define PUT_BOOL_f(v) ((uint8_t)((v) != 0))
#define PUT_BOOL_d(v) ((uint8_t)((v) != 0))
#define PUT_U8_i(v) ((uint8_t)(v))
#define PUT_U8_f(v) u8_from((double)(v))
#define PUT_U8_d(v) u8_from(v)
#define PUT_I8_i(v) ((int8_t)(v))
#define PUT_I8_f(v) i8_from((double)(v))
#define PUT_I8_d(v) i8_from(v)
#define PUT_I16_i(v) ((int16_t)(v))
#define PUT_I16_f(v) i16_from((double)(v))
#define PUT_I16_d(v) i16_from(v)
#define PUT_I32_i(v) ((int32_t)(v))
#define PUT_I32_f(v) i32_from((double)(v))
#define PUT_I32_d(v) i32_from(v)
#define PUT_I64_i(v) ((int64_t)(v))
#define PUT_I64_f(v) i64_from((double)(v))
#define PUT_I64_d(v) i64_from(v)
#define PUT_F16_i(v) tc_f32_to_f16(odd_from_i64(v))
#define PUT_F16_f(v) tc_f32_to_f16(v)
#define PUT_F16_d(v) tc_f32_to_f16(odd_from_f64(v))
#define PUT_BF16_i(v) put_bf16(odd_from_i64(v))
#define PUT_BF16_f(v) put_bf16(v)
#define PUT_BF16_d(v) put_bf16(odd_from_f64(v))
#define PUT_SETTLE(v) put_bf16(tc_settled(tc_bits_of(v)))
#define PUT_F32_i(v) ((float)(v))
#define PUT_F32_f(v) (v)
#define PUT_F32_d(v) ((float)(v))
#define PUT_F64_i(v) ((double)(v))
#define PUT_F64_f(v) ((double)(v))
#define PUT_F64_d(v) (v)

// ---- The lists step_ops.h expands: X(op, type, expression) ----

#define EACH_INT(X, OP, EXPR) X(OP, U8, EXPR) X(OP, I8, EXPR) X(OP, I16, EXPR) X(OP, I32, EXPR) X(OP, I64, EXPR)
#define EACH_BITS(X, OP, EXPR) X(OP, BOOL, EXPR) EACH_INT(X, OP, EXPR)
#define EACH_FLOAT(X, OP, EXPR) X(OP, F32, EXPR) X(OP, F64, EXPR)
#define EACH_NUMBER(X, OP, EXPR) EACH_INT(X, OP, EXPR) EACH_FLOAT(X, OP, EXPR)
#define EACH_VALUE(X, OP, EXPR) X(OP, BOOL, EXPR) EACH_NUMBER(X, OP, EXPR)

#define SMALLER (((x < y) | (x != x)) ? x : y)
#define LARGER (((x > y) | (x != x)) ? x : y)

// What pairs are made of: functions f32_ADD and so on.
#define F32_OP(NAME, EXPR) \
  static inline float f32_##NAME(float x, float y) { \
    return EXPR; \
  }
// clang-format off
F32_OP(ADD, x + y)
F32_OP(SUB, x - y)
F32_OP(MUL, x * y)
F32_OP(MIN, SMALLER)
F32_OP(MAX, LARGER)
// clang-format on

#define QUOTIENT (y == 0 ? 0 : SG && (T)((W)y + 1) == 0 ? (T)((W)0 - (W)x) : x / y)
#define REMAINDER (y == 0 || (SG && (T)((W)y + 1) == 0) ? 0 : x % y)
#define MAGNITUDE (SG && ((UT)x >> (BITS - 1)) != 0 ? (T)((W)0 - (W)x) : x)

// clang-format off
#define STEP_MAPS(X)                                                                                                       \
  EACH_INT(X, ADD, (W)x + (W)y) EACH_INT(X, SUB, (W)x - (W)y) EACH_INT(X, MUL, (W)x * (W)y)                               \
  EACH_INT(X, DIV, QUOTIENT) EACH_INT(X, REM, REMAINDER) EACH_INT(X, NEG, (W)0 - (W)x) EACH_INT(X, ABS, MAGNITUDE)         \
  EACH_INT(X, MIN, x < y ? x : y) EACH_INT(X, MAX, x > y ? x : y)                                                          \
  EACH_BITS(X, AND, x & y) EACH_BITS(X, OR, x | y) EACH_BITS(X, XOR, x ^ y)                                                \
  EACH_INT(X, NOT, ~x) X(NOT, BOOL, x ^ 1)                                                                                 \
  EACH_INT(X, SHL, (UT)y < BITS ? (W)x << ((UT)y & (BITS - 1)) : 0)                                                        \
  EACH_INT(X, SHR, (UT)y < BITS ? x >> ((UT)y & (BITS - 1)) : SG ? x >> (BITS - 1) : 0)                                    \
  EACH_INT(X, USHR, (UT)y < BITS ? (UT)x >> ((UT)y & (BITS - 1)) : 0)                                                      \
  X(MULHU, I32, ((uint64_t)(uint32_t)x * (uint32_t)y) >> 32) X(DOT4, I32, dot4_of(s->imm, (uint32_t)x, (uint32_t)y, (uint32_t)z)) X(LOOKUP, I32, looked_up(s->imm, x)) \
  X(LDEXP, F32, scaled(x, y))                                                                                              \
  EACH_FLOAT(X, ADD, x + y) EACH_FLOAT(X, SUB, x - y) EACH_FLOAT(X, MUL, x * y) EACH_FLOAT(X, DIV, x / y)                  \
  EACH_FLOAT(X, NEG, -x) EACH_FLOAT(X, MIN, SMALLER) EACH_FLOAT(X, MAX, LARGER)                                            \
  X(FMA, F32, __builtin_fmaf(x, y, z)) X(ABS, F32, __builtin_fabsf(x)) X(SQRT, F32, __builtin_sqrtf(x))                    \
  X(FLOOR, F32, __builtin_floorf(x)) X(CEIL, F32, __builtin_ceilf(x)) X(TRUNC, F32, __builtin_truncf(x))                   \
  X(RINT, F32, __builtin_rintf(x))                                                                                         \
  X(FMA, F64, __builtin_fma(x, y, z)) X(ABS, F64, __builtin_fabs(x)) X(SQRT, F64, __builtin_sqrt(x))                       \
  X(FLOOR, F64, __builtin_floor(x)) X(CEIL, F64, __builtin_ceil(x)) X(TRUNC, F64, __builtin_trunc(x))                      \
  X(RINT, F64, __builtin_rint(x))
// clang-format on
// clang-format off
#define STEP_TESTS(X)                                                                                                      \
  EACH_VALUE(X, EQ, x == y) EACH_VALUE(X, NE, x != y) EACH_VALUE(X, LT, x < y) EACH_VALUE(X, LE, x <= y)                   \
  EACH_VALUE(X, GT, x > y) EACH_VALUE(X, GE, x >= y)
// clang-format on
#define STEP_TESTS_OF_PICKS(X) X(EQ, ==) X(NE, !=) X(LT, <) X(LE, <=) X(GT, >) X(GE, >=)
#define PAIRS_WITH(X, SECOND) X(SECOND, ADD) X(SECOND, SUB) X(SECOND, MUL) X(SECOND, MIN) X(SECOND, MAX)
#define STEP_PAIRS(X) PAIRS_WITH(X, ADD) PAIRS_WITH(X, SUB) PAIRS_WITH(X, MUL) PAIRS_WITH(X, MIN) PAIRS_WITH(X, MAX)
// Selection moves bits, so it goes by size; an integer of the size stands for every type of it.
#define STEP_PICKS(X) \
  X(SELECT, U8, x ? y : z) X(SELECT, I16, x ? y : z) X(SELECT, I32, x ? y : z) X(SELECT, I64, x ? y : z)
// clang-format off
#define STEP_HALVES(X)                                                                                                     \
  EACH_INT(X, ADD, (W)x + (W)y) EACH_INT(X, MUL, (W)x * (W)y) EACH_INT(X, MIN, x < y ? x : y) EACH_INT(X, MAX, x > y ? x : y) \
  EACH_BITS(X, AND, x & y) EACH_BITS(X, OR, x | y)                                                                         \
  EACH_FLOAT(X, ADD, x + y) EACH_FLOAT(X, MUL, x * y) EACH_FLOAT(X, MIN, SMALLER) EACH_FLOAT(X, MAX, LARGER)
// clang-format on

#if defined(__clang__)
#define IVDEP _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
// Unrolled first, a loop with a condition in it would not become vectors.
#define IVDEP _Pragma("GCC ivdep") _Pragma("GCC unroll 1")
#else
#define IVDEP
#endif

#define ISA base
#include "lowering/codegen/interp/step_ops.h"
#undef ISA

#ifdef HAVE_X86_SETS
#define ISA_F16C
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif
#define ISA avx2
#define STREAM(to, from) \
  (_mm256_stream_ps((float *)(to), _mm256_load_ps((const float *)(from))), \
   _mm256_stream_ps((float *)(to) + 8, _mm256_load_ps((const float *)(from) + 8)))
#include "lowering/codegen/interp/step_ops.h"
#undef STREAM
#undef ISA
#ifdef __clang__
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avx512f,avx512vl,avx512bw,avx512dq"))), \
                             apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512vl,avx512bw,avx512dq")
#endif
#define ISA avx512
#define STREAM(to, from) _mm512_stream_ps((float *)(to), _mm512_load_ps((const float *)(from)))
#define LOOK_UP(to, table, at) \
  _mm512_storeu_ps(to, _mm512_permutexvar_ps(_mm512_loadu_si512(at), _mm512_loadu_ps(table)))
#include "lowering/codegen/interp/step_ops.h"
#undef LOOK_UP
#undef STREAM
#undef ISA
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef ISA_F16C
#endif

const step_set *tc_interp_host_set(void) {
#ifdef HAVE_X86_SETS
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")) {
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq"))
      return &steps_avx512;
    return &steps_avx2;
  }
#endif
  return &steps_base;
}

// ---- Steps without an instruction set ----

static const step *step_begin(const step *s, char *frame) {
  *(int64_t *)slot_at(frame, s->dst) = head_of(frame)->begin;
  return s + 1;
}
static const step *step_finish(const step *s, char *frame) {
  *(int64_t *)slot_at(frame, s->dst) = head_of(frame)->end;
  return s + 1;
}

// A loop's slot: its value, then the bound as it was on entry.
static const step *step_loop(const step *s, char *frame) {
  int64_t *i = slot_at(frame, s->dst);
  const int64_t first = *(const int64_t *)slot_at(frame, s->src[0]),
                bound = *(const int64_t *)slot_at(frame, s->src[1]);
  if (first >= bound) return s + s->jump;
  i[0] = first, i[1] = bound;
  return s + 1;
}
static const step *step_endloop(const step *s, char *frame) {
  int64_t *i = slot_at(frame, s->dst);
  int64_t next;
  if (__builtin_add_overflow(i[0], s->imm, &next) || next >= i[1]) return s + 1;
  i[0] = next;
  return s + s->jump;
}
static const step *step_if(const step *s, char *frame) {
  return *(const uint8_t *)slot_at(frame, s->src[0]) ? s + 1 : s + s->jump;
}
static const step *step_prefetch(const step *s, char *frame) {
  if (s->masked)
    __builtin_prefetch(buffer_at(frame, s), 1);
  else
    __builtin_prefetch(buffer_at(frame, s), 0);
  return s + 1;
}
// Addresses that are as far, s->src[0], into n buffers.
static inline const step *place(const step *s, char *frame, int n) {
  const uint64_t bytes = *(const uint64_t *)slot_at(frame, s->src[0]) << s->shift;
  for (int k = 0; k < n; k++)
    *(uintptr_t *)slot_at(frame, s->src[1 + k]) = (uintptr_t)head_of(frame)->buf[s->imm >> (16 * k) & 0xffff] + bytes;
  return s + 1;
}
static const step *step_place1(const step *s, char *frame) {
  return place(s, frame, 1);
}
static const step *step_place2(const step *s, char *frame) {
  return place(s, frame, 2);
}
static const step *step_place3(const step *s, char *frame) {
  return place(s, frame, 3);
}
static const step *step_place4(const step *s, char *frame) {
  return place(s, frame, 4);
}
static const step *step_call1(const step *s, char *frame) {
  double (*const f)(double) = (double (*)(double))(uintptr_t)head_of(frame)->math[s->imm];
  double *d = slot_at(frame, s->dst);
  const double *a = slot_at(frame, s->src[0]);
  for (uint32_t i = 0; i < s->lanes; i++) d[i] = f(a[i]);
  return s + 1;
}
static const step *step_call2(const step *s, char *frame) {
  double (*const f)(double, double) = (double (*)(double, double))(uintptr_t)head_of(frame)->math[s->imm];
  double *d = slot_at(frame, s->dst);
  const double *a = slot_at(frame, s->src[0]), *b = slot_at(frame, s->src[1]);
  for (uint32_t i = 0; i < s->lanes; i++) d[i] = f(a[i], b[i]);
  return s + 1;
}

// ---- Tile registers: rows of 16 words, zeros behind a row's own ----

static const step *step_tmm_zero(const step *s, char *frame) {
  memset(tmm_at(frame, s, s->pieces >> 16), 0, TC_INTERP_TMM_BYTES);
  return s + 1;
}
static const step *step_tmm_load(const step *s, char *frame) {
  const size_t rows = s->pieces & 255, bytes = 4 * (s->pieces >> 8 & 255);
  const char *from = buffer_at(frame, s);
  const uint64_t apart = *(const uint64_t *)slot_at(frame, s->src[1]) << s->shift;
  char *to = memset(tmm_at(frame, s, s->pieces >> 16), 0, TC_INTERP_TMM_BYTES);
  for (size_t m = 0; m < rows; m++) memcpy(to + 64 * m, (const char *)((uintptr_t)from + m * apart), bytes);
  return s + 1;
}
static const step *step_tmm_store(const step *s, char *frame) {
  const size_t rows = s->pieces & 255, bytes = 4 * (s->pieces >> 8 & 255);
  char *to = buffer_at(frame, s);
  const uint64_t apart = *(const uint64_t *)slot_at(frame, s->src[1]) << s->shift;
  const char *from = (const char *)tmm_at(frame, s, s->pieces >> 16);
  for (size_t m = 0; m < rows; m++) memcpy((char *)((uintptr_t)to + m * apart), from + 64 * m, bytes);
  return s + 1;
}
static inline int32_t byte_of(uint32_t word, int i, bool is_signed) {
  const uint32_t byte = word >> 8 * i & 255;
  return is_signed ? (int8_t)byte : (int32_t)byte;
}
static inline const step *tmm_bytes(const step *s, char *frame, bool a_signed, bool b_signed) {
  const uint32_t rows = s->pieces & 255, groups = s->pieces >> 16;
  uint32_t *c = tmm_at(frame, s, s->imm & 255);
  const uint32_t *a = tmm_at(frame, s, s->imm >> 8 & 255), *b = tmm_at(frame, s, (unsigned)(s->imm >> 16));
  for (uint32_t m = 0; m < rows; m++)
    for (uint32_t k = 0; k < groups; k++)
      for (uint32_t j = 0; j < 16; j++)
        for (int i = 0; i < 4; i++)
          c[16 * m + j] += (uint32_t)(byte_of(a[16 * m + k], i, a_signed) * byte_of(b[16 * k + j], i, b_signed));
  return s + 1;
}
static const step *step_tmm_ss(const step *s, char *frame) {
  return tmm_bytes(s, frame, true, true);
}
static const step *step_tmm_su(const step *s, char *frame) {
  return tmm_bytes(s, frame, true, false);
}
static const step *step_tmm_us(const step *s, char *frame) {
  return tmm_bytes(s, frame, false, true);
}
static const step *step_tmm_uu(const step *s, char *frame) {
  return tmm_bytes(s, frame, false, false);
}

#define NUM_OF(TY, from_double) \
  static const step *step_num_##TY(const step *s, char *frame) { \
    const uint64_t bits = head_of(frame)->num[s->imm]; \
    double v; \
    memcpy(&v, &bits, sizeof v); \
    const T_##TY x = (T_##TY)(from_double); \
    T_##TY *d = slot_at(frame, s->dst); \
    for (uint32_t i = 0; i < s->lanes; i++) d[i] = x; \
    return s + 1; \
  }
NUM_OF(BOOL, bits != 0)
NUM_OF(U8, bits)
NUM_OF(I8, bits)
NUM_OF(I16, bits)
NUM_OF(I32, bits)
NUM_OF(I64, bits)
NUM_OF(F32, v)
NUM_OF(F64, v)

const tc_interp_plain_steps tc_interp_plain = {
    .begin = step_begin,
    .finish = step_finish,
    .loop = step_loop,
    .endloop = step_endloop,
    .branch = step_if,
    .prefetch = step_prefetch,
    .place = {step_place1, step_place2, step_place3, step_place4},
    .call = {step_call1, step_call2},
    .tmm_zero = step_tmm_zero,
    .tmm_load = step_tmm_load,
    .tmm_store = step_tmm_store,
    .tmm_bytes = {step_tmm_ss, step_tmm_su, step_tmm_us, step_tmm_uu},
    .num = {[TC_BOOL] = step_num_BOOL,
            [TC_U8] = step_num_U8,
            [TC_I8] = step_num_I8,
            [TC_I16] = step_num_I16,
            [TC_I32] = step_num_I32,
            [TC_I64] = step_num_I64,
            [TC_F32] = step_num_F32,
            [TC_F64] = step_num_F64},
};
