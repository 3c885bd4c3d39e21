// Products of f16 and bf16 by four warps together, from boxes that are fetched by maps in the
// plan's table, simulated: near the reference's, whatever their shapes, the way operands lie and
// what follows; the same bits by every tile and when replayed, with operands elsewhere; only where
// they are asked for, and where the device, the compiler and the operands allow. No GPU ran any of
// this.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tc/tc.h>

#include "tests/child.h"
#include "tests/gpu/library.h"

enum { MOST = 1 << 18 };
static float data[MOST];

static tc_tensor numbers(tc_dims d, tc_type type, int from) {
  tc_tensor t = tc_cast(tc_from_host(data + from, d, TC_F32), type);
  EXPECT_OK(tc_eval(1, &t));
  return t;
}
// Runs at once, with all that is pending: operands come before what is made of them.
#define N(from, ...) numbers(TC_SHAPE(__VA_ARGS__), type, from)

static tc_tensor straight(tc_type type) {
  return tc_matmul(N(0, 128, 192), N(7, 192, 256));
}
static tc_tensor edges(tc_type type) {
  return tc_matmul(N(0, 200, 136), N(7, 136, 328));
}
static tc_tensor odd_rows(tc_type type) {  // and columns, of a right operand that lies transposed
  tc_tensor a = N(0, 67, 72), b = N(7, 77, 72);
  return tc_matmul(a, tc_transpose(b, 0, 1));
}
static tc_tensor left_transposed(tc_type type) {
  tc_tensor a = N(0, 328, 136), b = N(7, 328, 72);
  return tc_matmul(tc_transpose(a, 0, 1), b);
}
static tc_tensor both_transposed(tc_type type) {
  tc_tensor a = N(0, 80, 72), b = N(7, 264, 80);
  return tc_matmul(tc_transpose(a, 0, 1), tc_transpose(b, 0, 1));
}
static tc_tensor batches(tc_type type) {
  tc_tensor a = N(0, 3, 72, 80), b = N(7, 3, 64, 80);
  return tc_matmul(a, tc_transpose(b, 1, 2));
}
static tc_tensor one_for_all(tc_type type) {
  return tc_matmul(N(0, 2, 64, 64), N(7, 64, 72));
}
static tc_tensor heads(tc_type type) {  // [l, h, e] as [h, l, e]: batches that lie between rows
  tc_tensor a = N(0, 70, 3, 64), b = N(7, 72, 3, 64);
  return tc_matmul(tc_permute(a, TC_SHAPE(1, 0, 2)), tc_permute(b, TC_SHAPE(1, 2, 0)));
}
static tc_tensor like_heads(tc_type type) {  // of the same shapes: kernels that differ by their maps alone
  tc_tensor a = N(0, 3, 70, 64), b = N(7, 3, 72, 64);
  return tc_matmul(a, tc_transpose(b, 1, 2));
}
static tc_tensor long_k(tc_type type) {  // the sum of the products of its parts, of rows that lie beside each other
  return tc_matmul(N(0, 64, 2048), N(7, 2048, 72));
}
static tc_tensor part_of_more(tc_type type) {
  tc_tensor a = N(0, 80, 160), b = N(7, 128, 64);
  return tc_matmul(tc_slice(a, 1, 16, 144, 1), b);
}
static tc_tensor layer(tc_type type) {  // what follows has a kernel of its own nowhere
  tc_tensor a = N(0, 136, 72), b = N(7, 72, 136), bias = N(9, 136), beside = N(11, 136, 136);
  return tc_add(tc_gelu(tc_add(tc_matmul(a, b), bias)), beside);
}
static tc_tensor wide_result(tc_type type) {
  return tc_relu(tc_cast(tc_matmul(N(0, 72, 64), N(7, 64, 72)), TC_F32));
}
static tc_tensor not_aligned(tc_type type) {
  return tc_matmul(N(0, 64, 67), N(7, 67, 64));
}
static tc_tensor few_rows(tc_type type) {
  return tc_matmul(N(0, 40, 64), N(7, 64, 64));
}

static const struct row {
  const char *name;
  tc_tensor (*make)(tc_type type);
  int maps;  // of operands that are fetched
} rows[] = {
    {"straight", straight, 2},
    {"edges", edges, 2},
    {"odd rows", odd_rows, 2},
    {"left transposed", left_transposed, 2},
    {"both transposed", both_transposed, 2},
    {"batches", batches, 2},
    {"one right operand for all", one_for_all, 2},
    {"heads", heads, 2},
    {"batches like heads", like_heads, 2},
    {"long k", long_k, 2},
    {"columns from a place that an argument says", part_of_more, 0},
    {"bias, GELU and what is added", layer, 2},
    {"a wide result", wide_result, 2},
    {"rows that are not aligned", not_aligned, 0},
    {"few rows", few_rows, 0},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static float there[MOST], again[MOST], here[MOST];

static size_t run(const struct row *r, tc_type type, const char *device, float *got) {
  EXPECT_OK(tc_push_device(device));
  tc_scope s = tc_scope_begin();
  tc_tensor y = r->make(type);
  size_t n = 1;
  y = tc_cast(y, TC_F32);
  for (int i = 0; i < tc_shape(y).rank; i++) n *= (size_t)tc_shape(y).dim[i];
  EXPECT(tc_to_host(y, got, n * sizeof *got) == TC_OK, "%s: %s", r->name, tc_last_error()->message);
  tc_scope_end(s);
  EXPECT_OK(tc_pop_device());
  return n;
}

static void expect_near(const struct row *r, tc_type type, size_t n) {
  float most = 0, apart = 0;
  (void)run(r, type, "tc:ref", here);
  for (size_t k = 0; k < n; k++) most = fmaxf(most, fabsf(here[k])), apart = fmaxf(apart, fabsf(here[k] - there[k]));
  EXPECT(apart <= (type == TC_F16 ? 2e-3f : 1.6e-2f) * most, "%s: %g of %g", r->name, (double)apart, (double)most);
}

// The table's maps are made anew for each run.
static int as_the_reference(const void *unused) {
  (void)unused;
  set("TC_GPU_WGMMA", "1");
  for (int i = 0; i < 2 * N_ROWS; i++) {
    const struct row *r = &rows[i / 2];
    tc_type type = i % 2 ? TC_F16 : TC_BF16;
    uint64_t before = calls("cuTensorMapEncodeTiled");
    size_t n = run(r, type, "tc:cuda", there);
    EXPECT(calls("cuTensorMapEncodeTiled") - before == (uint64_t)r->maps, "%s: %d maps", r->name,
           (int)(calls("cuTensorMapEncodeTiled") - before));
    for (int k = 0; k < 3; k++) (void)run(r, type, "tc:cuda", again);
    EXPECT(memcmp(there, again, n * sizeof *there) == 0, "%s: other bits when replayed", r->name);
    expect_near(r, type, n);
  }
  tc_shutdown();
  return child_failed();
}

static int by_every_tile(const void *unused) {
  static const char *const tile[] = {"128x256", "128x128", "64x256", "64x128", "128x64", "64x64"};
  (void)unused;
  set("TC_GPU_WGMMA", "1");
  for (int i = 0; i < 10; i++) {
    size_t n = run(&rows[i], TC_BF16, "tc:cuda", there);
    for (int k = 0; k < 6; k++) {
      set("TC_GPU_TILE", tile[k]);
      (void)run(&rows[i], TC_BF16, "tc:cuda", again);
      EXPECT(memcmp(there, again, n * sizeof *there) == 0, "%s: other bits by %s", rows[i].name, tile[k]);
    }
    unsetenv("TC_GPU_TILE");
    tc_options_reload();
    tc_cache_clear();
  }
  tc_shutdown();
  return child_failed();
}

// As matrix units are known to round: within the same tolerance.
static int truncated(const void *unused) {
  (void)unused;
  setenv("TC_SIM_MMA", "truncating", 1);
  set("TC_GPU_WGMMA", "1");
  expect_near(&rows[1], TC_BF16, run(&rows[1], TC_BF16, "tc:cuda", there));
  tc_shutdown();
  return child_failed();
}

// A map is encoded anew where its operand lies elsewhere, and the table of a run that is on its way
// is not disturbed.
static int elsewhere(const void *unused) {
  enum { SIDE = 128, RUNS = 6 };
  static float got[RUNS][SIDE * SIDE];
  (void)unused;
  set("TC_GPU_WGMMA", "1");
  EXPECT_OK(tc_push_device("tc:cuda"));
  tc_type type = TC_BF16;
  tc_tensor a = N(0, SIDE, SIDE), b[2] = {N(7, SIDE, SIDE), N(11, SIDE, SIDE)}, y[RUNS];
  uint64_t before = 0;
  for (int i = 0; i < RUNS; i++) {
    y[i] = tc_cast(tc_matmul(a, b[i / 3]), TC_F32);
    before = calls("cuTensorMapEncodeTiled");
    EXPECT_OK(tc_eval(1, &y[i]));
    uint64_t n = calls("cuTensorMapEncodeTiled") - before;
    EXPECT(n == (i == 0 ? 2u : i == 3 ? 1u : 0u), "run %d: %d maps", i, (int)n);
  }
  for (int i = 0; i < RUNS; i++) EXPECT_OK(tc_to_host(y[i], got[i], sizeof got[i]));
  for (int i = 0; i < RUNS; i++) EXPECT(memcmp(got[i], got[i / 3 * 3], sizeof got[i]) == 0, "run %d", i);
  EXPECT(memcmp(got[0], got[3], sizeof got[0]) != 0, "the other operand was not read");
  EXPECT_OK(tc_pop_device());
  tc_shutdown();
  return child_failed();
}

// Nobody asked; another device; a compiler that is too old; a driver without the function.
static int without(const void *setting) {
  const char *equals = strchr(setting, '=');
  char variable[64];
  snprintf(variable, sizeof variable, "%.*s", (int)(equals - (const char *)setting), (const char *)setting);
  setenv(variable, equals + 1, 1);
  if (strcmp(variable, "TC_GPU_WGMMA") != 0) set("TC_GPU_WGMMA", "1");
  size_t n = run(&rows[0], TC_BF16, "tc:cuda", there);
  EXPECT(calls("cuTensorMapEncodeTiled") == 0, "%s", (const char *)setting);
  expect_near(&rows[0], TC_BF16, n);
  tc_shutdown();
  return child_failed();
}

// A map that the driver refuses is the run's error, and the next run is right.
static int refused(const void *unused) {
  tc_tensor y;
  (void)unused;
  set("TC_GPU_WGMMA", "1");
  EXPECT_OK(tc_push_device("tc:cuda"));
  y = straight(TC_BF16);
  fail("cuTensorMapEncodeTiled:1=1");
  EXPECT(tc_eval(1, &y) == TC_ERR_DEVICE && strstr(tc_last_error()->message, "making a map"), "%s",
         tc_last_error()->message);
  tc_clear_error();
  EXPECT_OK(tc_pop_device());
  expect_near(&rows[0], TC_BF16, run(&rows[0], TC_BF16, "tc:cuda", there));
  tc_shutdown();
  return child_failed();
}

int main(void) {
  if (!built_simulators()) return puts("skipped: the simulated driver was not built"), 77;
  uint32_t seed = 1;
  for (int k = 0; k < MOST; k++)
    seed = seed * 1664525 + 1013904223, data[k] = (float)((int)(seed >> 16) % 513 - 256) / 128;
  setenv("TC_GPU_LIBRARIES", "never", 1);
  EXPECT(child_status(as_the_reference, NULL) == 0, "beside the reference");
  EXPECT(child_status(by_every_tile, NULL) == 0, "by every tile");
  EXPECT(child_status(truncated, NULL) == 0, "truncated");
  EXPECT(child_status(elsewhere, NULL) == 0, "operands elsewhere");
  EXPECT(child_status(refused, NULL) == 0, "a map that is refused");
  static const char *const settings[] = {"TC_GPU_WGMMA=0", "TC_SIM_ARCH=sm_80", "TC_SIM_ARCH=sm_120",
                                         "TC_SIM_NVRTC=12.2"};
  for (int i = 0; i < 4; i++) EXPECT(child_status(without, settings[i]) == 0, "%s", settings[i]);
  return expect_done("gpu-wgmma");
}
