// Emits the value of a node at the current iteration. The value is remembered, in a tile, in
// memory, or computed inline from operands, whose values are found the same way.
// Ops that move or join data read an operand at another index. Arithmetic is kir/builder.h's.
//
// Example, b = pad(a, 1) read at [i]:  select(0 <= i - 1 and i - 1 < n, load a[i - 1], 0)
#include <string.h>

#include "kernels/philox.h"
#include "lowering/kir/rng.h"
#include "lowering/emit/shorthand.h"

// Returns space for a position at the current depth: of the node being computed, or of its operand.
static tc_index *position_of_level(tc_emit_ctx *s, bool of_operand) {
  tc_index **at = &s->path.position[s->path.n][of_operand];
  if (!*at) *at = tc_arena_alloc(s->arena, TC_MAX_RANK * sizeof **at);
  if (!*at) (void)tc_emit_fail(s, TC_ERR_MEMORY, "no room for a kernel");
  return *at;
}

// ---- computed from operands ----

static tc_val operand_value(tc_emit_ctx *s, uint32_t n, int k, const tc_index *idx) {
  tc_index *at = position_of_level(s, true);
  if (!at) return 0;
  if (tc_view_operand(s->g, n, k, idx, &s->ext, at)) return tc_emit_value_in_scope(s, s->g->node[n].in[k], at);
  return tc_emit_not_affine(s, s->g->node[n].in[k], "a view is not affine in its operand");
}

// Returns c combined with the condition that the index is in [0, extent), on the sides where it may
// not be.
static tc_val in_range(tc_emit_ctx *s, const tc_index *x, int64_t extent, bool below, bool above, tc_val c) {
  tc_val v = tc_emit_whole_index(s, x);
  if (below) c = tc_emit_both(s, c, bin(s, TC_IR_GE, v, i64(s, 0)));
  if (above) c = tc_emit_both(s, c, bin(s, TC_IR_LT, v, i64(s, extent)));
  return c;
}

// Returns the value of node n at idx where cond holds; loads are masked elsewhere.
static tc_val guarded_value(tc_emit_ctx *s, uint32_t n, const tc_index *idx, tc_val cond) {
  tc_val outer = s->cond;
  if (cond != TC_NONE) s->cond = tc_emit_both(s, outer, cond);
  tc_val v = tc_emit_value_in_scope(s, n, idx);
  s->cond = outer;
  return v;
}

static tc_val pad_value(tc_emit_ctx *s, const tc_gnode *x, const tc_index *idx) {
  tc_index *at = position_of_level(s, true);
  tc_val c = TC_NONE;
  if (!at) return 0;
  const tc_dims *from = &s->g->node[x->in[0]].shape->d;
  for (int i = 0; i < from->rank; i++) {
    int64_t lo = (int64_t)x->attr[i], hi = (int64_t)x->attr[from->rank + i];
    at[i] = idx[i];
    at[i].base -= lo;
    c = in_range(s, &at[i], from->dim[i], lo > 0, hi > 0, c);
  }
  tc_val v = guarded_value(s, x->in[0], at, c);
  if (c == TC_NONE) return v;
  tc_type type = tc_emit_compute_type(x->type);  // a pad without an argument was added by lowering and pads with zeros
  return select_val(s, c, v, x->n_arg ? tc_emit_argument(s, x->arg, type) : const_f(s, type, 0));
}

static tc_val cat_value(tc_emit_ctx *s, const tc_gnode *x, const tc_index *idx) {
  int axis = (int)x->attr[0];
  int64_t end = x->shape->d.dim[axis];
  tc_val v = TC_NONE;
  tc_index *at = position_of_level(s, true);
  if (!at) return 0;
  for (int k = x->n_in; k-- > 0;) {  // from the last piece, which is the innermost alternative of the selects
    memcpy(at, idx, sizeof at[0] * (size_t)x->shape->d.rank);
    int64_t n = s->g->node[x->in[k]].shape->d.dim[axis];
    end -= n;
    if (n == 0) continue;
    at[axis].base -= end;
    tc_val c = in_range(s, &at[axis], n, end > 0, end + n < x->shape->d.dim[axis], TC_NONE);
    tc_val piece = guarded_value(s, x->in[k], at, c);
    v = v == TC_NONE || c == TC_NONE ? piece : select_val(s, c, piece, v);
  }
  return v;
}

// Handles unit steps only; other slices are external.
static tc_val slice_value(tc_emit_ctx *s, const tc_gnode *x, const tc_index *idx) {
  tc_index *at = position_of_level(s, true);
  const tc_dims *d = &s->g->node[x->in[1]].shape->d;
  tc_val c = TC_NONE;
  if (!at) return 0;
  for (int i = 0; i < d->rank; i++) {
    at[i] = idx[i];
    if (d->dim[i] == x->shape->d.dim[i]) continue;  // a slice of a whole axis starts at 0
    tc_term start = {TC_TERM_ARG, 0, x->arg + (uint32_t)i, 1, 0, -1};
    if (!tc_ix_add_term(&at[i], start)) return tc_emit_not_affine(s, TC_NONE, "an index has too many terms");
    c = in_range(s, &at[i], d->dim[i], true, true, c);
  }
  tc_val old = tc_emit_value_in_scope(s, x->in[0], idx), v = guarded_value(s, x->in[1], at, c);
  return c == TC_NONE ? v : select_val(s, c, v, old);
}

// Returns the value of the index operand, with negative values wrapped once. A check before this
// step ensures that it is in range.
static tc_val wrapped_index(tc_emit_ctx *s, uint32_t index, const tc_index *at, int64_t extent) {
  tc_val v = tc_emit_value_in_scope(s, index, at);
  return select_val(s, bin(s, TC_IR_LT, v, i64(s, 0)), add_i64(s, v, extent), v);
}

static tc_val gathered_value(tc_emit_ctx *s, const tc_gnode *x, const tc_index *idx) {
  const tc_dims *d = &s->g->node[x->in[0]].shape->d, *di = &s->g->node[x->in[1]].shape->d;
  int axis = (int)x->attr[0];
  tc_index *at = position_of_level(s, true);
  tc_val v;
  if (!at) return 0;
  if (x->op == TC_OP_GATHER) {
    v = wrapped_index(s, x->in[1], idx, d->dim[axis]);
    memcpy(at, idx, sizeof at[0] * (size_t)d->rank);
  } else {
    v = wrapped_index(s, x->in[1], idx + axis, d->dim[axis]);
    for (int i = 0; i < axis; i++) at[i] = idx[i];
    for (int i = axis + 1; i < d->rank; i++) at[i] = idx[i + di->rank - 1];
  }
  at[axis] = tc_ix_const(0);
  (void)tc_ix_add_term(&at[axis], (tc_term){TC_TERM_VALUE, 0, v, 1, 0, 1});
  return tc_emit_value_in_scope(s, x->in[0], at);
}

static __attribute__((noinline)) tc_val iota_value(tc_emit_ctx *s, const tc_gnode *x, const tc_index *idx) {
  tc_index flat;
  if (!tc_ix_flatten(idx, &x->shape->d, &s->ext, &flat))
    return tc_emit_not_affine(s, TC_NONE, "an index has too many terms");
  if (tc_type_is_float(x->type)) {
    tc_val i = cast(s, tc_emit_whole_index(s, &flat), TC_F64);
    tc_val v = add(s, tc_emit_argument(s, x->arg, TC_F64), mul(s, tc_emit_argument(s, x->arg + 1, TC_F64), i));
    return tc_emit_rounded(s, cast(s, v, tc_emit_compute_type(x->type)), x->type);
  }
  // Integers wrap, so the first lane's number is computed once. The offsets of other lanes do not
  // change between iterations; they are computed in the type of the result.
  int64_t stride;
  if (s->threads.run) {
    tc_val v = mul(s, tc_emit_whole_index(s, &flat), tc_emit_argument(s, x->arg + 1, TC_I64));
    return cast(s, add(s, v, tc_emit_argument(s, x->arg, TC_I64)), x->type);
  }
  tc_val vec, at = tc_emit_index_value(s, flat, &stride, &vec), step = tc_emit_argument(s, x->arg + 1, TC_I64);
  tc_val first = add(s, tc_emit_argument(s, x->arg, TC_I64), mul(s, step, at));
  if (vec == TC_NONE && stride == 0) return cast(s, first, x->type);
  if (vec != TC_NONE) return cast(s, add(s, first, mul(s, step, vec)), x->type);
  tc_val lanes = tc_emit_numbers(s, x->type, s->lanes);
  tc_val others = mul(s, lanes, cast(s, times(s, step, stride), x->type));
  return add(s, others, cast(s, first, x->type));
}

// Returns whether the lanes are at consecutive positions, the first a multiple of 4.
static bool is_run(const tc_emit_ctx *s, const tc_index *flat) {
  bool along = false;
  if (s->threads.run || s->lanes < 4 || flat->base % 4 || s->split % 4) return false;
  for (int i = 0; i < flat->n; i++) {
    const tc_term *t = &flat->term[i];
    if (t->kind != TC_TERM_RANGE || t->range != s->vector ? t->coef % 4 != 0
                                                          : t->coef != 1 || t->div != 1 || t->mod != 0)
      return false;
    along |= t->kind == TC_TERM_RANGE && t->range == s->vector;
  }
  return along;
}

static __attribute__((noinline)) tc_val random_value(tc_emit_ctx *s, const tc_gnode *x, const tc_index *idx) {
  tc_index flat;
  int64_t stride;
  tc_val vec;
  if (!tc_ix_flatten(idx, &x->shape->d, &s->ext, &flat))
    return tc_emit_not_affine(s, TC_NONE, "an index has too many terms");
  bool run = is_run(s, &flat);
  tc_draw draw = {.op = x->op, .type = tc_emit_compute_type(x->type), .lanes = run ? s->lanes : 0};
  draw.at = run ? tc_emit_index_value(s, flat, &stride, &vec) : tc_emit_whole_index(s, &flat);
  draw.seed = tc_emit_argument(s, x->arg, TC_I64), draw.counter = tc_emit_argument(s, x->arg + 1, TC_I64);
  if (x->op == TC_OP_RANDINT)
    draw.low = tc_emit_argument(s, x->arg + 2, TC_I64), draw.high = tc_emit_argument(s, x->arg + 3, TC_I64);
  if (s->st != TC_OK) return 0;
  tc_val v = tc_draw_emit(&s->e, &draw);
  if (x->op == TC_OP_RAND && tc_type_is_half(x->type))
    v = least(s, v, const_f(s, TC_F32, x->type == TC_F16 ? TC_MOST_F16 : TC_MOST_BF16));
  return tc_emit_rounded(s, v, x->type);
}

static tc_val compute_op(tc_emit_ctx *s, uint32_t n, const tc_index *idx) {
  const tc_gnode *x = &s->g->node[n];
  switch (x->op) {
    case TC_OP_FULL: return tc_emit_rounded(s, tc_emit_argument(s, x->arg, tc_emit_compute_type(x->type)), x->type);
    case TC_OP_IOTA: return iota_value(s, x, idx);
    case TC_OP_RAND:
    case TC_OP_RANDN:
    case TC_OP_RANDINT: return random_value(s, x, idx);
    case TC_OP_PAD: return pad_value(s, x, idx);
    case TC_OP_CAT: return cat_value(s, x, idx);
    case TC_OP_WRITE_SLICE: return slice_value(s, x, idx);
    case TC_OP_GATHER:
    case TC_OP_INDEX_SELECT: return gathered_value(s, x, idx);
    case TC_OP_CAST: {
      tc_val v = operand_value(s, n, 0, idx);
      if (x->type == TC_F16 || x->type == TC_BF16) {
        if (s->st == TC_OK && tc_build_type(&s->e, v) == TC_BOOL) v = cast(s, v, TC_I32);
        return cast(s, cast(s, v, x->type), TC_F32);
      }
      return cast(s, v, x->type);
    }
    default: break;
  }
  if (tc_op_kind_of(x->op) == TC_KIND_MOVE || tc_op_kind_of(x->op) == TC_KIND_EFFECT)
    return operand_value(s, n, 0, idx);
  tc_val v[3] = {0, 0, 0};
  for (int k = 0; k < x->n_in && k < 3; k++) v[k] = operand_value(s, n, k, idx);
  if (s->st != TC_OK) return 0;
  if (x->op == TC_OP_POLYGAMMA) v[1] = const_f(s, TC_F64, (double)x->attr[0]);
  tc_type type = tc_emit_compute_type(s->g->node[x->in[x->n_in - 1]].type);
  if (x->op == TC_OP_EXP && x->n_attr && x->attr[0] == TC_EXP_OF_NEGATIVE)
    return tc_emit_rounded(s, tc_build_exp_of_negative(&s->e, type, v[0]), x->type);
  return tc_emit_rounded(s, tc_build_scalar_op(&s->e, x->op, type, v[0], v[1], v[2]), x->type);
}

// Computes element idx of node n from its operands' elements. The depth of the recursion is
// bounded: a node half-way is stored when it is too deep.
static tc_val make_value(tc_emit_ctx *s, uint32_t n, const tc_index *idx) {
  if (s->st != TC_OK) return 0;
  if (s->path.n == MAX_PATH) {
    s->x->not_affine = s->path.node[MAX_PATH / 2];
    return tc_emit_fail(s, TC_ERR_STATE, "values are made in place too deeply");
  }
  s->path.node[s->path.n++] = n;
  tc_val v = compute_op(s, n, idx);
  s->path.n--;
  return v;
}

// ---- found: remembered, in a tile, in memory ----

tc_val tc_emit_member(tc_emit_ctx *s, uint32_t n) {
  if (tc_emit_note_of(s, n)->memo != TC_NONE) return tc_emit_note_of(s, n)->memo;
  if (tc_emit_note_of(s, n)->stashed) {
    tc_val row = load(s, tc_emit_note_of(s, n)->stash, tc_emit_compute_type(s->g->node[n].type), s->lanes,
                      s->at[TC_RANGE_F], TC_NONE);
    tc_emit_remember(s, n, row);
    return row;
  }
  const tc_gnode *x = &s->g->node[n];
  tc_index *idx = position_of_level(s, false);
  if (!idx) return 0;
  if (tc_op_kind_of(x->op) == TC_KIND_FOLD) return tc_emit_fail(s, TC_ERR_STATE, "a fold is read before it is done");
  if (!tc_view_position(s->gp, &s->ext, (tc_level)s->gr->level[n], &x->shape->d, idx))
    return tc_emit_not_affine(s, n, "a position is not affine");
  tc_val v = make_value(s, n, idx);
  if (tc_emit_note_of(s, n)->stash >= 0 && s->st == TC_OK)
    store(s, tc_emit_note_of(s, n)->stash, s->at[TC_RANGE_F], splat(s, v, s->lanes));
  tc_emit_remember(s, n, v);
  return v;
}

// Returns whether the index is that of the iteration's own element of a level.
static bool is_own(tc_emit_ctx *s, const tc_index *flat, tc_level level) {
  tc_index own = tc_view_flat(s->gp, level);
  tc_ix_simplify(&own, &s->ext);
  return tc_ix_equal(flat, &own);
}

// Checks that element idx of n is the current iteration's own element of node m of the fusion.
static __attribute__((noinline)) bool is_own_member(tc_emit_ctx *s, uint32_t m, uint32_t n, const tc_index *idx) {
  tc_index flat;
  if (!tc_ix_flatten(idx, &s->g->node[n].shape->d, &s->ext, &flat))
    return (void)tc_emit_not_affine(s, m, "an index has too many terms"), false;
  if (is_own(s, &flat, (tc_level)s->gr->level[m])) return true;
  if (s->st == TC_OK) s->x->not_affine = m;
  return (void)tc_emit_fail(s, TC_ERR_STATE, "a member is read away from its place"), false;
}

// Returns whether a value computed inline is needed once an iteration: it is read at the
// iteration's own position.
static __attribute__((noinline)) bool is_computed_once(tc_emit_ctx *s, uint32_t n, const tc_index *idx) {
  tc_index flat;
  return tc_op_kind_of(s->g->node[n].op) == TC_KIND_ELEM && s->cond == TC_NONE &&
         tc_ix_flatten(idx, &s->g->node[n].shape->d, &s->ext, &flat) && is_own(s, &flat, TC_LEVEL_FULL);
}

static tc_val recomputed_value(tc_emit_ctx *s, uint32_t n, const tc_index *idx) {
  bool once = is_computed_once(s, n, idx);
  if (once && tc_emit_note_of(s, n)->memo != TC_NONE) return tc_emit_note_of(s, n)->memo;
  tc_val v = make_value(s, n, idx);
  if (once && s->st == TC_OK) tc_emit_remember(s, n, v);
  return v;
}

static tc_held_row *held_of(tc_emit_ctx *s, uint32_t n) {
  for (int i = 0; s->held && i < s->held->n; i++)
    if (s->held->row[i].node == n) return &s->held->row[i];
  return NULL;
}

static tc_val held_value(tc_emit_ctx *s, tc_held_row *held, tc_index flat) {
  tc_type type = tc_emit_compute_type(s->g->node[held->node].type);
  if (held->there) return load(s, held->tile, type, s->lanes, s->at[TC_RANGE_F], TC_NONE);
  tc_val v = tc_emit_load(s, held->node, flat);
  store(s, held->tile, s->at[TC_RANGE_F], v);
  held->filled = true;
  return v;
}

// Loads element idx of n from memory, where it is stored as m. There is one load an iteration: a
// later one could read what the kernel itself has written in place.
static __attribute__((noinline)) tc_val loaded_value(tc_emit_ctx *s, uint32_t m, uint32_t n, const tc_index *idx) {
  tc_index flat;
  if (!tc_ix_flatten(idx, &s->g->node[n].shape->d, &s->ext, &flat))
    return tc_emit_not_affine(s, m, "an index has too many terms");
  tc_held_row *held = held_of(s, m);
  bool plain = (held || s->gp->kind == TC_FUSION_ELEMENTWISE) && s->cond == TC_NONE && is_own(s, &flat, TC_LEVEL_FULL);
  if (plain && tc_emit_note_of(s, m)->memo != TC_NONE) return tc_emit_note_of(s, m)->memo;
  tc_val v = plain && held ? held_value(s, held, flat) : tc_emit_load(s, m, flat);
  if (plain) tc_emit_remember(s, m, v);
  return v;
}

// Returns whether element idx of n is the given one, not another element of the same node.
static __attribute__((noinline)) bool is_given(const tc_emit_ctx *s, uint32_t n, const tc_index *idx) {
  tc_index flat;
  return tc_ix_flatten(idx, &s->g->node[n].shape->d, &s->ext, &flat) && tc_ix_equal(&flat, s->given.at);
}

// This function and make_value are mutually recursive, once for each operand computed inline.
// Indices are not on their stack, which may be small.
tc_val tc_emit_value_in_scope(tc_emit_ctx *s, uint32_t n, const tc_index *idx) {
  if (s->st != TC_OK) return 0;
  uint32_t m = n;  // the node below reshapes, which keep the flat position
  while (!tc_emit_in_fusion(s, m) && !s->gr->stored[m] && tc_op_is_alias(s->g->node[m].op)) m = s->g->node[m].in[0];
  if (m == s->given.node && is_given(s, n, idx)) return s->given.value;
  m = tc_fusion_root(s->gr, m);
  bool ours = tc_emit_in_fusion(s, m);
  if (!ours && !s->gr->stored[m]) return recomputed_value(s, n, idx);
  if (!ours) return loaded_value(s, m, n, idx);
  return is_own_member(s, m, n, idx) ? tc_emit_member(s, m) : 0;
}

tc_val tc_emit_value(tc_emit_ctx *s, uint32_t n, const tc_index *idx) {
  tc_emit_enter(s);
  tc_val v = tc_emit_value_in_scope(s, n, idx);
  tc_emit_leave(s);
  return v;
}

tc_val tc_emit_made_from(tc_emit_ctx *s, uint32_t n, const tc_index *idx, uint32_t from, const tc_index *at,
                         tc_val given) {
  s->given = (tc_given_value){from, at, given};
  tc_val v = tc_emit_value(s, n, idx);
  s->given.node = TC_NONE;
  return s->st == TC_OK ? v : given;
}
