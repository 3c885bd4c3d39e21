// A model's parameters and buffers by name. Owner: a reference to each, and the names.
#define TC_NO_SITES
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "lazy/front/names.h"
#include "lazy/front/nn.h"
#include "lazy/front/operand.h"
#include "lazy/trace/capture_break.h"
#include "lazy/trace/watched.h"

struct tc_nn_params {
  tc_names names;     // in the order they were added
  tc_names tables;    // names of embeddings' weights
  int *place;         // in the lists, by number of name
  tc_tensor *tensor;  // parameters, then buffers
  const char **name;  // theirs
  int n_params;
  tc_watched *training;
};

tc_nn_params *tc_nn_params_create_at(tc_site site) {
  tc_nn_params *p = calloc(1, sizeof *p);
  if (p) p->training = tc_watched_create("the training mode of a model", true);
  if (p && p->training) return p;
  free(p);
  return tc_fail(TC_ERR_MEMORY, "nn_params_create", site, "no memory"), NULL;
}

void tc_nn_params_destroy(tc_nn_params *p) {
  if (p == NULL) return;
  for (int i = 0; i < p->names.n; i++) tc_release_at(p->tensor[i], 0);
  tc_names_fini(&p->names);
  tc_names_fini(&p->tables);
  tc_watched_release(p->training);
  free(p->place);
  free(p->tensor);
  free(p->name);
  free(p);
}

int tc_nn_count(const tc_nn_params *p) {
  return p ? p->n_params : 0;
}

int tc_nn_count_all(const tc_nn_params *p) {
  return p ? p->names.n : 0;
}

const tc_tensor *tc_nn_tensors(const tc_nn_params *p) {
  return p ? p->tensor : NULL;
}

const char *const *tc_nn_names(const tc_nn_params *p) {
  return p ? p->name : NULL;
}

void tc_nn_set_training(tc_nn_params *p, bool on) {
  if (p == NULL) return;
  if (tc_capture_read(p->training) != on) tc_capture_break_mine("a training mode that it sets", "nn_set_training", 0);
  tc_watched_set(p->training, on);
}

bool tc_nn_training(const tc_nn_params *p) {
  return p && tc_capture_read(p->training);
}

const char *tc_nn_path(char *out, size_t bytes, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(out, bytes, fmt, args);
  va_end(args);
  return out;
}

// A value that lives until it is released, in a slot of its own.
static tc_tensor make_buffer(tc_tensor init, tc_site site) {
  tc_scope scope = tc_scope_begin_at(site);
  tc_tensor t = tc_detach_at(init, site);
  if (tc_is_valid(t)) tc_retain_at(t, site);
  tc_scope_end_at(scope, 0);
  return t;
}

static bool reserve(tc_nn_params *p) {
  size_t n = (size_t)p->names.n + 1;
  int *place = realloc(p->place, n * sizeof *place);
  if (place) p->place = place;
  tc_tensor *tensor = realloc(p->tensor, n * sizeof *tensor);
  if (tensor) p->tensor = tensor;
  const char **name = realloc(p->name, n * sizeof *name);
  if (name) p->name = name;
  return place && tensor && name;
}

// Puts the last name's tensor into the lists, a parameter before all buffers.
static void insert(tc_nn_params *p, tc_tensor t, bool is_buffer) {
  int last = p->names.n - 1, at = is_buffer ? last : p->n_params++;
  memmove(p->tensor + at + 1, p->tensor + at, (size_t)(last - at) * sizeof *p->tensor);
  memmove(p->name + at + 1, p->name + at, (size_t)(last - at) * sizeof *p->name);
  for (int i = 0; i < last; i++) p->place[i] += p->place[i] >= at;
  p->place[last] = at, p->tensor[at] = t, p->name[at] = p->names.name[last];
}

static tc_tensor add_tensor(const char *op, tc_nn_params *p, const char *name, tc_tensor init, bool is_buffer,
                            tc_site site) {
  if (p == NULL || name == NULL || name[0] == 0)
    return tc_poison(tc_fail(TC_ERR_ARG, op, site, p == NULL ? "there is no list" : "a parameter without a name"));
  tc_status st = tc_operand_check(op, init, site);
  if (st != TC_OK) return tc_poison(st);
  if (tc_names_find(&p->names, name) >= 0)
    return tc_poison(tc_fail(TC_ERR_ARG, op, site, "the name '%.100s' is taken", name));
  if (!reserve(p)) return tc_poison(tc_fail(TC_ERR_MEMORY, op, site, "no memory"));
  tc_tensor t = is_buffer ? make_buffer(init, site) : tc_param_at(init, site);
  if (!tc_is_valid(t)) return t;
  if (!tc_names_add(&p->names, name)) {
    tc_release_at(t, site);
    return tc_poison(tc_fail(TC_ERR_MEMORY, op, site, "no memory for a name"));
  }
  insert(p, t, is_buffer);
  return t;
}

void tc_nn_cut(tc_nn_params *p, int n) {
  for (int last = p->names.n - 1; last >= n; last--) {
    int at = p->place[last];
    tc_release_at(p->tensor[at], 0);
    memmove(p->tensor + at, p->tensor + at + 1, (size_t)(last - at) * sizeof *p->tensor);
    memmove(p->name + at, p->name + at + 1, (size_t)(last - at) * sizeof *p->name);
    for (int i = 0; i < last; i++) p->place[i] -= p->place[i] > at;
    p->n_params -= at < p->n_params;
    tc_names_cut(&p->names, last);
  }
}

tc_status tc_nn_drop(const char *op, tc_nn_params *p, const bool *dropped, tc_site site) {
  tc_names names = {0};
  int *to = calloc((size_t)p->names.n + 1, sizeof *to), n = 0, n_params = 0;
  bool fits = to != NULL;
  for (int i = 0; i < p->names.n && fits; i++) fits = dropped[p->place[i]] || tc_names_add(&names, p->names.name[i]);
  if (!fits) {
    tc_names_fini(&names);
    free(to);
    return tc_fail(TC_ERR_MEMORY, op, site, "no memory for names");
  }
  for (int at = 0; at < p->names.n; at++) {
    to[at] = n;
    if (dropped[at])
      tc_release_at(p->tensor[at], site);
    else
      n_params += at < p->n_params, p->tensor[n++] = p->tensor[at];
  }
  n = 0;
  for (int i = 0; i < p->names.n; i++) {
    int at = p->place[i];
    if (dropped[at]) continue;
    p->place[n] = to[at], p->name[to[at]] = names.name[n], n++;
  }
  free(to);
  tc_names_fini(&p->names);
  p->names = names, p->n_params = n_params;
  return TC_OK;
}

// Whether the weight of this name has become bytes, whose name is written to out.
static bool find_bytes(const tc_nn_params *p, const char *name, char *out, size_t n) {
  int n_text = snprintf(out, n, "%s_int8", name);
  return n_text > 0 && (size_t)n_text < n && tc_names_find(&p->names, out) >= 0;
}

static tc_tensor get_tensor(const char *op, const tc_nn_params *p, const char *name, bool optional, tc_site site) {
  if (p == NULL || name == NULL)
    return tc_poison(tc_fail(TC_ERR_ARG, op, site, p ? "name is NULL" : "there is no list"));
  int i = tc_names_find(&p->names, name);
  if (i >= 0) return p->tensor[p->place[i]];
  if (optional) return (tc_tensor){0, 0};
  char bytes[2 * TC_NN_PATH_BYTES];
  if (find_bytes(p, name, bytes, sizeof bytes))
    return tc_poison(tc_fail(TC_ERR_ARG, op, site,
                             "there is no parameter '%.100s': as bytes, '%.100s', it serves linear layers alone", name,
                             bytes));
  const char *near = tc_names_nearest(&p->names, name, NULL);
  if (near)
    return tc_poison(
        tc_fail(TC_ERR_ARG, op, site, "there is no parameter '%.100s'; the nearest is '%.100s'", name, near));
  return tc_poison(
      tc_fail(TC_ERR_ARG, op, site, "there is no parameter '%.100s', nor anything like it among %d", name, p->names.n));
}

tc_tensor tc_nn_add_at(tc_nn_params *p, const char *name, tc_tensor init, tc_site site) {
  TC_CALLED_AS("nn_add");
  return add_tensor("nn_add", p, name, init, false, site);
}

tc_tensor tc_nn_add_buffer_at(tc_nn_params *p, const char *name, tc_tensor init, tc_site site) {
  TC_CALLED_AS("nn_add_buffer");
  return add_tensor("nn_add_buffer", p, name, init, true, site);
}

bool tc_nn_has(const tc_nn_params *p, const char *name) {
  return p && name && tc_names_find(&p->names, name) >= 0;
}

tc_tensor tc_nn_get_at(const tc_nn_params *p, const char *name, tc_site site) {
  TC_CALLED_AS("nn_get");
  return get_tensor("nn_get", p, name, false, site);
}

// path.leaf into out.
static tc_status join_path(const char *op, char out[TC_NN_PATH_BYTES], const char *path, const char *leaf,
                           tc_site site) {
  int n = path ? snprintf(out, TC_NN_PATH_BYTES, "%s.%s", path, leaf) : -1;
  if (n >= 0 && n < TC_NN_PATH_BYTES) return TC_OK;
  return tc_fail(TC_ERR_ARG, op, site, path ? "the path '%.60s..' is longer than %d bytes" : "path is NULL", path,
                 TC_NN_PATH_BYTES);
}

static tc_status add_leaf(const char *op, tc_nn_params *p, const char *path, const char *leaf, tc_tensor init,
                          bool is_buffer, tc_site site) {
  char name[TC_NN_PATH_BYTES];
  TC_TRY(join_path(op, name, path, leaf, site));
  tc_tensor t = add_tensor(op, p, name, init, is_buffer, site);
  return t.slot >= TC_POISON ? tc_poison_told(t) : TC_OK;
}

tc_status tc_nn_add_leaf(const char *op, tc_nn_params *p, const char *path, const char *leaf, tc_tensor init,
                         tc_site site) {
  return add_leaf(op, p, path, leaf, init, false, site);
}

tc_status tc_nn_add_buffer_leaf(const char *op, tc_nn_params *p, const char *path, const char *leaf, tc_tensor init,
                                tc_site site) {
  return add_leaf(op, p, path, leaf, init, true, site);
}

tc_status tc_nn_mark_table(const char *op, tc_nn_params *p, const char *path, tc_site site) {
  char name[TC_NN_PATH_BYTES];
  TC_TRY(join_path(op, name, path, "weight", site));
  if (tc_names_find(&p->tables, name) >= 0 || tc_names_add(&p->tables, name)) return TC_OK;
  return tc_fail(TC_ERR_MEMORY, op, site, "no memory for a name");
}

bool tc_nn_is_table(const tc_nn_params *p, const char *name) {
  return tc_names_find(&p->tables, name) >= 0;
}

tc_tensor tc_nn_get_leaf(const char *op, const tc_nn_params *p, const char *path, const char *leaf, bool optional,
                         tc_site site) {
  char name[TC_NN_PATH_BYTES];
  tc_status st = join_path(op, name, path, leaf, site);
  return st == TC_OK ? get_tensor(op, p, name, optional, site) : tc_poison(st);
}

// Whether a buffer is the scale of a layer of bytes, which stays f32.
static bool is_scale_of_bytes(const tc_nn_params *p, int i) {
  static const char end[] = ".weight_scale";
  char bytes[TC_NN_PATH_BYTES];
  size_t n = strlen(p->name[i]), n_end = sizeof end - 1;
  if (i < p->n_params || n < n_end || strcmp(p->name[i] + n - n_end, end) != 0) return false;
  int n_text = snprintf(bytes, sizeof bytes, "%.*s.weight_int8", (int)(n - n_end), p->name[i]);
  return n_text > 0 && n_text < (int)sizeof bytes && tc_names_find(&p->names, bytes) >= 0;
}

tc_status tc_nn_cast_at(tc_nn_params *p, tc_type type, tc_site site) {
  TC_CALLED_AS("nn_cast");
  const char *op = "nn_cast";
  if (p == NULL) return tc_fail(TC_ERR_ARG, op, site, "there is no list");
  if (!tc_is_floating(type))
    return tc_fail(TC_ERR_DTYPE, op, site, "parameters are floating, not %s", tc_type_name(type));
  tc_status st = TC_OK;
  tc_scope scope = tc_scope_begin_at(site);
  for (int i = 0; i < p->names.n && st == TC_OK; i++) {
    tc_tensor old = p->tensor[i];
    tc_type from = tc_dtype_at(old, site);
    if (from == type || !tc_is_floating(from) || is_scale_of_bytes(p, i)) continue;
    tc_tensor value = tc_cast_at(tc_detach_at(old, site), type, site),
              t = i < p->n_params ? tc_param_at(value, site) : make_buffer(value, site);
    if (tc_is_valid(t))
      tc_release_at(old, site), p->tensor[i] = t;
    else
      st = tc_poison_told(t);
  }
  tc_scope_end_at(scope, 0);
  return st;
}

// A batch norm's count that is not there: archives of PyTorch before 0.4.1 have none.
static bool lacks_count(const tc_nn_params *p, int i, const tc_archive *a, const char *prefix) {
  static const char end[] = ".num_batches_tracked";
  size_t n = strlen(p->name[i]);
  char *name = NULL;
  if (i < p->n_params || n < sizeof end || strcmp(p->name[i] + n + 1 - sizeof end, end) != 0) return false;
  if (asprintf(&name, "%s%s", prefix ? prefix : "", p->name[i]) < 0) return false;
  bool lacks = !tc_archive_has(a, name);
  free(name);
  return lacks;
}

tc_status tc_nn_load_at(const tc_nn_params *p, const tc_archive *a, const char *prefix, tc_site site) {
  TC_CALLED_AS("nn_load");
  if (p == NULL) return tc_fail(TC_ERR_ARG, "nn_load", site, "there is no list");
  int n = 0, n_all = tc_nn_count_all(p);
  const char **name = calloc((size_t)n_all + 1, sizeof *name);
  tc_tensor *tensor = calloc((size_t)n_all + 1, sizeof *tensor);
  tc_status st = name && tensor ? TC_OK : tc_fail(TC_ERR_MEMORY, "nn_load", site, "no memory for %d names", n_all);
  for (int i = 0; i < n_all && st == TC_OK; i++)
    if (!lacks_count(p, i, a, prefix)) name[n] = p->name[i], tensor[n++] = p->tensor[i];
  if (st == TC_OK) st = tc_archive_load_at(a, prefix, n, name, tensor, site);
  free(name);
  free(tensor);
  return st;
}

tc_status tc_nn_save_at(const tc_nn_params *p, const char *path, tc_site site) {
  TC_CALLED_AS("nn_save");
  if (p == NULL) return tc_fail(TC_ERR_ARG, "nn_save", site, "there is no list");
  static const char *const meta[] = {"format", "pt"};
  return tc_safetensors_save_with_at(path, tc_nn_count_all(p), tc_nn_names(p), tc_nn_tensors(p), 1, meta, site);
}

tc_status tc_nn_check_optimizers(const char *op, const tc_nn_params *p, int n_opts, tc_optimizer *const *opts,
                                 tc_site site) {
  if (p == NULL) return tc_fail(TC_ERR_ARG, op, site, "there is no list");
  for (int k = 0; opts && k < n_opts; k++) {
    tc_tensor t;
    for (int i = 0; opts[k] && (t = tc_optimizer_param(opts[k], i)).gen; i++) {
      int at = 0;
      while (at < p->n_params && (p->tensor[at].slot != t.slot || p->tensor[at].gen != t.gen)) at++;
      if (at == p->n_params)
        return tc_fail(TC_ERR_ARG, op, site, "parameter %d of optimizer %d is not in the list, and would not be saved",
                       i, k);
    }
  }
  return TC_OK;
}

tc_status tc_nn_checkpoint_save_at(const tc_nn_params *p, const char *path, int n_opts, tc_optimizer *const *opts,
                                   int64_t step, tc_site site) {
  TC_CALLED_AS("nn_checkpoint_save");
  TC_TRY(tc_nn_check_optimizers("nn_checkpoint_save", p, n_opts, opts, site));
  return tc_checkpoint_save_with_at(path, tc_nn_count_all(p), tc_nn_names(p), tc_nn_tensors(p), n_opts, opts, step,
                                    site);
}

tc_status tc_nn_checkpoint_load_at(const tc_nn_params *p, const char *path, int n_opts, tc_optimizer *const *opts,
                                   int64_t *out_step, tc_site site) {
  TC_CALLED_AS("nn_checkpoint_load");
  TC_TRY(tc_nn_check_optimizers("nn_checkpoint_load", p, n_opts, opts, site));
  return tc_checkpoint_load_with_at(path, tc_nn_count_all(p), tc_nn_names(p), tc_nn_tensors(p), n_opts, opts, out_step,
                                    site);
}
