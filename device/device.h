// Which device a name means, and the thread's default device.
// Threads: the default is thread-local.
#pragma once

#include "device/backends.h"
#include "runtime/status.h"

// The device of that name, whether it is there or not; nothing is opened but for "tc".
// TC_ERR_DEVICE if there is no such name.
tc_status tc_device_of_name(const char *name, const char *op, tc_site site, tc_device *out);
// Parses a device's name (tc_device_name), or "tc": a GPU that opens and is no simulation, else
// tc:cpu. Naming a GPU opens it. TC_ERR_DEVICE with one sentence: it is absent or unknown.
tc_status tc_device_parse(const char *name, const char *op, tc_site site, tc_device *out);
// Returns NULL if the device can be used, else one sentence. A GPU may be absent, lost, or opened
// by the parent before a fork. Records no error.
const char *tc_device_absent(tc_device d);
// Returns this thread's default; the first call reads TC_DEVICE.
tc_device tc_device_default(void);
// How many tc_push_device of this thread are open.
uint32_t tc_device_depth(void);
