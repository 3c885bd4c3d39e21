// Device names and the thread's default device. A device fits a byte: in its low half the row of backends.def, in its high half which one of several, for
// GPUs. Threads: the default is thread-local.
#ifndef TC_DEVICE_DEVICE_H
#define TC_DEVICE_DEVICE_H

#include "runtime/status.h"

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

// A backend's name, with ":n" behind those of GPUs where it is not the first, or "tc": a GPU if one opens that is no simulation, else tc:cpu. Naming a GPU
// opens it. TC_ERR_DEVICE with one sentence if absent or unknown.
tc_status tc_device_parse(const char *name, const char *op, tc_site site, tc_device *out);
const char *tc_device_name(tc_device d);
tc_device_kind tc_device_kind_of(tc_device d);
// Whether kernels are generated for it.
static inline bool tc_device_generates(tc_device d) {
  return tc_device_kind_of(d) == TC_DEVICE_KERNELS || tc_device_kind_of(d) == TC_DEVICE_GPU;
}
// In whose memory its tensors lie: a GPU's own, or TC_DEVICE_CPU, the host's.
static inline tc_device tc_device_memory(tc_device d) {
  return tc_device_kind_of(d) == TC_DEVICE_GPU ? d : TC_DEVICE_CPU;
}
// NULL if it can be used; else why not, in one sentence: a GPU that is not there, lost, or the parent's before a fork. No error is recorded.
const char *tc_device_absent(tc_device d);
// This thread's default; the first call reads TC_DEVICE.
tc_device tc_device_default(void);

#endif
