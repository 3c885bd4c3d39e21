// Parts d, e, f: the models of bench/zoo.c, whose numbers and expected results they share, and work of any part beside PyTorch (tools/gpu_peers.py), which
// runs in a process of its own. tc and the peer take turns in slices, since clocks change within seconds; the ratio is the median over rounds.
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench.h"
#include "tools/gpu_check/check.h"

enum { MOST_ROUNDS = 100 };
static const double slice_seconds = 0.02, compare_seconds = 3;

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values, int n) {
  qsort(values, (size_t)n, sizeof *values, compare_doubles);
  return values[n / 2];
}

// Seconds a call of n calls with everything done; negative if it failed.
static double slice(const bench_row *row, int n) {
  double start = check_now();
  return row->run(row->arg, n) >= 0 && check_drain() ? (check_now() - start) / n : -1;
}

static int calls_per_slice(const bench_row *row) {
  double seconds = 0;
  for (int i = 0; i < 3 && seconds >= 0; i++) seconds = slice(row, 1);  // the first two may compile
  return seconds < 0 ? 0 : (int)fmin(fmax(slice_seconds / fmax(seconds, 1e-9), 1), 1e5);
}

// ---- Peers ----

// The script beside this program, or beside the folder that it was built in.
static const char *script(void) {
  static char path[4200];
  static const char *const places[] = {"tools/gpu_peers.py", "../tools/gpu_peers.py"};
  char program[4096];
  ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
  if (n <= 0) return NULL;
  program[n] = 0;
  *strrchr(program, '/') = 0;
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "%s/%s", program, places[i]);
    if (access(path, R_OK) == 0) return path;
  }
  return NULL;
}

bool check_has_peers(void) {
  static int has = -1;
  if (!check.timed || !check.gpu || check.small) return false;
  if (has < 0) has = script() && system("python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' >/dev/null 2>&1") == 0;
  return has > 0;
}

typedef struct pairing {
  const bench_row *row;
  const char *mode;
} pairing;

static void measure_beside(check_row *out, const void *arg) {
  const pairing *p = arg;
  static double ours[MOST_ROUNDS], theirs[MOST_ROUNDS], ratio[MOST_ROUNDS];
  char command[4300];
  bench_process peer;
  int n = calls_per_slice(p->row), rounds = 0;
  snprintf(command, sizeof command, "python3 '%s' %s", script(), p->mode);
  if (n == 0) {
    check_wrong(out, "%s", tc_last_error()->message);
    return;
  }
  bench_answer answer = bench_process_start(&peer, command, p->row, 1);
  if (answer != BENCH_READY) {
    check_skip(out, "%s", answer == BENCH_NO_CASE ? "the peer has no such case" : "the peer failed");
    return;
  }
  for (double end = check_now() + compare_seconds; rounds < MOST_ROUNDS && (rounds < 3 || check_now() < end); rounds++) {
    ours[rounds] = slice(p->row, n), theirs[rounds] = bench_process_slice(&peer);
    if (ours[rounds] < 0 || theirs[rounds] < 0) break;
    ratio[rounds] = theirs[rounds] / ours[rounds];
  }
  bool failed = rounds < 3;
  (void)bench_process_stop(&peer);
  if (failed) {
    check_wrong(out, "a slice failed: %s", tc_last_error()->message);
    return;
  }
  out->value = median(ratio, rounds), out->unit = "times as fast";
  snprintf(out->note, sizeof out->note, "%.4g ms, the peer %.4g ms", 1e3 * median(ours, rounds), 1e3 * median(theirs, rounds));
}

void check_beside(const char *name, const bench_row *row, const char *const *modes) {
  char text[160];
  if (!check_has_peers()) return;
  for (; *modes; modes++) {
    pairing p = {row, *modes};
    snprintf(text, sizeof text, "%s beside PyTorch %s", name, *modes);
    check_do(text, measure_beside, &p);
  }
}

// ---- Models ----

static void measure_model(check_row *out, const void *arg) {
  enum { SLICES = 9 };
  const bench_row *row = arg;
  double each[SLICES];
  if (row->check && !row->check(row->arg)) {
    check_wrong(out, "%s", tc_last_error()->status == TC_OK ? "its results are not those that PyTorch gave" : tc_last_error()->message);
    return;
  }
  int n = calls_per_slice(row);
  for (int i = 0; i < SLICES && n > 0; i++)
    if ((each[i] = slice(row, n)) < 0) n = 0;
  check_time(out, "ms", n > 0 ? median(each, SLICES) : -1);
}

// What bench/zoo.c asks of whoever measures.
void bench_measure(const bench_row *row) {
  static const char *const modes[] = {"eager", "compiled", "max-autotune", NULL};
  char name[100];
  snprintf(name, sizeof name, "%s %s", row->bench, row->name);
  check_do(name, measure_model, row);
  check_beside(name, row, modes);
}

bool bench_wants(const char *name) {
  (void)name;
  return true;
}

void check_models(char part) {
  if (!check.timed) {
    fprintf(stderr, "models are skipped: they would take hours on a simulated device\n");
    return;
  }
  if (tc_set_default_device(check.device) != TC_OK) return;
  if (part == 'd') bench_resnet18_infer(), bench_resnet18_train(), bench_resnet50_infer();
  if (part == 'e') bench_bert_infer();
  if (part == 'f') bench_gpt2_train(), bench_gpt2_decode();
}
