// Random programs at many sizes: plans that are bound to sizes have the bits of plans that are lowered
// for them (see tests/random/random_graph.h).
//   random_sizes [N] [--seed S]    prints how many agree, or a small failing program; exit 0 or 1
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/random/random_graph.h"

static const int64_t sizes[] = {7, 21, 34, 9, 40, 65, 66, 100, 129, 70, 16, 64, 33, 192, 5};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

int main(int n_words, char **words) {
  long n = 80;
  uint64_t seed = 1;
  for (int i = 1; i < n_words; i++) {
    if (!strcmp(words[i], "--seed") && i + 1 < n_words)
      seed = strtoull(words[++i], NULL, 10);
    else
      n = strtol(words[i], NULL, 10);
  }
  for (long k = 0; k < n; k++) {
    rg_program p;
    rg_make(&p, seed + (uint64_t)k);
    const char *bad = rg_check_sizes(&p, sizes, N_SIZES);
    if (!bad) continue;
    printf("random sizes: seed %llu: %s\n", (unsigned long long)(seed + (uint64_t)k), bad);
    rg_print(&p, stdout);
    return 1;
  }
  uint64_t bound = tc_cache_stats().plan_bound;
  printf("random sizes: %ld ok, %llu plans bound\n", n, (unsigned long long)bound);
  return n >= 20 && bound < (uint64_t)n;  // else little was compared
}
