// The back ends and their devices: the rows of backends.def, and behind them those that shared
// objects brought (loaded_backend.h).
// A device fits a byte: the low half is the row, the high half says which one of several.
// Threads: thread-safe; only names of rows behind the table are written, once each.
#pragma once

#include <stdbool.h>

typedef enum tc_device {
#define TC_BACKEND(NAME, name, kind) TC_DEVICE_##NAME,
#include "device/backends.def"
#undef TC_BACKEND
  TC_N_DEVICES
} tc_device;

#define TC_MOST_ORDINALS 16
#define TC_MOST_LOADED (16 - TC_N_DEVICES)  // back ends that are loaded: rows from TC_N_DEVICES on

static inline tc_device tc_device_row(tc_device d) {
  return (tc_device)(d & 15);
}
static inline int tc_device_ordinal(tc_device d) {
  return d >> 4;
}
static inline tc_device tc_device_of_row(tc_device row, int ordinal) {
  return (tc_device)(row | ordinal << 4);
}

// LOADED: of a shared object, which runs the ops it takes; the CPU's kernels run the others.
typedef enum tc_device_kind {
  TC_DEVICE_KERNELS,
  TC_DEVICE_ROWS,
  TC_DEVICE_ZEROS,
  TC_DEVICE_GPU,
  TC_DEVICE_LOADED
} tc_device_kind;

// Returns the device's name: the back end's ("tc:cuda"), and ":n" for one that is not the first.
const char *tc_device_name(tc_device d);
// Names the devices of a row behind the table: TC_MOST_ORDINALS static texts.
void tc_device_set_names(tc_device row, const char *const *texts);
static inline tc_device_kind tc_device_kind_of(tc_device d) {
  switch (tc_device_row(d)) {
#define TC_BACKEND(NAME, name, kind) \
  case TC_DEVICE_##NAME: return TC_DEVICE_##kind;
#include "device/backends.def"
#undef TC_BACKEND
    default: return TC_DEVICE_LOADED;
  }
}
// Returns whether kernels are generated for the device.
static inline bool tc_device_generates(tc_device d) {
  return tc_device_kind_of(d) == TC_DEVICE_KERNELS || tc_device_kind_of(d) == TC_DEVICE_GPU;
}
// Returns the device in whose memory its tensors lie: a GPU or a loaded back end's itself, else
// TC_DEVICE_CPU, the host.
static inline tc_device tc_device_memory(tc_device d) {
  return tc_device_kind_of(d) == TC_DEVICE_GPU || tc_device_kind_of(d) == TC_DEVICE_LOADED ? d : TC_DEVICE_CPU;
}
