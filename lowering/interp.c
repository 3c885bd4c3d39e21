// Runs a nest without compiling it: the portable runner, and the oracle of generated code.
//
// Idea: at creation each instruction becomes one step: a function picked by (op, type, lanes) and the offsets of its operands in a frame. What
// depends only on constants and on the run's scalars goes to a prologue, run once per call; constants themselves are copied in at the start.
// Slots are reused when the last reader of a value is past, so a frame stays in L1. "op; SET var" becomes one step that writes the variable.
// Always: a slot is 64-byte aligned and a multiple of 64 bytes; a step reads its operands' lanes before or as it writes the same lane.
// Owns its steps and constants, nothing of the nest. Threads: a tc_interp is immutable; the frame is the worker's.
// Compile with -ffp-contract=off (no step has anything to contract, but inlining must not make one), never with -ffast-math;
// -fno-math-errno -fno-trapping-math let sqrt, floor and the like become vector instructions.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "kernels/ref/ref.h"
#include "lowering/nest.h"
#include "lowering/nest_math.h"
#include "runtime/arena.h"
#include "runtime/status.h"
#include "runtime/team.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define HAVE_X86_SETS 1
#endif

typedef struct step step;
typedef const step *step_fn(const step *s, char *frame);

struct step {
  step_fn *fn;
  uint32_t dst, src[3];  // offsets in the frame
  uint32_t lanes;
  uint32_t pieces;       // of 64 bytes, for copies
  uint8_t masked, shift; // a mask is there; log2 of the element's bytes, for addresses
  uint16_t pad;
  int32_t jump;          // steps to skip: LOOP and IF past their end, ENDLOOP back to the first step inside
  int64_t imm;
};

// The start of a frame. Tiles follow the kernel's buffers in buf.
typedef struct head {
  const uint64_t *num;
  const void *const *math;
  int64_t begin, end;
  void *buf[];
} head;

// The functions of one instruction set.
typedef struct step_set {
  step_fn *map[TC_N_OPS][TC_N_TYPES][2];  // by the operands' type (SELECT: by a type of the result's size); vector, scalar
  step_fn *halve[TC_N_OPS][TC_N_TYPES];
  step_fn *cast[TC_N_TYPES][TC_N_TYPES];  // to, from
  step_fn *splat[4], *load_masked[4], *store_masked[4], *gather[4], *scatter[4], *zip[4], *interleave[4];  // by log2 of the element's bytes
  step_fn *load[7], *store[7], *copy[7];  // by log2 of all bytes, 6: a multiple of 64
  step_fn *pack_f16, *unpack_f16;         // optional: better casts between f32 and f16
} step_set;

struct tc_interp {
  step *steps;             // prologue, then body; each part ends with a step without function
  char *pool;              // constants, copied to pool_at in the frame
  void *tiles;             // int64_t offsets of the tiles
  uint32_t n_prologue, n_buf, n_tile;
  size_t tile_bytes, pool_at, pool_bytes, frame_bytes;
};

static inline void *slot_at(char *frame, uint32_t offset) {
  return __builtin_assume_aligned(frame + offset, 64);
}
static inline head *head_of(char *frame) {
  return __builtin_assume_aligned(frame, 64);
}
// The element a LOAD, STORE or PREFETCH starts at.
static inline char *buffer_at(char *frame, const step *s) {
  const int64_t e = *(const int64_t *)slot_at(frame, s->src[0]);
  return (char *)((uintptr_t)head_of(frame)->buf[s->imm] + ((uint64_t)e << s->shift));
}

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

// To the nearest float towards zero with its last bit set if anything was lost, so that rounding it again to f16 or bf16 rounds once.
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
  if (m >> 40) m = (m & ~UINT64_C(0x1ffff)) | ((m & 0x1ffff) != 0 ? UINT64_C(0x10000) : 0);  // at most 48 bits stay: exact in a double
  const double d = (double)m;
  return odd_from_f64(v < 0 ? -d : d);
}

// Saturating; NaN gives 0. Bounds are exact in the type of v.
#define SATURATE(T, v, low, high, min, max) ((v) != (v) ? (T)0 : (v) >= (high) ? (T)(max) : (v) <= (low) ? (T)(min) : (T)(v))
static inline uint8_t u8_from(double v) {
  return SATURATE(uint8_t, v, 0.0, 255.0, 0, UINT8_MAX);
}
static inline int8_t i8_from(double v) {
  return SATURATE(int8_t, v, -128.0, 127.0, INT8_MIN, INT8_MAX);
}
static inline int16_t i16_from(double v) {
  return SATURATE(int16_t, v, -32768.0, 32767.0, INT16_MIN, INT16_MAX);
}
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
static inline int32_t i32_from(double v) {
  return SATURATE(int32_t, v, -0x1p31, 0x1p31, INT32_MIN, INT32_MAX);
}
static inline int64_t i64_from(double v) {
  return SATURATE(int64_t, v, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX);
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
#define PUT_F32_i(v) ((float)(v))
#define PUT_F32_f(v) (v)
#define PUT_F32_d(v) ((float)(v))
#define PUT_F64_i(v) ((double)(v))
#define PUT_F64_f(v) ((double)(v))
#define PUT_F64_d(v) (v)

// ---- The lists interp_ops.h expands: X(op, type, expression) ----

#define EACH_INT(X, OP, EXPR) X(OP, U8, EXPR) X(OP, I8, EXPR) X(OP, I16, EXPR) X(OP, I32, EXPR) X(OP, I64, EXPR)
#define EACH_BITS(X, OP, EXPR) X(OP, BOOL, EXPR) EACH_INT(X, OP, EXPR)
#define EACH_FLOAT(X, OP, EXPR) X(OP, F32, EXPR) X(OP, F64, EXPR)
#define EACH_NUMBER(X, OP, EXPR) EACH_INT(X, OP, EXPR) EACH_FLOAT(X, OP, EXPR)
#define EACH_VALUE(X, OP, EXPR) X(OP, BOOL, EXPR) EACH_NUMBER(X, OP, EXPR)

#define SMALLER (((x < y) | (x != x)) ? x : y)
#define LARGER (((x > y) | (x != x)) ? x : y)
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
  X(MULHU, I32, ((uint64_t)(uint32_t)x * (uint32_t)y) >> 32)                                                               \
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
// Selection moves bits, so it goes by size; an integer of the size stands for every type of it.
#define STEP_PICKS(X) X(SELECT, U8, x ? y : z) X(SELECT, I16, x ? y : z) X(SELECT, I32, x ? y : z) X(SELECT, I64, x ? y : z)
// clang-format off
#define STEP_HALVES(X)                                                                                                     \
  EACH_INT(X, ADD, (W)x + (W)y) EACH_INT(X, MUL, (W)x * (W)y) EACH_INT(X, MIN, x < y ? x : y) EACH_INT(X, MAX, x > y ? x : y) \
  EACH_BITS(X, AND, x & y) EACH_BITS(X, OR, x | y)                                                                         \
  EACH_FLOAT(X, ADD, x + y) EACH_FLOAT(X, MUL, x * y) EACH_FLOAT(X, MIN, SMALLER) EACH_FLOAT(X, MAX, LARGER)
// clang-format on

#if defined(__clang__)
#define IVDEP _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define IVDEP _Pragma("GCC ivdep")
#else
#define IVDEP
#endif

#define ISA base
#include "lowering/interp_ops.h"
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
#include "lowering/interp_ops.h"
#undef ISA
#ifdef __clang__
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avx512f,avx512vl,avx512bw,avx512dq"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512vl,avx512bw,avx512dq")
#endif
#define ISA avx512
#include "lowering/interp_ops.h"
#undef ISA
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef ISA_F16C
#endif

static const step_set *set_for_host(void) {
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
  const int64_t first = *(const int64_t *)slot_at(frame, s->src[0]), bound = *(const int64_t *)slot_at(frame, s->src[1]);
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
static step_fn *const step_num[TC_N_TYPES] = {[TC_BOOL] = step_num_BOOL, [TC_U8] = step_num_U8,   [TC_I8] = step_num_I8,   [TC_I16] = step_num_I16,
                                              [TC_I32] = step_num_I32,   [TC_I64] = step_num_I64, [TC_F32] = step_num_F32, [TC_F64] = step_num_F64};

// ---- Translation ----

static const uint8_t log_bytes[TC_N_TYPES] = {
    [TC_BOOL] = 0, [TC_U8] = 0, [TC_I8] = 0, [TC_I16] = 1, [TC_I32] = 2, [TC_I64] = 3, [TC_F16] = 1, [TC_BF16] = 1, [TC_F32] = 2, [TC_F64] = 3};
// A type of the same size that moves and SELECT have functions for.
static const uint8_t carrier[4] = {TC_U8, TC_I16, TC_I32, TC_I64};

enum { SLOT_SIZES = 4 };  // 64, 128, 256 and 512 bytes

typedef struct value {
  uint32_t at;        // offset in the frame
  uint32_t last;      // instruction after which the slot is free; 0: never (constants and the prologue's)
  uint32_t n_uses;
  uint32_t next;      // in the list of values that end together, or of free slots
  bool early;         // known before the body runs
} value;

typedef struct translation {
  const tc_nest *nest;
  const step_set *set;
  tc_interp *out;
  value *value;
  uint32_t *ending;            // per instruction: first value that ends there
  uint32_t *step_of;           // per LOOP or IF: its step
  uint32_t *match, *parent;    // per LOOP or IF: its end, and what it is in
  uint32_t *free_slot[SLOT_SIZES], n_free[SLOT_SIZES];
  size_t top;                  // end of the frame so far
  uint32_t n_steps;
} translation;

static unsigned size_class(const tc_ninst *i) {
  const unsigned bytes = (unsigned)i->lanes << log_bytes[i->dtype];
  return bytes <= 64 ? 0 : bytes == 128 ? 1 : bytes == 256 ? 2 : 3;
}

static bool is_const(const tc_ninst *i) {
  return i->op == TC_N_CONST || i->op == TC_N_LANES;
}
// Computes from its operands alone: may run at any earlier time, and may write straight into a variable.
static bool is_pure(const tc_ninst *i) {
  return (i->op >= TC_N_ADD && i->op <= TC_N_HREDUCE) || i->op == TC_N_SPLAT;
}
static bool has_slot(const tc_ninst *i) {
  switch (i->op) {
    case TC_N_ENDLOOP:
    case TC_N_IF:
    case TC_N_ENDIF:
    case TC_N_SET:
    case TC_N_STORE:
    case TC_N_SCATTER:
    case TC_N_PREFETCH: return false;
    default: return true;
  }
}

// Marks early values, matches ends, counts uses and finds where each value ends: at its last use, or at the end of the outermost loop that
// holds that use and not the value.
static void find_lives(translation *t) {
  const tc_nest *n = t->nest;
  uint32_t open = TC_NONE;
  for (uint32_t i = 0; i < n->n_inst; i++) {
    const uint8_t op = n->inst[i].op;
    if (op == TC_N_LOOP || op == TC_N_IF) t->parent[i] = open, open = i;
    if (op == TC_N_ENDLOOP || op == TC_N_ENDIF) t->match[open] = i, t->match[i] = open, open = t->parent[open];
  }
  open = TC_NONE;
  for (uint32_t i = 0; i < n->n_inst; i++) {
    const tc_ninst *inst = &n->inst[i];
    bool early = is_const(inst) || inst->op == TC_N_NUM || inst->op == TC_N_BEGIN || inst->op == TC_N_FINISH;
    if (is_pure(inst)) early = true;
    for (int k = 0; k < 4; k++) {
      const uint32_t v = inst->src[k];
      if (v == TC_NONE) continue;
      if (is_pure(inst) && !t->value[v].early) early = false;
      uint32_t end = i;
      for (uint32_t o = open; o != TC_NONE && o > v; o = t->parent[o])
        if (n->inst[o].op == TC_N_LOOP) end = t->match[o];
      t->value[v].n_uses++;
      t->value[v].last = TC_MAX_OF(t->value[v].last, end);
    }
    t->value[i].early = early;
    t->value[i].last = TC_MAX_OF(t->value[i].last, i);
    if (inst->op == TC_N_LOOP) t->value[i].last = t->match[i];
    if (inst->op == TC_N_LOOP || inst->op == TC_N_IF) open = i;
    if (inst->op == TC_N_ENDLOOP || inst->op == TC_N_ENDIF) open = t->parent[t->match[i]];
  }
}

static void take_slot(translation *t, uint32_t v) {
  const unsigned c = size_class(&t->nest->inst[v]);
  if (!t->value[v].early && t->n_free[c] > 0) {
    t->value[v].at = t->free_slot[c][--t->n_free[c]];
  } else {
    t->value[v].at = (uint32_t)t->top;
    t->top += (size_t)64 << c;
  }
  if (t->value[v].early) return;
  t->value[v].next = t->ending[t->value[v].last];
  t->ending[t->value[v].last] = v;
}

static void free_slots(translation *t, uint32_t i) {
  for (uint32_t v = t->ending[i]; v != TC_NONE; v = t->value[v].next) {
    const unsigned c = size_class(&t->nest->inst[v]);
    t->free_slot[c][t->n_free[c]++] = t->value[v].at;
  }
}

static unsigned copy_class(const tc_ninst *i) {
  const unsigned bytes = (unsigned)i->lanes << log_bytes[i->dtype];
  return bytes >= 64 ? 6 : (unsigned)__builtin_ctz(bytes);
}

static step_fn *cast_fn(const translation *t, unsigned to, unsigned from) {
  if (to == TC_F16 && from == TC_F32 && t->set->pack_f16 != NULL) return t->set->pack_f16;
  if (to == TC_F32 && from == TC_F16 && t->set->unpack_f16 != NULL) return t->set->unpack_f16;
  return t->set->cast[to][from];
}

static step_fn *pick_fn(const translation *t, const tc_ninst *i) {
  const step_set *set = t->set;
  const unsigned log = i->dtype < TC_N_TYPES ? log_bytes[i->dtype] : 0;
  const unsigned scalar = i->lanes == 1;
  const tc_ninst *first = i->src[0] != TC_NONE ? &t->nest->inst[i->src[0]] : NULL;
  switch (i->op) {
    case TC_N_BEGIN: return step_begin;
    case TC_N_FINISH: return step_finish;
    case TC_N_NUM: return step_num[i->dtype];
    case TC_N_LOOP: return step_loop;
    case TC_N_ENDLOOP: return step_endloop;
    case TC_N_IF: return step_if;
    case TC_N_VAR:
    case TC_N_BITCAST: return set->copy[copy_class(i)];
    case TC_N_SET: return set->copy[copy_class(first)];
    case TC_N_SPLAT: return set->splat[log];
    case TC_N_LOAD: return i->src[1] != TC_NONE ? set->load_masked[log] : set->load[copy_class(i)];
    case TC_N_STORE: return i->src[2] != TC_NONE ? set->store_masked[log] : set->store[copy_class(i)];
    case TC_N_GATHER: return set->gather[log];
    case TC_N_SCATTER: return set->scatter[log];
    case TC_N_PREFETCH: return step_prefetch;
    case TC_N_SELECT: return set->map[TC_N_SELECT][carrier[log]][scalar];
    case TC_N_CAST: return cast_fn(t, i->dtype, first->dtype);
    case TC_N_CALL: return tc_nest_math_operands(i->imm) == 1 ? step_call1 : step_call2;
    case TC_N_ZIP: return set->zip[log];
    case TC_N_INTERLEAVE: return set->interleave[log];
    case TC_N_HREDUCE: return set->halve[i->imm][i->dtype];
    default: return set->map[i->op][first->dtype][scalar];
  }
}

static unsigned address_type(const tc_nest *n, int64_t buffer) {
  return buffer < n->n_buf ? n->buf_type[buffer] : n->tile[buffer - n->n_buf].dtype;
}

static void emit(translation *t, uint32_t at) {
  const tc_ninst *i = &t->nest->inst[at];
  step *s = &t->out->steps[t->n_steps++];
  s->fn = pick_fn(t, i);
  for (int k = 0; k < 3; k++) s->src[k] = i->src[k] != TC_NONE ? t->value[i->src[k]].at : 0;
  s->dst = has_slot(i) ? t->value[at].at : 0;
  s->lanes = i->lanes;
  s->imm = i->imm;
  const tc_ninst *copied = i;
  if (i->op == TC_N_SET) {
    s->dst = s->src[0], s->src[0] = s->src[1];
    copied = &t->nest->inst[i->src[0]];
  }
  if (has_slot(copied) || copied->op == TC_N_STORE) s->pieces = ((uint32_t)copied->lanes << log_bytes[copied->dtype]) / 64;
  switch (i->op) {
    case TC_N_LOAD:
    case TC_N_GATHER: s->masked = i->src[1] != TC_NONE, s->shift = log_bytes[i->dtype]; break;
    case TC_N_STORE:
    case TC_N_SCATTER: s->masked = i->src[2] != TC_NONE, s->shift = log_bytes[i->dtype]; break;
    case TC_N_PREFETCH: s->masked = i->flags & 1, s->shift = log_bytes[address_type(t->nest, i->imm)]; break;
    case TC_N_HREDUCE: s->lanes = t->nest->inst[i->src[0]].lanes; break;
    default: break;
  }
}

static void fill_constant(const tc_ninst *i, char *d) {
  const size_t bytes = (size_t)1 << log_bytes[i->dtype];
  for (int64_t k = 0; k < i->lanes; k++) {
    const int64_t x = i->op == TC_N_LANES ? k : i->imm;  // little-endian: the low bytes come first
    memcpy(d + (size_t)k * bytes, &x, bytes);
  }
}

// Constants get the first slots, then the prologue's values, with its steps.
static void translate_early(translation *t) {
  const tc_nest *n = t->nest;
  t->out->pool_at = t->top;
  for (uint32_t i = 0; i < n->n_inst; i++)
    if (is_const(&n->inst[i])) take_slot(t, i);
  t->out->pool_bytes = t->top - t->out->pool_at;
  for (uint32_t i = 0; i < n->n_inst; i++) {
    if (!t->value[i].early || is_const(&n->inst[i])) continue;
    take_slot(t, i);
    emit(t, i);
  }
  t->out->n_prologue = t->n_steps++;
}

// Instruction i is SET of what the instruction before computed for it alone.
static bool is_folded_set(const translation *t, uint32_t i) {
  const tc_nest *n = t->nest;
  if (i == 0 || i >= n->n_inst || n->inst[i].op != TC_N_SET || n->inst[i].src[1] != i - 1) return false;
  const tc_ninst *from = &n->inst[i - 1];
  return (is_pure(from) || from->op == TC_N_LOAD || from->op == TC_N_GATHER) && !t->value[i - 1].early && t->value[i - 1].n_uses == 1;
}

static void translate_body(translation *t) {
  const tc_nest *n = t->nest;
  step *steps = t->out->steps;
  for (uint32_t i = 0; i < n->n_inst; i++) {
    const tc_ninst *inst = &n->inst[i];
    if (!t->value[i].early && !is_folded_set(t, i) && inst->op != TC_N_ENDIF) {
      if (is_folded_set(t, i + 1))
        t->value[i].at = t->value[n->inst[i + 1].src[0]].at;
      else if (has_slot(inst))
        take_slot(t, i);
      emit(t, i);
    }
    if (inst->op == TC_N_LOOP || inst->op == TC_N_IF) t->step_of[i] = t->n_steps - 1;
    if (inst->op == TC_N_ENDLOOP || inst->op == TC_N_ENDIF) {
      const uint32_t start = t->match[i], from = t->step_of[start];
      steps[from].jump = (int32_t)(t->n_steps - from);
      if (inst->op == TC_N_ENDLOOP) {
        step *end = &steps[t->n_steps - 1];
        end->dst = t->value[start].at;
        end->imm = n->inst[start].imm;
        end->jump = (int32_t)(from + 1) - (int32_t)(t->n_steps - 1);
      }
    }
    free_slots(t, i);
  }
}

static void *take(void **at, size_t bytes) {
  char *p = *at;
  *at = p + (bytes + 7) / 8 * 8;
  return p;
}

// One block for all the translation's arrays.
static void *layout(translation *t, void *block) {
  const size_t n = (size_t)t->nest->n_inst + 1;
  void *at = block;
  t->value = take(&at, n * sizeof *t->value);
  t->ending = take(&at, n * sizeof(uint32_t));
  t->step_of = take(&at, n * sizeof(uint32_t));
  t->match = take(&at, n * sizeof(uint32_t));
  t->parent = take(&at, n * sizeof(uint32_t));
  for (int c = 0; c < SLOT_SIZES; c++) t->free_slot[c] = take(&at, n * sizeof(uint32_t));
  return at;
}

static void fill_pool(const translation *t) {
  for (uint32_t i = 0; i < t->nest->n_inst; i++)
    if (is_const(&t->nest->inst[i])) fill_constant(&t->nest->inst[i], t->out->pool + (t->value[i].at - t->out->pool_at));
}

static tc_status translate(const tc_nest *nest, tc_interp *out) {
  translation t = {.nest = nest, .set = set_for_host(), .out = out};
  const size_t n = (size_t)nest->n_inst + 1, block_bytes = n * (sizeof(value) + 8 * sizeof(uint32_t)) + 128;
  void *block = tc_calloc(1, block_bytes);
  out->steps = tc_calloc(n + 1, sizeof *out->steps);
  out->tiles = tc_calloc((size_t)nest->n_tile + 1, sizeof(int64_t));
  tc_status st = block != NULL && out->steps != NULL && out->tiles != NULL ? TC_OK : TC_ERR_MEMORY;
  if (st != TC_OK) goto done;
  (void)layout(&t, block);
  memset(t.ending, 0xff, n * sizeof *t.ending);
  out->n_buf = nest->n_buf, out->n_tile = nest->n_tile;
  for (uint32_t k = 0; k < nest->n_tile; k++) ((int64_t *)out->tiles)[k] = nest->tile[k].offset;
  out->tile_bytes = ((size_t)nest->scratch_bytes + 63) / 64 * 64;
  t.top = (sizeof(head) + ((size_t)nest->n_buf + nest->n_tile) * sizeof(void *) + 63) / 64 * 64;
  find_lives(&t);
  translate_early(&t);
  translate_body(&t);
  out->frame_bytes = t.top + 512;  // a step may read a whole slot where its operand is missing (offset 0) or smaller
  if (t.top > UINT32_MAX) st = TC_ERR_ARG;
  out->pool = tc_malloc(out->pool_bytes + 1);
  if (out->pool == NULL) st = TC_ERR_MEMORY;
  if (st == TC_OK) {
    memset(out->pool, 0, out->pool_bytes);
    fill_pool(&t);
  }
done:
  tc_free(block);
  return st;
}

tc_status tc_interp_create(const tc_nest *nest, tc_interp **out) {
  char text[256];
  *out = NULL;
  tc_status st = tc_nest_verify(nest, text, sizeof text);
  if (st != TC_OK) return TC_FAIL(st == TC_ERR_MEMORY ? st : TC_ERR_ARG, "%s", text);
  if (nest->threads > 0) return TC_FAIL(TC_ERR_ARG, "a nest with threads is printed for a GPU, not interpreted");
  tc_interp *p = tc_calloc(1, sizeof *p);
  st = p != NULL ? translate(nest, p) : TC_ERR_MEMORY;
  if (st == TC_OK) return *out = p, TC_OK;
  tc_interp_destroy(p);
  return TC_FAIL(st, "interpreter of %u instructions", nest->n_inst);
}

void tc_interp_destroy(tc_interp *interp) {
  if (interp == NULL) return;
  tc_free(interp->steps);
  tc_free(interp->pool);
  tc_free(interp->tiles);
  tc_free(interp);
}

size_t tc_interp_scratch(const tc_interp *interp) {
  return interp->tile_bytes + interp->frame_bytes;
}

void tc_interp_run(const void *ctx, void *const *buf, const uint64_t *num, int64_t begin, int64_t end, struct tc_worker *worker) {
  const tc_interp *p = ctx;
  char *frame = (char *)worker->scratch + p->tile_bytes;
  head *h = head_of(frame);
  h->num = num;
  h->math = worker->math != NULL ? worker->math : tc_nest_math_table();
  h->begin = begin, h->end = end;
  for (uint32_t k = 0; k < p->n_buf; k++) h->buf[k] = buf[k];
  for (uint32_t k = 0; k < p->n_tile; k++) h->buf[p->n_buf + k] = (char *)worker->scratch + ((const int64_t *)p->tiles)[k];
  memcpy(frame + p->pool_at, p->pool, p->pool_bytes);
  for (const step *s = p->steps; s->fn != NULL;) s = s->fn(s, frame);
  for (const step *s = p->steps + p->n_prologue + 1; s->fn != NULL;) s = s->fn(s, frame);
}
