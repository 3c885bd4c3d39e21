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
  const tc_llvm_plugin *llvm;  // NULL: interpret
  atomic_bool missing;         // a compiler was wanted and not found, and nobody was told yet
  char cpu[64], features[4096], sentence[256];
  int vector_bytes;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT, .vector_bytes = 16};
TC_FORK_SAFE(&self.lock, 3)

// Held for reading while a compiler runs, whose own locks no fork can take. A fork that waits is let through before new compiles.
static pthread_rwlock_t compiling = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
TC_FORK_WAITS(&compiling, 2)

// ---- the compiler ----

static void *open_plugin(const char **why) {
  const char *path = tc_options_get()->llvm_path;
  char beside[4096];
  void *lib = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  Dl_info info;
  if (path && lib) return lib;
  if (path) tc_log_line(TC_LOG_WARN, "TC_LLVM_PATH cannot be opened and is ignored: %s", dlerror());
  if (dladdr(&self, &info) && info.dli_fname) {  // next to the library itself
    const char *slash = strrchr(info.dli_fname, '/');
    int n = slash ? (int)(slash - info.dli_fname + 1) : 0;
    snprintf(beside, sizeof beside, "%.*slibtc-llvm.so", n, info.dli_fname);
    lib = dlopen(beside, RTLD_NOW | RTLD_LOCAL);
  }
#ifdef TC_LLVM_PLUGIN_DIR
  if (!lib) lib = dlopen(TC_LLVM_PLUGIN_DIR "/libtc-llvm.so", RTLD_NOW | RTLD_LOCAL);
#endif
  if (!lib) lib = dlopen("libtc-llvm.so", RTLD_NOW | RTLD_LOCAL);
  if (!lib) *why = dlerror();
  return lib;
}

// Caps the instruction set at what TC_ISA names, by features LLVM is told to leave out.
static void choose_isa(void) {
  const char *isa = tc_options_get()->isa;
  bool avx512 = strstr(self.features, "+avx512f") && strstr(self.features, "+avx512vl") && strstr(self.features, "+avx512dq") &&
                strstr(self.features, "+avx512bw");
  bool avx2 = strstr(self.features, "+avx2") && strstr(self.features, "+fma");
  if (isa && strcmp(isa, "avx512") != 0) avx512 = false;
  if (isa && strcmp(isa, "baseline") == 0) avx2 = false;
  self.vector_bytes = avx512 ? 64 : avx2 ? 32 : 16;
  size_t n = strlen(self.features);
  if (!avx512) n += (size_t)snprintf(self.features + n, sizeof self.features - n, ",-avx512f,-avx512vl,-avx512dq,-avx512bw,-avx512cd");
  if (!avx512 && !avx2) snprintf(self.features + n, sizeof self.features - n, ",-avx2,-fma,-avx,-f16c");
}

static void init(void) {
  const char *why = "TC_COMPILER asks for the interpreter";
  bool wanted = strcmp(tc_options_get()->compiler, "interp") != 0;
  void *lib = wanted ? open_plugin(&why) : NULL;
  const tc_llvm_plugin *(*get)(void) = NULL;
  if (lib) *(void **)&get = dlsym(lib, "tc_llvm_plugin_get");
  if (lib && !get) why = "the plug-in lacks its symbol";
  const tc_llvm_plugin *p = get ? get() : NULL;
  if (p && p->abi != TC_LLVM_ABI) p = NULL, why = "the compiler plug-in is of another version";
  if (!p) {
    snprintf(self.sentence, sizeof self.sentence, "no compiler, kernels are interpreted: %.180s", why ? why : "no reason given");
    self.vector_bytes = 64;
    atomic_store(&self.missing, wanted);
    return;
  }
  p->host(self.cpu, sizeof self.cpu, self.features, sizeof self.features);
  choose_isa();
  snprintf(self.sentence, sizeof self.sentence, "%s for %s, %d-bit vectors", p->version, self.cpu, self.vector_bytes * 8);
  self.llvm = p;
}

int tc_kernel_vector_bytes(void) {
  pthread_once(&self.once, init);
  return self.vector_bytes;
}

const char *tc_kernel_compiler(void) {
  pthread_once(&self.once, init);
  return self.sentence;
}

static void dump(const tc_nest *nest, const char *name) {
  if (tc_log_on(TC_LOG_NEST)) {
    tc_log_message m;
    if (tc_log_begin(&m)) {
      fprintf(m.to, "%s\n", name);
      tc_nest_print(nest, m.to);
    }
    tc_log_end(&m, TC_LOG_NEST);
  }
  char *text = NULL, why[256];
  if (tc_log_on(TC_LOG_ASM) && self.llvm &&
      self.llvm->assembly(nest, name, self.cpu, self.features, self.vector_bytes * 8, &text, why, sizeof why) == TC_OK)
    tc_log_line(TC_LOG_ASM, "%s\n%s", name, text);
  free(text);
}

static tc_status compile(tc_kernel *k, const tc_nest *nest) {
  char why[512] = "";
  void *object = NULL, *fn = NULL;
  size_t bytes = 0;
  dump(nest, k->name);
  if (!self.llvm) {
    TC_TRY(tc_interp_create(nest, &k->interp));
    k->ctx = k->interp;
    k->scratch_bytes = tc_interp_scratch(k->interp);
    atomic_store_explicit(&k->fn, tc_interp_run, memory_order_release);
    return TC_OK;
  }
  tc_status st = self.llvm->compile(nest, k->name, self.cpu, self.features, self.vector_bytes * 8, &object, &bytes, why, sizeof why);
  if (st != TC_OK) return TC_FAIL(st, "%s: %s", k->name, why);
  st = tc_elf_load(object, bytes, k->name, &k->code, &fn);
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
  tc_free(k->key);
  tc_free(k);
}

void tc_kernel_release(tc_kernel *k) {
  if (k && atomic_fetch_sub_explicit(&k->refs, 1, memory_order_acq_rel) == 1) destroy(k);
}

static size_t key_bytes(const tc_nest *n) {
  return 32 + n->n_inst * sizeof n->inst[0] + n->n_tile * sizeof n->tile[0] + (n->n_buf + 7) / 8 * 8;
}

static void write_key(const tc_nest *n, uint64_t *key) {
  char *p = (char *)(key + 4);
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

static tc_kernel *find_locked(tc_hash hash, const uint64_t *key, size_t bytes) {
  for (tc_kernel *k = self.bucket[hash.lo % N_BUCKETS]; k; k = k->next)
    if (k->hash.lo == hash.lo && k->hash.hi == hash.hi && k->key_bytes == bytes && memcmp(k->key, key, bytes) == 0) return k;
  return NULL;
}

tc_status tc_kernel_get(const tc_nest *nest, const char *stem, tc_kernel **out, uint32_t *compiled) {
  *out = NULL;
  pthread_once(&self.once, init);
  size_t bytes = key_bytes(nest);
  uint64_t *key = tc_calloc(1, bytes);
  if (!key) return TC_FAIL(TC_ERR_MEMORY, "no room for a kernel's key");
  write_key(nest, key);
  tc_hash hash = tc_hash_bytes(key, bytes);
  pthread_mutex_lock(&self.lock);
  tc_kernel *k = find_locked(hash, key, bytes);
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
  k->key = key, k->key_bytes = bytes, k->hash = hash;
  atomic_store_explicit(&k->refs, 2, memory_order_relaxed);  // the cache's and the caller's
  snprintf(k->name, sizeof k->name, "tc_%.28s_%08x", stem, (unsigned)hash.lo);
  if (!self.llvm && atomic_exchange(&self.missing, false)) tc_log_line(TC_LOG_WARN, "%s", self.sentence);
  pthread_rwlock_rdlock(&compiling);
  tc_status st = compile(k, nest);
  pthread_rwlock_unlock(&compiling);
  if (st != TC_OK) return destroy(k), st;
  tc_log_line(TC_LOG_KERNEL, "compiled %s: %u instructions", k->name, nest->n_inst);
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
