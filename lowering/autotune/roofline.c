// A roofline of libraries and generated kernels. See roofline.h.
#include "lowering/autotune/roofline.h"

#include <stdlib.h>
#include <string.h>

// Of a processor: operations a nanosecond of its matrix units for half types, and of its
// multiply-adds in f32; the shares of the first that are expected of a library's large products and
// of generated ones; bytes of memory a nanosecond. From the vendors' data sheets and others'
// reports; nothing of it was measured here. What is generated for NVIDIA's (mma.sync) reaches 63 %
// of what sm_90 has for others, and less of what came after; RDNA's matrix instructions are not
// generated for, so its kernels have the rate of f32.
typedef struct roof {
  const char *arch;
  double half, single;
  double library, generated;
  double bytes;
} roof;
static const roof roofs[] = {
    {"sm_80", 2900, 180, 0.85, 0.65, 25}, {"sm_86", 900, 360, 0.85, 0.7, 25},    {"sm_89", 1300, 640, 0.85, 0.7, 25},
    {"sm_90", 7500, 500, 0.85, 0.5, 25},  {"sm_100", 15000, 500, 0.85, 0.3, 25}, {"sm_120", 2500, 640, 0.85, 0.7, 25},
};
static const roof amds[] = {
    {"gfx908", 1500, 190, 0.75, 0.5, 10}, {"gfx90a", 1700, 220, 0.75, 0.5, 14}, {"gfx942", 4300, 540, 0.65, 0.4, 17},
    {"gfx11", 1280, 640, 0.6, 0.25, 10},  {"gfx12", 1500, 640, 0.6, 0.2, 10},   {"gfx", 580, 290, 0.7, 0.45, 8},
};
#define SINGLE_LIBRARY 0.85
#define SINGLE_GENERATED 0.7
#define LEAST_GAIN_NS 5000.0  // of one product: below, not worth a graph that knows addresses

static int number_of(const char *arch) {
  return atoi(arch + strcspn(arch, "0123456789"));
}

// Of NVIDIA's the last that is not newer, of AMD's the first whose name it begins with.
static const roof *roof_of(const tc_gpu_facts *g) {
  const roof *r = roofs;
  for (size_t i = 0; i < sizeof amds / sizeof *amds; i++)
    if (strncmp(g->arch, amds[i].arch, strlen(amds[i].arch)) == 0) return &amds[i];
  for (size_t i = 0; i < sizeof roofs / sizeof *roofs; i++)
    if (number_of(roofs[i].arch) <= number_of(g->arch)) r = &roofs[i];
  return r;
}

double tc_library_gemm_gain_ns(const tc_gpu_facts *g, tc_type type, double work, double bytes) {
  const roof *r = roof_of(g);
  double n = g->processors;
  bool single = type == TC_F32;
  double saved = work / ((single ? r->single : r->half) * n) *
                 (1 / (single ? SINGLE_GENERATED : r->generated) - 1 / (single ? SINGLE_LIBRARY : r->library));
  return saved - bytes / (r->bytes * n);
}

bool tc_library_gemm_is_gain(double ns) {
  return ns >= LEAST_GAIN_NS;
}
