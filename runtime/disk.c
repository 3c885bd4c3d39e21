// Files named by the hash of their keys, and the limit on their bytes. See disk.h.
#include "runtime/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/arena.h"
#include "runtime/files.h"
#include "runtime/hash.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/status.h"

#define MAGIC UINT64_C(0x3130746b65706374)  // names this layout
#define MOST_BYTES ((size_t)64 << 20)  // the largest file that is read

typedef struct head {
  uint64_t magic, key_bytes, data_bytes;
  tc_hash sum;  // of the key and the data
} head;

bool tc_disk_is_on(void) {
  char dir[TC_DIR_BYTES];
  return tc_options_get()->cache_bytes > 0 && tc_files_dir(dir);
}

// Returns false where there is no directory for it.
static bool path_of(const tc_disk *s, const void *key, size_t key_bytes, char out[TC_PATH_BYTES]) {
  char dir[TC_DIR_BYTES];
  tc_hash hash = tc_hash_bytes(key, key_bytes);
  return tc_options_get()->cache_bytes > 0 && tc_files_dir(dir) &&
         snprintf(out, TC_PATH_BYTES, "%s/%s/%016" PRIx64 "%016" PRIx64 ".bin", dir, s->name, hash.hi, hash.lo) <
             TC_PATH_BYTES;
}

static bool is_whole(const char *file, size_t bytes, const head *h) {
  size_t rest = bytes - sizeof *h;
  if (h->magic != MAGIC || h->key_bytes > rest || h->data_bytes != rest - h->key_bytes) return false;
  tc_hash sum = tc_hash_bytes(file + sizeof *h, rest);
  return sum.lo == h->sum.lo && sum.hi == h->sum.hi;
}

char *tc_disk_find(const tc_disk *s, const void *key, size_t key_bytes, size_t *bytes) {
  char path[TC_PATH_BYTES];
  size_t file_bytes;
  head h = {0};
  *bytes = 0;
  char *file = path_of(s, key, key_bytes, path) ? tc_file_read(path, MOST_BYTES, true, &file_bytes) : NULL;
  if (!file) return NULL;
  if (file_bytes >= sizeof h) memcpy(&h, file, sizeof h);
  if (file_bytes < sizeof h || !is_whole(file, file_bytes, &h)) {
    tc_log_line(TC_LOG_WARN, "%s is damaged and is made again", path);
  } else if (h.key_bytes == key_bytes && memcmp(file + sizeof h, key, key_bytes) == 0) {
    memmove(file, file + sizeof h + key_bytes, h.data_bytes);
    file[h.data_bytes] = 0;
    (void)utimensat(AT_FDCWD, path, NULL, 0);  // marks it as used now
    return *bytes = h.data_bytes, file;
  }
  tc_free(file);
  return NULL;
}

// ---- the limit on bytes ----

typedef struct entry {
  char name[64];
  uint64_t bytes;
  struct timespec used;
} entry;

static int older_first(const void *a, const void *b) {
  const struct timespec *x = &((const entry *)a)->used, *y = &((const entry *)b)->used;
  if (x->tv_sec != y->tv_sec) return x->tv_sec < y->tv_sec ? -1 : 1;
  return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

// Returns the directory's files, to be freed; NULL: there are none, or no memory.
static entry *list_files(const char *dir, size_t *n, uint64_t *total) {
  entry *list = NULL;
  uint32_t cap = 0;
  DIR *d = opendir(dir);
  *n = 0, *total = 0;
  for (struct dirent *f; d && (f = readdir(d)) != NULL;) {
    struct stat info;
    if (f->d_name[0] == '.' || strlen(f->d_name) >= sizeof list->name) continue;
    if (fstatat(dirfd(d), f->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) continue;
    if (!TC_GROW(list, cap, (uint32_t)*n + 1)) break;
    entry *e = &list[(*n)++];
    *e = (entry){.bytes = (uint64_t)info.st_size, .used = info.st_mtim};
    strcpy(e->name, f->d_name);
    *total += e->bytes;
  }
  if (d) closedir(d);
  return list;
}

// Removes the least recently used files until a quarter of the cap is free. A single file that fits
// stays. Returns the bytes that are left.
static uint64_t shrink_directory(const char *dir, uint64_t cap) {
  size_t n;
  uint64_t total;
  entry *list = list_files(dir, &n, &total);
  if (total > cap) {
    qsort(list, n, sizeof *list, older_first);
    for (size_t i = 0; i < n && total > (i + 1 < n ? cap - cap / 4 : cap); i++) {
      char path[TC_PATH_BYTES + 64];
      snprintf(path, sizeof path, "%s/%s", dir, list[i].name);
      if (unlink(path) == 0) total -= list[i].bytes;
    }
    tc_log_line(TC_LOG_CACHE, "%s: shrunk to %" PRIu64 " bytes", dir, total);
  }
  tc_free(list);
  return total;
}

// Counts what this process added, so that the directory is not read at every file.
static void count_bytes(tc_disk *s, char *path, uint64_t bytes) {
  uint64_t cap = (uint64_t)tc_options_get()->cache_bytes, before = atomic_load(&s->since);
  while (!atomic_compare_exchange_weak(&s->since, &before,
                                       before == UINT64_MAX || before + bytes > cap / 16 ? 0 : before + bytes))
    continue;
  if (before != UINT64_MAX && before + bytes <= cap / 16) return;
  *strrchr(path, '/') = 0;
  (void)shrink_directory(path, cap);
}

void tc_disk_keep(tc_disk *s, const void *key, size_t key_bytes, const void *data, size_t data_bytes) {
  char path[TC_PATH_BYTES];
  head h = {.magic = MAGIC, .key_bytes = key_bytes, .data_bytes = data_bytes};
  size_t bytes = sizeof h + key_bytes + data_bytes;
  char *file = path_of(s, key, key_bytes, path) && bytes <= MOST_BYTES ? tc_malloc(bytes) : NULL;
  if (!file) return;
  memcpy(file + sizeof h, key, key_bytes);
  memcpy(file + sizeof h + key_bytes, data, data_bytes);
  h.sum = tc_hash_bytes(file + sizeof h, bytes - sizeof h);
  memcpy(file, &h, sizeof h);
  if (tc_file_replace(path, 3, file, bytes))
    count_bytes(s, path, bytes);
  else if (!atomic_exchange(&s->told, true))
    tc_log_line(TC_LOG_WARN, "%s cannot be written (%s): kernels are compiled again by the next process", path,
                strerror(errno));
  tc_free(file);
}
