// Matrix instructions: fragments are values of so many lanes a thread, in words as the instruction
// wants them.
#include "lowering/codegen/gpu/text.h"

static void ldmatrix(tc_gpu_text *t, uint32_t at) {
  const tc_kir_inst *i = &t->kir->inst[at];
  const unsigned words = tc_gpu_width(t->kir, i->lanes) / 2;
  tc_gpu_line(t, "u32 v%u[%u]; tc_ldmatrix_x%u%s(v%u, tile%d + %s);\n", at, words, words, i->flags & 1 ? "_trans" : "",
              at, (int)i->imm, tc_gpu_element(t, i->src[0], 0).text);
}

// The words of an operand: an array that is there, or a new one.
static tc_gpu_name words_of(tc_gpu_text *t, uint32_t at, int k, unsigned n) {
  const uint32_t v = t->kir->inst[at].src[k];
  if (t->kir->inst[v].op == TC_IR_LDMATRIX) return tc_gpu_named("v%u", v);
  const tc_gpu_name name = tc_gpu_named("%c%u", "ab"[k], at);
  tc_gpu_line(t, "const u32 %s[%u] = {", name.text, n);
  for (unsigned w = 0; w < n; w++) tc_gpu_put(&t->body, "%s%s", w > 0 ? ", " : "", tc_gpu_register(t, v, w).text);
  tc_gpu_put(&t->body, "};\n");
  return name;
}

// Prints a matrix instruction as a call of `word`; its left operand has `left` u32s.
static void matmul(tc_gpu_text *t, uint32_t at, const char *word, unsigned left) {
  const tc_kir_inst *i = &t->kir->inst[at];
  const tc_gpu_name a = words_of(t, at, 0, left), b = words_of(t, at, 1, 2);
  tc_gpu_line(t, "f32 v%u[4] = {", at);
  for (unsigned k = 0; k < 4; k++)
    tc_gpu_put(&t->body, "%s%s", k > 0 ? ", " : "", tc_gpu_element(t, i->src[2], k).text);
  tc_gpu_put(&t->body, "}; %s_%s(v%u, %s, %s);\n", word, tc_type_name((tc_type)t->kir->inst[i->src[0]].dtype), at,
             a.text, b.text);
}

void tc_gpu_matrices(tc_gpu_text *t, uint32_t at) {
  switch (t->kir->inst[at].op) {
    case TC_IR_LDMATRIX: ldmatrix(t, at); break;
    case TC_IR_MMA: matmul(t, at, "tc_mma", 4); break;
    default: matmul(t, at, "tc_mfma", 2);
  }
}
