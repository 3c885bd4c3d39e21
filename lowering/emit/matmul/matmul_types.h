// Declares the state of a matmul's emission, shared by the files beside it.
// Private to matmul/.
//
// Invariants: failures stick in the context, as builder.h says.
#pragma once

#include "lowering/target/cpu_target.h"
#include "lowering/emit/emitters.h"
#include "lowering/emit/register_block.h"
#include "lowering/emit/shorthand.h"
#include "lowering/emit/strided_operand.h"

#define TC_MATMUL_READ 4  // tensors that are prefetched while a tile is multiplied

typedef struct tc_matmul_emitter {
  tc_emit_ctx *s;
  uint32_t node;  // the MATMUL
  const tc_units *units;  // units of a matmul with any number of rows; NULL: the number is known
  tc_val unit;  // number of the current unit
  tc_type acc;  // type of the accumulators
  tc_extent3 of;  // extents; k counts steps
  int step;  // elements of k in a step: 2, 4: pairs of bf16, four bytes, multiplied as words; 1: single elements
  bool tmm;  // true: by tile registers (tmm_kernel.c)
  bool halves;  // true: b is in memory as words, whose halves are multiplied one after the other
  tc_type packed_type;  // of packed operands: the accumulators' type, or words
  tc_tiling_params by;  // the tiling
  tc_multiply_way way;
  bool chunks;  // true: several chunks of k, between which sums are in memory
  int64_t chain;  // steps of a chain (summation.h); of.k: one chain
  bool chains;  // true: several chains, whose results are added in memory
  bool direct;  // true: the epilogue is one store, in the accumulators' type
  int packed, packed_a, sums, transposed;  // tiles
  int last_b;  // tile: the last step of a panel, with zeros behind k, by tile registers
  int totals, groups;  // tiles: sums of chains, and of groups of chains
  int64_t a_pitch;  // elements of the packed or widened a for each row of its tiles
  tc_strided_operand a, b;  // left and right operand
  // buffers that the epilogue reads from memory, with an element for each of the result
  int n_read, read[TC_MATMUL_READ];
} tc_matmul_emitter;

// The current unit.
typedef struct tc_matmul_unit {
  tc_val t0, t1, p0, p1;  // bounds of tiles of rows, and of panels; t0, t1 TC_NONE: the number of rows is an argument
  tc_val packs;  // true at run time: its columns are not packed yet; TC_NONE: likewise
  tc_val row, end;  // first row; end: TC_NONE unless the number of rows is an argument
  tc_val k0, k1;  // bounds of the chunk
  tc_val chain, chain_end;  // bounds of the chunk's chain, where there are several
} tc_matmul_unit;

// The rows of a that are multiplied: their position, and that of their sums.
typedef struct tc_matmul_rows {
  int n;
  tc_val row, packed, sums;  // first row; offset of its packed tile; offset of its sums
  // number of the last row that exists: those behind it are computed as that one, and not stored;
  // TC_NONE: all exist
  tc_val last;
  tc_val k0;  // first step of the packed rows
  tc_val prefetch_from;  // element of b that is prefetched as the rows are multiplied; TC_NONE: no prefetch
  tc_val next;  // likewise for the next packing, by iterations of the innermost loop
  tc_val asked;  // likewise at each k: column from which on a row of the next chunk is prefetched
} tc_matmul_rows;

// Returns n rows of a whose offsets are zero, and which prefetch nothing.
static inline tc_matmul_rows tc_matmul_rows_of(int n, tc_val zero) {
  return (tc_matmul_rows){n, zero, zero, zero, TC_NONE, zero, TC_NONE, TC_NONE, TC_NONE};
}

// The prefetch while columns of b are transposed: the element for a panel's first column, and the
// distance between columns.
typedef struct tc_matmul_prefetch {
  tc_val at;
  int64_t apart;
} tc_matmul_prefetch;

// Returns the lanes of one register.
static inline int vector_lanes(const tc_matmul_emitter *p) {
  return TC_MIN(tc_compiler_vector_bytes() / (int)tc_type_bytes(p->acc), p->by.lanes);
}
static inline int line_of(tc_type type) {
  return 64 / (int)tc_type_bytes(type);
}
static inline tc_val load_tile(tc_matmul_emitter *p, int tile, tc_val at) {
  return load(p->s, tile, p->acc, p->by.lanes, at, TC_NONE);
}
// Returns the end of the chain that begins at step `chain`.
static inline tc_val end_of_chain(tc_matmul_emitter *p, tc_val chain, tc_val k1) {
  return least(p->s, plus(p->s, chain, p->chain), k1);
}
// Whether a step is four bytes.
static inline bool steps_by_bytes(const tc_matmul_emitter *p) {
  return p->step == 4;
}
// Returns the rows of b in a transposed block of `size` columns. bf16 is transposed in pairs of
// rows and bytes in fours, which saves as much work.
static inline int transposed_rows(const tc_matmul_emitter *p, int size) {
  return (steps_by_bytes(p) ? 4 : tc_tiling_transposed_as_one(p->b.type, p->acc)) * size;
}
// Returns the type of a block's elements while it is transposed.
static inline tc_type transposed_type(const tc_matmul_emitter *p) {
  return transposed_rows(p, 1) > 1 ? TC_I32 : p->acc;
}
// Returns b at row k and the current columns. v: what is in memory, widened; a fused producer is
// applied to it.
static inline tc_val made_of(tc_matmul_emitter *p, tc_val k, tc_val v) {
  tc_emit_ctx *s = p->s;
  if (p->b.widened == TC_NONE || p->b.widened == p->b.node) return v;
  s->at[TC_RANGE_K0] = k, s->bound[TC_RANGE_K0] = true;
  v = tc_emit_made_from(s, p->b.node, p->b.position, p->b.widened, &p->b.widened_at, v);
  s->bound[TC_RANGE_K0] = false;
  return v;
}
// Returns the last k up to which rows k0 to k1 are whole blocks of `size`.
static inline tc_val whole_rows(tc_matmul_emitter *p, tc_val k0, tc_val k1, int size) {
  return sub(p->s, k1, bin(p->s, TC_IR_REM, sub(p->s, k1, k0), i64(p->s, size)));
}
// Returns the end of the unit's panels that are whole.
static inline tc_val whole_panels(tc_matmul_emitter *p, const tc_matmul_unit *u) {
  return most(p->s, u->p0, least(p->s, u->p1, i64(p->s, p->of.n / p->by.lanes)));
}
static inline void prefetch_for(tc_matmul_emitter *p, const tc_matmul_prefetch *x, tc_val column) {
  tc_build_prefetch(&p->s->e, p->b.buf, add(p->s, x->at, times(p->s, column, x->apart)), true);
}

// ---- pack.c ----

// Makes the panel the current one: sets its columns, and the mask of those that exist.
void tc_matmul_enter_panel(tc_matmul_emitter *p, tc_val panel);
// Loads `lanes` columns of b at row k, of the current panel.
tc_val tc_matmul_load_b(tc_matmul_emitter *p, tc_val k);
// Prefetches a panel's columns of row k of b, which is contiguous along them, from `column` on.
// far: true: into the second-level cache.
void tc_matmul_prefetch_b(tc_matmul_emitter *p, tc_val k, tc_val column, bool far);
// Loads and transposes a block of columns of b, which is contiguous along k, from step k on. from:
// element of its first column; prefetch_what: prefetched meanwhile; NULL: nothing.
// tc_matmul_transposed_row extracts the rows.
void tc_matmul_load_transposed(tc_matmul_emitter *p, tc_val k, tc_val from, tc_val *v, int size,
                               const tc_matmul_prefetch *prefetch_what);
// Returns row i of those that v, a vector of a transposed block, holds.
tc_val tc_matmul_transposed_row(tc_matmul_emitter *p, tc_val v, int i);
// Returns half i of each word, a bf16, as a float, whose upper half it is.
tc_val tc_matmul_half_of(tc_matmul_emitter *p, tc_val word, int i);
// Packs the unit's columns of b, rows k0 to k1 of the chunk.
void tc_matmul_pack(tc_matmul_emitter *p, const tc_matmul_unit *u);
// Packs rows `row` to `last` of a in tiles of `rows`, if by.pack_a or by.widen_a is true.
void tc_matmul_pack_a(tc_matmul_emitter *p, int rows, tc_val row, tc_val last, const tc_matmul_unit *u);

// ---- micro_kernel.c ----

// Return the position of row i of the rows, in memory or packed, and the offset of k in it.
// tc_matmul_load_a loads the element at the sum of both.
tc_val tc_matmul_row_of_a(tc_matmul_emitter *p, const tc_matmul_rows *r, int i);
tc_val tc_matmul_in_row_of_a(tc_matmul_emitter *p, const tc_matmul_rows *r, tc_val k);
tc_val tc_matmul_load_a(tc_matmul_emitter *p, tc_val at);
// Returns the value of an index at the given value of a range.
tc_val tc_matmul_at_range(tc_matmul_emitter *p, const tc_index *x, uint8_t range, tc_val value);
// Adds steps k0 to k1 to the accumulators of the current panel.
void tc_matmul_accumulate(tc_matmul_emitter *p, const tc_matmul_rows *r, const tc_matmul_unit *u, tc_val panel,
                          tc_val *acc);
// Sums a chain's steps k0 to k1, rows x lanes at the current panel. so_far: true at run time: sums
// of earlier steps are in memory; TC_NONE: there are none.
void tc_matmul_sum(tc_matmul_emitter *p, const tc_matmul_rows *r, const tc_matmul_unit *u, tc_val panel, tc_val so_far,
                   tc_val *acc);
// Adds n vectors, the results of the chain that begins at step `chain`, to those of the earlier
// chains. These are in memory at `at`, `apart` elements apart.
void tc_matmul_end_chain(tc_matmul_emitter *p, tc_val chain, tc_val at, int apart, const tc_val *acc, int n);
// Computes rows x lanes elements at the current panel, with their epilogue. so_far: as above.
void tc_matmul_multiply(tc_matmul_emitter *p, const tc_matmul_rows *r, const tc_matmul_unit *u, tc_val panel,
                        tc_val so_far);
// Applies the epilogue to one row at the current panel, whose sums are given.
void tc_matmul_finish_row(tc_matmul_emitter *p, tc_val row, tc_val sum);
// Applies the epilogue to the rows at the current panel, whose sums over all of k are in memory.
void tc_matmul_finish_rows(tc_matmul_emitter *p, const tc_matmul_rows *r, tc_val sums);
// Multiplies the unit's rows by its panels, at its chunk.
void tc_matmul_multiply_unit(tc_matmul_emitter *p, const tc_matmul_unit *u);

// ---- tmm_kernel.c ----

// Multiplies the unit's rows by its panels, at its chunk, by tile registers.
void tc_matmul_multiply_tmm(tc_matmul_emitter *p, const tc_matmul_unit *u);

// ---- gemv.c ----

// Multiplies all rows by the unit's panels of b, if by.transpose or by.stream says so, or by.once
// with several chunks.
void tc_matmul_multiply_few(tc_matmul_emitter *p, const tc_matmul_unit *u);
