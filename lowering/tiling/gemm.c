// Cost model that chooses a matmul's tiling, with the measurements behind its constants. See
// gemm.h.
#include "lowering/tiling/gemm.h"

#include "lazy/trace/node.h"
#include "lowering/tiling/gemm_tmm.h"
#include "lowering/tiling/summation.h"
#include "lowering/kir/index_expr.h"
#include "lowering/target/host_cpu.h"
#include "lowering/target/cpu_target.h"
#include "runtime/options.h"
#include "runtime/status.h"
#include "runtime/team.h"
#include "runtime/topology.h"

// Steps of k in a chunk once k exceeds twice as many; sums wait in memory between chunks. A chunk's
// packed columns fit the cache. Its rows of b, each in a page of its own when read in place, fit
// the TLB.
#define CHUNK 1024
// With at most FEW_ROWS rows, reading b is much of the work: bytes of second-level cache for each
// step of a chunk. A quarter of the cache holds packed columns, so 512 bytes of a row of b are read
// side by side.
// Measured: Zen 4, 1 thread, chunks of 512 against 1024: 13x4096x4096 1.3 times as fast.
#define CHUNK_SHARE 2048
#define FEW_ROWS 64
// steps of k in a chunk if rows of a are packed too; each packed row serves more columns
#define CHUNK_A 512
// steps of k in a chunk if each step reads another line of a. These lines stay in the first-level
// cache for all columns
#define CHUNK_APART 384
// Steps of k in such a chunk if a step takes longer than a line from the second-level cache
// (steps_are_long). Rows of a are not packed then, and the next tile's lines are prefetched.
// Measured: Zen 4, 1 and 2 threads, packed -> prefetched: 1.0 to 1.13 times as fast. With vectors
// of 32 bytes a step is 6 cycles long, and prefetching is slower: 0.6 to 1.0.
#define LONG_CHUNK_APART 512
// Rows of b in a chunk if all rows of a are one tile and the sums of several panels exceed the
// registers. b is read once, from memory; each chunk prefetches the next one. The processor follows
// few streams well. Rows a power of two apart share one set of the first-level cache, with as many
// prefetched rows. A set holds 8 or 12.
// Measured: Xeon, 2 threads, 6x4096x4096, speed relative to oneDNN: chunks of 4 1.98, of 8 1.93, of
// 16 1.71.
#define CHUNK_ONCE 4
// Rows of b in such a chunk if whole rows are read. The next chunk is prefetched to the
// second-level cache, so sets do not conflict.
// Measured: Zen 4, 1 thread, 4096x4096 in C: 8 rows by 32 columns 27 GB/s of 28, 4 rows by 64 17 to
// 23.
#define CHUNK_ROWS 8
// Rows of b in such a chunk for more rows of a than LINE_ROWS, whose sums cost more to spill.
// Measured: chunks of 4 -> 16: 12x768x3072 of f32 1.14 times as fast, of bf16 1.32.
#define CHUNK_ONCE_MANY 16
// Most rows of a for which a panel is one cache line of each row of b; the rows' lines alternate.
// Measured: Zen 4, 1 thread, 1x4096x4096 of f32, share of a plain read: two lines 0.84 to 0.92, one
// 0.89 to 1.01.
#define LINE_ROWS 6
// Least bytes of sums in registers for which b is streamed: a stream reads no more of a row before
// the next page. With fewer, chunks of whole rows are read and sums lie in memory. A Zen 4 streams
// no better from 1536 (host_cpu.h).
// Measured: Zen 3 (384 bytes of sums), 1 thread, 1x4096x4096 from memory: f32 1.52 times as fast by
// rows, bf16 2.2.
#define STREAM_BYTES 1024
// Steps of k in a chunk if each panel serves several tiles in turn: a packed panel is half of the
// first-level cache. It pays if all of a, which every unit reads again, exceeds PANEL_CACHES times
// the second-level cache.
// Measured: Zen 3, 1 thread, tile by tile -> by panel: 2048x2048x2048 1.15 times as fast,
// 512x512x512 0.97.
#define CHUNK_PANEL 256
#define PANEL_CACHES 8
// bytes of a unit's packed columns in that case; they lie in the third-level cache
#define PANEL_BYTES (2 << 20)
#define SUMS_BYTES (4 << 20)  // most bytes of a unit's sums
#define A_TILES 8  // tiles of a that are packed at a time
#define WIDE_BYTES (128 << 10)  // most bytes of widened rows of a
// Costs of an element relative to a multiply-add: reading it in place and writing it to a tile; as
// is, and transposed.
#define PACK_COST 8.0
#define TRANSPOSE_COST 14.0
#define READ_A_COST 6.0  // of an element of a, each time it is read
// of an element of a prepacked panel, at a unit's first read; later reads are prefetched in time
#define COLD_COST 16.0
// Rows whose multiply-adds take as long as reading prepacked panels from memory. A unit of fewer
// rows waits for memory at each of its panels. Measured: docs/measurements.md.
#define COLD_ROWS 32.0
#define UNIT_COST 20000.0  // fixed cost of a unit
// multiply-adds of a matmul that one thread computes alone; more units would only be more code
#define ALONE 300000.0
// That bound if units repeat no work: a matmul alone in its stage is shared if a second thread is
// idle (stages.c, BRIEF_TASK_NS).
#define ALONE_IN_PLACE 150000.0
// Least multiply-adds of a matmul whose innermost loop is unrolled; compiling takes a fifth longer.
// Measured: Zen 3, 1 thread, unrolled: 128x128x128 1.27 times as fast, 64x64x64 1.06.
#define UNROLLED 5e4
// Registers for accumulators if k is at most SHORT_K, so that tiles are short. A Zen 4 stores half
// a vector a cycle; the stores of 24 accumulators delay the next tile.
// Measured: Zen 4, 1 thread, 24 -> 16: 64x64x64 1.01 to 1.02 times as fast, 1024x32x64 1.0 to 1.1.
#define SHORT_K 64
#define SHORT_REGISTERS 16
#define MOST_ROWS 30  // most rows of a tile
// The number of rows is an argument: the rows of a unit that the tiling is chosen for, and the most
// rows of a tile. A tile is small because code for the remaining rows follows that of whole tiles.
#define ANY_ROWS 256
#define ANY_COLUMNS 512  // the same for any number of columns
#define MOST_ANY_ROWS 8
// Least rows and columns for which bf16 is multiplied in pairs. With fewer, reading the other
// operand dominates. Packing would slow that down. Both limits are equal, so a matmul and its
// transpose have the same bits.
#define LEAST_BF16_PAIRS 16
// The same for pairs and bytes by tile registers. Estimated from an Intel server's figures, not
// timed: 8 rows by vectors take 0.46 ns a word of b, by tiles 0.12 to 0.5.
#define LEAST_TMM 8
#define SPARE 4  // registers that a given tiling may take beyond the model's
#define MOST_SCRATCH (16 << 20)  // most scratch bytes of a worker that a tiling may need
// fraction of a unit that threads wait for the last one; they are never equally fast
#define LATENESS 0.15

// The given value of a field, or the model's where it is negative.
static int64_t given_or(const tc_gemm_tiling *given, int what, int64_t model) {
  return given && given->of[what] >= 0 ? given->of[what] : model;
}

// Vector registers for accumulators.
static int registers_of(void) {
  return tc_compiler_isa()->registers / 4 * 3;  // the rest hold the operands
}

// Lanes of a panel: as many as the registers allow, unless many of the computed columns would be
// unused.
static int choose_lanes(int64_t n, int vector, int most) {
  int best = most;
  for (int lanes = most; lanes >= vector; lanes /= 2)
    if (tc_ceil_div(n, lanes) * lanes * 11 < tc_ceil_div(n, best) * best * 10) best = lanes;
  while (best > 1 && best / 2 >= n) best /= 2;
  return best;
}

static int most_lanes(int size) {
  const tc_isa *isa = tc_compiler_isa();
  return TC_MIN(isa->registers / 8 * isa->vector_bytes / size, LANES);
}

int64_t tc_tiling_panel(int64_t n, tc_type acc) {
  int size = (int)tc_type_bytes(acc),
      lanes = choose_lanes(n, TC_MIN(tc_compiler_vector_bytes() / size, LANES), most_lanes(size));
  return n % lanes ? 0 : lanes;
}

bool tc_tiling_pairs(const tc_extent3 *of, tc_type left, tc_type right) {
  const tc_isa *isa = tc_compiler_isa();
  const int64_t side = isa->tiles ? LEAST_TMM : LEAST_BF16_PAIRS;
  bool large = TC_MIN(of->m, of->n) >= side && of->k % 2 == 0;
  return left == TC_BF16 && right == TC_BF16 && large && (isa->dots || isa->tiles) && !tc_options_get()->strict;
}

bool tc_tiling_bytes(const tc_extent3 *of, tc_type left, tc_type right) {
  return tc_type_is_byte(left) && tc_type_is_byte(right) && of->k % 4 == 0;
}

bool tc_tiling_tmm(const tc_extent3 *of, tc_type acc, tc_type left, tc_type right) {
  bool bytes = acc == TC_I32 && tc_tiling_bytes(of, left, right) && TC_MIN(of->m, of->n) >= LEAST_TMM;
  return tc_compiler_isa()->tiles && (bytes || tc_tiling_pairs(of, left, right));
}

bool tc_tiling_halves(const tc_extent3 *of, tc_type right) {
  return right == TC_BF16 && of->m < LEAST_BF16_PAIRS && of->k % 2 == 0;
}

int tc_tiling_transposed_as_one(tc_type type, tc_type acc) {
  return type == TC_BF16 ? 2 : tc_type_is_byte(type) && acc == TC_F32 ? 4 : 1;
}

// Whether the right operand's panels are of words whose halves are multiplied one after the other,
// a step of k each. Few rows only.
static bool is_split_bf16(const tc_operand *right) {
  return right->panel && right->type == TC_BF16 && 2 * right->row == right->panel;
}

static bool can_transpose(const tc_extent3 *of, tc_type acc, const tc_operand *left, const tc_operand *right) {
  int size = (int)tc_type_bytes(acc), vector = TC_MIN(tc_compiler_vector_bytes() / size, LANES);
  bool lies_well = !right->words || (acc == TC_I32 && left->col == 1);  // pairs of bf16 are packed
  bool along_k = !right->panel && lies_well && right->row == 1 && right->col != 1 && left->segment == of->k &&
                 size >= 4 && vector >= 4;
  // rows of a block that is transposed
  int transposed = tc_tiling_transposed_as_one(right->type, acc) * vector;
  // The block takes as many registers as a vector has lanes.
  // Measured: Zen 4, 1 thread, packed -> transposed, mx768x3072: 8 rows 1.02 to 1.25 times as fast
  // with 32 registers. With 16 registers: 4 rows 0.89.
  return along_k && of->m * (tc_compiler_isa()->registers > 16 ? 2 : 4) <= registers_of() && of->n >= vector &&
         of->k >= transposed;
}

// Lanes of panels that are transposed. A chain of multiply-adds waits four cycles for each one. Few
// rows alternate between two blocks if the processor would wait for that and not for memory.
static int transposed_lanes(const tc_extent3 *of, tc_type acc, const tc_operand *right, int vector) {
  bool two = tc_tiling_transposed_as_one(right->type, acc) > 1 && of->m <= 3 && of->n >= 4 * vector;
  return two ? 2 * vector : vector;
}

// Bytes from one row of b to the next.
static int64_t pitch_of(const tc_operand *right) {
  return (right->panel ? right->panel : right->row) * (int64_t)tc_type_bytes(right->type);
}

// Whether b exceeds its share of the second-level cache, a quarter.
static bool is_out_of_l2(const tc_extent3 *of, const tc_operand *right, int64_t cache) {
  return pitch_of(right) * of->k > cache / 4;
}

// Whether a step of k takes 24 cycles: the processor computes 64-byte vectors as two halves.
static bool steps_are_long(void) {
  return tc_host_halves_vectors() && tc_compiler_vector_bytes() == 64;
}

// Whether a tile's stores would delay the next tile. False if the right operand comes from memory:
// few, large tiles read it less often.
static bool stores_are_expensive(const tc_extent3 *of, const tc_operand *right, int64_t cache) {
  return steps_are_long() && of->k <= SHORT_K && !is_out_of_l2(of, right, cache);
}

static void choose_registers(tc_tiling_params *b, const tc_extent3 *of, tc_type acc, const tc_operand *left,
                             const tc_operand *right, int64_t cache, const tc_gemm_tiling *given) {
  int size = (int)tc_type_bytes(acc), vector = TC_MIN(tc_compiler_vector_bytes() / size, LANES);
  b->lanes = right->panel ? (int)right->panel : choose_lanes(of->n, vector, most_lanes(size));
  // The rows are one tile of panels half as wide, and would be two tiles of full panels. With half
  // panels b is read once, in place, and not packed. Panels of one register, for up to 24 rows, are
  // faster or slower by case. If whole rows are read, fewer rows have half panels too (CHUNK_ROWS).
  // Measured: Xeon, AVX-512, 2 threads, two tiles -> one, GFLOP/s: 8x768x3072 70 -> 125,
  // 12x768x3072 98 -> 170.
  bool halves = !right->panel && right->col == 1 && b->lanes == 4 * vector &&
                (of->m * 4 > registers_of() || tc_host_reads_rows()) && of->m * 2 <= registers_of();
  bool lines =
      halves && of->m <= LINE_ROWS && right->type == acc && tc_host_reads_rows() && is_out_of_l2(of, right, cache);
  if (halves) b->lanes = lines ? TC_MIN(b->lanes / 2, 64 / size) : b->lanes / 2;
  b->transpose = given_or(given, TC_TILING_TRANSPOSE, can_transpose(of, acc, left, right));
  b->lanes = (int)given_or(given, TC_TILING_LANES, b->transpose ? transposed_lanes(of, acc, right, vector) : b->lanes);
  int registers = stores_are_expensive(of, right, cache) ? TC_MIN(registers_of(), SHORT_REGISTERS) : registers_of();
  // a panel that the user laid out may be wider than the registers
  b->rows = TC_MAX_OF(registers / TC_MAX_OF(b->lanes / vector, 1), 1);
  b->rows = (int)given_or(given, TC_TILING_ROWS, b->rows);
  b->tiles = tc_ceil_div(of->m, b->rows);
  b->rows = (int)tc_ceil_div(of->m, b->tiles);
  b->tall = of->m - b->tiles * (b->rows - 1);
  b->n_panels = tc_ceil_div(of->n, b->lanes);
}

static bool can_pack_a(const tc_tiling_params *b, const tc_extent3 *of, const tc_operand *left) {
  return !b->transpose && !left->scattered && left->segment == of->k && left->row == 1 && (b->tiles > 1 || left->words);
}

// Whether all of a, which every unit reads again, is many times the second-level cache.
static bool is_large(const tc_extent3 *of, tc_type acc, int64_t cache) {
  return of->m * of->k * (int64_t)tc_type_bytes(acc) > PANEL_CACHES * cache;
}

// Whether each panel may serve several tiles in turn: b is packed, and a chunk's panel is at most
// half of the first-level cache. Rows of a lie in the second-level cache.
static bool can_go_by_panel(const tc_tiling_params *b, const tc_extent3 *of, tc_type acc, const tc_operand *left) {
  size_t panel = (size_t)b->lanes * CHUNK_PANEL * tc_type_bytes(acc);
  bool rows = !left->scattered && left->segment == of->k && left->col == 1;
  return b->pack && !b->pack_a && rows && b->tiles > 1 && b->n_panels > 1 && 2 * panel <= tc_topology_get()->l1_bytes;
}

static bool can_stream_once(const tc_tiling_params *b, const tc_operand *right) {
  return !b->transpose && !b->pack && !right->panel && b->tiles == 1;
}

// Registers that the sums of a panel take.
static int registers_of_panel(const tc_tiling_params *b, tc_type acc) {
  return b->rows * TC_MAX_OF(b->lanes * (int)tc_type_bytes(acc) / tc_compiler_vector_bytes(), 1);
}

// Whether whole rows of b are read faster than a stream of parts of rows. True if the registers
// hold too few sums for a long part, or always on some processors.
static bool rows_beat_streams(void) {
  return registers_of() * tc_compiler_vector_bytes() < STREAM_BYTES || tc_host_reads_rows();
}

// Whether the sums of several panels fit the registers side by side, so that none is spilled while
// b streams by.
static bool can_stream(const tc_tiling_params *b, const tc_extent3 *of, tc_type acc, const tc_operand *left,
                       const tc_operand *right) {
  bool fits = 2 * registers_of_panel(b, acc) <= registers_of() && b->n_panels >= 2 && !rows_beat_streams();
  return can_stream_once(b, right) && fits && !left->scattered && left->segment == of->k && right->col == 1;
}

// Whether each step of k of the left operand lies far from the one before: 512 bytes or more.
static bool is_strided(const tc_operand *left) {
  return left->col * (int64_t)tc_type_bytes(left->type) >= 512;
}

// Most steps of k in a chunk. apart: each step reads another line of a. deep: the limit if nothing
// else applies.
static int64_t most_of_chunk(const tc_tiling_params *b, bool apart, int64_t deep) {
  if (b->once) return b->rows > LINE_ROWS ? CHUNK_ONCE_MANY : rows_beat_streams() ? CHUNK_ROWS : CHUNK_ONCE;
  if (b->by_panel) return CHUNK_PANEL;
  if (b->pack_a) return CHUNK_A;
  return !apart ? deep : steps_are_long() ? LONG_CHUNK_APART : CHUNK_APART;
}

static void choose_packing(tc_tiling_params *b, const tc_extent3 *of, tc_type acc, const tc_operand *left,
                           const tc_operand *right, int64_t cache, const tc_gemm_tiling *given) {
  int64_t pitch = pitch_of(right);
  // steps of k in pages of their own, or filling the cache, which holds two prepacked panels
  bool far = pitch >= 4096 || pitch * of->k > cache / (right->panel ? 4 : 2);
  bool pack = !b->transpose && !right->panel &&
              ((right->col != 1 && of->n > 1) || (right->type != acc && b->tiles > 1) || (far && b->tiles > 1));
  b->pack = given_or(given, TC_TILING_PACK, pack || (right->words && !right->panel && !b->transpose));
  bool pack_a = can_pack_a(b, of, left) && ((is_strided(left) && of->k >= 64 && !steps_are_long()) || right->words);
  b->pack_a = given_or(given, TC_TILING_PACK_A, pack_a);
  b->by_panel = given_or(given, TC_TILING_BY_PANEL, is_large(of, acc, cache) && can_go_by_panel(b, of, acc, left));
  b->a_tiles = TC_MIN(A_TILES, b->tiles);
  b->chunk = given_or(given, TC_TILING_CHUNK, of->k);
  b->once = given_or(given, TC_TILING_STREAMED, can_stream_once(b, right) && is_out_of_l2(of, right, cache));
  bool apart = !b->pack_a && b->tiles > 1 && left->col * (int64_t)tc_type_bytes(left->type) >= 64;
  int64_t deep = of->m <= FEW_ROWS ? TC_MIN(CHUNK, cache / CHUNK_SHARE) : CHUNK;
  int64_t most = most_of_chunk(b, apart, deep);
  bool streams = b->once && can_stream(b, of, acc, left, right);
  // rows of b are read by several tiles
  bool again = b->pack || (far && !(right->panel && b->tiles == 1));
  bool tilings = b->pack_a || b->once || b->by_panel || (apart && of->k > 2 * most) || (again && of->k > 2 * deep);
  if (b->transpose || !tilings || streams || given_or(given, TC_TILING_CHUNK, -1) >= 0) return;
  int64_t step = TC_MIN(most, 16), k = tc_chain_of(of->k);
  b->chunk = tc_ceil_div(tc_ceil_div(k, tc_ceil_div(k, most)), step) * step;
  if (k < of->k) return;
  // a chunk ends where a segment of the left operand does
  int64_t piece = left->segment < of->k ? left->segment : 1;
  b->chunk = TC_MIN(TC_MAX_OF(b->chunk / piece, 1) * piece, of->k);
}

// A narrower element of a costs a conversion and a broadcast from a register at each read. In the
// accumulators' type it is a memory operand of the multiply-add. If panels serve many tiles in
// turn, their rows of a are read repeatedly. Unwidened, each lies in a page of its own, often a
// power of two apart.
// Measured: Xeon, AVX-512, 1 thread, 1024x1024x1024 of bf16: 123 GFLOP/s in place -> 152 widened.
static bool can_widen(const tc_tiling_params *b, const tc_extent3 *of, tc_type acc, const tc_operand *left,
                      const tc_operand *right) {
  bool whole = !right->panel && !left->scattered && left->segment == of->k && left->col == 1;
  bool narrow = left->type != acc && !left->words;
  return whole && !b->pack_a && (narrow || b->by_panel) &&
         b->rows * b->chunk * (int64_t)tc_type_bytes(acc) <= WIDE_BYTES;
}

// Whether each tile reads its rows of a in place and from memory: all of a exceeds what caches keep
// between two panels.
// Measured: Zen 4, 1 thread, prefetched: 4096x4096x4096 and 2048x2048x2048 1.03 times as fast,
// 1024x1024x1024 1.0.
static bool prefetches_rows(const tc_tiling_params *b, const tc_extent3 *of, const tc_operand *left) {
  bool in_place =
      !b->pack_a && !b->widen_a && !b->transpose && !left->scattered && left->col == 1 && left->segment == of->k;
  return in_place && b->pack && b->tiles > 1;
}

static void choose_widening(tc_tiling_params *b, const tc_extent3 *of, tc_type acc, const tc_operand *left,
                            const tc_operand *right, int64_t cache, const tc_gemm_tiling *given) {
  b->widen_a = given_or(given, TC_TILING_WIDEN_A, can_widen(b, of, acc, left, right) && b->n_panels > 1);
  b->prefetch_a = is_large(of, acc, cache) && prefetches_rows(b, of, left);
  b->prefetch_strided = !b->pack_a && b->tiles > 1 && !left->scattered && left->row == 1 && is_strided(left);
  if (!b->widen_a) return;
  int64_t tile = b->rows * b->chunk * (int64_t)tc_type_bytes(acc);
  b->a_tiles = b->by_panel ? TC_MIN(TC_MAX_OF(cache / 4 / tile, 1), b->tiles) : 1;
}

// Whether b is read in chunks of whole rows, as whole as the split over threads leaves them. True
// if a stream would be too narrow.
static bool reads_rows(const tc_tiling_params *b, const tc_extent3 *of) {
  return b->once && b->chunk < of->k && rows_beat_streams();
}

// Instructions of the loop itself count if the core's other hardware thread is busy; each thread
// then has half the throughput. AVX2: more than two iterations; with two, LLVM mixes the loads of
// both and spills accumulators.
// Measured: Zen 3, shared core, unrolled by 2 -> 4: 128x768x768 and 1024x1024x1024 1.08 times as
// fast, by 8 no better.
// Measured: Xeon, shared core, 1024x768x768, % of the FMA roofline: by one 69, two 72, four 74;
// four compiles half as long again.
int tc_tiling_unrolled(void) {
  return tc_compiler_isa()->registers > 16 ? 2 : 4;
}

// With packed rows of a, unrolling gained nothing.
static void choose_unrolling(tc_tiling_params *b, const tc_extent3 *of, const tc_operand *left,
                             const tc_operand *right) {
  bool longer = !b->pack_a && (double)(of->batch * of->m * of->n) * (double)of->k >= UNROLLED;
  b->unroll = longer || is_split_bf16(right) ? tc_tiling_unrolled() : 1;
  while (b->chunk % b->unroll || of->k % b->unroll || left->segment % b->unroll) b->unroll /= 2;
  bool whole = of->k % b->chunk == 0 && tc_chain_of(of->k) % b->chunk == 0;
  if (reads_rows(b, of) && whole && b->chunk <= CHUNK_ROWS && left->segment == of->k) b->unroll = (int)b->chunk;
}

// Estimated time of the matmul on all threads, with units of `tiles` tiles by `panels` panels.
// cold: whether prepacked panels come from memory.
static double time_of(const tc_tiling_params *b, const tc_extent3 *of, const tc_operand *right, bool cold, int threads,
                      int64_t tiles, int64_t panels) {
  int64_t units = of->batch * tc_ceil_div(b->tiles, tiles) * tc_ceil_div(b->n_panels, panels);
  double rows = (double)(tiles * b->rows), columns = (double)(panels * b->lanes),
         first = right->panel ? COLD_COST * b->lanes : 0;
  if (b->pack) first = columns * (right->col != 1 ? TRANSPOSE_COST : PACK_COST);
  double busy = cold ? TC_MAX_OF(rows, COLD_ROWS) : rows;
  double unit = (busy * columns + first + rows * READ_A_COST) * (double)of->k + UNIT_COST;
  return ((double)tc_ceil_div(units, threads) + LATENESS) * unit;
}

// Units: what they read again is weighed against how evenly they fill the threads.
static void choose_units(tc_tiling_params *b, const tc_extent3 *of, int64_t size, const tc_operand *right,
                         int64_t cache) {
  bool small = (double)(of->batch * of->m * of->n) * (double)of->k < (b->pack || b->pack_a ? ALONE : ALONE_IN_PLACE);
  int threads = small ? 1 : tc_team_threads();
  int64_t most = b->n_panels, tallest = b->tiles, tall;
  // A unit's columns stay in the second-level cache beside rows of a and, if packed, their source.
  // Measured: 1 thread, 512x512x512, packed -> four panels at a time in place: 1.03 to 1.07 times
  // as fast.
  // Measured: Xeon, 2 MiB, 1 thread, 1024x1024x1024, relative to oneDNN: 256 KiB 1.14, 1024 KiB
  // 1.09. With a packed: 1024 KiB 0.92, 512 KiB 0.88.
  bool again = b->pack || (b->tiles > 1 && !right->panel);  // each tile of rows reads them
  if (b->by_panel)
    most = TC_MAX_OF(TC_MIN(PANEL_BYTES / (b->chunk * b->lanes * size), most), 1);
  else if (again)
    most = TC_MAX_OF(TC_MIN(cache / (b->pack_a ? 2 : 4) / (b->chunk * b->lanes * size), most), 1);
  // Prepacked panels pass through that cache one after the other, beside all rows of a.
  if (right->panel) tallest = TC_MAX_OF(TC_MIN(tallest, cache / 2 / (b->chunk * b->rows * size)), 1);
  double best = 0;
  bool cold = right->panel && of->n * of->k * (int64_t)tc_type_bytes(right->type) > cache;
  for (int64_t panels = most; panels >= 1; panels -= panels > 64 ? panels / 16 : 1)
    for (int64_t blocks = 1; blocks <= TC_MIN(b->tiles, 4 * threads); blocks++) {
      tall = TC_MIN(tc_ceil_div(b->tiles, blocks), tallest);
      if (b->chunk < of->k) tall = TC_MAX_OF(TC_MIN(tall, SUMS_BYTES / (b->rows * b->lanes * panels * size)), 1);
      double time = time_of(b, of, right, cold, threads, tall, panels);
      if (best == 0 || time < best) best = time, b->unit_panels = panels, b->unit_tiles = tall;
    }
  if (!reads_rows(b, of)) return;
  // that stay in the second-level cache
  int64_t sums = TC_MAX_OF(cache / 4 / (b->rows * b->lanes * size), 1);
  b->unit_panels = TC_MIN(tc_ceil_div(b->n_panels, TC_MAX_OF(threads / of->batch, 1)), sums);
}

// Panels of a stream: as many as fill the registers, as long as threads have equal shares.
static void choose_stream(tc_tiling_params *b, const tc_matmul_facts *f) {
  int threads = tc_team_threads();
  b->stream = 0;
  if (!b->once || b->chunk < f->of.k || !can_stream(b, &f->of, f->acc, &f->left, &f->right)) return;
  int64_t most = registers_of() / registers_of_panel(b, f->acc), best = 0;
  for (int64_t n = TC_MIN(most, b->n_panels); n >= 2; n--) {
    int64_t longest = tc_ceil_div(tc_ceil_div(b->n_panels, n), threads) * n;
    if (best == 0 || longest < best) best = longest, b->stream = n;
  }
  b->unit_panels = TC_MIN(best, b->n_panels);
}

// ---- given tilings ----

// Whether the numbers are in their fields' ranges; they may come from a file.
static bool is_sane(const tc_matmul_facts *f, const tc_gemm_tiling *given) {
  static const int64_t most[TC_N_TILING] = {
      [TC_TILING_ROWS] = MOST_ROWS, [TC_TILING_TRANSPOSE] = 1, [TC_TILING_PACK] = 1,    [TC_TILING_PACK_A] = 1,
      [TC_TILING_WIDEN_A] = 1,      [TC_TILING_STREAMED] = 1,  [TC_TILING_BY_PANEL] = 1};
  int64_t lanes = given->of[TC_TILING_LANES];
  for (int i = 0; i < TC_N_TILING; i++) {
    bool flag = most[i] == 1;
    if (given->of[i] == 0 && !flag) return false;
    if (most[i] && given->of[i] > most[i]) return false;
  }
  return (lanes < 0 || (lanes <= LANES && (lanes & (lanes - 1)) == 0)) && given->of[TC_TILING_CHUNK] <= f->of.k;
}

static int64_t scratch_bytes(const tc_tiling_params *b, int64_t k, int64_t size) {
  int64_t packed = b->pack ? b->unit_panels * b->chunk * b->lanes : 0,
          a = b->pack_a || b->widen_a ? b->a_tiles * b->rows * (b->chunk + 16) : 0;
  int64_t chain = tc_chain_of(k), sums = b->chunk < k ? b->unit_tiles * b->rows * b->unit_panels * b->lanes : 0;
  if (chain < k) sums *= 1 + (b->chunk < chain) + tc_chain_groups(k);
  return (packed + a + sums) * size;
}

// Whether emit/matmul/matmul.c can make a kernel of this tiling that is not absurd. Accumulators
// fit the registers, and scratch fits the worker's memory.
static bool is_legal(const tc_tiling_params *b, const tc_matmul_facts *f) {
  const tc_operand *left = &f->left, *right = &f->right;
  int size = (int)tc_type_bytes(f->acc), vector = TC_MIN(tc_compiler_vector_bytes() / size, LANES);
  int registers = b->rows * TC_MAX_OF(b->lanes / vector, 1);
  int64_t piece = left->segment < f->of.k ? left->segment : 1;
  bool in_place = right->panel || right->col == 1 || f->of.n == 1, chains = tc_chain_of(f->of.k) < f->of.k;
  if (right->words && (!(b->pack || b->transpose || right->panel) || (left->col != 1 && !b->pack_a))) return false;
  if (right->panel ? b->lanes != right->panel : b->lanes > most_lanes(size)) return false;
  if (b->rows > 1 && registers > registers_of() + SPARE) return false;
  if (b->transpose && (!can_transpose(&f->of, f->acc, left, right) || b->lanes < vector ||
                       b->lanes > transposed_lanes(&f->of, f->acc, right, vector) || b->tiles > 1 || b->pack ||
                       b->pack_a || b->chunk < f->of.k))
    return false;
  if (b->pack ? right->panel != 0 : !in_place && !b->transpose) return false;
  if (b->pack_a && !can_pack_a(b, &f->of, left)) return false;
  if (b->by_panel && (!b->widen_a || !can_go_by_panel(b, &f->of, f->acc, left))) return false;
  if (b->widen_a && !can_widen(b, &f->of, f->acc, left, right)) return false;
  if (b->once && !can_stream_once(b, right)) return false;
  if (b->chunk < f->of.k && ((!chains && b->chunk % piece) || (is_split_bf16(right) && b->chunk % 2))) return false;
  if (chains && b->chunk > TC_CHAIN && (b->chunk < f->of.k || b->pack || b->pack_a || b->by_panel)) return false;
  return b->unit_panels <= b->n_panels && b->unit_tiles <= b->tiles && scratch_bytes(b, f->of.k, size) <= MOST_SCRATCH;
}

tc_gemm_tiling tc_tiling_of(const tc_tiling_params *b) {
  return (tc_gemm_tiling){{b->lanes, b->rows, b->transpose, b->pack, b->pack_a, b->widen_a, b->once, b->by_panel,
                           b->chunk, b->unit_panels, b->unit_tiles}};
}

// Given tilings may change the units alone.
static bool choose_tmm(tc_tiling_params *b, const tc_matmul_facts *f, const tc_gemm_tiling *given) {
  tc_tiling_choose_tmm(b, f, choose_lanes(f->of.n, TC_TMM_SIDE, 4 * TC_TMM_SIDE));
  const tc_gemm_tiling model = tc_tiling_of(b);
  for (int i = 0; i < TC_TILING_UNIT_PANELS; i++)
    if (given_or(given, i, model.of[i]) != model.of[i]) return false;
  b->unit_panels = given_or(given, TC_TILING_UNIT_PANELS, b->unit_panels);
  b->unit_tiles = given_or(given, TC_TILING_UNIT_TILES, b->unit_tiles);
  return !given || tc_tiling_tmm_is_legal(b, f);
}

bool tc_tiling_choose(tc_tiling_params *b, const tc_matmul_facts *f, const tc_gemm_tiling *given) {
  int64_t cache = (int64_t)TC_MIN(TC_MAX_OF(tc_topology_get()->l2_bytes, (size_t)512 << 10), (size_t)2 << 20);
  if (f->tmm) return choose_tmm(b, f, given);
  if (given && !is_sane(f, given)) return false;
  choose_registers(b, &f->of, f->acc, &f->left, &f->right, cache, given);
  choose_packing(b, &f->of, f->acc, &f->left, &f->right, cache, given);
  choose_widening(b, &f->of, f->acc, &f->left, &f->right, cache, given);
  choose_unrolling(b, &f->of, &f->left, &f->right);
  choose_units(b, &f->of, (int64_t)tc_type_bytes(f->acc), &f->right, cache);
  choose_stream(b, f);
  b->unit_panels = given_or(given, TC_TILING_UNIT_PANELS, b->unit_panels);
  b->unit_tiles = given_or(given, TC_TILING_UNIT_TILES, b->unit_tiles);
  return !given || is_legal(b, f);
}

tc_units tc_tiling_units(const tc_tiling_params *b) {
  int64_t columns = tc_ceil_div(b->n_panels, b->unit_panels), blocks = tc_ceil_div(b->tiles, b->unit_tiles);
  tc_units u = {columns, blocks, b->unit_panels * b->lanes, b->unit_tiles, b->tiles, b->rows, b->tall};
  if (b->tmm) u.unit_tiles *= b->rows, u.tiles = b->tall, u.rows = 1;  // of one row each
  return u;
}

bool tc_tiling_of_any_rows(tc_tiling_params *b, const tc_matmul_facts *f, bool any_columns) {
  tc_matmul_facts any = *f;
  if (any_columns) any.of.n = ANY_COLUMNS;
  tc_gemm_tiling given;
  for (int i = 0; i < TC_N_TILING; i++) given.of[i] = -1;
  given.of[TC_TILING_BY_PANEL] = 0;
  any.of.m = ANY_ROWS;
  if (!tc_tiling_choose(b, &any, &given)) return false;
  given.of[TC_TILING_ROWS] = MOST_ANY_ROWS;
  if (!b->tmm && b->rows > MOST_ANY_ROWS && !tc_tiling_choose(b, &any, &given)) return false;
  b->n_panels = tc_ceil_div(f->of.n, b->lanes);
  return !b->pack_a && !b->transpose && !b->once;
}

typedef struct trying {
  const tc_matmul_facts *f;
  const tc_gemm_tiling *from;
  tc_gemm_tiling *out;
  int n;
} trying;

// Whether this part of a tiling is a yes or no, of which 0 is a value like another.
static bool is_flag(int what) {
  static const bool flag[TC_N_TILING] = {
      [TC_TILING_TRANSPOSE] = true, [TC_TILING_PACK] = true,     [TC_TILING_PACK_A] = true,
      [TC_TILING_WIDEN_A] = true,   [TC_TILING_STREAMED] = true, [TC_TILING_BY_PANEL] = true};
  return flag[what];
}

// Appends the tiling with one field changed and the fields from `first` on chosen by the model, if
// it is legal.
static void add_tiling(trying *t, int what, int64_t value, int first) {
  tc_gemm_tiling given = *t->from;
  tc_tiling_params b;
  for (int i = first; i < TC_N_TILING; i++) given.of[i] = -1;
  given.of[what] = value;
  if (value > 0 || is_flag(what))
    if (t->n < TC_MOST_NEIGHBOURS && tc_tiling_choose(&b, t->f, &given)) t->out[t->n++] = tc_tiling_of(&b);
}

int tc_tiling_neighbours(const tc_matmul_facts *f, const tc_gemm_tiling *tiling, tc_gemm_tiling *out) {
  trying t = {f, tiling, out, 0};
  const int64_t *of = tiling->of;
  int size = (int)tc_type_bytes(f->acc);
  int64_t piece = f->left.segment < f->of.k ? f->left.segment : 16;
  tc_tiling_params b;
  if (!tc_tiling_choose(&b, f, tiling)) return 0;
  for (int64_t lanes = most_lanes(size); lanes >= 1 && lanes * size * 2 > tc_compiler_vector_bytes(); lanes /= 2)
    if (lanes != of[TC_TILING_LANES]) add_tiling(&t, TC_TILING_LANES, lanes, TC_TILING_ROWS);
  for (int64_t rows = of[TC_TILING_ROWS] - 2; rows <= of[TC_TILING_ROWS] + 2; rows++)
    if (rows != of[TC_TILING_ROWS]) add_tiling(&t, TC_TILING_ROWS, rows, TC_TILING_CHUNK);
  for (int flag = TC_TILING_TRANSPOSE; flag <= TC_TILING_BY_PANEL; flag++)
    add_tiling(&t, flag, !of[flag],
               flag == TC_TILING_TRANSPOSE  ? TC_TILING_LANES
               : flag == TC_TILING_BY_PANEL ? TC_TILING_WIDEN_A
                                            : flag);
  add_tiling(&t, TC_TILING_CHUNK, f->of.k, TC_TILING_CHUNK);
  add_tiling(&t, TC_TILING_CHUNK, TC_MIN(2 * of[TC_TILING_CHUNK], f->of.k), TC_TILING_CHUNK);
  add_tiling(&t, TC_TILING_CHUNK, tc_ceil_div(of[TC_TILING_CHUNK], 2 * piece) * piece, TC_TILING_CHUNK);
  const int64_t most[] = {b.n_panels, b.tiles};
  for (int i = 0; i < 2; i++) {
    int what = i ? TC_TILING_UNIT_TILES : TC_TILING_UNIT_PANELS;
    const int64_t values[] = {of[what] / 2, 2 * of[what], tc_ceil_div(most[i], 2), most[i]};
    for (int j = 0; j < 4; j++) add_tiling(&t, what, TC_MIN(values[j], most[i]), TC_N_TILING);
  }
  return t.n;
}
