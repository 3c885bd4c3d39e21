// Matrix products for a GPU: their kernels, run in step on the host, give the bits of the
// processor's kernels, whatever the shape, the way operands lie, and what comes before and after;
// and they use the device's wide accesses, copies and matrix instructions where they can.
#include <criterion/criterion.h>

#include "lowering/codegen/interp/interp.h"
#include "lowering/emit/gpu/matmul_common.h"
#include "lowering/graph/split_k.h"
#include "lowering/kir/libm.h"
#include "lowering/kir/verify.h"
#include "runtime/options.h"
#include "runtime/team.h"
#include "tests/lowering/graph_build.h"
#include "tests/threads.h"

// ---- running ----

typedef struct seen {
  int n_mma, n_mfma, n_ldmatrix, n_copies, n_wide, n_wgmma;
  int64_t extent;
} seen;

static void look(const tc_kir *n, seen *s) {
  for (uint32_t i = 0; i < n->n_inst; i++) {
    const tc_kir_inst *x = &n->inst[i];
    s->n_mma += x->op == TC_IR_MMA, s->n_mfma += x->op == TC_IR_MFMA, s->n_ldmatrix += x->op == TC_IR_LDMATRIX,
        s->n_copies += x->op == TC_IR_COPY;
    s->n_wgmma += x->op == TC_IR_WGMMA;
    int bytes = x->lanes / TC_MAX_OF(n->threads, 1) * (int)tc_type_bytes((tc_type)x->dtype);
    s->n_wide += x->op == TC_IR_GATHER && x->imm < n->n_buf && bytes == 16 && n->inst[x->src[0]].lanes == n->threads;
  }
}

static void run_expansion(const work *w, const tc_emit_result *e, const char *what) {
  void *buf[TC_MAX_BUFS];
  int64_t n[TC_MAX_BUFS];
  uint64_t num[TC_MAX_NUMS];
  char text[200];
  for (uint32_t i = 0; i < e->n_buf; i++) buf[i] = w->memory[e->buf[i]], n[i] = w->g.node[e->buf[i]].shape->count;
  for (uint32_t i = 0; i < e->n_num; i++) num[i] = e->num[i].value;
  cr_assert_eq(tc_kir_verify(&e->kir, text, sizeof text), TC_OK, "%s: %s", what, text);
  if (e->kir.threads) {
    const char *wrong = threads_run(&e->kir, buf, n, num, 0, e->extent, text);
    cr_assert_null(wrong, "%s: %s", what, wrong);
    return;
  }
  tc_interp *p;
  cr_assert_eq(tc_interp_create(&e->kir, &p), TC_OK);
  size_t bytes = (tc_interp_scratch(p) + 63) / 64 * 64;
  tc_worker worker = {.scratch = aligned_alloc(64, bytes), .math = tc_kir_math_table()};
  tc_interp_run(p, buf, num, 0, e->extent, &worker);
  free(worker.scratch);
  tc_interp_destroy(p);
}

// Runs the graph, products by kernels for the target, NULL: for a processor. Everything stored is
// kept in memory.
static void run_graph(work *w, const tc_target *target, const char *what, seen *s) {
  tc_fusion_plan gr;
  uint8_t *must_materialize = calloc(w->g.n, 1);
  cr_assert_eq(tc_fusion_build(&gr, &w->g, &w->arena, must_materialize, TC_FUSE_ANY), TC_OK, "%s", what);
  bool *done = calloc(gr.n_fusion + 1, sizeof *done);
  for (uint32_t i = 0; i < w->g.n_order; i++) {
    uint32_t n = w->g.order[i];
    if (w->g.node[n].leaf != TC_LEAF_NONE) continue;
    if (gr.stored[n] && gr.alias[n] == n && !w->memory[n]) w->memory[n] = calloc(bytes_of(w, n) + 16, 1);
  }
  for (uint32_t i = 0; i < w->g.n_order; i++) {
    uint32_t g = gr.of[w->g.order[i]];
    if (g == TC_FUSION_NONE || done[g]) continue;
    done[g] = true;
    tc_emit_result e;
    bool product = gr.fusion[g].kind == TC_FUSION_MATMUL;
    w->g.target = product && target ? *target : (tc_target){.gpu = NULL};
    tc_status st = tc_emit_fusion(&e, &gr, &gr.fusion[g], product ? w->tiling : NULL, &w->arena);
    if (w->tiling && st == TC_ERR_STATE) {
      w->refused = true;
      break;
    }
    cr_assert_eq(st, TC_OK, "%s: %d, not_affine %u: %s", what, (int)st, e.not_affine, tc_last_error()->message);
    if (product && s) look(&e.kir, s), s->extent = e.extent;
    run_expansion(w, &e, what);
    tc_kir_destroy(&e.kir);
  }
  free(done), free(must_materialize);
}

static void expect_same(const work *a, const work *b, const char *what) {
  for (uint32_t n = 0; n < a->g.n; n++) {
    if (a->g.node[n].out == TC_LEAF_NONE) continue;
    const unsigned char *x = a->memory[n], *y = b->memory[n];
    size_t each = tc_type_bytes(a->g.node[n].type);
    for (size_t i = 0; i < bytes_of(a, n); i++)
      cr_assert_eq(x[i], y[i], "%s: result %u differs at element %zu of %lld", what, n, i / each,
                   (long long)a->g.node[n].shape->count);
  }
}

// Narrow products add in another order; then elements are near.
static void expect_near(const work *a, const work *b, double within, const char *what) {
  for (uint32_t n = 0; n < a->g.n; n++) {
    if (a->g.node[n].out == TC_LEAF_NONE) continue;
    cr_assert_eq(a->g.node[n].type, TC_F32);
    const float *x = a->memory[n], *y = b->memory[n];
    for (int64_t i = 0; i < a->g.node[n].shape->count; i++)
      cr_assert(__builtin_fabs((double)x[i] - (double)y[i]) <= within * (1 + __builtin_fabs((double)y[i])),
                "%s: %g, should be %g, at %lld", what, (double)x[i], (double)y[i], (long long)i);
  }
}

static void check(const problem *p, const tc_target *target, seen *s) {
  work host = begin(), device = begin();
  build_product(&host, p);
  build_product(&device, p);
  run_graph(&host, NULL, p->name, NULL);
  run_graph(&device, target, p->name, s);
  if (TC_MIN(p->m, p->n) > 8)
    expect_same(&device, &host, p->name);
  else
    expect_near(&device, &host, 1e-4, p->name);
  release(&host);
  release(&device);
}

Test(gpu_product, every_shape_and_way_to_lie_gives_the_bits_of_the_processor) {
  static const problem problems[] = {
      {"whole", TC_F32, 1, 64, 64, 32, false, false, false},
      {"odd", TC_F32, 1, 67, 45, 37, false, false, true},
      {"odd, left transposed", TC_F32, 1, 67, 45, 37, true, false, true},
      {"odd, right transposed", TC_F32, 1, 67, 45, 37, false, true, true},
      {"both transposed", TC_F32, 1, 68, 36, 20, true, true, true},
      {"large", TC_F32, 1, 200, 300, 70, false, false, true},
      {"large, both transposed", TC_F32, 1, 132, 260, 48, true, true, false},
      {"batch", TC_F32, 3, 33, 20, 21, false, true, true},
      {"one step", TC_F32, 1, 40, 40, 1, false, false, true},
      {"tall", TC_F32, 1, 300, 9, 40, false, false, true},
      {"wide", TC_F32, 1, 10, 300, 40, false, false, true},
      {"chains", TC_F32, 1, 10, 12, 4701, false, true, true},
      {"chains, both transposed", TC_F32, 1, 9, 33, 4608, true, false, false},
      {"f64", TC_F64, 1, 70, 66, 50, false, true, true},
      {"i32", TC_I32, 1, 33, 65, 40, true, false, true},
      {"i8", TC_I8, 1, 33, 64, 40, false, false, true},
      {"i64", TC_I64, 1, 20, 17, 9, false, false, true},
      {"bf16", TC_BF16, 1, 64, 72, 40, false, false, true},
      {"f16", TC_F16, 1, 35, 72, 41, false, true, true},
  };
  for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
    seen s = {0};
    check(&problems[i], &plain, &s);
    cr_expect(i > 0 || s.n_wide > 0, "%s: nothing is read 16 bytes at a time", problems[i].name);
  }
}

Test(gpu_product, halves_go_through_matrix_instructions_with_the_same_chain_of_sums) {
  static const problem problems[] = {
      {"bf16", TC_BF16, 1, 128, 128, 64, false, true, false},
      {"f16", TC_F16, 1, 128, 128, 64, false, false, false},
      {"left transposed", TC_BF16, 1, 72, 136, 40, true, false, true},
      {"both transposed", TC_BF16, 1, 72, 136, 40, true, true, true},
      {"odd steps", TC_BF16, 1, 40, 72, 37, false, true, true},
      {"odd everything", TC_F16, 1, 43, 71, 37, false, false, true},
      {"few rows", TC_BF16, 1, 12, 200, 96, false, true, true},
      {"few columns", TC_BF16, 1, 200, 24, 96, true, false, true},
      {"batch", TC_BF16, 3, 32, 40, 48, false, false, true},
      {"many chunks", TC_BF16, 1, 64, 64, 328, false, true, false},
      {"chains", TC_BF16, 1, 16, 24, 4712, false, true, true},
      {"chains, odd", TC_F16, 1, 17, 12, 4661, true, false, true},
      {"one step", TC_BF16, 1, 16, 16, 1, false, false, true},
      {"steps of two", TC_F16, 1, 64, 48, 34, false, true, true},
  };
  for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
    seen s = {0};
    check(&problems[i], &ampere, &s);
    cr_expect(s.n_mma > 0 && s.n_ldmatrix > 0, "%s: %d matrix instructions", problems[i].name, s.n_mma);
    check(&problems[i], &cdna, &s);
    cr_expect(s.n_mfma > 0, "%s: none of AMD's matrix instructions", problems[i].name);
  }
}

static const tc_target hopper = {
    .threads_most = 1024, .warp = 32, .shared_bytes = 227 << 10, .processors = 132, .mma = true, .wgmma = true};

// By four warps, where operands can be fetched; else as on any other device.
Test(gpu_product, boxes_go_through_four_warps_with_the_same_chain_of_sums) {
  static const struct {
    problem p;
    bool fetched;
  } problems[] = {
      {{"whole", TC_BF16, 1, 128, 256, 128, false, true, false}, true},
      {{"f16, both along columns", TC_F16, 1, 128, 128, 64, true, false, true}, true},
      {{"left transposed", TC_BF16, 1, 136, 72, 72, true, true, true}, true},
      {{"right transposed", TC_BF16, 1, 72, 136, 136, false, true, true}, true},
      {{"edges", TC_F16, 1, 200, 328, 200, false, false, true}, true},
      {{"edges, both transposed", TC_BF16, 1, 72, 264, 88, true, true, false}, true},
      {{"batch", TC_BF16, 3, 64, 72, 80, false, false, true}, true},
      {{"more chunks than stages", TC_BF16, 1, 64, 64, 648, false, true, false}, true},
      {{"chains", TC_BF16, 1, 64, 64, 4616, false, true, true}, true},
      {{"rows that are not aligned", TC_BF16, 1, 64, 64, 67, false, true, true}, false},
      {{"few rows", TC_BF16, 1, 40, 256, 64, false, false, true}, false},
      {{"few steps", TC_F16, 1, 128, 128, 32, false, false, false}, false},
      {{"f32", TC_F32, 1, 64, 64, 64, false, false, false}, false},
  };
  for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
    seen s = {0};
    check(&problems[i].p, &hopper, &s);
    cr_expect_eq(s.n_wgmma, problems[i].fetched ? 1 : 0, "%s: %d products of four warps", problems[i].p.name,
                 s.n_wgmma);
    s = (seen){0};
    check(&problems[i].p, &ampere, &s);
    cr_expect_eq(s.n_wgmma, 0, "%s: %d products of four warps that nobody asked for", problems[i].p.name, s.n_wgmma);
  }
}

// The kernel of a product by four warps.
static tc_emit_result fetched(work *w) {
  static const problem p = {"fetched", TC_BF16, 2, 128, 128, 256, false, true, false};
  tc_fusion_plan gr;
  tc_emit_result e;
  uint8_t *must_materialize = calloc(MOST_NODES, 1);
  build_product(w, &p);
  w->g.target = hopper;
  cr_assert_eq(tc_fusion_build(&gr, &w->g, &w->arena, must_materialize, TC_FUSE_ANY), TC_OK);
  cr_assert_eq(gr.n_fusion, 1);
  cr_assert_eq(tc_emit_fusion(&e, &gr, &gr.fusion[0], NULL, &w->arena), TC_OK, "%s", tc_last_error()->message);
  free(must_materialize);
  return e;
}

Test(gpu_product, what_is_fetched_is_whole_boxes_of_aligned_matrices) {
  work w = begin();
  tc_emit_result e = fetched(&w);
  tc_kir *n = &e.kir;
  char text[200];
  cr_assert_eq(n->n_map, 2);
  cr_expect_eq(tc_kir_verify(n, text, sizeof text), TC_OK, "%s", text);
#define REFUSED(field, value) \
  do { \
    __typeof__(field) was = field; \
    field = (value); \
    cr_expect_eq(tc_kir_verify(n, text, sizeof text), TC_ERR_ARG, #field " = " #value); \
    field = was; \
  } while (0)
  REFUSED(n->map[0].buffer, n->n_buf);
  REFUSED(n->map[0].tile, 2);  // of f32
  REFUSED(n->map[0].first, 4);
  REFUSED(n->map[1].stride[0], 257);
  REFUSED(n->map[1].stride[1], 0);
  REFUSED(n->map[1].extent[2], 0);
  REFUSED(n->stages, 0);
  REFUSED(n->stages, 3);
  REFUSED(n->n_map, 3);
  REFUSED(n->n_map, 1);
  REFUSED(n->tile[1].offset, n->tile[1].offset + 64);
  for (uint32_t i = 0; i < n->n_inst; i++) {
    if (n->inst[i].op == TC_IR_TMA_LOAD) REFUSED(n->inst[i].flags, 128);
    if (n->inst[i].op == TC_IR_TMA_LOAD) REFUSED(n->inst[i].src[3], TC_NONE);
    if (n->inst[i].op == TC_IR_WGMMA) REFUSED(n->inst[i].imm, 2 << 8);
    if (n->inst[i].op == TC_IR_WGMMA) REFUSED(n->inst[i].src[2], n->inst[i].src[0]);
    if (n->inst[i].op == TC_IR_WGMMA_WAIT) REFUSED(n->inst[i].imm, 2);
  }
#undef REFUSED
  tc_kir_destroy(n);
  release(&w);
}

// The stepper finds what the simulated driver would, and knows nothing of printing.
Test(gpu_product, a_product_that_is_not_awaited_is_found) {
  static const struct {
    tc_kir_op op;  // whose last one is left out: it becomes another wait, that has no effect
    const char *says;
  } planted[] = {{TC_IR_TMA_WAIT, "not there"}, {TC_IR_WGMMA_WAIT, "being added to"}};
  for (int p = 0; p < 2; p++) {
    work w = begin();
    tc_emit_result e = fetched(&w);
    void *buf[3];
    int64_t n[3];
    char text[200];
    for (uint32_t i = 0; i < e.n_buf; i++) {
      if (!w.memory[e.buf[i]]) w.memory[e.buf[i]] = calloc(bytes_of(&w, e.buf[i]) + 16, 1);
      buf[i] = w.memory[e.buf[i]], n[i] = w.g.node[e.buf[i]].shape->count;
    }
    cr_expect_null(threads_run(&e.kir, buf, n, NULL, 0, 1, text), "%s", text);
    for (uint32_t i = e.kir.n_inst; i-- > 0;) {
      tc_kir_inst *x = &e.kir.inst[i];
      if (x->op != planted[p].op) continue;
      *x = (tc_kir_inst){.op = TC_IR_COMMIT, .src = {TC_NONE, TC_NONE, TC_NONE, TC_NONE}};
      break;
    }
    const char *wrong = threads_run(&e.kir, buf, n, NULL, 0, 1, text);
    cr_expect(wrong && strstr(wrong, planted[p].says), "%s", wrong ? wrong : "nothing was found");
    tc_kir_destroy(&e.kir);
    release(&w);
  }
}

Test(gpu_product, few_rows_or_columns_read_the_other_operand_once) {
  static const problem problems[] = {
      {"one row, along columns", TC_F32, 1, 1, 100, 70, false, false, true},
      {"one row, along k", TC_F32, 1, 1, 100, 300, false, true, true},
      {"three rows, along k", TC_F32, 1, 3, 37, 1000, false, true, true},
      {"three rows", TC_F32, 1, 3, 260, 67, false, false, true},
      {"one column", TC_F32, 1, 90, 1, 130, false, false, true},
      {"two columns", TC_F32, 1, 64, 2, 50, true, false, true},
      {"eight rows", TC_F32, 2, 8, 64, 129, false, false, true},
      {"two rows, chains, along k", TC_F32, 1, 2, 5, 33100, false, true, true},
      {"two rows, chains", TC_F32, 1, 2, 9, 33100, false, false, true},
      {"eight columns", TC_F32, 1, 300, 8, 40, false, true, true},
      {"one by one", TC_F32, 1, 1, 1, 1000, false, false, true},
      {"few of few", TC_F32, 5, 2, 3, 7, false, true, true},
  };
  for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
    check(&problems[i], &plain, NULL);
    check(&problems[i], &ampere, NULL);
  }
}

// What follows a product of one element and is made without it: a value that is the same for all
// threads, of which one stores it.
static void build_one_element(work *w) {
  tc_dims one = TC_SHAPE(1, 1);
  uint32_t a = leaf(w, TC_F32, one), b = leaf(w, TC_F32, one), c = leaf(w, TC_F32, one);
  uint32_t y = node(w, TC_OP_MATMUL, TC_F32, one, 2, (uint32_t[]){a, b}, 0, NULL);
  uint32_t beside = elem(w, TC_OP_NEG, TC_F32, one, c, 0);
  want(w, beside), want(w, elem(w, TC_OP_ADD, TC_F32, one, y, beside));
}

Test(gpu_product, a_result_beside_a_product_of_one_element_is_stored_by_one_thread) {
  work host = begin(), device = begin();
  build_one_element(&host);
  build_one_element(&device);
  run_graph(&host, NULL, "one element", NULL);
  run_graph(&device, &plain, "one element", NULL);
  expect_same(&device, &host, "one element");
  release(&host);
  release(&device);
}

// ---- operands that are made ----

static seen check_convolution(tc_type type, int64_t channels, int64_t stride, const tc_target *target) {
  work host = begin(), device = begin();
  seen s = {0};
  char what[100];
  snprintf(what, sizeof what, "%s, %lld channels, stride %lld", tc_type_name(type), (long long)channels,
           (long long)stride);
  build_convolution(&host, type, 9, channels, stride, true);
  build_convolution(&device, type, 9, channels, stride, false);
  run_graph(&host, NULL, what, NULL);
  run_graph(&device, target, what, &s);
  expect_same(&device, &host, what);
  release(&host);
  release(&device);
  return s;
}

Test(gpu_product, windows_of_an_image_are_read_where_they_lie) {
  for (int stride = 1; stride <= 2; stride++) {
    check_convolution(TC_F32, 3, stride, &plain);
    check_convolution(TC_F32, 8, stride, &plain);
    seen s = check_convolution(TC_BF16, 16, stride, &ampere);
    cr_expect(s.n_copies > 0 && s.n_mma > 0, "%d copies", s.n_copies);
    s = check_convolution(TC_BF16, 6, stride, &ampere);
    cr_expect(s.n_mma > 0);
    s = check_convolution(TC_BF16, 6, stride, &cdna);
    cr_expect(s.n_mfma > 0);
    s = check_convolution(TC_F16, 16, stride, &cdna);
    cr_expect(s.n_mfma > 0);
    s = check_convolution(TC_BF16, 32, stride, &ampere);
    cr_expect(s.n_copies > 0 && s.n_mma > 0, "%d copies", s.n_copies);
  }
}

// A weight of bytes times a scale for each column, made where the product reads it, or before.
static void build_scaled(work *w, tc_type type, int64_t m, int64_t n, int64_t k, bool turn, bool made) {
  tc_dims d = turn ? TC_SHAPE(n, k) : TC_SHAPE(k, n);
  uint32_t scale = leaf(w, type, turn ? TC_SHAPE(n, 1) : TC_SHAPE(1, n)), bytes = leaf(w, TC_I8, d),
           a = leaf(w, type, TC_SHAPE(m, k));
  uint32_t wide = node(w, TC_OP_CAST, type, d, 1, &bytes, 0, NULL);
  uint32_t scaled = elem(w, TC_OP_MUL, type, d, wide, expand_to(w, scale, d));
  w->g.node[wide].prologue = w->g.node[scaled].prologue = made ? 1 : 0;
  want(w,
       node(w, TC_OP_MATMUL, type, TC_SHAPE(m, n), 2, (uint32_t[]){a, turn ? transposed(w, scaled) : scaled}, 0, NULL));
}

Test(gpu_product, a_weight_of_bytes_is_widened_and_scaled_where_it_is_staged) {
  static const int64_t shape[][3] = {{40, 64, 64}, {33, 45, 37}, {16, 80, 96}};
  for (int i = 0; i < 3; i++)
    for (int turn = 0; turn < 2; turn++)
      for (int type = 0; type < 2; type++) {
        work host = begin();
        tc_type t = type ? TC_BF16 : TC_F32;
        build_scaled(&host, t, shape[i][0], shape[i][1], shape[i][2], turn, false);
        run_graph(&host, NULL, "scaled", NULL);
        for (int k = 0; k < 2; k++) {
          work device = begin();
          build_scaled(&device, t, shape[i][0], shape[i][1], shape[i][2], turn, true);
          run_graph(&device, k ? &cdna : &ampere, "scaled", NULL);
          for (uint32_t n = 0; n < device.g.n; n++)
            if (device.g.node[n].prologue) cr_expect_null(device.memory[n], "node %u is stored", n);
          expect_same(&device, &host, "scaled");
          release(&device);
        }
        release(&host);
      }
}

static int made_by_products(tc_type type, int64_t rows) {
  work w = begin();
  int n = 0;
  build_scaled(&w, type, rows, 64, 64, false, false);
  w.g.target = ampere;
  cr_assert_eq(tc_pass_mark_prologue(&w.g), TC_OK);
  for (uint32_t i = 0; i < w.g.n; i++) n += w.g.node[i].prologue != 0;
  release(&w);
  return n;
}

Test(gpu_product, a_weight_of_bytes_that_many_tiles_of_rows_read_is_widened_once) {
  cr_expect_eq(made_by_products(TC_BF16, 16), 2);
  cr_expect_eq(made_by_products(TC_BF16, 4096), 0);
  cr_expect_eq(made_by_products(TC_F32, 4096), 2);
}

Test(gpu_product, random_shapes) {
  uint32_t seed = 7;
  for (int i = 0; i < 40; i++) {
    int64_t d[3];
    for (int k = 0; k < 3; k++) seed = seed * 1664525 + 1013904223, d[k] = 1 + (seed >> 16) % (i % 3 ? 90 : 300);
    seed = seed * 1664525 + 1013904223;
    uint32_t bits = seed >> 24;
    problem p = {"random",      bits & 1 ? TC_F32 : bits & 2 ? TC_BF16 : TC_F16,
                 1 + bits % 2,  d[0],
                 d[1],          d[2] % 120 + 1,
                 bits >> 4 & 1, bits >> 5 & 1,
                 bits >> 6 & 1};
    if (TC_MIN(p.m, p.n) <= 8 && p.type != TC_F32) p.type = TC_F32;
    char name[100];
    snprintf(name, sizeof name, "%s %lld x %lld x %lld x %lld, ways %u", tc_type_name(p.type), (long long)p.batch,
             (long long)p.m, (long long)p.n, (long long)p.k, bits);
    p.name = name;
    check(&p, bits & 8 ? bits & 128 ? &cdna : &ampere : &plain, NULL);
  }
}

// ---- long k ----

static void order_again(work *w, uint32_t n, bool *done) {
  if (done[n]) return;
  done[n] = true;
  for (int k = 0; k < w->g.node[n].n_in; k++) order_again(w, w->g.node[n].in[k], done);
  w->g.order[w->g.n_order++] = n;
}

static int split_all(work *w) {
  uint32_t before = w->g.n;
  bool done[MOST_NODES] = {false};
  w->g.arena = &w->arena;
  cr_assert_eq(tc_pass_split_k(&w->g), TC_OK);
  cr_assert_leq(w->g.n, MOST_NODES);
  w->g.n_order = 0;
  for (uint32_t n = 0; n < w->g.n; n++)
    if (w->g.node[n].out != TC_LEAF_NONE) order_again(w, n, done);
  return (int)(w->g.n - before);
}

Test(gpu_product, long_k_of_few_elements_is_split_by_shape_and_added_in_order) {
  static const problem problems[] = {
      {"long", TC_F32, 1, 40, 30, 2048, false, false, true},
      {"long, left transposed", TC_BF16, 1, 40, 32, 2048, true, false, true},
      {"long, right transposed", TC_BF16, 1, 64, 40, 4096, false, true, true},
      {"batch", TC_F32, 2, 20, 30, 1536, true, true, false},
      {"few rows", TC_F32, 1, 2, 100, 8192, false, true, true},
  };
  for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
    const problem *p = &problems[i];
    work whole = begin(), host = begin();
    build_product(&whole, p), build_product(&host, p);
    cr_expect_gt(split_all(&host), 0, "%s", p->name);
    run_graph(&whole, NULL, p->name, NULL);
    run_graph(&host, NULL, p->name, NULL);
    for (int k = 0; k < 2; k++) {
      work device = begin();
      build_product(&device, p);
      cr_expect_gt(split_all(&device), 0, "%s", p->name);
      run_graph(&device, k ? &cdna : &ampere, p->name, NULL);
      if (p->m > 8) expect_same(&device, &host, p->name);
      if (p->type == TC_F32) expect_near(&device, &whole, 2e-4, p->name);
      release(&device);
    }
    release(&whole), release(&host);
  }
  cr_expect_eq(tc_gpu_parts_of(1, 4096, 4096, 1 << 20), 1);
  cr_expect_eq(tc_gpu_parts_of(1, 64, 64, 512), 1);
  cr_expect_eq(tc_gpu_parts_of(1, 64, 64, 2049), 1);
  cr_expect_eq(tc_gpu_parts_of(1, 576, 64, 50176), 32);
}

// ---- tiles ----

// With every tile of the list; some have no kernel for operands that registers make. Returns how
// many were run.
static int check_tiles(const problem *p, const tc_target *target, const tc_gpu_gemm_tiling *tiling, int n) {
  int n_run = 0;
  work model = begin();
  build_product(&model, p);
  run_graph(&model, target, p->name, NULL);
  for (int i = 0; i < n; i++) {
    tc_gemm_tiling given;
    char what[100];
    work w = begin();
    for (int k = 0; k < TC_N_TILING; k++) given.of[k] = -1;
    given.of[TC_TILING_ROWS] = tiling[i].rows, given.of[TC_TILING_LANES] = tiling[i].columns;
    snprintf(what, sizeof what, "%s, by %d x %d", p->name, tiling[i].rows, tiling[i].columns);
    build_product(&w, p);
    w.tiling = &given;
    run_graph(&w, target, what, NULL);
    if (!w.refused) expect_same(&w, &model, what), n_run++;
    tc_clear_error();
    release(&w);
  }
  release(&model);
  return n_run;
}

Test(gpu_product, the_size_of_a_tile_changes_no_bit) {
  static const problem halves[] = {{"bf16", TC_BF16, 1, 136, 144, 104, false, true, true},
                                   {"f16, odd", TC_F16, 1, 131, 77, 69, true, false, true}};
  static const problem floats[] = {{"f32", TC_F32, 1, 132, 72, 68, false, true, true},
                                   {"f64", TC_F64, 1, 70, 67, 35, false, false, true}};
  static const problem long_half = {"bf16, chains", TC_BF16, 1, 40, 36, 4232, false, true, true},
                       long_float = {"f32, chains", TC_F32, 1, 36, 40, 4203, true, false, true};
  int n;
  const tc_gpu_gemm_tiling *tilings = tc_gemm_mfma_tilings(&n);
  cr_expect_geq(check_tiles(&long_half, &cdna, tilings, n), 7);
  tilings = tc_gemm_simt_tilings(&(tc_gemm){.acc = TC_F32}, &n);
  cr_expect_eq(check_tiles(&long_float, &ampere, tilings, n), n);
  tilings = tc_gemm_mma_tilings(&n);
  cr_expect_geq(check_tiles(&long_half, &ampere, tilings, n), 4);
  for (int i = 0; i < 2; i++) {
    const tc_gpu_gemm_tiling *tiling = tc_gemm_mma_tilings(&n);
    cr_expect_geq(check_tiles(&halves[i], &ampere, tiling, n), 6, "%s", halves[i].name);
    tiling = tc_gemm_wgmma_tilings(&n);
    if (i == 0) cr_expect_eq(check_tiles(&halves[i], &hopper, tiling, n), n, "%s", halves[i].name);
    tiling = tc_gemm_mfma_tilings(&n);
    cr_expect_eq(check_tiles(&halves[i], &cdna, tiling, n), n, "%s", halves[i].name);
    tiling = tc_gemm_simt_tilings(&(tc_gemm){.acc = floats[i].type}, &n);
    cr_expect_eq(check_tiles(&floats[i], &ampere, tiling, n), n, "%s", floats[i].name);
  }
}

static int64_t units_by(const char *tile) {
  static const problem p = {"by a tile that is asked for", TC_BF16, 1, 136, 144, 64, false, true, false};
  seen s = {0};
  if (tile) setenv("TC_GPU_TILE", tile, 1);
  tc_options_reload();
  check(&p, &ampere, &s);
  unsetenv("TC_GPU_TILE");
  tc_options_reload();
  return s.extent;
}

Test(gpu_product, a_tile_may_be_asked_for) {
  cr_expect_eq(units_by("32x128"), 10);
  cr_expect_eq(units_by("128x128"), 4);
  cr_expect_eq(units_by("7x7"), units_by(NULL));
  cr_expect_eq(units_by("none"), units_by(NULL));
}
