// A simulated rocBLAS over libsim-hip: matrix products by its own choice of algorithm or by a
// solution's number, which holds for one problem and version.
//
// Its algorithms are those of product.h, for any alignment. A product that could add with atomics,
// or whose handle has no stream of the caller's, is a mistake.
#include "tests/sim/rocblas_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/product.h"

enum { USUAL = SIM_PRODUCT_USUAL };

struct _rocblas_handle {
  sim_object object;
  hipStream_t stream;
  rocblas_atomics_mode atomics;
  void *workspace;
  size_t workspace_bytes;
};

// The driver's errors, and those that a test asks for: those are numbers of rocBLAS's.
static rocblas_status status_of(sim_error error) {
  return (rocblas_status)error <= rocblas_status_invalid_value ? (rocblas_status)error : rocblas_status_internal_error;
}

#define ENTER(needs) \
  sim_guard guard __attribute__((cleanup(sim_leave))) = sim_enter(__func__, (needs)); \
  if (guard.error != SIM_OK) return status_of(guard.error)

#define HANDLE(handle) \
  if (!sim_alive(handle, SIM_LIBRARY)) return rocblas_status_invalid_handle

static const char *version(void) {
  const char *text = getenv("TC_SIM_ROCBLAS");
  return text ? text : "4.2.1";
}

rocblas_status rocblas_get_version_string(char *text, size_t bytes) {
  if (strlen(version()) >= bytes) return rocblas_status_invalid_size;
  strcpy(text, version());
  return rocblas_status_success;
}

const char *rocblas_status_to_string(rocblas_status status) {
  switch (status) {
    case rocblas_status_success: return "rocblas_status_success";
    case rocblas_status_invalid_handle: return "rocblas_status_invalid_handle";
    case rocblas_status_not_implemented: return "rocblas_status_not_implemented";
    case rocblas_status_invalid_pointer: return "rocblas_status_invalid_pointer";
    case rocblas_status_invalid_size: return "rocblas_status_invalid_size";
    case rocblas_status_memory_error: return "rocblas_status_memory_error";
    case rocblas_status_internal_error: return "rocblas_status_internal_error";
    case rocblas_status_invalid_value: return "rocblas_status_invalid_value";
    default: return "<undefined rocblas_status value>";
  }
}

// ---- handles ----

rocblas_status rocblas_create_handle(rocblas_handle *handle) {
  ENTER(USUAL);
  *handle = sim_object_new(SIM_LIBRARY, sim_here(), sizeof **handle);
  if (!*handle) return rocblas_status_memory_error;
  (*handle)->atomics = rocblas_atomics_allowed;
  return rocblas_status_success;
}

rocblas_status rocblas_destroy_handle(rocblas_handle handle) {
  ENTER(USUAL | SIM_AFTER_FAULT);
  HANDLE(handle);
  sim_object_end(handle);
  return rocblas_status_success;
}

rocblas_status rocblas_set_stream(rocblas_handle handle, hipStream_t stream) {
  ENTER(USUAL);
  HANDLE(handle);
  if (!sim_library_stream(stream)) return rocblas_status_invalid_value;
  handle->stream = stream;
  return rocblas_status_success;
}

rocblas_status rocblas_set_atomics_mode(rocblas_handle handle, rocblas_atomics_mode mode) {
  ENTER(USUAL);
  HANDLE(handle);
  if (mode > rocblas_atomics_allowed) return rocblas_status_invalid_value;
  handle->atomics = mode;
  return rocblas_status_success;
}

rocblas_status rocblas_set_workspace(rocblas_handle handle, void *at, size_t bytes) {
  ENTER(USUAL);
  HANDLE(handle);
  if (!at || !bytes) return rocblas_status_invalid_value;
  handle->workspace = at, handle->workspace_bytes = bytes;
  return rocblas_status_success;
}

// ---- products ----

static bool matrix(rocblas_operation operation, rocblas_int rows, rocblas_int columns, rocblas_int stride,
                   rocblas_stride batch, sim_matrix *out) {
  bool transposed = operation == rocblas_operation_transpose;
  uint64_t r = (uint64_t)(transposed ? columns : rows), c = (uint64_t)(transposed ? rows : columns);  // as they lie
  *out = sim_product_matrix(r, c, stride, batch, transposed);
  return stride >= (rocblas_int)r && batch >= 0;
}

// What is asked for, as a problem; addresses are left out.
static rocblas_status problem_of(SIM_ROCBLAS_PROBLEM, sim_product *p) {
  float scale[2];
  (void)choice;
  HANDLE(handle);
  if (handle->object.device != sim_here()) return rocblas_status_invalid_handle;
  if (operation_a != rocblas_operation_none && operation_a != rocblas_operation_transpose)
    return rocblas_status_invalid_value;
  if (operation_b != rocblas_operation_none && operation_b != rocblas_operation_transpose)
    return rocblas_status_invalid_value;
  if (m < 1 || n < 1 || k < 1 || batch < 1) return rocblas_status_invalid_size;
  if (!alpha || !beta || !a || !b || !d) return rocblas_status_invalid_pointer;
  memcpy(&scale[0], alpha, 4);
  memcpy(&scale[1], beta, 4);
  if (scale[0] != 1 || scale[1] != 0 || compute != rocblas_datatype_f32_r || b_type != a_type || c_type != a_type ||
      d_type != a_type)
    return rocblas_status_not_implemented;
  if (a_type != rocblas_datatype_f32_r && a_type != rocblas_datatype_f16_r && a_type != rocblas_datatype_bf16_r)
    return rocblas_status_not_implemented;
  if (c != d || c_stride != d_stride || c_batch != d_batch) return rocblas_status_invalid_value;
  *p = (sim_product){.type = a_type == rocblas_datatype_f32_r   ? SIM_F32
                             : a_type == rocblas_datatype_f16_r ? SIM_F16
                                                                : SIM_BF16,
                     .batch = batch};
  bool fits = matrix(operation_a, m, k, a_stride, a_batch, &p->a) &&
              matrix(operation_b, k, n, b_stride, b_batch, &p->b) &&
              matrix(rocblas_operation_none, m, n, d_stride, d_batch, &p->d);
  return fits && sim_product_fits(p) ? rocblas_status_success : rocblas_status_invalid_size;
}

#define PROBLEM(p) \
  problem_of(handle, operation_a, operation_b, m, n, k, alpha, a, a_type, a_stride, a_batch, b, b_type, b_stride, \
             b_batch, beta, c, c_type, c_stride, c_batch, d, d_type, d_stride, d_batch, batch, compute, choice, (p))

// The solution's number for this problem and version.
static int32_t number_of(const sim_product *p, int algorithm) {
  return (int32_t)(sim_product_name(p, sim_hash(version(), strlen(version()), 0)) & 0xffffff) * SIM_PRODUCT_ALGORITHMS +
         algorithm;
}

rocblas_status rocblas_gemm_strided_batched_ex_get_solutions(SIM_ROCBLAS_PROBLEM, uint32_t flags, rocblas_int *list,
                                                             rocblas_int *n_list) {
  ENTER(USUAL);
  sim_product p;
  rocblas_status status = PROBLEM(&p);
  if (status != rocblas_status_success) return status;
  if (flags || choice != rocblas_gemm_algo_solution_index || !n_list) return rocblas_status_invalid_value;
  int room = list ? *n_list : SIM_PRODUCT_ALGORITHMS;
  *n_list = room < SIM_PRODUCT_ALGORITHMS ? room : SIM_PRODUCT_ALGORITHMS;
  for (int i = 0; i < *n_list && list; i++) list[i] = number_of(&p, i);
  return rocblas_status_success;
}

rocblas_status rocblas_gemm_strided_batched_ex(SIM_ROCBLAS_PROBLEM, int32_t solution, uint32_t flags) {
  ENTER(USUAL);
  sim_product p;
  rocblas_status status = PROBLEM(&p);
  if (status != rocblas_status_success) return status;
  if (flags || choice > rocblas_gemm_algo_solution_index) return rocblas_status_invalid_value;
  bool by_number = choice == rocblas_gemm_algo_solution_index && solution != 0;
  int algorithm = by_number ? solution % SIM_PRODUCT_ALGORITHMS : sim_product_first() % SIM_PRODUCT_ALGORITHMS;
  if (by_number && (solution < 0 || solution != number_of(&p, algorithm))) return rocblas_status_invalid_value;
  if (handle->atomics != rocblas_atomics_not_allowed)
    sim_fault(sim_hash(__func__, 8, 23), "%s: it may add with atomics", __func__);
  if (!handle->stream) sim_fault(sim_hash(__func__, 8, 24), "%s: in the legacy stream", __func__);
  p.function = __func__;
  p.a.at = (uintptr_t)a, p.b.at = (uintptr_t)b, p.d.at = (uintptr_t)d;
  p.alignment = sim_product_alignment(SIM_PRODUCT_ALGORITHMS - 1, &p),
  p.workspace_bytes = sim_product_workspace(algorithm, &p);
  if (p.workspace_bytes > handle->workspace_bytes) return rocblas_status_memory_error;
  p.workspace = p.workspace_bytes ? (uintptr_t)handle->workspace : 0;
  if (!sim_product_aligned(&p)) return rocblas_status_invalid_pointer;
  return status_of(sim_product_enqueue(sim_library_stream(handle->stream), &p));
}
