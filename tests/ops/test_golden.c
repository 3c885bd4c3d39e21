// Every public op against values from NumPy and PyTorch (tests/golden/golden.txt, made by
// tools/golden.py, which describes the format).
// The dispatch table is api.def itself: the C type of a function chooses how its arguments are
// read, so an op cannot be missing here, and one with a new signature does not compile until
// `call_op` knows it.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TC_NO_SITES
#include <tc/tc.h>

#include "lowering/jit/compiler.h"
#include "tests/near.h"

#ifndef TC_GOLDEN_DIR
#define TC_GOLDEN_DIR "tests/golden"
#endif

enum { MAX_OPERANDS = 8, MAX_VALUES = 16384, MAX_FAILURES = 12 };

typedef struct value {
  tc_type type;
  tc_dims dims;
  unsigned char *data;
  size_t bytes;
} value;

typedef struct call {
  char *attr;  // what is left of the attributes
  tc_tensor x[MAX_OPERANDS];
  int n, at;  // operands, and those taken
} call;

// ---- Reading the file ----

static tc_type type_named(const char *name, size_t length) {
  for (int t = 0; t < TC_N_TYPES; t++)
    if (strlen(tc_type_name((tc_type)t)) == length && strncmp(tc_type_name((tc_type)t), name, length) == 0)
      return (tc_type)t;
  cr_assert_fail("no type %.*s", (int)length, name);
  return TC_N_TYPES;
}

// "[2,3]" or "*"; *end is set past it.
static tc_dims parse_dims(const char *text, char **end) {
  tc_dims d = tc_dims_of(0, NULL);
  if (*text == '*') {
    *end = (char *)text + 1;
    return tc_dims_all();
  }
  text++;
  while (*text != ']') {
    d.dim[d.rank++] = strtoll(text, end, 10);
    text = **end == ',' ? *end + 1 : *end;
  }
  *end = (char *)text + 1;
  return d;
}

static int hex_digit(char c) {
  return c <= '9' ? c - '0' : c - 'a' + 10;
}

static value parse_value(const char *spec, const char *hex) {
  value v;
  const char *dims = strchr(spec, '[');
  char *end;
  v.type = type_named(spec, (size_t)(dims - spec));
  v.dims = parse_dims(dims, &end);
  size_t element = tc_type_bytes(v.type);
  v.bytes = element;
  for (int k = 0; k < v.dims.rank; k++) v.bytes *= (size_t)v.dims.dim[k];
  v.data = calloc(v.bytes + 1, 1);
  bool alike = *hex == '*';
  hex += alike;
  for (size_t i = 0; i < v.bytes; i++) {
    const char *two = hex + 2 * (alike ? i % element : i);
    v.data[i] = (unsigned char)(hex_digit(two[0]) << 4 | hex_digit(two[1]));
  }
  return v;
}

// ---- Attributes, in the order of the C parameters ----

static tc_tensor take_tensor(call *c) {
  cr_assert(c->at < c->n, "too few operands");
  return c->x[c->at++];
}

static char *take_word(call *c) {
  char *word = c->attr, *end = word + strcspn(word, ";");
  c->attr = *end ? end + 1 : end;
  *end = 0;
  return word;
}
static int64_t take_int(call *c) {
  return strtoll(take_word(c), NULL, 10);
}
static double take_float(call *c) {
  return strtod(take_word(c), NULL);
}
static tc_type take_type(call *c) {
  char *word = take_word(c);
  return type_named(word, strlen(word));
}
static tc_dims take_dims(call *c) {
  char *end;
  return parse_dims(take_word(c), &end);
}
static tc_num take_num(call *c) {
  char *word = take_word(c);
  return *word == 'i' ? tc_num_int(strtoll(word + 1, NULL, 10)) : tc_num_float(strtod(word + 1, NULL));
}

static tc_conv_options take_conv(call *c) {
  tc_conv_options o = {.stride = take_dims(c)};
  o.padding = take_dims(c), o.dilation = take_dims(c), o.output_padding = take_dims(c), o.groups = take_int(c);
  return o;
}
static tc_pool_options take_pool(call *c) {
  tc_pool_options o = {.stride = take_dims(c)};
  o.padding = take_dims(c), o.dilation = take_dims(c), o.exclude_padding = take_int(c) != 0,
  o.ceil_mode = take_int(c) != 0, o.divisor_override = take_int(c);
  return o;
}
static tc_rotary_options take_rotary(call *c) {
  tc_rotary_options o = {.interleaved = take_int(c) != 0};
  o.offset = take_int(c);
  return o;
}
static tc_batch_norm_options take_batch_norm(call *c) {
  tc_batch_norm_options o = {.training = take_int(c) != 0};
  o.momentum = take_float(c), o.eps = take_float(c);
  return o;
}
static tc_quantize_options take_quantize(call *c) {
  tc_quantize_options o = {.axis = (int)take_int(c)};
  o.group = take_int(c);
  return o;
}

static tc_attention_options take_attention(call *c) {
  tc_attention_options o = {.causal = take_int(c) != 0};
  o.scale = take_float(c), o.key_length = take_int(c), o.dropout = take_float(c);
  return o;
}
static tc_interpolate_options take_resize(call *c) {
  tc_interpolate_options o = {.mode = take_int(c) ? TC_LINEAR : TC_NEAREST};
  o.align_corners = take_int(c) != 0;
  return o;
}

static tc_loss_options take_loss(call *c) {
  tc_loss_options o = {.reduction = (tc_reduction)take_int(c)};
  o.delta = take_float(c), o.beta = take_float(c);
  return o;
}
static tc_cross_entropy_options take_classes(call *c) {
  tc_cross_entropy_options o = {.reduction = (tc_reduction)take_int(c)};
  o.weight = take_tensor(c), o.label_smoothing = take_float(c), o.ignore_index = take_int(c);
  return o;
}
static tc_bce_options take_bce(call *c) {
  tc_bce_options o = {.reduction = (tc_reduction)take_int(c)};
  o.weight = take_tensor(c), o.pos_weight = take_tensor(c);
  return o;
}
static tc_kl_div_options take_kl(call *c) {
  tc_kl_div_options o = {.reduction = (tc_reduction)take_int(c)};
  o.log_target = take_int(c) != 0;
  return o;
}
static tc_margin_options take_margin(call *c) {
  tc_margin_options o = {.reduction = (tc_reduction)take_int(c)};
  o.margin = take_float(c), o.p = take_float(c), o.eps = take_float(c), o.swap = take_int(c) != 0;
  return o;
}

// ---- Dispatch: one row per signature: its tag, parameter types, and the argument list, whose
// parts are taken left to right ----

#define T tc_tensor
#define L const tc_tensor *
// clang-format off
#define SIGNATURES(ROW)                                                                                                                      \
  ROW(DIMS_TYPE, (tc_dims, tc_type)) ROW(DIMS_F_TYPE, (tc_dims, double, tc_type)) ROW(DIMS_I_TYPE, (tc_dims, int64_t, tc_type))              \
  ROW(F, (double)) ROW(T1, (T)) ROW(T_F, (T, double)) ROW(F3_TYPE, (double, double, double, tc_type))                                        \
  ROW(F2_I_TYPE, (double, double, int64_t, tc_type)) ROW(I2_TYPE, (int64_t, int64_t, tc_type))                                               \
  ROW(I3_TYPE, (int64_t, int64_t, int64_t, tc_type)) ROW(RANDINT, (int64_t, int64_t, tc_dims, tc_type)) ROW(BERNOULLI, (double, tc_dims))    \
  ROW(I, (int64_t)) ROW(T_TYPE, (T, tc_type)) ROW(T2, (T, T)) ROW(T_NUM, (T, tc_num)) ROW(T3, (T, T, T)) ROW(T_F2, (T, double, double))      \
  ROW(T2_F, (T, T, double)) ROW(T_DIMS, (T, tc_dims)) ROW(T_A2, (T, int, int)) ROW(T_A, (T, int)) ROW(SLICE, (T, int, int64_t, int64_t, int64_t)) \
  ROW(T_A_I, (T, int, int64_t)) ROW(T_I_A, (T, int64_t, int)) ROW(PAD, (T, tc_dims, tc_dims, double)) ROW(LIST_A, (int, L, int))             \
  ROW(T_I, (T, int64_t)) ROW(TO, (T, const char *)) ROW(T_DIMS_B, (T, tc_dims, bool)) ROW(T_DIMS_F_B, (T, tc_dims, double, bool))            \
  ROW(T_F_DIMS_B, (T, double, tc_dims, bool)) ROW(T_A_B, (T, int, bool)) ROW(T3_F, (T, T, T, double)) ROW(T_A_T, (T, int, T))                \
  ROW(T2_A, (T, T, int)) ROW(T_A_T2, (T, int, T, T)) ROW(T2_F_I, (T, T, double, int64_t)) ROW(T_A_I2, (T, int, int64_t, int64_t))           \
  ROW(ATTENTION, (T, T, T, T, tc_attention_options))                                                                                         \
  ROW(CONV, (T, T, T, tc_conv_options)) ROW(POOL, (T, tc_dims, tc_pool_options)) ROW(BATCH_NORM, (T, T, T, T, T, tc_batch_norm_options))     \
  ROW(T_I_A_B, (T, int64_t, int, bool)) ROW(T2_B, (T, T, bool)) ROW(ROTARY, (T, T, T, tc_rotary_options)) ROW(I2_F, (int64_t, int64_t, double))               \
  ROW(T_I_T2_F, (T, int64_t, T, T, double)) ROW(RESIZE, (T, tc_dims, tc_interpolate_options)) ROW(I_T, (int64_t, T))    \
  ROW(LOSS, (T, T, tc_loss_options)) ROW(CLASSES, (T, T, tc_cross_entropy_options)) ROW(BCE, (T, T, tc_bce_options)) ROW(KL, (T, T, tc_kl_div_options)) \
  ROW(MARGIN, (T, T, T, tc_margin_options)) ROW(T2_A_F, (T, T, int, double)) \
  ROW(QUANTIZE, (T, T, T, tc_type, tc_quantize_options)) ROW(DEQUANTIZE, (T, T, T, tc_quantize_options)) ROW(T4, (T, T, T, T)) \
  ROW(T2_NUM, (T, T, tc_num)) ROW(T_NUM_T, (T, tc_num, T)) ROW(T_NUM2, (T, tc_num, tc_num))
// clang-format on

enum signature {
#define ROW(tag, params) SIG_##tag,
  SIGNATURES(ROW)
#undef ROW
};
#define ROW(tag, params) typedef tc_tensor fn_##tag params;
SIGNATURES(ROW)
#undef ROW

#define ROW(tag, params) fn_##tag * : SIG_##tag,
#define SIGNATURE_OF(f) _Generic(&f, SIGNATURES(ROW) int: 0)

typedef void any_fn(void);
static const struct op_row {
  const char *name;
  enum signature signature;
  any_fn *fn;
} op_rows[] = {
#define TC_FN(name, params, args) {#name, SIGNATURE_OF(name), (any_fn *)name},
#include <tc/api.def>
#undef TC_FN
};
#undef ROW
enum { N_OPS = sizeof op_rows / sizeof op_rows[0] };

// C leaves the order of argument evaluation open, so what a signature needs is taken into variables
// first.
static tc_tensor call_op(const struct op_row *op, call *c) {
  any_fn *f = op->fn;
  tc_tensor a, b, d, e, h;
  tc_dims s, s2;
  tc_num m;
  double x, y, z;
  int64_t i, j, k;
  switch (op->signature) {
    case SIG_DIMS_TYPE: s = take_dims(c); return ((fn_DIMS_TYPE *)f)(s, take_type(c));
    case SIG_DIMS_F_TYPE: s = take_dims(c), x = take_float(c); return ((fn_DIMS_F_TYPE *)f)(s, x, take_type(c));
    case SIG_DIMS_I_TYPE: s = take_dims(c), i = take_int(c); return ((fn_DIMS_I_TYPE *)f)(s, i, take_type(c));
    case SIG_F: return ((fn_F *)f)(take_float(c));
    case SIG_T1: return ((fn_T1 *)f)(take_tensor(c));
    case SIG_T_F: a = take_tensor(c); return ((fn_T_F *)f)(a, take_float(c));
    case SIG_F3_TYPE:
      x = take_float(c), y = take_float(c), z = take_float(c);
      return ((fn_F3_TYPE *)f)(x, y, z, take_type(c));
    case SIG_F2_I_TYPE:
      x = take_float(c), y = take_float(c), i = take_int(c);
      return ((fn_F2_I_TYPE *)f)(x, y, i, take_type(c));
    case SIG_I2_TYPE: i = take_int(c), j = take_int(c); return ((fn_I2_TYPE *)f)(i, j, take_type(c));
    case SIG_I3_TYPE:
      i = take_int(c), j = take_int(c), k = take_int(c);
      return ((fn_I3_TYPE *)f)(i, j, k, take_type(c));
    case SIG_RANDINT:
      i = take_int(c), j = take_int(c), s = take_dims(c);
      return ((fn_RANDINT *)f)(i, j, s, take_type(c));
    case SIG_BERNOULLI: x = take_float(c); return ((fn_BERNOULLI *)f)(x, take_dims(c));
    case SIG_I: return ((fn_I *)f)(take_int(c));
    case SIG_T_TYPE: a = take_tensor(c); return ((fn_T_TYPE *)f)(a, take_type(c));
    case SIG_QUANTIZE: {
      a = take_tensor(c), b = take_tensor(c), d = take_tensor(c);
      tc_type type = take_type(c);
      return ((fn_QUANTIZE *)f)(a, b, d, type, take_quantize(c));
    }
    case SIG_DEQUANTIZE:
      a = take_tensor(c), b = take_tensor(c), d = take_tensor(c);
      return ((fn_DEQUANTIZE *)f)(a, b, d, take_quantize(c));
    case SIG_T4:
      a = take_tensor(c), b = take_tensor(c), d = take_tensor(c);
      return ((fn_T4 *)f)(a, b, d, take_tensor(c));
    case SIG_T2: a = take_tensor(c); return ((fn_T2 *)f)(a, take_tensor(c));
    case SIG_T_NUM: a = take_tensor(c); return ((fn_T_NUM *)f)(a, take_num(c));
    case SIG_T2_NUM: a = take_tensor(c), b = take_tensor(c); return ((fn_T2_NUM *)f)(a, b, take_num(c));
    case SIG_T_NUM_T: a = take_tensor(c), m = take_num(c); return ((fn_T_NUM_T *)f)(a, m, take_tensor(c));
    case SIG_T_NUM2: a = take_tensor(c), m = take_num(c); return ((fn_T_NUM2 *)f)(a, m, take_num(c));
    case SIG_T3: a = take_tensor(c), b = take_tensor(c); return ((fn_T3 *)f)(a, b, take_tensor(c));
    case SIG_T_F2: a = take_tensor(c), x = take_float(c); return ((fn_T_F2 *)f)(a, x, take_float(c));
    case SIG_T2_F: a = take_tensor(c), b = take_tensor(c); return ((fn_T2_F *)f)(a, b, take_float(c));
    case SIG_T_DIMS: a = take_tensor(c); return ((fn_T_DIMS *)f)(a, take_dims(c));
    case SIG_T_A2: a = take_tensor(c), i = take_int(c); return ((fn_T_A2 *)f)(a, (int)i, (int)take_int(c));
    case SIG_T_A: a = take_tensor(c); return ((fn_T_A *)f)(a, (int)take_int(c));
    case SIG_SLICE:
      a = take_tensor(c), i = take_int(c), j = take_int(c), k = take_int(c);
      return ((fn_SLICE *)f)(a, (int)i, j, k, take_int(c));
    case SIG_T_A_I: a = take_tensor(c), i = take_int(c); return ((fn_T_A_I *)f)(a, (int)i, take_int(c));
    case SIG_T_I_A: a = take_tensor(c), i = take_int(c); return ((fn_T_I_A *)f)(a, i, (int)take_int(c));
    case SIG_PAD:
      a = take_tensor(c), s = take_dims(c), s2 = take_dims(c);
      return ((fn_PAD *)f)(a, s, s2, take_float(c));
    case SIG_LIST_A: return ((fn_LIST_A *)f)(c->n, c->x, (int)take_int(c));
    case SIG_T_I: a = take_tensor(c); return ((fn_T_I *)f)(a, take_int(c));
    case SIG_TO: a = take_tensor(c); return ((fn_TO *)f)(a, take_word(c));
    case SIG_T_DIMS_B: a = take_tensor(c), s = take_dims(c); return ((fn_T_DIMS_B *)f)(a, s, take_int(c) != 0);
    case SIG_T_DIMS_F_B:
      a = take_tensor(c), s = take_dims(c), x = take_float(c);
      return ((fn_T_DIMS_F_B *)f)(a, s, x, take_int(c) != 0);
    case SIG_T_F_DIMS_B:
      a = take_tensor(c), x = take_float(c), s = take_dims(c);
      return ((fn_T_F_DIMS_B *)f)(a, x, s, take_int(c) != 0);
    case SIG_T_A_B: a = take_tensor(c), i = take_int(c); return ((fn_T_A_B *)f)(a, (int)i, take_int(c) != 0);
    case SIG_T3_F:
      a = take_tensor(c), b = take_tensor(c), d = take_tensor(c);
      return ((fn_T3_F *)f)(a, b, d, take_float(c));
    case SIG_T_A_T: a = take_tensor(c), i = take_int(c); return ((fn_T_A_T *)f)(a, (int)i, take_tensor(c));
    case SIG_T2_A: a = take_tensor(c), b = take_tensor(c); return ((fn_T2_A *)f)(a, b, (int)take_int(c));
    case SIG_T_A_T2:
      a = take_tensor(c), i = take_int(c), b = take_tensor(c);
      return ((fn_T_A_T2 *)f)(a, (int)i, b, take_tensor(c));
    case SIG_I_T: i = take_int(c); return ((fn_I_T *)f)(i, take_tensor(c));
    case SIG_T2_F_I:
      a = take_tensor(c), b = take_tensor(c), x = take_float(c);
      return ((fn_T2_F_I *)f)(a, b, x, take_int(c));
    case SIG_T_I_A_B:
      a = take_tensor(c), i = take_int(c), j = take_int(c);
      return ((fn_T_I_A_B *)f)(a, i, (int)j, take_int(c) != 0);
    case SIG_T2_B: a = take_tensor(c), b = take_tensor(c); return ((fn_T2_B *)f)(a, b, take_int(c) != 0);
    case SIG_ROTARY:
      a = take_tensor(c), b = take_tensor(c), d = take_tensor(c);
      return ((fn_ROTARY *)f)(a, b, d, take_rotary(c));
    case SIG_I2_F: i = take_int(c), j = take_int(c); return ((fn_I2_F *)f)(i, j, take_float(c));
    case SIG_T_A_I2:
      a = take_tensor(c), i = take_int(c), j = take_int(c);
      return ((fn_T_A_I2 *)f)(a, (int)i, j, take_int(c));
    case SIG_ATTENTION:
      a = take_tensor(c), b = take_tensor(c), d = take_tensor(c), e = take_tensor(c);
      return ((fn_ATTENTION *)f)(a, b, d, e, take_attention(c));
    case SIG_CONV:
      a = take_tensor(c), b = take_tensor(c), d = take_tensor(c);
      return ((fn_CONV *)f)(a, b, d, take_conv(c));
    case SIG_POOL: a = take_tensor(c), s = take_dims(c); return ((fn_POOL *)f)(a, s, take_pool(c));
    case SIG_BATCH_NORM:
      a = take_tensor(c), b = take_tensor(c), d = take_tensor(c), e = take_tensor(c), h = take_tensor(c);
      return ((fn_BATCH_NORM *)f)(a, b, d, e, h, take_batch_norm(c));
    case SIG_T_I_T2_F:
      a = take_tensor(c), i = take_int(c), b = take_tensor(c), d = take_tensor(c);
      return ((fn_T_I_T2_F *)f)(a, i, b, d, take_float(c));
    case SIG_LOSS: a = take_tensor(c), b = take_tensor(c); return ((fn_LOSS *)f)(a, b, take_loss(c));
    case SIG_CLASSES: a = take_tensor(c), b = take_tensor(c); return ((fn_CLASSES *)f)(a, b, take_classes(c));
    case SIG_BCE: a = take_tensor(c), b = take_tensor(c); return ((fn_BCE *)f)(a, b, take_bce(c));
    case SIG_KL: a = take_tensor(c), b = take_tensor(c); return ((fn_KL *)f)(a, b, take_kl(c));
    case SIG_MARGIN:
      a = take_tensor(c), b = take_tensor(c), d = take_tensor(c);
      return ((fn_MARGIN *)f)(a, b, d, take_margin(c));
    case SIG_T2_A_F:
      a = take_tensor(c), b = take_tensor(c), i = take_int(c);
      return ((fn_T2_A_F *)f)(a, b, (int)i, take_float(c));
    case SIG_RESIZE: a = take_tensor(c), s = take_dims(c); return ((fn_RESIZE *)f)(a, s, take_resize(c));
  }
  return (tc_tensor){0, 0};
}
#undef T
#undef L

// The ops that tc.h declares beside api.def, with several results or shapes that depend on data.
static tc_tensor call_other(const char *name, call *c) {
  tc_tensor out[16] = {{0, 0}};
  if (!strcmp(name, "tc_nonzero")) return tc_nonzero(take_tensor(c));
  if (!strcmp(name, "tc_unique")) return tc_unique(take_tensor(c));
  if (!strcmp(name, "tc_masked_select")) return tc_masked_select(c->x[0], c->x[1]);
  if (!strcmp(name, "tc_einsum")) return tc_einsum(c->attr, c->n, c->x);
  if (!strcmp(name, "tc_meshgrid")) {
    cr_expect_eq(tc_meshgrid(c->n, c->x, out), TC_OK);
    return out[take_int(c)];
  }
  cr_assert_str_eq(name, "tc_split");
  int64_t size = take_int(c), axis = take_int(c), n = take_int(c);
  cr_expect_eq(tc_split(c->x[0], size, (int)axis, (int)n, out), TC_OK);
  return out[take_int(c)];
}

// ---- One case, one group ----

static value values[MAX_VALUES];

static bool check_result(tc_tensor out, const value *want, near_tol tol, const char *what) {
  char got_text[200], want_text[200];
  if (tc_dtype(out) != want->type || !near_dims_equal(tc_shape(out), want->dims) || !tc_is_valid(out)) {
    cr_expect_fail("%s: is %s%s, should be %s%s; %s", what, tc_is_valid(out) ? tc_type_name(tc_dtype(out)) : "invalid ",
                   near_dims_text(tc_shape(out), got_text, sizeof got_text), tc_type_name(want->type),
                   near_dims_text(want->dims, want_text, sizeof want_text), tc_last_error()->message);
    return false;
  }
  unsigned char *data = malloc(want->bytes + 1);
  tc_status st = tc_to_host(out, data, want->bytes);
  bool ok = st == TC_OK;
  if (!ok) cr_expect_fail("%s: %s: %s", what, tc_status_text(st), tc_last_error()->message);
  int64_t n = (int64_t)(want->bytes / tc_type_bytes(want->type)),
          i = ok ? near_find(want->type, data, want->data, n, tol) : -1;
  if (i >= 0) {
    cr_expect_fail("%s: element %lld is %.17g, should be %.17g", what, (long long)i, near_get(want->type, data, i),
                   near_get(want->type, want->data, i));
    ok = false;
  }
  free(data);
  return ok;
}

// words: op, attributes, operands, ">", result, tolerance.
static bool run_case(char **words, int line_number, const char *device) {
  char name[64], what[400];
  snprintf(name, sizeof name, "tc_%s", words[0]);
  char *of = strchr(name, '\'');  // the gradient with respect to an operand
  if (of) *of++ = 0;
  snprintf(what, sizeof what, "line %d on %s: %s %s (%s)", line_number, device, name, words[1], words[2]);
  call c;
  memset(&c, 0, sizeof c);
  tc_scope scope = tc_scope_begin();
  tc_clear_error();
  for (char *at = words[2]; strcmp(words[2], "none") && *at; at += *at == ',') {
    char *end = at + 1;
    long id = *at == '-' ? -1 : strtol(at, &end, 10);
    char how = 0;
    if (*end && *end != ',') how = *end++;
    cr_assert(c.n < MAX_OPERANDS);
    c.x[c.n++] = id < 0 ? (tc_tensor){0, 0} : near_present(values[id].data, values[id].dims, values[id].type, how);
    at = end;
  }
  char attr[256];
  snprintf(attr, sizeof attr, "%s", words[1]);
  c.attr = attr;
  const struct op_row *op = NULL;
  for (int k = 0; k < N_OPS && !op; k++)
    if (!strcmp(op_rows[k].name, name)) op = &op_rows[k];
  tc_tensor wanted = c.x[of ? atoi(of) : 0];
  if (of) cr_assert_eq(tc_set_requires_grad(wanted, true), TC_OK, "%s: %s", what, tc_last_error()->message);
  tc_tensor out = op ? call_op(op, &c) : call_other(name, &c);
  if (of && tc_grads_of(tc_sum(tc_mul(out, take_tensor(&c)), TC_ALL, false), &wanted, 1, &out, 0) != TC_OK)
    out = (tc_tensor){0, 0};
  near_tol tol = {0, 0, !strcmp(words[5], "bits")};
  if (!tol.bits) {
    char *slash;
    tol.ulp = strtod(words[5], &slash);
    tol.abs = strtod(slash + 1, NULL);
  }
  bool ok = check_result(out, &values[atoi(words[4])], tol, what);
  tc_scope_end(scope);
  return ok;
}

typedef void line_fn(char **words, int n_words, int line_number, void *arg);

static void each_line(line_fn *fn, void *arg) {
  FILE *file = fopen(TC_GOLDEN_DIR "/golden.txt", "r");
  cr_assert(file, "cannot read " TC_GOLDEN_DIR "/golden.txt");
  char *line = NULL;
  size_t room = 0;
  for (int number = 1; getline(&line, &room, file) > 0; number++) {
    char *words[8], *rest = line;
    int n = 0;
    line[strcspn(line, "\n")] = 0;
    while (n < 8 && (words[n] = strsep(&rest, " "))) n++;
    fn(words, n, number, arg);
  }
  free(line);
  fclose(file);
}

// Of how many cases one is compared: where kernels are compiled a sample, since all are
// interpreted; on a slow device fewer.
static int share(const char *device) {
  bool compiled = strncmp(tc_compiler_sentence(), "LLVM", 4) == 0;
  if (getenv("TC_TEST_ALL") || strcmp(device, "tc:ref") == 0) return 1;
  return near_is_slow() ? 36 : compiled ? 12 : 1;
}

typedef struct group_run {
  const char *group, *device;
  bool inside;
  int n_cases, n_failed;
} group_run;

static void run_line(char **words, int n, int line_number, void *arg) {
  group_run *g = arg;
  if (*words[0] == '#') {
    g->inside = n == 3 && !strcmp(words[1], "group") && !strcmp(words[2], g->group);
  } else if (*words[0] == '=') {
    int id = atoi(words[1]);
    cr_assert(id < MAX_VALUES);
    values[id] = parse_value(words[2], words[3]);
  } else if (g->inside && g->n_failed < MAX_FAILURES && line_number % share(g->device) == 0) {
    cr_assert_eq(n, 6, "line %d has %d words", line_number, n);
    g->n_cases++;
    g->n_failed += !run_case(words, line_number, g->device);
  }
}

static void run_group(const char *group) {
  const char *const devices[] = {"tc:ref", near_device()};
  for (int d = near_is_slow(); d < 2; d++) {
    group_run g = {group, devices[d], false, 0, 0};
    cr_assert_eq(tc_set_default_device(devices[d]), TC_OK, "%s", tc_last_error()->message);
    each_line(run_line, &g);
    for (int i = 0; i < MAX_VALUES; i++) free(values[i].data), values[i].data = NULL;
    cr_expect(g.n_cases > 0 || share(devices[d]) > 1, "no cases of group %s", group);
    fprintf(stderr, "golden: %s on %s: %d cases, %d failed%s\n", group, devices[d], g.n_cases, g.n_failed,
            g.n_failed >= MAX_FAILURES ? ", stopped" : "");
  }
}

// clang-format off
#define GROUPS(ROW)                                                                                                                              \
  ROW(factories) ROW(unary) ROW(unary_float) ROW(presented) ROW(cast) ROW(binary) ROW(broadcast) ROW(promotion) ROW(numbers) ROW(select) ROW(movement) \
  ROW(attention) ROW(quantize) ROW(reduce) ROW(reduce_edges) ROW(scan) ROW(softmax) ROW(index) ROW(matmul) ROW(activation) ROW(loss) ROW(several) ROW(window) ROW(conv) ROW(pool)    \
  ROW(norm) ROW(resize) ROW(polygamma) ROW(bools) ROW(scalar_index) ROW(order) ROW(rotary) ROW(pool_options) ROW(types)
// clang-format on

#define ROW(name) \
  Test(golden, name) { \
    run_group(#name); \
  }
GROUPS(ROW)
#undef ROW

// ---- Nothing is left out ----

typedef struct coverage {
  bool seen[N_OPS];
  int n_cases;
} coverage;

static void note_line(char **words, int n, int line_number, void *arg) {
  coverage *c = arg;
  (void)line_number;
  if (*words[0] == '#' && n == 3 && !strcmp(words[1], "group")) {
    bool known = false;
#define ROW(name) known = known || !strcmp(words[2], #name);
    GROUPS(ROW)
#undef ROW
    cr_expect(known, "group %s has no test", words[2]);
  } else if (*words[0] != '#' && *words[0] != '=') {
    c->n_cases++;
    for (int k = 0; k < N_OPS; k++)
      if (strlen(op_rows[k].name + 3) == strcspn(words[0], "'") &&
          !strncmp(op_rows[k].name + 3, words[0], strcspn(words[0], "'")))
        c->seen[k] = true;
  }
}

// No outside value exists for these: our own random streams (tests/ops/test_cpu_vs_ref.c checks
// them).
static const char *const without_cases[] = {
    "tc_rand", "tc_randn", "tc_randint", "tc_bernoulli", "tc_randperm", "tc_rand_like", "tc_randn_like",
// Their values are in tests/numerics/half.def.
#define KNOWN_VALUE(name, ...) #name,
#include "tests/numerics/half.def"
};

Test(golden, every_op_of_the_api_has_cases) {
  coverage c;
  memset(&c, 0, sizeof c);
  each_line(note_line, &c);
  for (int k = 0; k < N_OPS; k++) {
    bool excused = false;
    for (size_t i = 0; i < sizeof without_cases / sizeof *without_cases; i++)
      excused = excused || !strcmp(op_rows[k].name, without_cases[i]);
    cr_expect(c.seen[k] || excused, "%s has no golden case, and no KNOWN_VALUE in tests/numerics/half.def",
              op_rows[k].name);
  }
  fprintf(stderr, "golden: %d cases\n", c.n_cases);
}
