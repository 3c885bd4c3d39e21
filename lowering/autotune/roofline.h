// Where nothing is measured: what a vendor's library is expected to save, by a roofline.
#ifndef TC_LOWERING_AUTOTUNE_ROOFLINE_H
#define TC_LOWERING_AUTOTUNE_ROOFLINE_H

#include "device/gpu.h"

// Of so much work (operations), with so many bytes of memory read and written for the library's
// sake: by kernels of their own before or after it, and by the copies of what may be elsewhere in
// each run, which a graph that is replayed cannot be told.
double tc_library_gemm_gain_ns(const tc_gpu_facts *g, tc_type type, double work, double bytes);
// Whether that is worth a graph that knows addresses.
bool tc_library_gemm_is_gain(double ns);

#endif
