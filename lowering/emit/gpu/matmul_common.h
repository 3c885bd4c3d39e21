// Private to the GPU's matmul emitters: an operand as blocks stage it, and what the ways to
// multiply share.
#pragma once

#include "lowering/emit/emitters.h"
#include "lowering/emit/register_block.h"
#include "lowering/emit/shorthand.h"

#define TC_GEMM_COUNT(a) (int)(sizeof(a) / sizeof *(a))
#define TC_GEMM_COPIED 16  // bytes that a copy to a tile moves, and the widest access of a thread
#define TC_GEMM_PIECES 32  // most pieces of an operand that a thread stages at a time
#define TC_GEMM_CONDS 8
// most accumulators of a thread that leave registers for as many totals
#define TC_GEMM_MOST_IN_CHAINS 64
// elements of padding after a row of a tile of 16-bit types, so that the reads of 64 threads spread
// evenly over banks
#define TC_GEMM_MFMA_PAD 4

// A block's tile: rows x columns of the result, in chunks of `steps` steps of k. Threads form a
// grid of accumulators, or of warps.
typedef struct tc_gpu_gemm_tiling {
  int rows, columns, steps;
  int down, across;  // accumulators of a thread; with matrix instructions, warps of the block
  double speed;  // throughput of a large matmul, relative to the other tilings of its kind
} tc_gpu_gemm_tiling;

// How a matmul is computed, which decides its operands' layout in shared memory.
typedef enum tc_gemm_way {
  TC_GEMM_SIMT,  // multiply-adds: rows of steps of k, padded
  TC_GEMM_MMA,  // m16n8k16 of a warp: rows as they lie in memory, swizzled
  TC_GEMM_MFMA,  // 16x16x16 of 64 threads: rows as they lie in memory, padded
  TC_GEMM_WGMMA,  // 64 rows of four warps: TMA boxes
} tc_gemm_way;

// An operand. Its lines are rows of the left one or columns of the right one; each has steps of k.
typedef struct tc_gemm_side {
  uint32_t node;  // the operand; position[] is its index over A, its range and K0
  tc_index position[TC_MAX_RANK];
  uint8_t range;   // TC_RANGE_F or TC_RANGE_K
  int64_t extent;  // extent of the range
  tc_index lean;  // index of the largest tensor that the operand is computed from
  bool leans;  // true: `lean` is known
  int bytes;  // bytes of an element of that tensor
  // true: the operand is in memory, perhaps padded with zeros, and can be copied to a tile
  // unchanged
  bool plain;
  uint32_t source;
  tc_index flat;
  struct {
    tc_index at;
    int64_t extent;
    // true: the index may be below 0, may reach the extent; the element is zero there
    bool low, high;
  } cond[TC_GEMM_CONDS];
  int n_cond;
  // How it is staged.
  int size;  // lines of a tile
  bool along;  // true: a thread's run of elements follows k; false: it crosses lines
  int run;  // adjacent elements that a thread moves at once
  bool copied;  // true: by asynchronous copies, while other chunks are multiplied
  bool by_line;  // true: a row of a tile is a line; false: a step of k
  // true: 16-byte chunks of a row are permuted, so that those of 8 rows lie in different banks
  bool swizzled;
  tc_type type;  // type of the tile's elements
  int stages;  // tiles in shared memory
  int64_t row;  // elements of a tile's row
  int64_t stage;  // elements of a tile, and of the space to which threads without a run copy zeros
  int tile;
  // For TMA: the matrix in memory, and whether its rows are steps of k.
  tc_tensor_map map;
  bool transposed;
} tc_gemm_side;

typedef struct tc_gemm {
  tc_emit_ctx *s;
  uint32_t node;
  const tc_gemm_tiling *asked;  // requested tile sizes; NULL: the model's
  tc_gemm_way way;
  tc_type acc;  // type of the accumulators
  tc_extent3 of;
  tc_multiply_way multiply;
  int64_t chain;  // steps of a chain (summation.h)
  bool chains;  // true: there are several; their results are added in registers of their own
  int threads;
  tc_gpu_gemm_tiling by;
  tc_gemm_side a, b;
  tc_val thread;  // thread numbers, one a lane
  tc_val unit, row, column;  // the current unit; the first row and column of its tile
  int sums;  // tile through which accumulators become rows
  int sums_rows;
} tc_gemm;

// The rows of the tile `sums`: its row r is row first + (r / group) * stride + r % group of the
// block's tile.
typedef struct tc_gemm_rows {
  int first, group, stride;
} tc_gemm_rows;

// v / n and v % n for v that is not negative and n a power of two.
static inline tc_val tc_gemm_high(tc_emit_ctx *s, tc_val v, int64_t n) {
  return n == 1 ? v : bin(s, TC_IR_USHR, v, i64(s, 63 - __builtin_clzll((uint64_t)n)));
}
static inline tc_val tc_gemm_low(tc_emit_ctx *s, tc_val v, int64_t n) {
  return bin(s, TC_IR_AND, v, i64(s, n - 1));
}
static inline tc_type tc_gemm_type_of(const tc_gemm *p, const tc_gemm_side *x) {
  return p->s->g->node[x->node].type;
}
// Called after the operands' last read. Threads read other addresses than they write, so no result
// may share an operand's memory.
static inline void tc_gemm_operands_read(tc_gemm *p) {
  for (uint32_t i = 0; i < p->s->x->n_buf; i++) p->s->x->same &= ~(UINT64_C(1) << i);
}
// Elements of a row of the tile `sums`.
static inline int64_t tc_gemm_sums_row(const tc_gemm *p) {
  return p->by.columns + 8;
}

// ---- matmul_common.c ----

// Interleaves n values of a lane a thread to one value in which each thread holds n adjacent
// elements.
tc_val tc_gemm_join(tc_emit_ctx *s, const tc_val *v, int n);

// Makes n variables for sums, which start at `zero`, and for the chains' totals; with one chain,
// totals are the sums.
void tc_gemm_begin_sums(tc_gemm *p, tc_val zero, tc_val *acc, tc_val *total, int n);
// Adds the results of chains that end to the totals, and clears the accumulators.
void tc_gemm_add_to_totals(tc_gemm *p, const tc_val *acc, const tc_val *total, int n);
// Begins an IF whose condition is that a chain ends with steps [k0, k0 + steps). False if there is
// one chain; nothing is emitted then.
bool tc_gemm_begin_end_of_chain(tc_gemm *p, tc_val k0, int steps);
// Ends an iteration over k that did steps [k0, k0 + steps): adds to the totals where a chain ends.
// Emits nothing if there is one chain.
void tc_gemm_end_chain(tc_gemm *p, tc_val k0, int steps, const tc_val *acc, const tc_val *total, int n);

// Tiles of the result, over all batches.
int64_t tc_gemm_n_tiles(const tc_gemm *p, const tc_gpu_gemm_tiling *c);
// The rows and columns (lanes) that TC_GPU_TILE requests; false: none.
bool tc_gemm_tiling_option(tc_gemm_tiling *out);
// Chooses the fastest tiling by the model among those that match the request's rows and columns
// (lanes). Without a request, among those that match TC_GPU_TILE, if one fits; else among all.
// Returns false if none fits.
bool tc_gemm_choose(tc_gemm *p, const tc_gpu_gemm_tiling *tiling, int n);
// Writes a fragment of 16 x 8 accumulators to the tile `sums`. Each thread has four of them, from
// element `first` of `sum` on; row and column + right are those of its first. mask: threads that
// write; TC_NONE: all do.
void tc_gemm_put_fragment(tc_gemm *p, tc_val row, tc_val column, tc_val sum, int first, int64_t right, tc_val mask);
// Emits the epilogue for the rows in the tile `sums`, which every thread has written.
void tc_gemm_finish(tc_gemm *p, tc_gemm_rows rows);

// ---- matmul_stage.c ----

// Finds operand k of the product.
bool tc_gemm_side_find(tc_gemm *p, int k, tc_gemm_side *x);
// Distance between neighbours of the range; INT64_MAX: no single stride.
int64_t tc_gemm_stride_of(const tc_index *x, uint8_t range);
// Chooses a tiling and plans how both operands are staged by it, in two stages. Returns false if no
// tiling fits.
bool tc_gemm_plan(tc_gemm *p, const tc_gpu_gemm_tiling *tiling, int n);
// The element of a stage's tile that holds step k of a line; both count from the tile's first.
tc_val tc_gemm_side_place(tc_gemm *p, const tc_gemm_side *x, tc_val line, tc_val k);
// Starts asynchronous copies of the elements from step k0 on to a stage.
void tc_gemm_side_copy(tc_gemm *p, tc_gemm_side *x, tc_val k0, tc_val stage);

// A chunk of k: both operands' tiles hold it in `stage`, while the next chunk is being loaded to
// registers.
typedef struct tc_gemm_chunk {
  tc_val k0, stage;  // k0: its first step
  tc_val a[TC_GEMM_PIECES], b[TC_GEMM_PIECES];
} tc_gemm_chunk;

// Loads or computes the operands that are not copied, from step k0 on, and stores them in a stage.
// may_end: steps may exceed the last.
void tc_gemm_load(tc_gemm *p, tc_val k0, bool may_end, tc_gemm_chunk *c);
void tc_gemm_put(tc_gemm *p, tc_val stage, const tc_gemm_chunk *c);
// Begins the loop over all chunks, with two stages. The caller then emits the multiplication of the
// chunk.
void tc_gemm_chunks_begin(tc_gemm *p, tc_gemm_chunk *c);
void tc_gemm_chunks_end(tc_gemm *p, const tc_gemm_chunk *c);

// ---- the ways to multiply: each emits the current tile and its epilogue ----

bool tc_gemm_simt_plan(tc_gemm *p);
const tc_gpu_gemm_tiling *tc_gemm_simt_tilings(const tc_gemm *p, int *n);
void tc_gemm_simt(tc_gemm *p);
bool tc_gemm_mma_plan(tc_gemm *p);
const tc_gpu_gemm_tiling *tc_gemm_mma_tilings(int *n);
void tc_gemm_mma(tc_gemm *p);
bool tc_gemm_mfma_plan(tc_gemm *p);
const tc_gpu_gemm_tiling *tc_gemm_mfma_tilings(int *n);
void tc_gemm_mfma(tc_gemm *p);
// Whether wgmma is requested, and both operands are large enough and can be loaded by TMA in place.
// Fills their tensor maps if so.
bool tc_gemm_wgmma_fits(tc_gemm *p);
bool tc_gemm_wgmma_plan(tc_gemm *p);
const tc_gpu_gemm_tiling *tc_gemm_wgmma_tilings(int *n);
void tc_gemm_wgmma(tc_gemm *p);
// Few rows or few columns; emits all units.
bool tc_gemv_fits(const tc_gemm *p);
void tc_gemv(tc_gemm *p);
