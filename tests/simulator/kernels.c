// The simulated driver runs kernels of the dialect as a device would: thread numbers, barriers,
// shuffles, tables, conversions, copies, matrix products.
#include <ctype.h>
#include <math.h>

#include "kernels/math.h"
#include "tests/child.h"
#include "tests/sim/use.h"

static void test_table(void) {
  CUfunction f = use_kernel(
      "saxpy",
      "TC_KERNEL(saxpy, 64) {\n"
      "  const f32 *x = (const f32 *)tc_table[0];\n"
      "  f32 *y = (f32 *)tc_table[1];\n"
      "  i64 n = (i64)tc_table[3];\n"
      "  f32 a = (f32)tc_f64_bits(tc_table[2]);\n"
      "  for (i64 i = (i64)TC_BLOCK * 64 + TC_THREAD; i < n; i += (i64)TC_BLOCKS * 64) y[i] = a * x[i] + y[i];\n"
      "}\n");
  enum { N = 1000 };
  float x[N], y[N], got[N];
  for (int i = 0; i < N; i++) x[i] = (float)i, y[i] = (float)(i % 7);
  double a = 2.5;
  uint64_t bits;
  memcpy(&bits, &a, 8);
  CUdeviceptr dx = use_upload(x, sizeof x), dy = use_upload(y, sizeof y);
  EXPECT_FINE(use_run(f, 5, 64, 0, dx, dy, bits, N));
  EXPECT_FINE(CU(cuMemcpyDtoH_v2)(got, dy, sizeof got));
  int bad = 0;
  for (int i = 0; i < N; i++) bad += got[i] != 2.5f * x[i] + y[i];
  EXPECT(bad == 0, "%d of %d are wrong", bad, N);
  CU(cuMemFree_v2)(dx);
  CU(cuMemFree_v2)(dy);
}

// A block's sum by shuffles, shared memory and a barrier.
static void test_fold(void) {
  CUfunction f = use_kernel("fold",
                            "TC_KERNEL(fold, 96) {\n"
                            "  TC_SHARED(64)\n;"
                            "  u32 *part = (u32 *)tc_shared;\n"
                            "  u32 *out = (u32 *)tc_table[0];\n"
                            "  u32 v = (u32)(TC_THREAD * TC_THREAD + TC_BLOCK);\n"
                            "  for (i32 d = TC_WARP / 2; d > 0; d /= 2) v += TC_DOWN_U32(~0ull, v, d, TC_WARP);\n"
                            "  if (TC_THREAD % TC_WARP == 0) part[TC_THREAD / TC_WARP] = v;\n"
                            "  TC_SYNC();\n"
                            "  if (TC_THREAD == 0) out[TC_BLOCK] = part[0] + part[1] + part[2];\n"
                            "}\n");
  uint32_t got[4], want = 0;
  for (uint32_t i = 0; i < 96; i++) want += i * i;
  CUdeviceptr out = use_alloc(sizeof got);
  EXPECT_FINE(use_run(f, 4, 96, 64, out));
  EXPECT_FINE(CU(cuMemcpyDtoH_v2)(got, out, sizeof got));
  for (uint32_t i = 0; i < 4; i++) EXPECT(got[i] == want + 96 * i, "%u", got[i]);
  CU(cuMemFree_v2)(out);
}

static void test_shuffles(void) {
  CUfunction f = use_kernel("shuffles",
                            "TC_KERNEL(shuffles, 32) {\n"
                            "  u32 *out = (u32 *)tc_table[0];\n"
                            "  u32 t = (u32)TC_THREAD;\n"
                            "  out[t] = TC_DOWN_U32(~0ull, t, 3, 8);\n"
                            "  out[32 + t] = TC_FROM_U32(~0ull, t, 5, 8);\n"
                            "  u64 half = t < 16 ? 0xffffull : 0xffff0000ull;\n"
                            "  out[64 + t] = TC_FROM_U32(half, t, 2, 16);\n"
                            "}\n");
  uint32_t got[96];
  CUdeviceptr out = use_alloc(sizeof got);
  EXPECT_FINE(use_run(f, 1, 32, 0, out));
  EXPECT_FINE(CU(cuMemcpyDtoH_v2)(got, out, sizeof got));
  for (uint32_t t = 0; t < 32; t++) {
    EXPECT(got[t] == (t % 8 + 3 < 8 ? t + 3 : t), "thread %u got %u", t, got[t]);
    EXPECT(got[32 + t] == t / 8 * 8 + 5, "thread %u got %u", t, got[32 + t]);
    EXPECT(got[64 + t] == t / 16 * 16 + 2, "thread %u got %u", t, got[64 + t]);
  }
  CU(cuMemFree_v2)(out);
}

// From 16 bits and back is the same; between two neighbours the nearest is taken, half way the even
// one.
static void test_conversions(void) {
  CUfunction f =
      use_kernel("halves",
                 "TC_KERNEL(halves, 256) {\n"
                 "  u32 *bad = (u32 *)tc_table[0];\n"
                 "  for (u32 h = (u32)(TC_BLOCK * 256 + TC_THREAD); h < 65536; h += 65536) {\n"
                 "    u32 wrong = 0;\n"
                 "    if ((h & 0x7fff) < 0x7c00) {\n"
                 "      f32 v = tc_f16_f32(h);\n"
                 "      wrong |= tc_f32_f16(v) != h || tc_f64_f16((f64)v) != h;\n"
                 "    }\n"
                 "    if ((h & 0x7fff) < 0x7c00 - 1 && h < 0x8000) {\n"
                 "      f64 half = ((f64)tc_f16_f32(h) + (f64)tc_f16_f32(h + 1)) / 2;\n"
                 "      wrong |= tc_f64_f16(half) != (h & 1 ? h + 1 : h);\n"
                 "      wrong |= tc_f64_f16(half * (1 + 1e-15)) != h + 1;\n"
                 "    }\n"
                 "    if ((h & 0x7fff) < 0x7f80) {\n"
                 "      f32 v = tc_bf16_f32(h);\n"
                 "      wrong |= tc_bits_f32(v) != h << 16 || tc_f32_bf16(v) != h || tc_f64_bf16((f64)v) != h;\n"
                 "      wrong |= tc_f32_bf16(tc_f32_bits(h << 16 | 0x8000)) != (h & 1 ? h + 1 : h);\n"
                 "      wrong |= tc_f64_bf16((f64)tc_f32_bits(h << 16 | 0x7fff)) != h;\n"
                 "    }\n"
                 "    bad[h] = wrong;\n"
                 "  }\n"
                 "}\n");
  static uint32_t got[65536];
  CUdeviceptr out = use_alloc(sizeof got);
  EXPECT_FINE(use_run(f, 256, 256, 0, out));
  EXPECT_FINE(CU(cuMemcpyDtoH_v2)(got, out, sizeof got));
  int bad = 0;
  for (int i = 0; i < 65536; i++) bad += got[i] != 0;
  EXPECT(bad == 0, "%d of 65536 are wrong", bad);
  CU(cuMemFree_v2)(out);
}

// C = A B, a block a tile of 16 x 8, A by ldmatrix, B turned by ldmatrix or read as it is, rows
// fetched by asynchronous copies.
static const char product_text[] =
    "TC_KERNEL(product, 32) {\n"
    "  TC_SHARED(768);\n"
    "  const u16 *a = (const u16 *)tc_table[0], *b = (const u16 *)tc_table[1];\n"
    "  f32 *c = (f32 *)tc_table[2];\n"
    "  i32 k = (i32)tc_table[3], n = (i32)tc_table[4], t = TC_THREAD, columns = n / 8;\n"
    "  i32 row = TC_BLOCK / columns * 16, column = TC_BLOCK % columns * 8;\n"
    "  u8 *tile_b = tc_shared + 512;\n"
    "  f32 d[4] = {0, 0, 0, 0};\n"
    "  for (i32 at = 0; at < k; at += 16) {\n"
    "    u32 fa[4], fb[2];\n"
    "    tc_copy_async_16(tc_shared + t * 16, a + (row + t / 2) * k + at + t % 2 * 8, 16);\n"
    "    if (t < 16) tc_copy_async_16(tile_b + t * 16, b + (at + t) * n + column, 16);\n"
    "    tc_copy_commit();\n"
    "    tc_copy_wait(0);\n"
    "    TC_SYNC();\n"
    "    tc_ldmatrix_x4(fa, tc_shared + (t % 16) * 32 + t / 16 * 16);\n"
    "    tc_ldmatrix_x2_trans(fb, tile_b + (t % 16) * 16);\n"
    "    tc_mma_KIND(d, fa, fb);\n"
    "    TC_SYNC();\n"
    "  }\n"
    "  for (i32 i = 0; i < 4; i++) c[(row + t / 4 + i / 2 * 8) * n + column + t % 4 * 2 + i % 2] = d[i];\n"
    "}\n";

static CUfunction product_kernel(const char *kind) {
  char text[sizeof product_text + 16];
  const char *at = strstr(product_text, "KIND");
  snprintf(text, sizeof text, "%.*s%s%s", (int)(at - product_text), product_text, kind, at + 4);
  return use_kernel("product", text);
}

static uint16_t small_half(int v, bool is_half) {
  // Whole numbers to 15 in either type, exactly.
  float x = (float)v;
  uint32_t bits;
  memcpy(&bits, &x, 4);
  if (!is_half) return (uint16_t)(bits >> 16);
  return v == 0 ? 0 : (uint16_t)((bits >> 16 & 0x8000) | (((bits >> 23 & 255) - 112) << 10) | (bits >> 13 & 1023));
}

static void test_product(bool is_half) {
  enum { M = 32, N = 24, K = 48 };
  uint16_t a[M * K], b[K * N];
  float got[M * N];
  CUfunction f = product_kernel(is_half ? "f16" : "bf16");
  for (int i = 0; i < M * K; i++) a[i] = small_half(i * 7 % 31 - 15, is_half);
  for (int i = 0; i < K * N; i++) b[i] = small_half(i * 11 % 29 - 14, is_half);
  CUdeviceptr da = use_upload(a, sizeof a), db = use_upload(b, sizeof b), dc = use_alloc(sizeof got);
  EXPECT_FINE(use_run(f, M / 16 * (N / 8), 32, 768, da, db, dc, K, N));
  EXPECT_FINE(CU(cuMemcpyDtoH_v2)(got, dc, sizeof got));
  int bad = 0;
  for (int i = 0; i < M; i++) {
    for (int j = 0; j < N; j++) {
      int want = 0;
      for (int k = 0; k < K; k++) want += ((i * K + k) * 7 % 31 - 15) * ((k * N + j) * 11 % 29 - 14);
      bad += got[i * N + j] != (float)want;
    }
  }
  EXPECT(bad == 0, "%d of %d are wrong", bad, M * N);
  CU(cuMemFree_v2)(da);
  CU(cuMemFree_v2)(db);
  CU(cuMemFree_v2)(dc);
}

static float value_of(uint16_t bfloat) {
  uint32_t bits = (uint32_t)bfloat << 16;
  float v;
  memcpy(&v, &bits, 4);
  return v;
}

// Sums of one sign of products that need rounding. One kind of arithmetic rounds to the nearest,
// the other cuts off: it is never above the true sum.
static void test_arithmetic(bool truncating) {
  enum { M = 16, N = 8, K = 256 };
  static uint16_t a[M * K], b[K * N];
  float got[M * N];
  CUfunction f = product_kernel("bf16");
  for (int i = 0; i < M * K; i++) a[i] = (uint16_t)(0x3f80 + i * 7 % 127 - i % 7 * 0x80);  // from 1 to 2, and smaller
  for (int i = 0; i < K * N; i++) b[i] = (uint16_t)(0x3f80 + i * 11 % 125 - i % 5 * 0x80);
  CUdeviceptr da = use_upload(a, sizeof a), db = use_upload(b, sizeof b), dc = use_alloc(sizeof got);
  EXPECT_FINE(use_run(f, 1, 32, 768, da, db, dc, K, N));
  EXPECT_FINE(CU(cuMemcpyDtoH_v2)(got, dc, sizeof got));
  int above = 0, below = 0, far = 0, chained = 0;
  for (int i = 0; i < M * N; i++) {
    double want = 0;
    float chain = 0;
    for (int k = 0; k < K; k++) {
      float x = value_of(a[i / N * K + k]), y = value_of(b[k * N + i % N]);
      want += (double)x * (double)y;
      chain += x * y;
    }
    above += got[i] > want;
    below += got[i] < want;
    far += fabs(got[i] - want) > want * 1e-5;
    chained += got[i] == chain;
  }
  EXPECT(far == 0, "%d are far off", far);
  if (truncating) EXPECT(above == 0 && below > M * N / 2, "%d above, %d below", above, below);
  if (!truncating)
    EXPECT(chained == M * N && above > 0, "%d of %d as k in order gives it, %d above", chained, M * N, above);
  CU(cuMemFree_v2)(da);
  CU(cuMemFree_v2)(db);
  CU(cuMemFree_v2)(dc);
}

// A thread's copies beyond the bytes are zero; the last group may stay under way.
static void test_copies(void) {
  CUfunction f = use_kernel("copies",
                            "TC_KERNEL(copies, 32) {\n"
                            "  TC_SHARED(1024);\n"
                            "  const u32 *in = (const u32 *)tc_table[0];\n"
                            "  u32 *out = (u32 *)tc_table[1];\n"
                            "  i32 t = TC_THREAD;\n"
                            "  tc_copy_async_16(tc_shared + t * 32, in + t * 4, t % 5 * 4);\n"
                            "  tc_copy_commit();\n"
                            "  tc_copy_async_16(tc_shared + t * 32 + 16, in + t * 4, 16);\n"
                            "  tc_copy_commit();\n"
                            "  tc_copy_wait(1);\n"
                            "  for (i32 i = 0; i < 4; i++) out[t * 4 + i] = ((u32 *)tc_shared)[t * 8 + i];\n"
                            "  tc_copy_wait(0);\n"
                            "}\n");
  uint32_t in[128], got[128];
  for (uint32_t i = 0; i < 128; i++) in[i] = i + 1;
  CUdeviceptr from = use_upload(in, sizeof in), to = use_alloc(sizeof got);
  EXPECT_FINE(use_run(f, 1, 32, 1024, from, to));
  EXPECT_FINE(CU(cuMemcpyDtoH_v2)(got, to, sizeof got));
  int bad = 0;
  for (uint32_t i = 0; i < 128; i++) bad += got[i] != (i % 4 < i / 4 % 5 ? i + 1 : 0);
  EXPECT(bad == 0, "%d of 128 are wrong", bad);
  CU(cuMemFree_v2)(from);
  CU(cuMemFree_v2)(to);
}

static void test_min(void) {
  CUfunction f = use_kernel(
      "least", "TC_KERNEL(least, 64) { tc_min_at((u64 *)tc_table[0], (u64)(1000 - TC_BLOCK * 64 - TC_THREAD)); }\n");
  uint64_t got = ~0ull;
  CUdeviceptr at = use_upload(&got, 8);
  EXPECT_FINE(use_run(f, 3, 64, 0, at));
  EXPECT_FINE(CU(cuMemcpyDtoH_v2)(&got, at, 8));
  EXPECT(got == 1000 - 191, "%llu", (unsigned long long)got);
  CU(cuMemFree_v2)(at);
}

// Each row of libm.def is there by its name in small letters, and is that function.
static void test_math(void) {
  static const char *const names[] = {
#define TC_KIR_MATH(NAME, function, operands) #NAME,
#include "lowering/kir/libm.def"
#undef TC_KIR_MATH
  };
  static const int operands_of[] = {
#define TC_KIR_MATH(NAME, function, operands) operands,
#include "lowering/kir/libm.def"
#undef TC_KIR_MATH
  };
  char text[4096];
  int n = snprintf(text, sizeof text, "TC_KERNEL(math, 1) {\n  f64 *out = (f64 *)tc_table[0];\n  f64 x = 0.5;\n");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char name[32];
    size_t k = 0;
    for (; names[i][k]; k++) name[k] = (char)tolower(names[i][k]);
    name[k] = 0;
    n += snprintf(text + n, sizeof text - (size_t)n, "  out[%zu] = tc_math_%s(%s);\n", i, name,
                  operands_of[i] == 2 ? "x + 0.5, x" : "x");
  }
  snprintf(text + n, sizeof text - (size_t)n, "}\n");
  CUfunction f = use_kernel("math", text);
  volatile double x = 0.5;
  double want[] = {
#define TC_KIR_MATH(NAME, function, operands) WANT_##operands(function)
#define WANT_1(function) function(x),
#define WANT_2(function) function(x + 0.5, x),
#include "lowering/kir/libm.def"
#undef TC_KIR_MATH
  };
  enum { N = sizeof want / sizeof *want };
  double got[N];
  CUdeviceptr at = use_alloc(sizeof got);
  EXPECT_FINE(use_run(f, 1, 1, 0, at));
  EXPECT_FINE(CU(cuMemcpyDtoH_v2)(got, at, sizeof got));
  for (int i = 0; i < N; i++)
    EXPECT(got[i] == want[i] || (isnan(got[i]) && isnan(want[i])), "row %d: %g, not %g", i, got[i], want[i]);
  CU(cuMemFree_v2)(at);
}

// Text outside of the dialect does not compile, and the log says where.
static void test_refused(void) {
  static const char *const text[] = {
      "TC_KERNEL(k, 32) { ((u32 *)tc_table[0])[threadIdx.x] = 1; }\n",
      "TC_KERNEL(k, 32) { __syncthreads(); }\n",
      "TC_KERNEL(k, 32) { const void *p = (const void *)tc_table[0]; const u32 *q = p; ((u32 *)tc_table[1])[0] = q[0]; }\n",
  };
  for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
    char *log = NULL;
    CUfunction f = use_kernel_for("k", text[i], "sm_90", &log);
    EXPECT(!f && strstr(log, "k:2:"), "text %zu: \"%s\"", i, log);
    free(log);
  }
}

// In a process of its own, since settings are read once.
static int truncate_products(const void *unused) {
  (void)unused;
  setenv("TC_SIM_MMA", "truncating", 1);
  if (!use_begin()) return 0;
  test_product(false);
  test_arithmetic(true);
  return child_failed();
}

int main(void) {
  int status = child_status(truncate_products, NULL);
  EXPECT(status == 0, "%d", status);
  if (!use_begin()) {
    printf("skipped: the simulated driver is not built\n");
    return 77;
  }
  test_table();
  test_fold();
  test_shuffles();
  test_conversions();
  test_product(false);
  test_product(true);
  test_arithmetic(false);
  test_copies();
  test_min();
  test_math();
  test_refused();
  EXPECT(CU(sim_faults)() == 0, "%s", CU(sim_fault_text)());
  return expect_done("simulator-kernels");
}
