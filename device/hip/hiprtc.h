// AMD's compiler, hiprtc: source in the dialect to a code object.
// Threads: tc_hiprtc_open under the lock of opening, and first; the others by any number at once.
#ifndef TC_DEVICE_HIP_HIPRTC_H
#define TC_DEVICE_HIP_HIPRTC_H

#include "device/gpu/driver.h"

extern const char tc_hip_words[];  // the text of words.h

// driver: the open libamdhip64 of this version, 50221153 for 5.2. False with why not.
bool tc_hiprtc_open(void *driver, int version, char *why, size_t bytes);
// Whether it compiles for facts->arch, "gfx90a:sramecc+:xnack-". Asking hiprtc itself would end the
// process where it does not.
bool tc_hiprtc_choose_arch(tc_gpu_facts *facts, char *why, size_t bytes);
const char *tc_hiprtc_name(void);  // "hiprtc of HIP 5.2"
const char *tc_hiprtc_options(void);
tc_status tc_hiprtc_compile(const char *arch, const char *name, const char *source, tc_gpu_image *out);

#endif
