// What the real NVRTC makes of printed kernels: for tests that look at their instructions. Compiled only: no GPU is used. Tests only.
#ifndef TC_TESTS_LOWERING_GPU_CODE_H
#define TC_TESTS_LOWERING_GPU_CODE_H

#include <elf.h>

#include "device/cuda/nvrtc.h"
#include "lowering/gpu/print.h"
#include "tests/lowering/graph_build.h"

#define NO_DRIVER 99  // a driver's major version that no NVRTC is above

__attribute__((unused)) static void find_nvrtc(void) {
  tc_gpu_facts facts = {.name = "a device", .arch = "sm_90"};
  char why[320];
  if (!tc_nvrtc_choose_arch(NO_DRIVER, &facts, why, sizeof why)) cr_skip_test("%s", why);
}

__attribute__((unused)) static const char *words_of = "compute_80";  // what the PTX that is looked at is for

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

// In registers alone, and with at least so many of each word, if any, in the PTX; words end with NULL.
__attribute__((unused)) static void expect_code(const char *what, const char *source, const char *name, const char *const *word, int least) {
  tc_gpu_image image;
  if (*word) {
    cr_assert_eq(tc_nvrtc_compile(words_of, name, source, &image), TC_OK, "%s: %s", what, tc_last_error()->message);
    for (; *word; word++) cr_expect_geq(count(image.data, *word), least, "%s: %s is there %d times", what, *word, count(image.data, *word));
    tc_free(image.data);
  }
  cr_assert_eq(tc_nvrtc_compile("sm_90a", name, source, &image), TC_OK, "%s: %s", what, tc_last_error()->message);
  cr_expect_eq(stack_of(image.data, image.bytes), 0, "%s: %d bytes of stack", what, stack_of(image.data, image.bytes));
  tc_free(image.data);
}

// The same of every kernel of this kind that the graph is grouped into for sm_90; there is one at least.
__attribute__((unused)) static void expect_kernels(work *w, tc_group_kind kind, const char *what, const char *const *word, int least) {
  tc_grouping gr;
  int n = 0;
  w->g.target = (tc_target){.threads_most = 1024, .warp = 32, .shared_bytes = 227 << 10, .processors = 132, .mma = true, .cluster = 8};
  uint8_t *forced = calloc(w->g.n, 1);
  cr_assert_eq(tc_group_build(&gr, &w->g, &w->arena, forced, TC_GROUP_ANY), TC_OK);
  for (uint32_t g = 0; g < gr.n_group; g++) {
    tc_expansion e;
    tc_gpu_shape shape;
    char *source;
    if (gr.group[g].kind != kind || gr.group[g].merged != TC_GROUP_NONE) continue;
    cr_assert_eq(tc_expand_group(&e, &gr, &gr.group[g], NULL, &w->arena), TC_OK, "%s: %s", what, tc_last_error()->message);
    cr_assert_eq(tc_gpu_print(&e.nest, "kernel", &source, &shape), TC_OK, "%s: %s", what, tc_last_error()->message);
    expect_code(what, source, "kernel", word, least);
    tc_free(source);
    tc_nest_destroy(&e.nest);
    n++;
  }
  free(forced);
  cr_expect_gt(n, 0, "%s: no kernel", what);
}

#endif
