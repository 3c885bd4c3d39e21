// REDUCE: combines lane i with lane i + n/2 until one is left.
// Each thread holds consecutive lanes, so halves are first combined between threads and then within
// a thread.
// Parts of other warps go through the block's memory. Every warp reads all parts, so all get the
// same bits as the first thread.
// In a cluster, a thread's number in its group has these fields, highest bits first: warp, part of
// the warp, block, neighbour.
// So warps are combined first, then parts of a warp. Other blocks read only what a block's
// neighbours hold; a part of a warp reads one block's, or two blocks'.
// SHFL_XOR: between threads of a warp.
#include <string.h>

#include "lowering/codegen/gpu/text.h"

static const char *const op_name[TC_N_KIR_OPS] = {[TC_IR_ADD] = "add", [TC_IR_MUL] = "mul", [TC_IR_MIN] = "min",
                                                  [TC_IR_MAX] = "max", [TC_IR_AND] = "and", [TC_IR_OR] = "or"};

// Threads of the group in a warp, as text.
static tc_gpu_name width_of(const tc_gpu_text *t) {
  return t->warp_only ? tc_gpu_named("%u", t->kir->threads) : tc_gpu_named("TC_WARP");
}

// A helper that moves a value between threads, by a distance d or from the first, 32 bits at a
// time.
static void need_move(tc_gpu_text *t, const char *name, const char *word, const char *arg, unsigned dtype) {
  const char *type = tc_gpu_type(dtype), *of = tc_type_name((tc_type)dtype);
  const tc_gpu_name width = width_of(t), call = tc_gpu_named("%s_%s(", name, of);
  const bool by_distance = strcmp(arg, "0") != 0;
  if (!tc_gpu_is_new(t, call.text)) return;
  tc_gpu_put(&t->helpers, "TC_DEVICE %s %su64 peers, %s v%s) {\n  return ", type, call.text, type,
             by_distance ? ", i32 d" : "");
  if (tc_kir_type_bytes(dtype) == 8) {
    const char *bits = dtype == TC_F64 ? "tc_bits_f64(v)" : "(u64)v", *back = dtype == TC_F64 ? "tc_f64_bits" : "(i64)";
    tc_gpu_put(&t->helpers, "%s((u64)%s(peers, (u32)(%s >> 32), %s, %s) << 32 | %s(peers, (u32)%s, %s, %s));\n}\n",
               back, word, bits, arg, width.text, word, bits, arg, width.text);
  } else if (dtype == TC_F32) {
    tc_gpu_put(&t->helpers, "tc_f32_bits(%s(peers, tc_bits_f32(v), %s, %s));\n}\n", word, arg, width.text);
  } else {
    tc_gpu_put(&t->helpers, "(%s)%s(peers, (u32)v, %s, %s);\n}\n", type, word, arg, width.text);
  }
}

// A helper that combines the parts of all warps for a thread's place in them, which lie TC_WARP
// apart.
static void need_across(tc_gpu_text *t, unsigned op, unsigned dtype) {
  const char *type = tc_gpu_type(dtype);
  const unsigned threads = t->kir->threads / t->blocks;
  const tc_gpu_name call = tc_gpu_named("tc_across_%s_%s(", op_name[op], tc_type_name((tc_type)dtype));
  if (!tc_gpu_is_new(t, call.text)) return;
  (void)tc_gpu_combine(t, op, dtype, "", "");  // its helper comes first
  tc_gpu_put(&t->helpers, "TC_DEVICE %s %sconst %s *part) {\n  %s p[%u / TC_WARP];\n", type, call.text, type, type,
             threads);
  tc_gpu_put(&t->helpers, "  TC_UNROLL\n  for (i32 w = 0; w < %u / TC_WARP; w++) p[w] = part[w * TC_WARP];\n", threads);
  // Bounds are constants, so that p stays in registers.
  for (unsigned half = threads / 2; half >= 32; half /= 2) {
    const tc_gpu_name other = tc_gpu_named("p[w + %u / TC_WARP]", half),
                      both = tc_gpu_combine(t, op, dtype, "p[w]", other.text);
    tc_gpu_put(&t->helpers, "  TC_UNROLL\n  for (i32 w = 0; w < %u / TC_WARP; w++) p[w] = %s;\n", half, both.text);
  }
  tc_gpu_put(&t->helpers, "  return p[0];\n}\n");
}

// Through the block's memory, which holds a value of each thread, lane by lane.
static void across_warps(tc_gpu_text *t, uint32_t at, unsigned n) {
  const tc_kir_inst *i = &t->kir->inst[at];
  const char *type = tc_gpu_type(i->dtype), *thread = t->blocks > 1 ? "TC_THREAD" : "lane";
  const unsigned threads = t->kir->threads / t->blocks;
  need_across(t, (unsigned)i->imm, i->dtype);
  tc_gpu_line(t, "%s *const part%u = (%s *)(tc_shared + %zu);\n", type, at, type, t->space_at[t->space[at]]);
  tc_gpu_indent(t);
  for (unsigned k = 0; k < n; k++)
    tc_gpu_put(&t->body, "%spart%u[%u + %s] = %s", k > 0 ? ", " : "", at, k * threads, thread,
               tc_gpu_element(t, i->src[0], k).text);
  tc_gpu_put(&t->body, ";\n");
  tc_gpu_line(t, "TC_SYNC();\n");
  tc_gpu_line(t, "%s ", type);
  for (unsigned k = 0; k < n; k++)
    tc_gpu_put(&t->body, "%sr%u_%u = tc_across_%s_%s(part%u + %u + %s %% TC_WARP)", k > 0 ? ", " : "", at, k,
               op_name[i->imm], tc_type_name((tc_type)i->dtype), at, k * threads, thread);
  tc_gpu_put(&t->body, ";\n");
}

// By halves of a warp's threads, from those that are first / 2 apart to those that are least apart.
static void within_warp(tc_gpu_text *t, uint32_t at, unsigned n, const char *first, unsigned least) {
  const tc_kir_inst *i = &t->kir->inst[at];
  const char *of = tc_type_name((tc_type)i->dtype);
  need_move(t, "tc_down", "TC_DOWN_U32", "d", i->dtype);
  t->peers = true;
  tc_gpu_line(t, "TC_UNROLL\n");
  tc_gpu_line(t, "for (i32 d = %s / 2; d >= %u; d /= 2) {\n", first, least);
  for (unsigned k = 0; k < n; k++) {
    const tc_gpu_name mine = tc_gpu_named("r%u_%u", at, k),
                      other = tc_gpu_named("tc_down_%s(peers, %s, d)", of, mine.text);
    tc_gpu_line(t, "  %s = %s;\n", mine.text,
                tc_gpu_combine(t, (unsigned)i->imm, i->dtype, mine.text, other.text).text);
  }
  tc_gpu_line(t, "}\n");
}

// Requests a helper that reads block `rank`'s value at an address of this block's shared memory.
static void need_of_block(tc_gpu_text *t, unsigned dtype) {
  const char *type = tc_gpu_type(dtype);
  const tc_gpu_name call = tc_gpu_named("tc_of_block_%s(", tc_type_name((tc_type)dtype));
  if (tc_gpu_is_new(t, call.text))
    tc_gpu_put(&t->helpers, "TC_DEVICE %s %sconst %s *p, i32 rank) { return *(const %s *)tc_of_block(p, rank); }\n",
               type, call.text, type, type);
}

// What the neighbours of all blocks came to: a part of a warp has that of one block, or of two
// combined.
static void across_blocks(tc_gpu_text *t, uint32_t at, unsigned n) {
  const tc_kir_inst *i = &t->kir->inst[at];
  const char *of = tc_type_name((tc_type)i->dtype);
  const unsigned parts = t->blocks < 32 / TC_GPU_NEIGHBOURS ? t->blocks : 32 / TC_GPU_NEIGHBOURS,
                 whole = t->kir->threads / t->blocks * n;
  need_of_block(t, i->dtype);
  tc_gpu_indent(t);
  tc_gpu_put(&t->body, "if (TC_THREAD < %u) ", TC_GPU_NEIGHBOURS);
  for (unsigned k = 0; k < n; k++)
    tc_gpu_put(&t->body, "%spart%u[%u + TC_THREAD] = r%u_%u", k > 0 ? ", " : "", at, whole + k * TC_GPU_NEIGHBOURS, at,
               k);
  tc_gpu_put(&t->body, ";\n");
  tc_gpu_sync(t);
  for (unsigned k = 0; k < n; k++) {
    const tc_gpu_name from =
        tc_gpu_named("part%u + %u + TC_THREAD %% %u", at, whole + k * TC_GPU_NEIGHBOURS, TC_GPU_NEIGHBOURS);
    const tc_gpu_name rank = tc_gpu_named("TC_THREAD %% TC_WARP / %u %% %u", TC_GPU_NEIGHBOURS, parts),
                      mine = tc_gpu_named("r%u_%u", at, k);
    tc_gpu_line(t, "%s = tc_of_block_%s(%s, %s);\n", mine.text, of, from.text, rank.text);
    if (t->blocks == parts) continue;
    tc_gpu_line(t, "const %s other%u_%u = tc_of_block_%s(%s, %s + %u);\n", tc_gpu_type(i->dtype), at, k, of, from.text,
                rank.text, parts);
    const tc_gpu_name other = tc_gpu_named("other%u_%u", at, k);
    tc_gpu_line(t, "%s = %s;\n", mine.text, tc_gpu_combine(t, (unsigned)i->imm, i->dtype, mine.text, other.text).text);
  }
  within_warp(t, at, n, tc_gpu_named("%u", parts * TC_GPU_NEIGHBOURS).text, 1);
}

void tc_gpu_reduce(tc_gpu_text *t, uint32_t at) {
  const tc_kir_inst *i = &t->kir->inst[at];
  const unsigned lanes = t->kir->inst[i->src[0]].lanes, n = tc_gpu_width(t->kir, lanes);
  if (lanes == 1) {
    tc_gpu_define(t, at, 0);
    tc_gpu_put(&t->body, "%s;\n", tc_gpu_element(t, i->src[0], 0).text);
    return;
  }
  if (!t->warp_only) {
    across_warps(t, at, n);
  } else {
    tc_gpu_line(t, "%s ", tc_gpu_type(i->dtype));
    for (unsigned k = 0; k < n; k++)
      tc_gpu_put(&t->body, "%sr%u_%u = %s", k > 0 ? ", " : "", at, k, tc_gpu_element(t, i->src[0], k).text);
    tc_gpu_put(&t->body, ";\n");
  }
  if (t->kir->threads > 1) {
    within_warp(t, at, n, width_of(t).text, t->blocks > 1 ? TC_GPU_NEIGHBOURS : 1);
    if (t->blocks > 1) across_blocks(t, at, n);
    need_move(t, "tc_first", "TC_FROM_U32", "0", i->dtype);
  }
  for (unsigned half = n / 2; half > 0; half /= 2)
    for (unsigned k = 0; k < half; k++) {
      const tc_gpu_name low = tc_gpu_named("r%u_%u", at, k), high = tc_gpu_named("r%u_%u", at, k + half);
      tc_gpu_line(t, "%s = %s;\n", low.text, tc_gpu_combine(t, (unsigned)i->imm, i->dtype, low.text, high.text).text);
    }
  tc_gpu_define(t, at, 0);
  if (t->kir->threads > 1)
    tc_gpu_put(&t->body, "tc_first_%s(peers, r%u_0);\n", tc_type_name((tc_type)i->dtype), at);
  else
    tc_gpu_put(&t->body, "r%u_0;\n", at);
}

void tc_gpu_shfl_xor(tc_gpu_text *t, uint32_t at) {
  const tc_kir_inst *i = &t->kir->inst[at];
  const tc_gpu_name other = tc_gpu_named("(TC_THREAD %% %s ^ d)", width_of(t).text);
  need_move(t, "tc_trade", "TC_FROM_U32", other.text, i->dtype);
  t->peers = true;
  for (unsigned k = 0; k < tc_gpu_width(t->kir, i->lanes); k++) {
    tc_gpu_define(t, at, k);
    tc_gpu_put(&t->body, "tc_trade_%s(peers, %s, %d)", tc_type_name((tc_type)i->dtype),
               tc_gpu_element(t, i->src[0], k).text, (int)i->imm);
  }
  tc_gpu_put(&t->body, ";\n");
}
