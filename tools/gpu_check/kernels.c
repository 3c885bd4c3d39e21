// Part c: single kernels at sizes where they should be at the device's roofs. Bytes are the least
// that must move, over a footprint of a GiB.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "runtime/options.h"
#include "tools/gpu_check/check.h"

static int64_t footprint(void) {
  return !check.timed ? 1 << 16 : check.small ? 64 << 20 : 1 << 30;
}

static bool near(double got, double want, double tolerance) {
  return fabs(got - want) <= tolerance * (1 + fabs(want));
}

// ---- Elementwise ----

typedef struct chain_work {
  tc_tensor a, b, c;
} chain_work;

static tc_tensor chain(const chain_work *w) {
  return tc_relu(tc_add(tc_mul(w->a, w->b), w->c));
}

static bool run_chain(void *arg) {
  tc_scope scope = tc_scope_begin();
  tc_tensor y = chain(arg);
  tc_status st = tc_eval(1, &y);
  tc_scope_end(scope);
  return st == TC_OK;
}

static void measure_chain(check_row *row, const void *arg) {
  enum { SEEN = 256, TENSORS = 4 };
  double a[SEEN], b[SEEN], c[SEEN], y[SEEN];
  int64_t n = footprint() / 4 / TENSORS;
  (void)arg;
  chain_work w = {check_random(TC_SHAPE(n), TC_F32, 1), check_random(TC_SHAPE(n), TC_F32, 2),
                  check_random(TC_SHAPE(n), TC_F32, 3)};
  tc_tensor made = chain(&w);
  check_ok(row, tc_eval(1, &made));
  for (int k = 0; k < 3 && !row->wrong; k++) {
    int64_t first = k * (n - SEEN) / 2;
    if (!check_fetch(w.a, first, SEEN, a) || !check_fetch(w.b, first, SEEN, b) || !check_fetch(w.c, first, SEEN, c) ||
        !check_fetch(made, first, SEEN, y))
      check_wrong(row, "%s", tc_last_error()->message);
    for (int i = 0; i < SEEN && !row->wrong; i++)
      if (!near(y[i], fmax(a[i] * b[i] + c[i], 0), 1e-6))
        check_wrong(row, "element %lld is %.9g", (long long)(first + i), y[i]);
  }
  if (!row->wrong) check_rate(row, 4e-9 * TENSORS * (double)n, "GB/s", check_seconds(run_chain, &w), check_best_copy());
}

// ---- Rows ----

typedef enum row_op { SOFTMAX, LAYER_NORM, CROSS_ENTROPY } row_op;
static const char *const row_op_names[] = {"softmax", "layer norm", "cross entropy and its gradient"};

typedef struct row_case {
  row_op op;
  tc_type type;
  int64_t length;
} row_case;

typedef struct row_work {
  row_op op;
  int64_t rows, length;
  tc_tensor x, weight, bias, target;
} row_work;

// The result, or the gradient that a step needs.
static tc_tensor make_rows(const row_work *w) {
  tc_tensor out = {0, 0}, x = w->x;
  if (w->op == SOFTMAX) return tc_softmax(w->x, 1);
  if (w->op == LAYER_NORM) return tc_layer_norm(w->x, w->weight, w->bias, 1e-5);
  return tc_grads_of(tc_cross_entropy(x, w->target), &x, 1, &out, 0) == TC_OK ? out : (tc_tensor){0, 0};
}

static bool run_rows(void *arg) {
  tc_scope scope = tc_scope_begin();
  tc_tensor y = make_rows(arg);
  tc_status st = tc_is_valid(y) ? tc_eval(1, &y) : tc_last_error()->status;
  tc_scope_end(scope);
  return st == TC_OK;
}

static int64_t target_of(int64_t row, int64_t length) {
  return row * 7919 % length;
}

// Row r of the result from that of the operand, in double.
static void want_row(const row_work *w, int64_t r, const double *x, const double *weight, const double *bias,
                     double *out) {
  int64_t n = w->length;
  double most = -INFINITY, sum = 0, mean = 0, var = 0;
  if (w->op == LAYER_NORM) {
    for (int64_t i = 0; i < n; i++) mean += x[i] / (double)n;
    for (int64_t i = 0; i < n; i++) var += (x[i] - mean) * (x[i] - mean) / (double)n;
    for (int64_t i = 0; i < n; i++) out[i] = (x[i] - mean) / sqrt(var + 1e-5) * weight[i] + bias[i];
    return;
  }
  for (int64_t i = 0; i < n; i++) most = fmax(most, x[i]);
  for (int64_t i = 0; i < n; i++) sum += exp(x[i] - most);
  for (int64_t i = 0; i < n; i++) out[i] = exp(x[i] - most) / sum;
  if (w->op == SOFTMAX) return;
  out[target_of(r, n)] -= 1;
  for (int64_t i = 0; i < n; i++) out[i] /= (double)w->rows;
}

// The first and the last row. Where elements are of the size 1 / length they are compared on that
// scale.
static void check_row_op(check_row *row, const row_work *w, tc_type type) {
  int64_t n = w->length;
  double *x = calloc((size_t)n * 5, sizeof *x), *got = x + n, *want = x + 2 * n, *weight = x + 3 * n, *bias = x + 4 * n;
  double scale = w->op == LAYER_NORM ? 1 : w->op == SOFTMAX ? 1.0 / (double)n : 1.0 / (double)n / (double)w->rows;
  double tolerance = type == TC_BF16 ? 0.02 : 1e-4;
  tc_tensor made = make_rows(w);
  if (!x || !tc_is_valid(made)) check_wrong(row, "%s", tc_last_error()->message);
  if (!row->wrong) check_ok(row, tc_eval(1, &made));
  for (int64_t r = 0; r < w->rows && !row->wrong; r += w->rows > 1 ? w->rows - 1 : 1) {
    bool there = check_fetch(w->x, r * n, n, x) && check_fetch(made, r * n, n, got);
    if (there && w->op == LAYER_NORM) there = check_fetch(w->weight, 0, n, weight) && check_fetch(w->bias, 0, n, bias);
    if (!there) check_wrong(row, "%s", tc_last_error()->message);
    want_row(w, r, x, weight, bias, want);
    for (int64_t i = 0; i < n && !row->wrong; i++)
      if (fabs(got[i] - want[i]) > tolerance * (scale + fabs(want[i])))
        check_wrong(row, "element %lld of row %lld is %.9g, not %.9g", (long long)i, (long long)r, got[i], want[i]);
  }
  free(x);
}

static void measure_rows(check_row *row, const void *arg) {
  const row_case *c = arg;
  size_t bytes = tc_type_bytes(c->type);
  int64_t rows = footprint() / 2 / (int64_t)bytes / c->length;
  row_work w = {.op = c->op, .length = c->length, .rows = rows > 2 ? rows : 2};
  w.x = check_random(TC_SHAPE(w.rows, w.length), c->type, 1);
  if (c->op == LAYER_NORM)
    w.weight = check_random(TC_SHAPE(w.length), c->type, 2), w.bias = check_random(TC_SHAPE(w.length), c->type, 3);
  if (c->op == CROSS_ENTROPY) {
    int64_t *target = malloc((size_t)w.rows * sizeof *target);
    for (int64_t i = 0; target && i < w.rows; i++) target[i] = target_of(i, w.length);
    w.target = target ? tc_from_host(target, TC_SHAPE(w.rows), TC_I64) : (tc_tensor){0, 0};
    free(target);
    if (!check_ok(row, tc_set_requires_grad(w.x, true))) return;
  }
  check_row_op(row, &w, c->type);
  if (!row->wrong)
    check_rate(row, 2e-9 * (double)bytes * (double)w.rows * (double)w.length, "GB/s", check_seconds(run_rows, &w),
               check_best_copy());
}

// ---- Products ----

typedef struct product_case {
  tc_type type;
  int64_t n;
  bool gelu;  // of the product and a bias
  const char *maker;  // "": by rule; else of makers
} product_case;

const check_maker check_makers[CHECK_N_MAKERS] = {
    {", generated", "never", "0"}, {", library", "always", "0"}, {CHECK_MEASURED, "rule", "1"}};

bool check_has_wgmma(void) {
  return check.gpu && tc_gpu_facts_of(check.gpu)->wgmma;
}

void check_set_maker(const char *name) {
  bool wgmma = strcmp(name, CHECK_WGMMA) == 0;
  check_maker m = {"", wgmma ? "never" : "rule", "0"};
  for (int i = 0; i < CHECK_N_MAKERS; i++)
    if (strcmp(name, check_makers[i].name) == 0) m = check_makers[i];
  setenv("TC_GPU_LIBRARIES", m.libraries, 1);
  setenv("TC_AUTOTUNE", m.autotune, 1);
  setenv("TC_GPU_WGMMA", wgmma ? "1" : "0", 1);
  tc_options_reload();
  tc_cache_clear();
}

typedef struct product_work {
  tc_tensor a, b, bias;
  bool gelu;
} product_work;

static tc_tensor product(const product_work *w) {
  tc_tensor y = tc_matmul(w->a, w->b);
  return w->gelu ? tc_gelu(tc_add(y, w->bias)) : y;
}

static bool run_product(void *arg) {
  tc_scope scope = tc_scope_begin();
  tc_tensor y = product(arg);
  tc_status st = tc_eval(1, &y);
  tc_scope_end(scope);
  return st == TC_OK;
}

// Some elements, whose rows and columns are fetched. The order of a sum is the device's: within the
// root of its length, in f32.
static void check_product(check_row *row, const product_work *w, int64_t n, tc_type type) {
  double *a = calloc((size_t)n * 2, sizeof *a), *b = a + n, got, bias = 0;
  tc_tensor made = product(w), turned = tc_transpose(w->b, 0, 1);
  check_ok(row, tc_eval(1, &made));
  for (int k = 0; k < 8 && !row->wrong; k++) {
    int64_t i = k * (n - 1) / 7, j = (k * 5 % 8) * (n - 1) / 7;
    double sum = 0;
    if (!a || !check_fetch(w->a, i * n, n, a) || !check_fetch(turned, j * n, n, b) ||
        !check_fetch(made, i * n + j, 1, &got) || (w->gelu && !check_fetch(w->bias, j, 1, &bias)))
      check_wrong(row, "%s", tc_last_error()->message);
    if (row->wrong) break;
    for (int64_t t = 0; t < n; t++) sum += a[t] * b[t];
    if (w->gelu) sum += bias, sum = sum * 0.5 * (1 + erf(sum * M_SQRT1_2));
    if (!near(got, sum, type == TC_BF16 ? 0x1p-6 : 2e-7 * sqrt((double)n) * 4))
      check_wrong(row, "element %lld, %lld is %.9g, not %.9g", (long long)i, (long long)j, got, sum);
  }
  free(a);
}

static int64_t product_size(const product_case *c) {
  return !check.timed ? c->n / 64 : check.small ? c->n / 8 : c->n;
}

static product_work make_product(const product_case *c) {
  int64_t n = product_size(c);
  return (product_work){check_random(TC_SHAPE(n, n), c->type, 1), check_random(TC_SHAPE(n, n), c->type, 2),
                        check_random(TC_SHAPE(n), c->type, 3), c->gelu};
}

static void measure_product(check_row *row, const void *arg) {
  const product_case *c = arg;
  int64_t n = product_size(c);
  product_work w = make_product(c);
  check_set_maker(c->maker);
  check_product(row, &w, n, c->type);
  if (!row->wrong)
    check_rate(row, 2e-9 * (double)n * (double)n * (double)n, "GFLOP/s", check_seconds(run_product, &w), 0);
  if (*c->maker) check_set_maker("");
}

static double repeat_product(void *arg, int n) {
  for (int i = 0; i < n; i++)
    if (!run_product(arg)) return -1;
  return 0;
}

static void products(const product_case *c) {
  static const char *const modes[] = {"eager", "max-autotune", NULL};
  char name[96], peer_case[64];
  snprintf(name, sizeof name, "%s product %lld%s%s", tc_type_name(c->type), (long long)product_size(c),
           c->gelu ? " with bias and gelu" : "", c->maker);
  check_do(name, measure_product, c);
  if (*c->maker || !check_has_peers()) return;
  tc_scope scope = tc_scope_begin();
  product_work w = make_product(c);
  snprintf(peer_case, sizeof peer_case, "%s-%lld%s", tc_type_name(c->type), (long long)product_size(c),
           c->gelu ? "-gelu" : "");
  check_beside(
      name, &(bench_row){.bench = "product", .name = peer_case, .unit = "ms", .run = repeat_product, .arg = &w}, modes);
  tc_scope_end(scope);
}

// ---- Attention: causal, bf16, 16 heads of 128 ----

enum { HEAD = 128 };

typedef struct attention_case {
  int64_t length;
  bool gradients;
} attention_case;

typedef struct attention_work {
  tc_tensor q, k, v, g;
  bool gradients;
} attention_work;

static tc_status attention(const attention_work *w, tc_tensor y[4]) {
  y[0] = tc_scaled_dot_product_attention(w->q, w->k, w->v, (tc_tensor){0, 0}, (tc_attention_options){.causal = true});
  if (!w->gradients) return tc_eval(1, y);
  tc_status st =
      tc_grads_of(tc_sum(tc_mul(y[0], w->g), TC_ALL, false), (const tc_tensor[]){w->q, w->k, w->v}, 3, y + 1, 0);
  return st == TC_OK ? tc_eval(4, y) : st;
}

static bool run_attention(void *arg) {
  tc_tensor y[4];
  tc_scope scope = tc_scope_begin();
  tc_status st = attention(arg, y);
  tc_scope_end(scope);
  return st == TC_OK;
}

// One row of the last head's result; with gradients also the value's gradient in its last place,
// which only the last query's weight reaches.
static void check_attention(check_row *row, const attention_work *w, int64_t heads, int64_t length) {
  int64_t base = (heads - 1) * length * HEAD, query = length - 1;
  size_t n = (size_t)length * HEAD;
  double *k = calloc(2 * n + (size_t)length, sizeof *k), *v = k + n, *weight = v + n, q[HEAD], g[HEAD], got[HEAD],
         dv[HEAD], most = -INFINITY, sum = 0;
  tc_tensor y[4];
  if (!k || !check_ok(row, attention(w, y)) || !check_fetch(w->k, base, (int64_t)n, k) ||
      !check_fetch(w->v, base, (int64_t)n, v) || !check_fetch(w->q, base + query * HEAD, HEAD, q) ||
      !check_fetch(w->g, base + query * HEAD, HEAD, g) || !check_fetch(y[0], base + query * HEAD, HEAD, got) ||
      (w->gradients && !check_fetch(y[3], base + query * HEAD, HEAD, dv)))
    check_wrong(row, "%s", tc_last_error()->message);
  for (int64_t s = 0; s < length && !row->wrong; s++) {
    for (int e = 0; e < HEAD; e++) weight[s] += q[e] * k[s * HEAD + e] / sqrt(HEAD);
    most = fmax(most, weight[s]);
  }
  for (int64_t s = 0; s < length && !row->wrong; s++) sum += weight[s] = exp(weight[s] - most);
  for (int e = 0; e < HEAD && !row->wrong; e++) {
    double want = 0, want_dv = weight[query] / sum * g[e];
    for (int64_t s = 0; s < length; s++) want += weight[s] / sum * v[s * HEAD + e];
    if (fabs(got[e] - want) > 0.02 * (1 / sqrt((double)length) + fabs(want)))
      check_wrong(row, "element %d of the last row is %.9g, not %.9g", e, got[e], want);
    if (w->gradients && fabs(dv[e] - want_dv) > 0.02 * (1.0 / (double)length + fabs(want_dv)))
      check_wrong(row, "element %d of the last value's gradient is %.9g, not %.9g", e, dv[e], want_dv);
  }
  free(k);
}

static int64_t attention_heads(void) {
  return check.timed ? 16 : 2;
}
static int64_t attention_length(const attention_case *c) {
  return !check.timed ? c->length / 64 : check.small ? c->length / 16 : c->length;
}

static tc_status make_attention(const attention_case *c, attention_work *out) {
  tc_dims dims = TC_SHAPE(1, attention_heads(), attention_length(c), HEAD);
  tc_status st = TC_OK;
  *out = (attention_work){check_random(dims, TC_BF16, 1), check_random(dims, TC_BF16, 2),
                          check_random(dims, TC_BF16, 3), check_random(dims, TC_BF16, 4), c->gradients};
  tc_tensor wanting[] = {out->q, out->k, out->v};
  for (int i = 0; i < 3 && c->gradients && st == TC_OK; i++) st = tc_set_requires_grad(wanting[i], true);
  return st;
}

static void measure_attention(check_row *row, const void *arg) {
  const attention_case *c = arg;
  int64_t heads = attention_heads(), length = attention_length(c);
  attention_work w;
  if (!check_ok(row, make_attention(c, &w))) return;
  check_attention(row, &w, heads, length);
  // Two products forward and five backward, of half of all pairs.
  double flops = (c->gradients ? 7 : 2) * (double)heads * HEAD * (double)length * (double)length;
  if (!row->wrong) check_rate(row, 1e-9 * flops, "GFLOP/s", check_seconds(run_attention, &w), 0);
}

static double repeat_attention(void *arg, int n) {
  for (int i = 0; i < n; i++)
    if (!run_attention(arg)) return -1;
  return 0;
}

static void attentions(const attention_case *c) {
  static const char *const modes[] = {"cudnn", "flash", "efficient", NULL};
  char name[96], peer_case[64];
  attention_work w;
  snprintf(name, sizeof name, "attention %lld%s", (long long)attention_length(c),
           c->gradients ? " with gradients" : "");
  check_do(name, measure_attention, c);
  if (!check_has_peers()) return;
  tc_scope scope = tc_scope_begin();
  snprintf(peer_case, sizeof peer_case, "%lld%s", (long long)attention_length(c), c->gradients ? "-gradients" : "");
  if (make_attention(c, &w) == TC_OK)
    check_beside(
        name, &(bench_row){.bench = "attention", .name = peer_case, .unit = "ms", .run = repeat_attention, .arg = &w},
        modes);
  tc_scope_end(scope);
}

void check_kernels(void) {
  static const product_case sizes[] = {{TC_BF16, 4096, false, ""}, {TC_BF16, 4096, true, ""},
                                       {TC_BF16, 8192, false, ""}, {TC_BF16, 8192, true, ""},
                                       {TC_F32, 4096, false, ""},  {TC_F32, 8192, false, ""}};
  char name[96];
  if (tc_set_default_device(check.device) != TC_OK) return;
  check_copies();
  check_do("chain: relu(a b + c)", measure_chain, NULL);
  for (int type = 0; type < 2; type++)
    for (int op = 0; op < 3; op++)
      for (int64_t length = 1024; length <= (type ? 65536 : 131072); length *= check.small     ? 8
                                                                               : length < 4096 ? 4
                                                                                               : 2) {
        row_case c = {(row_op)op, type ? TC_BF16 : TC_F32, length};
        snprintf(name, sizeof name, "%s %s, rows of %lld", tc_type_name(c.type), row_op_names[op], (long long)length);
        check_do(name, measure_rows, &c);
      }
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    products(&sizes[i]);
    bool vendor = check.gpu && !tc_gpu_library_absent(check.gpu, TC_GPU_MATMULS) && (check.timed || i < 2);
    for (int k = 0; k < CHECK_N_MAKERS && vendor; k++)
      products(&(product_case){sizes[i].type, sizes[i].n, sizes[i].gelu, check_makers[k].name});
    if (check_has_wgmma() && sizes[i].type != TC_F32 && (check.timed || i < 2))
      products(&(product_case){sizes[i].type, sizes[i].n, sizes[i].gelu, CHECK_WGMMA});
  }
  check_convs();
  for (int gradients = 0; gradients < 2; gradients++)
    for (int64_t length = 4096; length <= 16384; length *= check.timed ? 2 : 4)
      attentions(&(attention_case){length, gradients});
  check_plans();
}
