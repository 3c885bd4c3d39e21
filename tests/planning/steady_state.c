// A training loop in its steady state neither compiles, nor plans, nor allocates, nor grows; and it
// learns. What the library allocates is counted where it asks for memory (runtime/arena.h);
// tests/examples.py counts every call of every library, from outside.
//   steady_state [steps = 10000]
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/arena.h"
#include "tests/expect.h"
#include "tests/mlp.h"

#ifdef __SANITIZE_ADDRESS__
size_t __sanitizer_get_current_allocated_bytes(void);  // of the sanitizer, whose header not every gcc brings

// Freed memory stays resident for a while: what is allocated is looked at.
static long held_kib(void) {
  return (long)(__sanitizer_get_current_allocated_bytes() / 1024);
}
#else
static long held_kib(void) {
  long pages = 0, skip;
  FILE *f = fopen("/proc/self/statm", "r");
  if (!f) return 0;
  if (fscanf(f, "%ld %ld", &skip, &pages) != 2) pages = 0;
  fclose(f);
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}
#endif

static void expect_steady(const char *what, tc_cache_info c0, tc_memory m0) {
  tc_cache_info c = tc_cache_stats();
  tc_memory m = tc_memory_stats();
  EXPECT(c.plan_misses == c0.plan_misses, "%s: %llu plan misses", what,
         (unsigned long long)(c.plan_misses - c0.plan_misses));
  EXPECT(c.kernel_misses == c0.kernel_misses, "%s: %llu kernel misses", what,
         (unsigned long long)(c.kernel_misses - c0.kernel_misses));
  EXPECT(c.compiles == c0.compiles, "%s: %llu compiles", what, (unsigned long long)(c.compiles - c0.compiles));
  EXPECT(m.n_allocs == m0.n_allocs, "%s: %llu allocations", what, (unsigned long long)(m.n_allocs - m0.n_allocs));
  EXPECT(m.live_bytes <= m0.live_bytes, "%s: live bytes %zu, were %zu", what, m.live_bytes, m0.live_bytes);
}

int main(int n_words, char **words) {
  long n = n_words > 1 ? strtol(words[1], NULL, 10) : 10000;
  mlp m;
  float first = 0, loss = 0;
  EXPECT_OK(tc_set_default_device("tc:cpu"));
  EXPECT_OK(mlp_init(&m, 1));
  EXPECT_OK(mlp_step(&m, &first));
  EXPECT_OK(mlp_step(&m, &loss));
  tc_cache_info c0 = tc_cache_stats();
  tc_memory m0 = tc_memory_stats();
  EXPECT(tc_alloc_fail_at(0, 0) > 0, "tc_alloc_fail_at counts nothing");
  EXPECT_OK(mlp_step(&m, &loss));  // the third: already a hit
  expect_steady("step 3", c0, m0);
  long before = 0;
  for (long k = 0; k < n; k++) {
    if (k == n / 10) before = held_kib();
    if (mlp_step(&m, &loss) != TC_OK) {
      EXPECT(false, "step %ld", k);
      break;
    }
    // A schedule: a changed learning rate is an argument, never a new plan.
    if (k % 100 == 0) EXPECT_OK(tc_set_lr(m.opt, 0.1 / (1.0 + (double)k / 1000)));
  }
  expect_steady("10,000 steps", c0, m0);
  long n_allocated = tc_alloc_fail_at(0, 0);
  EXPECT(n_allocated == 0, "%ld allocations after the second step", n_allocated);
  long grown = held_kib() - before;
  EXPECT(grown <= 512, "memory grew by %ld KiB", grown);
  EXPECT(isfinite(loss) && loss < 0.5f * first, "loss went from %g to %g", (double)first, (double)loss);
  mlp_fini(&m);
  return expect_done("planning-steady_state");
}
