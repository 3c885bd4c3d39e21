// Random programs: fused against op by op against the reference (see tests/random/random_graph.h).
//   random_graphs [N] [--seed S] [--seconds T]    prints "random graphs: N ok", or a small failing C program; exit 0 or 1
// N is 200 where kernels are compiled and 2,000 where they are interpreted, which takes a hundredth
// of the time.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lowering/jit/compiler.h"
#include "tests/random/random_graph.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void write_trace(const rg_program *p, uint64_t seed) {
  const char *dir = getenv("TMPDIR");
  char path[300];
  snprintf(path, sizeof path, "%s/random-%llu.trace", dir ? dir : "/tmp", (unsigned long long)seed);
  FILE *out = fopen(path, "w");
  if (!out) return;
  rg_trace(p, out);
  fclose(out);
  printf("\nits traces: tc-run -v %s\n", path);
}

static int run_many(long n, uint64_t seed, double seconds) {
  double start = now();
  long k = 0;
  for (; k < n && now() - start < seconds; k++) {
    rg_program p;
    rg_make(&p, seed + (uint64_t)k);
    const char *bad = rg_check(&p);
    if (!bad) continue;
    printf("random graphs: seed %llu: %s\n", (unsigned long long)(seed + (uint64_t)k), bad);
    int before = rg_size(&p);
    bad = rg_shrink(&p);
    printf("shrunk from %d to %d instructions: %s\n\n", before, rg_size(&p), bad ? bad : "(does not fail every time)");
    rg_print(&p, stdout);
    write_trace(&p, seed + (uint64_t)k);
    return 1;
  }
  printf("random graphs: %ld ok%s\n", k, k < n ? " (time is up)" : "");
  return 0;
}

int main(int n_words, char **words) {
  long n = strncmp(tc_compiler_sentence(), "LLVM", 4) == 0 ? 120 : 2000;
  uint64_t seed = 1;
  double seconds = 1e9;
  for (int i = 1; i < n_words; i++) {
    if (!strcmp(words[i], "--seed") && i + 1 < n_words)
      seed = strtoull(words[++i], NULL, 10);
    else if (!strcmp(words[i], "--seconds") && i + 1 < n_words)
      seconds = strtod(words[++i], NULL);
    else
      n = strtol(words[i], NULL, 10);
  }
  return run_many(n, seed, seconds);
}
