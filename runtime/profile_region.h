// Regions that a program names: a stack of names for each thread (tc_region_begin).
// Threads: per thread. Owner: the thread.
#pragma once

// The thread's region as "outer/inner". "": it is in none. Valid until the thread's next begin or end.
const char *tc_region_path(void);
