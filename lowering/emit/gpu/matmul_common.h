// Inside the GPU's matrix products: an operand as blocks of threads stage it, and what the ways to
// multiply share. Not for others.
#ifndef TC_LOWERING_EMIT_GPU_MATMUL_COMMON_H
#define TC_LOWERING_EMIT_GPU_MATMUL_COMMON_H

#include "lowering/tiling/gemm.h"
#include "lowering/tiling/summation.h"
#include "lowering/emit/emitters.h"
#include "lowering/emit/register_block.h"
#include "lowering/emit/shorthand.h"

#define TC_GEMM_COPIED 16  // bytes that a copy to a tile moves, and the widest access of a thread
#define TC_GEMM_PIECES 32  // of an operand that a thread stages at a time
#define TC_GEMM_CONDS 8
#define TC_GEMM_MOST_IN_CHAINS 64  // accumulators of a thread; as many totals beside them
#define TC_GEMM_MFMA_PAD \
  4  // elements behind a row of a tile of halves: then what 64 threads read of it lies in all banks alike

// What a block works on at a time: rows x columns of the result and steps of k. Threads are a grid:
// of as many accumulators each, or of warps.
typedef struct tc_gpu_gemm_tiling {
  int rows, columns, steps;
  int down, across;  // accumulators of a thread; with matrix instructions warps of the block
  double speed;  // of a large product, relative to others of its kind
} tc_gpu_gemm_tiling;

// How products are multiplied, and so how their operands lie in the block's memory.
typedef enum tc_gemm_way {
  TC_GEMM_SIMT,  // by multiply-adds: rows of steps of k, padded
  TC_GEMM_MMA,   // m16n8k16 of a warp: rows as they lie in memory, swizzled
  TC_GEMM_MFMA,  // 16x16x16 of 64 threads: rows as they lie in memory, padded
  TC_GEMM_WGMMA,  // 64 rows of four warps: boxes
} tc_gemm_way;

// An operand: rows of the left one or columns of the right one, "lines", by steps of k.
typedef struct tc_gemm_side {
  uint32_t node;  // and its position over A, its range and K0
  tc_index position[TC_MAX_RANK];
  uint8_t range;   // TC_RANGE_F or TC_RANGE_K
  int64_t extent;  // of the range
  tc_index lean;   // where the largest of what it is made of lies
  bool leans;      // whether that is known
  int bytes;       // of an element of that
  // In memory itself, or beside zeros: can be copied to a tile as it is.
  bool plain;
  uint32_t source;
  tc_index flat;
  struct {
    tc_index at;
    int64_t extent;
    bool low, high;  // the index may be below 0, may reach the extent: there are zeros
  } cond[TC_GEMM_CONDS];
  int n_cond;
  // Staged.
  int size;        // lines of a tile
  bool along;      // a thread's run of elements follows k
  int run;         // elements side by side
  bool copied;     // by copies that are under way while others are multiplied
  bool by_line;    // a row of a tile is a line; else a step of k
  bool swizzled;   // 16-byte chunks of a row change places, so that those of 8 rows lie in different banks
  tc_type type;    // in the tile
  int stages;      // tiles that there is room for
  int64_t row;     // elements of a tile's row
  int64_t stage;   // of a tile, and of what threads without a run of it copy zeros to
  int tile;
  // Fetched: the matrix in memory, and whether its rows are steps of k.
  tc_tensor_map map;
  bool transposed;
} tc_gemm_side;

typedef struct tc_gemm {
  tc_emit_ctx *s;
  uint32_t node;
  const tc_gemm_tiling *asked;  // tile sizes to take; NULL: those of the model
  tc_gemm_way way;
  tc_type acc;  // of the accumulators
  tc_extent3 of;
  tc_multiply_way multiply;
  int64_t chain;  // steps of a chain (summation.h)
  bool chains;  // there are more than one: their results are added in registers of their own
  int threads;
  tc_gpu_gemm_tiling by;
  tc_gemm_side a, b;
  tc_val thread;       // their numbers, a lane each
  tc_val unit, row, column;  // the present one; the first of its tile
  int sums;            // tile by which accumulators become rows
  int sums_rows;
} tc_gemm;

// Rows of the tile `sums` and where they belong: row r is row first + (r / group) * stride + r %
// group of the block's.
typedef struct tc_gemm_rows {
  int first, group, stride;
} tc_gemm_rows;

// v / n and v % n of what is not negative, n being a power of two.
static inline int tc_gemm_log2(int64_t n) {
  return 63 - __builtin_clzll((unsigned long long)n);
}
static inline tc_val tc_gemm_high(tc_emit_ctx *s, tc_val v, int64_t n) {
  return n == 1 ? v : bin(s, TC_IR_USHR, v, i64(s, tc_gemm_log2(n)));
}
static inline tc_val tc_gemm_low(tc_emit_ctx *s, tc_val v, int64_t n) {
  return bin(s, TC_IR_AND, v, i64(s, n - 1));
}
static inline tc_type tc_gemm_type_of(const tc_gemm *p, const tc_gemm_side *x) {
  return p->s->g->node[x->node].type;
}
// Called when the operands have been read for the last time: they are read at other places than
// those where a thread writes, so that no result may lie over them.
static inline void tc_gemm_operands_read(tc_gemm *p) {
  for (uint32_t i = 0; i < p->s->x->n_buf; i++) p->s->x->same &= ~(UINT64_C(1) << i);
}
// Elements of a row of the tile `sums`.
static inline int64_t tc_gemm_sums_row(const tc_gemm *p) {
  return p->by.columns + 8;
}

// ---- matmul_common.c ----

// n values of a lane a thread as one whose threads hold n elements side by side.
tc_val tc_gemm_join(tc_emit_ctx *s, const tc_val *v, int n);

// Whether that many accumulators of a thread, of 4 bytes, leave it room for what chains add up to,
// where there are several.
static inline bool tc_gemm_has_room(const tc_gemm *p, int accumulators) {
  return !p->chains || accumulators <= TC_GEMM_MOST_IN_CHAINS;
}
// Variables, n and zero like the accumulators, for what chains add up to; the accumulators where
// there is one chain.
void tc_gemm_totals(tc_gemm *p, const tc_val *acc, tc_val *total, int n);
// The results of chains that end, added to the totals, and zeros for those that begin.
void tc_gemm_add_to_totals(tc_gemm *p, const tc_val *acc, const tc_val *total, int n);
// Begins an IF of whether a chain ends with steps [k0, k0 + steps); false, and nothing, where there
// is one chain.
bool tc_gemm_begin_end_of_chain(tc_gemm *p, tc_val k0, int steps);
// At the end of a loop over k whose turn did steps [k0, k0 + steps): where a chain ends, adds it to
// the totals. Nothing where there is one chain.
void tc_gemm_end_chain(tc_gemm *p, tc_val k0, int steps, const tc_val *acc, const tc_val *total, int n);

// Tiles of the result, of all batches.
int64_t tc_gemm_n_tiles(const tc_gemm *p, const tc_gpu_gemm_tiling *c);
// The rows and columns (lanes) that TC_GPU_TILE asks for; false: none.
bool tc_gemm_tiling_option(tc_gemm_tiling *out);
// The cut that takes the least time by the model, of those with the rows and columns (lanes) that
// the expansion was given, if any, else of those that TC_GPU_TILE asks for, if there is one. NULL:
// none fits.
const tc_gpu_gemm_tiling *tc_gemm_choose(const tc_gemm *p, const tc_gpu_gemm_tiling *tiling, int n);
// What follows the product, on the rows in the tile `sums`, which every thread has written.
void tc_gemm_finish(tc_gemm *p, tc_gemm_rows rows);

// ---- matmul_stage.c ----

// Finds operand k of the product.
bool tc_gemm_side_find(tc_gemm *p, int k, tc_gemm_side *x);
// How far apart neighbours of the range lie; INT64_MAX where no stride says it.
int64_t tc_gemm_stride_of(const tc_index *x, uint8_t range);
// How the operand is staged, its tile included: size lines of `steps`. type: in the tile.
void tc_gemm_side_plan(tc_gemm *p, tc_gemm_side *x, int size, tc_type type);
// The element of a stage's tile that holds step k of a line, both numbered from the tile's first.
tc_val tc_gemm_side_place(tc_gemm *p, const tc_gemm_side *x, tc_val line, tc_val k);
// Loads or makes the tile's elements from step k0 on, a piece per value. may_end: steps may reach
// beyond the last.
int tc_gemm_side_load(tc_gemm *p, tc_gemm_side *x, tc_val k0, bool may_end, tc_val *v);
void tc_gemm_side_put(tc_gemm *p, const tc_gemm_side *x, tc_val stage, const tc_val *v);
// Begins copies of the same.
void tc_gemm_side_copy(tc_gemm *p, tc_gemm_side *x, tc_val k0, tc_val stage);

// A chunk of k that both operands' tiles hold in `stage`, while the next one is on its way to
// registers.
typedef struct tc_gemm_chunk {
  tc_val k0, stage;  // its first step
  tc_val a[TC_GEMM_PIECES], b[TC_GEMM_PIECES];
} tc_gemm_chunk;

// Begins the loop over all of them, between two stages; what the chunk is multiplied by follows.
void tc_gemm_chunks_begin(tc_gemm *p, tc_gemm_chunk *c);
void tc_gemm_chunks_end(tc_gemm *p, const tc_gemm_chunk *c);

// ---- the ways to multiply: the present tile, finished ----

bool tc_gemm_simt_plan(tc_gemm *p);
const tc_gpu_gemm_tiling *tc_gemm_simt_tilings(const tc_gemm *p, int *n);
void tc_gemm_simt(tc_gemm *p);
bool tc_gemm_mma_plan(tc_gemm *p);
const tc_gpu_gemm_tiling *tc_gemm_mma_tilings(int *n);
void tc_gemm_mma(tc_gemm *p);
bool tc_gemm_mfma_plan(tc_gemm *p);
const tc_gpu_gemm_tiling *tc_gemm_mfma_tilings(int *n);
void tc_gemm_mfma(tc_gemm *p);
// Whether four warps are asked for, and both operands, large enough, can be fetched as they lie;
// then their maps are said.
bool tc_gemm_wgmma_fits(tc_gemm *p);
bool tc_gemm_wgmma_plan(tc_gemm *p);
const tc_gpu_gemm_tiling *tc_gemm_wgmma_tilings(int *n);
void tc_gemm_wgmma(tc_gemm *p);
// Few rows or few columns, all units.
bool tc_gemv_fits(const tc_gemm *p);
void tc_gemv(tc_gemm *p);

#endif
