// tc-run --shim: starts a program with the shim preloaded, and says where the shim cannot reach it.
// In: a command line. Out: the program in the place of this process, with LD_PRELOAD and TC_SHIM
// set; for a profile, TC_SHIM_PROFILE and TC_PROFILE; where libtc works, OPENBLAS_THREAD_TIMEOUT.
#include "tools/shim_run/shim_run.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/shim_run/reach.h"

#ifndef TC_SHIM_LIBDIR
#define TC_SHIM_LIBDIR "lib"
#endif

static const char library[] = "libtc-shim.so", memory_library[] = "libtc-shim-memory.so";
// Those of shim/options.c that are there.
static const char *const levels[] = {"off", "trace", "eager", "writeback", "lazy"};

bool tc_shim_run_is_asked(int argc, char **argv) {
  for (int i = 1; i < argc && argv[i][0] == '-' && strcmp(argv[i], "--") != 0; i++) {
    if (strncmp(argv[i], "--shim", 6) == 0 && (argv[i][6] == 0 || argv[i][6] == '=')) return true;
    if (strcmp(argv[i], "--profile") == 0) i++;  // its value
  }
  return false;
}

static bool is_among(const char *word, const char *const *list, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (strcmp(word, list[i]) == 0) return true;
  return false;
}

// Beside this program, where it was built, or where both are installed.
static bool find_library(char *out, size_t bytes) {
  static const char *const places[] = {"", "../" TC_SHIM_LIBDIR "/", "../lib/"};
  char self[PATH_MAX], path[2 * PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n <= 0) return false;
  self[n] = 0;
  *(strrchr(self, '/') + 1) = 0;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    snprintf(path, sizeof path, "%s%s%s", self, places[i], library);
    char *whole = realpath(path, NULL);
    bool fits = whole && (size_t)snprintf(out, bytes, "%s", whole) < bytes;
    free(whole);
    if (fits) return true;
  }
  return false;
}

// Behind what is preloaded already; at the levels that defer with the library of memory, where it lies beside.
static bool set_preload(const char *path, bool defers) {
  const char *old = getenv("LD_PRELOAD");
  char memory[2 * PATH_MAX] = "";
  if (defers) snprintf(memory, sizeof memory, ":%.*s%s", (int)(strrchr(path, '/') + 1 - path), path, memory_library);
  if (defers && access(memory + 1, R_OK) != 0) *memory = 0;
  size_t bytes = strlen(path) + (old ? strlen(old) : 0) + strlen(memory) + 2;
  char *list = malloc(bytes);
  if (!list) return false;
  snprintf(list, bytes, "%s%s%s%s", old ? old : "", old && *old ? ":" : "", path, memory);
  bool done = setenv("LD_PRELOAD", list, 1) == 0;
  free(list);
  return done;
}

// The file is empty at first; every process that calls BLAS adds its lines. The record of tc's sync
// points, of a program that has some, is FILE.tc beside it.
static bool set_profile(const char *path) {
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  char *whole = file >= 0 ? realpath(path, NULL) : NULL, beside[PATH_MAX];
  bool done = whole && (size_t)snprintf(beside, sizeof beside, "%s.tc", whole) < sizeof beside &&
              setenv("TC_SHIM_PROFILE", whole, 1) == 0 && setenv("TC_PROFILE", beside, 0) == 0;
  if (!done) fprintf(stderr, "tc-run: the profile cannot be written to %s: %s\n", path, strerror(errno));
  if (file >= 0) close(file);
  free(whole);
  return done;
}

// OpenBLAS's idle threads spin for 2^28 cycles, on the cores that libtc's threads want. 2^20 cycles
// keep them awake between calls that follow each other. What the user has set stays.
// Measured: Zen 5, 2 threads, CG's vectors of 8 MB at lazy, an iteration of the first 0.1 s:
// 0.85 -> 0.40 ms. HPL of 2500 at eager 1.31 -> 1.48 times OpenBLAS.
static bool shorten_spinning(void) {
  return setenv("OPENBLAS_THREAD_TIMEOUT", "20", 0) == 0;
}

static int wrong_line(const char *what, const char *word) {
  fprintf(stderr, "tc-run: %s '%s'; tc-run --help says what there is\n", what, word);
  return 2;
}

int tc_shim_run(int argc, char **argv) {
  static const struct option words[] = {
      {"shim", required_argument, NULL, 's'}, {"profile", required_argument, NULL, 'p'}, {NULL, 0, NULL, 0}};
  const char *level = NULL, *profile = NULL;
  char path[PATH_MAX], why[PATH_MAX + 200];
  opterr = 0;
  for (int c; (c = getopt_long(argc, argv, "+:", words, NULL)) != -1;) {
    if (c == ':') return wrong_line("a value is wanted by", argv[optind - 1]);
    if (c == '?') return wrong_line("with --shim there is no option", argv[optind - 1]);
    if (c == 's') level = optarg;
    if (c == 'p') profile = optarg;
    if (optarg == argv[optind - 1] && strcmp(optarg, "--") == 0)
      return wrong_line("a value is wanted before -- by", argv[optind - 2]);
  }
  if (!is_among(level, levels, sizeof levels / sizeof *levels))
    return wrong_line("--shim takes off, trace, eager, writeback or lazy, not", level);
  if (profile && strcmp(level, "off") == 0) return wrong_line("there is no profile with --shim", level);
  if (optind == argc) return wrong_line("no program is named behind --shim", level);
  if (!find_library(path, sizeof path)) {
    fprintf(stderr, "tc-run: %s is neither beside tc-run nor installed; it is built for Linux on x86-64 and AArch64\n",
            library);
    return 1;
  }
  if (!tc_shim_reaches(argv[optind], path, why, sizeof why)) fprintf(stderr, "tc-run: %s\n", why);
  if (profile && !set_profile(profile)) return 1;
  bool defers = strcmp(level, "writeback") == 0 || strcmp(level, "lazy") == 0;
  if (!set_preload(path, defers) || setenv("TC_SHIM", level, 1) != 0) return 1;
  if ((defers || strcmp(level, "eager") == 0) && !shorten_spinning()) return 1;
  execvp(argv[optind], argv + optind);
  fprintf(stderr, "tc-run: %s cannot be run: %s\n", argv[optind], strerror(errno));
  return errno == ENOENT ? 127 : 126;
}
