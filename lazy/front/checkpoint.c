// Checkpoints: parameters, optimizers' state, random state and step in one safetensors file.
// Numbers are text in the metadata, floating ones in hexadecimal, so that they come back to the
// bit. The first metadata is the checksum: XXH3-128 of the file before its 32 digits and of the
// file after them, then of these two. So the digits are at a known place, and no byte of the file
// can change unnoticed.
// Invariants: the whole file is read and checked against the program's tensors before the first of
// them is assigned. The assigned values are copies of the very bytes that the checksum covers.
// They are copies since an assigned tensor shares its value's memory, and others may write to the
// file.
// Threads: thread-compatible. Owner: nobody.
#define TC_NO_SITES
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lazy/front/safetensors.h"
#include "runtime/hash.h"

#define FORMAT "tc.checkpoint.1"
#define FORMAT_2 "tc.checkpoint.2"  // with several optimizers, or groups
#define OPTIMIZER "optimizer"
#define LR "lr"
#define BEFORE_SUM "{\"__metadata__\":{\"checksum\":\""
enum { SUM_AT = 8 + sizeof BEFORE_SUM - 1, SUM_DIGITS = 32 };

static void checksum(const unsigned char *file, size_t bytes, char out[SUM_DIGITS + 1]) {
  size_t after = SUM_AT + SUM_DIGITS;
  tc_hash parts[2] = {tc_hash_bytes(file, SUM_AT), tc_hash_bytes(file + after, bytes - after)},
          sum = tc_hash_bytes(parts, sizeof parts);
  snprintf(out, SUM_DIGITS + 1, "%016" PRIx64 "%016" PRIx64, sum.hi, sum.lo);
}

// ---- What a checkpoint holds: the program's parameters, then the state of its optimizers ----

// The name of a fact of the k-th optimizer. Names of optimizer 0 have no number, so that files with
// one optimizer keep their format.
typedef char key[32];

static const char *key_of(key out, const char *what, int k) {
  snprintf(out, sizeof(key), k ? "%s%d" : "%s", what, k);
  return out;
}

typedef struct content {
  int n, n_params, n_opts;
  tc_optimizer *const *opt;  // borrowed
  const char **name;
  tc_tensor *tensor;
  char **made;  // names that are ours to free
} content;

static void content_fini(content *c) {
  for (int i = c->n_params; c->made && i < c->n; i++) free(c->made[i]);
  free(c->made);
  free(c->name);
  free(c->tensor);
}

static int count_states(const tc_optimizer *opt) {
  int n = 0;
  while (tc_optimizer_state_name(opt, n)) n++;
  return n;
}

static tc_status check_optimizers(const char *op, int n_opts, tc_optimizer *const *opts, tc_site site) {
  if (n_opts < 0 || (n_opts > 0 && !opts))
    return tc_fail(TC_ERR_ARG, op, site, "%d optimizers at a null pointer", n_opts);
  for (int k = 0; k < n_opts; k++) {
    if (!opts[k]) return tc_fail(TC_ERR_ARG, op, site, "optimizer %d is NULL", k);
    for (int j = 0; j < k; j++)
      if (opts[j] == opts[k]) return tc_fail(TC_ERR_ARG, op, site, "optimizers %d and %d are the same", j, k);
  }
  return TC_OK;
}

// State tensors are handles of the current scope.
static tc_status content_init(content *c, const char *op, int n, const char *const *names, const tc_tensor *params,
                              int n_opts, tc_optimizer *const *opts, tc_site site) {
  *c = (content){.n = n, .n_params = n, .n_opts = n_opts, .opt = opts};
  if (n < 0 || (n > 0 && (!names || !params)))
    return tc_fail(TC_ERR_ARG, op, site, "%d tensors%s", n, n < 0 ? "" : " at a null pointer");
  TC_TRY(check_optimizers(op, n_opts, opts, site));
  for (int k = 0; k < n_opts; k++) c->n += count_states(opts[k]);
  c->name = calloc((size_t)c->n + 1, sizeof *c->name);
  c->tensor = calloc((size_t)c->n + 1, sizeof *c->tensor);
  c->made = calloc((size_t)c->n + 1, sizeof *c->made);
  bool ok = c->name && c->tensor && c->made;
  int at = 0;
  for (; at < n && ok; at++) c->name[at] = names[at], c->tensor[at] = params[at];
  for (int k = 0; k < n_opts; k++) {
    const char *state;
    key prefix;
    for (int i = 0; ok && (state = tc_optimizer_state_name(opts[k], i)); i++, at++) {
      ok = asprintf(&c->made[at], "%s.%s", key_of(prefix, OPTIMIZER, k), state) >= 0;
      if (!ok) c->made[at] = NULL;
      c->name[at] = c->made[at];
      c->tensor[at] = tc_optimizer_state_at(opts[k], i, site);
    }
  }
  return ok ? TC_OK : tc_fail(TC_ERR_MEMORY, op, site, "no memory for %d tensors", c->n);
}

// Whose parameter it is among the program's; n_params: nobody's.
static int find_param(const content *c, tc_tensor p) {
  int i = 0;
  while (i < c->n_params && (c->tensor[i].slot != p.slot || c->tensor[i].gen != p.gen)) i++;
  return i;
}

// An optimizer's kind, and a digest of its parameters' names in its order, by which its state is
// numbered, and of their groups; "" without one.
typedef char identity[64];

static void identify(const content *c, int k, identity out) {
  const tc_optimizer *opt = k < c->n_opts ? c->opt[k] : NULL;
  tc_hash names = {0, 0};
  tc_tensor p;
  out[0] = 0;
  for (int i = 0; opt && (p = tc_optimizer_param(opt, i)).gen; i++) {
    int at = find_param(c, p);
    const char *name = at < c->n_params ? c->name[at] : "";
    tc_hash parts[2] = {names, tc_hash_bytes(name, strlen(name))};
    parts[1].lo ^= (uint64_t)tc_optimizer_group(opt, i);  // as it was without groups
    names = tc_hash_bytes(parts, sizeof parts);
  }
  if (opt) snprintf(out, sizeof(identity), "%s %016" PRIx64 "%016" PRIx64, tc_optimizer_kind(opt), names.hi, names.lo);
}

// ---- Saving ----

// Reads back what was written, and puts its checksum where zeros were.
static tc_status seal(tc_new_file *f) {
  struct stat info;
  char sum[SUM_DIGITS + 1];
  if (f->why) return TC_OK;  // reported by tc_new_file_end
  if (fstat(f->fd, &info) != 0 || !S_ISREG(info.st_mode))
    return tc_fail(TC_ERR_IO, f->op, f->site, "%s is no file", f->path);
  void *file = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_SHARED, f->fd, 0);
  if (file == MAP_FAILED)
    return tc_fail(TC_ERR_IO, f->op, f->site, "%s: what was written cannot be read back", f->path);
  checksum(file, (size_t)info.st_size, sum);
  munmap(file, (size_t)info.st_size);
  if (lseek(f->fd, SUM_AT, SEEK_SET) == SUM_AT) tc_new_file_write(f, sum, SUM_DIGITS);
  return TC_OK;
}

// What the metadata says of an optimizer.
typedef struct described {
  key lr_key, kind_key;
  char *lr;  // the learning rates of its groups, with spaces
  identity kind;
} described;

static bool describe(const content *c, int k, described *out, tc_site site) {
  const tc_optimizer *opt = k < c->n_opts ? c->opt[k] : NULL;
  size_t bytes = 1 + 32 * (size_t)tc_optimizer_n_groups(opt), used = 0;
  (void)key_of(out->lr_key, LR, k), (void)key_of(out->kind_key, OPTIMIZER, k);
  identify(c, k, out->kind);
  if (!(out->lr = calloc(1, bytes))) return false;
  for (int g = 0; g < tc_optimizer_n_groups(opt); g++)
    used += (size_t)snprintf(out->lr + used, bytes - used, g ? " %a" : "%a", tc_get_group_lr_at(opt, g, site));
  return true;
}

static tc_status write_file(tc_new_file *f, const content *c, int64_t step, tc_site site) {
  char step_text[24], rng[64];
  int n_described = c->n_opts ? c->n_opts : 1, n_meta = 8;
  described *d = calloc((size_t)n_described, sizeof *d);
  const char **meta = calloc(8 + 4 * (size_t)n_described, sizeof *meta);
  bool ok = d && meta, plain = c->n_opts <= 1;
  for (int k = 0; k < n_described && ok; k++) ok = describe(c, k, &d[k], site);
  for (int k = 0; k < c->n_opts; k++) plain = plain && tc_optimizer_n_groups(c->opt[k]) == 1;
  tc_status st = TC_OK;
  if (ok) {
    tc_rng_state r = tc_get_rng_state();
    snprintf(step_text, sizeof step_text, "%" PRId64, step);
    snprintf(rng, sizeof rng, "%" PRIx64 " %" PRIx64 " %" PRIx64, r.seed, r.counter, r.stream);
    const char *first[] = {
        "checksum", "00000000000000000000000000000000", "format", plain ? FORMAT : FORMAT_2, "step", step_text, "rng",
        rng};
    memcpy(meta, first, sizeof first);
    for (int k = 0; k < n_described; k++) {
      const char *of_opt[] = {d[k].lr_key, d[k].lr, d[k].kind_key, d[k].kind};
      memcpy(meta + n_meta, of_opt, sizeof of_opt);
      n_meta += 4;
    }
    st = tc_safetensors_write(f, c->n, c->name, c->tensor, n_meta / 2, meta);
  } else {
    st = tc_fail(TC_ERR_MEMORY, f->op, site, "no memory for %d optimizers", c->n_opts);
  }
  for (int k = 0; d && k < n_described; k++) free(d[k].lr);
  free(d);
  free(meta);
  return st;
}

tc_status tc_checkpoint_save_with_at(const char *path, int n, const char *const *names, const tc_tensor *params,
                                     int n_opts, tc_optimizer *const *opts, int64_t step, tc_site site) {
  TC_CALLED_AS("checkpoint_save_with");
  const char *op = tc_outer_op;
  content c;
  tc_new_file f;
  tc_scope scope = tc_scope_begin_at(site);
  tc_status st = content_init(&c, op, n, names, params, n_opts, opts, site);
  if (st == TC_OK) st = tc_archive_check_save(op, path, c.n, c.name, c.tensor, site);
  if (st == TC_OK) {
    tc_new_file_begin(&f, op, path, site);
    st = write_file(&f, &c, step, site);
    if (st == TC_OK) st = seal(&f);
    st = tc_new_file_end(&f, st);
  }
  content_fini(&c);
  tc_scope_end_at(scope, 0);
  return st;
}

tc_status tc_checkpoint_save_at(const char *path, int n, const char *const *names, const tc_tensor *params,
                                const tc_optimizer *opt, int64_t step, tc_site site) {
  TC_CALLED_AS("checkpoint_save");
  return tc_checkpoint_save_with_at(path, n, names, params, opt != NULL, (tc_optimizer *const[]){(tc_optimizer *)opt},
                                    step, site);
}

// ---- Resuming ----

typedef struct numbers {
  int64_t step;
  tc_rng_state rng;
  double *lr;  // of each optimizer's groups, one after the other
} numbers;

// An archive that is a checkpoint, whole and undamaged.
static tc_status verify(const char *op, const tc_archive *a, tc_site site) {
  size_t bytes;
  const unsigned char *file = tc_safetensors_bytes(a, &bytes);
  if (bytes < SUM_AT + SUM_DIGITS || memcmp(file + 8, BEFORE_SUM, sizeof BEFORE_SUM - 1) != 0)
    return tc_fail(TC_ERR_IO, op, site, "%s is no checkpoint: it has no checksum", a->path);
  char sum[SUM_DIGITS + 1];
  checksum(file, bytes, sum);
  if (memcmp(file + SUM_AT, sum, SUM_DIGITS) != 0)
    return tc_fail(TC_ERR_IO, op, site, "%s is damaged: its checksum is %.*s, should be %s", a->path, SUM_DIGITS,
                   file + SUM_AT, sum);
  const char *format = tc_archive_metadata(a, "format");
  if (format == NULL || (strcmp(format, FORMAT) != 0 && strcmp(format, FORMAT_2) != 0))
    return tc_fail(TC_ERR_IO, op, site, "%s has format %.40s, not " FORMAT " or " FORMAT_2, a->path,
                   format ? format : "(none)");
  return TC_OK;
}

// n learning rates in text, which are all that is in it.
static bool read_rates(const char *text, int n, double *out) {
  for (int i = 0, used; i < n; i++, text += used)
    if (sscanf(text, i ? " %la%n" : "%la%n", &out[i], &used) != 1 || !(out[i] >= 0) || !isfinite(out[i])) return false;
  return *text == 0;
}

static tc_status read_numbers(const char *op, const tc_archive *a, const content *c, numbers *out, tc_site site) {
  const char *step = tc_archive_metadata(a, "step"), *rng = tc_archive_metadata(a, "rng"),
             *lr = tc_archive_metadata(a, LR);
  double *next = out->lr;
  char end;
  key name;
  bool ok = step && rng && lr && sscanf(step, "%" SCNd64 "%c", &out->step, &end) == 1 &&
            sscanf(rng, "%" SCNx64 " %" SCNx64 " %" SCNx64 "%c", &out->rng.seed, &out->rng.counter, &out->rng.stream,
                   &end) == 3;
  if (!ok || out->rng.counter >> 40 || out->rng.stream >> 24)
    return tc_fail(TC_ERR_IO, op, site, "%s: step, rng or lr is not what was saved", a->path);
  if (c->n_opts && lr[0] == 0) return tc_fail(TC_ERR_ARG, op, site, "%s was saved without an optimizer", a->path);
  for (int k = 0; k < c->n_opts; k++) {
    int n_groups = tc_optimizer_n_groups(c->opt[k]);
    lr = tc_archive_metadata(a, key_of(name, LR, k));
    if (!lr)
      return tc_fail(TC_ERR_ARG, op, site, "%s was saved with %d optimizers, this program has %d", a->path, k,
                     c->n_opts);
    if (!read_rates(lr, n_groups, next))
      return tc_fail(TC_ERR_ARG, op, site,
                     "%s: optimizer %d has %d groups of parameters here, and was saved with learning rates '%.80s'",
                     a->path, k, n_groups, lr);
    next += n_groups;
  }
  if (c->n_opts && tc_archive_metadata(a, key_of(name, LR, c->n_opts)))
    return tc_fail(TC_ERR_ARG, op, site, "%s was saved with more than the %d optimizers of this program", a->path,
                   c->n_opts);
  return TC_OK;
}

static tc_status check_kind(const char *op, const tc_archive *a, const content *c, int k, tc_site site) {
  identity want;
  key name;
  const char *have = tc_archive_metadata(a, key_of(name, OPTIMIZER, k));
  identify(c, k, want);
  if (have == NULL || strcmp(have, want) == 0) return TC_OK;  // NULL: saved before kinds were
  int have_kind = (int)strcspn(have, " "), want_kind = (int)strcspn(want, " ");
  if (have_kind == want_kind && strncmp(have, want, (size_t)have_kind) == 0)
    return tc_fail(TC_ERR_ARG, op, site,
                   "%s was saved with an optimizer over other parameters, or in another order or other groups",
                   a->path);
  return tc_fail(TC_ERR_ARG, op, site, "%s was saved with %.*s, this program has %.*s", a->path,
                 have_kind ? have_kind : 12, have_kind ? have : "no optimizer", want_kind ? want_kind : 12,
                 want_kind ? want : "no optimizer");
}

// Nothing in the file that the program does not ask for: state of another optimizer, a parameter it
// lacks.
static tc_status check_rest(const char *op, const tc_archive *a, const content *c, tc_site site) {
  tc_names asked = {0};
  tc_status st = TC_OK;
  for (int i = 0; i < c->n && st == TC_OK; i++)
    if (tc_names_find(&asked, c->name[i]) < 0 && !tc_names_add(&asked, c->name[i]))
      st = tc_fail(TC_ERR_MEMORY, op, site, "no memory for names");
  for (int i = 0; i < a->names.n && st == TC_OK; i++)
    if (tc_names_find(&asked, a->names.name[i]) < 0)
      st = tc_fail(TC_ERR_ARG, op, site, "%s holds '%.100s', which this program did not ask for", a->path,
                   a->names.name[i]);
  tc_names_fini(&asked);
  return st;
}

static tc_status assign_optimizer(tc_optimizer *opt, const tc_tensor **value, const double **lr, tc_site site) {
  for (int i = 0, n = count_states(opt); i < n; i++) TC_TRY(tc_optimizer_set_state_at(opt, i, *(*value)++, site));
  TC_TRY(tc_set_lr_at(opt, *(*lr)++, site));
  for (int g = 1; g < tc_optimizer_n_groups(opt); g++, (*lr)++)  // a group without a rate of its own stays one
    if (tc_get_group_lr_at(opt, g, site) != **lr) TC_TRY(tc_set_group_lr_at(opt, g, **lr, site));
  return TC_OK;
}

static tc_status assign_all(const content *c, const tc_tensor *value, const numbers *num, tc_site site) {
  const double *lr = num->lr;
  for (int i = 0; i < c->n_params; i++) TC_TRY(tc_assign_at(c->tensor[i], *value++, site));
  for (int k = 0; k < c->n_opts; k++) TC_TRY(assign_optimizer(c->opt[k], &value, &lr, site));
  TC_TRY(tc_set_rng_state_at(num->rng, site));
  return tc_sync_at(NULL, site);
}

static tc_status resume(const char *op, const tc_archive *a, const content *c, int64_t *out_step, tc_site site) {
  int n_groups = 1;
  for (int k = 0; k < c->n_opts; k++) n_groups += tc_optimizer_n_groups(c->opt[k]);
  numbers num = {.lr = calloc((size_t)n_groups, sizeof *num.lr)};
  tc_tensor *value = calloc((size_t)c->n + 1, sizeof *value);
  tc_status st =
      num.lr && value ? verify(op, a, site) : tc_fail(TC_ERR_MEMORY, op, site, "no memory for %d tensors", c->n);
  if (st == TC_OK) st = read_numbers(op, a, c, &num, site);
  if (st == TC_OK) st = tc_archive_match(op, a, NULL, c->n, c->name, c->tensor, true, value, site);
  if (st == TC_OK) st = check_rest(op, a, c, site);
  for (int k = 0; k == 0 || k < c->n_opts; k++)
    if (st == TC_OK) st = check_kind(op, a, c, k, site);
  if (st == TC_OK) st = assign_all(c, value, &num, site);
  if (st == TC_OK && out_step) *out_step = num.step;
  free(value);
  free(num.lr);
  return st;
}

tc_status tc_checkpoint_load_with_at(const char *path, int n, const char *const *names, const tc_tensor *params,
                                     int n_opts, tc_optimizer *const *opts, int64_t *out_step, tc_site site) {
  TC_CALLED_AS("checkpoint_load_with");
  const char *op = tc_outer_op;
  content c;
  int64_t none = 0;
  tc_scope scope = tc_scope_begin_at(site);
  tc_status st = content_init(&c, op, n, names, params, n_opts, opts, site);
  tc_archive *a = NULL;
  // Reading a number runs nothing, and reports earlier failures, which would else stop the assigns
  // half way.
  if (st == TC_OK) st = tc_item_i64_at(tc_from_host_at(&none, TC_SCALAR, TC_I64, site), &none, site);
  if (st == TC_OK) st = tc_safetensors_read(path, &a, site);
  if (st == TC_OK) st = resume(op, a, &c, out_step, site);
  tc_archive_close(a);
  content_fini(&c);
  tc_scope_end_at(scope, 0);
  return st;
}

tc_status tc_checkpoint_load_at(const char *path, int n, const char *const *names, const tc_tensor *params,
                                tc_optimizer *opt, int64_t *out_step, tc_site site) {
  TC_CALLED_AS("checkpoint_load");
  return tc_checkpoint_load_with_at(path, n, names, params, opt != NULL, &opt, out_step, site);
}
