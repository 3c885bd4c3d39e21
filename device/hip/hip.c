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
#define TC_HIP_ROW(symbol, result, needed, parameters) result(*symbol) parameters;
#include "device/hip/driver.def"
#undef TC_HIP_ROW
} hip;

static const tc_library_row rows[] = {
#define TC_HIP_ROW(symbol, result, needed, parameters) TC_LIBRARY_ROW(hip, symbol, needed),
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
static char version_text[32];

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
  tc_hip_result result = hip.hipGetDeviceCount(&n);
  if (result == TC_hipSuccess) result = hip.hipInit(0);
  if (result == TC_hipSuccess) result = hip.hipRuntimeGetVersion(&version);
  if (result != TC_hipSuccess) {
    (void)judge_result((int)result, &name);
    snprintf(why, bytes, "%s: %s (%u)",
             result == TC_hipErrorNoDevice ? "there is no AMD GPU, or none is visible" : "AMD's driver does not start",
             name, result);
    return false;
  }
  snprintf(version_text, sizeof version_text, "HIP %d.%d", version / 10000000, version / 100000 % 100);
  if (version < OLDEST) {
    snprintf(why, bytes, "AMD's library is %s: 5.2 or newer is needed", version_text);
    return false;
  }
  tc_hip_gemm_of(version / 10000000, tc_hip_driver.free_memory);
  tc_miopen_of(version / 10000000, handle, tc_hip_driver.free_memory);
  return tc_hiprtc_open(handle, version, why, bytes);
}

static int count_devices(int *n) {
  return (int)hip.hipGetDeviceCount(n);
}

static const char *version_of(void) {
  return version_text;
}

static uint32_t most_value_bytes(void) {
  return 4096;
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

static tc_hip_result make_pool(tc_gpu_port *p) {
  tc_hip_pool_properties properties = {.allocType = TC_hipMemAllocationTypePinned,
                                       .location = {TC_hipMemLocationTypeDevice, p->ordinal}};
  unsigned long long all = UINT64_MAX;
  int off = 0;
  tc_hip_pool pool = NULL;
  tc_hip_result result = hip.hipMemPoolCreate(&pool, &properties);
  p->pool = pool;
  if (result == TC_hipSuccess) result = hip.hipMemPoolSetAttribute(pool, TC_hipMemPoolAttrReleaseThreshold, &all);
  if (result == TC_hipSuccess) result = hip.hipMemPoolSetAttribute(pool, TC_hipMemPoolReuseAllowOpportunistic, &off);
  if (result == TC_hipSuccess)
    result = hip.hipMemPoolSetAttribute(pool, TC_hipMemPoolReuseAllowInternalDependencies, &off);
  return result;
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
    if (p->pool) (void)hip.hipMemPoolDestroy(p->pool);
    for (int i = 0; i < TC_GPU_N_LINES; i++)
      if (p->stream[i]) (void)hip.hipStreamDestroy(p->stream[i]);
    leave_device(p);
  }
  *p = (tc_gpu_port){.ordinal = p->ordinal};
}

static tc_hip_result make_streams(tc_gpu_port *p) {
  tc_hip_result result = TC_hipSuccess;
  for (int i = 0; i < TC_GPU_N_LINES && result == TC_hipSuccess; i++) {
    tc_hip_stream stream = NULL;
    result = hip.hipStreamCreateWithFlags(&stream, TC_hipStreamNonBlocking);
    p->stream[i] = stream;
  }
  return result;
}

static int open_port(tc_gpu_port *p, const char **what) {
  *what = "choosing the device";
  tc_hip_result result = (tc_hip_result)enter_device(p);
  if (result != TC_hipSuccess) return (int)result;
  *what = "making a stream";
  result = make_streams(p);
  if (result == TC_hipSuccess) *what = "making a memory pool", result = make_pool(p);
  leave_device(p);
  if (result != TC_hipSuccess) close_port(p, false);
  return (int)result;
}

static int wait_all(tc_gpu_port *p) {
  static const tc_gpu_line lines[] = {TC_GPU_UP, TC_GPU_WORK, TC_GPU_DOWN};
  int result = 0;
  for (size_t i = 0; i < sizeof lines / sizeof *lines && result == 0; i++)
    result = (int)hip.hipStreamSynchronize(p->stream[lines[i]]);
  return result;
}

// ---- memory ----

static int take_memory(tc_gpu_port *p, tc_gpu_line line, size_t bytes, void **out) {
  tc_hip_result result = hip.hipMallocFromPoolAsync(out, bytes, p->pool, p->stream[line]);
  if (result != TC_hipSuccess) *out = NULL;
  return (int)result;
}

static int give_memory(tc_gpu_port *p, void *at) {
  return (int)hip.hipFreeAsync(at, p->stream[TC_GPU_WORK]);
}

static int trim_pool(tc_gpu_port *p) {
  return (int)hip.hipMemPoolTrimTo(p->pool, 0);
}

static int free_memory(tc_gpu_port *p, size_t *free_bytes) {
  size_t total;
  (void)p;
  return (int)hip.hipMemGetInfo(free_bytes, &total);
}

static int staging_take(tc_gpu_port *p, size_t bytes, void **out) {
  (void)p;
  return (int)hip.hipHostMalloc(out, bytes, 0);
}

static int staging_give(tc_gpu_port *p, void *at) {
  (void)p;
  return (int)hip.hipHostFree(at);
}

static int write_to(tc_gpu_port *p, tc_gpu_line line, void *to, const void *staging, size_t bytes) {
  return (int)hip.hipMemcpyAsync(to, staging, bytes, TC_hipMemcpyHostToDevice, p->stream[line]);
}

static int read_from(tc_gpu_port *p, tc_gpu_line line, void *staging, const void *from, size_t bytes) {
  return (int)hip.hipMemcpyAsync(staging, from, bytes, TC_hipMemcpyDeviceToHost, p->stream[line]);
}

static int copy_memory(tc_gpu_port *p, void *to, const void *from, size_t bytes) {
  return (int)hip.hipMemcpyAsync(to, from, bytes, TC_hipMemcpyDeviceToDevice, p->stream[TC_GPU_WORK]);
}

static int make_event(unsigned flags, void **out) {
  tc_hip_event event = NULL;
  tc_hip_result result = hip.hipEventCreateWithFlags(&event, flags);
  *out = event;
  return (int)result;
}

static int event_create(tc_gpu_port *p, void **out) {
  (void)p;
  return make_event(TC_hipEventDisableTiming, out);
}

static int timer_create_on(tc_gpu_port *p, void **out) {
  (void)p;
  return make_event(0, out);
}

static int timer_between(tc_gpu_port *p, void *from, void *to, float *ms) {
  (void)p;
  return (int)hip.hipEventElapsedTime(ms, from, to);
}

static int event_destroy(tc_gpu_port *p, void *event) {
  (void)p;
  return (int)hip.hipEventDestroy(event);
}

static int event_record(tc_gpu_port *p, tc_gpu_line line, void *event) {
  return (int)hip.hipEventRecord(event, p->stream[line]);
}

static int event_follow(tc_gpu_port *p, tc_gpu_line line, void *event) {
  return (int)hip.hipStreamWaitEvent(p->stream[line], event, 0);
}

static int event_wait(tc_gpu_port *p, void *event) {
  (void)p;
  return (int)hip.hipEventSynchronize(event);
}

// ---- code ----

static int unload_code(tc_gpu_port *p, tc_gpu_loaded *loaded) {
  (void)p;
  tc_hip_result result = hip.hipModuleUnload(loaded->module);
  *loaded = (tc_gpu_loaded){0};
  return (int)result;
}

static int load_code(tc_gpu_port *p, const tc_gpu_image *image, const char *name, tc_gpu_loaded *out) {
  tc_hip_module module = NULL;
  tc_hip_function function = NULL;
  tc_hip_result result = hip.hipModuleLoadData(&module, image->data);
  if (result != TC_hipSuccess) return (int)result;
  *out = (tc_gpu_loaded){.module = module};
  result = hip.hipModuleGetFunction(&function, module, name);
  out->function = function;
  if (result != TC_hipSuccess) (void)unload_code(p, out);
  return (int)result;
}

// A block may use all shared memory without asking.
static int allow_shared(tc_gpu_port *p, void *function, uint32_t bytes) {
  (void)p, (void)function, (void)bytes;
  return TC_hipSuccess;
}

static int run_request(tc_gpu_port *p, tc_gpu_line line, const tc_gpu_request *r) {
  const tc_gpu_library_driver *library = tc_hip_driver.library[r->library];
  int result = tc_gpu_library_set_line(p, library, r->library, line);
  return result ? result : library->run(p, r);
}

static int launch_in(tc_gpu_port *p, tc_gpu_line line, const tc_gpu_node *n) {
  void *parameters[] = {n->parameter};
  if (n->request) return run_request(p, line, n->request);
  return (int)hip.hipModuleLaunchKernel(n->function, n->blocks, 1, 1, n->threads, 1, 1, n->shared_bytes,
                                        p->stream[line], parameters, NULL);
}

static int launch_kernel(tc_gpu_port *p, const tc_gpu_node *n) {
  return launch_in(p, TC_GPU_WORK, n);
}

// ---- replay ----

struct tc_gpu_replay {
  tc_hip_exec exec;
  tc_hip_graph graph;  // its nodes stand for those of exec
  tc_hip_node node[];
};

static const char *no_replay(void) {
  bool captures = hip.hipStreamBeginCapture && hip.hipStreamEndCapture && hip.hipGraphInstantiateWithFlags &&
                  hip.hipGraphLaunch && hip.hipGraphExecDestroy && hip.hipGraphDestroy;
  bool builds = hip.hipGraphCreate && hip.hipGraphAddKernelNode && hip.hipGraphExecKernelNodeSetParams &&
                hip.hipGraphAddChildGraphNode;
  return captures && (builds || version < NODES_SINCE) ? NULL : "this HIP has no functions for graphs";
}

static bool replay_is_fixed(void) {
  return version < NODES_SINCE;
}

static tc_hip_node_params node_params(const tc_gpu_node *n, void **parameters) {
  return (tc_hip_node_params){{n->threads, 1, 1}, NULL, n->function, {n->blocks, 1, 1}, parameters, n->shared_bytes};
}

static void replay_destroy(tc_gpu_port *p, tc_gpu_replay *r, bool lost) {
  (void)p;
  if (r->exec && !lost) (void)hip.hipGraphExecDestroy(r->exec);
  if (r->graph && !lost) (void)hip.hipGraphDestroy(r->graph);
  tc_free(r);
}

// Captures what a library does, and puts it into the graph as one node. Another thread may be
// waiting for WORK, which a capturing stream does not allow. So the library is moved to a stream
// that nobody waits for.
static tc_hip_result add_request(tc_gpu_port *p, tc_gpu_replay *r, uint32_t i, const tc_gpu_request *request) {
  const tc_gpu_library_driver *library = tc_hip_driver.library[request->library];
  tc_hip_graph captured = NULL;
  int asked = tc_gpu_library_set_line(p, library, request->library, TC_GPU_CAPTURE);
  if (asked) return (tc_hip_result)asked;
  tc_hip_result result = hip.hipStreamBeginCapture(p->stream[TC_GPU_CAPTURE], TC_hipStreamCaptureModeRelaxed);
  if (result != TC_hipSuccess) return result;
  asked = library->run(p, request);
  result = hip.hipStreamEndCapture(p->stream[TC_GPU_CAPTURE], &captured);
  if (result == TC_hipSuccess && asked == 0)
    result = hip.hipGraphAddChildGraphNode(&r->node[i], r->graph, i ? &r->node[i - 1] : NULL, i ? 1 : 0, captured);
  if (captured) (void)hip.hipGraphDestroy(captured);  // the node has a copy
  return asked ? (tc_hip_result)asked : result;
}

// Captures all nodes as they are launched; nobody can name them afterwards.
static tc_hip_result capture_nodes(tc_gpu_port *p, tc_gpu_replay *r, const tc_gpu_node *node, uint32_t n) {
  int asked = 0;
  for (uint32_t i = 0; i < n && asked == 0; i++) {  // before the capture begins, which must not contain it
    const tc_gpu_request *q = node[i].request;
    if (q) asked = tc_gpu_library_set_line(p, tc_hip_driver.library[q->library], q->library, TC_GPU_CAPTURE);
  }
  if (asked) return (tc_hip_result)asked;
  tc_hip_result result = hip.hipStreamBeginCapture(p->stream[TC_GPU_CAPTURE], TC_hipStreamCaptureModeRelaxed);
  if (result != TC_hipSuccess) return result;
  for (uint32_t i = 0; i < n && asked == 0; i++) asked = launch_in(p, TC_GPU_CAPTURE, &node[i]);
  result = hip.hipStreamEndCapture(p->stream[TC_GPU_CAPTURE], &r->graph);
  return asked ? (tc_hip_result)asked : result;
}

static tc_hip_result build_nodes(tc_gpu_port *p, tc_gpu_replay *r, const tc_gpu_node *node, uint32_t n) {
  tc_hip_result result = hip.hipGraphCreate(&r->graph, 0);
  for (uint32_t i = 0; i < n && result == TC_hipSuccess; i++) {
    void *parameters[] = {node[i].parameter};
    tc_hip_node_params params = node_params(&node[i], parameters);
    result = node[i].request
                 ? add_request(p, r, i, node[i].request)
                 : hip.hipGraphAddKernelNode(&r->node[i], r->graph, i ? &r->node[i - 1] : NULL, i ? 1 : 0, &params);
  }
  return result;
}

static int replay_create(tc_gpu_port *p, const tc_gpu_node *node, uint32_t n, tc_gpu_replay **out) {
  tc_gpu_replay *r = tc_calloc(1, sizeof *r + n * sizeof *r->node);
  *out = NULL;
  if (!r) return TC_hipErrorOutOfMemory;
  tc_hip_result result = replay_is_fixed() ? capture_nodes(p, r, node, n) : build_nodes(p, r, node, n);
  if (result == TC_hipSuccess) result = hip.hipGraphInstantiateWithFlags(&r->exec, r->graph, 0);
  if (result != TC_hipSuccess) return replay_destroy(p, r, false), (int)result;
  *out = r;
  return 0;
}

static int replay_set(tc_gpu_port *p, tc_gpu_replay *r, uint32_t i, const tc_gpu_node *node) {
  void *parameters[] = {node->parameter};
  tc_hip_node_params params = node_params(node, parameters);
  (void)p;
  return (int)hip.hipGraphExecKernelNodeSetParams(r->exec, r->node[i], &params);
}

static int replay_launch(tc_gpu_port *p, tc_gpu_replay *r) {
  return (int)hip.hipGraphLaunch(r->exec, p->stream[TC_GPU_WORK]);
}

const tc_gpu_driver tc_hip_driver = {
    .name = "HIP",
    .words = tc_hip_words,
    .open_library = open_driver,
    .count = count_devices,
    .judge = judge_result,
    .version = version_of,
    .most_value_bytes = most_value_bytes,
    .choose_arch = tc_hiprtc_choose_arch,
    .compiler = tc_hiprtc_name,
    .options = tc_hiprtc_options,
    .compile = tc_hiprtc_compile,
    .facts = facts_of,
    .open = open_port,
    .close = close_port,
    .enter = enter_device,
    .leave = leave_device,
    .wait = wait_all,
    .take = take_memory,
    .give = give_memory,
    .trim = trim_pool,
    .free_memory = free_memory,
    .staging_take = staging_take,
    .staging_give = staging_give,
    .write = write_to,
    .read = read_from,
    .copy = copy_memory,
    .event_create = event_create,
    .timer_create = timer_create_on,
    .timer_between = timer_between,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_follow = event_follow,
    .event_wait = event_wait,
    .load = load_code,
    .unload = unload_code,
    .allow_shared = allow_shared,
    .launch = launch_kernel,
    .library = {[TC_GPU_MATMULS] = &tc_hip_gemm, [TC_GPU_CONVOLUTIONS] = &tc_miopen},
    .ranges_open = tc_roctx_open,
    .profiler_attached = tc_roctx_attached,
    .no_replay = no_replay,
    .replay_is_fixed = replay_is_fixed,
    .replay_create = replay_create,
    .replay_set = replay_set,
    .replay_launch = replay_launch,
    .replay_destroy = replay_destroy,
};
