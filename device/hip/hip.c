// AMD's driver and runtime, from libamdhip64. See device/gpu/driver.h. It has run on the simulator,
// and on no AMD GPU.
//
// HIP has no contexts to push: a call sets this thread's device, and then restores the caller's.
#include <string.h>

#include "device/gpu/driver.h"
#include "device/gpu/library.h"
#include "device/hip/api.h"
#include "device/hip/hiprtc.h"
#include "device/hip/miopen.h"
#include "device/hip/library_paths.h"
#include "device/hip/gemm.h"
#include "device/hip/roctx.h"
#include "runtime/arena.h"
#include "runtime/options.h"

#define NEEDED 1
#define OLDEST 50200000  // HIP 5.2
#define NODES_SINCE 60000000  // HIP 6.0: nodes may name functions of modules; before, whole graphs are captured
#define NEWEST_MAJOR 7
#define OLDEST_MAJOR 5

static struct {
  tc_gpu_entry_points entry;
#define TC_HIP_ROW(symbol, result, needed, parameters) result(*symbol) parameters;
#define TC_HIP_SHARED(symbol, field, result, needed, parameters)
#include "device/hip/driver.def"
#undef TC_HIP_ROW
} hip;

static const tc_library_row rows[] = {
#define TC_HIP_ROW(symbol, result, needed, parameters) TC_LIBRARY_ROW(hip, symbol, needed),
#define TC_HIP_SHARED(symbol, field, result, needed, parameters) TC_LIBRARY_ROW_AS(hip, symbol, entry.field, needed),
#include "device/hip/driver.def"
#undef TC_HIP_ROW
};

// The second function exists since HIP 6, and has another layout.
static struct {
  tc_hip_result (*hipGetDeviceProperties)(void *properties, int ordinal);
  tc_hip_result (*hipGetDevicePropertiesR0600)(void *properties, int ordinal);
} old_or_new;
static const tc_library_row properties_rows[] = {
    TC_LIBRARY_ROW(old_or_new, hipGetDeviceProperties, true),
    TC_LIBRARY_ROW(old_or_new, hipGetDevicePropertiesR0600, false),
};

static int version;  // 50221153: HIP 5.2

// ---- the library ----

static tc_gpu_verdict judge_result(int result, const char **name) {
  *name = NULL;
  if (result == TC_hipSuccess) return TC_GPU_FINE;
  if (result >= TC_MIOPEN_RESULTS) return tc_miopen_judge(result, name);
  if (result >= TC_HIP_PRODUCTS_RESULTS) return tc_hip_gemm_judge(result, name);
  *name = hip.hipGetErrorName ? hip.hipGetErrorName((tc_hip_result)result) : NULL;
  if (!*name) *name = "an error without a name";
  switch (result) {
    case TC_hipErrorOutOfMemory: return TC_GPU_OUT_OF_MEMORY;
    case TC_hipErrorNotInitialized:
    case TC_hipErrorDeinitialized:
    case TC_hipErrorInsufficientDriver:
    case TC_hipErrorNoDevice:
    case TC_hipErrorInvalidDevice:
    case TC_hipErrorECCNotCorrectable:
    case TC_hipErrorIllegalAddress:
    case TC_hipErrorLaunchTimeOut:
    case TC_hipErrorContextIsDestroyed:
    case TC_hipErrorAssert:
    case TC_hipErrorLaunchFailure:
    case TC_hipErrorUnknown:
    case TC_hipErrorRuntimeOther: return TC_GPU_GONE;
    default: return TC_GPU_REFUSED;
  }
}

// Returns the newest as the loader finds it, or below /opt/rocm; NULL with why not in why.
static void *find_driver(char *why, size_t bytes) {
  const char *path = tc_options_get()->hip_library;
  void *handle = NULL;
  if (path) return tc_library_open(path, why, bytes);
  for (int major = NEWEST_MAJOR; major >= OLDEST_MAJOR && !handle; major--) {
    char name[32];
    snprintf(name, sizeof name, "libamdhip64.so.%d", major);
    handle = tc_hip_library_paths_open(name);
  }
  if (!handle)
    snprintf(why, bytes, "there is no libamdhip64.so.%d to .%d among the loader's libraries or in /opt/rocm",
             OLDEST_MAJOR, NEWEST_MAJOR);
  return handle;
}

static bool open_driver(char *why, size_t bytes) {
  static const tc_library library = {"no AMD driver",
                                     "AMD's library",
                                     "it is older than HIP 5.2",
                                     {TC_LIBRARY_TABLE(rows, hip), TC_LIBRARY_TABLE(properties_rows, old_or_new)}};
  const char *name;
  char text[192];
  int n = 0;
  void *handle = find_driver(text, sizeof text);
  if (!tc_library_load(&library, handle, NULL, text, why, bytes)) return false;
  // Without a GPU hipInit calls the device invalid, so devices are counted first.
  tc_hip_result result = (tc_hip_result)hip.entry.device_count(&n);
  if (result == TC_hipSuccess) result = hip.hipInit(0);
  if (result == TC_hipSuccess) result = hip.hipRuntimeGetVersion(&version);
  if (result != TC_hipSuccess) {
    (void)judge_result((int)result, &name);
    snprintf(why, bytes, "%s: %s (%u)",
             result == TC_hipErrorNoDevice ? "there is no AMD GPU, or none is visible" : "AMD's driver does not start",
             name, result);
    return false;
  }
  hip.entry.most_value_bytes = 4096;
  hip.entry.replay_is_fixed = version < NODES_SINCE;
  snprintf(hip.entry.version, sizeof hip.entry.version, "HIP %d.%d", version / 10000000, version / 100000 % 100);
  if (version < OLDEST) {
    snprintf(why, bytes, "AMD's library is %s: 5.2 or newer is needed", hip.entry.version);
    return false;
  }
  tc_hip_gemm_of(version / 10000000);
  tc_miopen_of(version / 10000000, handle);
  return tc_hiprtc_open(handle, version, why, bytes);
}

// ---- a device ----

// Returns whether the dialect has words for the device's matrix instructions.
static bool has_mfma(const char *arch) {
  static const char *const all[] = {"gfx908", "gfx90a", "gfx942"};
  size_t n = strcspn(arch, ":");
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (strlen(all[i]) == n && memcmp(all[i], arch, n) == 0) return true;
  return false;
}

static int facts_of(int ordinal, tc_gpu_facts *out, const char **what) {
  static const tc_hip_layout layouts[] = {TC_HIP_LAYOUT_5, TC_HIP_LAYOUT_6};
  static char at[TC_HIP_PROPERTIES_BYTES];  // guarded by the lock of opening
  bool is_new = old_or_new.hipGetDevicePropertiesR0600 != NULL;
  const tc_hip_layout *l = &layouts[is_new];
  int l2;
  *out = (tc_gpu_facts){0};
  *what = "asking for a device's facts";
  tc_hip_result result =
      (is_new ? old_or_new.hipGetDevicePropertiesR0600 : old_or_new.hipGetDeviceProperties)(at, ordinal);
  if (result != TC_hipSuccess) return (int)result;
  snprintf(out->name, sizeof out->name, "%.90s", at + l->name);
  snprintf(out->arch, sizeof out->arch, "%.31s", at + l->gcnArchName);
  memcpy(&out->memory_bytes, at + l->totalGlobalMem, sizeof(size_t));
  memcpy(&out->shared_bytes, at + l->sharedMemPerBlock, sizeof(size_t));
  memcpy(&out->warp, at + l->warpSize, sizeof out->warp);
  memcpy(&out->most_threads, at + l->maxThreadsPerBlock, sizeof out->most_threads);
  memcpy(&out->processors, at + l->multiProcessorCount, sizeof out->processors);
  memcpy(&l2, at + l->l2CacheSize, sizeof l2);
  out->l2_bytes = (size_t)l2;
  out->matrix = has_mfma(out->arch) ? TC_GPU_MFMA : TC_GPU_NO_MATRIX;
  out->simulated = strncasecmp(out->name, "simulated", 9) == 0;
  return 0;
}

static _Thread_local int before;  // the caller's device, between enter and leave

static int enter_device(tc_gpu_port *p) {
  tc_hip_result result = hip.hipGetDevice(&before);
  return (int)(result == TC_hipSuccess ? hip.hipSetDevice(p->ordinal) : result);
}

static void leave_device(tc_gpu_port *p) {
  (void)p, (void)hip.hipSetDevice(before);
}

static void close_port(tc_gpu_port *p, bool lost) {
  if (!lost && enter_device(p) == 0) {
    tc_hip_gemm_close(p);
    tc_miopen_close(p);
    tc_gpu_port_fini(p);
    leave_device(p);
  }
  *p = (tc_gpu_port){.driver = p->driver, .ordinal = p->ordinal};
}

static int open_port(tc_gpu_port *p, const char **what) {
  *what = "choosing the device";
  return tc_gpu_port_open(p, what);
}

// ---- memory ----

static int write_to(tc_gpu_port *p, tc_gpu_line line, void *to, const void *staging, size_t bytes) {
  return (int)hip.hipMemcpyAsync(to, staging, bytes, TC_hipMemcpyHostToDevice, p->stream[line]);
}

static int read_from(tc_gpu_port *p, tc_gpu_line line, void *staging, const void *from, size_t bytes) {
  return (int)hip.hipMemcpyAsync(staging, from, bytes, TC_hipMemcpyDeviceToHost, p->stream[line]);
}

static int copy_memory(tc_gpu_port *p, void *to, const void *from, size_t bytes) {
  return (int)hip.hipMemcpyAsync(to, from, bytes, TC_hipMemcpyDeviceToDevice, p->stream[TC_GPU_WORK]);
}

// ---- replay ----

static const char *no_replay(void) {
  const tc_gpu_entry_points *e = &hip.entry;
  bool captures = e->capture_begin && e->capture_end && e->graph_instantiate && e->exec_launch && e->exec_destroy &&
                  e->graph_destroy;
  bool builds = e->graph_create && e->graph_add_kernel && e->exec_set_kernel && e->graph_add_child;
  return captures && (builds || e->replay_is_fixed) ? NULL : "this HIP has no functions for graphs";
}

static void node_params(const tc_gpu_node *n, void **parameters, tc_gpu_node_params *out) {
  const tc_hip_node_params own = {{n->threads, 1, 1}, NULL,       n->function,
                                  {n->blocks, 1, 1},  parameters, n->shared_bytes};
  _Static_assert(sizeof own <= sizeof *out, "HIP's parameters of a node fit");
  memcpy(out, &own, sizeof own);
}

const tc_gpu_driver tc_hip_driver = {
    .name = "HIP",
    .words = tc_hip_words,
    .options = TC_HIPRTC_OPTIONS,
    .entry = &hip.entry,
    .open_library = open_driver,
    .judge = judge_result,
    .choose_arch = tc_hiprtc_choose_arch,
    .compiler = tc_hiprtc_name,
    .compile = tc_hiprtc_compile,
    .facts = facts_of,
    .open = open_port,
    .close = close_port,
    .enter = enter_device,
    .leave = leave_device,
    .write = write_to,
    .read = read_from,
    .copy = copy_memory,
    .library = {[TC_GPU_MATMULS] = &tc_hip_gemm, [TC_GPU_CONVOLUTIONS] = &tc_miopen},
    .ranges_open = tc_roctx_open,
    .profiler_attached = tc_roctx_attached,
    .no_replay = no_replay,
    .node_params = node_params,
};
