// What archives of all formats do alike: names, loading into tensors, saving. See archive.h.
#define TC_NO_SITES
#include "lazy/front/archive.h"

#include <stdlib.h>
#include <string.h>

#include "lazy/front/operand.h"

tc_archive *tc_archive_create(const char *op, const char *path, tc_site site) {
  if (path == NULL) return tc_fail(TC_ERR_ARG, op, site, "path is NULL"), NULL;
  tc_archive *a = calloc(1, sizeof *a);
  if (a) a->path = strdup(path);
  if (a && a->path) return a;
  free(a);
  return tc_fail(TC_ERR_MEMORY, op, site, "no memory to open %s", path), NULL;
}

tc_status tc_archive_add(tc_archive *a, const char *op, const char *name, tc_site site) {
  if (tc_names_find(&a->names, name) >= 0)
    return tc_fail(TC_ERR_IO, op, site, "%s: '%.100s' is there twice", a->path, name);
  return tc_names_add(&a->names, name) ? TC_OK
                                       : tc_fail(TC_ERR_MEMORY, op, site, "no memory for the names of %s", a->path);
}

int tc_archive_count(const tc_archive *a) {
  return a ? a->names.n : 0;
}

bool tc_archive_has(const tc_archive *a, const char *name) {
  return a && name && tc_names_find(&a->names, name) >= 0;
}

const char *tc_archive_name(const tc_archive *a, int i) {
  return i >= 0 && i < tc_archive_count(a) ? a->names.name[i] : NULL;
}

const char *tc_archive_metadata(const tc_archive *a, const char *key) {
  return a && a->metadata && key ? a->metadata(a, key) : NULL;
}

void tc_archive_close(tc_archive *a) {
  if (a == NULL) return;
  if (a->close) a->close(a);
  tc_names_fini(&a->names);
  free(a->path);
  free(a);
}

// The number of a name; -1 after reporting. wanted: what it should be, in words, or ""; taken: see
// tc_names_nearest.
static int find_entry(const char *op, const tc_archive *a, const char *name, const char *wanted, const bool *taken,
                      tc_site site) {
  int i = tc_names_find(&a->names, name);
  if (i >= 0) return i;
  const char *near = tc_names_nearest(&a->names, name, taken);
  if (near == NULL && taken) near = tc_names_nearest(&a->names, name, NULL);
  if (near)
    tc_fail(TC_ERR_ARG, op, site, "%s has no '%.100s'%s; the nearest is '%.100s'", a->path, name, wanted, near);
  else
    tc_fail(TC_ERR_ARG, op, site, "%s has no '%.100s'%s, nor anything like it among %d", a->path, name, wanted,
            a->names.n);
  return -1;
}

static tc_status no_archive(const char *op, tc_site site) {
  char why[256];
  return tc_fail(TC_ERR_ARG, op, site, "there is no archive%s",
                 tc_error_of("safetensors_open npz_open", why, sizeof why));
}

tc_tensor tc_archive_get_at(const tc_archive *a, const char *name, tc_site site) {
  TC_CALLED_AS("archive_get");
  if (a == NULL) return tc_poison(no_archive("archive_get", site));
  if (name == NULL) return tc_poison(tc_fail(TC_ERR_ARG, "archive_get", site, "name is NULL"));
  int i = find_entry("archive_get", a, name, "", NULL, site);
  return i < 0 ? tc_poison(TC_ERR_ARG) : a->get(a, i, site);
}

// ---- Loading into tensors ----

static const char *kind_text(tc_tensor t, char *out, size_t bytes, tc_site site) {
  char dims[96];
  tc_dims shape = tc_shape_at(t, site);
  snprintf(out, bytes, "%s %s", tc_type_name(tc_dtype_at(t, site)), tc_dims_text(&shape, dims, sizeof dims));
  return out;
}

static tc_status match_one(const char *op, const tc_archive *a, const char *name, tc_tensor to, bool exact,
                           const bool *taken, tc_tensor *out, tc_site site) {
  TC_TRY(tc_operand_check(op, to, site));
  if (!tc_is_assignable(to)) return tc_fail(TC_ERR_STATE, op, site, "a tensor is assigned by the thread that made it");
  char want_text[128], have_text[128], wanted[136];
  snprintf(wanted, sizeof wanted, " (%s)", kind_text(to, want_text, sizeof want_text, site));
  int i = find_entry(op, a, name, wanted, taken, site);
  if (i < 0) return TC_ERR_ARG;
  tc_tensor t = a->get(a, i, site);
  if (!tc_is_valid(t)) return tc_poison_told(t);
  tc_dims want = tc_shape_at(to, site), have = tc_shape_at(t, site);
  tc_type type = tc_dtype_at(to, site), type_there = tc_dtype_at(t, site);
  bool same = want.rank == have.rank && memcmp(want.dim, have.dim, (size_t)want.rank * sizeof want.dim[0]) == 0;
  bool fits = exact ? type == type_there : tc_is_floating(type) == tc_is_floating(type_there);
  if (!same || !fits)
    return tc_fail(same ? TC_ERR_DTYPE : TC_ERR_SHAPE, op, site, "'%.100s' should be %s, in %s it is %s", name,
                   want_text, a->path, kind_text(t, have_text, sizeof have_text, site));
  *out = tc_to_at(tc_cast_at(t, type, site), tc_device_of_at(to, site), site);
  return TC_OK;
}

// prefix + names[i], from malloc; NULL after reporting.
static char *full_name(const char *op, const char *prefix, const char *const *names, int i, tc_site site) {
  char *name;
  if (names[i] == NULL) return tc_fail(TC_ERR_ARG, op, site, "name %d is NULL", i), NULL;
  if (asprintf(&name, "%s%s", prefix ? prefix : "", names[i]) < 0)
    return tc_fail(TC_ERR_MEMORY, op, site, "no memory for a name"), NULL;
  return name;
}

tc_status tc_archive_match(const char *op, const tc_archive *a, const char *prefix, int n, const char *const *names,
                           const tc_tensor *tensors, bool exact, tc_tensor *out, tc_site site) {
  tc_status st = TC_OK;
  char **name = calloc((size_t)n + 1, sizeof *name);
  bool *taken = calloc((size_t)a->names.n + 1, sizeof *taken);  // who misspells a name wants one that nobody else has
  if (!name || !taken) st = tc_fail(TC_ERR_MEMORY, op, site, "no memory for %d names", n);
  for (int i = 0; i < n && st == TC_OK; i++) {
    if ((name[i] = full_name(op, prefix, names, i, site)) == NULL) st = names[i] ? TC_ERR_MEMORY : TC_ERR_ARG;
    int there = st == TC_OK ? tc_names_find(&a->names, name[i]) : -1;
    if (there >= 0) taken[there] = true;
  }
  for (int i = 0; i < n && st == TC_OK; i++) st = match_one(op, a, name[i], tensors[i], exact, taken, &out[i], site);
  for (int i = 0; name && i < n; i++) free(name[i]);
  free(name);
  free(taken);
  return st;
}

tc_status tc_archive_load_at(const tc_archive *a, const char *prefix, int n, const char *const *names,
                             const tc_tensor *tensors, tc_site site) {
  TC_CALLED_AS("archive_load");
  const char *op = tc_outer_op;
  if (a == NULL) return no_archive(op, site);
  if (n < 0 || (n > 0 && (!names || !tensors)))
    return tc_fail(TC_ERR_ARG, op, site, "%d tensors%s", n, n < 0 ? "" : " at a null pointer");
  tc_tensor *value = calloc((size_t)n + 1, sizeof *value);
  if (value == NULL) return tc_fail(TC_ERR_MEMORY, op, site, "no memory for %d tensors", n);
  tc_scope scope = tc_scope_begin_at(site);
  tc_status st = tc_archive_match(op, a, prefix, n, names, tensors, false, value, site);
  for (int i = 0; i < n && st == TC_OK; i++) st = tc_assign_at(tensors[i], value[i], site);
  tc_scope_end_at(scope, 0);
  free(value);
  return st;
}

// ---- Saving ----

// As the Unicode standard has it: no form longer than needed, no surrogates, nothing past U+10FFFF.
static bool is_utf8(const char *text) {
  static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};  // that needs so many bytes after the first
  for (const unsigned char *p = (const unsigned char *)text; *p;) {
    int n_more = *p < 0x80 ? 0 : *p >> 5 == 6 ? 1 : *p >> 4 == 14 ? 2 : *p >> 3 == 30 ? 3 : -1;
    if (n_more < 0) return false;
    uint32_t code = n_more ? *p & (0x3fu >> n_more) : *p;
    p++;
    for (int i = 0; i < n_more; i++, p++) {
      if (*p >> 6 != 2) return false;
      code = code << 6 | (*p & 0x3f);
    }
    if (code < least[n_more] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
  }
  return true;
}

tc_status tc_archive_check_save(const char *op, const char *path, int n, const char *const *names,
                                const tc_tensor *tensors, tc_site site) {
  if (path == NULL) return tc_fail(TC_ERR_ARG, op, site, "path is NULL");
  if (n < 0 || (n > 0 && (!names || !tensors)))
    return tc_fail(TC_ERR_ARG, op, site, "%d tensors%s", n, n < 0 ? "" : " at a null pointer");
  tc_names seen = {0};
  tc_status st = TC_OK;
  for (int i = 0; i < n && st == TC_OK; i++) {
    if (names[i] == NULL || names[i][0] == 0)
      st = tc_fail(TC_ERR_ARG, op, site, "name %d is %s", i, names[i] ? "empty" : "NULL");
    else if (!is_utf8(names[i]))
      st = tc_fail(TC_ERR_ARG, op, site, "name %d is no UTF-8", i);  // nor would the message be with it
    else if (tc_names_find(&seen, names[i]) >= 0)
      st = tc_fail(TC_ERR_ARG, op, site, "the name '%.100s' is given twice", names[i]);
    else if (!tc_names_add(&seen, names[i]))
      st = tc_fail(TC_ERR_MEMORY, op, site, "no memory for %d names", n);
    else
      st = tc_operand_check(op, tensors[i], site);
  }
  tc_names_fini(&seen);
  return st == TC_OK ? tc_eval_at(n, tensors, site) : st;
}
