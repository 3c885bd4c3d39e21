// Device names and the thread's default device. A device is an index into backends.def. Threads: the default is thread-local.
#ifndef TC_DEVICE_DEVICE_H
#define TC_DEVICE_DEVICE_H

#include "runtime/status.h"

typedef enum tc_device {
#define TC_BACKEND(NAME, name, kind, sentence) TC_DEVICE_##NAME,
#include "device/backends.def"
#undef TC_BACKEND
  TC_N_DEVICES
} tc_device;

typedef enum tc_device_kind { TC_DEVICE_KERNELS, TC_DEVICE_ROWS, TC_DEVICE_ZEROS, TC_DEVICE_ABSENT } tc_device_kind;

// "tc" or a backend's name, with an optional ":n" after cuda and hip. TC_ERR_DEVICE with one sentence if absent or unknown.
tc_status tc_device_parse(const char *name, const char *op, tc_site site, tc_device *out);
const char *tc_device_name(tc_device d);
tc_device_kind tc_device_kind_of(tc_device d);
// This thread's default; the first call reads TC_DEVICE.
tc_device tc_device_default(void);

#endif
