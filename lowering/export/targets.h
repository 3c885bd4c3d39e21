// The instruction sets that a program is compiled for, by name, and whether this processor has one.
//
// In: names of isa.def, with commas between. Out: rows of it, or why not.
// Invariants: what a set needs is all that its column `features` names, not only what the choice of
// a set for this machine looks at.
// Threads: thread-safe. Owner: static memory.
#pragma once

#include <stdbool.h>
#include <tc/tc.h>

#include "lowering/target/isa.h"

#define TC_MOST_TARGETS 8
#define TC_NATIVE "native"

typedef struct tc_export_target {
  const tc_isa *isa;
  bool native;  // code for exactly this processor
} tc_export_target;

// The targets of a list; NULL: this machine's sets but those with tile registers. TC_ERR_ARG for
// an unknown name, one of another machine, or one that is twice there.
tc_status tc_export_targets(const char *list, const char *op, tc_site site, tc_export_target out[TC_MOST_TARGETS],
                            int *n);
// Whether this processor has the set; else *why is what it lacks.
bool tc_isa_runs_here(const tc_isa *isa, char *why, size_t bytes);
