// How a matrix product is cut: registers, panels, chunks of k, units of work. Inside expansion, for
// emit/matmul/matmul.c, and for tune_gemm.c, which measures. A product's bits depend on none of
// this: an element is one chain over k wherever it is cut.
#ifndef TC_LOWERING_TILING_GEMM_H
#define TC_LOWERING_TILING_GEMM_H

#include "lowering/kir/kir.h"

typedef struct tc_tiling_params {
  int lanes, rows;  // accumulators in registers: rows x lanes
  int64_t tiles, tall;  // tiles of rows: `tall` ones of `rows`, then shorter ones by one row
  int64_t n_panels;  // panels of `lanes` columns
  int64_t chunk;  // of k; k if there is one chunk
  int unroll;  // rows of b that a turn of the innermost loop multiplies
  int64_t unit_panels, unit_tiles;  // of a unit of work
  bool transpose;  // b lies along k and is transposed in registers as it is multiplied
  bool pack, pack_a;
  // b is read once, where it lies: in short chunks of which each asks for the next one, or, with
  // one chunk, as a stream
  bool once;
  int64_t stream;  // panels whose sums are in registers side by side while all of k is read; 0: not a stream
  bool widen_a;  // rows of a go to memory of the worker, each along k, in the accumulators' type
  // the next tile's rows of a, which lie along k in memory, are asked for while those of this one
  // are multiplied
  bool prefetch_a;
  bool prefetch_strided;  // the same where a lies along the rows: at each step of k, the line that the next tile reads
  bool by_panel;  // each panel serves all tiles that are there before the next one; else each tile goes over all panels
  int64_t a_tiles;  // tiles of a that go there at a time, packed or widened
} tc_tiling_params;

typedef struct tc_extent3 {
  int64_t batch, m, n, k;
} tc_extent3;

// What a cut depends on: of a factor its fields of the same names (strided_operand.h).
typedef struct tc_operand {
  tc_type type;
  int64_t row, col;
  bool scattered;
  int64_t segment, panel;
} tc_operand;

// Factors of type TC_I32 of a product in TC_F32 are words, of two bf16 each: steps of k.
typedef struct tc_matmul_facts {
  tc_extent3 of;
  tc_type acc;
  tc_operand left, right;
} tc_matmul_facts;

// Units of work of each batch, so many of columns by so many of rows, and what falls to each.
typedef struct tc_units {
  int64_t columns, blocks;
  int64_t width;  // columns of the product that all but the last have
  int64_t unit_tiles, tiles, rows, tall;  // as in tc_tiling_params
} tc_units;

// The fields of tc_tiling_params that can be chosen, by name; the others follow from them.
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

// A cut, or a part of one: what is negative is left to the model. Of a GPU's tile the rows and
// lanes count, which are its columns.
typedef struct tc_gemm_tiling {
  int64_t of[TC_N_TILING];
} tc_gemm_tiling;

// Steps of k that a turn of an innermost loop of multiply-adds does.
int tc_tiling_unrolled(void);
// Elements of the right factor that are transposed as one: neighbours along k of a type narrower
// than a register's lanes.
int tc_tiling_transposed_as_one(tc_type type, tc_type acc);
// Whether a product goes by pairs of bf16 along k: a step of k is two elements, a word. By types
// and shape, whatever the factors are made of.
bool tc_tiling_pairs(const tc_extent3 *of, tc_type left, tc_type right);
// Whether a product of few rows reads panels of such pairs, the halves of a word one after the
// other.
bool tc_tiling_halves(const tc_extent3 *of, tc_type right);
// Columns of a panel that suits products with n columns, and divides them; 0: none does.
int64_t tc_tiling_panel(int64_t n, tc_type acc);
// The blocks with what `given` says, the rest by the model. False, whatever the numbers, if kernels
// cannot be cut so. NULL: all by the model, always true.
bool tc_tiling_choose(tc_tiling_params *b, const tc_matmul_facts *f, const tc_gemm_tiling *given);
tc_gemm_tiling tc_tiling_of(const tc_tiling_params *b);
tc_units tc_tiling_units(const tc_tiling_params *b);
// Blocks that do for any number of rows, f's aside: tiles, tall and unit_tiles are of as many as a
// unit takes at a time. False: there are none.
bool tc_tiling_of_any_rows(tc_tiling_params *b, const tc_matmul_facts *f);
// Cuts worth trying beside this one, which differ from it in one respect, what depends on that
// being left to the model. Returns how many of at most TC_MOST_NEIGHBOURS; some may be alike.
#define TC_MOST_NEIGHBOURS 32
int tc_tiling_neighbours(const tc_matmul_facts *f, const tc_gemm_tiling *tiling, tc_gemm_tiling *out);

#endif
