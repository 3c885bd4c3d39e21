// Memory that the system can still give.
// Threads: thread-safe.
#pragma once

#include <stddef.h>

// Returns the bytes that can be taken without making this program or others short of memory. That
// is Linux's MemAvailable, or what the cgroups of this process leave if that is less. SIZE_MAX:
// neither is known. Reading the files takes some 50 us. root is put before /proc and /sys; ""
// except in tests.
size_t tc_mem_available(const char *root);
