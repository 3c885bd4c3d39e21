// Averages of a model against PyTorch (tests/golden/averages.safetensors, made by
// tools/golden_training.py); a whole training saved and gone on with to the bit, with schedules,
// averages and momentum; and what is refused.
#include <tc/train.h>

#include "tests/files/files.h"
#include "tests/golden_file.h"

enum { ROWS = 6, IN = 3, OUT = 2, N_UPDATES = 10 };

static void averages_are_pytorchs(void) {
  static const struct {
    const char *name;
    tc_ema_options options;
  } cases[] = {{"ema", {.decay = 0.9}}, {"default", {0}}, {"low", {.decay = 0.3}}, {"equal", {.equal = true}}};
  tc_scope scope = tc_scope_begin();
  tc_archive *a = tc_safetensors_open("tests/golden/averages.safetensors");
  for (int k = 0; k < 4; k++) {
    tc_nn_params *p = tc_nn_params_create();
    tc_tensor w = tc_nn_add(p, "weight", tc_zeros(TC_SHAPE(OUT, IN), TC_F64)), rows[N_UPDATES];
    tc_ema *ema = tc_ema_create(p, cases[k].options);
    uint64_t misses = 0;
    for (int i = 0; i < N_UPDATES; i++) {
      EXPECT_OK(tc_assign(w, tc_select(tc_archive_get(a, "values"), 0, i)));
      EXPECT_OK(tc_eval(1, &w));
      if (i == 3) misses = tc_cache_stats().plan_misses;
      EXPECT_OK(tc_ema_update(ema));
      tc_tensor average = tc_nn_get(tc_ema_model(ema), "weight");
      EXPECT_OK(tc_eval(1, &average));
      if (i == 3) EXPECT(i < 3 || tc_cache_stats().plan_misses == misses, "a new plan for update %d", i);
      rows[i] = tc_add(average, 0.0);
      EXPECT_OK(tc_eval(1, &rows[i]));
    }
    golden_expect(a, cases[k].name, tc_stack(N_UPDATES, rows, 0), 1e-14);
    EXPECT(tc_ema_n_averaged(ema) == N_UPDATES && !tc_nn_training(tc_ema_model(ema)), "%s", cases[k].name);
    EXPECT(!tc_requires_grad(tc_nn_get(tc_ema_model(ema), "weight")), "averages require no gradients");
    tc_ema_destroy(ema);
    tc_nn_params_destroy(p);
  }
  tc_archive_close(a);
  tc_scope_end(scope);
}

static void buffers_are_copied_or_averaged(void) {
  tc_scope scope = tc_scope_begin();
  tc_nn_params *p = tc_nn_params_create();
  tc_tensor f = tc_nn_add_buffer(p, "f", tc_ones(TC_SHAPE(1), TC_BF16)),
            n = tc_nn_add_buffer(p, "n", tc_full_int(TC_SCALAR, 5, TC_I64));
  tc_ema *copied = tc_ema_create(p, (tc_ema_options){.decay = 0.5}),
         *averaged = tc_ema_create(p, (tc_ema_options){.decay = 0.5, .buffers = true});
  for (int i = 0; i < 2; i++) {
    EXPECT_OK(tc_ema_update(copied));
    EXPECT_OK(tc_ema_update(averaged));
    EXPECT_OK(tc_assign(f, tc_full(TC_SHAPE(1), 3, TC_BF16)));
    EXPECT_OK(tc_assign(n, tc_full_int(TC_SCALAR, 9, TC_I64)));
  }
  EXPECT_OK(tc_ema_update(copied));
  EXPECT_OK(tc_ema_update(averaged));
  float got[2];
  int64_t count = 0;
  EXPECT_OK(tc_item_f32(tc_cast(tc_nn_get(tc_ema_model(copied), "f"), TC_F32), &got[0]));
  EXPECT_OK(tc_item_f32(tc_cast(tc_nn_get(tc_ema_model(averaged), "f"), TC_F32), &got[1]));
  EXPECT_OK(tc_item_i64(tc_nn_get(tc_ema_model(averaged), "n"), &count));
  EXPECT(got[0] == 3 && got[1] == 2.5F && count == 9, "%g %g %d", (double)got[0], (double)got[1], (int)count);
  tc_ema_destroy(copied);
  tc_ema_destroy(averaged);
  tc_nn_params_destroy(p);
  tc_scope_end(scope);
}

// ---- A whole training ----

typedef struct run {
  tc_nn_params *p;
  tc_tensor x;
  tc_optimizer *opt[2];
  tc_schedule *schedule[3];
  tc_ema *ema[2];
} run;

static void run_init(run *r, uint64_t seed) {
  tc_scope scope = tc_scope_begin();
  tc_seed(1);
  r->x = tc_retain(tc_randn(TC_SHAPE(ROWS, IN), TC_F32));
  tc_seed(seed);
  r->p = tc_nn_params_create();
  EXPECT_OK(tc_nn_add_linear(r->p, "a", IN, OUT, true));
  EXPECT_OK(tc_nn_add_batch_norm(r->p, "bn", OUT));
  EXPECT_OK(tc_nn_add_linear(r->p, "b", OUT, 1, true));
  tc_tensor a[2] = {tc_nn_get(r->p, "a.weight"), tc_nn_get(r->p, "a.bias")},
            b[2] = {tc_nn_get(r->p, "b.weight"), tc_nn_get(r->p, "b.bias")};
  r->opt[0] = tc_nadam(a, 2, (tc_nadam_options){.lr = 0.05, .weight_decay = 0.01});
  r->opt[1] = tc_sgd(b, 2, (tc_sgd_options){.lr = 0.1, .momentum = 0.9});
  tc_schedule *parts[2] = {tc_linear_lr(r->opt[0], (tc_linear_lr_options){0.2, 1, 3}),
                           tc_exponential_lr(r->opt[0], 0.9)};
  r->schedule[0] = tc_sequential_lr(r->opt[0], 2, parts, (int64_t[]){3});
  r->schedule[1] = tc_one_cycle_lr(r->opt[1], (tc_one_cycle_lr_options){.max_lr = 0.2, .total_steps = 20});
  r->schedule[2] = tc_reduce_lr_on_plateau(r->opt[1], (tc_reduce_lr_on_plateau_options){.patience = 1});
  r->ema[0] = tc_ema_create(r->p, (tc_ema_options){.decay = 0.8});
  r->ema[1] = tc_ema_create(r->p, (tc_ema_options){.equal = true});
  tc_scope_end(scope);
}

static void run_fini(run *r) {
  for (int k = 0; k < 3; k++) tc_schedule_destroy(r->schedule[k]);
  for (int k = 0; k < 2; k++) tc_ema_destroy(r->ema[k]);
  for (int k = 0; k < 2; k++) tc_optimizer_destroy(r->opt[k]);
  tc_nn_params_destroy(r->p);
  tc_release(r->x);
}

static tc_tensor forward(const run *r, const tc_nn_params *p) {
  tc_tensor h = tc_relu(tc_nn_batch_norm(p, "bn", tc_nn_linear(p, "a", r->x), 0.1, 1e-5));
  return tc_nn_linear(p, "b", tc_nn_dropout(p, h, 0.2));
}

static void train(run *r, int n) {
  for (int i = 0; i < n; i++) {
    tc_scope scope = tc_scope_begin();
    EXPECT_OK(tc_backward(tc_mse_loss(forward(r, r->p), tc_sum(r->x, TC_AXES(1), true))));
    for (int k = 0; k < 2; k++) {
      EXPECT_OK(tc_optimizer_step(r->opt[k]));
      EXPECT_OK(tc_zero_grad(r->opt[k]));
      EXPECT_OK(tc_schedule_step(r->schedule[k]));
      EXPECT_OK(tc_ema_update(r->ema[k]));
    }
    EXPECT_OK(tc_schedule_step_metric(r->schedule[2], 1));
    tc_scope_end(scope);
  }
}

// What the averages and the model itself give, and the rates.
static void bits_of(const run *r, double out[3 * ROWS + 4]) {
  tc_scope scope = tc_scope_begin();
  tc_tensor all[3] = {forward(r, tc_ema_model(r->ema[0])), forward(r, tc_ema_model(r->ema[1])), forward(r, r->p)};
  EXPECT_OK(tc_to_host(tc_cast(tc_cat(3, all, 0), TC_F64), out, 3 * ROWS * sizeof *out));
  out[3 * ROWS] = tc_get_lr(r->opt[0]), out[3 * ROWS + 1] = tc_get_lr(r->opt[1]);
  out[3 * ROWS + 2] = tc_get_momentum(r->opt[1]), out[3 * ROWS + 3] = (double)tc_ema_n_averaged(r->ema[1]);
  tc_scope_end(scope);
}

static tc_training training_of(const run *r) {
  return (tc_training){r->p, 2, r->opt, 3, r->schedule, 2, r->ema};
}

static void training_goes_on_to_the_bit(void) {
  run r, q;
  double want[3 * ROWS + 4], got[3 * ROWS + 4];
  const char *path = files_path("run.safetensors");
  run_init(&r, 3);
  train(&r, 5);
  tc_training t = training_of(&r);
  EXPECT_OK(tc_training_save(path, &t, 5));
  train(&r, 4);
  bits_of(&r, want);
  run_init(&q, 77);
  int64_t step = 0;
  tc_training u = training_of(&q);
  EXPECT_OK(tc_training_load(path, &u, &step));
  EXPECT(step == 5 && tc_schedule_n_steps(q.schedule[0]) == 5 && tc_ema_n_averaged(q.ema[0]) == 5, "step %d",
         (int)step);
  train(&q, 4);
  bits_of(&q, got);
  EXPECT(memcmp(want, got, sizeof want) == 0, "training goes on otherwise");
  // Another make is refused, and nothing changes.
  bits_of(&q, want);
  tc_training other = u;
  other.n_emas = 1;
  EXPECT_FAILS(tc_training_load(path, &other, NULL), TC_ERR_ARG, "holds 'ema1.");
  other = u;
  tc_schedule *swapped[3] = {q.schedule[1], q.schedule[0], q.schedule[2]};
  other.schedules = swapped;
  EXPECT_FAILS(tc_training_load(path, &other, NULL), TC_ERR_ARG, "'schedule.OneCycleLR'");
  bits_of(&q, got);
  EXPECT(memcmp(want + ROWS * 3, got + ROWS * 3, 4 * sizeof *want) == 0, "what was refused changed something");
  other = u;
  other.schedules = (tc_schedule *[]){q.schedule[0], NULL, q.schedule[2]};
  EXPECT_FAILS(tc_training_save(path, &other, 1), TC_ERR_ARG, "schedule 1 is NULL");
  other.schedules = NULL;
  EXPECT_FAILS(tc_training_save(path, &other, 1), TC_ERR_ARG, "3 schedules at a null pointer");
  EXPECT_FAILS(tc_training_save(path, NULL, 1), TC_ERR_ARG, "there is no training");
  EXPECT_FAILS(tc_training_load(files_path("absent"), &u, NULL), TC_ERR_IO, "");
  run_fini(&r);
  run_fini(&q);
}

static void wrong_calls_say_what(void) {
  tc_scope scope = tc_scope_begin();
  tc_nn_params *p = tc_nn_params_create();
  EXPECT_OK(tc_nn_add_linear(p, "a", 2, 2, true));
  EXPECT_FAILS(tc_ema_create(NULL, (tc_ema_options){0}), TC_ERR_ARG, "there is no model");
  EXPECT_FAILS(tc_ema_create(p, (tc_ema_options){.decay = 1.5}), TC_ERR_ARG,
               "decay is 1.5, give a number within [0, 1]");
  tc_ema *ema = tc_ema_create(p, (tc_ema_options){0});
  EXPECT_FAILS(tc_ema_update(NULL), TC_ERR_ARG, "there is no average");
  EXPECT_OK(tc_nn_cast(p, TC_F64));
  EXPECT_FAILS(tc_ema_update(ema), TC_ERR_STATE, "'a.weight' is f64, its average f32; make the average after the cast");
  EXPECT_OK(tc_nn_add_linear(p, "b", 2, 2, false));
  EXPECT_FAILS(tc_ema_update(ema), TC_ERR_STATE, "the model has 3 parameters and buffers, it had 2");
  EXPECT(tc_ema_model(NULL) == NULL && tc_ema_n_averaged(NULL) == 0, "no average");
  tc_ema_destroy(ema);
  tc_ema_destroy(NULL);
  tc_nn_params_destroy(p);
  tc_scope_end(scope);
}

int main(void) {
  if (has_library(tc_safetensors_open_at)) {
    averages_are_pytorchs();
    training_goes_on_to_the_bit();
  }
  buffers_are_copied_or_averaged();
  wrong_calls_say_what();
  (void)files_fini();
  return expect_done("files-training");
}
