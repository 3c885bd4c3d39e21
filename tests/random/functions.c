// The functions that an instruction's p chooses, as code and as source text; all are smooth or
// bounded so that round-off stays bounded. See parts.h.
#include "tests/random/parts.h"

static tc_tensor fn_neg(tc_tensor x) {
  return tc_neg(x);
}
static tc_tensor fn_abs(tc_tensor x) {
  return tc_abs(x);
}
static tc_tensor fn_relu(tc_tensor x) {
  return tc_relu(x);
}
static tc_tensor fn_square(tc_tensor x) {
  return tc_square(x);
}
static tc_tensor fn_floor(tc_tensor x) {
  return tc_floor(x);
}
static tc_tensor fn_tanh(tc_tensor x) {
  return tc_tanh(x);
}
static tc_tensor fn_sin(tc_tensor x) {
  return tc_sin(x);
}
static tc_tensor fn_sigmoid(tc_tensor x) {
  return tc_sigmoid(x);
}
static tc_tensor fn_exp(tc_tensor x) {
  return tc_exp(tc_sin(x));
}
static tc_tensor fn_sqrt(tc_tensor x) {
  return tc_sqrt(tc_add(tc_square(x), 1));
}
static tc_tensor fn_log1p(tc_tensor x) {
  return tc_log1p(tc_square(x));
}
static tc_tensor fn_dropout(tc_tensor x) {
  return tc_mul(tc_dropout(x, 0.5), 0.5);
}
static const rg_unary_fn unary_fns[] = {
    {"tc_neg(%s)", fn_neg, 1, 0, true, false, false, false, false},
    {"tc_abs(%s)", fn_abs, 1, 0, true, true, false, false, false},
    {"tc_relu(%s)", fn_relu, 1, 0, true, true, false, false, false},
    {"tc_square(%s)", fn_square, 0, 0, true, false, false, false, true},
    {"tc_floor(%s)", fn_floor, 1, 0, true, true, false, true, false},
    {"tc_tanh(%s)", fn_tanh, 1, 1, false, false, true, false, false},
    {"tc_sin(%s)", fn_sin, 1, 1, false, false, true, false, false},
    {"tc_sigmoid(%s)", fn_sigmoid, 1, 1, false, false, true, false, false},
    {"tc_exp(tc_sin(%s))", fn_exp, 3, 3, false, false, true, false, false},
    {"tc_sqrt(tc_add(tc_square(%s), 1))", fn_sqrt, 1, 0, false, false, true, false, false},
    {"tc_log1p(tc_square(%s))", fn_log1p, 1, 0, false, false, true, false, false},
    {"tc_mul(tc_dropout(%s, 0.5), 0.5)", fn_dropout, 1, 0, true, false, true, false, false},
};

const rg_unary_fn *rg_unary(int p) {
  return &unary_fns[p % (int)(sizeof unary_fns / sizeof *unary_fns)];
}

const char *const rg_binary_texts[] = {"tc_add(%s, %s)",     "tc_sub(%s, %s)",
                                       "tc_mul(%s, %s)",     "tc_maximum(%s, %s)",
                                       "tc_minimum(%s, %s)", "tc_div(%s, tc_add(tc_square(%s), 1))"};

tc_tensor rg_binary(int k, tc_tensor a, tc_tensor b) {
  switch (k) {
    case RG_ADD: return tc_add(a, b);
    case RG_SUB: return tc_sub(a, b);
    case RG_MUL: return tc_mul(a, b);
    case RG_MAXIMUM: return tc_maximum(a, b);
    case RG_MINIMUM: return tc_minimum(a, b);
    default: return tc_div(a, tc_add(tc_square(b), 1));
  }
}

const char *const rg_compare_texts[] = {"tc_lt(%s, %s)", "tc_le(%s, %s)", "tc_eq(%s, %s)"};

tc_tensor rg_compare(int k, tc_tensor a, tc_tensor b) {
  return k == RG_LT ? tc_lt(a, b) : k == RG_LE ? tc_le(a, b) : tc_eq(a, b);
}

const char *const rg_fold_texts[] = {"sum", "mean", "max", "min", "any"};

tc_tensor rg_fold(int k, tc_tensor x, int axis, bool keep) {
  tc_dims axes = tc_dims_of(1, (const int64_t[]){axis});
  switch (k) {
    case RG_SUM: return tc_sum(x, axes, keep);
    case RG_MEAN: return tc_mean(x, axes, keep);
    case RG_MAX: return tc_max(x, axes, keep);
    case RG_MIN: return tc_min(x, axes, keep);
    default: return tc_any(x, axes, keep);
  }
}

// ---- products ----

static tc_tensor bytes_of(tc_tensor x, int is_unsigned) {
  return tc_quantize(x, tc_full(TC_SHAPE(), 0.25, TC_F32), tc_full(TC_SHAPE(), is_unsigned ? 100 : 0, TC_I32),
                     is_unsigned ? TC_U8 : TC_I8, (tc_quantize_options){0});
}

tc_tensor rg_matmul(int k, tc_tensor a, tc_tensor b) {
  int way = k % RG_N_MULTIPLY - RG_BYTES_FIRST;
  if (k % RG_N_MULTIPLY == RG_LINEAR_OF_BYTES)
    return tc_linear_int8(a, tc_transpose(bytes_of(b, 0), 0, 1), tc_full(TC_SHAPE(), 0.25, TC_F32), (tc_tensor){0, 0});
  if (way < 0 || way > 3) return tc_matmul(a, b);
  return tc_mul(tc_cast(tc_matmul(bytes_of(a, way & 1), bytes_of(b, way >> 1)), TC_F32), 1.0 / 1024);
}

bool rg_multiplies_bytes(int k) {
  return k % RG_N_MULTIPLY != RG_AS_NUMBERS && k % RG_N_MULTIPLY < RG_BYTES_FIRST + 4;
}

static void print_bytes_of(FILE *out, const char *x, int is_unsigned) {
  fprintf(out,
          "tc_quantize(%s, tc_full(TC_SHAPE(), 0.25, TC_F32), tc_full(TC_SHAPE(), %d, TC_I32), TC_%s, "
          "(tc_quantize_options){0})",
          x, is_unsigned ? 100 : 0, is_unsigned ? "U8" : "I8");
}

void rg_print_matmul(FILE *out, int k, const char *a, const char *b) {
  int way = k % RG_N_MULTIPLY - RG_BYTES_FIRST;
  if (k % RG_N_MULTIPLY == RG_LINEAR_OF_BYTES) {
    fprintf(out, "tc_linear_int8(%s, tc_transpose(", a), print_bytes_of(out, b, 0);
    fprintf(out, ", 0, 1), tc_full(TC_SHAPE(), 0.25, TC_F32), (tc_tensor){0, 0})");
  } else if (way < 0 || way > 3) {
    fprintf(out, "tc_matmul(%s, %s)", a, b);
  } else {
    fprintf(out, "tc_mul(tc_cast(tc_matmul("), print_bytes_of(out, a, way & 1), fprintf(out, ", ");
    print_bytes_of(out, b, way >> 1), fprintf(out, "), TC_F32), 1.0 / 1024)");
  }
}

// ---- views ----

void rg_slice_of(int64_t extent, int p, int q, int64_t *start, int64_t *stop, int64_t *step) {
  *step = 1 + q % 3;
  *start = extent ? p % extent : 0;
  *stop = extent;
}

int64_t rg_window_of(int64_t extent, int p) {
  return 1 + p / 8 % (extent < 4 ? extent : 4);
}

tc_pool_options rg_pool_of(int64_t extent, int p, int q, int64_t *size, int64_t *out) {
  tc_pool_options o = {.ceil_mode = q / 8 % 2};
  *size = rg_window_of(extent, p);
  int64_t stride = 1 + q % 3, padding = q / 16 % (*size / 2 + 1), room = extent + 2 * padding - *size;
  o.stride = tc_dims_of(1, &stride), o.padding = tc_dims_of(1, &padding);
  *out = (room + (o.ceil_mode ? stride - 1 : 0)) / stride + 1;
  if (o.ceil_mode && (*out - 1) * stride >= extent + padding) --*out;
  return o;
}
