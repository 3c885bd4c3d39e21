// Chooses the tiling of a matmul by tile registers. Blocks of 16 or 32 rows meet panels of 16 to 64
// columns, over all of k at once. See gemm_tmm.h.
//
// Rows of a and columns of b are packed to whole registers. A block takes four registers of c, so
// that sums stay in registers over all of k, or a chain. Rows of a are packed in groups that lie in
// half of the second-level cache. Costs are estimated from timings of simple code on an Intel
// server with AMX. This version was not timed there: docs/measurements.md.
#include "lowering/tiling/gemm_tmm.h"

#include "lowering/kir/index_expr.h"
#include "lowering/tiling/summation.h"
#include "runtime/status.h"
#include "runtime/team.h"
#include "runtime/topology.h"

// Costs of a word of two elements, relative to a product of two words: 16 cycles are 4096 products.
// It is packed (0.12 ns from L2 to 0.5 from L3), copied, or read in place from L3 (28 GB/s).
#define PACK_COST 200.0
#define COPY_COST 60.0
#define COLD_COST 120.0
#define UNIT_COST 2.5e5  // fixed cost of a unit: 1000 cycles, some of them for the registers' configuration
#define ALONE 4e6  // products of words of a matmul that one thread computes alone
#define LATENESS 0.15  // fraction of a unit that threads wait for the last one
#define MOST_GROUP (1 << 20)  // most bytes of rows of a that are packed at a time
#define PANEL_BYTES (2 << 20)  // bytes of a unit's packed columns
#define SUMS_BYTES (4 << 20)  // most bytes of a unit's sums

static double time_of(const tc_tiling_params *b, const tc_extent3 *of, int threads, int64_t tiles, int64_t panels) {
  int64_t units = of->batch * tc_ceil_div(b->tiles, tiles) * tc_ceil_div(b->n_panels, panels);
  double rows = (double)TC_MIN(tiles * b->rows, of->m), columns = (double)(panels * b->lanes);
  double unit = (rows * columns + rows * COPY_COST + columns * (b->pack ? PACK_COST : COLD_COST)) * (double)of->k;
  return ((double)tc_ceil_div(units, threads) + LATENESS) * (unit + UNIT_COST);
}

static void choose_units(tc_tiling_params *b, const tc_extent3 *of) {
  const bool small = (double)(of->batch * of->m * of->n) * (double)of->k < ALONE;
  const int threads = small ? 1 : tc_team_threads();
  const int64_t row = b->chunk * 4, most = b->pack ? PANEL_BYTES / (row * b->lanes) : b->n_panels;
  double best = 0;
  for (int64_t panels = TC_MAX_OF(TC_MIN(most, b->n_panels), 1); panels >= 1; panels--)
    for (int64_t blocks = 1; blocks <= TC_MIN(b->tiles, 4 * threads); blocks++) {
      int64_t tall = tc_ceil_div(b->tiles, blocks);
      if (b->chunk < of->k) tall = TC_MAX_OF(TC_MIN(tall, SUMS_BYTES / (b->rows * b->lanes * panels * 4)), 1);
      double time = time_of(b, of, threads, tall, panels);
      if (best == 0 || time < best) best = time, b->unit_panels = panels, b->unit_tiles = tall;
    }
}

void tc_tiling_choose_tmm(tc_tiling_params *b, const tc_matmul_facts *f, int lanes) {
  const tc_extent3 *of = &f->of;
  const int64_t cache = TC_MIN((int64_t)tc_topology_get()->l2_bytes / 2, MOST_GROUP);
  *b = (tc_tiling_params){.tmm = true, .unroll = 1, .pack = f->right.panel == 0};
  b->lanes = f->right.panel ? (int)f->right.panel : TC_MAX_OF(lanes, TC_TMM_SIDE);
  b->rows = of->m <= TC_TMM_SIDE ? TC_TMM_SIDE : 2 * TC_TMM_SIDE;
  b->tiles = tc_ceil_div(of->m, b->rows), b->tall = of->m;
  b->n_panels = tc_ceil_div(of->n, b->lanes);
  b->chunk = tc_chain_of(of->k) < of->k ? TC_CHAIN : tc_ceil_div(of->k, TC_TMM_SIDE) * TC_TMM_SIDE;
  b->a_tiles = TC_MIN(TC_MAX_OF(cache / (b->chunk * 4 * b->rows), 1), b->tiles);
  choose_units(b, of);
}

bool tc_tiling_tmm_is_legal(const tc_tiling_params *b, const tc_matmul_facts *f) {
  const int64_t panels = b->unit_panels * b->lanes * 4,
                sums = b->chunk < f->of.k ? b->unit_tiles * b->rows * panels : 0;
  const bool fit = sums <= SUMS_BYTES && (!b->pack || b->unit_panels == 1 || panels * b->chunk <= 2 * PANEL_BYTES);
  return fit && b->unit_panels >= 1 && b->unit_panels <= b->n_panels && b->unit_tiles >= 1 && b->unit_tiles <= b->tiles;
}
