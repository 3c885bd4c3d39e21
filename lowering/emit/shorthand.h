// Short names for instructions, so that an address reads like its formula. Included only by
// matmul/, attention/, conv/ and gpu/.
//
// Invariants: failures stick in s, as builder.h says.
#pragma once

#include "lowering/emit/context.h"

static inline tc_val i64(tc_emit_ctx *s, int64_t v) {
  return tc_emit_i64(s, v);
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
static inline tc_val times(tc_emit_ctx *s, tc_val a, int64_t b) {
  return b == 0 ? i64(s, 0) : tc_emit_scaled(s, a, b);
}
static inline tc_val loop(tc_emit_ctx *s, tc_val from, tc_val to, int64_t step) {
  return tc_emit_loop(s, from, to, step);
}
static inline void end(tc_emit_ctx *s) {
  tc_emit_end_loop(s);
}
static inline void begin_if(tc_emit_ctx *s, tc_val cond) {
  tc_emit_enter(s);
  (void)tc_build_raw(&s->e, TC_IR_IF, TC_BOOL, 1, cond, TC_NONE, TC_NONE, 0);
}
static inline void end_if(tc_emit_ctx *s) {
  tc_emit_leave(s);
  tc_build_end(&s->e, TC_IR_ENDIF);
}
static inline tc_val load(tc_emit_ctx *s, int buf, tc_type type, int lanes, tc_val at, tc_val mask) {
  return tc_build_raw(&s->e, TC_IR_LOAD, type, lanes, at, mask, TC_NONE, buf);
}
static inline void store(tc_emit_ctx *s, int buf, tc_val at, tc_val v) {
  (void)tc_build_raw(&s->e, TC_IR_STORE, tc_build_type(&s->e, v), tc_build_lanes(&s->e, v), at, v, TC_NONE, buf);
}
