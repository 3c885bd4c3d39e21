// CUDA's face of the simulated driver: the library, devices, contexts.
#include "tests/sim/cuda_face.h"

#include <stdio.h>
#include <string.h>

const bool sim_is_hip = false;

// ---- the library ----

CUresult cuInit(unsigned flags) {
  SIM_ENTER(0);
  if (flags) return SIM_INVALID;
  if (sim_option.n_devices == 0) return SIM_NO_DEVICE;
  sim_start();
  return SIM_OK;
}

CUresult cuDriverGetVersion(int *version) {
  SIM_ENTER(0);
  *version = sim_option.driver_version;
  return SIM_OK;
}

// The newest function of that name that the version asked for and the driver have.
CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status) {
  static const struct row {
    const char *name;
    int since;
    void *at;
  } rows[] = {
#define SIM_CU(name, since, parameters) {#name, since, (void *)name},
#include "tests/sim/cuda.def"
#undef SIM_CU
  };
  SIM_ENTER(0);
  (void)flags;
  const struct row *found = NULL;
  bool known = false;
  size_t n = strlen(symbol);
  if (version > sim_option.driver_version) return SIM_INVALID;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const char *end = rows[i].name + n;
    if (strncmp(rows[i].name, symbol, n) != 0 || !(*end == 0 || (end[0] == '_' && end[1] == 'v' && strlen(end) == 3)))
      continue;
    known = true;
    if (rows[i].since <= version && (!found || rows[i].since > found->since)) found = &rows[i];
  }
  *function = found ? found->at : NULL;
  if (status)
    *status = found   ? CU_GET_PROC_ADDRESS_SUCCESS
              : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                      : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (found) return SIM_OK;
  if (!known) sim_fault(sim_hash(symbol, n, 3), "%s was asked for, which the simulated driver does not have", symbol);
  return SIM_NOT_FOUND;
}

static const char *error_name(CUresult error) {
  switch (error) {
#define X(name, value) \
  case value: return #name;
    SIM_CUDA_ERRORS(X)
#undef X
    default: return NULL;
  }
}

CUresult cuGetErrorName(CUresult error, const char **name) {
  *name = error_name(error);
  return *name ? SIM_OK : SIM_INVALID;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
  *text = error_name(error);
  return *text ? SIM_OK : SIM_INVALID;
}

// ---- devices ----

CUresult cuDeviceGetCount(int *count) {
  SIM_ENTER(SIM_NEEDS_INIT);
  *count = sim_option.n_devices;
  return SIM_OK;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  SIM_ENTER(SIM_NEEDS_INIT);
  if (!sim_cu_device(ordinal)) return SIM_INVALID_DEVICE;
  *device = ordinal;
  return SIM_OK;
}

CUresult cuDeviceGetName(char *name, int bytes, CUdevice device) {
  SIM_ENTER(SIM_NEEDS_INIT);
  if (!sim_cu_device(device)) return SIM_INVALID_DEVICE;
  snprintf(name, (size_t)bytes, "simulated sm_%d", sim_option.arch);
  return SIM_OK;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
  SIM_ENTER(SIM_NEEDS_INIT);
  if (!sim_cu_device(device)) return SIM_INVALID_DEVICE;
  memcpy(uuid->bytes, "simulated device", 16);
  uuid->bytes[15] = (char)device;
  return SIM_OK;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  SIM_ENTER(SIM_NEEDS_INIT);
  if (!sim_cu_device(device)) return SIM_INVALID_DEVICE;
  *bytes = sim_option.memory_bytes;
  return SIM_OK;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  SIM_ENTER(SIM_NEEDS_INIT);
  if (!sim_cu_device(device)) return SIM_INVALID_DEVICE;
  const sim_options *o = &sim_option;
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: *value = 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: *value = 64; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: *value = INT32_MAX; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: *value = 65535; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *value = 48 << 10; break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = o->warp; break;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: *value = 65536; break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *value = 1980000; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = o->processors; break;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED: *value = 0; break;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: *value = 1; break;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: *value = device; break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *value = 2619000; break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *value = 5120; break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = 50 << 20; break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: *value = 2048; break;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: *value = 3; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = o->arch / 10; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = o->arch % 10; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: *value = (int)o->shared_optin + 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = (int)o->shared_optin; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: *value = 32; break;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK: *value = 1024; break;
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH: *value = o->arch >= 90; break;
    default:
      sim_fault(attribute + 5000u, "device attribute %u was asked for, which the simulated driver does not have",
                attribute);
      return SIM_INVALID;
  }
  return SIM_OK;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
  SIM_ENTER(SIM_NEEDS_INIT);
  if (!sim_cu_device(device) || !sim_cu_device(peer)) return SIM_INVALID_DEVICE;
  *can = device != peer;
  return SIM_OK;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) {
  SIM_ENTER(SIM_NEEDS_INIT);
  if (!sim_cu_device(device)) return SIM_INVALID_DEVICE;
  *pool = (CUmemoryPool)sim_devices[device].pool;
  return SIM_OK;
}

// ---- contexts: each device's primary one, and no others ----

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  SIM_ENTER(SIM_NEEDS_INIT);
  sim_device *d = sim_cu_device(device);
  if (!d) return SIM_INVALID_DEVICE;
  d->refs++;
  *context = (CUcontext)d->context;
  return SIM_OK;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  SIM_ENTER(SIM_NEEDS_INIT);
  sim_device *d = sim_cu_device(device);
  if (!d) return SIM_INVALID_DEVICE;
  if (d->refs == 0) return SIM_INVALID_CONTEXT;
  if (--d->refs == 0) sim_wait_device(d);
  return SIM_OK;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
  SIM_ENTER(SIM_NEEDS_INIT);
  if (!sim_cu_device(device)) return SIM_INVALID_DEVICE;
  *flags = 0;
  *active = sim_devices[device].refs > 0;
  return SIM_OK;
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  SIM_ENTER(SIM_NEEDS_INIT);
  if (!sim_alive(context, SIM_CONTEXT)) return SIM_INVALID_CONTEXT;
  return sim_push((sim_object *)context) ? SIM_OK : SIM_MEMORY;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context) {
  SIM_ENTER(SIM_NEEDS_INIT);
  sim_object *c = sim_pop();
  if (!c) return SIM_INVALID_CONTEXT;
  if (context) *context = (CUcontext)c;
  return SIM_OK;
}

CUresult cuCtxGetCurrent(CUcontext *context) {
  SIM_ENTER(SIM_NEEDS_INIT);
  *context = (CUcontext)sim_current();
  return SIM_OK;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  SIM_ENTER(SIM_NEEDS_INIT);
  if (context && !sim_alive(context, SIM_CONTEXT)) return SIM_INVALID_CONTEXT;
  sim_set_current((sim_object *)context);
  return SIM_OK;
}

CUresult cuCtxGetDevice(CUdevice *device) {
  SIM_ENTER(SIM_NEEDS_INIT);
  if (!sim_here()) return SIM_INVALID_CONTEXT;
  *device = sim_here()->index;
  return SIM_OK;
}

CUresult cuCtxSynchronize(void) {
  SIM_ENTER(SIM_UNCAPTURED);
  return sim_wait_device(sim_here());
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  SIM_ENTER(SIM_USUAL);
  if (flags) return SIM_INVALID;
  if (!sim_alive(peer, SIM_CONTEXT)) return SIM_INVALID_CONTEXT;
  const sim_device *other = ((sim_object *)peer)->device;
  if (other == sim_here()) return SIM_INVALID_DEVICE;
  if (sim_here()->peer[other->index]) return SIM_PEER_ENABLED;
  sim_here()->peer[other->index] = true;
  return SIM_OK;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  SIM_ENTER(SIM_USUAL);
  *least = 0;
  *greatest = -5;
  return SIM_OK;
}
