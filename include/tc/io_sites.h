// Gives every call its site: declares name_at for each function of io.h that records, can fail or
// syncs, and makes the plain names macros that pass one constant string. Made by tools/make_sites.py.
// Define TC_NO_SITES before io.h to leave the names alone.
// clang-format off
#ifndef TC_IO_SITES_H
#define TC_IO_SITES_H

#ifdef __cplusplus
extern "C" {
#endif

TC_API tc_archive *tc_safetensors_open_at(const char *path, tc_site site);
TC_API tc_archive *tc_npz_open_at(const char *path, tc_site site);
TC_API tc_tensor tc_archive_get_at(const tc_archive *a, const char *name, tc_site site);
TC_API tc_status tc_archive_load_at(const tc_archive *a, const char *prefix, int n, const char *const *names, const tc_tensor *tensors,
                                    tc_site site) TC_MUST_USE;
TC_API tc_status tc_safetensors_save_at(const char *path, int n, const char *const *names, const tc_tensor *tensors, tc_site site) TC_MUST_USE;
TC_API tc_status tc_safetensors_save_with_at(const char *path, int n, const char *const *names, const tc_tensor *tensors, int n_meta,
                                             const char *const *meta, tc_site site) TC_MUST_USE;
TC_API tc_status tc_npz_save_at(const char *path, int n, const char *const *names, const tc_tensor *tensors, tc_site site) TC_MUST_USE;
TC_API tc_status tc_checkpoint_save_at(const char *path, int n, const char *const *names, const tc_tensor *params, const tc_optimizer *opt,
                                       int64_t step, tc_site site) TC_MUST_USE;
TC_API tc_status tc_checkpoint_load_at(const char *path, int n, const char *const *names, const tc_tensor *params, tc_optimizer *opt,
                                       int64_t *out_step, tc_site site) TC_MUST_USE;
TC_API tc_status tc_checkpoint_save_with_at(const char *path, int n, const char *const *names, const tc_tensor *params, int n_opts,
                                            tc_optimizer *const *opts, int64_t step, tc_site site) TC_MUST_USE;
TC_API tc_status tc_checkpoint_load_with_at(const char *path, int n, const char *const *names, const tc_tensor *params, int n_opts,
                                            tc_optimizer *const *opts, int64_t *out_step, tc_site site) TC_MUST_USE;
TC_API struct DLManagedTensorVersioned *tc_to_dlpack_at(tc_tensor t, tc_site site);
TC_API struct DLManagedTensor *tc_to_dlpack_legacy_at(tc_tensor t, tc_site site);
TC_API tc_tensor tc_from_dlpack_at(struct DLManagedTensorVersioned *m, tc_site site);
TC_API tc_tensor tc_from_dlpack_legacy_at(struct DLManagedTensor *m, tc_site site);

#ifdef __cplusplus
}
#endif

#ifndef TC_NO_SITES


#define tc_archive_load(a, prefix, n, names, ...) tc_archive_load_at(a, prefix, n, names, __VA_ARGS__, TC_HERE)
#define tc_safetensors_save(path, n, names, ...) tc_safetensors_save_at(path, n, names, __VA_ARGS__, TC_HERE)
#define tc_safetensors_save_with(path, n, names, tensors, n_meta, ...) tc_safetensors_save_with_at(path, n, names, tensors, n_meta, __VA_ARGS__, TC_HERE)
#define tc_npz_save(path, n, names, ...) tc_npz_save_at(path, n, names, __VA_ARGS__, TC_HERE)
#define tc_checkpoint_save(path, n, names, params, opt, ...) tc_checkpoint_save_at(path, n, names, params, opt, __VA_ARGS__, TC_HERE)
#define tc_checkpoint_load(path, n, names, params, opt, ...) tc_checkpoint_load_at(path, n, names, params, opt, __VA_ARGS__, TC_HERE)
#define tc_checkpoint_save_with(path, n, names, params, n_opts, opts, ...) tc_checkpoint_save_with_at(path, n, names, params, n_opts, opts, __VA_ARGS__, TC_HERE)
#define tc_checkpoint_load_with(path, n, names, params, n_opts, opts, ...) tc_checkpoint_load_with_at(path, n, names, params, n_opts, opts, __VA_ARGS__, TC_HERE)

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

#define tc_safetensors_open(path...) tc_safetensors_open_at(__VA_OPT__(path,) TC_HERE)
#define tc_npz_open(path...) tc_npz_open_at(__VA_OPT__(path,) TC_HERE)
#define tc_archive_get(a, name...) tc_archive_get_at(a, __VA_OPT__(name,) TC_HERE)
#define tc_to_dlpack(t...) tc_to_dlpack_at(__VA_OPT__(t,) TC_HERE)
#define tc_to_dlpack_legacy(t...) tc_to_dlpack_legacy_at(__VA_OPT__(t,) TC_HERE)
#define tc_from_dlpack(m...) tc_from_dlpack_at(__VA_OPT__(m,) TC_HERE)
#define tc_from_dlpack_legacy(m...) tc_from_dlpack_legacy_at(__VA_OPT__(m,) TC_HERE)

#endif

#ifdef __clang__
#pragma clang diagnostic pop
#endif

#endif
