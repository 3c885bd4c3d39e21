// Files that are kept for later processes, under TC_CACHE_DIR: read whole, and replaced whole by
// renaming, so that who reads sees the former or the new one.
// No file can do harm: what cannot be read or written is the caller's to pass over. Threads:
// thread-safe.
#ifndef TC_RUNTIME_FILES_H
#define TC_RUNTIME_FILES_H

#include <stdbool.h>
#include <stddef.h>

#define TC_DIR_BYTES 4352  // of the directory
#define TC_PATH_BYTES 4608  // of any path here

// The directory: TC_CACHE_DIR, $XDG_CACHE_HOME/tc or ~/.cache/tc; false where there is no place for
// one. Nothing is made.
bool tc_files_dir(char out[TC_DIR_BYTES]);
// The file's bytes with a zero behind them, to be freed with tc_free; NULL: none of at most `most`
// bytes that can be read.
// own: only a file of this user's that no other may write.
void *tc_file_read(const char *path, size_t most, bool own, size_t *bytes);
// Writes it, making directories above it that are missing with mode 0700, n_above of them at most;
// false with errno.
bool tc_file_replace(const char *path, int n_above, const void *data, size_t bytes);

#endif
