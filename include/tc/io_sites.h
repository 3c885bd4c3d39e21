// Gives every call its site: declares name_at for each function of io.h that records, can fail or syncs, and makes the plain names macros that pass
// one constant string. Made by tools/make_sites.py.
// Define TC_NO_SITES before io.h to leave the names alone.
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

#define tc_safetensors_open(...) tc_safetensors_open_at(__VA_ARGS__, TC_HERE)
#define tc_npz_open(...) tc_npz_open_at(__VA_ARGS__, TC_HERE)
#define tc_archive_get(...) tc_archive_get_at(__VA_ARGS__, TC_HERE)
#define tc_archive_load(...) tc_archive_load_at(__VA_ARGS__, TC_HERE)
#define tc_safetensors_save(...) tc_safetensors_save_at(__VA_ARGS__, TC_HERE)
#define tc_safetensors_save_with(...) tc_safetensors_save_with_at(__VA_ARGS__, TC_HERE)
#define tc_npz_save(...) tc_npz_save_at(__VA_ARGS__, TC_HERE)
#define tc_checkpoint_save(...) tc_checkpoint_save_at(__VA_ARGS__, TC_HERE)
#define tc_checkpoint_load(...) tc_checkpoint_load_at(__VA_ARGS__, TC_HERE)
#define tc_checkpoint_save_with(...) tc_checkpoint_save_with_at(__VA_ARGS__, TC_HERE)
#define tc_checkpoint_load_with(...) tc_checkpoint_load_with_at(__VA_ARGS__, TC_HERE)
#define tc_to_dlpack(...) tc_to_dlpack_at(__VA_ARGS__, TC_HERE)
#define tc_to_dlpack_legacy(...) tc_to_dlpack_legacy_at(__VA_ARGS__, TC_HERE)
#define tc_from_dlpack(...) tc_from_dlpack_at(__VA_ARGS__, TC_HERE)
#define tc_from_dlpack_legacy(...) tc_from_dlpack_legacy_at(__VA_ARGS__, TC_HERE)

#endif

#endif
