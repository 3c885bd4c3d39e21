// Kernels of direct products for vectors of 16 bytes, which every machine has: SSE2, or NEON with
// multiply-adds. See tile.h.
#include "kernels/blas/level1.h"
#include "kernels/blas/triangles.h"
#include "kernels/blas/vectors.h"
#if defined(__aarch64__)
#include <arm_neon.h>
#endif

typedef double vec_f64 __attribute__((vector_size(16)));
typedef float vec_f32 __attribute__((vector_size(16)));
typedef int64_t vec_i64 __attribute__((vector_size(16)));
typedef int32_t vec_i32 __attribute__((vector_size(16)));

// Parts are loaded and stored element by element.
static inline vec_f64 load_part_f64(const double *p, int n) {
  return (vec_f64){p[0], n > 1 ? p[1] : 0};
}

static inline void store_part_f64(double *p, vec_f64 x, int n) {
  for (int i = 0; i < n; i++) p[i] = x[i];
}

static inline vec_f32 load_part_f32(const float *p, int n) {
  return (vec_f32){p[0], n > 1 ? p[1] : 0, n > 2 ? p[2] : 0, n > 3 ? p[3] : 0};
}

static inline void store_part_f32(float *p, vec_f32 x, int n) {
  for (int i = 0; i < n; i++) p[i] = x[i];
}

#define T double
#define V vec_f64
#define NAME(x) x##_f64_baseline
#define LANES 2
#define MASK int
#define MASK_OF(n) (n)
#define LOAD_PART(p, n) load_part_f64(p, n)
#define STORE_PART(p, x, n) store_part_f64(p, x, n)
#define PARTS_ARE_FREE 0
#define LOW(x, y) TC_BLAS_LOW_2(vec_i64, x, y)
#define HIGH(x, y) TC_BLAS_HIGH_2(vec_i64, x, y)
#if defined(__aarch64__)
#define VECS 3
#define COLS 8
#define FMA(x, y, z) ((V)vfmaq_f64((float64x2_t)(z), (float64x2_t)(x), (float64x2_t)(y)))
#else
#define VECS 2
#define COLS 4
#define FMA(x, y, z) ((x) * (y) + (z))
#endif
#include "kernels/blas/tile.h"
#include "kernels/blas/triangle.h"
#include "kernels/blas/vector_tile.h"
#include "kernels/blas/undef.h"

#define T float
#define V vec_f32
#define NAME(x) x##_f32_baseline
#define LANES 4
#define MASK int
#define MASK_OF(n) (n)
#define LOAD_PART(p, n) load_part_f32(p, n)
#define STORE_PART(p, x, n) store_part_f32(p, x, n)
#define PARTS_ARE_FREE 0
#define LOW(x, y) TC_BLAS_LOW_4(vec_i32, x, y)
#define HIGH(x, y) TC_BLAS_HIGH_4(vec_i32, x, y)
#if defined(__aarch64__)
#define VECS 3
#define COLS 8
#define FMA(x, y, z) ((V)vfmaq_f32((float32x4_t)(z), (float32x4_t)(x), (float32x4_t)(y)))
#else
#define VECS 2
#define COLS 4
#define FMA(x, y, z) ((x) * (y) + (z))
#endif
#include "kernels/blas/tile.h"
#include "kernels/blas/triangle.h"
#include "kernels/blas/vector_tile.h"
