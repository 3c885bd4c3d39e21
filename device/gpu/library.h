// Libraries opened at run time, and tables of their functions. A row names a function by its exact
// symbol.
// Out: a filled table, or one sentence that says what is missing.
// Invariants: a library stays open to the end of the process, because vendors' libraries cannot be
// closed safely.
// Threads: thread-compatible.
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct tc_library_row {
  const char *symbol;
  size_t offset;  // of the pointer in the table
  bool needed;
} tc_library_row;

// A row of a table whose fields have the functions' names.
#define TC_LIBRARY_ROW(table, symbol, needed) TC_LIBRARY_ROW_AS(table, symbol, symbol, needed)
#define TC_LIBRARY_ROW_AS(table, symbol, field, needed) {#symbol, offsetof(__typeof__(table), field), needed}

// Fills the table; an absent function is NULL there. False: a needed one is absent, and *missing is
// the first such.
bool tc_library_fill(void *handle, const tc_library_row *row, size_t n, void *table, const char **missing);
// Opens a library; NULL with why not in why.
void *tc_library_open(const char *path, char *why, size_t bytes);
// Opens a library and stores its handle in *out_handle, for tc_library_search. False: it does not
// open.
bool tc_library_open_at(const char *path, void *out_handle);

// A table of functions to fill.
typedef struct tc_library_table {
  const tc_library_row *row;
  size_t n;
  void *to;
} tc_library_table;
#define TC_LIBRARY_TABLE(rows, table) {rows, sizeof(rows) / sizeof *(rows), &(table)}

// What tc needs of a library, and parts of the sentence that says what is missing.
typedef struct tc_library {
  const char *unopened;  // begins the sentence if the library does not open: "no NVIDIA driver"
  const char *named;  // said to lack a function; NULL: the library's path
  const char *needed;  // ends the sentence: "cuDNN 9 is needed"; NULL: nothing
  tc_library_table table[2];  // both are filled; the second may be all zero
} tc_library;

// Fills the tables from an open library. handle NULL: it did not open, and text says why. False
// with one sentence in why.
bool tc_library_load(const tc_library *l, void *handle, const char *path, const char *text, char *why, size_t bytes);
// Opens the library at path first.
bool tc_library_load_path(const tc_library *l, const char *path, char *why, size_t bytes);

// Whether a library is there, found out once. It starts as all zero.
typedef struct tc_library_once {
  bool tried, there;
  char why[320];  // one sentence if tried is true and there is false
} tc_library_once;
// Calls open(which, ..) at the first call. False with the sentence in why. Threads: the caller
// excludes others.
bool tc_library_open_once(tc_library_once *once, bool (*open)(int which, char *why, size_t bytes), int which, char *why,
                          size_t bytes);
// Returns whether both libraries, each with its dependencies, have the same function of this name.
bool tc_library_shares(void *a, void *b, const char *symbol);
// Calls each with the path of every file of this name in these directories, until it returns true;
// false if it never does. The name and the directories may be patterns ("libnvrtc-builtins.so.*").
// Within a directory the last name comes first.
bool tc_library_search(const char *name, const char *const *where, size_t n_where,
                       bool (*each)(const char *path, void *arg), void *arg);
