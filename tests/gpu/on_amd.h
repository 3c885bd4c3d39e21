// A simulated device of AMD's, for programs that try one architecture after another in processes of
// their own.
#pragma once

#include <stdlib.h>

#include "runtime/options.h"
#include "tests/sim/built.h"

// arithmetic: inside matrix instructions, "" for the usual one (TC_SIM_MMA). False: the simulators
// are not built.
static inline bool on_amd(const char *gfx, const char *arithmetic) {
  setenv("TC_SIM_GFX", gfx, 1);
  setenv("TC_SIM_MMA", arithmetic, 1);
  setenv("TC_CACHE_BYTES", "0", 1);
  if (!built_simulators()) return false;
  tc_options_reload();
  return true;
}
