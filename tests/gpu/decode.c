// Attention of few query rows against many keys on a GPU, simulated, whose keys are split into
// parts: beside the reference, for every way that heads, rows, masks and lengths are given; a cache
// that grows makes no new plan.
#include <math.h>

#include <tc/tc.h>

#include "tests/gpu/attend.h"
#include "tests/sim/built.h"

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
static void test_as_the_reference(void) {
  for (size_t i = 0; i < 2 * (sizeof shapes / sizeof *shapes); i++) {
    const shape *c = &shapes[i / 2];
    int gradients = i % 2;
    if (gradients && (c->mask == FLOATS || (c->l == 1 && c->mask == NO_MASK))) continue;
    expect_as_the_reference(c, "tc:cuda", gradients);
  }
}

static uint64_t misses(void) {
  return tc_cache_stats().plan_misses;
}

static void test_a_growing_cache_makes_no_new_plan(void) {
  static double there[MOST_RESULT], here[MOST_RESULT];
  size_t count[3];
  shape c = {"a cache", TC_F32, 1, 4, 2, 1, 1024, 8, 8, true, 0, NO_MASK, false};
  uint64_t plans = 0;
  for (int64_t length = 250; length <= 1024; length += 129) {
    c.length = length;
    attend(&c, "tc:cuda", 0, there, count);
    if (length == 250) plans = misses();
    EXPECT(misses() == plans, "%lld keys: a new plan", (long long)length);
    uint64_t before = misses();
    attend(&c, "tc:ref", 0, here, count);
    plans += misses() - before;
    for (size_t k = 0; k < count[0]; k++)
      EXPECT(fabs(here[k] - there[k]) <= 4e-5, "%lld keys: %g, should be %g", (long long)length, there[k], here[k]);
  }
}

int main(void) {
  if (!built_simulators()) return puts("skipped: the simulated driver was not built"), 77;
  draw();
  test_as_the_reference();
  test_a_growing_cache_makes_no_new_plan();
  tc_shutdown();
  return expect_done("gpu-decode");
}
