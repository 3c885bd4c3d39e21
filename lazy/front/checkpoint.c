// Checkpoints: parameters, optimizer state, random state and step in one safetensors file.
// Numbers are text in the metadata, floating ones in hexadecimal, so that they come back to the bit. The first metadata is the checksum: XXH3-128 of
// the file before its 32 digits and of the file after them, then of these two. So the digits are at a known place, and no byte of the file can change
// unnoticed.
// Always: everything is read and held against the program's tensors before the first of them is assigned; what is assigned are copies of the very bytes
// that the checksum was made of, since an assigned tensor has its value's memory and the file is others' to write to. Threads: thread-compatible.
#define TC_NO_SITES
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lazy/front/operand.h"
#include "lazy/front/safetensors.h"
#include "runtime/hash.h"

#define FORMAT "tc.checkpoint.1"
#define STATE "optimizer."
#define KIND "optimizer"
#define BEFORE_SUM "{\"__metadata__\":{\"checksum\":\""
enum { SUM_AT = 8 + sizeof BEFORE_SUM - 1, SUM_DIGITS = 32 };

static void checksum(const unsigned char *file, size_t bytes, char out[SUM_DIGITS + 1]) {
  size_t after = SUM_AT + SUM_DIGITS;
  tc_hash parts[2] = {tc_hash_bytes(file, SUM_AT), tc_hash_bytes(file + after, bytes - after)}, sum = tc_hash_bytes(parts, sizeof parts);
  snprintf(out, SUM_DIGITS + 1, "%016" PRIx64 "%016" PRIx64, sum.hi, sum.lo);
}

// ---- What a checkpoint holds: the program's parameters, then the state of its optimizer ----

typedef struct content {
  int n, n_params;
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

// State tensors are handles of the current scope.
static tc_status content_init(content *c, const char *op, int n, const char *const *names, const tc_tensor *params, const tc_optimizer *opt,
                              tc_site site) {
  *c = (content){.n = n, .n_params = n};
  if (n < 0 || (n > 0 && (!names || !params))) return tc_fail(TC_ERR_ARG, op, site, "%d tensors%s", n, n < 0 ? "" : " at a null pointer");
  while (opt && tc_optimizer_state_name(opt, c->n - n)) c->n++;
  c->name = calloc((size_t)c->n + 1, sizeof *c->name);
  c->tensor = calloc((size_t)c->n + 1, sizeof *c->tensor);
  c->made = calloc((size_t)c->n + 1, sizeof *c->made);
  bool ok = c->name && c->tensor && c->made;
  for (int i = 0; i < c->n && ok; i++) {
    if (i < n) {
      c->name[i] = names[i], c->tensor[i] = params[i];
      continue;
    }
    ok = asprintf(&c->made[i], STATE "%s", tc_optimizer_state_name(opt, i - n)) >= 0;
    if (!ok) c->made[i] = NULL;
    c->name[i] = c->made[i];
    c->tensor[i] = tc_optimizer_state_at(opt, i - n, site);
  }
  return ok ? TC_OK : tc_fail(TC_ERR_MEMORY, op, site, "no memory for %d tensors", c->n);
}

// The optimizer's kind, and a digest of its parameters' names in its order, by which its state is numbered; "" without one.
typedef char identity[64];

static void identify(const content *c, const tc_optimizer *opt, identity out) {
  tc_hash names = {0, 0};
  tc_tensor p;
  out[0] = 0;
  for (int i = 0; opt && (p = tc_optimizer_param(opt, i)).gen; i++) {
    int k = 0;
    while (k < c->n_params && (c->tensor[k].slot != p.slot || c->tensor[k].gen != p.gen)) k++;
    const char *name = k < c->n_params ? c->name[k] : "";
    tc_hash parts[2] = {names, tc_hash_bytes(name, strlen(name))};
    names = tc_hash_bytes(parts, sizeof parts);
  }
  if (opt) snprintf(out, sizeof(identity), "%s %016" PRIx64 "%016" PRIx64, tc_optimizer_kind(opt), names.hi, names.lo);
}

// ---- Saving ----

// Reads back what was written, and puts its checksum where zeros were.
static tc_status seal(tc_new_file *f) {
  struct stat info;
  char sum[SUM_DIGITS + 1];
  if (f->why) return TC_OK;  // told of by tc_new_file_end
  if (fstat(f->fd, &info) != 0 || !S_ISREG(info.st_mode)) return tc_fail(TC_ERR_IO, f->op, f->site, "%s is no file", f->path);
  void *file = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_SHARED, f->fd, 0);
  if (file == MAP_FAILED) return tc_fail(TC_ERR_IO, f->op, f->site, "%s: what was written cannot be read back", f->path);
  checksum(file, (size_t)info.st_size, sum);
  munmap(file, (size_t)info.st_size);
  if (lseek(f->fd, SUM_AT, SEEK_SET) == SUM_AT) tc_new_file_write(f, sum, SUM_DIGITS);
  return TC_OK;
}

tc_status tc_checkpoint_save_at(const char *path, int n, const char *const *names, const tc_tensor *params, const tc_optimizer *opt, int64_t step,
                                tc_site site) {
  TC_CALLED_AS("checkpoint_save");
  const char *op = "checkpoint_save";
  char step_text[24], rng[64], lr[32] = "";
  identity kind;
  content c;
  tc_new_file f;
  tc_scope scope = tc_scope_begin_at(site);
  tc_status st = content_init(&c, op, n, names, params, opt, site);
  if (st == TC_OK) st = tc_archive_check_save(op, path, c.n, c.name, c.tensor, site);
  if (st == TC_OK) {
    tc_rng_state r = tc_get_rng_state();
    snprintf(step_text, sizeof step_text, "%" PRId64, step);
    snprintf(rng, sizeof rng, "%" PRIx64 " %" PRIx64 " %" PRIx64, r.seed, r.counter, r.stream);
    if (opt) snprintf(lr, sizeof lr, "%a", tc_get_lr_at(opt, site));
    identify(&c, opt, kind);
    const char *meta[] = {"checksum", "00000000000000000000000000000000", "format", FORMAT, "step", step_text, "rng", rng, "lr", lr, KIND, kind};
    tc_new_file_begin(&f, op, path, site);
    st = tc_safetensors_write(&f, c.n, c.name, c.tensor, 6, meta);
    if (st == TC_OK) st = seal(&f);
    st = tc_new_file_end(&f, st);
  }
  content_fini(&c);
  tc_scope_end_at(scope, 0);
  return st;
}

// ---- Resuming ----

typedef struct numbers {
  int64_t step;
  tc_rng_state rng;
  double lr;
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
    return tc_fail(TC_ERR_IO, op, site, "%s is damaged: its checksum is %.*s, should be %s", a->path, SUM_DIGITS, file + SUM_AT, sum);
  const char *format = tc_archive_metadata(a, "format");
  if (format == NULL || strcmp(format, FORMAT) != 0)
    return tc_fail(TC_ERR_IO, op, site, "%s has format %.40s, not " FORMAT, a->path, format ? format : "(none)");
  return TC_OK;
}

static tc_status read_numbers(const char *op, const tc_archive *a, const tc_optimizer *opt, numbers *out, tc_site site) {
  const char *step = tc_archive_metadata(a, "step"), *rng = tc_archive_metadata(a, "rng"), *lr = tc_archive_metadata(a, "lr");
  char end;
  bool ok = step && rng && lr && sscanf(step, "%" SCNd64 "%c", &out->step, &end) == 1 &&
            sscanf(rng, "%" SCNx64 " %" SCNx64 " %" SCNx64 "%c", &out->rng.seed, &out->rng.counter, &out->rng.stream, &end) == 3;
  if (!ok || out->rng.counter >> 40 || out->rng.stream >> 24)
    return tc_fail(TC_ERR_IO, op, site, "%s: step, rng or lr is not what was saved", a->path);
  if (opt == NULL) return TC_OK;
  if (sscanf(lr, "%la%c", &out->lr, &end) != 1 || !(out->lr >= 0) || !isfinite(out->lr))
    return tc_fail(TC_ERR_ARG, op, site, "%s was saved without an optimizer", a->path);
  return TC_OK;
}

static tc_status check_kind(const char *op, const tc_archive *a, const content *c, const tc_optimizer *opt, tc_site site) {
  identity want;
  const char *have = tc_archive_metadata(a, KIND);
  identify(c, opt, want);
  if (have == NULL || strcmp(have, want) == 0) return TC_OK;  // NULL: saved before kinds were
  int have_kind = (int)strcspn(have, " "), want_kind = (int)strcspn(want, " ");
  if (have_kind == want_kind && strncmp(have, want, (size_t)have_kind) == 0)
    return tc_fail(TC_ERR_ARG, op, site, "%s was saved with an optimizer over other parameters, or in another order", a->path);
  return tc_fail(TC_ERR_ARG, op, site, "%s was saved with %.*s, this program has %.*s", a->path, have_kind ? have_kind : 12,
                 have_kind ? have : "no optimizer", want_kind ? want_kind : 12, want_kind ? want : "no optimizer");
}

// Nothing in the file that the program does not ask for: state of another optimizer, a parameter it lacks.
static tc_status check_rest(const char *op, const tc_archive *a, const content *c, tc_site site) {
  tc_names asked = {0};
  tc_status st = TC_OK;
  for (int i = 0; i < c->n && st == TC_OK; i++)
    if (tc_names_find(&asked, c->name[i]) < 0 && !tc_names_add(&asked, c->name[i])) st = tc_fail(TC_ERR_MEMORY, op, site, "no memory for names");
  for (int i = 0; i < a->names.n && st == TC_OK; i++)
    if (tc_names_find(&asked, a->names.name[i]) < 0)
      st = tc_fail(TC_ERR_ARG, op, site, "%s holds '%.100s', which this program did not ask for", a->path, a->names.name[i]);
  tc_names_fini(&asked);
  return st;
}

static tc_status assign_all(const content *c, const tc_tensor *value, tc_optimizer *opt, const numbers *num, tc_site site) {
  for (int i = 0; i < c->n_params; i++) TC_TRY(tc_assign_at(c->tensor[i], value[i], site));
  for (int i = c->n_params; i < c->n; i++) TC_TRY(tc_optimizer_set_state_at(opt, i - c->n_params, value[i], site));
  if (opt) TC_TRY(tc_set_lr_at(opt, num->lr, site));
  TC_TRY(tc_set_rng_state_at(num->rng, site));
  return tc_sync_at(NULL, site);
}

static tc_status resume(const char *op, const tc_archive *a, const content *c, tc_optimizer *opt, int64_t *out_step, tc_site site) {
  numbers num = {0};
  TC_TRY(verify(op, a, site));
  TC_TRY(read_numbers(op, a, opt, &num, site));
  tc_tensor *value = calloc((size_t)c->n + 1, sizeof *value);
  if (value == NULL) return tc_fail(TC_ERR_MEMORY, op, site, "no memory for %d tensors", c->n);
  tc_status st = tc_archive_match(op, a, NULL, c->n, c->name, c->tensor, true, value, site);
  if (st == TC_OK) st = check_rest(op, a, c, site);
  if (st == TC_OK) st = check_kind(op, a, c, opt, site);
  if (st == TC_OK) st = assign_all(c, value, opt, &num, site);
  if (st == TC_OK && out_step) *out_step = num.step;
  free(value);
  return st;
}

tc_status tc_checkpoint_load_at(const char *path, int n, const char *const *names, const tc_tensor *params, tc_optimizer *opt, int64_t *out_step,
                                tc_site site) {
  TC_CALLED_AS("checkpoint_load");
  const char *op = "checkpoint_load";
  content c;
  int64_t none = 0;
  tc_scope scope = tc_scope_begin_at(site);
  tc_status st = content_init(&c, op, n, names, params, opt, site);
  tc_archive *a = NULL;
  // Reading a number runs nothing, and tells what failed before, which would else stop the assigns half way.
  if (st == TC_OK) st = tc_item_i64_at(tc_from_host_at(&none, TC_SCALAR, TC_I64, site), &none, site);
  if (st == TC_OK) st = tc_safetensors_read(path, &a, site);
  if (st == TC_OK) st = resume(op, a, &c, opt, out_step, site);
  tc_archive_close(a);
  content_fini(&c);
  tc_scope_end_at(scope, 0);
  return st;
}
