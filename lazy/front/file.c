// A temporary beside the target, written, forced to the disk and renamed. See file.h.
#include "lazy/front/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_LINKS 40  // as Linux
#define MOST_SUFFIX 40  // of a temporary's name, with the end of a string

// Where path leads through symbolic links; the last target need not exist. The caller's to free;
// NULL with errno.
static char *follow_links(const char *path) {
  char *at = strdup(path), target[PATH_MAX];
  for (int n_links = 0; at; n_links++) {
    ssize_t n = readlink(at, target, sizeof target - 1);
    if (n < 0) return at;  // no link; if there is nothing to write to, opening says so
    const char *slash = strrchr(at, '/');
    int n_dir = slash && target[0] != '/' ? (int)(slash - at + 1) : 0;
    char *next = NULL;
    if (n_links == MAX_LINKS)
      errno = ELOOP;
    else if (asprintf(&next, "%.*s%.*s", n_dir, at, (int)n, target) < 0)
      next = NULL, errno = ENOMEM;
    free(at);
    at = next;
  }
  return NULL;
}

// A new file beside path, named after it as far as names go. old: the file that is there, whose
// permissions it gets, else those any new file gets (mkstemp's would be 0600). -1 on failure;
// out_name is the caller's to free.
static int open_beside(const char *path, const struct stat *old, char **out_name) {
  size_t bytes = strlen(path) + MOST_SUFFIX;
  const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
  char *name = *out_name = malloc(bytes);
  if (name == NULL) return -1;
  static unsigned counter;
  for (int i = 0; i < 100; i++) {
    snprintf(name, bytes, "%.*s%.*s.%ld.%u.tmp", (int)(base - path), path, NAME_MAX - MOST_SUFFIX, base, (long)getpid(),
             __atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED));
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, old ? old->st_mode & 0600 : 0666);
    if (fd >= 0 && old) (void)fchmod(fd, old->st_mode & 07777);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

void tc_new_file_begin(tc_new_file *f, const char *op, const char *path, tc_site site) {
  *f = (tc_new_file){.op = op, .path = path, .site = site, .fd = -1};
  sigset_t over_limit;
  sigemptyset(&over_limit), sigaddset(&over_limit, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &over_limit, &f->mask);
  struct stat info;
  bool there = stat(path, &info) == 0;
  if (there && !S_ISREG(info.st_mode))
    f->fd = open(path, O_WRONLY | O_CLOEXEC);
  else if ((f->target = follow_links(path)) != NULL)
    f->fd = open_beside(f->target, there ? &info : NULL, &f->name);
  if (f->fd < 0) f->why = errno;
}

void tc_new_file_write(tc_new_file *f, const void *data, size_t bytes) {
  for (const char *p = data; bytes > 0 && f->why == 0;) {
    ssize_t k = write(f->fd, p, bytes < (1u << 30) ? bytes : (1u << 30));
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0)
      f->why = k < 0 ? errno : EIO;
    else
      p += k, bytes -= (size_t)k;
  }
}

// What a write past the limit left pending is reported by its errno.
static void restore_signals(const sigset_t *before) {
  sigset_t over_limit;
  sigemptyset(&over_limit), sigaddset(&over_limit, SIGXFSZ);
  while (!sigismember(before, SIGXFSZ) && sigtimedwait(&over_limit, NULL, &(struct timespec){0, 0}) == SIGXFSZ)
    continue;
  pthread_sigmask(SIG_SETMASK, before, NULL);
}

// A rename is on the disk once its directory is. Where a directory cannot be opened or synced the
// file is in its place all the same.
static void sync_directory(char *target) {
  char *slash = strrchr(target, '/');
  if (slash) slash[slash == target] = 0;
  int fd = open(slash ? target : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  (void)fsync(fd);
  close(fd);
}

tc_status tc_new_file_end(tc_new_file *f, tc_status st) {
  if (f->fd >= 0) {
    if (st == TC_OK && f->why == 0 && fsync(f->fd) != 0 && errno != EINVAL) f->why = errno;  // a pipe has no fsync
    if (close(f->fd) != 0 && f->why == 0) f->why = errno;
    if (f->name && st == TC_OK && f->why == 0 && rename(f->name, f->target) != 0) f->why = errno;
    if (f->name && (st != TC_OK || f->why != 0))
      unlink(f->name);
    else if (f->name)
      sync_directory(f->target);
  }
  restore_signals(&f->mask);
  free(f->name);
  free(f->target);
  if (st != TC_OK || f->why == 0) return st;
  return tc_fail(f->why == ENOMEM ? TC_ERR_MEMORY : TC_ERR_IO, f->op, f->site, "%s: %s", f->path, strerror(f->why));
}
