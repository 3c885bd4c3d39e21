#include "lowering/blocks.h"

#include "lowering/kernel.h"
#include "runtime/topology.h"

// Beyond it k goes in chunks of about CHUNK, with sums kept in memory between them: packed columns fit the cache then, and rows of b read in place, each in
// a page of its own, what the processor knows of pages.
#define LONG_K 2048
#define CHUNK 1024
#define CHUNK_A 512  // of k where rows of a are packed too: packing them serves more columns then
#define CHUNK_APART 384  // of k where each step of it is in another line of a: so many stay in the first-level cache while they serve all columns
// Where all rows are one tile, b is read once, from memory: so many rows of it side by side, each along the columns, each chunk asking for the next. The
// processor follows few such rows well. On a Xeon at two threads, against oneDNN: 1x4096x4096 of f32 1.09 in chunks of 4, 1.05 of 8, 0.91 of 16; 6x4096x4096
// 1.98, 1.93, 1.71. GPT-2 small decoding in bf16, weights from memory: a third slower where nothing is asked for ahead.
#define CHUNK_ONCE 4
#define SUMS_BYTES (4 << 20)  // of a unit's sums
#define A_TILES 8  // of a packed at a time
#define WIDE_BYTES (128 << 10)  // of rows of a that are widened, at most
// Costs of an element, a multiply-add of it being 1: read where it lies and written to a tile; turned besides.
#define PACK_COST 8.0
#define TURN_COST 14.0
#define READ_A_COST 6.0  // of a, for each time it is read
#define COLD_COST 16.0  // of a panel kept in memory, a unit's first: those that follow arrive in time
#define UNIT_COST 20000.0  // of a unit
#define ALONE 300000.0  // a whole product that one thread does: more units would only be more code
#define LATENESS 0.15  // of a unit: what the threads wait for the last one, since they are never equally fast

// Lanes of a panel: as many as the registers allow unless that computes many columns nobody wants.
static int choose_lanes(int64_t n, int vector, int most) {
  int best = most;
  for (int lanes = most; lanes >= vector; lanes /= 2)
    if (tc_ceil_div(n, lanes) * lanes * 11 < tc_ceil_div(n, best) * best * 10) best = lanes;
  while (best > 1 && best / 2 >= n) best /= 2;
  return best;
}

static int most_lanes(int size) {
  const tc_isa *isa = tc_kernel_isa();
  return TC_MIN(isa->registers / 8 * isa->vector_bytes / size, LANES);
}

int64_t tc_blocks_panel(int64_t n, tc_type acc) {
  int size = (int)tc_type_bytes(acc), lanes = choose_lanes(n, TC_MIN(tc_kernel_vector_bytes() / size, LANES), most_lanes(size));
  return n % lanes ? 0 : lanes;
}

static void choose_registers(tc_blocks *b, const tc_extent3 *of, tc_type acc, const tc_factor *right) {
  int size = (int)tc_type_bytes(acc), registers = tc_kernel_isa()->registers / 4 * 3;  // the rest hold the factors
  int vector = TC_MIN(tc_kernel_vector_bytes() / size, LANES);
  bool along_k = !right->panel && right->row == 1 && right->col != 1 && size >= 4 && vector >= 4;
  int turned = right->type == TC_BF16 ? 2 * vector : vector;  // rows of a block that is turned
  b->lanes = right->panel ? (int)right->panel : choose_lanes(of->n, vector, most_lanes(size));
  b->turn = along_k && of->m * 4 <= registers && of->n >= vector && of->k >= turned;  // the block takes as many registers as a vector has lanes
  if (b->turn) b->lanes = vector;
  b->rows = TC_MAX_OF(registers / TC_MAX_OF(b->lanes / vector, 1), 1);  // a panel that the user laid out may be wider than the registers
  b->tiles = tc_ceil_div(of->m, b->rows);
  b->rows = (int)tc_ceil_div(of->m, b->tiles);
  b->tall = of->m - b->tiles * (b->rows - 1);
  b->n_panels = tc_ceil_div(of->n, b->lanes);
}

static void choose_packing(tc_blocks *b, const tc_extent3 *of, tc_type acc, const tc_factor *left, const tc_factor *right, int64_t cache) {
  int64_t pitch = right->row * (int64_t)tc_type_bytes(right->type);
  if (right->panel) pitch = right->panel * (int64_t)tc_type_bytes(right->type);
  bool far = pitch >= 4096 || pitch * of->k > cache / 4;  // each k in a page of its own, or all of them a good part of the second-level cache
  b->pack = !b->turn && !right->panel && ((right->col != 1 && of->n > 1) || (right->type != acc && b->tiles > 1) || (far && b->tiles > 1));
  b->pack_a = !left->scattered && left->segment == of->k && left->row == 1 && left->col * (int64_t)tc_type_bytes(left->type) >= 512 && of->k >= 64 &&
              b->tiles > 1;
  b->a_tiles = TC_MIN(A_TILES, b->tiles);
  b->chunk = of->k;
  b->once = !b->turn && !b->pack && !right->panel && b->tiles == 1 && pitch * of->k > cache / 4;
  bool apart = !b->pack_a && b->tiles > 1 && left->col * (int64_t)tc_type_bytes(left->type) >= 64;
  int64_t most = b->once ? CHUNK_ONCE : b->pack_a ? CHUNK_A : apart ? CHUNK_APART : CHUNK;
  bool cuts = b->pack_a || b->once || (apart && of->k > 2 * CHUNK_APART) || ((b->pack || far) && of->k > LONG_K);
  if (b->turn || !cuts) return;
  int64_t step = TC_MIN(most, 16);
  b->chunk = tc_ceil_div(tc_ceil_div(of->k, tc_ceil_div(of->k, most)), step) * step;
  int64_t piece = left->segment < of->k ? left->segment : 1;  // a chunk ends where a piece of the left factor does
  b->chunk = TC_MAX_OF(b->chunk / piece, 1) * piece;
}

// A narrower element of a costs a conversion and a broadcast from a register wherever it is read; in the accumulators' type it is an operand of the
// multiply-add. On a Xeon with AVX-512, at one thread: 1024x1024x1024 of bf16 at 123 GFLOP/s read where it lies, 152 widened.
static void choose_widening(tc_blocks *b, const tc_extent3 *of, tc_type acc, const tc_factor *left, const tc_factor *right) {
  bool whole = !right->panel && !left->scattered && left->segment == of->k && left->col == 1;
  b->widen_a = whole && !b->pack_a && left->type != acc && b->n_panels > 1 && b->rows * b->chunk * (int64_t)tc_type_bytes(acc) <= WIDE_BYTES;
  if (b->widen_a) b->a_tiles = 1;
}

// Estimated time of the product on all threads, cut into units of so many tiles and panels.
static double time_of(const tc_blocks *b, const tc_extent3 *of, const tc_factor *right, int threads, int64_t tiles, int64_t panels) {
  int64_t units = of->batch * tc_ceil_div(b->tiles, tiles) * tc_ceil_div(b->n_panels, panels);
  double rows = (double)(tiles * b->rows), columns = (double)(panels * b->lanes), first = right->panel ? COLD_COST * b->lanes : 0;
  if (b->pack) first = columns * (right->col != 1 ? TURN_COST : PACK_COST);
  double unit = (rows * columns + first + rows * READ_A_COST) * (double)of->k + UNIT_COST;
  return ((double)tc_ceil_div(units, threads) + LATENESS) * unit;
}

// Units: what they read again, against how evenly they fill the threads.
static void choose_units(tc_blocks *b, const tc_extent3 *of, int64_t size, const tc_factor *right, int64_t cache) {
  bool small = (double)(of->batch * of->m * of->n) * (double)of->k < ALONE;
  int threads = small ? 1 : tc_topology_get()->n_threads;
  int64_t most = b->n_panels, tallest = b->tiles, tall;
  // The packed columns stay in the second-level cache, beside what they are packed from and rows of a. On a Xeon with 2 MiB of it, 1024x1024x1024 at one
  // thread, against oneDNN: 1.14 with 256 KiB of packed columns, 1.11 with 512, 1.09 with 1024; where packing a is dear, 0.92 with 1024 and 0.88 with 512.
  if (b->pack) most = TC_MAX_OF(TC_MIN(cache / (b->pack_a ? 2 : 4) / (b->chunk * b->lanes * size), most), 1);
  // Panels that are there already take turns in it, beside all rows of a.
  if (right->panel) tallest = TC_MAX_OF(TC_MIN(tallest, cache / 2 / (b->chunk * b->rows * size)), 1);
  double best = 0;
  for (int64_t panels = most; panels >= 1; panels -= panels > 64 ? panels / 16 : 1)
    for (int64_t blocks = 1; blocks <= TC_MIN(b->tiles, 4 * threads); blocks++) {
      tall = TC_MIN(tc_ceil_div(b->tiles, blocks), tallest);
      if (b->chunk < of->k) tall = TC_MAX_OF(TC_MIN(tall, SUMS_BYTES / (b->rows * b->lanes * panels * size)), 1);
      double time = time_of(b, of, right, threads, tall, panels);
      if (best == 0 || time < best) best = time, b->unit_panels = panels, b->unit_tiles = tall;
    }
}

void tc_blocks_choose(tc_blocks *b, const tc_extent3 *of, tc_type acc, const tc_factor *left, const tc_factor *right) {
  int64_t cache = (int64_t)TC_MIN(TC_MAX_OF(tc_topology_get()->l2_bytes, (size_t)512 << 10), (size_t)2 << 20);
  choose_registers(b, of, acc, right);
  choose_packing(b, of, acc, left, right, cache);
  choose_widening(b, of, acc, left, right);
  choose_units(b, of, (int64_t)tc_type_bytes(acc), right, cache);
}
