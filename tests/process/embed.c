// tc as a guest (tc_embed, TC_EMBED=1): a process in which it computes has no warning on stderr, no
// thread but those of its runs, none of them pinned, and no file; without it there are such.
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/expect.h"

// What a child found: its stderr is read by the parent.
typedef struct found {
  int status;  // of tc_embed; -1: it was not called
  int threads, pinned;
  int late;  // of tc_embed after the work
} found;

static void work(void) {
  tc_tensor x = tc_full(TC_SHAPE(1000, 100), 2, TC_F32);
  float v = 0;
  for (int i = 0; i < 50; i++) EXPECT_OK(tc_item_f32(tc_sum(tc_exp(tc_sin(x)), TC_ALL, false), &v));
  EXPECT(v > 0, "the sum is %g", (double)v);
}

static void count_threads(found *f) {
  DIR *d = opendir("/proc/self/task");
  for (const struct dirent *e; d && (e = readdir(d)) != NULL;) {
    cpu_set_t mask;
    if (e->d_name[0] == '.') continue;
    f->threads++;
    if (sched_getaffinity((pid_t)atoi(e->d_name), sizeof mask, &mask) == 0 && CPU_COUNT(&mask) == 1) f->pinned++;
  }
  if (d) closedir(d);
}

static _Noreturn void child(const int *report, const int *errors, const char *home, bool calls, const char *threads) {
  found f = {.status = -1, .late = -1};
  dup2(errors[1], STDERR_FILENO);
  setenv("HOME", home, 1), setenv("TC_PROFIL", "1", 1), setenv("TC_NUM_THREADS", threads, 1);
  unsetenv("TC_CACHE_DIR"), unsetenv("XDG_CACHE_HOME"), unsetenv("TC_CACHE_BYTES");
  if (calls) f.status = (int)tc_embed();
  work();
  count_threads(&f);
  f.late = (int)tc_embed();
  ssize_t written = write(report[1], &f, sizeof f);
  (void)written;
  exit(atomic_load(&expect_n_failed) > 0);
}

// Runs a child in a home of its own. Returns the bytes it wrote to stderr; *files: entries of home.
static ssize_t run(bool calls, const char *threads, found *f, int *files) {
  char home[] = "/tmp/tc-embed-XXXXXX", text[4096], command[64];
  int report[2], errors[2], status = 1;
  *files = 0;
  if (!mkdtemp(home) || pipe(report) != 0 || pipe(errors) != 0) return -1;
  pid_t pid = fork();
  if (pid == 0) child(report, errors, home, calls, threads);
  close(report[1]), close(errors[1]);
  EXPECT(read(report[0], f, sizeof *f) == sizeof *f, "the child reported nothing");
  ssize_t bytes = 0;
  for (ssize_t n; (n = read(errors[0], text, sizeof text)) > 0;) bytes += n;
  waitpid(pid, &status, 0);
  EXPECT(status == 0, "the child ended with %d", status);
  close(report[0]), close(errors[0]);
  DIR *d = opendir(home);
  for (const struct dirent *e; d && (e = readdir(d)) != NULL;) *files += e->d_name[0] != '.' || strlen(e->d_name) > 2;
  if (d) closedir(d);
  snprintf(command, sizeof command, "rm -rf %s", home);
  EXPECT(system(command) == 0, "%s stays", home);
  return bytes;
}

int main(void) {
  found f = {0};
  int files;
  unsetenv("TC_EMBED");
  EXPECT(run(true, "1", &f, &files) == 0, "a guest wrote to stderr");
  EXPECT(f.status == TC_OK && f.late == TC_OK, "tc_embed gave %d, again %d", f.status, f.late);
  EXPECT(f.threads == 1, "a guest of one thread has %d", f.threads);
  EXPECT(files == 0, "a guest left %d files in its home", files);

  f = (found){0};
  EXPECT(run(true, "2", &f, &files) == 0 && files == 0, "a guest of two threads is heard or leaves files");
  EXPECT(f.threads <= 2 && f.pinned == 0, "it has %d threads, %d of them pinned", f.threads, f.pinned);

  f = (found){0};
  setenv("TC_EMBED", "1", 1);
  EXPECT(run(false, "1", &f, &files) == 0 && files == 0, "TC_EMBED=1 is heard or leaves files");
  EXPECT(f.threads == 1 && f.late == TC_OK, "TC_EMBED=1 has %d threads, tc_embed gives %d", f.threads, f.late);
  unsetenv("TC_EMBED");

  f = (found){0};
  EXPECT(run(false, "1", &f, &files) > 0, "a misspelt variable is not warned about without embedding");
  EXPECT(f.late == TC_ERR_STATE, "tc_embed after a run gives %d", f.late);
  return expect_done("process-embed");
}
