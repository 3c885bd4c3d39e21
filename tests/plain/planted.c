// Whether the tests would see a bug: each bug that TC_TEST_PLANT plants must be found by the random graphs within 300 programs.
// (Without one they find nothing: random_graphs.c.) TC_VERIFY must report the bugs of lowering, too, within as many programs, and nothing without a bug.
// A fresh process for each, which runs this program with the word "find" or "verify" and exits with 10 when two ways of running differ, or when TC_VERIFY
// says so. Programs are interpreted, which takes a hundredth of compiling: the bugs are in what is planned.
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

// What the child found: FOUND, 0 for nothing, other values when it died.
static int run_with(const char *word, const char *plant) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    setenv("TC_TEST_PLANT", plant, 1);
    setenv("TC_VERIFY", !strcmp(word, "verify") ? "1" : "0", 1);
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
  if (n_words > 1) return !strcmp(words[1], "verify") ? verify() : find();
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
  printf("TC_VERIFY reports %d of %d planted bugs%s\n", n_verified, N_PLANTS - 1, without ? "" : ", and none where there is none");
  printf("planted bugs: %d of %d found\n", n_found, N_PLANTS);
  return n_found != N_PLANTS || n_verified != N_PLANTS - 1 || without;
}
