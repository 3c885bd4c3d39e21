// Gives every call its site: declares name_at for each function of compile.h that records, can fail or
// syncs, and makes the plain names macros that pass one constant string. Made by tools/make_sites.py.
// Define TC_NO_SITES before compile.h to leave the names alone.
// clang-format off
#ifndef TC_COMPILE_SITES_H
#define TC_COMPILE_SITES_H

#ifdef __cplusplus
extern "C" {
#endif

TC_API tc_compiled *tc_compile_at(tc_compile_fn fn, void *user, const tc_compile_options *options, tc_site site);
TC_API tc_status tc_compiled_call_at(tc_compiled *c, const tc_tensor *in, int n_in, tc_tensor *out, int n_out, tc_site site) TC_MUST_USE;
TC_API tc_status tc_compiled_call_with_at(tc_compiled *c, const tc_tensor *in, int n_in, const double *num, int n_num, tc_tensor *out, int n_out,
                                          tc_site site) TC_MUST_USE;

#ifdef __cplusplus
}
#endif

#ifndef TC_NO_SITES


#define tc_compiled_call(c, in, n_in, out, ...) tc_compiled_call_at(c, in, n_in, out, __VA_ARGS__, TC_HERE)
#define tc_compiled_call_with(c, in, n_in, num, n_num, out, ...) tc_compiled_call_with_at(c, in, n_in, num, n_num, out, __VA_ARGS__, TC_HERE)

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

#define tc_compile(fn, user, options...) tc_compile_at(fn, user, __VA_OPT__(options,) TC_HERE)

#endif

#ifdef __clang__
#pragma clang diagnostic pop
#endif

#endif
