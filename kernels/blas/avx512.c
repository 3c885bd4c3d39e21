// Kernels of direct products for AVX-512: 24 accumulators of 32 registers. See tile.h.
#include <immintrin.h>

#include "kernels/blas/level1.h"
#include "kernels/blas/triangles.h"
#include "kernels/blas/vectors.h"

typedef double vec_f64 __attribute__((vector_size(64)));
typedef float vec_f32 __attribute__((vector_size(64)));
typedef int64_t vec_i64 __attribute__((vector_size(64)));
typedef int32_t vec_i32 __attribute__((vector_size(64)));

static inline __mmask8 first_f64(int n) {
  return (__mmask8)((1u << n) - 1);
}

static inline __mmask16 first_f32(int n) {
  return (__mmask16)((1u << n) - 1);
}

#define T double
#define V vec_f64
#define NAME(x) x##_f64_avx512
#define LANES 8
#define VECS 3
#define COLS 8
#define MASK __mmask8
#define MASK_OF(n) first_f64(n)
#define LOAD_PART(p, mask) ((V)_mm512_maskz_loadu_pd(mask, p))
#define STORE_PART(p, x, mask) _mm512_mask_storeu_pd(p, mask, (__m512d)(x))
#define FMA(x, y, z) ((V)_mm512_fmadd_pd((__m512d)(x), (__m512d)(y), (__m512d)(z)))
#define PARTS_ARE_FREE 1
#define LOW(x, y) TC_BLAS_LOW_8(vec_i64, x, y)
#define HIGH(x, y) TC_BLAS_HIGH_8(vec_i64, x, y)
#include "kernels/blas/tile.h"
#include "kernels/blas/triangle.h"
#include "kernels/blas/vector_tile.h"
#include "kernels/blas/undef.h"

#define T float
#define V vec_f32
#define NAME(x) x##_f32_avx512
#define LANES 16
#define VECS 3
#define COLS 8
#define MASK __mmask16
#define MASK_OF(n) first_f32(n)
#define LOAD_PART(p, mask) ((V)_mm512_maskz_loadu_ps(mask, p))
#define STORE_PART(p, x, mask) _mm512_mask_storeu_ps(p, mask, (__m512)(x))
#define FMA(x, y, z) ((V)_mm512_fmadd_ps((__m512)(x), (__m512)(y), (__m512)(z)))
#define PARTS_ARE_FREE 1
#define LOW(x, y) TC_BLAS_LOW_16(vec_i32, x, y)
#define HIGH(x, y) TC_BLAS_HIGH_16(vec_i32, x, y)
#include "kernels/blas/tile.h"
#include "kernels/blas/triangle.h"
#include "kernels/blas/vector_tile.h"
