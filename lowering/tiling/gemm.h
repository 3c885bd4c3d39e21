// Tiling of a matmul: register block, panels, chunks of k, units of work.
// In BLIS terms: lanes = NR, rows = MR, chunk = KC, unit_panels * lanes = NC, unit_tiles * rows =
// MC.
// In: shape, types and layout of the operands (tc_matmul_facts). Out: tc_tiling_params.
// Invariants: no bit of a result depends on the tiling; an element is the same chain over k in all
// of them.
// Threads: thread-safe. Used by emit/matmul/matmul.c, and by tune_gemm.c, which measures
// neighbouring tilings.
#pragma once

#include "lowering/kir/kir.h"

typedef struct tc_tiling_params {
  int lanes, rows;  // the register block: rows x lanes accumulators
  // Tiles of rows: `tall` of `rows` rows, then tiles of one row less. By tile registers all have
  // `rows` rows but perhaps the last one, and tall is the number of rows.
  int64_t tiles, tall;
  int64_t n_panels;  // panels of `lanes` columns
  int64_t chunk;  // steps of k in a chunk; k: one chunk
  int unroll;  // steps of k in an iteration of the innermost loop
  int64_t unit_panels, unit_tiles;  // a unit of work: its panels and its tiles
  bool transpose;  // true: b lies along k and is transposed in registers while it is multiplied
  bool pack, pack_a;
  // true: b is read once, in place. With several chunks each one prefetches the next; with one, b
  // is a stream
  bool once;
  // panels whose sums stay in registers side by side over all of k; 0: b is not streamed
  int64_t stream;
  bool widen_a;  // true: rows of a are copied to scratch, each along k, in the accumulators' type
  // true: the next tile's rows of a, which lie along k in memory, are prefetched while this tile is
  // multiplied
  bool prefetch_a;
  // true: the same if a lies along its rows: each step of k prefetches the next tile's line
  bool prefetch_strided;
  // true: each panel serves all tiles at hand before the next panel; false: each tile goes over all
  // panels
  bool by_panel;
  int64_t a_tiles;  // tiles of a that are packed or widened at a time
  // true: by tile registers, with both operands packed; lanes and rows are multiples of TC_TMM_SIDE
  bool tmm;
} tc_tiling_params;

#define TC_TMM_SIDE 16  // rows and words of a whole tile register

typedef struct tc_extent3 {
  int64_t batch, m, n, k;
} tc_extent3;

// An operand of the matmul, as far as the tiling depends on it: fields of tc_strided_operand
// (strided_operand.h).
typedef struct tc_operand {
  tc_type type;
  int64_t row, col;
  bool scattered;
  int64_t segment, panel;
  bool words;  // of type TC_I32: words of two bf16 or four bytes each, neighbours along k; a step of k is a word
} tc_operand;

typedef struct tc_matmul_facts {
  tc_extent3 of;
  tc_type acc;
  tc_operand left, right;
  bool tmm;  // true: multiplied by tile registers (tc_tiling_tmm)
} tc_matmul_facts;

// Units of work of each batch: columns x blocks of them, and the share of each.
typedef struct tc_units {
  int64_t columns, blocks;
  int64_t width;  // columns of the matmul in every unit but the last
  int64_t unit_tiles, tiles, rows, tall;  // as in tc_tiling_params
  bool any_columns;  // true: the tiling is for any number of columns, too
  bool whole_tiles;  // true: a unit begins where a tile of any rows does, at or behind its first row
} tc_units;

// The fields of tc_tiling_params that can be chosen; the others follow from them.
enum {
  TC_TILING_LANES,
  TC_TILING_ROWS,
  TC_TILING_TRANSPOSE,
  TC_TILING_PACK,
  TC_TILING_PACK_A,
  TC_TILING_WIDEN_A,
  TC_TILING_STREAMED,
  TC_TILING_BY_PANEL,
  TC_TILING_CHUNK,
  TC_TILING_UNIT_PANELS,
  TC_TILING_UNIT_TILES,
  TC_N_TILING
};

// A tiling or a part of one; the model chooses the fields that are negative. For a GPU only the
// rows and lanes of the block's tile count; its lanes are columns.
typedef struct tc_gemm_tiling {
  int64_t of[TC_N_TILING];
} tc_gemm_tiling;

// Steps of k in an iteration of an innermost loop of multiply-adds.
int tc_tiling_unrolled(void);
// Elements of the right operand that are transposed as one: neighbours along k of a type narrower
// than a register's lanes.
int tc_tiling_transposed_as_one(tc_type type, tc_type acc);
// Whether bf16 operands are multiplied in pairs along k: a step of k is a word of two elements.
// Depends on types and shape only, not on how the operands are made.
bool tc_tiling_pairs(const tc_extent3 *of, tc_type left, tc_type right);
// Whether such pairs, or bytes whose sums are i32, are multiplied by tile registers. acc: the type
// of the sums.
bool tc_tiling_tmm(const tc_extent3 *of, tc_type acc, tc_type left, tc_type right);
// Whether bytes are multiplied in fours along k: a step of k is a word of four elements. Sums are
// exact, so that this changes no bit.
bool tc_tiling_bytes(const tc_extent3 *of, tc_type left, tc_type right);
// Whether a matmul of few rows reads panels of such pairs, the halves of a word one after the
// other.
bool tc_tiling_halves(const tc_extent3 *of, tc_type right);
// Columns of a panel that suits a matmul with n columns and divides n; 0: none does.
int64_t tc_tiling_panel(int64_t n, tc_type acc);
// Chooses the tiling: fields of `given` that are not negative, the rest by the model. NULL: all by
// the model.
// False: `given` has values, whatever they are, for which no kernel can be made; never if it is
// NULL.
bool tc_tiling_choose(tc_tiling_params *b, const tc_matmul_facts *f, const tc_gemm_tiling *given);
tc_gemm_tiling tc_tiling_of(const tc_tiling_params *b);
tc_units tc_tiling_units(const tc_tiling_params *b);
// Chooses a tiling for any number of rows; f->of.m is ignored. tiles, tall and unit_tiles are those
// of the rows that a unit takes at a time.
// any_columns: n_panels alone follows from f->of.n.
// False: there is none.
bool tc_tiling_of_any_rows(tc_tiling_params *b, const tc_matmul_facts *f, bool any_columns);
// Tilings worth trying beside this one. Each changes one field; the model chooses the fields that
// depend on it. Returns their number, at most TC_MOST_NEIGHBOURS; some may be equal.
#define TC_MOST_NEIGHBOURS 32
int tc_tiling_neighbours(const tc_matmul_facts *f, const tc_gemm_tiling *tiling, tc_gemm_tiling *out);
