// Private to the GPU's attention emitters. A block of threads multiplies its own rows by chunks of
// other rows, and holds at most one chunk of scores.
#pragma once

#include "lowering/emit/attention/operands.h"
#include "lowering/emit/gpu/matmul_common.h"

#define TC_FLASH_ROWS 8  // most rows that a thread holds parts of
#define TC_FLASH_VALUES 64  // most scores of a chunk that a thread holds
#define TC_FLASH_SUMS 128  // most sums of a thread
#define TC_FLASH_PIECES 8  // most pieces of a tile that a thread holds in registers

typedef struct tc_flash tc_flash;

// Rows of a block, and of a thread; the number of threads follows.
typedef struct tc_flash_tiling {
  int rows, held;
  double speed;  // throughput with many rows, relative to the other tilings of its kind
} tc_flash_tiling;

// Rows of an operand in shared memory. They lie an odd number of 16-byte chunks apart, so that 8
// rows lie in different banks. Missing elements are zeros.
typedef struct tc_flash_tile {
  const tc_attention_operand *of;
  int64_t columns;
  int rows, stages;
  int64_t width, pitch, stage;  // elements: of a row, filled; from row to row; from stage to stage
  tc_type type;
  bool copied;  // true: by asynchronous copies
  bool held;  // true: in registers until tc_flash_land
  int run;  // elements that a thread moves at once
  int tile;
  int n_pieces;  // held in registers: each thread's pieces, and their addresses in the tile
  tc_val piece[TC_FLASH_PIECES], to[TC_FLASH_PIECES];
} tc_flash_tile;

// A thread's sums: `run` adjacent columns of each row, then those after the runs of the row's other
// threads. They are laid out as the way's accumulators.
typedef struct tc_flash_sums {
  int64_t columns;
  int run, n;
  tc_val var[TC_FLASH_SUMS];
  tc_val total[TC_FLASH_SUMS];  // the chains' totals (summation.h), if there are several chains
} tc_flash_sums;

// A way to multiply: which thread has which scores and sums, and the two matmuls. A row of scores
// is dealt to `across` threads in rounds, `run` adjacent ones each. Rows are dealt singly to a
// warp's threads, `rows` at a time, until each thread has its number. The next warp has the
// following rows.
typedef struct tc_flash_way {
  const tc_flash_tiling *tiling;
  int n_tilings;
  bool copies;  // true: the next reads are asynchronous copies; false: they pass through registers
  // true: 16-bit types are multiplied unconverted, and weights stay in registers. false: f32 or
  // f64, and weights pass through shared memory
  bool matrix;
  int wide;  // most bytes of a row, in the multiplied type, with which chunks are long
  int most_held;  // most f32s of scores and sums in a thread without spilling
  int across, apart;  // threads of a row, and the distance of their numbers: 1 or `rows`
  int rows;  // rows dealt at a time to a warp; 0: the whole block counts as one warp
  int run;
  int sums_bytes;  // most bytes of adjacent sums of one row
  // accumulators in one value of a thread, and how many of its rows they belong to
  int each, of_rows;
  // v[i * each + c] = row i of the block times row c of the chunk at element `from`.
  void (*matmul)(tc_flash *p, const tc_flash_tile *own, const tc_flash_tile *other, tc_val from, tc_val *v);
  // Adds weights, in the layout of `matmul`, times the rows of a chunk.
  void (*add)(tc_flash *p, const tc_flash_sums *x, const tc_val *weights, const tc_flash_tile *other, tc_val from);
} tc_flash_way;

extern const tc_flash_way tc_flash_simt, tc_flash_mma, tc_flash_mfma;

// Thread values have a lane a thread. A thread's element c of a chunk is the chunk's column
// `column` + tc_flash_column(p, c).
struct tc_flash {
  tc_attention_emitter at;
  const tc_gemm_tiling *asked;  // requested tile sizes; NULL: the model's
  const tc_flash_way *way;
  tc_flash_tiling tiling;
  int threads, chunk, each;  // each: elements of a row's chunk that a thread holds
  int64_t others;  // rows that come in chunks
  int64_t terms;  // terms of a sum over them, of all heads
  bool chains;  // true: such sums are several chains, for which the registers suffice
  // part: the thread's index among those of its row
  tc_val thread, part, column, row[TC_FLASH_ROWS];
  tc_val key_scale;
  int weights;  // tile through which multiply-adds read other threads' weights
};

static inline int tc_flash_column(const tc_flash *p, int c) {
  int run = p->way->run;
  return c / run * run * p->way->across + c % run;
}
// Distance between the rows that a thread holds.
static inline int tc_flash_row_stride(const tc_flash *p) {
  return p->way->rows ? p->way->rows : p->threads / p->way->across;
}
// Reads n adjacent elements for each thread.
static inline tc_val tc_flash_read(tc_flash *p, const tc_flash_tile *x, tc_val at, int n) {
  return gather(p->at.s, x->tile, x->type, p->threads * n, at, TC_NONE);
}
// Element k of those that each thread holds.
static inline tc_val tc_flash_pick(tc_flash *p, tc_val v, int k) {
  return tc_build_lanes(&p->at.s->e, v) == p->threads ? v : extract(p->at.s, p->threads, v, k);
}
static inline tc_val tc_flash_fold(tc_flash *p, tc_kir_op op, tc_val v) {
  tc_emit_ctx *s = p->at.s;
  for (int bit = 1; bit < p->way->across; bit *= 2) {
    tc_val other = tc_build_raw(&s->e, TC_IR_SHFL_XOR, p->at.acc, p->threads, v, TC_NONE, TC_NONE, bit * p->way->apart);
    v = op == TC_IR_ADD ? add(s, v, other) : select_val(s, bin(s, TC_IR_GT, other, v), other, v);
  }
  return v;
}

// ---- flash_common.c ----

// What a tiling is chosen for: `heads` of `rows` rows each.
typedef struct tc_flash_work {
  size_t (*tiles)(tc_flash *p, void *of);  // plans the tiles of a tiling and returns their bytes
  void *of;
  int64_t heads, rows;
  int matmuls;  // chunks of scores that a thread holds at once
  int64_t columns;  // columns of each row that are summed
} tc_flash_work;

// Chooses the fastest tiling by the model among those that fit the device, or the requested one of
// them (TC_GPU_TILE). False after a failure.
bool tc_flash_choose(tc_flash *p, const tc_flash_work *w);
// The head and first row of a unit, where heads have `rows` rows. last_first: later rows take
// longer and come first.
tc_val tc_flash_unit(tc_flash *p, tc_val unit, int64_t rows, bool last_first, tc_val *head);
// Scores of row i and element c with the mask applied; a mask of bools narrows *seen. row, key:
// existing numbers, not read without a mask.
tc_val tc_flash_score(tc_flash *p, tc_val v, tc_val row, tc_val key, tc_val *seen);
// Makes the tile of weights, and sets thread numbers and positions, once the tiling is chosen. Then
// begins the kernel's loop over units, up to end, and returns the unit.
tc_val tc_flash_begin_kernel(tc_flash *p, int64_t units);
// Bytes of the tile of weights; only multiply-adds need it.
size_t tc_flash_weights_bytes(const tc_flash *p);

// ---- flash_backward.c ----

void tc_flash_backward(tc_flash *p);

// ---- flash_stage.c ----

// Returns the bytes of the tile. by_rows: the matmul reads rows. by_columns: sums add columns.
size_t tc_flash_tile_plan(tc_flash *p, tc_flash_tile *x, const tc_attention_operand *of, int64_t columns, int rows,
                          int stages, bool by_rows, bool by_columns);
void tc_flash_tile_make(tc_flash *p, tc_flash_tile *x);
// Loads rows first to limit - 1 of the current head, at most a tile's, to the stage at element
// `from`. They are in the tile after tc_flash_wait and tc_flash_land, in this order.
void tc_flash_fill(tc_flash *p, tc_flash_tile *x, tc_val first, tc_val limit, tc_val from);
// Loads as tc_flash_fill does, if there are any such rows.
void tc_flash_fill_some(tc_flash *p, tc_flash_tile *x, tc_val first, tc_val limit, tc_val from);
void tc_flash_land(tc_flash *p, tc_flash_tile *x);
// Ends a group of copies, if any tile is copied to; waits for all groups.
void tc_flash_commit(tc_flash *p, bool copies);
void tc_flash_wait(tc_flash *p, bool copies);

void tc_flash_begin(tc_flash *p, tc_flash_sums *x, int64_t columns);
void tc_flash_scale(tc_flash *p, const tc_flash_sums *x, const tc_val *by);
// Called after the chunk at `row`, of the chunks from `first` on: adds to the totals where a chain
// ends.
void tc_flash_end_chain(tc_flash *p, const tc_flash_sums *x, tc_val first, tc_val row);
// Stores sums times by[i] to the rows of a result that begin at at[i], where there[i].
void tc_flash_store(tc_flash *p, const tc_flash_sums *x, uint32_t node, const tc_val *at, const tc_val *there,
                    const tc_val *by);
