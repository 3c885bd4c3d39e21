// Gradients of a large table of which few rows are looked up, and the step of training that adds
// them: the values of a sum over the whole table, in the order of look-ups; in place; and not at
// all where an index is bad.
#include <criterion/criterion.h>
#include <string.h>
#include <tc/tc.h>

#include "tests/near.h"

enum { PLACES = 1000, ROW = 96, COUNT = PLACES * ROW, N = 60 };
static const float LR = 0.3F;

typedef struct table {
  int axis;
  float value[COUNT], g[N * ROW], sum[COUNT];  // g: by look-ups along the axis
  int64_t index[N];
} table;

static tc_dims shape_of(int axis, int64_t places) {
  return axis == 0 ? TC_SHAPE(places, ROW) : TC_SHAPE(ROW, places);
}

// Element j of a place.
static int64_t at(int axis, int64_t places, int64_t place, int64_t j) {
  return axis == 0 ? place * ROW + j : j * places + place;
}

// Places come again, counted from either end, but not that of the first look-up; the first and the
// last are among them. Sums are made in the order of look-ups.
static table *make(int axis) {
  static table x;
  x = (table){.axis = axis};
  uint32_t state = 7;
  for (int i = 0; i < COUNT; i++) x.value[i] = (float)((state = state * 1664525 + 1013904223) >> 8) * 0x1p-24F - 0.5F;
  for (int i = 0; i < N * ROW; i++) x.g[i] = (float)((state = state * 1664525 + 1013904223) >> 8) * 0x1p-20F - 8;
  for (int i = 0; i < N; i++)
    x.index[i] = (int64_t)((state = state * 1664525 + 1013904223) >> 8) % (2 * PLACES) - PLACES;
  x.index[1] = -1, x.index[2] = 0, x.index[N - 2] = -PLACES, x.index[N - 1] = x.index[7], x.index[20] = x.index[7];
  for (int i = 0; i < N; i++)
    for (int j = 0; j < ROW; j++) {
      float *sum = &x.sum[at(axis, PLACES, (x.index[i] + PLACES) % PLACES, j)];
      *sum = *sum + x.g[at(axis, N, i, j)];
    }
  for (int i = 1; i < N; i++) cr_assert_neq((x.index[i] + PLACES) % PLACES, (x.index[0] + PLACES) % PLACES);
  return &x;
}

static tc_tensor table_of(const table *x) {
  return tc_param(tc_from_host(x->value, shape_of(x->axis, PLACES), TC_F32));
}

static tc_tensor index_of(const table *x, tc_type type) {
  return tc_cast(tc_from_host(x->index, TC_SHAPE(N), TC_I64), type);
}

// Backward through a look-up whose result has the gradient g.
static void look_up(const table *x, tc_tensor p, tc_tensor index) {
  tc_tensor y = tc_index_select(p, x->axis, index), g = tc_from_host(x->g, shape_of(x->axis, N), TC_F32);
  cr_assert_eq(tc_backward_with(y, tc_cast(g, tc_dtype(p)), 0), TC_OK, "%s", tc_last_error()->message);
}

static void expect_bits(tc_tensor t, const float *want, const char *what) {
  static float got[COUNT];
  cr_assert_eq(tc_to_host(t, got, sizeof got), TC_OK, "%s: %s", what, tc_last_error()->message);
  int64_t i = near_find(TC_F32, got, want, COUNT, (near_tol){.bits = true});
  cr_expect_eq(i, -1, "%s: [%lld] is %.9g, not %.9g", what, (long long)i, (double)got[i < 0 ? 0 : i],
               (double)want[i < 0 ? 0 : i]);
}

// The table after a step of plain gradient descent.
static const float *after_step(const table *x) {
  static float next[COUNT];
  for (int i = 0; i < COUNT; i++) {
    volatile float scaled = -LR * x->sum[i];  // rounded
    next[i] = x->value[i] + scaled;
  }
  return next;
}

static const char *const devices[] = {"tc:ref", "tc:cpu"};

#define EACH_WAY \
  for (int d = 0; d < 2; d++) \
    for (int axis = 0; axis < 2; axis++)

Test(few_rows, the_gradient_is_the_sum_in_the_order_of_look_ups) {
  EACH_WAY {
    cr_assert_eq(tc_set_default_device(devices[d]), TC_OK);
    const table *x = make(axis);
    for (int narrow = 0; narrow < 2; narrow++) {
      tc_tensor p = table_of(x);
      look_up(x, p, index_of(x, narrow ? TC_I32 : TC_I64));
      expect_bits(tc_grad(p), x->sum, devices[d]);
      tc_release(p);
    }
  }
}

// In f16 a sum is rounded once.
Test(few_rows, narrow_types_are_added_up_before_they_are_rounded) {
  static float got[COUNT], want[COUNT];
  static double sum[COUNT];
  const table *x = make(0);
  static _Float16 half[COUNT];
  for (int d = 0; d < 2; d++) {
    cr_assert_eq(tc_set_default_device(devices[d]), TC_OK);
    memset(sum, 0, sizeof sum);
    for (int i = 0; i < N; i++)
      for (int j = 0; j < ROW; j++) {
        near_set(TC_F16, half, 0, (double)x->g[i * ROW + j]);
        sum[(x->index[i] + PLACES) % PLACES * ROW + j] += near_get(TC_F16, half, 0);
      }
    for (int i = 0; i < COUNT; i++) near_set(TC_F16, half, 0, sum[i]), want[i] = (float)near_get(TC_F16, half, 0);
    tc_tensor p = tc_param(tc_cast(tc_from_host(x->value, TC_SHAPE(PLACES, ROW), TC_F32), TC_F16));
    look_up(x, p, index_of(x, TC_I64));
    cr_assert_eq(tc_to_host(tc_cast(tc_grad(p), TC_F32), got, sizeof got), TC_OK);
    int64_t i = near_find(TC_F32, got, want, COUNT, (near_tol){.bits = true});
    cr_expect_eq(i, -1, "%s: [%lld]", devices[d], (long long)i);
    tc_release(p);
  }
}

// What reads a gradient gives its own back as it is: -0, too.
Test(few_rows, a_gradient_of_the_gradient_is_a_look_up) {
  static float minus[ROW], got[ROW];
  const table *x = make(0);
  for (int i = 0; i < ROW; i++) minus[i] = -0.0F;
  for (int d = 0; d < 2; d++) {
    cr_assert_eq(tc_set_default_device(devices[d]), TC_OK);
    tc_tensor p = table_of(x), c = tc_param(tc_ones(TC_SHAPE(1, ROW), TC_F32)), g, gc;
    tc_tensor y = tc_sum(tc_mul(tc_index_select(p, 0, tc_from_host(x->index, TC_SHAPE(1), TC_I64)), c), TC_ALL, false);
    cr_assert_eq(tc_grads_of(y, &p, 1, &g, TC_CREATE_GRAPH), TC_OK);
    tc_tensor all = tc_expand(tc_from_host(minus, TC_SHAPE(1, ROW), TC_F32), TC_SHAPE(PLACES, ROW));
    cr_assert_eq(tc_grads_of(tc_sum(tc_mul(g, all), TC_ALL, false), &c, 1, &gc, 0), TC_OK);
    cr_assert_eq(tc_to_host(gc, got, sizeof got), TC_OK);
    cr_expect_eq(memcmp(got, minus, sizeof got), 0, "%s", devices[d]);
    tc_release(p), tc_release(c);
  }
}

// d/dw of the squares of the gradient 2 c w of c times w^2 is 8 c^2 w.
Test(few_rows, the_gradient_has_a_gradient) {
  static float got[COUNT];
  const table *x = make(0);
  for (int d = 0; d < 2; d++) {
    cr_assert_eq(tc_set_default_device(devices[d]), TC_OK);
    tc_tensor p = table_of(x), g, gg;
    tc_tensor y = tc_sum(tc_square(tc_index_select(p, 0, index_of(x, TC_I64))), TC_ALL, false);
    cr_assert_eq(tc_grads_of(y, &p, 1, &g, TC_CREATE_GRAPH), TC_OK);
    cr_assert_eq(tc_grads_of(tc_sum(tc_square(g), TC_ALL, false), &p, 1, &gg, 0), TC_OK);
    cr_assert_eq(tc_to_host(gg, got, sizeof got), TC_OK, "%s", tc_last_error()->message);
    int times[PLACES] = {0};
    for (int i = 0; i < N; i++) times[(x->index[i] + PLACES) % PLACES]++;
    for (int i = 0; i < COUNT; i++) {
      double c = times[i / ROW], want = 8 * c * c * (double)x->value[i];
      cr_assert_float_eq(got[i], want, 1e-5, "%s: [%d] is %g, not %g", devices[d], i, (double)got[i], want);
    }
    tc_release(p);
  }
}

// With the gradient asked for or not, one value; a value that somebody else holds stays what it is.
Test(few_rows, a_step_of_descent_adds_the_same_sums) {
  EACH_WAY for (int held = 0; held < 3; held++) {
    cr_assert_eq(tc_set_default_device(devices[d]), TC_OK);
    const table *x = make(axis);
    tc_tensor p = table_of(x), other = {0, 0};
    tc_optimizer *opt = tc_sgd(&p, 1, (tc_sgd_options){.lr = (double)LR});
    if (held == 1) other = tc_reshape(p, TC_SHAPE(COUNT));
    look_up(x, p, index_of(x, TC_I64));
    cr_assert_eq(tc_optimizer_step(opt), TC_OK);
    if (held == 2) expect_bits(tc_grad(p), x->sum, "gradient");
    cr_assert_eq(tc_zero_grad(opt), TC_OK);
    expect_bits(p, after_step(x), devices[d]);
    if (held == 1) expect_bits(other, x->value, "the old value");
    tc_optimizer_destroy(opt);
    tc_release(p);
  }
}

Test(few_rows, steps_are_made_in_place) {
  EACH_WAY {
    cr_assert_eq(tc_set_default_device(devices[d]), TC_OK);
    const table *x = make(axis);
    tc_tensor p = table_of(x);
    tc_optimizer *opt = tc_sgd(&p, 1, (tc_sgd_options){.lr = (double)LR});
    const void *first = NULL;
    for (int step = 0; step < 4; step++) {
      look_up(x, p, index_of(x, TC_I64));
      cr_assert_eq(tc_optimizer_step(opt), TC_OK);
      cr_assert_eq(tc_zero_grad(opt), TC_OK);
      const void *now = tc_map(p);
      if (step > 0) cr_expect_eq(now, first, "step %d on %s", step, devices[d]);
      first = now;
      tc_unmap(p);
    }
    tc_optimizer_destroy(opt);
    tc_release(p);
  }
}

// Momentum and decay change every place.
Test(few_rows, moments_and_decay_see_the_whole_sum) {
  static float got[2][COUNT];
  const tc_sgd_options ways[] = {{.lr = 0.1, .momentum = 0.9}, {.lr = 0.1, .weight_decay = 0.1}};
  for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
    for (int d = 0; d < 2; d++) {
      cr_assert_eq(tc_set_default_device(devices[d]), TC_OK);
      const table *x = make(0);
      tc_tensor p = table_of(x);
      tc_optimizer *opt = tc_sgd(&p, 1, ways[w]);
      for (int step = 0; step < 3; step++) {
        look_up(x, p, index_of(x, TC_I64));
        cr_assert_eq(tc_optimizer_step(opt), TC_OK);
        cr_assert_eq(tc_zero_grad(opt), TC_OK);
      }
      cr_assert_eq(tc_to_host(p, got[d], sizeof got[d]), TC_OK);
      tc_optimizer_destroy(opt);
      tc_release(p);
    }
    int64_t i = near_find(TC_F32, got[1], got[0], COUNT, (near_tol){.ulp = 4, .abs = 1e-6});
    cr_expect_eq(i, -1, "way %zu: [%lld]", w, (long long)i);
  }
}

Test(few_rows, a_bad_index_leaves_the_table_as_it_is) {
  EACH_WAY {
    cr_assert_eq(tc_set_default_device(devices[d]), TC_OK);
    table *x = make(axis);
    tc_tensor p = table_of(x);
    tc_optimizer *opt = tc_sgd(&p, 1, (tc_sgd_options){.lr = (double)LR});
    look_up(x, p, index_of(x, TC_I64));
    cr_assert_eq(tc_optimizer_step(opt), TC_OK);
    cr_assert_eq(tc_zero_grad(opt), TC_OK);
    expect_bits(p, after_step(x), "the first step");
    x->index[N - 3] = PLACES;
    look_up(x, p, index_of(x, TC_I64));
    cr_assert_eq(tc_optimizer_step(opt), TC_OK);
    cr_assert_eq(tc_zero_grad(opt), TC_OK);
    tc_clear_error();
    cr_expect_eq(tc_sync(NULL), TC_ERR_INDEX, "%s", devices[d]);
    cr_expect(strstr(tc_last_error()->message, "index 1000") != NULL, "%s", tc_last_error()->message);
    tc_clear_error();
    expect_bits(p, after_step(x), "after a bad step");
    tc_optimizer_destroy(opt);
    tc_release(p);
  }
}

// ---- writing by index over what is assigned ----

typedef tc_tensor put_fn(tc_tensor t, tc_tensor index, tc_tensor src);
static tc_tensor put(tc_tensor t, tc_tensor index, tc_tensor src) {
  return tc_scatter(t, 0, tc_expand(tc_unsqueeze(index, 1), TC_SHAPE(N, ROW)), src);
}
static tc_tensor put_add(tc_tensor t, tc_tensor index, tc_tensor src) {
  return tc_scatter_add(t, 0, tc_expand(tc_unsqueeze(index, 1), TC_SHAPE(N, ROW)), src);
}
static tc_tensor add_rows(tc_tensor t, tc_tensor index, tc_tensor src) {
  return tc_index_add(t, 0, index, src);
}

// What is written is read from the table itself: from its old value.
Test(few_rows, what_is_assigned_may_be_read_where_it_is_written) {
  static put_fn *const puts[] = {put, put_add, add_rows};
  static float got[2][COUNT];
  const table *x = make(0);
  for (size_t i = 0; i < sizeof puts / sizeof puts[0]; i++)
    for (int own = 0; own < 2; own++) {
      for (int d = 0; d < 2; d++) {
        cr_assert_eq(tc_set_default_device(devices[d]), TC_OK);
        tc_tensor t = tc_from_host(x->value, TC_SHAPE(PLACES, ROW), TC_F32), index = index_of(x, TC_I64);
        cr_assert_eq(tc_eval(2, (const tc_tensor[]){t, index}), TC_OK);
        for (int step = 0; step < 3; step++) {
          tc_tensor src =
              own ? tc_slice(tc_flip(t, TC_AXES(0)), 0, 3, 3 + N, 1) : tc_from_host(x->g, TC_SHAPE(N, ROW), TC_F32);
          cr_assert_eq(tc_assign(t, puts[i](t, index, src)), TC_OK);
          cr_assert_eq(tc_sync(NULL), TC_OK, "%s", tc_last_error()->message);
        }
        cr_assert_eq(tc_to_host(t, got[d], sizeof got[d]), TC_OK);
        tc_release(t);
      }
      int64_t k = near_find(TC_F32, got[1], got[0], COUNT, (near_tol){.bits = true});
      cr_expect_eq(k, -1, "way %zu, own %d: [%lld]", i, own, (long long)k);
    }
}

// ---- many look-ups ----

// A result of more than the caches, in rows that are whole lines and in such that are not.
Test(few_rows, a_large_result_has_the_rows_that_were_looked_up) {
  enum { MANY = 300000 };
  static const int64_t widths[] = {16, 33, 64, 96};
  static int64_t index[MANY];
  const table *x = make(0);
  cr_assert_eq(tc_set_default_device("tc:cpu"), TC_OK);
  for (int64_t i = 0; i < MANY; i++) index[i] = i * 7919 % PLACES - (i & 1) * PLACES;
  for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
    int64_t row = widths[w], wrong = 0;
    tc_tensor all = tc_slice(tc_from_host(x->value, TC_SHAPE(PLACES, ROW), TC_F32), 1, 0, row, 1);
    tc_tensor y = tc_index_select(all, 0, tc_from_host(index, TC_SHAPE(MANY), TC_I64));
    const float *got = tc_map(y);
    cr_assert_not_null(got, "%s", tc_last_error()->message);
    for (int64_t i = 0; i < MANY; i++)
      wrong += memcmp(&got[i * row], &x->value[(index[i] + PLACES) % PLACES * ROW], (size_t)row * sizeof *got) != 0;
    cr_expect_eq(wrong, 0, "%lld rows of %lld", (long long)wrong, (long long)row);
    cr_assert_eq(tc_unmap(y), TC_OK);
  }
}
