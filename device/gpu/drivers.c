// The table of drivers: one for each backend that is a GPU. See driver.h.
#include "device/gpu/driver.h"

const tc_gpu_driver *tc_gpu_driver_of(tc_device d) {
  switch (tc_device_row(d)) {
    case TC_DEVICE_CUDA: return &tc_cuda_driver;
    case TC_DEVICE_HIP: return &tc_hip_driver;
    default: return NULL;
  }
}
