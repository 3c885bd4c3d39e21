// Hand-built kernels for tests: a kernel that grows, and short names for its instructions. Tests
// only; allocation failures are not handled.
#pragma once

#include <string.h>

#include "lowering/kir/kir.h"
#include "runtime/arena.h"

__attribute__((unused)) static uint32_t put(tc_kir *n, tc_kir_op op, tc_type type, int lanes, int64_t imm, uint32_t s0,
                                            uint32_t s1, uint32_t s2) {
  if (n->n_inst == n->cap_inst) n->inst = tc_realloc(n->inst, (n->cap_inst = 2 * n->cap_inst + 16) * sizeof *n->inst);
  n->inst[n->n_inst] = (tc_kir_inst){
      .op = (uint8_t)op, .dtype = (uint8_t)type, .lanes = (uint16_t)lanes, .src = {s0, s1, s2, TC_NONE}, .imm = imm};
  return n->n_inst++;
}
__attribute__((unused)) static uint32_t put_i64(tc_kir *n, int64_t v) {
  return put(n, TC_IR_CONST, TC_I64, 1, v, TC_NONE, TC_NONE, TC_NONE);
}
__attribute__((unused)) static uint32_t put_buffer(tc_kir *n, tc_type type) {
  n->buf_type = tc_realloc(n->buf_type, n->n_buf + 1);
  n->buf_type[n->n_buf] = (uint8_t)type;
  return n->n_buf++;
}
__attribute__((unused)) static uint32_t put_tile(tc_kir *n, tc_type type, int64_t count, int64_t offset) {
  n->tile = tc_realloc(n->tile, (n->n_tile + 1) * sizeof *n->tile);
  n->tile[n->n_tile] = (tc_kir_tile){.dtype = (uint8_t)type, .n = count, .offset = offset};
  return n->n_tile++;
}
#define OP0(n, op, type, lanes, imm) put(n, TC_IR_##op, type, lanes, imm, TC_NONE, TC_NONE, TC_NONE)
#define OP1(n, op, type, lanes, imm, a) put(n, TC_IR_##op, type, lanes, imm, a, TC_NONE, TC_NONE)
#define OP2(n, op, type, lanes, imm, a, b) put(n, TC_IR_##op, type, lanes, imm, a, b, TC_NONE)
#define OP3(n, op, type, lanes, imm, a, b, c) put(n, TC_IR_##op, type, lanes, imm, a, b, c)
