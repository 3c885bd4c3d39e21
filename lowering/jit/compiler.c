// Finds, opens and asks the compiler. See compiler.h.
#include "lowering/jit/compiler.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "lowering/target/host_cpu.h"
#include "lowering/target/codegen_plugin.h"
#include "runtime/fork.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/status.h"

static struct {
  // Known without opening the compiler.
  pthread_once_t found;
  bool wanted;  // a compiler
  const tc_isa *isa;  // what kernels are planned for, and compiled for if there is a compiler
  const tc_isa *foreign;  // that, if it is another machine's: kernels are interpreted
  bool compiles;  // kernels of this machine; false: they are interpreted
  char build[TC_BUILD_BYTES];  // of the compiler; "": not known
  char head[512];  // of a kernel's key on disk; "": nothing is kept
  // Known from opening it on.
  pthread_once_t opened;
  const tc_llvm_plugin *llvm;  // NULL: there is none
  bool other;  // than was found before: nothing is kept on disk
  char cpu[64], features[4096], sentence[256];
  atomic_bool told;  // that there is none
} self = {.found = PTHREAD_ONCE_INIT, .opened = PTHREAD_ONCE_INIT};

// Held for reading between begin and end.
static pthread_rwlock_t compiling = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
TC_FORK_WAITS(&compiling, 2)

// Sets cpu and features: for this machine the host's, less what the chosen set is without.
static void choose_target(void) {
  if (self.foreign) {
    snprintf(self.cpu, sizeof self.cpu, "%s", self.foreign->cpu);
    snprintf(self.features, sizeof self.features, "%s", self.foreign->features);
    return;
  }
  self.llvm->host(self.cpu, sizeof self.cpu, self.features, sizeof self.features);
  size_t n = strlen(self.features);
  snprintf(self.features + n, sizeof self.features - n, "%s", self.isa->without);
}

static void open_compiler(void) {
  char why[TC_WHY_BYTES] = "TC_COMPILER asks for the interpreter", build[TC_BUILD_BYTES] = "";
  if (self.wanted) self.llvm = tc_plugin_open(self.foreign, build, why);
  if (!self.llvm) {
    snprintf(self.sentence, sizeof self.sentence, "no compiler, kernels are interpreted: %.180s", why);
    return;
  }
  if (!*self.build) memcpy(self.build, build, sizeof build);
  self.other = strcmp(self.build, build) != 0;
  choose_target();
  snprintf(self.sentence, sizeof self.sentence, "%s for %s, %d-bit vectors%s%s", self.llvm->version, self.cpu, self.isa->vector_bytes * 8,
           self.foreign ? ": not this machine, kernels are interpreted as they are for " : "", self.foreign ? self.foreign->name : "");
}

// What a key on disk begins with: who makes objects, and for what.
static void write_head(void) {
  char facts[TC_HOST_FACTS_BYTES];
  tc_host_facts(facts);
  snprintf(self.head, sizeof self.head, "tc %s, plug-in %s of interface %d, nests %d\n%s for %s\n", tc_version_text(), self.build, TC_LLVM_ABI,
           TC_NEST_VERSION, self.isa->name, facts);
}

static void find(void) {
  const tc_isa *asked = tc_options_get()->isa ? tc_isa_named(tc_options_get()->isa) : NULL;
  char features[TC_HOST_FEATURES_BYTES];
  tc_host_features(features);
  self.foreign = asked && !tc_isa_is_of_host(asked) ? asked : NULL;
  self.isa = self.foreign ? self.foreign : tc_isa_of_host(features, asked);
  self.wanted = strcmp(tc_options_get()->compiler, "interp") != 0;
  if (self.wanted) tc_plugin_find(self.foreign, self.build);
  if (!*self.build) pthread_once(&self.opened, open_compiler);
  bool there = self.llvm || *self.build;
  bool alike = self.isa->dots || self.isa->lookups;  // interpreted as compiled, for the same bits
  if (!there && !alike) self.isa = asked ? asked : &tc_isa_interpreted;
  self.compiles = there && !self.foreign;
  if (self.compiles && *self.build) write_head();
}

// The compiler, opened if it was not; NULL: there is none. pre: begun.
static const tc_llvm_plugin *compiler(void) {
  pthread_once(&self.opened, open_compiler);
  return self.llvm;
}

// ---- what it compiles for ----

static void init(void) {
  pthread_once(&self.found, find);
}

const tc_isa *tc_compiler_isa(void) {
  init();
  return self.isa;
}

int tc_compiler_vector_bytes(void) {
  return tc_compiler_isa()->vector_bytes;
}

bool tc_compiler_compiles(void) {
  init();
  return self.compiles;
}

bool tc_compiler_interprets(void) {
  init();
  return !self.compiles && !self.foreign;
}

const char *tc_compiler_head(void) {
  init();
  return self.head;
}

// ---- compiling ----

void tc_compiler_begin(void) {
  init();
  pthread_rwlock_rdlock(&compiling);
}

void tc_compiler_end(void) {
  pthread_rwlock_unlock(&compiling);
}

bool tc_compiler_is_there(void) {
  return compiler() != NULL;
}

bool tc_compiler_is_of_head(void) {
  return compiler() && !self.other;
}

tc_status tc_compiler_make(const tc_nest *nest, const char *name, void **out, size_t *bytes) {
  char why[512] = "";
  *out = NULL;
  if (!compiler()) return TC_FAIL(TC_ERR_COMPILE, "%s: %s", name, self.sentence);
  tc_status st = self.llvm->compile(nest, name, self.cpu, self.features, self.isa->vector_bytes * 8, out, bytes, why, sizeof why);
  return st == TC_OK ? TC_OK : TC_FAIL(st, "%s: %s", name, why);
}

tc_status tc_compiler_object(const tc_nest *nest, const char *name, void **out, size_t *bytes) {
  tc_compiler_begin();
  tc_status st = tc_compiler_make(nest, name, out, bytes);
  tc_compiler_end();
  return st;
}

void tc_compiler_log(const tc_nest *nest, const char *name) {
  char *text = NULL, why[256];
  if (tc_log_on(TC_LOG_ASM) && compiler() &&
      self.llvm->assembly(nest, name, self.cpu, self.features, self.isa->vector_bytes * 8, &text, why, sizeof why) == TC_OK)
    tc_log_line(TC_LOG_ASM, "%s\n%s", name, text);
  free(text);
}

// ---- whether it is there ----

void tc_compiler_tell(void) {
  if (self.wanted && !self.foreign && !atomic_exchange(&self.told, true)) tc_log_line(TC_LOG_WARN, "%s", self.sentence);
}

bool tc_compiler_open(bool *lasting) {
  tc_compiler_begin();
  bool opened = compiler() != NULL;
  *lasting = opened && self.llvm->lasting;
  if (!opened) tc_compiler_tell();
  tc_compiler_end();
  return opened;
}

const char *tc_compiler_sentence(void) {
  tc_compiler_begin();
  (void)compiler();
  tc_compiler_end();
  return self.sentence;
}
