// NVIDIA's driver, from libcuda.so.1. See device/gpu/driver.h.
//
// Invariants: the primary context is retained and shared with the caller's own code. A call makes
// it current by push and pop, its flags are the caller's, and it is never reset. The driver's
// results get words here and nowhere else.
#include <stdlib.h>
#include <string.h>

#include "device/cuda/api.h"
#include "device/cuda/blaslt.h"
#include "device/cuda/cudnn.h"
#include "device/cuda/nvrtc.h"
#include "device/cuda/nvtx.h"
#include "device/gpu/driver.h"
#include "device/gpu/library.h"
#include "runtime/arena.h"
#include "runtime/options.h"

#define NEEDED 1
#define RUNTIME_TOO_OLD 35  // the CUDA runtime's number for a driver that is too old for it; cuda.h has no name for it
#define CONTAINED 226  // CUDA_ERROR_CONTAINED of newer headers
#define OLDEST 11020
#define GRAPHS_SINCE 12000
#define LONG_PARAMETERS_SINCE 12010
#define CLUSTERS_SINCE 11080
#define CLUSTERS_FROM 90  // sm_90
#define CLUSTER 8  // blocks of a cluster: every device with clusters has room for as many

static struct {
  tc_gpu_entry_points entry;
#define TC_CUDA_ROW(symbol, needed, parameters) tc_cu_result(*symbol) parameters;
#define TC_CUDA_SHARED(symbol, field, needed, parameters)
#include "device/cuda/driver.def"
#undef TC_CUDA_ROW
} cu;

static const tc_library_row rows[] = {
#define TC_CUDA_ROW(symbol, needed, parameters) TC_LIBRARY_ROW(cu, symbol, needed),
#define TC_CUDA_SHARED(symbol, field, needed, parameters) TC_LIBRARY_ROW_AS(cu, symbol, entry.field, needed),
#include "device/cuda/driver.def"
#undef TC_CUDA_ROW
};

static int version;  // the driver's: 13000
static const tc_lt_library *blaslt;  // NULL: not open yet

// ---- the library ----

static tc_gpu_verdict judge_result(int result, const char **name) {
  *name = NULL;
  if (result == TC_CUDA_SUCCESS) return TC_GPU_FINE;
  if (result >= TC_CUDNN_RESULTS) return tc_cudnn_judge(result, name);
  if (result >= TC_LT_RESULTS) return tc_lt_judge(blaslt, result, name);
  // The toolkit's stub answers with NULL.
  if (!cu.cuGetErrorName || cu.cuGetErrorName((tc_cu_result)result, name) != TC_CUDA_SUCCESS || !*name)
    *name = "an error without a name";
  switch (result) {
    case TC_CUDA_ERROR_OUT_OF_MEMORY: return TC_GPU_OUT_OF_MEMORY;
    case TC_CUDA_ERROR_STUB_LIBRARY:
    case TC_CUDA_ERROR_DEVICE_UNAVAILABLE:
    case TC_CUDA_ERROR_NO_DEVICE:
    case TC_CUDA_ERROR_INVALID_DEVICE:
    case TC_CUDA_ERROR_NOT_INITIALIZED:
    case TC_CUDA_ERROR_DEINITIALIZED:
    case TC_CUDA_ERROR_INVALID_CONTEXT:
    case TC_CUDA_ERROR_ECC_UNCORRECTABLE:
    case TC_CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CONTAINED:
    case TC_CUDA_ERROR_ILLEGAL_ADDRESS:
    case TC_CUDA_ERROR_LAUNCH_TIMEOUT:
    case TC_CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case TC_CUDA_ERROR_ASSERT:
    case TC_CUDA_ERROR_HARDWARE_STACK_ERROR:
    case TC_CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case TC_CUDA_ERROR_MISALIGNED_ADDRESS:
    case TC_CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case TC_CUDA_ERROR_INVALID_PC:
    case TC_CUDA_ERROR_LAUNCH_FAILED:
    case TC_CUDA_ERROR_UNKNOWN: return TC_GPU_GONE;
    default: return TC_GPU_REFUSED;
  }
}

// Says what it means that a driver answers the first call with an error.
static void say_unavailable(int result, const char *path, char *why, size_t bytes) {
  const char *name, *says;
  (void)judge_result(result, &name);
  switch (result) {
    case TC_CUDA_ERROR_STUB_LIBRARY: says = "it is the toolkit's stub, not a driver"; break;
    case RUNTIME_TOO_OLD: says = "the driver is too old"; break;
    case TC_CUDA_ERROR_DEVICE_UNAVAILABLE: says = "the device is busy or not to be used"; break;
    case TC_CUDA_ERROR_NO_DEVICE: says = "there is no NVIDIA GPU, or none is visible"; break;
    case TC_CUDA_ERROR_INVALID_DEVICE: says = "the device that is asked for is not there"; break;
    case TC_CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
      says = "the library and the kernel's module are of different versions";
      break;
    case TC_CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
      says = "the compatibility library does not support this GPU";
      break;
    default: says = "the driver does not start"; break;
  }
  snprintf(why, bytes, "%s: %s: %s (%d)", path, says, name, result);
}

static bool open_driver(char *why, size_t bytes) {
  static const tc_library library = {
      "no NVIDIA driver", NULL, "the driver is older than CUDA 11.2", {TC_LIBRARY_TABLE(rows, cu)}};
  const char *path = tc_options_get()->cuda_library;
  if (!path) path = "libcuda.so.1";
  if (!tc_library_load_path(&library, path, why, bytes)) return false;
  tc_cu_result result = cu.cuInit(0);
  if (result == TC_CUDA_SUCCESS) result = cu.cuDriverGetVersion(&version);
  if (result != TC_CUDA_SUCCESS) {
    say_unavailable((int)result, path, why, bytes);
    return false;
  }
  cu.entry.most_value_bytes = version >= LONG_PARAMETERS_SINCE ? 32000 : 4096;
  snprintf(cu.entry.version, sizeof cu.entry.version, "driver of CUDA %d.%d", version / 1000, version % 1000 / 10);
  if (version >= OLDEST) return true;
  snprintf(why, bytes, "NVIDIA's driver is of CUDA %d.%d: 11.2 or newer is needed", version / 1000,
           version % 1000 / 10);
  return false;
}

static bool choose_arch(tc_gpu_facts *facts, char *why, size_t bytes) {
  if (!tc_nvrtc_choose_arch(version / 1000, facts, why, bytes)) return false;
  facts->wgmma = tc_nvrtc_has_wgmma(facts->arch) && cu.cuTensorMapEncodeTiled;
  // The compiler's target decides, which may be older than the device.
  if (atoi(facts->arch + strcspn(facts->arch, "0123456789")) < CLUSTERS_FROM) facts->cluster = 0;
  return true;
}

// The vendor's own libraries would not know a simulated device's memory.
static bool products_ready(const tc_gpu_port *p, const tc_gpu_facts *facts, char *why, size_t bytes) {
  (void)p;
  if (facts->simulated && !tc_options_get()->cublaslt_library) {
    snprintf(why, bytes, "a simulated device has no library of products but one that TC_CUBLASLT_LIBRARY names");
    return false;
  }
  blaslt = tc_blaslt_ready(version / 1000, why, bytes);
  return blaslt != NULL;
}

static const char *products_name(const tc_gpu_port *p) {
  (void)p;
  return tc_blaslt_name();
}

static int products_open(tc_gpu_port *p) {
  return tc_lt_open(blaslt, p);
}

static int product_make(tc_gpu_port *p, const tc_gpu_work *w, void **out) {
  (void)p;
  return tc_lt_make(blaslt, w, out);
}

static const tc_gpu_library_driver products = {
    .ready = products_ready,
    .name = products_name,
    .open = products_open,
    .make = product_make,
    .drop = tc_lt_drop,
    .find = tc_lt_find,
    .check = tc_lt_check,
    .run = tc_lt_run,
};

static bool convolutions_ready(const tc_gpu_port *p, const tc_gpu_facts *facts, char *why, size_t bytes) {
  (void)p;
  if (facts->simulated && !tc_options_get()->cudnn_library) {
    snprintf(why, bytes, "a simulated device has no library of convolutions but one that TC_CUDNN_LIBRARY names");
    return false;
  }
  return tc_cudnn_ready(version / 1000, why, bytes);
}

static const char *convolutions_name(const tc_gpu_port *p) {
  (void)p;
  return tc_cudnn_name();
}

static const tc_gpu_library_driver convolutions = {
    .ready = convolutions_ready,
    .name = convolutions_name,
    .open = tc_cudnn_open,
    .make = tc_cudnn_make,
    .drop = tc_cudnn_drop,
    .find = tc_cudnn_find,
    .check = tc_cudnn_check,
    .set_stream = tc_cudnn_set_stream,
    .run = tc_cudnn_run,
};

// ---- a device ----

static int facts_of(int ordinal, tc_gpu_facts *out, const char **what) {
  tc_cu_device device;
  int major = 0, minor = 0, pools = 0, shared = 0, l2 = 0, clusters = 0;
  const struct {
    tc_cu_attribute attribute;
    int *to;
  } wanted[] = {
      {TC_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major},
      {TC_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor},
      {TC_CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, &pools},
      {TC_CU_DEVICE_ATTRIBUTE_WARP_SIZE, &out->warp},
      {TC_CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &out->most_threads},
      {TC_CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &out->processors},
      {TC_CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &shared},
      {TC_CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &l2},
  };
  *out = (tc_gpu_facts){0};
  *what = "asking for a device's facts";
  tc_cu_result result = cu.cuDeviceGet(&device, ordinal);
  if (result == TC_CUDA_SUCCESS) result = cu.cuDeviceGetName(out->name, sizeof out->name, device);
  if (result == TC_CUDA_SUCCESS) result = cu.cuDeviceTotalMem_v2(&out->memory_bytes, device);
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted && result == TC_CUDA_SUCCESS; i++)
    result = cu.cuDeviceGetAttribute(wanted[i].to, wanted[i].attribute, device);
  if (result != TC_CUDA_SUCCESS) return (int)result;
  // An older driver does not know this attribute.
  if (version >= CLUSTERS_SINCE)
    (void)cu.cuDeviceGetAttribute(&clusters, TC_CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, device);
  *what = "the device has no memory pools";
  if (!pools) return TC_CUDA_ERROR_INVALID_VALUE;
  out->name[sizeof out->name - 1] = 0;
  out->shared_bytes = (size_t)shared, out->l2_bytes = (size_t)l2;
  out->cluster = major >= 9 && clusters ? CLUSTER : 0;
  out->matrix = major >= 8 ? TC_GPU_MMA_SM80 : TC_GPU_NO_MATRIX;
  out->simulated = strncasecmp(out->name, "simulated", 9) == 0;
  snprintf(out->arch, sizeof out->arch, "sm_%d%d", major, minor);
  return 0;
}

static int enter_device(tc_gpu_port *p) {
  return (int)cu.cuCtxPushCurrent_v2(p->context);
}

static void leave_device(tc_gpu_port *p) {
  tc_cu_context context;
  (void)p, (void)cu.cuCtxPopCurrent_v2(&context);
}

static void close_port(tc_gpu_port *p, bool lost) {
  tc_cu_device device;
  if (p->context && !lost && enter_device(p) == 0) {
    if (blaslt) tc_lt_close(blaslt, p);
    tc_cudnn_close(p);
    tc_gpu_port_fini(p);
    leave_device(p);
  }
  if (p->context && cu.cuDeviceGet(&device, p->ordinal) == TC_CUDA_SUCCESS)
    (void)cu.cuDevicePrimaryCtxRelease_v2(device);
  *p = (tc_gpu_port){.driver = p->driver, .ordinal = p->ordinal};
}

static int open_port(tc_gpu_port *p, const char **what) {
  tc_cu_device device;
  tc_cu_context context = NULL;
  *what = "retaining the primary context";
  tc_cu_result result = cu.cuDeviceGet(&device, p->ordinal);
  if (result == TC_CUDA_SUCCESS) result = cu.cuDevicePrimaryCtxRetain(&context, device);
  if (result != TC_CUDA_SUCCESS) return (int)result;
  p->context = context;
  return tc_gpu_port_open(p, what);
}

// ---- memory ----

static tc_cu_pointer pointer_of(const void *at) {
  return (tc_cu_pointer)(uintptr_t)at;
}

static int write_to(tc_gpu_port *p, tc_gpu_line line, void *to, const void *staging, size_t bytes) {
  return (int)cu.cuMemcpyHtoDAsync_v2(pointer_of(to), staging, bytes, p->stream[line]);
}

static int read_from(tc_gpu_port *p, tc_gpu_line line, void *staging, const void *from, size_t bytes) {
  return (int)cu.cuMemcpyDtoHAsync_v2(staging, pointer_of(from), bytes, p->stream[line]);
}

static int copy_memory(tc_gpu_port *p, void *to, const void *from, size_t bytes) {
  return (int)cu.cuMemcpyDtoDAsync_v2(pointer_of(to), pointer_of(from), bytes, p->stream[TC_GPU_WORK]);
}

// ---- code ----

// Element types are given as bits: elements outside are zero bits, a zero of every type.
static int encode_map(const tc_gpu_tensor_map *m, const void *at, uint64_t *words) {
  const uint64_t extents[] = {(uint64_t)m->extent[0], (uint64_t)m->extent[1], (uint64_t)m->extent[2]};
  const uint64_t strides[] = {(uint64_t)m->stride[0] * 2, (uint64_t)m->stride[1] * 2};
  const uint32_t box[] = {64, 64, 1}, steps[] = {1, 1, 1};
  tc_cu_map made;
  tc_cu_result result =
      cu.cuTensorMapEncodeTiled(&made, TC_CU_TENSOR_MAP_DATA_TYPE_UINT16, 3, (void *)(uintptr_t)at, extents, strides,
                                box, steps, TC_CU_TENSOR_MAP_INTERLEAVE_NONE, TC_CU_TENSOR_MAP_SWIZZLE_128B,
                                TC_CU_TENSOR_MAP_L2_PROMOTION_L2_256B, TC_CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result == TC_CUDA_SUCCESS) memcpy(words, made.opaque, sizeof made.opaque);
  return (int)result;
}

static int allow_shared(void *function, uint32_t bytes) {
  return (int)cu.cuFuncSetAttribute(function, TC_CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)bytes);
}

static const char *no_replay(void) {
  if (version < GRAPHS_SINCE || !cu.entry.graph_add_kernel || !cu.entry.graph_instantiate || !cu.entry.exec_set_kernel)
    return "the driver is older than CUDA 12.0";
  return NULL;
}

static void node_params(const tc_gpu_node *n, void **parameters, tc_gpu_node_params *out) {
  const tc_cu_node_params own = {.func = n->function,
                                 .gridDimX = n->blocks,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = n->threads,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .sharedMemBytes = n->shared_bytes,
                                 .kernelParams = parameters};
  _Static_assert(sizeof own <= sizeof *out, "CUDA's parameters of a node fit");
  memcpy(out, &own, sizeof own);
}

const tc_gpu_driver tc_cuda_driver = {
    .name = "CUDA",
    .words = tc_cuda_words,
    .options = TC_NVRTC_OPTIONS,
    .entry = &cu.entry,
    .open_library = open_driver,
    .judge = judge_result,
    .choose_arch = choose_arch,
    .compiler = tc_nvrtc_name,
    .compile = tc_nvrtc_compile,
    .facts = facts_of,
    .open = open_port,
    .close = close_port,
    .enter = enter_device,
    .leave = leave_device,
    .write = write_to,
    .read = read_from,
    .copy = copy_memory,
    .allow_shared = allow_shared,
    .map = encode_map,
    .library = {[TC_GPU_MATMULS] = &products, [TC_GPU_CONVOLUTIONS] = &convolutions},
    .ranges_open = tc_nvtx_open,
    .profiler_attached = tc_nvtx_attached,
    .no_replay = no_replay,
    .node_params = node_params,
};
