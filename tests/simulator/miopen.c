// What the simulated MIOpen tells of a caller's mistakes: each is planted once, is found by its
// words and counted, and the call is refused.
#include <dlfcn.h>
#include <stdlib.h>

#include "tests/expect.h"
#include "tests/sim/built.h"
#include "tests/sim/miopen_api.h"

static void *of(const char *library, const char *name) {
  void *handle = dlopen(built(library), RTLD_NOW | RTLD_LOCAL), *at = handle ? dlsym(handle, name) : NULL;
  EXPECT(at, "no %s", name);
  return at;
}
#define MI(name) ((__typeof__(&name))of("libsim-miopen.so", #name))
#define HIP(type, name) ((type)of("libsim-hip.so", name))

enum { SOLUTION = 101, DIRECT = 102, WINOGRAD = 100, RANDOM = 103 };

static miopenHandle_t handle;
static miopenTensorDescriptor_t x, w, y;
static miopenConvolutionDescriptor_t c;
static void *at = (void *)4096;  // which nobody comes to look at
static void *stream;

// The call was refused, and said so in these words alone.
static void told(unsigned status, const char *words) {
  int n = HIP(int (*)(void), "sim_faults")();
  const char *text = HIP(const char *(*)(void), "sim_fault_text")();
  EXPECT(status != 0 && n == 1 && strstr(text, words), "status %u, %d mistakes: %s instead of %s", status, n, text,
         words);
  HIP(void (*)(void), "sim_forget")();
}

static miopenTensorDescriptor_t tensor(int outer, int inner, int height, int width) {
  miopenTensorDescriptor_t t = NULL;
  const int extents[] = {outer, inner, height, width};
  EXPECT(MI(miopenCreateTensorDescriptor)(&t) == 0 && t, "a tensor");
  EXPECT(MI(miopenSetNdTensorDescriptorWithLayout)(t, miopenFloat, miopenTensorNHWC, extents, 4) == 0, "extents");
  return t;
}

static unsigned say(void) {
  const int none[] = {0, 0}, one[] = {1, 1};
  unsigned status = MI(miopenInitConvolutionNdDescriptor)(c, 2, none, one, one, miopenConvolution);
  if (status == 0) status = MI(miopenSetConvolutionAttribute)(c, MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC, 1);
  return status ? status : MI(miopenSetConvolutionAttribute)(c, MIOPEN_CONVOLUTION_ATTRIB_FP16_ALT_IMPL, 0);
}

static void begin(void) {
  EXPECT(HIP(unsigned (*)(unsigned), "hipInit")(0) == 0, "hipInit");
  EXPECT(HIP(unsigned (*)(void **, unsigned), "hipStreamCreateWithFlags")(&stream, 1) == 0, "a stream");
  EXPECT(MI(miopenCreateWithStream)(&handle, stream) == 0, "a handle");
  x = tensor(2, 3, 4, 5), w = tensor(4, 3, 1, 1), y = tensor(2, 4, 4, 5);
  EXPECT(MI(miopenCreateConvolutionDescriptor)(&c) == 0, "a convolution");
}

static unsigned run(void *workspace, size_t bytes, uint64_t solution) {
  char *p = at;
  return MI(miopenConvolutionForwardImmediate)(handle, w, p, x, p + 4096, c, y, p + 8192, workspace, bytes, solution);
}

static unsigned compile(uint64_t solution) {
  return MI(miopenConvolutionForwardCompileSolution)(handle, w, x, c, y, solution);
}

static unsigned get(miopenTensorDescriptor_t first, miopenTensorDescriptor_t second, miopenTensorDescriptor_t made) {
  miopenConvSolution_t s[16];
  size_t n;
  return MI(miopenConvolutionForwardGetSolution)(handle, first, second, c, made, 16, &n, s);
}

static void test_descriptors(void) {
  const int none[] = {0, 0}, one[] = {1, 1}, extents[] = {2, 3, 0, 5};
  miopenTensorDescriptor_t t = NULL;
  told(get(w, x, y), "a descriptor is none, or nothing was said of it");
  EXPECT(MI(miopenCreateTensorDescriptor)(&t) == 0, "a tensor");
  EXPECT(say() == 0, "said");
  told(get(w, x, t), "a descriptor is none, or nothing was said of it");
  told(MI(miopenSetNdTensorDescriptorWithLayout)(t, miopenFloat, miopenTensorNHWC, extents, 4), "an extent of 0");
  told(MI(miopenSetNdTensorDescriptorWithLayout)(t, miopenFloat, miopenTensorNCHW, extents, 4),
       "4 extents in layout 0");
  told(MI(miopenSetNdTensorDescriptorWithLayout)(t, 6, miopenTensorNHWC, extents, 4), "type 6");
  EXPECT(MI(miopenDestroyTensorDescriptor)(t) == 0, "gone");
  told(MI(miopenDestroyTensorDescriptor)(t), "no tensor");
  told(MI(miopenInitConvolutionNdDescriptor)(c, 1, none, one, one, miopenConvolution), "1 axes in mode 0");
  told(MI(miopenInitConvolutionNdDescriptor)(c, 2, none, none, one, miopenConvolution), "step 0");
  told(MI(miopenSetConvolutionGroupCount)(c, 0), "0 groups");
  told(MI(miopenSetConvolutionAttribute)(c, MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC, 2), "attribute 1 is not 2");
  // of TF32, which this version does not know
  told(MI(miopenSetConvolutionAttribute)(c, 3, 1), "attribute 3 is not 1");
  told(MI(miopenCreateWithStream)(&handle, NULL), "no stream of the caller's");
}

static void test_problems(void) {
  EXPECT(say() == 0 && get(w, x, y) == 0, "a convolution");
  told(get(w, y, y), "extents do not fit");
  told(get(x, w, y), "extents do not fit");
  EXPECT(MI(miopenSetConvolutionGroupCount)(c, 3) == 0, "groups");
  told(get(w, x, y), "extents do not fit");
  EXPECT(say() == 0, "said");
  told(compile(4711), "solution 4711 is none of this convolution");
  told(compile(RANDOM), "solution 103 is none of this convolution");
}

static void test_running(void) {
  EXPECT(say() == 0, "said");
  told(run(NULL, 0, SOLUTION), "solution 101 was not compiled");
  EXPECT(compile(SOLUTION) == 0 && compile(DIRECT) == 0, "compiled");
  told(run(at, 16, SOLUTION), "a workspace of 16 bytes for 0");
  told(run(at, 0, SOLUTION), "a workspace of 0 bytes for 0");
  told(run(NULL, 0, DIRECT), "a workspace of 0 bytes for");
  EXPECT(MI(miopenSetConvolutionAttribute)(c, MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC, 0) == 0, "an attribute");
  told(run(NULL, 0, SOLUTION), "it may give other bits each time");
  setenv("TC_SIM_MIOPEN", "3.6.0", 1);
  EXPECT(say() == 0, "said");
  told(run(NULL, 0, SOLUTION), "it may use TF32");
  unsetenv("TC_SIM_MIOPEN");
  told(MI(miopenConvolutionForwardImmediate)(handle, w, NULL, x, at, c, y, at, NULL, 0, SOLUTION),
       "a tensor has no address");
}

static void end(void) {
  EXPECT(MI(miopenDestroyConvolutionDescriptor)(c) == 0, "the convolution");
  EXPECT((MI(miopenDestroyTensorDescriptor)(x) | MI(miopenDestroyTensorDescriptor)(w) |
          MI(miopenDestroyTensorDescriptor)(y)) == 0,
         "tensors");
  EXPECT(MI(miopenDestroy)(handle) == 0, "the handle");
  told(MI(miopenDestroy)(handle), "no handle");
  EXPECT(HIP(unsigned (*)(void *), "hipStreamDestroy")(stream) == 0, "the stream");
  EXPECT(HIP(int (*)(void), "sim_live_objects")() == 0, "objects are left");
}

int main(void) {
  if (!built_simulators()) return puts("skipped: the simulated driver was not built"), 77;
  unsetenv("TC_SIM_ABORT");  // mistakes are meant
  begin();
  test_descriptors();
  test_problems();
  test_running();
  end();
  return expect_done("simulator-miopen");
}
