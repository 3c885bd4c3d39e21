// Gives every call its site: declares name_at for each function of train.h that records, can fail or
// syncs, and makes the plain names macros that pass one constant string. Made by tools/make_sites.py.
// Define TC_NO_SITES before train.h to leave the names alone.
// clang-format off
#ifndef TC_TRAIN_SITES_H
#define TC_TRAIN_SITES_H

#ifdef __cplusplus
extern "C" {
#endif

TC_API tc_schedule *tc_step_lr_at(tc_optimizer *opt, int64_t step_size, double gamma, tc_site site);
TC_API tc_schedule *tc_multi_step_lr_at(tc_optimizer *opt, const int64_t *milestones, int n, double gamma, tc_site site);
TC_API tc_schedule *tc_exponential_lr_at(tc_optimizer *opt, double gamma, tc_site site);
TC_API tc_schedule *tc_cosine_annealing_lr_at(tc_optimizer *opt, int64_t t_max, double eta_min, tc_site site);
TC_API tc_schedule *tc_cosine_annealing_warm_restarts_at(tc_optimizer *opt, int64_t t_0, int64_t t_mult, double eta_min, tc_site site);
TC_API tc_schedule *tc_constant_lr_at(tc_optimizer *opt, tc_constant_lr_options options, tc_site site);
TC_API tc_schedule *tc_linear_lr_at(tc_optimizer *opt, tc_linear_lr_options options, tc_site site);
TC_API tc_schedule *tc_polynomial_lr_at(tc_optimizer *opt, tc_polynomial_lr_options options, tc_site site);
TC_API tc_schedule *tc_lambda_lr_at(tc_optimizer *opt, double (*fn)(int64_t step, int group, void *user), void *user, tc_site site);
TC_API tc_schedule *tc_one_cycle_lr_at(tc_optimizer *opt, tc_one_cycle_lr_options options, tc_site site);
TC_API tc_schedule *tc_reduce_lr_on_plateau_at(tc_optimizer *opt, tc_reduce_lr_on_plateau_options options, tc_site site);
TC_API tc_schedule *tc_sequential_lr_at(tc_optimizer *opt, int n, tc_schedule *const *schedules, const int64_t *milestones, tc_site site);
TC_API tc_schedule *tc_chained_scheduler_at(int n, tc_schedule *const *schedules, tc_site site);
TC_API tc_status tc_schedule_step_at(tc_schedule *s, tc_site site) TC_MUST_USE;
TC_API tc_status tc_schedule_step_metric_at(tc_schedule *s, double metric, tc_site site) TC_MUST_USE;
TC_API tc_tensor tc_schedule_state_at(const tc_schedule *s, tc_site site);
TC_API tc_status tc_schedule_set_state_at(tc_schedule *s, tc_tensor state, tc_site site) TC_MUST_USE;
TC_API tc_ema *tc_ema_create_at(const tc_nn_params *model, tc_ema_options options, tc_site site);
TC_API tc_status tc_ema_update_at(tc_ema *ema, tc_site site) TC_MUST_USE;
TC_API tc_status tc_training_save_at(const char *path, const tc_training *training, int64_t step, tc_site site) TC_MUST_USE;
TC_API tc_status tc_training_load_at(const char *path, const tc_training *training, int64_t *out_step, tc_site site) TC_MUST_USE;

#ifdef __cplusplus
}
#endif

#ifndef TC_NO_SITES


#define tc_schedule_step(...) tc_schedule_step_at(__VA_ARGS__, TC_HERE)
#define tc_schedule_step_metric(s, ...) tc_schedule_step_metric_at(s, __VA_ARGS__, TC_HERE)
#define tc_schedule_set_state(s, ...) tc_schedule_set_state_at(s, __VA_ARGS__, TC_HERE)
#define tc_ema_update(...) tc_ema_update_at(__VA_ARGS__, TC_HERE)
#define tc_training_save(path, training, ...) tc_training_save_at(path, training, __VA_ARGS__, TC_HERE)
#define tc_training_load(path, training, ...) tc_training_load_at(path, training, __VA_ARGS__, TC_HERE)

#endif

// What is wrong in a call is told at the caller's line: by clang always, by gcc where the macro is a system header's.
#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wpedantic"
#pragma clang diagnostic ignored "-Wvariadic-macros"
#else
#pragma GCC system_header
#endif

#ifndef TC_NO_SITES

#define tc_step_lr(opt, step_size, gamma...) tc_step_lr_at(opt, step_size, __VA_OPT__(gamma,) TC_HERE)
#define tc_multi_step_lr(opt, milestones, n, gamma...) tc_multi_step_lr_at(opt, milestones, n, __VA_OPT__(gamma,) TC_HERE)
#define tc_exponential_lr(opt, gamma...) tc_exponential_lr_at(opt, __VA_OPT__(gamma,) TC_HERE)
#define tc_cosine_annealing_lr(opt, t_max, eta_min...) tc_cosine_annealing_lr_at(opt, t_max, __VA_OPT__(eta_min,) TC_HERE)
#define tc_cosine_annealing_warm_restarts(opt, t_0, t_mult, eta_min...) tc_cosine_annealing_warm_restarts_at(opt, t_0, t_mult, __VA_OPT__(eta_min,) TC_HERE)
#define tc_constant_lr(opt, options...) tc_constant_lr_at(opt, __VA_OPT__(options,) TC_HERE)
#define tc_linear_lr(opt, options...) tc_linear_lr_at(opt, __VA_OPT__(options,) TC_HERE)
#define tc_polynomial_lr(opt, options...) tc_polynomial_lr_at(opt, __VA_OPT__(options,) TC_HERE)
#define tc_lambda_lr(opt, fn, user...) tc_lambda_lr_at(opt, fn, __VA_OPT__(user,) TC_HERE)
#define tc_one_cycle_lr(opt, options...) tc_one_cycle_lr_at(opt, __VA_OPT__(options,) TC_HERE)
#define tc_reduce_lr_on_plateau(opt, options...) tc_reduce_lr_on_plateau_at(opt, __VA_OPT__(options,) TC_HERE)
#define tc_sequential_lr(opt, n, schedules, milestones...) tc_sequential_lr_at(opt, n, schedules, __VA_OPT__(milestones,) TC_HERE)
#define tc_chained_scheduler(n, schedules...) tc_chained_scheduler_at(n, __VA_OPT__(schedules,) TC_HERE)
#define tc_schedule_state(s...) tc_schedule_state_at(__VA_OPT__(s,) TC_HERE)
#define tc_ema_create(model, options...) tc_ema_create_at(model, __VA_OPT__(options,) TC_HERE)

#endif

#ifdef __clang__
#pragma clang diagnostic pop
#endif

#endif
