// Memory that the system has to give.
#ifndef TC_RUNTIME_ROOM_H
#define TC_RUNTIME_ROOM_H

#include <stddef.h>

// Bytes that may be taken without other programs or this one being short: Linux's MemAvailable, or
// what this process' cgroups leave where that is less. SIZE_MAX if neither is known. It reads
// files, some 50 us. root: before /proc and /sys, "" but in tests.
size_t tc_room(const char *root);

#endif
