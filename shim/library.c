// Looks the functions up that library.h lists. Threads: under the lock of memory/memory.h.
#include "shim/library.h"

#include <dlfcn.h>

#include "shim/direct.h"
#include "shim/options.h"

const tc_shim_functions *tc_shim_library(void) {
  static tc_shim_functions functions;
  static int state;  // 0: not yet, 1: there, 2: not there
  if (state) return state == 1 ? &functions : NULL;
  void *handle = tc_shim_open_library();
  const char *lacks = handle ? NULL : "the library";
#define X(name) \
  if (handle && !(functions.name = (__typeof__(&tc_##name))dlsym(handle, "tc_" #name))) lacks = "tc_" #name;
  TC_SHIM_FUNCTIONS(X)
#undef X
  if (lacks) tc_shim_say("libtc lacks %s, so nothing is deferred", lacks);
  state = lacks ? 2 : 1;
  return lacks ? NULL : &functions;
}
