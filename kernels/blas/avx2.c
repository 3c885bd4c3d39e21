// Kernels of direct products for AVX2 with FMA: 12 accumulators of 16 registers. See tile.h.
#include <immintrin.h>

#include "kernels/blas/level1.h"
#include "kernels/blas/triangles.h"
#include "kernels/blas/vectors.h"

typedef double vec_f64 __attribute__((vector_size(32)));
typedef float vec_f32 __attribute__((vector_size(32)));
typedef int64_t vec_i64 __attribute__((vector_size(32)));
typedef int32_t vec_i32 __attribute__((vector_size(32)));

#define T double
#define V vec_f64
#define NAME(x) x##_f64_avx2
#define LANES 4
#define VECS 3
#define COLS 4
#define MASK vec_i64
#define MASK_OF(n) ((vec_i64){0, 1, 2, 3} < (int64_t)(n))
#define LOAD_PART(p, mask) ((V)_mm256_maskload_pd(p, (__m256i)(mask)))
#define STORE_PART(p, x, mask) _mm256_maskstore_pd(p, (__m256i)(mask), (__m256d)(x))
#define FMA(x, y, z) ((V)_mm256_fmadd_pd((__m256d)(x), (__m256d)(y), (__m256d)(z)))
#define PARTS_ARE_FREE 0
#define LOW(x, y) TC_BLAS_LOW_4(vec_i64, x, y)
#define HIGH(x, y) TC_BLAS_HIGH_4(vec_i64, x, y)
#include "kernels/blas/tile.h"
#include "kernels/blas/triangle.h"
#include "kernels/blas/vector_tile.h"
#include "kernels/blas/undef.h"

#define T float
#define V vec_f32
#define NAME(x) x##_f32_avx2
#define LANES 8
#define VECS 3
#define COLS 4
#define MASK vec_i32
#define MASK_OF(n) ((vec_i32){0, 1, 2, 3, 4, 5, 6, 7} < (int32_t)(n))
#define LOAD_PART(p, mask) ((V)_mm256_maskload_ps(p, (__m256i)(mask)))
#define STORE_PART(p, x, mask) _mm256_maskstore_ps(p, (__m256i)(mask), (__m256)(x))
#define FMA(x, y, z) ((V)_mm256_fmadd_ps((__m256)(x), (__m256)(y), (__m256)(z)))
#define PARTS_ARE_FREE 0
#define LOW(x, y) TC_BLAS_LOW_8(vec_i32, x, y)
#define HIGH(x, y) TC_BLAS_HIGH_8(vec_i32, x, y)
#include "kernels/blas/tile.h"
#include "kernels/blas/triangle.h"
#include "kernels/blas/vector_tile.h"
