// What the simulated rocBLAS has of the real one's header, declared anew; compared with a real one
// as cublaslt_api.h is.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SIM_ROCBLAS_NUMBERS(X) \
  X(rocblas_status_success, 0) \
  X(rocblas_status_invalid_handle, 1) \
  X(rocblas_status_not_implemented, 2) \
  X(rocblas_status_invalid_pointer, 3) \
  X(rocblas_status_invalid_size, 4) \
  X(rocblas_status_memory_error, 5) \
  X(rocblas_status_internal_error, 6) \
  X(rocblas_status_invalid_value, 11) \
  X(rocblas_operation_none, 111) \
  X(rocblas_operation_transpose, 112) \
  X(rocblas_datatype_f16_r, 150) \
  X(rocblas_datatype_f32_r, 151) \
  X(rocblas_datatype_bf16_r, 168) \
  X(rocblas_atomics_not_allowed, 0) \
  X(rocblas_atomics_allowed, 1) \
  X(rocblas_gemm_algo_standard, 0) \
  X(rocblas_gemm_algo_solution_index, 1)

#ifndef SIM_REAL_HIP_H
typedef unsigned rocblas_status, rocblas_operation, rocblas_datatype, rocblas_atomics_mode, rocblas_gemm_algo;
typedef int32_t rocblas_int;
typedef int64_t rocblas_stride;
typedef struct _rocblas_handle *rocblas_handle;
typedef struct ihipStream_t *hipStream_t;
#define X(name, value) name = value,
enum { SIM_ROCBLAS_NUMBERS(X) };
#undef X
#endif

#define SIM_ROCBLAS __attribute__((visibility("default")))
SIM_ROCBLAS rocblas_status rocblas_get_version_string(char *text, size_t bytes);
SIM_ROCBLAS const char *rocblas_status_to_string(rocblas_status status);
SIM_ROCBLAS rocblas_status rocblas_create_handle(rocblas_handle *handle);
SIM_ROCBLAS rocblas_status rocblas_destroy_handle(rocblas_handle handle);
SIM_ROCBLAS rocblas_status rocblas_set_stream(rocblas_handle handle, hipStream_t stream);
SIM_ROCBLAS rocblas_status rocblas_set_atomics_mode(rocblas_handle handle, rocblas_atomics_mode mode);
SIM_ROCBLAS rocblas_status rocblas_set_workspace(rocblas_handle handle, void *at, size_t bytes);
// Those that a product and the list of its solutions have in common.
#define SIM_ROCBLAS_PROBLEM \
  rocblas_handle handle, rocblas_operation operation_a, rocblas_operation operation_b, rocblas_int m, rocblas_int n, \
      rocblas_int k, const void *alpha, const void *a, rocblas_datatype a_type, rocblas_int a_stride, \
      rocblas_stride a_batch, const void *b, rocblas_datatype b_type, rocblas_int b_stride, rocblas_stride b_batch, \
      const void *beta, const void *c, rocblas_datatype c_type, rocblas_int c_stride, rocblas_stride c_batch, void *d, \
      rocblas_datatype d_type, rocblas_int d_stride, rocblas_stride d_batch, rocblas_int batch, \
      rocblas_datatype compute, rocblas_gemm_algo choice
SIM_ROCBLAS rocblas_status rocblas_gemm_strided_batched_ex(SIM_ROCBLAS_PROBLEM, int32_t solution, uint32_t flags);
SIM_ROCBLAS rocblas_status rocblas_gemm_strided_batched_ex_get_solutions(SIM_ROCBLAS_PROBLEM, uint32_t flags,
                                                                         rocblas_int *list, rocblas_int *n_list);
