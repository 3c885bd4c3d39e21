// Convolutions by a vendor's library (device/gpu.h), on the simulated driver and its cuDNN. What
// calls of libraries have in common is in test_gpu_product.c.
#include "tests/device/convs.h"

static const vendor tested = {TC_DEVICE_CUDA, "libsim-cuda.so", "TC_CUDNN_LIBRARY", "libsim-cudnn.so", {NULL, NULL}};

// ---- results ----

Test(gpu_conv, every_type_direction_and_shape_by_every_algorithm_launched_and_replayed) {
  simulate_library(NULL);
  tc_gpu *g = open_tested();
  cr_assert_null(tc_gpu_library_absent(g, TC_GPU_CONVOLUTIONS), "%s", tc_gpu_library_absent(g, TC_GPU_CONVOLUTIONS));
  cr_expect_str_eq(tc_gpu_library_name(g, TC_GPU_CONVOLUTIONS), "cuDNN 9.10.2");
  static const tc_type types[] = {TC_F32, TC_F16, TC_BF16};
  for (int i = 0; i < 54; i++) {
    int kind = i / 9;
    tc_gpu_conv_facts f = square(types[i % 3], (tc_gpu_direction)(i / 3 % 3), 1 + (kind + 1) % 3, 1 + kind % 2,
                                 1 + kind / 3, kind % 3, kind / 2);
    if (kind == 5) f.groups = 2, f.in = 4;
    tc_gpu_algorithm a[MOST];
    int n, good = 0;
    OK(tc_gpu_call_find(g, WORK(f), a, MOST, &n));
    // Of the engines that are taken, one wants too much memory and one refuses to be a plan.
    cr_expect_eq(n, kind == 5 ? 2 : f.type == TC_F32 ? 5 : 6, "algorithms of problem %d: %d", i, n);
    for (int k = 0; k < n; k++)
      good += computes(g, &f, &a[k], "asking a library for an algorithm: CUDNN_STATUS_NOT_SUPPORTED");
    cr_expect_eq(good, kind == 5 ? 2 : f.type == TC_F32 ? 3 : 4, "problem %d: %d", i, good);
  }
  finish();
}

Test(gpu_conv, operands_at_ever_new_addresses_are_copied_by_a_graph_that_is_replayed) {
  simulate_library(NULL);
  static const tc_type types[] = {TC_F32, TC_BF16, TC_F32};
  for (int i = 0; i < 3; i++)
    replays_at_ever_new_addresses(open_tested(), square(types[i], (tc_gpu_direction)i, 2, 1, 1, 1, 1));
  finish();
}

// What a run under way uses stays until it is over, and the call's last reference is gone before.
Test(gpu_conv, a_call_is_given_up_behind_its_runs) {
  simulate_library((const char *[]){"TC_SIM_EAGER=0", NULL});
  tc_gpu *g = open_tested();
  tc_gpu_conv_facts f = usual();
  tc_gpu_algorithm a;
  uint64_t words[TC_GPU_CALL_WORDS], (*calls)(const char *) = OF_DRIVER(uint64_t (*)(const char *), "sim_calls");
  int n;
  OK(tc_gpu_call_find(g, WORK(f), &a, 1, &n));
  problem p = problem_make(g, &f);
  tc_gpu_call *x = call_of(&p, &a);
  tc_gpu_sequence *s = sequence_of(g, x);
  say(&p, words);
  for (int i = 0; i < 3; i++) OK(tc_gpu_sequence_run(s, words));
  uint64_t before = calls("cudnnBackendDestroyDescriptor");
  tc_gpu_sequence_destroy(s);
  tc_gpu_call_release(x);
  cr_expect_eq(calls("cudnnBackendDestroyDescriptor"), before);
  OK(tc_gpu_wait(g));
  cr_expect(calls("cudnnBackendDestroyDescriptor") > before);
  problem_end(&p);
  finish();
}

// ---- algorithms ----

Test(gpu_conv, an_algorithm_is_its_engine_with_its_knobs) {
  simulate_library((const char *[]){"TC_SIM_ENGINE=1", NULL});
  tc_gpu *g = open_tested();
  tc_gpu_conv_facts f = usual();
  tc_gpu_algorithm a[MOST];
  tc_gpu_call *x;
  uint32_t slot[16];
  int n;
  OK(tc_gpu_call_find(g, WORK(f), a, MOST, &n));
  memcpy(slot, a[0].data, sizeof slot);
  cr_expect(slot[0] == (2u << 24 | 0) && slot[1] == (2u << 24 | 2) && slot[2] == 14u << 24, "%x %x %x", slot[0],
            slot[1], slot[2]);
  memcpy(slot, a[1].data, sizeof slot);
  cr_expect(slot[0] == (1u << 24 | 1) && slot[1] == (2u << 24 | 3), "%x %x", slot[0], slot[1]);
  OK(tc_gpu_call_create(g, WORK(f), &a[1], &x));
  cr_expect(tc_gpu_call_workspace(x) > 0);
  tc_gpu_call_release(x);
  static const uint32_t wrong[][2] = {
      {2, 0}, {4, 0}, {7, 0}, {99, 0}, {1u << 24, 3u << 24}, {1u << 24, 2u << 24 | 99}, {255u << 24, 0}};
  // other bits, TF32, unheard of, none; no such knob, no such value, too many
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    memset(slot, 0, sizeof slot);
    memcpy(slot, wrong[i], sizeof wrong[i]);
    memcpy(a[0].data, slot, sizeof slot);
    cr_expect_eq(tc_gpu_call_create(g, WORK(f), &a[0], &x), TC_ERR_DEVICE, "%d", (int)i);
    cr_expect_null(x);
    tc_clear_error();
  }
  f.result[0]++;
  FAILS(tc_gpu_call_find(g, WORK(f), a, MOST, &n), TC_ERR_ARG, "is malformed");
  f = usual(), f.groups = 2;
  FAILS(tc_gpu_call_find(g, WORK(f), a, MOST, &n), TC_ERR_ARG, "is malformed");
  f = usual(), f.type = TC_F64;
  FAILS(tc_gpu_call_find(g, WORK(f), a, MOST, &n), TC_ERR_ARG, "is malformed");
  finish();
}

// ---- what may be absent, and fail ----

Test(gpu_conv, without_a_library_one_sentence_says_so) {
  SAYS(absent(NULL, NULL), "a simulated device has no library of convolutions but one that TC_CUDNN_LIBRARY names");
  finish();
}

Test(gpu_conv, a_library_that_does_not_open_is_told) {
  SAYS(absent("/nowhere/libcudnn.so.9", NULL),
       "cuDNN, NVIDIA's library of convolutions, cannot be opened: /nowhere/libcudnn.so.9");
  finish();
}

Test(gpu_conv, a_library_of_something_else_is_told) {
  SAYS(absent(built("libsim-nvrtc.so"), NULL), "has no cudnnGetVersion: cuDNN 9 is needed");
  finish();
}

Test(gpu_conv, a_library_of_another_version_is_told) {
  SAYS(absent(built("libsim-cudnn.so"), (const char *[]){"TC_SIM_CUDNN=8.9.7,12", NULL}),
       "is cuDNN 8.9.7 for CUDA 12, and for the driver of CUDA 13");
  finish();
}

Test(gpu_conv, a_library_too_new_for_the_driver_is_told) {
  SAYS(absent(built("libsim-cudnn.so"), (const char *[]){"TC_SIM_CUDNN=9.40.0,14", NULL}),
       "is cuDNN 9.40.0 for CUDA 14, and for the driver of CUDA 13");
  finish();
}

Test(gpu_conv, a_library_that_does_not_start_is_told) {
  SAYS(absent(built("libsim-cudnn.so"), (const char *[]){"TC_SIM_FAIL=cudnnCreate:*=1001", NULL}),
       "cuDNN 9.10.2 does not start on tc:cuda: CUDNN_STATUS_NOT_INITIALIZED");
  finish();
}

Test(gpu_conv, every_call_of_the_library_may_fail) {
  static const char *const functions[] = {"cudnnBackendCreateDescriptor", "cudnnBackendSetAttribute",
                                          "cudnnBackendGetAttribute", "cudnnBackendFinalize", "cudnnBackendExecute"};
  simulate_library(NULL);
  tc_gpu *g = open_tested();
  tc_gpu_conv_facts f = usual();
  problem p = problem_make(g, &f);
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    may_fail(g, &p, functions[i], 4003, i < 4 ? 6 : 0, 1000);
  problem_end(&p);
  finish();
}

Test(gpu_conv, what_is_not_supported_has_no_algorithms) {
  simulate_library(NULL);
  tc_gpu_algorithm a[MOST];
  int n;
  tc_gpu *g = open_tested();
  OK(tc_gpu_call_find(g, WORK(usual()), a, MOST, &n));
  cr_expect(n > 0);
  // The seventh that is finalized is what asks for engines; any of them before it is an error.
  cr_assert(fail_at("cudnnBackendFinalize:7=3000"));
  OK(tc_gpu_call_find(g, WORK(usual()), a, MOST, &n));
  cr_expect_eq(n, 0);
  cr_assert(fail_at("cudnnBackendFinalize:6=3000"));
  FAILS(tc_gpu_call_find(g, WORK(usual()), a, MOST, &n), TC_ERR_DEVICE,
        "describing work to its library: CUDNN_STATUS_NOT_SUPPORTED");
  finish();
}
