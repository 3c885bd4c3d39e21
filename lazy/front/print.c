// Text of a tensor, as str(ndarray) with NumPy's default options: precision 8, threshold 1000, 3
// edge items, line width 75.
// The idea: collect the elements that will be shown, choose one common format for them, then lay
// them out recursively.
// Digits are the shortest that name the value in its own type; bf16, which NumPy lacks, follows the
// same rule.
// Source: numpy/_core/arrayprint.py, FloatingFormat and _formatArray;
// numpy/_core/src/multiarray/scalartypes.c.src for rank 0.
// Threads: thread-compatible; formatting is a sync point.
#define TC_NO_SITES
#include "lazy/front/operand.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PRECISION 8
#define THRESHOLD 1000
#define EDGE_ITEMS 3
#define LINE_WIDTH 75

// ---- A growing string; failed stays true after the first failure ----

typedef struct text {
  char *at;
  size_t n, cap;
  bool failed;
} text;

static void text_put(text *s, const char *bytes, size_t n) {
  if (!s->failed && s->n + n + 1 > s->cap) {
    size_t cap = (s->n + n + 1) * 2;
    char *at = realloc(s->at, cap);
    if (at == NULL)
      s->failed = true;
    else
      s->at = at, s->cap = cap;
  }
  if (s->failed) return;
  memcpy(s->at + s->n, bytes, n);
  s->n += n;
  s->at[s->n] = 0;
}

static void text_fill(text *s, char c, int n) {
  for (int i = 0; i < n; i++) text_put(s, &c, 1);
}

// ---- Elements ----

typedef struct format {
  tc_type type;
  bool is_float, exponent, has_rank;
  int precision;            // digits after the point when exponent
  int pad_left, pad_right;  // width before and after the point
  int exp_digits;
  int width;                // of integers
} format;

static double half_value(uint16_t h) {
  int e = h >> 10 & 31, m = h & 1023;
  double v = e == 31 ? (m ? (double)NAN : (double)INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
  return h >> 15 ? -v : v;
}

static double float_at(const void *data, tc_type type, int64_t i) {
  if (type == TC_F64) return ((const double *)data)[i];
  if (type == TC_F32) return (double)((const float *)data)[i];
  uint16_t h = ((const uint16_t *)data)[i];
  if (type == TC_F16) return half_value(h);
  uint32_t bits = (uint32_t)h << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return (double)f;
}

static int64_t int_at(const void *data, tc_type type, int64_t i) {
  switch (type) {
    case TC_BOOL: return ((const uint8_t *)data)[i] != 0;
    case TC_U8: return ((const uint8_t *)data)[i];
    case TC_I8: return ((const int8_t *)data)[i];
    case TC_I16: return ((const int16_t *)data)[i];
    case TC_I32: return ((const int32_t *)data)[i];
    default: return ((const int64_t *)data)[i];
  }
}

// The nearest value of a type.
static double round_to(double v, tc_type type) {
  if (type == TC_F64 || !isfinite(v) || v == 0) return v;
  if (type == TC_F32) return (double)(float)v;
  int e, bits = type == TC_F16 ? 11 : 8, lowest = type == TC_F16 ? -24 : -133;
  frexp(v, &e);
  double unit = ldexp(1.0, TC_MAX_OF(e - bits, lowest));
  return nearbyint(v / unit) * unit;
}

// The value that the decimal text names in a type.
static double parse_as(const char *decimal, tc_type type) {
  return type == TC_F32 ? (double)strtof(decimal, NULL) : round_to(strtod(decimal, NULL), type);
}

// From this magnitude on, an exponent is printed: 10 to the digits the type holds, as NumPy does
// from 2.3 on. bf16 is treated as f16.
static double large(tc_type type, double of_f64) {
  return type == TC_F64 ? of_f64 : type == TC_F32 ? 1e6 : 1e3;
}

// Shortest decimal of |v|: digits without point, value digits[0].digits[1..] * 10^exp.
static int shortest(double v, tc_type type, char digits[24], int *out_exp) {
  char s[40];
  v = fabs(v);
  for (int p = 0; p <= 16; p++) {
    snprintf(s, sizeof s, "%.*e", p, v);
    if (p == 16 || parse_as(s, type) == v) break;
  }
  int n = 0;
  char *c = s;
  for (; *c != 'e'; c++)
    if (*c != '.') digits[n++] = *c;
  *out_exp = atoi(c + 1);
  while (n > 1 && digits[n - 1] == '0') n--;
  digits[n] = 0;
  return n;
}

// Positional text: at most max_frac digits after the point, none of them a trailing zero; the point
// stays ("3.").
static void positional(double v, tc_type type, int max_frac, char *out, size_t bytes) {
  char digits[24];
  int exp, n = shortest(v, type, digits, &exp), n_frac = TC_MAX_OF(0, n - 1 - exp);
  if (n_frac > max_frac) {
    snprintf(out, bytes, "%.*f", max_frac, v);
    size_t len = strlen(out);
    while (out[len - 1] == '0') out[--len] = 0;
    return;
  }
  size_t k = 0;
  if (signbit(v)) out[k++] = '-';
  if (exp < 0) out[k++] = '0';
  for (int i = 0; i <= exp; i++) out[k++] = i < n ? digits[i] : '0';
  out[k++] = '.';
  for (int i = 0; i < n_frac; i++) {
    int d = exp + 1 + i;
    out[k++] = d < 0 ? '0' : digits[d];
  }
  out[k] = 0;
}

// Text with an exponent of at least exp_digits: at most max_frac digits after the point and at
// least min_frac.
static void scientific(double v, tc_type type, int max_frac, int min_frac, int exp_digits, char *out, size_t bytes) {
  char digits[24], s[48];
  int exp, n = shortest(v, type, digits, &exp);
  int n_frac = TC_MIN(TC_MAX_OF(n - 1, min_frac), max_frac);
  if (n_frac != n - 1) {  // padding shows the value's further digits, not zeros, as NumPy's does
    snprintf(s, sizeof s, "%.*e", n_frac, fabs(v));
    n = 0;
    char *c = s;
    for (; *c != 'e'; c++)
      if (*c != '.') digits[n++] = *c;
    exp = atoi(c + 1);
    while (n - 1 > min_frac && n > 1 && digits[n - 1] == '0') n--;
    digits[n] = 0;
  }
  snprintf(out, bytes, "%s%c.%se%c%0*d", signbit(v) ? "-" : "", digits[0], digits + 1, exp < 0 ? '-' : '+',
           exp_digits > 2 ? 3 : 2, abs(exp));
}

// ---- One format for all shown elements ----

typedef struct shown {
  const void *data;
  const tc_dims *dims;
  bool summary;
} shown;

// Calls visit for every element that will be shown.
typedef void (*visitor)(const shown *s, int64_t i, void *arg);
static void each(const shown *s, int axis, int64_t base, visitor visit, void *arg) {
  if (axis == s->dims->rank) {
    visit(s, base, arg);
    return;
  }
  int64_t n = s->dims->dim[axis];
  for (int64_t i = 0; i < n; i++) {
    if (s->summary && n > 2 * EDGE_ITEMS && i == EDGE_ITEMS) i = n - EDGE_ITEMS;
    each(s, axis + 1, base * n + i, visit, arg);
  }
}

typedef struct survey {
  format *f;
  double max, min;  // of the finite nonzero magnitudes
  bool any_finite, any_other, any_neg_inf;
} survey;

static void survey_range(const shown *s, int64_t i, void *arg) {
  survey *v = arg;
  double x = float_at(s->data, v->f->type, i);
  if (!isfinite(x)) {
    v->any_other = true;
    v->any_neg_inf |= isinf(x) && x < 0;
    return;
  }
  v->any_finite = true;
  x = fabs(x);
  if (x != 0 && (v->max == 0 || x > v->max)) v->max = x;
  if (x != 0 && (v->min == 0 || x < v->min)) v->min = x;
}

static void survey_width(const shown *s, int64_t i, void *arg) {
  survey *v = arg;
  format *f = v->f;
  double x = float_at(s->data, f->type, i);
  if (!isfinite(x)) return;
  char out[400];
  if (f->exponent)
    scientific(x, f->type, PRECISION, 0, 2, out, sizeof out);
  else
    positional(x, f->type, PRECISION, out, sizeof out);
  char *point = strchr(out, '.'), *end = f->exponent ? strchr(out, 'e') : out + strlen(out);
  f->pad_left = TC_MAX_OF(f->pad_left, (int)(point - out));
  f->pad_right = TC_MAX_OF(f->pad_right, (int)(end - point) - 1);
  if (f->exponent) f->exp_digits = TC_MAX_OF(f->exp_digits, (int)strlen(end) - 2);
}

static void survey_int(const shown *s, int64_t i, void *arg) {
  format *f = arg;
  int n = snprintf(NULL, 0, "%lld", (long long)int_at(s->data, f->type, i));
  f->width = TC_MAX_OF(f->width, n);
}

static format choose_format(const shown *s, tc_type type) {
  format f = {.type = type, .has_rank = s->dims->rank > 0};
  f.is_float = tc_is_floating(type);
  if (!f.is_float) {
    each(s, 0, 0, survey_int, &f);
    return f;
  }
  survey v = {.f = &f};
  each(s, 0, 0, survey_range, &v);
  // NumPy compares in the array's own type.
  f.exponent = v.max != 0 &&
               (v.max >= large(type, 1e8) || v.min < round_to(0.0001, type) || round_to(v.max / v.min, type) > 1000.0);
  each(s, 0, 0, survey_width, &v);
  if (f.exponent) {
    f.precision = f.pad_right;
    f.pad_right = f.exp_digits + 2 + f.precision;
  }
  if (v.any_other) {
    int offset = f.pad_right + 1;
    f.pad_left = TC_MAX_OF(f.pad_left, TC_MAX_OF(3 - offset, 3 + v.any_neg_inf - offset));
  }
  return f;
}

static void put_padded(text *out, const char *word, int left, int right) {
  text_fill(out, ' ', left);
  text_put(out, word, strlen(word));
  text_fill(out, ' ', right);
}

static void put_element(text *out, const format *f, const void *data, int64_t i) {
  char word[400];
  if (f->type == TC_BOOL) {
    bool on = int_at(data, f->type, i) != 0;
    put_padded(out, on ? "True" : "False", on && f->has_rank, 0);
    return;
  }
  if (!f->is_float) {
    snprintf(word, sizeof word, "%*lld", f->width, (long long)int_at(data, f->type, i));
    text_put(out, word, strlen(word));
    return;
  }
  double v = float_at(data, f->type, i);
  if (!isfinite(v)) {
    snprintf(word, sizeof word, "%s", isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
    put_padded(out, word, f->pad_left + f->pad_right + 1 - (int)strlen(word), 0);
  } else if (f->exponent) {
    scientific(v, f->type, f->precision, f->precision, f->exp_digits, word, sizeof word);
    put_padded(out, word, f->pad_left - (int)(strchr(word, '.') - word), 0);
  } else {
    positional(v, f->type, PRECISION, word, sizeof word);
    char *point = strchr(word, '.');
    put_padded(out, word, f->pad_left - (int)(point - word), f->pad_right - (int)strlen(point + 1));
  }
}

// ---- Layout ----

// Appends a word to the line that begins at *line_at, after wrapping where it would not fit; indent
// spaces begin a line.
static void extend_line(text *out, size_t *line_at, const char *word, size_t n, int width, int indent) {
  size_t line = out->n - *line_at;
  if ((int)(line + n) > width && line > (size_t)indent) {
    while (out->n > *line_at && out->at[out->n - 1] == ' ') out->n--;
    text_put(out, "\n", 1);
    *line_at = out->n;
    text_fill(out, ' ', indent);
  }
  text_put(out, word, n);
}

static void put_row(text *out, const shown *s, const format *f, int64_t base, int64_t n, int indent, int width) {
  // The bracket takes the last column of the indent.
  size_t line_at = out->n - (size_t)indent;
  text word = {0};
  for (int64_t i = 0; i < n; i++) {
    if (s->summary && n > 2 * EDGE_ITEMS && i == EDGE_ITEMS) {
      extend_line(out, &line_at, "...", 3, width - 1, indent);
      text_put(out, " ", 1);
      i = n - EDGE_ITEMS;
    }
    word.n = 0;
    put_element(&word, f, s->data, base + i);
    if (word.failed) out->failed = true;
    if (out->failed) break;
    extend_line(out, &line_at, word.at, word.n, width - 1, indent);
    if (i + 1 < n) text_put(out, " ", 1);
  }
  free(word.at);
}

// indent counts the columns before the elements of this level, its own bracket included.
static void put_level(text *out, const shown *s, const format *f, int axis, int64_t base, int indent, int width) {
  int64_t n = s->dims->dim[axis];
  int left = s->dims->rank - axis;
  text_put(out, "[", 1);
  if (left == 1) {
    put_row(out, s, f, base * n, n, indent, width);
  } else {
    for (int64_t i = 0; i < n && !out->failed; i++) {
      if (i > 0) {
        text_fill(out, '\n', left - 1);
        text_fill(out, ' ', indent);
      }
      if (s->summary && n > 2 * EDGE_ITEMS && i == EDGE_ITEMS) {
        text_put(out, "...", 3);
        text_fill(out, '\n', left - 1);
        text_fill(out, ' ', indent);
        i = n - EDGE_ITEMS;
      }
      put_level(out, s, f, axis + 1, base * n + i, indent + 1, width - 1);
    }
  }
  text_put(out, "]", 1);
}

// str() of a NumPy scalar. From 1e-4 to 1e16 (less in narrow types) it is positional, with a digit
// after the point. Otherwise it has an exponent, and no bare point.
static void put_scalar(text *out, const void *data, tc_type type) {
  char word[400];
  double v = float_at(data, type, 0), size = fabs(v);
  if (!isfinite(v)) {
    snprintf(word, sizeof word, "%s", isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
  } else if (size == 0 || (size >= 1e-4 && size < large(type, 1e16))) {
    positional(v, type, 24, word, sizeof word);
    if (word[strlen(word) - 1] == '.') strcat(word, "0");
  } else {
    scientific(v, type, 17, 0, 2, word, sizeof word);
    char *point = strchr(word, '.');
    if (point[1] == 'e') memmove(point, point + 1, strlen(point));
  }
  text_put(out, word, strlen(word));
}

static char *format_value(const void *data, const tc_dims *dims, tc_type type, int64_t n) {
  text out = {0};
  shown s = {.data = data, .dims = dims, .summary = n > THRESHOLD};
  if (n == 0) {
    text_put(&out, "[]", 2);
  } else if (dims->rank == 0 && tc_is_floating(type)) {
    put_scalar(&out, data, type);
  } else {
    format f = choose_format(&s, type);
    if (dims->rank == 0)
      put_element(&out, &f, data, 0);
    else
      put_level(&out, &s, &f, 0, 0, 1, LINE_WIDTH);
  }
  if (!out.failed) return out.at;
  free(out.at);
  return NULL;
}

static tc_status format_at(const char *op, tc_tensor t, tc_site site, char **out) {
  TC_CALLED_AS(op);
  *out = NULL;
  TC_TRY(tc_operand_check(op, t, site));
  tc_dims dims = tc_shape_at(t, site);
  tc_type type = tc_dtype_at(t, site);
  int64_t n = tc_numel_at(t, site);
  size_t bytes = (size_t)n * tc_type_bytes(type);
  void *data = malloc(bytes ? bytes : 1);
  if (data == NULL) return tc_fail(TC_ERR_MEMORY, op, site, "no memory for %zu bytes", bytes);
  tc_status st = tc_to_host_at(t, data, bytes, site);
  if (st == TC_OK) {
    *out = format_value(data, &dims, type, n);
    if (*out == NULL) st = tc_fail(TC_ERR_MEMORY, op, site, "no memory for the text");
  }
  free(data);
  return st;
}

char *tc_format_at(tc_tensor t, tc_site site) {
  char *out;
  return format_at("format", t, site, &out) == TC_OK ? out : NULL;
}

tc_status tc_print_at(tc_tensor t, tc_site site) {
  char *out;
  TC_TRY(format_at("print", t, site, &out));
  bool ok = puts(out) >= 0;
  free(out);
  return ok ? TC_OK : tc_fail(TC_ERR_IO, "print", site, "stdout cannot be written");
}
