// Rows that one block of a GPU has no room for, held by clusters: read once and written once, in
// registers alone as the real NVRTC compiles them where one is installed, and the sums in whatever
// order that gives. Compiled, and run in step on the host: no GPU is used.
#include <criterion/criterion.h>
#include <math.h>

#include "lowering/kir/verify.h"
#include "tests/lowering/gpu_code.h"
#include "tests/threads.h"

enum { ROWS = 16 };

static const tc_target hopper = {
    .threads_most = 1024, .warp = 32, .shared_bytes = 227 << 10, .processors = 132, .mma = true, .cluster = 8};

static uint32_t folded(work *w, tc_op op, uint32_t a, int64_t n) {
  uint32_t fold = node(w, op, TC_F32, TC_SHAPE(ROWS, 1, 1), 1, &a, 1, (uint64_t[]){2 | 1 << 8});
  return expand_to(w, fold, TC_SHAPE(ROWS, n, 1));
}

static uint32_t one(work *w, tc_op op, uint32_t a, int64_t n) {
  return node(w, op, TC_F32, TC_SHAPE(ROWS, n, 1), 1, &a, 0, NULL);
}

static uint32_t build_softmax(work *w, tc_type type, int64_t n) {
  tc_dims d = TC_SHAPE(ROWS, n, 1);
  uint32_t x = leaf(w, type, d);
  if (type != TC_F32) x = node(w, TC_OP_CAST, TC_F32, d, 1, &x, 0, NULL);
  uint32_t e = one(w, TC_OP_EXP, elem(w, TC_OP_SUB, TC_F32, d, x, folded(w, TC_OP_MAX, x, n)), n),
           y = elem(w, TC_OP_DIV, TC_F32, d, e, folded(w, TC_OP_SUM, e, n));
  want(w, y);
  return y;
}

// Without what would divide: what a norm and its gradient read of two operands in three passes.
static uint32_t build_norm(work *w, tc_type type, int64_t n) {
  tc_dims d = TC_SHAPE(ROWS, n, 1);
  uint32_t x = leaf(w, type, d), g = leaf(w, type, d);
  uint32_t c = elem(w, TC_OP_SUB, TC_F32, d, x, folded(w, TC_OP_SUM, x, n)),
           s = folded(w, TC_OP_SUM, elem(w, TC_OP_MUL, TC_F32, d, c, g), n);
  uint32_t y = elem(w, TC_OP_ADD, TC_F32, d, elem(w, TC_OP_MUL, TC_F32, d, c, s), g);
  want(w, y);
  return y;
}

typedef uint32_t build(work *w, tc_type type, int64_t n);

static tc_emit_result expanded(work *w, const tc_target *target) {
  tc_fusion_plan gr;
  tc_emit_result e = {.n_buf = 0};
  uint8_t *must_materialize = calloc(w->g.n, 1);
  w->g.target = *target;
  cr_assert_eq(tc_fusion_build(&gr, &w->g, &w->arena, must_materialize, TC_FUSE_ANY), TC_OK);
  int n = 0;
  for (uint32_t g = 0; g < gr.n_fusion; g++) {
    if (gr.fusion[g].merged != TC_FUSION_NONE) continue;
    cr_assert_eq(tc_emit_fusion(&e, &gr, &gr.fusion[g], NULL, &w->arena), TC_OK, "%s", tc_last_error()->message);
    n++;
  }
  cr_assert_eq(n, 1, "%d kernels", n);
  free(must_materialize);
  return e;
}

// Loads of the graph's leaves in the kernel, each of them once in the turns of a row, and once in
// its tail.
static int n_loads(const work *w, const tc_emit_result *e) {
  int n = 0;
  for (uint32_t i = 0; i < e->kir.n_inst; i++) {
    const tc_kir_inst *x = &e->kir.inst[i];
    n += x->op == TC_IR_LOAD && x->lanes > 1 && x->imm < e->kir.n_buf && w->g.node[e->buf[x->imm]].leaf != TC_LEAF_NONE;
  }
  return n;
}

static void expect_sums(build *what, tc_type type, int64_t n) {
  work w = begin();
  uint32_t y = what(&w, type, n);
  tc_emit_result e = expanded(&w, &hopper);
  void *buf[TC_MAX_BUFS];
  int64_t count_of[TC_MAX_BUFS];
  char text[200];
  w.memory[y] = calloc(1, bytes_of(&w, y));
  for (uint32_t i = 0; i < e.n_buf; i++) buf[i] = w.memory[e.buf[i]], count_of[i] = w.g.node[e.buf[i]].shape->count;
  const char *wrong = threads_run(&e.kir, buf, count_of, NULL, 1, 2, text);
  cr_assert_null(wrong, "%s", wrong);
  const float *x = (const float *)w.memory[0] + n, *got = (const float *)w.memory[y] + n;
  double most = -INFINITY, sum = 0, worst = 0;
  for (int64_t i = 0; i < n; i++) most = fmax(most, x[i]);
  for (int64_t i = 0; i < n; i++) sum += exp(x[i] - most);
  for (int64_t i = 0; i < n; i++) worst = fmax(worst, fabs(got[i] / (exp(x[i] - most) / sum) - 1));
  cr_expect_leq(worst, 1e-5, "%g", worst);
  tc_kir_destroy(&e.kir);
  release(&w);
}

Test(gpu_clusters, a_row_is_spread_over_as_many_blocks_as_hold_it) {
  static const struct {
    int64_t n;
    int cluster, loads;
  } of[] = {{32768, 0, 2}, {32769, 4, 2}, {65536, 4, 1}, {65537, 8, 2}, {131072, 8, 1}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    work w = begin();
    build_softmax(&w, TC_F32, of[i].n);
    tc_emit_result e = expanded(&w, &hopper);
    cr_expect_eq(e.kir.cluster, of[i].cluster, "%lld: %d blocks", (long long)of[i].n, e.kir.cluster);
    cr_expect_eq(n_loads(&w, &e), of[i].loads, "%lld: %d loads", (long long)of[i].n, n_loads(&w, &e));
    tc_kir_destroy(&e.kir);
    release(&w);
  }
}

Test(gpu_clusters, a_device_without_them_has_none) {
  work w = begin();
  build_softmax(&w, TC_F32, 65536);
  tc_emit_result e = expanded(&w, &ampere);
  cr_expect_eq(e.kir.cluster, 0);
  cr_expect_eq(n_loads(&w, &e), 3);  // the powers of so long a row are not kept either
  tc_kir_destroy(&e.kir);
  release(&w);
}

Test(gpu_clusters, rows_give_the_sums) {
  expect_sums(build_softmax, TC_F32, 131072);
  expect_sums(build_softmax, TC_F32, 40001);
}

Test(gpu_clusters, a_kernel_of_several_blocks_has_no_memory_of_one) {
  work w = begin();
  char text[200];
  build_softmax(&w, TC_F32, 65536);
  tc_emit_result e = expanded(&w, &hopper);
  cr_expect_eq(tc_kir_verify(&e.kir, text, sizeof text), TC_OK, "%s", text);
  cr_assert_gt(e.kir.n_tile, 0);
  e.kir.tile[0].of_lanes = 0;
  cr_expect_neq(tc_kir_verify(&e.kir, text, sizeof text), TC_OK);
  e.kir.tile[0].of_lanes = 1, e.kir.cluster = 16;
  cr_expect_neq(tc_kir_verify(&e.kir, text, sizeof text), TC_OK);
  e.kir.cluster = 4, e.kir.groups = 2;
  cr_expect_neq(tc_kir_verify(&e.kir, text, sizeof text), TC_OK);
  tc_clear_error();
  tc_kir_destroy(&e.kir);
  release(&w);
}

Test(gpu_clusters, rows_stay_in_registers) {
  static const struct {
    const char *name;
    build *of;
    tc_type type;
    int64_t n;
  } of[] = {{"softmax", build_softmax, TC_F32, 131072},
            {"softmax of halves", build_softmax, TC_BF16, 131072},
            {"softmax, a tail", build_softmax, TC_F32, 100000},
            {"norm", build_norm, TC_F32, 131072},
            {"norm, four blocks", build_norm, TC_F32, 50000}};
  static const char *const word[] = {"barrier.cluster.arrive.aligned", "mapa.u64", "ld.global.nc.v",
                                     ".reqnctapercluster", NULL};
  find_nvrtc();
  words_of = "compute_90";
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    work w = begin();
    of[i].of(&w, of[i].type, of[i].n);
    expect_kernels(&w, TC_FUSION_ROW, of[i].name, word, 1);
    release(&w);
  }
}
