// Opens and calls the code generator of tc:cpu. See compiler.h.
#include "lowering/jit/compiler.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "lowering/codegen/perf_files.h"
#include "lowering/target/host_cpu.h"
#include "runtime/fork.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/status.h"

static struct {
  pthread_once_t found, opened;
  const tc_codegen *row;  // the row that TC_COMPILER names
  char head[512];  // of a kernel's disk key; "": the disk cache is off
  tc_codegen_opened facts;
  bool is_open;  // false: there is no compiler, or it was not opened yet
  // true: the opened generator is not the build in `head`; nothing is cached on disk
  bool build_changed;
  atomic_bool told;  // true: the warning about interpreted kernels was logged
} self = {.found = PTHREAD_ONCE_INIT, .opened = PTHREAD_ONCE_INIT};

// Held for reading between begin and end.
static pthread_rwlock_t compiling = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
TC_FORK_WAITS(&compiling, 2)

static void find_compiler(void) {
  char facts[TC_HOST_FACTS_BYTES];
  const char *build = tc_cpu_target_build();
  self.row = tc_codegen_named(tc_options_get()->compiler);
  if (!tc_compiler_compiles() || !*build) return;
  tc_host_facts(facts);
  snprintf(self.head, sizeof self.head, "tc %s, plug-in %s of interface %d, kernel IR %d%s\n%s for %s\n",
           tc_version_text(), build, TC_LLVM_ABI, TC_KIR_VERSION, tc_perf_wants_lines() ? ", with debug lines" : "",
           tc_compiler_isa()->name, facts);
}

static void init_compiler(void) {
  pthread_once(&self.found, find_compiler);
}

// A row without compile is the interpreter (codegen.h).
static void open_row(void) {
  if (!self.row->compile)
    snprintf(self.facts.sentence, sizeof self.facts.sentence,
             "no compiler, kernels are interpreted: TC_COMPILER asks for the interpreter");
  else
    self.is_open = !self.row->open || self.row->open(&self.facts);
  self.build_changed = strcmp(tc_cpu_target_build(), self.facts.build) != 0;
}

// pre: between begin and end. The generator, opened at the first call. NULL: there is none.
static const tc_codegen *compiler(void) {
  pthread_once(&self.opened, open_row);
  return self.is_open ? self.row : NULL;
}

const char *tc_compiler_head(void) {
  init_compiler();
  return self.head;
}

// ---- compiling ----

void tc_compiler_begin(void) {
  init_compiler();
  pthread_rwlock_rdlock(&compiling);
}

void tc_compiler_end(void) {
  pthread_rwlock_unlock(&compiling);
}

bool tc_compiler_is_there(void) {
  return compiler() != NULL;
}

bool tc_compiler_is_of_head(void) {
  return compiler() && !self.build_changed;
}

tc_status tc_compiler_make(const tc_kir *kir, const char *name, void **out, size_t *bytes) {
  const tc_codegen *row = compiler();
  *out = NULL;
  if (!row) return TC_FAIL(TC_ERR_COMPILE, "%s: %s", name, self.facts.sentence);
  if (!row->supports(kir)) return TC_FAIL(TC_ERR_COMPILE, "%s: %s makes no code of such a kernel", name, row->name);
  return row->compile(kir, name, out, bytes, NULL);
}

uint64_t tc_compiler_emit_ns(void) {
  return self.row->emit_ns ? self.row->emit_ns() : 0;
}

tc_status tc_compiler_load(const tc_kir *kir, const char *name, const void *object, size_t bytes,
                           tc_codegen_code *out) {
  init_compiler();
  return self.row->load(kir, name, object, bytes, NULL, out);
}

tc_status tc_compiler_object(const tc_kir *kir, const char *name, void **out, size_t *bytes) {
  tc_compiler_begin();
  tc_status st = tc_compiler_make(kir, name, out, bytes);
  tc_compiler_end();
  return st;
}

tc_status tc_compiler_object_for(const tc_isa *isa, bool native, const tc_kir *kir, const char *name, void **out,
                                 size_t *bytes) {
  tc_compiler_begin();
  const tc_codegen *row = compiler();
  *out = NULL;
  tc_status st = !row                ? TC_FAIL(TC_ERR_COMPILE, "%s: %s", name, self.facts.sentence)
                 : !row->compile_for ? TC_FAIL(TC_ERR_COMPILE, "%s: %s compiles for one target alone", name, row->name)
                 : !row->supports(kir)
                     ? TC_FAIL(TC_ERR_COMPILE, "%s: %s makes no code of such a kernel", name, row->name)
                     : row->compile_for(isa, native, kir, name, out, bytes);
  tc_compiler_end();
  return st;
}

void tc_compiler_log(const tc_kir *kir, const char *name) {
  const tc_codegen *row = tc_log_on(TC_LOG_ASM) ? compiler() : NULL;
  char *text = row && row->assembly ? row->assembly(kir, name) : NULL;
  if (text) tc_log_line(TC_LOG_ASM, "%s\n%s", name, text);
  free(text);
}

// ---- whether it is there ----

// There is no warning if the user chose the interpreter or compiles for another machine.
void tc_compiler_tell(void) {
  bool expected = self.row->compile && tc_isa_is_of_host(tc_compiler_isa());
  if (expected && !compiler() && !atomic_exchange(&self.told, true))
    tc_log_line(TC_LOG_WARN, "%s", self.facts.sentence);
}

bool tc_compiler_open(bool *no_atexit) {
  tc_compiler_begin();
  bool opened = compiler() != NULL;
  *no_atexit = opened && self.facts.no_atexit;
  if (!opened) tc_compiler_tell();
  tc_compiler_end();
  return opened;
}

const char *tc_compiler_sentence(void) {
  tc_compiler_begin();
  (void)compiler();
  tc_compiler_end();
  return self.facts.sentence;
}
