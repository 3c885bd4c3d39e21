// Inside attention: what its rows say and where their operands lie, the same for a processor's
// kernels (forward.c) and for GPUs' (flash.c). Not for others. Failures stick in the expansion, as
// builder.h says.
#ifndef TC_LOWERING_EMIT_ATTENTION_OPERANDS_H
#define TC_LOWERING_EMIT_ATTENTION_OPERANDS_H

#include "lowering/emit/emitters.h"
#include "lowering/emit/register_block.h"
#include "lowering/emit/shorthand.h"

// An operand in memory: element at + row * stride + column, columns side by side.
typedef struct tc_attention_operand {
  int buf;
  tc_type type;
  tc_index base;  // over A and arguments
  int64_t stride, col;
  // columns, a power of two up to 16 bytes, that lie side by side wherever they begin at a multiple
  // of their number, aligned
  int run;
  tc_val at;
} tc_attention_operand;

typedef struct tc_attention_emitter {
  tc_emit_ctx *s;
  uint32_t node;  // any of the members
  uint32_t out, lse, dq, dk, dv;  // members, or TC_NONE
  int64_t n, hq, hkv, group, l, keys, e, ev;
  bool causal, has_length, has_mask, heads_as_rows, backward;
  int64_t a, f;  // heads, and rows of each
  int64_t parts, part_keys;  // of the keys, made apart on a GPU; 0: they are whole
  tc_type acc;
  tc_attention_operand q, k, v, dout, sums, delta, mask;
  tc_val scale, n_keys, first_seen;
  // How a processor's kernel is blocked.
  int vector, lanes, unroll;  // lanes of a register, of a panel; steps of a product in one turn of its loop
  tc_multiply_way way;
  bool one_block;
  bool reads_keys;  // forward, of few rows: keys are not transposed into panels, but multiplied where they lie
  // scores are by pairs of columns where elements allow it (tile.h), queries times row_scale, a
  // power of two, keys times the rest
  bool by_pairs;
  double row_scale;
  // columns of queries and keys, and keys of weights and values, that are multiplied as one: 2
  // where pairs of bf16 are, as words
  int step;
  tc_type packed_type;  // of what is packed and multiplied: the accumulators', or words
  // keys and rows of a block, rows of a tile; elements from row to row of a tile of scores
  int64_t block, row_block, rows, pitch;
  // keys whose blocks are added to one another before they are added to those of other groups; 0:
  // all are
  int64_t key_group;
} tc_attention_emitter;

static inline tc_val mul(tc_attention_emitter *p, tc_val a, tc_val b) {
  return bin(p->s, TC_IR_MUL, a, b);
}
static inline tc_val least(tc_attention_emitter *p, tc_val a, tc_val b) {
  return bin(p->s, TC_IR_MIN, a, b);
}
static inline tc_val most(tc_attention_emitter *p, tc_val a, tc_val b) {
  return bin(p->s, TC_IR_MAX, a, b);
}
static inline tc_val plus(tc_attention_emitter *p, tc_val a, int64_t b) {
  return b == 0 ? a : add(p->s, a, i64(p->s, b));
}
static inline tc_val number(tc_attention_emitter *p, double v) {
  return tc_build_const_f(&p->s->e, p->acc, v);
}

// What the members say, and where operands are. False after a failure.
bool tc_attention_take(tc_attention_emitter *p);
// Scores are in units of ln 2 in f32, where the power is then one of two, and as they are
// otherwise. So they are under a mask of floats, whose least ones would become infinite: rows that
// see nothing else weigh all keys alike.
bool tc_attention_in_twos(const tc_attention_emitter *p);
double tc_attention_units(const tc_attention_emitter *p);
// What makes products with keys scores.
tc_val tc_attention_key_scale(tc_attention_emitter *p);
// e to the x units, for x up to about zero. In f32 within 2 ULP: 2^(n + r), a polynomial in r times
// 2^n; below 2^-126.5 it is 0. Powers of two are one instruction of a GPU, where these were 12 by
// NVRTC 13.0 for sm_90.
tc_val tc_attention_power(tc_attention_emitter *p, tc_val x);
// How many keys a row sees: those below it.
tc_val tc_attention_limit(tc_attention_emitter *p, tc_val row);
// Where row `row` of the present head begins in a result: heads inside or outside.
tc_val tc_attention_result_row(tc_attention_emitter *p, uint32_t node, tc_val head, tc_val row, int64_t heads,
                               int64_t rows, int64_t columns);
// The buffer of a member's result, noted as written.
int tc_attention_result(tc_attention_emitter *p, uint32_t node);

#endif
