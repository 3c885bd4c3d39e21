// Losses with all options against PyTorch (tests/golden/losses.safetensors, made by
// tools/golden_training.py): values and gradients, in f64 and f32; and what is refused.
#include <tc/io.h>

#include "tests/files/files.h"
#include "tests/golden_file.h"

typedef struct operands {
  tc_tensor x, y, z, t, w, pos;
} operands;

typedef struct loss_case {
  const char *name;
  tc_tensor (*loss)(const operands *o);
} loss_case;

#define REDUCTIONS(X, name, ...) \
  X(name##_mean, TC_REDUCE_MEAN, __VA_ARGS__) \
  X(name##_sum, TC_REDUCE_SUM, __VA_ARGS__) X(name##_none, TC_REDUCE_NONE, __VA_ARGS__)
#define CROSS(...) tc_cross_entropy_loss(o->x, o->y, (tc_cross_entropy_options){.reduction = r, __VA_ARGS__})
#define NLL(...) tc_nll_loss_with(o->x, o->y, (tc_cross_entropy_options){.reduction = r, __VA_ARGS__})
#define PLAIN(name, ...) tc_##name(o->x, o->y, (tc_loss_options){.reduction = r, __VA_ARGS__})
#define TRIPLET(...) tc_triplet_margin_loss(o->x, o->y, o->z, (tc_margin_options){.reduction = r, __VA_ARGS__})
// clang-format off
#define CASES(X) \
  REDUCTIONS(X, mse, PLAIN(mse_loss_with)) \
  REDUCTIONS(X, l1, PLAIN(l1_loss_with)) \
  REDUCTIONS(X, huber, PLAIN(huber_loss_with, .delta = 0.7)) \
  REDUCTIONS(X, smooth_l1, PLAIN(smooth_l1_loss, .beta = 0.6)) \
  X(huber_default, TC_REDUCE_MEAN, PLAIN(huber_loss_with)) \
  X(smooth_l1_default, TC_REDUCE_MEAN, PLAIN(smooth_l1_loss)) \
  X(smooth_l1_sharp, TC_REDUCE_MEAN, PLAIN(smooth_l1_loss, .beta = TC_ZERO)) \
  REDUCTIONS(X, ce, CROSS()) \
  REDUCTIONS(X, ce_weight, CROSS(.weight = o->w)) \
  REDUCTIONS(X, ce_smooth, CROSS(.label_smoothing = 0.2)) \
  REDUCTIONS(X, ce_smooth_weight, CROSS(.label_smoothing = 0.2, .weight = o->w)) \
  REDUCTIONS(X, ce_ignore0, CROSS(.ignore_index = TC_ZERO_INT, .weight = o->w)) \
  REDUCTIONS(X, ce_image, CROSS(.label_smoothing = 0.1, .weight = o->w)) \
  REDUCTIONS(X, ce_soft, CROSS()) \
  REDUCTIONS(X, ce_soft_weight, CROSS(.label_smoothing = 0.3, .weight = o->w)) \
  REDUCTIONS(X, ce_soft_image, CROSS(.weight = o->w)) \
  REDUCTIONS(X, nll, NLL(.weight = o->w)) \
  REDUCTIONS(X, nll_image, NLL(.ignore_index = 1)) \
  X(ce_row, TC_REDUCE_MEAN, CROSS(.weight = o->w)) \
  X(ce_soft_row, TC_REDUCE_MEAN, CROSS()) \
  X(ce_all_ignored, TC_REDUCE_MEAN, CROSS()) \
  X(ce_all_ignored_sum, TC_REDUCE_SUM, CROSS()) \
  X(nll_all_ignored, TC_REDUCE_MEAN, NLL(.weight = o->w)) \
  REDUCTIONS(X, bce, tc_bce_loss(o->x, o->y, (tc_bce_options){.reduction = r})) \
  REDUCTIONS(X, bce_weight, tc_bce_loss(o->x, o->y, (tc_bce_options){.reduction = r, .weight = o->w})) \
  REDUCTIONS(X, bcel, tc_bce_with_logits_loss(o->x, o->y, (tc_bce_options){.reduction = r})) \
  REDUCTIONS(X, bcel_weights, \
             tc_bce_with_logits_loss(o->x, o->y, (tc_bce_options){.reduction = r, .weight = o->w, .pos_weight = o->pos})) \
  X(bce_ends, TC_REDUCE_NONE, tc_bce_loss(o->x, o->y, (tc_bce_options){.reduction = r})) \
  REDUCTIONS(X, kl, tc_kl_div_loss(o->x, o->y, (tc_kl_div_options){.reduction = r})) \
  REDUCTIONS(X, kl_log, tc_kl_div_loss(o->x, o->y, (tc_kl_div_options){.reduction = r, .log_target = true})) \
  X(kl_batchmean, TC_REDUCE_BATCHMEAN, tc_kl_div_loss(o->x, o->y, (tc_kl_div_options){.reduction = r})) \
  X(kl_log_batchmean, TC_REDUCE_BATCHMEAN, tc_kl_div_loss(o->x, o->y, (tc_kl_div_options){.reduction = r, .log_target = true})) \
  X(cosine, TC_REDUCE_NONE, tc_cosine_similarity(o->x, o->y, 1, 1e-8)) \
  X(cosine_axis0, TC_REDUCE_NONE, tc_cosine_similarity(o->x, o->y, 0, 1e-8)) \
  X(cosine_broadcast, TC_REDUCE_NONE, tc_cosine_similarity(o->x, o->y, -1, 1e-8)) \
  X(cosine_zeros, TC_REDUCE_NONE, tc_cosine_similarity(o->x, o->y, 1, 1e-8)) \
  REDUCTIONS(X, cosine_embedding, tc_cosine_embedding_loss(o->x, o->y, o->t, (tc_margin_options){.reduction = r, .margin = 0.1})) \
  X(cosine_embedding_row, TC_REDUCE_MEAN, tc_cosine_embedding_loss(o->x, o->y, o->t, (tc_margin_options){.reduction = r})) \
  REDUCTIONS(X, triplet, TRIPLET()) \
  X(triplet_swap, TC_REDUCE_MEAN, TRIPLET(.margin = 2, .swap = true)) \
  X(triplet_p1, TC_REDUCE_MEAN, TRIPLET(.p = 1)) \
  X(triplet_p3, TC_REDUCE_MEAN, TRIPLET(.p = 3, .margin = 0.5))
// clang-format on

#define DEFINE(name, reduction_, ...) \
  static tc_tensor loss_##name(const operands *o) { \
    tc_reduction r __attribute__((unused)) = reduction_; \
    return __VA_ARGS__; \
  }
CASES(DEFINE)
#define ROW(name, ...) {#name, loss_##name},
static const loss_case cases[] = {CASES(ROW)};

// An operand in the type of the run; a leaf where the case has its gradient.
static tc_tensor operand(const tc_archive *a, const char *of, const char *what, tc_type type) {
  if (!tc_archive_has(a, golden_name("%s.%s", of, what))) return (tc_tensor){0, 0};
  tc_tensor t = tc_archive_get(a, golden_name("%s.%s", of, what));
  if (tc_dtype(t) == TC_F64) t = tc_cast(t, type);
  return tc_archive_has(a, golden_name("%s.d%s", of, what)) ? tc_param(t) : t;
}

static void run_case(const tc_archive *a, const loss_case *c, tc_type type) {
  static const char *const names[] = {"x", "y", "z", "t", "w", "pos"};
  double tolerance = type == TC_F64 ? 1e-12 : 4e-6;
  tc_scope scope = tc_scope_begin();
  tc_tensor in[6];
  for (int i = 0; i < 6; i++) in[i] = operand(a, c->name, names[i], type);
  operands o = {in[0], in[1], in[2], in[3], in[4], in[5]};
  tc_tensor loss = c->loss(&o);
  EXPECT(tc_dtype(loss) == type, "%s is %s", c->name, tc_type_name(tc_dtype(loss)));
  golden_expect(a, golden_name("%s.out", c->name), loss, tolerance);
  EXPECT_OK(tc_backward_with(loss, tc_cast(tc_archive_get(a, golden_name("%s.g", c->name)), type), 0));
  for (int i = 0; i < 6; i++) {
    if (!tc_archive_has(a, golden_name("%s.d%s", c->name, names[i]))) continue;
    golden_expect(a, golden_name("%s.d%s", c->name, names[i]), tc_grad(in[i]), tolerance);
    tc_release(in[i]);
  }
  tc_scope_end(scope);
}

static void losses_are_pytorchs(void) {
  tc_archive *a = tc_safetensors_open("tests/golden/losses.safetensors");
  int n_out = 0;
  for (int i = 0; i < tc_archive_count(a); i++) n_out += strstr(tc_archive_name(a, i), ".out") != NULL;
  EXPECT(n_out == sizeof cases / sizeof cases[0], "%d cases in the file", n_out);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    run_case(a, &cases[i], TC_F64);
    run_case(a, &cases[i], TC_F32);
  }
  tc_archive_close(a);
}

// The slope at the ends is PyTorch's 1e12, and has a slope itself.
static void bce_has_second_derivatives(void) {
  tc_scope scope = tc_scope_begin();
  tc_tensor x = tc_param(tc_from_host((double[]){0.25, 0}, TC_SHAPE(2), TC_F64)), slope, curve;
  tc_tensor y = tc_from_host((double[]){1, 0}, TC_SHAPE(2), TC_F64);
  tc_tensor loss = tc_bce_loss(x, y, (tc_bce_options){.reduction = TC_REDUCE_SUM});
  double got[2];
  EXPECT_OK(tc_grads_of(loss, &x, 1, &slope, TC_CREATE_GRAPH));
  EXPECT_OK(tc_grads_of(tc_sum(slope, TC_ALL, false), &x, 1, &curve, 0));
  EXPECT_OK(tc_to_host(curve, got, sizeof got));
  EXPECT(fabs(got[0] - 16) < 1e-9 && fabs(got[1] - 1e12) < 1e4, "%g %g", got[0], got[1]);
  tc_release(x);
  tc_scope_end(scope);
}

static void wrong_calls_say_what(void) {
  tc_scope scope = tc_scope_begin();
  tc_tensor x = tc_zeros(TC_SHAPE(4, 3), TC_F32), y = tc_zeros(TC_SHAPE(4), TC_I64), w = tc_ones(TC_SHAPE(4), TC_F32);
  EXPECT_FAILS(tc_mse_loss_with(x, x, (tc_loss_options){.reduction = 7}), TC_ERR_ARG,
               "reduction is 7; give TC_REDUCE_MEAN, TC_REDUCE_SUM or TC_REDUCE_NONE");
  EXPECT_FAILS(tc_l1_loss_with(x, x, (tc_loss_options){.reduction = TC_REDUCE_BATCHMEAN}), TC_ERR_ARG,
               "reduction is 3");
  EXPECT_FAILS(tc_huber_loss_with(x, x, (tc_loss_options){.delta = -1}), TC_ERR_ARG, "delta is -1, not above 0");
  EXPECT_FAILS(tc_smooth_l1_loss(x, x, (tc_loss_options){.beta = -2}), TC_ERR_ARG, "beta is -2");
  EXPECT_FAILS(tc_cross_entropy_loss(x, y, (tc_cross_entropy_options){.weight = w}), TC_ERR_SHAPE,
               "weight is [4], [3] is needed: one for each class");
  EXPECT_FAILS(tc_cross_entropy_loss(x, y, (tc_cross_entropy_options){.label_smoothing = 1.5}), TC_ERR_ARG,
               "label smoothing is 1.5, not within [0, 1]");
  EXPECT_FAILS(tc_cross_entropy_loss(x, y, (tc_cross_entropy_options){.reduction = 9}), TC_ERR_ARG, "reduction is 9");
  EXPECT_FAILS(tc_cross_entropy_loss(x, x, (tc_cross_entropy_options){.ignore_index = 1}), TC_ERR_ARG,
               "ignore_index is 1, but the target is probabilities");
  EXPECT_FAILS(tc_cross_entropy_loss(x, w, (tc_cross_entropy_options){0}), TC_ERR_DTYPE, "class indices are needed");
  EXPECT_FAILS(tc_nll_loss_with(x, y, (tc_cross_entropy_options){.label_smoothing = 0.1}), TC_ERR_ARG,
               "label smoothing is of cross_entropy_loss alone");
  EXPECT_FAILS(tc_nll_loss_with(x, x, (tc_cross_entropy_options){0}), TC_ERR_DTYPE, "class indices are needed");
  EXPECT_FAILS(tc_bce_loss(x, x, (tc_bce_options){.pos_weight = w}), TC_ERR_ARG,
               "pos_weight is of bce_with_logits_loss; here weight takes its place");
  EXPECT_FAILS(tc_bce_with_logits_loss(x, x, (tc_bce_options){.weight = w}), TC_ERR_SHAPE, "");
  EXPECT_FAILS(tc_kl_div_loss(tc_scalar(1), tc_scalar(1), (tc_kl_div_options){.reduction = TC_REDUCE_BATCHMEAN}),
               TC_ERR_SHAPE, "a scalar is no batch");
  EXPECT_FAILS(tc_cosine_similarity(x, x, 2, 1e-8), TC_ERR_ARG, "axis 2 is out of range for rank 2");
  EXPECT_FAILS(tc_cosine_similarity(x, x, 1, -1), TC_ERR_ARG, "eps is -1");
  EXPECT_FAILS(tc_cosine_embedding_loss(x, x, w, (tc_margin_options){.reduction = 4}), TC_ERR_ARG, "reduction is 4");
  EXPECT_FAILS(tc_cosine_embedding_loss(x, x, x, (tc_margin_options){0}), TC_ERR_SHAPE,
               "a [4, 3], b [4, 3] and y [4, 3] do not fit");
  EXPECT_FAILS(tc_triplet_margin_loss(x, x, x, (tc_margin_options){.margin = TC_ZERO}), TC_ERR_ARG,
               "margin is 0, p 2, eps 1e-06; margin and p must be above 0");
  EXPECT_FAILS(tc_triplet_margin_loss(x, w, x, (tc_margin_options){0}), TC_ERR_SHAPE, "anchor has 2 axes, positive 1");
  EXPECT_FAILS(tc_mse_loss_with((tc_tensor){0, 0}, x, (tc_loss_options){0}), TC_ERR_HANDLE, "");
  // A class that there is not is told at the sync, also where classes have weights.
  float v;
  tc_tensor bad = tc_full_int(TC_SHAPE(4), 3, TC_I64), w3 = tc_ones(TC_SHAPE(3), TC_F32);
  EXPECT_FAILS(tc_item_f32(tc_cross_entropy_loss(x, bad, (tc_cross_entropy_options){.weight = w3}), &v), TC_ERR_INDEX,
               "3");
  tc_scope_end(scope);
}

int main(void) {
  if (has_library(tc_safetensors_open_at)) losses_are_pytorchs();
  bce_has_second_derivatives();
  wrong_calls_say_what();
  return expect_done("api-losses");
}
