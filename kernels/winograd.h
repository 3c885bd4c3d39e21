// The layout of a weight transformed for Winograd's algorithm, [panel][place][channel][lane of the panel]: outputs are cut in panels.
#ifndef TC_KERNELS_WINOGRAD_H
#define TC_KERNELS_WINOGRAD_H

#include <stdint.h>

// Outputs of a panel: 64 unless that computes many that nobody wants.
static inline int64_t tc_winograd_panel(int64_t outputs) {
  int64_t best = 64;
  for (int64_t panel = 64; panel >= 16; panel /= 2)
    if ((outputs + panel - 1) / panel * panel * 11 < (outputs + best - 1) / best * best * 10) best = panel;
  return best;
}

#endif
