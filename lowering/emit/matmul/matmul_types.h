// Inside the expansion of products: what a product is, and what matmul.c, pack.c, micro_kernel.c
// and gemv.c share. Not for others. Failures stick in the expansion, as builder.h says.
#ifndef TC_LOWERING_EMIT_MATMUL_MATMUL_TYPES_H
#define TC_LOWERING_EMIT_MATMUL_MATMUL_TYPES_H

#include "lowering/tiling/gemm.h"
#include "lowering/tiling/summation.h"
#include "lowering/target/cpu_target.h"
#include "lowering/emit/emitters.h"
#include "lowering/emit/register_block.h"
#include "lowering/emit/shorthand.h"
#include "lowering/emit/strided_operand.h"

#define TC_PRODUCT_READ 4  // tensors that are asked for while a tile is multiplied

typedef struct tc_matmul_emitter {
  tc_emit_ctx *s;
  uint32_t node;
  const tc_units *units;  // of one for any number of rows; NULL: the number is known
  tc_type acc;  // type of the accumulators
  tc_extent3 of;  // k in steps
  int step;  // elements of k that a step is: 2 where pairs of bf16 are multiplied as words
  bool halves;  // b lies in words, whose halves are multiplied one after the other
  tc_type packed_type;  // of what is packed: the accumulators', or words
  tc_tiling_params by;
  tc_multiply_way way;
  bool chunks;  // sums wait in memory between chunks of k
  int64_t chain;  // steps of a chain (summation.h); of.k if there is one
  bool chains;  // there are more: their results are added in memory
  bool direct;  // one store follows, in the accumulators' type
  int packed, packed_a, sums, transposed;  // tiles
  int totals, groups;  // likewise: what chains, and groups of chains, add up to
  int64_t a_pitch;  // elements of the packed or widened a for each row of its tiles
  tc_strided_operand a, b;
  // buffers with an element for each of the product, which what follows it reads from memory
  int n_read, read[TC_PRODUCT_READ];
} tc_matmul_emitter;

// The present unit.
typedef struct tc_matmul_unit {
  tc_val t0, t1, p0, p1;  // tiles of rows, panels
  tc_val row, end;  // rows; end: where their number is an argument, which has no tiles
  tc_val k0, k1;  // chunk
  tc_val chain, chain_end;  // steps of the chain that the chunk is in, where there are several
} tc_matmul_unit;

// The rows being multiplied: where they are, and where their sums wait.
typedef struct tc_matmul_rows {
  int n;
  tc_val row, packed, sums;  // the first; its tile among the packed ones; its sums
  tc_val k0;  // at which the packed ones begin
  tc_val prefetch_distance;  // where b is asked for as they are multiplied, or TC_NONE
  tc_val next;  // likewise of the next chunk, a row of b a turn of the innermost loop
  tc_val asked;  // likewise, at each k, the row of the next chunk from this column on
} tc_matmul_rows;

// What is asked for while columns of b are transposed: where that of a panel's first column lies,
// and how far apart those of the columns are.
typedef struct tc_matmul_prefetch {
  tc_val at;
  int64_t apart;
} tc_matmul_prefetch;

static inline int64_t size_of(const tc_matmul_emitter *p) {
  return (int64_t)tc_type_bytes(p->acc);
}
// Lanes of one register.
static inline int vector_lanes(const tc_matmul_emitter *p) {
  return TC_MIN(tc_compiler_vector_bytes() / (int)size_of(p), p->by.lanes);
}
static inline int line_of(tc_type type) {
  return 64 / (int)tc_type_bytes(type);
}
static inline tc_val load_tile(tc_matmul_emitter *p, int tile, tc_val at) {
  return tc_build_raw(&p->s->e, TC_IR_LOAD, p->acc, p->by.lanes, at, TC_NONE, TC_NONE, tile);
}
// Where the chain that begins at step `chain` ends.
static inline tc_val end_of_chain(tc_matmul_emitter *p, tc_val chain, tc_val k1) {
  return tc_build_bin(&p->s->e, TC_IR_MIN, add(p->s, chain, i64(p->s, p->chain)), k1);
}
static inline void prefetch(tc_matmul_emitter *p, int buf, tc_val at) {
  tc_build_prefetch(&p->s->e, buf, at, false);
}
// Rows of b in a block of `size` columns that is transposed: bf16 in pairs of rows and bytes in
// fours, which is so much less work.
static inline int transposed_rows(const tc_matmul_emitter *p, int size) {
  return tc_tiling_transposed_as_one(p->b.type, p->acc) * size;
}
// Of a block's elements while it is transposed.
static inline tc_type transposed_type(const tc_matmul_emitter *p) {
  return tc_tiling_transposed_as_one(p->b.type, p->acc) > 1 ? TC_I32 : p->acc;
}
// b at row k and the present columns, of which v is what lies in memory, widened.
static inline tc_val made_of(tc_matmul_emitter *p, tc_val k, tc_val v) {
  tc_emit_ctx *s = p->s;
  if (p->b.widened == TC_NONE || p->b.widened == p->b.node) return v;
  s->at[TC_RANGE_K0] = k, s->bound[TC_RANGE_K0] = true;
  v = tc_emit_made_from(s, p->b.node, p->b.position, p->b.widened, &p->b.widened_at, v);
  s->bound[TC_RANGE_K0] = false;
  return v;
}
// The last k up to which rows k0 to k1 are whole blocks of `size`.
static inline tc_val whole_rows(tc_matmul_emitter *p, tc_val k0, tc_val k1, int size) {
  return sub(p->s, k1, tc_build_bin(&p->s->e, TC_IR_REM, sub(p->s, k1, k0), i64(p->s, size)));
}
static inline void prefetch_for(tc_matmul_emitter *p, const tc_matmul_prefetch *x, tc_val column) {
  tc_build_prefetch(&p->s->e, p->b.buf, add(p->s, x->at, times(p->s, column, x->apart)), true);
}

// ---- pack.c ----

// Makes the panel the present one: its columns, and the mask of those that are there.
void tc_matmul_enter_panel(tc_matmul_emitter *p, tc_val panel);
// `lanes` columns of b at row k, from the present panel.
tc_val tc_matmul_load_b(tc_matmul_emitter *p, tc_val k);
// Asks for a panel's columns of row k of b, which lies along them, from `column` on; far: to the
// second-level cache.
void tc_matmul_prefetch_b(tc_matmul_emitter *p, tc_val k, tc_val column, bool far);
// A block of columns of b that lies along k, from step k and element `from` of its first column:
// read along k and transposed. Its rows are made by tc_matmul_transposed_row. ask: what is asked
// for meanwhile, or NULL.
void tc_matmul_load_transposed(tc_matmul_emitter *p, tc_val k, tc_val from, tc_val *v, int size,
                               const tc_matmul_prefetch *prefetch_what);
// Row i of those that v, a vector of a transposed block, holds.
tc_val tc_matmul_transposed_row(tc_matmul_emitter *p, tc_val v, int i);
// Half i of each word, a bf16, as a float, of which that is the upper half.
tc_val tc_matmul_half_of(tc_matmul_emitter *p, tc_val word, int i);
// The unit's columns of b, rows k0 to k1 of the chunk.
void tc_matmul_pack(tc_matmul_emitter *p, const tc_matmul_unit *u);
// Rows `row` to `last` of a in tiles of `rows`, where by.pack_a or by.widen_a says so.
void tc_matmul_pack_a(tc_matmul_emitter *p, int rows, tc_val row, tc_val last, const tc_matmul_unit *u);

// ---- micro_kernel.c ----

// Where row i of them begins, in memory or among the packed; how far from there k is; and the
// element at the sum of both.
tc_val tc_matmul_row_of_a(tc_matmul_emitter *p, const tc_matmul_rows *r, int i);
tc_val tc_matmul_in_row_of_a(tc_matmul_emitter *p, const tc_matmul_rows *r, tc_val k);
tc_val tc_matmul_load_a(tc_matmul_emitter *p, tc_val at);
// Adds k0 to k1 to the accumulators, of the present panel.
void tc_matmul_accumulate(tc_matmul_emitter *p, const tc_matmul_rows *r, const tc_matmul_unit *u, tc_val panel,
                          tc_val *acc);
// Sums of a chain's steps k0 to k1, rows x lanes at the present panel. so_far: whether those before
// k0 are in memory; TC_NONE: no.
void tc_matmul_sum(tc_matmul_emitter *p, const tc_matmul_rows *r, const tc_matmul_unit *u, tc_val panel, tc_val so_far,
                   tc_val *acc);
// Adds n vectors, the results of the chain that begins at step `chain`, to those of the chains
// before, which are in memory at `at`, `apart` elements apart.
void tc_matmul_end_chain(tc_matmul_emitter *p, tc_val chain, tc_val at, int apart, const tc_val *acc, int n);
// rows x lanes elements, at the present panel, and what follows them. so_far: as above.
void tc_matmul_multiply(tc_matmul_emitter *p, const tc_matmul_rows *r, const tc_matmul_unit *u, tc_val panel,
                        tc_val so_far);
// What follows `rows` rows at the present panel, whose sums over all of k are in memory.
void tc_matmul_finish_rows(tc_matmul_emitter *p, tc_val row, int rows, tc_val sums);
// The unit's rows by its panels, at its chunk.
void tc_matmul_multiply_unit(tc_matmul_emitter *p, const tc_matmul_unit *u);

// ---- gemv.c ----

// All rows by the unit's panels of b, where by.turn or by.stream says so, or by.once of chunks.
void tc_matmul_multiply_few(tc_matmul_emitter *p, const tc_matmul_unit *u);

#endif
