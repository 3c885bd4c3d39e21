// Peers in other processes: started once a row, then asked for one slice at a time, so that they
// take turns with tc.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench.h"

extern char **environ;

static void close_all(int fds[4]) {
  for (int i = 0; i < 4; i++)
    if (fds[i] >= 0) close(fds[i]);
}

// Starts a shell with its standard input and output on pipes.
static bool start(bench_process *p, char *line) {
  int fds[4] = {-1, -1, -1, -1};  // its input: read, write; its output: read, write
  posix_spawn_file_actions_t actions;
  char *const words[] = {"sh", "-c", line, NULL};
  if (pipe2(fds, O_CLOEXEC) != 0 || pipe2(fds + 2, O_CLOEXEC) != 0) return close_all(fds), false;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fds[0], 0);
  posix_spawn_file_actions_adddup2(&actions, fds[3], 1);
  int failed = posix_spawn(&p->pid, "/bin/sh", &actions, NULL, words, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed) return close_all(fds), false;
  close(fds[0]);
  close(fds[3]);
  p->to = fdopen(fds[1], "w");
  p->from = fdopen(fds[2], "r");
  return p->to && p->from;
}

int bench_process_stop(bench_process *p) {
  int status = -1;
  if (p->to) fclose(p->to);  // the end of its input: it exits
  if (p->from) fclose(p->from);
  if (p->pid > 0) waitpid(p->pid, &status, 0);
  *p = (bench_process){0};
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bench_answer bench_process_start(bench_process *p, const char *command, const bench_row *row, int threads) {
  char line[1024];
  *p = (bench_process){0};
  signal(SIGPIPE, SIG_IGN);
  if (snprintf(line, sizeof(line), "exec %s %s %s %d", command, row->bench, row->name, threads) >= (int)sizeof(line))
    return BENCH_FAILED;
  bool started = start(p, line);
  if (started && fgets(line, sizeof(line), p->from) && strcmp(line, "ready\n") == 0) return BENCH_READY;
  return bench_process_stop(p) == BENCH_NO_CASE && started ? BENCH_NO_CASE : BENCH_FAILED;
}

double bench_process_slice(bench_process *p) {
  char line[128];
  double seconds;
  if (p->to == NULL || fputs("slice\n", p->to) < 0 || fflush(p->to) != 0 || fgets(line, sizeof(line), p->from) == NULL)
    return -1;
  return sscanf(line, "seconds %lf", &seconds) == 1 && seconds > 0 ? seconds : -1;
}
