// Matrix product libraries with cuBLASLt's interface: NVIDIA's cuBLASLt, and AMD's hipBLASLt with
// other names and numbers.
//
// Results are f32, f16 or bf16, summed in f32 without TF32, with the library's epilogue. The
// library's matrices are column-major, so it is asked for the transposed product: the right operand
// is its first one. Declarations are our own; functions are rows of blas_lt.def, and each backend
// has the numbers.
// Invariants: a library that is not told the alignment of memory (hipBLASLt) gets only operands at
// multiples of 16 bytes. A library that cannot check an algorithm (hipBLASLt) accepts those that it
// recommends for the product.
// Threads: any thread may drop; the others run under the device's lock (device/gpu/driver.h).
#pragma once

#include "device/gpu/driver.h"

#ifndef TC_LT_OPAQUE  // a test has the vendor's types in their place
typedef unsigned tc_lt_status, tc_lt_compute, tc_lt_type, tc_lt_matmul_attribute, tc_lt_layout_attribute,
    tc_lt_preference_attribute;
typedef struct tc_lt_handle_opaque *tc_lt_handle;
typedef struct tc_lt_matmul_opaque *tc_lt_matmul;
typedef struct tc_lt_layout_opaque *tc_lt_layout;
typedef struct tc_lt_preference_opaque *tc_lt_preference;
typedef void *tc_lt_stream;
typedef struct tc_lt_algorithm tc_lt_algorithm;  // algorithm_bytes long
typedef struct tc_lt_found tc_lt_found;  // an algorithm, then tc_lt_answer
#endif

// What the library says of an algorithm that it recommends, behind the algorithm itself.
typedef struct tc_lt_answer {
  size_t workspaceSize;
  tc_lt_status state;
  float wavesCount;
  int reserved[4];
} tc_lt_answer;

typedef struct tc_lt_library {
  const char *name;  // "cuBLASLt"
  struct {
#define TC_LT_ROW(name, cuda, hip, parameters) tc_lt_status(*name) parameters;
#include "device/gpu/blas_lt.def"
#undef TC_LT_ROW
  } f;
  const char *(*status_name)(tc_lt_status status);  // NULL: it has none
  size_t algorithm_bytes;  // at most sizeof tc_gpu_algorithm.data
  tc_lt_status out_of_memory, not_supported;  // success is 0
  tc_lt_compute compute_f32;
  tc_lt_type f32, f16, bf16;
  int32_t no_transpose, transpose;  // operations
  int32_t bias;  // an epilogue
  tc_lt_matmul_attribute operation_a, operation_b, epilogue, bias_pointer;
  tc_lt_layout_attribute batch_count, batch_stride;
  tc_lt_preference_attribute workspace, schemes, aligned[4];  // schemes and aligned are 0 in a library without them
  uint32_t scheme;  // allows adding parts of a sum in f32 in the workspace, in their order
} tc_lt_library;

// Results of the functions below that are not 0 are from TC_LT_RESULTS on.
#define TC_LT_RESULTS 0x10000
tc_gpu_verdict tc_lt_judge(const tc_lt_library *lt, int result, const char **name);
int tc_lt_open(const tc_lt_library *lt, tc_gpu_port *p);
void tc_lt_close(const tc_lt_library *lt, tc_gpu_port *p);
int tc_lt_make(const tc_lt_library *lt, const tc_gpu_work *w, void **out);  // what is made borrows lt
void tc_lt_drop(void *made);
int tc_lt_find(tc_gpu_port *p, void *made, tc_gpu_algorithm *out, int most, int *n);
int tc_lt_check(tc_gpu_port *p, void *made, tc_gpu_algorithm *a);
int tc_lt_run(tc_gpu_port *p, const tc_gpu_request *request);
