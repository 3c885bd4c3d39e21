// tc as a guest in somebody else's process (tc.h). What it changes stands with the option TC_EMBED.
// A guest's shared library stays loaded, so that exit() need not free anything. The host's other
// threads may go on meanwhile, and would meet what has ended.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // dladdr
#endif
#include <dlfcn.h>
#include <string.h>
#include <tc/tc.h>

#include "runtime/options.h"
#include "runtime/status.h"

// A plugin with the static library in it is its host's to unload.
static bool pin_library(void) {
  Dl_info self;
  const char *slash = dladdr((const void *)pin_library, &self) ? strrchr(self.dli_fname, '/') : NULL;
  return slash && strncmp(slash, "/libtc.so", 9) == 0 &&
         dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE) != NULL;
}

tc_status tc_embed_at(tc_site site) {
  if (!tc_options_embed())
    return tc_fail(TC_ERR_STATE, "embed", site,
                   "an earlier call has read the environment; call tc_embed before all others, or set TC_EMBED=1");
  if (pin_library()) tc_options_keep_at_exit();
  return TC_OK;
}
