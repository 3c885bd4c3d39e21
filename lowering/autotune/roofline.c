// Estimates by a roofline what a library saves over a generated kernel. See library_select.h.
#include "lowering/autotune/library_select.h"

#include <stdlib.h>
#include <string.h>

// Rates of one processor (SM or CU). half: operations a nanosecond of its matrix units in 16-bit
// types. single: of its f32 multiply-adds.
// library, generated: the share of `half` that large matmuls of either reach. bytes: of memory, a
// nanosecond.
// From vendors' data sheets and published reports; nothing was measured here. Generated code for
// NVIDIA (mma.sync) reaches 63 % of the peak on sm_90, and less on newer ones.
// No code is generated for RDNA's matrix instructions, so its kernels run at the f32 rate.
typedef struct roofline {
  const char *arch;
  double half, single;
  double library, generated;
  double bytes;
} roofline;
static const roofline nvidia_rooflines[] = {
    {"sm_80", 2900, 180, 0.85, 0.65, 25}, {"sm_86", 900, 360, 0.85, 0.7, 25},    {"sm_89", 1300, 640, 0.85, 0.7, 25},
    {"sm_90", 7500, 500, 0.85, 0.5, 25},  {"sm_100", 15000, 500, 0.85, 0.3, 25}, {"sm_120", 2500, 640, 0.85, 0.7, 25},
};
static const roofline amd_rooflines[] = {
    {"gfx908", 1500, 190, 0.75, 0.5, 10}, {"gfx90a", 1700, 220, 0.75, 0.5, 14}, {"gfx942", 4300, 540, 0.65, 0.4, 17},
    {"gfx11", 1280, 640, 0.6, 0.25, 10},  {"gfx12", 1500, 640, 0.6, 0.2, 10},   {"gfx", 580, 290, 0.7, 0.45, 8},
};
#define SINGLE_LIBRARY 0.85
#define SINGLE_GENERATED 0.7

static int number_of(const char *arch) {
  return atoi(arch + strcspn(arch, "0123456789"));
}

// For NVIDIA, the last row that is not newer; for AMD, the first whose name is a prefix.
static const roofline *roofline_of(const tc_gpu_facts *g) {
  const roofline *r = nvidia_rooflines;
  for (size_t i = 0; i < sizeof amd_rooflines / sizeof *amd_rooflines; i++)
    if (strncmp(g->arch, amd_rooflines[i].arch, strlen(amd_rooflines[i].arch)) == 0) return &amd_rooflines[i];
  for (size_t i = 0; i < sizeof nvidia_rooflines / sizeof *nvidia_rooflines; i++)
    if (number_of(nvidia_rooflines[i].arch) <= number_of(g->arch)) r = &nvidia_rooflines[i];
  return r;
}

double tc_library_gemm_gain_ns(const tc_gpu_facts *g, tc_type type, double work, double bytes) {
  const roofline *r = roofline_of(g);
  double n = g->processors;
  bool single = type == TC_F32;
  double saved = work / ((single ? r->single : r->half) * n) *
                 (1 / (single ? SINGLE_GENERATED : r->generated) - 1 / (single ? SINGLE_LIBRARY : r->library));
  return saved - bytes / (r->bytes * n);
}
