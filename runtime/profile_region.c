// Regions. See profile_region.h.
#include "runtime/profile_region.h"

#include <stdint.h>
#include <string.h>

#include "runtime/status.h"

#define MOST 64  // regions open at once in a thread
#define PATH_BYTES 1024

static _Thread_local struct {
  char path[PATH_BYTES];
  uint16_t length[MOST];  // of the path outside of each open region
  uint32_t n, n_beyond;  // open; of these, beyond MOST or without room: they have no name
} self;

const char *tc_region_path(void) {
  return self.path;
}

void tc_region_begin_at(const char *name, tc_site site) {
  size_t at = self.n ? strlen(self.path) : 0, n = name ? strlen(name) : 0;
  if (self.n == MOST || at + n + 2 > PATH_BYTES || self.n_beyond) {
    self.n_beyond++;
    (void)tc_fail(TC_ERR_STATE, "region_begin", site, "%s: more than %d regions, or %d bytes of names, are open",
                  name ? name : "NULL", MOST, PATH_BYTES - 1);
    return;
  }
  if (n == 0) (void)tc_fail(TC_ERR_ARG, "region_begin", site, "a region needs a name");
  self.length[self.n++] = (uint16_t)at;
  if (n == 0) return;
  if (at) self.path[at++] = '/';
  memcpy(self.path + at, name, n + 1);
}

void tc_region_end_at(tc_site site) {
  if (self.n_beyond) {
    self.n_beyond--;
  } else if (self.n == 0) {
    (void)tc_fail(TC_ERR_STATE, "region_end", site, "no region is open in this thread");
  } else {
    self.path[self.length[--self.n]] = 0;
  }
}
