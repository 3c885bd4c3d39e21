// Printed and compiled by the real NVRTC, and by clang for AMD, where these are installed, products
// use the instructions they were scheduled for, in registers alone. Compiled only: no GPU is used.
#include <criterion/criterion.h>
#include <unistd.h>

#include "runtime/options.h"
#include "tests/lowering/amd_code.h"
#include "tests/lowering/gpu_code.h"

typedef struct expected {
  problem p;
  const char *word[5];  // in the PTX, and NULL
  int least;  // times each
} expected;

static void check(const expected *x) {
  work w = begin();
  build_product(&w, &x->p);
  expect_kernels(&w, TC_FUSION_MATMUL, x->p.name, x->word, x->least);
  release(&w);
}

Test(gpu_product_code, halves_are_copied_and_multiplied_by_the_devices_instructions) {
  static const expected all[] = {
      {{"bf16, along k", TC_BF16, 1, 4096, 4096, 4096, false, true, false},
       {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "ldmatrix.sync.aligned.m8n8.x4.shared",
        "cp.async.cg.shared.global", "cp.async.wait_group"},
       1},
      {{"f16, along columns", TC_F16, 1, 1024, 1024, 1024, false, false, true},
       {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "ldmatrix.sync.aligned.m8n8.x2.trans.shared",
        "cp.async.cg.shared.global"},
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

// What the compiler says of kernels goes to a file, and there must be word of them but none of
// products that it makes one after the other.
static void expect_no_serial_products(const char *path) {
  char line[4096];
  FILE *said = fopen(path, "r");
  int n = 0;
  cr_assert_not_null(said);
  while (fgets(line, sizeof line, said)) {
    n += strstr(line, "registers") != NULL;
    // products made one after the other, or waited for where nobody asked
    cr_expect_null(strstr(line, "(C75"), "%s", line);
  }
  fclose(said);
  unlink(path);
  cr_expect_gt(n, 0, "the compiler said nothing");
}

Test(gpu_product_code, four_warps_multiply_boxes_that_are_fetched_where_that_is_asked_for) {
  static const tc_target hopper = {
      .threads_most = 1024, .warp = 32, .shared_bytes = 227 << 10, .processors = 132, .mma = true, .wgmma = true};
  static const expected all[] = {
      {{"bf16, along k", TC_BF16, 1, 4096, 4096, 4096, false, true, false},
       {"wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16",
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes", "mbarrier.try_wait.parity",
        "fence.proxy.tensormap::generic.acquire.gpu"},
       1},
      {{"f16, transposed", TC_F16, 2, 1000, 1032, 1096, true, false, true},
       {"wgmma.mma_async", "cp.async.bulk.tensor.3d", "st.global.v4"},
       1},
      {{"small", TC_BF16, 1, 128, 64, 512, true, true, true},
       {"wgmma.mma_async.sync.aligned.m64n64k16", "cp.async.bulk.tensor.3d"},
       1},
  };
  char path[64];
  find_nvrtc();
  words_of = "compute_90a";
  snprintf(path, sizeof path, "/tmp/tc-product-code-%d", (int)getpid());
  cr_assert_not_null(freopen(path, "w", stderr));
  setenv("TC_LOG", "kernel", 1);
  tc_options_reload();
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    work w = begin();
    build_product(&w, &all[i].p);
    take_kernels(&w, &hopper, TC_FUSION_MATMUL, all[i].p.name, expect_code, &(ptx_words){all[i].word, all[i].least});
    release(&w);
  }
  fflush(stderr);
  expect_no_serial_products(path);
}

// ---- AMD ----

typedef struct amd_expected {
  problem p;
  const char *archs, *word[4], *mfma;  // as expect_amd_kernels says
} amd_expected;

static void check_amd(const amd_expected *x, size_t n) {
  find_clang();
  for (size_t i = 0; i < n; i++) {
    work w = begin();
    build_product(&w, &x[i].p);
    expect_amd_kernels(&w, TC_FUSION_MATMUL, x[i].p.name, x[i].archs, x[i].word, x[i].mfma);
    release(&w);
  }
}

#define MULTIPLY_ADDS "v_fma_f32|v_fmac_f32|v_pk_fma_f32|v_dual_fmac_f32"

Test(gpu_product_code, halves_go_through_amds_matrix_instructions) {
  static const amd_expected all[] = {
      {{"bf16, along k", TC_BF16, 1, 4096, 4096, 4096, false, true, false},
       "gfx908 gfx90a gfx942",
       {AMD_LOAD_16, AMD_STORE_16, MULTIPLY_ADDS},
       "v_mfma_f32_16x16x"},
      {{"f16, along columns", TC_F16, 1, 4096, 4096, 4096, false, false, true},
       "gfx90a",
       {AMD_LOAD_16, AMD_STORE_16, MULTIPLY_ADDS},
       "v_mfma_f32_16x16x16"},
      {{"bf16, odd", TC_BF16, 1, 1023, 1025, 1027, false, true, true}, "gfx942", {MULTIPLY_ADDS}, "v_mfma_f32_16x16x"},
  };
  check_amd(all, sizeof all / sizeof *all);
}

Test(gpu_product_code, floats_are_read_16_bytes_at_a_time_and_fused_for_amd) {
  static const amd_expected all[] = {
      {{"f32", TC_F32, 1, 4096, 4096, 4096, false, false, false},
       "gfx906 gfx1100",
       {AMD_LOAD_16, AMD_STORE_16, AMD_TILE_16},
       NULL},
      {{"f32, odd", TC_F32, 1, 1023, 1025, 1027, false, false, true}, "gfx1030", {MULTIPLY_ADDS}, NULL},
      {{"one row, bf16, along k", TC_BF16, 1, 1, 4096, 4096, false, true, true},
       "gfx908",
       {AMD_LOAD_16, MULTIPLY_ADDS},
       NULL},
  };
  check_amd(all, sizeof all / sizeof *all);
}
