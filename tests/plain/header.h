// A vendor's CUDA headers, where they are installed, and whether the host's compiler takes a source beside them. Tests only.
#ifndef TC_TESTS_HEADER_H
#define TC_TESTS_HEADER_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The compiler's option that finds the header, in out; false, with a line that says so: it is not installed.
static inline bool header_found(const char *header, char *out, size_t bytes) {
  const char *home = getenv("CUDA_HOME");
  char file[512];
  snprintf(out, bytes, "-I%s/include", home ? home : "/usr/local/cuda");
  snprintf(file, sizeof file, "%s/%s", out + 2, header);
  if (access(file, R_OK) == 0) return true;
  printf("skipped: no %s\n", file);
  return false;
}

// Both texts as one source. quiet: it should not compile, and why is of no interest.
static inline bool header_compiles(const char *source, const char *more, const char *include, bool quiet) {
  char path[] = "/tmp/tc-header-XXXXXX", command[640];
  int fd = mkstemp(path);
  if (fd < 0 || write(fd, source, strlen(source)) < 0 || write(fd, more, strlen(more)) < 0) return false;
  close(fd);
  snprintf(command, sizeof command, "cc -std=gnu11 -D_GNU_SOURCE -fsyntax-only -w -I. -Iinclude %s -x c %s%s", include, path,
           quiet ? " 2>/dev/null" : "");
  int status = system(command);
  unlink(path);
  return status == 0;
}

#endif
