// A graph for Graphviz: as recorded, and after lowering with each kernel as a cluster.
// In: a plan with its texts. Out: standard output. Threads: one.
#pragma once

#include "tools/prof/profile.h"

// False: there was no memory.
bool tc_dot_print(tc_profile *p, const tc_prof_plan *plan);
