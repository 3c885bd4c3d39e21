// Prints nests as text. See print.h.
#include "lowering/kir/print.h"

#include <inttypes.h>
#include <string.h>

#include "lowering/kir/libm.h"
#include "lowering/kir/lookup_tables.h"

static const char *name_of_type(unsigned type) {
  return type < TC_N_TYPES ? tc_type_name((tc_type)type) : "?";
}

static void print_const(const tc_ninst *i, FILE *out) {
  double d;
  float f;
  const uint32_t low = (uint32_t)i->imm;
  memcpy(&d, &i->imm, sizeof d);
  memcpy(&f, &low, sizeof f);
  if (i->dtype == TC_F64)
    fprintf(out, " %.17g", d);
  else if (i->dtype == TC_F32)
    fprintf(out, " %.9g", (double)f);
  else
    fprintf(out, " %" PRId64, i->imm);
}

static void print_imm(const tc_nest *nest, const tc_ninst *i, FILE *out) {
  static const char *const math[] = {
#define TC_NEST_MATH(NAME, function, operands) #function,
#include "lowering/kir/libm.def"
#undef TC_NEST_MATH
  };
  static const char *const table[] = {
#define TC_NEST_TABLE(NAME, ...) #NAME,
#include "lowering/kir/lookup_tables.def"
#undef TC_NEST_TABLE
  };
  switch (i->op) {
    case TC_N_CONST: print_const(i, out); break;
    case TC_N_NUM: fprintf(out, " n%" PRId64, i->imm); break;
    case TC_N_CALL: fprintf(out, " %s", tc_nest_math_operands(i->imm) ? math[i->imm] : "?"); break;
    case TC_N_LOOKUP: fprintf(out, " %s", i->imm >= 0 && i->imm < TC_NEST_TABLE_ROWS ? table[i->imm] : "?"); break;
    case TC_N_ZIP: fprintf(out, " %s", i->imm ? "high" : "low"); break;
    case TC_N_CAST: fputs(i->imm ? " settled" : "", out); break;
    case TC_N_HREDUCE: fprintf(out, " %s", i->imm < 0 ? "?" : tc_nest_op_name((tc_nest_op)i->imm)); break;
    case TC_N_LOAD:
    case TC_N_GATHER:
    case TC_N_STORE:
    case TC_N_SCATTER:
    case TC_N_PREFETCH:
    case TC_N_COPY:
      if (i->imm < nest->n_buf)
        fprintf(out, " b%" PRId64, i->imm);
      else
        fprintf(out, " t%" PRId64, i->imm - nest->n_buf);
      if (i->op == TC_N_COPY) fprintf(out, " t%u", i->flags);
      break;
    case TC_N_LDMATRIX: fprintf(out, " t%" PRId64, i->imm); break;
    case TC_N_FETCH: fprintf(out, " m%" PRId64, i->imm); break;
    case TC_N_WGMMA: fprintf(out, " m%" PRId64 " m%" PRId64, i->imm & 255, i->imm >> 8); break;
    case TC_N_SETTLED:
    case TC_N_PICK:
    case TC_N_TRADE:
    case TC_N_WAIT: fprintf(out, " %" PRId64, i->imm); break;
    default: break;
  }
}

// True where operand k is a mask.
static bool is_mask(const tc_ninst *i, int k) {
  const bool loads = i->op == TC_N_LOAD || i->op == TC_N_GATHER, stores = i->op == TC_N_STORE || i->op == TC_N_SCATTER || i->op == TC_N_COPY;
  return k == (loads ? 1 : stores ? 2 : -1);
}

void tc_nest_print(const tc_nest *nest, FILE *out) {
  if (nest->threads > 0) fprintf(out, "groups of %u threads, %u in a block\n", nest->threads, nest->groups);
  if (nest->cluster > 0) fprintf(out, "spread over %u blocks\n", nest->cluster);
  for (uint32_t b = 0; b < nest->n_buf; b++) fprintf(out, "b%u: %s\n", b, name_of_type(nest->buf_type[b]));
  for (uint32_t t = 0; t < nest->n_tile; t++)
    fprintf(out, "t%u: %s x %" PRId64 " at %" PRId64 "%s\n", t, name_of_type(nest->tile[t].dtype), nest->tile[t].n, nest->tile[t].offset,
            nest->tile[t].of_lanes ? " of lanes" : "");
  for (uint32_t k = 0; k < nest->n_map; k++) {
    const tc_nmap *m = &nest->map[k];
    fprintf(out, "m%u: b%u from %" PRId64 " on, %" PRId64 " x %" PRId64 " x %" PRId64 " by %" PRId64 " and %" PRId64 ", to t%u in %u stages\n", k,
            m->buffer, m->first, m->extent[2], m->extent[1], m->extent[0], m->stride[1], m->stride[0], m->tile, nest->stages);
  }
  int depth = 0;
  for (uint32_t k = 0; k < nest->n_inst; k++) {
    const tc_ninst *i = &nest->inst[k];
    if ((i->op == TC_N_ENDLOOP || i->op == TC_N_ENDIF) && depth > 0) depth--;
    fprintf(out, "%*s", 2 * depth, "");
    if (tc_nest_has_value(i)) fprintf(out, "%%%u = ", k);
    if (tc_nest_has_value(i) || i->op == TC_N_STORE || i->op == TC_N_SCATTER || i->op == TC_N_COPY) {
      fprintf(out, "%s", name_of_type(i->dtype));
      if (i->lanes != 1) fprintf(out, "x%u", i->lanes);
      fputc(' ', out);
    }
    fputs(tc_nest_op_name((tc_nest_op)i->op), out);
    print_imm(nest, i, out);
    for (int s = 0; s < 4; s++)
      if (i->src[s] != TC_NONE) fprintf(out, "%s %%%u", is_mask(i, s) ? " mask" : "", i->src[s]);
    if (i->op == TC_N_LOOP) fprintf(out, " step %" PRId64, i->imm);
    if (i->flags != 0 && i->op != TC_N_COPY) fprintf(out, " flags %u", i->flags);
    fputc('\n', out);
    if (i->op == TC_N_LOOP || i->op == TC_N_IF) depth++;
  }
}
