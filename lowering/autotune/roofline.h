// Estimates by a roofline what a library saves over a generated kernel, where nothing is measured.
// Threads: thread-safe, pure.
#pragma once

#include "device/gpu.h"

// The nanoseconds saved. work: operations. bytes: memory traffic that only the library needs.
// That traffic is kernels before or after it, and a replayed graph's copies of operands whose
// address differs in each run.
double tc_library_gemm_gain_ns(const tc_gpu_facts *g, tc_type type, double work, double bytes);
// Whether that outweighs the cost of a graph bound to addresses.
bool tc_library_gemm_is_gain(double ns);
