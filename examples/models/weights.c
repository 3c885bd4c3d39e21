#include "examples/models/weights.h"

#include <stdarg.h>
#include <stdio.h>

typedef char full_name[2 * TC_NN_PATH_BYTES];

static void join(full_name out, const char *prefix, const char *fmt, va_list args) {
  char name[TC_NN_PATH_BYTES];
  vsnprintf(name, sizeof name, fmt, args);
  snprintf(out, sizeof(full_name), "%s%s", prefix, name);
}

const char *weights_prefix(const tc_archive *a, const char *prefix, const char *name) {
  return !tc_archive_has(a, name) && weights_have(a, prefix, "%s", name) ? prefix : "";
}

bool weights_have(const tc_archive *a, const char *prefix, const char *fmt, ...) {
  full_name name;
  va_list args;
  va_start(args, fmt);
  join(name, prefix, fmt, args);
  va_end(args);
  return tc_archive_has(a, name);
}

bool weights_shape(const tc_archive *a, const char *prefix, int rank, int64_t *out, const char *fmt, ...) {
  full_name name;
  va_list args;
  va_start(args, fmt);
  join(name, prefix, fmt, args);
  va_end(args);
  tc_scope scope = tc_scope_begin();
  tc_dims shape = tc_shape(tc_archive_get(a, name));
  tc_scope_end(scope);
  if (shape.rank < 0) return false;  // reported by tc_archive_get
  if (shape.rank != rank) return fprintf(stderr, "'%s' has rank %d, not %d\n", name, shape.rank, rank), false;
  for (int i = 0; i < rank; i++) out[i] = shape.dim[i];
  return true;
}
