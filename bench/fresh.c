// What begins with nothing: starts of processes, peak memory, sizes. Each sample is this program
// run again in a process of its own.
#include "bench/bench.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <ftw.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

// ---- The fresh process ----

static bool first_sincos(void) {
  float a[100], b[100], out[100];
  for (int i = 0; i < 100; i++) a[i] = (float)i, b[i] = (float)-i;
  tc_scope scope = tc_scope_begin();
  tc_tensor x = tc_from_host(a, TC_SHAPE(10, 10), TC_F32), y = tc_from_host(b, TC_SHAPE(10, 10), TC_F32);
  tc_status st = tc_to_host(tc_add(tc_sin(x), tc_cos(y)), out, sizeof(out));
  tc_scope_end(scope);
  return st == TC_OK && bench_near((double)out[0], 1, 1e-6);
}

static bool first_resnet18_step(void) {
  return bench_first_step("resnet18_train", "16x3x128x128");
}

static double cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// The figure of WHAT; negative if it failed. Cold starts have none of their own: their figure is
// when it comes.
static double fresh_figure(const char *what) {
  if (strcmp(what, "sincos10") == 0) return first_sincos() ? bench_peak() : -1;
  if (strcmp(what, "mlptrain_small") == 0) return bench_first_mlp_step() ? bench_peak() : -1;
  if (strcmp(what, "program") == 0) return bench_first_program() ? bench_peak() : -1;
  if (strcmp(what, "resnet18_train") == 0) return first_resnet18_step() ? bench_peak() : -1;
  if (strcmp(what, "compile_resnet18_train") == 0) {
    double start = cpu_seconds(), first = first_resnet18_step() ? cpu_seconds() - start : -1;
    start = cpu_seconds();
    return first >= 0 && first_resnet18_step() ? first - (cpu_seconds() - start) : -1;
  }
  if (strcmp(what, "peak_resnet18_train") == 0) return bench_peak_of_training("resnet18_train", "16x3x128x128");
  if (strcmp(what, "peak_resnet18_train_amp") == 0) return bench_peak_of_training("resnet18_train", "16x3x128x128_amp");
  if (strcmp(what, "peak_gpt2_train_amp") == 0) return bench_peak_of_training("gpt2_train", "2x256_amp");
  return strcmp(what, "peak_gpt2_train") == 0 ? bench_peak_of_training("gpt2_train", "2x256") : -1;
}

int bench_fresh(int n_words, char **words) {
  double figure = n_words == 1 ? fresh_figure(words[0]) : -1;
  if (figure < 0) return 1;
  printf("done %.9g\n", figure);
  fflush(stdout);
  return 0;
}

// ---- Samples ----

typedef enum disk_state { NO_CACHE, EMPTY_CACHE, WARM_CACHE } disk_state;  // what the process finds on disk

typedef struct sample {
  const char *what;
  bool time;  // the seconds until its line comes; else the line's figure
  disk_state disk;
} sample;

static char warm_dir[64];  // what the first process of a row leaves to the others

// The figure of a process that keeps compiled kernels in the directory; NULL: it keeps none.
static double run_process(const sample *s, const char *cache_dir) {
  char *const words[] = {"tc-bench", "--fresh", (char *)(uintptr_t)s->what, NULL};
  int fds[2], status = -1;
  pid_t pid;
  if (pipe2(fds, O_CLOEXEC) != 0) return -1;
  if (cache_dir) setenv("TC_CACHE_DIR", cache_dir, 1), unsetenv("TC_CACHE_BYTES");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
  double start = bench_now(), figure = -1;
  int failed = posix_spawn(&pid, "/proc/self/exe", &actions, NULL, words, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(fds[1]);
  FILE *from = fdopen(fds[0], "r");
  if (!failed && from && fscanf(from, "done %lf", &figure) == 1 && s->time) figure = bench_now() - start;
  if (from) fclose(from);
  if (!failed) waitpid(pid, &status, 0);
  setenv("TC_CACHE_BYTES", "0", 1);
  return status == 0 ? figure : -1;
}

static bool make_directory(char path[64]) {
  snprintf(path, 64, "/tmp/tc-bench-XXXXXX");
  return mkdtemp(path) != NULL;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at) {
  (void)info, (void)kind, (void)at;
  return remove(path);
}

static void remove_directory(char path[64]) {
  if (*path) nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
  *path = 0;
}

static double run_sample(void *arg, int n) {
  const sample *s = arg;
  char dir[64];
  (void)n;
  if (s->disk == NO_CACHE) return run_process(s, NULL);
  if (s->disk == WARM_CACHE) {
    bool first = !*warm_dir;
    if (first && (!make_directory(warm_dir) || run_process(s, warm_dir) < 0)) return -1;
    return run_process(s, warm_dir);
  }
  if (!make_directory(dir)) return -1;
  double figure = run_process(s, dir);
  remove_directory(dir);
  return figure;
}

static void measure_starts(const char *bench, disk_state disk) {
  static const char *const names[] = {"sincos10", "mlptrain_small", "resnet18_train"};
  for (int i = 0; i < 3; i++) {
    sample s = {names[i], true, disk};
    bench_measure(&(bench_row){
        .bench = bench, .name = names[i], .unit = "s", .n_samples = i < 2 ? 7 : 3, .run = run_sample, .arg = &s});
    remove_directory(warm_dir);
  }
}

void bench_measure_start(const char *bench, const char *name, const char *what) {
  sample s = {what, true, NO_CACHE};
  bench_measure(&(bench_row){.bench = bench, .name = name, .unit = "s", .n_samples = 7, .run = run_sample, .arg = &s});
}

void bench_cold(void) {
  measure_starts("cold", EMPTY_CACHE);
}

void bench_warm(void) {
  measure_starts("warm", WARM_CACHE);
}

void bench_peak_memory(void) {
  static sample samples[] = {{"peak_resnet18_train", false, NO_CACHE},
                             {"peak_resnet18_train_amp", false, NO_CACHE},
                             {"peak_gpt2_train", false, NO_CACHE},
                             {"peak_gpt2_train_amp", false, NO_CACHE}};
  for (int i = 0; i < 4; i++)
    bench_measure(&(bench_row){.bench = "peak_memory",
                               .name = samples[i].what + strlen("peak_"),
                               .unit = "MiB",
                               .n_samples = 3,
                               .run = run_sample,
                               .arg = &samples[i]});
}

// The library's file, without its compiler.
static double library_size(void *arg, int n) {
  Dl_info info;
  struct stat st;
  (void)arg, (void)n;
  const void *place = (const void *)(uintptr_t)tc_version_text;
  return dladdr(place, &info) && stat(info.dli_fname, &st) == 0 ? (double)st.st_size / (1 << 20) : -1;
}

void bench_size(void) {
  static sample rss = {"sincos10", false, WARM_CACHE};
  bench_measure(&(bench_row){.bench = "size", .name = "library", .unit = "MiB", .n_samples = 1, .run = library_size});
  bench_measure(&(bench_row){
      .bench = "size", .name = "rss_sincos10", .unit = "MiB", .n_samples = 3, .run = run_sample, .arg = &rss});
  remove_directory(warm_dir);
}

// ---- Compiling ----

// A typical kernel, compiled anew: milliseconds as the library counts them.
static double compile_chain(void *arg, int n) {
  double seconds = 0;
  for (int i = 0; i < n; i++) {
    tc_sync_point point;
    tc_cache_clear();
    tc_scope scope = tc_scope_begin();
    tc_tensor x = *(tc_tensor *)arg, y = tc_relu(tc_add(tc_mul(x, x), x));
    tc_status st = tc_eval(1, &y);
    tc_scope_end(scope);
    if (st != TC_OK || tc_sync_points(1, &point) != 1 || point.n_compiled != 1) return -1;
    seconds += 1e-9 * (double)point.compile_ns;
  }
  return seconds;
}

void bench_compile(void) {
  static sample all = {"compile_resnet18_train", false, NO_CACHE};
  tc_scope scope = tc_scope_begin();
  tc_tensor x = bench_tensor(TC_SHAPE(1000), 1);
  bench_measure(&(bench_row){
      .bench = "compile", .name = "kernel", .unit = "ms", .n_samples = 50, .run = compile_chain, .arg = &x});
  tc_scope_end(scope);
  bench_measure(&(bench_row){
      .bench = "compile", .name = "resnet18_train", .unit = "s", .n_samples = 3, .run = run_sample, .arg = &all});
}
