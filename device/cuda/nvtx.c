// Opening NVTX. See nvtx.h.
//
// The library passes ranges to the profiler that NVTX_INJECTION64_PATH names, or that was loaded
// before it; without a profiler they do nothing. Nsight Systems sets that variable where it traces
// ranges, and NSYS_PROFILING_SESSION_ID always.
// Source: NVIDIA/NVTX, the start of version 3.
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

static void *find_nvtx(const char **name) {
  static const char *const names[] = {NEWER, OLDER};
  void *handle = NULL;
  for (size_t i = 0; i < sizeof names / sizeof *names && !handle; i++) {
    *name = names[i];
    if (!tc_library_open_at(names[i], &handle)) (void)tc_cuda_library_paths(names[i], tc_library_open_at, &handle);
  }
  return handle;
}

bool tc_nvtx_open(tc_gpu_ranges *out, char *why, size_t bytes) {
  static const tc_library library = {"NVTX cannot be opened", NULL, NULL, {TC_LIBRARY_TABLE(rows, nvtx)}};
  const char *name = tc_options_get()->nvtx_library;
  char text[192] = "neither " NEWER " nor " OLDER " is there";
  void *handle = name ? tc_library_open(name, text, sizeof text) : find_nvtx(&name);
  if (!tc_library_load(&library, handle, name, text, why, bytes)) return false;
  *out = (tc_gpu_ranges){name, nvtx.nvtxRangePushA, nvtx.nvtxRangePop};
  return true;
}

bool tc_nvtx_attached(void) {
  return tc_options_get()->cuda_profiler || tc_options_get()->cuda_session;
}
