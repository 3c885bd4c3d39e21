// NVIDIA's library of matrix products, cuBLASLt: rows of results in f32, f16 and bf16, summed in f32 without TF32, with what the library adds to a row.
//
// Its matrices are columns side by side, so it is asked for the transpose of what is wanted: the right operand is its first one. Own declarations, as in api.h;
// functions are rows of blaslt.def. tests/plain/cuda_header.c compares them with cublasLt.h.
// Threads: opening by one at a time, dropping by any, the others under the device's lock (device/gpu/driver.h).
#ifndef TC_DEVICE_CUDA_BLASLT_H
#define TC_DEVICE_CUDA_BLASLT_H

#include "device/cuda/api.h"
#include "device/gpu/driver.h"

typedef unsigned tc_blaslt_status, tc_blaslt_compute, tc_blaslt_type, tc_blaslt_product_attribute, tc_blaslt_layout_attribute,
    tc_blaslt_preference_attribute;
typedef struct cublasLtContext *tc_blaslt_handle;
typedef struct tc_blaslt_algorithm {
  uint64_t data[8];
} tc_blaslt_algorithm;
typedef struct tc_blaslt_found {
  tc_blaslt_algorithm algo;
  size_t workspaceSize;
  tc_blaslt_status state;
  float wavesCount;
  int reserved[4];
} tc_blaslt_found;
#ifndef TC_BLASLT_OPAQUE
typedef struct tc_blaslt_product_opaque *tc_blaslt_product;
typedef struct tc_blaslt_layout_opaque *tc_blaslt_layout;
typedef struct tc_blaslt_preference_opaque *tc_blaslt_preference;
#endif

enum {
#define TC_BLASLT_NUMBER(name, value) TC_##name = value,
#include "device/cuda/blaslt_numbers.def"
#undef TC_BLASLT_NUMBER
};

// driver_major: of CUDA; a newer library is not tried.
bool tc_blaslt_ready(int driver_major, char *why, size_t bytes);
// What the functions below answer, where it is not the driver's 0, is from TC_BLASLT_RESULTS on.
#define TC_BLASLT_RESULTS 0x10000
tc_gpu_verdict tc_blaslt_judge(int result, const char **name);
const char *tc_blaslt_name(void);  // "cuBLASLt 13.1.0"
int tc_blaslt_open(tc_gpu_port *p);
void tc_blaslt_close(tc_gpu_port *p);
int tc_blaslt_make(tc_gpu_port *p, const tc_gpu_work *w, void **out);
void tc_blaslt_drop(void *made);
int tc_blaslt_find(tc_gpu_port *p, void *made, tc_gpu_algorithm *out, int most, int *n);
int tc_blaslt_check(tc_gpu_port *p, void *made, tc_gpu_algorithm *a);
int tc_blaslt_run(tc_gpu_port *p, const tc_gpu_request *request);

#endif
