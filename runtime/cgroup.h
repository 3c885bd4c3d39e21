// What the cgroups of this process say, v1 and v2: each of its own and of those above it, as far as
// they can be seen.
#ifndef TC_RUNTIME_CGROUP_H
#define TC_RUNTIME_CGROUP_H

#include <stdbool.h>
#include <stddef.h>

// What one directory says; negative: nothing.
typedef double tc_cgroup_says(const char *dir);

// The first line of a file in a directory. False, and nothing written, if it cannot be read.
bool tc_first_line(const char *dir, const char *name, char *out, size_t bytes);
// The least that they say of the controller ("cpu", "memory"); negative: nothing. root: before
// /proc and /sys, "" but in tests.
double tc_cgroup_least(const char *root, const char *controller, tc_cgroup_says *says);

#endif
