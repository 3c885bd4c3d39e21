// Libraries opened at run time, and tables of their functions: a row a function, by its exact symbol's name.
// Threads: thread-compatible; a library stays open to the end of the process, for the vendors' cannot be closed safely.
#ifndef TC_DEVICE_GPU_LIBRARY_H
#define TC_DEVICE_GPU_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct tc_library_row {
  const char *symbol;
  size_t offset;  // of the pointer in the table
  bool needed;
} tc_library_row;

// The row of a table whose fields are called as the functions are.
#define TC_LIBRARY_ROW(table, symbol, needed) {#symbol, offsetof(__typeof__(table), symbol), needed}

// Fills the table; an absent function is NULL there. False if a needed one is absent; *missing is the first such.
bool tc_library_fill(void *handle, const tc_library_row *row, size_t n, void *table, const char **missing);
// Opens it, with why not in text.
void *tc_library_open(const char *path, char *why, size_t bytes);
// Whether both, each with what it was linked to, have the same function of this name.
bool tc_library_shares(void *a, void *b, const char *symbol);
// Calls each with the files of this name, which may be a pattern ("libnvrtc-builtins.so.*"), in these directories, which may be patterns, until it returns
// true: false if it never does. Of one directory the last by name comes first.
bool tc_library_search(const char *name, const char *const *where, size_t n_where, bool (*each)(const char *path, void *arg), void *arg);

#endif
