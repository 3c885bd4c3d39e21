// NVIDIA's compiler NVRTC. In: source in the dialect. Out: a cubin, or PTX for devices that it does
// not know.
// Threads: tc_nvrtc_choose_arch comes first, under the lock of opening; any number of threads may
// call the others.
#pragma once

#include "device/gpu/driver.h"

extern const char tc_cuda_words[];  // the text of words.h

// Opens the newest NVRTC whose major version is not above the driver's. facts->arch, "sm_90",
// becomes the compiler's target. False with one sentence in why.
bool tc_nvrtc_choose_arch(int driver_major, tc_gpu_facts *facts, char *why, size_t bytes);
// Returns whether the dialect's wgmma words compile for this target.
bool tc_nvrtc_has_wgmma(const char *arch);
const char *tc_nvrtc_name(void);  // "NVRTC 13.0"
#define TC_NVRTC_OPTIONS "--fmad=false --ptxas-options=-v"  // besides the architecture
tc_status tc_nvrtc_compile(const char *arch, const char *name, const char *source, tc_gpu_image *out);
