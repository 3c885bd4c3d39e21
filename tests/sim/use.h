// For programs that call the simulated driver itself: its libraries, opened where the build put
// them, beside the program; and short forms of what they do.
#pragma once

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/expect.h"
#include "tests/sim/built.h"
#include "tests/sim/core.h"
#include "tests/sim/cuda_api.h"
#include "tests/sim/nvrtc_api.h"

enum { USE_MISTAKES = 86 };  // how a process ends that did not forget mistakes which the simulator found
static void *use_cuda, *use_nvrtc;

static inline void *use_open(const char *name) {
  const char *path = built(name);
  return access(path, R_OK) == 0 ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

static inline void *use_symbol(void *library, const char *name) {
  void *at = dlsym(library, name);
  if (!at) {
    printf("no %s: %s\n", name, dlerror());
    exit(1);
  }
  return at;
}

// A function of the driver by its name, also one of the simulator's own; of NVRTC.
#define CU(name) ((__typeof__(&name))use_symbol(use_cuda, #name))
#define RTC(name) ((__typeof__(&name))use_symbol(use_nvrtc, #name))
#define EXPECT_CU(result, call) \
  do { \
    unsigned use_got = (call); \
    EXPECT(use_got == (result), "%u", use_got); \
  } while (0)
#define EXPECT_FINE(call) EXPECT_CU(0u, call)

// Opens both and the first device, whose context becomes current. False: they were not built.
static inline bool use_begin(void) {
  CUcontext context;
  use_cuda = use_open("libsim-cuda.so");
  use_nvrtc = use_open("libsim-nvrtc.so");
  if (!use_cuda || !use_nvrtc) return false;
  EXPECT_FINE(CU(cuInit)(0));
  EXPECT_FINE(CU(cuDevicePrimaryCtxRetain)(&context, 0));
  EXPECT_FINE(CU(cuCtxSetCurrent)(context));
  return true;
}

// The source's kernel, after the words' include. *out_log, if wanted, is freed by the caller; NULL:
// it is printed, and failing is a failed check.
static inline CUfunction use_kernel_for(const char *name, const char *source, const char *arch, char **out_log) {
  char text[16384], arch_option[64];
  const char *header = "// replaced", *header_name = "tc_words.h", *option[] = {arch_option, "--fmad=false"};
  nvrtcProgram p;
  CUmodule module = NULL;
  CUfunction function = NULL;
  size_t bytes = 0;
  snprintf(text, sizeof text, "#include \"tc_words.h\"\n%s", source);
  snprintf(arch_option, sizeof arch_option, "--gpu-architecture=%s", arch);
  RTC(nvrtcCreateProgram)(&p, text, name, 1, &header, &header_name);
  nvrtcResult result = RTC(nvrtcCompileProgram)(p, 2, option);
  RTC(nvrtcGetProgramLogSize)(p, &bytes);
  char *log = malloc(bytes);
  RTC(nvrtcGetProgramLog)(p, log);
  if (result == NVRTC_SUCCESS) {
    RTC(nvrtcGetCUBINSize)(p, &bytes);
    char *cubin = malloc(bytes);
    RTC(nvrtcGetCUBIN)(p, cubin);
    if (CU(cuModuleLoadData)(&module, cubin) == 0) CU(cuModuleGetFunction)(&function, module, name);
    free(cubin);
  }
  RTC(nvrtcDestroyProgram)(&p);
  EXPECT(function || out_log, "%s: %s", name, log);
  if (out_log) {
    *out_log = log;
  } else {
    free(log);
  }
  return function;
}

static inline CUfunction use_kernel(const char *name, const char *source) {
  return use_kernel_for(name, source, "sm_90", NULL);
}

static inline CUdeviceptr use_alloc(size_t bytes) {
  CUdeviceptr at = 0;
  EXPECT_FINE(CU(cuMemAlloc_v2)(&at, bytes));
  return at;
}

static inline CUdeviceptr use_upload(const void *from, size_t bytes) {
  CUdeviceptr at = use_alloc(bytes);
  EXPECT_FINE(CU(cuMemcpyHtoD_v2)(at, from, bytes));
  return at;
}

// Launches a kernel of the dialect with these words for a table, and waits. What waiting gave.
static inline CUresult use_run_shared(CUfunction f, unsigned blocks, unsigned threads, unsigned shared_bytes,
                                      const uint64_t *words, size_t n) {
  CUdeviceptr table = use_upload(words, n * 8);
  void *parameter[] = {&table};
  CUresult r = CU(cuLaunchKernel)(f, blocks, 1, 1, threads, 1, 1, shared_bytes, NULL, parameter, NULL);
  CUresult waited = CU(cuCtxSynchronize)();
  CU(cuMemFree_v2)(table);
  return r ? r : waited;
}
#define use_run(f, blocks, threads, shared_bytes, ...) \
  use_run_shared(f, blocks, threads, shared_bytes, (uint64_t[]){__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / 8)

// A kernel for orders of work: adds the table's second word to each of 32 words at its first.
static const char use_add_text[] __attribute__((unused)) =
    "TC_KERNEL(add, 32) {\n"
    "  u32 *p = (u32 *)tc_table[0];\n"
    "  p[TC_THREAD] += (u32)tc_table[1];\n"
    "}\n";

// The first of 32 words that should all be the same.
static inline uint32_t use_first_word(CUdeviceptr at) {
  uint32_t v[32] = {0};
  EXPECT_FINE(CU(cuMemcpyDtoH_v2)(v, at, sizeof v));
  for (int i = 1; i < 32; i++) EXPECT(v[i] == v[0], "%u, %u", v[i], v[0]);
  return v[0];
}
