// Kernels of triangular solves and products, of one element type and instruction set, as a
// template over the words of tile.h. See triangles.h.
//
// Right-hand sides stand in lanes. So a panel of them, [unknown][MR], is the packed operand of a
// tile and the tile itself. Every step is a whole vector's:
//
//   for blocks of COLS unknowns, each after those that it depends on:
//     acc = sides * panel      the unknowns before, by the tile's own loop
//     acc = corner \ (alpha * x - acc)      or corner * x + acc, for a product

#define CORNER (COLS * COLS)

// Packs the triangle of a, whose strides one of which is 1.
static void NAME(pack_triangle)(const tc_blas_triangle *t, const void *a, int64_t row, int64_t col) {
  for (int64_t i = 0; i < t->n; i += COLS) {
    int64_t rows = TC_MIN(t->n - i, COLS), from = t->is_upper ? i + rows : 0, to = t->is_upper ? t->n : i;
    const T *at = (const T *)a + i * row;
    T *corner = (T *)t->corners + i * COLS;
    if (to > from) NAME(pack_b)((T *)t->sides + i * t->n + from * COLS, at + from * col, col, row, to - from, rows);
    for (int64_t j = 0; j < COLS; j++)
      for (int64_t q = 0; q < COLS; q++) {
        bool there = j < rows && q < rows && (t->is_upper ? q > j : q < j);
        corner[j * COLS + q] = there ? at[j * row + (i + q) * col] : 0;
      }
    for (int64_t j = 0; j < COLS; j++) {
      T d = t->is_unit || j >= rows ? 1 : at[j * row + (i + j) * col];
      corner[j * COLS + j] = t->is_product || t->divides ? d : 1 / d;
    }
  }
}

// Whether the reciprocal of each element of the diagonal, `step` apart, is a normal number.
static bool NAME(has_reciprocals)(const void *diagonal, int64_t step, int64_t n) {
  T least = sizeof(T) == 8 ? (T)0x1p-1000 : (T)0x1p-120f, most = 1 / least;
  bool all = true;
  for (int64_t i = 0; i < n; i++) {
    T d = ((const T *)diagonal)[i * step];
    all &= (d >= least && d <= most) || (-d >= least && -d <= most);
  }
  return all;
}

INLINE void NAME(sum_sides)(int vecs, V acc[VECS][COLS], int64_t steps, const T *x, const T *a, MASK all) {
  NAME(clear)(vecs, COLS, acc);
  _Pragma("GCC unroll 2") for (int64_t p = 0; p < steps; p++) {
    const T *columns[COLS];
    UNROLL for (int j = 0; j < COLS; j++) columns[j] = a + j;
    NAME(add_step)(vecs, COLS, acc, x, columns, 0, false, all);
    x += MR;
    a += COLS;
  }
}

// acc: the unknowns' sums; x: their block of the panel.
INLINE void NAME(solve_corner)(int vecs, V acc[VECS][COLS], bool is_upper, bool divides, T scale, T *x,
                               const T *corner) {
  V alpha = NAME(splat)(scale);
  UNROLL for (int j = 0; j < COLS; j++) {
    UNROLL for (int v = 0; v < vecs; v++) acc[v][j] = alpha * NAME(load)(x + j * MR + v * LANES) - acc[v][j];
  }
  UNROLL for (int step = 0; step < COLS; step++) {
    int j = is_upper ? COLS - 1 - step : step;
    V d = NAME(splat)(corner[j * COLS + j]);
    UNROLL for (int v = 0; v < vecs; v++) {
      acc[v][j] = divides ? acc[v][j] / d : acc[v][j] * d;
      NAME(store)(x + j * MR + v * LANES, acc[v][j]);
    }
    UNROLL for (int after = step + 1; after < COLS; after++) {
      int l = is_upper ? COLS - 1 - after : after;
      V c = NAME(splat)(-corner[l * COLS + j]);
      UNROLL for (int v = 0; v < vecs; v++) acc[v][l] = FMA(c, acc[v][j], acc[v][l]);
    }
  }
}

INLINE void NAME(multiply_corner)(int vecs, V acc[VECS][COLS], bool is_upper, T scale, T *x, const T *corner) {
  V alpha = NAME(splat)(scale);
  UNROLL for (int q = 0; q < COLS; q++) {
    V other[VECS];
    UNROLL for (int v = 0; v < vecs; v++) other[v] = NAME(load)(x + q * MR + v * LANES);
    UNROLL for (int j = 0; j < COLS; j++) {
      if (is_upper ? j > q : j < q) continue;
      V c = NAME(splat)(corner[j * COLS + q]);
      UNROLL for (int v = 0; v < vecs; v++) acc[v][j] = FMA(c, other[v], acc[v][j]);
    }
  }
  UNROLL for (int j = 0; j < COLS; j++) {
    UNROLL for (int v = 0; v < vecs; v++) NAME(store)(x + j * MR + v * LANES, alpha * acc[v][j]);
  }
}

// Blocks are solved from the diagonal's end that depends on nothing. A product begins at the other
// end: so what it reads is not yet written.
INLINE void NAME(run_panel)(int vecs, bool is_upper, const tc_blas_triangle *t, T *x) {
  T alpha = (T)t->alpha;
  MASK all = MASK_OF(LANES);
  int64_t last = (t->n - 1) / COLS * COLS;
  bool falls = is_upper != t->is_product;
  for (int64_t step = 0; step <= last; step += COLS) {
    int64_t i = falls ? last - step : step, from = is_upper ? i + COLS : 0, to = is_upper ? t->n : i;
    V acc[VECS][COLS];
    const T *sides = (const T *)t->sides + i * t->n, *corner = (const T *)t->corners + i * COLS;
    NAME(sum_sides)(vecs, acc, to - from, x + from * MR, sides + from * COLS, all);
    if (t->is_product)
      NAME(multiply_corner)(vecs, acc, is_upper, alpha, x + i * MR, corner);
    else if (t->divides)
      NAME(solve_corner)(vecs, acc, is_upper, true, alpha, x + i * MR, corner);
    else
      NAME(solve_corner)(vecs, acc, is_upper, false, alpha, x + i * MR, corner);
  }
}

#define PANEL(vecs) \
  static __attribute__((noinline)) void NAME(lower_panel_##vecs)(const tc_blas_triangle *t, T *x) { \
    NAME(run_panel)(vecs, false, t, x); \
  } \
  static __attribute__((noinline)) void NAME(upper_panel_##vecs)(const tc_blas_triangle *t, T *x) { \
    NAME(run_panel)(vecs, true, t, x); \
  }
PANEL(1)
PANEL(2)
#if VECS == 3
PANEL(3)
#endif
static void (*const NAME(panels)[VECS][2])(const tc_blas_triangle *t, T *x) = {
    {NAME(lower_panel_1), NAME(upper_panel_1)},
    {NAME(lower_panel_2), NAME(upper_panel_2)},
#if VECS == 3
    {NAME(lower_panel_3), NAME(upper_panel_3)},
#endif
};

// Writes a panel back to right-hand sides whose unknowns lie side by side, `ld` elements apart.
static void NAME(unpack_lines)(T *b, int64_t ld, const T *x, int64_t n, int64_t count) {
  MASK all = MASK_OF(LANES);
  for (int64_t first = 0; first < count; first += LANES, b += LANES * ld, x += LANES) {
    int lines = (int)TC_MIN(count - first, LANES);
    for (int64_t i = 0; i < n; i += LANES) {
      int there = (int)TC_MIN(n - i, LANES);
      V rows[LANES > COLS ? LANES : COLS];
      UNROLL for (int r = 0; r < LANES; r++) {
        rows[r] = r < there ? NAME(load)(x + (i + r) * MR) : (V){0};
      }
      NAME(interleave)(LANES, rows);
      MASK part = there < LANES ? MASK_OF(there) : all;
      UNROLL for (int r = 0; r < LANES; r++) {
        if (r >= lines) break;
        if (there == LANES)
          NAME(store)(b + r * ld + i, rows[r]);
        else
          STORE_PART(b + r * ld + i, rows[r], part);
      }
    }
  }
}

static void NAME(unpack_steps)(T *b, int64_t step, const T *x, int64_t n, int64_t count) {
  for (int64_t i = 0; i < n; i++, b += step, x += MR) __builtin_memcpy(b, x, (size_t)count * sizeof(T));
}

// Solves for, or multiplies, `count` right-hand sides where they lie; panel: room for one of n
// unknowns, rounded up to blocks.
static void NAME(run_triangle)(const tc_blas_triangle *t, void *b, int64_t row, int64_t col, int64_t count,
                               void *panel) {
  T *x = panel;
  int64_t rounded = (t->n + COLS - 1) / COLS * COLS;
  for (int64_t first = 0; first < count; first += MR) {
    int64_t there = TC_MIN(count - first, MR);
    T *at = (T *)b + first * col;
    NAME(pack_a)(x, at, col, row, there, t->n);
    for (int64_t i = t->n * MR; i < rounded * MR; i++) x[i] = 0;
    NAME(panels)[(there - 1) / LANES][t->is_upper](t, x);
    if (col == 1)
      NAME(unpack_steps)(at, row, x, t->n, there);
    else
      NAME(unpack_lines)(at, col, x, t->n, there);
  }
}

const tc_blas_triangle_kernels NAME(tc_blas_triangle) = {
    .pack = NAME(pack_triangle),
    .has_reciprocals = NAME(has_reciprocals),
    .run = NAME(run_triangle),
};

#undef CORNER
#undef PANEL
