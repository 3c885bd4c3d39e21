// The kernels of one element type and instruction set, as a template. See kernels.h.
//
// The file that includes it says what a vector is:
//   T, V          an element, and a vector of LANES elements
//   NAME(x)       x with the type and the set in it
//   VECS, COLS    a tile: VECS vectors of rows by COLS columns, all in registers
//   MASK, MASK_OF(n)             says that the first n elements of a vector are wanted
//   LOAD_PART, STORE_PART        touch those elements alone; the others load as zero
//   FMA(x, y, z)                 x * y + z, rounded as the set does
//   PARTS_ARE_FREE               1: loading a part takes no longer than a vector
//   LOW, HIGH(x, y)              interleave the lower, upper halves of two vectors
// A tile's accumulators are an array whose indices are constants once loops are unrolled.

typedef T NAME(unaligned) __attribute__((vector_size(sizeof(V)), aligned(sizeof(T)), may_alias));

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")
#define MR (VECS * LANES)
#define SPAN_BYTES 512  // that are packed together, of operands that are not transposed

INLINE V NAME(load)(const T *p) {
  return *(const NAME(unaligned) *)p;
}

INLINE void NAME(store)(T *p, V x) {
  *(NAME(unaligned) *)p = x;
}

// Stores the last vector of a tile's column as a part.
INLINE void NAME(store_last)(bool is_last, T *p, V x, MASK part) {
  if (PARTS_ARE_FREE && is_last)
    STORE_PART(p, x, part);
  else
    NAME(store)(p, x);
}

INLINE V NAME(splat)(T x) {
  return x - (V){0};
}

// ---- Tiles ----

// How a tile is written: the first `cols` columns, the last vector as a part unless `whole`.
typedef struct NAME(target) {
  T *c;
  int64_t ldc;
  T alpha, beta;
  int cols;
  bool whole;
  MASK part;
} NAME(target);

// Writes a tile of fewer columns or rows; sums: MR apart.
static __attribute__((noinline)) void NAME(write_part)(int vecs, const T *sums, const NAME(target) * t) {
  V alpha = NAME(splat)(t->alpha), beta = NAME(splat)(t->beta);
  for (int j = 0; j < t->cols; j++)
    for (int v = 0; v < vecs; v++) {
      T *c = t->c + j * t->ldc + v * LANES;
      V sum = alpha * NAME(load)(sums + j * MR + v * LANES);
      if (v < vecs - 1 || t->whole)
        NAME(store)(c, t->beta == 0 ? sum : FMA(beta, NAME(load)(c), sum));
      else
        STORE_PART(c, t->beta == 0 ? sum : FMA(beta, LOAD_PART(c, t->part), sum), t->part);
    }
}

INLINE void NAME(write_tile)(int vecs, int cols, V acc[VECS][COLS], const NAME(target) * t) {
  if (TC_UNLIKELY(t->cols < cols || (!PARTS_ARE_FREE && !t->whole))) {
    T sums[COLS * MR];
    UNROLL for (int j = 0; j < cols; j++) {
      UNROLL for (int v = 0; v < vecs; v++) NAME(store)(sums + j * MR + v * LANES, acc[v][j]);
    }
    NAME(write_part)(vecs, sums, t);
    return;
  }
  V alpha = NAME(splat)(t->alpha), beta = NAME(splat)(t->beta);
  MASK part = t->part;
  T *c = t->c;
  int64_t ldc = t->ldc;
  bool reads = t->beta != 0;
  if (reads) {
    UNROLL for (int j = 0; j < cols; j++) {
      UNROLL for (int v = 0; v < vecs; v++) {
        V old = PARTS_ARE_FREE && v == vecs - 1 ? LOAD_PART(c + v * LANES, part) : NAME(load)(c + v * LANES);
        NAME(store_last)(v == vecs - 1, c + v * LANES, FMA(beta, old, alpha * acc[v][j]), part);
      }
      c += ldc;
    }
  } else {
    UNROLL for (int j = 0; j < cols; j++) {
      UNROLL for (int v = 0; v < vecs; v++) NAME(store_last)(v == vecs - 1, c + v * LANES, alpha * acc[v][j], part);
      c += ldc;
    }
  }
}

// One step of k. a: its column; b[j]: where column j's element lies, by `step` elements further.
// parts: the last vector of a is loaded as a part.
INLINE void NAME(add_step)(int vecs, int cols, V acc[VECS][COLS], const T *a, const T *const *b, int64_t step,
                           bool parts, MASK part) {
  V x[VECS];
  UNROLL for (int v = 0; v < vecs; v++) {
    x[v] = parts && v == vecs - 1 ? LOAD_PART(a + v * LANES, part) : NAME(load)(a + v * LANES);
  }
  UNROLL for (int j = 0; j < cols; j++) {
    V y = NAME(splat)(b[j][step]);
    UNROLL for (int v = 0; v < vecs; v++) acc[v][j] = FMA(x[v], y, acc[v][j]);
  }
}

INLINE void NAME(clear)(int vecs, int cols, V acc[VECS][COLS]) {
  UNROLL for (int v = 0; v < vecs; v++) {
    UNROLL for (int j = 0; j < cols; j++) acc[v][j] = (V){0};
  }
}

// A tile of packed panels.
INLINE void NAME(add_packed)(int vecs, int cols, int64_t k, const T *a, const T *b, const NAME(target) * t) {
  V acc[VECS][COLS];
  NAME(clear)(vecs, cols, acc);
  UNROLL for (int j = 0; j < cols; j++) {
    const T *c = t->c + TC_MIN(j, t->cols - 1) * t->ldc;
    UNROLL for (int v = 0; v < vecs; v++) __builtin_prefetch(c + v * LANES, 1);
  }
  MASK all = t->part;
  _Pragma("GCC unroll 4") for (int64_t i = 0; i < k; i++) {
    const T *columns[COLS];
    UNROLL for (int j = 0; j < cols; j++) columns[j] = b + j;
    NAME(add_step)(vecs, cols, acc, a, columns, 0, false, all);
    a += MR;
    b += COLS;
  }
  NAME(write_tile)(vecs, cols, acc, t);
}

// A tile of operands that lie anywhere: a has columns of unit stride, a_col apart.
INLINE void NAME(add_direct)(int vecs, int cols, bool parts, int64_t k, const T *a, int64_t a_col, const T *b,
                             int64_t b_row, int64_t b_col, const NAME(target) * t) {
  V acc[VECS][COLS];
  NAME(clear)(vecs, cols, acc);
  const T *columns[COLS];
  int last = t->cols - 1;
  UNROLL for (int j = 0; j < cols; j++) {
    columns[j] = b;
    b += j < last ? b_col : 0;
  }
  int64_t step = 0;
  for (int64_t i = 0; i < k; i++) {
    NAME(add_step)(vecs, cols, acc, a, columns, step, parts, t->part);
    a += a_col;
    step += b_row;
  }
  NAME(write_tile)(vecs, cols, acc, t);
}

// ---- Products of packed operands ----

typedef void NAME(packed_tile)(int64_t k, const T *a, const T *b, const NAME(target) * t);

#define PACKED_TILE(vecs) \
  static __attribute__((noinline)) void NAME(packed_##vecs)(int64_t k, const T *a, const T *b, \
                                                            const NAME(target) * t) { \
    NAME(add_packed)(vecs, COLS, k, a, b, t); \
  }
PACKED_TILE(1)
PACKED_TILE(2)
#if VECS == 3
PACKED_TILE(3)
static NAME(packed_tile) *const NAME(packed_tiles)[] = {NAME(packed_1), NAME(packed_2), NAME(packed_3)};
#else
static NAME(packed_tile) *const NAME(packed_tiles)[] = {NAME(packed_1), NAME(packed_2)};
#endif

static void NAME(packed)(const tc_blas_product *p, const void *a, const void *b) {
  NAME(target) t;
  t.alpha = (T)p->alpha;
  t.beta = (T)p->beta;
  t.ldc = p->ldc;
  for (int64_t j = 0; j < p->n; j += COLS) {
    t.cols = (int)TC_MIN(p->n - j, COLS);
    for (int64_t i = 0; i < p->m; i += MR) {
      int rows = (int)TC_MIN(p->m - i, MR), vecs = (rows + LANES - 1) / LANES;
      t.c = (T *)p->c + i + j * p->ldc;
      t.whole = rows % LANES == 0;
      t.part = MASK_OF(rows - (vecs - 1) * LANES);
      NAME(packed_tiles)[vecs - 1](p->k, (const T *)a + i * p->k, (const T *)b + j * p->k, &t);
    }
  }
}

// ---- Packing ----

// Rows of N matrices' lines of LANES elements become the order element, line.
INLINE void NAME(interleave)(int n, V x[LANES > COLS ? LANES : COLS]) {
  V y[LANES > COLS ? LANES : COLS];
  UNROLL for (int half = n / 2, length = 1; half >= 1; half /= 2, length *= 2) {
    UNROLL for (int i = 0; i < half; i++) {
      UNROLL for (int v = 0; v < length; v++) {
        V first = x[i * length + v], second = x[(i + half) * length + v];
        y[2 * (i * length + v)] = LOW(first, second);
        y[2 * (i * length + v) + 1] = HIGH(first, second);
      }
    }
    UNROLL for (int v = 0; v < n; v++) x[v] = y[v];
  }
}

// Lines that are contiguous along k, `line` elements apart, become panels of `width` lines. n: how
// many are transposed at once. Vectors of the panel without a line are left as they are: no tile
// reads them.
INLINE void NAME(pack_lines)(T *out, const T *in, int64_t line, int lines, int64_t k, int width, int n) {
  MASK all = MASK_OF(LANES);
  for (int first = 0; first < lines; first += n) {
    for (int64_t i = 0; i < k; i += LANES) {
      int steps = (int)TC_MIN(k - i, LANES);
      MASK part = steps < LANES ? MASK_OF(steps) : all;
      V x[LANES > COLS ? LANES : COLS];
      UNROLL for (int r = 0; r < n; r++) {
        const T *from = in + (first + r) * line + i;
        x[r] = first + r >= lines ? (V){0} : steps == LANES ? NAME(load)(from) : LOAD_PART(from, part);
      }
      NAME(interleave)(n, x);
      UNROLL for (int v = 0; v < n; v++) {
        // Vector v begins with step v * LANES / n; where the panel is as wide as n, several follow
        // each other.
        T *to = out + first + i * width + (width == n ? v * LANES : v * width);
        int wanted = width == n ? steps * n - v * LANES : v < steps ? LANES : 0;
        if (wanted >= LANES) {
          NAME(store)(to, x[v]);
        } else if (wanted > 0) {
          STORE_PART(to, x[v], MASK_OF(wanted));
        }
      }
    }
  }
}

// Packs lines that lie side by side: of unit stride across, `step` elements apart along k. Whole
// panels: several at a time, so that memory is read in longer spans.
INLINE void NAME(pack_steps)(T *out, const T *in, int64_t step, int64_t panels, int64_t k, int width) {
  for (int64_t i = 0; i < k; i++, out += width, in += step)
    for (int64_t q = 0; q < panels; q++)
      __builtin_memcpy(out + q * width * k, in + q * width, (size_t)width * sizeof(T));
}

// A last panel of fewer lines.
INLINE void NAME(pack_few_steps)(T *out, const T *in, int64_t step, int lines, int64_t k, int width) {
  for (int64_t i = 0; i < k; i++, out += width, in += step)
    for (int v = 0; v < width; v += LANES) {
      int there = TC_MIN(TC_MAX_OF(lines - v, 0), LANES), room = TC_MIN(width - v, LANES);
      V x = there == 0 ? (V){0} : LOAD_PART(in + v, MASK_OF(there));
      if (room == LANES)
        NAME(store)(out + v, x);
      else
        STORE_PART(out + v, x, MASK_OF(room));
    }
}

// across, along: strides from line to line and along k.
INLINE void NAME(pack)(T *out, const T *in, int64_t across, int64_t along, int64_t lines, int64_t k, int width, int n) {
  for (int64_t first = 0; first < lines;) {
    int64_t left = lines - first, panels = 1;
    if (across != 1) {
      NAME(pack_lines)(out, in + first * across, across, (int)TC_MIN(left, width), k, width, n);
    } else if (left < width) {
      NAME(pack_few_steps)(out, in + first, along, (int)left, k, width);
    } else {
      panels = TC_MIN(left / width, TC_MAX_OF(SPAN_BYTES / (width * (int)sizeof(T)), 1));
      NAME(pack_steps)(out, in + first, along, panels, k, width);
    }
    first += panels * width;
    out += panels * width * k;
  }
}

static void NAME(pack_a)(void *out, const void *a, int64_t row, int64_t col, int64_t m, int64_t k) {
  NAME(pack)(out, a, row, col, m, k, MR, LANES);
}

static void NAME(pack_b)(void *out, const void *b, int64_t row, int64_t col, int64_t k, int64_t n) {
  NAME(pack)(out, b, col, row, n, k, COLS, COLS);
}

// ---- Products of operands where they lie ----

typedef void NAME(direct_tile)(int64_t k, const T *a, int64_t a_col, const T *b, int64_t b_row, int64_t b_col,
                               const NAME(target) * t);

#define DIRECT_TILE(vecs, cols) \
  static __attribute__((noinline)) void NAME(direct_##vecs##_##cols)( \
      int64_t k, const T *a, int64_t a_col, const T *b, int64_t b_row, int64_t b_col, const NAME(target) * t) { \
    if (PARTS_ARE_FREE || !t->whole) \
      NAME(add_direct)(vecs, cols, true, k, a, a_col, b, b_row, b_col, t); \
    else \
      NAME(add_direct)(vecs, cols, false, k, a, a_col, b, b_row, b_col, t); \
  }
#define DIRECT_TILES(vecs) \
  DIRECT_TILE(vecs, 1) \
  DIRECT_TILE(vecs, 2) \
  DIRECT_TILE(vecs, 4)
#define DIRECT_ROW(vecs) NAME(direct_##vecs##_1), NAME(direct_##vecs##_2), NAME(direct_##vecs##_4)
DIRECT_TILES(1)
DIRECT_TILES(2)
#if VECS == 3
DIRECT_TILES(3)
#endif
#if COLS == 8
DIRECT_TILE(1, 8)
DIRECT_TILE(2, 8)
DIRECT_TILE(3, 8)
#define DIRECT_LAST(vecs) , NAME(direct_##vecs##_8)
#else
#define DIRECT_LAST(vecs)
#endif
// By vectors of rows, and by the power of two of columns.
static NAME(direct_tile) *const NAME(direct_tiles)[VECS][COLS == 8 ? 4 : 3] = {
    {DIRECT_ROW(1) DIRECT_LAST(1)},
    {DIRECT_ROW(2) DIRECT_LAST(2)},
#if VECS == 3
    {DIRECT_ROW(3) DIRECT_LAST(3)},
#endif
};

// Rows of the product that are one tile high.
INLINE void NAME(direct_rows)(const tc_blas_product *p, int vecs, const T *a, int64_t a_col, NAME(target) * t, T *c) {
  for (int64_t j = 0; j < p->n; j += COLS) {
    int cols = (int)TC_MIN(p->n - j, COLS);
    int power = cols > 4 ? 3 : cols > 2 ? 2 : cols - 1;
    t->cols = cols;
    t->c = c + j * p->ldc;
    NAME(direct_tiles)[vecs - 1][power](p->k, a, a_col, (const T *)p->b + j * p->b_col, p->b_row, p->b_col, t);
  }
}

// pre: vecs vectors hold the rows.
INLINE void NAME(set_rows)(NAME(target) * t, int rows, int vecs) {
  t->whole = rows == vecs * LANES;
  t->part = MASK_OF(rows - (vecs - 1) * LANES);
}

// panel: memory for a transposed panel of a.
static __attribute__((noinline)) void NAME(direct_transposed)(const tc_blas_product *p, int vecs, int64_t i, int rows,
                                                              NAME(target) * t, T *panel) {
  NAME(pack_lines)(panel, (const T *)p->a + i * p->a_row, p->a_row, rows, p->k, MR, LANES);
  NAME(set_rows)(t, rows, vecs);
  NAME(direct_rows)(p, vecs, panel, MR, t, (T *)p->c + i);
}

static __attribute__((noinline)) void NAME(direct_on_stack)(const tc_blas_product *p, int vecs, int64_t i, int rows,
                                                            NAME(target) * t) {
  _Alignas(64) T panel[MR * TC_BLAS_DIRECT_K];
  NAME(direct_transposed)(p, vecs, i, rows, t, panel);
}

// Vectors of rows are shared evenly by tiles: 4 are 2 and 2, since 3 and 1 would load more.
static void NAME(direct)(const tc_blas_product *p, void *panel) {
  NAME(target) t;
  t.alpha = (T)p->alpha;
  t.beta = (T)p->beta;
  t.ldc = p->ldc;
  for (int64_t i = 0; i < p->m;) {
    int64_t left = (p->m - i + LANES - 1) / LANES;
    int vecs = left == VECS + 1 ? 2 : (int)TC_MIN(left, VECS), rows = (int)TC_MIN(p->m - i, vecs * LANES);
    if (p->a_row == 1) {
      NAME(set_rows)(&t, rows, vecs);
      NAME(direct_rows)(p, vecs, (const T *)p->a + i, p->a_col, &t, (T *)p->c + i);
    } else if (p->k <= TC_BLAS_DIRECT_K) {
      NAME(direct_on_stack)(p, vecs, i, rows, &t);
    } else {
      NAME(direct_transposed)(p, vecs, i, rows, &t, panel);
    }
    i += rows;
  }
}

const tc_blas_kernels NAME(tc_blas) = {
    .bytes = sizeof(T),
    .mr = MR,
    .nr = COLS,
    .pack_a = NAME(pack_a),
    .pack_b = NAME(pack_b),
    .packed = NAME(packed),
    .direct = NAME(direct),
};
