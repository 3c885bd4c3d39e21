// NVIDIA's compiler, NVRTC: source in the dialect to a cubin, or to PTX for devices that it does
// not know.
// Threads: tc_nvrtc_choose_arch under the lock of opening, and first; the others by any number at
// once.
#ifndef TC_DEVICE_CUDA_NVRTC_H
#define TC_DEVICE_CUDA_NVRTC_H

#include "device/gpu/driver.h"

extern const char tc_cuda_words[];  // the text of words.h

// Opens the newest NVRTC whose major version is not above the driver's; facts->arch, "sm_90",
// becomes what it compiles for. False with why not.
bool tc_nvrtc_choose_arch(int driver_major, tc_gpu_facts *facts, char *why, size_t bytes);
// whether its words for products of four warps compile for this, what was chosen
bool tc_nvrtc_has_wgmma(const char *arch);
const char *tc_nvrtc_name(void);  // "NVRTC 13.0"
const char *tc_nvrtc_options(void);
tc_status tc_nvrtc_compile(const char *arch, const char *name, const char *source, tc_gpu_image *out);

#endif
