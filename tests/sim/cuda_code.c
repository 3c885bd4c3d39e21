// CUDA's face of the simulated driver: modules, functions, launches, graphs.
#include <stdlib.h>

#include "tests/sim/cuda_face.h"
#include "tests/sim/image.h"

// ---- modules ----

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  SIM_ENTER(SIM_UNCAPTURED);
  if (!image) return SIM_INVALID;
  sim_module *m = NULL;
  if (!sim_image_is_text(image)) {
    SIM_TRY(sim_module_load(sim_here(), image, false, &m));
  } else {
    int cuda = sim_option.driver_version / 1000 * 10 + sim_option.driver_version % 1000 / 10;
    if (sim_image_text_version(image) > sim_image_text_version_of(cuda)) return SIM_UNSUPPORTED_PTX;
    sim_image *made = sim_image_from_text(image);
    if (!made) return SIM_INVALID_PTX;
    sim_error e = sim_module_load(sim_here(), made, true, &m);
    free(made);
    SIM_TRY(e);
  }
  *module = (CUmodule)m;
  return SIM_OK;
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned n, CUjit_option *option, void **value) {
  (void)n;
  (void)option;
  (void)value;
  return cuModuleLoadData(module, image);
}

CUresult cuModuleUnload(CUmodule module) {
  SIM_ENTER(SIM_USUAL | SIM_NOT_IN_CAPTURE);
  if (!sim_alive(module, SIM_MODULE)) return SIM_INVALID_HANDLE;
  SIM_TRY(sim_wait_device(sim_here()));
  sim_module_unload((sim_module *)module);
  return SIM_OK;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  SIM_ENTER(SIM_USUAL);
  if (!sim_alive(module, SIM_MODULE)) return SIM_INVALID_HANDLE;
  *function = (CUfunction)sim_kernel_find((sim_module *)module, name);
  return *function ? SIM_OK : SIM_NOT_FOUND;
}

// Kernels of the dialect have no variables of their own.
CUresult cuModuleGetGlobal_v2(CUdeviceptr *at, size_t *bytes, CUmodule module, const char *name) {
  SIM_ENTER(SIM_USUAL);
  (void)at;
  (void)bytes;
  (void)name;
  return sim_alive(module, SIM_MODULE) ? SIM_NOT_FOUND : SIM_INVALID_HANDLE;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
  SIM_ENTER(SIM_USUAL);
  if (!sim_alive(function, SIM_KERNEL)) return SIM_INVALID_HANDLE;
  const sim_kernel *k = (sim_kernel *)function;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = k->threads; break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = 0; break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = 64; break;  // nobody knows
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = sim_option.arch; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = k->shared_limit; break;
    default: return SIM_INVALID;
  }
  return SIM_OK;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  SIM_ENTER(SIM_USUAL);
  if (!sim_alive(function, SIM_KERNEL)) return SIM_INVALID_HANDLE;
  if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) return SIM_OK;
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
      (size_t)value > sim_option.shared_optin)
    return SIM_INVALID;
  ((sim_kernel *)function)->shared_limit = value;
  return SIM_OK;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads,
                                                     size_t shared_bytes) {
  SIM_ENTER(SIM_USUAL);
  if (!sim_alive(function, SIM_KERNEL)) return SIM_INVALID_HANDLE;
  if (threads < 1) return SIM_INVALID;
  int by_threads = 2048 / threads, by_shared = (int)((sim_option.shared_optin + 1024) / (shared_bytes + 1024));
  *blocks = by_threads < by_shared ? by_threads : by_shared;
  if (*blocks > 32) *blocks = 32;
  if (threads > ((sim_kernel *)function)->threads) *blocks = 0;
  return SIM_OK;
}

// ---- launches ----

sim_error sim_cu_launch(const CUDA_KERNEL_NODE_PARAMS *p, sim_op *out) {
  sim_kernel *k = (sim_kernel *)p->func;
  const unsigned grid[] = {p->gridDimX, p->gridDimY, p->gridDimZ}, block[] = {p->blockDimX, p->blockDimY, p->blockDimZ};
  if (p->extra) return SIM_INVALID;
  return sim_launch_new(k, grid, block, p->sharedMemBytes, p->kernelParams,
                        sim_option.driver_version >= 12010 ? 32764 : 4096, out);
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters,
                        void **extra) {
  SIM_ENTER(SIM_USUAL);
  SIM_STREAM_OR_RETURN(s, stream);
  CUDA_KERNEL_NODE_PARAMS p = {.func = function,
                               .gridDimX = grid_x,
                               .gridDimY = grid_y,
                               .gridDimZ = grid_z,
                               .blockDimX = block_x,
                               .blockDimY = block_y,
                               .blockDimZ = block_z,
                               .sharedMemBytes = shared_bytes,
                               .kernelParams = parameters,
                               .extra = extra};
  sim_op op;
  SIM_TRY(sim_cu_launch(&p, &op));
  return sim_enqueue(s, &op);
}
