// Opening ROCTX. See roctx.h.
//
// rocprofv3 starts a program with ROCP_TOOL_LIBRARIES in its environment, and sees the ranges of
// rocprofiler-sdk's library. rocprof and rocprofv2 start it with HSA_TOOLS_LIB, and see only those
// of roctracer's library.
// Source: the scripts in ROCm/rocprofiler-sdk and ROCm/rocprofiler.
#include "device/hip/roctx.h"

#include "device/gpu/library.h"
#include "device/hip/library_paths.h"
#include "runtime/options.h"

static struct {
#define TC_ROCTX_ROW(symbol, result, parameters) result(*symbol) parameters;
#include "device/hip/roctx.def"
#undef TC_ROCTX_ROW
} roctx;

static const tc_library_row rows[] = {
#define TC_ROCTX_ROW(symbol, result, parameters) TC_LIBRARY_ROW(roctx, symbol, true),
#include "device/hip/roctx.def"
#undef TC_ROCTX_ROW
};

static void *find_roctx(const char **name) {
  static const char *const names[] = {"libroctx64.so.4", "librocprofiler-sdk-roctx.so.1",
                                      "librocprofiler-sdk-roctx.so.0", "libroctx64.so.4"};
  bool earlier = tc_options_get()->hip_tools && !tc_options_get()->hip_profiler;
  void *handle = NULL;
  for (size_t i = earlier ? 0 : 1; i < sizeof names / sizeof *names && !handle; i++) {
    *name = names[i];
    handle = tc_hip_library_paths_open(names[i]);
  }
  return handle;
}

bool tc_roctx_open(tc_gpu_ranges *out, char *why, size_t bytes) {
  static const tc_library library = {"ROCTX cannot be opened", NULL, NULL, {TC_LIBRARY_TABLE(rows, roctx)}};
  const char *name = tc_options_get()->roctx_library;
  char text[192] = "neither librocprofiler-sdk-roctx.so.1 nor .0 nor libroctx64.so.4 is there";
  void *handle = name ? tc_library_open(name, text, sizeof text) : find_roctx(&name);
  if (!tc_library_load(&library, handle, name, text, why, bytes)) return false;
  *out = (tc_gpu_ranges){name, roctx.roctxRangePushA, roctx.roctxRangePop};
  return true;
}

bool tc_roctx_attached(void) {
  return tc_options_get()->hip_profiler || tc_options_get()->hip_tools;
}
