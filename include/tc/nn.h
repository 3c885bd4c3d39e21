// Models as lists of named parameters, and the few modules that most are made of. Optional: everything here is written over tc.h and io.h.
//
//   tc_nn_params *p = tc_nn_params_create();
//   tc_nn_add_linear(p, "fc1", 784, 128, true);
//   tc_nn_add_linear(p, "fc2", 128, 10, true);
//   tc_optimizer *opt = tc_adam(tc_nn_tensors(p), tc_nn_count(p), (tc_adam_options){.lr = 1e-3, TC_ADAM_DEFAULTS});
//   ...
//   tc_tensor logits = tc_nn_linear(p, "fc2", tc_relu(tc_nn_linear(p, "fc1", x)));
//
// Names are those of PyTorch's state dicts, so that its safetensors files load as they are. A misspelled name is an error with the nearest right one.
// Threads: thread-compatible; a list belongs to the thread that made it.
#ifndef TC_NN_H
#define TC_NN_H

#include <tc/io.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tc_nn_params tc_nn_params;

typedef struct tc_nn_attention_options {
  int n_heads;
  bool causal;  // query i sees keys 0 to i
  // What may be seen, broadcast to [b, n_heads, t, s]: bool (true: seen) or floating (added to the scores); {0, 0}: everything. A query that sees
  // nothing gives NaN.
  tc_tensor mask;
  double dropout;  // probability, applied to the weights; tc_nn_multihead_attention does so in training mode alone
} tc_nn_attention_options;

#define TC_CALL(type, name, params, args) \
  TC_API type(name)(TC_P params); \
  TC_API type name##_at(TC_P params, tc_site site);
#include <tc/nn.def>
#undef TC_CALL

// An empty list, in training mode; NULL without memory. Destroying releases the parameters; NULL is fine.
TC_API tc_nn_params *tc_nn_params_create(void);
TC_API void tc_nn_params_destroy(tc_nn_params *p);
// The parameters in the order they were added, for optimizers and checkpoints. Borrowed until the next is added.
TC_API int tc_nn_count(const tc_nn_params *p);
TC_API const tc_tensor *tc_nn_tensors(const tc_nn_params *p);
TC_API const char *const *tc_nn_names(const tc_nn_params *p);
// Whether tc_nn_dropout drops: true at first.
TC_API void tc_nn_set_training(tc_nn_params *p, bool on);
TC_API bool tc_nn_training(const tc_nn_params *p);

// Writes a path as printf would, and gives out. TC_NN_PATH("layer.%d.fc", i) is one that lives to the end of the block it stands in.
#define TC_NN_PATH_BYTES 256
TC_API const char *tc_nn_path(char *out, size_t bytes, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
#ifndef __cplusplus
#define TC_NN_PATH(...) tc_nn_path((char[TC_NN_PATH_BYTES]){0}, TC_NN_PATH_BYTES, __VA_ARGS__)
#endif

#ifdef __cplusplus
}
#endif

#endif
