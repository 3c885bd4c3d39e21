// Kernel IR from the text that tc_kir_print writes, so that a test's kernel is a file that one can
// read.
// In: that text; lines of a kernel with threads and maps included. Out: the kernel, whose n_num and
// scratch the caller sets.
// Invariants: instructions are numbered by their lines; "%4 = " must say the same number. Operands
// that a line leaves out are missing.
#pragma once

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lowering/kir/libm.h"
#include "lowering/kir/lookup_tables.h"
#include "tests/lowering/kir_build.h"

static bool find_word(const char *word, const char *const *list, int n, int *out) {
  for (*out = 0; *out < n; (*out)++)
    if (strcmp(word, list[*out]) == 0) return true;
  return false;
}

static bool parse_type(const char *word, tc_type *out) {
  for (int t = 0; t < TC_N_TYPES; t++)
    if (strcmp(word, tc_type_name((tc_type)t)) == 0) return *out = (tc_type)t, true;
  return false;
}

static bool parse_op(const char *word, int *out) {
  for (*out = 0; *out < TC_N_KIR_OPS; (*out)++)
    if (strcmp(word, tc_kir_op_name((tc_kir_op)*out)) == 0) return true;
  return false;
}

// "f32x8"
static bool parse_value_type(const char *word, tc_type *type, int *lanes) {
  char name[16];
  *lanes = 1;
  if (sscanf(word, "%15[a-z0-9]", name) != 1) return false;
  char *x = strrchr(name, 'x');
  if (x && sscanf(x + 1, "%d", lanes) == 1) *x = 0;
  return parse_type(name, type);
}

static int64_t parse_bits(tc_type type, const char *word) {
  int64_t bits = 0;
  double d = strtod(word, NULL);
  float f = strtof(word, NULL);
  if (type == TC_F64) return memcpy(&bits, &d, sizeof d), bits;
  if (type == TC_F32) return memcpy(&bits, &f, sizeof f), bits;
  return strtoll(word, NULL, 10);
}

// What stands behind an op's name, as its kind of imm says; false: there is no such thing.
static bool parse_imm(const tc_kir *n, tc_kir_inst *i, char **at) {
  static const char *const math[] = {
#define TC_KIR_MATH(NAME, function, operands) #function,
#include "lowering/kir/libm.def"
#undef TC_KIR_MATH
  };
  static const char *const table[] = {
#define TC_KIR_TABLE(NAME, ...) #NAME,
#include "lowering/kir/lookup_tables.def"
#undef TC_KIR_TABLE
  };
  const int kind = tc_kir_op_of(i)->imm;
  char *before = *at, *word;
  int k = 0;
  if (kind == TC_KIR_IMM_NOTHING || kind == TC_KIR_IMM_STEP) return true;
  if (!(word = strsep(at, " "))) return kind == TC_KIR_IMM_SMALL || kind == TC_KIR_IMM_ROUNDING;
  switch ((tc_kir_imm)kind) {
    case TC_KIR_IMM_BITS: i->imm = parse_bits((tc_type)i->dtype, word); return true;
    case TC_KIR_IMM_FUNCTION: return find_word(word, math, TC_KIR_MATH_ROWS, &k) ? (i->imm = k, true) : false;
    case TC_KIR_IMM_TABLE: return find_word(word, table, TC_KIR_TABLE_ROWS, &k) ? (i->imm = k, true) : false;
    case TC_KIR_IMM_OP: return parse_op(word, &k) ? (i->imm = k, true) : false;
    case TC_KIR_IMM_HALF: return i->imm = strcmp(word, "high") == 0, i->imm || strcmp(word, "low") == 0;
    case TC_KIR_IMM_SMALL:
    case TC_KIR_IMM_ROUNDING:
      i->imm = *word != '%';
      if (i->imm == 0 && *at) (*at)[-1] = ' ';
      if (i->imm == 0) *at = before;
      return true;
    case TC_KIR_IMM_BUFFER: i->imm = atoll(word + 1) + (*word == 't' ? n->n_buf : 0); break;
    case TC_KIR_IMM_MAPS: i->imm = atoll(word + 1) | (*at ? atoll(strsep(at, " ") + 1) << 8 : 0); return true;
    case TC_KIR_IMM_NUMBER: i->imm = atoll(word); return true;
    default: i->imm = atoll(word + 1); return true;
  }
  if (i->op == TC_IR_COPY && *at) i->flags = (uint32_t)atoi(strsep(at, " ") + 1);
  return true;
}

// "tmm2 16x8", or of products "tmm0 tmm4 tmm6 16x16x8": into flags and imm.
static bool parse_tmms(tc_kir_inst *i, char **at) {
  const bool product = tc_kir_op_of(i)->imm == TC_KIR_IMM_NUMBER;
  unsigned tmm[3] = {0}, of[3] = {0};
  int used = 0;
  if (*at == NULL) return false;
  if (product) {
    sscanf(*at, "tmm%u tmm%u tmm%u %ux%ux%u%n", &tmm[0], &tmm[1], &tmm[2], &of[0], &of[1], &of[2], &used);
    i->imm = tc_kir_tmm_imm(tmm[0], tmm[1], tmm[2]);
  } else {
    sscanf(*at, "tmm%u %ux%u%n", &of[2], &of[0], &of[1], &used);
  }
  i->flags = tc_kir_tmm_flags(of[0], of[1], of[2]);
  *at = (*at)[used] == ' ' ? *at + used + 1 : NULL;
  return used > 0;
}

static bool parse_inst(tc_kir *n, char *line) {
  tc_kir_inst i = {.lanes = 1, .dtype = TC_I64, .src = {TC_NONE, TC_NONE, TC_NONE, TC_NONE}};
  uint32_t number;
  int used = 0, lanes = 1, op, k = 0;
  tc_type type = TC_I64;
  if (sscanf(line, "%%%u = %n", &number, &used) == 1 && used > 0) {
    if (number != n->n_inst) return false;
    line += used;
  }
  char *at = line, *word = strsep(&at, " ");
  if (parse_value_type(word, &type, &lanes)) word = strsep(&at, " ");
  if (!word || !parse_op(word, &op)) return false;
  i.op = (uint8_t)op, i.dtype = (uint8_t)type, i.lanes = (uint16_t)lanes;
  const bool tmm = tc_kir_is(&i, TC_KIR_TMM), numbered = tc_kir_op_of(&i)->imm == TC_KIR_IMM_NUMBER;
  if (!(tmm && numbered) && !parse_imm(n, &i, &at)) return false;
  if (tmm && !parse_tmms(&i, &at)) return false;
  while ((word = strsep(&at, " "))) {
    if (strcmp(word, "mask") == 0)
      k = tc_kir_op_of(&i)->mask;
    else if (strcmp(word, "step") == 0 && at)
      i.imm = atoll(strsep(&at, " "));
    else if (strcmp(word, "flags") == 0 && at)
      i.flags = (uint32_t)atoi(strsep(&at, " "));
    else if (*word == '%' && k < 4)
      i.src[k++] = (uint32_t)atoll(word + 1);
    else
      return false;
  }
  const uint32_t v = put(n, (tc_kir_op)op, type, lanes, i.imm, i.src[0], i.src[1], i.src[2]);
  n->inst[v].src[3] = i.src[3], n->inst[v].flags = i.flags;
  return true;
}

// One line, without its indentation; false: it says nothing that is known.
static bool parse_kir_line(tc_kir *n, char *line) {
  unsigned a, b;
  int64_t count, offset;
  char name[16], rest[16] = "";
  tc_type type;
  tc_tensor_map m;
  if (sscanf(line, "groups of %u threads, %u in a block", &a, &b) == 2)
    return n->threads = (uint16_t)a, n->groups = (uint16_t)b, true;
  if (sscanf(line, "spread over %u blocks", &a) == 1) return n->cluster = (uint16_t)a, true;
  if (sscanf(line, "b%u: %15s", &a, name) == 2) return parse_type(name, &type) && put_buffer(n, type) == a;
  if (sscanf(line, "t%u: %15s x %" SCNd64 " at %" SCNd64 " of %15s", &a, name, &count, &offset, rest) >= 4) {
    if (!parse_type(name, &type) || put_tile(n, type, count, offset) != a) return false;
    n->tile[a].of_lanes = *rest != 0;
    return true;
  }
  if (sscanf(line,
             "m%u: b%u from %" SCNd64 " on, %" SCNd64 " x %" SCNd64 " x %" SCNd64 " by %" SCNd64 " and %" SCNd64
             ", to t%u in %u stages",
             &a, &m.buffer, &m.first, &m.extent[2], &m.extent[1], &m.extent[0], &m.stride[1], &m.stride[0], &m.tile,
             &b) == 10)
    return a < TC_KIR_MAPS && a == n->n_map ? (n->map[n->n_map++] = m, n->stages = (uint16_t)b, true) : false;
  return parse_inst(n, line);
}
