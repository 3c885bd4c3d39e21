// Files kept for later processes below TC_CACHE_DIR. A file is read whole and replaced whole by
// renaming, so a reader sees the old one or the new one.
// Invariants: a file that cannot be read or written does no harm; the caller goes on without it.
// Threads: thread-safe.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define TC_DIR_BYTES 4352  // the longest directory
#define TC_PATH_BYTES 4608  // the longest path

// Writes the directory: TC_CACHE_DIR, $XDG_CACHE_HOME/tc or ~/.cache/tc. Returns false where none
// is available. Makes nothing.
bool tc_files_dir(char out[TC_DIR_BYTES]);
// Returns the file's bytes with a zero byte behind them, to be freed with tc_free. NULL: it cannot
// be read or is larger than `most` bytes.
// own: accepts only a file that belongs to this user and that no other user may write.
void *tc_file_read(const char *path, size_t most, bool own, size_t *bytes);
// Writes the file; false with errno. Makes up to n_above missing directories above it with mode
// 0700.
bool tc_file_replace(const char *path, int n_above, const void *data, size_t bytes);
