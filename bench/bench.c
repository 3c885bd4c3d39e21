// The harness: command line, rounds, external peers, judging, the table and the JSON lines. See bench.h for the idea.
//
//   tc-bench NAME.. [--case CASE] [--threads N] [--seconds S] [--json FILE] [--peer NAME=COMMAND]..
//
// A peer's COMMAND is run as `COMMAND BENCH CASE THREADS` and prints one line "seconds X": the median seconds of a call, measured by itself
// after a warm-up; anything else means that it has no such case.
#include "bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_ROUNDS = 400, MIN_ROUNDS = 7, N_PAIRS = 5 };
static const double slice_seconds = 0.01;

static struct {
  const char *only_case;
  int threads;
  double seconds;
  FILE *json;
  int n_peers;
  struct {
    char name[64];
    const char *command;
  } peers[BENCH_MAX_PEERS];
  int n_rows, n_failed, n_missed;
} run = {.seconds = 2.0};

typedef enum measure { VALUE, ROOF, RATIO } measure;

static const struct floor_row {
  const char *bench, *name;
  int threads;
  measure what;
  double floor, goal;
} floors[] = {
#define FLOOR(bench, name, threads, what, floor, goal) {#bench, name, threads, what, floor, goal},
#include "bench/floors.def"
#undef FLOOR
};

// What one competitor did in each round: seconds a call, and tc's seconds a call in the same round.
typedef struct series {
  char name[64];
  int n;
  double seconds[MAX_ROUNDS], ours[MAX_ROUNDS];
} series;

// ---- Helpers ----

double bench_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

float *bench_floats(int64_t n, uint32_t seed) {
  float *out = malloc((size_t)n * sizeof(float));
  uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
  for (int64_t i = 0; out && i < n; i++) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    out[i] = (float)(int32_t)(state >> 32) * 0x1p-31f;
  }
  return out;
}

tc_tensor bench_tensor(tc_dims shape, uint32_t seed) {
  int64_t n = 1;
  for (int i = 0; i < shape.rank; i++) n *= shape.dim[i];
  float *data = bench_floats(n, seed);
  if (data == NULL) return (tc_tensor){0, 0};
  tc_tensor t = tc_from_host(data, shape, TC_F32);
  free(data);
  return t;
}

float bench_element(tc_tensor t, int64_t i) {
  const float *p = tc_map(t);
  if (p == NULL) return NAN;
  float v = p[i];
  return tc_unmap(t) == TC_OK ? v : NAN;
}

bool bench_near(double got, double want, double tolerance) {
  if (fabs(got - want) <= tolerance * (1 + fabs(want))) return true;
  fprintf(stderr, "  got %.9g, want %.9g\n", got, want);
  return false;
}

int bench_threads(int out[2]) {
  int all = run.threads ? run.threads : tc_num_threads();
  out[0] = run.threads ? all : 1;
  out[1] = all;
  return out[0] == out[1] ? 1 : 2;
}

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// The q-quantile of n values; 0 of none.
static double quantile(const double *values, int n, double q) {
  double sorted[MAX_ROUNDS];
  if (n == 0) return 0;
  memcpy(sorted, values, (size_t)n * sizeof(double));
  qsort(sorted, (size_t)n, sizeof(double), compare_doubles);
  int at = (int)(q * (n - 1) + 0.5);
  return sorted[at];
}

static double median(const double *values, int n) {
  return quantile(values, n, 0.5);
}

// How many times as fast tc is: the median over rounds.
static double speed_ratio(const series *s) {
  double ratios[MAX_ROUNDS];
  for (int i = 0; i < s->n; i++) ratios[i] = s->seconds[i] / s->ours[i];
  return median(ratios, s->n);
}

static bool is_rate(const bench_row *row) {
  return strchr(row->unit, '/') != NULL;
}

// Seconds a call in the row's unit.
static double in_unit(const bench_row *row, double seconds) {
  if (is_rate(row)) return row->work / seconds * 1e-9;
  double scale = strcmp(row->unit, "ns") == 0 ? 1e9 : strcmp(row->unit, "us") == 0 ? 1e6 : 1e3;
  return seconds * scale / (row->n_items > 0 ? row->n_items : 1);
}

// ---- Measuring ----

// Warms up (plans, background compilation, frequencies) and returns how many calls fill a slice; 0 if the work failed.
static int calls_per_slice(bench_fn *fn, void *arg, double warm_seconds) {
  double start = bench_now(), best = INFINITY;
  int n = 1;
  do {
    double seconds = fn(arg, n);
    if (seconds < 0) return 0;
    double each = seconds / n;
    if (each < best) best = each;
    n = (int)fmin(fmax(slice_seconds / fmax(each, 1e-9), 1), 1e7);
  } while (bench_now() - start < warm_seconds);
  return n;
}

static double slice(bench_fn *fn, void *arg, int n) {
  double seconds = fn(arg, n);
  return seconds < 0 ? -1 : seconds / n;
}

// Runs command once and reads its figure; negative if it has none.
static double ask_peer(const char *command, const bench_row *row, int threads) {
  char line[512];
  double seconds = -1, x;
  if (snprintf(line, sizeof(line), "%s %s %s %d 2>/dev/null", command, row->bench, row->name, threads) >= (int)sizeof(line)) return -1;
  FILE *f = popen(line, "r");
  if (f == NULL) return -1;
  while (fgets(line, sizeof(line), f))
    if (sscanf(line, "seconds %lf", &x) == 1 && x > 0) seconds = x;
  return pclose(f) == 0 ? seconds : -1;
}

// Alternates tc and a peer's process: A B A B ..., compared within pairs.
static void alternate(const bench_row *row, int n_calls, int threads, const char *command, series *out) {
  for (out->n = 0; out->n < N_PAIRS; out->n++) {
    double ours[MIN_ROUNDS];
    for (int i = 0; i < MIN_ROUNDS; i++)
      if ((ours[i] = slice(row->run, row->arg, n_calls)) < 0) return;
    double theirs = ask_peer(command, row, threads);
    if (theirs < 0) return;
    out->seconds[out->n] = theirs;
    out->ours[out->n] = median(ours, MIN_ROUNDS);
  }
}

// ---- Judging and printing ----

typedef struct verdict {
  double value, min, p99, roof, of_roof, ratio;
  const series *best;
  const struct floor_row *floor;
  bool missed;
} verdict;

static void judge(const bench_row *row, int threads, verdict *v) {
  for (size_t i = 0; i < sizeof(floors) / sizeof(floors[0]); i++) {
    const struct floor_row *f = &floors[i];
    if (strcmp(f->bench, row->bench) != 0 || strcmp(f->name, row->name) != 0) continue;
    if (f->threads != 0 && (f->threads == 1) != (threads == 1)) continue;
    bool judged = f->what == VALUE || (f->what == ROOF ? v->of_roof > 0 : v->best != NULL);
    bool missed = judged && (f->what == VALUE ? v->value > f->floor : (f->what == ROOF ? v->of_roof : v->ratio) < f->floor);
    if (v->floor == NULL || missed) v->floor = f;
    v->missed = v->missed || missed;
  }
}

static const char *const measure_names[] = {"value", "of_roof", "ratio"};

static void print_json(FILE *out, const bench_row *row, int threads, const verdict *v, const series *all, int n) {
  fprintf(out, "{\"bench\": \"%s\", \"case\": \"%s\", \"threads\": %d, \"value\": %.6g, \"min\": %.6g, \"p99\": %.6g, \"unit\": \"%s\", ", row->bench,
          row->name, threads, v->value, v->min, v->p99, row->unit);
  if (v->of_roof > 0)
    fprintf(out, "\"roof\": %.6g, \"of_roof\": %.4f, ", v->roof, v->of_roof);
  else
    fprintf(out, "\"roof\": null, \"of_roof\": null, ");
  fprintf(out, "\"peers\": {");
  for (int i = 0, printed = 0; i < n; i++) {
    if (all[i].n == 0) continue;
    fprintf(out, "%s\"%s\": {\"value\": %.6g, \"ratio\": %.4f}", printed++ ? ", " : "", all[i].name, in_unit(row, median(all[i].seconds, all[i].n)),
            speed_ratio(&all[i]));
  }
  if (v->best)
    fprintf(out, "}, \"best_peer\": \"%s\", \"ratio\": %.4f, ", v->best->name, v->ratio);
  else
    fprintf(out, "}, \"best_peer\": null, \"ratio\": null, ");
  if (v->floor)
    fprintf(out, "\"measure\": \"%s\", \"floor\": %g, \"goal\": %g, \"missed\": %s}\n", measure_names[v->floor->what], v->floor->floor,
            v->floor->goal, v->missed ? "true" : "false");
  else
    fprintf(out, "\"measure\": null, \"floor\": null, \"goal\": null, \"missed\": false}\n");
  fflush(out);
}

static void print_line(const bench_row *row, int threads, const verdict *v) {
  char roof[48] = "-", peer[96] = "-", floor[64] = "-";
  if (v->of_roof > 0) snprintf(roof, sizeof(roof), "%.0f%% of %.4g", 100 * v->of_roof, v->roof);
  if (v->best) snprintf(peer, sizeof(peer), "%.2fx %s", v->ratio, v->best->name);
  if (v->floor)
    snprintf(floor, sizeof(floor), "%s %g, goal %g%s", measure_names[v->floor->what], v->floor->floor, v->floor->goal, v->missed ? "  MISSED" : "");
  printf("%-8s %-16s %2d  %10.4g %-8s min %-9.4g p99 %-9.4g %-18s %-28s %s\n", row->bench, row->name, threads, v->value, row->unit, v->min, v->p99,
         roof, peer, floor);
  fflush(stdout);
}

static void fail_row(const bench_row *row, const char *why) {
  const char *message = tc_last_error()->message;
  printf("%-8s %-16s     FAILED: %s%s%s\n", row->bench, row->name, why, message[0] ? ": " : "", message);
  tc_clear_error();
  run.n_failed++;
}

static bool rounds(const bench_row *row, int n_calls, int threads, series *tc, series *roof, series *peers) {
  int peer_calls[BENCH_MAX_PEERS];
  for (int p = 0; p < row->n_peers; p++) peer_calls[p] = calls_per_slice(row->peers[p].run, row->peers[p].arg, 0.1);
  double start = bench_now();
  for (int r = 0; r < MAX_ROUNDS && (r < MIN_ROUNDS || bench_now() - start < run.seconds); r++) {
    double rate = bench_roof_slice(row->roof, threads, row->work, slice_seconds / 2);
    double ours = slice(row->run, row->arg, n_calls);
    if (ours < 0) return false;
    tc->seconds[tc->n++] = ours;
    if (rate > 0) roof->seconds[roof->n] = row->work / rate, roof->ours[roof->n++] = ours;
    for (int p = 0; p < row->n_peers; p++) {
      if (peer_calls[p] == 0) continue;
      double theirs = slice(row->peers[p].run, row->peers[p].arg, peer_calls[p]);
      if (theirs >= 0) peers[p].seconds[peers[p].n] = theirs, peers[p].ours[peers[p].n++] = ours;
      nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);  // threads it keeps spinning go to sleep
    }
  }
  return true;
}

void bench_measure(const bench_row *row) {
  static series tc, roof, peers[2 * BENCH_MAX_PEERS];
  if (run.only_case && strcmp(run.only_case, row->name) != 0) return;
  run.n_rows++;
  tc.n = roof.n = 0;
  int n_peers = 0;
  int asked = row->threads ? row->threads : run.threads;
  if (tc_set_num_threads(asked) != TC_OK) return fail_row(row, "number of threads");
  int threads = tc_num_threads();
  if (row->check && !row->check(row->arg)) return fail_row(row, "wrong result");
  int n_calls = calls_per_slice(row->run, row->arg, 0.3);
  if (n_calls == 0) return fail_row(row, "warm-up");
  for (; n_peers < row->n_peers; n_peers++) {
    snprintf(peers[n_peers].name, sizeof(peers[0].name), "%s", row->peers[n_peers].name);
    peers[n_peers].n = 0;
  }
  if (!rounds(row, n_calls, threads, &tc, &roof, peers)) return fail_row(row, "run");
  for (int p = 0; p < run.n_peers; p++, n_peers++) {
    snprintf(peers[n_peers].name, sizeof(peers[0].name), "%s", run.peers[p].name);
    alternate(row, n_calls, threads, run.peers[p].command, &peers[n_peers]);
  }
  bench_roof_reset();

  verdict v = {.value = in_unit(row, median(tc.seconds, tc.n))};
  v.min = in_unit(row, quantile(tc.seconds, tc.n, is_rate(row) ? 1 : 0));  // of a rate, the worst too is the smallest
  v.p99 = in_unit(row, quantile(tc.seconds, tc.n, is_rate(row) ? 0.01 : 0.99));
  if (roof.n > 0) v.of_roof = speed_ratio(&roof), v.roof = in_unit(row, median(roof.seconds, roof.n));
  for (int p = 0; p < n_peers; p++) {
    if (peers[p].n == 0) continue;
    double ratio = speed_ratio(&peers[p]);
    if (v.best == NULL || ratio < v.ratio) v.best = &peers[p], v.ratio = ratio;
  }
  judge(row, threads, &v);
  if (v.missed) run.n_missed++;
  print_line(row, threads, &v);
  if (run.json) print_json(run.json, row, threads, &v, peers, n_peers);
}

// ---- Command line ----

static const struct {
  const char *name, *meaning;
  void (*run)(void);
} benches[] = {
#define BENCH(name, meaning) {#name, meaning, bench_##name},
#include "bench/benches.def"
#undef BENCH
};
enum { N_BENCHES = sizeof(benches) / sizeof(benches[0]) };

static int usage(void) {
  printf("tc-bench NAME..|all [--case CASE] [--threads N] [--seconds S] [--json FILE] [--peer NAME=COMMAND]..\n\n");
  for (int i = 0; i < N_BENCHES; i++) printf("  %-10s %s\n", benches[i].name, benches[i].meaning);
  return 2;
}

static bool add_peer(const char *text) {
  const char *eq = strchr(text, '=');
  if (eq == NULL || run.n_peers == BENCH_MAX_PEERS) return false;
  snprintf(run.peers[run.n_peers].name, sizeof(run.peers[0].name), "%.*s", (int)(eq - text), text);
  run.peers[run.n_peers++].command = eq + 1;
  return true;
}

static bool option(const char *name, const char *value) {
  if (strcmp(name, "--case") == 0) return run.only_case = value, true;
  if (strcmp(name, "--threads") == 0) return (run.threads = atoi(value)) > 0;
  if (strcmp(name, "--seconds") == 0) return (run.seconds = atof(value)) > 0;
  if (strcmp(name, "--json") == 0) return (run.json = fopen(value, "a")) != NULL;
  return strcmp(name, "--peer") == 0 && add_peer(value);
}

int main(int argc, char **argv) {
  bool wanted[N_BENCHES] = {false}, any = false;
  for (int i = 1; i < argc; i++) {
    if (argv[i][0] == '-') {
      if (i + 1 >= argc || !option(argv[i], argv[i + 1])) return usage();
      i++;
      continue;
    }
    bool known = false;
    for (int b = 0; b < N_BENCHES; b++)
      if (strcmp(argv[i], "all") == 0 || strcmp(argv[i], benches[b].name) == 0) wanted[b] = known = any = true;
    if (!known) return fprintf(stderr, "tc-bench: no benchmark '%s'\n", argv[i]), usage();
  }
  if (!any) return usage();
  for (int b = 0; b < N_BENCHES; b++)
    if (wanted[b]) benches[b].run();
  if (run.json) fclose(run.json);
  printf("%d rows, %d failed, %d below their floor\n", run.n_rows, run.n_failed, run.n_missed);
  tc_shutdown();
  return run.n_failed + run.n_missed > 0 || run.n_rows == 0;
}
