// The benchmark harness: rows of work, each measured against roofs of this machine and against
// peers, all in one run.
//
// Bandwidth and clock change within seconds here, so nothing is compared across minutes: the roof,
// tc and the peers of a row take turns in slices of about 10 ms, and what is reported is the median
// of the per-round ratios. Peers in other processes wait between their slices.
// Threads: the main thread only; roofs start threads of their own for a slice.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <tc/tc.h>

#define BENCH_MAX_PEERS 24

typedef enum bench_roof {
  BENCH_NO_ROOF,
  BENCH_FMA,    // f32 multiply-adds of all threads; work is flops a call
  // the same of bf16: by dot products of pairs where the processor has them and they are faster,
  // else as f32
  BENCH_BF16,
  BENCH_TRIAD,  // a = b + s * c with non-temporal stores over the same footprint; work is bytes a call
  BENCH_READ,   // a sum over the same footprint; work is bytes a call
} bench_roof;

// Runs the work n times and returns the seconds it took, as the work itself counts them; negative
// if it failed (tc_last_error says why).
typedef double bench_fn(void *arg, int n);

typedef struct bench_peer {
  const char *name;
  bench_fn *run;  // NULL: not installed
  void *arg;
} bench_peer;

typedef struct bench_row {
  const char *bench, *name;
  const char *unit;  // "ns", "us", "ms", "s": time of an item; "GFLOP/s", "GB/s": work over time; else what run gives
                     // is no time but a count of that unit ("MiB", "compiles")
  double n_items;  // items a call, for times
  double work;  // flops or bytes a call, for rates and roofs
  bench_roof roof;
  int threads;  // 0: as many as tc uses by itself
  bench_fn *run;
  void *arg;
  // 0: rounds for some seconds, several calls a slice; else so many rounds of one call each, for
  // what starts processes
  int n_samples;
  bool (*check)(void *arg);  // optional: the result is right; asked once, before measuring
  int n_peers;
  bench_peer peers[BENCH_MAX_PEERS];
} bench_row;

// Measures, prints and judges one row, unless the command line leaves it out.
void bench_measure(const bench_row *row);
// Whether the command line asks for this case: asked before data is made that is large or slow to
// make.
bool bench_wants(const char *name);
// Thread counts asked for: those of a row that is measured at one thread and at all. Returns how
// many, at most 2.
int bench_threads(int out[2]);

// ---- bench/peer.c: peers in other processes ---- A peer is run as `COMMAND BENCH CASE THREADS`.
// It warms up and prints "ready", or exits with status 3 if it has no such case; for each line that
// it reads, it runs about 10 ms (a sampled row: once) and prints "seconds X", the time of a call or
// the count; it exits at the end of its input.
typedef enum bench_answer { BENCH_READY, BENCH_FAILED, BENCH_NO_CASE = 3 } bench_answer;
typedef struct bench_process {
  pid_t pid;
  FILE *to, *from;
} bench_process;
bench_answer bench_process_start(bench_process *p, const char *command, const bench_row *row, int threads);
double bench_process_slice(bench_process *p);  // negative if it failed
int bench_process_stop(bench_process *p);  // its exit status; fine on one that did not start

// ---- bench/fresh.c: this program again in a process of its own ---- `tc-bench --fresh WHAT` does
// one thing from nothing and prints "done MIB"; `--serve BENCH CASE THREADS` is a peer. Returns the
// exit status.
int bench_fresh(int n_words, char **words);
int bench_serve(const char *name, int threads);
// The first step of training: of mlptrain_small, and of a model with parameters as its code starts
// them. false if it failed.
bool bench_first_mlp_step(void);
bool bench_first_step(const char *bench, const char *name);
// The first result of a program in a file (bench/export.c); false if it failed.
bool bench_first_program(void);
// A row of the seconds from a process's start to its line, without a cache on disk.
void bench_measure_start(const char *bench, const char *name, const char *what);
// MiB that three steps of training need at most over parameters and input; negative if it failed.
double bench_peak_of_training(const char *bench, const char *name);
// Resident memory now, starting the peak over from it; the peak since. MiB.
double bench_restart_peak(void);
double bench_peak(void);

// ---- bench/zoo.c: cases of models that no benchmark has (tools/gpu_check/models.c), by their
// names ----
// makes, measures and releases it, as a benchmark does, without a roof
void bench_model(const char *bench, const char *name);
bool bench_model_right(const char *bench, const char *name);  // made, checked against expected.def and released

// ---- bench/roofs.c: rates of this machine, units of work a second ---- One slice of at least
// seconds on n threads, over a footprint of bytes (memory roofs only); 0 if this CPU has no such
// roof.
double bench_roof_slice(bench_roof roof, int n_threads, double bytes, double seconds);
// Whether n threads have a core each now: together they multiply at more than 0.6 of n times the
// best that one was seen to do. 2 ms.
// A slower clock is no lack: it does not vary by so much.
bool bench_has_cores(int n_threads);
// Frees the buffers of the last footprint.
void bench_roof_reset(void);

// ---- Helpers of the cases ----
double bench_now(void);
// n floats from -1 to 1, the same for the same seed; freed with free().
float *bench_floats(int64_t n, uint32_t seed);
tc_tensor bench_tensor(tc_dims shape, uint32_t seed);
// Evaluates t and reads one element of its dense value; NaN on error.
float bench_element(tc_tensor t, int64_t i);
bool bench_near(double got, double want, double tolerance);
// Calls of malloc and its like so far, in this process.
uint64_t bench_n_mallocs(void);

// One function for each benchmark: it makes its data, measures its rows and releases everything.
#define BENCH(name, meaning) void bench_##name(void);
#include "bench/benches.def"
#undef BENCH
