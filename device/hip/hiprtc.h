// AMD's compiler hiprtc. In: source in the dialect. Out: a code object.
// Threads: tc_hiprtc_open comes first, under the lock of opening; any number of threads may call
// the others.
#pragma once

#include "device/gpu/driver.h"

extern const char tc_hip_words[];  // the text of words.h

// Opens it. driver is the open libamdhip64 of this version, 50221153 for 5.2. False with one
// sentence in why.
bool tc_hiprtc_open(void *driver, int version, char *why, size_t bytes);
// Returns whether it compiles for facts->arch, "gfx90a:sramecc+:xnack-"; false with one sentence in
// why. It asks our own table, because hiprtc would end the process for an unknown target.
bool tc_hiprtc_choose_arch(tc_gpu_facts *facts, char *why, size_t bytes);
const char *tc_hiprtc_name(void);  // "hiprtc of HIP 5.2"
#define TC_HIPRTC_OPTIONS "-ffp-contract=off -O3"  // besides the architecture
tc_status tc_hiprtc_compile(const char *arch, const char *name, const char *source, tc_gpu_image *out);
