// Memory of the caller as tensors: strided, written in place, given up, run only when asked, run for
// another thread, and borrowed twice.
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tests/expect.h"

#define GAP (-777)  // what the bytes between elements hold

// Memory of n elements, all GAP.
static double *memory_of(size_t n) {
  double *p = malloc(n * sizeof *p);  // of this size to the byte: a sanitizer sees what lies behind
  for (size_t i = 0; i < n; i++) p[i] = GAP;
  return p;
}

typedef struct strided_case {
  tc_dims shape;
  int64_t stride[TC_MAX_RANK];
} strided_case;

static const strided_case strided_cases[] = {
    {{2, {3, 4}}, {7, 1}},
    {{2, {3, 4}}, {1, 5}},
    {{2, {3, 4}}, {4, 1}},
    {{2, {3, 4}}, {-7, 1}},
    {{2, {3, 4}}, {7, -1}},
    {{2, {3, 4}}, {-1, -3}},
    {{1, {5}}, {3}},
    {{1, {5}}, {-2}},
    {{1, {1}}, {0}},
    {{3, {2, 3, 2}}, {20, 2, 7}},
    {{3, {2, 1, 3}}, {9, 0, 2}},
    {{0, {0}}, {0}},
    {{2, {1, 4}}, {100, 2}},
    {{3, {3, 2, 4}}, {8, 4, 1}},
    {{2, {3, 4}}, {8, 2}},
    {{3, {2, 3, 4}}, {-30, 10, -2}},
    {{3, {4, 3, 2}}, {1, 4, 12}},
    {{4, {2, 2, 2, 2}}, {3, 41, -7, 20}},
};

static int64_t place(const strided_case *c, int64_t index) {
  int64_t at = 0;
  for (int i = c->shape.rank; i-- > 0; index /= c->shape.dim[i]) at += index % c->shape.dim[i] * c->stride[i];
  return at;
}

static int64_t count(const strided_case *c) {
  int64_t n = 1;
  for (int i = 0; i < c->shape.rank; i++) n *= c->shape.dim[i];
  return n;
}

// The memory of a case: its elements are 0, 1, 2 .. in row-major order.
static double *case_memory(const strided_case *c, double **out_data, size_t *out_n) {
  int64_t low = 0, high = 0;
  for (int i = 0; i < c->shape.rank; i++) {
    int64_t reach = (c->shape.dim[i] - 1) * c->stride[i];
    *(reach < 0 ? &low : &high) += reach;
  }
  *out_n = (size_t)(high - low + 1);
  double *m = memory_of(*out_n);
  *out_data = m - low;
  for (int64_t i = 0; i < count(c); i++) (*out_data)[place(c, i)] = (double)i;
  return m;
}

// Of the memory of n elements, those of the case are factor times their number plus add; others are
// gaps.
static void expect_elements(const strided_case *c, double *m, double *data, size_t n, double factor, double add) {
  for (int64_t i = 0; i < count(c); i++) {
    double *e = &data[place(c, i)];
    EXPECT(*e == factor * (double)i + add, "case %d: element %d is %g", (int)(c - strided_cases), (int)i, *e);
    *e = GAP;
  }
  for (size_t i = 0; i < n; i++) EXPECT(m[i] == GAP, "case %d: gap %d is %g", (int)(c - strided_cases), (int)i, m[i]);
}

static void strided_memory_is_read_and_written_where_its_elements_lie(void) {
  for (size_t k = 0; k < sizeof strided_cases / sizeof *strided_cases; k++) {
    const strided_case *c = &strided_cases[k];
    double *data, all[64], sum = 0;
    size_t n;
    double *m = case_memory(c, &data, &n);
    int64_t n_elements = count(c);
    tc_scope s = tc_scope_begin();
    tc_tensor x = tc_borrow_strided(data, c->shape, c->stride, TC_F64, TC_WRITABLE, NULL, NULL);
    EXPECT(tc_is_valid(x), "case %zu", k);
    EXPECT_OK(tc_to_host(x, all, (size_t)n_elements * sizeof *all));
    for (int64_t i = 0; i < n_elements; i++) EXPECT(all[i] == (double)i, "case %zu: %g", k, all[i]);
    tc_tensor y = tc_add(tc_mul(x, 2), tc_mul(x, x)), before = tc_add(x, 0);
    EXPECT_OK(tc_to_host(y, all, (size_t)n_elements * sizeof *all));
    for (int64_t i = 0; i < n_elements; i++) EXPECT(all[i] == (double)(i * i + 2 * i), "case %zu: %g", k, all[i]);
    EXPECT_OK(tc_assign(x, tc_add(tc_mul(x, 3), 1)));
    EXPECT_OK(tc_assign(x, tc_mul(x, 2)));
    tc_tensor after = tc_sum(x, TC_ALL, false);
    EXPECT_OK(tc_item(after, &sum));
    EXPECT(sum == (double)(n_elements * (3 * (n_elements - 1) + 2)), "case %zu: %g", k, sum);
    EXPECT_OK(tc_to_host(before, all, (size_t)n_elements * sizeof *all));
    for (int64_t i = 0; i < n_elements; i++) EXPECT(all[i] == (double)i, "case %zu: before: %g", k, all[i]);
    const double *view = tc_map(x);
    for (int64_t i = 0; i < n_elements; i++) EXPECT(view && view[i] == (double)(6 * i + 2), "case %zu", k);
    EXPECT_OK(tc_unmap(x));
    tc_scope_end(s);
    expect_elements(c, m, data, n, 6, 2);
    free(m);
  }
}

static void strided_operands_give_what_dense_ones_do(void) {
  enum { M = 37, K = 29, N = 41, LD = 64 };
  double a[M * LD], b[N * LD], want = 0, got = 0, c[N * LD];
  for (int i = 0; i < M * LD; i++) a[i] = i % LD < K ? (double)(i % 17) - 8 : NAN;
  for (int i = 0; i < N * LD; i++) b[i] = i % LD < K ? (double)(i % 13) - 6 : NAN, c[i] = i % LD < M ? i % 7 : GAP;
  tc_scope s = tc_scope_begin();
  tc_tensor x = tc_borrow_strided(a, TC_SHAPE(M, K), (int64_t[]){LD, 1}, TC_F64, TC_READ_ONLY, NULL, NULL);
  tc_tensor y = tc_borrow_strided(b, TC_SHAPE(K, N), (int64_t[]){1, LD}, TC_F64, TC_CONSTANT, NULL, NULL);
  tc_tensor z = tc_borrow_strided(c, TC_SHAPE(M, N), (int64_t[]){1, LD}, TC_F64, TC_WRITABLE, NULL, NULL);
  tc_tensor sum = tc_sum(tc_matmul(x, y), TC_ALL, false);
  EXPECT_OK(tc_assign(z, tc_add(tc_mul(z, 2), tc_matmul(x, y))));
  EXPECT_OK(tc_sync(NULL));
  EXPECT_OK(tc_item(sum, &got));
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      double v = 0;
      for (int k = 0; k < K; k++) v += a[i * LD + k] * b[j * LD + k];
      want += v;
      EXPECT(c[j * LD + i] == 2 * ((j * LD + i) % 7) + v, "%d, %d: %g", i, j, c[j * LD + i]);
    }
  EXPECT(got == want, "%g, should be %g", got, want);
  for (int i = 0; i < N * LD; i++) EXPECT(i % LD < M || c[i] == GAP, "gap %d: %g", i, c[i]);
  // Read-only memory: an assign goes elsewhere.
  double first = a[0], now = 0;
  EXPECT_OK(tc_assign(x, tc_zeros(TC_SHAPE(M, K), TC_F64)));
  EXPECT_OK(tc_item(tc_sum(x, TC_ALL, false), &now));
  EXPECT(now == 0 && a[0] == first, "%g", now);
  tc_scope_end(s);
}

// A parameter in strided memory, trained.
static void gradients_of_strided_memory(void) {
  float w[8] = {1, 2, GAP, GAP, 3, 4, GAP, GAP};
  tc_scope s = tc_scope_begin();
  tc_tensor p = tc_borrow_strided(w, TC_SHAPE(2, 2), (int64_t[]){4, 1}, TC_F32, TC_WRITABLE, NULL, NULL);
  EXPECT_OK(tc_set_requires_grad(p, true));
  for (int step = 0; step < 3; step++) {
    EXPECT_OK(tc_backward(tc_sum(tc_mul(p, p), TC_ALL, false)));
    tc_no_grad_begin();
    EXPECT_OK(tc_assign(p, tc_sub(p, tc_mul(tc_grad(p), 0.25))));
    tc_no_grad_end();
    EXPECT_OK(tc_zero_grad_of(1, &p));
    EXPECT_OK(tc_sync(NULL));
  }
  EXPECT(w[0] == 0.125f && w[5] == 0.5f && w[2] == GAP && w[7] == GAP, "%g %g", (double)w[0], (double)w[5]);
  tc_scope_end(s);
}

static int n_released;
static void release_it(void *arg) {
  ++*(int *)arg;
}

static void strided_errors(void) {
  static const int64_t overlap[] = {3, 1}, zero[] = {0, 1}, interleaved[] = {3, 2}, huge[] = {INT64_MAX / 2, 1},
                       least[] = {INT64_MIN, 1};
  double d[64];
  float f[64];
  tc_scope s = tc_scope_begin();
  EXPECT_FAILS(tc_borrow_strided(d, TC_SHAPE(2, 4), overlap, TC_F64, TC_READ_ONLY, NULL, NULL), TC_ERR_ARG,
               "the stride of axis 0 is 3, and 4 elements");
  EXPECT_FAILS(tc_borrow_strided(d, TC_SHAPE(2, 4), zero, TC_F64, TC_WRITABLE, NULL, NULL), TC_ERR_ARG,
               "the stride of axis 0 is 0");
  EXPECT_FAILS(tc_borrow_strided(d, TC_SHAPE(2, 3), interleaved, TC_F64, TC_WRITABLE, NULL, NULL), TC_ERR_ARG,
               "overlap");
  EXPECT_FAILS(tc_borrow_strided(d, TC_SHAPE(4, 2), huge, TC_F64, TC_READ_ONLY, NULL, NULL), TC_ERR_SHAPE, "span");
  EXPECT_FAILS(tc_borrow_strided(d, TC_SHAPE(4, 2), least, TC_F64, TC_READ_ONLY, NULL, NULL), TC_ERR_SHAPE, "span");
  EXPECT_FAILS(tc_borrow_strided((void *)NULL, TC_SHAPE(2, 2), (int64_t[]){4, 1}, TC_F64, TC_READ_ONLY, NULL, NULL),
               TC_ERR_ARG, "NULL");
  EXPECT_FAILS(tc_borrow_strided(d, TC_SHAPE(2, 2), (int64_t[]){4, 1}, TC_F64, 9, NULL, NULL), TC_ERR_ARG,
               "the flags are 9");
  EXPECT_FAILS(tc_borrow_strided(f, TC_SHAPE(2, 2), (int64_t[]){4, 1}, TC_F64, TC_READ_ONLY, NULL, NULL), TC_ERR_DTYPE,
               "the pointer is to float");
  tc_tensor empty =
      tc_borrow_strided((double *)NULL, TC_SHAPE(0, 2), (int64_t[]){1, 1}, TC_F64, TC_READ_ONLY, NULL, NULL);
  EXPECT(tc_numel(empty) == 0, "%d", (int)tc_numel(empty));
  EXPECT(tc_is_valid(tc_borrow_strided(d, TC_SHAPE(2, 2), NULL, TC_F64, TC_READ_ONLY, NULL, NULL)), "no strides");
  (void)tc_borrow_strided(d, TC_SHAPE(2, 2), (int64_t[]){4, 1}, TC_F64, TC_READ_ONLY, release_it, &n_released);
  EXPECT(n_released == 0, "%d", n_released);
  tc_scope_end(s);
  EXPECT_OK(tc_sync(NULL));
  EXPECT(n_released == 1, "%d", n_released);
}

// Under a cap that has no room for a copy: a kernel writes where the caller's memory is.
static void an_assign_lands_without_a_copy(void) {
  enum { N = 1 << 20 };
  double *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y), sum = 0;
  for (int i = 0; i < N; i++) x[i] = i, y[i] = 1;
  if (strcmp(tc_get_default_device(), "tc:ref") != 0)  // where each op has its result in memory of its own
    EXPECT_OK(tc_set_memory_cap(tc_memory_stats().live_bytes + (1 << 20)));
  tc_scope s = tc_scope_begin();
  tc_tensor a = tc_borrow(x, TC_SHAPE(N), TC_F64, TC_READ_ONLY, NULL, NULL);
  tc_tensor b = tc_borrow(y, TC_SHAPE(N), TC_F64, TC_WRITABLE, NULL, NULL);
  for (int step = 0; step < 3; step++) {
    tc_scope inner = tc_scope_begin();
    EXPECT_OK(tc_assign(b, tc_add(b, tc_mul(a, 0.5))));
    tc_scope_end(inner);
    EXPECT_OK(tc_sync(NULL));
    EXPECT_OK(tc_item(tc_sum(b, TC_ALL, false), &sum));
    EXPECT(y[2] == 1 + 1 + step && y[N - 1] == 1 + (step + 1) * 0.5 * (N - 1), "step %d: %g", step, y[2]);
    EXPECT(sum == N + (step + 1) * 0.5 * (0.5 * N * (N - 1.0)), "step %d: %g", step, sum);
  }
  EXPECT_OK(tc_set_memory_cap(0));
  // Somebody still sees what it held: that is kept.
  tc_tensor old = tc_add(b, 0), seen = tc_mul(b, 2);
  double first[2] = {0};
  EXPECT_OK(tc_assign(b, tc_neg(seen)));
  EXPECT_OK(tc_sync(NULL));
  EXPECT(y[2] == -8, "%g", y[2]);
  EXPECT_OK(tc_to_host(tc_slice(old, 0, 2, 4, 1), first, sizeof first));
  EXPECT(first[0] == 4, "%g", first[0]);
  EXPECT_OK(tc_to_host(tc_slice(seen, 0, 2, 4, 1), first, sizeof first));
  EXPECT(first[0] == 8, "%g", first[0]);
  tc_scope_end(s);
  free(x), free(y);
}

static bool is_same(tc_tensor a, tc_tensor b) {
  return a.slot == b.slot && a.gen == b.gen;
}

// What a program does that borrows its arrays anew for each call: nothing runs before it asks, and
// each call sees what those before it assigned.
static void memory_that_is_borrowed_again_is_the_same_tensor(void) {
  double a[6] = {1, 2, 3, 4, 5, 6};
  tc_scope outer = tc_scope_begin();
  uint64_t n_runs = tc_cache_stats().plan_hits + tc_cache_stats().plan_misses;
  for (int call = 0; call < 5; call++) {
    tc_scope s = tc_scope_begin();
    tc_tensor x = tc_borrow(a, TC_SHAPE(6), TC_F64, TC_WRITABLE, NULL, NULL);
    tc_tensor y = tc_borrow(a, TC_SHAPE(6), TC_F64, TC_WRITABLE, NULL, NULL);
    EXPECT(is_same(x, y), "two tensors of one memory");
    EXPECT_OK(tc_assign(x, tc_mul(y, 2)));
    tc_scope_end(s);
    EXPECT(!tc_is_valid(x), "alive behind its scope");
    EXPECT(a[0] == 1, "it ran: %g", a[0]);
  }
  EXPECT(tc_cache_stats().plan_hits + tc_cache_stats().plan_misses == n_runs, "something ran");
  EXPECT_OK(tc_sync(NULL));
  EXPECT(a[0] == 32 && a[5] == 192, "%g %g", a[0], a[5]);
  tc_tensor m = tc_borrow_strided(a, TC_SHAPE(2, 2), (int64_t[]){3, 1}, TC_F64, TC_WRITABLE, NULL, NULL);
  tc_tensor again = tc_borrow_strided(a, TC_SHAPE(2, 2), (int64_t[]){3, 1}, TC_F64, TC_WRITABLE, NULL, NULL);
  tc_tensor turned = tc_borrow_strided(a, TC_SHAPE(2, 2), (int64_t[]){1, 3}, TC_F64, TC_WRITABLE, NULL, NULL);
  EXPECT(is_same(m, again) && !is_same(m, turned), "strided memory");
  tc_scope_end(outer);
}

// Whatever shares bytes: a part, another type, read-only memory, rows and columns.
static void borrows_that_share_bytes_see_each_others_assigns(void) {
  double a[12], all[12];
  for (int i = 0; i < 12; i++) a[i] = i;
  tc_scope s = tc_scope_begin();
  tc_tensor whole = tc_borrow(a, TC_SHAPE(12), TC_F64, TC_WRITABLE, NULL, NULL);
  tc_tensor part = tc_borrow(a + 4, TC_SHAPE(4), TC_F64, TC_WRITABLE, NULL, NULL);
  tc_tensor rows = tc_borrow(a, TC_SHAPE(3, 4), TC_F64, TC_READ_ONLY, NULL, NULL);
  tc_tensor bits = tc_borrow((void *)a, TC_SHAPE(12), TC_I64, TC_READ_ONLY, NULL, NULL);
  tc_tensor before = tc_mul(rows, 1), sum_before = tc_sum(rows, TC_ALL, false);
  EXPECT_OK(tc_eval(2, (tc_tensor[]){before, sum_before}));
  EXPECT_OK(tc_assign(part, tc_full(TC_SHAPE(4), 100, TC_F64)));
  EXPECT_OK(tc_to_host(whole, all, sizeof all));
  EXPECT(all[3] == 3 && all[4] == 100 && all[7] == 100 && all[8] == 8, "%g %g", all[4], all[8]);
  EXPECT_OK(tc_assign(whole, tc_add(whole, 1)));
  EXPECT_OK(tc_to_host(part, all, 4 * sizeof *all));
  EXPECT(all[0] == 101 && all[3] == 101, "%g", all[0]);
  EXPECT_OK(tc_assign(whole, tc_mul(whole, 2)));
  EXPECT_OK(tc_assign(part, tc_add(part, tc_slice(whole, 0, 0, 4, 1))));
  double v = 0;
  EXPECT_OK(tc_item(tc_sum(rows, TC_ALL, false), &v));
  EXPECT(v == 2 + 4 + 6 + 8 + (204 + 206 + 208 + 210) + 18 + 20 + 22 + 24, "%g", v);
  int64_t word[12], want;
  EXPECT_OK(tc_to_host(bits, word, sizeof word));
  memcpy(&want, &a[4], sizeof want);
  EXPECT(word[4] == want && a[4] == 204, "%g", a[4]);
  EXPECT_OK(tc_to_host(before, all, sizeof all));
  EXPECT(all[4] == 4, "a stored value changed: %g", all[4]);
  // Neighbours do not share bytes, and lie in one trace.
  tc_tensor left = tc_borrow(all, TC_SHAPE(6), TC_F64, TC_WRITABLE, NULL, NULL);
  tc_tensor right = tc_borrow(all + 6, TC_SHAPE(6), TC_F64, TC_WRITABLE, NULL, NULL);
  EXPECT_OK(tc_assign(left, tc_zeros(TC_SHAPE(6), TC_F64)));
  EXPECT_OK(tc_assign(right, tc_add(left, 1)));
  EXPECT(all[0] == 0 && all[4] == 4, "it ran: %g", all[4]);
  EXPECT_OK(tc_sync(NULL));
  EXPECT(all[4] == 0 && all[11] == 1, "%g %g", all[4], all[11]);
  // Memory under a pending assign is borrowed read-only: the assign runs first.
  EXPECT_OK(tc_assign(left, tc_full(TC_SHAPE(6), 5, TC_F64)));
  tc_tensor look = tc_borrow(all + 2, TC_SHAPE(8), TC_F64, TC_READ_ONLY, NULL, NULL);
  EXPECT(all[5] == 5, "%g", all[5]);
  EXPECT_OK(tc_item(tc_sum(look, TC_ALL, false), &v));
  EXPECT(v == 4 * 5 + 4, "%g", v);
  // One with a release of its own is a tensor of its own.
  int released = 0;
  tc_tensor own = tc_borrow(all, TC_SHAPE(6), TC_F64, TC_WRITABLE, release_it, &released);
  EXPECT(!is_same(own, left), "a release was lost");
  EXPECT_OK(tc_assign(own, tc_zeros(TC_SHAPE(6), TC_F64)));
  EXPECT_OK(tc_item(tc_sum(left, TC_ALL, false), &v));
  EXPECT(v == 0, "%g", v);
  tc_scope_end(s);
  EXPECT(released == 1, "%d", released);
}

// ---- Giving up ----

static void what_is_forgotten_never_lands(void) {
  double *x = memory_of(4), *y = memory_of(4), *z = memory_of(8), got = 0, all[4];
  uint64_t n_runs = tc_cache_stats().plan_hits + tc_cache_stats().plan_misses;
  int released = 0;
  tc_scope s = tc_scope_begin(), inner = tc_scope_begin();
  tc_tensor a = tc_keep(tc_borrow(x, TC_SHAPE(4), TC_F64, TC_WRITABLE, release_it, &released));
  EXPECT_OK(tc_assign(a, tc_mul(tc_add(a, 1), 2)));
  tc_tensor more = tc_retain(a);
  tc_scope_end(inner);
  EXPECT_OK(tc_forget(a));
  EXPECT(released == 1 && !tc_is_valid(a) && !tc_is_valid(more), "%d", released);
  for (int i = 0; i < 4; i++) EXPECT(x[i] == GAP, "it landed: %g", x[i]);
  free(x);
  EXPECT_OK(tc_sync(NULL));
  EXPECT(tc_cache_stats().plan_hits + tc_cache_stats().plan_misses == n_runs, "dead work ran");
  // What others have of it stays: pending, and as a recipe.
  for (int i = 0; i < 4; i++) y[i] = i;
  for (int i = 0; i < 8; i++) z[i] = i;
  tc_tensor b = tc_borrow(y, TC_SHAPE(4), TC_F64, TC_WRITABLE, NULL, NULL);
  tc_tensor c = tc_borrow_strided(z, TC_SHAPE(2, 2), (int64_t[]){5, 1}, TC_F64, TC_WRITABLE, NULL, NULL);
  tc_tensor recipe = tc_mul(b, 10), tail = tc_sum(tc_mul(c, c), TC_ALL, false);
  EXPECT_OK(tc_item(tc_sum(recipe, TC_ALL, false), &got));
  EXPECT(got == 60, "%g", got);
  tc_tensor pending = tc_add(b, 0.5);
  EXPECT_OK(tc_assign(b, tc_zeros(TC_SHAPE(4), TC_F64)));
  EXPECT_OK(tc_assign(c, tc_neg(c)));
  EXPECT_OK(tc_forget(b));
  EXPECT_OK(tc_forget(c));
  EXPECT(y[3] == 3 && z[1] == 1, "it landed: %g %g", y[3], z[1]);
  memset(y, -1, 4 * sizeof *y), memset(z, -1, 7 * sizeof *z);
  free(y), free(z);
  EXPECT_OK(tc_to_host(pending, all, sizeof all));
  EXPECT(all[0] == 0.5 && all[3] == 3.5, "%g", all[3]);
  EXPECT_OK(tc_to_host(recipe, all, sizeof all));
  EXPECT(all[3] == 30, "%g", all[3]);
  EXPECT_OK(tc_item(tail, &got));
  EXPECT(got == 0 + 1 + 25 + 36, "%g", got);
  // Other assigns of the trace still land.
  double u[2] = {1, 2}, v[2] = {3, 4};
  tc_tensor d = tc_borrow(u, TC_SHAPE(2), TC_F64, TC_WRITABLE, NULL, NULL);
  tc_tensor e = tc_borrow(v, TC_SHAPE(2), TC_F64, TC_WRITABLE, NULL, NULL);
  EXPECT_OK(tc_assign(d, tc_add(d, e)));
  EXPECT_OK(tc_assign(e, tc_add(d, e)));
  EXPECT_OK(tc_forget(d));
  EXPECT_OK(tc_sync(NULL));
  EXPECT(u[0] == 1 && v[0] == 7 && v[1] == 10, "%g %g %g", u[0], v[0], v[1]);
  EXPECT_OK(tc_forget(tc_ones(TC_SHAPE(3), TC_F32)));
  EXPECT_FAILS(tc_forget(d), TC_ERR_HANDLE, "released");
  tc_scope_end(s);
}

// ---- When it runs ----

static void nothing_runs_unasked(void) {
  enum { N = 1 << 18 };  // an assign of this many would end a scope with a run
  float *a = malloc(N * sizeof *a);
  double b[8] = {0};
  for (int i = 0; i < N; i++) a[i] = 1;
  tc_scope outer = tc_scope_begin();
  tc_tensor t = tc_borrow(a, TC_SHAPE(N), TC_F32, TC_WRITABLE, NULL, NULL);
  EXPECT_OK(tc_sync(NULL));
  tc_record_only_begin();
  for (int step = 0; step < 200; step++) {
    tc_scope s = tc_scope_begin();
    EXPECT_OK(tc_assign(t, tc_add(t, 1)));
    tc_scope_end(s);
  }
  EXPECT(a[0] == 1, "it ran: %g", (double)a[0]);
  EXPECT_OK(tc_sync(NULL));
  EXPECT(a[0] == 201 && a[N - 1] == 201, "%g", (double)a[0]);
  // More than may be pending is an error, and a sync goes on.
  tc_tensor x = tc_zeros(TC_SHAPE(4), TC_F32);
  long n = 0;
  tc_clear_error();
  for (tc_tensor y = x; tc_is_valid(y) && n < 10000000; n++) x = y, y = tc_add(y, 1);
  EXPECT(tc_last_error()->status == TC_ERR_STATE && strstr(tc_last_error()->message, "call tc_sync"), "after %ld", n);
  float all[4];
  EXPECT_OK(tc_sync(NULL));
  EXPECT_OK(tc_to_host(x, all, sizeof all));
  EXPECT(all[0] == (float)(n - 1), "%g of %ld", (double)all[0], n);
  // Memory borrowed twice would have to run.
  tc_tensor u = tc_borrow(b, TC_SHAPE(8), TC_F64, TC_WRITABLE, NULL, NULL);
  EXPECT_OK(tc_assign(u, tc_ones(TC_SHAPE(8), TC_F64)));
  EXPECT_FAILS(tc_borrow(b + 1, TC_SHAPE(4), TC_F64, TC_WRITABLE, NULL, NULL), TC_ERR_STATE, "another borrow");
  EXPECT_OK(tc_sync(NULL));
  tc_tensor v = tc_borrow(b + 1, TC_SHAPE(4), TC_F64, TC_WRITABLE, NULL, NULL);
  EXPECT_FAILS(tc_assign(v, tc_zeros(TC_SHAPE(4), TC_F64)), TC_ERR_STATE, "another borrow");
  EXPECT(b[1] == 1, "%g", b[1]);
  tc_record_only_end();
  EXPECT_OK(tc_assign(v, tc_zeros(TC_SHAPE(4), TC_F64)));
  EXPECT_OK(tc_sync(NULL));
  EXPECT(b[0] == 1 && b[1] == 0, "%g", b[1]);
  tc_scope_end(outer);
  free(a);
}

// ---- Other threads ----

static tc_tensor shared;
static double shared_memory[1000];

static void *sync_shared(void *arg) {
  EXPECT_OK(tc_sync_of(shared));
  EXPECT(shared_memory[999] == 7, "%g", shared_memory[999]);
  return arg;
}

static void another_thread_runs_what_is_pending(void) {
  pthread_t thread;
  tc_scope s = tc_scope_begin();
  shared = tc_borrow(shared_memory, TC_SHAPE(1000), TC_F64, TC_WRITABLE, NULL, NULL);
  EXPECT_OK(tc_assign(shared, tc_full(TC_SHAPE(1000), 7, TC_F64)));
  EXPECT(shared_memory[0] == 0, "it ran");
  pthread_create(&thread, NULL, sync_shared, NULL);
  pthread_join(thread, NULL);
  EXPECT(shared_memory[0] == 7, "%g", shared_memory[0]);
  EXPECT_OK(tc_assign(shared, tc_mul(shared, 2)));
  EXPECT_OK(tc_sync_of(shared));
  EXPECT(shared_memory[0] == 14, "%g", shared_memory[0]);
  tc_tensor dead = shared;
  tc_scope_end(s);
  EXPECT_FAILS(tc_sync_of(dead), TC_ERR_HANDLE, "sync_of");
  EXPECT_FAILS(tc_sync_of((tc_tensor){0, 0}), TC_ERR_HANDLE, "sync_of");
}

int main(void) {
  strided_memory_is_read_and_written_where_its_elements_lie();
  strided_operands_give_what_dense_ones_do();
  gradients_of_strided_memory();
  strided_errors();
  an_assign_lands_without_a_copy();
  memory_that_is_borrowed_again_is_the_same_tensor();
  borrows_that_share_bytes_see_each_others_assigns();
  what_is_forgotten_never_lands();
  nothing_runs_unasked();
  another_thread_runs_what_is_pending();
  return expect_done("api-borrow");
}
