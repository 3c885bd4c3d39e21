// Row kernels on the simulated device against the reference kernels: the same bits, but for running
// sums, products and log-sum-exps, which are made in chunks: they are near. Ops, types, shapes on
// both sides of where the work is cut differently, and what indices and floats can hold at worst.
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ref/ref.h"
#include "lowering/program/gpu/rows.h"
#include "runtime/status.h"
#include "tests/lowering/gpu_rows_run.h"

static tc_ref_fn *const reference[TC_N_OP_ROWS] = {
#define TC_OP(NAME, name, kind, arity, dtype, vjp, saves, autocast, lower, reference, sample) \
  [TC_OP_##NAME] = tc_ref_##reference,
#include <tc/ops.def>
#undef TC_OP
};

static const tc_type every[] = {TC_BOOL, TC_U8, TC_I8, TC_I16, TC_I32, TC_I64, TC_F16, TC_BF16, TC_F32, TC_F64};
static const tc_type floats[] = {TC_F16, TC_BF16, TC_F32, TC_F64};
#define N(array) ((int)(sizeof(array) / sizeof *(array)))
#define DIMS(...) tc_dims_of(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__})
#define WORDS(...) ((const uint64_t[]){__VA_ARGS__})

static uint64_t state;

static uint64_t draw(void) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return state >> 33;
}

static int64_t count_of(const tc_dims *d) {
  int64_t n = 1;
  for (int i = 0; i < d->rank; i++) n *= d->dim[i];
  return n;
}

static bool is_float(tc_type type) {
  return type == TC_F16 || type == TC_BF16 || type == TC_F32 || type == TC_F64;
}

typedef enum values { PLAIN, WILD, NEAR_ONE } values;

static void fill_with(tc_type type, int64_t n, void *p, values v) {
  static const double wild[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1.5, -1.5, 65504};
  for (int64_t i = 0; i < n; i++) {
    if (!is_float(type))
      tc_set_i64(type, p, i, v == WILD ? (int64_t)(draw() << 33 ^ draw()) : (int64_t)(draw() % 23) - 11);
    else if (v == NEAR_ONE)
      tc_set_f64(type, p, i, draw() % 2 ? 1.0 : (double)(draw() % 200) / 400 + 0.75);
    else
      tc_set_f64(type, p, i,
                 v == WILD && draw() % 4 == 0 ? wild[draw() % N(wild)] : ((double)(draw() % 2001) - 1000) / 250);
  }
}

// A tensor; freed by drop_all, which every run calls.
static void *held[512];
static int n_held;

static void *hold(size_t bytes) {
  cr_assert(n_held < N(held));
  return held[n_held++] = memset(malloc(bytes + 64), 0x5a, bytes + 64);
}

static tc_view make(tc_type type, tc_dims d, values v) {
  int64_t stride = 1;
  tc_view x = {.type = type, .rank = d.rank};
  for (int i = d.rank; i-- > 0; stride *= d.dim[i]) x.dim[i] = d.dim[i], x.stride[i] = stride;
  x.ptr = hold((size_t)stride * tc_type_bytes(type));
  fill_with(type, stride, x.ptr, v);
  return x;
}

// An index in [-extent, extent), with many duplicates.
static tc_view make_index(tc_dims d, int64_t extent) {
  tc_view x = make(TC_I64, d, PLAIN);
  for (int64_t i = 0; i < count_of(&d); i++)
    ((int64_t *)x.ptr)[i] = (int64_t)(draw() % (uint64_t)(2 * extent)) - extent;
  return x;
}

static void drop_all(void) {
  while (n_held > 0) free(held[--n_held]);
}

typedef struct row_case {
  tc_op op;
  int n_in;
  const tc_view *in;
  tc_type type;
  tc_dims out;
  const uint64_t *attr, *arg;
  int n_arg;
  bool filled, in_place;
  double tolerance;  // 0: the same bits
} row_case;

static bool same(const row_case *c, const void *a, const void *b, int64_t i) {
  size_t bytes = tc_type_bytes(c->type);
  if (memcmp((const char *)a + (size_t)i * bytes, (const char *)b + (size_t)i * bytes, bytes) == 0) return true;
  if (!is_float(c->type)) return false;
  double x = tc_get_f64(c->type, a, i), y = tc_get_f64(c->type, b, i);
  return (isnan(x) && isnan(y)) || fabs(x - y) <= c->tolerance * fmax(1, fabs(y));
}

static tc_gpu_tensor tensor_of(const tc_view *v) {
  tc_gpu_tensor t = {.type = v->type, .d = {.rank = v->rank}};
  for (int i = 0; i < v->rank; i++) t.d.dim[i] = v->dim[i];
  return t;
}

// Runs the row by the reference and on the device, and lets go of all tensors.
static void expect_row(const row_case *c) {
  int64_t n = count_of(&c->out), first = -1;
  size_t bytes = (size_t)n * tc_type_bytes(c->type);
  uint64_t value = 0;
  tc_view *in = hold(TC_MAX_OF(c->n_in, 1) * sizeof *in);
  tc_gpu_tensor *tensor = hold(TC_MAX_OF(c->n_in, 1) * sizeof *tensor);
  for (int k = 0; k < c->n_in; k++) in[k] = c->in[k], tensor[k] = tensor_of(&in[k]);
  tc_view out = make(c->type, c->out, PLAIN);
  if (c->filled) {
    tc_ref_call one = {.out = {.ptr = &value, .type = c->type}, .arg = c->arg + c->n_arg};
    cr_assert_eq(tc_ref_full(&one), TC_OK);
    in[0].ptr = &value, memset(in[0].stride, 0, sizeof in[0].stride);
  }
  tc_ref_call call = {.n_in = c->n_in, .in = in, .out = out, .attr = c->attr, .arg = c->arg};
  cr_assert_eq(reference[c->op](&call), TC_OK, "reference of %s", tc_op_names[c->op]);
  rows_job job = {.call = {.op = c->op,
                           .n_in = c->n_in,
                           .in = tensor,
                           .out = {c->type, c->out},
                           .attr = c->attr,
                           .n_arg = c->n_arg,
                           .filled = c->filled,
                           .in_place = c->in_place},
                  .arg = c->arg,
                  .out = hold(bytes)};
  for (int k = 0; k < c->n_in; k++) job.in[k] = c->in[k].ptr;
  rows_run(&job);
  for (int64_t i = 0; i < n && first < 0; i++)
    if (!same(c, job.out, out.ptr, i)) first = i;
  char text[128];
  cr_expect(first < 0, "%s of %s to %s%s%s: element %lld is %.17g, the reference has %.17g", tc_op_names[c->op],
            tc_type_name(c->n_in ? in[0].type : c->type), tc_dims_text(&c->out, text, sizeof text),
            c->filled ? ", filled" : "", c->in_place ? ", in place" : "", (long long)first,
            first < 0 ? 0 : tc_get_f64(c->type, job.out, first), first < 0 ? 0 : tc_get_f64(c->type, out.ptr, first));
  drop_all();
}

// ---- scans ----

static void expect_scan(tc_op op, tc_type type, tc_dims d, uint64_t axis, values v) {
  static const double near[] = {[TC_F16] = 2e-3, [TC_BF16] = 1e-2, [TC_F32] = 3e-7, [TC_F64] = 1e-11};
  bool exact = op == TC_OP_CUMMAX || op == TC_OP_CUMMIN || !is_float(type);
  tc_view x = make(type, d, v);
  expect_row(&(row_case){
      .op = op, .n_in = 1, .in = &x, .type = type, .out = d, .attr = WORDS(axis), .tolerance = exact ? 0 : near[type]});
}

static void expect_scans(tc_op op, tc_type type, values v) {
  expect_scan(op, type, TC_SCALAR, 0, v);
  expect_scan(op, type, DIMS(0), 0, v);
  expect_scan(op, type, DIMS(3, 0, 2), 0, v);
  expect_scan(op, type, DIMS(1), 0, v);
  expect_scan(op, type, DIMS(67), 0, v);  // along, one chunk
  expect_scan(op, type, DIMS(5, 7), 0, v);
  expect_scan(op, type, DIMS(300, 7), 1, v);
  expect_scan(op, type, DIMS(2, 5000), 1, v);  // along, three chunks
  expect_scan(op, type, DIMS(2, 150, 3), 1, v);  // across, three chunks
}

Test(gpu_rows, sums_and_products_of_every_type_they_have) {
  rows_open();
  const tc_type types[] = {TC_I64, TC_F16, TC_BF16, TC_F32, TC_F64};
  for (int i = 0; i < N(types); i++) {
    expect_scans(TC_OP_CUMSUM, types[i], PLAIN);
    expect_scans(TC_OP_CUMPROD, types[i], NEAR_ONE);
  }
}

Test(gpu_rows, extremes_of_every_type_stay_nan_after_a_nan) {
  rows_open();
  for (int i = 0; i < N(every); i++) {
    expect_scans(TC_OP_CUMMAX, every[i], WILD);
    expect_scans(TC_OP_CUMMIN, every[i], WILD);
  }
}

Test(gpu_rows, log_sum_exps_with_infinities_and_nan) {
  rows_open();
  for (int i = 0; i < N(floats); i++) {
    expect_scans(TC_OP_LOGCUMSUMEXP, floats[i], PLAIN);
    expect_scan(TC_OP_LOGCUMSUMEXP, floats[i], DIMS(40, 9), 1, WILD);
  }
}

Test(gpu_rows, chunks_of_several_tiles) {
  rows_open();
  expect_scan(TC_OP_CUMSUM, TC_F32, DIMS(530, 2060), 1, PLAIN);
}

// ---- order ----

static void expect_order(tc_op op, tc_type type, tc_dims d, uint64_t axis, uint64_t descending, int64_t k, values v) {
  tc_view x = make(type, d, v);
  tc_dims out = d;
  if (op == TC_OP_ARGTOPK) out.dim[axis] = k;
  expect_row(&(row_case){.op = op, .n_in = 1, .in = &x, .type = TC_I64, .out = out, .attr = WORDS(axis, descending)});
}

Test(gpu_rows, argsort_of_every_type_is_stable_with_nan_last) {
  rows_open();
  for (int i = 0; i < N(every); i++)
    for (uint64_t descending = 0; descending < 2; descending++) {
      expect_order(TC_OP_ARGSORT, every[i], DIMS(1), 0, descending, 0, WILD);
      expect_order(TC_OP_ARGSORT, every[i], DIMS(300, 5), 1, descending, 0, WILD);
      expect_order(TC_OP_ARGSORT, every[i], DIMS(3, 700, 2), 1, descending, 0, PLAIN);
      expect_order(TC_OP_ARGSORT, every[i], DIMS(2, 5000), 1, descending, 0, i % 2 ? WILD : PLAIN);
    }
}

Test(gpu_rows, argsort_around_a_tile) {
  const int64_t lengths[] = {2, 3, 64, 1023, 1024, 1025, 2048, 2049, 3100};
  rows_open();
  expect_order(TC_OP_ARGSORT, TC_F32, TC_SCALAR, 0, 0, 0, PLAIN);
  expect_order(TC_OP_ARGSORT, TC_F32, DIMS(0, 3), 0, 0, 0, PLAIN);
  for (int i = 0; i < N(lengths); i++) expect_order(TC_OP_ARGSORT, TC_F32, DIMS(2, lengths[i]), 1, 1, 0, PLAIN);
}

Test(gpu_rows, argtopk_of_every_type_keeps_the_first_of_equals) {
  const int64_t most[] = {0, 1, 7, 1024, 1500, 4500};
  rows_open();
  for (int i = 0; i < N(every); i++) {
    expect_order(TC_OP_ARGTOPK, every[i], DIMS(40, 30), 1, 1, 3, WILD);
    expect_order(TC_OP_ARGTOPK, every[i], DIMS(2100, 2), 0, 0, 10, PLAIN);
  }
  for (int i = 0; i < N(most); i++) {
    expect_order(TC_OP_ARGTOPK, TC_F64, DIMS(4500), 0, 1, most[i], PLAIN);
    expect_order(TC_OP_ARGTOPK, TC_F16, DIMS(4500), 0, 0, most[i], WILD);
  }
}

Test(gpu_rows, randperm_is_the_reference_s_permutation) {
  const int64_t lengths[] = {0, 1, 2, 1000, 1025, 5000};
  rows_open();
  for (int i = 0; i < N(lengths); i++)
    expect_row(&(row_case){.op = TC_OP_RANDPERM,
                           .type = TC_I64,
                           .out = DIMS(lengths[i]),
                           .arg = WORDS(UINT64_C(0x123456789abcdef0), UINT64_C(7) << 40 | 3),
                           .n_arg = 2});
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return isnan(x) || isnan(y) ? isnan(x) - isnan(y) : (x > y) - (x < y);
}

static void expect_search(tc_type type, tc_dims sorted, tc_dims values_d, uint64_t right) {
  tc_view in[] = {make(type, sorted, WILD), make(type, values_d, WILD)};
  int64_t n = sorted.dim[sorted.rank - 1];
  double *row = hold((size_t)(n + 1) * sizeof *row);
  for (int64_t at = 0; n > 0 && at < count_of(&sorted); at += n) {
    for (int64_t i = 0; i < n; i++) row[i] = tc_get_f64(type, in[0].ptr, at + i);
    qsort(row, (size_t)n, sizeof *row, by_value);
    for (int64_t i = 0; i < n; i++) tc_set_f64(type, in[0].ptr, at + i, row[i]);
  }
  expect_row(&(row_case){
      .op = TC_OP_SEARCHSORTED, .n_in = 2, .in = in, .type = TC_I64, .out = values_d, .attr = WORDS(right)});
}

Test(gpu_rows, searchsorted_of_every_type_on_both_sides_of_equals) {
  rows_open();
  for (int i = 0; i < N(every); i++)
    for (uint64_t right = 0; right < 2; right++) {
      expect_search(every[i], DIMS(37), DIMS(20, 30), right);
      expect_search(every[i], DIMS(3, 2, 10), DIMS(3, 2, 50), right);
    }
  expect_search(TC_F32, DIMS(0), DIMS(5), 0);
  expect_search(TC_F32, DIMS(5), TC_SCALAR, 1);
}

// ---- writing and adding by index ----

static void expect_put(tc_op op, tc_type type, tc_dims target, tc_dims index, tc_dims source, uint64_t axis, values v) {
  int64_t extent = target.rank ? target.dim[axis] : 1;
  for (int way = 0; way < 3; way++) {
    double value = 2.5;
    uint64_t arg = 3;
    if (is_float(type)) memcpy(&arg, &value, sizeof arg);
    tc_view in[] = {make(type, target, v), make_index(index, extent), make(type, source, v)};
    expect_row(&(row_case){.op = op,
                           .n_in = 3,
                           .in = in,
                           .type = type,
                           .out = target,
                           .attr = WORDS(axis),
                           .arg = &arg,
                           .filled = way == 1,
                           .in_place = way == 2});
  }
}

static void expect_puts(tc_op op, tc_type type, values v) {
  expect_put(op, type, TC_SCALAR, TC_SCALAR, TC_SCALAR, 0, v);
  expect_put(op, type, DIMS(4), DIMS(0), DIMS(3), 0, v);
  expect_put(op, type, DIMS(0), DIMS(0), DIMS(0), 0, v);
  expect_put(op, type, DIMS(50), DIMS(2500), DIMS(2500), 0, v);
  expect_put(op, type, DIMS(1), DIMS(300), DIMS(300), 0, v);
  expect_put(op, type, DIMS(6, 9, 5), DIMS(4, 12, 3), DIMS(5, 13, 5), 1, v);
  expect_put(op, type, DIMS(6, 9), DIMS(20, 9), DIMS(20, 9), 0, v);
  expect_put(op, type, DIMS(3, 4, 400), DIMS(2, 3, 60), DIMS(3, 3, 60), 2, v);  // few indices
}

Test(gpu_rows, scatter_of_every_type_lets_the_last_win) {
  rows_open();
  for (int i = 0; i < N(every); i++) expect_puts(TC_OP_SCATTER, every[i], WILD);
}

Test(gpu_rows, scatter_add_of_every_type_adds_in_the_order_of_the_index) {
  rows_open();
  for (int i = 0; i < N(every); i++) expect_puts(TC_OP_SCATTER_ADD, every[i], PLAIN);
}

Test(gpu_rows, index_add_of_every_type_adds_in_the_order_of_the_index) {
  rows_open();
  for (int i = 0; i < N(every); i++) {
    expect_put(TC_OP_INDEX_ADD, every[i], TC_SCALAR, TC_SCALAR, TC_SCALAR, 0, PLAIN);
    expect_put(TC_OP_INDEX_ADD, every[i], DIMS(4, 3), DIMS(0), DIMS(0, 3), 0, PLAIN);
    expect_put(TC_OP_INDEX_ADD, every[i], DIMS(7, 40), DIMS(1500), DIMS(1500, 40), 0, PLAIN);
    expect_put(TC_OP_INDEX_ADD, every[i], DIMS(5, 7), DIMS(3, 4), DIMS(5, 3, 4), 1, PLAIN);
    expect_put(TC_OP_INDEX_ADD, every[i], DIMS(3, 8, 2), TC_SCALAR, DIMS(3, 2), 1, PLAIN);
  }
}

Test(gpu_rows, indices_out_of_range_are_passed_over_and_told) {
  rows_open();
  const tc_op ops[] = {TC_OP_SCATTER, TC_OP_SCATTER_ADD, TC_OP_INDEX_ADD};
  float old[100], source[7] = {1, 2, 3, 4, 5, 6, 7}, out[100];
  for (int i = 0; i < 100; i++) old[i] = 10 * (float)(i + 1);
  for (int64_t n = 5; n <= 100; n += 95) {  // also where few indices name places of a large tensor
    int64_t index[] = {0, n, -n - 1, INT64_MAX, 1, INT64_MIN, -n};
    const tc_gpu_tensor in[] = {{TC_F32, DIMS(n)}, {TC_I64, DIMS(7)}, {TC_F32, DIMS(7)}};
    for (int i = 0; i < N(ops); i++) {
      bool adds = ops[i] != TC_OP_SCATTER;
      rows_job job = {.call = {.op = ops[i], .n_in = 3, .in = in, .out = in[0], .attr = WORDS(0)},
                      .in = {old, index, source},
                      .out = out};
      rows_run(&job);
      for (int k = 0; k < n; k++) {
        float want = k == 0 ? (adds ? 18 : 7) : k == 1 ? (adds ? 25 : 5) : old[k];
        cr_expect_eq(out[k], want, "%s: element %d is %g", tc_op_names[ops[i]], k, (double)out[k]);
      }
    }
  }
  int64_t index[] = {0, 5, -6, INT64_MAX, 1, INT64_MIN, -5};
  cr_expect_eq(rows_check(index, 7, 5, 1000), 1001);
  index[1] = 4;
  cr_expect_eq(rows_check(index, 7, 5, 1000), 1002);
  cr_expect_eq(rows_check(index, 2, 5, 1000), UINT64_MAX);
  cr_expect_eq(rows_check(index, 0, 5, 1000), UINT64_MAX);
  int64_t *many = hold(3000 * sizeof *many);
  for (int i = 0; i < 3000; i++) many[i] = i < 2900 ? i % 5 : 9;
  cr_expect_eq(rows_check(many, 3000, 5, 0), 2900);
  drop_all();
}

// ---- moves ----

static void expect_cat(tc_type type, int n, tc_dims each, uint64_t axis) {
  tc_view in[TC_REF_MAX_IN];
  tc_dims out = each;
  out.dim[axis] = 0;
  for (int k = 0; k < n; k++) {
    tc_dims d = each;
    d.dim[axis] = k % 5 == 3 ? 0 : each.dim[axis] + k % 3;
    out.dim[axis] += d.dim[axis];
    in[k] = make(type, d, WILD);
  }
  expect_row(&(row_case){.op = TC_OP_CAT, .n_in = n, .in = in, .type = type, .out = out, .attr = WORDS(axis)});
}

Test(gpu_rows, cat_of_many_operands_some_empty) {
  rows_open();
  for (int i = 0; i < N(every); i++) {
    expect_cat(every[i], 1, DIMS(4), 0);
    expect_cat(every[i], 40, DIMS(3, 2), 0);
    expect_cat(every[i], 9, DIMS(3, 2, 5), 1);
  }
  expect_cat(TC_F32, 256, DIMS(2, 3), 1);
}

static void expect_write(tc_type type, tc_dims d, tc_dims value, const int64_t *start, const int64_t *step) {
  for (int in_place = 0; in_place < 2; in_place++) {
    tc_view in[] = {make(type, d, WILD), make(type, value, WILD)};
    expect_row(&(row_case){.op = TC_OP_WRITE_SLICE,
                           .n_in = 2,
                           .in = in,
                           .type = type,
                           .out = d,
                           .attr = (const uint64_t *)step,
                           .arg = (const uint64_t *)start,
                           .n_arg = d.rank,
                           .in_place = in_place});
  }
}

Test(gpu_rows, write_slice_with_steps_both_ways) {
  rows_open();
  for (int i = 0; i < N(every); i++) {
    expect_write(every[i], DIMS(100), DIMS(20), (const int64_t[]){3}, (const int64_t[]){4});
    expect_write(every[i], DIMS(7, 9, 11), DIMS(3, 4, 5), (const int64_t[]){6, 1, 10}, (const int64_t[]){-2, 2, -1});
    expect_write(every[i], DIMS(7, 9), DIMS(2, 0), (const int64_t[]){0, 0}, (const int64_t[]){1, 1});
    expect_write(every[i], DIMS(1000, 3), DIMS(1, 3), (const int64_t[]){999, 0}, (const int64_t[]){1, 1});
  }
  expect_write(TC_F32, TC_SCALAR, TC_SCALAR, (const int64_t[]){0}, (const int64_t[]){1});
}

static void expect_unwindow(tc_type type, tc_dims out, uint64_t axis, int64_t size, int64_t step, int64_t dilation) {
  tc_dims d = out;
  d.dim[axis] = (out.dim[axis] - (size - 1) * dilation - 1) / step + 1;
  d.dim[d.rank++] = size;
  tc_view x = make(type, d, PLAIN);
  expect_row(&(row_case){.op = TC_OP_UNWINDOW,
                         .n_in = 1,
                         .in = &x,
                         .type = type,
                         .out = out,
                         .attr = WORDS(axis, (uint64_t)size, (uint64_t)step, (uint64_t)dilation)});
}

Test(gpu_rows, unwindow_of_every_type_adds_in_the_order_of_windows) {
  rows_open();
  for (int i = 0; i < N(every); i++) {
    expect_unwindow(every[i], DIMS(600), 0, 3, 1, 1);
    expect_unwindow(every[i], DIMS(3, 20, 4), 1, 4, 3, 2);
    expect_unwindow(every[i], DIMS(20, 3), 0, 2, 5, 1);
  }
}

Test(gpu_rows, results_made_of_nothing) {
  rows_open();
  for (int i = 0; i < N(every); i++) {
    tc_view x = make(every[i], DIMS(3, 0), PLAIN);
    expect_row(&(row_case){.op = TC_OP_PROD,
                           .n_in = 1,
                           .in = &x,
                           .type = every[i] >= TC_F16 ? every[i] : TC_I64,
                           .out = DIMS(3),
                           .attr = WORDS(2)});
    tc_view y = make(every[i], DIMS(0, 9), PLAIN);
    double padding = 1.25;
    uint64_t arg = 1;
    if (is_float(every[i])) memcpy(&arg, &padding, sizeof arg);
    expect_row(&(row_case){.op = TC_OP_PAD,
                           .n_in = 1,
                           .in = &y,
                           .type = every[i],
                           .out = DIMS(3, 13),
                           .attr = WORDS(1, 2, 2, 2),
                           .arg = &arg,
                           .n_arg = 1});
  }
  tc_view bools = make(TC_BOOL, DIMS(0, 5), PLAIN);
  expect_row(&(row_case){.op = TC_OP_ALL, .n_in = 1, .in = &bools, .type = TC_BOOL, .out = DIMS(5), .attr = WORDS(1)});
  tc_view factors[] = {make(TC_F32, DIMS(4, 0), PLAIN), make(TC_F32, DIMS(0, 3), PLAIN)};
  expect_row(&(row_case){.op = TC_OP_MATMUL, .n_in = 2, .in = factors, .type = TC_F32, .out = DIMS(4, 3)});
}

Test(gpu_rows, zeros_and_what_lies_around_them) {
  const uint64_t lengths[] = {0, 1, 15, 16, 17, 5000};
  rows_open();
  for (int i = 0; i < N(lengths); i++)
    for (uint64_t offset = 0; offset < 18; offset += 3) {
      uint8_t out[5100];
      rows_zero(out, sizeof out, offset, lengths[i]);
      for (uint64_t k = 0; k < sizeof out; k++) {
        bool inside = k >= offset && k < offset + lengths[i];
        cr_assert_eq(out[k], inside ? 0 : 0x5a, "%llu bytes from %llu: byte %llu", (unsigned long long)lengths[i],
                     (unsigned long long)offset, (unsigned long long)k);
      }
    }
}

Test(gpu_rows, a_row_that_emitters_make_is_refused) {
  tc_arena arena = {0};
  tc_gpu_row row;
  const tc_gpu_tensor x = {TC_F32, DIMS(4)};
  const tc_gpu_row_call call = {.op = TC_OP_EXP, .n_in = 1, .in = &x, .out = x};
  cr_expect_eq(tc_gpu_row_make(&call, &arena, &row), TC_ERR_ARG);
  cr_expect_str_eq(tc_last_error()->message, "exp: no kernel for a GPU makes this row alone");
  tc_arena_fini(&arena);
}
