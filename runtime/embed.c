// tc as a guest in somebody else's process (tc.h). What it changes stands with the option TC_EMBED.
#include <tc/tc.h>

#include "runtime/options.h"
#include "runtime/status.h"

tc_status tc_embed_at(tc_site site) {
  if (tc_options_embed()) return TC_OK;
  return tc_fail(TC_ERR_STATE, "embed", site,
                 "an earlier call has read the environment; call tc_embed before all others, or set TC_EMBED=1");
}
