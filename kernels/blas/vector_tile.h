// Kernels of levels 1 and 2, of one element type and instruction set, as a template over the words
// of tile.h. See level1.h.
//
// Vectors of unit stride go by vectors; others by elements, in the order of the BLAS reference.
// Sums are cut in spans. A span has many short chains, and spans are added in double. So a sum of
// f32 keeps its digits however long it is.

#define CHAINS 4
#define SPAN 2048  // elements of a span; rows that gemv and ger do at a time
#define SQUARES_LEAST 0x1p-900  // a sum of squares below it may have lost some
#define AT(p, i) ((const T *)(p))[i]

// The sum of a vector's lanes.
INLINE double NAME(sum_lanes)(V x) {
  double sum = 0;
  UNROLL for (int i = 0; i < LANES; i++) sum += (double)x[i];
  return sum;
}

INLINE V NAME(load_rest)(const T *p, int64_t n) {
  return n >= LANES ? NAME(load)(p) : LOAD_PART(p, MASK_OF((int)n));
}

// What a comparison of vectors gives: all bits of a lane, or none.
typedef __typeof__((V){0} < (V){0}) NAME(bits);

INLINE V NAME(magnitude)(V x) {
  return (V)((NAME(bits))x & ~(NAME(bits))(-(V){0}));
}

// The sum of a span of x * y, or of |x|.
INLINE double NAME(sum_span)(int64_t n, const T *x, const T *y, bool is_dot) {
  V acc[CHAINS] = {0};
  int64_t i = 0;
  for (; i + CHAINS * LANES <= n; i += CHAINS * LANES) {
    UNROLL for (int c = 0; c < CHAINS; c++) {
      V one = NAME(load)(x + i + c * LANES);
      acc[c] = is_dot ? FMA(one, NAME(load)(y + i + c * LANES), acc[c]) : acc[c] + NAME(magnitude)(one);
    }
  }
  for (; i < n; i += LANES) {
    V one = NAME(load_rest)(x + i, n - i);
    acc[0] = is_dot ? FMA(one, NAME(load_rest)(y + i, n - i), acc[0]) : acc[0] + NAME(magnitude)(one);
  }
  return NAME(sum_lanes)((acc[0] + acc[1]) + (acc[2] + acc[3]));
}

// Returns n elements side by side: where they are, or packed.
INLINE const T *NAME(gather)(int64_t n, const T *x, int64_t inc, T packed[SPAN]) {
  if (inc == 1) return x;
  for (int64_t i = 0; i < n; i++) packed[i] = x[i * inc];
  return packed;
}

static double NAME(dot)(int64_t n, const void *x, int64_t incx, const void *y, int64_t incy) {
  T packed_x[SPAN], packed_y[SPAN];
  double sum = 0;
  for (int64_t i = 0; i < n; i += SPAN) {
    int64_t there = TC_MIN(n - i, SPAN);
    const T *span_x = NAME(gather)(there, &AT(x, i * incx), incx, packed_x);
    sum += NAME(sum_span)(there, span_x, NAME(gather)(there, &AT(y, i * incy), incy, packed_y), true);
  }
  return sum;
}

static double NAME(asum)(int64_t n, const void *x, int64_t incx) {
  T packed[SPAN];
  double sum = 0;
  for (int64_t i = 0; i < n; i += SPAN) {
    int64_t there = TC_MIN(n - i, SPAN);
    const T *span = NAME(gather)(there, &AT(x, i * incx), incx, packed);
    sum += NAME(sum_span)(there, span, span, false);
  }
  return sum;
}

// The greatest magnitude that is no NaN; 0 of none.
static T NAME(greatest)(int64_t n, const T *x, int64_t incx) {
  V most[CHAINS] = {0};
  T all = 0;
  int64_t i = 0;
  for (; incx == 1 && i + CHAINS * LANES <= n; i += CHAINS * LANES) {
    UNROLL for (int c = 0; c < CHAINS; c++) {
      V one = NAME(magnitude)(NAME(load)(x + i + c * LANES));
      NAME(bits) greater = one > most[c];
      most[c] = (V)((greater & (NAME(bits))one) | (~greater & (NAME(bits))most[c]));
    }
  }
  for (; i < n; i++) {
    T one = x[i * incx] < 0 ? -x[i * incx] : x[i * incx];
    all = one > all ? one : all;
  }
  UNROLL for (int c = 0; c < CHAINS; c++) {
    UNROLL for (int v = 0; v < LANES; v++) all = most[c][v] > all ? most[c][v] : all;
  }
  return all;
}

// A sum of squares of elements times `scale`. Squares of f32 are exact in double.
static double NAME(sum_squares)(int64_t n, const T *x, int64_t incx, double scale) {
  double acc[8] = {0};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    UNROLL for (int c = 0; c < 8; c++) {
      double one = (double)x[(i + c) * incx] * scale;
      acc[c] += one * one;
    }
  }
  for (; i < n; i++) acc[0] += (double)x[i * incx] * scale * ((double)x[i * incx] * scale);
  return ((acc[0] + acc[1]) + (acc[2] + acc[3])) + ((acc[4] + acc[5]) + (acc[6] + acc[7]));
}

// Where squares overflow or vanish, elements are scaled by a power of two first.
static double NAME(nrm2)(int64_t n, const void *x, int64_t incx) {
  double sum = NAME(sum_squares)(n, x, incx, 1);
  if (sum >= SQUARES_LEAST && sum <= __DBL_MAX__) return __builtin_sqrt(sum);
  if (sum != sum) return sum;
  double most = (double)NAME(greatest)(n, x, incx);
  if (most == 0 || most > __DBL_MAX__) return most;
  double scale = most > 1 ? 0x1p-600 : 0x1p+600;
  return __builtin_sqrt(NAME(sum_squares)(n, x, incx, scale)) / scale;
}

static int64_t NAME(iamax)(int64_t n, const void *x, int64_t incx) {
  if (AT(x, 0) != AT(x, 0)) return 0;
  T most = 0;
  int64_t first = 0;  // of the span that has it
  for (int64_t i = 0; i < n; i += SPAN) {
    T here = NAME(greatest)(TC_MIN(n - i, SPAN), &AT(x, i * incx), incx);
    if (here > most) first = i;
    most = here > most ? here : most;
  }
  while (AT(x, first * incx) != most && AT(x, first * incx) != -most) first++;
  return first;
}

static void NAME(axpy)(int64_t n, double alpha, const void *x, int64_t incx, void *y, int64_t incy) {
  T a = (T)alpha, *to = y;
  if (incx == 1 && incy == 1)
    for (int64_t i = 0; i < n; i++) to[i] += a * AT(x, i);
  else
    for (int64_t i = 0; i < n; i++) to[i * incy] += a * AT(x, i * incx);
}

static void NAME(copy)(int64_t n, const void *x, int64_t incx, void *y, int64_t incy) {
  T *to = y;
  if (incx == 1 && incy == 1)
    for (int64_t i = 0; i < n; i++) to[i] = AT(x, i);
  else
    for (int64_t i = 0; i < n; i++) to[i * incy] = AT(x, i * incx);
}

static void NAME(swap)(int64_t n, void *x, int64_t incx, void *y, int64_t incy) {
  for (int64_t i = 0; i < n; i++) {
    T *first = (T *)x + i * incx, *second = (T *)y + i * incy, kept = *first;
    *first = *second;
    *second = kept;
  }
}

static void NAME(scal)(int64_t n, double alpha, void *x, int64_t incx) {
  T a = (T)alpha, *to = x;
  if (incx == 1)
    for (int64_t i = 0; i < n; i++) to[i] *= a;
  else
    for (int64_t i = 0; i < n; i++) to[i * incx] *= a;
}

// ---- Level 2 ----

// sums += 4 columns times x; columns that are not there have factor 0 and the first one's place.
INLINE void NAME(add_columns)(int64_t rows, T *sums, const T *const columns[4], const V factors[4]) {
  for (int64_t i = 0; i < rows; i += LANES) {
    V sum = NAME(load)(sums + i);
    UNROLL for (int c = 0; c < 4; c++) sum = FMA(NAME(load_rest)(columns[c] + i, rows - i), factors[c], sum);
    NAME(store)(sums + i, sum);
  }
}

// y = alpha * a * x + beta * y, of at most SPAN rows.
static void NAME(gemv_rows)(int64_t rows, int64_t n, double alpha, const T *a, int64_t lda, const T *x, int64_t incx,
                            double beta, T *y, int64_t incy) {
  _Alignas(64) T sums[SPAN + LANES];
  __builtin_memset(sums, 0, (size_t)(rows + LANES) * sizeof(T));
  int64_t j = 0;
  for (; j + 4 <= n; j += 4) {
    const T *columns[4];
    V factors[4];
    UNROLL for (int c = 0; c < 4; c++) {
      columns[c] = a + (j + c) * lda;
      factors[c] = NAME(splat)(x[(j + c) * incx]);
    }
    NAME(add_columns)(rows, sums, columns, factors);
  }
  for (; j < n; j++) {
    const T *column = a + j * lda;
    T factor = x[j * incx];
    for (int64_t i = 0; i < rows; i++) sums[i] += factor * column[i];
  }
  for (int64_t i = 0; i < rows; i++) y[i * incy] = (T)alpha * sums[i] + (beta == 0 ? 0 : (T)beta * y[i * incy]);
}

// y = alpha * a^T * x + beta * y; x: at most SPAN elements side by side.
static void NAME(gemv_columns)(int64_t rows, int64_t n, double alpha, const T *a, int64_t lda, const T *x, double beta,
                               T *y, int64_t incy) {
  for (int64_t j = 0; j < n; j += 4) {
    V acc[4] = {0};
    int count = (int)TC_MIN(n - j, 4);
    for (int64_t i = 0; i < rows; i += LANES) {
      V one = NAME(load_rest)(x + i, rows - i);
      UNROLL for (int c = 0; c < 4; c++) {
        const T *column = a + (j + TC_MIN(c, count - 1)) * lda;
        acc[c] = FMA(NAME(load_rest)(column + i, rows - i), one, acc[c]);
      }
    }
    UNROLL for (int c = 0; c < 4; c++) {
      if (c >= count) break;
      T *to = y + (j + c) * incy, sum = (T)alpha * (T)NAME(sum_lanes)(acc[c]);
      *to = sum + (beta == 0 ? 0 : (T)beta * *to);
    }
  }
}

static void NAME(gemv)(bool is_trans, int64_t m, int64_t n, double alpha, const void *a, int64_t lda, const void *x,
                       int64_t incx, double beta, void *y, int64_t incy) {
  for (int64_t i = 0; i < m; i += SPAN) {
    int64_t rows = TC_MIN(m - i, SPAN);
    if (!is_trans) {
      NAME(gemv_rows)(rows, n, alpha, &AT(a, i), lda, x, incx, beta, (T *)y + i * incy, incy);
      continue;
    }
    T packed[SPAN];
    const T *from = NAME(gather)(rows, &AT(x, i * incx), incx, packed);
    NAME(gemv_columns)(rows, n, alpha, &AT(a, i), lda, from, i == 0 ? beta : 1, y, incy);
  }
}

static void NAME(ger)(int64_t m, int64_t n, double alpha, const void *x, int64_t incx, const void *y, int64_t incy,
                      void *a, int64_t lda) {
  for (int64_t i = 0; i < m; i += SPAN) {
    int64_t rows = TC_MIN(m - i, SPAN);
    T packed[SPAN];
    const T *from = NAME(gather)(rows, &AT(x, i * incx), incx, packed);
    for (int64_t j = 0; j < n; j++) {
      T factor = (T)alpha * AT(y, j * incy), *restrict column = (T *)a + i + j * lda;
      for (int64_t r = 0; r < rows; r++) column[r] += from[r] * factor;
    }
  }
}

// Columns of a triangle are added to the unknowns that they meet; rows are summed.
static void NAME(triangle)(const tc_blas_triangle *t, const void *a, int64_t row, int64_t col, void *x, int64_t inc) {
  T *v = x;
  bool by_columns = row == 1, falls = t->is_upper != t->is_product, begins = by_columns == t->is_upper;
  if (t->alpha != 1)
    for (int64_t i = 0; i < t->n; i++) v[i * inc] *= (T)t->alpha;
  for (int64_t step = 0; step < t->n; step++) {
    int64_t j = falls ? t->n - 1 - step : step, from = begins ? 0 : j + 1, count = begins ? j : t->n - 1 - j;
    const T *side = &AT(a, by_columns ? from + j * col : from + j * row);
    T d = t->is_unit ? 1 : AT(a, j * (row + col)), *one = v + j * inc;
    if (by_columns) {
      if (!t->is_product) *one /= d;
      NAME(axpy)(count, (double)(t->is_product ? *one : -*one), side, 1, v + from * inc, inc);
      if (t->is_product) *one *= d;
    } else {
      T sum = (T)NAME(dot)(count, side, 1, v + from * inc, inc);
      *one = t->is_product ? d * *one + sum : (*one - sum) / d;
    }
  }
}

const tc_blas_vector_kernels NAME(tc_blas_vector) = {
    .axpy = NAME(axpy),
    .copy = NAME(copy),
    .swap = NAME(swap),
    .scal = NAME(scal),
    .dot = NAME(dot),
    .asum = NAME(asum),
    .nrm2 = NAME(nrm2),
    .iamax = NAME(iamax),
    .gemv = NAME(gemv),
    .ger = NAME(ger),
    .triangle = NAME(triangle),
};

#undef CHAINS
#undef SPAN
#undef SQUARES_LEAST
#undef AT
