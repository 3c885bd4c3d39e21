// Models as lists of named parameters, and the few modules that most are made of. Optional:
// everything here is written over tc.h and io.h.
//
//   tc_nn_params *p = tc_nn_params_create();
//   tc_nn_add_linear(p, "fc1", 784, 128, true);
//   tc_nn_add_linear(p, "fc2", 128, 10, true);
//   tc_optimizer *opt = tc_adam(tc_nn_tensors(p), tc_nn_count(p), (tc_adam_options){.lr = 1e-3});
//   ...
//   tc_tensor logits = tc_nn_linear(p, "fc2", tc_relu(tc_nn_linear(p, "fc1", x)));
//
// Names are those of PyTorch's state dicts, so that its safetensors files load as they are. A
// misspelled name is an error with the nearest right one.
// Threads: thread-compatible; a list belongs to the thread that made it.
#ifndef TC_NN_H
#define TC_NN_H

#include <tc/io.h>

#ifdef __cplusplus
extern "C" {
#endif

// A list of named parameters and buffers: a model.
typedef struct tc_nn_params tc_nn_params;

// Of tc_nn_attention and tc_nn_multihead_attention.
typedef struct tc_nn_attention_options {
  int n_heads;  // divides dim
  bool causal;  // true: query i sees keys 0 to i
  // The keys a query may see, broadcast to [b, n_heads, t, s]: bool (true: seen) or floating (added
  // to the scores); {0, 0}: all. A query that sees nothing gives zeros.
  tc_tensor mask;
  double dropout;  // probability, applied to the weights; tc_nn_multihead_attention does so in training mode alone
} tc_nn_attention_options;

// ---- Parameters ----

// An empty list, in training mode; NULL with TC_ERR_MEMORY. Destroying releases the parameters;
// NULL is fine.
TC_API tc_nn_params *tc_nn_params_create(void);
TC_API void tc_nn_params_destroy(tc_nn_params *p);
// The parameters in the order they were added: tc_nn_count of them, for optimizers; then the
// buffers, with which there are tc_nn_count_all, for files. Borrowed until the next is added.
TC_API int tc_nn_count(const tc_nn_params *p);
TC_API int tc_nn_count_all(const tc_nn_params *p);
TC_API const tc_tensor *tc_nn_tensors(const tc_nn_params *p);
TC_API const char *const *tc_nn_names(const tc_nn_params *p);
// Whether tc_nn_dropout drops elements and tc_nn_batch_norm uses the batch's statistics: true at
// first.
TC_API void tc_nn_set_training(tc_nn_params *p, bool on);
TC_API bool tc_nn_training(const tc_nn_params *p);
// Adds a parameter of init's shape and type that starts as init, and returns its handle. The list
// owns it: it lives until tc_nn_params_destroy. TC_ERR_ARG if the name is empty or taken.
TC_API tc_tensor tc_nn_add(tc_nn_params *p, const char *name, tc_tensor init);
// Adds a buffer: a value that is not trained, of init's shape and type, such as running statistics.
// It has no gradient, and is loaded and saved with the parameters. TC_ERR_ARG if the name is empty
// or taken.
TC_API tc_tensor tc_nn_add_buffer(tc_nn_params *p, const char *name, tc_tensor init);
// The parameter or buffer called name; poison with TC_ERR_ARG and the nearest name if there is
// none.
TC_API tc_tensor tc_nn_get(const tc_nn_params *p, const char *name);
TC_API bool tc_nn_has(const tc_nn_params *p, const char *name);
// Casts every floating parameter and buffer to this type, as torch.nn.Module.to does; but the
// weight_scale of a layer of bytes stays f32. Call it
// before an optimizer is created, since parameters become new handles. TC_ERR_DTYPE unless type is
// floating.
TC_API tc_status tc_nn_cast(tc_nn_params *p, tc_type type);
// Turns linear layers into layers of bytes, as torch.ao.quantization.quantize_dynamic does.
// pattern: of their paths, such as "encoder.layer.*" (fnmatch(3)). Each that has a floating matrix
// "weight" is turned. Two buffers replace it: weight_int8 [out, in], in which a row's greatest
// magnitude (of at least 2^-100) is 127, and weight_scale [out], f32. tc_nn_linear and the output
// of attention then apply tc_linear_int8. Embeddings of tc_nn_add_embedding stay; another module
// whose matrix was turned fails, and says so.
// out_axis: the weight's axis of outputs: 0 for [out, in], 1 for [in, out]. A file of such a model
// is loaded by another that was turned likewise. Call it after loading numbers; a sync point.
// TC_ERR_ARG where nothing matches, TC_ERR_SHAPE for a layer of more inputs than
// TC_MAX_INT8_COLUMNS; then
// nothing has changed.
TC_API tc_status tc_nn_quantize_dynamic(tc_nn_params *p, const char *pattern, int out_axis);
// All parameters and buffers from an archive, each from its name after prefix (NULL: none): see
// tc_archive_load. A batch norm's num_batches_tracked that the archive lacks stays as it is.
// TC_ERR_ARG for a name, TC_ERR_SHAPE or TC_ERR_DTYPE for a tensor that does not fit; then nothing
// has changed.
TC_API tc_status tc_nn_load(const tc_nn_params *p, const tc_archive *a, const char *prefix) TC_MUST_USE;
// All parameters and buffers into a safetensors file, marked as PyTorch marks its own. A sync
// point; TC_ERR_IO with the reason.
TC_API tc_status tc_nn_save(const tc_nn_params *p, const char *path) TC_MUST_USE;
// Saves and loads a checkpoint of training, to the bit: all parameters and buffers, the state of
// n_opts optimizers, this thread's random state, and step. See tc_checkpoint_save_with and
// tc_checkpoint_load (io.h).
// TC_ERR_ARG where an optimizer has a parameter that is not in the list: it would be lost.
//   tc_status st = tc_nn_checkpoint_save(p, "run.safetensors", 1, &opt, step);
TC_API tc_status tc_nn_checkpoint_save(const tc_nn_params *p, const char *path, int n_opts, tc_optimizer *const *opts,
                                       int64_t step) TC_MUST_USE;
TC_API tc_status tc_nn_checkpoint_load(const tc_nn_params *p, const char *path, int n_opts, tc_optimizer *const *opts,
                                       int64_t *out_step) TC_MUST_USE;

// ---- Modules ----
// add_ makes the parameters (f32) as PyTorch's module of that name starts, the other applies them.
// path names a module, as in PyTorch's state dicts: a linear layer at "fc1" has "fc1.weight" and
// "fc1.bias". Where one of its names is taken, none is added.
// Adding: TC_ERR_ARG for a name that is taken, a path that is NULL or too long; TC_ERR_SHAPE for
// negative extents. Applying: TC_ERR_ARG where the path has no such module, and what the op of that
// name refuses (tc.h): TC_ERR_SHAPE if x does not fit. Results belong to the current scope and are
// of x's type, or what it and f32 promote to.

// Writes a path as printf would, and returns out. TC_NN_PATH("layer.%d.fc", i) makes one that lives
// to the end of the enclosing block.
#define TC_NN_PATH_BYTES 256
TC_API const char *tc_nn_path(char *out, size_t bytes, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
#ifndef __cplusplus
#define TC_NN_PATH(...) tc_nn_path((char[TC_NN_PATH_BYTES]){0}, TC_NN_PATH_BYTES, __VA_ARGS__)
#endif

// weight [out, in], and bias [out] if asked for: both uniform within 1 / sqrt(in). x [..., in] ->
// [..., out]; without bias where there is no such name.
TC_API tc_status tc_nn_add_linear(tc_nn_params *p, const char *path, int64_t in, int64_t out, bool bias);
TC_API tc_tensor tc_nn_linear(const tc_nn_params *p, const char *path, tc_tensor x);
// weight [n, dim], normal. ids [...] -> [..., dim].
TC_API tc_status tc_nn_add_embedding(tc_nn_params *p, const char *path, int64_t n, int64_t dim);
TC_API tc_tensor tc_nn_embedding(const tc_nn_params *p, const char *path, tc_tensor ids);
// weight [dim] of ones, bias [dim] of zeros. Over the last axis; PyTorch's eps is 1e-5, BERT's
// 1e-12.
TC_API tc_status tc_nn_add_layer_norm(tc_nn_params *p, const char *path, int64_t dim);
TC_API tc_tensor tc_nn_layer_norm(const tc_nn_params *p, const char *path, tc_tensor x, double eps);
// weight [dim] of ones. Over the last axis; PyTorch's eps is the type's epsilon, Llama's 1e-5 or
// 1e-6.
TC_API tc_status tc_nn_add_rms_norm(tc_nn_params *p, const char *path, int64_t dim);
TC_API tc_tensor tc_nn_rms_norm(const tc_nn_params *p, const char *path, tc_tensor x, double eps);
// weight [channels] of ones, bias [channels] of zeros. x [n, channels, ...]: over each of the
// groups of channels.
TC_API tc_status tc_nn_add_group_norm(tc_nn_params *p, const char *path, int64_t channels);
TC_API tc_tensor tc_nn_group_norm(const tc_nn_params *p, const char *path, tc_tensor x, int64_t groups, double eps);
// weight [channels] of ones, bias [channels] of zeros; buffers running_mean of zeros, running_var
// of ones, and num_batches_tracked (i64). x [n, channels, ...].
// Training mode uses the batch's statistics, toward which the running ones move by momentum,
// without history. Otherwise the running ones are used. PyTorch's momentum is 0.1, its eps 1e-5.
TC_API tc_status tc_nn_add_batch_norm(tc_nn_params *p, const char *path, int64_t channels);
TC_API tc_tensor tc_nn_batch_norm(const tc_nn_params *p, const char *path, tc_tensor x, double momentum, double eps);
// weight [out, in / groups, size...], size as in tc_max_pool2d, and bias [out] if asked for: both
// uniform within 1 / sqrt(in / groups * size...). x [n, in, h, w] -> [n, out, ...]; without bias
// where there is no such name. options.groups must be the same.
TC_API tc_status tc_nn_add_conv2d(tc_nn_params *p, const char *path, int64_t in, int64_t out, tc_dims size,
                                  int64_t groups, bool bias);
TC_API tc_tensor tc_nn_conv2d(const tc_nn_params *p, const char *path, tc_tensor x, tc_conv_options options);
// in_proj_weight [3 dim, dim] (Xavier), in_proj_bias [3 dim] and out_proj.bias [dim] (zeros),
// out_proj.weight [dim, dim].
// query [b, t, dim], key and value [b, s, dim] -> [b, t, dim]: torch.nn.MultiheadAttention with
// batch_first.
TC_API tc_status tc_nn_add_multihead_attention(tc_nn_params *p, const char *path, int64_t dim, bool bias);
TC_API tc_tensor tc_nn_multihead_attention(const tc_nn_params *p, const char *path, tc_tensor query, tc_tensor key,
                                           tc_tensor value, tc_nn_attention_options options);
// The part without parameters: query [b, t, dim], key and value [b, s, dim], already projected ->
// [b, t, dim]. Each head takes dim / n_heads of dim: softmax(q k^T / sqrt(dim / n_heads)) v.
// TC_ERR_SHAPE unless they fit and n_heads divides dim.
// Source: torch.nn.functional.scaled_dot_product_attention.
TC_API tc_tensor tc_nn_attention(tc_tensor query, tc_tensor key, tc_tensor value, tc_nn_attention_options options);

// Recurrent modules: torch.nn.RNN, GRU and LSTM without proj_size. Names are PyTorch's, for each
// layer and direction: weight_ih_l0 [g hidden, in], weight_hh_l0 [g hidden, hidden], bias_ih_l0 and
// bias_hh_l0 [g hidden]. g is 1, 3 and 4; the reverse direction's end in _reverse. All are uniform
// within 1 / sqrt(hidden).
// Layers, directions and biases are what was added; applying ignores those fields. A sequence is
// unrolled: the product with the inputs of all steps is one matmul, that with the state one a step.
typedef struct tc_nn_rnn_options {
  int n_layers;  // 1 if left out
  bool bidirectional;  // true: a layer reads its input from both ends; its result has both
  bool no_bias;  // true: without biases
  bool batch_first;  // true: x is [b, t, in], the result [b, t, ...]; false: [t, b, ...]
  bool relu;  // of tc_nn_rnn, true: relu instead of tanh (nonlinearity="relu")
  double dropout;  // probability, of each layer's result but the last's, in training mode
  // [b] of an integer type: steps of each sequence, from 0 to t; {0, 0}: all have t. Behind them
  // results are 0, and the final state is that of the last step, as with pack_padded_sequence.
  // Other lengths need no new plan. One out of range is TC_ERR_INDEX if it is known when this is
  // called: stored in the host's memory, or of tc_full. Else it is taken as 0 or t, whichever is
  // nearer
  tc_tensor lengths;
} tc_nn_rnn_options;
// A state of all layers and directions, in PyTorch's order.
typedef struct tc_nn_rnn_state {
  tc_tensor h, c;  // [n_layers * directions, b, hidden] each; {0, 0}: zeros. c is the LSTM's alone
} tc_nn_rnn_state;
TC_API tc_status tc_nn_add_rnn(tc_nn_params *p, const char *path, int64_t in, int64_t hidden,
                               tc_nn_rnn_options options);
TC_API tc_status tc_nn_add_gru(tc_nn_params *p, const char *path, int64_t in, int64_t hidden,
                               tc_nn_rnn_options options);
TC_API tc_status tc_nn_add_lstm(tc_nn_params *p, const char *path, int64_t in, int64_t hidden,
                                tc_nn_rnn_options options);
// x [t, b, in] -> [t, b, directions * hidden]. state: in the first state, out the last one; NULL:
// zeros, and not wanted. TC_ERR_SHAPE also for t 0.
TC_API tc_tensor tc_nn_rnn(const tc_nn_params *p, const char *path, tc_tensor x, tc_nn_rnn_state *state,
                           tc_nn_rnn_options options);
TC_API tc_tensor tc_nn_gru(const tc_nn_params *p, const char *path, tc_tensor x, tc_nn_rnn_state *state,
                           tc_nn_rnn_options options);
TC_API tc_tensor tc_nn_lstm(const tc_nn_params *p, const char *path, tc_tensor x, tc_nn_rnn_state *state,
                            tc_nn_rnn_options options);
// One step: torch.nn.RNNCell, GRUCell and LSTMCell; weight_ih, weight_hh, bias_ih and bias_hh. x
// [b, in], h [b, hidden] or {0, 0} for zeros -> [b, hidden], the next h. An LSTM's state also goes
// on.
TC_API tc_status tc_nn_add_rnn_cell(tc_nn_params *p, const char *path, int64_t in, int64_t hidden, bool bias);
TC_API tc_status tc_nn_add_gru_cell(tc_nn_params *p, const char *path, int64_t in, int64_t hidden, bool bias);
TC_API tc_status tc_nn_add_lstm_cell(tc_nn_params *p, const char *path, int64_t in, int64_t hidden, bool bias);
TC_API tc_tensor tc_nn_rnn_cell(const tc_nn_params *p, const char *path, tc_tensor x, tc_tensor h, bool relu);
TC_API tc_tensor tc_nn_gru_cell(const tc_nn_params *p, const char *path, tc_tensor x, tc_tensor h);
TC_API tc_tensor tc_nn_lstm_cell(const tc_nn_params *p, const char *path, tc_tensor x, tc_nn_rnn_state *state);

// Transformer layers: torch.nn.TransformerEncoderLayer and DecoderLayer with batch_first, x [b, t,
// dim] -> [b, t, dim]. Names as PyTorch's: self_attn (a tc_nn_add_multihead_attention), linear1,
// linear2, norm1, norm2; of a decoder also multihead_attn and norm3. A stack's are layers.0,
// layers.1, .., and norm.
// Masks say what is seen, as everywhere in tc; PyTorch's bool masks of these modules say what is
// not.
// Floating masks are added, in both.
typedef struct tc_nn_transformer_options {
  int n_heads;  // divides dim
  int64_t dim_feedforward;  // of linear1; 2048. Adding alone
  bool no_bias;  // true: without biases. Adding alone
  bool final_norm;  // true: a stack ends with a layer norm. Adding alone
  bool norm_first;  // true: each part's input is normalized, not its sum
  bool gelu;  // true: gelu instead of relu
  double dropout;  // in training mode; 0.1, TC_ZERO: none
  double eps;  // of the norms, 1e-5
  bool causal;  // true: position i of x sees 0 to i
  tc_tensor mask;  // of x's positions, broadcast to [b, n_heads, t, t]; {0, 0}: all
  tc_tensor padding;  // [b, t] bool, true: the position is there; {0, 0}: all
  tc_tensor memory_mask, memory_padding;  // of a decoder: the same of memory's positions, [.., t, s] and [b, s]
} tc_nn_transformer_options;
TC_API tc_status tc_nn_add_transformer_encoder_layer(tc_nn_params *p, const char *path, int64_t dim,
                                                     tc_nn_transformer_options options);
TC_API tc_tensor tc_nn_transformer_encoder_layer(const tc_nn_params *p, const char *path, tc_tensor x,
                                                 tc_nn_transformer_options options);
TC_API tc_status tc_nn_add_transformer_decoder_layer(tc_nn_params *p, const char *path, int64_t dim,
                                                     tc_nn_transformer_options options);
// memory [b, s, dim], an encoder's result.
TC_API tc_tensor tc_nn_transformer_decoder_layer(const tc_nn_params *p, const char *path, tc_tensor x, tc_tensor memory,
                                                 tc_nn_transformer_options options);
// Stacks of n_layers: torch.nn.TransformerEncoder and Decoder, x and result [b, t, dim]. Applying
// takes the layers that there are.
TC_API tc_status tc_nn_add_transformer_encoder(tc_nn_params *p, const char *path, int64_t dim, int n_layers,
                                               tc_nn_transformer_options options);
TC_API tc_tensor tc_nn_transformer_encoder(const tc_nn_params *p, const char *path, tc_tensor x,
                                           tc_nn_transformer_options options);
TC_API tc_status tc_nn_add_transformer_decoder(tc_nn_params *p, const char *path, int64_t dim, int n_layers,
                                               tc_nn_transformer_options options);
TC_API tc_tensor tc_nn_transformer_decoder(const tc_nn_params *p, const char *path, tc_tensor x, tc_tensor memory,
                                           tc_nn_transformer_options options);

// tc_dropout in training mode, else x itself, checked alike: x's shape and type.
TC_API tc_tensor tc_nn_dropout(const tc_nn_params *p, tc_tensor x, double probability);

// ---- Initial values ----
// f32, as torch.nn.init; tc_zeros and tc_ones are the other two.
// Those with fan_in and fan_out need a shape [out, in, ...] of rank 2 or more: TC_ERR_SHAPE.

// Uniform in [low, high); normal with that mean and standard deviation. TC_ERR_ARG unless those are
// finite f32, in order, and no deviation is negative.
TC_API tc_tensor tc_nn_uniform(tc_dims shape, double low, double high);
TC_API tc_tensor tc_nn_normal(tc_dims shape, double mean, double std);
// Uniform within gain * sqrt(6 / (fan_in + fan_out)); normal with standard deviation gain * sqrt(2
// / (fan_in + fan_out)).
TC_API tc_tensor tc_nn_xavier_uniform(tc_dims shape, double gain);
TC_API tc_tensor tc_nn_xavier_normal(tc_dims shape, double gain);
// Uniform within sqrt(6 / ((1 + a^2) fan_in)). With a = sqrt(5): PyTorch's initial values of linear
// layers and convolutions.
TC_API tc_tensor tc_nn_kaiming_uniform(tc_dims shape, double a);

#ifdef __cplusplus
}
#endif

#include <tc/nn_sites.h>

#endif
