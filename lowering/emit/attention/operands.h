// Declares the state of attention's emission: its parameters and operands, for CPU kernels
// (forward.c) and GPU kernels (../gpu/flash.c). Private to emit/.
//
// Invariants: failures stick in the context, as builder.h says.
#pragma once

#include "lowering/emit/emitters.h"
#include "lowering/emit/register_block.h"
#include "lowering/emit/shorthand.h"

// An operand in memory: element at + row * stride + column * col. Columns are contiguous (col is 1)
// in queries, keys and values.
typedef struct tc_attention_operand {
  int buf;
  tc_type type;
  tc_index base;  // over A and arguments
  int64_t stride, col;  // strides of rows and of columns, in elements
  // length of an aligned run of contiguous columns, a power of two of at most 16 bytes: a run
  // begins at each multiple of it
  int run;
  tc_val at;  // base at the current head
} tc_attention_operand;

typedef struct tc_attention_emitter {
  tc_emit_ctx *s;
  uint32_t node;  // the ATTENTION node if the fusion has one, else the fusion's first node
  uint32_t out, lse, dq, dk, dv;  // nodes of the fusion; TC_NONE: not one of them
  int64_t n, hq, hkv, group, l, keys, e, ev;
  bool causal, has_length, has_mask, heads_as_rows, backward;
  int64_t a, f;  // heads of all batches, and rows of each head
  int64_t parts, part_keys;  // split-KV on a GPU: parts, and keys of a part; parts 0: keys are not split
  tc_type acc;
  tc_attention_operand q, k, v, dout, sums, delta, mask;
  tc_val scale, n_keys, first_seen;
  // Tiling of a CPU kernel.
  // lanes of a register, and of a panel; steps of k in an iteration of a matmul's loop
  int vector, lanes, unroll;
  tc_multiply_way way;
  bool one_block;  // true: all keys are one block
  // true: forward with few rows: keys are not transposed into panels, but multiplied where they lie
  bool reads_keys;
  // true: scores are Winograd inner products where elements are small enough (tile.h). Queries are
  // then scaled by row_scale, a power of two, and keys by the rest of the scale.
  bool winograd_dot;
  double row_scale;
  // columns of queries and keys, and keys of weights and values, in a step: 2: pairs of bf16,
  // multiplied as words; 1: single elements
  int step;
  // true: by tile registers, TC_ATTENTION_MOST_ROWS rows a tile (tmm.c). Backward, `rows` of them
  // become slopes at a time.
  bool tmm;
  tc_type packed_type;  // of packed operands: the accumulators' type, or words
  // keys of a block, rows of a block, rows of a tile; elements between rows of a tile of scores
  int64_t block, row_block, rows, pitch;
  // keys of a group: blocks are added within a group, then groups are added; 0: there is one group
  int64_t key_group;
} tc_attention_emitter;

static inline tc_val number(tc_attention_emitter *p, double v) {
  return const_f(p->s, p->acc, v);
}

// Reads the attributes of the fusion's nodes and finds the operands. Returns false after a failure.
bool tc_attention_take(tc_attention_emitter *p);
// Returns the factor from natural units to those of the scores: log2(e) or 1.
double tc_attention_units(const tc_attention_emitter *p);
// Returns the factor from a product of query and key to a score.
tc_val tc_attention_key_scale(tc_attention_emitter *p);
// Returns e to the x units, for x up to about zero. In f32 it is within 2 ULP: 2^(n + r), a
// polynomial in r times 2^n. Below 2^-126.5 it is 0.
// On a GPU a power of two is one instruction; this was 12, by NVRTC 13.0 for sm_90.
tc_val tc_attention_power(tc_attention_emitter *p, tc_val x);
// Returns the number of keys that a row sees: those below it.
tc_val tc_attention_limit(tc_attention_emitter *p, tc_val row);
// Returns the offset of row `row` of the current head in a result, whose heads are outside or
// inside rows.
tc_val tc_attention_result_row(tc_attention_emitter *p, uint32_t node, tc_val head, tc_val row, int64_t heads,
                               int64_t rows, int64_t columns);
// Returns the buffer of a node's result, and marks it as written.
int tc_attention_result(tc_attention_emitter *p, uint32_t node);
