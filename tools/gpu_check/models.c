// Parts d, e, f: the models of bench/zoo.c, whose numbers and expected results they share, and work
// of any part beside PyTorch (tools/gpu_peers.py), which runs in a process of its own. tc and the
// peer take turns in slices, since clocks change within seconds; the ratio is the median over
// rounds. Small, models are narrow ones, and on tc:cpu PyTorch runs there too: that tries all of
// this, and measures nothing that matters.
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench.h"
#include "tools/gpu_check/check.h"

enum { FEWEST_ROUNDS = 3, MOST_ROUNDS = 100 };
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

static const char *script(void) {
  static const char name[] = "tools/gpu_peers.py";
  static char path[4200];
  char folder[4100];
  if (!check_folder(name, folder, sizeof folder)) return NULL;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

bool check_has_peers(void) {
  static int has = -1;
  if (!check.timed || (!check.gpu && !check.small)) return false;
  const char *asks = check.gpu ? "import sys, torch; sys.exit(not torch.cuda.is_available())" : "import torch";
  char command[128];
  snprintf(command, sizeof command, "python3 -c '%s' >/dev/null 2>&1", asks);
  if (has < 0) has = script() && system(command) == 0;
  return has > 0;
}

typedef struct pairing {
  const bench_row *row;
  const char *mode;
} pairing;

// A round's figure of ours: seconds a call, or what a sampled row counts.
static double figure_of(const bench_row *row, int n) {
  return row->n_samples ? row->run(row->arg, 1) : slice(row, n);
}

static bool more_rounds(const bench_row *row, int n, double end) {
  return row->n_samples ? n < row->n_samples : n < MOST_ROUNDS && (n < FEWEST_ROUNDS || check_now() < end);
}

static void measure_beside(check_row *out, const void *arg) {
  const pairing *p = arg;
  static double ours[MOST_ROUNDS], theirs[MOST_ROUNDS], ratio[MOST_ROUNDS];
  char command[4300];
  bench_process peer;
  int n = p->row->n_samples ? 1 : calls_per_slice(p->row), rounds = 0;
  bool ok = n > 0, count = strcmp(p->row->unit, "MiB") == 0;
  snprintf(command, sizeof command, "python3 '%s'%s %s", script(), check.gpu ? "" : " --cpu", p->mode);
  if (!ok) {
    check_wrong(out, "%s", tc_last_error()->message);
    return;
  }
  bench_answer answer = bench_process_start(&peer, command, p->row, 1);
  if (answer != BENCH_READY) {
    check_skip(out, "%s", answer == BENCH_NO_CASE ? "the peer has no such case" : "the peer failed");
    return;
  }
  for (double end = check_now() + compare_seconds; ok && more_rounds(p->row, rounds, end); rounds++) {
    ours[rounds] = figure_of(p->row, n), theirs[rounds] = bench_process_slice(&peer);
    ok = ours[rounds] > 0 && theirs[rounds] > 0;
    ratio[rounds] = theirs[rounds] / ours[rounds];
  }
  (void)bench_process_stop(&peer);
  if (!ok) {
    check_wrong(out, "a slice failed: %s", tc_last_error()->message);
    return;
  }
  double scale = count ? 1 : 1e3;
  const char *unit = count ? "MiB" : "ms";
  out->value = median(ratio, rounds), out->unit = count ? "times as much memory" : "times as fast";
  snprintf(out->note, sizeof out->note, "%.4g %s, the peer %.4g %s", scale * median(ours, rounds), unit,
           scale * median(theirs, rounds), unit);
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

// Of a simulated device memory is counted, and no time is taken.
static void measure_model(check_row *out, const void *arg) {
  enum { SLICES = 9 };
  const bench_row *row = arg;
  double each[SLICES];
  bool count = strcmp(row->unit, "MiB") == 0;
  if (row->check && !row->check(row->arg)) {
    check_wrong(
        out, "%s",
        tc_last_error()->status == TC_OK ? "its results are not those that PyTorch gave" : tc_last_error()->message);
    return;
  }
  if (!check.timed && !row->n_samples) return;
  int n = row->n_samples ? 1 : calls_per_slice(row), rounds = !check.timed     ? 1
                                                              : row->n_samples ? row->n_samples
                                                                               : SLICES;
  for (int i = 0; i < rounds && n > 0; i++)
    if ((each[i] = figure_of(row, n)) < 0) n = 0;
  double figure = n > 0 ? median(each, rounds) : -1;
  if (count && figure > 0)
    out->value = figure, out->unit = row->unit;
  else
    check_time(out, row->unit, figure);
}

// What bench/zoo.c asks of whoever measures. Where there is a vendor's library, PyTorch meets what
// was measured, too; training is not measured where that takes long and says nothing.
void bench_measure(const bench_row *row) {
  static const char *const modes[] = {"eager", "compiled", "max-autotune", NULL}, *const fresh_modes[] = {
                                                                                      "eager", "compiled", NULL};
  bool vendor =
      check.gpu && !row->n_samples && (check.timed || strstr(row->bench, "_infer")) &&
      (!tc_gpu_library_absent(check.gpu, TC_GPU_MATMULS) || !tc_gpu_library_absent(check.gpu, TC_GPU_CONVOLUTIONS));
  char name[100];
  snprintf(name, sizeof name, "%s %s", row->bench, row->name);
  check_do(name, measure_model, row);
  if (vendor) {
    strcat(name, CHECK_MEASURED);
    check_set_maker(CHECK_MEASURED);
    check_do(name, measure_model, row);
  }
  check_beside(name, row, row->n_samples ? fresh_modes : modes);
  if (vendor) check_set_maker("");
}

bool bench_wants(const char *name) {
  (void)name;
  return true;
}

// Those of the table of bars first. small: what is run in its place on a simulated device, and for
// a first look; NULL: nothing.
static const struct {
  char part;
  const char *bench, *name, *small;
} models[] = {
    {'d', "resnet18_infer", "16x3x128x128_bf16", "4x3x33x33_narrow_bf16"},
    {'d', "resnet18_infer", "16x3x128x128", "4x3x33x33_narrow"},
    {'d', "resnet50_train", "64x3x224x224_bf16", "4x3x33x33_narrow_bf16"},
    {'d', "cold_resnet18_train", "16x3x128x128", "4x3x33x33_narrow"},
    {'d', "peak_resnet50_train", "64x3x224x224_bf16", "4x3x33x33_narrow_bf16"},
    {'d', "resnet18_train", "16x3x128x128", "4x3x33x33_narrow"},
    {'d', "resnet50_infer", "8x3x224x224_bf16", NULL},
    {'d', "resnet50_infer", "8x3x224x224", "4x3x33x33_narrow"},
    {'d', "resnet50_infer", "1x3x224x224", NULL},
    {'e', "bert_train", "32x128_bf16", "2x16_narrow_bf16"},
    {'e', "bert_infer", "8x128_bf16", "2x16_narrow_bf16"},
    {'e', "bert_infer", "8x128", "2x16_narrow"},
    {'e', "bert_infer", "1x128", NULL},
    {'f', "gpt2_train", "2x256_bf16", "2x16_narrow_bf16"},
    {'f', "gpt2_train", "2x256", "2x16_narrow"},
    {'f', "gpt2_decode", "bf16", "narrow_bf16"},
    {'f', "gpt2_decode", "f32", "narrow_f32"},
};

void check_models(void) {
  if (tc_set_default_device(check.device) != TC_OK) return;
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    const char *name = check.small ? models[i].small : models[i].name;
    if (models[i].part != check.part || !name) continue;
    if (strncmp(models[i].bench, "cold_", 5) == 0 || strncmp(models[i].bench, "peak_", 5) == 0)
      check_fresh(models[i].bench, name);
    else
      bench_model(models[i].bench, name);
  }
}
