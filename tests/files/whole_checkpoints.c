// A model is saved whole by one call, with its buffers and any number of optimizers and their
// groups, and training goes on from it to the bit. Groups of parameters are PyTorch's: each has its
// learning rate and weight decay. Files of before there were several optimizers still load
// (tests/golden/checkpoint_1.safetensors).
#include <math.h>
#include <tc/nn.h>

#include "tests/expect.h"
#include "tests/files/files.h"

enum { ROWS = 8, IN = 6, HIDDEN = 5, N_STEPS = 7, HALF = 3 };

typedef struct model {
  tc_nn_params *p;
  tc_tensor x;
  tc_optimizer *opt[2];  // of matrices and, in a group of their own, vectors of the body; of the head
} model;

static void model_init(model *m, uint64_t seed) {
  tc_scope scope = tc_scope_begin();
  tc_seed(1);
  m->x = tc_retain(tc_randn(TC_SHAPE(ROWS, IN), TC_F32));
  tc_seed(seed);
  m->p = tc_nn_params_create();
  EXPECT_OK(tc_nn_add_linear(m->p, "body", IN, HIDDEN, true));
  EXPECT_OK(tc_nn_add_batch_norm(m->p, "bn", HIDDEN));
  EXPECT_OK(tc_nn_add_linear(m->p, "head", HIDDEN, 1, true));
  tc_tensor vectors[] = {tc_nn_get(m->p, "body.bias"), tc_nn_get(m->p, "bn.weight"), tc_nn_get(m->p, "bn.bias")};
  m->opt[0] =
      tc_adamw((tc_tensor[]){tc_nn_get(m->p, "body.weight")}, 1, (tc_adam_options){.lr = 0.02, .weight_decay = 0.3});
  EXPECT_OK(tc_optimizer_add_group(m->opt[0], vectors, 3, (tc_group_options){.lr = 0.05, .weight_decay = TC_ZERO}));
  m->opt[1] = tc_sgd((tc_tensor[]){tc_nn_get(m->p, "head.weight"), tc_nn_get(m->p, "head.bias")}, 2,
                     (tc_sgd_options){.lr = 0.1, .momentum = 0.9});
  tc_scope_end(scope);
}

static void model_fini(model *m) {
  for (int k = 0; k < 2; k++) tc_optimizer_destroy(m->opt[k]);
  tc_nn_params_destroy(m->p);
  tc_release(m->x);
}

static tc_tensor forward(const model *m) {
  tc_tensor h = tc_relu(tc_nn_batch_norm(m->p, "bn", tc_nn_linear(m->p, "body", m->x), 0.1, 1e-5));
  return tc_nn_linear(m->p, "head", tc_nn_dropout(m->p, h, 0.25));
}

static void train(model *m, int from, int to) {
  for (int i = from; i < to; i++) {
    tc_scope scope = tc_scope_begin();
    EXPECT_OK(tc_backward(tc_mse_loss(forward(m), tc_sum(m->x, TC_AXES(1), true))));
    for (int k = 0; k < 2; k++) {
      EXPECT_OK(tc_optimizer_step(m->opt[k]));
      EXPECT_OK(tc_zero_grad(m->opt[k]));
    }
    EXPECT_OK(tc_set_group_lr(m->opt[0], 1, tc_get_group_lr(m->opt[0], 1) * 0.75));
    EXPECT_OK(tc_set_lr(m->opt[1], tc_get_lr(m->opt[1]) * 0.9));
    tc_scope_end(scope);
  }
}

typedef struct bits {
  float value[IN * HIDDEN + 5 * HIDDEN + HIDDEN + 1], evaluated[ROWS];
  double lr[3];
  int64_t n_batches;
} bits;

// All parameters and buffers, and what the model gives in evaluation.
static bits bits_of(const model *m) {
  bits b = {.lr = {tc_get_group_lr(m->opt[0], 0), tc_get_group_lr(m->opt[0], 1), tc_get_lr(m->opt[1])}};
  float *to = b.value;
  tc_scope scope = tc_scope_begin();
  for (int i = 0; i < tc_nn_count_all(m->p); i++) {
    tc_tensor t = tc_nn_tensors(m->p)[i];
    if (tc_dtype(t) != TC_F32) continue;
    EXPECT_OK(tc_to_host(t, to, (size_t)tc_numel(t) * sizeof *to));
    to += tc_numel(t);
  }
  EXPECT(to == b.value + sizeof b.value / sizeof *b.value, "%d floats", (int)(to - b.value));
  EXPECT_OK(tc_item_i64(tc_nn_get(m->p, "bn.num_batches_tracked"), &b.n_batches));
  tc_nn_set_training(m->p, false);
  EXPECT_OK(tc_to_host(forward(m), b.evaluated, sizeof b.evaluated));
  tc_nn_set_training(m->p, true);
  tc_scope_end(scope);
  return b;
}

static void a_model_is_saved_whole(void) {
  const char *path = files_path("whole.safetensors");
  int64_t step = 0;
  model m, n;
  model_init(&m, 7);
  train(&m, 0, HALF);
  EXPECT_OK(tc_nn_checkpoint_save(m.p, path, 2, m.opt, HALF));
  bits half = bits_of(&m);
  train(&m, HALF, N_STEPS);
  bits whole = bits_of(&m);
  model_init(&n, 99);
  train(&n, 0, 1);
  EXPECT_OK(tc_nn_checkpoint_load(n.p, path, 2, n.opt, &step));
  EXPECT(step == HALF, "step %d", (int)step);
  bits loaded = bits_of(&n);
  EXPECT(memcmp(&half, &loaded, sizeof half) == 0 && loaded.n_batches == HALF, "what was loaded is not what was saved");
  train(&n, HALF, N_STEPS);
  bits again = bits_of(&n);
  EXPECT(memcmp(&whole, &again, sizeof whole) == 0, "training goes on differently");

  EXPECT_FAILS(tc_nn_checkpoint_load(n.p, path, 1, n.opt, NULL), TC_ERR_ARG,
               "with more than the 1 optimizers of this program");
  EXPECT_FAILS(tc_nn_checkpoint_load(n.p, path, 0, NULL, NULL), TC_ERR_ARG, "holds 'optimizer");
  tc_optimizer *swapped[] = {n.opt[1], n.opt[0]}, *twice[] = {n.opt[0], n.opt[0]}, *missing[] = {n.opt[0], NULL};
  EXPECT_FAILS(tc_nn_checkpoint_load(n.p, path, 2, swapped, NULL), TC_ERR_ARG,
               "optimizer 0 has 1 groups of parameters here");
  EXPECT_FAILS(tc_nn_checkpoint_save(n.p, path, 2, twice, 0), TC_ERR_ARG, "optimizers 0 and 1 are the same");
  EXPECT_FAILS(tc_nn_checkpoint_save(n.p, path, 2, missing, 0), TC_ERR_ARG, "optimizer 1 is NULL");
  EXPECT_FAILS(tc_nn_checkpoint_save(n.p, path, 2, NULL, 0), TC_ERR_ARG, "2 optimizers at a null pointer");
  EXPECT_FAILS(tc_nn_checkpoint_save(NULL, path, 2, n.opt, 0), TC_ERR_ARG, "there is no list");
  tc_nn_params *other = tc_nn_params_create();
  EXPECT_FAILS(tc_nn_checkpoint_save(other, path, 1, n.opt, 0), TC_ERR_ARG,
               "parameter 0 of optimizer 0 is not in the list");
  tc_nn_params_destroy(other);
  bits untouched = bits_of(&n);
  EXPECT(memcmp(&again, &untouched, sizeof again) == 0, "a refused load changed something");
  model_fini(&m);
  model_fini(&n);
}

// The same parameters in other groups are another optimizer.
static void groups_are_part_of_an_optimizer(void) {
  const char *path = files_path("groups.safetensors"), *names[] = {"a", "b", "c"};
  tc_tensor p[3];
  tc_optimizer *opt[2];
  for (int i = 0; i < 3; i++) p[i] = tc_param(tc_full(TC_SHAPE(2), i, TC_F32));
  opt[0] = tc_sgd(p, 1, (tc_sgd_options){.lr = 0.5}), opt[1] = tc_sgd(p, 2, (tc_sgd_options){.lr = 0.5});
  EXPECT_OK(tc_optimizer_add_group(opt[0], p + 1, 2, (tc_group_options){.lr = 0.25}));
  EXPECT_OK(tc_optimizer_add_group(opt[1], p + 2, 1, (tc_group_options){0}));
  EXPECT_OK(tc_checkpoint_save(path, 3, names, p, opt[0], 0));
  EXPECT_FAILS(tc_checkpoint_load(path, 3, names, p, opt[1], NULL), TC_ERR_ARG, "other groups");
  EXPECT_OK(tc_checkpoint_load(path, 3, names, p, opt[0], NULL));
  for (int k = 0; k < 2; k++) tc_optimizer_destroy(opt[k]);
  for (int i = 0; i < 3; i++) tc_release(p[i]);
}

// By hand: p - lr * (1 + decay * p) for gradients of one.
static void groups_have_their_own_numbers(void) {
  float v[4];
  tc_tensor p[4];
  for (int i = 0; i < 4; i++) p[i] = tc_param(tc_full(TC_SCALAR, 2, TC_F32));
  tc_optimizer *opt = tc_sgd(p, 1, (tc_sgd_options){.lr = 0.5, .weight_decay = 0.25});
  EXPECT_OK(tc_optimizer_add_group(opt, p + 1, 1, (tc_group_options){.weight_decay = TC_ZERO}));
  EXPECT_OK(tc_optimizer_add_group(opt, p + 2, 1, (tc_group_options){.lr = 0.125}));
  EXPECT_OK(tc_optimizer_add_group(opt, p + 3, 1, (tc_group_options){.lr = TC_ZERO, .weight_decay = 1}));
  EXPECT(tc_optimizer_n_groups(opt) == 4 && tc_optimizer_group(opt, 2) == 2 && tc_optimizer_group(opt, 4) == -1 &&
             tc_optimizer_param(opt, 3).slot == p[3].slot,
         "groups");
  EXPECT_FAILS(tc_optimizer_add_group(opt, p + 1, 1, (tc_group_options){0}), TC_ERR_ARG,
               "parameter 0 is in group 1 already");
  EXPECT_FAILS(tc_optimizer_add_group(opt, NULL, 0, (tc_group_options){0}), TC_ERR_ARG, "0 parameters");
  EXPECT_FAILS(tc_optimizer_add_group(opt, &(tc_tensor){0, 0}, 1, (tc_group_options){0}), TC_ERR_HANDLE, "parameter 0");
  tc_tensor more = tc_param(tc_zeros(TC_SHAPE(2), TC_F32));
  EXPECT_FAILS(tc_optimizer_add_group(opt, &more, 1, (tc_group_options){.lr = -1}), TC_ERR_ARG, "lr is -1");
  EXPECT_FAILS(tc_optimizer_add_group(NULL, &more, 1, (tc_group_options){0}), TC_ERR_ARG, "no optimizer");
  EXPECT_FAILS(tc_set_group_lr(opt, 4, 1), TC_ERR_ARG, "no group 4 among 4");
  tc_release(more);
  for (int again = 0; again < 2; again++) {
    tc_tensor sum = tc_add(tc_add(p[0], p[1]), tc_add(p[2], p[3]));
    EXPECT_OK(tc_backward(sum));
    EXPECT_OK(tc_optimizer_step(opt));
    EXPECT_OK(tc_zero_grad(opt));
    for (int i = 0; i < 4; i++) EXPECT_OK(tc_item_f32(p[i], &v[i]));
    if (!again)
      EXPECT(v[0] == 1.25f && v[1] == 1.5f && v[2] == 1.8125f && v[3] == 2, "%g %g %g %g", (double)v[0], (double)v[1],
             (double)v[2], (double)v[3]);
    EXPECT_OK(tc_set_lr(opt, 1));  // of the first two
  }
  EXPECT(v[0] == -0.0625f && v[1] == 0.5f && v[2] == 1.630859375f && v[3] == 2, "%g %g %g %g", (double)v[0],
         (double)v[1], (double)v[2], (double)v[3]);
  EXPECT(tc_get_group_lr(opt, 1) == 1 && tc_get_group_lr(opt, 2) == 0.125, "rates");
  tc_optimizer_destroy(opt);
  for (int i = 0; i < 4; i++) tc_release(p[i]);
}

static void older_files_load(void) {
  static const char *const names[] = {"w", "b"};
  tc_tensor p[2] = {tc_param(tc_zeros(TC_SHAPE(3), TC_F32)), tc_param(tc_zeros(TC_SHAPE(1), TC_F32))};
  tc_optimizer *opt = tc_adam(p, 2, (tc_adam_options){.lr = 1});
  int64_t step = 0;
  float w[3], m[3];
  EXPECT_OK(tc_checkpoint_load("tests/golden/checkpoint_1.safetensors", 2, names, p, opt, &step));
  EXPECT_OK(tc_to_host(p[0], w, sizeof w));
  EXPECT_OK(tc_to_host(tc_optimizer_state(opt, 0), m, sizeof m));
  EXPECT(step == 17 && tc_get_lr(opt) == 0.05 && w[0] == 0.9f && w[2] == 2.9f && fabsf(m[2] - 0.15f) < 1e-6f,
         "%d %g %g %g", (int)step, tc_get_lr(opt), (double)w[0], (double)m[2]);
  tc_optimizer_destroy(opt);
  for (int i = 0; i < 2; i++) tc_release(p[i]);
}

int main(void) {
  groups_have_their_own_numbers();
  if (!has_library(tc_safetensors_open_at)) return expect_done("files-whole_checkpoints") ? 1 : 77;
  a_model_is_saved_whole();
  groups_are_part_of_an_optimizer();
  older_files_load();
  (void)files_fini();
  tc_shutdown();
  return expect_done("files-whole_checkpoints");
}
