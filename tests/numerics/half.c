// f16 and bf16 round once an op: every op of api.def against the same op in f64, by the bounds of
// half.def, results and gradients; optimizers, clipping and einsum, which are no rows of it; counts
// that 16 bits do not hold; and what is drawn.
// TC_TEST_BOUNDS=1 prints how far each is off, TC_TEST_OP=tc_exp tries that row alone.
#include <math.h>
#include <stdlib.h>

#include "tests/expect.h"

#define MOST 8192  // elements of an operand or a result

// Name, shape, and what its values are: N normal, P positive, A above 1, U within (-1, 1).
#define OPERANDS(X) \
  X(x, N, 6, 70) \
  X(y, N, 6, 70) \
  X(p, P, 6, 70) \
  X(u, U, 6, 70) \
  X(a, A, 6, 70) \
  X(w, N, 70) \
  X(b, N, 70) \
  X(image, N, 2, 6, 9, 8) \
  X(kernel, N, 6, 6, 3, 3) \
  X(line, N, 2, 6, 19) \
  X(tap, N, 6, 6, 3) \
  X(block, N, 1, 2, 5, 6, 4) \
  X(cube, N, 2, 2, 2, 3, 2) \
  X(c, N, 6) \
  X(d, N, 6) \
  X(query, N, 2, 4, 24, 16) \
  X(key, N, 2, 4, 24, 16) \
  X(value, N, 2, 4, 24, 16) \
  X(table, U, 24, 8) \
  X(table2, U, 24, 8) \
  X(deep, N, 3, 70, 9) \
  X(narrow, N, 3, 9, 5)

typedef struct operands {
#define X(name, ...) tc_tensor name;
  OPERANDS(X)
#undef X
  tc_tensor i;  // [6, 70] i64 within [0, 70)
} operands;

enum { N_OPERANDS = sizeof(operands) / sizeof(tc_tensor) - 1 };
static const char *const operand_name[] = {
#define X(name, ...) #name,
    OPERANDS(X)
#undef X
};

typedef struct op {
  const char *name;
  tc_tensor (*call)(const operands *o);
  double forward, sums, gradient, terms;
} op;

#define NAMED(name, ...) tc_tensor name __attribute__((unused)) = o->name;
#define HALF_EXACT(...)
#define HALF_OP(name, forward, sums, gradient, terms, ...) \
  static tc_tensor call_##name(const operands *o) { \
    OPERANDS(NAMED) \
    tc_tensor i __attribute__((unused)) = o->i; \
    return (__VA_ARGS__); \
  }
#include "tests/numerics/half.def"

static const op ops[] = {
#define HALF_EXACT(...)
#define HALF_OP(name, forward, sums, gradient, terms, ...) {#name, call_##name, forward, sums, gradient, terms},
#include "tests/numerics/half.def"
};

// ---- Every op has a row ----

static void every_op_has_a_row(void) {
  static const char *const in_api[] = {
#define TC_FN(name, params, args) #name,
#include <tc/api.def>
#undef TC_FN
  };
  static const char *const in_table[] = {
#define HALF_OP(name, ...) #name,
#define HALF_EXACT(name) #name,
#include "tests/numerics/half.def"
  };
  for (size_t k = 0; k < sizeof in_api / sizeof in_api[0]; k++) {
    int n = 0;
    for (size_t j = 0; j < sizeof in_table / sizeof in_table[0]; j++) n += strcmp(in_api[k], in_table[j]) == 0;
    EXPECT(n == 1, "%s has %d rows in tests/numerics/half.def; give it one", in_api[k], n);
  }
}

static void known_values(void) {
#define KNOWN_VALUE(name, call, value) \
  { \
    double got = NAN; \
    EXPECT_OK(tc_item_f64(call, &got)); \
    EXPECT(fabs(got - (value)) <= 4 * 0x1p-23 * fabs((double)(value)), "%s is %.9g, should be %.9g", #call, got, \
           (double)(value)); \
  }
#include "tests/numerics/half.def"
}

// ---- Values ----

static uint64_t state = 1;

static double uniform(void) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (double)(state >> 11) * 0x1p-53;
}

static double normal(void) {
  double radius = sqrt(-2 * log(1 - uniform()));
  return radius * cos(2 * M_PI * uniform());
}

// The nearest number of the type.
static double rounded(double v, tc_type type) {
  int e;
  (void)frexp(v, &e);
  int least = type == TC_F16 ? -14 : -126, bits = type == TC_F16 ? 10 : 7;
  e = e - 1 < least ? least : e - 1;
  return ldexp(nearbyint(ldexp(v, bits - e)), e - bits);
}

static double unit_of(double v, tc_type type) {
  int e;
  (void)frexp(v, &e);
  int least = type == TC_F16 ? -14 : -126, bits = type == TC_F16 ? 10 : 7;
  return ldexp(1, (e - 1 < least || v == 0 ? least : e - 1) - bits);
}

static void fill(double *out, int64_t n, char kind, tc_type type) {
  for (int64_t k = 0; k < n; k++)
    out[k] = rounded(kind == 'N'   ? 1.5 * normal()
                     : kind == 'P' ? 0.25 + 3 * uniform()
                     : kind == 'A' ? 1.1 + 3 * uniform()
                                   : 1.9 * uniform() - 0.95,
                     type);
}

// A parameter of the type; its values are of the half type either way.
static tc_tensor param_of(const double *from, tc_dims d, tc_type type) {
  tc_tensor t = tc_cast(tc_from_host(from, d, TC_F64), type);
  return tc_param(t);
}

static double data[N_OPERANDS][MOST];

static void make_operands(operands *o, tc_type type) {
  int at = 0;
#define X(name, kind, ...) o->name = param_of(data[at++], TC_SHAPE(__VA_ARGS__), type);
  OPERANDS(X)
#undef X
  int64_t index[420];
  for (int k = 0; k < 420; k++) index[k] = (k * 29 + k / 70 * 3) % 70 / (1 + k % 2);
  o->i = tc_from_host(index, TC_SHAPE(6, 70), TC_I64);
}

static void make_data(tc_type type) {
  int at = 0;
#define X(name, kind, ...) fill(data[at++], MOST, #kind[0], type);
  OPERANDS(X)
#undef X
}

// ---- Results and gradients of a row ----

typedef struct result {
  int64_t n[1 + N_OPERANDS];  // 0: no gradient
  double at[1 + N_OPERANDS][MOST];
} result;

static int64_t read_f64(tc_tensor t, double *out) {
  int64_t n = tc_numel(t);
  EXPECT(n <= MOST, "%lld", (long long)n);
  EXPECT_OK(tc_to_host(tc_to(tc_cast(t, TC_F64), "tc:cpu"), out, (size_t)n * sizeof *out));
  return n;
}

static void run(const op *f, tc_type type, const double *weight, result *out) {
  operands o;
  tc_scope scope = tc_scope_begin();
  tc_seed(5);
  make_operands(&o, type);
  tc_seed(7);
  tc_tensor y = f->call(&o);
  tc_dims d = tc_shape(y);
  memset(out->n, 0, sizeof out->n);
  if (tc_numel(y) <= MOST && tc_requires_grad(y))
    EXPECT_OK(tc_backward_with(y, tc_cast(tc_from_host(weight, d, TC_F64), type), 0));
  const tc_tensor *params = &o.x;
  tc_tensor grads[1 + N_OPERANDS] = {y};
  for (int k = 0; k < N_OPERANDS; k++) grads[1 + k] = tc_grad(params[k]);
  for (int k = 0; k <= N_OPERANDS; k++)
    if (grads[k].gen) out->n[k] = read_f64(grads[k], out->at[k]);
  for (int k = 0; k < N_OPERANDS; k++) tc_release(params[k]);
  tc_scope_end(scope);
}

static void expect_near(const char *what, const char *of, tc_type type, int64_t n, const double *have,
                        const double *want, double ulps, double of_largest) {
  double largest = 0, worst = 0, worst_of_largest = 0;
  int64_t at = 0;
  for (int64_t k = 0; k < n; k++) largest = fmax(largest, fabs(want[k]));
  double slack = of_largest * unit_of(largest, type);
  for (int64_t k = 0; k < n; k++) {
    double off = have[k] == want[k] ? 0 : isnan(have[k] - want[k]) ? INFINITY : fabs(have[k] - want[k]);
    double units = off <= slack ? 0 : off / unit_of(want[k], type);
    if (!(units <= worst)) worst = units, at = k;
    if (off / unit_of(want[k], type) > ulps) worst_of_largest = fmax(worst_of_largest, off / unit_of(largest, type));
  }
  if (getenv("TC_TEST_BOUNDS"))
    printf("%-32s %-8s %s %8.3f %8.3f (%8.3f)\n", what, of, tc_type_name(type), worst, ulps, worst_of_largest);
  EXPECT(worst <= ulps, "%s, %s: %s: element %lld is %.9g, right %.9g: off by %.3g units, %.3g of the largest's", what,
         of, tc_type_name(type), (long long)at, have[at], want[at], worst, worst_of_largest);
}

// A bias of a product or convolution is added to what was rounded where a library may make that
// (api.def).
static double bound_of_sums(const op *f) {
  bool biased = strncmp(f->name, "tc_conv", 7) == 0 || strcmp(f->name, "tc_linear") == 0,
       on_gpu = strstr("tc:cuda tc:hip", tc_get_default_device()) != NULL;
  return biased && on_gpu ? 1.01 : f->sums;
}

static bool is_simulated(void) {
  return strcmp(tc_get_default_device(), "tc:cuda") == 0 && !getenv("TC_TEST_ALL");
}

static void rows_round_once(tc_type type) {
  static result have, want;
  static double weight[MOST];
  make_data(type);
  fill(weight, MOST, 'N', type);
  const char *only = getenv("TC_TEST_OP");
  bool sampled = is_simulated();  // a third of the ops in each type, by turns
  for (size_t k = 0; k < sizeof ops / sizeof ops[0]; k++) {
    const op *f = &ops[k];
    if ((only && strcmp(only, f->name) != 0) || (sampled && (k + (type == TC_BF16)) % 3)) continue;
    run(f, type, weight, &have);
    EXPECT_OK(tc_push_device("tc:ref"));
    run(f, TC_F64, weight, &want);
    EXPECT_OK(tc_pop_device());
    for (int j = 0; j <= N_OPERANDS; j++) {
      EXPECT(have.n[j] == want.n[j], "%s: %lld and %lld elements", f->name, (long long)have.n[j], (long long)want.n[j]);
      if (have.n[j])
        expect_near(f->name, j ? operand_name[j - 1] : "result", type, have.n[j], have.at[j], want.at[j],
                    j ? f->gradient : f->forward, j ? f->terms : bound_of_sums(f));
    }
  }
}

// ---- What is f32 inside is in no memory ----

// Kernels of the op and of its gradients.
static uint32_t kernels_of(const op *f, tc_type type, const double *weight, uint32_t *backward) {
  operands o;
  tc_sync_point point;
  tc_scope scope = tc_scope_begin();
  make_operands(&o, type);
  EXPECT_OK(tc_eval(sizeof o / sizeof(tc_tensor), &o.x));
  tc_tensor y = f->call(&o), g = tc_cast(tc_from_host(weight, tc_shape(y), TC_F64), type);
  EXPECT_OK(tc_eval(2, (tc_tensor[]){y, g}));
  EXPECT(tc_sync_points(1, &point) == 1, "no sync point");
  uint32_t n = point.n_kernels;
  *backward = 0;
  if (tc_requires_grad(y)) {
    EXPECT_OK(tc_backward_with(y, g, 0));
    EXPECT_OK(tc_sync(NULL));
    EXPECT(tc_sync_points(1, &point) == 1, "no sync point");
    *backward = point.n_kernels;
  }
  for (int k = 0; k < N_OPERANDS; k++) tc_release((&o.x)[k]);
  tc_scope_end(scope);
  return n;
}

static void fusion_is_that_of_f32(tc_type type) {
  static double weight[MOST];
  make_data(type);
  fill(weight, MOST, 'N', type);
  for (size_t k = 0; k < sizeof ops / sizeof ops[0]; k++) {
    uint32_t have[2], want[2];
    have[0] = kernels_of(&ops[k], type, weight, &have[1]), want[0] = kernels_of(&ops[k], TC_F32, weight, &want[1]);
    bool pairs = type == TC_BF16 && strncmp(ops[k].name, "tc_conv", 7) == 0;  // of which a factor may be packed
    EXPECT(have[0] <= want[0] + pairs, "%s: %u kernels in %s, %u in f32", ops[k].name, have[0], tc_type_name(type),
           want[0]);
    // What a kernel adds up of a gradient may be rounded in the next one.
    EXPECT(have[1] <= want[1] + 1, "%s, backward: %u kernels in %s, %u in f32", ops[k].name, have[1],
           tc_type_name(type), want[1]);
  }
}

// ---- Counts and sizes that 16 bits do not hold ----

static double item(tc_tensor t) {
  double v = NAN;
  EXPECT_OK(tc_item_f64(tc_cast(t, TC_F64), &v));
  return v;
}

static double most_apart(tc_tensor t, double from) {
  return item(tc_max(tc_abs(tc_sub(tc_cast(t, TC_F64), from)), TC_ALL, false));
}

static void rows_longer_than_f16_counts(tc_type type) {
  const int64_t n = 65520;
  const double each = 1.0 / (double)n, unit = unit_of(each, type);
  tc_scope scope = tc_scope_begin();
  tc_tensor x = tc_param(tc_zeros(TC_SHAPE(1, n), type)), soft = tc_softmax(x, 1), log_of = tc_log_softmax(x, 1);
  EXPECT(most_apart(soft, each) <= 0.5 * unit, "softmax of zeros is off by %g", most_apart(soft, each));
  EXPECT(most_apart(log_of, log(each)) <= 0.5 * unit_of(log(each), type), "log_softmax of zeros is off by %g",
         most_apart(log_of, log(each)));
  // Of the first element, 1/n - 1/n^2 there.
  tc_tensor gradient;
  EXPECT_OK(tc_grads_of(tc_select(tc_select(soft, 0, 0), 0, 0), &x, 1, &gradient, 0));
  double first = item(tc_select(tc_select(gradient, 0, 0), 0, 0));
  EXPECT(fabs(first - (each - each * each)) <= unit, "the gradient is %g, right %g", first, each);
  for (int k = 0; k < 3; k++) {
    tc_tensor y = k == 0 ? tc_max(x, TC_ALL, false) : k == 1 ? tc_min(x, TC_ALL, false) : tc_mean(x, TC_ALL, false);
    EXPECT_OK(tc_grads_of(y, &x, 1, &gradient, 0));
    EXPECT(most_apart(gradient, each) <= 0.5 * unit, "share %d is off by %g", k, most_apart(gradient, each));
  }
  tc_release(x);
  tc_tensor ones = tc_ones(TC_SHAPE(2, n), type), index = tc_zeros(TC_SHAPE(5000), TC_I64);
  EXPECT(item(tc_mean(ones, TC_ALL, false)) == 1, "the mean of ones");
  EXPECT(item(tc_var(tc_mul(ones, 3), TC_ALL, 1, false)) == 0, "the variance of threes");
  EXPECT(item(tc_sum(tc_mul(ones, each), TC_ALL, false)) == rounded(2 * n * rounded(each, type), type),
         "a sum in parts");
  EXPECT(
      item(tc_index_add(tc_zeros(TC_SHAPE(1), type), 0, index, tc_ones(TC_SHAPE(5000), type))) == rounded(5000, type),
      "5,000 ones at a place");
  EXPECT(item(tc_nll_loss(tc_full(TC_SHAPE(n, 2), -1, type), tc_zeros(TC_SHAPE(n), TC_I64))) == 1,
         "a loss over %d rows", (int)n);
  EXPECT(item(tc_avg_pool2d(tc_ones(TC_SHAPE(1, 1, 256, 256), type), TC_SHAPE(256), (tc_pool_options){0})) == 1,
         "an average of 65,536 ones");
  EXPECT(item(tc_adaptive_avg_pool2d(tc_ones(TC_SHAPE(1, 1, 256, 256), type), TC_SHAPE(1))) == 1,
         "an average of 65,536 ones");
  // Operands of other types are not rounded to 16 bits first.
  tc_tensor big = tc_full(TC_SCALAR, 30000, type);
  EXPECT(item(tc_div(tc_full(TC_SHAPE(1), 30000, type), tc_full_int(TC_SHAPE(1), 70000, TC_I64))) ==
             rounded(item(big) / 70000, type),
         "by a count");
  EXPECT(item(tc_div(tc_full(TC_SHAPE(1), 30000, type), tc_full(TC_SCALAR, 70000, TC_F32))) ==
             rounded(item(big) / 70000, type),
         "by a scalar");
  EXPECT(item(tc_div(big, 70000)) == rounded(item(big) / 70000, type), "by a number");
  EXPECT(item(tc_mul(tc_full(TC_SHAPE(1), 30000, type), 1e-8)) == rounded(item(big) * 1e-8, type), "times 1e-8");
  tc_scope_end(scope);
}

// Between folds over axes apart, and between parts of long ones, sums are f32.
static void sums_in_parts_are_rounded_once(tc_type type) {
  static double data[300000];
  double right = 0;
  fill(data, 300000, 'N', type);
  for (int k = 0; k < 300000; k++) right += data[k];
  tc_scope scope = tc_scope_begin();
  tc_tensor x = tc_cast(tc_from_host(data, TC_SHAPE(300000), TC_F64), type);
  double flat = item(tc_sum(x, TC_ALL, false));
  EXPECT(fabs(flat - right) <= 0.51 * unit_of(right, type), "the sum is %.9g, right %.9g", flat, right);
  double cube = item(tc_sum(tc_select(tc_sum(tc_reshape(x, TC_SHAPE(3, 1000, 100)), TC_AXES(0, 2), true), 1, 0), TC_ALL,
                            false)),
         want = 0;
  for (int k = 0; k < 300000; k++)
    if (k / 100 % 1000 == 0) want += data[k];
  EXPECT(fabs(cube - want) <= 0.51 * unit_of(want, type), "the sum over axes apart is %.9g, right %.9g", cube, want);
  tc_scope_end(scope);
}

// ---- What is no row of api.def ----

typedef enum rule { SGD, ADAM, ADAMW, RMSPROP, N_RULES } rule;

static tc_optimizer *make_optimizer(rule r, tc_tensor *p, double eps) {
  switch (r) {
    case SGD:
      return tc_sgd(p, 1, (tc_sgd_options){.lr = 0.03, .momentum = 0.9, .weight_decay = 1e-4, .nesterov = true});
    case ADAM:
      return tc_adam(p, 1,
                     (tc_adam_options){.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = eps, .weight_decay = 1e-2});
    case ADAMW:
      return tc_adamw(p, 1,
                      (tc_adam_options){.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = eps, .weight_decay = 1e-2});
    default: return tc_rmsprop(p, 1, (tc_rmsprop_options){.lr = 1e-3, .alpha = 0.99, .eps = eps, .momentum = 0.9});
  }
}

// The parameter and the states after a step from the same ones.
static int step(rule r, tc_type type, const double *param, const double *grad, double (*states)[420],
                double out[3][420]) {
  tc_scope scope = tc_scope_begin();
  tc_tensor p = param_of(param, TC_SHAPE(420), type);
  tc_optimizer *opt = make_optimizer(r, &p, 1e-8);
  int n = 0;
  for (const char *name; (name = tc_optimizer_state_name(opt, n)) != NULL && strncmp(name, "step", 4) != 0; n++)
    EXPECT_OK(tc_optimizer_set_state(opt, n, tc_from_host(states[n], TC_SHAPE(420), TC_F64)));
  if (tc_optimizer_state_name(opt, n)) EXPECT_OK(tc_optimizer_set_state(opt, n, tc_full(TC_SCALAR, 9, TC_F64)));
  EXPECT_OK(tc_backward_with(tc_mul(p, 1), tc_cast(tc_from_host(grad, TC_SHAPE(420), TC_F64), type), 0));
  EXPECT_OK(tc_optimizer_step(opt));
  (void)read_f64(p, out[0]);
  for (int k = 0; k < n; k++) (void)read_f64(tc_optimizer_state(opt, k), out[1 + k]);
  tc_optimizer_destroy(opt);
  tc_release(p);
  tc_scope_end(scope);
  return 1 + n;
}

static void optimizers_round_once(tc_type type) {
  static double param[420], grad[420], states[2][420], have[3][420], want[3][420];
  fill(param, 420, 'N', type), fill(grad, 420, 'N', type), fill(states[0], 420, 'P', type),
      fill(states[1], 420, 'P', type);
  for (int k = 0; k < 420; k += 3)
    grad[k] = rounded(grad[k] * 1e-4, type), states[1][k] = 0, states[0][k] = rounded(states[0][k] * 1e-4, type);
  for (rule r = 0; r < N_RULES; r++) {
    int n = step(r, type, param, grad, states, have);
    EXPECT_OK(tc_push_device("tc:ref"));
    EXPECT(step(r, TC_F64, param, grad, states, want) == n, "states");
    EXPECT_OK(tc_pop_device());
    static const char *const of[] = {"parameter", "state 0", "state 1"};
    static const char *const names[] = {"sgd", "adam", "adamw", "rmsprop"};
    for (int k = 0; k < n; k++) expect_near(names[r], of[k], type, 420, have[k], want[k], 0.52, 0.01);
  }
}

// A gradient of zero and second moments below the least number of the type leave the parameter as
// it is; no 0 / 0.
static void a_step_without_gradient_is_none(tc_type type) {
  for (rule r = ADAM; r < N_RULES; r++) {
    tc_scope scope = tc_scope_begin();
    tc_tensor p = tc_param(tc_ones(TC_SHAPE(8), type));
    tc_optimizer *opt =
        r == ADAM ? tc_adam(&p, 1, (tc_adam_options){.lr = 1e-3, TC_ADAM_DEFAULTS}) : make_optimizer(r, &p, 1e-8);
    for (int k = 0; k < 3; k++) {
      EXPECT_OK(tc_zero_grad(opt));
      EXPECT_OK(tc_backward_with(tc_mul(p, 1), tc_zeros(TC_SHAPE(8), type), 0));
      EXPECT_OK(tc_optimizer_step(opt));
    }
    EXPECT(most_apart(p, 1) <= (r == ADAMW ? 0.01 : 0), "rule %d moves by %g", r, most_apart(p, 1));
    tc_optimizer_destroy(opt);
    tc_release(p);
    tc_scope_end(scope);
  }
}

static void clipping_rounds_once(tc_type type) {
  static double grad[420], have[420], want[420];
  fill(grad, 420, 'N', type);
  for (double max_norm = 1e-2; max_norm > 1e-8; max_norm *= 1e-3) {
    tc_scope scope = tc_scope_begin();
    tc_tensor p = tc_param(tc_zeros(TC_SHAPE(420), type));
    double norm = 0;
    EXPECT_OK(tc_backward_with(tc_mul(p, 1), tc_cast(tc_from_host(grad, TC_SHAPE(420), TC_F64), type), 0));
    for (int k = 0; k < 420; k++) norm += grad[k] * grad[k];
    norm = sqrt(norm);
    EXPECT(fabs(item(tc_clip_grad_norm(&p, 1, max_norm)) - norm) <= 1e-6 * norm, "the norm before");
    for (int k = 0; k < 420; k++) want[k] = grad[k] * (max_norm / (norm + 1e-6));
    (void)read_f64(tc_grad(p), have);
    expect_near("clip_grad_norm", "gradient", type, 420, have, want, 0.51, 0);
    tc_release(p);
    tc_scope_end(scope);
  }
}

static void einsums_round_once(tc_type type) {
  static const char *const spec[] = {"ij,jk->i", "ij,kj->ik", "ij,ij,ij->j", "ij,kj,kl->il", "ij,ij->", "ij->j"};
  static const int n[] = {2, 2, 3, 3, 2, 1};
  static double have[MOST], want[MOST];
  make_data(type);
  for (int k = 0; k < 6; k++) {
    int64_t n_out[2];
    for (int wide = 0; wide < 2; wide++) {
      tc_scope scope = tc_scope_begin();
      if (wide) EXPECT_OK(tc_push_device("tc:ref"));
      operands o;
      make_operands(&o, wide ? TC_F64 : type);
      tc_tensor in[3] = {o.x, k == 0 ? tc_transpose(o.y, 0, 1) : o.y, o.p};
      if (k == 3) in[2] = tc_slice(o.p, 1, 0, 9, 1);
      n_out[wide] = read_f64(tc_einsum(spec[k], n[k], in), wide ? want : have);
      for (int j = 0; j < N_OPERANDS; j++) tc_release((&o.x)[j]);
      if (wide) EXPECT_OK(tc_pop_device());
      tc_scope_end(scope);
    }
    EXPECT(n_out[0] == n_out[1], "extents");
    expect_near(spec[k], "result", type, n_out[0], have, want, 0.51, 0.01);
  }
}

// ---- Draws ----

typedef struct moments {
  double mean, variance, least, most;
  int64_t n;
} moments;

static moments moments_of(tc_tensor t) {
  tc_tensor x = tc_cast(t, TC_F64);
  return (moments){item(tc_mean(x, TC_ALL, false)), item(tc_var(x, TC_ALL, 0, false)), item(tc_min(x, TC_ALL, false)),
                   item(tc_max(x, TC_ALL, false)), tc_numel(t)};
}

// Within five standard errors of what they should be, and the rounding of what is drawn; fourth:
// the fourth central moment.
static void expect_moments(const char *what, tc_type type, moments m, double mean, double variance, double fourth,
                           double slack) {
  double n = (double)m.n, off_mean = 5 * sqrt(variance / n),
         off_variance = 5 * sqrt((fourth - variance * variance) / n);
  EXPECT(fabs(m.mean - mean) <= off_mean + slack, "%s %s: mean %.9g, right %.9g +- %.2g", what, tc_type_name(type),
         m.mean, mean, off_mean);
  EXPECT(fabs(m.variance - variance) <= off_variance + slack, "%s %s: variance %.9g, right %.9g +- %.2g", what,
         tc_type_name(type), m.variance, variance, off_variance);
}

static void draws_are_what_they_say(void) {
  static const tc_type floats[] = {TC_F16, TC_BF16, TC_F32, TC_F64}, whole[] = {TC_U8, TC_I8, TC_I16, TC_I32, TC_I64};
  // simulated: a tenth of them, in which the ends are wider
  bool fewer = is_simulated();
  const tc_dims shape = TC_SHAPE(fewer ? 40 : 400, 1000);
  const double end = fewer ? 1e-3 : 1e-4, tail = fewer ? 3.5 : 4;
  tc_seed(11);
  for (int k = 0; k < 4; k++) {
    tc_scope scope = tc_scope_begin();
    tc_type type = floats[k];
    moments m = moments_of(tc_rand(shape, type)), like = moments_of(tc_rand_like(tc_zeros(shape, type)));
    double unit = type == TC_F16 ? 0x1p-11 : type == TC_BF16 ? 0x1p-8 : 1e-5;
    EXPECT(m.least >= 0 && m.most < 1 && like.least >= 0 && like.most < 1, "rand %s: [%.9g, %.9g]", tc_type_name(type),
           m.least, m.most);
    EXPECT(m.most >= 1 - 2 * unit - end && m.least <= end, "rand %s: [%.9g, %.9g] leaves out an end",
           tc_type_name(type), m.least, m.most);
    expect_moments("rand", type, m, 0.5, 1.0 / 12, 1.0 / 80, unit * unit);
    expect_moments("rand_like", type, like, 0.5, 1.0 / 12, 1.0 / 80, unit * unit);
    m = moments_of(tc_randn(shape, type)), like = moments_of(tc_randn_like(tc_zeros(shape, type)));
    expect_moments("randn", type, m, 0, 1, 3, unit * unit);
    expect_moments("randn_like", type, like, 0, 1, 3, unit * unit);
    EXPECT(m.least > -5.9 && m.least < -tail && m.most > tail && m.most < 5.9, "randn %s: [%.9g, %.9g]",
           tc_type_name(type), m.least, m.most);
    // What is kept is 1 / 0.75 of what was, and three quarters are kept.
    tc_tensor kept = tc_dropout(tc_ones(shape, type), 0.25);
    m = moments_of(kept);
    double factor = type == TC_F16 || type == TC_BF16 ? rounded(4.0 / 3, type) : 4.0 / 3;
    EXPECT(m.least == 0 && fabs(m.most - factor) <= 1e-6, "dropout %s: [%.9g, %.9g]", tc_type_name(type), m.least,
           m.most);
    expect_moments("dropout", type, m, 0.75 * factor, 0.1875 * factor * factor,
                   0.1875 * 0.4375 * factor * factor * factor * factor, 0);
    EXPECT(moments_of(tc_dropout(tc_ones(shape, type), 0)).least == 1 &&
               moments_of(tc_dropout(tc_ones(shape, type), 1)).most == 0,
           "dropout by 0 and 1");
    tc_scope_end(scope);
  }
  for (int k = 0; k < 5; k++) {
    tc_scope scope = tc_scope_begin();
    tc_type type = whole[k];
    int64_t low = type == TC_U8 ? 0 : -3, high = 17;
    double n = (double)(high - low), variance = (n * n - 1) / 12, fourth = (n * n - 1) * (3 * n * n - 7) / 240;
    moments m = moments_of(tc_randint(low, high, shape, type));
    EXPECT(m.least == (double)low && m.most == (double)high - 1, "randint %s: [%.9g, %.9g]", tc_type_name(type),
           m.least, m.most);
    expect_moments("randint", type, m, (double)(low + high - 1) / 2, variance, fourth, 0);
    tc_scope_end(scope);
  }
  for (double p = 0; p <= 1; p += 0.25) {
    tc_scope scope = tc_scope_begin();
    moments m = moments_of(tc_bernoulli(p, shape));
    EXPECT((p > 0 || m.most == 0) && (p < 1 || m.least == 1), "bernoulli of %g: [%g, %g]", p, m.least, m.most);
    expect_moments("bernoulli", TC_BOOL, m, p, p * (1 - p), p * (1 - p) * (1 - 3 * p * (1 - p)), 1e-4);
    tc_scope_end(scope);
  }
}

int main(void) {
  every_op_has_a_row();
  known_values();
  for (int k = 0; k < 2; k++) {
    tc_type type = k ? TC_BF16 : TC_F16;
    rows_round_once(type);
    if (type == TC_F16 || !is_simulated()) rows_longer_than_f16_counts(type);
    sums_in_parts_are_rounded_once(type);
    optimizers_round_once(type);
    a_step_without_gradient_is_none(type);
    clipping_rounds_once(type);
    einsums_round_once(type);
    if (strcmp(tc_get_default_device(), "tc:cpu") == 0) fusion_is_that_of_f32(type);
  }
  draws_are_what_they_say();
  return expect_done("numerics-half");
}
