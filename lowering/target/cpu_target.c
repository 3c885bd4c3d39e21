// Chooses what kernels of tc:cpu are planned for, once. See cpu_target.h.
#include "lowering/target/cpu_target.h"

#include <pthread.h>
#include <string.h>

#include "lowering/target/codegen_plugin.h"
#include "lowering/target/host_cpu.h"
#include "runtime/options.h"

static struct {
  pthread_once_t found;
  const tc_isa *isa;  // what kernels are planned for, and compiled for if there is a compiler
  bool is_foreign;    // it is another machine's: kernels are interpreted
  bool compiles;      // kernels of this machine; false: they are interpreted
  char build[TC_BUILD_BYTES];  // of the plug-in; "": not known
} self = {.found = PTHREAD_ONCE_INIT};

// Whether there is a compiler, found by its file where that tells its build, else by opening it.
static bool find_compiler(const tc_isa *foreign) {
  char build[TC_BUILD_BYTES], why[TC_WHY_BYTES];
  const char *asked = tc_options_get()->compiler;
  if (strcmp(asked, "llvm") != 0) return strcmp(asked, "interp") != 0;
  tc_plugin_find(foreign, self.build);
  if (*self.build) return true;
  bool there = tc_plugin_open(build, why) != NULL;
  memcpy(self.build, build, sizeof build);
  return there;
}

static void find(void) {
  const tc_isa *asked = tc_options_get()->isa ? tc_isa_named(tc_options_get()->isa) : NULL;
  char features[TC_HOST_FEATURES_BYTES];
  tc_host_features(features);
  self.is_foreign = asked && !tc_isa_is_of_host(asked);
  self.isa = self.is_foreign ? asked : tc_isa_of_host(features, asked);
  bool there = find_compiler(self.is_foreign ? asked : NULL);
  bool alike = self.isa->dots || self.isa->lookups;  // interpreted as compiled, for the same bits
  if (!there && !alike) self.isa = asked ? asked : &tc_isa_interpreted;
  self.compiles = there && !self.is_foreign;
}

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
  return !self.compiles && !self.is_foreign;
}

const char *tc_cpu_target_build(void) {
  init();
  return self.build;
}
