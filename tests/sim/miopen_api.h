// What the simulated MIOpen has of the real one's header, declared anew; compared with a real one
// as cublaslt_api.h is.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SIM_MIOPEN_NUMBERS(X) \
  X(miopenStatusSuccess, 0) \
  X(miopenStatusInvalidValue, 2) \
  X(miopenStatusBadParm, 3) \
  X(miopenStatusAllocFailed, 4) \
  X(miopenStatusInternalError, 5) \
  X(miopenStatusNotImplemented, 6) \
  X(miopenStatusUnknownError, 7) \
  X(miopenHalf, 0) \
  X(miopenFloat, 1) \
  X(miopenBFloat16, 5) \
  X(miopenTensorNCHW, 0) \
  X(miopenTensorNHWC, 1) \
  X(miopenTensorNDHWC, 8) \
  X(miopenConvolution, 0) \
  X(miopenConvolutionAlgoGEMM, 0) \
  X(miopenConvolutionAlgoDirect, 1) \
  X(miopenConvolutionAlgoFFT, 2) \
  X(miopenConvolutionAlgoWinograd, 3) \
  X(miopenConvolutionAlgoImplicitGEMM, 5) \
  X(MIOPEN_CONVOLUTION_ATTRIB_FP16_ALT_IMPL, 0) \
  X(MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC, 1)

#ifndef SIM_REAL_HIP_H
typedef unsigned miopenStatus_t, miopenDataType_t, miopenTensorLayout_t, miopenConvolutionMode_t,
    miopenConvolutionAttrib_t, miopenConvAlgorithm_t;
typedef struct ihipStream_t *miopenAcceleratorQueue_t;
typedef struct miopenHandle *miopenHandle_t;
typedef struct miopenTensorDescriptor *miopenTensorDescriptor_t;
typedef struct miopenConvolutionDescriptor *miopenConvolutionDescriptor_t;
typedef struct {
  float time;
  size_t workspace_size;
  uint64_t solution_id;
  miopenConvAlgorithm_t algorithm;
} miopenConvSolution_t;
#define X(name, value) name = value,
enum { SIM_MIOPEN_NUMBERS(X) };
#undef X
#endif

#define SIM_MIOPEN __attribute__((visibility("default")))
SIM_MIOPEN const char *miopenGetErrorString(miopenStatus_t status);
SIM_MIOPEN miopenStatus_t miopenGetVersion(size_t *major, size_t *minor, size_t *patch);
SIM_MIOPEN miopenStatus_t miopenCreateWithStream(miopenHandle_t *handle, miopenAcceleratorQueue_t stream);
SIM_MIOPEN miopenStatus_t miopenSetStream(miopenHandle_t handle, miopenAcceleratorQueue_t stream);
SIM_MIOPEN miopenStatus_t miopenDestroy(miopenHandle_t handle);
SIM_MIOPEN miopenStatus_t miopenCreateTensorDescriptor(miopenTensorDescriptor_t *tensor);
SIM_MIOPEN miopenStatus_t miopenSetNdTensorDescriptorWithLayout(miopenTensorDescriptor_t tensor, miopenDataType_t type,
                                                                miopenTensorLayout_t layout, const int *extents, int n);
SIM_MIOPEN miopenStatus_t miopenDestroyTensorDescriptor(miopenTensorDescriptor_t tensor);
SIM_MIOPEN miopenStatus_t miopenCreateConvolutionDescriptor(miopenConvolutionDescriptor_t *convolution);
SIM_MIOPEN miopenStatus_t miopenInitConvolutionNdDescriptor(miopenConvolutionDescriptor_t convolution, int axes,
                                                            const int *padding, const int *stride, const int *dilation,
                                                            miopenConvolutionMode_t mode);
SIM_MIOPEN miopenStatus_t miopenSetConvolutionGroupCount(miopenConvolutionDescriptor_t convolution, int groups);
SIM_MIOPEN miopenStatus_t miopenSetConvolutionAttribute(miopenConvolutionDescriptor_t convolution,
                                                        const miopenConvolutionAttrib_t attribute, int value);
SIM_MIOPEN miopenStatus_t miopenDestroyConvolutionDescriptor(miopenConvolutionDescriptor_t convolution);
// Of each direction. What the functions of all have in common: two tensors that are read, the
// convolution, the tensor that is made.
#define SIM_MIOPEN_PROBLEM \
  miopenHandle_t handle, const miopenTensorDescriptor_t first, const miopenTensorDescriptor_t second, \
      const miopenConvolutionDescriptor_t convolution, const miopenTensorDescriptor_t made
#define SIM_MIOPEN_DIRECTIONS(X) \
  X(Forward, SIM_CONV_FORWARD) X(BackwardData, SIM_CONV_BY_IMAGE) X(BackwardWeights, SIM_CONV_BY_WEIGHT)
#define X(word, direction) \
  SIM_MIOPEN miopenStatus_t miopenConvolution##word##GetSolution(SIM_MIOPEN_PROBLEM, const size_t most, size_t *n, \
                                                                 miopenConvSolution_t *solutions); \
  SIM_MIOPEN miopenStatus_t miopenConvolution##word##GetSolutionWorkspaceSize(SIM_MIOPEN_PROBLEM, \
                                                                              const uint64_t solution, size_t *bytes); \
  SIM_MIOPEN miopenStatus_t miopenConvolution##word##CompileSolution(SIM_MIOPEN_PROBLEM, const uint64_t solution); \
  SIM_MIOPEN miopenStatus_t miopenConvolution##word##Immediate( \
      miopenHandle_t handle, const miopenTensorDescriptor_t first, const void *first_at, \
      const miopenTensorDescriptor_t second, const void *second_at, const miopenConvolutionDescriptor_t convolution, \
      const miopenTensorDescriptor_t made, void *made_at, void *workspace, size_t bytes, const uint64_t solution);
SIM_MIOPEN_DIRECTIONS(X)
#undef X
