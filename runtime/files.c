// Reading and replacing whole files, and the directory they are in. See files.h.
#include "runtime/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/arena.h"
#include "runtime/options.h"
#include "runtime/write_whole.h"

bool tc_files_dir(char out[TC_DIR_BYTES]) {
  const tc_options *o = tc_options_get();
  *out = 0;
  // The XDG specification ignores relative paths. Room is left for file names.
  if (o->cache_dir)
    snprintf(out, TC_DIR_BYTES, "%s", o->cache_dir);
  else if (o->xdg_cache_home && o->xdg_cache_home[0] == '/')
    snprintf(out, TC_DIR_BYTES, "%s/tc", o->xdg_cache_home);
  else if (o->home && o->home[0] == '/')
    snprintf(out, TC_DIR_BYTES, "%s/.cache/tc", o->home);
  return *out != 0;
}

// Makes the n_above nearest directories above the file, outermost first. Returns 0, or the errno of
// the first one that could not be made: later ones would only report that it is absent.
static int make_directories(const char *path, int n_above) {
  char above[TC_PATH_BYTES];
  const char *slash = strrchr(path, '/');
  if (n_above == 0 || !slash || slash == path || slash - path >= (ptrdiff_t)sizeof above) return 0;
  memcpy(above, path, (size_t)(slash - path));
  above[slash - path] = 0;
  int why = make_directories(above, n_above - 1);
  if (mkdir(above, 0700) == 0 || errno == EEXIST) return 0;
  return why ? why : errno;
}

void *tc_file_read(const char *path, size_t most, bool own, size_t *bytes) {
  struct stat info;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe is not a file of ours, and opening it must not wait
  char *data = NULL;
  *bytes = 0;
  if (fd < 0) return NULL;
  bool good = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size >= 0 && (size_t)info.st_size <= most;
  if (good && own) good = info.st_uid == geteuid() && !(info.st_mode & (S_IWGRP | S_IWOTH));
  if (good) data = tc_malloc((size_t)info.st_size + 1);
  while (data && *bytes < (size_t)info.st_size) {
    ssize_t n = read(fd, data + *bytes, (size_t)info.st_size - *bytes);
    if (n <= 0 && !(n < 0 && errno == EINTR)) break;
    *bytes += n > 0 ? (size_t)n : 0;
  }
  close(fd);
  if (data) data[*bytes] = 0;
  return data;
}

bool tc_file_replace(const char *path, int n_above, const void *data, size_t bytes) {
  static atomic_uint counter;
  char name[TC_PATH_BYTES + 64];
  snprintf(name, sizeof name, "%s.%ld.%u.tmp", path, (long)getpid(), atomic_fetch_add(&counter, 1));
  int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0 && errno == ENOENT) {
    int why = make_directories(path, n_above);
    fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && why) errno = why;
  }
  if (fd < 0) return false;
  bool done = tc_write_whole(fd, data, bytes);
  int why = errno;
  if (close(fd) != 0 && done) done = false, why = errno;
  if (done && rename(name, path) != 0) done = false, why = errno;
  if (!done) (void)unlink(name);
  errno = why;
  return done;
}
