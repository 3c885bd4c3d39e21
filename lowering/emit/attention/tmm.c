// Emits attention's matmuls by tile registers (AMX): rows by keys, and weights by values, or by
// what gradients have in their place. See tile.h.
//
// A tile is 16 rows, the rows of a register. Queries are packed as words, keys lie in panels of
// words and values in rows of words, as for DOT. A step is 16 words.
// Words behind the last column of queries and keys are zeros. So are weights behind the last key,
// up to a whole step. Values there are zeros in a copy, since zero times infinity would be NaN.
// Invariants: each step of 32 elements is a chain of the even ones and one of the odd ones. They
// are joined and added to the sum.
#include "lowering/emit/attention/tile.h"

#define E (&p->s->e)
#define SIDE TC_TMM_SIDE
// Registers: c 0 to 3, a 4, and b 5 to 7 in turn.
enum { TMM_A = 4, TMM_B = 5, N_TMM_B = 3 };

int64_t tc_attention_tmm_pitch(int64_t columns) {
  return ceil_to(columns / 2, SIDE);
}

void tc_attention_tmm_pack(tc_attention_emitter *p, const tc_attention_operand *f, int64_t columns, tc_val row,
                           int tile) {
  tc_emit_ctx *s = p->s;
  const int64_t words = columns / 2, whole = words / SIDE * SIDE, pitch = tc_attention_tmm_pitch(columns);
  tc_val i = loop_to(s, i64(s, SIDE), 1), from = least(s, add(s, row, i), i64(s, p->f - 1));
  tc_val at = add(s, f->at, times(s, from, f->stride)), to = times(s, i, pitch);
  for (int64_t c = 0; c < words; c += SIDE) {
    tc_val mask = c < whole ? TC_NONE : tc_attention_column_mask(p, 2 * c, columns, 2 * SIDE);
    store(s, tile, plus(s, to, c), tc_build_load_words(E, f->buf, plus(s, at, 2 * c), SIDE, mask));
  }
  end(s);
}

static void clear_sums(tc_attention_emitter *p, int n) {
  for (int j = 0; j < n; j++) tc_build_tmm_zero(E, (unsigned)j, SIDE, SIDE);
}

// Adds a step to n registers of sums. b: words from element `at` on, a row each `apart`.
static void add_step(tc_attention_emitter *p, int n, int b, tc_val at, int64_t apart) {
  static const unsigned whole[3] = {SIDE, SIDE, SIDE};
  tc_val apart_b = i64(p->s, apart);
  for (int j = 0; j < n; j++) {
    const unsigned tmm[3] = {(unsigned)j, TMM_A, (unsigned)(TMM_B + j % N_TMM_B)};
    tc_build_tmm_load(E, tmm[2], SIDE, SIDE, b, TC_I32, plus(p->s, at, j * SIDE), apart_b);
    tc_build_tmm_dot(E, TC_IR_TMM_DOT, tmm, whole);
  }
}

static void store_sums(tc_attention_emitter *p, int n, int tile, tc_val at, int64_t pitch) {
  tc_val apart = i64(p->s, pitch);
  for (int j = 0; j < n; j++)
    tc_build_tmm_store(E, (unsigned)j, SIDE, SIDE, tile, p->acc, plus(p->s, at, j * SIDE), apart);
}

void tc_attention_tmm_scores(tc_attention_emitter *p, int rows, int panels, int64_t columns, tc_val count, int tile,
                             const tc_attention_prefetch *next) {
  tc_emit_ctx *s = p->s;
  const int n = p->lanes / SIDE;
  const int64_t pitch = tc_attention_tmm_pitch(columns);
  tc_val key = loop_to(s, count, p->lanes), panel = times(s, key, panel_columns(p, columns / 2)), apart = i64(s, pitch);
  if (next) prefetch_query(p, next, div_by(s, key, p->lanes));
  clear_sums(p, n);
  tc_val c = loop_to(s, i64(s, pitch), SIDE);
  tc_build_tmm_load(E, TMM_A, SIDE, SIDE, rows, TC_I32, c, apart);
  add_step(p, n, panels, add(s, panel, times(s, c, p->lanes)), p->lanes);
  end(s);
  store_sums(p, n, tile, key, p->pitch);
  end(s);
}

void tc_attention_tmm_clear(tc_attention_emitter *p, int weights, tc_val count) {
  tc_val at = times(p->s, div_by(p->s, plus(p->s, count, TC_ATTENTION_STEP - 1), TC_ATTENTION_STEP), TC_ATTENTION_STEP);
  tc_val zero = tc_build_cast_bf16_daz(E, splat(p->s, number(p, 0), TC_ATTENTION_STEP));
  for (int i = 0; i < SIDE; i++) store(p->s, weights, plus(p->s, at, i * p->pitch), zero);
}

// Copies the values of a last, partial step, from row `first` on, `rows` of them; zeros follow.
static void copy_values(tc_attention_emitter *p, int values, tc_val at, int64_t pitch, tc_val rows, int lanes,
                        int tail) {
  tc_emit_ctx *s = p->s;
  tc_val i = loop_to(s, rows, 1);
  store(s, tail, times(s, i, TC_ATTENTION_WIDEST),
        load(s, values, TC_I32, lanes, add(s, at, times(s, i, pitch)), TC_NONE));
  end(s);
  i = loop(s, rows, i64(s, SIDE), 1);
  store(s, tail, times(s, i, TC_ATTENTION_WIDEST), splat(s, const_i(s, TC_I32, 0), lanes));
  end(s);
}

static void load_weights(tc_attention_emitter *p, const tc_attention_matmul_operand *weights, tc_val step) {
  tc_build_tmm_load(E, TMM_A, SIDE, SIDE, weights->buf, weights->type,
                    add(p->s, weights->at, times(p->s, step, SIDE * weights->step)), i64(p->s, weights->row));
}

void tc_attention_tmm_mix(tc_attention_emitter *p, const tc_attention_matmul_operand *weights,
                          const tc_attention_matmul_operand *values, int lanes, tc_val first, tc_val count, int tail,
                          int tile) {
  tc_emit_ctx *s = p->s;
  const int n = lanes / SIDE;
  tc_val whole = div_by(s, count, 2 * SIDE), left = rem_by(s, count, 2 * SIDE);
  clear_sums(p, n);
  tc_val k = loop(s, first, whole, 1);
  load_weights(p, weights, k);
  add_step(p, n, values->buf, add(s, values->at, times(s, k, SIDE * values->step)), values->step);
  end(s);
  begin_if(s, bin(s, TC_IR_GT, left, i64(s, 0)));
  copy_values(p, values->buf, add(s, values->at, times(s, whole, SIDE * values->step)), values->step,
              div_by(s, plus(s, left, 1), 2), lanes, tail);
  load_weights(p, weights, whole);
  add_step(p, n, tail, i64(s, 0), TC_ATTENTION_WIDEST);
  end_if(s);
  store_sums(p, n, tile, i64(s, 0), TC_ATTENTION_WIDEST);
}
