// Attention on a device beside the reference, for every way that heads, rows, masks and lengths are
// given. Tests only.
#pragma once

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tc/tc.h>

#include "tests/expect.h"

enum mask { NO_MASK, BOOLS, FLOATS };

typedef struct shape {
  const char *name;
  tc_type type;
  int64_t n, hq, hkv, l, keys, e, ev;
  bool causal;
  int64_t length;  // 0: none
  enum mask mask;
  bool inside;  // heads lie inside, and so does the result
} shape;

enum { MOST = 1 << 17, MOST_RESULT = 1 << 16 };

static double x[3][MOST], scores[1 << 14];
static unsigned char seen[1 << 14];

static inline void draw(void) {
  uint32_t seed = 7;
  for (int i = 0; i < 3; i++)
    for (int k = 0; k < MOST; k++)
      seed = seed * 1664525 + 1013904223, x[i][k] = (double)((int)(seed >> 16) % 129 - 64) / 32;
  for (int k = 0; k < 1 << 14; k++)
    seed = seed * 1664525 + 1013904223, seen[k] = seed >> 20 & 1, scores[k] = (double)((int)(seed >> 16) % 65 - 32) / 8;
}

static inline tc_tensor heads(int i, int64_t n, int64_t of, int64_t rows, int64_t columns, const shape *c) {
  const int64_t order[4] = {0, 2, 1, 3};
  tc_dims d = c->inside ? TC_SHAPE(n, rows, of, columns) : TC_SHAPE(n, of, rows, columns);
  tc_tensor t = tc_cast(tc_from_host(x[i], d, TC_F64), c->type);
  return c->inside ? tc_permute(t, tc_dims_of(4, order)) : t;
}

static inline tc_tensor masked(const shape *c) {
  if (c->mask == NO_MASK) return (tc_tensor){0, 0};
  // The last head of bools sees nothing.
  if (c->mask == BOOLS) {
    for (int64_t i = 0; i < c->keys; i++) seen[(c->hq - 1) * c->keys + i] = 0;
    return tc_from_host(seen, TC_SHAPE(1, c->hq, 1, c->keys), TC_BOOL);
  }
  return tc_cast(tc_from_host(scores, TC_SHAPE(c->l, c->keys), TC_F64), c->type);
}

static inline size_t values_of(tc_tensor t, double *got, size_t most) {
  size_t n = (size_t)tc_numel(t);
  EXPECT(n <= most && tc_to_host(tc_cast(t, TC_F64), got, n * sizeof *got) == TC_OK, "%zu values: %s", n,
         tc_last_error()->message);
  return n;
}

// The result, or gradients of the first n_gradients of q, k and v; count: values of each, which
// follow each other.
static inline void attend(const shape *c, const char *device, int n_gradients, double *got, size_t count[3]) {
  const int64_t order[4] = {0, 2, 1, 3};
  size_t n = 0;
  EXPECT(tc_push_device(device) == TC_OK, "%s", tc_last_error()->message);
  tc_scope s = tc_scope_begin();
  tc_tensor x[3] = {heads(0, c->n, c->hq, c->l, c->e, c), heads(1, c->n, c->hkv, c->keys, c->e, c),
                    heads(2, c->n, c->hkv, c->keys, c->ev, c)},
            out[3];
  EXPECT(tc_eval(3, x) == TC_OK, "%s", tc_last_error()->message);
  for (int i = 0; i < n_gradients; i++)
    EXPECT(tc_set_requires_grad(x[i], true) == TC_OK, "%s", tc_last_error()->message);
  out[0] = tc_scaled_dot_product_attention(x[0], x[1], x[2], masked(c),
                                           (tc_attention_options){.causal = c->causal, .key_length = c->length});
  if (c->inside) out[0] = tc_permute(out[0], tc_dims_of(4, order));
  if (n_gradients) {
    tc_tensor loss = tc_sum(tc_square(tc_cast(out[0], TC_F32)), tc_dims_all(), false);
    EXPECT(tc_grads_of(loss, x, n_gradients, out, 0) == TC_OK, "%s", tc_last_error()->message);
  }
  EXPECT(tc_eval(n_gradients ? n_gradients : 1, out) == TC_OK, "%s: %s", c->name, tc_last_error()->message);
  for (int i = 0; i < 3; i++)
    count[i] = i < n_gradients || i == 0 ? values_of(out[i], got + n, MOST_RESULT - n) : 0, n += count[i];
  tc_scope_end(s);
  EXPECT(tc_pop_device() == TC_OK, "%s", tc_last_error()->message);
}

// Whether the device's results, as of `attend`, are as close to the reference's as their type
// allows.
static inline void expect_as_the_reference(const shape *c, const char *device, int n_gradients) {
  static double there[MOST_RESULT], here[MOST_RESULT];
  double within = c->type == TC_F64 ? 1e-12 : c->type == TC_F32 ? 2e-5 : c->type == TC_F16 ? 4e-3 : 3e-2;
  size_t count[3], k = 0;
  attend(c, device, n_gradients, there, count);
  attend(c, "tc:ref", n_gradients, here, count);
  for (int i = 0; i < 3; i++) {
    double most = 0, apart = 0;
    for (size_t end = k + count[i]; k < end; k++) {
      most = fmax(most, fabs(here[k])), apart = fmax(apart, fabs(here[k] - there[k]));
      EXPECT(isfinite(there[k]), "%s: %g, should be %g", c->name, there[k], here[k]);
    }
    EXPECT(apart <= within * (most + 1e-3), "%s, %d of %d gradients: %g of %g", c->name, i, n_gradients, apart, most);
  }
}
