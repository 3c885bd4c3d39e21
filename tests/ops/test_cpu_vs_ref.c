// A device (tests/near.h; here called cpu) against tc:ref for every row of ops.def that has a
// sample (tests/samples.def), over types, sizes around vector widths, broadcast shapes and strides;
// and the random ops, whose streams must be the same bits on both. Tests and table are made from
// ops.def: a row cannot be missing.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TC_NO_SITES
#include <tc/tc.h>

#include "lowering/tiling/summation.h"
#include "runtime/status.h"
#include "tests/near.h"

enum shapes { SHAPES_elements, SHAPES_pairs, SHAPES_axes, SHAPES_products, SHAPES_lookups };
enum types { TYPES_all, TYPES_ints, TYPES_whole, TYPES_numbers };

static const struct sample {
  enum shapes shapes;
  enum types types;
  double low, high;
  bool edges;
  double ulp_f32, ulp_f64, ulp_half, abs_eps;
} samples[] = {
#define TC_SAMPLE(NAME, shapes, types, low, high, edges, f32, f64, half, abs_eps) \
  {SHAPES_##shapes, TYPES_##types, low, high, edges, f32, f64, half, abs_eps},
#include "tests/samples.def"
#undef TC_SAMPLE
};
enum sample_id {
#define TC_SAMPLE(NAME, ...) SAMPLE_##NAME,
#include "tests/samples.def"
#undef TC_SAMPLE
};

// ---- The table: public function and C type of every row ----

// clang-format off
#define SIGNATURES(ROW)                                                                                                                    \
  ROW(X, (tc_tensor)) ROW(X_TYPE, (tc_tensor, tc_type)) ROW(XY, (tc_tensor, tc_tensor)) ROW(XYZ, (tc_tensor, tc_tensor, tc_tensor))           \
  ROW(X_DIMS_KEEP, (tc_tensor, tc_dims, bool)) ROW(X_AXIS_KEEP, (tc_tensor, int, bool)) ROW(X_AXIS, (tc_tensor, int))                         \
  ROW(X_AXIS_I, (tc_tensor, int, tc_tensor)) ROW(X_AXIS_I_Y, (tc_tensor, int, tc_tensor, tc_tensor)) ROW(N_X, (int64_t, tc_tensor))
// clang-format on
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

typedef void any_fn(void);
typedef struct op_row {
  const char *name;
  enum sample_id sample;
  enum signature signature;
  any_fn *fn;
} op_row;

// What an op is called with: operands as host data, and the arguments that are not tensors.
typedef struct operand {
  tc_type type;
  tc_dims dims;
  char how;  // near_present
  void *data;
} operand;
typedef struct call {
  operand x[3];
  int n, axis, n_th;
  bool keepdim;
  tc_type type;
} call;

static tc_tensor call_op(const op_row *op, const call *c, const tc_tensor *x) {
  tc_dims axes = c->axis == INT32_MAX ? tc_dims_all() : tc_dims_of(1, (const int64_t[]){c->axis});
  switch (op->signature) {
    case SIG_X: return ((fn_X *)op->fn)(x[0]);
    case SIG_X_TYPE: return ((fn_X_TYPE *)op->fn)(x[0], c->type);
    case SIG_XY: return ((fn_XY *)op->fn)(x[0], x[1]);
    case SIG_XYZ: return ((fn_XYZ *)op->fn)(x[0], x[1], x[2]);
    case SIG_X_DIMS_KEEP: return ((fn_X_DIMS_KEEP *)op->fn)(x[0], axes, c->keepdim);
    case SIG_X_AXIS_KEEP: return ((fn_X_AXIS_KEEP *)op->fn)(x[0], c->axis, c->keepdim);
    case SIG_X_AXIS: return ((fn_X_AXIS *)op->fn)(x[0], c->axis);
    case SIG_X_AXIS_I: return ((fn_X_AXIS_I *)op->fn)(x[0], c->axis, x[1]);
    case SIG_N_X: return ((fn_N_X *)op->fn)(c->n_th, x[0]);
    case SIG_X_AXIS_I_Y: return ((fn_X_AXIS_I_Y *)op->fn)(x[0], c->axis, x[1], x[2]);
  }
  return (tc_tensor){0, 0};
}

// ---- Data ----

static uint64_t seed = 1;

static double next_unit(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(seed >> 11) * 0x1p-53;
}

static bool is_unsigned(tc_type type) {
  return type == TC_U8 || type == TC_BOOL;
}

static operand make(tc_type type, tc_dims dims, double low, double high, bool edges, char how) {
  operand o = {type, dims, dims.rank ? how : 0, NULL};
  int64_t n = near_count(dims);
  o.data = calloc((size_t)n + 1, tc_type_bytes(type));
  bool whole = !near_is_float(type);
  if (whole) low = is_unsigned(type) && low < 0 ? 0 : ceil(low), high = floor(high) < low ? low + 2 : floor(high);
  for (int64_t i = 0; i < n; i++) {
    double v = low + next_unit() * (high - low + (whole ? 1 : 0));
    near_set(type, o.data, i, type == TC_BOOL ? (double)(next_unit() < 0.5) : whole ? floor(v) : v);
  }
  static const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 0x1p-149, 1.0, -1.0, 2.5, -2.5};
  for (int64_t i = 0; edges && n >= 15 && i < 10; i++) {
    int64_t at = (i * 7 + 3) % n;  // spread over lanes and tails
    if (!whole) near_set(type, o.data, at, special[i]);
  }
  if (edges && n >= 15 && whole && type != TC_BOOL && high > 50) {
    size_t bytes = tc_type_bytes(type);
    memset((char *)o.data + bytes, 0xff, bytes);  // -1, or the largest unsigned
    ((unsigned char *)o.data)[3 * bytes - 1] = 0x80;  // the smallest, if the other bytes are zero
    memset((char *)o.data + 2 * bytes, 0, bytes - 1);
  }
  return o;
}

// ---- One comparison ----

typedef struct result {
  tc_status status;
  tc_type type;
  tc_dims dims;
  void *data;
  char message[200];
} result;

static result run_on(const char *device, const op_row *op, const call *c) {
  result r;
  memset(&r, 0, sizeof r);
  cr_assert_eq(tc_set_default_device(device), TC_OK, "%s", tc_last_error()->message);
  tc_clear_error();
  tc_scope scope = tc_scope_begin();
  tc_tensor x[3] = {{0, 0}};
  for (int k = 0; k < c->n; k++) x[k] = near_present(c->x[k].data, c->x[k].dims, c->x[k].type, c->x[k].how);
  tc_tensor y = call_op(op, c, x);
  r.type = tc_dtype(y), r.dims = tc_shape(y);
  if (tc_is_valid(y)) {
    size_t bytes = (size_t)near_count(r.dims) * tc_type_bytes(r.type);
    r.data = calloc(bytes + 1, 1);
    r.status = tc_to_host(y, r.data, bytes);
  } else {
    r.status = tc_last_error()->status;
  }
  snprintf(r.message, sizeof r.message, "%s", tc_last_error()->message);
  tc_scope_end(scope);
  return r;
}

static int n_compared;

static near_tol tolerance(const struct sample *s, tc_type type, int64_t folded) {
  bool half = type == TC_F16 || type == TC_BF16;
  double eps = near_is_float(type) ? near_ulp(half ? TC_F32 : type, 1.0) : 0;
  // Another order of n additions or products differs by at most n units; the half types accumulate
  // in f32, which hides it but where terms cancel. Long sums are cut (summation.h).
  folded = TC_MIN(folded, tc_fold_additions(folded, 2));
  double ulp = type == TC_F64 ? s->ulp_f64 : half ? s->ulp_half : s->ulp_f32;
  return (near_tol){ulp + (half ? 0 : (double)folded), s->abs_eps * eps * (double)(folded ? folded : 1), false};
}

static void compare(const op_row *op, call *c, int64_t folded) {
  result ref = run_on("tc:ref", op, c), cpu = run_on(near_device(), op, c);
  char text[3][100], what[400];
  for (int k = 0; k < 3; k++)
    k < c->n ? (void)near_dims_text(c->x[k].dims, text[k], sizeof text[k]) : (void)strcpy(text[k], "");
  snprintf(what, sizeof what, "%s of %s%s%c %s%c %s axis %d keepdim %d to %s", op->name, tc_type_name(c->x[0].type),
           text[0], c->x[0].how ? c->x[0].how : ' ', text[1], c->n > 1 && c->x[1].how ? c->x[1].how : ' ', text[2],
           c->axis, c->keepdim, tc_type_name(c->type));
  // Both may refuse a type (negating bools), but then alike.
  cr_expect_eq(ref.status, cpu.status, "%s: %s on tc:ref (%s), %s on tc:cpu (%s)", what, tc_status_text(ref.status),
               ref.message, tc_status_text(cpu.status), cpu.message);
  cr_expect(ref.status == TC_OK || ref.status == TC_ERR_DTYPE, "%s: %s", what, ref.message);
  if (ref.status == TC_OK && cpu.status == TC_OK) {
    cr_expect_eq(ref.type, cpu.type, "%s: types differ", what);
    cr_expect(near_dims_equal(ref.dims, cpu.dims), "%s: shapes differ", what);
    int64_t i = ref.type != cpu.type ? -1
                                     : near_find(ref.type, cpu.data, ref.data, near_count(ref.dims),
                                                 tolerance(&samples[op->sample], ref.type, folded));
    cr_expect(i < 0, "%s: element %lld is %.17g on tc:cpu, %.17g on tc:ref", what, (long long)i,
              i < 0 ? 0 : near_get(cpu.type, cpu.data, i), i < 0 ? 0 : near_get(ref.type, ref.data, i));
    n_compared++;
  }
  free(ref.data), free(cpu.data);
  for (int k = 0; k < c->n; k++) free(c->x[k].data), c->x[k].data = NULL;
}

// ---- Shapes ----

static const int64_t sizes[] = {0, 1, 15, 16, 17, 63, 64, 65, 1000};
enum { N_SIZES = sizeof sizes / sizeof *sizes };
static const char hows[] = {0, 'T', 'S', 'R'};

static bool has_type(enum types types, tc_type type) {
  if (types == TYPES_all) return true;
  if (types == TYPES_ints) return !near_is_float(type);
  return type != TC_BOOL && (types == TYPES_numbers || !near_is_float(type));
}

// Every case with TC_TEST_ALL=1, as where kernels are interpreted; compiled ones take a hundred
// times as long: all in ./dev soak.
static bool takes_all(void) {
  static int all = -1;
  if (all < 0) all = getenv("TC_TEST_ALL") != NULL;
  return all;
}

// Whether to compare case i as it lies in way h: plain, and in one of the other ways by turns.
static bool is_taken(int i, int h) {
  return takes_all() || h == 0 || h == 1 + i % 3;
}

// Whether to compare the next case: one of so many, others for another type and row.
static int next_case;

static bool is_turn(int n) {
  return takes_all() || next_case++ % n == 0;
}

static void run_elements(const op_row *op, const struct sample *s, tc_type type) {
  int n_targets = op->signature == SIG_X_TYPE ? TC_N_TYPES : 1;
  for (int target = 0; target < n_targets; target++)
    for (int i = 0; i < N_SIZES; i++)
      for (int h = 0; h < 4; h++) {
        // casts: a diagonal of sizes and strides
        if ((n_targets > 1 ? i % 4 != h % 4 : !is_taken(i, h)) || !is_turn(27)) continue;
        tc_dims d = h ? tc_dims_of(2, (const int64_t[]){3, sizes[i]}) : tc_dims_of(1, &sizes[i]);
        call c = {.n = 1, .type = (tc_type)target, .n_th = i % 4};
        // What an integer makes of NaN, infinity or a negative number as unsigned is nobody's
        // promise.
        bool to_int = n_targets > 1 && near_is_float(type) && !near_is_float(c.type) && c.type != TC_BOOL;
        c.x[0] = make(type, d, to_int && is_unsigned(c.type) ? 0 : s->low, s->high, s->edges && !to_int, hows[h]);
        compare(op, &c, 0);
      }
}

static void run_pairs(const op_row *op, const struct sample *s, tc_type type) {
  for (int i = 0; i < N_SIZES; i++) {
    int64_t n = sizes[i];
    const tc_dims row = tc_dims_of(1, &n), table = tc_dims_of(2, (const int64_t[]){3, n}),
                  column = tc_dims_of(2, (const int64_t[]){3, 1}), none = tc_dims_of(0, NULL);
    const tc_dims left[] = {row, table, table, row, none, column}, right[] = {row, row, table, column, row, row};
    for (int k = 0; k < 6; k++)
      for (int h = 0; h < 4; h++) {
        if ((h && left[k].rank < 2) || !is_taken(i + k, h) || !is_turn(90)) continue;
        bool select = op->signature == SIG_XYZ, shift = op->sample == SAMPLE_pair_shift;
        call c = {.n = select ? 3 : 2};
        int at = 0;
        if (select) c.x[at++] = make(TC_BOOL, left[k], 0, 1, false, hows[h]);
        c.x[at++] = make(type, left[k], shift ? 0 : s->low, shift ? 100 : s->high, s->edges, hows[h]);
        c.x[at++] = make(type, right[k], s->low, s->high, s->edges, right[k].rank == 2 ? hows[(h + 1) % 4] : 0);
        compare(op, &c, 0);
      }
  }
}

static void run_axes(const op_row *op, const struct sample *s, tc_type type) {
  static const int64_t shapes[][3] = {{1, 1, 1},  {5, 15, 1}, {2, 16, 3},   {3, 17, 4},   {1, 63, 2},
                                      {2, 3, 64}, {65, 2, 3}, {1, 1, 1000}, {1000, 1, 2}, {0, 3, 2}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int axis = -1; axis < 3; axis++)
      for (int h = 0; h < 4; h++) {
        if ((axis < 0 && op->signature != SIG_X_DIMS_KEEP) || !is_taken((int)i + axis + 1, h) || !is_turn(27)) continue;
        tc_dims d = tc_dims_of(3, shapes[i]);
        int64_t folded = axis < 0 ? near_count(d) : d.dim[axis];
        bool needs_one = !strcmp(op->name, "max") || !strcmp(op->name, "min") || !strcmp(op->name, "argmax") ||
                         !strcmp(op->name, "argmin");
        if (needs_one && folded == 0) continue;
        call c = {.n = 1, .axis = axis < 0 ? INT32_MAX : axis, .keepdim = (i + (size_t)h) % 2 == 1};
        c.x[0] = make(type, d, s->low, s->high, s->edges, hows[h]);
        compare(op, &c, folded);
      }
}

static void run_products(const op_row *op, const struct sample *s, tc_type type) {
  static const int64_t mkn[][3] = {{1, 1, 1}, {15, 16, 17}, {17, 33, 65}, {64, 64, 64}, {1, 1000, 1}, {3, 65, 2},
                                   {0, 3, 2}, {2, 0, 3},    {1, 16, 63},  {63, 15, 1},  {7, 257, 9}};
  for (size_t i = 0; i < sizeof mkn / sizeof *mkn; i++)
    for (int h = 0; h < 16; h++)
      for (int batch = 0; batch < 3; batch++) {
        if ((batch && (h % 5 || mkn[i][1] > 100)) || !is_turn(48)) continue;
        int64_t m = mkn[i][0], k = mkn[i][1], n = mkn[i][2];
        tc_dims a = batch ? tc_dims_of(3, (const int64_t[]){2, m, k}) : tc_dims_of(2, (const int64_t[]){m, k});
        tc_dims b = batch > 1 ? tc_dims_of(3, (const int64_t[]){2, k, n}) : tc_dims_of(2, (const int64_t[]){k, n});
        call c = {.n = 2};
        c.x[0] = make(type, a, s->low, s->high, false, hows[h % 4]);
        c.x[1] = make(type, b, s->low, s->high, false, hows[h / 4]);
        compare(op, &c, k);
      }
}

// Indices into an axis of extent n, a few of them negative.
static operand make_index(tc_type type, tc_dims d, int64_t n) {
  operand o = make(type, d, 0, (double)(n - 1), false, 0);
  for (int64_t i = 0; i < near_count(d); i += 3) near_set(type, o.data, i, near_get(type, o.data, i) - (double)n);
  return o;
}

static void run_lookups(const op_row *op, const struct sample *s, tc_type type) {
  static const int64_t shapes[][2] = {{1, 1}, {5, 16}, {17, 3}, {65, 15}, {4, 64}};
  bool list = !strcmp(op->name, "index_select") || !strcmp(op->name, "index_add");
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int axis = 0; axis < 2; axis++)
      for (int h = 0; h < 4; h++) {
        if (!is_turn(8)) continue;
        tc_dims d = tc_dims_of(2, shapes[i]), at = d;
        at.dim[axis] = 1 + (int64_t)i * 3;
        call c = {.n = op->signature == SIG_X_AXIS_I_Y ? 3 : 2, .axis = axis};
        c.x[0] = make(type, d, s->low, s->high, false, hows[h]);
        c.x[1] = make_index(h % 2 ? TC_I32 : TC_I64, list ? tc_dims_of(1, &at.dim[axis]) : at, d.dim[axis]);
        if (c.n == 3) c.x[2] = make(type, at, s->low, s->high, false, hows[(h + 2) % 4]);
        compare(op, &c, at.dim[axis]);
      }
}

static void run_row(const op_row *op) {
  const struct sample *s = &samples[op->sample];
  n_compared = 0;
  for (int t = 0; t < TC_N_TYPES; t++) {
    seed = 0x9e3779b97f4a7c15u + (uint64_t)t;
    next_case = 5 * t + (int)strlen(op->name);
    if (!has_type(s->types, (tc_type)t)) continue;
    switch (s->shapes) {
      case SHAPES_elements: run_elements(op, s, (tc_type)t); break;
      case SHAPES_pairs: run_pairs(op, s, (tc_type)t); break;
      case SHAPES_axes: run_axes(op, s, (tc_type)t); break;
      case SHAPES_products: run_products(op, s, (tc_type)t); break;
      case SHAPES_lookups: run_lookups(op, s, (tc_type)t); break;
    }
  }
  cr_expect(n_compared > 0, "%s: every type was refused", op->name);
}

// ---- One test per row ----

#define ROW_TEST(name, sample) \
  Test(cpu_vs_ref, name) { \
    static const op_row row = {#name, SAMPLE_##sample, SIGNATURE_OF(tc_##name), (any_fn *)tc_##name}; \
    run_row(&row); \
  }
#define TEST_none(name)
#define TEST_any(name) ROW_TEST(name, any)
#define TEST_tail(name) ROW_TEST(name, tail)
#define TEST_unit(name) ROW_TEST(name, unit)
#define TEST_positive(name) ROW_TEST(name, positive)
#define TEST_nonzero(name) ROW_TEST(name, nonzero)
#define TEST_above_one(name) ROW_TEST(name, above_one)
#define TEST_integer(name) ROW_TEST(name, integer)
#define TEST_pair(name) ROW_TEST(name, pair)
#define TEST_pair_near(name) ROW_TEST(name, pair_near)
#define TEST_pair_nonzero(name) ROW_TEST(name, pair_nonzero)
#define TEST_pair_positive(name) ROW_TEST(name, pair_positive)
#define TEST_pair_integer(name) ROW_TEST(name, pair_integer)
#define TEST_pair_shift(name) ROW_TEST(name, pair_shift)
#define TEST_select(name) ROW_TEST(name, select)
#define TEST_reduce(name) ROW_TEST(name, reduce)
#define TEST_scan(name) ROW_TEST(name, scan)
#define TEST_order(name) ROW_TEST(name, order)
#define TEST_contract(name) ROW_TEST(name, contract)
#define TEST_index(name) ROW_TEST(name, index)
#define TC_OP(NAME, name, kind, arity, dtype, vjp, saves, autocast, lower, reference, sample) TEST_##sample(name)
#include <tc/ops.def>
#undef TC_OP

// ---- Where the quotient rounds up to a whole number: numpy.floor_divide(float32([1, 0.3, -1, 6,
// 0.7]), float32([0.1, 0.1, 0.1, 0.1, -0.1])) ----

Test(cpu_vs_ref, floor_divide_is_not_the_floor_of_a_rounded_quotient) {
  static const float a[] = {1, 0.3f, -1, 6, 0.7f}, b[] = {0.1f, 0.1f, 0.1f, 0.1f, -0.1f}, want[] = {9, 3, -10, 59, -7};
  const char *const devices[] = {"tc:ref", near_device()};
  for (int k = 0; k < 2; k++) {
    float got[5];
    cr_assert_eq(tc_set_default_device(devices[k]), TC_OK);
    tc_scope scope = tc_scope_begin();
    cr_assert_eq(tc_to_host(tc_floor_divide(tc_from_host(a, TC_SHAPE(5), TC_F32), tc_from_host(b, TC_SHAPE(5), TC_F32)),
                            got, sizeof got),
                 TC_OK);
    tc_scope_end(scope);
    for (int i = 0; i < 5; i++)
      cr_expect_eq(got[i], want[i], "%s: %g // %g is %g, not %g", devices[k], a[i], b[i], want[i], got[i]);
  }
}

Test(cpu_vs_ref, integers_divided_by_zero_are_zero) {
  static tc_tensor (*const ops[])(tc_tensor, tc_tensor) = {tc_remainder, tc_fmod, tc_floor_divide};
  static const tc_type types[] = {TC_U8, TC_I8, TC_I16, TC_I32, TC_I64};
  static const double a[] = {5, 7, 0, 100, 3, 9}, b[] = {0, 0, 0, 0, 0, 2}, last[] = {1, 1, 4};
  const char *devices[] = {"tc:ref", near_device()};
  for (int k = 0; k < 2; k++) {
    cr_assert_eq(tc_set_default_device(devices[k]), TC_OK);
    for (size_t i = 0; i < 5; i++) {
      for (int op = 0; op < 3; op++) {
        double got[6];
        tc_scope scope = tc_scope_begin();
        tc_tensor x = tc_cast(tc_from_host(a, TC_SHAPE(6), TC_F64), types[i]),
                  y = tc_cast(tc_from_host(b, TC_SHAPE(6), TC_F64), types[i]);
        cr_expect_eq(tc_to_host(tc_cast(ops[op](x, y), TC_F64), got, sizeof got), TC_OK, "%s",
                     tc_last_error()->message);
        for (int n = 0; n < 6; n++)
          cr_expect_eq(got[n], n < 5 ? 0 : last[op], "%s: op %d, type %d: %g, %g", devices[k], op, (int)types[i], a[n],
                       got[n]);
        tc_scope_end(scope);
      }
    }
  }
}

// ---- Random ops: the same stream on both backends ----

static void draw(const char *device, double *out, int64_t n) {
  cr_assert_eq(tc_set_default_device(device), TC_OK);
  tc_seed(42);
  tc_scope scope = tc_scope_begin();
  tc_dims d = tc_dims_of(1, &n);
  const tc_tensor draws[] = {tc_rand(d, TC_F64),
                             tc_randn(d, TC_F64),
                             tc_cast(tc_randint(-5, 9, d, TC_I64), TC_F64),
                             tc_cast(tc_bernoulli(0.25, d), TC_F64),
                             tc_cast(tc_randperm(n), TC_F64),
                             tc_cast(tc_rand(d, TC_F32), TC_F64)};
  for (int k = 0; k < 6; k++)
    cr_expect_eq(tc_to_host(draws[k], out + k * n, (size_t)n * 8), TC_OK, "%s", tc_last_error()->message);
  tc_scope_end(scope);
}

Test(cpu_vs_ref, random_streams_agree_and_have_their_distributions) {
  enum { N = 4099 };
  static double ref[6 * N], cpu[6 * N], again[6 * N];
  draw("tc:ref", ref, N), draw(near_device(), cpu, N), draw(near_device(), again, N);
  cr_expect_eq(memcmp(cpu, again, sizeof cpu), 0, "one seed, two streams");
  cr_expect_eq(near_find(TC_F64, cpu, ref, 6 * N, (near_tol){4, 1e-14, false}), -1);
  double sum[6] = {0}, square = 0, seen = 0;
  for (int i = 0; i < N; i++) {
    for (int k = 0; k < 6; k++) sum[k] += cpu[k * N + i] / N;
    square += cpu[N + i] * cpu[N + i] / N, seen += cpu[4 * N + i];
    cr_expect(cpu[i] >= 0 && cpu[i] < 1 && cpu[5 * N + i] >= 0 && cpu[5 * N + i] < 1, "rand is in [0, 1)");
    cr_expect(cpu[2 * N + i] >= -5 && cpu[2 * N + i] < 9, "randint is in [low, high)");
  }
  // Five standard deviations of each mean.
  cr_expect(fabs(sum[0] - 0.5) < 0.023 && fabs(sum[5] - 0.5) < 0.023 && fabs(sum[1]) < 0.079 && fabs(square - 1) < 0.11,
            "means %g %g %g, square %g", sum[0], sum[5], sum[1], square);
  cr_expect(fabs(sum[2] - 1.5) < 0.32 && fabs(sum[3] - 0.25) < 0.034, "means %g %g", sum[2], sum[3]);
  cr_expect_eq(seen, (double)N * (N - 1) / 2, "randperm holds every number");
}
