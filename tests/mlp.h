// The model that the plain tests train: x [16, 8] -> relu(8 x 32) -> 32 x 4, cross entropy,
// momentum SGD.
// Deterministic: equal seeds give equal bits. Threads: one thread at a time per model. Owns its
// tensors.
#pragma once

#include <tc/tc.h>

typedef struct mlp {
  tc_tensor x, y, params[4];
  tc_optimizer *opt;
} mlp;

static inline tc_tensor mlp_data(uint64_t seed, tc_dims d, double scale) {
  float data[16 * 32];
  int64_t n = 1;
  for (int k = 0; k < d.rank; k++) n *= d.dim[k];
  for (int64_t i = 0; i < n; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    data[i] = (float)(((double)(seed >> 33) / 2147483648.0 - 0.5) * scale);
  }
  return tc_from_host(data, d, TC_F32);
}

// Parts that could not be made are left poisoned or NULL; mlp_fini takes them.
static inline tc_status mlp_init(mlp *m, uint64_t seed) {
  int64_t labels[16];
  tc_scope s = tc_scope_begin();
  for (int i = 0; i < 16; i++) labels[i] = (i * 7 + (int64_t)seed) % 4;
  m->x = tc_retain(mlp_data(seed, TC_SHAPE(16, 8), 2));
  m->y = tc_retain(tc_from_host(labels, TC_SHAPE(16), TC_I64));
  m->params[0] = tc_param(mlp_data(seed + 1, TC_SHAPE(8, 32), 1));
  m->params[1] = tc_param(tc_zeros(TC_SHAPE(32), TC_F32));
  m->params[2] = tc_param(mlp_data(seed + 2, TC_SHAPE(32, 4), 0.5));
  m->params[3] = tc_param(tc_zeros(TC_SHAPE(4), TC_F32));
  m->opt = tc_sgd(m->params, 4, (tc_sgd_options){.lr = 0.1, .momentum = 0.9});
  tc_scope_end(s);
  return m->opt ? TC_OK : tc_last_error()->status;
}

static inline void mlp_fini(mlp *m) {
  tc_optimizer_destroy(m->opt);
  for (int k = 0; k < 4; k++) tc_release(m->params[k]);
  tc_release(m->x), tc_release(m->y);
  *m = (mlp){0};
}

// One step; the loss before it. The step's temporaries die before the loss is read.
static inline tc_status mlp_step(mlp *m, float *out_loss) {
  tc_scope outer = tc_scope_begin(), inner = tc_scope_begin();
  tc_tensor hidden = tc_relu(tc_add(tc_matmul(m->x, m->params[0]), m->params[1]));
  tc_tensor loss = tc_cross_entropy(tc_add(tc_matmul(hidden, m->params[2]), m->params[3]), m->y);
  tc_status st = tc_backward(loss), step = tc_optimizer_step(m->opt), zero = tc_zero_grad(m->opt);
  tc_keep(loss);
  tc_scope_end(inner);
  tc_status read = tc_item_f32(loss, out_loss);
  tc_scope_end(outer);
  return st != TC_OK ? st : step != TC_OK ? step : zero != TC_OK ? zero : read;
}
