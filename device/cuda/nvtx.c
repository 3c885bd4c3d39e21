// See nvtx.h. The library hands ranges on to the profiler that NVTX_INJECTION64_PATH names, or that was loaded before it; without one they are nothing.
// Source: NVIDIA/NVTX, how version 3 begins. Nsight Systems sets that variable where it is to trace ranges, and NSYS_PROFILING_SESSION_ID always.
#include "device/cuda/nvtx.h"

#include "device/cuda/library_paths.h"
#include "device/gpu/library.h"
#include "runtime/options.h"

#define NEWER "libnvtx3interop.so.1"
#define OLDER "libnvToolsExt.so.1"

static struct {
#define TC_NVTX_ROW(symbol, result, parameters) result(*symbol) parameters;
#include "device/cuda/nvtx.def"
#undef TC_NVTX_ROW
} nvtx;

static const tc_library_row rows[] = {
#define TC_NVTX_ROW(symbol, result, parameters) TC_LIBRARY_ROW(nvtx, symbol, true),
#include "device/cuda/nvtx.def"
#undef TC_NVTX_ROW
};

static bool open_path(const char *path, void *handle) {
  char why[192];
  return (*(void **)handle = tc_library_open(path, why, sizeof why)) != NULL;
}

static const char *find(void **handle) {
  static const char *const names[] = {NEWER, OLDER};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (open_path(names[i], handle) || tc_cuda_places(names[i], open_path, handle)) return names[i];
  return NULL;
}

bool tc_nvtx_open(tc_gpu_ranges *out, char *why, size_t bytes) {
  const tc_gpu_ranges_library library = {"NVTX", tc_options_get()->nvtx_library, find, "neither " NEWER " nor " OLDER " is there",
                                         rows,   sizeof rows / sizeof *rows,     &nvtx};
  const char *name;
  if (!tc_gpu_ranges_open(&library, &name, why, bytes)) return false;
  *out = (tc_gpu_ranges){name, nvtx.nvtxRangePushA, nvtx.nvtxRangePop};
  return true;
}

bool tc_nvtx_attached(void) {
  return tc_options_get()->cuda_profiler || tc_options_get()->cuda_session;
}
