// Gives every call its site: declares name_at for each function of control.h that records, can fail or
// syncs, and makes the plain names macros that pass one constant string. Made by tools/make_sites.py.
// Define TC_NO_SITES before control.h to leave the names alone.
// clang-format off
#ifndef TC_CONTROL_SITES_H
#define TC_CONTROL_SITES_H

#ifdef __cplusplus
extern "C" {
#endif

TC_API tc_status tc_cond_at(tc_tensor pred, tc_body_fn *then, tc_body_fn *otherwise, void *user, const tc_tensor *in, int n_in, tc_tensor *out,
                            int n_out, tc_site site) TC_MUST_USE;
TC_API tc_status tc_while_at(tc_body_fn *test, tc_body_fn *body, void *user, const tc_tensor *carry, int n_carry, tc_tensor *out,
                             tc_site site) TC_MUST_USE;
TC_API tc_status tc_scan_at(tc_body_fn *body, void *user, const tc_tensor *carry, int n_carry, const tc_tensor *xs, int n_xs, tc_tensor *out,
                            int n_ys, const tc_scan_options *options, tc_site site) TC_MUST_USE;
TC_API tc_status tc_checkpoint_at(tc_body_fn *fn, void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out, tc_site site) TC_MUST_USE;

#ifdef __cplusplus
}
#endif

#ifndef TC_NO_SITES


#define tc_cond(pred, then, otherwise, user, in, n_in, out, ...) tc_cond_at(pred, then, otherwise, user, in, n_in, out, __VA_ARGS__, TC_HERE)
#define tc_while(test, body, user, carry, n_carry, ...) tc_while_at(test, body, user, carry, n_carry, __VA_ARGS__, TC_HERE)
#define tc_scan(body, user, carry, n_carry, xs, n_xs, out, n_ys, ...) tc_scan_at(body, user, carry, n_carry, xs, n_xs, out, n_ys, __VA_ARGS__, TC_HERE)
#define tc_checkpoint(fn, user, in, n_in, out, ...) tc_checkpoint_at(fn, user, in, n_in, out, __VA_ARGS__, TC_HERE)

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


#endif

#ifdef __clang__
#pragma clang diagnostic pop
#endif

#endif
