// Inside the GPU's attention: a block of threads that multiplies rows of its own by chunks of other
// rows, without holding more than a chunk of scores. Not for others.
#ifndef TC_LOWERING_EMIT_GPU_FLASH_COMMON_H
#define TC_LOWERING_EMIT_GPU_FLASH_COMMON_H

#include "lowering/emit/attention/operands.h"
#include "lowering/emit/gpu/matmul_common.h"

#define TC_FLASH_ROWS 8  // that a thread holds parts of
#define TC_FLASH_VALUES 64  // of a chunk of scores that a thread holds
#define TC_FLASH_SUMS 128  // that a thread adds up
#define TC_FLASH_PIECES 8  // of a tile that a thread holds on their way

typedef struct tc_flash tc_flash;

// Rows of a block, and of a thread; the threads follow.
typedef struct tc_flash_tiling {
  int rows, held;
  double speed;  // of many rows, relative to others of its kind
} tc_flash_tiling;

// Rows of an operand in the block's memory, an odd number of 16-byte chunks apart, so that those of
// 8 rows lie in different banks. What is not there is zeros.
typedef struct tc_flash_tile {
  const tc_attention_operand *of;
  int64_t columns;
  int rows, stages;
  int64_t width, pitch, stage;  // elements: of a row, filled; from row to row; from stage to stage
  tc_type type;
  bool copied;  // by copies that are under way while others work
  bool held;  // in registers meanwhile
  int run;  // elements that a thread moves at once
  int tile;
  int n_pieces;  // held at present: what each thread has, and where it belongs
  tc_val piece[TC_FLASH_PIECES], to[TC_FLASH_PIECES];
} tc_flash_tile;

// Sums of a thread: `run` columns side by side of each row, then those that lie behind as many of
// the row's other threads, as accumulators of the way.
typedef struct tc_flash_sums {
  int64_t columns;
  int run, n;
  tc_val var[TC_FLASH_SUMS];
  tc_val total[TC_FLASH_SUMS];  // what chains (summation.h) add up to, where there are several
} tc_flash_sums;

// A way to multiply: which thread has which scores and sums, and the two products.
// A row of scores is dealt to `across` threads, `run` side by side to each, by turns. Rows are
// dealt one by one to the threads of a warp, `rows` of them, then as many further ones to the same
// threads until each holds its number; the next warp has those behind.
typedef struct tc_flash_way {
  const tc_flash_tiling *tiling;
  int n_tilings;
  bool copies;  // what is read next comes by copies; else by registers
  // halves are multiplied as they are, and weights where they lie; else f32s or f64s, and weights
  // go through the block's memory
  bool matrix;
  int wide;  // bytes of a row's operand up to which chunks are long, in the type that is multiplied
  int most_held;  // f32s of scores and sums in a thread, so that nothing is spilled
  int across, apart;  // threads of a row, and how far apart their numbers are: 1 or `rows`
  int rows;  // 0: of all the block's threads, which are one warp then
  int run;
  int sums_bytes;  // of one row's sums that lie side by side, at most
  int each, of_rows;  // accumulators that are one value, in a thread, and of how many rows that it holds
  // v[i * each + c]: row i of the block's own by row c of the chunk at element `from`.
  void (*matmul)(tc_flash *p, const tc_flash_tile *own, const tc_flash_tile *other, tc_val from, tc_val *v);
  // Adds weights, as `product` lays them out, times the rows of a chunk.
  void (*add)(tc_flash *p, const tc_flash_sums *x, const tc_val *weights, const tc_flash_tile *other, tc_val from);
} tc_flash_way;

extern const tc_flash_way tc_flash_simt, tc_flash_mma, tc_flash_mfma;

// Thread values are a lane a thread. Element c of a chunk that a thread holds is column `column` +
// tc_flash_column(p, c) of the chunk.
struct tc_flash {
  tc_attention_emitter at;
  const tc_gemm_tiling *asked;  // tile sizes to take; NULL: those of the model
  const tc_flash_way *way;
  tc_flash_tiling tiling;
  int threads, chunk, each;  // elements of a row's chunk that a thread holds
  int64_t others;  // rows that come in chunks
  int64_t terms;  // of a sum over them, of all heads
  bool chains;  // sums over them are several chains: as far as registers have room for both
  tc_val thread, part, column, row[TC_FLASH_ROWS];  // part: the thread's number among those of its row
  tc_val key_scale;
  int weights;  // tile by which multiply-adds read weights of other threads
};

static inline int tc_flash_column(const tc_flash *p, int c) {
  int run = p->way->run;
  return c / run * run * p->way->across + c % run;
}
// Rows between those that a thread holds.
static inline int tc_flash_apart(const tc_flash *p) {
  return p->way->rows ? p->way->rows : p->threads / p->way->across;
}
static inline tc_val tc_flash_splat(tc_flash *p, tc_val v) {
  return tc_build_splat(&p->at.s->e, v, p->threads);
}
// A number that an I32 holds.
static inline tc_val tc_flash_small(tc_flash *p, tc_val v) {
  return tc_build_cast(&p->at.s->e, v, TC_I32);
}
static inline tc_val tc_flash_fold(tc_flash *p, tc_kir_op op, tc_val v) {
  tc_emit_ctx *s = p->at.s;
  for (int bit = 1; bit < p->way->across; bit *= 2) {
    tc_val other = tc_build_raw(&s->e, TC_IR_SHFL_XOR, p->at.acc, p->threads, v, TC_NONE, TC_NONE, bit * p->way->apart);
    v = op == TC_IR_ADD ? add(s, v, other) : tc_build_select(&s->e, bin(s, TC_IR_GT, other, v), other, v);
  }
  return v;
}

// ---- flash_common.c ----

// Takes the cut that takes the least time by the model, of those that fit the device, or the one of
// them that was asked for (TC_GPU_TILE), where each of `heads` has so many rows. tiles: plans the
// tiles of a cut and returns their bytes; products: chunks of scores that a thread holds at once;
// columns: what it adds up of each row. False after a failure.
typedef size_t tc_flash_plan(tc_flash *p, void *of);
bool tc_flash_choose(tc_flash *p, tc_flash_plan *tiles, void *of, int64_t heads, int64_t rows, int matmuls,
                     int64_t columns);
// A unit of heads of so many rows: its head, and its first row. last_first: later rows take longer.
tc_val tc_flash_unit(tc_flash *p, tc_val unit, int64_t rows, bool last_first, tc_val *head);
// Scores of row i and element c, with the mask's part; *seen is narrowed by a mask of bools. row,
// key: numbers that exist; not read without a mask.
tc_val tc_flash_score(tc_flash *p, tc_val v, tc_val row, tc_val key, tc_val *seen);
// Threads and their places, once the cut is chosen; and the kernel's loop over units, until end.
void tc_flash_begin_kernel(tc_flash *p);
tc_val tc_flash_begin_units(tc_flash *p, int64_t units);
// Bytes of the tile of weights, and the tile, if multiply-adds need one.
size_t tc_flash_weights_bytes(const tc_flash *p);
void tc_flash_weights_make(tc_flash *p);

// ---- flash_backward.c ----

void tc_flash_backward(tc_flash *p);

// ---- flash_stage.c ----

// by_rows: the product reads rows; by_columns: sums add up columns.
void tc_flash_tile_plan(tc_flash *p, tc_flash_tile *x, const tc_attention_operand *of, int64_t columns, int rows,
                        int stages, bool by_rows, bool by_columns);
size_t tc_flash_tile_bytes(const tc_flash_tile *x);
void tc_flash_tile_make(tc_flash *p, tc_flash_tile *x);
// Brings rows first to limit - 1 of the present head, as many as there is room for, to the stage at
// element `from`: they are there after tc_flash_wait and tc_flash_land, in this order.
void tc_flash_fill(tc_flash *p, tc_flash_tile *x, tc_val first, tc_val limit, tc_val from);
// The same if there are any.
void tc_flash_fill_some(tc_flash *p, tc_flash_tile *x, tc_val first, tc_val limit, tc_val from);
void tc_flash_land(tc_flash *p, tc_flash_tile *x);
// Ends a group of copies, if any tile is copied to; waits for all.
void tc_flash_commit(tc_flash *p, bool copies);
void tc_flash_wait(tc_flash *p, bool copies);

void tc_flash_begin(tc_flash *p, tc_flash_sums *x, int64_t columns);
void tc_flash_scale(tc_flash *p, const tc_flash_sums *x, const tc_val *by);
// At the end of the chunk at `row`, of those from `first` on: where a chain ends, adds it to the
// totals.
void tc_flash_end_chain(tc_flash *p, const tc_flash_sums *x, tc_val first, tc_val row);
// Sums times by[i], or all times by[0] if one, to the rows of a result that begin at at[i], where
// there.
void tc_flash_store(tc_flash *p, const tc_flash_sums *x, uint32_t node, const tc_val *at, const tc_val *there,
                    const tc_val *by);

#endif
