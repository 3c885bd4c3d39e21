// Boxes that are fetched, their gates, and products of four warps. One thread fetches; a gate is
// opened by a stage's boxes and awaited by every thread.
#include "device/gpu.h"
#include "lowering/codegen/gpu/kernel_abi.h"
#include "lowering/codegen/gpu/text.h"

#define BOX (TC_KIR_TMA_BOX * TC_KIR_TMA_BOX)

// Of a stage of the map's tile.
static unsigned boxes_of(const tc_kir *n, const tc_tensor_map *m) {
  return (unsigned)(n->tile[m->tile].n / BOX / n->stages);
}

void tc_gpu_put_gates(const tc_gpu_text *t, tc_gpu_out *out) {
  const tc_kir *n = t->kir;
  const uint32_t word = tc_gpu_tensor_map_word(n->n_buf, n->n_num);
  unsigned arrivals = 0;
  tc_gpu_put(out, "  u64 *const gate = (u64 *)(tc_shared + %zu);\n", t->gates_at);
  for (uint32_t k = 0; k < n->n_map; k++) {
    tc_gpu_put(out, "  const u64 *const map%u = tc_table + %u;\n", k, word + k * TC_GPU_TENSOR_MAP_WORDS);
    arrivals += boxes_of(n, &n->map[k]);
  }
  tc_gpu_put(out, "  if (lane == 0) {\n    for (i32 k = 0; k < %u; k++) tc_gate_init(gate + k, %u);\n", n->stages,
             arrivals);
  for (uint32_t k = 0; k < n->n_map; k++) tc_gpu_put(out, "    tc_map_ready(map%u);\n", k);
  tc_gpu_put(out, "  }\n  TC_SYNC();\n");
}

static void fetch(tc_gpu_text *t, uint32_t at) {
  const tc_kir *n = t->kir;
  const tc_kir_inst *i = &n->inst[at];
  const tc_tensor_map *m = &n->map[i->imm];
  tc_gpu_name s[4];
  for (int k = 0; k < 4; k++) s[k] = tc_gpu_element(t, i->src[k], 0);
  tc_gpu_line(
      t,
      "if (lane == 0) tc_fetch_box(tile%u + (%s %% %u * %u + %u) * %d, map%d, (i32)%s, (i32)%s, (i32)%s, gate + %s %% %u);\n",
      m->tile, s[3].text, n->stages, boxes_of(n, m), i->flags, BOX, (int)i->imm, s[0].text, s[1].text, s[2].text,
      s[3].text, n->stages);
}

// N of the accumulator.
static unsigned columns_of(const tc_gpu_text *t, uint32_t sums) {
  return 2 * tc_gpu_width(t->kir, t->kir->inst[sums].lanes);
}

static void matmul(tc_gpu_text *t, uint32_t at) {
  const tc_kir *n = t->kir;
  const tc_kir_inst *i = &n->inst[at];
  const tc_tensor_map *a = &n->map[i->imm & 255], *b = &n->map[i->imm >> 8];
  tc_gpu_line(t, "tc_wgmma_%s_%u(v%u, tile%u + %s, tile%u + %s, %u, %u);\n",
              tc_type_name((tc_type)n->tile[a->tile].dtype), columns_of(t, i->src[2]), i->src[2], a->tile,
              tc_gpu_element(t, i->src[0], 0).text, b->tile, tc_gpu_element(t, i->src[1], 0).text, i->flags & 1,
              i->flags >> 1 & 1);
}

void tc_gpu_print_tma(tc_gpu_text *t, uint32_t at) {
  const tc_kir_inst *i = &t->kir->inst[at];
  switch (i->op) {
    case TC_IR_TMA_LOAD: fetch(t, at); break;
    case TC_IR_TMA_WAIT: {
      const tc_gpu_name chunk = tc_gpu_element(t, i->src[0], 0);
      tc_gpu_line(t, "tc_gate_await(gate + %s %% %u, (i32)(%s / %u));\n", chunk.text, t->kir->stages, chunk.text,
                  t->kir->stages);
      break;
    }
    case TC_IR_WGMMA: matmul(t, at); break;
    default: tc_gpu_line(t, "tc_wgmma_wait_%u(v%u, %d);\n", columns_of(t, i->src[0]), i->src[0], (int)i->imm);
  }
}
