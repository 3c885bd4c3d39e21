// What the simulated hipBLASLt has of the real one's header, declared anew; compared with real ones
// as cublaslt_api.h is.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SIM_HIPBLASLT_NUMBERS(X) \
  X(HIPBLAS_STATUS_SUCCESS, 0) \
  X(HIPBLAS_STATUS_NOT_INITIALIZED, 1) \
  X(HIPBLAS_STATUS_ALLOC_FAILED, 2) \
  X(HIPBLAS_STATUS_INVALID_VALUE, 3) \
  X(HIPBLAS_STATUS_EXECUTION_FAILED, 5) \
  X(HIPBLAS_STATUS_INTERNAL_ERROR, 6) \
  X(HIPBLAS_STATUS_NOT_SUPPORTED, 7) \
  X(HIPBLAS_STATUS_UNKNOWN, 11) \
  X(HIPBLAS_COMPUTE_32F, 2) \
  X(HIP_R_32F, 0) \
  X(HIP_R_16F, 2) \
  X(HIP_R_16BF, 14) \
  X(HIPBLAS_OP_N, 111) \
  X(HIPBLAS_OP_T, 112) \
  X(HIPBLASLT_EPILOGUE_DEFAULT, 1) \
  X(HIPBLASLT_EPILOGUE_BIAS, 4) \
  X(HIPBLASLT_MATMUL_DESC_TRANSA, 0) \
  X(HIPBLASLT_MATMUL_DESC_TRANSB, 1) \
  X(HIPBLASLT_MATMUL_DESC_EPILOGUE, 2) \
  X(HIPBLASLT_MATMUL_DESC_BIAS_POINTER, 3) \
  X(HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 0) \
  X(HIPBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 1) \
  X(HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 1)

#ifndef SIM_REAL_HIP_H
typedef unsigned hipblasStatus_t, hipblasComputeType_t, hipDataType, hipblasLtMatmulDescAttributes_t,
    hipblasLtMatrixLayoutAttribute_t, hipblasLtMatmulPreferenceAttributes_t;
typedef void *hipblasLtHandle_t;
typedef struct ihipStream_t *hipStream_t;
typedef struct sim_lt_product *hipblasLtMatmulDesc_t;
typedef struct sim_lt_layout *hipblasLtMatrixLayout_t;
typedef struct sim_lt_preference *hipblasLtMatmulPreference_t;
typedef struct {
  uint8_t data[16];
  size_t max_workspace_bytes;
} hipblasLtMatmulAlgo_t;
typedef struct {
  hipblasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  hipblasStatus_t state;
  float wavesCount;
  int reserved[4];
} hipblasLtMatmulHeuristicResult_t;
#define X(name, value) name = value,
enum { SIM_HIPBLASLT_NUMBERS(X) };
#undef X
#endif

#define SIM_LT __attribute__((visibility("default")))
#ifdef __cplusplus
extern "C" {
#endif
SIM_LT hipblasStatus_t hipblasLtGetVersion(hipblasLtHandle_t handle, int *version);
SIM_LT hipblasStatus_t hipblasLtCreate(hipblasLtHandle_t *handle);
SIM_LT hipblasStatus_t hipblasLtDestroy(hipblasLtHandle_t handle);
SIM_LT hipblasStatus_t hipblasLtMatmulDescCreate(hipblasLtMatmulDesc_t *product, hipblasComputeType_t compute,
                                                 hipDataType scale);
SIM_LT hipblasStatus_t hipblasLtMatmulDescDestroy(hipblasLtMatmulDesc_t product);
SIM_LT hipblasStatus_t hipblasLtMatmulDescSetAttribute(hipblasLtMatmulDesc_t product,
                                                       hipblasLtMatmulDescAttributes_t attribute, const void *value,
                                                       size_t bytes);
SIM_LT hipblasStatus_t hipblasLtMatrixLayoutCreate(hipblasLtMatrixLayout_t *layout, hipDataType type, uint64_t rows,
                                                   uint64_t columns, int64_t stride);
SIM_LT hipblasStatus_t hipblasLtMatrixLayoutDestroy(hipblasLtMatrixLayout_t layout);
SIM_LT hipblasStatus_t hipblasLtMatrixLayoutSetAttribute(hipblasLtMatrixLayout_t layout,
                                                         hipblasLtMatrixLayoutAttribute_t attribute, const void *value,
                                                         size_t bytes);
SIM_LT hipblasStatus_t hipblasLtMatmulPreferenceCreate(hipblasLtMatmulPreference_t *preference);
SIM_LT hipblasStatus_t hipblasLtMatmulPreferenceDestroy(hipblasLtMatmulPreference_t preference);
SIM_LT hipblasStatus_t hipblasLtMatmulPreferenceSetAttribute(hipblasLtMatmulPreference_t preference,
                                                             hipblasLtMatmulPreferenceAttributes_t attribute,
                                                             const void *value, size_t bytes);
SIM_LT hipblasStatus_t hipblasLtMatmulAlgoGetHeuristic(hipblasLtHandle_t handle, hipblasLtMatmulDesc_t product,
                                                       hipblasLtMatrixLayout_t a, hipblasLtMatrixLayout_t b,
                                                       hipblasLtMatrixLayout_t c, hipblasLtMatrixLayout_t d,
                                                       hipblasLtMatmulPreference_t preference, int most,
                                                       hipblasLtMatmulHeuristicResult_t found[], int *n);
SIM_LT hipblasStatus_t hipblasLtMatmul(hipblasLtHandle_t handle, hipblasLtMatmulDesc_t product, const void *alpha,
                                       const void *a, hipblasLtMatrixLayout_t a_layout, const void *b,
                                       hipblasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                                       hipblasLtMatrixLayout_t c_layout, void *d, hipblasLtMatrixLayout_t d_layout,
                                       const hipblasLtMatmulAlgo_t *algorithm, void *workspace, size_t workspace_bytes,
                                       hipStream_t stream);
#ifdef __cplusplus
}
#endif
