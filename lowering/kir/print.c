// Prints kernels as text. See print.h.
#include "lowering/kir/print.h"

#include <inttypes.h>
#include <string.h>

#include "lowering/kir/libm.h"
#include "lowering/kir/lookup_tables.h"

static const char *name_of_type(unsigned type) {
  return type < TC_N_TYPES ? tc_type_name((tc_type)type) : "?";
}

static void print_const(const tc_kir_inst *i, FILE *out) {
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

static void print_imm(const tc_kir *kir, const tc_kir_inst *i, FILE *out) {
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
  switch ((tc_kir_imm)tc_kir_op_of(i)->imm) {
    case TC_KIR_IMM_NOTHING:
    case TC_KIR_IMM_STEP: break;
    case TC_KIR_IMM_BITS: print_const(i, out); break;
    case TC_KIR_IMM_ARG: fprintf(out, " n%" PRId64, i->imm); break;
    case TC_KIR_IMM_FUNCTION: fprintf(out, " %s", tc_kir_math_operands(i->imm) ? math[i->imm] : "?"); break;
    case TC_KIR_IMM_TABLE: fprintf(out, " %s", i->imm >= 0 && i->imm < TC_KIR_TABLE_ROWS ? table[i->imm] : "?"); break;
    case TC_KIR_IMM_HALF: fprintf(out, " %s", i->imm ? "high" : "low"); break;
    case TC_KIR_IMM_SMALL: fputs(i->imm ? " small" : "", out); break;
    case TC_KIR_IMM_ROUNDING: fputs(i->imm ? " settled" : "", out); break;
    case TC_KIR_IMM_OP: fprintf(out, " %s", i->imm < 0 ? "?" : tc_kir_op_name((tc_kir_op)i->imm)); break;
    case TC_KIR_IMM_BUFFER:
      if (i->imm < kir->n_buf)
        fprintf(out, " b%" PRId64, i->imm);
      else
        fprintf(out, " t%" PRId64, i->imm - kir->n_buf);
      if (i->op == TC_IR_COPY) fprintf(out, " t%u", i->flags);
      break;
    case TC_KIR_IMM_TILE: fprintf(out, " t%" PRId64, i->imm); break;
    case TC_KIR_IMM_MAP: fprintf(out, " m%" PRId64, i->imm); break;
    case TC_KIR_IMM_MAPS: fprintf(out, " m%" PRId64 " m%" PRId64, i->imm & 255, i->imm >> 8); break;
    case TC_KIR_IMM_NUMBER:
      if (!tc_kir_is(i, TC_KIR_TMM)) fprintf(out, " %" PRId64, i->imm);
      break;
  }
}

// Tile registers and their shape: "tmm2 16x8", of products "tmm0 tmm4 tmm6 16x16x8".
static void print_tmms(const tc_kir_inst *i, FILE *out) {
  tc_kir_tmm of[3];
  const int n = tc_kir_tmms_of(i, of);
  for (int k = 0; k < n; k++) fprintf(out, " tmm%u", of[k].at);
  if (n > 0) fprintf(out, " %ux%u", of[0].rows, of[0].words);
  if (n > 1) fprintf(out, "x%u", of[1].words);
}

void tc_kir_print(const tc_kir *kir, FILE *out) {
  if (kir->threads > 0) fprintf(out, "groups of %u threads, %u in a block\n", kir->threads, kir->groups);
  if (kir->cluster > 0) fprintf(out, "spread over %u blocks\n", kir->cluster);
  for (uint32_t b = 0; b < kir->n_buf; b++) fprintf(out, "b%u: %s\n", b, name_of_type(kir->buf_type[b]));
  for (uint32_t t = 0; t < kir->n_tile; t++)
    fprintf(out, "t%u: %s x %" PRId64 " at %" PRId64 "%s\n", t, name_of_type(kir->tile[t].dtype), kir->tile[t].n,
            kir->tile[t].offset, kir->tile[t].of_lanes ? " of lanes" : "");
  for (uint32_t k = 0; k < kir->n_map; k++) {
    const tc_tensor_map *m = &kir->map[k];
    fprintf(out,
            "m%u: b%u from %" PRId64 " on, %" PRId64 " x %" PRId64 " x %" PRId64 " by %" PRId64 " and %" PRId64
            ", to t%u in %u stages\n",
            k, m->buffer, m->first, m->extent[2], m->extent[1], m->extent[0], m->stride[1], m->stride[0], m->tile,
            kir->stages);
  }
  int depth = 0;
  for (uint32_t k = 0; k < kir->n_inst; k++) {
    const tc_kir_inst *i = &kir->inst[k];
    const tc_kir_op_row *op = tc_kir_op_of(i);
    if (tc_kir_is(i, TC_KIR_CLOSES) && depth > 0) depth--;
    fprintf(out, "%*s", 2 * depth, "");
    if (tc_kir_has_value(i)) fprintf(out, "%%%u = ", k);
    if (op->result != TC_KIR_RESULT_NONE) {
      fprintf(out, "%s", name_of_type(i->dtype));
      if (i->lanes != 1) fprintf(out, "x%u", i->lanes);
      fputc(' ', out);
    }
    fputs(op->name, out);
    print_imm(kir, i, out);
    print_tmms(i, out);
    for (int s = 0; s < 4; s++)
      if (i->src[s] != TC_NONE) fprintf(out, "%s %%%u", op->mask != 0 && op->mask == s ? " mask" : "", i->src[s]);
    if (op->imm == TC_KIR_IMM_STEP) fprintf(out, " step %" PRId64, i->imm);
    if (i->flags != 0 && i->op != TC_IR_COPY && !tc_kir_is(i, TC_KIR_TMM)) fprintf(out, " flags %u", i->flags);
    fputc('\n', out);
    if (tc_kir_is(i, TC_KIR_OPENS)) depth++;
  }
}
