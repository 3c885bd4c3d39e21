// The weight of a 3 x 3 convolution [o, c, 3, 3] as Winograd's algorithm multiplies by it: G w G^T for each pair of output and channel.
// Of a weight turned round (attr[1]) the roles of outputs and channels are changed and each window is read from its end: [c, o, 3, 3] -> the same layout.
// Lanes past the last output are zeros. Sums are in float: the transformed weight is part of the algorithm, not a result.
// Threads: thread-safe, pure. Owns nothing.
#include "kernels/winograd.h"

#include "kernels/ref/ref.h"
#include "kernels/ref/share.h"

#define BLOCK 16  // outputs transformed at once

// Three taps to alpha values; G's rows are the points 0, 1, -1, (2, -2,) infinity.
static inline void transform(int m, const float *a, const float *b, const float *c, int64_t step, float *out) {
  for (int i = 0; i < BLOCK; i++) {
    float x = a[i], y = b[i], z = c[i];
    out[i] = m == 2 ? x : x * 0.25f;
    if (m == 2) {
      out[step + i] = 0.5f * (x + z + y), out[2 * step + i] = 0.5f * (x + z - y), out[3 * step + i] = z;
    } else {
      float sum = (x + z) * (-1.0f / 6), wide = x * (1.0f / 24) + z * (1.0f / 6), y6 = y * (1.0f / 6), y12 = y * (1.0f / 12);
      out[step + i] = sum - y6, out[2 * step + i] = sum + y6;
      out[3 * step + i] = wide + y12, out[4 * step + i] = wide - y12, out[5 * step + i] = z;
    }
  }
}

tc_status tc_ref_winograd_weight(const tc_ref_call *call) {
  const tc_view *w = &call->in[0], *out = &call->out;
  int m = (int)call->attr[0], alpha = m + 2;
  bool turned = call->attr[1];
  int64_t outputs = w->dim[turned], channels = w->dim[!turned], panel = out->dim[3], n_panels = out->dim[0];
  int64_t so = w->stride[turned], sc = w->stride[!turned], blocks = panel / BLOCK, total = n_panels * channels;
  int64_t lo = call->extent ? total * call->begin / call->extent : 0, hi = call->extent ? total * call->end / call->extent : total;
  for (int64_t i = lo; i < hi; i++) {
    int64_t p = i / channels, c = i % channels;
    for (int64_t b = 0; b < blocks; b++) {
      float tap[9][BLOCK] = {{0}}, half[6][3][BLOCK], *to = (float *)out->ptr + (p * alpha * alpha * channels + c) * panel + b * BLOCK;
      for (int k = 0; k < BLOCK && p * panel + b * BLOCK + k < outputs; k++) {
        const float *from = (const float *)w->ptr + (p * panel + b * BLOCK + k) * so + c * sc;
        for (int t = 0; t < 9; t++) {
          int at = turned ? 8 - t : t;
          tap[t][k] = from[at / 3 * w->stride[2] + at % 3 * w->stride[3]];
        }
      }
      for (int t = 0; t < 3; t++) transform(m, tap[t], tap[3 + t], tap[6 + t], 3 * BLOCK, half[0][t]);
      for (int r = 0; r < alpha; r++) {
        float row[6][BLOCK];
        transform(m, half[r][0], half[r][1], half[r][2], BLOCK, row[0]);
        for (int s = 0; s < alpha; s++)
          for (int k = 0; k < BLOCK; k++) to[(r * alpha + s) * channels * panel + k] = row[s][k];
      }
    }
  }
  return TC_OK;
}
