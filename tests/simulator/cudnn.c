// What the simulated cuDNN tells of a caller's mistakes: each is planted once, is found by its
// words and counted, and the call is refused.
#include <dlfcn.h>
#include <stdlib.h>

#include "tests/expect.h"
#include "tests/sim/built.h"
#include "tests/sim/cudnn_api.h"

static void *of(const char *library, const char *name) {
  void *handle = dlopen(built(library), RTLD_NOW | RTLD_LOCAL), *at = handle ? dlsym(handle, name) : NULL;
  EXPECT(at, "no %s", name);
  return at;
}
#define DNN(name) ((__typeof__(&name))of("libsim-cudnn.so", #name))

static cudnnBackendDescriptor_t create(unsigned kind) {
  cudnnBackendDescriptor_t d = NULL;
  EXPECT(DNN(cudnnBackendCreateDescriptor)(kind, &d) == 0 && d, "kind %u", kind);
  return d;
}
static unsigned set(cudnnBackendDescriptor_t d, unsigned name, unsigned type, int64_t n, const void *v) {
  return DNN(cudnnBackendSetAttribute)(d, name, type, n, v);
}
static unsigned get(cudnnBackendDescriptor_t d, unsigned name, unsigned type, void *v) {
  int64_t n;
  return DNN(cudnnBackendGetAttribute)(d, name, type, 1, &n, v);
}
static unsigned finalize(cudnnBackendDescriptor_t d) {
  return DNN(cudnnBackendFinalize)(d);
}
static void destroy(cudnnBackendDescriptor_t d) {
  EXPECT(DNN(cudnnBackendDestroyDescriptor)(d) == 0, "destroyed");
}

// The call was refused, and said so in these words alone.
static void told(unsigned status, const char *words) {
  int (*faults)(void) = (int (*)(void))of("libsim-cuda.so", "sim_faults");
  const char *(*text)(void) = (const char *(*)(void))of("libsim-cuda.so", "sim_fault_text");
  EXPECT(status != 0 && faults() == 1 && strstr(text(), words), "status %u, %d mistakes: %s instead of %s", status,
         faults(), text(), words);
  ((void (*)(void))of("libsim-cuda.so", "sim_forget"))();
}

static cudnnBackendDescriptor_t tensor(int64_t name, int64_t height, int64_t alignment, const int64_t *stride) {
  unsigned type = CUDNN_DATA_FLOAT;
  const int64_t dim[] = {2, 3, height, 5}, own[] = {15 * height, 1, 15, 3};
  cudnnBackendDescriptor_t d = create(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  EXPECT(set(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type) == 0, "type");
  EXPECT(set(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dim) == 0, "extents");
  EXPECT(set(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride ? stride : own) == 0, "strides");
  EXPECT(set(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &name) == 0, "name");
  EXPECT(set(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment) == 0, "alignment");
  return d;
}

static cudnnBackendDescriptor_t convolution(void) {
  const int64_t axes = 2, one[] = {1, 1}, none[] = {0, 0};
  unsigned type = CUDNN_DATA_FLOAT, mode = CUDNN_CROSS_CORRELATION;
  cudnnBackendDescriptor_t d = create(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  EXPECT(set(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &axes) == 0, "axes");
  EXPECT(set(d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type) == 0, "type");
  EXPECT(set(d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode) == 0, "mode");
  EXPECT(set(d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, one) == 0, "dilation");
  EXPECT(set(d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, one) == 0, "steps");
  EXPECT(set(d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, none) == 0, "padding");
  EXPECT(set(d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, none) == 0, "padding");
  return d;
}

static void test_attributes(void) {
  int64_t number = 4;
  cudnnBackendDescriptor_t d = create(CUDNN_BACKEND_TENSOR_DESCRIPTOR), out = NULL;
  told(DNN(cudnnBackendCreateDescriptor)(4711, &out), "no kind 4711");
  told(set(d, 4711, CUDNN_TYPE_INT64, 1, &number), "have no attribute 4711");
  told(set(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &number), "have no attribute");
  told(set(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_FLOAT, 1, &number), "is of type 3, not 4");
  told(set(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 2, &number), "2 elements for attribute");
  told(finalize(d), "was not set");
  told(get(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, &number), "of what is not finalized");
  destroy(d);
  told(DNN(cudnnBackendDestroyDescriptor)(d), "no descriptor");
  told(set(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &number), "no descriptor");
  d = tensor(1, 4, 16, NULL);
  EXPECT(finalize(d) == 0, "finalized");
  EXPECT(get(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, &number) == 0 && number == 1, "%d", (int)number);
  told(finalize(d), "for the second time");
  told(set(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &number), "of what is finalized");
  destroy(d);
  d = create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  told(set(d, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &number), "can be read alone");
  destroy(d);
}

static void test_extents(void) {
  const int64_t backwards[] = {60, 1, 15, -3};
  unsigned half = CUDNN_DATA_HALF;
  cudnnBackendDescriptor_t d = tensor(1, 4, 3, NULL), part[4];
  told(finalize(d), "a tensor aligned to 3 bytes");
  destroy(d), d = tensor(1, 4, 16, backwards);
  told(finalize(d), "a stride below 1");
  destroy(d), d = tensor(1, 0, 16, NULL);
  told(finalize(d), "an extent or a stride below 1");
  destroy(d), d = create(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  part[0] = convolution();
  told(set(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part[0]),
       "is not finalized");
  EXPECT(finalize(part[0]) == 0, "finalized");
  for (int i = 1; i < 4; i++) {
    part[i] = tensor(i, i == 3 ? 4 : 2, 16, NULL);
    EXPECT(finalize(part[i]) == 0, "finalized");
  }
  const float alpha = 1, beta = 0;
  EXPECT(set(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part[0]) == 0,
         "convolution");
  EXPECT(set(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part[1]) == 0, "image");
  EXPECT(set(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part[2]) == 0, "weight");
  EXPECT(set(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part[3]) == 0, "result");
  EXPECT(set(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1, &alpha) == 0, "alpha");
  EXPECT(set(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1, &beta) == 0, "beta");
  told(finalize(d), "extents do not fit");
  destroy(d);
  for (int i = 0; i < 4; i++) destroy(part[i]);
  d = tensor(1, 4, 16, NULL);
  EXPECT(set(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &half) == 0 && finalize(d) == 0,
         "the last value counts");
  destroy(d);
}

int main(void) {
  if (!built_simulators()) return puts("skipped: the simulated driver was not built"), 77;
  unsetenv("TC_SIM_ABORT");  // mistakes are meant
  test_attributes();
  test_extents();
  EXPECT(((int (*)(void))of("libsim-cuda.so", "sim_live_objects"))() == 0, "descriptors are left");
  return expect_done("simulator-cudnn");
}
