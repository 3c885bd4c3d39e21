// Convolutions by AMD's library MIOpen (device/gpu.h), on the simulated driver of HIP and its
// MIOpen. What calls of libraries have in common is in test_gpu_product.c, what those of
// convolutions have, in test_gpu_conv.c.
#include "device/hip/miopen.h"
#include "tests/device/convs.h"

static const vendor tested = {
    TC_DEVICE_HIP, "libsim-hip.so", "TC_MIOPEN_LIBRARY", "libsim-miopen.so", {"MIOPEN_USER_DB_PATH", "/tmp"}};

// ---- results ----

static void every_kind(const char *const *setting, const char *name) {
  simulate_library(setting);
  tc_gpu *g = open_tested();
  cr_assert_null(tc_gpu_library_absent(g, TC_GPU_CONVOLUTIONS), "%s", tc_gpu_library_absent(g, TC_GPU_CONVOLUTIONS));
  cr_expect_str_eq(tc_gpu_library_name(g, TC_GPU_CONVOLUTIONS), name);
  static const tc_type types[] = {TC_F32, TC_F16, TC_BF16};
  for (int i = 0; i < 63; i++) {
    int kind = i / 9, good = 0, n;
    tc_gpu_conv_facts f = square(types[i % 3], (tc_gpu_direction)(i / 3 % 3), 1 + (kind + 1) % 3, 1 + kind % 2,
                                 1 + kind / 3, kind % 3, kind % 3);
    if (kind == 5) f.groups = 2, f.in = 4;
    if (kind == 6) f.groups = f.in = f.out = 3;
    tc_gpu_algorithm a[MOST];
    OK(tc_gpu_call_find(g, WORK(f), a, MOST, &n));
    // Of the solutions that are taken, one wants too much memory and one refuses to be compiled. A
    // direct one rounds halves more than once by the weight.
    bool coarse = f.type != TC_F32 && f.direction == TC_GPU_BY_WEIGHT;
    int expected = kind < 5 ? (coarse ? 3 : 4) : kind == 5 ? 1 : coarse ? 0 : 1;
    cr_expect_eq(n, expected, "solutions of problem %d: %d", i, n);
    for (int k = 0; k < n; k++) good += computes(g, &f, &a[k], "asking a library for an algorithm: miopenStatus");
    cr_expect_eq(good, kind < 5 ? expected - 2 : expected, "problem %d: %d", i, good);
  }
  finish();
}

Test(hip_conv, every_type_direction_and_shape_by_every_solution_launched_and_replayed) {
  every_kind(NULL, "MIOpen 3.4.0");
}

Test(hip_conv, a_library_that_knows_tf32_is_told_to_do_without) {
  every_kind((const char *[]){"TC_SIM_MIOPEN=3.6.1", NULL}, "MIOpen 3.6.1");
}

Test(hip_conv, operands_at_ever_new_addresses_are_copied_by_a_graph_that_is_replayed) {
  simulate_library(NULL);
  static const tc_type types[] = {TC_F32, TC_BF16, TC_F32};
  for (int i = 0; i < 3; i++)
    replays_at_ever_new_addresses(open_tested(), square(types[i], (tc_gpu_direction)i, 2, 1, 1, 1, 1));
  finish();
}

Test(hip_conv, no_rule_takes_it) {
  simulate_library(NULL);
  cr_expect(tc_gpu_library_is_measured(open_tested(), TC_GPU_CONVOLUTIONS));
  cr_expect_not(tc_gpu_library_is_measured(open_tested(), TC_GPU_MATMULS));
  cr_expect_not(tc_gpu_library_is_measured(open_gpu(0), TC_GPU_CONVOLUTIONS));
  finish();
}

// ---- what it cannot be told ----

Test(hip_conv, padding_is_the_same_on_both_sides) {
  simulate_library(NULL);
  tc_gpu *g = open_tested();
  tc_gpu_algorithm a[MOST];
  tc_gpu_call *x;
  int n;
  tc_gpu_conv_facts f = square(TC_F32, TC_GPU_FORWARD, 2, 1, 1, 1, 2);
  OK(tc_gpu_call_find(g, WORK(f), a, MOST, &n));
  cr_expect_eq(n, 0);
  cr_expect_eq(tc_gpu_call_create(g, WORK(f), &(tc_gpu_algorithm){{101}, 0}, &x), TC_ERR_DEVICE);
  cr_expect_null(x);
  tc_clear_error();
  // Rows of 7, windows of 3 in steps of 2: one element more behind them begins no window,
  f = square(TC_F32, TC_GPU_FORWARD, 1, 2, 1, 1, 2);
  OK(tc_gpu_call_find(g, WORK(f), a, MOST, &n));
  cr_expect_eq(n, 4);
  cr_expect(computes(g, &f, &a[0], ""));
  f = square(TC_F32, TC_GPU_BY_IMAGE, 1, 2, 1, 1, 0);  // but one fewer than before them ends one
  OK(tc_gpu_call_find(g, WORK(f), a, MOST, &n));
  cr_expect(n == 0 && f.result[0] == 3, "%d, %d windows", n, (int)f.result[0]);
  finish();
}

Test(hip_conv, numbers_have_32_bits) {
  simulate_library(NULL);
  tc_gpu_algorithm a[MOST];
  int n;
  tc_gpu_conv_facts f = square(TC_F32, TC_GPU_FORWARD, 2, 1, 1, 1, 1);
  f.batch = INT64_C(1) << 32;
  OK(tc_gpu_call_find(open_tested(), WORK(f), a, MOST, &n));
  cr_expect_eq(n, 0);
  f = square(TC_F32, TC_GPU_FORWARD, 2, 1, 1, 1, 1), f.low[0] = f.high[0] = INT64_C(1) << 31;
  f = with_results(f);
  OK(tc_gpu_call_find(open_tested(), WORK(f), a, MOST, &n));
  cr_expect_eq(n, 0);
  finish();
}

// ---- algorithms ----

Test(hip_conv, an_algorithm_is_its_solutions_number) {
  simulate_library(NULL);
  tc_gpu *g = open_tested();
  tc_gpu_conv_facts f = usual();
  tc_gpu_algorithm a[MOST];
  tc_gpu_call *x;
  int n;
  OK(tc_gpu_call_find(g, WORK(f), a, MOST, &n));
  cr_expect(n == 4 && a[0].data[0] == 101 && a[1].data[0] == 102, "%d, %llu, %llu", n, (unsigned long long)a[0].data[0],
            (unsigned long long)a[1].data[0]);
  OK(tc_gpu_call_create(g, WORK(f), &a[1], &x));
  cr_expect(tc_gpu_call_workspace(x) > 0);
  tc_gpu_call_release(x);
  static const tc_gpu_algorithm wrong[] = {
      {{100}, 0}, {{103}, 0}, {{104}, 0}, {{105}, 0}, {{999}, 0}, {{101, 1}, 0}, {{101, 0, 0, 0, 0, 0, 0, 1}, 0}};
  // Winograd's, other bits, BLAS's, Fourier's, none, and what is no algorithm of its
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    cr_expect_eq(tc_gpu_call_create(g, WORK(f), &wrong[i], &x), TC_ERR_DEVICE, "%d", (int)i);
    SAYS(tc_last_error()->message, "asking a library for an algorithm: miopenStatusBadParm");
    cr_expect_null(x);
    tc_clear_error();
  }
  f = square(TC_BF16, TC_GPU_BY_WEIGHT, 2, 1, 1, 1, 1);
  FAILS(tc_gpu_call_create(g, WORK(f), &(tc_gpu_algorithm){{102}, 0}, &x), TC_ERR_DEVICE, "miopenStatusBadParm");
  finish();
}

// It is passed over where others are at hand, and taken where it is all there is.
Test(hip_conv, what_is_slow_by_the_librarys_own_account_is_not_timed) {
  simulate_library((const char *[]){"TC_SIM_SOLUTION=9", NULL});
  tc_gpu_conv_facts f = usual();
  tc_gpu_algorithm a[MOST];
  int n;
  OK(tc_gpu_call_find(open_tested(), WORK(f), a, MOST, &n));
  cr_expect(n == 5 && a[0].data[0] == 109, "%d, %llu", n, (unsigned long long)a[0].data[0]);  // named first
  setenv("TC_SIM_SOLUTION", "0", 1);
  OK(tc_gpu_call_find(open_tested(), WORK(f), a, MOST, &n));
  for (int i = 0; i < n; i++) cr_expect_neq(a[i].data[0], 109);
  finish();
}

// ---- what may be absent, and fail ----

Test(hip_conv, without_a_library_one_sentence_says_so) {
  SAYS(absent(NULL, NULL), "a simulated device has no library of convolutions but one that TC_MIOPEN_LIBRARY names");
  finish();
}

Test(hip_conv, a_library_that_does_not_open_is_told) {
  SAYS(absent("/nowhere/libMIOpen.so.1", NULL),
       "MIOpen, AMD's library of convolutions, cannot be opened: /nowhere/libMIOpen.so.1");
  finish();
}

Test(hip_conv, a_library_of_something_else_is_told) {
  SAYS(absent(built("libsim-rocblas.so"), NULL), "has no miopenGetErrorString: MIOpen 3.0 or newer is needed");
  finish();
}

Test(hip_conv, a_library_of_an_old_version_is_told) {
  SAYS(absent(built("libsim-miopen.so"), (const char *[]){"TC_SIM_MIOPEN=2.21.0", NULL}),
       "is MIOpen 2.21.0, and 3.0 or newer is needed");
  finish();
}

Test(hip_conv, a_library_without_a_place_to_write_is_not_opened) {
  SAYS(absent(built("libsim-miopen.so"), (const char *[]){"MIOPEN_USER_DB_PATH=/nowhere", NULL}),
       "MIOpen keeps databases below /nowhere, which cannot be written");
  finish();
}

Test(hip_conv, a_library_that_does_not_start_is_told) {
  SAYS(absent(built("libsim-miopen.so"), (const char *[]){"TC_SIM_FAIL=miopenCreateWithStream:*=5", NULL}),
       "MIOpen 3.4.0 does not start on tc:hip: miopenStatusInternalError");
  finish();
}

Test(hip_conv, a_library_without_room_is_told) {
  SAYS(absent(built("libsim-miopen.so"), (const char *[]){"TC_SIM_MEMORY_MIB=48", NULL}),
       "MIOpen 3.4.0 does not start on tc:hip: miopenStatusAllocFailed");
  finish();
}

// Of a device that is not simulated, which there is none of here.
static void refuses(int hip_major, void *hip, const char *words) {
  char why[320] = "";
  tc_gpu_facts facts = {.warp = 64};
  tc_options_reload();
  tc_miopen_of(hip_major, hip);
  cr_expect_not(tc_miopen.ready(&(tc_gpu_port){.ordinal = 0}, &facts, why, sizeof why));
  SAYS(why, words);
}

Test(hip_conv, without_a_home_it_is_not_opened) {
  setenv("TC_MIOPEN_LIBRARY", "/nowhere.so", 1);
  setenv("HOME", "/nowhere/either", 1);
  unsetenv("MIOPEN_USER_DB_PATH");
  refuses(6, NULL, "MIOpen keeps databases below /nowhere/either, which cannot be written");
}

Test(hip_conv, an_old_driver_has_none) {
  unsetenv("TC_MIOPEN_LIBRARY");
  refuses(5, NULL, "MIOpen of HIP 6.0 or newer is needed, and the driver is of HIP 5");
}

// The name of the library's file is the same for every HIP.
Test(hip_conv, a_library_of_another_hip_is_told) {
  if (!built_simulators()) cr_skip_test("the simulated driver is not built");
  setenv("TC_MIOPEN_LIBRARY", built("libsim-miopen.so"), 1);
  setenv("MIOPEN_USER_DB_PATH", "/tmp", 1);
  refuses(7, dlopen("libc.so.6", RTLD_NOW), "is MIOpen 3.4.0 for another HIP than the driver's, which is of HIP 7");
}

Test(hip_conv, every_call_of_the_library_may_fail) {
  static const struct {
    const char *name;
    int fails;  // at least so often before all is made
  } functions[] = {{"miopenCreateTensorDescriptor", 6},
                   {"miopenSetNdTensorDescriptorWithLayout", 6},
                   {"miopenCreateConvolutionDescriptor", 2},
                   {"miopenInitConvolutionNdDescriptor", 2},
                   {"miopenSetConvolutionGroupCount", 2},
                   {"miopenSetConvolutionAttribute", 4},
                   {"miopenConvolutionForwardGetSolution", 2},
                   {"miopenConvolutionForwardGetSolutionWorkspaceSize", 1},
                   {"miopenConvolutionForwardCompileSolution", 1},
                   {"miopenConvolutionForwardImmediate", 0}};
  simulate_library(NULL);
  tc_gpu *g = open_tested();
  tc_gpu_conv_facts f = usual();
  problem p = problem_make(g, &f);
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    may_fail(g, &p, functions[i].name, 4, functions[i].fails, 100);
  problem_end(&p);
  finish();
}

Test(hip_conv, what_is_not_supported_has_no_algorithms) {
  simulate_library(NULL);
  tc_gpu_algorithm a[MOST];
  int n;
  tc_gpu *g = open_tested();
  cr_assert(fail_at("miopenConvolutionForwardGetSolution:1=6"));
  OK(tc_gpu_call_find(g, WORK(usual()), a, MOST, &n));
  cr_expect_eq(n, 0);
  cr_assert(fail_at("miopenConvolutionForwardGetSolution:1=7"));
  FAILS(tc_gpu_call_find(g, WORK(usual()), a, MOST, &n), TC_ERR_DEVICE,
        "asking for a library's algorithms: miopenStatusUnknownError");
  finish();
}
