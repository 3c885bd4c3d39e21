// Choices in a table, and its file. See choices.h.
#include "lowering/choices.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lowering/kernel.h"
#include "runtime/arena.h"
#include "runtime/files.h"
#include "runtime/fork.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/status.h"
#include "runtime/topology.h"

#define FORMAT 1  // of the file. Another one, too, whenever kernels change so much that cuts should be timed anew
#define MOST_CHOICES 8192
#define MOST_BYTES (4 << 20)  // of a file that is read

typedef struct choice {
  char key[TC_CHOICE_KEY];
  tc_cut cut;
  bool made;  // by this process, and so for good
} choice;

static struct {
  pthread_mutex_t lock;
  choice *at;
  size_t n, cap;
  bool read, told;  // told: that the file cannot be written
  uint64_t n_tuned, n_timed;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER};
TC_FORK_SAFE(&self.lock, 4)

// pre: locked.
static choice *find_locked(const char *key) {
  for (size_t i = 0; i < self.n; i++)
    if (strcmp(self.at[i].key, key) == 0) return &self.at[i];
  return NULL;
}

// pre: locked. A new one, or NULL: no room.
static choice *add_locked(const char *key, size_t length) {
  if (self.n == MOST_CHOICES || length >= TC_CHOICE_KEY) return NULL;
  if (self.n == self.cap) {
    size_t cap = TC_MAX_OF(2 * self.cap, (size_t)64);
    choice *at = tc_realloc(self.at, cap * sizeof *at);
    if (!at) return NULL;
    self.at = at, self.cap = cap;
  }
  choice *c = &self.at[self.n++];
  *c = (choice){.made = false};
  memcpy(c->key, key, length);
  return c;
}

// ---- the file ----

// What a choice holds for beside its key. The compiler's sentence has the processor and its vectors.
static void write_head(char *out, size_t bytes) {
  const tc_topology *t = tc_topology_get();
  snprintf(out, bytes, "tc %s products %d: %s; caches %zu %zu %zu", tc_version(), FORMAT, tc_kernel_compiler(), t->l1_bytes, t->l2_bytes,
           t->l3_bytes);
}

// The file's name, "" where there is no place for it.
static void find_path(const char *head, char path[TC_PATH_BYTES]) {
  tc_hash hash = tc_hash_bytes(head, strlen(head));
  char dir[TC_DIR_BYTES];
  *path = 0;
  if (tc_files_dir(dir)) (void)snprintf(path, TC_PATH_BYTES, "%s/products-%016" PRIx64 ".txt", dir, hash.lo);
}

// pre: locked. A line "key = numbers"; false if it is not one. The first that has a key holds.
static bool take_line(char *line) {
  char *equals = strstr(line, " = "), *at = equals ? equals + 3 : NULL;
  tc_cut cut;
  if (!equals) return false;
  for (int i = 0; i < TC_N_CUT; i++) {
    char *end;
    errno = 0;
    long long value = strtoll(at, &end, 10);
    if (end == at || errno != 0 || value < 0) return false;
    cut.of[i] = value, at = end;
  }
  if (*at != 0) return false;
  *equals = 0;
  if (find_locked(line)) return true;
  choice *c = add_locked(line, (size_t)(equals - line));
  if (c) c->cut = cut;
  return c != NULL;
}

// pre: locked. Takes over what the file says and this process does not know.
static void read_locked(const char *path, const char *head) {
  size_t bytes = 0, n = self.n, n_bad = 0;
  char *text = *path ? tc_file_read(path, MOST_BYTES, false, &bytes) : NULL;
  bool ours = false;
  if (!text) return;
  for (char *line = text, *end; (end = memchr(line, '\n', bytes - (size_t)(line - text))) != NULL; line = end + 1) {
    *end = 0;
    if (line == text) {
      ours = strcmp(line, head) == 0;
      if (!ours) break;
    } else {
      n_bad += !take_line(line);
    }
  }
  tc_free(text);
  if (!ours) tc_log_line(TC_LOG_TUNE, "%s is not of this machine and version, and is ignored", path);
  if (n_bad) tc_log_line(TC_LOG_WARN, "%s: %zu lines are no choices and were ignored", path, n_bad);
  tc_log_line(TC_LOG_TUNE, "%s: %zu choices read", path, self.n - n);
}

// pre: locked. With what other processes wrote meanwhile. Two that write at once may lose one's last choice, which is then made again.
static void write_locked(const char *path, const char *head) {
  char *text = NULL;
  size_t bytes = 0;
  if (!*path) return;
  read_locked(path, head);
  FILE *to = open_memstream(&text, &bytes);
  if (!to) return;
  fprintf(to, "%s\n", head);
  for (size_t i = 0; i < self.n; i++) {
    fprintf(to, "%s =", self.at[i].key);
    for (int k = 0; k < TC_N_CUT; k++) fprintf(to, " %" PRId64, self.at[i].cut.of[k]);
    fputc('\n', to);
  }
  bool whole = fclose(to) == 0;
  if (whole && !tc_file_replace(path, 2, text, bytes) && !self.told) {
    tc_log_line(TC_LOG_WARN, "%s cannot be written (%s): what TC_AUTOTUNE finds ends with this process", path, strerror(errno));
    self.told = true;
  }
  free(text);
}

// ---- the interface ----

static void choices_read(const char *path, const char *head) {
  if (!self.read) read_locked(path, head);
  self.read = true;
}

bool tc_choices_find(const char *key, tc_cut *cut) {
  char head[1024], path[TC_PATH_BYTES];
  write_head(head, sizeof head);
  find_path(head, path);
  pthread_mutex_lock(&self.lock);
  choices_read(path, head);
  const choice *c = find_locked(key);
  if (c) *cut = c->cut;
  pthread_mutex_unlock(&self.lock);
  return c != NULL;
}

void tc_choices_keep(const char *key, tc_cut *cut, int n_timed) {
  char head[1024], path[TC_PATH_BYTES];
  write_head(head, sizeof head);
  find_path(head, path);
  pthread_mutex_lock(&self.lock);
  choices_read(path, head);
  self.n_tuned++, self.n_timed += (uint64_t)n_timed;
  choice *c = find_locked(key);
  if (c && c->made) {
    *cut = c->cut;
  } else if (c || (c = add_locked(key, strlen(key))) != NULL) {
    c->cut = *cut, c->made = true;
    write_locked(path, head);
  }
  pthread_mutex_unlock(&self.lock);
}

void tc_choices_clear(void) {
  pthread_mutex_lock(&self.lock);
  tc_free(self.at);
  self.at = NULL, self.n = self.cap = 0, self.read = self.told = false;
  pthread_mutex_unlock(&self.lock);
}

void tc_choices_stats(tc_cache_info *info) {
  pthread_mutex_lock(&self.lock);
  info->n_tuned = self.n_tuned, info->cuts_timed = self.n_timed, info->n_choices = self.n;
  pthread_mutex_unlock(&self.lock);
}

static void clear_at_exit(void) __attribute__((destructor));
static void clear_at_exit(void) {
  tc_choices_clear();
}
