// Gives every call its site: declares name_at for each function of nn.h that records, can fail or syncs, and makes the plain names macros that pass
// one constant string. Made by tools/make_sites.py.
// Define TC_NO_SITES before nn.h to leave the names alone.
#ifndef TC_NN_SITES_H
#define TC_NN_SITES_H

#ifdef __cplusplus
extern "C" {
#endif

TC_API tc_nn_params *tc_nn_params_create_at(tc_site site);
TC_API tc_tensor tc_nn_add_at(tc_nn_params *p, const char *name, tc_tensor init, tc_site site);
TC_API tc_tensor tc_nn_add_buffer_at(tc_nn_params *p, const char *name, tc_tensor init, tc_site site);
TC_API tc_tensor tc_nn_get_at(const tc_nn_params *p, const char *name, tc_site site);
TC_API tc_status tc_nn_cast_at(tc_nn_params *p, tc_type type, tc_site site);
TC_API tc_status tc_nn_load_at(const tc_nn_params *p, const tc_archive *a, const char *prefix, tc_site site) TC_MUST_USE;
TC_API tc_status tc_nn_save_at(const tc_nn_params *p, const char *path, tc_site site) TC_MUST_USE;
TC_API tc_status tc_nn_checkpoint_save_at(const tc_nn_params *p, const char *path, int n_opts, tc_optimizer *const *opts, int64_t step,
                                          tc_site site) TC_MUST_USE;
TC_API tc_status tc_nn_checkpoint_load_at(const tc_nn_params *p, const char *path, int n_opts, tc_optimizer *const *opts, int64_t *out_step,
                                          tc_site site) TC_MUST_USE;
TC_API tc_status tc_nn_add_linear_at(tc_nn_params *p, const char *path, int64_t in, int64_t out, bool bias, tc_site site);
TC_API tc_tensor tc_nn_linear_at(const tc_nn_params *p, const char *path, tc_tensor x, tc_site site);
TC_API tc_status tc_nn_add_embedding_at(tc_nn_params *p, const char *path, int64_t n, int64_t dim, tc_site site);
TC_API tc_tensor tc_nn_embedding_at(const tc_nn_params *p, const char *path, tc_tensor ids, tc_site site);
TC_API tc_status tc_nn_add_layer_norm_at(tc_nn_params *p, const char *path, int64_t dim, tc_site site);
TC_API tc_tensor tc_nn_layer_norm_at(const tc_nn_params *p, const char *path, tc_tensor x, double eps, tc_site site);
TC_API tc_status tc_nn_add_rms_norm_at(tc_nn_params *p, const char *path, int64_t dim, tc_site site);
TC_API tc_tensor tc_nn_rms_norm_at(const tc_nn_params *p, const char *path, tc_tensor x, double eps, tc_site site);
TC_API tc_status tc_nn_add_group_norm_at(tc_nn_params *p, const char *path, int64_t channels, tc_site site);
TC_API tc_tensor tc_nn_group_norm_at(const tc_nn_params *p, const char *path, tc_tensor x, int64_t groups, double eps, tc_site site);
TC_API tc_status tc_nn_add_batch_norm_at(tc_nn_params *p, const char *path, int64_t channels, tc_site site);
TC_API tc_tensor tc_nn_batch_norm_at(const tc_nn_params *p, const char *path, tc_tensor x, double momentum, double eps, tc_site site);
TC_API tc_status tc_nn_add_conv2d_at(tc_nn_params *p, const char *path, int64_t in, int64_t out, tc_dims size, int64_t groups, bool bias,
                                     tc_site site);
TC_API tc_tensor tc_nn_conv2d_at(const tc_nn_params *p, const char *path, tc_tensor x, tc_conv_options options, tc_site site);
TC_API tc_status tc_nn_add_multihead_attention_at(tc_nn_params *p, const char *path, int64_t dim, bool bias, tc_site site);
TC_API tc_tensor tc_nn_multihead_attention_at(const tc_nn_params *p, const char *path, tc_tensor query, tc_tensor key, tc_tensor value,
                                              tc_nn_attention_options options, tc_site site);
TC_API tc_tensor tc_nn_attention_at(tc_tensor query, tc_tensor key, tc_tensor value, tc_nn_attention_options options, tc_site site);
TC_API tc_tensor tc_nn_dropout_at(const tc_nn_params *p, tc_tensor x, double probability, tc_site site);
TC_API tc_tensor tc_nn_uniform_at(tc_dims shape, double low, double high, tc_site site);
TC_API tc_tensor tc_nn_normal_at(tc_dims shape, double mean, double std, tc_site site);
TC_API tc_tensor tc_nn_xavier_uniform_at(tc_dims shape, double gain, tc_site site);
TC_API tc_tensor tc_nn_xavier_normal_at(tc_dims shape, double gain, tc_site site);
TC_API tc_tensor tc_nn_kaiming_uniform_at(tc_dims shape, double a, tc_site site);

#ifdef __cplusplus
}
#endif

#ifndef TC_NO_SITES

#define tc_nn_add(...) tc_nn_add_at(__VA_ARGS__, TC_HERE)
#define tc_nn_add_buffer(...) tc_nn_add_buffer_at(__VA_ARGS__, TC_HERE)
#define tc_nn_get(...) tc_nn_get_at(__VA_ARGS__, TC_HERE)
#define tc_nn_cast(...) tc_nn_cast_at(__VA_ARGS__, TC_HERE)
#define tc_nn_load(...) tc_nn_load_at(__VA_ARGS__, TC_HERE)
#define tc_nn_save(...) tc_nn_save_at(__VA_ARGS__, TC_HERE)
#define tc_nn_checkpoint_save(...) tc_nn_checkpoint_save_at(__VA_ARGS__, TC_HERE)
#define tc_nn_checkpoint_load(...) tc_nn_checkpoint_load_at(__VA_ARGS__, TC_HERE)
#define tc_nn_add_linear(...) tc_nn_add_linear_at(__VA_ARGS__, TC_HERE)
#define tc_nn_linear(...) tc_nn_linear_at(__VA_ARGS__, TC_HERE)
#define tc_nn_add_embedding(...) tc_nn_add_embedding_at(__VA_ARGS__, TC_HERE)
#define tc_nn_embedding(...) tc_nn_embedding_at(__VA_ARGS__, TC_HERE)
#define tc_nn_add_layer_norm(...) tc_nn_add_layer_norm_at(__VA_ARGS__, TC_HERE)
#define tc_nn_layer_norm(...) tc_nn_layer_norm_at(__VA_ARGS__, TC_HERE)
#define tc_nn_add_rms_norm(...) tc_nn_add_rms_norm_at(__VA_ARGS__, TC_HERE)
#define tc_nn_rms_norm(...) tc_nn_rms_norm_at(__VA_ARGS__, TC_HERE)
#define tc_nn_add_group_norm(...) tc_nn_add_group_norm_at(__VA_ARGS__, TC_HERE)
#define tc_nn_group_norm(...) tc_nn_group_norm_at(__VA_ARGS__, TC_HERE)
#define tc_nn_add_batch_norm(...) tc_nn_add_batch_norm_at(__VA_ARGS__, TC_HERE)
#define tc_nn_batch_norm(...) tc_nn_batch_norm_at(__VA_ARGS__, TC_HERE)
#define tc_nn_add_conv2d(...) tc_nn_add_conv2d_at(__VA_ARGS__, TC_HERE)
#define tc_nn_conv2d(...) tc_nn_conv2d_at(__VA_ARGS__, TC_HERE)
#define tc_nn_add_multihead_attention(...) tc_nn_add_multihead_attention_at(__VA_ARGS__, TC_HERE)
#define tc_nn_multihead_attention(...) tc_nn_multihead_attention_at(__VA_ARGS__, TC_HERE)
#define tc_nn_attention(...) tc_nn_attention_at(__VA_ARGS__, TC_HERE)
#define tc_nn_dropout(...) tc_nn_dropout_at(__VA_ARGS__, TC_HERE)
#define tc_nn_uniform(...) tc_nn_uniform_at(__VA_ARGS__, TC_HERE)
#define tc_nn_normal(...) tc_nn_normal_at(__VA_ARGS__, TC_HERE)
#define tc_nn_xavier_uniform(...) tc_nn_xavier_uniform_at(__VA_ARGS__, TC_HERE)
#define tc_nn_xavier_normal(...) tc_nn_xavier_normal_at(__VA_ARGS__, TC_HERE)
#define tc_nn_kaiming_uniform(...) tc_nn_kaiming_uniform_at(__VA_ARGS__, TC_HERE)
#define tc_nn_params_create() tc_nn_params_create_at(TC_HERE)

#endif

#endif
