// Compiles each kernel once and caches it. See kernel_cache.h.
#include "lowering/jit/kernel_cache.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lowering/codegen/elf_loader.h"
#include "lowering/jit/compile_record.h"
#include "lowering/jit/compiler.h"
#include "lowering/jit/object_cache.h"
#include "lowering/jit/shape_generic.h"
#include "lowering/kir/print.h"
#include "lowering/kir/serialize.h"
#include "runtime/arena.h"
#include "runtime/fork.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/passes.h"
#include "runtime/profile_file.h"
#include "runtime/status.h"
#include "runtime/team.h"

// Bytes of GPU source that take as long to compile as one kernel IR instruction.
// Measured: NVRTC, 16 threads: 1.03 times the ideal order's time, with 30 bytes 1.12, row kernels
// last 3.2 (docs/measurements.md).
#define TEXT_OF_INST 8

static struct {
  pthread_mutex_t lock;
  tc_lru kernels;
  uint64_t clock, hits, misses, n_compiled;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER};
TC_FORK_SAFE(&self.lock, 3)

// ---- making a kernel ----

// What a kernel is made from: kernel IR or a GPU's source text. With neither it is a kernel built
// into the GPU, which keeps it.
typedef struct kernel_source {
  const tc_kir *kir;
  const char *text, *stem;
  uint32_t own;
  tc_gpu *gpu;
  uint64_t site;  // see tc_kernel_request
  double work;  // summed over all steps that request the kernel
  tc_generic_kernel *generic;
} kernel_source;

// A kernel being made, either from its own kernel IR or as a shape-generic kernel with more
// arguments.
typedef struct pending {
  struct pending *next;  // next in the same hash bucket of the list
  tc_kernel *k;  // NULL: a built-in kernel, which the GPU keeps
  kernel_source from;
  tc_generic_kernel wide;
  tc_kernel *generic;  // the shape-generic kernel, a reference; NULL: none
  bool done;
  uint32_t sequence;  // of the sync that waits for it. 0: none, or no profile
} pending;

// Kernels made together, found by their hash.
typedef struct pending_list {
  pending *at, **bucket;
  uint32_t n, mask;
  bool interpreted;  // true: the thread's backend is the interpreter, whose kernels are not the compiler's
} pending_list;

static tc_status compile_for_gpu(tc_kernel *k, const kernel_source *from) {
  void *source = NULL;
  size_t bytes = 0;
  tc_codegen_code code;
  if (!k) return tc_gpu_own_make(from->gpu, from->own);
  uint64_t start = tc_now_ns();
  if (from->kir) {
    TC_TRY(tc_codegen_gpu_source.compile(from->kir, k->name, &source, &bytes, &k->gpu_shape));
    if (tc_log_on(TC_LOG_ASM)) tc_log_line(TC_LOG_ASM, "%s\n%s", k->name, (const char *)source);
  }
  uint64_t emitted = tc_now_ns();
  tc_compile_stage_add(TC_STAGE_EMIT, emitted - start);
  tc_status st = tc_codegen_gpu_source.load(from->kir, from->kir ? k->name : from->stem, source ? source : from->text,
                                            bytes, from->gpu, &code);
  k->gpu_code = code.gpu;
  if (st == TC_OK) k->from_disk = tc_gpu_code_is_from_disk(k->gpu_code);
  tc_compile_stage_add(k->from_disk ? TC_STAGE_LOAD : TC_STAGE_GENERATE, tc_now_ns() - emitted);
  free(source);
  return st;
}

static void log_kernel(const tc_kir *kir, const char *name, bool for_gpu) {
  tc_log_message m;
  if (tc_log_on(TC_LOG_KIR)) {
    if (tc_log_begin(&m)) {
      fprintf(m.to, "%s\n", name);
      tc_kir_print(kir, m.to);
    }
    tc_log_end(&m, TC_LOG_KIR);
  }
  if (!for_gpu) tc_compiler_log(kir, name);
}

// Tells a profile how the kernel was made.
static void tell_profile(const pending *m, const char *tier, uint64_t start) {
  if (!tc_profile_is_on() || !m->k) return;
  tc_compile_record(m->k->name, tier, m->sequence, start, m->k->code ? tc_elf_bytes(m->k->code) : 0);
}

// Loads the kernel from the disk cache if it is there.
static void find_on_disk(pending *m) {
  uint64_t start = tc_profile_is_on() ? tc_now_ns() : 0;
  tc_compiler_begin();
  if (m->from.kir) log_kernel(m->from.kir, m->k->name, m->from.gpu != NULL);
  if (!m->from.gpu && tc_compiler_compiles() && !m->k->is_interpreted) m->done = tc_object_find(m->k, m->from.kir);
  tc_compiler_end();
  if (m->done) tell_profile(m, "disk", start);
}

// Makes a kernel that needs no compile now: it is interpreted, first or for good.
static tc_status make_quickly(pending *m) {
  tc_status st = TC_OK;
  if (m->from.gpu || m->done || m->generic) return TC_OK;
  uint64_t start = tc_profile_is_on() ? tc_now_ns() : 0;
  tc_compiler_begin();
  if (!tc_compiler_compiles() || m->k->is_interpreted)
    st = tc_kernel_interpret(m->k, m->from.kir), m->done = st == TC_OK;
  else if (tc_kernel_is_soon_interpreted(m->from.kir, m->from.work))
    st = tc_kernel_interpret_first(m->k, m->from.kir), m->done = st == TC_OK;
  tc_compiler_end();
  if (m->done && start) tc_compile_stage_add(TC_STAGE_LOAD, tc_now_ns() - start);
  if (m->done) tell_profile(m, "interpreted", start);
  return st;
}

// Compiles a kernel. One that the generator refuses, or whose code does not load, is interpreted
// for good. A kernel that the interpreter refuses too fails with the generator's error.
static tc_status compile_or_interpret(tc_kernel *k, const tc_kir *kir) {
  if (!tc_compiler_is_there()) return tc_kernel_interpret(k, kir);
  tc_error_mark before = tc_error_now();
  tc_status st = tc_object_make(k, kir);
  if (st != TC_ERR_COMPILE) return st;
  tc_error_mark refused = tc_error_now();
  tc_status interpreted = tc_kernel_interpret(k, kir);
  if (interpreted == TC_ERR_MEMORY) return interpreted;
  (void)tc_error_tell(refused);
  if (interpreted != TC_OK) return st;
  tc_log_line(TC_LOG_WARN, "%s is interpreted: %s", k->name, tc_last_error()->message);
  (void)tc_error_tell(before);
  return TC_OK;
}

static tc_status make_slowly(pending *m) {
  uint64_t start = tc_profile_is_on() ? tc_now_ns() : 0;
  tc_compiler_begin();
  tc_status st = m->from.gpu ? compile_for_gpu(m->k, &m->from) : compile_or_interpret(m->k, m->from.kir);
  tc_compiler_end();
  m->done = st == TC_OK;
  if (m->done)
    tell_profile(m, m->k && m->k->from_disk ? "disk" : m->k && m->k->interp ? "interpreted" : "compiled", start);
  return st;
}

// Errors on workers are dropped: the failed kernel is compiled again on the calling thread, which
// reports the error.
static void make_task(void *arg, int stage, int64_t index, tc_worker *worker) {
  pending *m = ((pending **)arg)[index];
  tc_error_mark before = tc_error_now();
  (void)stage, (void)worker;
  if (make_slowly(m) != TC_OK) (void)tc_error_tell(before);
}

static bool is_slow(const pending *m) {
  return !m->done && !m->generic;
}

// The expected compile time, in kernel IR instructions.
static size_t length_of(const kernel_source *from) {
  return from->kir ? from->kir->n_inst : from->text ? strlen(from->text) / TEXT_OF_INST : 0;
}

static int longer_first(const void *a, const void *b) {
  const pending *x = *(pending *const *)a, *y = *(pending *const *)b;
  size_t nx = length_of(&x->from), ny = length_of(&y->from);
  return nx != ny ? nx < ny ? 1 : -1 : x < y ? -1 : x > y;
}

// The team compiles what must be compiled. What fails there is compiled again here, in order, so
// the calling thread reports the first error.
static tc_status compile_all(pending *list, uint32_t n) {
  int64_t n_slow = 0;
  for (uint32_t i = 0; i < n; i++) n_slow += is_slow(&list[i]);
  pending **slow = n_slow > 1 ? tc_malloc((size_t)n_slow * sizeof *slow) : NULL;
  if (slow) {
    n_slow = 0;
    for (uint32_t i = 0; i < n; i++)
      if (is_slow(&list[i])) slow[n_slow++] = &list[i];
    qsort(slow, (size_t)n_slow, sizeof(pending *), longer_first);
    (void)tc_team_run(&(tc_job){.task = make_task, .arg = slow, .n_stages = 1, .n_tasks = &n_slow});
    tc_free(slow);
  }
  for (uint32_t i = 0; i < n; i++)
    if (is_slow(&list[i])) TC_TRY(make_slowly(&list[i]));
  return TC_OK;
}

// ---- the cache ----

static bool is_kernel(const tc_kernel *k, tc_hash hash, const uint64_t *key, size_t bytes, const tc_gpu *gpu,
                      bool interpreted) {
  return k->hash.lo == hash.lo && k->hash.hi == hash.hi && k->key_bytes == bytes && k->gpu == gpu &&
         k->is_interpreted == interpreted && memcmp(k->key, key, bytes) == 0;
}

// pre: locked.
static tc_kernel *find_locked(tc_hash hash, const uint64_t *key, size_t bytes, const tc_gpu *gpu, bool interpreted) {
  tc_lru_entry *e = tc_lru_first(&self.kernels, hash.lo);
  for (; e && !is_kernel((tc_kernel *)e, hash, key, bytes, gpu, interpreted); e = e->next) tc_count(TC_PASS_KERNELS, 1);
  return (tc_kernel *)e;
}

// pre: key is tc_malloc'ed; it is consumed. Finds a kernel in the cache or in the list, else adds
// one to the list. *out: a reference.
static tc_status find_or_add(const kernel_source *from, uint64_t *key, size_t bytes, pending_list *list,
                             tc_kernel **out) {
  tc_hash hash = tc_hash_bytes(key, bytes);
  tc_count(TC_PASS_KERNELS, bytes / sizeof *key);
  pthread_mutex_lock(&self.lock);
  bool interpreted = list->interpreted && from->kir && !from->gpu;
  tc_kernel *k = find_locked(hash, key, bytes, from->gpu, interpreted);
  pending **bucket = &list->bucket[hash.lo & list->mask];
  for (pending *m = *bucket; m && !k; m = m->next) {
    tc_count(TC_PASS_KERNELS, 1);
    if (is_kernel(m->k, hash, key, bytes, from->gpu, interpreted)) k = m->k, m->from.work += from->work;
  }
  if (k) {
    atomic_fetch_add_explicit(&k->refs, 1, memory_order_relaxed);
    k->entry.used = ++self.clock;
    self.hits++;
  }
  pthread_mutex_unlock(&self.lock);
  if (k) {
    if (tc_log_on(TC_LOG_CACHE)) tc_log_line(TC_LOG_CACHE, "kernel %s: hit", k->name);
    if (tc_profile_is_on()) tc_compile_record(k->name, "memory", tc_profile_sequence, tc_now_ns(), 0);
    return tc_free(key), *out = k, TC_OK;
  }
  if (!(k = tc_calloc(1, sizeof *k))) return tc_free(key), TC_FAIL(TC_ERR_MEMORY, "no room for a kernel");
  k->key = key, k->key_bytes = bytes, k->hash = hash, k->gpu = from->gpu, k->n_num = from->kir ? from->kir->n_num : 0;
  k->is_interpreted = interpreted;
  // one of the list, later of the cache; one of the caller
  atomic_store_explicit(&k->refs, 2, memory_order_relaxed);
  snprintf(k->name, sizeof k->name, "tc_%.39s_%04x", from->stem, (unsigned)(hash.lo & 0xffff));
  list->at[list->n] = (pending){.next = *bucket, .k = k, .from = *from, .sequence = tc_profile_sequence};
  *bucket = &list->at[list->n++];
  return *out = k, TC_OK;
}

// Adds a kernel to the cache unless another thread added an equal one first.
static void add_kernel(const pending *m, uint32_t *compiled) {
  const tc_options *o = tc_options_get();
  tc_kernel *k = m->k;
  tc_lru_entry *evicted = NULL;
  tc_log_line(TC_LOG_KERNEL, "%s %s, key %08x: %u instructions",
              k->from_disk ? "from disk"
              : k->generic ? "general"
              : k->interp  ? "interpreted"
                           : "compiled",
              k->name, (unsigned)k->hash.lo, m->from.kir ? m->from.kir->n_inst : 0);
  if (tc_log_on(TC_LOG_CACHE))
    tc_log_line(TC_LOG_CACHE, "kernel %s: %s", k->name, k->from_disk ? "miss, from disk" : "miss");
  bool is_new = !k->from_disk && !k->generic;
  *compiled += is_new;
  k->entry.bytes =
      sizeof *k + k->key_bytes + (k->interp ? tc_interp_bytes(k->interp) : 0) + (k->code ? tc_elf_bytes(k->code) : 0);
  pthread_mutex_lock(&self.lock);
  self.misses++, self.n_compiled += is_new;
  k->entry.used = ++self.clock;
  bool added = !find_locked(k->hash, k->key, k->key_bytes, k->gpu, k->is_interpreted);
  if (added) {
    tc_lru_add(&self.kernels, &k->entry, k->hash.lo);
    evicted = tc_lru_evict(&self.kernels, (size_t)TC_MAX_OF(o->kernel_cache, 1), (size_t)o->kernel_cache_bytes);
  }
  pthread_mutex_unlock(&self.lock);
  if (!added) tc_kernel_release(k);
  for (tc_lru_entry *next; evicted; evicted = next) {
    next = evicted->next;
    if (tc_log_on(TC_LOG_CACHE)) tc_log_line(TC_LOG_CACHE, "kernel %s: evicted", ((tc_kernel *)evicted)->name);
    tc_kernel_release((tc_kernel *)evicted);
  }
}

static tc_status find_or_add_kir(const kernel_source *from, pending_list *list, tc_kernel **out) {
  size_t bytes = tc_kir_key_bytes(from->kir);
  uint64_t *key = tc_calloc(1, bytes);
  if (!key) return TC_FAIL(TC_ERR_MEMORY, "no room for a kernel's key");
  tc_kir_write_key(from->kir, key);
  return find_or_add(from, key, bytes, list, out);
}

// A text's key cannot equal a kernel IR's key, whose first word counts instructions and is not 0.
static tc_status find_or_add_text(const kernel_source *from, pending_list *list, tc_kernel **out) {
  size_t length = strlen(from->text), bytes = TC_KIR_KEY_WORDS * sizeof(uint64_t) + (length + 7) / 8 * 8;
  uint64_t *key = tc_calloc(1, bytes);
  if (!key) return TC_FAIL(TC_ERR_MEMORY, "no room for a kernel's key");
  key[1] = length;
  memcpy(key + TC_KIR_KEY_WORDS, from->text, length);
  return find_or_add(from, key, bytes, list, out);
}

static tc_status find_or_add_request(tc_kernel_request *w, tc_gpu *gpu, pending_list *list) {
  const kernel_source from = {w->kir, w->text, w->stem, w->own, gpu, w->site, w->work, w->generic};
  if (from.kir) return find_or_add_kir(&from, list, &w->kernel);
  if (from.text) return find_or_add_text(&from, list, &w->kernel);
  list->at[list->n++] = (pending){.from = from};
  return TC_OK;
}

// ---- making a list of them ----

// Widens the requested generic kernel by constants seen to vary. Its site is ~site, since its reads
// and writes may vary too. False: too many arguments, or no memory.
static bool widen_given(pending *m) {
  tc_generic_kernel *given = m->from.generic, wider;
  if (given->kir.n_num > TC_MAX_EXTRA_SCALARS) return false;
  if (!tc_shape_generic_find(~m->from.site, &given->kir, &wider)) {
    m->wide = *given, *given = (tc_generic_kernel){0};
    return true;
  }
  m->wide = wider;
  memmove(wider.value + given->n_value, wider.value, wider.n_value * sizeof *wider.value);
  memcpy(wider.value, given->value, given->n_value * sizeof *wider.value);
  m->wide.n_value += given->n_value;
  return true;
}

static bool has_generic(pending *m) {
  if (m->from.generic && m->from.generic->kir.n_inst) return widen_given(m);
  return tc_shape_generic_find(m->from.site, m->from.kir, &m->wide);
}

// Finds the shape-generic kernel of a pending kernel, given with the request or shared by its
// class. A new one is added at the list's end.
static tc_status find_or_add_generic(pending *m, pending_list *list) {
  if (!m->from.site || m->from.gpu || list->interpreted || !tc_compiler_compiles() ||
      !tc_options_get()->generic_kernels)
    return TC_OK;
  if (!has_generic(m) || m->done) return TC_OK;
  return find_or_add_kir(&(kernel_source){.kir = &m->wide.kir, .stem = m->from.stem, .work = m->from.work}, list,
                         &m->generic);
}

// Passes the shape-generic kernel's reference and arguments to the kernel.
static void run_in_generic(pending *m) {
  tc_kernel_run_generic(m->k, m->from.kir, m->generic, m->wide.value, m->wide.n_value);
  m->generic = NULL, m->wide.value = NULL;
  m->done = true;
}

// list: room for twice as many.
static tc_status make_all(pending_list *list) {
  const uint32_t queued = list->n;
  pending *at = list->at;
  for (uint32_t i = 0; i < queued; i++) find_on_disk(&at[i]);
  for (uint32_t i = 0; i < queued; i++) TC_TRY(find_or_add_generic(&at[i], list));
  for (uint32_t i = queued; i < list->n; i++) find_on_disk(&at[i]);
  for (uint32_t i = 0; i < list->n; i++) TC_TRY(make_quickly(&at[i]));
  TC_TRY(compile_all(at, list->n));
  for (uint32_t i = 0; i < queued; i++)
    if (at[i].generic) run_in_generic(&at[i]);
  return TC_OK;
}

static tc_status make_and_add(pending_list *list, uint32_t *compiled) {
  tc_status st = make_all(list);
  for (uint32_t i = 0; i < list->n; i++) {
    if (list->at[i].done && list->at[i].k)
      add_kernel(&list->at[i], compiled);
    else
      tc_kernel_release(list->at[i].k);
  }
  for (uint32_t i = 0; i < list->n; i++) {
    tc_kernel_release(list->at[i].generic);
    tc_shape_generic_drop(&list->at[i].wide);
  }
  return st;
}

tc_status tc_kernel_get_all(tc_kernel_request *request, uint32_t n, tc_gpu *gpu, uint32_t *compiled) {
  uint32_t size = 16;
  tc_status st = TC_OK;
  for (uint32_t i = 0; i < n; i++) request[i].kernel = NULL;
  while (size < n) size *= 2;
  pending_list list = {.at = tc_calloc(2 * (size_t)n + 1, sizeof *list.at),
                       .bucket = tc_calloc(size, sizeof *list.bucket),
                       .mask = size - 1,
                       .interpreted = strcmp(tc_options_get()->backend, "interp") == 0};
  if (!list.at || !list.bucket) st = TC_FAIL(TC_ERR_MEMORY, "no room for %u kernels", n);
  for (uint32_t i = 0; i < n && st == TC_OK; i++) st = find_or_add_request(&request[i], gpu, &list);
  if (st == TC_OK) {
    st = make_and_add(&list, compiled);
  } else {
    for (uint32_t i = 0; i < list.n; i++) tc_kernel_release(list.at[i].k);
  }
  for (uint32_t i = 0; i < n && st != TC_OK; i++) {
    tc_kernel_release(request[i].kernel);
    request[i].kernel = NULL;
  }
  tc_free(list.at);
  tc_free(list.bucket);
  return st;
}

tc_status tc_kernel_get(const tc_kir *kir, const char *stem, tc_gpu *gpu, tc_kernel **out, uint32_t *compiled) {
  tc_kernel_request request = {.kir = kir, .stem = stem, .work = INFINITY};
  tc_status st = tc_kernel_get_all(&request, 1, gpu, compiled);
  *out = request.kernel;
  return st;
}

// ---- compiled code in the interpreter's place ----

void tc_kernel_compile(tc_kernel *k) {
  tc_error_mark before = tc_error_now();
  tc_kir kir = tc_kir_of_key(k->key);
  uint64_t start = tc_now_ns();
  tc_compiler_begin();
  bool awaits = tc_kernel_awaits_code(k);
  tc_status st = awaits ? tc_object_make(k, &kir) : TC_OK;
  tc_compiler_end();
  if (st == TC_OK && awaits && tc_profile_is_on())
    tc_compile_record(k->name, "compiled", tc_profile_sequence, start, k->code ? tc_elf_bytes(k->code) : 0);
  if (st == TC_OK) {
    tc_log_line(TC_LOG_KERNEL, "compiled %s in %.1f ms, after %.1f ms of %s", k->name,
                (double)(tc_now_ns() - start) * 1e-6, (double)atomic_load(&k->spent_ns) * 1e-6,
                k->generic ? k->generic->name : "the interpreter");
    if (!k->generic) return;
    pthread_mutex_lock(&self.lock);
    self.n_compiled++;
    pthread_mutex_unlock(&self.lock);
    return;
  }
  tc_log_line(TC_LOG_WARN, "%s gets no code of its own: %s", k->name, tc_last_error()->message);
  (void)tc_error_tell(before);
}

void tc_kernel_cache_clear(void) {
  pthread_mutex_lock(&self.lock);
  for (tc_lru_entry *e = tc_lru_take_all(&self.kernels), *next; e; e = next) {
    next = e->next;
    tc_kernel_release((tc_kernel *)e);
  }
  pthread_mutex_unlock(&self.lock);
  tc_shape_generic_clear();
}

void tc_kernel_stats(tc_cache_info *info) {
  pthread_mutex_lock(&self.lock);
  info->kernel_hits = self.hits, info->kernel_misses = self.misses, info->compiles = self.n_compiled,
  info->n_kernels = self.kernels.n;
  info->kernel_bytes = self.kernels.bytes;
  pthread_mutex_unlock(&self.lock);
}

static void clear_at_exit(void) __attribute__((destructor));
static void clear_at_exit(void) {
  if (tc_frees_at_exit()) tc_kernel_cache_clear();
}
