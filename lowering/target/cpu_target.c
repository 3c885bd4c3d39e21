// Chooses the instruction set that kernels of tc:cpu are planned for, once. See cpu_target.h.
#include "lowering/target/cpu_target.h"

#include <pthread.h>
#include <string.h>

#include "lowering/target/codegen_plugin.h"
#include "lowering/target/host_cpu.h"
#include "lowering/target/host_tiles.h"
#include "runtime/options.h"

static struct {
  pthread_once_t found;
  // the instruction set that kernels are planned for, and compiled for if there is a compiler
  const tc_isa *isa;
  bool is_foreign;  // true: it is another machine's, and kernels are interpreted
  bool compiles;  // true: kernels run compiled on this machine; false: interpreted
  char build[TC_BUILD_BYTES];  // build id of the plug-in; "": not known
} self = {.found = PTHREAD_ONCE_INIT};
static _Thread_local const tc_isa *planned;  // see tc_compiler_plan_for. NULL: self.isa

// Whether there is a compiler. Its file is enough if it has a build id; else the plug-in is opened.
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

static void find_target(void) {
  const tc_isa *asked = tc_options_get()->isa ? tc_isa_named(tc_options_get()->isa) : NULL;
  char features[TC_HOST_FEATURES_BYTES];
  tc_host_features(features);
  self.is_foreign = asked && !tc_isa_is_of_host(asked);
  // The permission is not asked for in vain.
  if ((!asked || asked->tiles) && tc_host_tiles()) strcat(features, ",+" TC_TILES_FEATURE);
  self.isa = self.is_foreign ? asked : tc_isa_of_host(features, asked);
  bool there = find_compiler(self.is_foreign ? asked : NULL);
  // interpreted with this set too, for the same bits
  bool alike = self.isa->dots || self.isa->lookups || self.isa->tiles;
  if (!there && (asked || !alike)) self.isa = asked ? asked : &tc_isa_interpreted;
  self.compiles = there && !self.is_foreign;
}

static void find_target_once(void) {
  pthread_once(&self.found, find_target);
}

const tc_isa *tc_compiler_isa(void) {
  find_target_once();
  return planned ? planned : self.isa;
}

void tc_compiler_plan_for(const tc_isa *isa) {
  planned = isa;
}

int tc_compiler_vector_bytes(void) {
  return tc_compiler_isa()->vector_bytes;
}

bool tc_compiler_compiles(void) {
  find_target_once();
  return self.compiles;
}

bool tc_compiler_interprets(void) {
  find_target_once();
  return !self.compiles && !self.is_foreign;
}

const char *tc_cpu_target_build(void) {
  find_target_once();
  return self.build;
}
