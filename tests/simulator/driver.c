// The simulated driver does what CUDA's documents say: work runs late and in any order that is
// allowed, copies from pinned memory read their source when they run, limits are enforced, errors
// come where they should and stay. Graphs are in graphs.c.
#include <pthread.h>

#include "tests/child.h"
#include "tests/sim/use.h"

// ---- devices and contexts ----

static void test_device(void) {
  int n, v, shared, can;
  char name[64];
  size_t total, free_bytes;
  CUdevice d;
  EXPECT_FINE(CU(cuDeviceGetCount)(&n));
  EXPECT(n == 3, "%d", n);
  EXPECT_CU(101u, CU(cuDeviceGet)(&d, 3));
  EXPECT_FINE(CU(cuDeviceGetName)(name, sizeof name, 0));
  EXPECT(strstr(name, "simulated"), "%s", name);
  EXPECT_FINE(CU(cuDeviceGetAttribute)(&v, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
  EXPECT_FINE(CU(cuDeviceGetAttribute)(&shared, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0));
  EXPECT(v == 32 && shared == 227 << 10, "%d, %d", v, shared);
  EXPECT_FINE(CU(cuDeviceCanAccessPeer)(&can, 0, 1));
  EXPECT(can, "%d", can);
  EXPECT_FINE(CU(cuMemGetInfo_v2)(&free_bytes, &total));
  EXPECT(free_bytes <= total && total == 64u << 20, "%zu of %zu", free_bytes, total);
}

static void test_contexts(void) {
  CUcontext first, second, now;
  CUdevice d;
  EXPECT_FINE(CU(cuCtxGetCurrent)(&first));
  EXPECT_FINE(CU(cuDevicePrimaryCtxRetain)(&second, 1));
  EXPECT_FINE(CU(cuCtxPushCurrent_v2)(second));
  EXPECT_FINE(CU(cuCtxGetDevice)(&d));
  EXPECT(d == 1, "%d", d);
  EXPECT_FINE(CU(cuCtxPopCurrent_v2)(&now));
  EXPECT(now == second, "popped another");
  EXPECT_FINE(CU(cuCtxGetCurrent)(&now));
  EXPECT(now == first, "not as it was");
  EXPECT_FINE(CU(cuDevicePrimaryCtxRelease_v2)(1));
  EXPECT_FINE(CU(cuCtxPushCurrent_v2)(second));
  size_t a, b;
  EXPECT_CU(201u, CU(cuMemGetInfo_v2)(&a, &b));  // nobody holds it
  EXPECT_FINE(CU(cuCtxPopCurrent_v2)(NULL));
}

static void *without_context(void *arg) {
  CUdeviceptr at;
  EXPECT_CU(201u, CU(cuMemAlloc_v2)(&at, 16));
  return arg;
}

static void test_needs_context(void) {
  pthread_t t;
  pthread_create(&t, NULL, without_context, NULL);
  pthread_join(t, NULL);
}

static void test_names(void) {
  void *at = NULL;
  const char *name;
  CUdriverProcAddressQueryResult status;
  EXPECT_FINE(CU(cuGetProcAddress_v2)("cuMemAlloc", &at, 12000, 0, &status));
  EXPECT(at == dlsym(use_cuda, "cuMemAlloc_v2") && status == 0, "another function, status %u", status);
  EXPECT_CU(500u, CU(cuGetProcAddress_v2)("cuStreamBeginCaptureToGraph", &at, 12000, 0, &status));
  EXPECT(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT && CU(sim_faults)() == 0, "%u", status);
  EXPECT_CU(500u, CU(cuGetProcAddress_v2)("cuGreenCtxCreate", &at, 12000, 0, &status));
  EXPECT(CU(sim_faults)() == 1 && strstr(CU(sim_fault_text)(), "cuGreenCtxCreate was asked for"), "%s",
         CU(sim_fault_text)());
  CU(sim_forget)();
  EXPECT_FINE(CU(cuGetErrorName)(700, &name));
  EXPECT(strcmp(name, "CUDA_ERROR_ILLEGAL_ADDRESS") == 0, "%s", name);
}

// ---- order ----

// What a copy from pinned memory carries is what is there when it runs; from memory that can be
// paged, what was there when it was asked for.
static void test_late_copies(void) {
  uint32_t *pinned, paged[32];
  CUstream s;
  CUdeviceptr a = use_alloc(128), b = use_alloc(128);
  EXPECT_FINE(CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
  EXPECT_FINE(CU(cuMemHostAlloc)((void **)&pinned, 128, 0));
  for (int i = 0; i < 32; i++) pinned[i] = paged[i] = 1;
  EXPECT_FINE(CU(cuMemcpyHtoDAsync_v2)(a, pinned, 128, s));
  EXPECT_FINE(CU(cuMemcpyHtoDAsync_v2)(b, paged, 128, s));
  for (int i = 0; i < 32; i++) pinned[i] = paged[i] = 2;
  EXPECT_FINE(CU(cuStreamSynchronize)(s));
  EXPECT(use_first_word(a) == 2, "read too early");
  EXPECT(use_first_word(b) == 1, "read too late");
  EXPECT_FINE(CU(cuMemFreeHost)(pinned));
  EXPECT_FINE(CU(cuStreamDestroy_v2)(s));
  CU(cuMemFree_v2)(a);
  CU(cuMemFree_v2)(b);
}

// Two streams: without an event either may be first; with one the order is kept. And events tell
// whether they were reached.
static void test_streams(void) {
  int first = 0;
  CUstream s[2];
  CUevent e, f;
  CUdeviceptr p = use_alloc(128);
  float ms;
  for (int i = 0; i < 2; i++) EXPECT_FINE(CU(cuStreamCreate)(&s[i], CU_STREAM_NON_BLOCKING));
  EXPECT_FINE(CU(cuEventCreate)(&e, 0));
  EXPECT_FINE(CU(cuEventCreate)(&f, 0));
  EXPECT_FINE(CU(cuEventQuery)(e));  // never recorded
  for (int i = 0; i < 40; i++) {
    EXPECT_FINE(CU(cuMemsetD32Async)(p, 1, 32, s[0]));
    EXPECT_FINE(CU(cuMemsetD32Async)(p, 2, 32, s[1]));
    EXPECT_FINE(CU(cuCtxSynchronize)());
    first += use_first_word(p) == 2;
    EXPECT_FINE(CU(cuMemsetD32Async)(p, 3, 32, s[0]));
    EXPECT_FINE(CU(cuEventRecord)(e, s[0]));
    EXPECT_FINE(CU(cuStreamWaitEvent)(s[1], e, 0));
    EXPECT_FINE(CU(cuMemsetD32Async)(p, 4, 32, s[1]));
    EXPECT_FINE(CU(cuEventRecord)(f, s[1]));
    unsigned q;
    int asked = 0;
    while ((q = CU(cuEventQuery)(f)) == 600) asked++;
    EXPECT_FINE(q);
    EXPECT(asked > 0 && use_first_word(p) == 4, "%d", asked);
  }
  EXPECT(first > 0 && first < 40, "the first stream was first %d times of 40", first);
  EXPECT_FINE(CU(cuEventElapsedTime_v2)(&ms, e, f));
  EXPECT(ms > 0, "%g ms", (double)ms);
  for (int i = 0; i < 2; i++) EXPECT_FINE(CU(cuStreamDestroy_v2)(s[i]));
  EXPECT_CU(400u, CU(cuStreamSynchronize)(s[0]));
  EXPECT_FINE(CU(cuEventDestroy_v2)(e));
  EXPECT_FINE(CU(cuEventDestroy_v2)(f));
  EXPECT_CU(400u, CU(cuEventQuery)(e));
  CU(cuMemFree_v2)(p);
}

static int host_calls;
static pthread_t host_thread;
static void host(void *data) {
  host_calls += *(int *)data;
  host_thread = pthread_self();
}

static void test_host_function(void) {
  int one = 1;
  EXPECT_FINE(CU(cuLaunchHostFunc)(NULL, host, &one));
  EXPECT_FINE(CU(cuCtxSynchronize)());
  EXPECT(host_calls == 1 && !pthread_equal(host_thread, pthread_self()), "%d", host_calls);
}

// Memory freed in a stream's order may be had again at once in it; the stream's earlier work still
// reads it.
static void test_pool(void) {
  CUmemoryPool pool;
  CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
  CUstream s;
  CUdeviceptr a, b, out = use_alloc(128);
  cuuint64_t keep = ~0ull, used;
  EXPECT_FINE(CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
  EXPECT_FINE(CU(cuMemPoolCreate)(&pool, &props));
  EXPECT_FINE(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
  EXPECT_FINE(CU(cuMemAllocFromPoolAsync)(&a, 128, pool, s));
  EXPECT_FINE(CU(cuMemsetD32Async)(a, 7, 32, s));
  EXPECT_FINE(CU(cuMemcpyDtoDAsync_v2)(out, a, 128, s));
  EXPECT_FINE(CU(cuMemFreeAsync)(a, s));
  EXPECT_FINE(CU(cuMemAllocFromPoolAsync)(&b, 128, pool, s));
  EXPECT(a == b && a % 256 == 0, "not the same memory");
  EXPECT_FINE(CU(cuMemsetD32Async)(b, 8, 32, s));
  EXPECT_FINE(CU(cuStreamSynchronize)(s));
  EXPECT(use_first_word(out) == 7 && use_first_word(b) == 8, "%u, %u", use_first_word(out), use_first_word(b));
  EXPECT_FINE(CU(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
  EXPECT(used == 128, "%llu", (unsigned long long)used);
  EXPECT_FINE(CU(cuMemFreeAsync)(b, s));
  EXPECT_CU(1u, CU(cuMemFreeAsync)(b, s));
  EXPECT_FINE(CU(cuStreamSynchronize)(s));
  EXPECT_FINE(CU(cuMemPoolDestroy)(pool));
  EXPECT_FINE(CU(cuStreamDestroy_v2)(s));
  CU(cuMemFree_v2)(out);
}

static void test_out_of_memory(void) {
  size_t total, free_bytes;
  CUdeviceptr a, b;
  EXPECT_FINE(CU(cuMemGetInfo_v2)(&free_bytes, &total));
  EXPECT_CU(2u, CU(cuMemAlloc_v2)(&a, total + 1));
  EXPECT_FINE(CU(cuMemAlloc_v2)(&a, total / 4 * 3));
  EXPECT_CU(2u, CU(cuMemAlloc_v2)(&b, total / 2));
  EXPECT_FINE(CU(cuMemFree_v2)(a));
  EXPECT_FINE(CU(cuMemAlloc_v2)(&b, total / 2));
  EXPECT_FINE(CU(cuMemFree_v2)(b));
}

// ---- limits ----

static void test_limits(void) {
  CUfunction f = use_kernel("k", "TC_KERNEL(k, 32) { TC_SHARED(65536); ((u32 *)tc_shared)[TC_THREAD] = 0; }\n");
  CUdeviceptr table = use_alloc(16);
  void *parameter[] = {&table};
#define LAUNCH(gx, gy, bx, shared) CU(cuLaunchKernel)(f, gx, gy, 1, bx, 1, 1, shared, NULL, parameter, NULL)
  EXPECT_CU(1u, LAUNCH(0, 1, 32, 0));
  EXPECT_CU(1u, LAUNCH(1, 65536, 32, 0));
  EXPECT_CU(1u, LAUNCH(1, 1, 2048, 0));
  EXPECT_CU(701u, LAUNCH(1, 1, 64, 0));
  EXPECT_CU(1u, LAUNCH(1, 1, 32, 65536));
  EXPECT_CU(1u, CU(cuFuncSetAttribute)(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232449));
  EXPECT_FINE(CU(cuFuncSetAttribute)(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536));
  EXPECT_FINE(LAUNCH(1, 1, 32, 65536));
  EXPECT_FINE(CU(cuCtxSynchronize)());
  EXPECT_CU(1u, CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 65536, NULL, NULL, NULL));
  EXPECT_CU(1u, CU(cuMemcpyHtoD_v2)(table, parameter, 17));
  EXPECT_CU(1u, CU(cuMemsetD32Async)(table + 2, 0, 1, NULL));
  CU(cuMemFree_v2)(table);
}

// A binary is for its architecture; text also for newer devices, if its version is known to the
// driver.
static void test_images(void) {
  char *log = NULL;
  CUmodule m;
  EXPECT(!use_kernel_for("add", use_add_text, "sm_80", &log), "loaded");
  free(log);
  EXPECT(!use_kernel_for("add", use_add_text, "sm_91", &log) && strstr(log, "sm_91"), "%s", log);
  free(log);
  EXPECT_CU(200u, CU(cuModuleLoadData)(&m, "\177ELF is not an image of the simulator, whatever follows"));
  nvrtcProgram p;
  const char *option[] = {"--gpu-architecture=compute_80", "--fmad=false"}, *header = "//", *name = "tc_words.h";
  char source[512];
  size_t bytes = 0;
  snprintf(source, sizeof source, "#include \"tc_words.h\"\n%s", use_add_text);
  RTC(nvrtcCreateProgram)(&p, source, "add", 1, &header, &name);
  EXPECT(RTC(nvrtcCompileProgram)(p, 2, option) == NVRTC_SUCCESS, "failed");
  RTC(nvrtcGetCUBINSize)(p, &bytes);
  EXPECT(bytes == 0, "%zu", bytes);
  RTC(nvrtcGetPTXSize)(p, &bytes);
  char *text = malloc(bytes);
  RTC(nvrtcGetPTX)(p, text);
  EXPECT_FINE(CU(cuModuleLoadData)(&m, text));
  EXPECT_FINE(CU(cuModuleUnload)(m));
  memcpy(strchr(text, ' ') + 1, "9.9", 3);
  EXPECT_CU(222u, CU(cuModuleLoadData)(&m, text));
  free(text);
  RTC(nvrtcDestroyProgram)(&p);
  RTC(nvrtcCreateProgram)(&p, source, "add", 0, NULL, NULL);
  EXPECT(RTC(nvrtcCompileProgram)(p, 0, NULL) == NVRTC_ERROR_COMPILATION, "compiled without its header");
  RTC(nvrtcDestroyProgram)(&p);
}

// ---- errors to order ----

static void test_injected(void) {
  CUdeviceptr a = 0, b = 0;
  EXPECT(CU(sim_fail)("cuMemAlloc:2=2"), "not understood");
  EXPECT(!CU(sim_fail)("cuMemAlloc") && !CU(sim_fail)("cuMemAlloc:x=1"), "understood");
  EXPECT(CU(sim_fail)("cuMemAlloc:2=2"), "not understood");
  EXPECT_FINE(CU(cuMemAlloc_v2)(&a, 16));
  EXPECT_CU(2u, CU(cuMemAlloc_v2)(&b, 16));
  EXPECT_FINE(CU(cuMemAlloc_v2)(&b, 16));
  EXPECT_FINE(CU(cuMemFree_v2)(a));
  EXPECT_FINE(CU(cuMemFree_v2)(b));
}

// On the other device: it is of no use any more, this one is.
static void test_sticky(void) {
  CUfunction add = use_kernel("add", use_add_text);
  CUcontext second;
  CUdeviceptr a;
  EXPECT_FINE(CU(cuDevicePrimaryCtxRetain)(&second, 1));
  EXPECT_FINE(CU(cuCtxPushCurrent_v2)(second));
  CUdeviceptr there = use_alloc(256);
  EXPECT(CU(sim_fail)("cuMemAlloc:1=719!"), "not understood");
  EXPECT_CU(719u, CU(cuMemAlloc_v2)(&a, 16));
  EXPECT_CU(719u, CU(cuCtxSynchronize)());
  EXPECT_CU(719u, CU(cuMemFree_v2)(there));
  EXPECT_FINE(CU(cuCtxPopCurrent_v2)(NULL));
  uint32_t zeros[32] = {0};
  CUdeviceptr data = use_upload(zeros, sizeof zeros);
  EXPECT_FINE(use_run(add, 1, 32, 0, data, 3));
  EXPECT(use_first_word(data) == 3, "%u", use_first_word(data));
  CU(cuMemFree_v2)(data);
}

// A kernel's fault shows where somebody waits, and stays.
static void test_late_fault(void) {
  CUcontext third;
  CUstream s;
  EXPECT_FINE(CU(cuDevicePrimaryCtxRetain)(&third, 2));
  EXPECT_FINE(CU(cuCtxPushCurrent_v2)(third));
  CUfunction add = use_kernel("add", use_add_text);
  uint32_t zeros[32] = {0};
  uint64_t words[] = {use_upload(zeros, sizeof zeros), 1};
  CUdeviceptr table = use_upload(words, sizeof words);
  void *parameter[] = {&table};
  EXPECT_FINE(CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
  EXPECT(CU(sim_fail)("kernel:2=719"), "not understood");
  for (int i = 0; i < 3; i++) EXPECT_FINE(CU(cuLaunchKernel)(add, 1, 1, 1, 32, 1, 1, 0, s, parameter, NULL));
  EXPECT_CU(719u, CU(cuStreamSynchronize)(s));
  EXPECT_CU(719u, CU(cuLaunchKernel)(add, 1, 1, 1, 32, 1, 1, 0, s, parameter, NULL));
  EXPECT_FINE(CU(cuCtxPopCurrent_v2)(NULL));
  EXPECT_FINE(CU(cuCtxSynchronize)());
}

// Memory of another device is reached when that was asked for, and copies go between the two
// without.
static void test_peers(void) {
  CUfunction add = use_kernel("add", use_add_text);
  CUcontext first, second;
  uint32_t ones[32];
  for (int i = 0; i < 32; i++) ones[i] = 1;
  EXPECT_FINE(CU(cuCtxGetCurrent)(&first));
  EXPECT_FINE(CU(cuDevicePrimaryCtxRetain)(&second, 1));
  EXPECT_FINE(CU(cuCtxPushCurrent_v2)(second));
  CUdeviceptr there = use_upload(ones, sizeof ones);
  EXPECT_FINE(CU(cuCtxPopCurrent_v2)(NULL));
  CUdeviceptr here = use_alloc(sizeof ones);
  EXPECT_FINE(CU(cuMemcpyPeerAsync)(here, first, there, second, sizeof ones, NULL));
  EXPECT(use_first_word(here) == 1, "%u", use_first_word(here));
  EXPECT_FINE(CU(cuCtxEnablePeerAccess)(second, 0));
  EXPECT_CU(704u, CU(cuCtxEnablePeerAccess)(second, 0));
  EXPECT_FINE(use_run(add, 1, 32, 0, there, 4));
  EXPECT_FINE(CU(cuMemcpyPeerAsync)(here, first, there, second, sizeof ones, NULL));
  EXPECT(use_first_word(here) == 5, "%u", use_first_word(here));
  EXPECT_FINE(CU(cuMemFree_v2)(here));
  EXPECT_FINE(CU(cuCtxPushCurrent_v2)(second));
  EXPECT_FINE(CU(cuMemFree_v2)(there));
  EXPECT_FINE(CU(cuCtxPopCurrent_v2)(NULL));
}

// What is never freed is told at the end, if asked for.
static int leak(const void *unused) {
  (void)unused;
  if (!freopen("/dev/null", "w", stderr)) return 1;
  setenv("TC_SIM_LEAKS", "1", 1);
  return use_begin() && use_alloc(16) ? 0 : 1;
}

// A child of the process may not use the device.
static int use_in_child(const void *unused) {
  CUdeviceptr at;
  (void)unused;
  return CU(cuMemAlloc_v2)(&at, 16) == 3 && CU(cuInit)(0) == 3 ? 0 : 1;
}

int main(void) {
  int status = child_status(leak, NULL);
  EXPECT(status == USE_MISTAKES, "%d", status);
  setenv("TC_SIM_DEVICES", "3", 1);
  setenv("TC_SIM_MEMORY_MIB", "64", 1);
  setenv("TC_SIM_EAGER", "0", 1);  // nothing runs before it is waited for
  if (!use_begin()) {
    printf("skipped: the simulated driver is not built\n");
    return 77;
  }
  test_device();
  test_contexts();
  test_needs_context();
  test_names();
  test_late_copies();
  test_streams();
  test_host_function();
  test_pool();
  test_out_of_memory();
  test_limits();
  test_images();
  test_injected();
  status = child_status(use_in_child, NULL);
  EXPECT(status == 0, "%d", status);
  EXPECT(CU(sim_live_bytes)(0) == 0, "%zu bytes are in use", CU(sim_live_bytes)(0));
  test_peers();
  test_sticky();
  test_late_fault();
  EXPECT(CU(sim_faults)() == 0, "%s", CU(sim_fault_text)());
  return expect_done("simulator-driver");
}
