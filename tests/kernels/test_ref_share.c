// A result made in shares has the bits of one made whole, however many share it, and no share
// writes outside its slice.
#include "tests/kernels/ref_call.h"

enum { MAX = 40000, MAX_SHARES = 70 };

static uint64_t state;
static int64_t below(int64_t n) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (int64_t)((state >> 33) % (uint64_t)n);
}

static tc_view filled(void *at, tc_type type, tc_dims d) {
  tc_view v = view(at, type, d);
  int64_t n = 1;
  for (int i = 0; i < d.rank; i++) n *= d.dim[i];
  cr_assert_leq(n, MAX);
  for (int64_t i = 0; i < n; i++) tc_set_f64(type, at, i, (double)(below(33) - 16) / 8 + (type == TC_F32 ? 1e-3 : 0));
  return v;
}

// Indices in [-extent, extent).
static tc_view indices(int64_t *at, tc_dims d, int64_t extent) {
  tc_view v = view(at, TC_I64, d);
  int64_t n = 1;
  for (int i = 0; i < d.rank; i++) n *= d.dim[i];
  for (int64_t i = 0; i < n; i++) at[i] = below(2 * extent) - extent;
  return v;
}

// Runs the call whole, and in n shares in an order of its own; each share may only change elements
// that no other changes.
static void expect_shares(tc_ref_fn *fn, tc_ref_call call, const char *what) {
  static unsigned char whole[8 * MAX], parts[8 * MAX], before[8 * MAX];
  static uint8_t owner[8 * MAX];
  size_t bytes = tc_type_bytes(call.out.type), n = 1;
  for (int d = 0; d < call.out.rank; d++) n *= (size_t)call.out.dim[d];
  memset(whole, 0x5A, n * bytes);
  call.out.ptr = whole;
  cr_assert_eq(fn(&call), TC_OK);
  static const int shares[] = {1, 2, 3, 8, MAX_SHARES};
  for (size_t k = 0; k < sizeof shares / sizeof shares[0]; k++) {
    memset(parts, 0xA5, n * bytes);
    memset(owner, 0, n);
    for (int i = shares[k]; i-- > 0;) {
      memcpy(before, parts, n * bytes);
      call.out.ptr = parts, call.begin = i, call.end = i + 1, call.extent = shares[k];
      cr_assert_eq(fn(&call), TC_OK);
      for (size_t e = 0; e < n; e++) {
        if (memcmp(before + e * bytes, parts + e * bytes, bytes) == 0) continue;
        cr_assert_eq(owner[e], 0, "%s: element %zu belongs to two of %d shares", what, e, shares[k]);
        owner[e] = 1;
      }
    }
    cr_expect_eq(memcmp(whole, parts, n * bytes), 0, "%s in %d shares", what, shares[k]);
    call.begin = 0, call.end = shares[k];  // several parts at once
    memset(parts, 0xA5, n * bytes);
    cr_assert_eq(fn(&call), TC_OK);
    cr_expect_eq(memcmp(whole, parts, n * bytes), 0, "%s in one call of %d parts", what, shares[k]);
  }
}

static const tc_type types[] = {TC_F32, TC_F16, TC_F64, TC_I64, TC_U8, TC_BOOL};
#define N_TYPES (sizeof types / sizeof types[0])

static uint64_t data[3][MAX];
static int64_t index_data[MAX];

Test(ref_share, scans) {
  const tc_dims shapes[] = {TC_SHAPE(7),        TC_SHAPE(5, 300),  TC_SHAPE(300, 5),
                            TC_SHAPE(3, 70, 2), TC_SHAPE(4, 3, 1), TC_SHAPE(2, 9, 1500)};
  tc_ref_fn *const fns[] = {tc_ref_cumsum, tc_ref_cumprod, tc_ref_cummax};
  for (size_t t = 0; t < N_TYPES; t++)
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
      for (int axis = 0; axis < shapes[s].rank; axis++)
        for (int f = 0; f < 3; f++) {
          tc_view x = filled(data[0], types[t], shapes[s]);
          expect_shares(
              fns[f],
              (tc_ref_call){.n_in = 1, .in = &x, .out = view(NULL, types[t], shapes[s]), .attr = WORDS((uint64_t)axis)},
              "scan");
        }
}

// Size, step and dilation; some places of the last are in no window.
Test(ref_share, overlapping_sums) {
  static const int64_t windows[][3] = {{3, 1, 1}, {4, 3, 1}, {2, 1, 5}, {3, 2, 2}, {2, 5, 1}};
  const tc_dims shapes[] = {TC_SHAPE(90), TC_SHAPE(20, 40), TC_SHAPE(3, 11, 70), TC_SHAPE(2, 9, 8, 11)};
  for (size_t t = 0; t < N_TYPES; t++)
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
      for (int axis = 0; axis < shapes[s].rank; axis++)
        for (size_t w = 0; w < sizeof windows / sizeof windows[0]; w++) {
          int64_t size = windows[w][0], step = windows[w][1], dilation = windows[w][2], reach = (size - 1) * dilation;
          tc_dims from = shapes[s];
          if (from.dim[axis] <= reach) continue;
          from.dim[axis] = (from.dim[axis] - reach - 1) / step + 1, from.dim[from.rank++] = size;
          tc_view x = filled(data[0], types[t], from);
          expect_shares(
              tc_ref_unwindow,
              (tc_ref_call){.n_in = 1,
                            .in = &x,
                            .out = view(NULL, types[t], shapes[s]),
                            .attr = WORDS((uint64_t)axis, (uint64_t)size, (uint64_t)step, (uint64_t)dilation)},
              "unwindow");
        }
}

// Along any axis: the index as large as the result or smaller, src larger than the index.
Test(ref_share, scatters) {
  const tc_dims shapes[][3] = {{TC_SHAPE(500), TC_SHAPE(900), TC_SHAPE(900)},
                               {TC_SHAPE(6, 200), TC_SHAPE(9, 200), TC_SHAPE(9, 200)},
                               {TC_SHAPE(90, 7), TC_SHAPE(60, 5), TC_SHAPE(80, 6)},
                               {TC_SHAPE(3, 40, 70), TC_SHAPE(2, 50, 66), TC_SHAPE(3, 50, 70)}};
  tc_ref_fn *const fns[] = {tc_ref_scatter, tc_ref_scatter_add};
  for (size_t t = 0; t < N_TYPES; t++)
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
      for (int axis = 0; axis < shapes[s][0].rank; axis++)
        for (int f = 0; f < 2; f++) {
          bool fits = true;  // other axes of the index lie within the result's
          for (int d = 0; d < shapes[s][0].rank; d++) fits &= d == axis || shapes[s][1].dim[d] <= shapes[s][0].dim[d];
          if (!fits) continue;
          tc_view in[] = {filled(data[0], types[t], shapes[s][0]),
                          indices(index_data, shapes[s][1], shapes[s][0].dim[axis]),
                          filled(data[1], types[t], shapes[s][2])};
          expect_shares(
              fns[f],
              (tc_ref_call){
                  .n_in = 3, .in = in, .out = view(NULL, types[t], shapes[s][0]), .attr = WORDS((uint64_t)axis)},
              "scatter");
        }
}

Test(ref_share, index_adds) {
  const tc_dims shapes[] = {TC_SHAPE(500), TC_SHAPE(30, 300), TC_SHAPE(300, 30), TC_SHAPE(3, 5, 70)};
  for (size_t t = 0; t < N_TYPES; t++)
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
      for (int axis = 0; axis < shapes[s].rank; axis++) {
        tc_dims src = shapes[s];
        src.dim[axis] = 77;
        tc_view in[] = {filled(data[0], types[t], shapes[s]), indices(index_data, TC_SHAPE(77), shapes[s].dim[axis]),
                        filled(data[1], types[t], src)};
        expect_shares(
            tc_ref_index_add,
            (tc_ref_call){.n_in = 3, .in = in, .out = view(NULL, types[t], shapes[s]), .attr = WORDS((uint64_t)axis)},
            "index_add");
      }
}

Test(ref_share, pieces_joined) {
  for (uint64_t axis = 0; axis < 2; axis++) {
    tc_dims d[3] = {TC_SHAPE(20, 150), TC_SHAPE(20, 150), TC_SHAPE(20, 150)}, out = TC_SHAPE(20, 150);
    const int64_t n[3] = {1, 90, 33};
    out.dim[axis] = 124;
    tc_view in[3];
    for (int k = 0; k < 3; k++) d[k].dim[axis] = n[k], in[k] = filled(data[k], TC_F32, d[k]);
    expect_shares(tc_ref_cat, (tc_ref_call){.n_in = 3, .in = in, .out = view(NULL, TC_F32, out), .attr = WORDS(axis)},
                  "cat");
  }
}

Test(ref_share, slices_written) {
  static const int64_t cases[][6] = {{0, 2, 50, 0, 1, 130},
                                     {3, 7, 13, 5, 3, 40},
                                     {97, -3, 30, 129, -1, 130},
                                     {50, -50, 2, 120, -11, 9},
                                     {99, 1, 1, 0, 64, 3}};
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    const int64_t *k = cases[c];  // start, step and extent of both axes
    tc_view in[] = {filled(data[0], TC_F32, TC_SHAPE(100, 130)), filled(data[1], TC_F32, TC_SHAPE(k[2], k[5]))};
    expect_shares(tc_ref_write_slice,
                  (tc_ref_call){.n_in = 2,
                                .in = in,
                                .out = view(NULL, TC_F32, TC_SHAPE(100, 130)),
                                .attr = WORDS((uint64_t)k[1], (uint64_t)k[4]),
                                .arg = WORDS((uint64_t)k[0], (uint64_t)k[3])},
                  "write_slice");
    // few rows: cut in the last axis
    tc_view turned[] = {filled(data[0], TC_F32, TC_SHAPE(3, 130)), filled(data[1], TC_F32, TC_SHAPE(1, k[5]))};
    expect_shares(tc_ref_write_slice,
                  (tc_ref_call){.n_in = 2,
                                .in = turned,
                                .out = view(NULL, TC_F32, TC_SHAPE(3, 130)),
                                .attr = WORDS(1, (uint64_t)k[4]),
                                .arg = WORDS(1, (uint64_t)k[3])},
                  "write_slice in rows");
  }
}
