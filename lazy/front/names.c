// Names in a table by hash, and the nearest of them by edits. See names.h.
#include "lazy/front/names.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/edits.h"

#define MAX_NEAR_NAMES 4096  // that likeness is measured with

static uint32_t hash(const char *s) {  // FNV-1a
  uint32_t h = 2166136261u;
  for (; *s; s++) h = (h ^ (unsigned char)*s) * 16777619u;
  return h;
}

// Where name is in the table, or would be.
static uint32_t place_of(const tc_names *names, const char *name) {
  uint32_t at = hash(name) & (names->n_table - 1);
  while (names->table[at] && strcmp(names->name[names->table[at] - 1], name) != 0) at = (at + 1) & (names->n_table - 1);
  return at;
}

static bool grow(tc_names *names) {
  int cap = names->cap ? names->cap * 2 : 16;
  char **name = realloc(names->name, (size_t)cap * sizeof *name);
  if (name) names->name = name;
  uint32_t *table = calloc((size_t)cap * 2, sizeof *table);
  if (!name || !table) return free(table), false;
  free(names->table);
  names->table = table, names->n_table = (uint32_t)cap * 2, names->cap = cap;
  for (int i = 0; i < names->n; i++) table[place_of(names, name[i])] = (uint32_t)i + 1;
  return true;
}

bool tc_names_add(tc_names *names, const char *name) {
  if (names->n == names->cap && !grow(names)) return false;
  if (!(names->name[names->n] = strdup(name))) return false;
  names->table[place_of(names, name)] = (uint32_t)++names->n;
  return true;
}

// From the last: no name's search goes on past one that came after it.
void tc_names_cut(tc_names *names, int n) {
  while (names->n > n) {
    char *last = names->name[names->n - 1];
    names->table[place_of(names, last)] = 0;
    names->n--;
    free(last);
  }
}

int tc_names_find(const tc_names *names, const char *name) {
  return names->n ? (int)names->table[place_of(names, name)] - 1 : -1;
}

static size_t shared_beginning(const char *a, const char *b) {
  size_t n = 0;
  while (a[n] && a[n] == b[n]) n++;
  return n;
}

const char *tc_names_nearest(const tc_names *names, const char *name, const bool *taken) {
  size_t n = strlen(name), best = n > 3 ? n / 2 + 1 : n;  // beyond half its length it is another word
  const char *found = NULL;
  for (int i = 0; i < names->n && i < MAX_NEAR_NAMES && n <= TC_EDITS_BYTES; i++) {
    const char *other = names->name[i];
    if (taken && taken[i]) continue;
    size_t m = strlen(other);
    bool ends_so = m > n && strcmp(other + m - n, name) == 0;  // a prefix is missing
    size_t d = strcasecmp(other, name) == 0 ? 0
               : ends_so                    ? 1
               : m <= TC_EDITS_BYTES        ? tc_edits(name, n, other, m)
                                            : best;
    if (d < best || (d == best && found && shared_beginning(name, other) > shared_beginning(name, found)))
      best = d, found = other;
  }
  return found;
}

void tc_names_fini(tc_names *names) {
  for (int i = 0; i < names->n; i++) free(names->name[i]);
  free(names->name);
  free(names->table);
  *names = (tc_names){0};
}
