// Writes perf's files. See perf_files.h.
#include "lowering/codegen/perf_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lowering/codegen/jitdump.h"
#include "lowering/kir/print.h"
#include "runtime/arena.h"
#include "runtime/options.h"

#define PATH_BYTES 4400

static struct {
  pid_t pid;  // whose files these are; 0: nobody's
  tc_perf_kind kind;
  int fd;  // -1: no file, or it could not be written
  uint64_t n_written;
  off_t bytes;  // of whole records
  void *marker;  // a mapping of the dump, by which perf finds it; NULL: none
  size_t marker_bytes;
  char directory[PATH_BYTES], path[PATH_BYTES + 64];
} self = {.fd = -1};

tc_perf_kind tc_perf_wanted(void) {
  const char *perf = tc_options_get()->perf;
  return perf == NULL ? TC_PERF_NOTHING : strcmp(perf, "map") == 0 ? TC_PERF_MAP : TC_PERF_JITDUMP;
}

bool tc_perf_wants_lines(void) {
  return tc_perf_wanted() == TC_PERF_JITDUMP;
}

bool tc_perf_keeps_addresses(void) {
  return tc_perf_wanted() == TC_PERF_MAP;
}

void tc_perf_close(void) {
  if (self.fd >= 0) close(self.fd);
  if (self.marker != NULL) munmap(self.marker, self.marker_bytes);
  self.fd = -1;
  self.marker = NULL;
}

static bool give_up(tc_perf_why *why, const char *path, const char *reason) {
  snprintf(why->text, sizeof why->text, "TC_PERF: %.300s: %s; perf gets no more names from this process", path, reason);
  tc_perf_close();
  return false;
}

static bool write_all(int fd, const void *data, size_t bytes) {
  for (const char *at = data; bytes > 0;) {
    ssize_t n = write(fd, at, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    bytes -= (size_t)n;
  }
  return true;
}

// Adds a whole record, or nothing.
static bool append(const void *data, size_t bytes, tc_perf_why *why) {
  if (write_all(self.fd, data, bytes)) {
    self.bytes += (off_t)bytes;
    return true;
  }
  int error = errno;
  if (self.kind == TC_PERF_JITDUMP && ftruncate(self.fd, self.bytes) != 0) error = errno;
  return give_up(why, self.path, strerror(error));
}

// Whether a file is older than this process, so another one's that had its number.
static bool is_stale(const struct stat *s) {
  char text[1024] = "";
  struct timespec now, since_boot;
  uint64_t ticks = 0;
  int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  // The name of the program, in parentheses, may have spaces; the 20th number behind it is the
  // start.
  const char *at = n > 0 ? strrchr(text, ')') : NULL;
  for (int field = 2; at != NULL && field < 22; field++) at = strchr(at + 1, ' ');
  if (at == NULL) return false;
  ticks = strtoull(at, NULL, 10);
  clock_gettime(CLOCK_REALTIME, &now);
  clock_gettime(CLOCK_BOOTTIME, &since_boot);
  int64_t age = since_boot.tv_sec - (int64_t)(ticks / (uint64_t)sysconf(_SC_CLK_TCK));
  return s->st_mtim.tv_sec + 1 < now.tv_sec - age;
}

// Other JITs of the process may write into the map, too: lines are appended.
static bool open_map(tc_perf_why *why) {
  struct stat s;
  snprintf(self.path, sizeof self.path, "/tmp/perf-%ld.map", (long)getpid());
  self.fd = open(self.path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (self.fd < 0 || fstat(self.fd, &s) != 0) return give_up(why, self.path, strerror(errno));
  if (!S_ISREG(s.st_mode) || s.st_uid != geteuid()) return give_up(why, self.path, "it is not this user's file");
  if (s.st_size > 0 && is_stale(&s) && ftruncate(self.fd, 0) != 0) return give_up(why, self.path, strerror(errno));
  return true;
}

// perf finds the dump by an executable mapping of a file of this name.
static bool open_dump(tc_perf_why *why) {
  const char *above = tc_options_get()->perf_dir;
  char real[PATH_MAX];
  struct stat s;
  tc_jitdump_head head;
  if (realpath(above != NULL ? above : ".", real) == NULL)
    return give_up(why, above != NULL ? above : ".", strerror(errno));
  snprintf(self.directory, sizeof self.directory, "%.4200s/tc-perf-%ld", real, (long)getpid());
  if (mkdir(self.directory, 0755) != 0 && errno != EEXIST) return give_up(why, self.directory, strerror(errno));
  if (lstat(self.directory, &s) != 0 || !S_ISDIR(s.st_mode) || s.st_uid != geteuid())
    return give_up(why, self.directory, "it is not this user's directory");
  snprintf(self.path, sizeof self.path, "%s/jit-%ld.dump", self.directory, (long)getpid());
  self.fd = open(self.path, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (self.fd < 0) return give_up(why, self.path, strerror(errno));
  tc_jitdump_write_head(&head);
  if (!append(&head, sizeof head, why)) return false;
  self.marker_bytes = (size_t)sysconf(_SC_PAGESIZE);
  void *marker = mmap(NULL, self.marker_bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE, self.fd, 0);
  if (marker == MAP_FAILED) return give_up(why, self.path, "it cannot be mapped executable, which perf needs");
  self.marker = marker;
  return true;
}

bool tc_perf_open(tc_perf_why *why) {
  tc_perf_kind kind = tc_perf_wanted();
  if (self.pid == getpid() && self.kind == kind) return false;
  tc_perf_close();
  self.pid = getpid();
  self.kind = kind;
  self.n_written = 0;
  self.bytes = 0;
  return kind == TC_PERF_MAP ? open_map(why) : open_dump(why);
}

void tc_perf_write_source(tc_loaded_code *c, const tc_kir *kir, tc_perf_why *why) {
  char path[PATH_BYTES + 128];
  if (self.fd < 0 || self.kind != TC_PERF_JITDUMP) return;
  snprintf(path, sizeof path, "%s/%s.kir", self.directory, c->name);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
  FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
  if (out == NULL) {
    (void)give_up(why, path, strerror(errno));
    if (fd >= 0) close(fd);
    return;
  }
  tc_kir_print(kir, out);
  bool failed = fflush(out) != 0 || ferror(out) != 0;
  int error = errno;
  if (fclose(out) != 0 || failed) {
    (void)give_up(why, path, strerror(failed ? error : errno));
    return;
  }
  size_t bytes = strlen(path) + 1;
  c->source = tc_malloc(bytes);
  if (c->source != NULL) memcpy(c->source, path, bytes);
}

void tc_perf_write(const tc_loaded_code *c, tc_perf_why *why) {
  if (self.fd < 0) return;
  if (self.kind == TC_PERF_MAP) {
    char line[128];
    int n = snprintf(line, sizeof line, "%" PRIxPTR " %zx %s\n", (uintptr_t)c->at, c->bytes, c->name);
    (void)append(line, (size_t)n, why);
    return;
  }
  size_t bytes = 0;
  void *record = tc_jitdump_make_records(c, self.n_written++, &bytes);
  if (record == NULL)
    (void)give_up(why, self.path, "no memory for a record");
  else
    (void)append(record, bytes, why);
  tc_free(record);
}
