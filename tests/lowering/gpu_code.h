// What the real NVRTC makes of printed kernels: for tests that look at their instructions. Compiled
// only: no GPU is used. Tests only.
#pragma once

#include "device/cuda/nvrtc.h"
#include "tests/lowering/kernel_texts.h"
#include "tests/nvidia.h"

#define NO_DRIVER 99  // a driver's major version that no NVRTC is above

__attribute__((unused)) static void find_nvrtc(void) {
  tc_gpu_facts facts = {.name = "a device", .arch = "sm_90"};
  char why[320];
  if (!tc_nvrtc_choose_arch(NO_DRIVER, &facts, why, sizeof why)) cr_skip_test("%s", why);
}

__attribute__((unused)) static const char *words_of = "compute_80";  // what the PTX that is looked at is for

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
  cubin_facts facts;
  cr_assert(cubin_read(image.data, image.bytes, &facts), "%s: not a cubin", what);
  cr_expect_eq(facts.stack, 0, "%s: %d bytes of stack", what, facts.stack);
  tc_free(image.data);
}

// The same of every kernel of this kind that the graph is grouped into for sm_90.
static inline void expect_kernels(work *w, tc_fusion_kind kind, const char *what, const char *const *word, int least) {
  const tc_target hopper = {
      .threads_most = 1024, .warp = 32, .shared_bytes = 227 << 10, .processors = 132, .mma = true, .cluster = 8};
  take_kernels(w, &hopper, kind, what, expect_code, &(ptx_words){word, least});
}
