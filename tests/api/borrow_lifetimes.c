// Memory of the caller while others use it: who else reads what is given up, references to memory that
// is borrowed twice, gradients, what lands beside other bytes and in other types, and runs that fail.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/expect.h"

static void count_release(void *arg) {
  ++*(int *)arg;
}

static bool is_same(tc_tensor a, tc_tensor b) {
  return a.slot == b.slot && a.gen == b.gen;
}

static double *numbers(int n) {
  double *p = malloc((size_t)n * sizeof *p);  // to the byte: a sanitizer sees a use after free
  for (int i = 0; i < n; i++) p[i] = i;
  return p;
}

// ---- Given up ----

// Read-only memory that was assigned to is still read by what was recorded before.
static void read_only_memory_is_given_up_after_an_assign(bool landed) {
  double *m = numbers(4), all[4];
  int released = 0;
  tc_scope s = tc_scope_begin();
  tc_tensor x = tc_borrow(m, TC_SHAPE(4), TC_F64, TC_READ_ONLY, count_release, &released);
  tc_tensor y = tc_add(x, 1);
  EXPECT_OK(tc_assign(x, tc_zeros(TC_SHAPE(4), TC_F64)));
  if (landed) EXPECT_OK(tc_eval(1, &x));
  EXPECT_OK(tc_forget(x));
  EXPECT(released == 1, "%d", released);
  memset(m, -1, 4 * sizeof *m);
  free(m);
  EXPECT_OK(tc_to_host(y, all, sizeof all));
  EXPECT(all[0] == 1 && all[3] == 4, "%g %g", all[0], all[3]);
  tc_scope_end(s);
  EXPECT(released == 1, "%d", released);
}

// So is memory that was not.
static void what_was_recorded_keeps_the_old_content(void) {
  double *m = numbers(4), all[4];
  tc_scope s = tc_scope_begin();
  tc_tensor x = tc_borrow(m, TC_SHAPE(4), TC_F64, TC_WRITABLE, NULL, NULL), y = tc_add(x, 1);
  EXPECT_OK(tc_forget(x));
  memset(m, -1, 4 * sizeof *m);
  free(m);
  EXPECT_OK(tc_to_host(y, all, sizeof all));
  EXPECT(all[0] == 1 && all[3] == 4, "%g %g", all[0], all[3]);
  tc_scope_end(s);
}

// A view has the memory, too.
static void a_view_of_what_is_given_up_keeps_its_value(void) {
  double *m = numbers(4), all[4];
  int released = 0;
  tc_scope s = tc_scope_begin();
  tc_tensor x = tc_borrow(m, TC_SHAPE(4), TC_F64, TC_CONSTANT, count_release, &released);
  tc_tensor y = tc_reshape(x, TC_SHAPE(2, 2));
  EXPECT_OK(tc_eval(1, &y));
  EXPECT_OK(tc_forget(x));
  EXPECT(released == 1, "%d", released);
  memset(m, -1, 4 * sizeof *m);
  free(m);
  EXPECT_OK(tc_to_host(y, all, sizeof all));
  EXPECT(all[1] == 1 && all[3] == 3, "%g %g", all[1], all[3]);
  tc_scope_end(s);
}

static tc_tensor lent, theirs;
static pthread_barrier_t step;

// Records what reads `lent`, and runs it when told to.
static void *read_lent(void *arg) {
  double all[4];
  tc_scope s = tc_scope_begin();
  theirs = tc_mul(lent, 2);
  pthread_barrier_wait(&step);
  pthread_barrier_wait(&step);
  EXPECT_OK(tc_to_host(theirs, all, sizeof all));
  EXPECT(all[3] == 6, "%g", all[3]);
  tc_scope_end(s);
  EXPECT_OK(tc_sync(NULL));
  return arg;
}

static void memory_that_others_read_is_not_given_up(void) {
  double *m = numbers(4);
  int released = 0;
  pthread_t thread;
  tc_scope s = tc_scope_begin();
  lent = tc_borrow(m, TC_SHAPE(4), TC_F64, TC_READ_ONLY, count_release, &released);
  pthread_barrier_init(&step, NULL, 2);
  pthread_create(&thread, NULL, read_lent, NULL);
  pthread_barrier_wait(&step);
  EXPECT_FAILS(tc_forget(lent), TC_ERR_STATE, "another thread");
  EXPECT(tc_is_valid(lent) && released == 0, "%d", released);
  pthread_barrier_wait(&step);
  pthread_join(thread, NULL);
  const void *data;
  void *share;
  EXPECT_OK(tc_map_shared(lent, &data, &share));
  EXPECT_FAILS(tc_forget(lent), TC_ERR_STATE, "lent");
  tc_unmap_shared(share);
  EXPECT_OK(tc_forget(lent));
  EXPECT(released == 1, "%d", released);
  free(m);
  tc_scope_end(s);
}

// Dead work still runs on tc:ref, and reads indices.
static void dead_work_does_not_fail_a_run(void) {
  int32_t *i = malloc(4 * sizeof *i);
  float *f = malloc(4 * sizeof *f), table[8] = {0}, got[8];
  for (int k = 0; k < 4; k++) i[k] = k, f[k] = (float)k;
  tc_scope s = tc_scope_begin();
  for (int k = 0; k < 2; k++) {  // such memory is used again
    tc_scope dirty = tc_scope_begin();
    EXPECT_OK(tc_eval(2, (tc_tensor[]){tc_full(TC_SHAPE(4), 1e6, TC_F32), tc_full(TC_SHAPE(4), 1000000, TC_I32)}));
    tc_scope_end(dirty);
  }
  tc_scope inner = tc_scope_begin();
  tc_tensor x = tc_borrow(i, TC_SHAPE(4), TC_I32, TC_WRITABLE, NULL, NULL);
  tc_tensor y = tc_borrow(f, TC_SHAPE(4), TC_F32, TC_WRITABLE, NULL, NULL);
  tc_tensor t = tc_borrow(table, TC_SHAPE(8), TC_F32, TC_WRITABLE, NULL, NULL);
  (void)tc_index_select(t, 0, x);
  (void)tc_index_select(t, 0, tc_cast(y, TC_I32));
  tc_tensor other = tc_keep(tc_add(t, 1));
  (void)tc_keep(t);
  EXPECT_OK(tc_forget(x));
  EXPECT_OK(tc_forget(y));
  free(i), free(f);
  tc_scope_end(inner);
  EXPECT_OK(tc_to_host(other, got, sizeof got));
  EXPECT(got[7] == 1, "%g", (double)got[7]);
  tc_scope_end(s);
}

// ---- Borrowed twice ----

static void each_borrow_has_a_reference_of_its_own(void) {
  double a[4] = {1, 2, 3, 4};
  tc_scope outer = tc_scope_begin();
  tc_tensor x = tc_borrow(a, TC_SHAPE(4), TC_F64, TC_WRITABLE, NULL, NULL);
  for (int i = 0; i < 3; i++) {
    tc_scope s = tc_scope_begin();
    tc_tensor y = tc_borrow(a, TC_SHAPE(4), TC_F64, TC_WRITABLE, NULL, NULL);
    EXPECT(is_same(x, y), "two tensors");
    if (i == 1) tc_release(tc_retain(y));
    tc_release(y);  // before the scope ends, which gives back no second one
    tc_scope_end(s);
    EXPECT(tc_is_valid(x), "gone after %d", i);
  }
  tc_retain(x);
  tc_scope_end(outer);
  EXPECT(tc_is_valid(x), "retained");
  tc_release(x);
  EXPECT(!tc_is_valid(x), "alive");
}

static void each_shape_of_memory_has_its_tensor(void) {
  double a[6] = {0};
  tc_scope s = tc_scope_begin();
  tc_tensor rows = tc_borrow(a, TC_SHAPE(2, 3), TC_F64, TC_WRITABLE, NULL, NULL);
  tc_tensor flat = tc_borrow(a, TC_SHAPE(6), TC_F64, TC_WRITABLE, NULL, NULL);
  tc_tensor turned = tc_borrow_strided(a, TC_SHAPE(3, 2), (int64_t[]){1, 3}, TC_F64, TC_WRITABLE, NULL, NULL);
  EXPECT(is_same(rows, tc_borrow(a, TC_SHAPE(2, 3), TC_F64, TC_WRITABLE, NULL, NULL)), "rows");
  EXPECT(is_same(flat, tc_borrow(a, TC_SHAPE(6), TC_F64, TC_WRITABLE, NULL, NULL)), "flat");
  EXPECT(is_same(turned, tc_borrow_strided(a, TC_SHAPE(3, 2), (int64_t[]){1, 3}, TC_F64, TC_WRITABLE, NULL, NULL)),
         "turned");
  tc_scope_end(s);
}

// What runs prepared of constant memory is of no use once an assign reaches it.
static void an_assign_reaches_constant_memory(void) {
  enum { N = 64 };
  float a[N * N], x[N * N], got[N * N];
  for (int i = 0; i < N * N; i++) a[i] = i / N == i % N, x[i] = (float)(i % 7);
  tc_scope s = tc_scope_begin();
  tc_tensor c = tc_borrow(a, TC_SHAPE(N, N), TC_F32, TC_CONSTANT, NULL, NULL);
  tc_tensor w = tc_borrow(a, TC_SHAPE(N, N), TC_F32, TC_WRITABLE, NULL, NULL);
  for (int i = 0; i < 8; i++) {
    tc_tensor in = tc_from_host(x, TC_SHAPE(N, N), TC_F32);
    EXPECT_OK(tc_to_host(tc_matmul(in, tc_exp(tc_mul(c, 2))), got, sizeof got));
    if (i != 6) continue;
    EXPECT_OK(tc_assign(w, tc_zeros(TC_SHAPE(N, N), TC_F32)));
    EXPECT_OK(tc_sync(NULL));
  }
  float sum = 0;
  for (int i = 0; i < N; i++) sum += x[i];
  EXPECT(got[0] == sum && got[N - 1] == sum, "%g, should be %g", (double)got[0], (double)sum);
  tc_scope_end(s);
}

// ---- Gradients ----

static void values_of_a_strided_parameter_have_gradients(void) {
  float w[8] = {1, 2, 0, 0, 3, 4, 0, 0}, all[4];
  tc_scope s = tc_scope_begin();
  tc_tensor p = tc_borrow_strided(w, TC_SHAPE(2, 2), (int64_t[]){4, 1}, TC_F32, TC_WRITABLE, NULL, NULL);
  tc_tensor before = tc_cast(p, TC_F32);  // the same value
  EXPECT_OK(tc_set_requires_grad(p, true));
  tc_tensor y = tc_cast(p, TC_F32), z = tc_mul(y, y);
  EXPECT(!tc_requires_grad(before) && tc_requires_grad(y), "the same value");
  EXPECT_OK(tc_eval(2, (tc_tensor[]){y, z}));
  EXPECT_OK(tc_backward(tc_sum(tc_add(tc_mul(y, 3), z), TC_ALL, false)));
  EXPECT_OK(tc_to_host(tc_grad(p), all, sizeof all));
  EXPECT(all[0] == 5 && all[3] == 11, "%g %g", (double)all[0], (double)all[3]);
  tc_scope_end(s);
}

// Of memory that is borrowed again the dead parameter is no part.
static void memory_of_a_dead_parameter_is_no_parameter(void) {
  float w[2] = {1, 2}, all[2];
  tc_scope s = tc_scope_begin(), inner = tc_scope_begin();
  tc_tensor p = tc_borrow(w, TC_SHAPE(2), TC_F32, TC_WRITABLE, NULL, NULL);
  EXPECT_OK(tc_set_requires_grad(p, true));
  tc_no_grad_begin();
  EXPECT_OK(tc_assign(p, tc_mul(p, 2)));
  tc_no_grad_end();
  tc_scope_end(inner);
  tc_tensor q = tc_borrow(w, TC_SHAPE(2), TC_F32, TC_WRITABLE, NULL, NULL);
  EXPECT(!tc_requires_grad(q) && w[0] == 1, "a parameter, or it ran");
  EXPECT_OK(tc_set_requires_grad(q, true));
  EXPECT_OK(tc_backward(tc_sum(tc_mul(q, q), TC_ALL, false)));
  EXPECT_OK(tc_to_host(tc_grad(q), all, sizeof all));
  EXPECT(all[0] == 4 && all[1] == 8 && w[1] == 4, "%g %g", (double)all[0], (double)all[1]);
  tc_scope_end(s);
}

// ---- What lands ----

static const tc_type types[] = {TC_F64, TC_F32, TC_F16, TC_BF16, TC_I64, TC_I32, TC_I16, TC_I8, TC_U8};

// Whatever the type, length and alignment: the bytes beside stay.
static void bytes_beside_what_lands_stay(void) {
  static uint8_t m[4096], was[4096];
  for (size_t k = 0; k < sizeof types / sizeof *types; k++)
    for (int n = 1; n < 200; n += n < 20 ? 1 : 37) {
      size_t item = tc_type_bytes(types[k]), bytes = (size_t)n * item, at = 64 + item * (size_t)(n % 5);
      memset(m, 0, sizeof m);
      memset(m, 0xA5, at), memset(m + at + bytes, 0xA5, sizeof m - at - bytes);
      memcpy(was, m, sizeof m);
      tc_scope s = tc_scope_begin();
      tc_tensor x = tc_borrow((void *)(m + at), TC_SHAPE(n), types[k], TC_WRITABLE, NULL, NULL);
      for (int i = 0; i < 2; i++) {
        tc_scope inner = tc_scope_begin();
        EXPECT_OK(tc_assign(x, tc_add(x, tc_arange(0, n, 1, TC_F32))));  // of another type, but f32
        tc_scope_end(inner);
        EXPECT_OK(tc_sync(NULL));
      }
      double all[200];
      EXPECT_OK(tc_to_host(tc_cast(x, TC_F64), all, (size_t)n * sizeof *all));
      EXPECT(n > 60 || all[n - 1] == 2 * (n - 1), "%s %d: %g", tc_type_name(types[k]), n, all[n - 1]);
      tc_scope_end(s);
      memcpy(was + at, m + at, bytes);
      EXPECT(memcmp(was, m, sizeof m) == 0, "%s %d: bytes beside it changed", tc_type_name(types[k]), n);
    }
}

// The same of strided memory: every other element.
static void values_land_in_every_type(void) {
  for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
    uint8_t m[64];
    size_t item = tc_type_bytes(types[k]);
    memset(m, 0xA5, sizeof m);
    tc_scope s = tc_scope_begin();
    tc_tensor x =
        tc_borrow_strided((void *)(m + 6 * item), TC_SHAPE(4), (int64_t[]){-2}, types[k], TC_WRITABLE, NULL, NULL);
    EXPECT_OK(tc_assign(x, tc_arange(0, 4, 1, TC_F64)));
    double all[4];
    EXPECT_OK(tc_to_host(tc_cast(x, TC_F64), all, sizeof all));
    for (int i = 0; i < 4; i++) EXPECT(all[i] == i, "%s: %g", tc_type_name(types[k]), all[i]);
    for (size_t i = 0; i < sizeof m; i++)
      EXPECT(i / item % 2 == 0 && i / item < 8 ? m[i] != 0xA5 : m[i] == 0xA5, "%s: byte %zu", tc_type_name(types[k]),
             i);
    tc_scope_end(s);
  }
}

// A run that fails leaves the caller's memory as it was, and what comes next sees that.
static void memory_has_its_old_content_after_a_failed_run(void) {
  double a[4] = {1, 2, 3, 4}, b[6] = {1, 0, 2, 0, 3, 0}, all[4];
  int32_t bad = 9;
  tc_scope s = tc_scope_begin();
  tc_tensor x = tc_borrow(a, TC_SHAPE(4), TC_F64, TC_WRITABLE, NULL, NULL);
  tc_tensor y = tc_borrow_strided(b, TC_SHAPE(3), (int64_t[]){2}, TC_F64, TC_WRITABLE, NULL, NULL);
  tc_tensor i = tc_borrow(&bad, TC_SHAPE(1), TC_I32, TC_READ_ONLY, NULL, NULL);
  tc_tensor v = tc_mul(y, 2), u = tc_add(tc_mul(x, 2), tc_index_select(x, 0, i));
  EXPECT(tc_assign(x, u) != TC_OK || tc_assign(y, v) == TC_OK, "%s", tc_last_error()->message);
  EXPECT(tc_sync(NULL) != TC_OK, "an index out of range");
  EXPECT(a[0] == 1 && a[3] == 4 && b[0] == 1 && b[4] == 3, "%g %g", a[0], b[4]);
  tc_clear_error();
  EXPECT_OK(tc_assign(x, tc_add(x, 1)));
  EXPECT_OK(tc_assign(y, tc_add(y, 1)));
  EXPECT_OK(tc_to_host(x, all, sizeof all));
  EXPECT(all[0] == 2 && a[3] == 5 && b[4] == 4 && b[3] == 0, "%g %g %g", all[0], a[3], b[4]);
  tc_scope_end(s);
}

// ---- Processes ----

static void a_child_has_what_is_pending(void) {
  double a[2] = {1, 2};
  tc_scope s = tc_scope_begin();
  tc_tensor x = tc_borrow(a, TC_SHAPE(2), TC_F64, TC_WRITABLE, NULL, NULL);
  EXPECT_OK(tc_assign(x, tc_mul(x, 5)));
  pid_t child = fork();
  if (child == 0) {
    bool ok = is_same(x, tc_borrow(a, TC_SHAPE(2), TC_F64, TC_WRITABLE, NULL, NULL)) && tc_sync_of(x) == TC_OK &&
              a[1] == 10 && tc_forget(x) == TC_OK;
    _exit(!ok);
  }
  int status = 1;
  EXPECT(waitpid(child, &status, 0) == child && status == 0, "%d", status);
  EXPECT(a[1] == 2, "%g", a[1]);
  EXPECT_OK(tc_sync_of(x));
  EXPECT(a[1] == 10, "%g", a[1]);
  tc_scope_end(s);
}

int main(void) {
  read_only_memory_is_given_up_after_an_assign(false);
  read_only_memory_is_given_up_after_an_assign(true);
  what_was_recorded_keeps_the_old_content();
  a_view_of_what_is_given_up_keeps_its_value();
  memory_that_others_read_is_not_given_up();
  dead_work_does_not_fail_a_run();
  each_borrow_has_a_reference_of_its_own();
  each_shape_of_memory_has_its_tensor();
  an_assign_reaches_constant_memory();
  values_of_a_strided_parameter_have_gradients();
  memory_of_a_dead_parameter_is_no_parameter();
  bytes_beside_what_lands_stay();
  values_land_in_every_type();
  memory_has_its_old_content_after_a_failed_run();
  a_child_has_what_is_pending();
  return expect_done("api-borrow_lifetimes");
}
