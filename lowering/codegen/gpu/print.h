// Prints a kernel with threads as the text of a kernel, in the dialect of device/gpu/README.md.
// Threads: thread-safe, pure. Owns nothing.
#pragma once

#include "lowering/codegen/gpu/kernel_abi.h"

// *out_source is the caller's, tc_free. TC_ERR_ARG for a kernel that does not verify or has no
// threads.
tc_status tc_gpu_print(const tc_kir *kir, const char *name, char **out_source, tc_gpu_shape *shape);
