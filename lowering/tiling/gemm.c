// The model by which products are cut, with the measurements behind its numbers. See gemm.h.
#include "lowering/tiling/gemm.h"

#include "lowering/tiling/summation.h"
#include "lowering/kir/index_expr.h"
#include "lowering/target/host_cpu.h"
#include "lowering/target/cpu_target.h"
#include "runtime/options.h"
#include "runtime/status.h"
#include "runtime/team.h"
#include "runtime/topology.h"

// Beyond twice as much k goes in chunks of about so many, with sums kept in memory between them:
// packed columns fit the cache then, and rows of b read in place, each in a page of its own, what
// the processor knows of pages.
#define CHUNK 1024
// Of few rows, for which reading b is much of the work: of the second-level cache for each k of a
// chunk, at least. A quarter of it is packed columns, so 512 bytes of a row of b are read side by
// side. At one thread, times as fast by chunks of 512 as of 1024 on a Zen 4, 13x4096x4096 1.3,
// 16x4096x11008 1.2, 32x4096x4096 1.06, with vectors of 32 bytes 1.35, 1.08 and 1.25; on a Zen 3
// with 512 KiB, 32x4096x4096 1.4, chunks of 256 were not tried; 1024x2048x2048, against one chunk,
// 0.9.
#define CHUNK_SHARE 2048
#define FEW_ROWS 64
#define CHUNK_A 512  // of k where rows of a are packed too: packing them serves more columns then
#define CHUNK_APART \
  384  // of k where each step of it is in another line of a: so many stay in the first-level cache while they serve all
       // columns
// The same where a step takes longer than a line from the second-level cache (steps_are_long): rows
// of a are not packed then, and the next tile's lines are asked for. On a Zen 4, at one thread and
// at two, times as fast as packed: 768x512x3072 1.03, 3072x512x768 1.05, 1024x128x1024 1.04 and
// 1.0, 2048x512x2048 1.05 and 1.06, 50257x512x768 1.06 and 1.07, 1024x1024x1024 1.07,
// 2048x2048x2048 1.07 and 1.13, 768x4096x768 1.06 and 1.07; by chunks of 384 and of 768 less. With
// vectors of 32 bytes, which make a step 6 cycles, 0.6 to 1.0.
#define LONG_CHUNK_APART 512
// Where all rows are one tile, b is read once, from memory. Where the sums of several panels do not
// fit the registers it goes in chunks: so many rows of it side by side, each along the columns,
// each chunk asking for the next. The processor follows few such rows well; and a power of two
// apart they and those asked for, as many again, take turns in one set of the first-level cache,
// which holds 8 or 12. On a Xeon at two threads, against oneDNN: 6x4096x4096 in chunks of 4 1.98,
// of 8 1.93, of 16 1.71.
#define CHUNK_ONCE 4
// Where whole rows are read: a chunk asks for the next one to the second-level cache, so they do
// not. On a Zen 4, a C program of 4096x4096 at one thread, GB/s of 28 that a sum reads: 4 rows by
// 64 columns asked for to the first-level cache 17, to the second 23; 8 rows by 64 25, by 32 27, by
// 16 26; 16 by 32 24.
#define CHUNK_ROWS 8
// Of more rows than LINE_ROWS, whose sums cost more to put aside. Against chunks of 4: 12x768x3072
// of f32 1.14 times as fast, of bf16 1.32, 8x768x3072 0.9 to 1 and 1.11; against 8, 1.0 and 1.05 to
// 1.15.
#define CHUNK_ONCE_MANY 16
// Of so many rows, at most, a line of each row of b that is read is a panel: the rows' lines are
// read by turns then. On a Zen 4, 1x4096x4096 of f32 at one thread 0.89, 0.92 and 1.01 of a read
// so, 0.84, 0.89 and 0.92 by two lines, in runs by turns; at two 1.02 to 1.25 times as fast; 2, 4
// and 6 rows 1.0 to 1.09 times, 8 rows 0.89; from the third-level cache 1x768x3072 1.0, 1x3072x768
// at two threads 0.9. bf16, where a panel of 16 is half a line, 0.92 to 1.
#define LINE_ROWS 6
// Of sums in registers, at least, for b to be streamed: a stream reads no more than that of a row
// before it goes on to the next one, in another page. Where it would be less, whole rows are read
// in chunks, with the sums in memory: on a Zen 3 (AVX2, 384 bytes), from memory, at one thread and
// at two, 1x4096x4096 of f32 1.52 and 1.45 times as fast so, at one thread of bf16 2.2 and of bytes
// 2.6 times. A Zen 4 streams no better from 1536 bytes (host_cpu.h).
#define STREAM_BYTES 1024
// Where each panel serves some tiles in turn: of k, so that a packed panel is half of the
// first-level cache. It pays where all of a, which each unit's columns would read again, is many
// times the second-level cache. On a Zen 3 at one thread, times as fast as tile by tile:
// 2048x2048x2048 1.15, 1024x3072x768 1.05, 1024x1024x1024 1.0, 512x512x512 and 128x3072x768 0.97.
#define CHUNK_PANEL 256
#define PANEL_CACHES 8
#define PANEL_BYTES (2 << 20)  // of packed columns then, which lie in the third-level cache
#define SUMS_BYTES (4 << 20)  // of a unit's sums
#define A_TILES 8  // of a packed at a time
#define WIDE_BYTES (128 << 10)  // of rows of a that are widened, at most
// Costs of an element, a multiply-add of it being 1: read where it lies and written to a tile;
// transposed besides.
#define PACK_COST 8.0
#define TRANSPOSE_COST 14.0
#define READ_A_COST 6.0  // of a, for each time it is read
#define COLD_COST 16.0  // of a panel kept in memory, a unit's first: those that follow arrive in time
#define UNIT_COST 20000.0  // of a unit
#define ALONE 300000.0  // a whole product that one thread does: more units would only be more code
// One whose units repeat nothing: a lone product is shared where a second thread is at hand
// (stages.c, BRIEF_TASK_NS).
#define ALONE_IN_PLACE 150000.0
// A whole product for which a longer innermost loop is worth compiling, a fifth more. On a Zen 3 at
// one thread, times as fast so: 128x128x128 1.27, 32x128x128 1.17, 64x64x64 1.06, 128x100x10 1.13.
#define UNROLLED 5e4
// Registers for accumulators where k, and so a tile, is short. A Zen 4 stores half a vector a
// cycle, and with the stores of 24 before it the next tile begins late: times as fast with 16, at
// one thread, 64x64x64 1.01 to 1.02, 64x32x64 1.02 to 1.03, 256x64x256 1.01 to 1.02, 1024x32x64 1.0
// to 1.1; 128x96x128 and 128x128x128 0.99 to 1.01.
#define SHORT_K 64
#define SHORT_REGISTERS 16
#define MOST_ROWS 30  // of a tile
// Where the number of rows is an argument: of a unit, for which it is cut; and of a tile, since
// code for the rows that are left follows that of whole tiles.
#define ANY_ROWS 256
#define MOST_ANY_ROWS 8
// Rows and columns, at least, for bf16 to go by pairs: with fewer, reading the other factor is the
// work, in ways that packing would spoil. Of both as many, so that a product and the transposed one
// have the same bits.
#define LEAST_WINOGRAD_DOT 16
#define SPARE 4  // registers beside those that the model takes
#define MOST_SCRATCH (16 << 20)  // bytes of a worker that a cut may want
#define LATENESS 0.15  // of a unit: what the threads wait for the last one, since they are never equally fast

// What is given of the cut, or the model's value.
static int64_t given_or(const tc_gemm_tiling *given, int what, int64_t model) {
  return given && given->of[what] >= 0 ? given->of[what] : model;
}

// Registers for accumulators.
static int registers_of(void) {
  return tc_compiler_isa()->registers / 4 * 3;  // the rest hold the factors
}

// Lanes of a panel: as many as the registers allow unless that computes many columns nobody wants.
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
  bool large = TC_MIN(of->m, of->n) >= LEAST_WINOGRAD_DOT && of->k % 2 == 0;
  return left == TC_BF16 && right == TC_BF16 && large && tc_compiler_isa()->dots && !tc_options_get()->strict;
}

bool tc_tiling_halves(const tc_extent3 *of, tc_type right) {
  return right == TC_BF16 && of->m < LEAST_WINOGRAD_DOT && of->k % 2 == 0;
}

int tc_tiling_transposed_as_one(tc_type type, tc_type acc) {
  bool byte = type == TC_I8 || type == TC_U8;
  return type == TC_BF16 ? 2 : byte && acc == TC_F32 ? 4 : 1;
}

// Words are packed, or read where they lie side by side.
static bool of_words(const tc_operand *factor, tc_type acc) {
  return factor->type == TC_I32 && acc == TC_F32;
}

// Panels of words in which a product of few rows multiplies the halves one after the other, a step
// of k each.
static bool in_halves(const tc_operand *right) {
  return right->panel && right->type == TC_BF16 && 2 * right->row == right->panel;
}

static bool can_transpose(const tc_extent3 *of, tc_type acc, const tc_operand *left, const tc_operand *right) {
  int size = (int)tc_type_bytes(acc), vector = TC_MIN(tc_compiler_vector_bytes() / size, LANES);
  bool along_k = !right->panel && !of_words(right, acc) && right->row == 1 && right->col != 1 &&
                 left->segment == of->k && size >= 4 && vector >= 4;
  int transposed = tc_tiling_transposed_as_one(right->type, acc) * vector;  // rows of a block that is transposed
  // The block takes as many registers as a vector has lanes. On a Zen 4 at one thread, mx768x3072,
  // times as fast as packed: with 32 registers 8 rows 1.02 to 1.25, bf16 1.19 to 1.36, 12 rows 1.1
  // to 1.4 and 1.16 to 1.28; with 16 registers 4 rows 0.89.
  return along_k && of->m * (tc_compiler_isa()->registers > 16 ? 2 : 4) <= registers_of() && of->n >= vector &&
         of->k >= transposed;
}

// Lanes of panels that are transposed. A chain of multiply-adds waits four cycles for each one: of
// few rows two blocks by turns where the processor would wait for it, not for memory.
static int transposed_lanes(const tc_extent3 *of, tc_type acc, const tc_operand *right, int vector) {
  bool two = tc_tiling_transposed_as_one(right->type, acc) > 1 && of->m <= 3 && of->n >= 4 * vector;
  return two ? 2 * vector : vector;
}

// Bytes from one row of b to the next.
static int64_t pitch_of(const tc_operand *right) {
  return (right->panel ? right->panel : right->row) * (int64_t)tc_type_bytes(right->type);
}

// Whether b is more than stays in the second-level cache beside other things.
static bool is_from_afar(const tc_extent3 *of, const tc_operand *right, int64_t cache) {
  return pitch_of(right) * of->k > cache / 4;
}

// Whether multiplying a step of k takes 24 cycles: vectors that the processor does as two halves.
static bool steps_are_long(void) {
  return tc_host_halves_vectors() && tc_compiler_vector_bytes() == 64;
}

// Whether a tile's stores would hold up the next one. Not where the right factor comes from memory:
// the fewer tiles read it the better.
static bool ends_are_dear(const tc_extent3 *of, const tc_operand *right, int64_t cache) {
  return steps_are_long() && of->k <= SHORT_K && !is_from_afar(of, right, cache);
}

static void choose_registers(tc_tiling_params *b, const tc_extent3 *of, tc_type acc, const tc_operand *left,
                             const tc_operand *right, int64_t cache, const tc_gemm_tiling *given) {
  int size = (int)tc_type_bytes(acc), vector = TC_MIN(tc_compiler_vector_bytes() / size, LANES);
  b->lanes = right->panel ? (int)right->panel : choose_lanes(of->n, vector, most_lanes(size));
  // Rows that are one tile of panels half as wide, and two of whole ones: so b is read once, where
  // it lies, and not packed. On a Xeon with AVX-512 at two threads, GFLOP/s with two tiles and with
  // one: 8x768x3072 70 and 125, 12x768x3072 98 and 170, 8x4096x4096 52 and 71; bf16 100 and 154,
  // 131 and
  // 169. Panels of one register, for up to 24 rows, gain and lose. Where whole rows are read, fewer rows have such
  // panels, too (CHUNK_ROWS).
  bool halves = !right->panel && right->col == 1 && b->lanes == 4 * vector &&
                (of->m * 4 > registers_of() || tc_host_reads_rows()) && of->m * 2 <= registers_of();
  bool lines =
      halves && of->m <= LINE_ROWS && right->type == acc && tc_host_reads_rows() && is_from_afar(of, right, cache);
  if (halves) b->lanes = lines ? TC_MIN(b->lanes / 2, 64 / size) : b->lanes / 2;
  b->transpose = given_or(given, TC_TILING_TRANSPOSE, can_transpose(of, acc, left, right));
  b->lanes = (int)given_or(given, TC_TILING_LANES, b->transpose ? transposed_lanes(of, acc, right, vector) : b->lanes);
  int registers = ends_are_dear(of, right, cache) ? TC_MIN(registers_of(), SHORT_REGISTERS) : registers_of();
  // a panel that the user laid out may be wider than the registers
  b->rows = TC_MAX_OF(registers / TC_MAX_OF(b->lanes / vector, 1), 1);
  b->rows = (int)given_or(given, TC_TILING_ROWS, b->rows);
  b->tiles = tc_ceil_div(of->m, b->rows);
  b->rows = (int)tc_ceil_div(of->m, b->tiles);
  b->tall = of->m - b->tiles * (b->rows - 1);
  b->n_panels = tc_ceil_div(of->n, b->lanes);
}

static bool can_pack_a(const tc_tiling_params *b, const tc_extent3 *of, tc_type acc, const tc_operand *left) {
  return !left->scattered && left->segment == of->k && left->row == 1 && (b->tiles > 1 || of_words(left, acc));
}

// Whether all of a, which each unit's columns read again, is many times the second-level cache.
static bool is_large(const tc_extent3 *of, tc_type acc, int64_t cache) {
  return of->m * of->k * (int64_t)tc_type_bytes(acc) > PANEL_CACHES * cache;
}

// Whether each panel may serve some tiles in turn: b is packed, a chunk's panel is half of the
// first-level cache at most, rows of a lie beside it in the second.
static bool can_go_by_panel(const tc_tiling_params *b, const tc_extent3 *of, tc_type acc, const tc_operand *left) {
  size_t panel = (size_t)b->lanes * CHUNK_PANEL * tc_type_bytes(acc);
  bool rows = !left->scattered && left->segment == of->k && left->col == 1;
  return b->pack && !b->pack_a && rows && b->tiles > 1 && b->n_panels > 1 && 2 * panel <= tc_topology_get()->l1_bytes;
}

static bool can_read_once(const tc_tiling_params *b, const tc_operand *right) {
  return !b->transpose && !b->pack && !right->panel && b->tiles == 1;
}

// Registers that the sums of a panel take.
static int registers_of_panel(const tc_tiling_params *b, tc_type acc) {
  return b->rows * TC_MAX_OF(b->lanes * (int)tc_type_bytes(acc) / tc_compiler_vector_bytes(), 1);
}

// Whether whole rows of b are read faster than a stream of parts of rows: where all that the
// registers hold of sums is too little of one, or always.
static bool rows_beat_streams(void) {
  return registers_of() * tc_compiler_vector_bytes() < STREAM_BYTES || tc_host_reads_rows();
}

// Whether the sums of some panels fit the registers side by side, so that they need not be put
// aside while b streams by.
static bool can_stream(const tc_tiling_params *b, const tc_extent3 *of, tc_type acc, const tc_operand *left,
                       const tc_operand *right) {
  bool fits = 2 * registers_of_panel(b, acc) <= registers_of() && b->n_panels >= 2 && !rows_beat_streams();
  return can_read_once(b, right) && fits && !left->scattered && left->segment == of->k && right->col == 1;
}

// Whether each step of k is in another part of memory.
static bool is_strided(const tc_operand *left) {
  return left->col * (int64_t)tc_type_bytes(left->type) >= 512;
}

// Of k, at most, where it goes in chunks. apart: each step of it is in another line of a; deep:
// where nothing else limits it.
static int64_t most_of_chunk(const tc_tiling_params *b, bool apart, int64_t deep) {
  if (b->once) return b->rows > LINE_ROWS ? CHUNK_ONCE_MANY : rows_beat_streams() ? CHUNK_ROWS : CHUNK_ONCE;
  if (b->by_panel) return CHUNK_PANEL;
  if (b->pack_a) return CHUNK_A;
  return !apart ? deep : steps_are_long() ? LONG_CHUNK_APART : CHUNK_APART;
}

static void choose_packing(tc_tiling_params *b, const tc_extent3 *of, tc_type acc, const tc_operand *left,
                           const tc_operand *right, int64_t cache, const tc_gemm_tiling *given) {
  int64_t pitch = pitch_of(right);
  bool words = of_words(right, acc);
  // each k in a page of its own, or all of them much of the second-level cache
  bool far = pitch >= 4096 || pitch * of->k > cache / 2;
  bool pack = !b->transpose && !right->panel &&
              ((right->col != 1 && of->n > 1) || (right->type != acc && b->tiles > 1) || (far && b->tiles > 1));
  b->pack = given_or(given, TC_TILING_PACK, pack || (words && !right->panel));
  bool pack_a = can_pack_a(b, of, acc, left) && ((is_strided(left) && of->k >= 64 && !steps_are_long()) || words);
  b->pack_a = given_or(given, TC_TILING_PACK_A, pack_a);
  b->by_panel = given_or(given, TC_TILING_BY_PANEL, is_large(of, acc, cache) && can_go_by_panel(b, of, acc, left));
  b->a_tiles = TC_MIN(A_TILES, b->tiles);
  b->chunk = given_or(given, TC_TILING_CHUNK, of->k);
  b->once = given_or(given, TC_TILING_STREAMED, can_read_once(b, right) && is_from_afar(of, right, cache));
  bool apart = !b->pack_a && b->tiles > 1 && left->col * (int64_t)tc_type_bytes(left->type) >= 64;
  int64_t deep = of->m <= FEW_ROWS ? TC_MIN(CHUNK, cache / CHUNK_SHARE) : CHUNK;
  int64_t most = most_of_chunk(b, apart, deep);
  bool streams = b->once && can_stream(b, of, acc, left, right);
  bool again = b->pack || (far && !(right->panel && b->tiles == 1));  // rows of b are read by several tiles
  bool tilings = b->pack_a || b->once || b->by_panel || (apart && of->k > 2 * most) || (again && of->k > 2 * deep);
  if (b->transpose || !tilings || streams || given_or(given, TC_TILING_CHUNK, -1) >= 0) return;
  int64_t step = TC_MIN(most, 16), k = tc_chain_of(of->k);
  b->chunk = tc_ceil_div(tc_ceil_div(k, tc_ceil_div(k, most)), step) * step;
  if (k < of->k) return;
  int64_t piece = left->segment < of->k ? left->segment : 1;  // a chunk ends where a piece of the left factor does
  b->chunk = TC_MIN(TC_MAX_OF(b->chunk / piece, 1) * piece, of->k);
}

// A narrower element of a costs a conversion and a broadcast from a register wherever it is read;
// in the accumulators' type it is an operand of the multiply-add. On a Xeon with AVX-512, at one
// thread: 1024x1024x1024 of bf16 at 123 GFLOP/s read where it lies, 152 widened. And where panels
// serve many tiles in turn, their rows are read again and again: not from pages of their own, a
// power of two apart.
static bool can_widen(const tc_tiling_params *b, const tc_extent3 *of, tc_type acc, const tc_operand *left,
                      const tc_operand *right) {
  bool whole = !right->panel && !left->scattered && left->segment == of->k && left->col == 1;
  bool narrow = left->type != acc && !of_words(left, acc);
  return whole && !b->pack_a && (narrow || b->by_panel) &&
         b->rows * b->chunk * (int64_t)tc_type_bytes(acc) <= WIDE_BYTES;
}

// Whether each tile's rows of a come from where they lie, and from memory: all of a is more than
// the caches keep between two panels. On a Zen 4, times as fast as without: 4096x4096x4096 1.03 at
// one thread and at two, 2048x2048x2048 1.03 and 1.01, 1024x3072x768 1.01; 1024x1024x1024, whose
// rows a third-level cache holds, 1.0 and 1.0.
static bool asks_for_rows(const tc_tiling_params *b, const tc_extent3 *of, const tc_operand *left) {
  bool in_place =
      !b->pack_a && !b->widen_a && !b->transpose && !left->scattered && left->col == 1 && left->segment == of->k;
  return in_place && b->pack && b->tiles > 1;
}

static void choose_widening(tc_tiling_params *b, const tc_extent3 *of, tc_type acc, const tc_operand *left,
                            const tc_operand *right, int64_t cache, const tc_gemm_tiling *given) {
  b->widen_a = given_or(given, TC_TILING_WIDEN_A, can_widen(b, of, acc, left, right) && b->n_panels > 1);
  b->prefetch_a = is_large(of, acc, cache) && asks_for_rows(b, of, left);
  b->prefetch_strided = !b->pack_a && b->tiles > 1 && !left->scattered && left->row == 1 && is_strided(left);
  if (!b->widen_a) return;
  int64_t tile = b->rows * b->chunk * (int64_t)tc_type_bytes(acc);
  b->a_tiles = b->by_panel ? TC_MIN(TC_MAX_OF(cache / 4 / tile, 1), b->tiles) : 1;
}

// Whether b is read in chunks of whole rows, as far as the threads leave them whole, where a stream
// would be too narrow.
static bool reads_rows(const tc_tiling_params *b, const tc_extent3 *of) {
  return b->once && b->chunk < of->k && rows_beat_streams();
}

// A processor whose core has another program on its other thread takes half as many instructions a
// cycle from this one, and those of the loop itself count. On a Xeon with 24 multiply-adds a step,
// 1024x768x768 at one thread in % of the FMA roof, where the core seemed to be shared: 69 by one,
// 72 by two, 74 by four; else 92 to 93; four take half as long again to compile. On a Zen 3 with 12
// a step, such a core, four against two: 256x256x256 1.07 times as fast, 128x768x768 and
// 1024x1024x1024 1.08, eight no better; 4x12x512x64 attention, against one, 1.03 forward and 1.05
// backward; with two 0.74, for there LLVM mixes the loads of both and keeps accumulators on the
// stack.
int tc_tiling_unrolled(void) {
  return tc_compiler_isa()->registers > 16 ? 2 : 4;
}

// Where rows of a are packed it gained nothing.
static void choose_unrolling(tc_tiling_params *b, const tc_extent3 *of, const tc_operand *left,
                             const tc_operand *right) {
  bool longer = !b->pack_a && (double)(of->batch * of->m * of->n) * (double)of->k >= UNROLLED;
  b->unroll = longer || in_halves(right) ? tc_tiling_unrolled() : 1;
  while (b->chunk % b->unroll || of->k % b->unroll || left->segment % b->unroll) b->unroll /= 2;
  bool whole = of->k % b->chunk == 0 && tc_chain_of(of->k) % b->chunk == 0;
  if (reads_rows(b, of) && whole && b->chunk <= CHUNK_ROWS && left->segment == of->k) b->unroll = (int)b->chunk;
}

// Estimated time of the product on all threads, cut into units of so many tiles and panels.
static double time_of(const tc_tiling_params *b, const tc_extent3 *of, const tc_operand *right, int threads,
                      int64_t tiles, int64_t panels) {
  int64_t units = of->batch * tc_ceil_div(b->tiles, tiles) * tc_ceil_div(b->n_panels, panels);
  double rows = (double)(tiles * b->rows), columns = (double)(panels * b->lanes),
         first = right->panel ? COLD_COST * b->lanes : 0;
  if (b->pack) first = columns * (right->col != 1 ? TRANSPOSE_COST : PACK_COST);
  double unit = (rows * columns + first + rows * READ_A_COST) * (double)of->k + UNIT_COST;
  return ((double)tc_ceil_div(units, threads) + LATENESS) * unit;
}

// Units: what they read again, against how evenly they fill the threads.
static void choose_units(tc_tiling_params *b, const tc_extent3 *of, int64_t size, const tc_operand *right,
                         int64_t cache) {
  bool small = (double)(of->batch * of->m * of->n) * (double)of->k < (b->pack || b->pack_a ? ALONE : ALONE_IN_PLACE);
  int threads = small ? 1 : tc_team_threads();
  int64_t most = b->n_panels, tallest = b->tiles, tall;
  // A unit's columns stay in the second-level cache, beside rows of a and, packed, what they are
  // packed from. Read where they lie, four panels at a time, 512x512x512 is 1.03 to 1.07 times as
  // fast at one thread as packed. On a Xeon with 2 MiB of it, 1024x1024x1024 at one thread, against
  // oneDNN: 1.14 with 256 KiB of packed columns, 1.11 with 512, 1.09 with 1024; where packing a is
  // dear, 0.92 with 1024 and 0.88 with 512.
  bool again = b->pack || (b->tiles > 1 && !right->panel);  // each tile of rows reads them
  if (b->by_panel)
    most = TC_MAX_OF(TC_MIN(PANEL_BYTES / (b->chunk * b->lanes * size), most), 1);
  else if (again)
    most = TC_MAX_OF(TC_MIN(cache / (b->pack_a ? 2 : 4) / (b->chunk * b->lanes * size), most), 1);
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
  if (!reads_rows(b, of)) return;
  int64_t sums = TC_MAX_OF(cache / 4 / (b->rows * b->lanes * size), 1);  // that stay in the second-level cache
  b->unit_panels = TC_MIN(tc_ceil_div(b->n_panels, TC_MAX_OF(threads / of->batch, 1)), sums);
}

// Panels of a stream: what fills the registers, as long as that leaves the threads equal shares.
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

// ---- cuts that are given ----

// Whether the numbers are of the kind that they should be, whatever they come from.
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

// Whether emit/matmul/matmul.c can make a kernel of it, that is not absurd: registers for the
// accumulators, memory of the worker for what waits.
static bool is_legal(const tc_tiling_params *b, const tc_matmul_facts *f) {
  const tc_operand *left = &f->left, *right = &f->right;
  int size = (int)tc_type_bytes(f->acc), vector = TC_MIN(tc_compiler_vector_bytes() / size, LANES);
  int registers = b->rows * TC_MAX_OF(b->lanes / vector, 1);
  int64_t piece = left->segment < f->of.k ? left->segment : 1;
  bool in_place = right->panel || right->col == 1 || f->of.n == 1, chains = tc_chain_of(f->of.k) < f->of.k;
  if (of_words(right, f->acc) && (!(b->pack || right->panel) || (left->col != 1 && !b->pack_a))) return false;
  if (right->panel ? b->lanes != right->panel : b->lanes > most_lanes(size)) return false;
  if (b->rows > 1 && registers > registers_of() + SPARE) return false;
  if (b->transpose && (!can_transpose(&f->of, f->acc, left, right) || b->lanes < vector ||
                       b->lanes > transposed_lanes(&f->of, f->acc, right, vector) || b->tiles > 1 || b->pack ||
                       b->pack_a || b->chunk < f->of.k))
    return false;
  if (b->pack ? right->panel != 0 : !in_place && !b->transpose) return false;
  if (b->pack_a && !can_pack_a(b, &f->of, f->acc, left)) return false;
  if (b->by_panel && (!b->widen_a || !can_go_by_panel(b, &f->of, f->acc, left))) return false;
  if (b->widen_a && !can_widen(b, &f->of, f->acc, left, right)) return false;
  if (b->once && !can_read_once(b, right)) return false;
  if (b->chunk < f->of.k && ((!chains && b->chunk % piece) || (in_halves(right) && b->chunk % 2))) return false;
  if (chains && b->chunk > TC_CHAIN && (b->chunk < f->of.k || b->pack || b->pack_a || b->by_panel)) return false;
  return b->unit_panels <= b->n_panels && b->unit_tiles <= b->tiles && scratch_bytes(b, f->of.k, size) <= MOST_SCRATCH;
}

bool tc_tiling_choose(tc_tiling_params *b, const tc_matmul_facts *f, const tc_gemm_tiling *given) {
  int64_t cache = (int64_t)TC_MIN(TC_MAX_OF(tc_topology_get()->l2_bytes, (size_t)512 << 10), (size_t)2 << 20);
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

tc_gemm_tiling tc_tiling_of(const tc_tiling_params *b) {
  return (tc_gemm_tiling){{b->lanes, b->rows, b->transpose, b->pack, b->pack_a, b->widen_a, b->once, b->by_panel,
                           b->chunk, b->unit_panels, b->unit_tiles}};
}

tc_units tc_tiling_units(const tc_tiling_params *b) {
  return (tc_units){tc_ceil_div(b->n_panels, b->unit_panels),
                    tc_ceil_div(b->tiles, b->unit_tiles),
                    b->unit_panels * b->lanes,
                    b->unit_tiles,
                    b->tiles,
                    b->rows,
                    b->tall};
}

bool tc_tiling_of_any_rows(tc_tiling_params *b, const tc_matmul_facts *f) {
  tc_matmul_facts any = *f;
  tc_gemm_tiling given;
  for (int i = 0; i < TC_N_TILING; i++) given.of[i] = -1;
  given.of[TC_TILING_BY_PANEL] = 0;
  any.of.m = ANY_ROWS;
  if (!tc_tiling_choose(b, &any, &given)) return false;
  given.of[TC_TILING_ROWS] = MOST_ANY_ROWS;
  return (b->rows <= MOST_ANY_ROWS || tc_tiling_choose(b, &any, &given)) && !b->pack_a && !b->transpose && !b->once;
}

typedef struct trying {
  const tc_matmul_facts *f;
  const tc_gemm_tiling *from;
  tc_gemm_tiling *out;
  int n;
} trying;

// The cut with one field changed, and the others from `first` on left to the model.
static void add(trying *t, int what, int64_t value, int first) {
  tc_gemm_tiling given = *t->from;
  tc_tiling_params b;
  for (int i = first; i < TC_N_TILING; i++) given.of[i] = -1;
  given.of[what] = value;
  if (value > 0 || (what >= TC_TILING_TRANSPOSE && what <= TC_TILING_BY_PANEL))
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
    if (lanes != of[TC_TILING_LANES]) add(&t, TC_TILING_LANES, lanes, TC_TILING_ROWS);
  for (int64_t rows = of[TC_TILING_ROWS] - 2; rows <= of[TC_TILING_ROWS] + 2; rows++)
    if (rows != of[TC_TILING_ROWS]) add(&t, TC_TILING_ROWS, rows, TC_TILING_CHUNK);
  for (int flag = TC_TILING_TRANSPOSE; flag <= TC_TILING_BY_PANEL; flag++)
    add(&t, flag, !of[flag],
        flag == TC_TILING_TRANSPOSE  ? TC_TILING_LANES
        : flag == TC_TILING_BY_PANEL ? TC_TILING_WIDEN_A
                                     : flag);
  add(&t, TC_TILING_CHUNK, f->of.k, TC_TILING_CHUNK);
  add(&t, TC_TILING_CHUNK, TC_MIN(2 * of[TC_TILING_CHUNK], f->of.k), TC_TILING_CHUNK);
  add(&t, TC_TILING_CHUNK, tc_ceil_div(of[TC_TILING_CHUNK], 2 * piece) * piece, TC_TILING_CHUNK);
  const int64_t most[] = {b.n_panels, b.tiles};
  for (int i = 0; i < 2; i++) {
    int what = i ? TC_TILING_UNIT_TILES : TC_TILING_UNIT_PANELS;
    const int64_t values[] = {of[what] / 2, 2 * of[what], tc_ceil_div(most[i], 2), most[i]};
    for (int j = 0; j < 4; j++) add(&t, what, TC_MIN(values[j], most[i]), TC_N_TILING);
  }
  return t.n;
}
