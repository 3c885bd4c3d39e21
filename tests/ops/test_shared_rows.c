// Rows that run as reference kernels in shares: the same bits with any number of threads; and bad
// indices, which any thread may meet first.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <tc/tc.h>

#include "tests/near.h"

static tc_tensor x, column, rows, ids, many, src;  // stored, on tc:cpu

static tc_tensor cumsum_down(void) {
  return tc_cumsum(x, 0);
}
static tc_tensor cumsum_along(void) {
  return tc_cumsum(x, 1);
}
static tc_tensor cumprod_down(void) {
  return tc_cumprod(tc_add(tc_mul(x, 1e-3), 1), 0);
}
static tc_tensor cumsum_of_one_row(void) {
  return tc_cumsum(column, 0);
}
static tc_tensor scatter_add_in_a_line(void) {
  return tc_scatter_add(column, 0, many, src);
}
static tc_tensor scatter_in_a_line(void) {
  return tc_scatter(column, 0, many, src);
}
static tc_tensor narrow_scatter_add(void) {
  return tc_scatter_add(tc_cast(column, TC_BF16), 0, many, tc_cast(src, TC_BF16));
}
static tc_tensor index_add_rows(void) {
  return tc_index_add(x, 0, ids, rows);
}
static tc_tensor index_add_into_zeros(void) {
  return tc_index_add(tc_zeros(TC_SHAPE(1000, 100), TC_F32), 0, ids, rows);
}
static tc_tensor scatter_add_into_twos(void) {
  return tc_scatter_add(tc_full(TC_SHAPE(90000), 2.5, TC_F32), 0, many, src);
}
static tc_tensor scatter_add_into_whole_threes(void) {
  return tc_scatter_add(tc_full(TC_SHAPE(90000), 3, TC_I64), 0, many, many);
}
static tc_tensor fill_read_twice(void) {  // one fill is written into and read besides
  tc_tensor fill = tc_full(TC_SHAPE(90000), 0.5, TC_F32);
  return tc_add(tc_scatter_add(fill, 0, many, src), tc_cumsum(fill, 0));
}
static tc_tensor embedding_gradient(void) {
  tc_tensor w = tc_param(x), y = tc_sum(tc_mul(tc_embedding(w, ids), rows), TC_ALL, false), g;
  cr_assert_eq(tc_grads_of(y, &w, 1, &g, 0), TC_OK);
  tc_release(w);
  return g;
}
static tc_tensor strided_write(void) {
  const int64_t start[] = {1, 99}, stop[] = {1000, -1 - 100}, step[] = {3, -2};
  tc_tensor t = tc_mul(x, 1);
  cr_assert_eq(tc_assign_slice(t, start, stop, step, tc_scalar(7)), TC_OK, "%s", tc_last_error()->message);
  return t;
}
static tc_tensor cat_of_forty(void) {
  tc_tensor piece[40];
  for (int i = 0; i < 40; i++) piece[i] = tc_slice(x, 0, 10 * i, 10 * i + 10 + i % 3, 1);
  return tc_cat(40, piece, 0);
}

static tc_tensor overlapping_sums(void) {
  tc_tensor p = tc_param(x), y = tc_sum(tc_square(tc_unfold(tc_unfold(p, 0, 5, 2), 1, 4, 1)), TC_ALL, false), g;
  cr_assert_eq(tc_grads_of(y, &p, 1, &g, 0), TC_OK);
  tc_release(p);
  return g;
}

typedef tc_tensor make_fn(void);
static make_fn *const makes[] = {cumsum_down,
                                 cumsum_along,
                                 cumprod_down,
                                 cumsum_of_one_row,
                                 scatter_add_in_a_line,
                                 scatter_in_a_line,
                                 narrow_scatter_add,
                                 index_add_rows,
                                 index_add_into_zeros,
                                 scatter_add_into_twos,
                                 scatter_add_into_whole_threes,
                                 fill_read_twice,
                                 embedding_gradient,
                                 strided_write,
                                 cat_of_forty,
                                 overlapping_sums};

static void prepare(const char *device) {
  cr_assert_eq(tc_set_default_device(device), TC_OK);
  tc_seed(3);
  x = tc_sub(tc_rand(TC_SHAPE(1000, 100), TC_F32), 0.5), column = tc_rand(TC_SHAPE(90000), TC_F32),
  rows = tc_rand(TC_SHAPE(3000, 100), TC_F32);
  ids = tc_randint(-1000, 1000, TC_SHAPE(3000), TC_I64), many = tc_randint(0, 90000, TC_SHAPE(80000), TC_I64),
  src = tc_rand(TC_SHAPE(80000), TC_F32);
  cr_assert_eq(tc_eval(6, (const tc_tensor[]){x, column, rows, ids, many, src}), TC_OK);
}

// A plan is made for the number of threads there is then.
static int64_t run(make_fn *make, int n_threads, double *out) {
  tc_cache_clear();
  cr_assert_eq(tc_set_num_threads(n_threads), TC_OK);
  tc_tensor y = tc_cast(make(), TC_F64);
  int64_t n = tc_numel(y);
  cr_assert_eq(tc_to_host(y, out, (size_t)n * sizeof *out), TC_OK, "%s", tc_last_error()->message);
  return n;
}

Test(shared_rows, any_number_of_threads_gives_the_same_bits) {
  static double alone[100000], together[100000], reference[100000];
  for (size_t i = 0; i < sizeof makes / sizeof makes[0]; i++) {
    prepare("tc:ref");
    int64_t n = run(makes[i], 1, reference);
    prepare("tc:cpu");
    cr_assert_eq(run(makes[i], 1, alone), n);
    int64_t at = near_find(TC_F64, alone, reference, n, (near_tol){.abs = 2e-2});
    cr_expect_eq(at, -1, "row %zu: [%lld] is %g, on tc:ref %g", i, (long long)at, alone[at < 0 ? 0 : at],
                 reference[at < 0 ? 0 : at]);
    for (int threads = 2; threads <= 5; threads++) {
      cr_assert_eq(run(makes[i], threads, together), n);
      cr_expect_eq(memcmp(alone, together, (size_t)n * sizeof *alone), 0, "row %zu with %d threads", i, threads);
    }
  }
}

Test(shared_rows, a_bad_index_is_told_by_its_place_whoever_meets_it) {
  enum { N = 100000 };
  static int64_t bad[N];
  prepare("tc:cpu");
  cr_assert_eq(tc_set_num_threads(4), TC_OK);
  for (int round = 0; round < 20; round++) {
    memset(bad, 0, sizeof bad);
    bad[N - 1] = INT64_C(1) << 40, bad[N / 2 + 4000 * round % (N / 2)] = 1000;
    char want[64];
    snprintf(want, sizeof want, "index 1000 at position %d", N / 2 + 4000 * round % (N / 2));
    tc_tensor y = tc_index_select(x, 0, tc_from_host(bad, TC_SHAPE(N), TC_I64));
    tc_clear_error();
    cr_expect_eq(tc_eval(1, &y), TC_ERR_INDEX);
    cr_expect(strstr(tc_last_error()->message, want) != NULL, "%s, not %s", tc_last_error()->message, want);
    tc_release(y);
  }
}
