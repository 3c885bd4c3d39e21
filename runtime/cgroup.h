// Limits that the cgroups of this process set, v1 and v2. Each cgroup counts, and so do its visible
// ancestors.
// Threads: thread-safe, pure.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Reads the limit of one directory; a negative value means that it sets none.
typedef double tc_cgroup_says(const char *dir);

// Reads the first line of a file in a directory. Returns false, and writes nothing, if it cannot be
// read.
bool tc_first_line(const char *dir, const char *name, char *out, size_t bytes);
// Returns the smallest limit of the controller ("cpu", "memory"); a negative value means that there
// is none. root is put before /proc and /sys; "" except in tests.
double tc_cgroup_least(const char *root, const char *controller, tc_cgroup_says *says);
