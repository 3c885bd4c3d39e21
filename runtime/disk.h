// Compiled code kept on disk for later processes: files <directory>/<name>/<hash of the key>.bin
// under the directory of runtime/files.h, each a head, then the key, which is compared, and the
// data.
//
// A file that is damaged, of another key or not this user's own is as none; one that cannot be
// written is a line in the log. What was used least recently goes when the files of a name together
// are larger than TC_CACHE_BYTES. Threads: thread-safe, without locks; processes may share the
// directory, for files are replaced whole.
#ifndef TC_RUNTIME_DISK_H
#define TC_RUNTIME_DISK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Static, one for each kind of data.
typedef struct tc_disk {
  const char *name;  // of its directory
  atomic_uint_least64_t since;  // bytes that this process added since it last looked how many there are
  atomic_bool told;  // that a file cannot be written
} tc_disk;

#define TC_DISK(its_name) {.name = (its_name), .since = UINT64_MAX}  // so that the first file makes it look

// Whether anything may be kept: TC_CACHE_BYTES is not 0, and there is a place for a directory.
bool tc_disk_is_on(void);
// What was kept under the key, with a zero behind it, to be freed with tc_free; NULL: nothing. key
// is all that the data depends on.
char *tc_disk_find(const tc_disk *s, const void *key, size_t key_bytes, size_t *bytes);
void tc_disk_keep(tc_disk *s, const void *key, size_t key_bytes, const void *data, size_t bytes);

#endif
