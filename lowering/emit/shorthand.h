// Short names for instructions, so that an address reads like its formula. Included by the files of
// emit/ alone.
//
// Invariants: failures stick in s, as builder.h says.
#pragma once

#include "lowering/emit/context.h"

static inline tc_val const_i(tc_emit_ctx *s, tc_type type, int64_t v) {
  return tc_build_const_i(&s->e, type, v);
}
static inline tc_val const_f(tc_emit_ctx *s, tc_type type, double v) {
  return tc_build_const_f(&s->e, type, v);
}
static inline tc_val i64(tc_emit_ctx *s, int64_t v) {
  return const_i(s, TC_I64, v);
}
static inline tc_val bin(tc_emit_ctx *s, tc_kir_op op, tc_val a, tc_val b) {
  return tc_build_bin(&s->e, op, a, b);
}
static inline tc_val add(tc_emit_ctx *s, tc_val a, tc_val b) {
  return bin(s, TC_IR_ADD, a, b);
}
static inline tc_val sub(tc_emit_ctx *s, tc_val a, tc_val b) {
  return bin(s, TC_IR_SUB, a, b);
}
static inline tc_val mul(tc_emit_ctx *s, tc_val a, tc_val b) {
  return bin(s, TC_IR_MUL, a, b);
}
static inline tc_val least(tc_emit_ctx *s, tc_val a, tc_val b) {
  return bin(s, TC_IR_MIN, a, b);
}
static inline tc_val most(tc_emit_ctx *s, tc_val a, tc_val b) {
  return bin(s, TC_IR_MAX, a, b);
}
static inline tc_val add_i64(tc_emit_ctx *s, tc_val a, int64_t b) {
  return tc_emit_bin_i64(s, TC_IR_ADD, a, b);
}
// a + b, or a itself if b is 0.
static inline tc_val plus(tc_emit_ctx *s, tc_val a, int64_t b) {
  return b == 0 ? a : add_i64(s, a, b);
}
static inline tc_val times(tc_emit_ctx *s, tc_val a, int64_t b) {
  return tc_emit_times(s, a, b);
}
static inline tc_val div_by(tc_emit_ctx *s, tc_val a, int64_t b) {
  return tc_emit_bin_i64(s, TC_IR_DIV, a, b);
}
static inline tc_val rem_by(tc_emit_ctx *s, tc_val a, int64_t b) {
  return tc_emit_bin_i64(s, TC_IR_REM, a, b);
}
// Returns whether 0 <= at < extent.
static inline tc_val is_within(tc_emit_ctx *s, tc_val at, int64_t extent) {
  return bin(s, TC_IR_AND, bin(s, TC_IR_GE, at, i64(s, 0)), bin(s, TC_IR_LT, at, i64(s, extent)));
}
static inline tc_val select_val(tc_emit_ctx *s, tc_val c, tc_val a, tc_val b) {
  return tc_build_select(&s->e, c, a, b);
}
static inline tc_val cast(tc_emit_ctx *s, tc_val v, tc_type to) {
  return tc_build_cast(&s->e, v, to);
}
static inline tc_val bitcast(tc_emit_ctx *s, tc_type type, int lanes, tc_val v) {
  return tc_build_raw(&s->e, TC_IR_BITCAST, type, lanes, v, TC_NONE, TC_NONE, 0);
}
static inline tc_val splat(tc_emit_ctx *s, tc_val v, int lanes) {
  return tc_build_splat(&s->e, v, lanes);
}
static inline tc_val zeros(tc_emit_ctx *s, tc_type type, int lanes) {
  return splat(s, const_f(s, type, 0), lanes);
}
// Element i of those that each of `lanes` threads holds.
static inline tc_val extract(tc_emit_ctx *s, int lanes, tc_val v, int64_t i) {
  return tc_build_raw(&s->e, TC_IR_EXTRACT, tc_build_type(&s->e, v), lanes, v, TC_NONE, TC_NONE, i);
}
// The lanes of v combined by op.
static inline tc_val reduce(tc_emit_ctx *s, tc_val v, tc_kir_op op) {
  return tc_build_raw(&s->e, TC_IR_REDUCE, tc_build_type(&s->e, v), 1, v, TC_NONE, TC_NONE, op);
}
static inline tc_val nullary(tc_emit_ctx *s, tc_kir_op op) {
  return tc_build_raw(&s->e, op, TC_I64, 1, TC_NONE, TC_NONE, TC_NONE, 0);
}
static inline tc_val set_flags(tc_emit_ctx *s, tc_val v, uint32_t flags) {
  if (!s->e.failed) s->x->kir.inst[v].flags = flags;
  return v;
}
static inline tc_val var(tc_emit_ctx *s, tc_val init) {
  return tc_build_var(&s->e, init);
}
static inline void set(tc_emit_ctx *s, tc_val of, tc_val v) {
  tc_build_set(&s->e, of, v);
}
static inline tc_val loop(tc_emit_ctx *s, tc_val from, tc_val to, int64_t step) {
  return tc_emit_loop(s, from, to, step);
}
static inline tc_val loop_to(tc_emit_ctx *s, tc_val to, int64_t step) {
  return loop(s, i64(s, 0), to, step);
}
static inline void end(tc_emit_ctx *s) {
  tc_emit_end_block(s, TC_IR_ENDLOOP);
}
static inline void begin_if(tc_emit_ctx *s, tc_val cond) {
  tc_emit_enter(s);
  (void)tc_build_raw(&s->e, TC_IR_IF, TC_BOOL, 1, cond, TC_NONE, TC_NONE, 0);
}
static inline void end_if(tc_emit_ctx *s) {
  tc_emit_end_block(s, TC_IR_ENDIF);
}
static inline tc_val load(tc_emit_ctx *s, int buf, tc_type type, int lanes, tc_val at, tc_val mask) {
  return tc_build_raw(&s->e, TC_IR_LOAD, type, lanes, at, mask, TC_NONE, buf);
}
static inline tc_val gather(tc_emit_ctx *s, int buf, tc_type type, int lanes, tc_val at, tc_val mask) {
  return tc_build_raw(&s->e, TC_IR_GATHER, type, lanes, at, mask, TC_NONE, buf);
}
static inline void store(tc_emit_ctx *s, int buf, tc_val at, tc_val v) {
  (void)tc_build_raw(&s->e, TC_IR_STORE, tc_build_type(&s->e, v), tc_build_lanes(&s->e, v), at, v, TC_NONE, buf);
}
static inline void scatter(tc_emit_ctx *s, int buf, tc_val at, tc_val v, tc_val mask) {
  (void)tc_build_raw(&s->e, TC_IR_SCATTER, tc_build_type(&s->e, v), tc_build_lanes(&s->e, v), at, v, mask, buf);
}
