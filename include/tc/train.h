// What a training loop needs besides optimizers (tc.h) and modules (nn.h): schedules of learning
// rates, averages of parameters, and a checkpoint of all of it. Optional: everything here is
// written over tc.h, io.h and nn.h.
//
//   tc_optimizer *opt = tc_adamw(tc_nn_tensors(p), tc_nn_count(p), (tc_adam_options){.lr = 1e-3});
//   tc_schedule *warm = tc_linear_lr(opt, (tc_linear_lr_options){.start_factor = 0.1});
//   tc_schedule *cool = tc_cosine_annealing_lr(opt, 995, 0);
//   tc_schedule *s = tc_sequential_lr(opt, 2, (tc_schedule *[]){warm, cool}, (int64_t[]){5});
//   ...
//   (void)tc_optimizer_step(opt);
//   (void)tc_schedule_step(s);
//
// Names and formulas are those of torch.optim.lr_scheduler and torch.optim.swa_utils. In a field of
// an options struct 0 means left out; TC_ZERO and TC_ZERO_INT are true zeros.
// Errors are tc.h's: NULL or a status, and tc_last_error has the text, with the caller's file and
// line.
// Threads: thread-compatible; a schedule and an average belong to the thread that made them.
#ifndef TC_TRAIN_H
#define TC_TRAIN_H

#include <tc/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- Schedules of learning rates ----
// A schedule sets the learning rates of all groups of its optimizer, which it borrows: destroy it
// first. Creating one is its step 0, as in PyTorch: a warm-up's first rate holds from then on.
// Steps count from 1: calls of tc_schedule_step, a batch or an epoch each, as the program likes.
// Rates are arguments of plans: no step makes a new one. A group without a rate of its own keeps
// following group 0.
// Several schedules of one optimizer multiply: each changes the rate that it finds. What they start
// from is tc_get_initial_lr.
// Constructors: NULL with TC_ERR_ARG where there is no optimizer or a number makes no sense, with
// TC_ERR_MEMORY.

// A schedule, which the thread that created it destroys.
typedef struct tc_schedule tc_schedule;

// Every step_size steps the rate is multiplied by gamma, PyTorch's 0.1. StepLR.
TC_API tc_schedule *tc_step_lr(tc_optimizer *opt, int64_t step_size, double gamma);
// At each of n steps the rate is multiplied by gamma, as often as the step is there; copied.
// MultiStepLR.
TC_API tc_schedule *tc_multi_step_lr(tc_optimizer *opt, const int64_t *milestones, int n, double gamma);
// Each step multiplies the rate by gamma. ExponentialLR.
TC_API tc_schedule *tc_exponential_lr(tc_optimizer *opt, double gamma);
// Half a cosine from the initial rate to eta_min in t_max steps, and back. CosineAnnealingLR.
TC_API tc_schedule *tc_cosine_annealing_lr(tc_optimizer *opt, int64_t t_max, double eta_min);
// Half a cosine from the initial rate to eta_min in t_0 steps, then anew in t_mult times as many
// each. CosineAnnealingWarmRestarts; PyTorch's t_mult is 1.
TC_API tc_schedule *tc_cosine_annealing_warm_restarts(tc_optimizer *opt, int64_t t_0, int64_t t_mult, double eta_min);
// The rate times factor for total_iters steps, then the initial one. ConstantLR.
typedef struct tc_constant_lr_options {
  double factor;  // within [0, 1], 1/3
  int64_t total_iters;  // 5
} tc_constant_lr_options;
TC_API tc_schedule *tc_constant_lr(tc_optimizer *opt, tc_constant_lr_options options);
// A line of factors in total_iters steps. LinearLR.
typedef struct tc_linear_lr_options {
  double start_factor, end_factor;  // within (0, 1], 1/3; within [0, 1], 1
  int64_t total_iters;  // 5
} tc_linear_lr_options;
TC_API tc_schedule *tc_linear_lr(tc_optimizer *opt, tc_linear_lr_options options);
// (1 - step / total_iters)^power of the initial rate. PolynomialLR.
typedef struct tc_polynomial_lr_options {
  int64_t total_iters;  // 5
  double power;  // 1
} tc_polynomial_lr_options;
TC_API tc_schedule *tc_polynomial_lr(tc_optimizer *opt, tc_polynomial_lr_options options);
// The initial rate times fn(step, group, user), from step 0 on. fn calls nothing of tc. LambdaLR.
TC_API tc_schedule *tc_lambda_lr(tc_optimizer *opt, double (*fn)(int64_t step, int group, void *user), void *user);
// Up from max_lr / div_factor to max_lr, down to the first by final_div_factor; the momentum down
// and up, where the optimizer has one (tc_set_momentum). OneCycleLR.
// The initial rates of all groups become max_lr / div_factor. TC_ERR_ARG for an optimizer without
// momentum, unless fixed_momentum. More than total_steps steps are TC_ERR_STATE.
typedef struct tc_one_cycle_lr_options {
  double max_lr;  // above 0
  int64_t total_steps;  // above 0
  double pct_start;  // the part of the steps that goes up, 0.3
  double div_factor, final_div_factor;  // 25, 1e4
  double base_momentum, max_momentum;  // 0.85, 0.95
  bool fixed_momentum;  // true: momentum stays (cycle_momentum=False)
  bool linear;  // true: lines instead of cosines (anneal_strategy="linear")
  bool three_phase;  // true: down to the first rate in as many steps as up, then to the last one
} tc_one_cycle_lr_options;
TC_API tc_schedule *tc_one_cycle_lr(tc_optimizer *opt, tc_one_cycle_lr_options options);
// The rate times factor where a metric has not become better for more than patience steps. Stepped
// by tc_schedule_step_metric. ReduceLROnPlateau.
typedef struct tc_reduce_lr_on_plateau_options {
  bool max;  // true: greater is better (mode="max")
  double factor;  // below 1, 0.1
  int64_t patience;  // steps that are not better before the rate is reduced, 10
  double threshold;  // what does not count as better, 1e-4: a share of the best, or absolute
  bool absolute;  // true: threshold is a difference (threshold_mode="abs")
  int64_t cooldown;  // steps after a reduction in which none is counted, 0
  double min_lr, eps;  // the least rate, 0; the least change of a rate that is made, 1e-8
} tc_reduce_lr_on_plateau_options;
TC_API tc_schedule *tc_reduce_lr_on_plateau(tc_optimizer *opt, tc_reduce_lr_on_plateau_options options);
// n schedules one after the other; the next begins anew at each of the n - 1 milestones, which
// rise.
// SequentialLR. It takes the schedules over, also where it fails. TC_ERR_ARG where one is NULL, of
// another optimizer, taken already, a ReduceLROnPlateau, or itself made of others.
TC_API tc_schedule *tc_sequential_lr(tc_optimizer *opt, int n, tc_schedule *const *schedules,
                                     const int64_t *milestones);
// n schedules of one optimizer, stepped together. ChainedScheduler. Takes them over, too;
// TC_ERR_ARG for the same but that a SequentialLR may be among them.
TC_API tc_schedule *tc_chained_scheduler(int n, tc_schedule *const *schedules);
// The optimizer stays as it is; what the schedule took over goes with it. NULL is fine; a schedule
// that was taken over is left to its owner.
TC_API void tc_schedule_destroy(tc_schedule *s);

// One step; after the optimizer's. TC_ERR_ARG for NULL, and where a metric is asked for or not.
// TC_ERR_STATE: groups were added to the optimizer after the schedule was made, or another took the
// schedule over.
TC_API tc_status tc_schedule_step(tc_schedule *s) TC_MUST_USE;
TC_API tc_status tc_schedule_step_metric(tc_schedule *s, double metric) TC_MUST_USE;
// PyTorch's name, "StepLR"; of those made of others with theirs, "SequentialLR(LinearLR,StepLR)".
// "" for NULL. Borrowed from the schedule.
TC_API const char *tc_schedule_name(const tc_schedule *s);
// Steps so far.
TC_API int64_t tc_schedule_n_steps(const tc_schedule *s);
// What a schedule goes on from: [n] f64, of the current scope; and setting it in another of the
// same make. The rates themselves are the optimizer's, the momentum is here. Setting is a sync
// point:
// TC_ERR_SHAPE for another n, TC_ERR_ARG for numbers that no such schedule has.
TC_API tc_tensor tc_schedule_state(const tc_schedule *s);
TC_API tc_status tc_schedule_set_state(tc_schedule *s, tc_tensor state) TC_MUST_USE;

// ---- Averages of a model ----

// A model of the same names whose values are averages. torch.optim.swa_utils.AveragedModel.
typedef struct tc_ema tc_ema;
typedef struct tc_ema_options {
  double decay;  // of the average, within [0, 1]; 0.999
  bool equal;  // true: all updates weigh alike (SWA); decay does not count
  bool buffers;  // true: floating buffers are averaged too, not copied (use_buffers)
} tc_ema_options;
// An average of all of model, which is borrowed, with its values now. NULL with TC_ERR_ARG, or
// TC_ERR_MEMORY.
TC_API tc_ema *tc_ema_create(const tc_nn_params *model, tc_ema_options options);
TC_API void tc_ema_destroy(tc_ema *ema);
// Takes the model's values in: the first time they are copied. Recorded; f16 and bf16 are computed
// in f32 and rounded once. Integer buffers are copied. TC_ERR_ARG for NULL, TC_ERR_STATE if
// parameters were added to the model, or cast, since.
TC_API tc_status tc_ema_update(tc_ema *ema) TC_MUST_USE;
// The averages by name, in evaluation mode: for the functions that take the model. They require no
// gradients. Borrowed.
TC_API tc_nn_params *tc_ema_model(const tc_ema *ema);
// Updates so far (n_averaged).
TC_API int64_t tc_ema_n_averaged(const tc_ema *ema);

// ---- Checkpoints ----

// All that training goes on with, borrowed. A list may be NULL where its number is 0.
typedef struct tc_training {
  const tc_nn_params *model;  // parameters and buffers
  int n_opts;  // of opts
  tc_optimizer *const *opts;  // over parameters of the model
  int n_schedules;  // of schedules
  tc_schedule *const *schedules;  // those that the program steps itself
  int n_emas;  // of emas
  tc_ema *const *emas;  // averages of the model
} tc_training;
// Saves and loads all of it, this thread's random state, and step, to the bit: see
// tc_checkpoint_save and tc_checkpoint_load (io.h). Averages are "ema.module.<name>" and
// "ema.n_averaged", schedules "schedule.<name>". A file with other ones, or other schedules, is
// refused before anything changes.
// Momentum that a OneCycleLR set comes back with it.
// TC_ERR_ARG where an optimizer has a parameter that is not in the model, or an entry is NULL.
TC_API tc_status tc_training_save(const char *path, const tc_training *training, int64_t step) TC_MUST_USE;
TC_API tc_status tc_training_load(const char *path, const tc_training *training, int64_t *out_step) TC_MUST_USE;

#ifdef __cplusplus
}
#endif

#include <tc/train_sites.h>

#endif
