// The harness: command line, rounds, external peers, judging, the table and the JSON lines. See
// bench.h for the idea.
//
//   tc-bench NAME.. [--case PATTERN] [--threads N] [--seconds S] [--json FILE] [--peer NAME=COMMAND].. [--all-peers]
//
// Each benchmark runs in a process of its own, so that none finds the memory, kernels or threads of
// another. What a peer's COMMAND must do: bench.h.
#include "bench/bench.h"

#include <math.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

enum { MAX_ROUNDS = 400, MIN_ROUNDS = 7, MAX_FLOORS = 4, MAX_FIRST = 64 };
static const double slice_seconds = 0.01;
static const double slow_seconds = 20;      // rows whose rounds take seconds may end after three of them
// a figure that misses its floor, or holds it by less than this, is measured so many times as long
static const double close_share = 0.1;
static const double close_times = 5;
static const double wait_seconds = 30;      // a row waits so long at most for cores that are elsewhere
static const double hopeless_seconds = 5;   // a call of a peer that is far behind anyway

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
  bool all_peers;
} run = {.seconds = 2.0};

// Shared with the benchmarks' processes.
static struct counts {
  int n_rows, n_failed, n_missed;
} *counts;

typedef enum measure { VALUE, ROOF, RATIO } measure;

// The peers that were fastest when all were run; only these, those a floor names, and PyTorch eager
// are run where nothing else is asked for.
static const struct best_row {
  const char *bench, *name;
  int threads;
  const char *peer;
} best_peers[] = {
#define BEST(bench, name, threads, peer) {#bench, name, threads, peer},
#include "bench/best_peers.def"
#undef BEST
    {NULL, NULL, 0, NULL},
};

static const struct floor_row {
  const char *kind;  // of processor that it is for (kind_of_processor); "": all that have no row of their own
  const char *bench, *name;
  int threads;
  measure what;
  const char *peer;
  double floor, goal;
} floors[] = {
#define FLOOR(bench, name, threads, what, peer, floor, goal) {"", #bench, name, threads, what, peer, floor, goal},
#define FLOOR_OF(kind, bench, name, threads, what, peer, floor, goal) \
  {#kind, #bench, name, threads, what, peer, floor, goal},
#include "bench/floors.def"
#undef FLOOR_OF
#undef FLOOR
};

// What one competitor did in each round: seconds a call, and tc's seconds a call in the same round.
// n is 0 if it could not be measured.
typedef struct series {
  char name[64];
  int n;
  bool has_case;
  double seconds[MAX_ROUNDS], ours[MAX_ROUNDS];
} series;

// ---- Helpers ----

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
  for (int i = 0; i < s->n; i++) ratios[i] = s->seconds[i] / fmax(s->ours[i], 1e-12);
  return median(ratios, s->n);
}

static bool is_rate(const bench_row *row) {
  return strchr(row->unit, '/') != NULL;
}

// Units of a second: 0 where the row counts something else.
static double per_second(const bench_row *row) {
  static const struct {
    const char *unit;
    double scale;
  } times[] = {{"ns", 1e9}, {"us", 1e6}, {"ms", 1e3}, {"s", 1}};
  for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
    if (strcmp(row->unit, times[i].unit) == 0) return times[i].scale;
  return 0;
}

// Seconds a call in the row's unit.
static double in_unit(const bench_row *row, double seconds) {
  if (is_rate(row)) return row->work / seconds * 1e-9;
  double scale = per_second(row);
  return seconds * (scale > 0 ? scale : 1) / (row->n_items > 0 ? row->n_items : 1);
}

bool bench_wants(const char *name) {
  return run.only_case == NULL || fnmatch(run.only_case, name, 0) == 0;
}

static bool of_threads(int asked, int threads) {
  return asked == 0 || (asked == 1) == (threads == 1);
}

// Whether this peer is run: see best_peers.
static bool wants_peer(const bench_row *row, int threads, const char *peer) {
  bool known = false;
  if (run.all_peers || strcmp(peer, "torch-eager") == 0) return true;
  for (size_t i = 0; i < sizeof(floors) / sizeof(floors[0]); i++) {
    const struct floor_row *f = &floors[i];
    if (strcmp(f->bench, row->bench) == 0 && strcmp(f->name, row->name) == 0 && strcmp(f->peer, peer) == 0) return true;
  }
  for (size_t i = 0; best_peers[i].bench; i++) {
    const struct best_row *b = &best_peers[i];
    if (strcmp(b->bench, row->bench) != 0 || strcmp(b->name, row->name) != 0 || !of_threads(b->threads, threads))
      continue;
    if (strcmp(b->peer, peer) == 0) return true;
    known = true;
  }
  return !known;  // of a new row nobody knows which is the best
}

// ---- Figures ----

static const series *find_peer(const char *name, const series *all, int n) {
  for (int i = 0; i < n; i++)
    if (all[i].n > 0 && strcmp(all[i].name, name) == 0) return &all[i];
  return NULL;
}

// The fastest peer, or NULL.
static const series *best_of(const series *all, int n) {
  const series *best = NULL;
  double least = INFINITY;
  for (int i = 0; i < n; i++) {
    double ratio = all[i].n > 0 ? speed_ratio(&all[i]) : INFINITY;
    if (ratio < least) best = &all[i], least = ratio;
  }
  return best;
}

// What was measured of a row: tc, the roof, and peers.
typedef struct measured {
  const bench_row *row;
  int threads, n_peers;
  const series *tc, *roof, *peers;
} measured;

// "amx": it multiplies by matrix tiles.
static const char *kind_of_processor(void) {
#ifdef __x86_64__
  enum { AMX_BF16 = 1 << 22 };
  unsigned a, b, c, d;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && d & AMX_BF16) return "amx";
#endif
  return "";
}

static bool is_about(const measured *m, const struct floor_row *f) {
  return strcmp(f->bench, m->row->bench) == 0 && strcmp(f->name, m->row->name) == 0 &&
         of_threads(f->threads, m->threads);
}

static bool is_judged_by(const measured *m, const struct floor_row *f) {
  const char *kind = kind_of_processor();
  if (!is_about(m, f) || (f->kind[0] && strcmp(f->kind, kind) != 0)) return false;
  for (size_t i = 0; i < sizeof(floors) / sizeof(floors[0]) && !f->kind[0] && kind[0]; i++)
    if (strcmp(floors[i].kind, kind) == 0 && floors[i].what == f->what && is_about(m, &floors[i])) return false;
  return true;
}

// The figure that a floor is for, so far; negative: it was not measured.
static double figure_of(const measured *m, const struct floor_row *f) {
  const series *peer = f->peer[0] ? find_peer(f->peer, m->peers, m->n_peers) : best_of(m->peers, m->n_peers);
  if (f->what == VALUE) return in_unit(m->row, median(m->tc->seconds, m->tc->n));
  if (f->what == ROOF) return m->roof->n > 0 ? speed_ratio(m->roof) : -1;
  return peer ? speed_ratio(peer) : -1;
}

// Whether one of the row's figures misses its floor or holds it so narrowly that a median of more
// rounds should decide.
static bool is_undecided(const measured *m) {
  for (size_t i = 0; i < sizeof(floors) / sizeof(floors[0]); i++) {
    const struct floor_row *f = &floors[i];
    double figure = is_judged_by(m, f) && f->floor > 0 ? figure_of(m, f) : -1;
    if (figure > 0 && (f->what == VALUE ? f->floor / figure : figure / f->floor) < 1 + close_share) return true;
  }
  return false;
}

// ---- Measuring ----

// Warms up (plans, background compilation, frequencies) and returns how many calls fill a slice; 0
// if the work failed.
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

// Threads that the last competitor keeps spinning go to sleep, so that they do not run into the
// next one's slice: OpenMP's spin for up to 12 ms.
static void settle(void) {
  nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

// ---- Judging and printing ----

typedef struct verdict {
  double value, min, p99, roof, of_roof, ratio;
  double peak_mib, compile_seconds, break_even;  // break_even: calls, 0 if not measured, INFINITY if tc is not faster
  const series *best;
  int n_short;  // rounds whose threads had not a core each
  int n_floors;
  const struct floor_row *floors[MAX_FLOORS];
  enum { HELD, MISSED, UNMEASURED } state[MAX_FLOORS];
  bool failed;
} verdict;

static const char *const measure_names[] = {"value", "of_roof", "ratio"};

static void judge(const measured *m, verdict *v) {
  for (size_t i = 0; i < sizeof(floors) / sizeof(floors[0]); i++) {
    const struct floor_row *f = &floors[i];
    if (!is_judged_by(m, f) || v->n_floors == MAX_FLOORS) continue;
    double figure = figure_of(m, f);
    bool known = figure >= 0, held = known && (f->what == VALUE ? figure <= f->floor : figure >= f->floor);
    v->floors[v->n_floors] = f;
    v->state[v->n_floors++] = held ? HELD : known ? MISSED : UNMEASURED;
    // Where peers were asked for, a ratio that could not be measured is a failure, not an excuse.
    if (known ? !held : f->what == RATIO && run.n_peers > 0) v->failed = true;
  }
  for (int i = 0; i < m->n_peers; i++)
    if (run.n_peers > 0 && m->peers[i].has_case && m->peers[i].n == 0) v->failed = true;
}

// {"value": 80, ..}: what is judged, and its floors or goals; a ratio to one peer is called "ratio
// to PEER".
static void print_bounds(FILE *out, const char *name, const verdict *v, bool goals) {
  int printed = 0;
  fprintf(out, "\"%s\": ", name);
  for (int i = 0; i < v->n_floors; i++) {
    const struct floor_row *f = v->floors[i];
    double bound = goals ? f->goal : f->floor;
    if (bound > 0 || (!goals && f->what == VALUE))
      fprintf(out, "%s\"%s%s%s\": %g", printed++ ? ", " : "{", measure_names[f->what], f->peer[0] ? " to " : "",
              f->peer, bound);
  }
  fprintf(out, "%s", printed ? "}" : "null");
}

static void print_json(FILE *out, const bench_row *row, int threads, const verdict *v, const series *all, int n) {
  fprintf(out, "{\"bench\": \"%s\", \"case\": \"%s\", \"threads\": %d, \"value\": %.6g, \"unit\": \"%s\", ", row->bench,
          row->name, threads, v->value, row->unit);
  if (v->of_roof > 0)
    fprintf(out, "\"roof\": %.6g, \"of_roof\": %.4f, ", v->roof, v->of_roof);
  else
    fprintf(out, "\"roof\": null, \"of_roof\": null, ");
  fprintf(out, "\"peers\": {");
  for (int i = 0, printed = 0; i < n; i++) {
    if (!all[i].has_case) continue;
    fprintf(out, "%s\"%s\": ", printed++ ? ", " : "", all[i].name);
    if (all[i].n > 0)
      fprintf(out, "%.6g", in_unit(row, median(all[i].seconds, all[i].n)));
    else
      fprintf(out, "\"unmeasured\"");
  }
  if (v->best)
    fprintf(out, "}, \"best_peer\": \"%s\", \"ratio\": %.4f, ", v->best->name, v->ratio);
  else
    fprintf(out, "}, \"best_peer\": null, \"ratio\": null, ");
  print_bounds(out, "floor", v, false);
  fprintf(out, ", ");
  print_bounds(out, "goal", v, true);
  fprintf(out, "}\n");
  fflush(out);
}

static void print_line(const bench_row *row, int threads, const verdict *v, const series *all, int n) {
  char roof[48] = "-", peer[96] = "unmeasured";
  if (v->of_roof > 0) snprintf(roof, sizeof(roof), "%.0f%% of %.4g", 100 * v->of_roof, v->roof);
  if (v->best) snprintf(peer, sizeof(peer), "%.2fx %s", v->ratio, v->best->name);
  printf("%-14s %-15s %2d  %9.4g %-7s min %-8.4g p99 %-8.4g %-15s %-30s", row->bench, row->name, threads, v->value,
         row->unit, v->min, v->p99, roof, peer);
  for (int i = 0; i < v->n_floors; i++) {
    static const char *const states[] = {"", " MISSED", " unmeasured"};
    const struct floor_row *f = v->floors[i];
    printf("%s%s", i ? ", " : " ", measure_names[f->what]);
    if (f->floor > 0 || f->what == VALUE)
      printf(" %s %.4g%s%s%s", f->what == VALUE ? "<=" : ">=", f->floor, f->peer[0] ? " of " : "", f->peer,
             states[v->state[i]]);
    if (f->goal > 0) printf(" (goal %.4g)", f->goal);
  }
  for (int i = 0; v->best && i < n; i++)
    if (all[i].has_case && all[i].n == 0) printf("; %s unmeasured", all[i].name);
  if (row->n_samples == 0) printf("; peak %.4g MiB, compiling %.3g s", v->peak_mib, v->compile_seconds);
  if (v->n_short > 0) printf("; in %d rounds the machine had fewer cores than threads", v->n_short);
  if (isinf(v->break_even)) printf(", never won back from PyTorch eager");
  if (v->break_even > 0 && !isinf(v->break_even)) printf(", won back from PyTorch eager after %.0f", v->break_even);
  printf("\n");
  fflush(stdout);
}

static void fail_row(const bench_row *row, const char *why) {
  const char *message = tc_last_error()->message;
  printf("%-14s %-15s    FAILED: %s%s%s\n", row->bench, row->name, why, message[0] ? ": " : "", message);
  tc_clear_error();
  counts->n_failed++;
}

static void add(series *s, double seconds, double ours) {
  if (seconds >= 0) s->seconds[s->n] = seconds, s->ours[s->n++] = ours;
}

static bool more_rounds(const measured *m, int n, double seconds) {
  if (m->row->n_samples) return n < m->row->n_samples;
  if (n < 3 || seconds < run.seconds || (n < MIN_ROUNDS && seconds < slow_seconds)) return true;
  return seconds < fmax(close_times * run.seconds, slow_seconds) && is_undecided(m);  // slow rows want rounds, too
}

// A peer far behind with calls of many seconds (bf16 on a processor without it) is not asked again:
// the ratio needs no median, and rows would take hours.
static bool has_lost(const series *peer) {
  return peer->n > 0 && peer->seconds[0] > hopeless_seconds && peer->seconds[0] > 20 * peer->ours[0];
}

// Waits until the row's threads have a core each, for what is left of the row's seconds of waiting;
// false if they have not.
static bool wait_for_cores(int threads, double *left) {
  double start = bench_now();
  while (!bench_has_cores(threads)) {
    if (bench_now() - start > *left) return *left = 0, false;
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
  }
  *left -= bench_now() - start;
  return true;
}

// In every round the roof, tc and each peer have one slice. The first of a slice's calls pay for
// caches that others filled: so do all.
static bool rounds(const bench_row *row, int n_calls, int threads, series *tc, series *roof, series *peers,
                   bench_process *processes, int *n_short) {
  double wait = wait_seconds;
  int peer_calls[BENCH_MAX_PEERS];
  for (int p = 0; p < row->n_peers; p++)
    peer_calls[p] = !row->peers[p].run ? 0
                    : row->n_samples   ? 1
                                       : calls_per_slice(row->peers[p].run, row->peers[p].arg, 0.1);
  double start = bench_now();
  measured so_far = {row, threads, row->n_peers + run.n_peers, tc, roof, peers};
  for (int r = 0; r < MAX_ROUNDS && more_rounds(&so_far, r, bench_now() - start - (wait_seconds - wait)); r++) {
    if (!wait_for_cores(threads, &wait)) ++*n_short;
    double rate = bench_roof_slice(row->roof, threads, row->work, slice_seconds / 2);
    double ours = slice(row->run, row->arg, n_calls);
    if (ours < 0) return false;
    add(tc, ours, ours);
    if (rate > 0) add(roof, row->work / rate, ours);
    for (int p = 0; p < row->n_peers; p++) {
      if (peer_calls[p] == 0 || has_lost(&peers[p])) continue;
      settle();
      add(&peers[p], slice(row->peers[p].run, row->peers[p].arg, peer_calls[p]), ours);
    }
    for (int p = 0; p < run.n_peers; p++) {
      if (processes[p].to == NULL || has_lost(&peers[row->n_peers + p])) continue;
      settle();
      add(&peers[row->n_peers + p], bench_process_slice(&processes[p]), ours);
    }
    if (row->n_peers + run.n_peers > 0) settle();
  }
  return true;
}

// Measures tc and everything beside it; false if tc's work failed. Adds the rounds whose threads
// had not a core each to n_short.
static bool measure_all(const bench_row *row, int threads, series *tc, series *roof, series *peers, int *n_short) {
  bench_process processes[BENCH_MAX_PEERS] = {0};
  tc->n = roof->n = 0;
  for (int p = 0; p < row->n_peers + run.n_peers; p++) {
    bool inside = p < row->n_peers;
    peers[p].n = 0, peers[p].has_case = true;
    snprintf(peers[p].name, sizeof(peers[0].name), "%s",
             inside ? row->peers[p].name : run.peers[p - row->n_peers].name);
    if (!inside) {
      int at = p - row->n_peers;
      peers[p].has_case = wants_peer(row, threads, peers[p].name) &&
                          bench_process_start(&processes[at], run.peers[at].command, row, threads) != BENCH_NO_CASE;
    }
  }
  int n_calls = row->n_samples ? 1 : calls_per_slice(row->run, row->arg, 0.3);
  bool ok = n_calls > 0 && rounds(row, n_calls, threads, tc, roof, peers, processes, n_short);
  for (int p = 0; p < run.n_peers; p++) (void)bench_process_stop(&processes[p]);
  bench_roof_reset();
  return ok;
}

// The first calls of a row, from nothing compiled: how long each took, and the memory they needed
// over what was held before.
typedef struct beginning {
  int n;
  double seconds[MAX_FIRST], peak_mib;
} beginning;

static bool begin_row(const bench_row *row, beginning *b) {
  double held = (tc_cache_clear(), bench_restart_peak()), start = bench_now();
  for (b->n = 0; b->n < 3 || (b->n < MAX_FIRST && bench_now() - start < 0.3); b->n++)
    if ((b->seconds[b->n] = row->run(row->arg, 1)) < 0) return false;
  b->peak_mib = fmax(bench_peak() - held, 0);
  return true;
}

// What compiling cost, and after how many calls it is won back from PyTorch eager.
static void account(const beginning *b, double steady, const series *eager, verdict *v) {
  for (int i = 0; i < b->n; i++) v->compile_seconds += fmax(b->seconds[i] - steady, 0);
  v->peak_mib = b->peak_mib;
  if (eager == NULL) return;
  double gain = median(eager->seconds, eager->n) - steady;
  v->break_even = gain > 0 ? fmax(ceil(v->compile_seconds / gain), 1) : INFINITY;
}

void bench_measure(const bench_row *row) {
  static series tc, roof, peers[2 * BENCH_MAX_PEERS];
  beginning first = {0};
  if (!bench_wants(row->name)) return;
  counts->n_rows++;
  if (tc_set_num_threads(row->threads ? row->threads : run.threads) != TC_OK) return fail_row(row, "number of threads");
  int threads = tc_num_threads(), n_peers = row->n_peers + run.n_peers;
  if (row->n_samples == 0 && !begin_row(row, &first)) return fail_row(row, "run");
  if (row->check && !row->check(row->arg)) return fail_row(row, "wrong result");
  verdict v = {0};
  if (!measure_all(row, threads, &tc, &roof, peers, &v.n_short)) return fail_row(row, "run");

  v.value = in_unit(row, median(tc.seconds, tc.n));
  v.min = in_unit(row, quantile(tc.seconds, tc.n, is_rate(row) ? 1 : 0));  // of a rate, the worst too is the smallest
  v.p99 = in_unit(row, quantile(tc.seconds, tc.n, is_rate(row) ? 0.01 : 0.99));
  if (roof.n > 0) v.of_roof = speed_ratio(&roof), v.roof = in_unit(row, median(roof.seconds, roof.n));
  if ((v.best = best_of(peers, n_peers)) != NULL) v.ratio = speed_ratio(v.best);
  if (row->n_samples == 0) account(&first, median(tc.seconds, tc.n), find_peer("torch-eager", peers, n_peers), &v);
  judge(&(measured){row, threads, n_peers, &tc, &roof, peers}, &v);
  if (v.failed) counts->n_missed++;
  print_line(row, threads, &v, peers, n_peers);
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
  printf(
      "tc-bench NAME..|all [--case PATTERN] [--threads N] [--seconds S] [--json FILE] [--peer NAME=COMMAND].. [--all-peers]\n\n");
  for (int i = 0; i < N_BENCHES; i++) printf("  %-15s %s\n", benches[i].name, benches[i].meaning);
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

// Those of what a user's program meets from its start on. Others are of what it comes to, so
// kernels are compiled before their first run.
static bool begins_cold(const char *name) {
  static const char *const names[] = {"cold", "warm", "dyn", "size", "plan"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i], name) == 0) return true;
  return false;
}

// Runs one benchmark in a process of its own, forked before this one has touched the library.
static void run_apart(int b) {
  int status = 0;
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    if (!begins_cold(benches[b].name)) setenv("TC_INTERPRET_FIRST", "0", 0), setenv("TC_GENERIC_KERNELS", "0", 0);
    benches[b].run();
    tc_shutdown();
    exit(0);
  }
  if (pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  printf("%-8s FAILED: its process ended with status %d\n", benches[b].name, status);
  counts->n_failed++;
}

int main(int argc, char **argv) {
  bool wanted[N_BENCHES] = {false}, any = false;
  if (argc > 1 && strcmp(argv[1], "--fresh") == 0) return bench_fresh(argc - 2, argv + 2);
  if (argc == 5 && strcmp(argv[1], "--serve") == 0) return bench_serve(argv[3], atoi(argv[4]));
  setenv("TC_CACHE_BYTES", "0", 1);  // rows that begin with kernels on disk say so
  counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (counts == MAP_FAILED) return 2;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--all-peers") == 0) {
      run.all_peers = true;
      continue;
    }
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
    if (wanted[b]) run_apart(b);
  if (run.json) fclose(run.json);
  printf("%d rows, %d failed, %d below a floor or without a peer that was asked for\n", counts->n_rows,
         counts->n_failed, counts->n_missed);
  return counts->n_failed + counts->n_missed > 0 || counts->n_rows == 0;
}
