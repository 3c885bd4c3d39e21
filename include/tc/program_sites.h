// Gives every call its site: declares name_at for each function of program.h that records, can fail or
// syncs, and makes the plain names macros that pass one constant string. Made by tools/make_sites.py.
// Define TC_NO_SITES before program.h to leave the names alone.
// clang-format off
#ifndef TC_PROGRAM_SITES_H
#define TC_PROGRAM_SITES_H

#ifdef __cplusplus
extern "C" {
#endif

TC_API tc_status tc_export_at(tc_compile_fn fn, void *user, int n_inputs, const tc_export_input *inputs, const tc_export_options *options,
                              const char *path, tc_site site) TC_MUST_USE;
TC_API tc_program_file *tc_program_load_at(const char *path, tc_site site);
TC_API tc_program_file *tc_program_load_memory_at(const void *data, size_t bytes, tc_site site);
TC_API tc_status tc_program_verify_at(const tc_program_file *p, tc_site site) TC_MUST_USE;
TC_API tc_status tc_program_run_at(const tc_program_file *p, int n, const tc_program_input *inputs, tc_tensor *outputs, tc_site site) TC_MUST_USE;
TC_API tc_status tc_program_run_arrays_at(const tc_program_file *p, int n_inputs, const tc_program_array *inputs, int n_outputs,
                                          const tc_program_array *outputs, tc_site site) TC_MUST_USE;

#ifdef __cplusplus
}
#endif

#ifndef TC_NO_SITES


#define tc_export(fn, user, n_inputs, inputs, options, ...) tc_export_at(fn, user, n_inputs, inputs, options, __VA_ARGS__, TC_HERE)
#define tc_program_verify(...) tc_program_verify_at(__VA_ARGS__, TC_HERE)
#define tc_program_run(p, n, inputs, ...) tc_program_run_at(p, n, inputs, __VA_ARGS__, TC_HERE)
#define tc_program_run_arrays(p, n_inputs, inputs, n_outputs, ...) tc_program_run_arrays_at(p, n_inputs, inputs, n_outputs, __VA_ARGS__, TC_HERE)

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

#define tc_program_load(path...) tc_program_load_at(__VA_OPT__(path,) TC_HERE)
#define tc_program_load_memory(data, bytes...) tc_program_load_memory_at(data, __VA_OPT__(bytes,) TC_HERE)

#endif

#ifdef __clang__
#pragma clang diagnostic pop
#endif

#endif
