// Emits addresses: the value of an affine index from the current values of its ranges, and its
// position in memory.
//
// An index that divides K into pieces costs a division for each element. So a first emission
// records the divisors of K. Where they allow it, the fusion is emitted again with K split at the
// smallest divisor, into ranges K0 and K.
//
// Example, K of extent 96, split 16:  (k / 16) * 100 + k % 16  ->  k0 * 100 + k
#include <string.h>

#include "lowering/emit/shorthand.h"

static void note_divisor(tc_emit_ctx *s, int64_t p) {
  for (int i = 0; i < s->divisors.n; i++)
    if (s->divisors.at[i] == p) return;
  if (s->divisors.n < MAX_DIVISORS) s->divisors.at[s->divisors.n++] = p;
}

// Records where an index divides K, as candidates for the split.
static void note_divisors(tc_emit_ctx *s, const tc_index *x) {
  for (int i = 0; i < x->n; i++) {
    const tc_term *t = &x->term[i];
    if (t->kind != TC_TERM_RANGE || t->range != TC_RANGE_K) continue;
    if (t->div > 1) note_divisor(s, t->div);
    if (t->mod) note_divisor(s, t->div * t->mod);
  }
}

int64_t tc_emit_choose_split(const tc_emit_ctx *s) {
  int64_t k = s->gp->k, least = k;
  if (tc_target_is_gpu(s->target) || s->gp->kind == TC_FUSION_ROW || s->gp->kind == TC_FUSION_MATMUL ||
      s->gp->kind == TC_FUSION_ATTENTION)
    return 0;
  for (int i = 0; i < s->divisors.n; i++)
    if (s->divisors.at[i] > 1) least = TC_MIN(least, s->divisors.at[i]);
  if (least == k || k % least) return 0;
  for (int i = 0; i < s->divisors.n; i++)
    if (s->divisors.at[i] % least && s->divisors.at[i] != 1) return 0;
  return least;
}

bool tc_emit_split_terms(const tc_emit_ctx *s, tc_index *x) {
  if (!s->split) return true;
  tc_index y = tc_ix_const(x->base);
  for (int i = 0; i < x->n; i++) {
    tc_term t = x->term[i];
    if (t.kind != TC_TERM_RANGE || t.range != TC_RANGE_K) {
      if (!tc_ix_add_term(&y, t)) return false;
      continue;
    }
    if (t.div < s->split) {  // a part below the split, and perhaps one above
      tc_term low = t, high = t;
      int64_t below = s->split / t.div;
      bool crosses = !t.mod || t.mod > below;
      low.mod = crosses ? below : t.mod;
      if (low.div == 1 && low.mod >= s->split) low.mod = 0;
      if (!tc_ix_add_term(&y, low)) return false;
      high.range = TC_RANGE_K0, high.div = 1, high.mod = t.mod ? t.mod / below : 0, high.coef = t.coef * below;
      if (crosses && !tc_ix_add_term(&y, high)) return false;
    } else {
      t.range = TC_RANGE_K0, t.div /= s->split;
      if (!tc_ix_add_term(&y, t)) return false;
    }
  }
  *x = y;
  return true;
}

static void add_to(tc_emit_ctx *s, tc_val *sum, tc_val v) {
  *sum = *sum == TC_NONE ? v : add(s, *sum, v);
}

static tc_val div_mod(tc_emit_ctx *s, tc_val v, const tc_term *t) {
  if (t->div > 1) v = div_by(s, v, t->div);
  return t->mod ? rem_by(s, v, t->mod) : v;
}

// Adds a term of a range in which each thread has an offset of its own. The part that is the same
// for all threads goes to *sum, so that it is computed once.
static void thread_term(tc_emit_ctx *s, const tc_term *t, tc_val *sum, int64_t *stride, tc_val *vec) {
  tc_val at = s->at[t->range], off = s->threads.off[t->range];
  int64_t within = s->threads.within[t->range];
  bool runs = t->range == s->vector && s->threads.run > 1;
  if (t->div % within == 0) {
    add_to(s, sum, times(s, div_mod(s, at, t), t->coef));
    return;
  }
  if (t->div == 1 && t->mod % within == 0) {
    add_to(s, sum, times(s, div_mod(s, at, t), t->coef));
    add_to(s, vec, times(s, off, t->coef));
    if (runs) *stride += t->coef;
    return;
  }
  tc_val v = add(s, off, at);
  bool straight = t->div == 1 && t->mod % s->threads.run == 0;
  if (runs && !straight && t->div % s->threads.run) v = add(s, v, tc_emit_run_numbers(s));
  add_to(s, vec, times(s, div_mod(s, v, t), t->coef));
  if (runs && straight) *stride += t->coef;
}

// Adds a term of a range in which all threads have the same position. A term of the vector range
// becomes a stride or a vector of offsets; any other goes to *sum.
static void range_term(tc_emit_ctx *s, const tc_term *t, tc_val *sum, int64_t *stride, tc_val *vec) {
  bool vector = t->range == s->vector && !s->threads.run;
  tc_val v = s->at[t->range];
  if (vector && t->div == 1 && !t->mod && *stride == 0) {
    *stride = t->coef;
    add_to(s, sum, times(s, v, t->coef));
    return;
  }
  if (vector) v = add(s, v, tc_emit_lane_numbers(s));
  add_to(s, vector ? vec : sum, times(s, div_mod(s, v, t), t->coef));
}

tc_val tc_emit_index_value(tc_emit_ctx *s, tc_index x, int64_t *stride, tc_val *vec) {
  note_divisors(s, &x);
  *stride = 0, *vec = TC_NONE;
  if (!tc_emit_split_terms(s, &x)) return tc_emit_not_affine(s, TC_NONE, "an index has too many terms");
  tc_val sum = x.base ? i64(s, x.base) : TC_NONE;
  for (int i = 0; i < x.n; i++) {
    const tc_term *t = &x.term[i];
    if (t->kind == TC_TERM_ARG) {
      add_to(s, &sum, times(s, tc_emit_argument(s, t->id, TC_I64), t->coef));
    } else if (t->kind == TC_TERM_VALUE) {
      tc_val v = times(s, t->id, t->coef);
      add_to(s, tc_build_lanes(&s->e, v) == 1 ? &sum : vec, v);
    } else if (!s->bound[t->range]) {
      return tc_emit_fail(s, TC_ERR_STATE, "an index uses a range outside its loop");
    } else if (s->threads.run && s->threads.off[t->range] != TC_NONE) {
      thread_term(s, t, &sum, stride, vec);
    } else {
      range_term(s, t, &sum, stride, vec);
    }
  }
  if (*vec != TC_NONE && *stride && !s->threads.run) {
    add_to(s, vec, times(s, tc_emit_lane_numbers(s), *stride));
    *stride = 0;
  }
  return sum == TC_NONE ? i64(s, 0) : sum;
}

tc_val tc_emit_base(tc_emit_ctx *s, const tc_index *x) {
  int64_t stride;
  tc_val vec;
  return tc_emit_index_value(s, *x, &stride, &vec);
}

tc_val tc_emit_whole_index(tc_emit_ctx *s, const tc_index *x) {
  int64_t stride;
  tc_val vec, base = tc_emit_index_value(s, *x, &stride, &vec);
  if (stride) add_to(s, &vec, times(s, s->threads.run ? tc_emit_run_numbers(s) : tc_emit_lane_numbers(s), stride));
  return vec == TC_NONE ? base : add(s, vec, base);
}

int tc_emit_run_of(const tc_index *x, uint8_t range, int most) {
  int run = most;
  bool along = false;
  for (; run > 1 && x->base % run; run /= 2) {
  }
  for (int i = 0; i < x->n; i++) {
    const tc_term *t = &x->term[i];
    bool ours = t->kind == TC_TERM_RANGE && t->range == range, step = ours && t->div == 1 && t->coef == 1;
    if (step && along) return 1;
    along |= step;
    while (run > 1 && (step ? t->mod % run : t->coef % run || (ours && t->div % run))) run /= 2;
  }
  return along ? run : 1;
}

tc_val tc_emit_run_at(tc_emit_ctx *s, const tc_index *flat, tc_val mask, int *lanes) {
  int64_t stride;
  tc_val vec, at = tc_emit_index_value(s, *flat, &stride, &vec);
  if (vec != TC_NONE) at = add(s, vec, at);
  int addresses = TC_MAX_OF(tc_build_lanes(&s->e, at), mask == TC_NONE ? 1 : tc_build_lanes(&s->e, mask)),
      threads = s->lanes / s->threads.run;
  bool one =
      addresses <= threads && stride == 1 && tc_emit_run_of(flat, (uint8_t)s->vector, s->threads.run) == s->threads.run;
  if (stride && !one) at = add(s, at, times(s, tc_emit_run_numbers(s), stride));
  *lanes = stride ? s->lanes : addresses;
  return splat(s, at, one ? threads : *lanes);
}

bool tc_emit_follow(const tc_emit_ctx *s, uint32_t *n, const tc_index *idx, const tc_extents *e, tc_index *flat) {
  tc_index here[TC_MAX_RANK], next[TC_MAX_RANK];
  memcpy(here, idx, sizeof here);
  while (!s->gr->stored[tc_fusion_root(s->gr, *n)]) {
    if (!tc_view_operand(s->g, *n, 0, here, e, next)) return false;
    *n = s->g->node[*n].in[0];
    memcpy(here, next, sizeof here);
  }
  return tc_ix_flatten(here, &s->g->node[*n].shape->d, e, flat);
}
