// Emits folds (reductions): the accumulator's first value, its update in an iteration, and its
// result. See accumulator.h.
#include "lowering/emit/accumulator.h"

#include <math.h>

#include "lowering/emit/shorthand.h"

static tc_val extreme(tc_emit_ctx *s, tc_type type, bool most) {
  if (tc_type_is_float(type)) return const_f(s, type, most ? INFINITY : -INFINITY);
  bool is_unsigned = type == TC_U8 || type == TC_BOOL;
  int64_t top = type == TC_BOOL ? 1 : (int64_t)(UINT64_MAX >> (64 - 8 * (int)tc_type_bytes(type) + !is_unsigned));
  return const_i(s, type, most ? top : is_unsigned ? 0 : -top - 1);
}

static bool is_arg(tc_op op) {
  return op == TC_OP_ARGMAX || op == TC_OP_ARGMIN;
}

tc_val tc_fold_identity(tc_emit_ctx *s, tc_op op, tc_type type) {
  switch (op) {
    case TC_OP_SUM:
    case TC_OP_ANY: return const_f(s, type, 0);
    case TC_OP_PROD:
    case TC_OP_ALL: return const_f(s, type, 1);
    case TC_OP_MIN:
    case TC_OP_ARGMIN: return extreme(s, type, true);
    default: return extreme(s, type, false);
  }
}

static tc_kir_op combine(tc_op op) {
  switch (op) {
    case TC_OP_SUM: return TC_IR_ADD;
    case TC_OP_PROD: return TC_IR_MUL;
    case TC_OP_MIN:
    case TC_OP_ALL:
    case TC_OP_ARGMIN: return TC_IR_MIN;
    default: return TC_IR_MAX;
  }
}

void tc_fold_begin(tc_emit_ctx *s, tc_fold *f, uint32_t n, bool chains) {
  const tc_gnode *x = &s->g->node[n];
  tc_type type = tc_emit_compute_type(s->g->node[x->in[0]].type);
  int tile = s->gr->level[n] == TC_LEVEL_COLUMN ? tc_emit_note_of(s, n)->stash : -1;
  *f = (tc_fold){.node = n, .total = TC_NONE, .type = type == TC_BOOL ? TC_I32 : type, .tile = tile};
  if (f->tile >= 0) return;
  f->acc = var(s, splat(s, tc_fold_identity(s, x->op, f->type), s->lanes));
  if (chains && x->op == TC_OP_SUM && tc_type_is_float(f->type)) f->total = var(s, f->acc);
  if (is_arg(x->op)) f->index = var(s, splat(s, i64(s, INT64_MAX), s->lanes));
}

// The position of each lane along F.
static tc_val fold_position(tc_emit_ctx *s) {
  tc_val at = s->at[TC_RANGE_F];
  return s->vector == TC_RANGE_F ? add(s, tc_emit_lane_numbers(s), at) : splat(s, at, s->lanes);
}

void tc_fold_step(tc_emit_ctx *s, tc_fold *f) {
  const tc_gnode *x = &s->g->node[f->node];
  tc_index idx[TC_MAX_RANK];
  if (!tc_view_position(s->gp, &s->ext, TC_LEVEL_FULL, &s->g->node[x->in[0]].shape->d, idx)) {
    tc_emit_not_affine(s, x->in[0], "a position is not affine");
    return;
  }
  tc_val v = tc_emit_value_in_scope(s, x->in[0], idx);
  if (s->st != TC_OK) return;
  v = splat(s, cast(s, v, f->type), s->lanes);
  if (f->tile >= 0) {
    tc_val at = s->at[TC_RANGE_F], sum = load(s, f->tile, f->type, s->lanes, at, TC_NONE);
    store(s, f->tile, at, bin(s, combine(x->op), sum, v));
    return;
  }
  bool masked = s->mask != TC_NONE && s->vector == TC_RANGE_F;
  if (!is_arg(x->op)) {
    if (masked) v = select_val(s, s->mask, v, tc_fold_identity(s, x->op, f->type));
    bool plain = x->op == TC_OP_MAX &&
                 (x->attr[0] & TC_MAX_OVER_NAN);  // one instruction; MAX, which propagates NaN, takes three
    tc_val next = plain ? select_val(s, bin(s, TC_IR_GT, v, f->acc), v, f->acc) : bin(s, combine(x->op), f->acc, v);
    set(s, f->acc, next);
    return;
  }
  // A lane takes its first element, a better one, or the first NaN.
  tc_val better = bin(s, x->op == TC_OP_ARGMAX ? TC_IR_GT : TC_IR_LT, v, f->acc);
  tc_val none = bin(s, TC_IR_EQ, f->index, i64(s, INT64_MAX));
  tc_val take = bin(s, TC_IR_OR, better, none);
  if (tc_type_is_float(f->type)) {
    tc_val was_nan = bin(s, TC_IR_NE, f->acc, f->acc), is_nan = bin(s, TC_IR_NE, v, v);
    tc_val first_nan = bin(s, TC_IR_AND, is_nan, tc_build_un(&s->e, TC_IR_NOT, was_nan));
    take = bin(s, TC_IR_OR, take, first_nan);
  }
  if (masked) take = bin(s, TC_IR_AND, take, s->mask);
  tc_val where = select_val(s, take, fold_position(s), f->index);
  tc_val best = select_val(s, take, v, f->acc);
  set(s, f->index, where);
  set(s, f->acc, best);
}

void tc_fold_end_chain(tc_emit_ctx *s, const tc_fold *f) {
  if (f->total == TC_NONE) return;
  set(s, f->total, add(s, f->total, f->acc));
  set(s, f->acc, tc_fold_identity(s, TC_OP_SUM, f->type));
}

void tc_fold_join(tc_emit_ctx *s, tc_fold *f, const tc_fold *second) {
  bool chains = f->total != TC_NONE;
  tc_val *v = chains ? &f->total : &f->acc;
  *v = bin(s, combine(s->g->node[f->node].op), *v, chains ? second->total : second->acc);
}

static tc_val reduce_lanes(tc_emit_ctx *s, tc_val v, tc_kir_op op) {
  return tc_build_lanes(&s->e, v) == 1 ? v : reduce(s, v, op);
}

void tc_fold_end(tc_emit_ctx *s, const tc_fold *f) {
  const tc_gnode *x = &s->g->node[f->node];
  if (f->tile >= 0) return;
  bool along = s->vector == TC_RANGE_F;
  tc_val v = f->total == TC_NONE ? f->acc : f->total;
  if (is_arg(x->op)) {
    v = f->index;
    if (along) {
      tc_val best = reduce_lanes(s, f->acc, combine(x->op));
      tc_val hit = bin(s, TC_IR_EQ, f->acc, best);
      if (tc_type_is_float(f->type)) {
        tc_val nan = bin(s, TC_IR_NE, f->acc, f->acc);
        tc_val best_nan = bin(s, TC_IR_NE, best, best);
        hit = bin(s, TC_IR_OR, hit, bin(s, TC_IR_AND, nan, splat(s, best_nan, s->lanes)));
      }
      v = reduce_lanes(s, select_val(s, hit, f->index, i64(s, INT64_MAX)), TC_IR_MIN);
    }
  } else if (along) {
    v = reduce_lanes(s, v, combine(x->op));
  }
  v = cast(s, v, x->type == TC_BOOL ? TC_BOOL : tc_emit_compute_type(x->type));
  tc_emit_remember(s, f->node, tc_emit_rounded(s, v, x->type));
}
