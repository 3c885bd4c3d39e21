// Part a: every row of ops.def that a test can feed, and what is made of several, on the device
// against tc:ref. All types of a row are one plan.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TC_NO_SITES
#include "tools/gpu_check/check.h"

#include "tests/near.h"

// ---- The table ----

// clang-format off
#define SIGNATURES(ROW)                                                                                                                    \
  ROW(X, (tc_tensor)) ROW(X_TYPE, (tc_tensor, tc_type)) ROW(XY, (tc_tensor, tc_tensor)) ROW(XYZ, (tc_tensor, tc_tensor, tc_tensor))           \
  ROW(X_DIMS_KEEP, (tc_tensor, tc_dims, bool)) ROW(X_AXIS_KEEP, (tc_tensor, int, bool)) ROW(X_AXIS, (tc_tensor, int))                         \
  ROW(X_AXIS_I, (tc_tensor, int, tc_tensor)) ROW(X_AXIS_I_Y, (tc_tensor, int, tc_tensor, tc_tensor)) ROW(N_X, (int64_t, tc_tensor))           \
  ROW(OTHER, (const struct op_case *, tc_type))
// clang-format on
struct op_case;
enum signature {
#define ROW(tag, params) SIG_##tag,
  SIGNATURES(ROW)
#undef ROW
};
#define ROW(tag, params) typedef tc_tensor fn_##tag params;
SIGNATURES(ROW)
#undef ROW
#define SIGNATURE_CASE(tag, params) fn_##tag * : SIG_##tag,
#define SIGNATURE_OF(f) _Generic(&f, SIGNATURES(SIGNATURE_CASE) int: 0)

enum types { TYPES_all, TYPES_ints, TYPES_whole, TYPES_numbers, TYPES_floats };
enum shapes { SHAPES_elements, SHAPES_pairs, SHAPES_axes, SHAPES_products, SHAPES_lookups };

static const struct sample {
  enum shapes shapes;
  enum types types;
  double low, high;
  double ulp_f32, ulp_f64, ulp_half, abs_eps;
} samples[] = {
#define TC_SAMPLE(NAME, shapes, types, low, high, edges, f32, f64, half, abs_eps) \
  {SHAPES_##shapes, TYPES_##types, low, high, f32, f64, half, abs_eps},
#include "tests/samples.def"
#undef TC_SAMPLE
};
enum sample_id {
#define TC_SAMPLE(NAME, ...) SAMPLE_##NAME,
#include "tests/samples.def"
#undef TC_SAMPLE
};

typedef void any_fn(void);
typedef struct op_case {
  const char *name;
  const struct sample *sample;
  enum signature signature;
  any_fn *fn;
  double folded;  // elements that an element of the result is made of: sums in another order differ by so many units
} op_case;

enum { ROWS = 5, COLUMNS = 203, INNER = 67 };
// of so many rows of ops.def one, on a simulated device: the tests of ops run all of them there
enum { SIMULATED_STEP = 4 };

// ---- Operands ----

static bool has_type(enum types types, tc_type type) {
  if (check.small && type != TC_F32 && type != TC_BF16 && type != TC_I64) return false;
  switch (types) {
    case TYPES_all: return true;
    case TYPES_ints: return !near_is_float(type);
    case TYPES_floats: return near_is_float(type);
    default: return type != TC_BOOL && (types == TYPES_numbers || !near_is_float(type));
  }
}

// Numbers from low to high, the same for the same seed; how: see near_present.
static tc_tensor operand(tc_type type, tc_dims dims, double low, double high, uint64_t seed, char how) {
  int64_t n = near_count(dims);
  bool whole = !near_is_float(type), is_unsigned = type == TC_U8 || type == TC_BOOL;
  uint64_t state = seed * 2 + 1;
  void *data = calloc((size_t)n + 1, tc_type_bytes(type));
  if (whole) low = is_unsigned && low < 0 ? 0 : ceil(low), high = floor(high) < low ? low + 2 : floor(high);
  for (int64_t i = 0; data && i < n; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    double v = low + (double)(state >> 11) * 0x1p-53 * (high - low + (whole ? 1 : 0));
    near_set(type, data, i, type == TC_BOOL ? (double)(state >> 63) : whole ? floor(v) : v);
  }
  tc_tensor t = data ? near_present(data, dims, type, how) : (tc_tensor){0, 0};
  free(data);
  return t;
}

static tc_tensor positions(tc_dims dims, int64_t below) {
  int64_t n = near_count(dims), data[ROWS * COLUMNS];
  for (int64_t i = 0; i < n; i++) data[i] = i * 7919 % below;
  return tc_from_host(data, dims, TC_I64);
}

static tc_tensor call(const op_case *c, tc_type type) {
  const struct sample *s = c->sample;
  bool is_shift = s == &samples[SAMPLE_pair_shift], turned = type == TC_F32 || type == TC_I32;
  const tc_dims table = TC_SHAPE(ROWS, COLUMNS), line = TC_SHAPE(COLUMNS);
  if (c->signature == SIG_OTHER) return ((fn_OTHER *)c->fn)(c, type);
  tc_tensor x = operand(type, table, is_shift ? 0 : s->low, is_shift ? 100 : s->high, 1, turned ? 'T' : 0);
  switch (c->signature) {
    case SIG_X: return ((fn_X *)c->fn)(x);
    case SIG_X_TYPE:
      return ((fn_X_TYPE *)c->fn)(x, type == TC_F32    ? TC_I16
                                     : type == TC_BF16 ? TC_F16
                                     : type == TC_F16  ? TC_F64
                                                       : TC_BF16);
    case SIG_N_X: return ((fn_N_X *)c->fn)(2, x);
    case SIG_XY:
      if (s->shapes == SHAPES_products)
        return ((fn_XY *)c->fn)(operand(type, TC_SHAPE(2, 33, INNER), s->low, s->high, 1, turned ? 'T' : 0),
                                operand(type, TC_SHAPE(INNER, 65), s->low, s->high, 2, 0));
      return ((fn_XY *)c->fn)(x, operand(type, line, s->low, s->high, 2, 0));
    case SIG_XYZ:
      return ((fn_XYZ *)c->fn)(operand(TC_BOOL, table, 0, 1, 3, 0), x, operand(type, line, s->low, s->high, 2, 'S'));
    case SIG_X_DIMS_KEEP: return ((fn_X_DIMS_KEEP *)c->fn)(x, turned ? TC_AXES(0) : TC_AXES(1), true);
    case SIG_X_AXIS_KEEP: return ((fn_X_AXIS_KEEP *)c->fn)(x, turned ? 0 : 1, false);
    case SIG_X_AXIS: return ((fn_X_AXIS *)c->fn)(x, turned ? 0 : 1);
    case SIG_X_AXIS_I: {
      bool list = strcmp(c->name, "index_select") == 0;
      return ((fn_X_AXIS_I *)c->fn)(x, 1, positions(list ? TC_SHAPE(31) : TC_SHAPE(ROWS, 31), COLUMNS));
    }
    default: {  // SIG_X_AXIS_I_Y
      bool list = strcmp(c->name, "index_add") == 0;
      tc_tensor y = operand(type, TC_SHAPE(ROWS, 31), s->low, s->high, 2, 'R');
      return ((fn_X_AXIS_I_Y *)c->fn)(x, 1, positions(list ? TC_SHAPE(31) : TC_SHAPE(ROWS, 31), COLUMNS), y);
    }
  }
}

// ---- One row ----

typedef struct results {
  tc_status status[TC_N_TYPES];
  void *data[TC_N_TYPES];
  tc_type type[TC_N_TYPES];
  tc_dims dims[TC_N_TYPES];
  char message[200];
} results;

static void run_on(const char *device, const op_case *c, results *r) {
  tc_tensor y[TC_N_TYPES], wanted[TC_N_TYPES];
  int n = 0;
  tc_status st = tc_set_default_device(device);
  tc_scope scope = tc_scope_begin();
  for (int t = 0; t < TC_N_TYPES; t++) {
    r->status[t] = st;
    if (st != TC_OK || !has_type(c->sample->types, (tc_type)t)) continue;
    tc_clear_error();
    y[t] = call(c, (tc_type)t);
    r->type[t] = tc_dtype(y[t]), r->dims[t] = tc_shape(y[t]);
    if (tc_is_valid(y[t]))
      wanted[n++] = y[t];
    else
      r->status[t] = tc_last_error()->status;
  }
  tc_clear_error();
  // reading says of which
  if (tc_eval(n, wanted) != TC_OK) snprintf(r->message, sizeof r->message, "%s", tc_last_error()->message);
  for (int t = 0; t < TC_N_TYPES; t++) {
    if (r->status[t] != TC_OK || !has_type(c->sample->types, (tc_type)t)) continue;
    size_t bytes = (size_t)near_count(r->dims[t]) * tc_type_bytes(r->type[t]);
    tc_clear_error();
    r->data[t] = calloc(bytes + 1, 1);
    r->status[t] = r->data[t] ? tc_to_host(y[t], r->data[t], bytes) : TC_ERR_MEMORY;
    if (r->status[t] != TC_OK && !r->message[0])
      snprintf(r->message, sizeof r->message, "%s", tc_last_error()->message);
  }
  tc_scope_end(scope);
}

static near_tol tolerance(const op_case *c, tc_type type) {
  const struct sample *s = c->sample;
  bool half = type == TC_F16 || type == TC_BF16;
  double eps = near_is_float(type) ? near_ulp(type, 1.0) : 0;
  double ulp = type == TC_F64 ? s->ulp_f64 : half ? s->ulp_half : s->ulp_f32, folded = half ? 0 : c->folded;
  return (near_tol){ulp + folded, s->abs_eps * eps * (folded > 1 ? folded : 1), false};
}

static void run_case(check_row *row, const void *arg) {
  const op_case *c = arg;
  results got = {0}, want = {0};
  int n = 0;
  run_on("tc:ref", c, &want), run_on(check.device, c, &got);
  for (int t = 0; t < TC_N_TYPES; t++) {
    if (!has_type(c->sample->types, (tc_type)t)) continue;
    const char *type = tc_type_name((tc_type)t);
    // Both may refuse a type, but then alike.
    if (got.status[t] != want.status[t])
      check_wrong(row, "%s: %s (%s), tc:ref: %s (%s)", type, tc_status_text(got.status[t]), got.message,
                  tc_status_text(want.status[t]), want.message);
    if (got.status[t] != TC_OK || want.status[t] != TC_OK) continue;
    if (got.type[t] != want.type[t] || !near_dims_equal(got.dims[t], want.dims[t])) {
      check_wrong(row, "%s: another type or shape than on tc:ref", type);
      continue;
    }
    int64_t i =
        near_find(want.type[t], got.data[t], want.data[t], near_count(want.dims[t]), tolerance(c, want.type[t]));
    if (i >= 0)
      check_wrong(row, "%s: element %lld is %.9g, on tc:ref %.9g", type, (long long)i,
                  near_get(want.type[t], got.data[t], i), near_get(want.type[t], want.data[t], i));
    n++;
  }
  if (n == 0) check_wrong(row, "every type was refused: %s", want.message);
  for (int t = 0; t < TC_N_TYPES; t++) free(got.data[t]), free(want.data[t]);
  row->value = n, row->unit = "types";
}

// ---- What is no row, or has no sample ----

static tc_tensor floats(tc_type type, tc_dims dims, uint64_t seed) {
  return operand(type, dims, -2, 2, seed, 0);
}

static tc_tensor moved(const op_case *c, tc_type type) {
  (void)c;
  tc_tensor x = tc_permute(floats(type, TC_SHAPE(3, 17, 41), 1), TC_AXES(2, 0, 1));  // [41, 3, 17]
  tc_tensor y = tc_flip(tc_slice(x, 0, 40, 2, -3), TC_AXES(2));                       // [13, 3, 17]
  y = tc_pad(y, TC_SHAPE(1, 0, 2), TC_SHAPE(0, 1, 0), 1);                             // [14, 4, 19]
  return tc_reshape(tc_roll(y, 5, 2), TC_SHAPE(4, -1));
}
static tc_tensor joined(const op_case *c, tc_type type) {
  (void)c;
  tc_tensor x = floats(type, TC_SHAPE(7, 33), 1), y = floats(type, TC_SHAPE(7, 5), 2);
  return tc_tile(tc_cat(3, (const tc_tensor[]){x, y, x}, 1), TC_SHAPE(2, 1));
}
static tc_tensor spread(const op_case *c, tc_type type) {
  (void)c;
  return tc_add(tc_expand(floats(type, TC_SHAPE(1, 65), 1), TC_SHAPE(33, 65)),
                tc_expand(floats(type, TC_SHAPE(33, 1), 2), TC_SHAPE(33, 65)));
}
static tc_tensor windows(const op_case *c, tc_type type) {
  (void)c;
  return tc_sum(tc_unfold(floats(type, TC_SHAPE(3, 100), 1), 1, 7, 3), TC_AXES(2), false);
}
static tc_tensor written(const op_case *c, tc_type type) {
  (void)c;
  static const int64_t start[] = {1, 2}, stop[] = {4, 30}, step[] = {1, 4};
  tc_tensor x = tc_add(floats(type, TC_SHAPE(5, 33), 1), floats(type, TC_SHAPE(33), 2));
  tc_status st = tc_assign_slice(x, start, stop, step, floats(type, TC_SHAPE(3, 7), 3));
  return st == TC_OK ? x : (tc_tensor){0, 0};
}
static tc_tensor triangles(const op_case *c, tc_type type) {
  (void)c;
  tc_tensor x = floats(type, TC_SHAPE(2, 21, 19), 1);
  return tc_sub(tc_tril(x, 1), tc_triu(x, -2));
}
static tc_tensor softmax_rows(const op_case *c, tc_type type) {
  (void)c;
  return tc_softmax(floats(type, TC_SHAPE(9, 3001), 1), 1);
}
static tc_tensor layer_norm(const op_case *c, tc_type type) {
  (void)c;
  return tc_layer_norm(floats(type, TC_SHAPE(17, 300), 1), floats(type, TC_SHAPE(300), 2),
                       floats(type, TC_SHAPE(300), 3), 1e-5);
}
static tc_tensor rms_norm(const op_case *c, tc_type type) {
  (void)c;
  return tc_rms_norm(floats(type, TC_SHAPE(17, 300), 1), floats(type, TC_SHAPE(300), 2), 1e-6);
}
static tc_tensor group_norm(const op_case *c, tc_type type) {
  (void)c;
  return tc_group_norm(floats(type, TC_SHAPE(2, 6, 5, 7), 1), 3, floats(type, TC_SHAPE(6), 2),
                       floats(type, TC_SHAPE(6), 3), 1e-5);
}
static tc_tensor batch_norm(const op_case *c, tc_type type) {
  (void)c;
  tc_tensor none = {0, 0};
  return tc_batch_norm(floats(type, TC_SHAPE(3, 5, 6, 7), 1), none, none, floats(type, TC_SHAPE(5), 2),
                       floats(type, TC_SHAPE(5), 3), (tc_batch_norm_options){.training = true, TC_BATCH_NORM_DEFAULTS});
}
static tc_tensor cross_entropy(const op_case *c, tc_type type) {
  (void)c;
  return tc_cross_entropy(floats(type, TC_SHAPE(31, 500), 1), positions(TC_SHAPE(31), 500));
}
static tc_tensor variance(const op_case *c, tc_type type) {
  (void)c;
  return tc_var(floats(type, TC_SHAPE(7, 1000), 1), TC_AXES(1), 1, false);
}
static tc_tensor long_sum(const op_case *c, tc_type type) {
  (void)c;
  return tc_mean(floats(type, TC_SHAPE(100003), 1), TC_ALL, false);
}
static tc_tensor linear_gelu(const op_case *c, tc_type type) {
  (void)c;
  return tc_gelu(tc_linear(floats(type, TC_SHAPE(70, 96), 1),
                           tc_mul(floats(type, TC_SHAPE(130, 96), 2), floats(type, TC_SCALAR, 4)),
                           floats(type, TC_SHAPE(130), 3)));
}
static tc_tensor product_turned(const op_case *c, tc_type type) {
  (void)c;
  return tc_matmul(tc_transpose(floats(type, TC_SHAPE(129, 64), 1), 0, 1),
                   tc_transpose(floats(type, TC_SHAPE(80, 129), 2), 0, 1));
}
static tc_tensor vector_product(const op_case *c, tc_type type) {
  (void)c;
  return tc_matmul(floats(type, TC_SHAPE(1, 500), 1), floats(type, TC_SHAPE(500, 40), 2));
}
static tc_tensor convolution(const op_case *c, tc_type type) {
  (void)c;
  return tc_conv2d(floats(type, TC_SHAPE(2, 16, 12, 12), 1), floats(type, TC_SHAPE(32, 16, 3, 3), 2),
                   floats(type, TC_SHAPE(32), 3), (tc_conv_options){.padding = TC_SHAPE(1)});
}
static tc_tensor convolution_strided(const op_case *c, tc_type type) {
  (void)c;
  return tc_conv2d(floats(type, TC_SHAPE(2, 3, 17, 15), 1), floats(type, TC_SHAPE(8, 3, 5, 5), 2), (tc_tensor){0, 0},
                   (tc_conv_options){.stride = TC_SHAPE(2), .padding = TC_SHAPE(2)});
}
static tc_tensor convolution_grouped(const op_case *c, tc_type type) {
  (void)c;
  return tc_conv1d(floats(type, TC_SHAPE(2, 6, 50), 1), floats(type, TC_SHAPE(6, 1, 4), 2), (tc_tensor){0, 0},
                   (tc_conv_options){.groups = 6});
}
static tc_tensor convolution_turned(const op_case *c, tc_type type) {
  (void)c;
  return tc_conv_transpose2d(floats(type, TC_SHAPE(1, 4, 7, 7), 1), floats(type, TC_SHAPE(4, 3, 3, 3), 2),
                             (tc_tensor){0, 0},
                             (tc_conv_options){.stride = TC_SHAPE(2), .output_padding = TC_SHAPE(1)});
}
static tc_tensor max_pool(const op_case *c, tc_type type) {
  (void)c;
  return tc_max_pool2d(floats(type, TC_SHAPE(2, 3, 13, 14), 1), TC_SHAPE(3),
                       (tc_pool_options){.stride = TC_SHAPE(2), .padding = TC_SHAPE(1)});
}
static tc_tensor embedding(const op_case *c, tc_type type) {
  (void)c;
  return tc_embedding(floats(type, TC_SHAPE(50, 24), 1), positions(TC_SHAPE(4, 9), 50));
}
static tc_tensor attention(const op_case *c, tc_type type) {
  (void)c;
  return tc_scaled_dot_product_attention(
      floats(type, TC_SHAPE(1, 4, 70, 32), 1), floats(type, TC_SHAPE(1, 2, 70, 32), 2),
      floats(type, TC_SHAPE(1, 2, 70, 32), 3), (tc_tensor){0, 0}, (tc_attention_options){.causal = true});
}

// Of the operands' sum times a fixed factor each, so that no gradient is of ones alone.
static tc_tensor gradient(tc_tensor y, tc_tensor x) {
  tc_tensor out;
  tc_tensor factor = operand(tc_dtype(y), tc_shape(y), -1, 1, 9, 0);
  return tc_grads_of(tc_sum(tc_mul(y, factor), TC_ALL, false), &x, 1, &out, 0) == TC_OK ? out : (tc_tensor){0, 0};
}
static tc_tensor wanting(tc_tensor x) {
  return tc_set_requires_grad(x, true) == TC_OK ? x : (tc_tensor){0, 0};
}
static tc_tensor softmax_gradient(const op_case *c, tc_type type) {
  (void)c;
  tc_tensor x = wanting(floats(type, TC_SHAPE(9, 300), 1));
  return gradient(tc_softmax(x, 1), x);
}
static tc_tensor norm_gradient(const op_case *c, tc_type type) {
  (void)c;
  tc_tensor x = wanting(floats(type, TC_SHAPE(9, 300), 1));
  return gradient(tc_layer_norm(x, floats(type, TC_SHAPE(300), 2), floats(type, TC_SHAPE(300), 3), 1e-5), x);
}
static tc_tensor weight_gradient(const op_case *c, tc_type type) {
  (void)c;
  tc_tensor w = wanting(floats(type, TC_SHAPE(8, 4, 3, 3), 2));
  return gradient(
      tc_conv2d(floats(type, TC_SHAPE(2, 4, 9, 9), 1), w, (tc_tensor){0, 0}, (tc_conv_options){.padding = TC_SHAPE(1)}),
      w);
}
static tc_tensor attention_gradient(const op_case *c, tc_type type) {
  (void)c;
  tc_tensor k = wanting(floats(type, TC_SHAPE(1, 2, 70, 32), 2));
  return gradient(tc_scaled_dot_product_attention(floats(type, TC_SHAPE(1, 2, 70, 32), 1), k,
                                                  floats(type, TC_SHAPE(1, 2, 70, 32), 3), (tc_tensor){0, 0},
                                                  (tc_attention_options){.causal = true}),
                  k);
}
static tc_tensor embedding_gradient(const op_case *c, tc_type type) {
  (void)c;
  tc_tensor w = wanting(floats(type, TC_SHAPE(20, 16), 1));
  return gradient(tc_embedding(w, positions(TC_SHAPE(60), 20)), w);
}

// Streams are the same on every device; normals narrower than f64 differ in rounding.
static tc_tensor drawn(const op_case *c, tc_type type) {
  (void)c;
  tc_seed(42);
  tc_tensor u = tc_rand(TC_SHAPE(999), type), g = tc_randn(TC_SHAPE(999), type);
  return tc_cat(3, (const tc_tensor[]){u, g, tc_cast(tc_randint(-5, 9, TC_SHAPE(99), TC_I64), type)}, 0);
}

// Bounds of what is made of several ops, each rounded: in units, and in epsilons where terms
// cancel.
static const struct sample exact = {.types = TYPES_all},
                           several = {
                               .types = TYPES_floats, .ulp_f32 = 16, .ulp_f64 = 16, .ulp_half = 4, .abs_eps = 16};
static const struct sample summed = {.types = TYPES_floats, .ulp_f32 = 4, .ulp_f64 = 4, .ulp_half = 2, .abs_eps = 8};

#define OTHER(name, sample, folded) {#name, &sample, SIG_OTHER, (any_fn *)name, folded}
static const op_case others[] = {
    OTHER(moved, exact, 0),
    OTHER(joined, exact, 0),
    OTHER(spread, exact, 0),
    OTHER(windows, summed, 7),
    OTHER(written, exact, 0),
    OTHER(triangles, exact, 0),
    OTHER(drawn, summed, 0),
    OTHER(softmax_rows, several, 64),
    OTHER(layer_norm, several, 64),
    OTHER(rms_norm, several, 64),
    OTHER(group_norm, several, 64),
    OTHER(batch_norm, several, 64),
    OTHER(cross_entropy, several, 64),
    OTHER(variance, several, 64),
    OTHER(long_sum, several, 64),
    OTHER(linear_gelu, summed, 96),
    OTHER(product_turned, summed, 129),
    OTHER(vector_product, summed, 500),
    OTHER(convolution, summed, 144),
    OTHER(convolution_strided, summed, 75),
    OTHER(convolution_grouped, summed, 4),
    OTHER(convolution_turned, summed, 36),
    OTHER(max_pool, exact, 0),
    OTHER(embedding, exact, 0),
    OTHER(attention, several, 70),
    OTHER(softmax_gradient, several, 64),
    OTHER(norm_gradient, several, 300),
    OTHER(weight_gradient, summed, 162),
    OTHER(attention_gradient, several, 300),
    OTHER(embedding_gradient, summed, 60),
};

// ---- Rows of ops.def ----

#define CASE(name, sample) \
  {#name, &samples[SAMPLE_##sample], SIGNATURE_OF(tc_##name), (any_fn *)tc_##name, FOLDED_##sample},
#define CASE_none(name)
#define CASE_any(name) CASE(name, any)
#define CASE_tail(name) CASE(name, tail)
#define CASE_unit(name) CASE(name, unit)
#define CASE_positive(name) CASE(name, positive)
#define CASE_nonzero(name) CASE(name, nonzero)
#define CASE_above_one(name) CASE(name, above_one)
#define CASE_integer(name) CASE(name, integer)
#define CASE_pair(name) CASE(name, pair)
#define CASE_pair_near(name) CASE(name, pair_near)
#define CASE_pair_nonzero(name) CASE(name, pair_nonzero)
#define CASE_pair_positive(name) CASE(name, pair_positive)
#define CASE_pair_integer(name) CASE(name, pair_integer)
#define CASE_pair_shift(name) CASE(name, pair_shift)
#define CASE_select(name) CASE(name, select)
#define CASE_reduce(name) CASE(name, reduce)
#define CASE_scan(name) CASE(name, scan)
#define CASE_order(name) CASE(name, order)
#define CASE_contract(name) CASE(name, contract)
#define CASE_index(name) CASE(name, index)
enum {
#define TC_SAMPLE(NAME, shapes, ...) \
  FOLDED_##NAME = SHAPES_##shapes == SHAPES_axes       ? COLUMNS \
                  : SHAPES_##shapes == SHAPES_products ? INNER \
                  : SHAPES_##shapes == SHAPES_lookups  ? 31 \
                                                       : 0,
#include "tests/samples.def"
#undef TC_SAMPLE
};
static const op_case rows[] = {
#define TC_OP(NAME, name, kind, arity, dtype, vjp, saves, autocast, lower, reference, sample) CASE_##sample(name)
#include <tc/ops.def>
#undef TC_OP
};

void check_ops(void) {
  char name[64];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i += check.timed ? 1 : SIMULATED_STEP) {
    snprintf(name, sizeof name, "op %s", rows[i].name);
    check_do(name, run_case, &rows[i]);
  }
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    snprintf(name, sizeof name, "ops: %s", others[i].name);
    check_do(name, run_case, &others[i]);
  }
}
