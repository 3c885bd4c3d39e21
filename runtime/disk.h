// Compiled code kept on disk for later processes, in files <directory>/<name>/<hash of the key>.bin
// below the directory of runtime/files.h. A file holds a head, then the key, then the data.
// In: a key, all that the data depends on. Out: the data kept under it.
// Invariants: the key is compared before the data is used. A damaged file, one of another key, and
// one of another user count as absent. A file that cannot be written is a line in the log. If the
// files of a name exceed TC_CACHE_BYTES together, the least recently used ones are removed.
// Threads: thread-safe, without locks. Processes may share the directory, because files are
// replaced whole.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A cache on disk: static, one for each kind of data.
typedef struct tc_disk {
  const char *name;  // of its directory
  atomic_uint_least64_t since;  // bytes that this process added since it last read the directory
  atomic_bool told;  // true: the log has said that a file cannot be written
} tc_disk;

// UINT64_MAX: the first file makes it read the directory
#define TC_DISK(its_name) {.name = (its_name), .since = UINT64_MAX}

// Returns whether files may be kept: TC_CACHE_BYTES is not 0, and a directory is available.
bool tc_disk_is_on(void);
// Returns the data kept under the key with a zero byte behind it, to be freed with tc_free; NULL:
// there is none. key is all that the data depends on.
char *tc_disk_find(const tc_disk *s, const void *key, size_t key_bytes, size_t *bytes);
void tc_disk_keep(tc_disk *s, const void *key, size_t key_bytes, const void *data, size_t bytes);
