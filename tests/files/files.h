// Files of the tests of archives: a directory of their own, whole files in memory, and what a build
// without a library cannot do.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <tc/io.h>
#include <unistd.h>

typedef struct file_bytes {
  unsigned char *at;
  size_t n;
} file_bytes;

// A path in a new directory, which files_fini removes with what a test called the same. Valid until
// the next 32 calls.
static char files_dir[64];
static inline const char *files_path(const char *name) {
  static char path[32][128];
  static int k;
  if (!files_dir[0]) {
    snprintf(files_dir, sizeof files_dir, "/tmp/tc-test-XXXXXX");
    if (!mkdtemp(files_dir)) perror(files_dir), exit(1);
  }
  k = (k + 1) % 32;
  snprintf(path[k], sizeof path[k], "%s/%s", files_dir, name);
  return path[k];
}

// How many files are left in the directory, which goes with them.
static inline int files_fini(void) {
  char command[160];
  int n = 0;
  snprintf(command, sizeof command, "ls %s | wc -l; rm -r %s", files_dir, files_dir);
  FILE *f = files_dir[0] ? popen(command, "r") : NULL;
  if (f && fscanf(f, "%d", &n) != 1) n = -1;
  if (f) pclose(f);
  files_dir[0] = 0;
  return n;
}

static inline file_bytes file_read(const char *path) {
  file_bytes b = {0};
  FILE *f = fopen(path, "rb");
  if (!f) return b;
  fseek(f, 0, SEEK_END);
  b.n = (size_t)ftell(f);
  rewind(f);
  b.at = malloc(b.n + 1);
  if (fread(b.at, 1, b.n, f) != b.n) perror(path), exit(1);
  fclose(f);
  return b;
}

// The path of a file with these bytes, of which there is one at a time. It has no disk under it:
// tests open tens of thousands.
static inline const char *file_in_memory(const void *bytes, size_t n) {
  static int fd = -1;
  static char path[32];
  if (fd < 0) fd = memfd_create("test", MFD_CLOEXEC);
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, bytes, n, 0) != (ssize_t)n) perror(path), exit(1);
  return path;
}

// Whether this process has the file, or a part of it, in its memory.
static inline bool is_mapped(const char *path) {
  char line[512];
  bool found = false;
  FILE *f = fopen("/proc/self/maps", "r");
  while (f && fgets(line, sizeof line, f)) found = found || strstr(line, path);
  if (f) fclose(f);
  return found;
}

// Whether the library has what safetensors and .npz files need; if not, it must say so.
static inline bool has_library(tc_archive *(*open)(const char *path, tc_site site)) {
  tc_archive_close(open("/nonexistent", 0));
  bool has = tc_last_error()->status == TC_ERR_IO;
  if (!has) printf("%s\n", tc_last_error()->message);
  if (!has && (tc_last_error()->status != TC_ERR_STATE || !strstr(tc_last_error()->message, "built without lib")))
    exit(1);
  tc_clear_error();
  return has;
}
