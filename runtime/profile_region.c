// Open regions of threads. See profile_region.h.
//
// From its outermost begin to that one's end a thread has memory for what is open. A library that
// is opened by dlopen has little room for threads' variables.
#include "runtime/profile_region.h"

#include <stdint.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"

#define MOST 64  // regions open at once in a thread
#define PATH_BYTES 1024

typedef struct open_regions {
  char path[PATH_BYTES];
  uint16_t length[MOST];  // of the path outside of each open region
  const tc_options *outside[MOST];
  tc_site site[MOST];  // where each was begun
  uint32_t n;
} open_regions;

static _Thread_local open_regions *mine;  // NULL: none is open
static _Thread_local uint32_t n_beyond;  // open beyond those: too many, too long, or no memory

const char *tc_region_path(void) {
  return mine ? mine->path : "";
}

uint32_t tc_region_depth(void) {
  return (mine ? mine->n : 0) + n_beyond;
}

tc_site tc_region_site(void) {
  return mine && !n_beyond ? mine->site[mine->n - 1] : 0;
}

tc_status tc_region_push(const char *name, const tc_options *outside, tc_site site) {
  size_t at = mine ? strlen(mine->path) : 0, n = name ? strlen(name) : 0;
  if (n_beyond || (mine && mine->n == MOST) || at + n + 2 > PATH_BYTES) {
    n_beyond++;
    return tc_fail(TC_ERR_STATE, "region_begin", site, "%s: more than %d regions, or %d bytes of names, are open",
                   name ? name : "NULL", MOST, PATH_BYTES - 1);
  }
  if (!mine && !(mine = tc_calloc(1, sizeof *mine))) {
    n_beyond++;
    return tc_fail(TC_ERR_MEMORY, "region_begin", site, "no room for a region");
  }
  mine->outside[mine->n] = outside, mine->site[mine->n] = site;
  mine->length[mine->n++] = (uint16_t)at;
  if (n == 0) return TC_OK;
  if (at) mine->path[at++] = '/';
  memcpy(mine->path + at, name, n + 1);
  return TC_OK;
}

bool tc_region_pop(const tc_options **outside) {
  *outside = tc_options_mine;
  if (n_beyond) return n_beyond--, true;
  if (!mine) return false;
  mine->path[mine->length[--mine->n]] = 0;
  *outside = mine->outside[mine->n];
  if (mine->n) return true;
  tc_free(mine);
  mine = NULL;
  return true;
}
