// GPT-2 (Radford et al. 2019) as Hugging Face's GPT2Model has it: its names, and weights [in, out].
#pragma once

#include <tc/nn.h>

typedef struct gpt2_config {
  int64_t n_words, n_positions, dim, inner, n_layers;  // inner: of the feed-forward part
} gpt2_config;

#define GPT2_SMALL ((gpt2_config){50257, 1024, 768, 3072, 12})

// Keys and values of the tokens so far, so that each is computed once: [b, n_heads, n_max, dim /
// n_heads] for every layer. Owned; released by gpt2_cache_fini. They are written in place, at a
// position that is an argument of the kernels: every token has the plan of the one before.
typedef struct gpt2_cache {
  int n_layers;
  int64_t n_max, n;  // room, and tokens that are there
  tc_tensor *key, *value;
} gpt2_cache;

// What the shapes in a file say, its names beginning with prefix; false after saying on standard
// error which is not there, or of another rank.
bool gpt2_config_of(const tc_archive *a, const char *prefix, gpt2_config *out);
// Adds the parameters (f32) with GPT-2's initial values, drawn from the thread's random numbers, in
// the current scope. To load a file: tc_nn_load afterwards; before the scope ends that saves making
// values that nobody sees.
tc_status gpt2_add(tc_nn_params *p, const gpt2_config *c) TC_MUST_USE;
// Makes the layers' weights bytes, after they are loaded, and those of the head, which is then no
// longer the table of words.
tc_status gpt2_quantize(tc_nn_params *p) TC_MUST_USE;
// ids [b, t] -> hidden states [b, t, dim] after the last norm. With a cache (else NULL) the ids
// follow those that it has, and go into it.
tc_tensor gpt2_forward(const tc_nn_params *p, tc_tensor ids, int n_heads, gpt2_cache *cache);
// Hidden states [..., dim] -> logits [..., n_words].
tc_tensor gpt2_logits(const tc_nn_params *p, tc_tensor hidden);
// The mean cross entropy of each token of ids [b, t] after the first, predicted from those before
// it.
tc_tensor gpt2_loss(const tc_nn_params *p, tc_tensor ids, int n_heads);

// An empty cache for the model p and sequences of up to n_max tokens.
tc_status gpt2_cache_init(gpt2_cache *cache, const tc_nn_params *p, int64_t b, int64_t n_max, int n_heads) TC_MUST_USE;
void gpt2_cache_fini(gpt2_cache *cache);
