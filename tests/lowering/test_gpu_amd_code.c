// Printed and compiled by clang for AMD, where it is installed: elementwise chains, reductions and
// softmax read and write 16 bytes of f32 at a time, 8 of halves, and keep what they work on in
// registers; so do convolutions. Products and attention are looked at beside what NVRTC makes of
// them. Compiled only: no GPU is used.
#include <criterion/criterion.h>

#include "tests/lowering/amd_code.h"

enum { ROWS = 4096, COLUMNS = 4096 };

static uint32_t fold(work *w, tc_op op, uint32_t a, uint64_t axis) {
  tc_dims d = w->g.node[a].shape->d;
  d.dim[axis] = 1;
  return node(w, op, w->g.node[a].type, d, 1, &a, 1, (uint64_t[]){UINT64_C(1) << axis | 1 << 8});
}

static void build_chain(work *w, tc_type type) {
  tc_dims d = TC_SHAPE(ROWS, COLUMNS);
  uint32_t sum =
      elem(w, TC_OP_ADD, type, d, elem(w, TC_OP_MUL, type, d, leaf(w, type, d), leaf(w, type, d)), leaf(w, type, d));
  want(w, elem(w, TC_OP_RELU, type, d, sum, sum));
}

static void build_sum(work *w, tc_type type, uint64_t axis) {
  want(w, fold(w, TC_OP_SUM, leaf(w, type, TC_SHAPE(ROWS, COLUMNS)), axis));
}

static void build_softmax(work *w, tc_type type) {
  tc_dims d = TC_SHAPE(ROWS, COLUMNS);
  uint32_t x = leaf(w, type, d), less = elem(w, TC_OP_SUB, type, d, x, expand_to(w, fold(w, TC_OP_MAX, x, 1), d));
  uint32_t e = node(w, TC_OP_EXP, type, d, 1, &less, 0, NULL);
  want(w, elem(w, TC_OP_DIV, type, d, e, expand_to(w, fold(w, TC_OP_SUM, e, 1), d)));
}

static const char *const wide[] = {AMD_LOAD_16, AMD_STORE_16, NULL}, *const loads[] = {AMD_LOAD_16, NULL};
static const char *const of_halves[] = {"global_load_dwordx2|global_load_b64", "global_store_dwordx2|global_store_b64",
                                        NULL};

Test(gpu_amd_code, elementwise_chains) {
  static const tc_type types[] = {TC_F32, TC_BF16};
  find_clang();
  for (int i = 0; i < 2; i++) {
    work w = begin();
    build_chain(&w, types[i]);
    expect_amd_kernels(&w, TC_FUSION_ELEMENTWISE, tc_type_name(types[i]), i ? "gfx1030" : NULL, i ? of_halves : wide,
                       NULL);
    release(&w);
  }
}

Test(gpu_amd_code, sums_of_rows_and_of_columns) {
  find_clang();
  for (uint64_t axis = 0; axis < 2; axis++) {
    work w = begin();
    build_sum(&w, TC_F32, axis);
    expect_amd_kernels(&w, axis ? TC_FUSION_ROW : TC_FUSION_COLUMN, axis ? "rows" : "columns", axis ? NULL : "gfx908",
                       loads, NULL);
    release(&w);
  }
}

Test(gpu_amd_code, softmax_of_rows_that_are_kept) {
  static const tc_type types[] = {TC_F32, TC_F16};
  find_clang();
  for (int i = 0; i < 2; i++) {
    work w = begin();
    build_softmax(&w, types[i]);
    expect_amd_kernels(&w, TC_FUSION_ROW, tc_type_name(types[i]), i ? "gfx942" : "gfx906 gfx90a gfx1100",
                       i ? of_halves : wide, NULL);
    release(&w);
  }
}

Test(gpu_amd_code, convolutions) {
  static const char *const words[] = {"v_fma_f32|v_fmac_f32|v_pk_fma_f32|v_dual_fmac_f32", NULL};
  find_clang();
  work w = begin();
  build_convolution(&w, TC_BF16, 56, 64, 1, false);
  expect_amd_kernels(&w, TC_FUSION_MATMUL, "bf16, 64 channels", "gfx90a gfx1100", words, "v_mfma_f32_16x16x");
  release(&w);
}
