// Host data in tests. Conversions are written here again, from the formats' definitions, so that no
// test leans on the library.
#include "tests/near.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct float_format {
  int mantissa_bits, min_exponent;  // of the smallest normal number
} float_format;

static float_format format_of(tc_type type) {
  switch (type) {
    case TC_F16: return (float_format){10, -14};
    case TC_BF16: return (float_format){7, -126};
    case TC_F32: return (float_format){23, -126};
    default: return (float_format){52, -1022};
  }
}

bool near_is_float(tc_type type) {
  return type == TC_F16 || type == TC_BF16 || type == TC_F32 || type == TC_F64;
}

static double half_to_double(uint16_t h) {
  int exponent = h >> 10 & 31, mantissa = h & 1023;
  double v = exponent == 31 ? (mantissa ? (double)NAN : (double)INFINITY)
             : exponent     ? ldexp(1024 + mantissa, exponent - 25)
                            : ldexp(mantissa, -24);
  return h >> 15 ? -v : v;
}

static double brain_to_double(uint16_t h) {
  uint32_t word = (uint32_t)h << 16;
  float v;
  memcpy(&v, &word, sizeof v);
  return (double)v;
}

double near_get(tc_type type, const void *data, int64_t i) {
  switch (type) {
    case TC_BOOL:
    case TC_U8: return ((const uint8_t *)data)[i];
    case TC_I8: return ((const int8_t *)data)[i];
    case TC_I16: return ((const int16_t *)data)[i];
    case TC_I32: return ((const int32_t *)data)[i];
    case TC_I64: return (double)((const int64_t *)data)[i];
    case TC_F16: return half_to_double(((const uint16_t *)data)[i]);
    case TC_BF16: return brain_to_double(((const uint16_t *)data)[i]);
    case TC_F32: return (double)((const float *)data)[i];
    case TC_F64: return ((const double *)data)[i];
    default: return (double)NAN;
  }
}

double near_ulp(tc_type type, double v) {
  float_format f = format_of(type);
  int exponent = v == 0 ? f.min_exponent : ilogb(v);
  if (exponent < f.min_exponent) exponent = f.min_exponent;
  return ldexp(1.0, exponent - f.mantissa_bits);
}

// v rounded to the half format, whose bits are sign, exponent, mantissa.
static uint16_t double_to_half(tc_type type, double v) {
  float_format f = format_of(type);
  int bits = f.mantissa_bits;
  uint16_t sign = signbit(v) ? 0x8000 : 0, inf = (uint16_t)(((1 << (15 - bits)) - 1) << bits);
  if (isnan(v)) return (uint16_t)(sign | inf | 1 << (bits - 1));
  if (isinf(v)) return sign | inf;
  double unit = near_ulp(type, v), q = nearbyint(fabs(v) / unit);  // exact: unit is a power of two
  int exponent = (int)(ilogb(unit) + bits - f.min_exponent) + 1;   // biased, of the binade that unit belongs to
  // a carry out of the mantissa moves to the next exponent by itself
  int64_t code = (int64_t)q + ((int64_t)(exponent - 1) << bits);
  if (code >= inf) return sign | inf;
  return (uint16_t)(sign | code);
}

void near_set(tc_type type, void *data, int64_t i, double v) {
  switch (type) {
    case TC_BOOL: ((uint8_t *)data)[i] = v != 0; break;
    case TC_U8: ((uint8_t *)data)[i] = (uint8_t)(int64_t)v; break;
    case TC_I8: ((int8_t *)data)[i] = (int8_t)(int64_t)v; break;
    case TC_I16: ((int16_t *)data)[i] = (int16_t)(int64_t)v; break;
    case TC_I32: ((int32_t *)data)[i] = (int32_t)(int64_t)v; break;
    case TC_I64: ((int64_t *)data)[i] = (int64_t)v; break;
    case TC_F16:
    case TC_BF16: ((uint16_t *)data)[i] = double_to_half(type, v); break;
    case TC_F32: ((float *)data)[i] = (float)v; break;
    case TC_F64: ((double *)data)[i] = v; break;
    default: break;
  }
}

// One of g and w is infinite: near if the other is as close to the end of the range as tol allows.
static bool near_overflow(tc_type type, double g, double w, near_tol tol) {
  double finite = fabs(isinf(w) ? g : w), unit = ldexp(1.0, (type == TC_F16   ? 15
                                                             : type == TC_F64 ? 1023
                                                                              : 127) -
                                                                format_of(type).mantissa_bits);
  double last = unit * (ldexp(2.0, format_of(type).mantissa_bits) - 1);
  return tol.ulp >= 1 && isfinite(finite) && !signbit(g) == !signbit(w) && (last - finite) / unit <= tol.ulp - 1;
}

static bool element_near(tc_type type, const void *got, const void *want, int64_t i, near_tol tol) {
  size_t bytes = tc_type_bytes(type);
  if (memcmp((const char *)got + i * (int64_t)bytes, (const char *)want + i * (int64_t)bytes, bytes) == 0) return true;
  if (!near_is_float(type)) return false;
  double g = near_get(type, got, i), w = near_get(type, want, i);
  if (isnan(g) || isnan(w)) return isnan(g) && isnan(w);
  if (tol.bits) return false;
  if (g == w) return true;
  if (isinf(g) || isinf(w)) return near_overflow(type, g, w, tol);
  double d = fabs(g - w);
  return d <= tol.abs || d <= tol.ulp * near_ulp(type, w);
}

int64_t near_find(tc_type type, const void *got, const void *want, int64_t n, near_tol tol) {
  for (int64_t i = 0; i < n; i++)
    if (!element_near(type, got, want, i, tol)) return i;
  return -1;
}

const char *near_dims_text(tc_dims d, char *text, size_t bytes) {
  size_t at = 0;
  text[0] = 0;
  for (int k = 0; k < d.rank && at + 24 < bytes; k++)
    at += (size_t)snprintf(text + at, bytes - at, "%s%lld", k ? ", " : "[", (long long)d.dim[k]);
  snprintf(text + at, bytes - at, d.rank > 0 ? "]" : "[]");
  return text;
}

bool near_dims_equal(tc_dims a, tc_dims b) {
  if (a.rank != b.rank) return false;
  for (int k = 0; k < a.rank; k++)
    if (a.dim[k] != b.dim[k]) return false;
  return true;
}

int64_t near_count(tc_dims d) {
  int64_t n = 1;
  for (int k = 0; k < d.rank; k++) n *= d.dim[k];
  return n;
}

// Where element i of a row-major array lies in its transpose.
static int64_t transposed(tc_dims d, int64_t i) {
  int64_t at[TC_MAX_RANK], to = 0;
  for (int k = d.rank - 1; k >= 0; i /= d.dim[k--]) at[k] = i % d.dim[k];
  for (int k = d.rank - 1; k >= 0; k--) to = to * d.dim[k] + at[k];
  return to;
}

tc_tensor near_present(const void *data, tc_dims dims, tc_type type, char how) {
  if (!how) return tc_from_host(data, dims, type);
  int last = dims.rank - 1;
  size_t element = tc_type_bytes(type);
  int64_t n = near_count(dims), columns = dims.dim[last];
  char *made = calloc((size_t)n * 2 + 1, element);
  if (!made) return tc_from_host(NULL, dims, TC_N_TYPES);  // poison
  for (int64_t i = 0; i < n; i++) {
    int64_t to = how == 'T'   ? transposed(dims, i)
                 : how == 'S' ? 2 * i
                              : i / columns * columns + (columns - 1 - i % columns);
    memcpy(made + to * (int64_t)element, (const char *)data + i * (int64_t)element, element);
  }
  tc_dims made_dims = dims, axes = dims;
  for (int k = 0; k <= last && how == 'T'; k++) made_dims.dim[k] = dims.dim[last - k], axes.dim[k] = last - k;
  if (how == 'S') made_dims.dim[last] *= 2;
  tc_tensor base = tc_from_host(made, made_dims, type);
  free(made);
  if (how == 'T') return tc_permute(base, axes);
  return how == 'S' ? tc_slice(base, last, 0, 2 * columns, 2) : tc_slice(base, last, columns - 1, -columns - 1, -1);
}

const char *near_device(void) {
  const char *name = getenv("TC_TEST_DEVICE");
  return name ? name : "tc:cpu";
}

bool near_is_slow(void) {
  return getenv("TC_TEST_DEVICE") != NULL;
}
