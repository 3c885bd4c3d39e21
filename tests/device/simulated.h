// The simulated drivers in the place of the real ones, for tests that look inside. Each test is a
// process of its own.
#pragma once

#include <criterion/criterion.h>
#include <dlfcn.h>

#include "device/gpu.h"
#include "runtime/options.h"
#include "tests/sim/built.h"

// Settings of the simulator: NULL or "NAME=VALUE", NULL.
static inline void simulate(const char *const *setting) {
  if (!built_simulators()) cr_skip_test("the simulated driver is not built");
  setenv("TC_CACHE_BYTES", "0", 1);
  for (; setting && *setting; setting++) cr_assert_eq(putenv((char *)*setting), 0);
  tc_options_reload();
}

static inline void *symbol_of(const char *library, const char *name) {
  void *handle = dlopen(built(library), RTLD_NOW | RTLD_LOCAL);
  cr_assert(handle, "%s", dlerror());
  void *symbol = dlsym(handle, name);
  cr_assert(symbol, "%s", dlerror());
  return symbol;
}

#define CALL(type, name) ((type)symbol_of("libsim-cuda.so", name))

static inline tc_gpu *open_gpu(int ordinal) {
  tc_gpu *g;
  cr_assert_eq(tc_gpu_get(tc_device_of_row(TC_DEVICE_CUDA, ordinal), &g), TC_OK, "%s", tc_last_error()->message);
  return g;
}

#define SAYS(text, words) cr_expect(strstr((text), (words)), "\"%s\" is not in \"%s\"", (words), (text))
#define OK(call) cr_assert_eq((call), TC_OK, "%s", tc_last_error()->message)
// The call fails with this status, and its message has these words.
#define FAILS(call, status, words) \
  do { \
    tc_clear_error(); \
    cr_expect_eq((call), (status)); \
    cr_expect(strstr(tc_last_error()->message, (words)), "\"%s\" is not in \"%s\"", (words), \
              tc_last_error()->message); \
    tc_clear_error(); \
  } while (0)

// Of a library's call alone, whose words are five addresses and no fault word.
static inline tc_gpu_sequence *sequence_of(tc_gpu *g, tc_gpu_call *x) {
  tc_gpu_sequence *s;
  tc_gpu_launch launch = {.call = x};
  OK(tc_gpu_sequence_create(g, &launch, 1, TC_GPU_CALL_WORDS, &s));
  return s;
}
