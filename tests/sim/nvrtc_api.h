// What the simulated NVRTC has of nvrtc.h, declared anew; compared with a real one as cuda_api.h
// is.
#pragma once

#include <stddef.h>

#define SIM_NVRTC_RESULTS(X) \
  X(NVRTC_SUCCESS, 0) \
  X(NVRTC_ERROR_OUT_OF_MEMORY, 1) \
  X(NVRTC_ERROR_INVALID_INPUT, 3) \
  X(NVRTC_ERROR_INVALID_PROGRAM, 4) \
  X(NVRTC_ERROR_INVALID_OPTION, 5) \
  X(NVRTC_ERROR_COMPILATION, 6) \
  X(NVRTC_ERROR_BUILTIN_OPERATION_FAILURE, 7)

#ifndef SIM_REAL_CUDA_H
typedef unsigned nvrtcResult;
typedef struct _nvrtcProgram *nvrtcProgram;
#define X(name, value) name = value,
enum { SIM_NVRTC_RESULTS(X) };
#undef X
#endif

#define SIM_NVRTC __attribute__((visibility("default")))
SIM_NVRTC const char *nvrtcGetErrorString(nvrtcResult result);
SIM_NVRTC nvrtcResult nvrtcVersion(int *major, int *minor);
SIM_NVRTC nvrtcResult nvrtcGetNumSupportedArchs(int *n);
SIM_NVRTC nvrtcResult nvrtcGetSupportedArchs(int *arch);
SIM_NVRTC nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *source, const char *name, int n_headers,
                                         const char *const *headers, const char *const *names);
SIM_NVRTC nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program);
SIM_NVRTC nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int n, const char *const *option);
SIM_NVRTC nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *bytes);
SIM_NVRTC nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *log);
SIM_NVRTC nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *bytes);
SIM_NVRTC nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *cubin);
SIM_NVRTC nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t *bytes);
SIM_NVRTC nvrtcResult nvrtcGetPTX(nvrtcProgram program, char *ptx);
