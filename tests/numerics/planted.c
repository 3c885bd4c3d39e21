// Whether the tests would see a bug: each bug that TC_TEST_PLANT plants must be found by the random
// graphs within 300 programs.
// (Without one they find nothing: random_graphs.c.) TC_VERIFY must report the bugs of lowering,
// too, within as many programs, and nothing without a bug. A fresh process for each, which runs
// this program with the word "find" or "verify" and exits with 10 when two ways of running differ,
// or when TC_VERIFY says so. Random programs have no long sums, so TC_VERIFY must also see, in sums
// of several kinds of data, that chains were not cut ("sums"). Programs are interpreted, which
// takes a hundredth of compiling: the bugs are in what is planned.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/random/random_graph.h"

enum { N_PROGRAMS = 300, FOUND = 10 };

static int find(void) {
  for (int k = 0; k < N_PROGRAMS; k++) {
    rg_program p;
    rg_make(&p, 1 + (uint64_t)k);
    const char *bad = rg_check(&p);
    if (bad) return printf("program %d: %s\n", k + 1, bad), FOUND;
  }
  return 0;
}

static int n_reports, n_not_compared;

static void listen(const char *line, void *arg) {
  (void)arg;
  n_reports += strstr(line, "TC_VERIFY: results differ") != NULL;
  n_not_compared += strstr(line, "was not compared") != NULL;
  if (n_reports + n_not_compared == 1) printf("%.300s\n", line);
}

static int verify(void) {
  tc_set_log(listen, NULL);
  for (int k = 0; k < N_PROGRAMS && !n_reports; k++) {
    rg_program p;
    rg_make(&p, 1 + (uint64_t)k);
    (void)rg_check(&p);
  }
  return n_reports ? FOUND : n_not_compared != 0;
}

// Element i of values of one kind.
static float value_of(int kind, int64_t i) {
  static uint32_t seed;
  switch (kind) {
    case 0: return (float)((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-24F;
    case 1: return 0.1F;
    case 2: return 1e6F + (float)(i % 16);
    default: return (float)(i % 16) / 3;
  }
}

// Whether every sum of values whose roundings go the same way is reported; of the others they go
// both ways.
static int sums(void) {
  static const char *const kinds[] = {"uniform", "one number", "beside a large one", "a pattern"}, *const ways[] = {
                                                                                                       "a product",
                                                                                                       "columns",
                                                                                                       "a row"};
  enum { N = 400000 };
  float *v = malloc(2 * N * sizeof *v);
  int n_missed = 0, n_all = 0;
  tc_set_log(listen, NULL);
  for (int kind = 0; kind < 4; kind++) {
    for (int64_t i = 0; i < 2 * N; i++) v[i] = value_of(kind, i / 2);
    for (int way = 0; way < 3; way++) {
      double sum;
      tc_scope s = tc_scope_begin();
      tc_tensor x = tc_from_host(v, TC_SHAPE(N, 2), TC_F32), y;
      if (way == 0) y = tc_matmul(tc_transpose(x, 0, 1), tc_ones(TC_SHAPE(N, 3), TC_F32));
      if (way == 1) y = tc_sum(x, TC_SHAPE(0), false);
      if (way == 2) y = tc_sum(tc_reshape(x, TC_SHAPE(1, 2 * N)), TC_SHAPE(1), false);
      n_reports = 0;
      if (tc_item_f64(tc_cast(tc_max(y, TC_ALL, false), TC_F64), &sum) != TC_OK) return 1;
      if (!n_reports && (kind == 1 || kind == 2)) {
        n_missed++;
        if (*getenv("TC_TEST_PLANT")) printf("%s of %s: not reported\n", ways[way], kinds[kind]);
      }
      n_all += n_reports;
      tc_scope_end(s);
    }
  }
  free(v);
  return n_all == 0 && !n_not_compared ? 0 : n_missed ? 1 : FOUND;
}

// What the child found: FOUND, 0 for nothing, other values when it died.
static int run_with(const char *word, const char *plant) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    setenv("TC_TEST_PLANT", plant, 1);
    setenv("TC_VERIFY", strcmp(word, "find") ? "1" : "0", 1);
    setenv("TC_COMPILER", "interp", 1);
    execl("/proc/self/exe", "planted", word, (char *)NULL);
    _exit(127);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

int main(int n_words, char **words) {
  static const char *const plants[] = {"stride", "hazard", "cse", "vjp"};
  enum { N_PLANTS = sizeof plants / sizeof *plants };
  if (n_words > 1) return !strcmp(words[1], "verify") ? verify() : !strcmp(words[1], "sums") ? sums() : find();
  int n_found = 0, n_verified = 0;
  for (int i = 0; i < N_PLANTS; i++) {
    int found = run_with("find", plants[i]);
    if (found != FOUND) printf("%s: not found (%d)\n", plants[i], found);
    n_found += found == FOUND;
  }
  // A wrong gradient is what its records say: no business of TC_VERIFY.
  for (int i = 0; i < N_PLANTS - 1; i++) {
    int found = run_with("verify", plants[i]);
    if (found != FOUND) printf("%s: not found by TC_VERIFY (%d)\n", plants[i], found);
    n_verified += found == FOUND;
  }
  int without = run_with("verify", "");
  if (without) printf("TC_VERIFY reports something where no bug was planted (%d)\n", without);
  printf("TC_VERIFY reports %d of %d planted bugs%s\n", n_verified, N_PLANTS - 1,
         without ? "" : ", and none where there is none");
  int long_sums = run_with("sums", "chain"), right_sums = run_with("sums", "");
  if (long_sums != FOUND) printf("chain: not found by TC_VERIFY (%d)\n", long_sums);
  if (right_sums) printf("TC_VERIFY reports long sums where no bug was planted (%d)\n", right_sums);
  printf("planted bugs: %d of %d found\n", n_found, N_PLANTS);
  return n_found != N_PLANTS || n_verified != N_PLANTS - 1 || without || long_sums != FOUND || right_sums;
}
