// See stack.h. The paths are the file's own words: addr2line gets them as one argument, not by a
// shell.
#include "tools/prof/stack.h"

#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const tc_prof_module *find_module(const tc_profile *p, uint64_t address) {
  for (size_t i = 0; i < p->n_modules; i++)
    if (p->module[i].begin <= address && address < p->module[i].end) return &p->module[i];
  return NULL;
}

// What addr2line says: two lines. False: it is not there, or knows nothing.
static bool ask(const char *path, uint64_t offset, char *out, size_t bytes) {
  char where[32];
  int ends[2];
  pid_t child;
  posix_spawn_file_actions_t actions;
  snprintf(where, sizeof where, "0x%" PRIx64, offset);
  char *const words[] = {"addr2line", "-Cfe", (char *)path, where, NULL};
  if (access(path, R_OK) != 0 || pipe2(ends, O_CLOEXEC) != 0) return false;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  bool ok = posix_spawnp(&child, words[0], &actions, NULL, words, environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  size_t n = 0;
  for (ssize_t got; ok && n < bytes - 1 && (got = read(ends[0], out + n, bytes - 1 - n)) > 0;) n += (size_t)got;
  out[n] = 0;
  close(ends[0]);
  if (ok) waitpid(child, NULL, 0);
  return ok && n && out[0] != '?';
}

bool tc_stack_is_own(tc_profile *p, uint64_t address) {
  const tc_prof_module *m = find_module(p, address);
  const char *path = m ? tc_profile_text(p, m->path) : "", *slash = strrchr(path, '/');
  return strncmp(slash ? slash + 1 : path, "libtc.", 6) == 0;
}

void tc_stack_frame(tc_profile *p, uint64_t address, char *out, size_t bytes) {
  char said[1024];
  const tc_prof_module *m = find_module(p, address);
  if (!m) {
    snprintf(out, bytes, "0x%" PRIx64, address);
    return;
  }
  const char *path = tc_profile_text(p, m->path), *slash = strrchr(path, '/');
  if (!ask(path, address - m->bias, said, sizeof said)) {
    snprintf(out, bytes, "%s+0x%" PRIx64, slash ? slash + 1 : path, address - m->bias);
    return;
  }
  char *line = strchr(said, '\n');
  if (line) *line++ = 0;
  if (line) line[strcspn(line, "(\n")] = 0;  // "(discriminator 1)"
  for (size_t n = line ? strlen(line) : 0; n && line[n - 1] == ' '; n--) line[n - 1] = 0;
  if (line && !strchr(line, '?'))
    snprintf(out, bytes, "%s at %s", said, line);
  else
    snprintf(out, bytes, "%s (%s)", said, slash ? slash + 1 : path);
}
