// gpu-check PART [--device NAME] [--small] [--only WORD] [--json FILE] [--seconds S]: see check.h.
// Exit status: 0; 1 if a row of the part is wrong; 2 for a wrong call.
//
// This process prints the table. Rows run in `gpu-check --rows PART ..`, which says on its standard
// output which row it begins.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "device/device.h"
#include "lowering/jit/compiler.h"
#include "tools/gpu_check/check.h"

extern char **environ;
check_settings check = {.device = "tc:cuda", .json = "gpu-check.json", .timed = true};

static const double call_seconds = 450;
// of a call's seconds: behind its last fifth no row begins, so that the last one may end
static const double row_share = 0.2;

static const struct part {
  char letter;
  const char *meaning;
} parts[] = {
    {'a', "facts, roofs, host costs, ops against tc:ref, random graphs, equal bits, replay, memory, examples"},
    {'b', "faults in processes of their own; compute-sanitizer on a sample, if it is on the path"},
    {'c', "kernels against roofs: fused chain, rows, matrix products, attention, a replayed plan of 100 kernels"},
    {'d', "ResNet, a cold first step and peak memory, beside PyTorch if python3 has it"},
    {'e', "BERT, likewise"},
    {'f', "GPT-2, likewise"},
};

static int usage(void) {
  printf("gpu-check PART [--device NAME] [--small] [--only WORD] [--json FILE] [--seconds S]\n\n");
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) printf("  %c  %s\n", parts[i].letter, parts[i].meaning);
  printf(
      "\n  --device   tc:cuda, tc:cuda:1, tc:hip, tc:cpu (default tc:cuda)\n  --small    small sizes: a first look, or a simulated device\n"
      "  --only     rows that have this in their names\n"
      "  --json     rows go to the end of this file, and those that are there are not run again (default gpu-check.json)\n"
      "  --seconds  the call ends by then, the rest is for the next one (default %g)\n",
      call_seconds);
  return 2;
}

bool check_folder(const char *file, char *out, size_t bytes) {
  static const char *const up[] = {"", "/.."};
  char path[4400];
  int n = (int)(strrchr(check.program, '/') - check.program);
  for (int i = 0; i < 2; i++) {
    snprintf(out, bytes, "%.*s%s", n, check.program, up[i]);
    snprintf(path, sizeof path, "%s/%s", out, file);
    if (access(path, R_OK) == 0) return true;
  }
  return false;
}

// ---- What the device is ----

static bool find_device(void) {
  tc_device d;
  if (tc_device_parse(check.device, "gpu-check", 0, &d) != TC_OK) return false;
  if (tc_device_kind_of(d) != TC_DEVICE_GPU) {
    snprintf(check.hardware, sizeof check.hardware, "%s, %d threads", tc_device_name(d), tc_num_threads());
    snprintf(check.driver, sizeof check.driver, "%s", tc_compiler_sentence());
    return true;
  }
  if (tc_gpu_get(d, &check.gpu) != TC_OK) return false;
  const tc_gpu_facts *facts = tc_gpu_facts_of(check.gpu);
  check.timed = !facts->simulated;
  snprintf(check.hardware, sizeof check.hardware, "%s%s", facts->simulated ? "simulated: " : "", facts->name);
  snprintf(check.driver, sizeof check.driver, "%s", tc_gpu_sentence(d));
  return true;
}

// ---- The process that runs rows ----

static int run_rows(void) {
  if (!find_device()) return fprintf(stderr, "%s\n", tc_last_error()->message), 2;
  switch (check.part) {
    case 'a': check_roofs(), check_ops(), check_graphs(), check_bits(), check_examples(); break;
    case 'b': check_faults(); break;
    case 'c': check_kernels(); break;
    default: check_models(); break;
  }
  int status = check_rows_status();
  tc_shutdown();
  return status;
}

// ---- The process that waits ----

typedef struct child {
  pid_t pid;
  int from;
  char row[300];  // that was begun last
} child;

static bool start(child *c, double seconds) {
  char part[2] = {check.part, 0}, time[32];
  const char *words[16] = {check.program, "--rows",  part,        "--device",  check.device, "--json",
                           check.json,    "--began", check.began, "--seconds", time};
  int fds[2], n = 11;
  snprintf(time, sizeof time, "%.3f", seconds);
  if (check.small) words[n++] = "--small";
  if (check.only) words[n++] = "--only", words[n++] = check.only;
  if (pipe(fds) != 0) return false;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
  posix_spawn_file_actions_addclose(&actions, fds[0]);
  posix_spawn_file_actions_addclose(&actions, fds[1]);
  int failed = posix_spawn(&c->pid, check.program, &actions, NULL, (char *const *)(uintptr_t)words, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(fds[1]);
  c->from = fds[0], c->row[0] = 0;
  if (failed) close(fds[0]), errno = failed;
  return !failed;
}

// Reads until the child ends its output; false if that was not by `end`.
static bool follow(child *c, double end) {
  char line[300];
  size_t n = 0;
  for (;;) {
    struct pollfd wait = {.fd = c->from, .events = POLLIN};
    double rest = end - check_now();
    char byte;
    if (rest <= 0 || poll(&wait, 1, (int)(rest * 1000) + 1) == 0) return false;
    ssize_t got = read(c->from, &byte, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    if (byte != '\n') {
      if (n + 1 < sizeof line) line[n++] = byte;
      continue;
    }
    line[n] = 0, n = 0;
    if (strncmp(line, "begin ", 6) == 0) snprintf(c->row, sizeof c->row, "%s", line + 6);
  }
}

// Rows in one process after the other, until all are there, the time is over, or nothing more can
// be done. False: no process could run a row.
static bool run_part(double seconds, bool *left) {
  double end = check_now() + seconds;
  for (;;) {
    child c;
    int status = 0;
    char why[200];
    if (!start(&c, end - check_now() - row_share * seconds))
      return fprintf(stderr, "gpu-check: %s: %s\n", check.program, strerror(errno)), false;
    bool ended = follow(&c, end);
    if (!ended) kill(c.pid, SIGKILL);
    close(c.from);
    while (waitpid(c.pid, &status, 0) < 0 && errno == EINTR) continue;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    *left = code == CHECK_LEFT || !ended;
    if (ended && (code == CHECK_DONE || code == CHECK_LEFT)) return true;
    if (!c.row[0]) return !ended;  // no time for a row; else it said why
    if (ended && code == CHECK_LOST) continue;
    if (!ended)
      snprintf(why, sizeof why, "did not end in time");
    else if (code >= 0)
      snprintf(why, sizeof why, "its process ended with exit status %d", code);
    else
      snprintf(why, sizeof why, "its process ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    check_write_dead(c.row, why);
    if (!ended) return true;
  }
}

static int run_and_print(double seconds) {
  bool left = false;
  time_t t = time(NULL);
  struct tm tm;
  strftime(check.began, sizeof check.began, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &tm));
  if (!find_device()) return fprintf(stderr, "%s\n", tc_last_error()->message), 2;
  if (!run_part(seconds, &left)) return 2;
  bool right = check_table();
  if (left) printf("rows are left for another call\n");
  return right ? 0 : 1;
}

// ---- The command line ----

static bool set_option(const char *name, const char *value, double *seconds) {
  if (strcmp(name, "--device") == 0) return check.device = value, true;
  if (strcmp(name, "--json") == 0) return check.json = value, true;
  if (strcmp(name, "--only") == 0) return check.only = value, true;
  if (strcmp(name, "--began") == 0) return snprintf(check.began, sizeof check.began, "%s", value) > 0;
  return strcmp(name, "--seconds") == 0 && ((*seconds = strtod(value, NULL)), true);
}

int main(int argc, char **argv) {
  double seconds = call_seconds;
  bool rows = false;
  const char *fault = NULL, *const *fresh = NULL;  // the words behind those options
  ssize_t n = readlink("/proc/self/exe", check.program, sizeof check.program - 1);
  if (n <= 0) return fprintf(stderr, "gpu-check: /proc/self/exe: %s\n", strerror(errno)), 2;
  if (argc > 2 && strcmp(argv[1], "--example") == 0) return check_example_main(argc - 2, argv + 2);
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--small") == 0) {
      check.small = true;
    } else if (strcmp(argv[i], "--rows") == 0) {
      rows = true;
    } else if (strcmp(argv[i], "--fault") == 0 && i + 1 < argc) {
      fault = argv[++i];
    } else if (strcmp(argv[i], "--fresh") == 0 && i + 3 < argc) {
      fresh = (const char *const *)argv + i + 1;
      i += 3;
    } else if (argv[i][0] == '-') {
      if (i + 1 == argc || !set_option(argv[i], argv[i + 1], &seconds)) return usage();
      i++;
    } else {
      for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        if (argv[i][0] == parts[k].letter && !argv[i][1]) check.part = parts[k].letter;
      if (!check.part) return usage();
    }
  }
  if (fresh) return find_device() ? check_fresh_main(fresh[0], fresh[1], fresh[2]) : 2;
  if (fault) return find_device() ? check_fault_main(fault) : (printf("%s\n", tc_last_error()->message), 2);
  if (!check.part) return usage();
  check.until = check_now() + seconds;
  return rows ? run_rows() : run_and_print(seconds);
}
