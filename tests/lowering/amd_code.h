// What clang makes of printed kernels for AMD's architectures, by the words that hiprtc gets: for
// tests that look at its assembly. Compiled only: no GPU is used. Tests only.
#pragma once

#include <stdio.h>

#include "device/hip/hiprtc.h"
#include "tests/amd.h"
#include "tests/lowering/kernel_texts.h"

#define CLANG "clang-19"

typedef struct amd_arch {
  const char *name;
  int warp;
  bool mfma;
} amd_arch;
static const amd_arch amd_archs[] = {{"gfx906", 64, false}, {"gfx908", 64, true},   {"gfx90a", 64, true},
                                     {"gfx942", 64, true},  {"gfx1030", 32, false}, {"gfx1100", 32, false}};
enum { N_AMD = sizeof amd_archs / sizeof *amd_archs };

// One that knows these architectures; hiprtc of HIP 5.2 does not.
static inline void find_clang(void) {
  if (system(CLANG " -print-targets 2>/dev/null | grep -q amdgcn") != 0)
    cr_skip_test(CLANG " with AMD's architectures is not installed: nothing was compiled for them");
}

// The caller's, free. In registers alone.
static inline char *lean_assembly(const char *arch, const char *what, const char *source) {
  bool ok;
  char why[128], *text = amd_assembly(CLANG, arch, tc_hip_words, source, &ok);
  cr_assert(ok && text, "%s for %s: %s", what, arch, text ? text : "no place for files");
  bool lean = amd_is_lean(text, why, sizeof why);
  cr_expect(lean, "%s for %s: %s", what, arch, why);
  return text;
}

// How often any of the words is there, which are separated by '|'.
static inline int count_any(const char *text, const char *words) {
  char word[64];
  int n = 0;
  for (size_t length = 0; *words; words += length + (words[length] == '|')) {
    length = strcspn(words, "|");
    snprintf(word, sizeof word, "%.*s", (int)length, words);
    n += count(text, word);
  }
  return n;
}

#define AMD_LOAD_16 "global_load_dwordx4|global_load_b128"
#define AMD_STORE_16 "global_store_dwordx4|global_store_b128"
#define AMD_TILE_16 "ds_read_b128|ds_load_b128"

// What a kernel's assembly must have once at least, words as of count_any, ending with NULL; and
// instead of the last, where the architecture has matrix instructions, `mfma`, if that is not NULL.
typedef struct amd_words {
  const amd_arch *arch;
  const char *const *word;
  const char *mfma;
} amd_words;

static inline void expect_assembly(const void *arg, const char *what, const char *source) {
  const amd_words *x = arg;
  char *text = lean_assembly(x->arch->name, what, source);
  for (const char *const *word = x->word; *word; word++) {
    const char *wanted = x->mfma && x->arch->mfma && !word[1] ? x->mfma : *word;
    cr_expect_gt(count_any(text, wanted), 0, "%s for %s: no %s", what, x->arch->name, wanted);
  }
  free(text);
}

// Of every kernel of this kind that the graph is grouped into, for the architectures that `archs`
// names; with TC_TEST_ALL=1, or NULL: for all.
static inline void expect_amd_kernels(work *w, tc_fusion_kind kind, const char *what, const char *archs,
                                      const char *const *word, const char *mfma) {
  for (int i = 0; i < N_AMD; i++) {
    const amd_arch *a = &amd_archs[i];
    if (archs && !getenv("TC_TEST_ALL") && !strstr(archs, a->name)) continue;
    const tc_target target = {
        .threads_most = 1024, .warp = a->warp, .shared_bytes = 64 << 10, .processors = 104, .mfma = a->mfma};
    take_kernels(w, &target, kind, what, expect_assembly, &(amd_words){a, word, mfma});
  }
}
