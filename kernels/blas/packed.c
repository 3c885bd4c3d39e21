// Packed products of one thread, by the loops of gemm.c. Packing reads a symmetric operand from its
// stored triangle, and tiles write the wanted triangle alone. See packed.h.
//
// A panel of a symmetric operand is packed in three pieces along k:
//   before the diagonal: as stored; on it: element by element; behind it: transposed
// A tile that the diagonal crosses is computed in a copy of its wanted elements. So they see the
// same steps as elements of other tiles do.
#include "kernels/blas/packed.h"

#include "kernels/blas/gemm.h"
#include "runtime/status.h"

tc_blas_view tc_blas_view_at(tc_blas_view x, int64_t i, int64_t j, int bytes) {
  x.at = (char *)x.at + (i * x.row + j * x.col) * bytes;
  return x;
}

tc_blas_view tc_blas_view_transposed(tc_blas_view x) {
  return (tc_blas_view){x.at, x.col, x.row};
}

tc_blas_product tc_blas_product_of(int64_t m, int64_t n, int64_t k, double alpha, tc_blas_view a, tc_blas_view b,
                                   double beta, tc_blas_view c) {
  tc_blas_product p = {.k = k, .alpha = alpha, .beta = beta, .c = c.at};
  bool swaps = c.row != 1;
  tc_blas_view first = swaps ? b : a, second = swaps ? a : b;
  p.m = swaps ? n : m;
  p.n = swaps ? m : n;
  p.a = first.at;
  p.b = second.at;
  p.a_row = swaps ? first.col : first.row;
  p.a_col = swaps ? first.row : first.col;
  p.b_row = swaps ? second.col : second.row;
  p.b_col = swaps ? second.row : second.col;
  p.ldc = swaps ? c.row : c.col;
  return p;
}

// ---- Packing ----

// Packs lines of a: rows; or of b: columns.
static void pack_lines(const tc_blas_kernels *kernels, bool is_b, void *out, const void *in, int64_t across,
                       int64_t along, int64_t lines, int64_t k) {
  if (is_b)
    kernels->pack_b(out, in, along, across, k, lines);
  else
    kernels->pack_a(out, in, across, along, lines, k);
}

// Packs a square of the diagonal: out[k][line], `width` lines apart, zeros behind the last. in: its
// first diagonal element.
#define PACK_SQUARE(T) \
  for (int64_t p = from; p < to; p++) { \
    T *line = (T *)out + (p - from) * width; \
    for (int64_t l = 0; l < lines; l++) \
      line[l] = ((const T *)in)[l >= p ? l * across + p * along : p * across + l * along]; \
    for (int64_t l = lines; l < width; l++) line[l] = 0; \
  }

static void pack_square(int bytes, void *out, const void *in, int64_t across, int64_t along, int64_t lines,
                        int64_t from, int64_t to, int64_t width) {
  if (bytes == 8) {
    PACK_SQUARE(double)
  } else {
    PACK_SQUARE(float)
  }
}

// Packs lines [first, first + lines) of a symmetric matrix from `at` to `at + k` along k. Element
// (i, j) of its lower triangle stands at i * across + j * along.
static void pack_symmetric(const tc_blas_kernels *kernels, bool is_b, char *out, const void *in, int64_t across,
                           int64_t along, int64_t first, int64_t lines, int64_t at, int64_t k) {
  int bytes = kernels->bytes;
  int64_t width = is_b ? kernels->nr : kernels->mr, end = at + k;
  for (int64_t l = first; l < first + lines; l += width, out += width * k * bytes) {
    int64_t there = TC_MIN(first + lines - l, width);
    int64_t square = TC_MIN(TC_MAX_OF(l, at), end), behind = TC_MIN(TC_MAX_OF(l + there, at), end);
    char *to = out + (square - at) * width * bytes;
    if (square > at)
      pack_lines(kernels, is_b, out, tc_blas_element(in, l * across + at * along, bytes), across, along, there,
                 square - at);
    if (behind > square)
      pack_square(bytes, to, tc_blas_element(in, l * (across + along), bytes), across, along, there, square - l,
                  behind - l, width);
    to = out + (behind - at) * width * bytes;
    if (end > behind)
      pack_lines(kernels, is_b, to, tc_blas_element(in, behind * across + l * along, bytes), along, across, there,
                 end - behind);
  }
}

// Packs the lines of a product from `line` on, from `at` to `at + k` along k. Those of a second
// product follow in each panel.
static void pack_plain(const tc_blas_packed *s, bool is_b, char *out, int64_t line, int64_t lines, int64_t at,
                       int64_t k) {
  int64_t width = !s->second ? lines : is_b ? s->kernels->nr : s->kernels->mr, bytes = s->kernels->bytes;
  for (int64_t l = 0; l < lines; l += width) {
    for (const tc_blas_product *p = &s->product; p; p = p == s->second ? NULL : s->second) {
      int64_t across = is_b ? p->b_col : p->a_row, along = is_b ? p->b_row : p->a_col;
      const void *in = tc_blas_element(is_b ? p->b : p->a, (line + l) * across + at * along, (int)bytes);
      pack_lines(s->kernels, is_b, out, in, across, along, TC_MIN(lines - l, width), k);
      out += width * k * bytes;
    }
  }
}

static void pack_a(const tc_blas_packed *s, void *out, int64_t i, int64_t rows, int64_t at, int64_t k) {
  const tc_blas_product *p = &s->product;
  if (s->symmetric == TC_BLAS_A)
    pack_symmetric(s->kernels, false, out, p->a, p->a_row, p->a_col, s->first_line + i, rows, at, k);
  else
    pack_plain(s, false, out, i, rows, at, k);
}

static void pack_b(const tc_blas_packed *s, void *out, int64_t at, int64_t k, int64_t j, int64_t cols) {
  const tc_blas_product *p = &s->product;
  if (s->symmetric == TC_BLAS_B)
    pack_symmetric(s->kernels, true, out, p->b, p->b_col, p->b_row, s->first_line + j, cols, at, k);
  else
    pack_plain(s, true, out, j, cols, at, k);
}

// ---- Triangles ----

// Copies the wanted elements of a tile; diagonal: the row of column 0's element on the diagonal.
#define COPY_TRIANGLE(T) \
  for (int64_t j = 0; j < cols; j++) { \
    int64_t from = part == TC_BLAS_LOWER ? TC_MAX_OF(diagonal + j, 0) : 0; \
    int64_t to = part == TC_BLAS_LOWER ? rows : TC_MIN(diagonal + j + 1, rows); \
    for (int64_t i = from; i < to; i++) ((T *)out)[i + j * out_ld] = ((const T *)in)[i + j * in_ld]; \
  }

static void copy_triangle(int bytes, tc_blas_part part, void *out, int64_t out_ld, const void *in, int64_t in_ld,
                          int64_t rows, int64_t cols, int64_t diagonal) {
  if (bytes == 8) {
    COPY_TRIANGLE(double)
  } else {
    COPY_TRIANGLE(float)
  }
}

// A tile that the diagonal crosses: `rows` rows from row i of p on. Vectors of rows before the
// first wanted one are left out.
static void multiply_crossed(const tc_blas_packed *s, const tc_blas_product *p, const char *a, const char *b, int64_t i,
                             int64_t rows, int64_t diagonal) {
  _Alignas(64) char tile[TC_BLAS_MR_MOST * TC_BLAS_NR_MOST * sizeof(double)];
  int bytes = s->kernels->bytes;
  int64_t mr = s->kernels->mr, lanes = tc_blas_lanes(s->kernels);
  int64_t skipped = s->part == TC_BLAS_LOWER ? TC_MAX_OF(diagonal - i, 0) / lanes * lanes : 0;
  tc_blas_product crossed = *p;
  crossed.m = rows - skipped;
  crossed.c = tile;
  crossed.ldc = mr;
  diagonal -= i + skipped;
  char *c = (char *)p->c + (i + skipped) * bytes;
  if (p->beta != 0) {
    __builtin_memset(tile, 0, (size_t)(mr * p->n * bytes));
    copy_triangle(bytes, s->part, tile, mr, c, p->ldc, crossed.m, p->n, diagonal);
  }
  s->kernels->packed(&crossed, a + (i * p->k + skipped) * bytes, b);
  copy_triangle(bytes, s->part, c, p->ldc, tile, mr, crossed.m, p->n, diagonal);
}

// A product of packed operands of few columns, of whose c a triangle is wanted.
static void multiply_panel(const tc_blas_packed *s, const tc_blas_product *p, const char *a, const char *b,
                           int64_t diagonal) {
  int bytes = s->kernels->bytes;
  bool is_lower = s->part == TC_BLAS_LOWER;
  int64_t mr = s->kernels->mr, m = p->m;
  // Rows from `first` to before `last` have elements of both sides.
  int64_t first = is_lower ? diagonal : diagonal + 1, last = is_lower ? diagonal + p->n - 1 : diagonal + p->n;
  int64_t top = TC_MIN(TC_MAX_OF(first, 0) / mr * mr, m);
  int64_t end = TC_MAX_OF(last, 0);
  if (is_lower) end = tc_blas_divide_up(end, mr) * mr;
  if (end > m) end = m;
  tc_blas_product inside = *p;
  int64_t from = is_lower ? end : 0;
  inside.m = is_lower ? m - end : top;
  inside.c = (char *)p->c + from * bytes;
  if (inside.m > 0) s->kernels->packed(&inside, a + from * p->k * bytes, b);
  for (int64_t i = top; i < end; i += mr) multiply_crossed(s, p, a, b, i, TC_MIN(end - i, mr), diagonal);
}

// diagonal: as in packed.h, of this block.
static void multiply_block(const tc_blas_packed *s, const tc_blas_product *p, const char *a, const char *b,
                           int64_t diagonal) {
  if (s->part == TC_BLAS_ALL || (s->part == TC_BLAS_LOWER ? diagonal + p->n - 1 <= 0 : p->m - 1 <= diagonal)) {
    s->kernels->packed(p, a, b);
    return;
  }
  int bytes = s->kernels->bytes;
  for (int64_t j = 0; j < p->n; j += s->kernels->nr) {
    tc_blas_product panel = *p;
    panel.n = TC_MIN(p->n - j, s->kernels->nr);
    panel.c = (char *)p->c + j * p->ldc * bytes;
    multiply_panel(s, &panel, a, b + j * p->k * bytes, diagonal + j);
  }
}

static bool is_outside(tc_blas_part part, int64_t rows, int64_t cols, int64_t diagonal) {
  return part == TC_BLAS_LOWER ? diagonal >= rows : part == TC_BLAS_UPPER && diagonal + cols <= 0;
}

// ---- Products ----

size_t tc_blas_packed_choose(tc_blas_packed *s) {
  const tc_blas_product *p = &s->product;
  int64_t l2_bytes = tc_blas_l2_bytes(), products = s->second ? 2 : 1,
          chunk = TC_BLAS_CHUNK_BYTES / s->kernels->bytes / products;
  s->mc = p->m + s->kernels->mr;
  s->nc = p->n + s->kernels->nr;
  s->kc = p->k;
  // What is one block takes no division: they take a tenth of a small call.
  if (s->kc > chunk) s->kc = tc_blas_even_pieces(p->k, chunk, 1);
  int64_t line_bytes = s->kc * s->kernels->bytes * products;
  if (s->mc * line_bytes > l2_bytes / 2) s->mc = tc_blas_even_pieces(p->m, l2_bytes / 2 / line_bytes, s->kernels->mr);
  if (s->nc * line_bytes > TC_BLAS_PACKED_B_BYTES)
    s->nc = tc_blas_even_pieces(p->n, TC_BLAS_PACKED_B_BYTES / line_bytes, s->kernels->nr);
  return tc_blas_align_up(s->mc * line_bytes) + tc_blas_align_up(s->nc * line_bytes);
}

void tc_blas_packed_run(const tc_blas_packed *s, void *scratch) {
  const tc_blas_product *p = &s->product;
  int bytes = s->kernels->bytes, products = s->second ? 2 : 1;
  char *packed_a = scratch, *packed_b = packed_a + tc_blas_align_up(s->mc * s->kc * products * bytes);
  for (int64_t j = 0; j < p->n; j += s->nc)
    for (int64_t at = 0; at < p->k; at += s->kc) {
      int64_t k = TC_MIN(s->kc, p->k - at);
      tc_blas_product block = {.n = TC_MIN(s->nc, p->n - j), .k = k * products, .alpha = p->alpha};
      block.beta = at == 0 ? p->beta : 1;
      block.ldc = p->ldc;
      pack_b(s, packed_b, at, k, j, block.n);
      for (int64_t i = 0; i < p->m; i += s->mc) {
        block.m = TC_MIN(s->mc, p->m - i);
        int64_t diagonal = s->diagonal + j - i;
        if (is_outside(s->part, block.m, block.n, diagonal)) continue;
        block.c = (char *)p->c + (i + j * p->ldc) * bytes;
        pack_a(s, packed_a, i, block.m, at, k);
        multiply_block(s, &block, packed_a, packed_b, diagonal);
      }
    }
}

static bool is_direct(const tc_blas_kernels *kernels, const tc_blas_product *p) {
  return tc_blas_is_small(kernels->bytes == 8 ? TC_F64 : TC_F32, kernels, p);
}

void tc_blas_packed_multiply(const tc_blas_kernels *kernels, const tc_blas_product *p, void *scratch) {
  if (is_direct(kernels, p)) {
    tc_blas_run_small(kernels, p);
    return;
  }
  tc_blas_packed blocks = {.kernels = kernels, .product = *p};
  tc_blas_packed_choose(&blocks);
  tc_blas_packed_run(&blocks, scratch);
}

size_t tc_blas_packed_bytes(const tc_blas_kernels *kernels, int64_t m, int64_t n, int64_t k) {
  int64_t l2_bytes = tc_blas_l2_bytes(), line_bytes = TC_MIN(k, TC_BLAS_CHUNK_BYTES / kernels->bytes) * kernels->bytes;
  // Whatever the chunk's length, packed blocks take at most so much, besides a tile more.
  int64_t a_bytes = TC_MIN((m + kernels->mr) * line_bytes, l2_bytes / 2 + kernels->mr * TC_BLAS_CHUNK_BYTES);
  int64_t b_bytes = TC_MIN((n + kernels->nr) * line_bytes, TC_BLAS_PACKED_B_BYTES + kernels->nr * TC_BLAS_CHUNK_BYTES);
  return tc_blas_align_up(a_bytes) + tc_blas_align_up(b_bytes);
}
