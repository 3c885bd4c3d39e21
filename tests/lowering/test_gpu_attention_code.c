// Printed and compiled by the real NVRTC, and by clang for AMD, where these are installed,
// attention uses the instructions it was scheduled for, in registers alone. Compiled only: no GPU
// is used.
#include <criterion/criterion.h>

#include "tests/lowering/amd_code.h"
#include "tests/lowering/gpu_code.h"

typedef struct expected {
  const char *name;
  tc_type type;
  int64_t l, keys, e;
  bool causal, backward;
  const char *word[5];  // in the PTX, and NULL
  int least;  // times each
} expected;

static uint32_t row(work *w, tc_op op, tc_type type, tc_dims d, int n_in, const uint32_t *in, bool causal) {
  uint32_t y = node(w, op, type, d, n_in, in, 3, (uint64_t[]){causal, 0, 0});
  want(w, y);
  return y;
}

static void build(work *w, const expected *x) {
  enum { HEADS = 4 };
  uint32_t q = leaf(w, x->type, TC_SHAPE(1, HEADS, x->l, x->e)),
           k = leaf(w, x->type, TC_SHAPE(1, HEADS, x->keys, x->e));
  uint32_t v = leaf(w, x->type, TC_SHAPE(1, HEADS, x->keys, x->e)), scale = leaf(w, TC_F64, (tc_dims){0});
  tc_dims d = TC_SHAPE(1, x->l, HEADS, x->e), of_keys = TC_SHAPE(1, x->keys, HEADS, x->e),
          kept = TC_SHAPE(1, HEADS, x->l, 2);
  if (!x->backward) {
    (void)row(w, TC_OP_ATTENTION, x->type, d, 4, (uint32_t[]){q, k, v, scale}, x->causal);
    (void)row(w, TC_OP_ATTENTION_LSE, TC_F32, kept, 3, (uint32_t[]){q, k, scale}, x->causal);
    return;
  }
  uint32_t dout = leaf(w, x->type, TC_SHAPE(1, HEADS, x->l, x->e)), lse = leaf(w, TC_F32, kept),
           delta = leaf(w, TC_F32, TC_SHAPE(1, HEADS, x->l));
  const uint32_t in[7] = {q, k, v, dout, lse, delta, scale};
  (void)row(w, TC_OP_ATTENTION_DQ, x->type, d, 7, in, x->causal);
  (void)row(w, TC_OP_ATTENTION_DK, x->type, of_keys, 7, in, x->causal);
  (void)row(w, TC_OP_ATTENTION_DV, x->type, of_keys, 7, in, x->causal);
}

static void check(const expected *x) {
  work w = begin();
  build(&w, x);
  cr_assert(split_attention(&w));
  expect_kernels(&w, TC_FUSION_ATTENTION, x->name, x->word, x->least);
  release(&w);
}

static void check_all(const expected *x, size_t n) {
  find_nvrtc();
  for (size_t i = 0; i < n; i++) check(&x[i]);
}

#define MATRIX \
  {"mma.sync.aligned.m16n8k16", "ldmatrix.sync.aligned.m8n8.x4.shared", "ldmatrix.sync.aligned.m8n8.x2.trans.shared", \
   "cp.async.cg.shared.global", NULL}
#define FUSED {"fma.rn.f32", "ld.shared.v4", "cp.async.cg.shared.global", NULL}

Test(gpu_attention_code, halves_are_copied_and_multiplied_by_the_devices_instructions) {
  static const expected all[] = {
      {"bf16, heads of 128", TC_BF16, 2048, 2048, 128, true, false, MATRIX, 4},
      {"f16, heads of 64", TC_F16, 1000, 1003, 64, false, false, MATRIX, 4},
      {"bf16, a step of decoding", TC_BF16, 1, 8192, 128, false, false, MATRIX, 4},
      {"gradients, bf16, heads of 128", TC_BF16, 2048, 2048, 128, true, true, {NULL}, 0},
      {"gradients, bf16, heads of 256", TC_BF16, 512, 512, 256, true, true, {NULL}, 0},
  };
  check_all(all, sizeof all / sizeof *all);
}

Test(gpu_attention_code, floats_are_read_16_bytes_at_a_time_and_fused) {
  static const expected all[] = {
      {"f32, heads of 64", TC_F32, 2048, 2048, 64, true, false, FUSED, 4},
      {"f32, a step of decoding", TC_F32, 1, 8192, 128, false, false, FUSED, 4},
      {"gradients, f32, heads of 128", TC_F32, 512, 512, 128, true, true, {NULL}, 0},
  };
  check_all(all, sizeof all / sizeof *all);
}

#define MFMA_OF_BF16 "v_mfma_f32_16x16x16bf16|v_mfma_f32_16x16x16_bf16|v_mfma_f32_16x16x8bf16"
#define MFMA_OF_F16 "v_mfma_f32_16x16x16f16|v_mfma_f32_16x16x16_f16"

Test(gpu_attention_code, is_compiled_in_registers_for_amd) {
  static const struct {
    expected x;
    const char *archs, *mfma;  // as expect_amd_kernels says
  } all[] = {
      {{"bf16, heads of 128", TC_BF16, 2048, 2048, 128, true, false, {AMD_TILE_16}, 0},
       "gfx1100 gfx90a gfx942",
       MFMA_OF_BF16},
      {{"f16, heads of 64", TC_F16, 16000, 16003, 64, false, false, {AMD_TILE_16}, 0}, "gfx908", MFMA_OF_F16},
      {{"gradients, bf16, heads of 64", TC_BF16, 16384, 16384, 64, true, true, {AMD_TILE_16}, 0},
       "gfx90a",
       MFMA_OF_BF16},
      {{"bf16, a step of decoding", TC_BF16, 1, 8192, 128, false, false, {AMD_TILE_16}, 0}, "gfx90a", MFMA_OF_BF16},
      {{"gradients, bf16, heads of 128", TC_BF16, 2048, 2048, 128, true, true, {AMD_TILE_16}, 0},
       "gfx908 gfx942",
       MFMA_OF_BF16},
      {{"gradients, f16, heads of 256", TC_F16, 512, 512, 256, true, true, {AMD_TILE_16}, 0}, "gfx90a", MFMA_OF_F16},
      {{"f32, heads of 64", TC_F32, 2048, 2048, 64, true, false, {AMD_LOAD_16, AMD_TILE_16}, 0}, "gfx942", NULL},
      {{"gradients, f32, heads of 64", TC_F32, 512, 512, 64, true, true, {AMD_LOAD_16}, 0}, "gfx90a", NULL},
  };
  find_clang();
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    work w = begin();
    build(&w, &all[i].x);
    expect_amd_kernels(&w, TC_FUSION_ATTENTION, all[i].x.name, all[i].archs, all[i].x.word, all[i].mfma);
    release(&w);
  }
}
