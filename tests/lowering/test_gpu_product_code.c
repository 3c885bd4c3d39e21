// Printed and compiled by the real NVRTC, where one is installed, products use the instructions they were scheduled for, in registers alone. Compiled only: no
// GPU is used.
#include <criterion/criterion.h>

#include "tests/lowering/gpu_code.h"

// The text of the problem's kernel, the caller's.
static char *print(const problem *p) {
  work w = begin();
  tc_grouping gr;
  char *source = NULL;
  build_product(&w, p);
  w.g.target = hopper;
  uint8_t *forced = calloc(w.g.n, 1);
  cr_assert_eq(tc_group_build(&gr, &w.g, &w.arena, forced, TC_GROUP_ANY), TC_OK);
  for (uint32_t g = 0; g < gr.n_group; g++) {
    tc_expansion e;
    tc_gpu_shape shape;
    if (gr.group[g].kind != TC_GROUP_GEMM || gr.group[g].merged != TC_GROUP_NONE) continue;
    cr_assert_eq(tc_expand_group(&e, &gr, &gr.group[g], NULL, &w.arena), TC_OK, "%s", tc_last_error()->message);
    cr_assert_eq(tc_gpu_print(&e.nest, "product", &source, &shape), TC_OK, "%s", tc_last_error()->message);
    tc_nest_destroy(&e.nest);
  }
  free(forced);
  release(&w);
  cr_assert(source);
  return source;
}

typedef struct expected {
  problem p;
  const char *word[5];  // in the PTX, and NULL
  int least;  // times each
} expected;

static void check(const expected *x) {
  char *source = print(&x->p);
  expect_code(x->p.name, source, "product", x->word, x->least);
  tc_free(source);
}

Test(gpu_product_code, halves_are_copied_and_multiplied_by_the_devices_instructions) {
  static const expected all[] = {
      {{"bf16, along k", TC_BF16, 1, 4096, 4096, 4096, false, true, false},
       {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "ldmatrix.sync.aligned.m8n8.x4.shared", "cp.async.cg.shared.global",
        "cp.async.wait_group"},
       1},
      {{"f16, along columns", TC_F16, 1, 1024, 1024, 1024, false, false, true},
       {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "ldmatrix.sync.aligned.m8n8.x2.trans.shared", "cp.async.cg.shared.global"},
       1},
      {{"bf16, odd", TC_BF16, 1, 1023, 1025, 1027, false, true, true}, {"mma.sync", "ldmatrix"}, 1},
  };
  find_nvrtc();
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) check(&all[i]);
}

Test(gpu_product_code, floats_are_read_16_bytes_at_a_time_and_fused) {
  static const expected all[] = {
      {{"f32", TC_F32, 1, 4096, 4096, 4096, false, false, false}, {"fma.rn.f32", "ld.shared.v4", "st.global.v4"}, 4},
      {{"f32, wide reads", TC_F32, 1, 2048, 2048, 2048, true, true, false}, {"ld.global.nc.v4"}, 4},
      {{"f32, odd", TC_F32, 1, 1023, 1025, 1027, false, false, true}, {"fma.rn.f32"}, 128},
      {{"f64", TC_F64, 1, 512, 512, 512, false, true, true}, {"fma.rn.f64"}, 64},
  };
  find_nvrtc();
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) check(&all[i]);
}

Test(gpu_product_code, few_rows_read_a_weight_16_bytes_at_a_time) {
  static const expected all[] = {
      {{"one row, along k", TC_BF16, 1, 1, 4096, 4096, false, true, true}, {"ld.global.nc.v4", "shfl.sync"}, 4},
      {{"four rows, along columns", TC_BF16, 1, 4, 4096, 4096, false, false, true}, {"ld.global.nc.v4"}, 4},
  };
  find_nvrtc();
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) check(&all[i]);
}
