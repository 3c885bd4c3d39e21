// Regions that a function of the program leaves open.
// Threads: the calling thread, which has no op open. Owner: nobody.
#pragma once

#include "runtime/profile_region.h"

// After a function that began with `depth` regions open: ends those that it left open. TC_ERR_STATE
// if it left any, or ended one of its caller's. what: "the body of scan"; op: the caller.
tc_status tc_region_check(uint32_t depth, const char *op, const char *what, tc_site site);
