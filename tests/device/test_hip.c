// A GPU of AMD's as the layers above see it (device/gpu.h), on HIP's face of the simulated driver.
#include "tests/device/simulated.h"

static void simulate_hip(const char *gfx) {
  setenv("TC_SIM_GFX", gfx, 1);
  simulate(NULL);
}

#define CALL_HIP(type, name) ((type)symbol_of("libsim-hip.so", name))

// out[i] += sum of a wave's thread numbers + scale; the last word of the table.
static const char source[] =
    "#include \"tc_words.h\"\n"
    "TC_KERNEL(waves, 128) {\n"
    "  u32 *out = (u32 *)tc_table[0];\n"
    "  u32 v = (u32)TC_THREAD;\n"
    "  for (i32 d = TC_WARP / 2; d > 0; d /= 2) v += TC_DOWN_U32(~0ull, v, d, TC_WARP);\n"
    "  v = TC_FROM_U32(~0ull, v, 0, TC_WARP);\n"
    "  out[TC_BLOCK * 128 + TC_THREAD] += v + (u32)tc_table[1];\n"
    "}\n";

static void waves(const char *gfx, uint32_t wave) {
  enum { N = 256, STEPS = 6 };
  uint32_t got[N] = {0}, each = 0;
  tc_gpu *g;
  tc_gpu_code *c;
  tc_gpu_sequence *s;
  void *out;
  simulate_hip(gfx);
  OK(tc_gpu_get(tc_device_of_row(TC_DEVICE_HIP, 0), &g));
  const tc_gpu_facts *f = tc_gpu_facts_of(g);
  cr_expect_eq(f->matrix, strcmp(gfx, "gfx90a") == 0 ? TC_GPU_MFMA : TC_GPU_NO_MATRIX);
  cr_expect(f->simulated && f->warp == (int)wave && strcmp(f->arch, gfx) == 0, "%s, %s, %d", f->name, f->arch, f->warp);
  OK(tc_gpu_compile(g, "waves", source, &c));
  OK(tc_gpu_alloc(g, sizeof got, &out));
  OK(tc_gpu_write(g, out, got, sizeof got));
  tc_gpu_launch launch[] = {{c, 2, 128, 0, 0}, {c, 2, 128, 0, 2}};
  OK(tc_gpu_sequence_create(g, launch, 2, 4, &s));
  for (uint64_t step = 0; step < STEPS; step++) {
    OK(tc_gpu_sequence_run(s, (uint64_t[]){(uintptr_t)out, step, (uintptr_t)out, 1000}));
    each += (uint32_t)step + 1000;
  }
  cr_expect_null(tc_gpu_sequence_plain(s), "%s", tc_gpu_sequence_plain(s));
  OK(tc_gpu_read(g, got, out, sizeof got));
  for (uint32_t i = 0; i < N; i++) {
    uint32_t first = i % 128 / wave * wave, sum = wave * first + wave * (wave - 1) / 2;
    cr_expect_eq(got[i], each + 2 * STEPS * sum, "%u: %u", i, got[i]);
  }
  tc_gpu_sequence_destroy(s);
  tc_gpu_free(g, out);
  tc_gpu_code_release(c);
  cr_expect_str_eq(
      tc_gpu_library_absent(g, TC_GPU_MATMULS),
      "a simulated device has no library of products but one that TC_HIPBLASLT_LIBRARY or TC_ROCBLAS_LIBRARY names");
  tc_gpu_shutdown();
  cr_expect_eq(CALL_HIP(size_t (*)(int), "sim_live_bytes")(0), 0);
  cr_expect_eq(CALL_HIP(int (*)(void), "sim_live_objects")(), 0);
  cr_expect_eq(CALL_HIP(int (*)(void), "sim_faults")(), 0, "%s", CALL_HIP(const char *(*)(void), "sim_fault_text")());
}

Test(hip, waves_of_64_threads_are_replayed) {
  waves("gfx90a", 64);
}

Test(hip, waves_of_32_threads_are_replayed) {
  waves("gfx1100", 32);
}

// A product of 16 x 32 by 32 x 16, in two instructions, each thread reading its parts of the
// operands as AMD's manuals lay them out.
static const char product_source[] =
    "#include \"tc_words.h\"\n"
    "TC_KERNEL(product, 64) {\n"
    "  const u16 *a = (const u16 *)tc_table[0], *b = (const u16 *)tc_table[1];\n"
    "  f32 *out = (f32 *)tc_table[2], d[4] = {0, 0, 0, 0};\n"
    "  i32 line = TC_THREAD % 16, four = TC_THREAD / 16 * 4;\n"
    "  for (i32 k = four; k < 32; k += 16) {\n"
    "    u32 x[2], y[2];\n"
    "    for (i32 i = 0; i < 2; i++) x[i] = a[line * 32 + k + 2 * i] | (u32)a[line * 32 + k + 2 * i + 1] << 16;\n"
    "    for (i32 i = 0; i < 2; i++) y[i] = b[(k + 2 * i) * 16 + line] | (u32)b[(k + 2 * i + 1) * 16 + line] << 16;\n"
    "    WORD(d, x, y);\n"
    "  }\n"
    "  for (i32 i = 0; i < 4; i++) out[(four + i) * 16 + line] = d[i];\n"
    "}\n";

// Of whole numbers, whose sums are exact.
static void matrix_product(const char *gfx, bool f16) {
  enum { M = 16, N = 16, K = 32 };
  char source_of_type[sizeof product_source + 40];
  uint16_t a[M * K], b[K * N];
  float want[M * N] = {0}, got[M * N];
  tc_gpu *g;
  tc_gpu_code *c;
  tc_gpu_sequence *s;
  void *at[3];
  for (int i = 0; i < M * K; i++) {
    float x = (float)(i * 7 % 31 - 15), y = (float)(i * 11 % 29 - 14);
    uint32_t bits[2];
    _Float16 half[2] = {(_Float16)x, (_Float16)y};
    memcpy(&bits[0], &x, 4), memcpy(&bits[1], &y, 4);
    a[i] = (uint16_t)(bits[0] >> 16), b[i] = (uint16_t)(bits[1] >> 16);
    if (f16) memcpy(&a[i], &half[0], 2), memcpy(&b[i], &half[1], 2);
  }
  for (int i = 0; i < M * N; i++)
    for (int k = 0; k < K; k++)
      want[i] += (float)((i / N * K + k) * 7 % 31 - 15) * (float)((k * N + i % N) * 11 % 29 - 14);
  simulate_hip(gfx);
  snprintf(source_of_type, sizeof source_of_type, "#define WORD tc_mfma_%s\n%s", f16 ? "f16" : "bf16", product_source);
  OK(tc_gpu_get(tc_device_of_row(TC_DEVICE_HIP, 0), &g));
  cr_expect_eq(tc_gpu_facts_of(g)->matrix, TC_GPU_MFMA);
  OK(tc_gpu_compile(g, "product", source_of_type, &c));
  const size_t bytes[3] = {sizeof a, sizeof b, sizeof got};
  for (int i = 0; i < 3; i++) OK(tc_gpu_alloc(g, bytes[i], &at[i]));
  OK(tc_gpu_write(g, at[0], a, sizeof a));
  OK(tc_gpu_write(g, at[1], b, sizeof b));
  OK(tc_gpu_sequence_create(g, &(tc_gpu_launch){c, 1, 64, 0, 0}, 1, 3, &s));
  OK(tc_gpu_sequence_run(s, (uint64_t[]){(uintptr_t)at[0], (uintptr_t)at[1], (uintptr_t)at[2]}));
  OK(tc_gpu_read(g, got, at[2], sizeof got));
  for (int i = 0; i < M * N; i++) cr_expect_eq(got[i], want[i], "%d: %g, not %g", i, (double)got[i], (double)want[i]);
  tc_gpu_sequence_destroy(s);
  for (int i = 0; i < 3; i++) tc_gpu_free(g, at[i]);
  tc_gpu_code_release(c);
  tc_gpu_shutdown();
}

Test(hip, waves_multiply_matrices_of_bf16) {
  matrix_product("gfx908", false);
}

Test(hip, waves_multiply_matrices_of_f16) {
  matrix_product("gfx942:sramecc+:xnack-", true);
}

// Before 6.0 nodes cannot name functions of modules, so that graphs are captured, and what changes
// is launched before them.
Test(hip, an_older_library_replays_what_was_captured) {
  setenv("TC_SIM_HIP_VERSION", "50221153", 1);
  waves("gfx906", 64);
  cr_expect_eq(CALL_HIP(uint64_t (*)(const char *), "sim_calls")("hipGraphLaunch"), 5);
  cr_expect_eq(CALL_HIP(uint64_t (*)(const char *), "sim_calls")("hipGraphAddKernelNode"), 0);
}

// What it cannot capture is launched kernel by kernel.
Test(hip, an_older_library_may_refuse_to_capture) {
  setenv("TC_SIM_HIP_VERSION", "50221153", 1);
  setenv("TC_SIM_FAIL", "hipStreamBeginCapture:1=900", 1);
  tc_gpu *g;
  tc_gpu_code *c;
  tc_gpu_sequence *s;
  void *out;
  static const uint32_t zeros[128];
  simulate_hip("gfx906");
  OK(tc_gpu_get(tc_device_of_row(TC_DEVICE_HIP, 0), &g));
  OK(tc_gpu_compile(g, "waves", source, &c));
  OK(tc_gpu_alloc(g, sizeof zeros, &out));
  OK(tc_gpu_write(g, out, zeros, sizeof zeros));
  OK(tc_gpu_sequence_create(g, &(tc_gpu_launch){c, 1, 128, 0, 0}, 1, 2, &s));
  for (int i = 0; i < 3; i++) OK(tc_gpu_sequence_run(s, (uint64_t[]){(uintptr_t)out, 1}));
  cr_expect(tc_gpu_sequence_plain(s) && strstr(tc_gpu_sequence_plain(s), "refused"), "%s", tc_gpu_sequence_plain(s));
  tc_gpu_sequence_destroy(s);
  tc_gpu_free(g, out);
  tc_gpu_code_release(c);
  tc_gpu_shutdown();
}

// The compiler would end the process if it were asked.
Test(hip, an_architecture_that_the_compiler_does_not_know_is_an_error_with_a_sentence) {
  tc_gpu *g;
  simulate_hip("gfx9999");
  FAILS(tc_gpu_get(tc_device_of_row(TC_DEVICE_HIP, 0), &g), TC_ERR_DEVICE, "is not known to compile for");
}

Test(hip, the_callers_device_is_untouched) {
  tc_gpu *g;
  void *p;
  uint64_t v = 7;
  int now = -1;
  setenv("TC_SIM_DEVICES", "2", 1);
  simulate_hip("gfx90a");
  cr_assert_eq(CALL_HIP(int (*)(int), "hipSetDevice")(1), 0);
  OK(tc_gpu_get(tc_device_of_row(TC_DEVICE_HIP, 0), &g));
  OK(tc_gpu_alloc(g, sizeof v, &p));
  OK(tc_gpu_write(g, p, &v, sizeof v));
  OK(tc_gpu_read(g, &v, p, sizeof v));
  tc_gpu_free(g, p);
  cr_expect(CALL_HIP(int (*)(int *), "hipGetDevice")(&now) == 0 && now == 1, "it is %d", now);
  tc_gpu_shutdown();
  cr_expect(CALL_HIP(int (*)(int *), "hipGetDevice")(&now) == 0 && now == 1, "it is %d", now);
}
