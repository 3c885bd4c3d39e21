// BERT (Devlin et al. 2018) as Hugging Face's BertModel has it: its names, without the pooler.
#pragma once

#include <tc/nn.h>

typedef struct bert_config {
  int64_t n_words, n_positions, n_types, dim, inner, n_layers;  // inner: of the feed-forward part
} bert_config;

#define BERT_BASE ((bert_config){30522, 512, 2, 768, 3072, 12})

// What the shapes in a file say, its names beginning with prefix; false after saying on standard
// error which is not there, or of another rank.
bool bert_config_of(const tc_archive *a, const char *prefix, bert_config *out);
// Adds the parameters (f32) with BERT's initial values, drawn from the thread's random numbers, in
// the current scope. To load a file: bert_load afterwards; before the scope ends that saves making
// values that nobody sees.
tc_status bert_add(tc_nn_params *p, const bert_config *c) TC_MUST_USE;
// tc_nn_load, from files with the older names LayerNorm.gamma and LayerNorm.beta too.
tc_status bert_load(const tc_nn_params *p, const tc_archive *a, const char *prefix) TC_MUST_USE;
// Makes the layers' weights bytes, after they are loaded.
tc_status bert_quantize(tc_nn_params *p) TC_MUST_USE;
// ids [b, t], token types [b, t] ({0, 0}: all 0), mask [b, t] (nonzero: a word, 0: padding, which
// nobody attends to; {0, 0}: all are words) -> last hidden state [b, t, dim]. Where a whole row is
// padding its tokens attend to all alike, as Hugging Face's do.
tc_tensor bert_forward(const tc_nn_params *p, tc_tensor ids, tc_tensor types, tc_tensor mask, int n_heads);
