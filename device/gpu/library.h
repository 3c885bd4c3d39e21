// Libraries opened at run time, and tables of their functions: a row a function, by its exact
// symbol's name.
// Threads: thread-compatible; a library stays open to the end of the process, for the vendors'
// cannot be closed safely.
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

// Fills the table; an absent function is NULL there. False if a needed one is absent; *missing is
// the first such.
bool tc_library_fill(void *handle, const tc_library_row *row, size_t n, void *table, const char **missing);
// Opens it, with why not in text.
void *tc_library_open(const char *path, char *why, size_t bytes);
// The same for tc_library_search: arg is where the handle goes. True: it is open.
bool tc_library_open_at(const char *path, void *out_handle);

// A table of functions to fill.
typedef struct tc_library_table {
  const tc_library_row *row;
  size_t n;
  void *to;
} tc_library_table;
#define TC_LIBRARY_TABLE(rows, table) {rows, sizeof(rows) / sizeof *(rows), &(table)}

// What tc needs of a library, and the words of the sentence that says what is missing.
typedef struct tc_library {
  const char *unopened;  // its beginning where the library does not open: "no NVIDIA driver"
  const char *named;  // what is said to lack a function; NULL: the library's path
  const char *needed;  // what is needed in its place: "cuDNN 9 is needed"; NULL: nothing is said
  tc_library_table table[2];  // all are filled; the second may be all zero
} tc_library;

// Fills the tables from an open library. handle NULL: it did not open, as text says. False with one
// sentence in why.
bool tc_library_load(const tc_library *l, void *handle, const char *path, const char *text, char *why, size_t bytes);
// The same, and opens it first.
bool tc_library_load_path(const tc_library *l, const char *path, char *why, size_t bytes);

// Whether a library is there, found out once. All zero: not yet.
typedef struct tc_library_once {
  bool tried, there;
  char why[320];  // one sentence where it was tried and is not there
} tc_library_once;
// Calls open at the first call; which is handed on. False with the sentence in why. Threads: the
// caller's to exclude.
bool tc_library_open_once(tc_library_once *once, bool (*open)(int which, char *why, size_t bytes), int which, char *why, size_t bytes);
// Whether both, each with what it was linked to, have the same function of this name.
bool tc_library_shares(void *a, void *b, const char *symbol);
// Calls each with the files of this name, which may be a pattern ("libnvrtc-builtins.so.*"), in
// these directories, which may be patterns, until it returns true: false if it never does. Of one
// directory the last by name comes first.
bool tc_library_search(const char *name, const char *const *where, size_t n_where, bool (*each)(const char *path, void *arg), void *arg);

#endif
