// What a thread is at: inside the shim, and whether the kernel shows us its system calls.
#pragma once

#include <stdbool.h>

// Inside the shim or libtc, with the lock.
bool tc_shim_is_inside(void);
void tc_shim_set_inside(bool inside);

// Whether the system has Syscall User Dispatch.
bool tc_shim_dispatch_is_there(void);
// From now on this thread's system calls are looked at while it is set to block.
bool tc_shim_dispatch_begin(void);
void tc_shim_dispatch_set(bool blocks);

// What the C library, or whoever was preloaded behind, has by this name.
void *tc_shim_next_function(const char *name);
