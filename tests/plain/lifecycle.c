// What a caller may do wrong, and what must then be true; what a handle stands for, before and after assigns, scopes and shutdown.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/plain/expect.h"

static tc_tensor f32(int rank, int64_t a, int64_t b) {
  return tc_ones(tc_dims_of((size_t)rank, (const int64_t[]){a, b}), TC_F32);
}

// ---- Errors: each wrong call gives poison, its status and a text that names op and values; what follows on poison stays silent ----

static void expect_error(tc_tensor bad, tc_status want, const char *op, const char *has, const char *has_too, const char *file_line) {
  const tc_error *e = tc_last_error();
  EXPECT(!tc_is_valid(bad), "%s: a wrong %s gave a value", file_line, op);
  EXPECT(e->status == want, "%s: %s: status is %s, should be %s", file_line, op, tc_status_text(e->status), tc_status_text(want));
  EXPECT(e->message && strstr(e->message, op), "%s: text does not name %s", file_line, op);
  EXPECT(!has || strstr(e->message, has), "%s: text has no '%s'", file_line, has);
  EXPECT(!has_too || strstr(e->message, has_too), "%s: text has no '%s'", file_line, has_too);
  EXPECT(e->site && strstr(e->site, "lifecycle.c"), "%s: site is %s", file_line, e->site ? e->site : "NULL");
  // Poison passes through without a new error, and its status comes back at the sync.
  char first[600];
  float v;
  snprintf(first, sizeof first, "%s", e->message);
  tc_tensor after = tc_sum(tc_relu(tc_add(bad, 1)), TC_ALL, false);
  EXPECT(!tc_is_valid(after), "%s: an op on poison gave a value", file_line);
  EXPECT(tc_item_f32(after, &v) == want, "%s: the sync does not say what went wrong", file_line);
  EXPECT(strcmp(first, tc_last_error()->message) == 0, "%s: the first error was not kept: %s", file_line, first);
  tc_clear_error();
  EXPECT(tc_last_error()->status == TC_OK && !*tc_last_error()->message, "%s: the error is not cleared", file_line);
}
#define EXPECT_ERROR(bad, status, op, has, has_too) expect_error(bad, status, op, has, has_too, __FILE__ ":" TC_STR(__LINE__))

static void shapes_that_do_not_fit(void) {
  tc_scope s = tc_scope_begin();
  EXPECT_ERROR(tc_add(f32(2, 2, 3), f32(2, 2, 4)), TC_ERR_SHAPE, "add", "3", "4");
  EXPECT_ERROR(tc_matmul(f32(2, 2, 3), f32(2, 4, 5)), TC_ERR_SHAPE, "matmul", "3", "4");
  EXPECT_ERROR(tc_matmul(tc_scalar(1), f32(2, 4, 5)), TC_ERR_SHAPE, "matmul", NULL, NULL);
  EXPECT_ERROR(tc_bmm(f32(2, 2, 3), f32(2, 3, 2)), TC_ERR_SHAPE, "bmm", NULL, NULL);
  EXPECT_ERROR(tc_reshape(f32(2, 2, 3), TC_SHAPE(4, 2)), TC_ERR_SHAPE, "reshape", "2", "4");
  EXPECT_ERROR(tc_reshape(f32(2, 2, 3), TC_SHAPE(-1, 4)), TC_ERR_SHAPE, "reshape", NULL, NULL);
  EXPECT_ERROR(tc_expand(f32(2, 2, 3), TC_SHAPE(4, 3)), TC_ERR_SHAPE, "expand", NULL, NULL);
  EXPECT_ERROR(tc_where(tc_zeros(TC_SHAPE(2), TC_BOOL), f32(1, 3, 0), f32(1, 2, 0)), TC_ERR_SHAPE, "where", "2", "3");
  EXPECT_ERROR(tc_linear(f32(2, 2, 3), f32(2, 5, 4), (tc_tensor){0, 0}), TC_ERR_SHAPE, "linear", "3", "4");
  EXPECT_ERROR(tc_cat(2, (const tc_tensor[]){f32(2, 2, 3), f32(2, 2, 4)}, 0), TC_ERR_SHAPE, "cat", "3", "4");
  EXPECT_ERROR(tc_stack(2, (const tc_tensor[]){f32(2, 2, 3), f32(2, 2, 4)}, 0), TC_ERR_SHAPE, "stack", NULL, NULL);
  EXPECT_ERROR(tc_max(f32(1, 0, 0), TC_ALL, false), TC_ERR_SHAPE, "max", NULL, NULL);
  EXPECT_ERROR(tc_cross_entropy(f32(2, 3, 4), tc_zeros(TC_SHAPE(2), TC_I64)), TC_ERR_SHAPE, "cross_entropy", NULL, NULL);
  tc_scope_end(s);
}

static tc_status status_of(tc_tensor bad) {
  tc_status st = tc_is_valid(bad) ? TC_OK : tc_last_error()->status;
  tc_clear_error();
  return st;
}

static void axes_ranks_and_arguments(void) {
  tc_scope s = tc_scope_begin();
  tc_tensor x = f32(2, 2, 3);
  const tc_tensor bad[] = {tc_sum(x, TC_AXES(2), false),
                           tc_sum(x, TC_AXES(-3), false),
                           tc_sum(x, TC_AXES(0, 0), false),
                           tc_permute(x, TC_AXES(0, 0)),
                           tc_permute(x, TC_AXES(0)),
                           tc_transpose(x, 0, 2),
                           tc_softmax(x, 5),
                           tc_unsqueeze(x, 4),
                           tc_squeeze(x, TC_AXES(7)),
                           tc_slice(x, 2, 0, 1, 1),
                           tc_slice(x, 0, 0, 1, 0),
                           tc_select(x, 0, 2),
                           tc_select(x, 0, -3),
                           tc_cumsum(x, 2),
                           tc_argmax(x, -3, false),
                           tc_gather(x, 2, tc_zeros(TC_SHAPE(1, 1), TC_I64)),
                           tc_arange(0, 1, 0, TC_F32),
                           tc_arange(0, NAN, 1, TC_F32),
                           tc_zeros(TC_SHAPE(-2), TC_F32),
                           tc_zeros(TC_SHAPE(2), TC_N_TYPES),
                           tc_reshape(x, TC_SHAPE(-1, -1)),
                           tc_repeat_interleave(x, -1, 0),
                           tc_dropout(x, 1.5),
                           tc_linspace(0, 1, -1, TC_F32),
                           tc_cat(0, NULL, 0),
                           tc_randint(3, 3, TC_SHAPE(2), TC_I64),
                           tc_pad(x, TC_SHAPE(0, -5), TC_SHAPE(0, 0), 0)};
  for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) EXPECT(!tc_is_valid(bad[k]), "wrong call %zu gave a value", k);
  tc_clear_error();
  tc_dims nine = tc_dims_of(9, (const int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1});
  EXPECT(status_of(tc_zeros(nine, TC_F32)) != TC_OK, "rank 9");
  tc_dims eight = tc_dims_of(8, (const int64_t[]){1, 1, 1, 1, 1, 1, 1, 1});
  tc_tensor full = tc_zeros(eight, TC_F32);
  EXPECT(tc_is_valid(full), "rank 8 is allowed");
  EXPECT(status_of(tc_unsqueeze(full, 0)) != TC_OK, "rank 9 by unsqueeze");
  EXPECT(status_of(tc_stack(1, &full, 0)) != TC_OK, "rank 9 by stack");
  tc_scope_end(s);
}

static void types_that_do_not_fit(void) {
  tc_scope s = tc_scope_begin();
  EXPECT_ERROR(tc_bitwise_and(f32(1, 2, 0), f32(1, 2, 0)), TC_ERR_DTYPE, "bitwise_and", "f32", NULL);
  EXPECT_ERROR(tc_bitwise_not(f32(1, 2, 0)), TC_ERR_DTYPE, "bitwise_not", "f32", NULL);
  EXPECT_ERROR(tc_where(f32(1, 2, 0), f32(1, 2, 0), f32(1, 2, 0)), TC_ERR_DTYPE, "where", "f32", NULL);
  EXPECT_ERROR(tc_gather(f32(1, 2, 0), 0, f32(1, 2, 0)), TC_ERR_DTYPE, "gather", "f32", NULL);
  EXPECT_ERROR(tc_index_select(f32(1, 2, 0), 0, f32(1, 2, 0)), TC_ERR_DTYPE, "index_select", "f32", NULL);
  EXPECT_ERROR(tc_embedding(f32(2, 2, 2), f32(1, 2, 0)), TC_ERR_DTYPE, "embedding", NULL, NULL);
  tc_scope_end(s);
}

static void extents_whose_product_overflows(void) {
  tc_scope s = tc_scope_begin();
  const int64_t huge = INT64_C(1) << 62;
  float v;
  EXPECT(!tc_is_valid(tc_zeros(TC_SHAPE(huge, 4), TC_F32)), "2^64 elements");
  EXPECT(!tc_is_valid(tc_zeros(TC_SHAPE(INT64_MAX, INT64_MAX, INT64_MAX), TC_F64)), "2^189 elements");
  EXPECT(!tc_is_valid(tc_zeros(TC_SHAPE(INT64_MAX / 4), TC_F64)), "the bytes overflow, not the elements");
  EXPECT(!tc_is_valid(tc_expand(tc_scalar(1), TC_SHAPE(huge, 8))), "expand");
  EXPECT(!tc_is_valid(tc_eye(huge, huge, TC_F32)), "eye");
  EXPECT(!tc_is_valid(tc_tile(f32(1, 4, 0), TC_SHAPE(huge))), "tile");
  EXPECT(!tc_is_valid(tc_pad(f32(1, 4, 0), TC_SHAPE(INT64_MAX), TC_SHAPE(INT64_MAX), 0)), "pad");
  EXPECT(!tc_is_valid(tc_outer(tc_zeros(TC_SHAPE(INT64_C(1) << 33), TC_F32), tc_zeros(TC_SHAPE(INT64_C(1) << 33), TC_F32))), "outer");
  EXPECT(!tc_is_valid(tc_repeat_interleave(f32(1, 4, 0), INT64_MAX, 0)), "repeat_interleave");
  tc_clear_error();
  tc_tensor much = tc_zeros(TC_SHAPE(INT64_C(1) << 45), TC_F32);  // countable, but no machine has it
  EXPECT(tc_item_f32(tc_select(tc_cumsum(much, 0), 0, 5), &v) != TC_OK, "128 TiB were had");
  tc_clear_error();
  EXPECT(tc_is_valid(tc_zeros(TC_SHAPE(0, INT64_C(1) << 40), TC_F32)), "no elements is a size");
  EXPECT_OK(tc_set_memory_cap(1 << 20));
  EXPECT(tc_eval(1, (const tc_tensor[]){tc_add(tc_rand(TC_SHAPE(1 << 20), TC_F32), 1)}) == TC_ERR_MEMORY, "4 MiB under a cap of 1");
  EXPECT_OK(tc_set_memory_cap(0));
  tc_clear_error();
  EXPECT_OK(tc_item_f32(tc_sum(f32(1, 8, 0), TC_ALL, false), &v));
  EXPECT(v == 8, "after all that 8 ones sum to %g", (double)v);
  tc_scope_end(s);
}

static void an_index_out_of_range_spoils_nothing(void) {
  tc_scope s = tc_scope_begin();
  float v[3] = {0};
  tc_tensor x = tc_param(tc_from_host((const float[]){1, 2, 3}, TC_SHAPE(3), TC_F32));
  tc_tensor good = tc_mul(x, 2), index = tc_from_host((const int64_t[]){0, 3}, TC_SHAPE(2), TC_I64);
  tc_tensor bad = tc_index_select(x, 0, index);
  EXPECT(tc_is_valid(bad), "an index is data: it is not looked at when recording");
  (void)tc_assign(x, tc_add(x, tc_sum(bad, TC_ALL, false)));
  EXPECT(tc_eval(1, &bad) == TC_ERR_INDEX, "index 3 of 3");
  EXPECT(strstr(tc_last_error()->message, "index_select") && strstr(tc_last_error()->message, "3"), "text names op and value");
  tc_clear_error();
  EXPECT_OK(tc_to_host(x, v, sizeof v));
  EXPECT(v[0] == 1 && v[1] == 2 && v[2] == 3, "a failed run left %g %g %g", (double)v[0], (double)v[1], (double)v[2]);
  tc_clear_error();
  tc_tensor again = tc_mul(x, 2);
  (void)good;
  EXPECT_OK(tc_to_host(again, v, sizeof v));
  EXPECT(v[2] == 6, "the library is not usable afterwards");
  EXPECT(tc_to_host(tc_gather(x, 0, tc_from_host((const int64_t[]){-4}, TC_SHAPE(1), TC_I64)), v, 4) == TC_ERR_INDEX, "gather -4 of 3");
  tc_clear_error();
  EXPECT(tc_to_host(tc_embedding(f32(2, 3, 1), tc_full_int(TC_SHAPE(1), 3, TC_I32)), v, 4) == TC_ERR_INDEX, "embedding 3 of 3");
  tc_clear_error();
  EXPECT_OK(tc_to_host(tc_gather(x, 0, tc_from_host((const int64_t[]){-3}, TC_SHAPE(1), TC_I64)), v, 4));
  EXPECT(v[0] == 1, "-3 of 3 is the first");
  tc_release(x);
  tc_scope_end(s);
}

// ---- Handles ----

static void stale_and_null_handles(void) {
  float v;
  tc_scope s = tc_scope_begin();
  tc_tensor x = f32(1, 3, 0);
  tc_scope_end(s);
  s = tc_scope_begin();
  tc_tensor other = tc_full(TC_SHAPE(3), 7, TC_F32);  // may get x's slot
  EXPECT(!tc_is_valid(x), "a handle outlives its scope");
  EXPECT_ERROR(tc_add(x, 1), TC_ERR_HANDLE, "add", NULL, NULL);
  const tc_tensor none = {0, 0}, garbage = {123456789, 3}, wild = {UINT32_C(0x7fffffff), UINT32_MAX};
  EXPECT_ERROR(tc_add(none, 1), TC_ERR_HANDLE, "add", NULL, NULL);
  EXPECT_ERROR(tc_add(garbage, 1), TC_ERR_HANDLE, "add", NULL, NULL);
  EXPECT_ERROR(tc_add(wild, 1), TC_ERR_HANDLE, "add", NULL, NULL);
  EXPECT(tc_item_f32(x, &v) == TC_ERR_HANDLE, "reading a stale handle");
  tc_clear_error();
  EXPECT(tc_to_host((tc_tensor){0, 0}, &v, 4) == TC_ERR_HANDLE, "reading no tensor");
  tc_clear_error();
  EXPECT(tc_assign(x, other) == TC_ERR_HANDLE, "assigning to a stale handle");
  tc_clear_error();
  EXPECT(!tc_map((tc_tensor){0, 0}), "mapping no tensor");
  tc_clear_error();
  tc_release((tc_tensor){0, 0}), tc_release(x), tc_keep(x);
  tc_clear_error();
  EXPECT(tc_shape((tc_tensor){0, 0}).rank <= 0 && tc_numel(x) <= 0, "no tensor has a shape");
  tc_clear_error();
  EXPECT_OK(tc_item_f32(tc_sum(other, TC_ALL, false), &v));
  EXPECT(v == 21, "a stale handle damaged another: %g", (double)v);
  EXPECT(tc_item_f32(other, &v) != TC_OK, "an item of three elements");
  tc_clear_error();
  EXPECT(tc_to_host(other, &v, 4) != TC_OK, "4 bytes for 12");
  tc_clear_error();
  tc_scope_end(s);
}

static void scopes_keep_retain_release(void) {
  float v = 0;
  tc_scope outer = tc_scope_begin(), inner = tc_scope_begin();
  tc_tensor kept = tc_keep(tc_add(f32(0, 0, 0), 1)), retained = tc_retain(tc_add(f32(0, 0, 0), 2)), dropped = tc_add(f32(0, 0, 0), 3);
  tc_scope_end(inner);
  EXPECT(tc_is_valid(kept) && tc_is_valid(retained) && !tc_is_valid(dropped), "kept %d, retained %d, dropped %d", tc_is_valid(kept),
         tc_is_valid(retained), tc_is_valid(dropped));
  EXPECT_OK(tc_item_f32(tc_add(kept, retained), &v));
  EXPECT(v == 5, "%g", (double)v);
  tc_scope_begin();  // left open: its parent closes it
  tc_tensor open = f32(0, 0, 0);
  tc_scope_end(outer);
  EXPECT(!tc_is_valid(kept) && !tc_is_valid(open) && tc_is_valid(retained), "the outer scope's end");
  EXPECT_OK(tc_item_f32(retained, &v));
  EXPECT(v == 3, "%g", (double)v);
  tc_release(retained);
  EXPECT(!tc_is_valid(retained), "released");
}

static void devices_are_checked(void) {
  tc_scope s = tc_scope_begin();
  float v = 0;
  EXPECT(tc_set_default_device("tc:nonesuch") == TC_ERR_DEVICE, "an unknown device");
  EXPECT(strstr(tc_last_error()->message, "nonesuch") != NULL, "text names the device");
  tc_clear_error();
  EXPECT(strcmp(tc_get_default_device(), "tc:cpu") == 0, "the default changed to %s", tc_get_default_device());
  tc_tensor here = f32(1, 2, 0);
  EXPECT_OK(tc_push_device("tc:ref"));
  tc_tensor there = f32(1, 2, 0);
  EXPECT_OK(tc_pop_device());
  EXPECT(strcmp(tc_device_of(there), "tc:ref") == 0 && strcmp(tc_get_default_device(), "tc:cpu") == 0, "push and pop");
  EXPECT_ERROR(tc_add(here, there), TC_ERR_DEVICE, "add", "tc:cpu", "tc:ref");
  EXPECT_OK(tc_item_f32(tc_sum(tc_add(here, tc_to(there, "tc:cpu")), TC_ALL, false), &v));
  EXPECT(v == 4, "%g", (double)v);
  tc_scope_end(s);
}

// ---- Values ----

static void a_slice_keeps_its_value_when_its_source_is_assigned(void) {
  for (int early = 0; early < 2; early++) {  // pending, or already stored
    tc_scope s = tc_scope_begin();
    float v[4], w[2], u[4];
    tc_tensor x = tc_from_host((const float[]){1, 2, 3, 4}, TC_SHAPE(4), TC_F32), part = tc_slice(x, 0, 1, 3, 1), twice = tc_mul(x, 2),
              same = tc_reshape(x, TC_SHAPE(2, 2));
    if (early) EXPECT_OK(tc_eval(2, (const tc_tensor[]){x, part}));
    EXPECT_OK(tc_assign(x, tc_add(x, 10)));
    EXPECT_OK(tc_assign_slice(x, (const int64_t[]){0}, (const int64_t[]){4}, (const int64_t[]){2}, tc_scalar(0)));
    EXPECT_OK(tc_to_host(x, v, sizeof v));
    EXPECT_OK(tc_to_host(part, w, sizeof w));
    EXPECT_OK(tc_to_host(twice, u, sizeof u));
    EXPECT(v[0] == 0 && v[1] == 12 && v[2] == 0 && v[3] == 14, "assigned: %g %g %g %g", (double)v[0], (double)v[1], (double)v[2], (double)v[3]);
    EXPECT(w[0] == 2 && w[1] == 3, "the slice changed: %g %g", (double)w[0], (double)w[1]);
    EXPECT(u[0] == 2 && u[3] == 8, "the product changed: %g %g", (double)u[0], (double)u[3]);
    EXPECT_OK(tc_to_host(same, v, sizeof v));
    EXPECT(v[0] == 1 && v[3] == 4, "the reshape changed: %g %g", (double)v[0], (double)v[3]);
    EXPECT(tc_assign(x, tc_zeros(TC_SHAPE(5), TC_F32)) == TC_ERR_SHAPE, "another shape");
    tc_clear_error();
    tc_tensor y = tc_mul(x, 1);
    EXPECT_OK(tc_assign(x, tc_flip(x, TC_AXES(0))));  // reads and writes the same memory
    EXPECT_OK(tc_to_host(x, v, sizeof v));
    EXPECT_OK(tc_to_host(y, u, sizeof u));
    EXPECT(v[0] == 14 && v[1] == 0 && v[2] == 12 && v[3] == 0 && u[1] == 12 && u[3] == 14, "flipped in place: %g %g %g %g", (double)v[0],
           (double)v[1], (double)v[2], (double)v[3]);
    tc_scope_end(s);
  }
}

static int n_released;
static void count_release(void *arg) {
  n_released += arg == &n_released;
}

static void borrowed_memory_is_the_callers(void) {
  float mine[4] = {1, 2, 3, 4}, theirs[4] = {1, 2, 3, 4}, v = 0;
  tc_scope s = tc_scope_begin();
  tc_tensor r = tc_borrow(mine, TC_SHAPE(4), TC_F32, TC_READ_ONLY, count_release, &n_released),
            w = tc_borrow(theirs, TC_SHAPE(4), TC_F32, TC_WRITABLE, NULL, NULL);
  EXPECT_OK(tc_assign(r, tc_mul(r, 10)));
  EXPECT_OK(tc_assign(w, tc_mul(w, 10)));
  EXPECT_OK(tc_sync(NULL));
  EXPECT(mine[3] == 4, "read-only memory was written: %g", (double)mine[3]);
  EXPECT(theirs[3] == 40, "an assign did not land: %g", (double)theirs[3]);
  EXPECT_OK(tc_item_f32(tc_sum(r, TC_ALL, false), &v));
  EXPECT(v == 100, "%g", (double)v);
  tc_scope_end(s);
  EXPECT_OK(tc_sync(NULL));
  EXPECT(n_released == 1, "released %d times", n_released);
  tc_scope t = tc_scope_begin();
  const float *view = tc_map(tc_add(f32(1, 3, 0), 1));
  EXPECT(view && view[2] == 2, "mapped");
  tc_scope_end(t);
}

static void ten_reads_run_the_graph_once(void) {
  tc_scope s = tc_scope_begin();
  tc_tensor x = tc_rand(TC_SHAPE(64, 64), TC_F32), y = tc_matmul(tc_tanh(x), x), out[10];
  float v[10];
  for (int k = 0; k < 10; k++) out[k] = tc_sum(tc_mul(y, k), TC_ALL, false);
  tc_cache_info before = tc_cache_stats();
  for (int k = 0; k < 10; k++) EXPECT_OK(tc_item_f32(out[k], &v[k]));
  tc_cache_info after = tc_cache_stats();
  uint64_t runs = after.plan_hits + after.plan_misses - before.plan_hits - before.plan_misses;
  EXPECT(runs == 1, "ten scalars read in a row took %llu runs", (unsigned long long)runs);
  EXPECT(fabsf(v[9] - 9 * v[1]) <= 1e-3f * fabsf(v[9]), "%g is not 9 times %g", (double)v[9], (double)v[1]);
  float again = 0;
  EXPECT_OK(tc_item_f32(out[3], &again));
  EXPECT(again == v[3], "a value read twice differs");
  tc_scope_end(s);
}

static void different_graphs_over_equal_shapes_are_different(void) {
  tc_scope s = tc_scope_begin();
  float v = 0, w = 0;
  for (int k = 0; k < 3; k++) {
    tc_tensor a = tc_scalar(2 + k), b = tc_scalar(3), c = tc_scalar(5);
    EXPECT_OK(tc_item_f32(tc_add(tc_mul(a, b), c), &v));
    EXPECT_OK(tc_item_f32(tc_add(tc_mul(a, c), b), &w));
    EXPECT(v == (float)((2 + k) * 3 + 5) && w == (float)((2 + k) * 5 + 3), "%g %g", (double)v, (double)w);
    for (int n = 0; n < 4; n++) {  // numbers are arguments: 0 and 1 are no special code, and no new plan
      EXPECT_OK(tc_item_f32(tc_add(tc_mul(a, n), n * 0.5), &v));
      EXPECT(v == (float)((2 + k) * n) + (float)n * 0.5f, "%g", (double)v);
    }
  }
  tc_scope_end(s);
}

static void use_after_shutdown(void) {
  float v = 0;
  tc_tensor x = tc_retain(tc_add(f32(1, 4, 0), 1)), p = tc_param(f32(1, 4, 0));
  tc_optimizer *opt = tc_sgd(&p, 1, (tc_sgd_options){.lr = 0.1});
  tc_optimizer_destroy(opt);
  tc_shutdown();
  EXPECT(!tc_is_valid(x) && !tc_is_valid(p), "handles outlive the shutdown");
  EXPECT(tc_item_f32(x, &v) == TC_ERR_HANDLE, "reading after shutdown");
  tc_clear_error();
  tc_release(x), tc_release(p);
  tc_clear_error();
  for (int k = 0; k < 3; k++) {
    EXPECT_OK(tc_set_default_device("tc:cpu"));
    EXPECT_OK(tc_item_f32(tc_sum(f32(1, 4, 0), TC_ALL, false), &v));
    EXPECT(v == 4, "after shutdown 4 ones sum to %g", (double)v);
    tc_shutdown();
  }
  tc_shutdown();  // twice is no harm
}

int main(void) {
  EXPECT_OK(tc_set_default_device("tc:cpu"));
  shapes_that_do_not_fit();
  axes_ranks_and_arguments();
  types_that_do_not_fit();
  extents_whose_product_overflows();
  an_index_out_of_range_spoils_nothing();
  stale_and_null_handles();
  scopes_keep_retain_release();
  devices_are_checked();
  a_slice_keeps_its_value_when_its_source_is_assigned();
  borrowed_memory_is_the_callers();
  ten_reads_run_the_graph_once();
  different_graphs_over_equal_shapes_are_different();
  use_after_shutdown();
  return expect_done("lifecycle");
}
