// Open regions: a stack for each thread, of names and of the options outside of each.
// Threads: per thread. Owner: the thread.
#pragma once

#include <tc/tc.h>

#include "runtime/options.h"

// The thread's region as "outer/inner", valid until its next begin or end. "": it is in none.
const char *tc_region_path(void);
// How many are open.
uint32_t tc_region_depth(void);
// Where the innermost one was begun. 0: it is not known.
tc_site tc_region_site(void);
// Opens a region. name: NULL or "" adds nothing to the path. outside: what tc_options_mine was.
// Where it fails, the region is open without name and options.
tc_status tc_region_push(const char *name, const tc_options *outside, tc_site site);
// Closes the innermost one. *outside: as given; tc_options_mine where opening it failed. False:
// none is open.
bool tc_region_pop(const tc_options **outside);
