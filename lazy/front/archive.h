// Named tensors in a file, whatever its format: the format fills the names and says how the i-th is
// read.
#pragma once

#include <tc/io.h>

#include "lazy/front/names.h"

struct tc_archive {
  char *path;
  tc_names names;
  tc_tensor (*get)(const tc_archive *a, int i, tc_site site);  // reports what is wrong
  const char *(*metadata)(const tc_archive *a, const char *key);  // NULL: has none
  void (*close)(tc_archive *a);  // frees state, NULL too
  void *state;                   // the format's
};

// An empty archive; NULL after reporting.
tc_archive *tc_archive_create(const char *op, const char *path, tc_site site);
// Adds a name; a second time it is TC_ERR_IO.
tc_status tc_archive_add(tc_archive *a, const char *op, const char *name, tc_site site);

// The archive's tensor of each name after prefix, cast to the type of the tensor that it will
// replace, and brought to its device. exact: true: only if it has that type. The handles are of the
// current scope. See tc_archive_load.
tc_status tc_archive_match(const char *op, const tc_archive *a, const char *prefix, int n, const char *const *names,
                           const tc_tensor *tensors, bool exact, tc_tensor *out, tc_site site);

// What every save asks of its arguments: a path, names that are there, are UTF-8 and differ, live
// tensors. Then runs what is pending.
tc_status tc_archive_check_save(const char *op, const char *path, int n, const char *const *names,
                                const tc_tensor *tensors, tc_site site);
