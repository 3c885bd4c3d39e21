// Machines without a GPU, or with half of what one needs: each is one clear sentence, and the CPU
// goes on. Each case is a process of its own.
#include <stdlib.h>
#include <unistd.h>

#include "device/gpu.h"
#include "runtime/options.h"
#include "tests/child.h"
#include "tests/sim/built.h"

// Naming the device fails with these words, and a sum on the CPU is right afterwards.
static void refused(const char *device, const char *words) {
  float sum = 0;
  tc_clear_error();
  EXPECT(tc_set_default_device(device) == TC_ERR_DEVICE, "%s was taken", device);
  const char *said = tc_last_error()->message;
  EXPECT(strstr(said, device) && strstr(said, words), "should say \"%s\"", words);
  EXPECT(!strchr(said, '\n'), "more than a line");
  tc_clear_error();
  EXPECT_OK(tc_set_default_device("tc"));
  EXPECT(strcmp(tc_get_default_device(), "tc:cpu") == 0, "tc is %s", tc_get_default_device());
  EXPECT(tc_item_f32(tc_sum(tc_ones(TC_SHAPE(5), TC_F32), TC_ALL, false), &sum) == TC_OK && sum == 5, "%g",
         (double)sum);
  tc_shutdown();
}

typedef struct setting {
  const char *variable, *value;
  const char *device, *words;
} setting;

static int try(const void *arg) {
  const setting *s = arg;
  setenv(s->variable, s->value, 1);
  tc_options_reload();
  refused(s->device, s->words);
  return child_failed();
}

static void expect_refused(const char *variable, const char *value, const char *device, const char *words) {
  EXPECT(child_status(try, &(setting){variable, value, device, words}) == 0, "%s with %s=%s", device, variable, value);
}

// A default that is not there is told once, and is no failure of a call.
static int falls_back(const void *arg) {
  (void)arg;
  setenv("TC_CUDA_LIBRARY", "/nonexistent/libcuda.so", 1);
  setenv("TC_DEVICE", "tc:cuda", 1);
  tc_options_reload();
  EXPECT(strcmp(tc_get_default_device(), "tc:cpu") == 0, "the default is %s", tc_get_default_device());
  EXPECT(tc_last_error()->status == TC_OK, "%s", tc_last_error()->message);
  return child_failed();
}

int main(void) {
  static const char stub[] = "/usr/local/cuda/lib64/stubs/libcuda.so";
  unsetenv("TC_DEVICE");
  expect_refused("TC_CUDA_LIBRARY", "/nonexistent/libcuda.so", "tc:cuda",
                 "no NVIDIA driver: /nonexistent/libcuda.so: cannot open shared object file");
  expect_refused("TC_CUDA_LIBRARY", "/nonexistent/libcuda.so", "tc:cuda:3", "no NVIDIA driver");
  expect_refused("TC_CUDA_LIBRARY", "libm.so.6", "tc:cuda",
                 "libm.so.6 has no cuInit: the driver is older than CUDA 11.2");
  expect_refused("TC_HIP_LIBRARY", "/nonexistent/libamdhip64.so", "tc:hip",
                 "no AMD driver: /nonexistent/libamdhip64.so: cannot open shared object file");
  if (access(stub, R_OK) == 0)
    expect_refused("TC_CUDA_LIBRARY", stub, "tc:cuda",
                   "it is the toolkit's stub, not a driver: an error without a name (34)");
  else
    printf("skipped: the toolkit's own stub driver, which is not installed; a simulated one answers as it does\n");
  EXPECT(child_status(falls_back, NULL) == 0, "TC_DEVICE=tc:cuda without a driver");
  if (built_simulators()) {
    expect_refused("TC_NVRTC_LIBRARY", "/nonexistent/libnvrtc.so", "tc:cuda",
                   "NVRTC, CUDA's compiler, cannot be opened: /nonexistent/libnvrtc.so");
    expect_refused("TC_NVRTC_LIBRARY", "libm.so.6", "tc:cuda", "libm.so.6 has no nvrtcGetErrorString");
    expect_refused("TC_SIM_DRIVER_VERSION", "11010", "tc:cuda",
                   "NVIDIA's driver is of CUDA 11.1: 11.2 or newer is needed");
    expect_refused("TC_SIM_NVRTC", "11.1", "tc:cuda", "is CUDA's compiler of version 11.1: 11.2 or newer is needed");
    expect_refused("TC_SIM_HIP_VERSION", "50120531", "tc:hip", "AMD's library is HIP 5.1: 5.2 or newer is needed");
    // as the stub answers
    expect_refused("TC_SIM_FAIL", "cuInit:*=34", "tc:cuda", "it is the toolkit's stub, not a driver");
  }
  return expect_done("gpu-absent");
}
