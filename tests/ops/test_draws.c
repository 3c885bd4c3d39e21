// Random draws: the values that kernels/philox.h fixes by position, whatever kernel makes them.
// tc:ref draws element by element; tc:cpu draws in the kernel that reads the value, in lanes that
// share blocks where positions allow it.
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tc/tc.h>

#include "tests/near.h"

enum { RAND, RANDN, RANDINT, RANDINT_FULL, RANDINT_TWO, N_KINDS };

static tc_tensor draw(int kind, tc_dims d, tc_type type) {
  switch (kind) {
    case RAND: return tc_rand(d, type);
    case RANDN: return tc_randn(d, type);
    case RANDINT: return tc_randint(-7, 100, d, type);
    // 2^32 values, as wide as can be
    case RANDINT_FULL: return tc_randint(-(INT64_C(1) << 31), INT64_C(1) << 31, d, type);
    default: return tc_randint(0, 2, d, type);
  }
}

static bool fits(int kind, tc_type type) {
  if (near_is_float(type) || kind < RANDINT) return near_is_float(type) && kind < RANDINT;
  if (kind == RANDINT) return type != TC_BOOL && type != TC_U8;
  return kind == RANDINT_TWO || tc_type_bytes(type) >= 4;
}

static void draw_on(const char *device, int kind, int64_t n, tc_type type, void *out) {
  cr_assert_eq(tc_set_default_device(device), TC_OK);
  tc_seed(UINT64_C(0x123456789abcdef0) + (uint64_t)n);
  tc_scope scope = tc_scope_begin();
  cr_assert_eq(tc_to_host(draw(kind, tc_dims_of(1, &n), type), out, (size_t)n * tc_type_bytes(type)), TC_OK, "%s",
               tc_last_error()->message);
  tc_scope_end(scope);
}

// Integers, uniform values and f64 normals have the reference's bits. Normals of narrow types go
// through f32 functions.
Test(draws, every_type_and_length_agrees_with_the_reference) {
  static const int64_t lengths[] = {1, 2, 3, 4, 5, 7, 31, 63, 64, 65, 1000, 20011};
  for (int k = 0; k < N_KINDS; k++)
    for (tc_type type = 0; type < TC_N_TYPES; type++)
      for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        if (!fits(k, type)) continue;
        size_t bytes = (size_t)lengths[i] * tc_type_bytes(type);
        void *cpu = malloc(bytes), *ref = malloc(bytes);
        draw_on("tc:cpu", k, lengths[i], type, cpu), draw_on("tc:ref", k, lengths[i], type, ref);
        near_tol tol = {.ulp = type == TC_F32 ? 4 : 1};
        int64_t at = k == RANDN && type != TC_F64   ? near_find(type, cpu, ref, lengths[i], tol)
                     : memcmp(cpu, ref, bytes) == 0 ? -1
                                                    : 0;
        cr_expect_eq(at, -1, "kind %d, %s, %lld elements: [%lld]", k, tc_type_name(type), (long long)lengths[i],
                     (long long)at);
        free(cpu), free(ref);
      }
}

// ---- The same value whoever reads it ----

typedef tc_tensor reader_fn(tc_tensor v);

static tc_tensor alone(tc_tensor v) {
  return tc_add(v, 1);
}
static tc_tensor sum_of_rows(tc_tensor v) {
  return tc_sum(v, TC_AXES(1), false);
}
static tc_tensor sum_of_columns(tc_tensor v) {
  return tc_sum(v, TC_AXES(0), false);
}
static tc_tensor less_row_means(tc_tensor v) {
  return tc_sub(v, tc_mean(v, TC_AXES(1), true));
}
static tc_tensor softmax_of_rows(tc_tensor v) {
  return tc_softmax(v, 1);
}
static tc_tensor transposed(tc_tensor v) {
  return tc_add(tc_transpose(v, 0, 1), 1);
}
static tc_tensor cut(tc_tensor v) {
  return tc_add(tc_slice(v, 1, 1, tc_shape(v).dim[1], 2), 1);
}
static tc_tensor twice(tc_tensor v) {  // two kernels read it
  return tc_add(tc_sum(tc_exp(v), TC_AXES(0), true), tc_transpose(tc_sum(v, TC_AXES(1), true), 0, 1));
}
static tc_tensor after_product(tc_tensor v) {
  tc_dims d = tc_shape(v);
  tc_tensor a = tc_ones(TC_SHAPE(d.dim[0], 3), TC_F32), b = tc_ones(TC_SHAPE(3, d.dim[1]), TC_F32);
  return tc_mul(tc_matmul(a, b), v);
}
static tc_tensor of_reduced(tc_tensor v) {  // one draw a row, one a column
  tc_tensor rows = tc_slice(v, 1, 0, 1, 1), columns = tc_slice(v, 0, 0, 1, 1);
  return tc_add(tc_mul(v, rows), columns);
}
static reader_fn *const readers[] = {alone,      sum_of_rows, sum_of_columns, less_row_means, softmax_of_rows,
                                     transposed, cut,         twice,          after_product,  of_reduced};

// One draw read by the reader in a plan of its own, or drawn and stored first.
static int64_t read_by(int reader, int kind, tc_dims d, bool stored_first, float *out) {
  tc_seed(77);
  tc_scope scope = tc_scope_begin();
  tc_tensor v = draw(kind, d, TC_F32);
  if (stored_first) cr_assert_eq(tc_eval(1, &v), TC_OK);
  tc_tensor y = readers[reader](v);
  int64_t n = tc_numel(y);
  cr_assert_eq(tc_to_host(y, out, (size_t)n * sizeof *out), TC_OK, "%s", tc_last_error()->message);
  tc_scope_end(scope);
  return n;
}

Test(draws, a_fused_draw_is_the_value_drawn_alone) {
  static const int64_t shapes[][2] = {{3, 4},   {5, 7},   {64, 64},  {33, 100}, {7, 1022},
                                      {300, 9}, {2, 128}, {130, 66}, {40, 1},   {40, 2}};
  static float fused[40000], apart[40000];
  cr_assert_eq(tc_set_default_device("tc:cpu"), TC_OK);
  for (size_t r = 0; r < sizeof readers / sizeof readers[0]; r++)
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
      for (int kind = RAND; kind <= RANDN; kind++) {
        if (readers[r] == twice && shapes[i][0] != shapes[i][1]) continue;
        int64_t n = read_by((int)r, kind, tc_dims_of(2, shapes[i]), false, fused);
        cr_assert_eq(read_by((int)r, kind, tc_dims_of(2, shapes[i]), true, apart), n);
        int64_t at = near_find(TC_F32, fused, apart, n, (near_tol){.bits = true});
        cr_expect_eq(at, -1, "reader %zu of %lld x %lld, kind %d: [%lld] is %g, alone %g", r, (long long)shapes[i][0],
                     (long long)shapes[i][1], kind, (long long)at, (double)fused[at < 0 ? 0 : at],
                     (double)apart[at < 0 ? 0 : at]);
      }
}

// The mask of the backward pass is the forward's, also when a sync lies between them.
Test(draws, dropout_has_one_mask_in_both_directions) {
  enum { N = 4100 };
  static float y[N], g[N];
  cr_assert_eq(tc_set_default_device("tc:cpu"), TC_OK);
  for (int between = 0; between < 2; between++) {
    tc_seed(5);
    tc_tensor x = tc_param(tc_ones(TC_SHAPE(N), TC_F32)), out = tc_dropout(x, 0.3);
    if (between) cr_assert_eq(tc_to_host(out, y, sizeof y), TC_OK);
    cr_assert_eq(tc_backward(tc_sum(out, TC_ALL, false)), TC_OK);
    if (!between) cr_assert_eq(tc_to_host(out, y, sizeof y), TC_OK);
    cr_assert_eq(tc_to_host(tc_grad(x), g, sizeof g), TC_OK);
    cr_expect_eq(memcmp(y, g, sizeof y), 0, "a sync between: %d", between);
    int zeros = 0;
    for (int i = 0; i < N; i++) zeros += y[i] == 0;
    cr_expect(abs(zeros - 1230) < 150, "%d of %d dropped", zeros, N);  // five standard deviations
    tc_release(x);
  }
}

// A step's draws are fused into what reads them: one kernel, nothing stored but the result.
Test(draws, dropout_is_one_kernel) {
  cr_assert_eq(tc_set_default_device("tc:cpu"), TC_OK);
  tc_tensor x = tc_ones(TC_SHAPE(64, 64), TC_F32), y = tc_dropout(tc_relu(tc_add(x, 1)), 0.5);
  cr_assert_eq(tc_eval(1, &x), TC_OK);
  cr_assert_eq(tc_eval(1, &y), TC_OK);
  tc_sync_point p[256];
  int n = tc_sync_points(256, p);
  cr_assert_gt(n, 0);
  cr_expect_eq(p[n - 1].n_kernels, 1, "%u kernels", p[n - 1].n_kernels);
}
