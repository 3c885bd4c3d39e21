// Parts d, e, f: what begins with nothing, in processes of their own. The first step of training,
// from the process's start to the loss in hand, with nothing compiled; and the most memory that
// steps of training take, whose losses are those that PyTorch gave.
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "tools/gpu_check/check.h"

typedef struct fresh {
  const char *what, *bench, *name;
} fresh;

static double mib_at_most(void) {
  tc_memory m = tc_memory_stats();
  return (double)(check.gpu ? m.gpu_peak_bytes : m.peak_bytes) / (1 << 20);
}

int check_fresh_main(const char *what, const char *bench, const char *name) {
  bool cold = strcmp(what, "cold") == 0;
  if (tc_set_default_device(check.device) == TC_OK &&
      (cold ? bench_first_step(bench, name) : bench_model_right(bench, name))) {
    printf("done %.9g\n", mib_at_most());
    fflush(stdout);
    tc_shutdown();
    return 0;
  }
  fprintf(stderr, "%s %s: %s\n", bench, name, tc_last_error()->message);
  return 1;
}

// Seconds to a first step, or MiB. Neither tc nor NVIDIA's driver finds kernels on disk.
static double run_fresh(void *arg, int n) {
  const fresh *f = arg;
  char command[4600];
  double figure;
  (void)n;
  snprintf(
      command, sizeof command,
      "d=$(mktemp -d) && TC_CACHE_DIR=$d CUDA_CACHE_DISABLE=1 '%s' --device %s --fresh %s %s %s; s=$?; rm -rf \"$d\"; exit $s",
      check.program, check.device, f->what, f->bench, f->name);
  double start = check_now();
  FILE *from = popen(command, "r");
  bool done = from && fscanf(from, "done %lf", &figure) == 1;
  double seconds = check_now() - start;
  if (!from || pclose(from) != 0 || !done)
    return tc_fail(TC_ERR_ARG, "gpu-check", 0, "a process of its own failed: %s", f->what), -1;
  return strcmp(f->what, "cold") == 0 ? seconds : figure;
}

void check_fresh(const char *bench, const char *name) {
  bool cold = strncmp(bench, "cold_", 5) == 0;
  fresh f = {cold ? "cold" : "peak", bench + 5, name};
  bench_measure(&(bench_row){.bench = bench,
                             .name = name,
                             .unit = cold ? "s" : "MiB",
                             .n_samples = cold ? 3 : 1,
                             .run = run_fresh,
                             .arg = &f});
}
