// Names of the addresses of a stack.
// In: a profile with modules. Out: texts: function and line where addr2line is installed and finds
// them, else module and offset. Threads: one.
#pragma once

#include "tools/prof/profile.h"

// Whether an address is of the library's own code.
bool tc_stack_is_own(tc_profile *p, uint64_t address);
// Writes a frame as "function at file:line" or "module+0x..".
void tc_stack_frame(tc_profile *p, uint64_t address, char *out, size_t bytes);
