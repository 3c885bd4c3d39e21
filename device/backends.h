// The backends (the rows of backends.def) and their devices.
// A device fits a byte: the low half is the row, the high half says which one of several GPUs.
// Threads: thread-safe; nothing here is written.
#pragma once

#include <stdbool.h>

typedef enum tc_device {
#define TC_BACKEND(NAME, name, kind) TC_DEVICE_##NAME,
#include "device/backends.def"
#undef TC_BACKEND
  TC_N_DEVICES
} tc_device;

#define TC_MOST_ORDINALS 16

static inline tc_device tc_device_row(tc_device d) {
  return (tc_device)(d & 15);
}
static inline int tc_device_ordinal(tc_device d) {
  return d >> 4;
}
static inline tc_device tc_device_of_row(tc_device row, int ordinal) {
  return (tc_device)(row | ordinal << 4);
}

typedef enum tc_device_kind { TC_DEVICE_KERNELS, TC_DEVICE_ROWS, TC_DEVICE_ZEROS, TC_DEVICE_GPU } tc_device_kind;

// Returns the device's name: the backend's ("tc:cuda"), and ":n" for a GPU that is not the first.
const char *tc_device_name(tc_device d);
tc_device_kind tc_device_kind_of(tc_device d);
// Returns whether kernels are generated for the device.
static inline bool tc_device_generates(tc_device d) {
  return tc_device_kind_of(d) == TC_DEVICE_KERNELS || tc_device_kind_of(d) == TC_DEVICE_GPU;
}
// Returns the device in whose memory its tensors lie: a GPU itself, else TC_DEVICE_CPU, the host.
static inline tc_device tc_device_memory(tc_device d) {
  return tc_device_kind_of(d) == TC_DEVICE_GPU ? d : TC_DEVICE_CPU;
}
