// A vendor's headers, where they are installed, and whether the host's compiler takes a source
// beside them. Tests only.
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The compiler's option that finds the header in one of these places, in out; false, with a line
// that says so: it is not installed.
static inline bool header_found_in(const char *const *home, size_t n_home, const char *header, char *out,
                                   size_t bytes) {
  char file[512];
  for (size_t i = 0; i < n_home; i++) {
    snprintf(out, bytes, "-I%s/include", home[i] ? home[i] : "");
    snprintf(file, sizeof file, "%s/%s", out + 2, header);
    if (home[i] && access(file, R_OK) == 0) return true;
  }
  printf("skipped: no %s\n", file);
  return false;
}

// Of CUDA's toolkit.
static inline bool header_found(const char *header, char *out, size_t bytes) {
  const char *home = getenv("CUDA_HOME");
  return header_found_in(&(const char *){home ? home : "/usr/local/cuda"}, 1, header, out, bytes);
}

// Of ROCm, or of a distribution's packages.
static inline bool header_found_of_rocm(const char *header, char *out, size_t bytes) {
  return header_found_in((const char *[]){getenv("ROCM_PATH"), "/opt/rocm", "/usr"}, 3, header, out, bytes);
}

// Both texts as one source, of the language that this compiler is called for. quiet: it should not
// compile, and why is of no interest.
static inline bool header_compiles_by(const char *compiler, const char *source, const char *more, const char *include,
                                      bool quiet) {
  char path[] = "/tmp/tc-header-XXXXXX", command[1024];
  int fd = mkstemp(path);
  if (fd < 0 || write(fd, source, strlen(source)) < 0 || write(fd, more, strlen(more)) < 0) return false;
  close(fd);
  snprintf(command, sizeof command, "%s -fsyntax-only -w -I. -Iinclude %s %s%s", compiler, include, path,
           quiet ? " 2>/dev/null" : "");
  int status = system(command);
  unlink(path);
  return status == 0;
}

static inline bool header_compiles(const char *source, const char *more, const char *include, bool quiet) {
  return header_compiles_by("cc -std=gnu11 -D_GNU_SOURCE -x c", source, more, include, quiet);
}
