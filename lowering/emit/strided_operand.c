// Follows an operand of a matmul or convolution through views to memory. See strided_operand.h.
#include "lowering/emit/strided_operand.h"

#include <string.h>

#define LEAST_SEGMENT 8  // steps of k with one stride, for an operand that is read where it lies
#define LEAST_PANEL 4  // columns of a panel

// Moves the terms of range r from x to *taken.
static bool take_terms(tc_index *x, uint8_t r, tc_index *taken) {
  tc_index rest = tc_ix_const(x->base);
  *taken = tc_ix_const(0);
  for (int i = 0; i < x->n; i++) {
    const tc_term *t = &x->term[i];
    if (!tc_ix_add_term(t->kind == TC_TERM_RANGE && t->range == r ? taken : &rest, *t)) return false;
  }
  *x = rest;
  return true;
}

// Matches the left operand: rows with one stride or scattered, k with one stride or in segments of
// equal length.
static bool take_pieces(tc_index *x, int64_t k, tc_strided_operand *f) {
  if (!take_terms(x, TC_RANGE_F, &f->rows) || !take_terms(x, TC_RANGE_K0, &f->segments)) return false;
  tc_index one = f->rows, in = tc_ix_const(0);
  f->scattered = !tc_ix_take_stride(&one, TC_RANGE_F, &f->row);
  f->segment = k;
  for (int i = 0; i < f->segments.n; i++)
    if (f->segments.term[i].div > 1) f->segment = TC_MIN(f->segment, f->segments.term[i].div);
  tc_index out = tc_ix_const(0);
  for (int i = 0; i < f->segments.n; i++) {
    const tc_term *t = &f->segments.term[i];
    bool inner = t->div < f->segment;
    if (inner && (t->div != 1 || (t->mod && t->mod != f->segment) || in.n)) return false;
    if (!inner && t->div % f->segment) return false;
    if (!tc_ix_add_term(inner ? &in : &out, *t)) return false;
  }
  if (f->segment < k && (f->segment < LEAST_SEGMENT || k % f->segment)) return false;
  if (in.n && in.term[0].mod == 0 && f->segment < k) return false;
  f->col = in.n ? in.term[0].coef : 0;
  f->segments = out;
  return true;
}

// Matches a right operand with columns in panels: col % panel + col / panel * (panel * stride).
static bool take_panels(tc_index *x, uint8_t col, tc_strided_operand *f) {
  tc_index base = *x, columns;
  if (!take_terms(&base, col, &columns) || columns.n != 2) return false;
  const tc_term *in = &columns.term[columns.term[0].div != 1], *over = &columns.term[columns.term[0].div == 1];
  int64_t lanes = in->mod;
  if (in->div != 1 || in->coef != 1 || lanes < LEAST_PANEL || lanes > LANES || (lanes & (lanes - 1)) ||
      over->div != lanes || over->mod || over->coef % lanes)
    return false;
  *x = base;
  f->panel = lanes, f->col = over->coef / lanes;
  return true;
}

// Matches a right operand with panels of words of `in_word` neighbours along k, 2 for example:
//   row % 2 + row / 2 * (2 * panel) + col % panel * 2 + col / panel * (panel * stride)
static bool take_words(tc_index *x, uint8_t row, uint8_t col, int64_t in_word, tc_strided_operand *f) {
  tc_index base = *x, rows, columns;
  if (!take_terms(&base, row, &rows) || !take_terms(&base, col, &columns) || rows.n != 2 || columns.n != 2)
    return false;
  const tc_term *one = &rows.term[rows.term[0].div != 1], *word = &rows.term[rows.term[0].div == 1];
  const tc_term *in = &columns.term[columns.term[0].div != 1], *over = &columns.term[columns.term[0].div == 1];
  int64_t lanes = in->mod;
  bool words = one->div == 1 && one->mod == in_word && one->coef == 1 && word->div == in_word && word->mod == 0 &&
               word->coef == in_word * lanes;
  bool panels = in->div == 1 && in->coef == in_word && over->div == lanes && over->mod == 0 &&
                over->coef % (in_word * lanes) == 0;
  if (!words || !panels || lanes < LEAST_PANEL || lanes > LANES || (lanes & (lanes - 1)) || base.n ||
      base.base % in_word)
    return false;
  *x = tc_ix_const(base.base / in_word);
  f->words = true, f->panel = f->row = lanes, f->col = over->coef / (in_word * lanes);
  return true;
}

static bool take_right(tc_index *x, uint8_t row, uint8_t col, tc_strided_operand *f) {
  int64_t in_word = f->type == TC_BF16 ? 2 : tc_type_is_byte(f->type) ? 4 : 0;
  if (in_word && take_words(x, row, col, in_word, f)) return true;
  return tc_ix_take_stride(x, row, &f->row) && (tc_ix_take_stride(x, col, &f->col) || take_panels(x, col, f));
}

// Follows element idx of node *n to the tensor in memory: through views and, for a right operand,
// through a fused producer (mark_prologue.c).
static bool follow(const tc_emit_ctx *s, uint32_t *n, const tc_index *idx, tc_strided_operand *f) {
  tc_index here[TC_MAX_RANK], next[TC_MAX_RANK];
  memcpy(here, idx, sizeof here);
  f->widened = TC_NONE;
  while (!s->gr->stored[tc_fusion_root(s->gr, *n)]) {
    const tc_gnode *x = &s->g->node[*n];
    int k = x->prologue ? x->prologue - 1 : 0;
    if (!tc_view_operand(s->g, *n, k, here, &s->ext, next)) return false;
    if (x->prologue) f->widened = *n;
    if (x->prologue && !tc_ix_flatten(here, &x->shape->d, &s->ext, &f->widened_at)) return false;
    *n = x->in[k];
    memcpy(here, next, sizeof here);
  }
  if (!tc_ix_flatten(here, &s->g->node[*n].shape->d, &s->ext, &f->base)) return false;
  // Where another reader has an intermediate value stored, the operand is computed from that.
  bool stored = s->g->node[tc_fusion_root(s->gr, *n)].leaf == TC_LEAF_NONE;
  if (f->widened != TC_NONE && stored) f->widened = *n, f->widened_at = f->base;
  return true;
}

bool tc_strided_operand_find(tc_emit_ctx *s, uint32_t node, int k, uint8_t row, uint8_t col, tc_strided_operand *f) {
  const tc_gnode *x = &s->g->node[node];
  const tc_dims *d = &x->shape->d;
  uint32_t n = x->in[k];
  tc_index *idx = f->position;
  if (!tc_view_position(s->gp, &s->ext, TC_LEVEL_FULL, d, idx))
    return tc_emit_not_affine(s, node, "a position is not affine"), false;
  idx[d->rank - 2] = tc_ix_range(row), idx[d->rank - 1] = tc_ix_range(col);
  f->node = n;
  bool affine = follow(s, &n, idx, f);
  f->type = s->g->node[n].type, f->words = false, f->panel = 0;
  int64_t steps = s->ext.of[TC_RANGE_K0];
  affine = affine && (k == 0 ? take_pieces(&f->base, steps, f) : take_right(&f->base, row, col, f));
  affine = affine && (f->widened == TC_NONE || !f->panel);  // otherwise each tile of rows would recompute whole panels
  if (!affine) return tc_emit_store_first(s, x->in[k], "a strided operand is not affine");
  f->buf = tc_emit_buffer(s, n);
  s->x->same &= ~(UINT64_C(1) << f->buf);
  if (f->words) s->x->words |= UINT64_C(1) << f->buf, f->type = TC_I32;
  return true;
}

bool tc_operand4_find(tc_emit_ctx *s, uint32_t node, int k, tc_operand4 *o) {
  static const uint8_t range_of[4] = {TC_RANGE_A, TC_RANGE_F, TC_RANGE_K0, TC_RANGE_K};
  uint32_t n = s->g->node[node].in[k];
  tc_extents e = {{0}};
  tc_index idx[TC_MAX_RANK];
  for (int i = 0; i < 4; i++) {
    idx[i] = tc_ix_range(range_of[i]);
    e.of[range_of[i]] = s->g->node[n].shape->d.dim[i];
  }
  bool affine = tc_emit_follow(s, &n, idx, &e, &o->base);
  for (int i = 0; i < 4 && affine; i++) affine = tc_ix_take_stride(&o->base, range_of[i], &o->stride[i]);
  if (!affine) return tc_emit_store_first(s, s->g->node[node].in[k], "an operand is not affine");
  o->buf = tc_emit_buffer(s, n), o->type = s->g->node[n].type;
  s->x->same &= ~(UINT64_C(1) << o->buf);
  return true;
}
