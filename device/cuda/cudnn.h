// NVIDIA's convolution library cuDNN: forward and both gradients, of f32, f16 and bf16, summed in
// f32 without TF32.
//
// Only its graph API is used: descriptors whose attributes are set one by one and finalized. Work
// is an operation graph with one operation. An algorithm is an engine with a value for each of its
// knobs. Engines with unknown or unwanted notes are passed over: bits that vary from run to run,
// operands or sums in a narrower type, transforms.
// Declarations are our own, as in api.h; functions are rows of cudnn.def, of version 9.
// tests/headers/cudnn.c compares them with cudnn_graph.h.
// Threads: one at a time opens it, any thread drops; the others run under the device's lock
// (device/gpu/driver.h).
#pragma once

#include "device/cuda/api.h"
#include "device/gpu/driver.h"

typedef unsigned tc_cudnn_status, tc_cudnn_kind, tc_cudnn_attribute, tc_cudnn_type;
typedef struct cudnnContext *tc_cudnn_handle;
typedef void *tc_cudnn_descriptor;

enum {
#define TC_CUDNN_NUMBER(name, value) TC_CUDNN_##name = value,
#include "device/cuda/cudnn_numbers.def"
#undef TC_CUDNN_NUMBER
};

// Opens the library; false with one sentence in why. driver_major: CUDA's; a library for a newer
// one is not tried.
bool tc_cudnn_ready(int driver_major, char *why, size_t bytes);
// Results of the functions below that are not the driver's 0 are from TC_CUDNN_RESULTS on.
#define TC_CUDNN_RESULTS 0x20000
tc_gpu_verdict tc_cudnn_judge(int result, const char **name);
const char *tc_cudnn_name(void);  // "cuDNN 9.10.2"
int tc_cudnn_open(tc_gpu_port *p);
void tc_cudnn_close(tc_gpu_port *p);
int tc_cudnn_make(tc_gpu_port *p, const tc_gpu_work *w, void **out);
void tc_cudnn_drop(void *made);
int tc_cudnn_find(tc_gpu_port *p, void *made, tc_gpu_algorithm *out, int most, int *n);
int tc_cudnn_check(tc_gpu_port *p, void *made, tc_gpu_algorithm *a);
int tc_cudnn_set_stream(tc_gpu_port *p, void *stream);
int tc_cudnn_run(tc_gpu_port *p, const tc_gpu_request *request);
