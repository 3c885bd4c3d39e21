// The text of kernels that a graph is grouped into, for tests that look at what compilers make of
// it. Tests only.
#pragma once

#include <criterion/criterion.h>

#include "lowering/codegen/gpu/print.h"
#include "tests/lowering/graph_build.h"

typedef void take_text(const void *arg, const char *what, const char *source);  // of a kernel by the name of "kernel"

static inline int count(const char *text, const char *word) {
  int n = 0;
  for (; (text = strstr(text, word)); text++) n++;
  return n;
}

// Gives the text of every kernel of this kind that the graph is grouped into for the target; there
// is one at least.
static inline void take_kernels(work *w, const tc_target *target, tc_fusion_kind kind, const char *what,
                                take_text *take, const void *arg) {
  tc_fusion_plan gr;
  int n = 0;
  w->g.target = *target;
  uint8_t *must_materialize = calloc(w->g.n, 1);
  cr_assert_eq(tc_fusion_build(&gr, &w->g, &w->arena, must_materialize, TC_FUSE_ANY), TC_OK);
  for (uint32_t g = 0; g < gr.n_fusion; g++) {
    tc_emit_result e;
    tc_gpu_shape shape;
    char *source;
    if (gr.fusion[g].kind != kind || gr.fusion[g].merged != TC_FUSION_NONE) continue;
    cr_assert_eq(tc_emit_fusion(&e, &gr, &gr.fusion[g], NULL, &w->arena), TC_OK, "%s: %s", what,
                 tc_last_error()->message);
    cr_assert_eq(tc_gpu_print(&e.kir, "kernel", &source, &shape), TC_OK, "%s: %s", what, tc_last_error()->message);
    take(arg, what, source);
    tc_free(source);
    tc_kir_destroy(&e.kir);
    n++;
  }
  free(must_materialize);
  cr_expect_gt(n, 0, "%s: no kernel", what);
}
