// Conversions between element types. See convert.h.
//
// Floats round to nearest even. f16 and bf16 are rounded from double in one step, so nothing is
// rounded twice. Double to integer truncates, saturates, and gives 0 for NaN. int64 to integer
// wraps. A bool is != 0.
#include "kernels/ref/convert.h"

#include <math.h>
#include <string.h>

#include "runtime/status.h"

static uint64_t f64_bits(double v) {
  uint64_t bits;
  memcpy(&bits, &v, sizeof bits);
  return bits;
}

static uint32_t f32_bits(float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  return bits;
}

static float f32_of_bits(uint32_t bits) {
  float v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

// Rounds to nearest even into a 16-bit format with a sign, exp_bits and man_bits. A NaN keeps its
// top bits and becomes quiet.
static uint16_t narrow_float(double v, int exp_bits, int man_bits) {
  uint64_t bits = f64_bits(v), man = bits & ((UINT64_C(1) << 52) - 1);
  int exp = (int)(bits >> 52 & 0x7ff) - 1023;
  uint64_t inf = ((UINT64_C(1) << exp_bits) - 1) << man_bits;
  uint64_t sign = bits >> 63 << (exp_bits + man_bits);
  if (exp == 1024) {
    uint64_t quiet = man ? UINT64_C(1) << (man_bits - 1) | man >> (52 - man_bits) : 0;
    return (uint16_t)(sign | inf | quiet);
  }
  int biased = exp + (1 << (exp_bits - 1)) - 1;
  int shift = 52 - man_bits;
  if (biased >= 1) {
    man |= (uint64_t)biased << 52;  // a carry out of the mantissa increments the exponent, up to infinity
  } else {
    man |= UINT64_C(1) << 52;  // subnormal in the target
    shift += 1 - biased;
    if (shift > 53) return (uint16_t)sign;  // below half of the smallest
  }
  uint64_t rounded = man >> shift, rest = man & ((UINT64_C(1) << shift) - 1), half = UINT64_C(1) << (shift - 1);
  if (rest > half || (rest == half && (rounded & 1))) rounded++;
  return (uint16_t)(sign | TC_MIN(rounded, inf));
}

uint16_t tc_f32_to_f16(float v) {
  return narrow_float((double)v, 5, 10);
}

uint16_t tc_f32_to_bf16(float v) {
  return narrow_float((double)v, 8, 7);
}

float tc_bf16_to_f32(uint16_t v) {
  return f32_of_bits((uint32_t)v << 16);
}

float tc_f16_to_f32(uint16_t v) {
  uint32_t sign = (uint32_t)(v >> 15) << 31, exp = v >> 10 & 31, man = v & 0x3ff;
  if (exp == 31) return f32_of_bits(sign | 0x7f800000u | man << 13);
  if (exp == 0) return f32_of_bits(sign | f32_bits((float)man * 0x1p-24f));
  return f32_of_bits(sign | (exp + 127 - 15) << 23 | man << 13);
}

// Truncates toward zero and saturates to [low, high]; NaN gives 0. Each bound is a power of two or
// one less, so the tests are exact.
static int64_t f64_to_int(double v, int64_t low, int64_t high) {
  if (isnan(v)) return 0;
  if (v <= (double)low) return low;
  if (v >= (double)high) return high;
  return (int64_t)v;
}

// Returns an int64 as a double that rounds to f16 or bf16 as the int64 would. Bits that a double
// cannot hold are folded into its last bit.
static double i64_to_odd(int64_t v) {
  if (v > -(INT64_C(1) << 53) && v < INT64_C(1) << 53) return (double)v;
  return (double)((v & 1023) ? (v & ~INT64_C(1023)) | 1024 : v);
}

// One row per type: storage, value as double, as int64, from double v, from int64 v. e is an
// element.
#define EACH_TYPE(X) \
  X(BOOL, uint8_t, (double)(e != 0), (int64_t)(e != 0), (uint8_t)(v != 0), (uint8_t)(v != 0)) \
  X(U8, uint8_t, (double)e, (int64_t)e, (uint8_t)f64_to_int(v, 0, UINT8_MAX), (uint8_t)v) \
  X(I8, int8_t, (double)e, (int64_t)e, (int8_t)f64_to_int(v, INT8_MIN, INT8_MAX), (int8_t)v) \
  X(I16, int16_t, (double)e, (int64_t)e, (int16_t)f64_to_int(v, INT16_MIN, INT16_MAX), (int16_t)v) \
  X(I32, int32_t, (double)e, (int64_t)e, (int32_t)f64_to_int(v, INT32_MIN, INT32_MAX), (int32_t)v) \
  X(I64, int64_t, (double)e, (int64_t)e, f64_to_int(v, INT64_MIN, INT64_MAX), v) \
  X(F16, uint16_t, (double)tc_f16_to_f32(e), f64_to_int((double)tc_f16_to_f32(e), INT64_MIN, INT64_MAX), \
    narrow_float(v, 5, 10), narrow_float(i64_to_odd(v), 5, 10)) \
  X(BF16, uint16_t, (double)tc_bf16_to_f32(e), f64_to_int((double)tc_bf16_to_f32(e), INT64_MIN, INT64_MAX), \
    narrow_float(v, 8, 7), narrow_float(i64_to_odd(v), 8, 7)) \
  X(F32, float, (double)e, f64_to_int((double)e, INT64_MIN, INT64_MAX), (float)v, (float)v) \
  X(F64, double, e, f64_to_int(e, INT64_MIN, INT64_MAX), v, (double)v)

int64_t tc_ref_type_bytes(tc_type type) {
  switch (type) {
#define X(NAME, ctype, as_f64, as_i64, of_f64, of_i64) \
  case TC_##NAME: return (int64_t)sizeof(ctype);
    EACH_TYPE(X)
#undef X
    case TC_N_TYPES: break;
  }
  return 0;
}

// The loop is written twice so that the compiler sees a dense one.
#define FOR_SPAN(statement) \
  if (step == 1) { \
    for (int64_t i = 0, k = 0; i < n; i++, k++) statement \
  } else { \
    for (int64_t i = 0, k = 0; i < n; i++, k += step) statement \
  }

#define X(NAME, ctype, as_f64, as_i64, of_f64, of_i64) \
  static void load_f64_##NAME(const ctype *p, int64_t step, int64_t n, double *out) { \
    FOR_SPAN({ \
      ctype e = p[k]; \
      out[i] = as_f64; \
    }) \
  } \
  static void load_i64_##NAME(const ctype *p, int64_t step, int64_t n, int64_t *out) { \
    FOR_SPAN({ \
      ctype e = p[k]; \
      out[i] = as_i64; \
    }) \
  } \
  static void store_f64_##NAME(ctype *p, int64_t step, int64_t n, const double *from) { \
    FOR_SPAN({ \
      double v = from[i]; \
      p[k] = of_f64; \
    }) \
  } \
  static void store_i64_##NAME(ctype *p, int64_t step, int64_t n, const int64_t *from) { \
    FOR_SPAN({ \
      int64_t v = from[i]; \
      p[k] = of_i64; \
    }) \
  }
EACH_TYPE(X)
#undef X

void tc_load_f64(tc_type type, const void *p, int64_t at, int64_t step, int64_t n, double *out) {
  switch (type) {
#define X(NAME, ctype, as_f64, as_i64, of_f64, of_i64) \
  case TC_##NAME: load_f64_##NAME((const ctype *)p + at, step, n, out); break;
    EACH_TYPE(X)
#undef X
    case TC_N_TYPES: break;
  }
}

void tc_load_i64(tc_type type, const void *p, int64_t at, int64_t step, int64_t n, int64_t *out) {
  switch (type) {
#define X(NAME, ctype, as_f64, as_i64, of_f64, of_i64) \
  case TC_##NAME: load_i64_##NAME((const ctype *)p + at, step, n, out); break;
    EACH_TYPE(X)
#undef X
    case TC_N_TYPES: break;
  }
}

void tc_store_f64(tc_type type, void *p, int64_t at, int64_t step, int64_t n, const double *v) {
  switch (type) {
#define X(NAME, ctype, as_f64, as_i64, of_f64, of_i64) \
  case TC_##NAME: store_f64_##NAME((ctype *)p + at, step, n, v); break;
    EACH_TYPE(X)
#undef X
    case TC_N_TYPES: break;
  }
}

void tc_store_i64(tc_type type, void *p, int64_t at, int64_t step, int64_t n, const int64_t *v) {
  switch (type) {
#define X(NAME, ctype, as_f64, as_i64, of_f64, of_i64) \
  case TC_##NAME: store_i64_##NAME((ctype *)p + at, step, n, v); break;
    EACH_TYPE(X)
#undef X
    case TC_N_TYPES: break;
  }
}

double tc_get_f64(tc_type type, const void *p, int64_t i) {
  double v = 0;
  tc_load_f64(type, p, i, 1, 1, &v);
  return v;
}

int64_t tc_get_i64(tc_type type, const void *p, int64_t i) {
  int64_t v = 0;
  tc_load_i64(type, p, i, 1, 1, &v);
  return v;
}

void tc_set_f64(tc_type type, void *p, int64_t i, double v) {
  tc_store_f64(type, p, i, 1, 1, &v);
}

void tc_set_i64(tc_type type, void *p, int64_t i, int64_t v) {
  tc_store_i64(type, p, i, 1, 1, &v);
}

#define COPY(ctype) \
  { \
    ctype *to = (ctype *)dst + dst_at; \
    const ctype *from = (const ctype *)src + src_at; \
    for (int64_t i = 0; i < n; i++) to[i * dst_step] = from[i * src_step]; \
    break; \
  }

void tc_copy_span(int64_t elem_bytes, void *dst, int64_t dst_at, int64_t dst_step, const void *src, int64_t src_at,
                  int64_t src_step, int64_t n) {
  if (dst_step == 1 && src_step == 1) {
    memmove((char *)dst + dst_at * elem_bytes, (const char *)src + src_at * elem_bytes, (size_t)(n * elem_bytes));
    return;
  }
  switch (elem_bytes) {
    case 1: COPY(uint8_t)
    case 2: COPY(uint16_t)
    case 4: COPY(uint32_t)
    case 8: COPY(uint64_t)
    default: TC_ASSERT(!"element of 1, 2, 4 or 8 bytes");
  }
}
