// An index out of range in plans whose rows are kernels written by hand: writing and adding by
// index, sorting, scans, joining, and what they are made with. The error names the op, the index
// and the place; the simulated device finds nobody who reads what was not written because of it;
// what was to be updated in place is as it was; and the same plan with good indices is right.
#include <dlfcn.h>
#include <stdlib.h>

#include "runtime/options.h"
#include "tests/child.h"
#include "tests/sim/built.h"

enum { N = 10, AT = 3 };

static tc_tensor values(void) {
  static const float v[AT] = {0.5f, 1, 2};
  return tc_exp(tc_from_host(v, TC_SHAPE(AT), TC_F32));
}

static tc_tensor tens(void) {
  return tc_sqrt(tc_arange(0, N, 1, TC_F32));
}

// ---- what is done by index ----

static tc_tensor index_add(tc_tensor i) {
  return tc_index_add(tens(), 0, i, values());
}

static tc_tensor index_add_to_zeros(tc_tensor i) {
  return tc_index_add(tc_zeros(TC_SHAPE(N), TC_F32), 0, i, values());
}

static tc_tensor scatter_few(tc_tensor i) {
  return tc_slice(tc_scatter(tc_exp(tc_zeros(TC_SHAPE(1000), TC_F32)), 0, tc_mul(i, 100), values()), 0, 0, N, 1);
}

static tc_tensor scatter(tc_tensor i) {
  return tc_scatter(tens(), 0, i, values());
}

static tc_tensor scatter_add(tc_tensor i) {
  return tc_scatter_add(tens(), 0, i, values());
}

static tc_tensor sorted(tc_tensor i) {
  return tc_sort(tc_index_select(tens(), 0, i), 0, false);
}

static tc_tensor top(tc_tensor i) {
  return tc_topk(tc_index_select(tens(), 0, i), 2, 0, true);
}

static tc_tensor summed_up(tc_tensor i) {
  return tc_cumsum(tc_index_select(tens(), 0, i), 0);
}

static tc_tensor joined(tc_tensor i) {
  tc_tensor part[12];
  for (int k = 0; k < 12; k++) part[k] = tc_mul(tc_index_select(tens(), 0, i), (float)k);
  return tc_slice(tc_cat(12, part, 0), 0, 0, N, 1);
}

static tc_tensor searched(tc_tensor i) {
  return tc_searchsorted(tc_index_select(tens(), 0, i), values(), false);
}

static tc_tensor written(tc_tensor i) {
  return tc_add(tc_index_add(tens(), 0, i, values()),
                tc_cumsum(tc_index_add(tens(), 0, tc_flip(i, TC_AXES(0)), values()), 0));
}

// The index of an index is looked at when that was, and only if it was good.
static tc_tensor nested(tc_tensor i) {
  static const int64_t order[] = {2, 0, 1, 1, 0, 2, 2, 0, 1, 1};
  return tc_index_select(tens(), 0, tc_gather(tc_from_host(order, TC_SHAPE(N), TC_I64), 0, i));
}

static tc_tensor embedding_gradient(tc_tensor i) {
  tc_tensor table = tc_param(tc_ones(TC_SHAPE(N, 2), TC_F32)), gradient = {0};
  EXPECT_OK(tc_grads_of(tc_sum(tc_square(tc_embedding(table, i)), TC_ALL, false), &table, 1, &gradient, 0));
  return tc_slice(gradient, 1, 0, 1, 1);
}

// ---- each, with a bad index and with good ones ----

static const struct row {
  const char *op;  // that the error names
  tc_tensor (*make)(tc_tensor index);
} rows[] = {{"index_add", index_add},
            {"index_add", index_add_to_zeros},
            {"scatter", scatter_few},
            {"scatter", scatter},
            {"scatter_add", scatter_add},
            {"index_select", sorted},
            {"index_select", top},
            {"index_select", summed_up},
            {"index_select", joined},
            {"index_select", searched},
            {"index_add", written},
            {"gather", nested},
            {"embedding", embedding_gradient}};

static tc_status result(const struct row *row, const int64_t *at, float *out) {
  tc_scope s = tc_scope_begin();
  tc_tensor t = tc_cast(row->make(tc_from_host(at, TC_SHAPE(AT), TC_I64)), TC_F32);
  tc_status st = tc_to_host(t, out, (size_t)tc_numel(t) * sizeof *out);
  tc_scope_end(s);
  return st;
}

static int (*mistakes)(void);

static void test_row(const struct row *row, const char *device) {
  static const int64_t good[AT] = {1, 9, 1}, bad[AT] = {1, 99, 2};
  float here[N] = {0}, there[N] = {0};
  EXPECT_OK(tc_set_default_device("tc:cpu"));
  EXPECT_OK(result(row, good, here));
  EXPECT_OK(tc_set_default_device(device));
  tc_status st = result(row, bad, there);
  const char *said = tc_last_error()->message;
  EXPECT(st == TC_ERR_INDEX && strncmp(said, row->op, strlen(row->op)) == 0 &&
             strstr(said, "at position 1 is out of range"),
         "%s", row->op);
  EXPECT(strstr(said, "indices.c:"), "the place");
  tc_clear_error();
  EXPECT(mistakes() == 0, "%s: what was not written is read", row->op);
  EXPECT_OK(result(row, good, there));
  for (int k = 0; k < N; k++)
    EXPECT(here[k] - there[k] < 1e-5f && there[k] - here[k] < 1e-5f, "%s: %g, not %g", row->op, there[k], here[k]);
}

// What would be written in place, by rows and by what is generated, has its old value: all of it, a
// part, places that an index names.
static void test_in_place(void) {
  static const int64_t good[] = {1, 9, 1}, bad[] = {1, 99, 2}, first[] = {100}, behind[] = {100 + AT};
  enum { LONG = 1000 };
  static float got[LONG];
  tc_scope s = tc_scope_begin();
  tc_tensor state[3];
  for (int i = 0; i < 3; i++) state[i] = tc_ones(TC_SHAPE(LONG), TC_F32);
  EXPECT_OK(tc_eval(3, state));
  tc_tensor read = tc_index_select(tens(), 0, tc_from_host(bad, TC_SHAPE(AT), TC_I64)),
            at = tc_from_host(good, TC_SHAPE(AT), TC_I64);
  EXPECT_OK(tc_assign(state[0], tc_index_add(state[0], 0, at, values())));
  EXPECT_OK(tc_assign_slice(state[1], first, behind, NULL, read));
  EXPECT_OK(tc_assign(state[2], tc_mul(state[2], tc_sum(read, TC_ALL, true))));
  EXPECT(tc_sync(NULL) == TC_ERR_INDEX && strstr(tc_last_error()->message, "index 99 at position 1"),
         "an index out of range");
  tc_clear_error();
  for (int i = 0; i < 3; i++) {
    EXPECT_OK(tc_to_host(state[i], got, sizeof got));
    for (int k = 0; k < LONG; k++) EXPECT(got[k] == 1, "element %d of state %d is %g", k, i, got[k]);
  }
  tc_scope_end(s);
}

static int run(const void *device) {
  bool cuda = strcmp(device, "tc:cuda") == 0;
  EXPECT_OK(tc_set_default_device(device));
  void *sim = dlopen(built(cuda ? "libsim-cuda.so" : "libsim-hip.so"), RTLD_NOW);
  if (!sim) return puts(dlerror()), 1;
  mistakes = (int (*)(void))dlsym(sim, "sim_faults");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) test_row(&rows[i], device);
  test_in_place();
  EXPECT(mistakes() == 0, "the simulator found mistakes");
  tc_shutdown();
  return child_failed();
}

int main(void) {
  if (!built_simulators()) return puts("skipped: the simulated driver was not built"), 77;
  setenv("TC_COMPILER", "interp", 1);
  tc_options_reload();
  EXPECT(child_status(run, "tc:cuda") == 0, "tc:cuda");
  EXPECT(child_status(run, "tc:hip") == 0, "tc:hip");
  return expect_done("gpu-indices");
}
