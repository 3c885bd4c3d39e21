// Loading back ends and calling their functions. See loaded_backend.h.
#include "device/loaded_backend.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/arena.h"
#include "runtime/fork.h"
#include "runtime/log.h"
#include "runtime/object_file.h"
#include "runtime/options.h"
#include "runtime/profile_file.h"
#include "runtime/reentry.h"

#define NAME_BYTES 32
#define MOST_NAME 23  // of a back end's own name
#define ALIGNMENT 64  // of memory that kernels of the CPU read

typedef struct backend backend;
struct tc_loaded {
  backend *of;
  int ordinal;
  void *device;  // what open gave
  atomic_bool open;
  atomic_uint opened;
  unsigned forks;  // of this process's ancestors, when it was opened
  char why[240];  // why it did not open
};

struct backend {
  tc_backend table;  // the object's; fields that it lacks are NULL
  const tc_backend *origin;
  char path[PATH_MAX], sentence[PATH_MAX + 240];
  char text[TC_MOST_ORDINALS][NAME_BYTES];
  const char *name[TC_MOST_ORDINALS];  // the texts
  pthread_mutex_t *lock;  // of its functions
  tc_loaded device[TC_MOST_ORDINALS];
};

static struct {
  pthread_mutex_t lock;  // of loading
  backend *list[TC_MOST_LOADED];  // written once each, before n counts it
  atomic_int n;
  pthread_mutex_t search;  // of looking through TC_BACKEND_PATH
  atomic_bool searched;
  char misses[1024];
  pthread_mutex_t call[TC_MOST_LOADED];  // of the functions of each
} self = {.lock = PTHREAD_MUTEX_INITIALIZER, .search = PTHREAD_MUTEX_INITIALIZER};
TC_FORK_SAFE(&self.lock, 5)

static atomic_uint forks;

static void count_fork(void) {
  atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
}

static void register_calls(void) __attribute__((constructor));
static void register_calls(void) {
  for (int i = 0; i < TC_MOST_LOADED; i++) {
    pthread_mutex_init(&self.call[i], NULL);
    tc_fork_register(&self.call[i], NULL, 9);
  }
  tc_fork_register(&self.search, NULL, 4);
  pthread_atfork(NULL, NULL, count_fork);
}

// ---- what a table must have ----

static bool is_name(const char *name) {
  size_t n = name ? strnlen(name, MOST_NAME + 1) : 0;
  return n > 0 && n <= MOST_NAME && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == n;
}

// The file whose back end has the name; NULL: none has it.
static const char *owner_of(const char *name) {
#define TC_BACKEND(NAME, text, kind) \
  if (strcmp(text, "tc:") && strcmp(&text[3], name) == 0) return "tc itself";
#include "device/backends.def"
#undef TC_BACKEND
  for (int i = 0; i < atomic_load(&self.n); i++)
    if (strcmp(self.list[i]->table.name, name) == 0) return self.list[i]->path;
  return NULL;
}

// The first required field that is NULL; NULL: none is.
static const char *missing_field(const tc_backend *t) {
  bool host = t->flags & TC_BACKEND_HOST_MEMORY;
  if (!t->supports) return "supports";
  if (!t->run) return "run";
  if (!t->alloc != !t->free) return t->alloc ? "free" : "alloc";
  if (host) return NULL;
  return !t->alloc ? "alloc" : !t->write ? "write" : !t->read ? "read" : NULL;
}

#define REFUSE(...) tc_fail(TC_ERR_DEVICE, op, site, __VA_ARGS__)

static tc_status check_table(const tc_backend *t, const char *path, const char *op, tc_site site) {
  const size_t least = offsetof(tc_backend, run) + sizeof t->run;
  if (!t)
    return REFUSE("%s: tc_backend_query(%d) returned NULL: it has nothing for this version of tc", path,
                  TC_BACKEND_VERSION);
  if (t->struct_size < offsetof(tc_backend, name) || t->version != TC_BACKEND_VERSION)
    return REFUSE("%s: its table is of version %u; this tc takes version %d (struct_size %zu)", path,
                  t->struct_size < offsetof(tc_backend, flags) ? 0 : t->version, TC_BACKEND_VERSION, t->struct_size);
  if (t->struct_size < least)
    return REFUSE("%s: struct_size is %zu; a table of version %d has %zu bytes: set it to sizeof(tc_backend)", path,
                  t->struct_size, TC_BACKEND_VERSION, least);
  if (!is_name(t->name))
    return REFUSE("%s: its name is %s%.40s%s; 1 to %d of the characters a to z, 0 to 9 and _ were expected", path,
                  t->name ? "\"" : "", t->name ? t->name : "NULL", t->name ? "\"" : "", MOST_NAME);
  const char *missing = missing_field(t);
  if (missing)
    return REFUSE("%s: the field %s is NULL; only with TC_BACKEND_HOST_MEMORY memory's functions are optional", path,
                  missing);
  const char *owner = owner_of(t->name);
  if (owner) return REFUSE("%s: the name \"%s\" is taken, by %s", path, t->name, owner);
  return TC_OK;
}

// ---- loading ----

// pre: loading is locked. Adds the back end of a table that was checked.
static tc_status add_backend(const tc_backend *t, const char *path, const char *op, tc_site site, tc_device *out_row) {
  int n = atomic_load(&self.n);
  backend *b = n < TC_MOST_LOADED ? tc_calloc(1, sizeof *b) : NULL;
  if (n == TC_MOST_LOADED) return REFUSE("%s: %d back ends are loaded already, which is the most", path, n);
  if (!b) return tc_fail(TC_ERR_MEMORY, op, site, "no room for a back end");
  memcpy(&b->table, t, TC_MIN(t->struct_size, sizeof *t));
  b->origin = t;
  snprintf(b->path, sizeof b->path, "%s", path);
  snprintf(b->sentence, sizeof b->sentence, "%.200s%s%s", t->description ? t->description : "",
           t->description ? ", " : "", path);
  b->lock = &self.call[n];
  for (int i = 0; i < TC_MOST_ORDINALS; i++) {
    b->device[i].of = b, b->device[i].ordinal = i;
    snprintf(b->text[i], NAME_BYTES, i ? "tc:%s:%d" : "tc:%s", t->name, i);
    b->name[i] = b->text[i];
  }
  tc_device_set_names((tc_device)(TC_N_DEVICES + n), b->name);
  self.list[n] = b;
  atomic_store_explicit(&self.n, n + 1, memory_order_release);
  if (tc_log_on(TC_LOG_BACKEND)) tc_log_line(TC_LOG_BACKEND, "%s is %s", b->name[0], b->sentence);
  *out_row = (tc_device)(TC_N_DEVICES + n);
  return TC_OK;
}

// pre: loading is locked. path: absolute.
static tc_status open_file(const char *path, const char *op, tc_site site, tc_device *out_row) {
  for (int i = 0; i < atomic_load(&self.n); i++)
    if (strcmp(self.list[i]->path, path) == 0) return *out_row = (tc_device)(TC_N_DEVICES + i), TC_OK;
  TC_TRY(tc_object_file_check(path, op, site));
  void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!object) return tc_fail(TC_ERR_IO, op, site, "%s", dlerror());
  const tc_backend *(*query)(uint32_t) = NULL;
  *(void **)&query = dlsym(object, "tc_backend_query");
  const tc_backend *t = query ? query(TC_BACKEND_VERSION) : NULL;
  for (int i = 0; t && i < atomic_load(&self.n); i++)
    if (self.list[i]->origin == t)
      return *out_row = (tc_device)(TC_N_DEVICES + i), TC_OK;  // by another link to the file
  tc_status st = query ? check_table(t, path, op, site)
                       : REFUSE("%s: it exports no function tc_backend_query, so it is no back end of tc", path);
  if (st == TC_OK) st = add_backend(t, path, op, site, out_row);
  if (st != TC_OK) dlclose(object);
  return st;
}

tc_status tc_loaded_load(const char *path, const char *op, tc_site site, tc_device *out_row) {
  char whole[PATH_MAX];
  struct stat s;
  *out_row = TC_N_DEVICES;
  if (!path || !*path) return tc_fail(TC_ERR_ARG, op, site, "the path is %s", path ? "empty" : "NULL");
  if (!realpath(path, whole) || stat(whole, &s) != 0)
    return tc_fail(TC_ERR_IO, op, site, "there is no file %.200s", path);
  if (S_ISDIR(s.st_mode))
    return tc_fail(TC_ERR_IO, op, site, "%.200s is a directory; a shared object was expected", path);
  pthread_mutex_lock(&self.lock);
  tc_status st = open_file(whole, op, site, out_row);
  pthread_mutex_unlock(&self.lock);
  return st;
}

tc_status tc_backend_load_at(const char *path, const char **out_device, tc_site site) {
  tc_device row;
  if (out_device) *out_device = NULL;
  if (!tc_enter("backend_load", site)) return TC_ERR_STATE;
  tc_status st = tc_loaded_load(path, "backend_load", site, &row);
  if (st == TC_OK && out_device) *out_device = tc_device_name(row);
  tc_leave();
  return st;
}

static void load_entry(const char *path) {
  tc_device row;
  tc_error_mark before = tc_error_now();
  if (tc_loaded_load(path, "TC_BACKEND_PATH", 0, &row) == TC_OK) return;
  const char *why = tc_last_error()->message;
  tc_log_line(TC_LOG_WARN, "%s", why);
  tc_text_append(self.misses, sizeof self.misses, "; %s", why);
  (void)tc_error_tell(before);
}

static int is_object(const struct dirent *e) {
  size_t n = strlen(e->d_name);
  return n > 3 && strcmp(e->d_name + n - 3, ".so") == 0;
}

static void load_directory(const char *path) {
  struct dirent **entry;
  char file[PATH_MAX];
  int n = scandir(path, &entry, is_object, alphasort);
  for (int i = 0; i < n; i++) {
    if ((size_t)snprintf(file, sizeof file, "%s/%s", path, entry[i]->d_name) < sizeof file) load_entry(file);
    free(entry[i]);
  }
  if (n >= 0) free(entry);
}

static void load_path(const char *at) {
  struct stat s;
  while (*at) {
    char path[PATH_MAX];
    size_t n = strcspn(at, ":");
    if (n > 0 && n < sizeof path) {
      snprintf(path, sizeof path, "%.*s", (int)n, at);
      if (stat(path, &s) == 0 && S_ISDIR(s.st_mode))
        load_directory(path);
      else
        load_entry(path);
    }
    at += n + (at[n] == ':');
  }
}

void tc_loaded_search(void) {
  const char *path = tc_options_get()->backend_path;
  if (!path || atomic_load(&self.searched)) return;
  pthread_mutex_lock(&self.search);
  if (!atomic_load(&self.searched)) load_path(path);
  atomic_store(&self.searched, true);
  pthread_mutex_unlock(&self.search);
}

const char *tc_loaded_misses(void) {
  return self.misses;
}

// ---- names ----

int tc_loaded_count(void) {
  return atomic_load_explicit(&self.n, memory_order_acquire);
}

static backend *backend_of(tc_device d) {
  return self.list[tc_device_row(d) - TC_N_DEVICES];
}

int tc_loaded_find(const char *text) {
  for (int i = 0; i < tc_loaded_count(); i++) {
    size_t n = strlen(self.list[i]->name[0]);
    if (strncmp(text, self.list[i]->name[0], n) == 0 && (text[n] == 0 || text[n] == ':')) return TC_N_DEVICES + i;
  }
  return -1;
}

const char *tc_loaded_sentence(tc_device d) {
  return backend_of(d)->sentence;
}

const char *tc_backend_device(int i) {
  if (!tc_enter("backend_device", 0)) return NULL;
  tc_loaded_search();
  const char *name = i >= 0 && i < tc_loaded_count() ? tc_device_name((tc_device)(TC_N_DEVICES + i)) : NULL;
  tc_leave();
  return name;
}

// ---- calls ----

// pre: locked. False: the process is a fork of the one that opened the device, which forbids that.
static bool is_ours(const tc_loaded *l) {
  return (l->of->table.flags & TC_BACKEND_FORK_SAFE) || l->forks == atomic_load_explicit(&forks, memory_order_relaxed);
}

// pre: locked, and a function was just called. Its result as a status, and the text of a failure.
static tc_status judge(const tc_loaded *l, const char *function, tc_backend_result r, char why[TC_LOADED_WHY]) {
  const backend *b = l->of;
  if (r == TC_BACKEND_OK) return *why = 0, TC_OK;
  const char *text = b->table.last_error ? b->table.last_error(l->device) : NULL;
  char number[40] = "";
  if (r != TC_BACKEND_FAILED && r != TC_BACKEND_NO_MEMORY) snprintf(number, sizeof number, ", by returning %d", (int)r);
  snprintf(why, TC_LOADED_WHY, "%s: %s of %.200s %s%s%s%.200s", b->name[l->ordinal], function, b->path,
           r == TC_BACKEND_NO_MEMORY ? "says that there is no memory" : "failed", number, text ? ": " : "",
           text ? text : "");
  return r == TC_BACKEND_NO_MEMORY ? TC_ERR_MEMORY : TC_ERR_RUN;
}

// The status of that result; a failure is recorded as this thread's error.
static tc_status told(const tc_loaded *l, const char *function, tc_backend_result r) {
  char why[TC_LOADED_WHY];
  tc_status st = judge(l, function, r, why);
  return st == TC_OK ? TC_OK : TC_FAIL(st, "%s", why);
}

// Takes the back end's lock for a call. The lock is held if TC_OK is returned.
static tc_status begin_call(tc_loaded *l) {
  pthread_mutex_lock(l->of->lock);
  bool ours = is_ours(l);
  if (TC_LIKELY(ours && atomic_load_explicit(&l->open, memory_order_relaxed))) return TC_OK;
  pthread_mutex_unlock(l->of->lock);
  return TC_FAIL(TC_ERR_DEVICE, "%s: %s", l->of->name[l->ordinal],
                 ours ? "the device was closed by tc_shutdown"
                      : "it was opened before fork(), and its back end lacks TC_BACKEND_FORK_SAFE");
}

static tc_status end_call(tc_loaded *l, const char *function, tc_backend_result r) {
  tc_status st = told(l, function, r);
  pthread_mutex_unlock(l->of->lock);
  return st;
}

// ---- devices ----

// pre: locked. Returns why the device does not open; NULL: it is open.
static const char *open_locked(tc_loaded *l) {
  const tc_backend *t = &l->of->table;
  const char *file = l->of->path;
  if (atomic_load(&l->open))
    return is_ours(l) ? NULL : "it was opened before fork(), and its back end lacks TC_BACKEND_FORK_SAFE";
  int n = t->device_count ? t->device_count() : 1;
  if (l->ordinal >= TC_MIN(n, TC_MOST_ORDINALS)) {
    snprintf(l->why, sizeof l->why, "%.150s has %d device%s, and none of number %d", file, n, n == 1 ? "" : "s",
             l->ordinal);
    return l->why;
  }
  l->device = NULL;
  tc_backend_result r = t->open ? t->open(l->ordinal, &l->device) : TC_BACKEND_OK;
  if (r != TC_BACKEND_OK) {
    const char *text = t->last_error ? t->last_error(NULL) : NULL;
    snprintf(l->why, sizeof l->why, "open of %.100s failed%s%.100s", file, text ? ": " : "", text ? text : "");
    return l->why;
  }
  l->forks = atomic_load(&forks);
  atomic_fetch_add(&l->opened, 1);
  atomic_store_explicit(&l->open, true, memory_order_release);
  return NULL;
}

const char *tc_loaded_absent(tc_device d) {
  backend *b = backend_of(d);
  tc_loaded *l = &b->device[tc_device_ordinal(d)];
  pthread_mutex_lock(b->lock);
  const char *why = open_locked(l);
  pthread_mutex_unlock(b->lock);
  return why;
}

tc_status tc_loaded_get(tc_device d, tc_loaded **out) {
  const char *why = tc_loaded_absent(d);
  *out = why ? NULL : &backend_of(d)->device[tc_device_ordinal(d)];
  return why ? TC_FAIL(TC_ERR_DEVICE, "%s: %s", tc_device_name(d), why) : TC_OK;
}

bool tc_loaded_is_host(const tc_loaded *l) {
  return l->of->table.flags & TC_BACKEND_HOST_MEMORY;
}

uint32_t tc_loaded_opened(const tc_loaded *l) {
  return atomic_load_explicit(&l->opened, memory_order_relaxed);
}

void tc_loaded_shutdown(void) {
  for (int i = 0; i < tc_loaded_count(); i++) {
    backend *b = self.list[i];
    pthread_mutex_lock(b->lock);
    for (int k = 0; k < TC_MOST_ORDINALS; k++) {
      tc_loaded *l = &b->device[k];
      if (!atomic_load(&l->open) || !is_ours(l)) continue;
      if (b->table.wait) (void)b->table.wait(l->device);
      if (b->table.close) b->table.close(l->device);
      atomic_store(&l->open, false);
    }
    pthread_mutex_unlock(b->lock);
  }
}

// ---- memory ----

static void *host_memory(size_t bytes) {
  void *p = NULL;
  return posix_memalign(&p, ALIGNMENT, bytes) == 0 ? p : NULL;
}

tc_status tc_loaded_take(tc_loaded *l, size_t bytes, void **out) {
  const tc_backend *t = &l->of->table;
  *out = NULL;
  TC_TRY(begin_call(l));
  tc_backend_result r = TC_BACKEND_OK;
  if (t->alloc)
    r = t->alloc(l->device, bytes, out);
  else
    r = (*out = host_memory(bytes)) ? TC_BACKEND_OK : TC_BACKEND_NO_MEMORY;
  if (r == TC_BACKEND_NO_MEMORY) return *out = NULL, pthread_mutex_unlock(l->of->lock), TC_ERR_MEMORY;
  bool bad = r == TC_BACKEND_OK && (!*out || (tc_loaded_is_host(l) && (uintptr_t)*out % ALIGNMENT != 0));
  if (bad && *out) t->free(l->device, *out, bytes);
  TC_TRY(end_call(l, "alloc", r));
  if (!bad) return TC_OK;
  const char *what = *out ? "an address that is no multiple of 64" : "no address";
  *out = NULL;
  return TC_FAIL(TC_ERR_RUN, "%s: alloc of %s gave %s", l->of->name[l->ordinal], l->of->path, what);
}

tc_status tc_loaded_refuse(tc_loaded *l, size_t bytes) {
  return TC_FAIL(TC_ERR_MEMORY, "%s: no memory for %zu bytes, after all that was pooled was freed; alloc of %s",
                 l->of->name[l->ordinal], bytes, l->of->path);
}

void tc_loaded_free(tc_loaded *l, void *memory, size_t bytes) {
  const tc_backend *t = &l->of->table;
  pthread_mutex_lock(l->of->lock);
  if (!t->free) {
    free(memory);
  } else if (atomic_load(&l->open) && is_ours(l)) {
    if (t->wait) (void)t->wait(l->device);
    t->free(l->device, memory, bytes);
  }
  pthread_mutex_unlock(l->of->lock);
}

// Waits, and says how that went. pre: locked.
static tc_backend_result wait_locked(tc_loaded *l) {
  return l->of->table.wait ? l->of->table.wait(l->device) : TC_BACKEND_OK;
}

// Copies in host memory. pre: locked.
static tc_status copy_on_host(tc_loaded *l, void *to, const void *from, size_t bytes) {
  TC_TRY(told(l, "wait", wait_locked(l)));
  memcpy(to, from, bytes);
  return TC_OK;
}

tc_status tc_loaded_write(tc_loaded *l, void *to, const void *from, size_t bytes) {
  const tc_backend *t = &l->of->table;
  if (bytes == 0) return TC_OK;
  TC_TRY(begin_call(l));
  tc_status st = t->write ? told(l, "write", t->write(l->device, to, from, bytes)) : copy_on_host(l, to, from, bytes);
  pthread_mutex_unlock(l->of->lock);
  return st;
}

tc_status tc_loaded_read(tc_loaded *l, void *to, const void *from, size_t bytes) {
  const tc_backend *t = &l->of->table;
  if (bytes == 0) return TC_OK;
  TC_TRY(begin_call(l));
  tc_status st = t->read ? told(l, "read", t->read(l->device, to, from, bytes)) : copy_on_host(l, to, from, bytes);
  pthread_mutex_unlock(l->of->lock);
  return st;
}

tc_status tc_loaded_copy(tc_loaded *l, void *to, const void *from, size_t bytes) {
  const tc_backend *t = &l->of->table;
  if (bytes == 0) return TC_OK;
  if (t->copy) {
    TC_TRY(begin_call(l));
    return end_call(l, "copy", t->copy(l->device, to, from, bytes));
  }
  if (tc_loaded_is_host(l)) return tc_loaded_write(l, to, from, bytes);
  void *host = tc_malloc(bytes);
  if (!host) return TC_FAIL(TC_ERR_MEMORY, "no room to copy %zu bytes within %s", bytes, l->of->name[l->ordinal]);
  tc_status st = tc_loaded_read(l, host, from, bytes);
  if (st == TC_OK) st = tc_loaded_write(l, to, host, bytes);
  tc_free(host);
  return st;
}

tc_status tc_loaded_wait(tc_loaded *l) {
  TC_TRY(begin_call(l));
  uint64_t from = tc_profile_wait_begin();
  tc_backend_result result = wait_locked(l);
  tc_profile_wait_end(from);
  return end_call(l, "wait", result);
}

tc_status tc_loaded_wait_all(void) {
  tc_status st = TC_OK;
  for (int i = 0; i < tc_loaded_count(); i++)
    for (int k = 0; k < TC_MOST_ORDINALS && st == TC_OK; k++) {
      tc_loaded *l = &self.list[i]->device[k];
      if (atomic_load(&l->open) && is_ours(l)) st = tc_loaded_wait(l);
    }
  return st;
}

// ---- ops ----

bool tc_loaded_supports(tc_loaded *l, const tc_backend_op *op) {
  tc_error_mark before = tc_error_now();
  if (begin_call(l) != TC_OK) return (void)tc_error_tell(before), false;
  bool takes = l->of->table.supports(l->device, op);
  pthread_mutex_unlock(l->of->lock);
  return takes;
}

tc_status tc_loaded_prepare(tc_loaded *l, const tc_backend_op *op, void **out_kernel, char why[TC_LOADED_WHY]) {
  *out_kernel = NULL, *why = 0;
  if (!l->of->table.prepare) return TC_OK;
  TC_TRY(begin_call(l));
  tc_status st = judge(l, "prepare", l->of->table.prepare(l->device, op, out_kernel), why);
  if (st != TC_OK) *out_kernel = NULL;
  pthread_mutex_unlock(l->of->lock);
  return st;
}

void tc_loaded_release(tc_loaded *l, uint32_t opened, void *kernel) {
  const tc_backend *t = &l->of->table;
  if (!t->release || !t->prepare) return;
  pthread_mutex_lock(l->of->lock);
  if (atomic_load(&l->open) && is_ours(l) && tc_loaded_opened(l) == opened) t->release(l->device, kernel);
  pthread_mutex_unlock(l->of->lock);
}

tc_status tc_loaded_run(tc_loaded *l, void *kernel, const tc_backend_op *op, const void *const *in, void *out,
                        const tc_backend_number *arg, char why[TC_LOADED_WHY]) {
  *why = 0;
  TC_TRY(begin_call(l));
  tc_status st = judge(l, "run", l->of->table.run(l->device, kernel, op, in, out, arg), why);
  pthread_mutex_unlock(l->of->lock);
  return st;
}
