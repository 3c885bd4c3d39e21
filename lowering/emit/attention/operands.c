// Reads attention's parameters, finds its operands and results, and emits what all of its kernels
// compute alike: visible keys, and weights from scores. See operands.h.
#include "lowering/emit/attention/operands.h"

#include <math.h>

#include "lowering/graph/split_k.h"
#include "runtime/options.h"

#define LOG2_E 1.44269502162933349609375  // log2(e), rounded to f32
#define E (&p->s->e)

// ---- operands ----

static tc_index part(tc_attention_emitter *p, uint8_t range, int64_t div, int64_t mod) {
  tc_index x = tc_ix_const(0);
  (void)tc_ix_add_term(&x, (tc_term){TC_TERM_RANGE, range, 0, div, mod, 1});
  tc_ix_simplify(&x, &p->s->ext);
  return x;
}

// Kinds of operands: [n, hq, l, e]; [n, hkv, s, e]; [n, hq, l] with or without columns; the mask.
enum { OF_QUERIES, OF_KEYS, OF_ROWS, OF_SCORES };

// Finds operand k in memory, through views. columns: its contiguous elements; a row vector's or a
// mask's may have any stride.
static bool find_operand(tc_attention_emitter *p, int k, int kind, int64_t columns, tc_attention_operand *f) {
  tc_emit_ctx *s = p->s;
  uint32_t first = s->g->node[p->node].in[k], n = first;
  s->ext.of[TC_RANGE_K] = columns, s->ext.of[TC_RANGE_K0] = p->keys;
  int64_t heads = p->heads_as_rows ? p->hkv : p->hq;
  tc_index batch = part(p, TC_RANGE_A, heads, 0), row = part(p, TC_RANGE_F, 1, 0), idx[TC_MAX_RANK];
  tc_index query_head = part(p, TC_RANGE_A, 1, heads),
           key_head = p->heads_as_rows ? query_head : part(p, TC_RANGE_A, p->group, p->hkv);
  if (p->heads_as_rows) {
    tc_index of_group = query_head;
    query_head = row;
    if (!tc_ix_add(&query_head, &of_group, p->group)) return false;
    row = tc_ix_const(0);
  }
  idx[0] = batch, idx[1] = kind == OF_KEYS ? key_head : query_head;
  idx[2] = kind == OF_KEYS ? part(p, TC_RANGE_K0, 1, 0) : row, idx[3] = part(p, TC_RANGE_K, 1, 0);
  const tc_dims *d = &s->g->node[n].shape->d;
  for (int i = 0; kind == OF_SCORES && i < 4; i++)
    if (d->dim[i] == 1) idx[i] = tc_ix_const(0);
  bool affine = tc_emit_follow(s, &n, idx, &s->ext, &f->base);
  if (affine) f->run = tc_emit_run_of(&f->base, TC_RANGE_K, 16 / (int)tc_type_bytes(s->g->node[n].type));
  while (affine && columns % f->run) f->run /= 2;
  affine = affine && tc_ix_take_stride(&f->base, TC_RANGE_K, &f->col) &&
           tc_ix_take_stride(&f->base, kind == OF_KEYS ? TC_RANGE_K0 : TC_RANGE_F, &f->stride);
  if (affine && kind != OF_SCORES && kind != OF_ROWS) affine = f->col == 1 || columns == 1;
  if (!affine) return tc_emit_store_first(s, first, "an operand of attention is not affine");
  f->buf = tc_emit_buffer(s, n);
  f->type = s->g->node[n].type;
  return true;
}

// Returns a rank-0 operand: an argument, or a tensor of one element.
static tc_val scalar(tc_attention_emitter *p, int k, tc_type type) {
  uint32_t n = p->s->g->node[p->node].in[k];
  const tc_gnode *x = &p->s->g->node[n];
  if (x->op == TC_OP_FULL && !p->s->gr->stored[n]) return tc_emit_argument(p->s, x->arg, type);
  return cast(p->s, load(p->s, tc_emit_buffer(p->s, n), x->type, 1, i64(p->s, 0), TC_NONE), type);
}

static uint32_t member_of(const tc_attention_emitter *p, tc_op op) {
  for (uint32_t i = 0; i < p->s->gp->n_member; i++)
    if (p->s->g->node[p->s->gp->member[i]].op == op) return p->s->gp->member[i];
  return TC_NONE;
}

bool tc_attention_take(tc_attention_emitter *p) {
  tc_emit_ctx *s = p->s;
  p->out = member_of(p, TC_OP_ATTENTION), p->lse = member_of(p, TC_OP_ATTENTION_LSE);
  p->dq = member_of(p, TC_OP_ATTENTION_DQ), p->dk = member_of(p, TC_OP_ATTENTION_DK),
  p->dv = member_of(p, TC_OP_ATTENTION_DV);
  p->node = p->out != TC_NONE ? p->out : s->gp->member[0];
  const tc_gnode *x = &s->g->node[p->node];
  const int64_t *q = s->g->node[x->in[0]].shape->d.dim, *k = s->g->node[x->in[1]].shape->d.dim;
  p->backward = p->out == TC_NONE && p->lse == TC_NONE;
  p->n = q[0], p->hq = q[1], p->l = q[2], p->e = q[3], p->hkv = k[1], p->keys = k[2];
  p->group = p->hq / p->hkv;
  p->parts = x->n_attr == TC_ATTENTION_ATTRS ? (int64_t)x->attr[4] : 0;
  p->part_keys = p->parts ? tc_gpu_part_keys(p->keys, p->parts) : p->keys;
  int tail = p->backward ? 6 : p->out != TC_NONE ? 3 : 2;
  p->ev = tail == 2 ? 1 : s->g->node[x->in[2]].shape->d.dim[3];
  p->causal = x->attr[0], p->has_length = x->attr[1], p->has_mask = x->attr[2];
  p->acc = tc_emit_compute_type(s->g->node[x->in[0]].type);
  p->heads_as_rows = !p->backward && p->l == 1 && p->group > 1;
  p->f = p->heads_as_rows ? p->group : p->l, p->a = p->n * p->hq * p->l / p->f;
  s->ext.of[TC_RANGE_A] = p->a, s->ext.of[TC_RANGE_F] = p->f;
  int mask = tail + 1 + p->has_length;
  bool ok = find_operand(p, 0, OF_QUERIES, p->e, &p->q) && find_operand(p, 1, OF_KEYS, p->e, &p->k) &&
            (tail == 2 || find_operand(p, 2, OF_KEYS, p->ev, &p->v));
  if (p->backward)
    ok = ok && find_operand(p, 3, OF_QUERIES, p->ev, &p->dout) && find_operand(p, 4, OF_ROWS, 2, &p->sums) &&
         find_operand(p, 5, OF_ROWS, 1, &p->delta);
  if (p->has_mask) ok = ok && find_operand(p, mask, OF_SCORES, p->keys, &p->mask);
  if (!ok) return false;
  p->scale = scalar(p, tail, p->acc);
  p->n_keys = i64(s, p->keys), p->first_seen = i64(s, 0);
  if (!p->has_length) return true;
  p->n_keys = most(s, i64(s, 0), least(s, scalar(p, tail + 1, TC_I64), p->n_keys));
  p->first_seen = sub(s, p->n_keys, i64(s, p->l));
  return true;
}

// ---- scores and weights ----

// Returns whether scores are in units of ln 2, so that weights are powers of two. They are in f32,
// except under TC_STRICT and with a float mask. Least values of such a mask would become infinite,
// but a row that sees nothing else must weigh all keys alike.
static bool in_twos(const tc_attention_emitter *p) {
  return p->acc == TC_F32 && !tc_options_get()->strict && !(p->has_mask && p->mask.type != TC_BOOL);
}

double tc_attention_units(const tc_attention_emitter *p) {
  return in_twos(p) ? 1.44269504088896341 : 1;
}

tc_val tc_attention_key_scale(tc_attention_emitter *p) {
  return in_twos(p) ? mul(p->s, p->scale, number(p, tc_attention_units(p))) : p->scale;
}

tc_val tc_attention_power(tc_attention_emitter *p, tc_val x) {
  // 2^r for |r| up to 1/2 by Remez's algorithm, with the constant term fixed at 1. Its relative
  // error is 2.6e-9.
  static const double c[] = {1.55946778e-4, 1.34066434e-3, 9.61769279e-3, 5.55031039e-2, 0.240226522, 0.693147242, 1};
  // 1.5 * 2^23 + 127: adding it rounds to an integer, which the low bits then hold as an exponent.
  const double rounder = E->lookups ? TC_EMIT_ROUNDER_OF_SIXTEENTHS : 12583039.0;
  if (tc_target_is_gpu(p->s->target) && in_twos(p))
    return tc_build_raw(E, TC_IR_EXP2, TC_F32, tc_build_lanes(E, x), x, TC_NONE, TC_NONE, 0);
  if (p->acc != TC_F32 || tc_options_get()->strict) return tc_build_scalar_op(E, TC_OP_EXP, p->acc, x, 0, 0);
  // below this n is -127, and the power's bits are 0
  tc_val least_power = number(p, in_twos(p) ? -127 : -88.05), t, r;
  x = select_val(p->s, bin(p->s, TC_IR_LT, x, least_power), least_power, x);
  if (in_twos(p)) {
    t = add(p->s, x, number(p, rounder)), r = sub(p->s, x, sub(p->s, t, number(p, rounder)));
  } else {
    t = tc_build_fma(E, x, number(p, LOG2_E), number(p, rounder));
    r = tc_build_fma(E, x, number(p, LOG2_E), sub(p->s, number(p, rounder), t)),
    r = tc_build_fma(E, x, number(p, 1.44269504088896341 - LOG2_E), r);
  }
  if (E->lookups) return tc_build_power_of_sixteenths(E, t, r);
  tc_val y = number(p, c[0]);
  for (int i = 1; i < 7; i++) y = tc_build_fma(E, y, r, number(p, c[i]));
  int lanes = tc_build_lanes(E, x);
  tc_val bits = bitcast(p->s, TC_I32, lanes, t);
  bits = bin(p->s, TC_IR_SHL, bits, const_i(p->s, TC_I32, 23));
  tc_val power = bitcast(p->s, TC_F32, lanes, bits);
  return mul(p->s, y, power);
}

tc_val tc_attention_limit(tc_attention_emitter *p, tc_val row) {
  if (!p->causal) return p->n_keys;
  tc_val limit = plus(p->s, p->heads_as_rows ? p->first_seen : add(p->s, p->first_seen, row), 1);
  return most(p->s, i64(p->s, 0), least(p->s, p->n_keys, limit));
}

// ---- results ----

tc_val tc_attention_result_row(tc_attention_emitter *p, uint32_t node, tc_val head, tc_val row, int64_t heads,
                               int64_t rows, int64_t columns) {
  const tc_gnode *x = &p->s->g->node[node];
  if (x->n_attr > 3 || p->heads_as_rows)
    return times(p->s, add(p->s, times(p->s, head, p->heads_as_rows ? p->f : rows), row), columns);
  tc_val batch = div_by(p->s, head, heads), inner = rem_by(p->s, head, heads);
  tc_val outer = add(p->s, times(p->s, batch, rows), row);
  return times(p->s, add(p->s, times(p->s, outer, heads), inner), columns);
}

int tc_attention_result(tc_attention_emitter *p, uint32_t node) {
  int buf = tc_emit_buffer(p->s, node);
  p->s->x->writes |= UINT64_C(1) << buf;
  return buf;
}
