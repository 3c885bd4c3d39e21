// Whether the tests would see a bug: each bug that TC_TEST_PLANT plants must be found by the random graphs within 300 programs.
// (Without one they find nothing: random_graphs.c.) A fresh process for each, which runs this program with the word "find" and exits with 10 when two
// ways of running differ.
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

// What the child found: FOUND, 0 for nothing, other values when it died.
static int run_with(const char *plant) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    setenv("TC_TEST_PLANT", plant, 1);
    execl("/proc/self/exe", "planted", "find", (char *)NULL);
    _exit(127);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

int main(int n_words, char **words) {
  static const char *const plants[] = {"stride", "hazard", "cse", "vjp"};
  enum { N_PLANTS = sizeof plants / sizeof *plants };
  if (n_words > 1 && !strcmp(words[1], "find")) return find();
  int n_found = 0;
  for (int i = 0; i < N_PLANTS; i++) {
    int found = run_with(plants[i]);
    if (found != FOUND) printf("%s: not found (%d)\n", plants[i], found);
    n_found += found == FOUND;
  }
  printf("planted bugs: %d of %d found\n", n_found, N_PLANTS);
  return n_found != N_PLANTS;
}
