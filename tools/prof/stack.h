// Names of the addresses of a stack.
// In: a profile with modules. Out: texts: function and line where addr2line is installed and finds
// them, else module and offset. Threads: one.
#pragma once

#include "tools/prof/profile.h"

// Writes a frame as "function at file:line" or "module+0x..".
void tc_stack_frame(tc_profile *p, uint64_t address, char *out, size_t bytes);
