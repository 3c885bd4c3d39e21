// Attention of few query rows against many keys on a GPU, simulated, whose keys are split into parts: beside the reference, for every way that heads, rows,
// masks and lengths are given; a cache that grows makes no new plan.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tc/tc.h>

#include "tests/plain/child.h"
#include "tests/sim/built.h"

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

static const shape shapes[] = {
    {"one row", TC_F32, 1, 2, 2, 1, 520, 16, 16, false, 0, NO_MASK, false},
    {"heads are rows", TC_F32, 2, 6, 2, 1, 600, 16, 24, true, 513, NO_MASK, true},
    {"one key", TC_F32, 1, 4, 2, 1, 1024, 8, 8, true, 1, NO_MASK, false},
    {"a few rows", TC_F32, 1, 2, 1, 5, 1030, 20, 12, true, 1000, NO_MASK, true},
    {"rows that see nothing", TC_F32, 1, 2, 2, 3, 512, 8, 8, true, 1, NO_MASK, true},
    {"bools", TC_F32, 2, 4, 2, 1, 530, 16, 16, false, 0, BOOLS, false},
    {"floats", TC_F32, 1, 2, 2, 4, 515, 8, 8, false, 500, FLOATS, true},
    {"f64", TC_F64, 1, 4, 2, 2, 514, 8, 12, true, 512, NO_MASK, true},
    {"f16", TC_F16, 1, 8, 2, 1, 640, 64, 64, true, 600, NO_MASK, false},
    {"bf16", TC_BF16, 1, 4, 2, 7, 1100, 32, 64, true, 1000, NO_MASK, true},
    {"bf16, bools", TC_BF16, 1, 4, 1, 1, 513, 16, 16, false, 0, BOOLS, false},
};
enum { MOST = 1 << 17, MOST_RESULT = 1 << 12 };

static double x[3][MOST], scores[1 << 14];
static unsigned char seen[1 << 14];

static void draw(void) {
  uint32_t seed = 7;
  for (int i = 0; i < 3; i++)
    for (int k = 0; k < MOST; k++) seed = seed * 1664525 + 1013904223, x[i][k] = (double)((int)(seed >> 16) % 129 - 64) / 32;
  for (int k = 0; k < 1 << 14; k++)
    seed = seed * 1664525 + 1013904223, seen[k] = seed >> 20 & 1, scores[k] = (double)((int)(seed >> 16) % 65 - 32) / 8;
}

static tc_tensor heads(int i, int64_t n, int64_t of, int64_t rows, int64_t columns, const shape *c) {
  const int64_t order[4] = {0, 2, 1, 3};
  tc_dims d = c->inside ? TC_SHAPE(n, rows, of, columns) : TC_SHAPE(n, of, rows, columns);
  tc_tensor t = tc_cast(tc_from_host(x[i], d, TC_F64), c->type);
  return c->inside ? tc_permute(t, tc_dims_of(4, order)) : t;
}

static tc_tensor masked(const shape *c) {
  if (c->mask == NO_MASK) return (tc_tensor){0, 0};
  // The last head of bools sees nothing.
  if (c->mask == BOOLS) {
    for (int64_t i = 0; i < c->keys; i++) seen[(c->hq - 1) * c->keys + i] = 0;
    return tc_from_host(seen, TC_SHAPE(1, c->hq, 1, c->keys), TC_BOOL);
  }
  return tc_cast(tc_from_host(scores, TC_SHAPE(c->l, c->keys), TC_F64), c->type);
}

// With what training keeps, if `gradients`: the logarithms of the sums.
static size_t attend(const shape *c, const char *device, bool gradients, double *got) {
  const int64_t order[4] = {0, 2, 1, 3};
  EXPECT(tc_push_device(device) == TC_OK, "%s", tc_last_error()->message);
  tc_scope s = tc_scope_begin();
  tc_tensor q = heads(0, c->n, c->hq, c->l, c->e, c), k = heads(1, c->n, c->hkv, c->keys, c->e, c), v = heads(2, c->n, c->hkv, c->keys, c->ev, c),
            dq[1];
  EXPECT(tc_eval(3, (tc_tensor[]){q, k, v}) == TC_OK, "%s", tc_last_error()->message);
  if (gradients) EXPECT(tc_set_requires_grad(q, true) == TC_OK, "%s", tc_last_error()->message);
  tc_tensor y = tc_scaled_dot_product_attention(q, k, v, masked(c), (tc_attention_options){.causal = c->causal, .key_length = c->length});
  size_t n = (size_t)(c->n * c->hq * c->l * c->ev);
  if (c->inside) y = tc_permute(y, tc_dims_of(4, order));
  if (gradients) {
    EXPECT(tc_grads_of(tc_sum(tc_square(tc_cast(y, TC_F32)), tc_dims_all(), false), &q, 1, dq, 0) == TC_OK, "%s", tc_last_error()->message);
    n = (size_t)(c->n * c->hq * c->l * c->e), y = dq[0];
  }
  EXPECT(n <= MOST_RESULT && tc_to_host(tc_cast(y, TC_F64), got, n * sizeof *got) == TC_OK, "%s: %s", c->name, tc_last_error()->message);
  tc_scope_end(s);
  EXPECT(tc_pop_device() == TC_OK, "%s", tc_last_error()->message);
  return n;
}

static void test_as_the_reference(void) {
  static double there[MOST_RESULT], here[MOST_RESULT];
  for (size_t i = 0; i < 2 * (sizeof shapes / sizeof *shapes); i++) {
    const shape *c = &shapes[i / 2];
    bool gradients = i % 2;
    if (gradients && (c->mask == FLOATS || (c->l == 1 && c->mask == NO_MASK))) continue;
    double within = c->type == TC_F64 ? 1e-12 : c->type == TC_F32 ? 2e-5 : c->type == TC_F16 ? 4e-3 : 3e-2, most = 0, apart = 0;
    size_t n = attend(c, "tc:cuda", gradients, there);
    (void)attend(c, "tc:ref", gradients, here);
    for (size_t k = 0; k < n; k++) {
      most = fmax(most, fabs(here[k])), apart = fmax(apart, fabs(here[k] - there[k]));
      EXPECT(isfinite(there[k]), "%s: %g, should be %g", c->name, there[k], here[k]);
    }
    EXPECT(apart <= within * (most + 1e-3), "%s%s: %g of %g", c->name, gradients ? ", gradients" : "", apart, most);
  }
}

static uint64_t misses(void) {
  return tc_cache_stats().plan_misses;
}

static void test_a_growing_cache_makes_no_new_plan(void) {
  static double there[MOST_RESULT], here[MOST_RESULT];
  shape c = {"a cache", TC_F32, 1, 4, 2, 1, 1024, 8, 8, true, 0, NO_MASK, false};
  uint64_t plans = 0;
  for (int64_t length = 250; length <= 1024; length += 129) {
    c.length = length;
    size_t n = attend(&c, "tc:cuda", false, there);
    if (length == 250) plans = misses();
    EXPECT(misses() == plans, "%lld keys: a new plan", (long long)length);
    uint64_t before = misses();
    (void)attend(&c, "tc:ref", false, here);
    plans += misses() - before;
    for (size_t k = 0; k < n; k++) EXPECT(fabs(here[k] - there[k]) <= 4e-5, "%lld keys: %g, should be %g", (long long)length, there[k], here[k]);
  }
}

int main(void) {
  if (!built_simulators()) return puts("skipped: the simulated driver was not built"), 77;
  draw();
  test_as_the_reference();
  test_a_growing_cache_makes_no_new_plan();
  tc_shutdown();
  return expect_done("gpu_decode");
}
