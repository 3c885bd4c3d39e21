// What the real NVRTC makes of printed kernels: for tests that look at their instructions. Compiled only: no GPU is used. Tests only.
#ifndef TC_TESTS_LOWERING_GPU_CODE_H
#define TC_TESTS_LOWERING_GPU_CODE_H

#include <elf.h>

#include "device/cuda/nvrtc.h"
#include "tests/lowering/kernel_texts.h"

#define NO_DRIVER 99  // a driver's major version that no NVRTC is above

__attribute__((unused)) static void find_nvrtc(void) {
  tc_gpu_facts facts = {.name = "a device", .arch = "sm_90"};
  char why[320];
  if (!tc_nvrtc_choose_arch(NO_DRIVER, &facts, why, sizeof why)) cr_skip_test("%s", why);
}

__attribute__((unused)) static const char *words_of = "compute_80";  // what the PTX that is looked at is for

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

// Words that are in the PTX at least so many times each; they end with NULL.
typedef struct ptx_words {
  const char *const *word;
  int least;
} ptx_words;

// In registers alone, and with the words, if any, in the PTX.
static void expect_code(const void *arg, const char *what, const char *source) {
  const ptx_words *x = arg;
  tc_gpu_image image;
  if (*x->word) {
    cr_assert_eq(tc_nvrtc_compile(words_of, "kernel", source, &image), TC_OK, "%s: %s", what, tc_last_error()->message);
    for (const char *const *word = x->word; *word; word++) {
      const int n = count(image.data, *word);
      cr_expect_geq(n, x->least, "%s: %s is there %d times", what, *word, n);
    }
    tc_free(image.data);
  }
  cr_assert_eq(tc_nvrtc_compile("sm_90a", "kernel", source, &image), TC_OK, "%s: %s", what, tc_last_error()->message);
  cr_expect_eq(stack_of(image.data, image.bytes), 0, "%s: %d bytes of stack", what, stack_of(image.data, image.bytes));
  tc_free(image.data);
}

// The same of every kernel of this kind that the graph is grouped into for sm_90.
static inline void expect_kernels(work *w, tc_group_kind kind, const char *what, const char *const *word, int least) {
  const tc_target hopper = {.threads_most = 1024, .warp = 32, .shared_bytes = 227 << 10, .processors = 132, .mma = true, .cluster = 8};
  take_kernels(w, &hopper, kind, what, expect_code, &(ptx_words){word, least});
}

#endif
