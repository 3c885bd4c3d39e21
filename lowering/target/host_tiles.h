// Whether this process may use the processor's tile registers (AMX). Their contents are large, so
// Linux saves them for a process only after it asked.
//
// In: cpuid, and the permission, which is asked for at the first call, once a process. Out: the
// same answer for the whole process, with a sentence.
// Invariants: the permission holds for all threads and for forked children, but not beyond exec. A
// process that has it needs signal stacks of 12 KiB; one that has smaller ones is refused.
// Threads: thread-safe. Owner: static memory.
#pragma once

#include <stdbool.h>

// The feature that tc_host_tiles stands for among those that rows of isa.def need.
#define TC_TILES_FEATURE "tiles"

bool tc_host_tiles(void);
// Why they are used or not. tiles: the instruction set at hand uses them.
const char *tc_host_tiles_sentence(bool tiles);
