// Regions that a program names: a stack of names for each thread (tc_region_begin).
// Threads: per thread. Owner: the thread.
#pragma once

// The thread's region as "outer/inner", valid until its next begin or end. "": it is in none.
const char *tc_region_path(void);
