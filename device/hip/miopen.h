// AMD's library of convolutions, MIOpen: forward, by the image and by the weight, of f32, f16 and
// bf16, in its immediate mode.
//
// It names solutions of a problem, best first, by numbers that it documents as lasting; one is
// asked for, compiled, and run. What it says of a solution is its kind alone. So those of kinds
// whose sums are known are taken: direct ones and implicit products; of halves by the weight
// implicit products alone, for direct ones may keep sums of parts of the batch in the half type.
// Not products of BLAS, whose gradients round halves more than once, and for which rocBLAS and
// hipBLASLt end the process where they have no kernels; not Winograd's or Fourier's. It is told to
// repeat its bits, to compute halves without detours through another type, and not to use TF32;
// that it repeats its bits it has failed to keep to before, so it is trusted where results were
// compared alone (measured_alone). Padding is the same on both sides of an axis. Own declarations;
// functions are rows of miopen.def. tests/headers/miopen.c compares them with its header. It
// compiles kernels when it is asked for a solution, keeps them in a place of its own, where it must
// be able to write, and reads databases, which may be absent.
#ifndef TC_DEVICE_HIP_MIOPEN_H
#define TC_DEVICE_HIP_MIOPEN_H

#include <stdint.h>

#include "device/gpu/driver.h"
#include "device/hip/api.h"

typedef unsigned tc_miopen_status, tc_miopen_type, tc_miopen_layout, tc_miopen_mode, tc_miopen_attribute, tc_miopen_algorithm;
typedef struct miopenHandle *tc_miopen_handle;
typedef struct miopenTensorDescriptor *tc_miopen_tensor;
typedef struct miopenConvolutionDescriptor *tc_miopen_convolution;

#ifndef TC_MIOPEN_SOLUTION  // a test has the vendor's in its place
typedef struct tc_miopen_solution {
  float time;  // in ms, as measured somewhere or estimated; below 0: very roughly
  size_t workspace_size;
  uint64_t solution_id;
  tc_miopen_algorithm algorithm;
} tc_miopen_solution;
#endif

enum {
#define TC_MIOPEN_NUMBER(name, value) TC_##name = value,
#include "device/hip/miopen_numbers.def"
#undef TC_MIOPEN_NUMBER
};
// Of versions after 3.5.1 alone, as is the attribute: earlier ones, and headers, do without.
#define TC_MIOPEN_CONVOLUTION_ATTRIB_MATH_TYPE 3
#define TC_miopenMathPedantic 1

extern const tc_gpu_library_driver tc_miopen;
void tc_miopen_of(int hip_major, void *hip,
                  // when the driver is opened: its version and its library
                  int (*room)(tc_gpu_port *p, size_t *free_bytes));
void tc_miopen_close(tc_gpu_port *p);
// What its functions answer, where it is not the driver's, is from TC_MIOPEN_RESULTS on.
#define TC_MIOPEN_RESULTS 0x30000
tc_gpu_verdict tc_miopen_judge(int result, const char **name);

#endif
