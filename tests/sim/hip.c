// HIP's face of the simulated driver: what tc uses of libamdhip64, by the declarations of
// device/hip/api.h, which a test compares with the real ones. A thread works on a device, at first
// on device 0; there are no contexts to be made. hiprtc.c is in the same library.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/hip/api.h"
#include "tests/sim/core.h"

#define TC_HIP_ROW(symbol, result, needed, parameters) SIM_EXPORT result symbol parameters;
#include "device/hip/driver.def"
#undef TC_HIP_ROW
SIM_EXPORT tc_hip_result hipGetDeviceProperties(void *properties, int ordinal);
SIM_EXPORT tc_hip_result hipGetDevicePropertiesR0600(void *properties, int ordinal);

const bool sim_is_hip = true;

enum { MOST_PARAM_BYTES = 4096, USUAL = SIM_NEEDS_INIT | SIM_NEEDS_CONTEXT };

// All starts by itself at the first call.
static sim_guard enter(const char *name, int needs) {
  sim_lock();
  if (sim_setup() && sim_option.n_devices > 0) {
    for (int i = 0; i < sim_option.n_devices; i++) sim_devices[i].refs = 1;
    if (!sim_current()) sim_push(sim_devices[0].context);
    sim_start();
  }
  sim_unlock();
  return sim_enter(name, needs);
}

#define ENTER(needs) \
  sim_guard guard __attribute__((cleanup(sim_leave))) = enter(__func__, (needs)); \
  if (guard.error != SIM_OK) return guard.error

static sim_stream *stream_of(tc_hip_stream s) {
  if (!s) return sim_here()->legacy;
  return sim_alive(s, SIM_STREAM) ? (sim_stream *)s : NULL;
}

#define STREAM(name, handle) \
  sim_stream *name = stream_of(handle); \
  if (!name) return SIM_INVALID_HANDLE

// ---- the library and devices ----

tc_hip_result hipInit(unsigned flags) {
  ENTER(0);
  if (flags) return SIM_INVALID;
  return sim_option.n_devices ? SIM_OK : SIM_INVALID_DEVICE;
}

static int version_of(void) {
  const char *set = getenv("TC_SIM_HIP_VERSION");
  return set && *set ? atoi(set) : 60241133;
}

tc_hip_result hipRuntimeGetVersion(int *version) {
  ENTER(0);
  *version = version_of();
  return SIM_OK;
}

const char *hipGetErrorName(tc_hip_result result) {
  switch ((sim_error)result) {
    case SIM_OK: return "hipSuccess";
    case SIM_INVALID: return "hipErrorInvalidValue";
    case SIM_MEMORY: return "hipErrorOutOfMemory";
    case SIM_NOT_INITIALIZED: return "hipErrorNotInitialized";
    case SIM_INVALID_FUNCTION: return "hipErrorInvalidDeviceFunction";
    case SIM_NO_DEVICE: return "hipErrorNoDevice";
    case SIM_INVALID_DEVICE: return "hipErrorInvalidDevice";
    case SIM_INVALID_IMAGE: return "hipErrorInvalidImage";
    case SIM_NO_BINARY: return "hipErrorNoBinaryForGpu";
    case SIM_INVALID_HANDLE: return "hipErrorInvalidHandle";
    case SIM_NOT_FOUND: return "hipErrorNotFound";
    case SIM_NOT_READY: return "hipErrorNotReady";
    case SIM_ILLEGAL_ADDRESS: return "hipErrorIllegalAddress";
    case SIM_LAUNCH_FAILED: return "hipErrorLaunchFailure";
    case SIM_NOT_SUPPORTED: return "hipErrorNotSupported";
    default: return "hipErrorUnknown";
  }
}

tc_hip_result hipGetDeviceCount(int *n) {
  ENTER(0);
  *n = sim_option.n_devices;
  return *n ? SIM_OK : SIM_NO_DEVICE;
}

tc_hip_result hipGetDevice(int *ordinal) {
  ENTER(SIM_NEEDS_INIT);
  *ordinal = sim_here()->index;
  return SIM_OK;
}

tc_hip_result hipSetDevice(int ordinal) {
  ENTER(SIM_NEEDS_INIT);
  if (ordinal < 0 || ordinal >= sim_option.n_devices) return SIM_INVALID_DEVICE;
  sim_set_current(sim_devices[ordinal].context);
  return SIM_OK;
}

static tc_hip_result properties(char *at, int ordinal, tc_hip_layout l) {
  if (ordinal < 0 || ordinal >= sim_option.n_devices) return SIM_INVALID_DEVICE;
  const int threads = SIM_MAX_THREADS, l2 = 8 << 20;
  memset(at, 0, l.gcnArchName + sizeof sim_option.gfx);
  sprintf(at + l.name, "simulated %s", sim_option.gfx);
  strcpy(at + l.gcnArchName, sim_option.gfx);
  memcpy(at + l.totalGlobalMem, &sim_option.memory_bytes, sizeof(size_t));
  memcpy(at + l.sharedMemPerBlock, &sim_option.shared_optin, sizeof(size_t));
  memcpy(at + l.warpSize, &sim_option.warp, sizeof sim_option.warp);
  memcpy(at + l.maxThreadsPerBlock, &threads, sizeof threads);
  memcpy(at + l.multiProcessorCount, &sim_option.processors, sizeof sim_option.processors);
  memcpy(at + l.l2CacheSize, &l2, sizeof l2);
  return SIM_OK;
}

tc_hip_result hipGetDeviceProperties(void *at, int ordinal) {
  ENTER(SIM_NEEDS_INIT);
  return properties(at, ordinal, (tc_hip_layout)TC_HIP_LAYOUT_5);
}

tc_hip_result hipGetDevicePropertiesR0600(void *at, int ordinal) {
  ENTER(SIM_NEEDS_INIT);
  return properties(at, ordinal, (tc_hip_layout)TC_HIP_LAYOUT_6);
}

// ---- memory ----

tc_hip_result hipMemGetInfo(size_t *free_bytes, size_t *total) {
  ENTER(USUAL);
  *total = sim_option.memory_bytes;
  *free_bytes = *total - sim_here()->used_bytes;
  return SIM_OK;
}

tc_hip_result hipMemPoolCreate(tc_hip_pool *pool, const tc_hip_pool_properties *p) {
  ENTER(USUAL);
  if (p->allocType != TC_hipMemAllocationTypePinned || p->location.type != TC_hipMemLocationTypeDevice ||
      p->location.id < 0 || p->location.id >= sim_option.n_devices)
    return SIM_INVALID;
  sim_pool *n = sim_object_new(SIM_POOL, &sim_devices[p->location.id], sizeof *n);
  if (!n) return SIM_MEMORY;
  *pool = (tc_hip_pool)n;
  return SIM_OK;
}

tc_hip_result hipMemPoolDestroy(tc_hip_pool pool) {
  ENTER(USUAL);
  if (!sim_alive(pool, SIM_POOL)) return SIM_INVALID;
  sim_pool_end((sim_pool *)pool);
  return SIM_OK;
}

tc_hip_result hipMemPoolSetAttribute(tc_hip_pool pool, tc_hip_pool_attribute attribute, void *value) {
  ENTER(USUAL);
  if (!sim_alive(pool, SIM_POOL)) return SIM_INVALID;
  switch (attribute) {
    case TC_hipMemPoolReuseAllowOpportunistic:
    case TC_hipMemPoolReuseAllowInternalDependencies:
      return *(int *)value == 0 || *(int *)value == 1 ? SIM_OK : SIM_INVALID;
    case TC_hipMemPoolAttrReleaseThreshold: ((sim_pool *)pool)->release_threshold = *(uint64_t *)value; return SIM_OK;
    default: return SIM_INVALID;
  }
}

tc_hip_result hipMemPoolTrimTo(tc_hip_pool pool, size_t bytes_kept) {
  ENTER(USUAL);
  (void)bytes_kept;
  return sim_alive(pool, SIM_POOL) ? SIM_OK : SIM_INVALID;
}

tc_hip_result hipMallocFromPoolAsync(void **at, size_t bytes, tc_hip_pool pool, tc_hip_stream stream) {
  ENTER(USUAL);
  STREAM(s, stream);
  if (!sim_alive(pool, SIM_POOL) || ((sim_object *)pool)->device != s->object.device) return SIM_INVALID;
  uintptr_t p;
  SIM_TRY(sim_alloc(s->object.device, bytes, s, (sim_pool *)pool, &p));
  *at = (void *)p;
  return SIM_OK;
}

tc_hip_result hipFreeAsync(void *at, tc_hip_stream stream) {
  ENTER(USUAL);
  STREAM(s, stream);
  return sim_free(s->object.device, (uintptr_t)at, s);
}

tc_hip_result hipHostMalloc(void **at, size_t bytes, unsigned flags) {
  ENTER(USUAL);
  return flags ? SIM_INVALID : sim_host_alloc(bytes, at);
}

tc_hip_result hipHostFree(void *at) {
  ENTER(USUAL);
  return sim_host_free(at);
}

tc_hip_result hipMemcpyAsync(void *to, const void *from, size_t bytes, tc_hip_copy_kind kind, tc_hip_stream stream) {
  ENTER(USUAL);
  STREAM(s, stream);
  uintptr_t t = (uintptr_t)to, f = (uintptr_t)from;
  bool to_device = kind != TC_hipMemcpyDeviceToHost, from_device = kind != TC_hipMemcpyHostToDevice;
  if (bytes == 0) return SIM_OK;
  if (kind < TC_hipMemcpyHostToDevice || kind > TC_hipMemcpyDeviceToDevice) return SIM_INVALID;
  if (to_device ? !sim_reachable(s->object.device, t, bytes) : sim_memory_device(t) != NULL) return SIM_INVALID;
  if (from_device ? !sim_reachable(s->object.device, f, bytes) : sim_memory_device(f) != NULL) return SIM_INVALID;
  bool waits = !to_device && !sim_pinned(t, bytes);
  SIM_TRY(sim_enqueue(s, &(sim_op){.kind = SIM_OP_COPY, .to = t, .from = f, .bytes = bytes}));
  return waits ? sim_wait_stream(s) : SIM_OK;
}

// ---- streams and events ----

tc_hip_result hipStreamCreateWithFlags(tc_hip_stream *stream, unsigned flags) {
  ENTER(USUAL);
  if (flags > TC_hipStreamNonBlocking) return SIM_INVALID;
  *stream = (tc_hip_stream)sim_stream_new(sim_here(), flags != TC_hipStreamNonBlocking);
  return *stream ? SIM_OK : SIM_MEMORY;
}

tc_hip_result hipStreamDestroy(tc_hip_stream stream) {
  ENTER(USUAL | SIM_AFTER_FAULT);
  if (!sim_alive(stream, SIM_STREAM)) return SIM_INVALID_HANDLE;
  sim_stream_end((sim_stream *)stream);
  return SIM_OK;
}

tc_hip_result hipStreamSynchronize(tc_hip_stream stream) {
  ENTER(USUAL);
  STREAM(s, stream);
  SIM_TRY(sim_not_captured(s));
  return sim_wait_stream(s);
}

tc_hip_result hipStreamWaitEvent(tc_hip_stream stream, tc_hip_event event, unsigned flags) {
  ENTER(USUAL);
  STREAM(s, stream);
  if (flags) return SIM_INVALID;
  return sim_alive(event, SIM_EVENT) ? sim_wait_event(s, (sim_event *)event) : SIM_INVALID_HANDLE;
}

tc_hip_result hipEventCreateWithFlags(tc_hip_event *event, unsigned flags) {
  ENTER(USUAL);
  sim_event *e = sim_object_new(SIM_EVENT, sim_here(), sizeof *e);
  *event = (tc_hip_event)e;
  if (e) e->timing = !(flags & TC_hipEventDisableTiming);
  return e ? SIM_OK : SIM_MEMORY;
}

tc_hip_result hipEventElapsedTime(float *ms, tc_hip_event from, tc_hip_event to) {
  ENTER(USUAL);
  const sim_event *a = (sim_event *)from, *b = (sim_event *)to;
  if (!sim_alive(a, SIM_EVENT) || !sim_alive(b, SIM_EVENT) || !a->mark || !b->mark || !a->timing || !b->timing)
    return SIM_INVALID_HANDLE;
  if (!a->mark->done || !b->mark->done) return SIM_NOT_READY;
  *ms = (float)(b->mark->ms - a->mark->ms);
  return SIM_OK;
}

tc_hip_result hipEventDestroy(tc_hip_event event) {
  ENTER(USUAL | SIM_AFTER_FAULT);
  if (!sim_alive(event, SIM_EVENT)) return SIM_INVALID_HANDLE;
  sim_event_end((sim_event *)event);
  return SIM_OK;
}

tc_hip_result hipEventRecord(tc_hip_event event, tc_hip_stream stream) {
  ENTER(USUAL);
  STREAM(s, stream);
  return sim_alive(event, SIM_EVENT) ? sim_record(s, (sim_event *)event) : SIM_INVALID_HANDLE;
}

tc_hip_result hipEventSynchronize(tc_hip_event event) {
  ENTER(USUAL);
  return sim_alive(event, SIM_EVENT) ? sim_wait_recorded((sim_event *)event) : SIM_INVALID_HANDLE;
}

// ---- code, launches, graphs ----

tc_hip_result hipModuleLoadData(tc_hip_module *module, const void *image) {
  ENTER(USUAL);
  sim_module *m;
  SIM_TRY(sim_module_load(sim_here(), image, false, &m));
  *module = (tc_hip_module)m;
  return SIM_OK;
}

tc_hip_result hipModuleUnload(tc_hip_module module) {
  ENTER(USUAL);
  if (!sim_alive(module, SIM_MODULE)) return SIM_INVALID_HANDLE;
  SIM_TRY(sim_wait_device(sim_here()));
  sim_module_unload((sim_module *)module);
  return SIM_OK;
}

tc_hip_result hipModuleGetFunction(tc_hip_function *function, tc_hip_module module, const char *name) {
  ENTER(USUAL);
  if (!sim_alive(module, SIM_MODULE)) return SIM_INVALID_HANDLE;
  *function = (tc_hip_function)sim_kernel_find((sim_module *)module, name);
  return *function ? SIM_OK : SIM_NOT_FOUND;
}

tc_hip_result hipModuleLaunchKernel(tc_hip_function function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,
                                    unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned shared_bytes,
                                    tc_hip_stream stream, void **parameters, void **extra) {
  ENTER(USUAL);
  STREAM(s, stream);
  if (extra) return SIM_INVALID;
  sim_op op;
  SIM_TRY(sim_launch_new((sim_kernel *)function, (unsigned[]){blocks_x, blocks_y, blocks_z},
                         (unsigned[]){threads_x, threads_y, threads_z}, shared_bytes, parameters, MOST_PARAM_BYTES,
                         &op));
  return sim_enqueue(s, &op);
}

// Functions of modules are nodes' since HIP 6.0.
static sim_error node_op(const tc_hip_node_params *p, sim_op *out) {
  if (version_of() < 60000000) return SIM_INVALID_FUNCTION;
  if (p->extra) return SIM_INVALID;
  return sim_launch_new(p->func, (unsigned[]){p->gridDim.x, p->gridDim.y, p->gridDim.z},
                        (unsigned[]){p->blockDim.x, p->blockDim.y, p->blockDim.z}, p->sharedMemBytes, p->kernelParams,
                        MOST_PARAM_BYTES, out);
}

tc_hip_result hipGraphCreate(tc_hip_graph *graph, unsigned flags) {
  ENTER(USUAL);
  if (flags) return SIM_INVALID;
  *graph = (tc_hip_graph)sim_graph_new(sim_here());
  return *graph ? SIM_OK : SIM_MEMORY;
}

tc_hip_result hipGraphDestroy(tc_hip_graph graph) {
  ENTER(USUAL | SIM_AFTER_FAULT);
  if (!sim_alive(graph, SIM_GRAPH)) return SIM_INVALID;
  sim_graph_end((sim_graph *)graph);
  return SIM_OK;
}

tc_hip_result hipGraphAddKernelNode(tc_hip_node *node, tc_hip_graph graph, const tc_hip_node *before, size_t n_before,
                                    const tc_hip_node_params *parameters) {
  ENTER(USUAL);
  if (!sim_alive(graph, SIM_GRAPH)) return SIM_INVALID;
  sim_op op;
  sim_node *n;
  SIM_TRY(node_op(parameters, &op));
  SIM_TRY(sim_graph_add((sim_graph *)graph, (sim_node *const *)before, n_before, &op, &n));
  *node = (tc_hip_node)n;
  return SIM_OK;
}

tc_hip_result hipGraphInstantiateWithFlags(tc_hip_exec *exec, tc_hip_graph graph, tc_hip_flags flags) {
  ENTER(USUAL);
  if (!sim_alive(graph, SIM_GRAPH) || flags) return SIM_INVALID;
  sim_exec *e;
  SIM_TRY(sim_exec_new(sim_here(), (sim_graph *)graph, &e));
  *exec = (tc_hip_exec)e;
  return SIM_OK;
}

tc_hip_result hipGraphExecKernelNodeSetParams(tc_hip_exec exec, tc_hip_node node,
                                              const tc_hip_node_params *parameters) {
  ENTER(USUAL);
  if (!sim_alive(exec, SIM_EXEC) || !sim_alive(node, SIM_NODE)) return SIM_INVALID;
  sim_op op;
  SIM_TRY(node_op(parameters, &op));
  return sim_exec_set((sim_exec *)exec, (sim_node *)node, &op);
}

tc_hip_result hipGraphLaunch(tc_hip_exec exec, tc_hip_stream stream) {
  ENTER(USUAL);
  STREAM(s, stream);
  return sim_alive(exec, SIM_EXEC) ? sim_enqueue_exec(s, (sim_exec *)exec) : SIM_INVALID;
}

tc_hip_result hipGraphExecDestroy(tc_hip_exec exec) {
  ENTER(USUAL | SIM_AFTER_FAULT);
  if (!sim_alive(exec, SIM_EXEC)) return SIM_INVALID;
  sim_exec_end((sim_exec *)exec);
  return SIM_OK;
}

tc_hip_result hipGraphAddChildGraphNode(tc_hip_node *node, tc_hip_graph graph, const tc_hip_node *before,
                                        size_t n_before, tc_hip_graph child) {
  ENTER(USUAL);
  if (!sim_alive(graph, SIM_GRAPH) || !sim_alive(child, SIM_GRAPH) || child == graph) return SIM_INVALID;
  sim_plan *p = sim_plan_new((sim_graph *)child);
  sim_node *n;
  if (!p) return SIM_MEMORY;
  SIM_TRY(sim_graph_add((sim_graph *)graph, (sim_node *const *)before, n_before,
                        &(sim_op){.kind = SIM_OP_CHILD, .child = p}, &n));
  *node = (tc_hip_node)n;
  return SIM_OK;
}

// ---- capture ----

tc_hip_result hipStreamBeginCapture(tc_hip_stream stream, tc_hip_capture_mode mode) {
  ENTER(USUAL);
  STREAM(s, stream);
  if (mode > TC_hipStreamCaptureModeRelaxed) return SIM_INVALID;
  return sim_capture_begin(s, mode == TC_hipStreamCaptureModeRelaxed, NULL, NULL, 0);
}

tc_hip_result hipStreamEndCapture(tc_hip_stream stream, tc_hip_graph *graph) {
  ENTER(USUAL);
  STREAM(s, stream);
  sim_graph *g;
  sim_error e = sim_capture_end(s, &g);
  *graph = (tc_hip_graph)g;
  return e;
}
