// Live values that nobody asked for: what they cost when they are used again and again, and what
// they hold. Loops that carry state in new handles reach steady state; an expensive value is made
// at most twice; a small result does not keep the batch it came from.
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "tests/expect.h"

enum { WARM = 12, STEPS = 200 };

typedef struct seen {
  uint64_t misses, compiles;
  size_t live;
} seen;

static seen now(void) {
  tc_cache_info c = tc_cache_stats();
  return (seen){c.plan_misses, c.compiles, tc_memory_stats().live_bytes};
}

static void expect_steady(const char *what, const seen *warm) {
  seen end = now();
  EXPECT(end.misses == warm->misses, "%s: %llu plans made after warm-up", what,
         (unsigned long long)(end.misses - warm->misses));
  EXPECT(end.compiles == warm->compiles, "%s: %llu kernels compiled after warm-up", what,
         (unsigned long long)(end.compiles - warm->compiles));
  EXPECT(end.live <= warm->live + 4096, "%s: %zu bytes are held, %zu after warm-up", what, end.live, warm->live);
}

// The next state, from the present one; both are the caller's to release.
typedef tc_tensor next_state(tc_tensor state, int step);

static tc_tensor running_sum(tc_tensor state, int step) {
  return tc_add(state, tc_mul(tc_ones(TC_SHAPE(16), TC_F32), step % 3));
}

static tc_tensor many_sums(tc_tensor state, int step) {
  for (int i = 0; i < 40; i++) state = tc_add(tc_mul(state, 0.99), 0.01 * (step % 5));
  return state;
}

static tc_tensor recurrent(tc_tensor state, int step) {
  tc_tensor w = tc_mul(tc_eye(16, 16, TC_F32), 0.5);
  return tc_reshape(tc_tanh(tc_add(tc_matmul(tc_reshape(state, TC_SHAPE(1, 16)), w), 0.1 * (step % 4))), TC_SHAPE(16));
}

// Carries a state in a new handle a step, and reads something made of it.
static void carry(const char *what, next_state *next, float want) {
  tc_tensor state = tc_zeros(TC_SHAPE(16), TC_F32);
  seen warm = {0};
  float v = 0;
  for (int step = 0; step < STEPS; step++) {
    tc_scope s = tc_scope_begin();
    tc_tensor after = tc_retain(next(state, step));
    EXPECT_OK(tc_item_f32(tc_mean(after, TC_ALL, false), &v));
    tc_scope_end(s);
    tc_release(state);
    state = after;
    if (step == WARM) warm = now();
  }
  expect_steady(what, &warm);
  if (want > 0)
    EXPECT(v > want - 1e-3f && v < want + 1e-3f, "%s ends at %g, should be %g", what, (double)v, (double)want);
  tc_release(state);
}

// A live expensive value, read through something else each time: made at the first two uses at
// most.
static void expensive_value(const char *what, tc_tensor (*make)(tc_tensor x)) {
  enum { N = 128 };
  tc_scope s = tc_scope_begin();
  tc_tensor x = tc_reshape(tc_sin(tc_arange(0, (double)N * N, 1, TC_F32)), TC_SHAPE(N, N));
  EXPECT_OK(tc_eval(1, &x));
  tc_tensor y = make(x);
  uint64_t bytes[6] = {0};
  for (int i = 0; i < 6; i++) {
    float v;
    tc_sync_point p;
    EXPECT_OK(tc_item_f32(tc_sum(tc_mul(y, i + 1), TC_ALL, false), &v));
    if (tc_sync_points(1, &p) == 1) bytes[i] = p.bytes;
  }
  for (int i = 3; i < 6; i++)
    EXPECT(bytes[i] <= N * N * sizeof(float) + 4096, "%s: use %d moves %llu bytes", what, i,
           (unsigned long long)bytes[i]);
  tc_scope_end(s);
}

static tc_tensor product(tc_tensor x) {
  return tc_matmul(x, x);
}
static tc_tensor scan(tc_tensor x) {
  return tc_cumsum(x, 1);
}
static tc_tensor softmax_of_product(tc_tensor x) {
  return tc_softmax(tc_matmul(x, x), 1);
}

// Batches from the host; of each a small result is kept, and something made of it read.
static void small_results(void) {
  enum { N = 1 << 18, BATCHES = 30 };
  float *data = malloc(N * sizeof *data);
  tc_tensor kept[BATCHES];
  if (!data) exit(77);
  size_t before = tc_memory_stats().live_bytes;
  for (int i = 0; i < BATCHES; i++) {
    for (int k = 0; k < N; k++) data[k] = (float)(k % 7 + i);
    tc_scope s = tc_scope_begin();
    tc_tensor x = tc_from_host(data, TC_SHAPE(N), TC_F32);
    kept[i] = tc_retain(tc_mean(x, TC_ALL, false));
    float v;
    EXPECT_OK(tc_item_f32(tc_mul(kept[i], 2), &v));
    tc_scope_end(s);
    size_t live = tc_memory_stats().live_bytes;
    EXPECT(live <= before + 2 * N * sizeof *data, "after %d batches %zu bytes are held", i + 1, live - before);
  }
  for (int i = 0; i < BATCHES; i++) tc_release(kept[i]);
  free(data);
}

// Handles that are kept out of their scope, or made outside of any, and released: nothing is left
// of them.
static void handles_leave_nothing(void) {
  for (int nested = 0; nested < 2; nested++) {
    tc_scope outer = tc_scope_begin();
    if (!nested) tc_scope_end(outer);
    for (int i = 0; i < 6000; i++) {
      tc_scope s = tc_scope_begin();
      tc_tensor a = tc_ones(TC_SHAPE(4), TC_F32), b = tc_keep(tc_add(a, 1));
      tc_scope_end(s);
      tc_tensor c = tc_mul(b, 2);
      float v[4];
      if (i % 100 == 0) EXPECT_OK(tc_to_host(c, v, sizeof v));
      tc_release(b);
      tc_release(c);
      if (i == 1000) (void)tc_alloc_fail_at(0, 0);
    }
    uint64_t allocs = (uint64_t)tc_alloc_fail_at(0, 0);
    EXPECT(allocs < 4, "%llu allocations in 5000 rounds", (unsigned long long)allocs);
    if (nested) tc_scope_end(outer);
  }
}

int main(void) {
  handles_leave_nothing();
  carry("a running sum", running_sum, 199.0f);
  carry("many steps a sync", many_sums, 0);
  carry("a recurrent state", recurrent, 0);
  expensive_value("a product", product);
  expensive_value("a scan", scan);
  expensive_value("softmax of a product", softmax_of_product);
  small_results();
  return expect_done("planning-history");
}
