// Sizes from the names and shapes in a file of weights. See weights.h.
#include "examples/models/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What follows prefix + stem in the i-th name; NULL if it begins otherwise.
static const char *after(const tc_archive *a, int i, const char *prefix, const char *stem) {
  const char *name = tc_archive_name(a, i);
  size_t n = strlen(prefix), m = strlen(stem);
  return strncmp(name, prefix, n) == 0 && strncmp(name + n, stem, m) == 0 ? name + n + m : NULL;
}

const char *weights_prefix(const tc_archive *a, const char *prefix, const char *stem) {
  bool plain = false, longer = false;
  for (int i = 0; i < tc_archive_count(a); i++)
    plain |= after(a, i, "", stem) != NULL, longer |= after(a, i, prefix, stem) != NULL;
  return longer && !plain ? prefix : "";
}

int64_t weights_count(const tc_archive *a, const char *prefix, const char *stem) {
  int64_t n = 0;
  for (int i = 0; i < tc_archive_count(a); i++) {
    const char *s = after(a, i, prefix, stem);
    if (s == NULL || *s < '0' || *s > '9') continue;
    long k = strtol(s, NULL, 10);
    if (k >= n && k < 10000) n = k + 1;
  }
  return n;
}

bool weights_shape(const tc_archive *a, const char *prefix, const char *name, int rank, const char *form,
                   int64_t *out) {
  char full[2 * TC_NN_PATH_BYTES];
  tc_scope scope = tc_scope_begin();
  tc_tensor t = tc_archive_get(a, tc_nn_path(full, sizeof full, "%s%s", prefix, name));
  tc_dims shape = tc_is_valid(t) ? tc_shape(t) : (tc_dims){.rank = -1};
  tc_scope_end(scope);
  if (shape.rank < 0)
    fprintf(stderr, "%s; its shape should be %s\n", tc_last_error()->message, form);
  else if (shape.rank != rank)
    fprintf(stderr, "'%s' should be %s, it has rank %d\n", full, form, shape.rank);
  for (int i = 0; i < rank; i++) out[i] = shape.dim[i];
  return shape.rank == rank;
}

bool weights_layers(const tc_archive *a, const char *prefix, const char *stem, const char *part, int rank,
                    const char *form, int64_t *out) {
  char name[TC_NN_PATH_BYTES];
  int64_t first[TC_MAX_RANK], shape[TC_MAX_RANK];
  *out = weights_count(a, prefix, stem);
  for (int64_t l = 0; l < *out; l++) {
    tc_nn_path(name, sizeof name, "%s%lld%s", stem, (long long)l, part);
    if (!weights_shape(a, prefix, name, rank, form, l == 0 ? first : shape)) return false;
    if (l == 0 || memcmp(first, shape, (size_t)rank * sizeof *first) == 0) continue;
    fprintf(stderr, "'%s%s' should be %s, of the first layer's shape\n", prefix, name, form);
    return false;
  }
  return true;
}
