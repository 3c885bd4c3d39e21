// Where nothing is measured: what a vendor's library is expected to save, by a roofline.
#ifndef TC_LOWERING_GPU_ROOF_H
#define TC_LOWERING_GPU_ROOF_H

#include "device/gpu.h"

// Of so much work (operations), with so many bytes of memory read and written for the library's sake.
double tc_vendor_gain_ns(const tc_gpu_facts *g, tc_type type, double work, double bytes);
// Whether that is worth a graph that knows addresses.
bool tc_vendor_is_gain(double ns);

#endif
