// Emits folds (reductions): the accumulator's first value, its update in an iteration, and its
// result. See accumulator.h.
#include "lowering/emit/accumulator.h"

#include <math.h>

static double lowest(tc_type type) {
  switch (type) {
    case TC_F32:
    case TC_F64: return -INFINITY;
    case TC_I8: return INT8_MIN;
    case TC_I16: return INT16_MIN;
    case TC_I32: return INT32_MIN;
    case TC_I64: return (double)INT64_MIN;
    default: return 0;
  }
}

static tc_val extreme(tc_emit_ctx *s, tc_type type, bool most) {
  if (type == TC_F32 || type == TC_F64) return tc_build_const_f(&s->e, type, most ? INFINITY : -INFINITY);
  if (!most) return tc_build_const_i(&s->e, type, type == TC_I64 ? INT64_MIN : (int64_t)lowest(type));
  int bits = (int)tc_type_bytes(type) * 8;
  return tc_build_const_i(&s->e, type,
                          type == TC_U8     ? 255
                          : type == TC_BOOL ? 1
                                            : (int64_t)((UINT64_C(1) << (bits - 1)) - 1));
}

static bool is_arg(tc_op op) {
  return op == TC_OP_ARGMAX || op == TC_OP_ARGMIN;
}

tc_val tc_fold_identity(tc_emit_ctx *s, tc_op op, tc_type type) {
  switch (op) {
    case TC_OP_SUM:
    case TC_OP_ANY: return tc_build_const_f(&s->e, type, 0);
    case TC_OP_PROD:
    case TC_OP_ALL: return tc_build_const_f(&s->e, type, 1);
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
  f->acc = tc_build_var(&s->e, tc_build_splat(&s->e, tc_fold_identity(s, x->op, f->type), s->lanes));
  if (chains && x->op == TC_OP_SUM && tc_type_is_float(f->type)) f->total = tc_build_var(&s->e, f->acc);
  if (is_arg(x->op)) f->index = tc_build_var(&s->e, tc_build_splat(&s->e, tc_emit_i64(s, INT64_MAX), s->lanes));
}

// The position of each lane along F.
static tc_val fold_position(tc_emit_ctx *s) {
  tc_val at = s->at[TC_RANGE_F];
  return s->vector == TC_RANGE_F ? tc_build_bin(&s->e, TC_IR_ADD, tc_emit_lane_numbers(s), at)
                                 : tc_build_splat(&s->e, at, s->lanes);
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
  v = tc_build_splat(&s->e, tc_build_cast(&s->e, v, f->type), s->lanes);
  if (f->tile >= 0) {
    tc_val at = s->at[TC_RANGE_F],
           sum = tc_build_raw(&s->e, TC_IR_LOAD, f->type, s->lanes, at, TC_NONE, TC_NONE, f->tile);
    (void)tc_build_raw(&s->e, TC_IR_STORE, f->type, s->lanes, at, tc_build_bin(&s->e, combine(x->op), sum, v), TC_NONE,
                       f->tile);
    return;
  }
  bool masked = s->mask != TC_NONE && s->vector == TC_RANGE_F;
  if (!is_arg(x->op)) {
    if (masked) v = tc_build_select(&s->e, s->mask, v, tc_fold_identity(s, x->op, f->type));
    bool plain = x->op == TC_OP_MAX &&
                 (x->attr[0] & TC_MAX_OVER_NAN);  // one instruction; MAX, which propagates NaN, takes three
    tc_val next = plain ? tc_build_select(&s->e, tc_build_bin(&s->e, TC_IR_GT, v, f->acc), v, f->acc)
                        : tc_build_bin(&s->e, combine(x->op), f->acc, v);
    tc_build_set(&s->e, f->acc, next);
    return;
  }
  // A lane takes its first element, a better one, or the first NaN.
  tc_val better = tc_build_bin(&s->e, x->op == TC_OP_ARGMAX ? TC_IR_GT : TC_IR_LT, v, f->acc);
  tc_val none = tc_build_bin(&s->e, TC_IR_EQ, f->index, tc_emit_i64(s, INT64_MAX));
  tc_val take = tc_build_bin(&s->e, TC_IR_OR, better, none);
  if (tc_type_is_float(f->type)) {
    tc_val was_nan = tc_build_bin(&s->e, TC_IR_NE, f->acc, f->acc), is_nan = tc_build_bin(&s->e, TC_IR_NE, v, v);
    tc_val first_nan = tc_build_bin(&s->e, TC_IR_AND, is_nan, tc_build_un(&s->e, TC_IR_NOT, was_nan));
    take = tc_build_bin(&s->e, TC_IR_OR, take, first_nan);
  }
  if (masked) take = tc_build_bin(&s->e, TC_IR_AND, take, s->mask);
  tc_val where = tc_build_select(&s->e, take, fold_position(s), f->index);
  tc_val best = tc_build_select(&s->e, take, v, f->acc);
  tc_build_set(&s->e, f->index, where);
  tc_build_set(&s->e, f->acc, best);
}

void tc_fold_end_chain(tc_emit_ctx *s, const tc_fold *f) {
  if (f->total == TC_NONE) return;
  tc_build_set(&s->e, f->total, tc_build_bin(&s->e, TC_IR_ADD, f->total, f->acc));
  tc_build_set(&s->e, f->acc, tc_fold_identity(s, TC_OP_SUM, f->type));
}

static tc_val reduce_lanes(tc_emit_ctx *s, tc_val v, tc_kir_op op) {
  return tc_build_lanes(&s->e, v) == 1
             ? v
             : tc_build_raw(&s->e, TC_IR_REDUCE, tc_build_type(&s->e, v), 1, v, TC_NONE, TC_NONE, op);
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
      tc_val hit = tc_build_bin(&s->e, TC_IR_EQ, f->acc, best);
      if (tc_type_is_float(f->type)) {
        tc_val nan = tc_build_bin(&s->e, TC_IR_NE, f->acc, f->acc);
        tc_val best_nan = tc_build_bin(&s->e, TC_IR_NE, best, best);
        hit = tc_build_bin(&s->e, TC_IR_OR, hit,
                           tc_build_bin(&s->e, TC_IR_AND, nan, tc_build_splat(&s->e, best_nan, s->lanes)));
      }
      v = reduce_lanes(s, tc_build_select(&s->e, hit, f->index, tc_emit_i64(s, INT64_MAX)), TC_IR_MIN);
    }
  } else if (along) {
    v = reduce_lanes(s, v, combine(x->op));
  }
  v = tc_build_cast(&s->e, v, x->type == TC_BOOL ? TC_BOOL : tc_emit_compute_type(x->type));
  tc_emit_remember(s, f->node, tc_emit_rounded(s, v, x->type));
}
