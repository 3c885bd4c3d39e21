// Compiles nests once, by whichever compiler there is, and keeps them. See kernel.h.
#include "lowering/kernel.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lowering/elf.h"
#include "lowering/llvm/codegen.h"
#include "runtime/arena.h"
#include "runtime/fork.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/status.h"

#define N_BUCKETS 1024

static struct {
  pthread_mutex_t lock;
  tc_kernel *bucket[N_BUCKETS];
  size_t n;
  uint64_t clock, hits, misses, compiles;
  pthread_once_t once;
  const tc_llvm_plugin *llvm;  // NULL: there is none
  atomic_bool missing;         // a compiler was wanted and not found, and nobody was told yet
  const tc_isa *isa;           // what kernels are planned for, and compiled for if there is a compiler
  char cpu[64], features[4096], sentence[256];
} self = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};
TC_FORK_SAFE(&self.lock, 3)

// Held for reading while a compiler runs, whose own locks no fork can take. A fork that waits is let through before new compiles.
static pthread_rwlock_t compiling = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
TC_FORK_WAITS(&compiling, 2)

// ---- the compiler ----

static void *open_in(const char *path, const char *name) {  // in the directory of the file `path`
  char beside[4096];
  const char *slash = strrchr(path, '/');
  snprintf(beside, sizeof beside, "%.*s%s", slash ? (int)(slash - path + 1) : 0, path, name);
  return dlopen(beside, RTLD_NOW | RTLD_LOCAL);
}

// The plug-in of this machine, or the one beside it that makes objects for another.
static void *open_plugin(const tc_isa *foreign, const char **why) {
  const char *path = tc_options_get()->llvm_path;
  char name[64];
  snprintf(name, sizeof name, foreign ? "libtc-llvm-%s.so" : "libtc-llvm.so", foreign ? foreign->name : "");
  void *lib = !path ? NULL : foreign ? open_in(path, name) : dlopen(path, RTLD_NOW | RTLD_LOCAL);
  Dl_info info;
  if (path && lib) return lib;
  if (path && !foreign) tc_log_line(TC_LOG_WARN, "TC_LLVM_PATH cannot be opened and is ignored: %s", dlerror());
  if (dladdr(&self, &info) && info.dli_fname) lib = open_in(info.dli_fname, name);  // next to the library itself
#ifdef TC_LLVM_PLUGIN_DIR
  if (!lib) lib = open_in(TC_LLVM_PLUGIN_DIR "/", name);
#endif
  if (!lib) lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!lib) *why = dlerror();
  return lib;
}

// Sets cpu and features: for this machine the host's, less what the chosen set is without.
static void choose_isa(const tc_isa *asked) {
  if (asked && !tc_isa_is_of_host(asked)) {
    self.isa = asked;
    snprintf(self.cpu, sizeof self.cpu, "%s", asked->cpu);
    snprintf(self.features, sizeof self.features, "%s", asked->features);
    return;
  }
  self.llvm->host(self.cpu, sizeof self.cpu, self.features, sizeof self.features);
  self.isa = tc_isa_of_host(self.features, asked);
  size_t n = strlen(self.features);
  snprintf(self.features + n, sizeof self.features - n, "%s", self.isa->without);
}

static void init(void) {
  const char *why = "TC_COMPILER asks for the interpreter";
  const tc_isa *asked = tc_options_get()->isa ? tc_isa_named(tc_options_get()->isa) : NULL,
               *foreign = asked && !tc_isa_is_of_host(asked) ? asked : NULL;
  bool wanted = strcmp(tc_options_get()->compiler, "interp") != 0;
  void *lib = wanted ? open_plugin(foreign, &why) : NULL;
  const tc_llvm_plugin *(*get)(void) = NULL;
  if (lib) *(void **)&get = dlsym(lib, "tc_llvm_plugin_get");
  if (lib && !get) why = "the plug-in lacks its symbol";
  const tc_llvm_plugin *p = get ? get() : NULL;
  if (p && p->abi != TC_LLVM_ABI) p = NULL, why = "the compiler plug-in is of another version";
  if (!p) {
    snprintf(self.sentence, sizeof self.sentence, "no compiler, kernels are interpreted: %.180s", why ? why : "no reason given");
    self.isa = asked ? asked : &tc_isa_interpreted;
    atomic_store(&self.missing, wanted);
    return;
  }
  self.llvm = p;
  choose_isa(asked);
  snprintf(self.sentence, sizeof self.sentence, "%s for %s, %d-bit vectors%s%s", p->version, self.cpu, self.isa->vector_bytes * 8,
           foreign ? ": not this machine, kernels are interpreted as they are for " : "", foreign ? foreign->name : "");
}

const tc_isa *tc_kernel_isa(void) {
  pthread_once(&self.once, init);
  return self.isa;
}

int tc_kernel_vector_bytes(void) {
  return tc_kernel_isa()->vector_bytes;
}

const char *tc_kernel_compiler(void) {
  pthread_once(&self.once, init);
  return self.sentence;
}

static void dump(const tc_nest *nest, const char *name, bool for_gpu) {
  if (tc_log_on(TC_LOG_NEST)) {
    tc_log_message m;
    if (tc_log_begin(&m)) {
      fprintf(m.to, "%s\n", name);
      tc_nest_print(nest, m.to);
    }
    tc_log_end(&m, TC_LOG_NEST);
  }
  char *text = NULL, why[256];
  if (tc_log_on(TC_LOG_ASM) && self.llvm && !for_gpu &&
      self.llvm->assembly(nest, name, self.cpu, self.features, self.isa->vector_bytes * 8, &text, why, sizeof why) == TC_OK)
    tc_log_line(TC_LOG_ASM, "%s\n%s", name, text);
  free(text);
}

tc_status tc_kernel_object(const tc_nest *nest, const char *name, void **out, size_t *bytes) {
  char why[512] = "";
  pthread_once(&self.once, init);
  *out = NULL;
  if (!self.llvm) return TC_FAIL(TC_ERR_COMPILE, "%s: %s", name, self.sentence);
  tc_status st = self.llvm->compile(nest, name, self.cpu, self.features, self.isa->vector_bytes * 8, out, bytes, why, sizeof why);
  return st == TC_OK ? TC_OK : TC_FAIL(st, "%s: %s", name, why);
}

static tc_status compile_for_gpu(tc_kernel *k, const tc_nest *nest, tc_gpu *gpu) {
  char *source;
  TC_TRY(tc_gpu_print(nest, k->name, &source, &k->gpu_shape));
  if (tc_log_on(TC_LOG_ASM)) tc_log_line(TC_LOG_ASM, "%s\n%s", k->name, source);
  tc_status st = tc_gpu_compile(gpu, k->name, source, &k->gpu_code);
  tc_free(source);
  return st;
}

static tc_status compile(tc_kernel *k, const tc_nest *nest, tc_gpu *gpu) {
  void *object = NULL, *fn = NULL;
  size_t bytes = 0;
  dump(nest, k->name, gpu != NULL);
  if (gpu) return compile_for_gpu(k, nest, gpu);
  if (!self.llvm || !tc_isa_is_of_host(self.isa)) {
    TC_TRY(tc_interp_create(nest, &k->interp));
    k->ctx = k->interp;
    k->scratch_bytes = tc_interp_scratch(k->interp);
    atomic_store_explicit(&k->fn, tc_interp_run, memory_order_release);
    return TC_OK;
  }
  TC_TRY(tc_kernel_object(nest, k->name, &object, &bytes));
  tc_status st = tc_elf_load(object, bytes, k->name, &k->code, &fn);
  free(object);
  if (st != TC_OK) return st;
  tc_kernel_fn *code;
  *(void **)&code = fn;
  k->scratch_bytes = (size_t)nest->scratch_bytes;
  atomic_store_explicit(&k->fn, code, memory_order_release);
  return TC_OK;
}

// ---- the cache ----

static void destroy(tc_kernel *k) {
  if (k->interp) tc_interp_destroy(k->interp);
  if (k->code) tc_elf_unload(k->code);
  tc_gpu_code_release(k->gpu_code);
  tc_free(k->key);
  tc_free(k);
}

void tc_kernel_release(tc_kernel *k) {
  if (k && atomic_fetch_sub_explicit(&k->refs, 1, memory_order_acq_rel) == 1) destroy(k);
}

#define KEY_WORDS 6  // before the lists

static size_t key_bytes(const tc_nest *n) {
  return KEY_WORDS * sizeof(uint64_t) + n->n_inst * sizeof n->inst[0] + n->n_tile * sizeof n->tile[0] + (n->n_buf + 7) / 8 * 8;
}

static void write_key(const tc_nest *n, uint64_t *key) {
  char *p = (char *)(key + KEY_WORDS);
  key[4] = (uint64_t)n->cluster << 32 | (uint64_t)n->threads << 16 | n->groups, key[5] = n->over;
  key[0] = n->n_inst, key[1] = n->n_tile, key[2] = n->n_buf, key[3] = (uint64_t)n->scratch_bytes;
  memcpy(p, n->inst, n->n_inst * sizeof n->inst[0]);
  p += n->n_inst * sizeof n->inst[0];
  if (n->n_tile) memcpy(p, n->tile, n->n_tile * sizeof n->tile[0]);
  p += n->n_tile * sizeof n->tile[0];
  if (n->n_buf) memcpy(p, n->buf_type, n->n_buf);
}

// pre: locked. Takes out the kernel that was not used for longest, if any; its reference is the caller's.
static tc_kernel *evict_locked(void) {
  tc_kernel **oldest = NULL;
  for (int b = 0; b < N_BUCKETS; b++)
    for (tc_kernel **k = &self.bucket[b]; *k; k = &(*k)->next)
      if (!oldest || (*k)->used < (*oldest)->used) oldest = k;
  if (!oldest) return NULL;
  tc_kernel *k = *oldest;
  *oldest = k->next;
  self.n--;
  return k;
}

static tc_kernel *find_locked(tc_hash hash, const uint64_t *key, size_t bytes, const tc_gpu *gpu) {
  for (tc_kernel *k = self.bucket[hash.lo % N_BUCKETS]; k; k = k->next)
    if (k->hash.lo == hash.lo && k->hash.hi == hash.hi && k->key_bytes == bytes && k->gpu == gpu && memcmp(k->key, key, bytes) == 0) return k;
  return NULL;
}

// What a kernel is made of: a nest, or a GPU's text.
typedef struct origin {
  const tc_nest *nest;
  const char *text, *name;
  tc_gpu *gpu;
} origin;

static tc_status make(tc_kernel *k, const origin *from) {
  pthread_rwlock_rdlock(&compiling);
  tc_status st = from->nest ? compile(k, from->nest, from->gpu) : tc_gpu_compile(from->gpu, from->name, from->text, &k->gpu_code);
  pthread_rwlock_unlock(&compiling);
  return st;
}

// pre: key is tc_malloc'ed, and taken.
static tc_status get(uint64_t *key, size_t bytes, const char *stem, const origin *from, tc_kernel **out, uint32_t *compiled) {
  tc_hash hash = tc_hash_bytes(key, bytes);
  pthread_mutex_lock(&self.lock);
  tc_kernel *k = find_locked(hash, key, bytes, from->gpu);
  if (k) {
    atomic_fetch_add_explicit(&k->refs, 1, memory_order_relaxed);
    k->used = ++self.clock;
    self.hits++;
  }
  pthread_mutex_unlock(&self.lock);
  if (k) {
    if (tc_log_on(TC_LOG_CACHE)) tc_log_line(TC_LOG_CACHE, "kernel %s: hit", k->name);
    return tc_free(key), *out = k, TC_OK;
  }
  if (!(k = tc_calloc(1, sizeof *k))) return tc_free(key), TC_FAIL(TC_ERR_MEMORY, "no room for a kernel");
  k->key = key, k->key_bytes = bytes, k->hash = hash, k->gpu = from->gpu;
  atomic_store_explicit(&k->refs, 2, memory_order_relaxed);  // the cache's and the caller's
  snprintf(k->name, sizeof k->name, "tc_%.28s_%08x", stem, (unsigned)hash.lo);
  if (!self.llvm && !from->gpu && atomic_exchange(&self.missing, false)) tc_log_line(TC_LOG_WARN, "%s", self.sentence);
  tc_status st = make(k, from);
  if (st != TC_OK) return destroy(k), st;
  tc_log_line(TC_LOG_KERNEL, "compiled %s: %u instructions", k->name, from->nest ? from->nest->n_inst : 0);
  (*compiled)++;
  pthread_mutex_lock(&self.lock);
  self.misses++, self.compiles++;
  k->used = ++self.clock;
  k->next = self.bucket[hash.lo % N_BUCKETS];
  self.bucket[hash.lo % N_BUCKETS] = k;
  tc_kernel *gone = ++self.n > (size_t)TC_MAX_OF(tc_options_get()->kernel_cache, 1) ? evict_locked() : NULL;
  pthread_mutex_unlock(&self.lock);
  if (tc_log_on(TC_LOG_CACHE)) {
    tc_log_line(TC_LOG_CACHE, "kernel %s: miss", k->name);
    if (gone) tc_log_line(TC_LOG_CACHE, "kernel %s: evicted", gone->name);
  }
  tc_kernel_release(gone);
  *out = k;
  return TC_OK;
}

tc_status tc_kernel_get(const tc_nest *nest, const char *stem, tc_gpu *gpu, tc_kernel **out, uint32_t *compiled) {
  *out = NULL;
  pthread_once(&self.once, init);
  size_t bytes = key_bytes(nest);
  uint64_t *key = tc_calloc(1, bytes);
  if (!key) return TC_FAIL(TC_ERR_MEMORY, "no room for a kernel's key");
  write_key(nest, key);
  return get(key, bytes, stem, &(origin){.nest = nest, .gpu = gpu}, out, compiled);
}

// A nest's key begins with a number of instructions that is not 0.
tc_status tc_kernel_of_text(const char *name, const char *text, tc_gpu *gpu, tc_kernel **out, uint32_t *compiled) {
  *out = NULL;
  size_t length = strlen(text), bytes = KEY_WORDS * sizeof(uint64_t) + (length + 7) / 8 * 8;
  uint64_t *key = tc_calloc(1, bytes);
  if (!key) return TC_FAIL(TC_ERR_MEMORY, "no room for a kernel's key");
  key[1] = length;
  memcpy(key + KEY_WORDS, text, length);
  return get(key, bytes, name, &(origin){.text = text, .name = name, .gpu = gpu}, out, compiled);
}

void tc_kernel_cache_clear(void) {
  pthread_mutex_lock(&self.lock);
  while (self.n) tc_kernel_release(evict_locked());
  pthread_mutex_unlock(&self.lock);
}

void tc_kernel_stats(tc_cache_info *info) {
  pthread_mutex_lock(&self.lock);
  info->kernel_hits = self.hits, info->kernel_misses = self.misses, info->compiles = self.compiles, info->n_kernels = self.n;
  pthread_mutex_unlock(&self.lock);
}

static void clear_at_exit(void) __attribute__((destructor));
static void clear_at_exit(void) {
  tc_kernel_cache_clear();
}
