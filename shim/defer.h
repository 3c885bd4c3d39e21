// Calls that are not made at once: levels writeback and lazy.
#pragma once

#include <stdio.h>

#include "shim/options.h"
#include "shim/shim.h"

// Whether the call was taken: recorded, or its scalar result put where the stub returns it from.
// Where it was not, what it may touch is in memory. base: the frame.
bool tc_shim_defer(const tc_shim_options *options, uint32_t entry, int64_t *base, const tc_shim_call *call);

// Before a call that is not looked at: everything is in memory.
void tc_shim_defer_end(void);

// What was deferred, as fields of a line of the profile; nothing where nothing was.
void tc_shim_defer_report(FILE *file);
