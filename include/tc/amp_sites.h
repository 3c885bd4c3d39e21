// Gives every call its site: declares name_at for each function of amp.h that records, can fail or
// syncs, and makes the plain names macros that pass one constant string. Made by tools/make_sites.py.
// Define TC_NO_SITES before amp.h to leave the names alone.
// clang-format off
#ifndef TC_AMP_SITES_H
#define TC_AMP_SITES_H

#ifdef __cplusplus
extern "C" {
#endif

TC_API tc_grad_scaler *tc_grad_scaler_create_at(tc_grad_scaler_options options, tc_site site);
TC_API tc_tensor tc_grad_scaler_scale_at(tc_grad_scaler *s, tc_tensor loss, tc_site site);
TC_API tc_status tc_grad_scaler_unscale_at(tc_grad_scaler *s, tc_optimizer *opt, tc_site site);
TC_API tc_status tc_grad_scaler_step_at(tc_grad_scaler *s, tc_optimizer *opt, tc_site site);
TC_API tc_status tc_grad_scaler_update_at(tc_grad_scaler *s, tc_site site);
TC_API tc_tensor tc_grad_scaler_found_inf_at(tc_grad_scaler *s, const tc_optimizer *opt, tc_site site);
TC_API double tc_grad_scaler_get_scale_at(tc_grad_scaler *s, tc_site site);
TC_API tc_status tc_grad_scaler_set_scale_at(tc_grad_scaler *s, double scale, tc_site site);
TC_API tc_tensor tc_grad_scaler_state_at(const tc_grad_scaler *s, int i, tc_site site);
TC_API tc_status tc_grad_scaler_use_state_at(tc_grad_scaler *s, tc_tensor scale, tc_tensor growth_tracker, tc_site site);
TC_API tc_status tc_nn_add_grad_scaler_at(tc_nn_params *p, const char *path, tc_grad_scaler *s, tc_site site);

#ifdef __cplusplus
}
#endif

#ifndef TC_NO_SITES



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

#define tc_grad_scaler_create(options...) tc_grad_scaler_create_at(__VA_OPT__(options,) TC_HERE)
#define tc_grad_scaler_scale(s, loss...) tc_grad_scaler_scale_at(s, __VA_OPT__(loss,) TC_HERE)
#define tc_grad_scaler_unscale(s, opt...) tc_grad_scaler_unscale_at(s, __VA_OPT__(opt,) TC_HERE)
#define tc_grad_scaler_step(s, opt...) tc_grad_scaler_step_at(s, __VA_OPT__(opt,) TC_HERE)
#define tc_grad_scaler_update(s...) tc_grad_scaler_update_at(__VA_OPT__(s,) TC_HERE)
#define tc_grad_scaler_found_inf(s, opt...) tc_grad_scaler_found_inf_at(s, __VA_OPT__(opt,) TC_HERE)
#define tc_grad_scaler_get_scale(s...) tc_grad_scaler_get_scale_at(__VA_OPT__(s,) TC_HERE)
#define tc_grad_scaler_set_scale(s, scale...) tc_grad_scaler_set_scale_at(s, __VA_OPT__(scale,) TC_HERE)
#define tc_grad_scaler_state(s, i...) tc_grad_scaler_state_at(s, __VA_OPT__(i,) TC_HERE)
#define tc_grad_scaler_use_state(s, scale, growth_tracker...) tc_grad_scaler_use_state_at(s, scale, __VA_OPT__(growth_tracker,) TC_HERE)
#define tc_nn_add_grad_scaler(p, path, s...) tc_nn_add_grad_scaler_at(p, path, __VA_OPT__(s,) TC_HERE)

#endif

#ifdef __clang__
#pragma clang diagnostic pop
#endif

#endif
