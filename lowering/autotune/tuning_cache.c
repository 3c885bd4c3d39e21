// A table of choices, and its file. See tuning_cache.h.
// It is no tc_lru: a choice is kept until the process ends, so none is evicted.
#include "lowering/autotune/tuning_cache.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lowering/jit/compiler.h"
#include "runtime/arena.h"
#include "runtime/files.h"
#include "runtime/fork.h"
#include "runtime/hash.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/status.h"
#include "runtime/topology.h"

// of the file; raise it too when kernels change so much that tilings should be timed anew
#define FORMAT 2
#define MOST_ENTRIES 8192
#define MOST_DBS 16
#define MOST_BYTES (4 << 20)  // most bytes of a file that are read

typedef struct entry {
  uint64_t db;  // hash of the database's head
  char key[TC_TUNING_KEY], value[TC_TUNING_VALUE];
  bool made;  // true: made by this process, so it never changes
} entry;

static struct {
  pthread_mutex_t lock;
  entry *at;
  uint32_t n, cap;
  uint64_t read[MOST_DBS];  // databases whose files were read
  int n_read;
  bool told;  // true: it was logged that a file cannot be written
  bool told_full;
  uint64_t n_tuned, n_timed;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER};
TC_FORK_SAFE(&self.lock, 4)

static uint64_t name_of(const tc_tuning_db *db) {
  return tc_hash_bytes(db->head, strlen(db->head)).lo;
}

// pre: locked.
static entry *find_locked(uint64_t db, const char *key) {
  for (uint32_t i = 0; i < self.n; i++)
    if (self.at[i].db == db && strcmp(self.at[i].key, key) == 0) return &self.at[i];
  return NULL;
}

// pre: locked; the key fits. A new entry. NULL: the table is full, or no memory.
static entry *add_locked(uint64_t db, const char *key, size_t length) {
  if (self.n == MOST_ENTRIES) return NULL;
  if (!TC_GROW(self.at, self.cap, self.n + 1)) return NULL;
  entry *c = &self.at[self.n++];
  *c = (entry){.db = db};
  memcpy(c->key, key, length);
  return c;
}

// pre: locked. Warns once that the table is full.
static void tell_full_locked(void) {
  if (!self.told_full)
    tc_log_line(TC_LOG_WARN,
                "there is no room for more than %d choices: what TC_AUTOTUNE finds beyond them is found again",
                MOST_ENTRIES);
  self.told_full = true;
}

// ---- the file ----

// The file's path; "" if there is no cache directory.
static void find_path(const tc_tuning_db *db, char path[TC_PATH_BYTES]) {
  char dir[TC_DIR_BYTES];
  *path = 0;
  if (tc_files_dir(dir)) (void)snprintf(path, TC_PATH_BYTES, "%s/%s-%016" PRIx64 ".txt", dir, db->stem, name_of(db));
}

// pre: locked. Parses a line "key = value". False: it is malformed. The first value of a key holds.
// A line that does not fit in the table is skipped.
static bool take_line(const tc_tuning_db *db, char *line) {
  char *equals = strstr(line, " = "), *value = equals ? equals + 3 : NULL;
  if (!equals || equals - line >= TC_TUNING_KEY || strlen(value) >= TC_TUNING_VALUE || !db->valid(value)) return false;
  *equals = 0;
  if (find_locked(name_of(db), line)) return true;
  entry *c = add_locked(name_of(db), line, (size_t)(equals - line));
  if (c)
    memcpy(c->value, value, strlen(value) + 1);
  else
    tell_full_locked();
  return true;
}

// pre: locked. Adds the file's choices that this process does not have.
static void read_locked(const tc_tuning_db *db, const char *path) {
  size_t bytes = 0, n_bad = 0;
  uint32_t n = self.n;
  char *text = *path ? tc_file_read(path, MOST_BYTES, false, &bytes) : NULL;
  bool ours = false;
  if (!text) return;
  for (char *line = text, *end; (end = memchr(line, '\n', bytes - (size_t)(line - text))) != NULL; line = end + 1) {
    *end = 0;
    if (line == text) {
      ours = strcmp(line, db->head) == 0;
      if (!ours) break;
    } else {
      n_bad += !take_line(db, line);
    }
  }
  tc_free(text);
  if (!ours) tc_log_line(TC_LOG_TUNE, "%s is not of this machine and version, and is ignored", path);
  if (n_bad) tc_log_line(TC_LOG_WARN, "%s: %zu lines are no choices and were ignored", path, n_bad);
  tc_log_line(TC_LOG_TUNE, "%s: %u choices read", path, self.n - n);
}

// pre: locked. Writes the file, with what other processes wrote meanwhile. Of two that write at
// once one may lose its last choice, which is then measured again.
static void write_locked(const tc_tuning_db *db, const char *path) {
  char *text = NULL;
  size_t bytes = 0;
  if (!*path) return;
  read_locked(db, path);
  FILE *to = open_memstream(&text, &bytes);
  if (!to) return;
  fprintf(to, "%s\n", db->head);
  for (uint32_t i = 0; i < self.n; i++)
    if (self.at[i].db == name_of(db)) fprintf(to, "%s = %s\n", self.at[i].key, self.at[i].value);
  bool whole = fclose(to) == 0;
  if (whole && !tc_file_replace(path, 2, text, bytes) && !self.told) {
    tc_log_line(TC_LOG_WARN, "%s cannot be written (%s): what TC_AUTOTUNE finds ends with this process", path,
                strerror(errno));
    self.told = true;
  }
  free(text);
}

// ---- databases ----

// pre: locked. Reads each database's file once; one beyond MOST_DBS at every lookup.
static void read_once(const tc_tuning_db *db, const char *path) {
  uint64_t name = name_of(db);
  for (int i = 0; i < self.n_read; i++)
    if (self.read[i] == name) return;
  if (self.n_read < MOST_DBS) self.read[self.n_read++] = name;
  read_locked(db, path);
}

bool tc_tuning_db_find(const tc_tuning_db *db, const char *key, char value[TC_TUNING_VALUE]) {
  char path[TC_PATH_BYTES];
  find_path(db, path);
  pthread_mutex_lock(&self.lock);
  read_once(db, path);
  const entry *c = find_locked(name_of(db), key);
  if (c) memcpy(value, c->value, sizeof c->value);
  pthread_mutex_unlock(&self.lock);
  return c != NULL;
}

void tc_tuning_db_put(const tc_tuning_db *db, const char *key, char value[TC_TUNING_VALUE], int n_timed) {
  char path[TC_PATH_BYTES];
  find_path(db, path);
  pthread_mutex_lock(&self.lock);
  read_once(db, path);
  self.n_tuned++, self.n_timed += (uint64_t)n_timed;
  entry *c = find_locked(name_of(db), key);
  if (c && c->made) {
    memcpy(value, c->value, sizeof c->value);
  } else if (c || (c = add_locked(name_of(db), key, strlen(key))) != NULL) {
    memcpy(c->value, value, sizeof c->value);
    c->made = true;
    write_locked(db, path);
  } else {
    tell_full_locked();
  }
  pthread_mutex_unlock(&self.lock);
}

// ---- tilings of the CPU's matmuls ----

static bool read_tiling(const char *text, tc_gemm_tiling *tiling) {
  const char *at = text;
  for (int i = 0; i < TC_N_TILING; i++) {
    char *end;
    errno = 0;
    long long value = strtoll(at, &end, 10);
    if (end == at || errno != 0 || value < 0) return false;
    tiling->of[i] = value, at = end;
  }
  return *at == 0;
}

static bool is_tiling(const char *text) {
  tc_gemm_tiling tiling;
  return read_tiling(text, &tiling);
}

// The compiler's sentence names the processor and its vector width.
static tc_tuning_db tilings(void) {
  const tc_topology *t = tc_topology_get();
  tc_tuning_db db = {.stem = "products", .valid = is_tiling};
  snprintf(db.head, sizeof db.head, "tc %s products %d: %s; caches %zu %zu %zu", tc_version_text(), FORMAT,
           tc_compiler_sentence(), t->l1_bytes, t->l2_bytes, t->l3_bytes);
  return db;
}

bool tc_tuning_cache_find(const char *key, tc_gemm_tiling *tiling) {
  tc_tuning_db db = tilings();
  char value[TC_TUNING_VALUE];
  return tc_tuning_db_find(&db, key, value) && read_tiling(value, tiling);
}

void tc_tuning_cache_put(const char *key, tc_gemm_tiling *tiling, int n_timed) {
  tc_tuning_db db = tilings();
  char value[TC_TUNING_VALUE] = "";
  size_t n = 0;
  for (int i = 0; i < TC_N_TILING; i++)
    n += (size_t)snprintf(value + n, sizeof value - n, i ? " %" PRId64 : "%" PRId64, tiling->of[i]);
  tc_tuning_db_put(&db, key, value, n_timed);
  (void)read_tiling(value, tiling);
}

void tc_tuning_cache_clear(void) {
  pthread_mutex_lock(&self.lock);
  tc_free(self.at);
  self.at = NULL, self.n = self.cap = 0, self.n_read = 0, self.told = false;
  pthread_mutex_unlock(&self.lock);
}

void tc_tuning_cache_stats(tc_cache_info *info) {
  pthread_mutex_lock(&self.lock);
  info->n_tuned = self.n_tuned, info->cuts_timed = self.n_timed, info->n_choices = self.n;
  pthread_mutex_unlock(&self.lock);
}

static void clear_at_exit(void) __attribute__((destructor));
static void clear_at_exit(void) {
  if (tc_frees_at_exit()) tc_tuning_cache_clear();
}
