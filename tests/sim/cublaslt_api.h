// What the simulated cuBLASLt has of cublasLt.h, declared anew; compared with a real one as
// cuda_api.h is.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SIM_CUBLASLT_NUMBERS(X) \
  X(CUBLAS_STATUS_SUCCESS, 0) \
  X(CUBLAS_STATUS_NOT_INITIALIZED, 1) \
  X(CUBLAS_STATUS_ALLOC_FAILED, 3) \
  X(CUBLAS_STATUS_INVALID_VALUE, 7) \
  X(CUBLAS_STATUS_ARCH_MISMATCH, 8) \
  X(CUBLAS_STATUS_EXECUTION_FAILED, 13) \
  X(CUBLAS_STATUS_INTERNAL_ERROR, 14) \
  X(CUBLAS_STATUS_NOT_SUPPORTED, 15) \
  X(CUBLAS_COMPUTE_32F, 68) \
  X(CUDA_R_32F, 0) \
  X(CUDA_R_16F, 2) \
  X(CUDA_R_16BF, 14) \
  X(CUBLAS_OP_N, 0) \
  X(CUBLAS_OP_T, 1) \
  X(CUBLASLT_EPILOGUE_DEFAULT, 1) \
  X(CUBLASLT_EPILOGUE_BIAS, 4) \
  X(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 2) \
  X(CUBLASLT_REDUCTION_SCHEME_MASK, 7) \
  X(CUBLASLT_MATMUL_DESC_TRANSA, 3) \
  X(CUBLASLT_MATMUL_DESC_TRANSB, 4) \
  X(CUBLASLT_MATMUL_DESC_EPILOGUE, 7) \
  X(CUBLASLT_MATMUL_DESC_BIAS_POINTER, 8) \
  X(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 5) \
  X(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 6) \
  X(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 1) \
  X(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 3) \
  X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 5) \
  X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 6) \
  X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 7) \
  X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 8)

#ifndef SIM_REAL_CUDA_H
typedef unsigned cublasStatus_t, cublasComputeType_t, cudaDataType_t, cublasLtMatmulDescAttributes_t,
    cublasLtMatrixLayoutAttribute_t, cublasLtMatmulPreferenceAttributes_t;
typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct sim_lt_product *cublasLtMatmulDesc_t;
typedef struct sim_lt_layout *cublasLtMatrixLayout_t;
typedef struct sim_lt_preference *cublasLtMatmulPreference_t;
typedef struct {
  uint64_t data[8];
} cublasLtMatmulAlgo_t;
typedef struct {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
} cublasLtMatmulHeuristicResult_t;
#define X(name, value) name = value,
enum { SIM_CUBLASLT_NUMBERS(X) };
#undef X
#endif

#define SIM_LT __attribute__((visibility("default")))
SIM_LT size_t cublasLtGetVersion(void);
SIM_LT const char *cublasLtGetStatusName(cublasStatus_t status);
SIM_LT cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle);
SIM_LT cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle);
SIM_LT cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *product, cublasComputeType_t compute,
                                               cudaDataType_t scale);
SIM_LT cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product);
SIM_LT cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product,
                                                     cublasLtMatmulDescAttributes_t attribute, const void *value,
                                                     size_t bytes);
SIM_LT cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType_t type, uint64_t rows,
                                                 uint64_t columns, int64_t stride);
SIM_LT cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout);
SIM_LT cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                       cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                                                       size_t bytes);
SIM_LT cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference);
SIM_LT cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference);
SIM_LT cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                           cublasLtMatmulPreferenceAttributes_t attribute,
                                                           const void *value, size_t bytes);
SIM_LT cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                                     cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                     cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                     cublasLtMatmulPreference_t preference, int most,
                                                     cublasLtMatmulHeuristicResult_t found[], int *n);
SIM_LT cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              const cublasLtMatmulAlgo_t *algorithm,
                                              cublasLtMatmulHeuristicResult_t *found);
SIM_LT cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product, const void *alpha,
                                     const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                                     cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                                     cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                                     const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t workspace_bytes,
                                     cudaStream_t stream);
