// Attention for a GPU: its kernels, run in step on the host, against sums in double precision,
// whatever the shape, the mask and the way operands lie; how many rows a block has changes no bit.
#include <criterion/criterion.h>
#include <math.h>

#include "lowering/emit/gpu/flash_common.h"
#include "lowering/kir/verify.h"
#include "runtime/options.h"
#include "tests/lowering/graph_build.h"
#include "tests/threads.h"

typedef struct attend {
  const char *name;
  tc_type type;
  int64_t n, hq, hkv, l, keys, e, ev;
  bool causal;
  int64_t length;  // 0: none
  tc_type mask;  // U8: none
  int64_t mask_dim[4];
} attend;

enum { Q, K, V, DOUT, OUT, LSE, DELTA, DQ, DK, DV, N_PARTS };

// One problem: operands, in double too, and what is to come out.
typedef struct lesson {
  const attend *p;
  work w;
  uint32_t q, k, v, dout, scale, length, mask, sums, delta;
  uint32_t result[N_PARTS];
  double *part[N_PARTS], *weight;
  int n_of[TC_N_KIR_OPS], n_groups;  // instructions, kernels of attention
  int64_t n_units;
} lesson;

static double value_at(const work *w, uint32_t n, int64_t i) {
  uint32_t u;
  float f;
  _Float16 h;
  switch (w->g.node[n].type) {
    case TC_F32: return (double)((const float *)w->memory[n])[i];
    case TC_F64: return ((const double *)w->memory[n])[i];
    case TC_F16: return memcpy(&h, (const char *)w->memory[n] + 2 * i, 2), (double)h;
    case TC_BF16: return u = (uint32_t)((const uint16_t *)w->memory[n])[i] << 16, memcpy(&f, &u, 4), (double)f;
    default: return ((const unsigned char *)w->memory[n])[i];
  }
}

static double *doubles_of(const work *w, uint32_t n) {
  int64_t count = w->g.node[n].shape->count;
  double *d = malloc((size_t)count * sizeof *d);
  for (int64_t i = 0; i < count; i++) d[i] = value_at(w, n, i);
  return d;
}

// ---- what should come out ----

static int64_t length_of(const attend *p) {
  return p->length ? p->length : p->keys;
}

static double score(const lesson *x, int64_t b, int64_t h, int64_t i, int64_t j) {
  const attend *p = x->p;
  const double *q = x->part[Q] + ((b * p->hq + h) * p->l + i) * p->e,
               *k = x->part[K] + ((b * p->hkv + h / (p->hq / p->hkv)) * p->keys + j) * p->e;
  double sum = 0;
  int64_t first_seen = p->length ? p->length - p->l : 0;
  if (j >= length_of(p) || (p->causal && j > first_seen + i)) return -INFINITY;
  for (int64_t c = 0; c < p->e; c++) sum += q[c] * k[c];
  sum /= sqrt((double)p->e);
  if (p->mask == TC_U8) return sum;
  const int64_t at[4] = {b, h, i, j};
  int64_t m = 0;
  for (int d = 0; d < 4; d++) m = m * p->mask_dim[d] + (p->mask_dim[d] == 1 ? 0 : at[d]);
  double v = value_at(&x->w, x->mask, m);
  return p->mask == TC_BOOL ? (v != 0 ? sum : -INFINITY) : sum + v;
}

// One row of weights, and what is kept of it.
static void weigh(lesson *x, int64_t b, int64_t h, int64_t i) {
  const attend *p = x->p;
  int64_t row = (b * p->hq + h) * p->l + i;
  double *w = x->weight + row * p->keys, top = -INFINITY, sum = 0;
  for (int64_t j = 0; j < p->keys; j++) w[j] = score(x, b, h, i, j), top = fmax(top, w[j]);
  for (int64_t j = 0; j < p->keys; j++) w[j] = top == -INFINITY ? 0 : exp(w[j] - top), sum += w[j];
  for (int64_t j = 0; j < p->keys; j++) w[j] /= sum > 0 ? sum : 1;
  x->part[LSE][2 * row] = sum > 0 ? top : 0, x->part[LSE][2 * row + 1] = sum > 0 ? log(sum) : 0;
}

static void expect_row(lesson *x, int64_t b, int64_t h, int64_t i) {
  const attend *p = x->p;
  int64_t row = (b * p->hq + h) * p->l + i, key_head = b * p->hkv + h / (p->hq / p->hkv);
  const double *w = x->weight + row * p->keys, *q = x->part[Q] + row * p->e,
               *dout = x->part[DOUT] + ((b * p->l + i) * p->hq + h) * p->ev;
  double *out = x->part[OUT] + ((b * p->l + i) * p->hq + h) * p->ev,
         *dq = x->part[DQ] + ((b * p->l + i) * p->hq + h) * p->e, delta = 0;
  weigh(x, b, h, i);
  for (int64_t j = 0; j < p->keys; j++)
    for (int64_t c = 0; c < p->ev; c++) out[c] += w[j] * x->part[V][(key_head * p->keys + j) * p->ev + c];
  for (int64_t c = 0; c < p->ev; c++) delta += out[c] * dout[c];
  x->part[DELTA][row] = delta;
  for (int64_t j = 0; j < p->keys; j++) {
    const double *k = x->part[K] + (key_head * p->keys + j) * p->e, *v = x->part[V] + (key_head * p->keys + j) * p->ev;
    int64_t to = ((b * p->keys + j) * p->hkv + h / (p->hq / p->hkv));
    double g = -delta, scale = 1 / sqrt((double)p->e);
    for (int64_t c = 0; c < p->ev; c++) g += dout[c] * v[c], x->part[DV][to * p->ev + c] += w[j] * dout[c];
    for (int64_t c = 0; c < p->e; c++)
      dq[c] += w[j] * g * scale * k[c], x->part[DK][to * p->e + c] += w[j] * g * scale * q[c];
  }
}

// ---- the graph ----

static uint32_t given(work *w, tc_type type, double v) {
  uint32_t n = leaf(w, type, (tc_dims){0});
  int64_t i = (int64_t)v;
  memcpy(w->memory[n], type == TC_F64 ? (void *)&v : (void *)&i, 8);
  return n;
}

static uint32_t mask_of(lesson *x) {
  const int64_t *d = x->p->mask_dim;
  return leaf(&x->w, x->p->mask, TC_SHAPE(d[0], d[1], d[2], d[3]));
}

// q, k and v as heads side by side in a row of projections, if `inside`.
static uint32_t heads_of(work *w, tc_type type, int64_t n, int64_t heads, int64_t rows, int64_t columns, bool inside) {
  if (!inside) return leaf(w, type, TC_SHAPE(n, heads, rows, columns));
  uint64_t order = 0 | 2 << 8 | 1 << 16 | 3 << 24;
  uint32_t a = leaf(w, type, TC_SHAPE(n, rows, heads, columns));
  return node(w, TC_OP_PERMUTE, type, TC_SHAPE(n, heads, rows, columns), 1, &a, 1, &order);
}

static uint32_t row_of(lesson *x, tc_op op, tc_type type, tc_dims d, int n, const uint32_t *first) {
  const attend *p = x->p;
  uint32_t in[9];
  memcpy(in, first, (size_t)n * sizeof *in);
  in[n++] = x->scale;
  if (p->length) in[n++] = x->length;
  if (p->mask != TC_U8) in[n++] = x->mask;
  uint32_t y = node(&x->w, op, type, d, n, in, 3, (uint64_t[]){p->causal, p->length > 0, p->mask != TC_U8});
  want(&x->w, y);
  return y;
}

static double *in_heads(const work *w, uint32_t n) {
  const tc_gnode *x = &w->g.node[n];
  if (x->leaf != TC_LEAF_NONE) return doubles_of(w, n);
  const int64_t *d = x->shape->d.dim;
  double *from = doubles_of(w, x->in[0]), *to = malloc((size_t)x->shape->count * sizeof *to);
  for (int64_t i = 0; i < x->shape->count; i++) {
    int64_t c = i % d[3], r = i / d[3] % d[2], h = i / d[3] / d[2] % d[1], b = i / d[3] / d[2] / d[1];
    to[i] = from[((b * d[2] + r) * d[1] + h) * d[3] + c];
  }
  free(from);
  return to;
}

static lesson begin_lesson(const attend *p, bool inside) {
  lesson x = {.p = p, .w = begin()};
  work *w = &x.w;
  x.q = heads_of(w, p->type, p->n, p->hq, p->l, p->e, inside),
  x.k = heads_of(w, p->type, p->n, p->hkv, p->keys, p->e, inside);
  x.v = heads_of(w, p->type, p->n, p->hkv, p->keys, p->ev, inside);
  x.scale = given(w, TC_F64, 1 / sqrt((double)p->e));
  if (p->length) x.length = given(w, TC_I64, (double)p->length);
  if (p->mask != TC_U8) x.mask = mask_of(&x);
  uint32_t dout = leaf(w, p->type, TC_SHAPE(p->n, p->l, p->hq, p->ev));
  uint64_t order = 0 | 2 << 8 | 1 << 16 | 3 << 24;
  x.dout = node(w, TC_OP_PERMUTE, p->type, TC_SHAPE(p->n, p->hq, p->l, p->ev), 1, &dout, 1, &order);
  x.part[Q] = in_heads(w, x.q), x.part[K] = in_heads(w, x.k), x.part[V] = in_heads(w, x.v),
  x.part[DOUT] = doubles_of(w, dout);
  const int64_t rows = p->n * p->hq * p->l, keys = p->n * p->hkv * p->keys;
  const int64_t size[N_PARTS] = {[OUT] = rows * p->ev, [LSE] = 2 * rows,   [DELTA] = rows,
                                 [DQ] = rows * p->e,   [DK] = keys * p->e, [DV] = keys * p->ev};
  for (int i = OUT; i < N_PARTS; i++) x.part[i] = calloc((size_t)size[i], sizeof(double)), x.result[i] = TC_NONE;
  x.weight = calloc((size_t)(rows * p->keys), sizeof(double));
  for (int64_t b = 0; b < p->n; b++)
    for (int64_t h = 0; h < p->hq; h++)
      for (int64_t i = 0; i < p->l; i++) expect_row(&x, b, h, i);
  return x;
}

static uint32_t wide_leaf(lesson *x, tc_dims d, int part) {
  tc_type wide = x->p->type == TC_F64 ? TC_F64 : TC_F32;
  uint32_t n = leaf(&x->w, wide, d);
  for (int64_t i = 0; i < x->w.g.node[n].shape->count; i++)
    if (wide == TC_F64)
      ((double *)x->w.memory[n])[i] = x->part[part][i];
    else
      ((float *)x->w.memory[n])[i] = (float)x->part[part][i];
  return n;
}

static void want_sums(lesson *x) {
  const attend *p = x->p;
  tc_type wide = p->type == TC_F64 ? TC_F64 : TC_F32;
  x->result[LSE] = row_of(x, TC_OP_ATTENTION_LSE, wide, TC_SHAPE(p->n, p->hq, p->l, 2), 2, (uint32_t[]){x->q, x->k});
}

static void want_forward(lesson *x) {
  const attend *p = x->p;
  x->result[OUT] =
      row_of(x, TC_OP_ATTENTION, p->type, TC_SHAPE(p->n, p->l, p->hq, p->ev), 3, (uint32_t[]){x->q, x->k, x->v});
  want_sums(x);
}

static void want_backward(lesson *x) {
  const attend *p = x->p;
  x->sums = wide_leaf(x, TC_SHAPE(p->n, p->hq, p->l, 2), LSE),
  x->delta = wide_leaf(x, TC_SHAPE(p->n, p->hq, p->l), DELTA);
  const uint32_t in[6] = {x->q, x->k, x->v, x->dout, x->sums, x->delta};
  x->result[DQ] = row_of(x, TC_OP_ATTENTION_DQ, p->type, TC_SHAPE(p->n, p->l, p->hq, p->e), 6, in);
  x->result[DK] = row_of(x, TC_OP_ATTENTION_DK, p->type, TC_SHAPE(p->n, p->keys, p->hkv, p->e), 6, in);
  x->result[DV] = row_of(x, TC_OP_ATTENTION_DV, p->type, TC_SHAPE(p->n, p->keys, p->hkv, p->ev), 6, in);
}

static void end_lesson(lesson *x) {
  for (int i = 0; i < N_PARTS; i++) free(x->part[i]);
  free(x->weight);
  release(&x->w);
}

// ---- running ----

static void *unwritten(const work *w, uint32_t n) {
  void *p = malloc(bytes_of(w, n));
  return memset(p, 0x7F, bytes_of(w, n));  // large or not a number, whatever the type
}

static void look(lesson *x, const tc_kir *n) {
  x->n_groups++;
  for (uint32_t i = 0; i < n->n_inst; i++) x->n_of[n->inst[i].op]++;
}

static void run_group(lesson *x, const tc_fusion_plan *gr, const tc_fusion *group) {
  work *w = &x->w;
  tc_emit_result e;
  void *buf[TC_MAX_BUFS];
  int64_t n[TC_MAX_BUFS];
  uint64_t num[TC_MAX_NUMS];
  char text[200];
  tc_status st = tc_emit_fusion(&e, gr, group, w->tiling, &w->arena);
  w->refused = w->tiling && st == TC_ERR_STATE;
  if (w->refused) return;
  cr_assert_eq(st, TC_OK, "%s: not_affine %u: %s", x->p->name, e.not_affine, tc_last_error()->message);
  for (uint32_t i = 0; i < e.n_buf; i++) {
    if (!w->memory[e.buf[i]]) w->memory[e.buf[i]] = unwritten(w, e.buf[i]);
    buf[i] = w->memory[e.buf[i]], n[i] = w->g.node[e.buf[i]].shape->count;
  }
  for (uint32_t i = 0; i < e.n_num; i++) num[i] = e.num[i].value;
  cr_assert_eq(tc_kir_verify(&e.kir, text, sizeof text), TC_OK, "%s: %s", x->p->name, text);
  cr_assert_leq((size_t)e.kir.scratch_bytes, w->g.target.shared_bytes, "%s", x->p->name);
  const char *wrong = threads_run(&e.kir, buf, n, num, 0, e.extent, text);
  cr_assert_null(wrong, "%s: %s", x->p->name, wrong);
  if (group->kind == TC_FUSION_ATTENTION) look(x, &e.kir), x->n_units += e.extent;
  tc_kir_destroy(&e.kir);
}

// What a group depends on first.
static void run_from(lesson *x, const tc_fusion_plan *gr, uint32_t g, bool *done) {
  if (done[g] || gr->fusion[g].merged != TC_FUSION_NONE) return;
  done[g] = true;
  for (const tc_fusion_link *l = gr->fusion[g].before; l; l = l->next)
    run_from(x, gr, tc_fusion_alive(gr, l->fusion), done);
  if (!x->w.refused) run_group(x, gr, &gr->fusion[g]);
}

static void run_lesson(lesson *x, const tc_target *target) {
  work *w = &x->w;
  tc_fusion_plan gr;
  w->g.target = *target;
  cr_assert(split_attention(w));
  uint8_t *must_materialize = calloc(w->g.n, 1);
  bool done[MOST_NODES] = {false};
  cr_assert_eq(tc_fusion_build(&gr, &w->g, &w->arena, must_materialize, TC_FUSE_ANY), TC_OK, "%s", x->p->name);
  for (int i = OUT; i < N_PARTS; i++) {
    if (x->result[i] != TC_NONE) w->memory[x->result[i]] = unwritten(w, x->result[i]);
  }
  for (uint32_t g = 0; g < gr.n_fusion; g++) run_from(x, &gr, g, done);
  free(must_materialize);
}

static void expect_near(const lesson *x) {
  static const char *const name[N_PARTS] = {[OUT] = "out", [LSE] = "lse", [DQ] = "dq", [DK] = "dk", [DV] = "dv"};
  for (int r = OUT; r < N_PARTS; r++) {
    if (x->result[r] == TC_NONE) continue;
    const tc_gnode *y = &x->w.g.node[x->result[r]];
    double most = 0, within = x->p->type == TC_F64   ? 1e-12
                              : x->p->type == TC_F32 ? 2e-5
                              : x->p->type == TC_F16 ? 4e-3
                                                     : 2.5e-2;
    if (r == LSE) within = x->p->type == TC_F64 ? 1e-12 : 1e-5;
    for (int64_t i = 0; i < y->shape->count; i++) most = fmax(most, fabs(x->part[r][i]));
    for (int64_t i = 0; i < y->shape->count; i++) {
      double have = value_at(&x->w, x->result[r], i), wanted = x->part[r][i];
      cr_assert(fabs(have - wanted) <= within * most + 1e-30, "%s: %s is %g, should be %g, at %lld of %lld", x->p->name,
                name[r], have, wanted, (long long)i, (long long)y->shape->count);
    }
  }
}

static lesson check(const attend *p, const tc_target *target, bool inside, bool backward) {
  lesson x = begin_lesson(p, inside);
  if (backward)
    want_backward(&x);
  else
    want_forward(&x);
  run_lesson(&x, target);
  expect_near(&x);
  return x;
}

#define NO_MASK TC_U8, {0, 0, 0, 0}
static const attend floats[] = {
    {"whole", TC_F32, 1, 2, 2, 64, 64, 64, 64, false, 0, NO_MASK},
    {"odd", TC_F32, 1, 1, 1, 37, 75, 19, 23, false, 0, NO_MASK},
    {"causal", TC_F32, 1, 2, 1, 70, 70, 32, 48, true, 0, NO_MASK},
    {"causal, more rows than keys", TC_F32, 1, 1, 1, 40, 20, 8, 8, true, 0, NO_MASK},
    {"causal, fewer rows of a cache", TC_F32, 1, 4, 2, 5, 90, 16, 16, true, 71, NO_MASK},
    {"heads of 256", TC_F32, 1, 1, 1, 18, 33, 256, 256, true, 0, NO_MASK},
    {"a length", TC_F32, 2, 2, 1, 9, 40, 12, 20, false, 13, NO_MASK},
    {"bools", TC_F32, 2, 2, 2, 20, 35, 16, 16, false, 0, TC_BOOL, {2, 1, 20, 35}},
    {"bools of keys", TC_F32, 2, 2, 2, 20, 33, 16, 16, true, 0, TC_BOOL, {2, 1, 1, 33}},
    {"floats", TC_F32, 1, 2, 2, 20, 33, 40, 16, true, 0, TC_F32, {1, 2, 20, 33}},
    {"floats of rows", TC_F32, 1, 2, 1, 20, 33, 8, 16, false, 0, TC_F32, {1, 2, 20, 1}},
    {"f64", TC_F64, 1, 2, 1, 19, 35, 24, 36, true, 0, NO_MASK},
};
static const attend halves[] = {
    {"bf16", TC_BF16, 1, 2, 2, 64, 64, 64, 64, false, 0, NO_MASK},
    {"f16, causal", TC_F16, 1, 4, 2, 70, 70, 32, 48, true, 0, NO_MASK},
    {"bf16, odd", TC_BF16, 1, 1, 1, 37, 75, 19, 23, false, 0, NO_MASK},
    {"bf16, heads of 256", TC_BF16, 1, 1, 1, 40, 70, 256, 256, true, 0, NO_MASK},
    {"bf16, heads of 80", TC_BF16, 1, 1, 1, 33, 40, 80, 80, true, 0, NO_MASK},
    {"f16, a cache", TC_F16, 1, 4, 2, 5, 90, 16, 16, true, 71, NO_MASK},
    {"bf16, bools", TC_BF16, 2, 2, 1, 20, 33, 16, 16, true, 0, TC_BOOL, {2, 1, 20, 33}},
    {"bf16, floats", TC_BF16, 1, 2, 2, 20, 33, 40, 16, false, 0, TC_BF16, {1, 1, 20, 33}},
};
static const attend decode[] = {
    {"one row to a head", TC_F32, 2, 2, 2, 1, 100, 64, 64, true, 77, NO_MASK},
    {"heads are rows", TC_F32, 1, 8, 2, 1, 100, 64, 64, true, 77, NO_MASK},
    {"heads are rows, bf16", TC_BF16, 2, 8, 2, 1, 100, 64, 64, false, 0, NO_MASK},
    {"heads are rows, bools", TC_F32, 2, 6, 2, 1, 50, 16, 16, false, 0, TC_BOOL, {2, 6, 1, 50}},
};

// Keys in parts: of half of them and more, of parts that are not full, that nobody sees, that a
// mask hides.
static const struct {
  attend of;
  int64_t units;  // a key head's or head's, times parts
} parts[] = {
    {{"two parts", TC_F32, 1, 2, 2, 1, 520, 16, 20, false, 0, NO_MASK}, 4},
    {{"heads are rows", TC_F32, 2, 6, 2, 1, 1030, 8, 8, true, 700, NO_MASK}, 16},
    {{"a part of 65 keys", TC_BF16, 1, 8, 2, 1, 833, 32, 64, true, 830, NO_MASK}, 4},
    {{"a few rows", TC_F16, 1, 2, 1, 5, 1024, 24, 16, true, 1001, NO_MASK}, 8},
    {{"nothing seen", TC_F32, 1, 1, 1, 3, 512, 8, 8, true, 1, NO_MASK}, 2},
    {{"bools", TC_F32, 2, 2, 1, 2, 530, 12, 16, false, 0, TC_BOOL, {2, 1, 1, 530}}, 8},
    {{"floats", TC_F64, 1, 2, 2, 3, 515, 8, 16, false, 450, TC_F64, {1, 1, 3, 515}}, 4},
};

#define COUNT(a) (sizeof(a) / sizeof *(a))

// by: the instruction that multiplies.
static void check_all(const attend *p, size_t n, const tc_target *target, bool backward, tc_kir_op by) {
  for (size_t i = 0; i < n; i++) {
    lesson x = check(&p[i], target, i % 2, backward);
    cr_expect_eq(x.n_of[TC_IR_MMA] > 0 && x.n_of[TC_IR_LDMATRIX] > 0, by == TC_IR_MMA, "%s: %d of NVIDIA's", p[i].name,
                 x.n_of[TC_IR_MMA]);
    cr_expect_eq(x.n_of[TC_IR_MFMA] > 0, by == TC_IR_MFMA, "%s: %d of AMD's", p[i].name, x.n_of[TC_IR_MFMA]);
    cr_expect(i > 0 || x.n_of[TC_IR_COPY] > 0 || by != TC_IR_MMA, "%s: nothing is copied", p[i].name);
    end_lesson(&x);
  }
}

Test(gpu_attention, every_shape_and_mask_of_floats_gives_the_sums) {
  check_all(floats, COUNT(floats), &plain, false, TC_IR_FMA);
}

Test(gpu_attention, halves_go_through_matrix_instructions) {
  check_all(halves, COUNT(halves), &ampere, false, TC_IR_MMA);
  check_all(halves, COUNT(halves), &cdna, false, TC_IR_MFMA);
}

Test(gpu_attention, halves_are_widened_where_there_are_none) {
  check_all(halves, 3, &plain, false, TC_IR_FMA);
}

Test(gpu_attention, one_row_to_a_head_is_a_row_of_its_key_heads) {
  for (size_t i = 0; i < COUNT(decode); i++) {
    lesson x = check(&decode[i], &ampere, false, false), y = check(&decode[i], &cdna, false, false);
    end_lesson(&x), end_lesson(&y);
  }
}

Test(gpu_attention, keys_in_parts_give_the_sums) {
  for (size_t i = 0; i < COUNT(parts); i++)
    for (int inside = 0; inside < 2; inside++) {
      lesson x = check(&parts[i].of, inside == (int)i % 2 ? &cdna : &ampere, inside, false);
      cr_expect_eq(x.n_units, parts[i].units, "%s: %lld units", parts[i].of.name, (long long)x.n_units);
      cr_expect_eq(x.n_groups, 1, "%s: %d kernels of attention", parts[i].of.name, x.n_groups);
      end_lesson(&x);
    }
}

Test(gpu_attention, gradients_of_floats_are_the_sums) {
  check_all(floats, COUNT(floats), &plain, true, TC_IR_FMA);
}

Test(gpu_attention, gradients_of_halves_go_through_matrix_instructions) {
  check_all(halves, COUNT(halves), &ampere, true, TC_IR_MMA);
  check_all(halves, COUNT(halves), &cdna, true, TC_IR_MFMA);
}

Test(gpu_attention, a_kernel_has_sums_of_its_own_rows) {
  lesson x = check(&halves[0], &ampere, false, true), y = check(&halves[3], &ampere, false, true);
  cr_expect_eq(x.n_groups, 2, "dq, and dk with dv: %d", x.n_groups);
  cr_expect_eq(y.n_groups, 3, "long heads' dk and dv apart: %d", y.n_groups);
  end_lesson(&x), end_lesson(&y);
}

Test(gpu_attention, the_log_of_the_sums_may_be_asked_for_alone) {
  const attend *p[] = {&floats[2], &halves[1], &parts[1].of, &parts[4].of};
  for (int i = 0; i < 8; i++) {
    lesson x = begin_lesson(p[i / 2], false);
    want_sums(&x);
    run_lesson(&x, i % 2 ? &cdna : &ampere);
    expect_near(&x);
    end_lesson(&x);
  }
}

// ---- blocks ----

// How many of a way's cuts there is room for.
static int check_cuts(const attend *p, bool backward, const tc_flash_way *way, const tc_target *target) {
  const tc_flash_tiling *tiling = way->tiling;
  int n_run = 0;
  lesson model = check(p, target, true, backward);
  for (int i = 0; i < way->n_tilings; i++) {
    tc_gemm_tiling given_cut;
    lesson x = begin_lesson(p, true);
    for (int k = 0; k < TC_N_TILING; k++) given_cut.of[k] = -1;
    given_cut.of[TC_TILING_ROWS] = tiling[i].rows, given_cut.of[TC_TILING_LANES] = tiling[i].held;
    x.w.tiling = &given_cut;
    if (backward)
      want_backward(&x);
    else
      want_forward(&x);
    run_lesson(&x, target);
    for (int r = OUT; r < N_PARTS && !x.w.refused; r++)
      if (x.result[r] != TC_NONE)
        cr_expect_arr_eq(x.w.memory[x.result[r]], model.w.memory[x.result[r]], bytes_of(&x.w, x.result[r]),
                         "%s, blocks of %d rows, %d a thread: result %d", p->name, tiling[i].rows, tiling[i].held, r);
    n_run += !x.w.refused;
    tc_clear_error();
    end_lesson(&x);
  }
  end_lesson(&model);
  return n_run;
}

Test(gpu_attention, rows_of_a_block_change_no_bit) {
  static const attend f32 = {"f32", TC_F32, 1, 2, 1, 75, 90, 24, 40, true, 0, NO_MASK};
  static const attend bf16 = {"bf16", TC_BF16, 1, 2, 1, 75, 150, 64, 32, true, 140, NO_MASK};
  static const attend in_parts = {"parts", TC_F32, 1, 4, 2, 3, 520, 24, 40, true, 518, NO_MASK};
  static const attend halves_in_parts = {"parts of bf16", TC_BF16, 1, 4, 1, 1, 600, 64, 32, true, 590, NO_MASK};
  for (int backward = 0; backward < 2; backward++) {
    cr_expect_eq(check_cuts(&f32, backward, &tc_flash_simt, &ampere), tc_flash_simt.n_tilings);
    cr_expect_geq(check_cuts(&bf16, backward, &tc_flash_mma, &ampere), backward ? 3 : tc_flash_mma.n_tilings);
    cr_expect_geq(check_cuts(&bf16, backward, &tc_flash_mfma, &cdna), backward ? 3 : tc_flash_mfma.n_tilings);
  }
  cr_expect_eq(check_cuts(&in_parts, false, &tc_flash_simt, &ampere), tc_flash_simt.n_tilings);
  cr_expect_eq(check_cuts(&halves_in_parts, false, &tc_flash_mma, &ampere), tc_flash_mma.n_tilings);
  cr_expect_eq(check_cuts(&halves_in_parts, false, &tc_flash_mfma, &cdna), tc_flash_mfma.n_tilings);
}

Test(gpu_attention, long_sums_are_chains_and_rows_of_a_block_change_no_bit_of_them) {
  static const attend keys[] = {{"many keys", TC_F32, 1, 1, 1, 9, 4171, 8, 8, true, 4170, NO_MASK},
                                {"many keys, bf16", TC_BF16, 1, 1, 1, 9, 4171, 16, 16, false, 0, NO_MASK}};
  static const attend rows[] = {{"many rows", TC_F32, 1, 2, 1, 2100, 9, 8, 8, false, 0, NO_MASK},
                                {"many rows, bf16", TC_BF16, 1, 1, 1, 4170, 9, 16, 16, true, 0, NO_MASK}};
  for (int k = 0; k < 2; k++) {
    const tc_flash_way *way = k ? &tc_flash_mma : &tc_flash_simt;
    cr_expect_geq(check_cuts(&keys[k], false, way, &ampere), 3);
    cr_expect_geq(check_cuts(&keys[k], true, way, &ampere), 2);
    cr_expect_geq(check_cuts(&rows[k], true, way, &ampere), 2);
  }
  cr_expect_geq(check_cuts(&keys[1], false, &tc_flash_mfma, &cdna), 3);
}

static int64_t units_by(const char *rows) {
  static const attend p = {"by a block that is asked for", TC_BF16, 1, 3, 3, 128, 64, 32, 32, false, 0, NO_MASK};
  if (rows) setenv("TC_GPU_TILE", rows, 1);
  tc_options_reload();
  lesson x = check(&p, &ampere, true, false);
  int64_t n = x.n_units;
  end_lesson(&x);
  unsetenv("TC_GPU_TILE");
  tc_options_reload();
  return n;
}

Test(gpu_attention, a_block_may_be_asked_for) {
  cr_expect_eq(units_by("128x4"), 3);
  cr_expect_eq(units_by("32x2"), 12);
  cr_expect_eq(units_by("64x128"), units_by(NULL));
  cr_expect_eq(units_by("none"), units_by(NULL));
}
