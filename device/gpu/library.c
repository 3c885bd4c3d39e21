// Opening libraries, searching for them, and filling tables. See library.h.
#include "device/gpu/library.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "runtime/files.h"

bool tc_library_fill(void *handle, const tc_library_row *row, size_t n, void *table, const char **missing) {
  *missing = NULL;
  for (size_t i = 0; i < n; i++) {
    void *function = dlsym(handle, row[i].symbol);
    memcpy((char *)table + row[i].offset, &function, sizeof function);
    if (!function && row[i].needed && !*missing) *missing = row[i].symbol;
  }
  return !*missing;
}

void *tc_library_open(const char *path, char *why, size_t bytes) {
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *text = dlerror();
    snprintf(why, bytes, "%s", text ? text : "it cannot be opened");
  }
  return handle;
}

bool tc_library_open_at(const char *path, void *out_handle) {
  char why[192];
  void *handle = tc_library_open(path, why, sizeof why);
  *(void **)out_handle = handle;
  return handle != NULL;
}

bool tc_library_load(const tc_library *l, void *handle, const char *path, const char *text, char *why, size_t bytes) {
  const char *missing;
  if (!handle) {
    snprintf(why, bytes, "%s: %s", l->unopened, text);
    return false;
  }
  for (size_t i = 0; i < sizeof l->table / sizeof *l->table; i++) {
    if (tc_library_fill(handle, l->table[i].row, l->table[i].n, l->table[i].to, &missing)) continue;
    snprintf(why, bytes, "%s has no %s%s%s", l->named ? l->named : path, missing, l->needed ? ": " : "",
             l->needed ? l->needed : "");
    return false;
  }
  return true;
}

bool tc_library_load_path(const tc_library *l, const char *path, char *why, size_t bytes) {
  char text[192];
  void *handle = tc_library_open(path, text, sizeof text);
  return tc_library_load(l, handle, path, text, why, bytes);
}

bool tc_library_open_once(tc_library_once *once, bool (*open)(int which, char *why, size_t bytes), int which, char *why,
                          size_t bytes) {
  if (!once->tried) once->there = open(which, once->why, sizeof once->why);
  once->tried = true;
  if (!once->there) snprintf(why, bytes, "%s", once->why);
  return once->there;
}

bool tc_library_shares(void *a, void *b, const char *symbol) {
  void *of_a = dlsym(a, symbol);
  return of_a && of_a == dlsym(b, symbol);
}

bool tc_library_search(const char *name, const char *const *where, size_t n_where,
                       bool (*each)(const char *path, void *arg), void *arg) {
  bool done = false;
  for (size_t i = 0; i < n_where && !done; i++) {
    char pattern[TC_PATH_BYTES];
    glob_t found;
    if (!where[i] || snprintf(pattern, sizeof pattern, "%s/%s", where[i], name) >= (int)sizeof pattern) continue;
    if (glob(pattern, 0, NULL, &found) != 0) continue;
    for (size_t k = found.gl_pathc; k-- > 0 && !done;) done = each(found.gl_pathv[k], arg);  // sorted, the newest last
    globfree(&found);
  }
  return done;
}
