// The profile of calls of BLAS that the shim writes: a line of JSON a process and a call site.
// In: a path. Out: its table, or JSON, on standard output. Threads: one.
#pragma once

#include "tools/prof/prof.h"

// Whether a file begins as such a profile does.
bool tc_blas_profile_is(const char *path);
// Prints it; the exit status.
int tc_blas_profile_print(const char *path, const tc_prof_options *o);
