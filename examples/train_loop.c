// A training loop with all that PyTorch's have: a recurrent model over sequences of different
// lengths, AdamW, warm-up and cosine, clipped gradients, an average of the model, and a checkpoint
// from which training goes on to the bit. The model reads up to 12 digits and says the greatest.
//
//   cc train_loop.c $(pkg-config --cflags --libs tc) && ./a.out [steps]
#include <stdio.h>
#include <stdlib.h>
#include <tc/train.h>
#include <unistd.h>

enum { BATCH = 64, LENGTH = 12, DIGITS = 10, DIM = 16, HIDDEN = 32 };

#define CHECK(call) \
  do { \
    if ((call) != TC_OK) { \
      fprintf(stderr, "%s\n", tc_last_error()->message); \
      exit(1); \
    } \
  } while (0)

typedef struct batch {
  tc_tensor digits, lengths, greatest;
} batch;

// Random digits, how many of each row count, and the greatest of these.
static batch draw(int64_t rows) {
  batch b = {tc_randint(0, DIGITS, TC_SHAPE(rows, LENGTH), TC_I64), tc_randint(1, LENGTH + 1, TC_SHAPE(rows), TC_I64)};
  tc_tensor there = tc_lt(tc_arange(0, LENGTH, 1, TC_I64), tc_reshape(b.lengths, TC_SHAPE(rows, 1)));
  b.greatest = tc_max(tc_where(there, b.digits, -1), TC_AXES(1), false);
  return b;
}

static tc_tensor forward(const tc_nn_params *p, batch b) {
  tc_nn_rnn_state last = {{0, 0}, {0, 0}};
  tc_nn_rnn_options o = {.batch_first = true, .lengths = b.lengths};
  (void)tc_nn_gru(p, "gru", tc_nn_embedding(p, "embed", b.digits), &last, o);
  return tc_nn_linear(p, "head", tc_select(last.h, 0, 0));
}

typedef struct run {
  tc_nn_params *model;
  tc_optimizer *opt;
  tc_schedule *schedule;
  tc_ema *ema;
} run;

static run run_create(int64_t n_steps) {
  run r = {.model = tc_nn_params_create()};
  CHECK(tc_nn_add_embedding(r.model, "embed", DIGITS, DIM));
  CHECK(tc_nn_add_gru(r.model, "gru", DIM, HIDDEN, (tc_nn_rnn_options){0}));
  CHECK(tc_nn_add_linear(r.model, "head", HIDDEN, DIGITS, true));
  r.opt = tc_adamw(tc_nn_tensors(r.model), tc_nn_count(r.model), (tc_adam_options){.lr = 0.01});
  tc_schedule *parts[2] = {tc_linear_lr(r.opt, (tc_linear_lr_options){.start_factor = 0.1, .total_iters = 10}),
                           tc_cosine_annealing_lr(r.opt, n_steps - 10, 0)};
  r.schedule = tc_sequential_lr(r.opt, 2, parts, (int64_t[]){10});
  r.ema = tc_ema_create(r.model, (tc_ema_options){.decay = 0.95});
  return r;
}

static void run_destroy(run *r) {
  tc_ema_destroy(r->ema);
  tc_schedule_destroy(r->schedule);
  tc_optimizer_destroy(r->opt);
  tc_nn_params_destroy(r->model);
}

// Steps from to to - 1; returns the last loss.
static float train(run *r, int64_t from, int64_t to, int64_t each) {
  float loss = 0;
  for (int64_t step = from; step < to; step++) {
    tc_scope outer = tc_scope_begin(), inner = tc_scope_begin();
    batch b = draw(BATCH);
    tc_tensor l = tc_keep(tc_cross_entropy_loss(forward(r->model, b), b.greatest, (tc_cross_entropy_options){0}));
    CHECK(tc_backward(l));
    (void)tc_clip_grad_norm(tc_nn_tensors(r->model), tc_nn_count(r->model), 1);
    CHECK(tc_optimizer_step(r->opt));
    CHECK(tc_zero_grad(r->opt));
    CHECK(tc_schedule_step(r->schedule));
    CHECK(tc_ema_update(r->ema));
    tc_scope_end(inner);
    CHECK(tc_item_f32(l, &loss));  // runs the step
    if (each && step % each == 0)
      printf("step %3d: loss %.3f, next rate %.5f\n", (int)step, (double)loss, tc_get_lr(r->opt));
    tc_scope_end(outer);
  }
  return loss;
}

static double accuracy(const tc_nn_params *p) {
  tc_scope scope = tc_scope_begin();
  batch b = draw(500);
  tc_tensor right = tc_eq(tc_argmax(forward(p, b), 1, false), b.greatest);
  float share = 0;
  CHECK(tc_item_f32(tc_mean(tc_cast(right, TC_F32), TC_ALL, false), &share));
  tc_scope_end(scope);
  return (double)share;
}

int main(int argc, char **argv) {
  int64_t n_steps = argc > 1 ? atoll(argv[1]) : 400, step = 0;
  char path[64];
  snprintf(path, sizeof path, "/tmp/train_loop-%d.safetensors", (int)getpid());
  tc_seed(1);
  run r = run_create(n_steps), again = run_create(n_steps);
  tc_training all = {r.model, 1, &r.opt, 1, &r.schedule, 1, &r.ema};
  (void)train(&r, 0, n_steps / 2, n_steps / 8);
  CHECK(tc_training_save(path, &all, n_steps / 2));
  float loss = train(&r, n_steps / 2, n_steps, n_steps / 8);
  double of_average = accuracy(tc_ema_model(r.ema));
  printf("right: %.1f %%, of the average %.1f %%\n", 100 * accuracy(r.model), 100 * of_average);

  // Another run goes on from the file: weights, moments, schedule, average and random numbers.
  tc_training others = {again.model, 1, &again.opt, 1, &again.schedule, 1, &again.ema};
  CHECK(tc_training_load(path, &others, &step));
  float same = train(&again, step, n_steps, 0);
  printf("from step %d on again: %s\n", (int)step,
         same == loss && accuracy(tc_ema_model(again.ema)) == of_average ? "the same bits" : "something else");
  remove(path);
  run_destroy(&r);
  run_destroy(&again);
  return 0;
}
