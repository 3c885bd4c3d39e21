// A set of names, numbered in the order they came: found by hash, and by likeness for the sake of
// error messages. Owns copies. Thread-compatible.
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct tc_names {
  int n, cap;
  char **name;
  uint32_t *table, n_table;  // open addressing: number + 1, 0 is empty; n_table is a power of two, at most half full
} tc_names;

// False without memory. The name must not be there yet.
bool tc_names_add(tc_names *names, const char *name);
// Takes back the names after the first n.
void tc_names_cut(tc_names *names, int n);
// Its number, or -1.
int tc_names_find(const tc_names *names, const char *name);
// The name that ends with this one, or that the fewest edits turn into it. Of several, the one that
// begins most like it. NULL if none comes near. taken: by number, names that stand for something
// else; NULL: none do.
const char *tc_names_nearest(const tc_names *names, const char *name, const bool *taken);
void tc_names_fini(tc_names *names);
