// Gives every call its site: declares name_at for each function of nn.h that records, can fail or
// syncs, and makes the plain names macros that pass one constant string. Made by tools/make_sites.py.
// Define TC_NO_SITES before nn.h to leave the names alone.
// clang-format off
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
TC_API tc_status tc_nn_quantize_dynamic_at(tc_nn_params *p, const char *pattern, int out_axis, tc_site site);
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
TC_API tc_status tc_nn_add_rnn_at(tc_nn_params *p, const char *path, int64_t in, int64_t hidden, tc_nn_rnn_options options, tc_site site);
TC_API tc_status tc_nn_add_gru_at(tc_nn_params *p, const char *path, int64_t in, int64_t hidden, tc_nn_rnn_options options, tc_site site);
TC_API tc_status tc_nn_add_lstm_at(tc_nn_params *p, const char *path, int64_t in, int64_t hidden, tc_nn_rnn_options options, tc_site site);
TC_API tc_tensor tc_nn_rnn_at(const tc_nn_params *p, const char *path, tc_tensor x, tc_nn_rnn_state *state, tc_nn_rnn_options options, tc_site site);
TC_API tc_tensor tc_nn_gru_at(const tc_nn_params *p, const char *path, tc_tensor x, tc_nn_rnn_state *state, tc_nn_rnn_options options, tc_site site);
TC_API tc_tensor tc_nn_lstm_at(const tc_nn_params *p, const char *path, tc_tensor x, tc_nn_rnn_state *state, tc_nn_rnn_options options, tc_site site);
TC_API tc_status tc_nn_add_rnn_cell_at(tc_nn_params *p, const char *path, int64_t in, int64_t hidden, bool bias, tc_site site);
TC_API tc_status tc_nn_add_gru_cell_at(tc_nn_params *p, const char *path, int64_t in, int64_t hidden, bool bias, tc_site site);
TC_API tc_status tc_nn_add_lstm_cell_at(tc_nn_params *p, const char *path, int64_t in, int64_t hidden, bool bias, tc_site site);
TC_API tc_tensor tc_nn_rnn_cell_at(const tc_nn_params *p, const char *path, tc_tensor x, tc_tensor h, bool relu, tc_site site);
TC_API tc_tensor tc_nn_gru_cell_at(const tc_nn_params *p, const char *path, tc_tensor x, tc_tensor h, tc_site site);
TC_API tc_tensor tc_nn_lstm_cell_at(const tc_nn_params *p, const char *path, tc_tensor x, tc_nn_rnn_state *state, tc_site site);
TC_API tc_status tc_nn_add_transformer_encoder_layer_at(tc_nn_params *p, const char *path, int64_t dim, tc_nn_transformer_options options,
                                                        tc_site site);
TC_API tc_tensor tc_nn_transformer_encoder_layer_at(const tc_nn_params *p, const char *path, tc_tensor x, tc_nn_transformer_options options,
                                                    tc_site site);
TC_API tc_status tc_nn_add_transformer_decoder_layer_at(tc_nn_params *p, const char *path, int64_t dim, tc_nn_transformer_options options,
                                                        tc_site site);
TC_API tc_tensor tc_nn_transformer_decoder_layer_at(const tc_nn_params *p, const char *path, tc_tensor x, tc_tensor memory,
                                                    tc_nn_transformer_options options, tc_site site);
TC_API tc_status tc_nn_add_transformer_encoder_at(tc_nn_params *p, const char *path, int64_t dim, int n_layers, tc_nn_transformer_options options,
                                                  tc_site site);
TC_API tc_tensor tc_nn_transformer_encoder_at(const tc_nn_params *p, const char *path, tc_tensor x, tc_nn_transformer_options options, tc_site site);
TC_API tc_status tc_nn_add_transformer_decoder_at(tc_nn_params *p, const char *path, int64_t dim, int n_layers, tc_nn_transformer_options options,
                                                  tc_site site);
TC_API tc_tensor tc_nn_transformer_decoder_at(const tc_nn_params *p, const char *path, tc_tensor x, tc_tensor memory,
                                              tc_nn_transformer_options options, tc_site site);
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


#define tc_nn_load(p, a, ...) tc_nn_load_at(p, a, __VA_ARGS__, TC_HERE)
#define tc_nn_save(p, ...) tc_nn_save_at(p, __VA_ARGS__, TC_HERE)
#define tc_nn_checkpoint_save(p, path, n_opts, opts, ...) tc_nn_checkpoint_save_at(p, path, n_opts, opts, __VA_ARGS__, TC_HERE)
#define tc_nn_checkpoint_load(p, path, n_opts, opts, ...) tc_nn_checkpoint_load_at(p, path, n_opts, opts, __VA_ARGS__, TC_HERE)

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

#define tc_nn_add(p, name, init...) tc_nn_add_at(p, name, __VA_OPT__(init,) TC_HERE)
#define tc_nn_add_buffer(p, name, init...) tc_nn_add_buffer_at(p, name, __VA_OPT__(init,) TC_HERE)
#define tc_nn_get(p, name...) tc_nn_get_at(p, __VA_OPT__(name,) TC_HERE)
#define tc_nn_cast(p, type...) tc_nn_cast_at(p, __VA_OPT__(type,) TC_HERE)
#define tc_nn_quantize_dynamic(p, pattern, out_axis...) tc_nn_quantize_dynamic_at(p, pattern, __VA_OPT__(out_axis,) TC_HERE)
#define tc_nn_add_linear(p, path, in, out, bias...) tc_nn_add_linear_at(p, path, in, out, __VA_OPT__(bias,) TC_HERE)
#define tc_nn_linear(p, path, x...) tc_nn_linear_at(p, path, __VA_OPT__(x,) TC_HERE)
#define tc_nn_add_embedding(p, path, n, dim...) tc_nn_add_embedding_at(p, path, n, __VA_OPT__(dim,) TC_HERE)
#define tc_nn_embedding(p, path, ids...) tc_nn_embedding_at(p, path, __VA_OPT__(ids,) TC_HERE)
#define tc_nn_add_layer_norm(p, path, dim...) tc_nn_add_layer_norm_at(p, path, __VA_OPT__(dim,) TC_HERE)
#define tc_nn_layer_norm(p, path, x, eps...) tc_nn_layer_norm_at(p, path, x, __VA_OPT__(eps,) TC_HERE)
#define tc_nn_add_rms_norm(p, path, dim...) tc_nn_add_rms_norm_at(p, path, __VA_OPT__(dim,) TC_HERE)
#define tc_nn_rms_norm(p, path, x, eps...) tc_nn_rms_norm_at(p, path, x, __VA_OPT__(eps,) TC_HERE)
#define tc_nn_add_group_norm(p, path, channels...) tc_nn_add_group_norm_at(p, path, __VA_OPT__(channels,) TC_HERE)
#define tc_nn_group_norm(p, path, x, groups, eps...) tc_nn_group_norm_at(p, path, x, groups, __VA_OPT__(eps,) TC_HERE)
#define tc_nn_add_batch_norm(p, path, channels...) tc_nn_add_batch_norm_at(p, path, __VA_OPT__(channels,) TC_HERE)
#define tc_nn_batch_norm(p, path, x, momentum, eps...) tc_nn_batch_norm_at(p, path, x, momentum, __VA_OPT__(eps,) TC_HERE)
#define tc_nn_add_conv2d(p, path, in, out, size, groups, bias...) tc_nn_add_conv2d_at(p, path, in, out, size, groups, __VA_OPT__(bias,) TC_HERE)
#define tc_nn_conv2d(p, path, x, options...) tc_nn_conv2d_at(p, path, x, __VA_OPT__(options,) TC_HERE)
#define tc_nn_add_multihead_attention(p, path, dim, bias...) tc_nn_add_multihead_attention_at(p, path, dim, __VA_OPT__(bias,) TC_HERE)
#define tc_nn_multihead_attention(p, path, query, key, value, options...) tc_nn_multihead_attention_at(p, path, query, key, value, __VA_OPT__(options,) TC_HERE)
#define tc_nn_attention(query, key, value, options...) tc_nn_attention_at(query, key, value, __VA_OPT__(options,) TC_HERE)
#define tc_nn_add_rnn(p, path, in, hidden, options...) tc_nn_add_rnn_at(p, path, in, hidden, __VA_OPT__(options,) TC_HERE)
#define tc_nn_add_gru(p, path, in, hidden, options...) tc_nn_add_gru_at(p, path, in, hidden, __VA_OPT__(options,) TC_HERE)
#define tc_nn_add_lstm(p, path, in, hidden, options...) tc_nn_add_lstm_at(p, path, in, hidden, __VA_OPT__(options,) TC_HERE)
#define tc_nn_rnn(p, path, x, state, options...) tc_nn_rnn_at(p, path, x, state, __VA_OPT__(options,) TC_HERE)
#define tc_nn_gru(p, path, x, state, options...) tc_nn_gru_at(p, path, x, state, __VA_OPT__(options,) TC_HERE)
#define tc_nn_lstm(p, path, x, state, options...) tc_nn_lstm_at(p, path, x, state, __VA_OPT__(options,) TC_HERE)
#define tc_nn_add_rnn_cell(p, path, in, hidden, bias...) tc_nn_add_rnn_cell_at(p, path, in, hidden, __VA_OPT__(bias,) TC_HERE)
#define tc_nn_add_gru_cell(p, path, in, hidden, bias...) tc_nn_add_gru_cell_at(p, path, in, hidden, __VA_OPT__(bias,) TC_HERE)
#define tc_nn_add_lstm_cell(p, path, in, hidden, bias...) tc_nn_add_lstm_cell_at(p, path, in, hidden, __VA_OPT__(bias,) TC_HERE)
#define tc_nn_rnn_cell(p, path, x, h, relu...) tc_nn_rnn_cell_at(p, path, x, h, __VA_OPT__(relu,) TC_HERE)
#define tc_nn_gru_cell(p, path, x, h...) tc_nn_gru_cell_at(p, path, x, __VA_OPT__(h,) TC_HERE)
#define tc_nn_lstm_cell(p, path, x, state...) tc_nn_lstm_cell_at(p, path, x, __VA_OPT__(state,) TC_HERE)
#define tc_nn_add_transformer_encoder_layer(p, path, dim, options...) tc_nn_add_transformer_encoder_layer_at(p, path, dim, __VA_OPT__(options,) TC_HERE)
#define tc_nn_transformer_encoder_layer(p, path, x, options...) tc_nn_transformer_encoder_layer_at(p, path, x, __VA_OPT__(options,) TC_HERE)
#define tc_nn_add_transformer_decoder_layer(p, path, dim, options...) tc_nn_add_transformer_decoder_layer_at(p, path, dim, __VA_OPT__(options,) TC_HERE)
#define tc_nn_transformer_decoder_layer(p, path, x, memory, options...) tc_nn_transformer_decoder_layer_at(p, path, x, memory, __VA_OPT__(options,) TC_HERE)
#define tc_nn_add_transformer_encoder(p, path, dim, n_layers, options...) tc_nn_add_transformer_encoder_at(p, path, dim, n_layers, __VA_OPT__(options,) TC_HERE)
#define tc_nn_transformer_encoder(p, path, x, options...) tc_nn_transformer_encoder_at(p, path, x, __VA_OPT__(options,) TC_HERE)
#define tc_nn_add_transformer_decoder(p, path, dim, n_layers, options...) tc_nn_add_transformer_decoder_at(p, path, dim, n_layers, __VA_OPT__(options,) TC_HERE)
#define tc_nn_transformer_decoder(p, path, x, memory, options...) tc_nn_transformer_decoder_at(p, path, x, memory, __VA_OPT__(options,) TC_HERE)
#define tc_nn_dropout(p, x, probability...) tc_nn_dropout_at(p, x, __VA_OPT__(probability,) TC_HERE)
#define tc_nn_uniform(shape, low, high...) tc_nn_uniform_at(shape, low, __VA_OPT__(high,) TC_HERE)
#define tc_nn_normal(shape, mean, std...) tc_nn_normal_at(shape, mean, __VA_OPT__(std,) TC_HERE)
#define tc_nn_xavier_uniform(shape, gain...) tc_nn_xavier_uniform_at(shape, __VA_OPT__(gain,) TC_HERE)
#define tc_nn_xavier_normal(shape, gain...) tc_nn_xavier_normal_at(shape, __VA_OPT__(gain,) TC_HERE)
#define tc_nn_kaiming_uniform(shape, a...) tc_nn_kaiming_uniform_at(shape, __VA_OPT__(a,) TC_HERE)
#define tc_nn_params_create() tc_nn_params_create_at(TC_HERE)

#endif

#ifdef __clang__
#pragma clang diagnostic pop
#endif

#endif
