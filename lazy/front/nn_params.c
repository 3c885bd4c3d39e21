// A model's parameters by name. Owns: a reference to each, and the names.
#define TC_NO_SITES
#include <stdarg.h>
#include <stdlib.h>

#include "lazy/front/names.h"
#include "lazy/front/nn.h"
#include "lazy/front/operand.h"

struct tc_nn_params {
  tc_names names;
  tc_tensor *tensor;  // by number of name
  bool training;
};

tc_nn_params *tc_nn_params_create_at(tc_site site) {
  tc_nn_params *p = calloc(1, sizeof *p);
  if (p == NULL) return tc_fail(TC_ERR_MEMORY, "nn_params_create", site, "no memory"), NULL;
  p->training = true;
  return p;
}

void tc_nn_params_destroy(tc_nn_params *p) {
  if (p == NULL) return;
  for (int i = 0; i < p->names.n; i++) tc_release_at(p->tensor[i], 0);
  tc_names_fini(&p->names);
  free(p->tensor);
  free(p);
}

int tc_nn_count(const tc_nn_params *p) {
  return p ? p->names.n : 0;
}

const tc_tensor *tc_nn_tensors(const tc_nn_params *p) {
  return p ? p->tensor : NULL;
}

const char *const *tc_nn_names(const tc_nn_params *p) {
  return p ? (const char *const *)p->names.name : NULL;
}

void tc_nn_set_training(tc_nn_params *p, bool on) {
  if (p) p->training = on;
}

bool tc_nn_training(const tc_nn_params *p) {
  return p && p->training;
}

const char *tc_nn_path(char *out, size_t bytes, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(out, bytes, fmt, args);
  va_end(args);
  return out;
}

static tc_tensor add(const char *op, tc_nn_params *p, const char *name, tc_tensor init, tc_site site) {
  if (p == NULL || name == NULL || name[0] == 0)
    return tc_poison(tc_fail(TC_ERR_ARG, op, site, p == NULL ? "there is no list" : "a parameter without a name"));
  tc_status st = tc_operand_check(op, init, site);
  if (st != TC_OK) return tc_poison(st);
  if (tc_names_find(&p->names, name) >= 0) return tc_poison(tc_fail(TC_ERR_ARG, op, site, "the name '%.100s' is taken", name));
  tc_tensor *tensor = realloc(p->tensor, ((size_t)p->names.n + 1) * sizeof *tensor);
  if (tensor) p->tensor = tensor;
  tc_tensor t = tensor ? tc_param_at(init, site) : tc_poison(tc_fail(TC_ERR_MEMORY, op, site, "no memory"));
  if (!tc_is_valid(t)) return t;
  if (!tc_names_add(&p->names, name)) {
    tc_release_at(t, site);
    return tc_poison(tc_fail(TC_ERR_MEMORY, op, site, "no memory for a name"));
  }
  return p->tensor[p->names.n - 1] = t;
}

static tc_tensor get(const char *op, const tc_nn_params *p, const char *name, bool optional, tc_site site) {
  if (p == NULL || name == NULL) return tc_poison(tc_fail(TC_ERR_ARG, op, site, p ? "name is NULL" : "there is no list"));
  int i = tc_names_find(&p->names, name);
  if (i >= 0) return p->tensor[i];
  if (optional) return (tc_tensor){0, 0};
  const char *near = tc_names_nearest(&p->names, name);
  if (near) return tc_poison(tc_fail(TC_ERR_ARG, op, site, "there is no parameter '%.100s'; the nearest is '%.100s'", name, near));
  return tc_poison(tc_fail(TC_ERR_ARG, op, site, "there is no parameter '%.100s', nor anything like it among %d", name, p->names.n));
}

tc_tensor tc_nn_add_at(tc_nn_params *p, const char *name, tc_tensor init, tc_site site) {
  TC_CALLED_AS("nn_add");
  return add("nn_add", p, name, init, site);
}

tc_tensor tc_nn_get_at(const tc_nn_params *p, const char *name, tc_site site) {
  TC_CALLED_AS("nn_get");
  return get("nn_get", p, name, false, site);
}

// path.leaf into out.
static tc_status join(const char *op, char out[TC_NN_PATH_BYTES], const char *path, const char *leaf, tc_site site) {
  int n = path ? snprintf(out, TC_NN_PATH_BYTES, "%s.%s", path, leaf) : -1;
  if (n >= 0 && n < TC_NN_PATH_BYTES) return TC_OK;
  return tc_fail(TC_ERR_ARG, op, site, path ? "the path '%.60s..' is longer than %d bytes" : "path is NULL", path, TC_NN_PATH_BYTES);
}

tc_status tc_nn_add_leaf(const char *op, tc_nn_params *p, const char *path, const char *leaf, tc_tensor init, tc_site site) {
  char name[TC_NN_PATH_BYTES];
  TC_TRY(join(op, name, path, leaf, site));
  tc_tensor t = add(op, p, name, init, site);
  return t.slot >= TC_POISON ? (tc_status)t.gen : TC_OK;
}

tc_tensor tc_nn_get_leaf(const char *op, const tc_nn_params *p, const char *path, const char *leaf, bool optional, tc_site site) {
  char name[TC_NN_PATH_BYTES];
  tc_status st = join(op, name, path, leaf, site);
  return st == TC_OK ? get(op, p, name, optional, site) : tc_poison(st);
}

tc_status tc_nn_load_at(const tc_nn_params *p, const tc_archive *a, const char *prefix, tc_site site) {
  TC_CALLED_AS("nn_load");
  return tc_archive_load_at(a, prefix, tc_nn_count(p), tc_nn_names(p), tc_nn_tensors(p), site);
}

tc_status tc_nn_save_at(const tc_nn_params *p, const char *path, tc_site site) {
  TC_CALLED_AS("nn_save");
  static const char *const meta[] = {"format", "pt"};
  return tc_safetensors_save_with_at(path, tc_nn_count(p), tc_nn_names(p), tc_nn_tensors(p), 1, meta, site);
}
