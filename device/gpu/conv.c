// See conv.h.
#include "device/gpu/conv.h"

int tc_gpu_conv_axes(const tc_gpu_conv_facts *f, const int64_t *from, int64_t absent, int64_t *out) {
  int n = 0;
  if (f->axes == 1) out[n++] = absent;
  for (int i = 0; i < f->axes; i++) out[n++] = from[i];
  return n;
}
