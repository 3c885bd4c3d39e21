// Which device a name means, and the thread's default device.
// Threads: the default is thread-local.
#ifndef TC_DEVICE_DEVICE_H
#define TC_DEVICE_DEVICE_H

#include "device/backends.h"
#include "runtime/status.h"

// A backend's name, with ":n" behind those of GPUs where it is not the first, or "tc": a GPU if one
// opens that is no simulation, else tc:cpu. Naming a GPU opens it. TC_ERR_DEVICE with one sentence
// if absent or unknown.
tc_status tc_device_parse(const char *name, const char *op, tc_site site, tc_device *out);
// NULL if it can be used; else why not, in one sentence: a GPU that is not there, lost, or the
// parent's before a fork. No error is recorded.
const char *tc_device_absent(tc_device d);
// This thread's default; the first call reads TC_DEVICE.
tc_device tc_device_default(void);

#endif
