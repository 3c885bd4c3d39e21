// Libraries of matrix products with the functions of cuBLASLt, by its names or others: NVIDIA's,
// and AMD's hipBLASLt, whose numbers are others, too.
//
// Rows of results in f32, f16 and bf16, summed in f32 without TF32, with what the library adds to a
// row. Its matrices are columns side by side, so it is asked for the transpose of what is wanted:
// the right operand is its first one. Own declarations; functions are rows of blas_lt.def, each
// backend has the numbers. A library that is not told how memory is aligned (hipBLASLt) is asked
// for operands at multiples of 16 bytes alone; one without a function that checks an algorithm
// (hipBLASLt) has it where it is among those that it names for the product.
// Threads: dropping by any, the others under the device's lock (device/gpu/driver.h).
#ifndef TC_DEVICE_GPU_BLAS_LT_H
#define TC_DEVICE_GPU_BLAS_LT_H

#include "device/gpu/driver.h"

#ifndef TC_LT_OPAQUE  // a test has the vendor's in their place
typedef unsigned tc_lt_status, tc_lt_compute, tc_lt_type, tc_lt_product_attribute, tc_lt_layout_attribute, tc_lt_preference_attribute;
typedef struct tc_lt_handle_opaque *tc_lt_handle;
typedef struct tc_lt_product_opaque *tc_lt_product;
typedef struct tc_lt_layout_opaque *tc_lt_layout;
typedef struct tc_lt_preference_opaque *tc_lt_preference;
typedef void *tc_lt_stream;
typedef struct tc_lt_algorithm tc_lt_algorithm;  // as many bytes as the library says
typedef struct tc_lt_found tc_lt_found;  // tc_lt_answer behind those
#endif

// What is told of an algorithm that is found, behind the algorithm itself.
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
  size_t algorithm_bytes;  // at most those of tc_gpu_algorithm.data
  tc_lt_status short_of_memory, not_supported;  // success is 0
  tc_lt_compute compute_f32;
  tc_lt_type f32, f16, bf16;
  int32_t straight, turned;  // operations
  int32_t bias;  // an epilogue
  tc_lt_product_attribute operation_a, operation_b, epilogue, bias_pointer;
  tc_lt_layout_attribute batch_count, batch_stride;
  tc_lt_preference_attribute workspace, schemes, aligned[4];  // the last 5: 0 where it has none such
  uint32_t scheme;  // parts of a sum may be added in f32 in the workspace, in their order
} tc_lt_library;

// What the functions below answer, where it is not 0, is from TC_LT_RESULTS on.
#define TC_LT_RESULTS 0x10000
tc_gpu_verdict tc_lt_judge(const tc_lt_library *lt, int result, const char **name);
int tc_lt_open(const tc_lt_library *lt, tc_gpu_port *p);
void tc_lt_close(const tc_lt_library *lt, tc_gpu_port *p);
int tc_lt_make(const tc_lt_library *lt, const tc_gpu_work *w, void **out);  // lt: borrowed by what is made
void tc_lt_drop(void *made);
int tc_lt_find(tc_gpu_port *p, void *made, tc_gpu_algorithm *out, int most, int *n);
int tc_lt_check(tc_gpu_port *p, void *made, tc_gpu_algorithm *a);
int tc_lt_run(tc_gpu_port *p, const tc_gpu_request *request);

#endif
