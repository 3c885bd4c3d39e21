// Printed and compiled by the real NVRTC, where one is installed, products use the instructions they were scheduled for, in registers alone. Compiled only: no
// GPU is used.
#include <criterion/criterion.h>
#include <elf.h>

#include "device/cuda/nvrtc.h"
#include "lowering/gpu/print.h"
#include "tests/lowering/graph_build.h"

#define NO_DRIVER 99  // a driver's major version that no NVRTC is above

static const tc_target hopper = {.threads_most = 1024, .warp = 32, .shared_bytes = 227 << 10, .processors = 132, .mma = true};

static void find_nvrtc(void) {
  tc_gpu_facts facts = {.name = "a device", .arch = "sm_90"};
  char why[320];
  if (!tc_nvrtc_choose_arch(NO_DRIVER, &facts, why, sizeof why)) cr_skip_test("%s", why);
}

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

static int count(const char *text, const char *word) {
  int n = 0;
  for (; (text = strstr(text, word)); text++) n++;
  return n;
}

// Bytes of stack that the cubin's kernel has, which is where registers are spilled to: what .nv.info says of it.
static int stack_of(const char *image, size_t bytes) {
  const Elf64_Ehdr *h = (const void *)image;
  const Elf64_Shdr *section = (const void *)(image + h->e_shoff);
  const char *names = image + section[h->e_shstrndx].sh_offset;
  int most = -1;
  cr_assert(bytes > h->e_shoff && memcmp(image, "\177ELF", 4) == 0);
  for (int i = 0; i < h->e_shnum; i++) {
    if (strcmp(names + section[i].sh_name, ".nv.info") != 0) continue;
    const unsigned char *at = (const void *)(image + section[i].sh_offset), *end = at + section[i].sh_size;
    while (at + 4 <= end) {  // format, attribute, and two bytes of value or size
      uint32_t value[2];
      unsigned size = at[0] == 4 ? at[2] | at[3] << 8 : 0;
      if (at[0] == 4 && at[1] == 0x11 && size == 8) {  // the frame of a function
        memcpy(value, at + 4, sizeof value);
        most = TC_MAX_OF(most, (int)value[1]);
      }
      at += 4 + size;
    }
  }
  return most;
}

typedef struct expected {
  problem p;
  const char *word[4];  // in the PTX
  int least;  // times each
} expected;

static void check(const expected *x) {
  tc_gpu_image image;
  char *source = print(&x->p);
  cr_assert_eq(tc_nvrtc_compile("compute_80", "product", source, &image), TC_OK, "%s: %s", x->p.name, tc_last_error()->message);
  for (int i = 0; i < 4 && x->word[i]; i++)
    cr_expect_geq(count(image.data, x->word[i]), x->least, "%s: %s is there %d times", x->p.name, x->word[i], count(image.data, x->word[i]));
  tc_free(image.data);
  cr_assert_eq(tc_nvrtc_compile("sm_90a", "product", source, &image), TC_OK, "%s: %s", x->p.name, tc_last_error()->message);
  cr_expect_eq(stack_of(image.data, image.bytes), 0, "%s: %d bytes of stack", x->p.name, stack_of(image.data, image.bytes));
  tc_free(image.data);
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
