// HIP's face of the simulated driver: waves of 64 and of 32 threads, a graph that is replayed with
// another parameter, images for their architecture alone, and a planted mistake that is found.
#include "device/hip/api.h"
#include "tests/child.h"
#include "tests/sim/use.h"

static void *use_hip;
#define TC_HIP_ROW(symbol, result, needed, parameters) result symbol parameters;
#include "device/hip/driver.def"
#undef TC_HIP_ROW
#define TC_HIPRTC_ROW(symbol, result, parameters) result symbol parameters;
#include "device/hip/hiprtc.def"
#undef TC_HIPRTC_ROW
#define HIP(name) ((__typeof__(&name))use_symbol(use_hip, #name))

static tc_hip_function kernel(const char *name, const char *source, const char *arch) {
  const char *header = "// replaced", *header_name = "tc_words.h", *option[] = {arch, "-ffp-contract=off", "-O3"};
  char text[4096], log[4096];
  tc_hiprtc_program p;
  tc_hip_module module = NULL;
  tc_hip_function function = NULL;
  size_t bytes = 0;
  snprintf(text, sizeof text, "#include \"tc_words.h\"\n%s", source);
  HIP(hiprtcCreateProgram)(&p, text, name, 1, &header, &header_name);
  if (HIP(hiprtcCompileProgram)(p, 3, option) == 0) {
    HIP(hiprtcGetCodeSize)(p, &bytes);
    char *code = malloc(bytes);
    HIP(hiprtcGetCode)(p, code);
    if (HIP(hipModuleLoadData)(&module, code) == 0) HIP(hipModuleGetFunction)(&function, module, name);
    free(code);
  } else {
    HIP(hiprtcGetProgramLogSize)(p, &bytes);
    if (bytes < sizeof log) HIP(hiprtcGetProgramLog)(p, log), printf("%s\n", log);
  }
  HIP(hiprtcDestroyProgram)(&p);
  return function;
}

static const char sum_text[] =
    "typedef struct { u32 *out; u64 add; } value;\n"
    "TC_KERNEL_OF(sum, 128, value) {\n"
    "  TC_SHARED(32);\n"
    "  u32 *part = (u32 *)tc_shared, v = (u32)TC_THREAD;\n"
    "  for (i32 d = TC_WARP / 2; d > 0; d /= 2) v += TC_DOWN_U32(~0ull, v, d, TC_WARP);\n"
    "  if (TC_THREAD % TC_WARP == 0) part[TC_THREAD / TC_WARP] = v;\n"
    "  if (!MISTAKE) TC_SYNC();\n"
    "  if (TC_THREAD == 0) {\n"
    "    u32 all = 0;\n"
    "    for (i32 i = 0; i < 128 / TC_WARP; i++) all += part[i];\n"
    "    tc_value->out[0] = all + (u32)tc_value->add;\n"
    "    tc_value->out[1] = TC_WARP;\n"
    "  }\n"
    "}\n";

typedef struct sum_value {
  void *out;
  uint64_t add;
} sum_value;

// A matrix instruction that a quarter of the wave does not reach.
static const char parted_text[] =
    "typedef struct { f32 *out; u64 unused; } value;\n"
    "TC_KERNEL_OF(parted, 64, value) {\n"
    "  u32 x[2] = {0, 0};\n"
    "  f32 d[4] = {1, 2, 3, 4};\n"
    "  if (TC_THREAD < 48) tc_mfma_f16(d, x, x);\n"
    "  tc_value->out[TC_THREAD] = d[0];\n"
    "}\n";

typedef struct waves {
  const char *gfx, *other;  // the device, and another architecture
  unsigned wave;
  int mistake;
} waves;

static void test_wave(const waves *w) {
  char option[64], source[2048], properties[TC_HIP_PROPERTIES_BYTES];
  const tc_hip_layout layout = TC_HIP_LAYOUT_6;
  int n = 0;
  unsigned warp;
  EXPECT(HIP(hipGetDeviceCount)(&n) == 0 && n == 1 && HIP(hipInit)(0) == 0, "%d devices", n);
  EXPECT(((tc_hip_result(*)(void *, int))use_symbol(use_hip, "hipGetDevicePropertiesR0600"))(properties, 0) == 0,
         "failed");
  memcpy(&warp, properties + layout.warpSize, sizeof warp);
  EXPECT(warp == w->wave && strstr(properties, "simulated") && strcmp(properties + layout.gcnArchName, w->gfx) == 0,
         "%u", warp);

  tc_hip_stream s;
  tc_hip_pool pool;
  tc_hip_pool_properties p = {.allocType = TC_hipMemAllocationTypePinned, .location = {TC_hipMemLocationTypeDevice, 0}};
  void *out;
  EXPECT(HIP(hipStreamCreateWithFlags)(&s, TC_hipStreamNonBlocking) == 0 && HIP(hipMemPoolCreate)(&pool, &p) == 0,
         "failed");
  EXPECT(HIP(hipMallocFromPoolAsync)(&out, 8, pool, s) == 0, "failed");
  snprintf(source, sizeof source, "#define MISTAKE %d\n%s", w->mistake, sum_text);
  snprintf(option, sizeof option, "--offload-arch=%s", w->other);
  EXPECT(kernel("sum", source, option) == NULL, "code for %s is loaded on %s", w->other, w->gfx);
  snprintf(option, sizeof option, "--offload-arch=%s", w->gfx);
  tc_hip_function f = kernel("sum", source, option);
  EXPECT(f != NULL, "not loaded");
  if (!f) return;

  sum_value v = {out, 1};
  void *parameters[] = {&v};
  uint32_t got[2] = {0, 0};
  tc_hip_node_params node_params = {
      .blockDim = {128, 1, 1}, .func = f, .gridDim = {1, 1, 1}, .kernelParams = parameters, .sharedMemBytes = 32};
  tc_hip_graph graph;
  tc_hip_node node;
  tc_hip_exec exec;
  EXPECT(HIP(hipGraphCreate)(&graph, 0) == 0 && HIP(hipGraphAddKernelNode)(&node, graph, NULL, 0, &node_params) == 0,
         "failed");
  EXPECT(HIP(hipGraphInstantiateWithFlags)(&exec, graph, 0) == 0 && HIP(hipGraphLaunch)(exec, s) == 0, "failed");
  v.add = 5;
  EXPECT(HIP(hipGraphExecKernelNodeSetParams)(exec, node, &node_params) == 0 && HIP(hipGraphLaunch)(exec, s) == 0,
         "failed");
  EXPECT(HIP(hipMemcpyAsync)(got, out, sizeof got, TC_hipMemcpyDeviceToHost, s) == 0, "failed");
  EXPECT(got[0] == 127 * 64 + 5 && got[1] == w->wave, "%u, %u", got[0], got[1]);
  EXPECT(HIP(hipModuleLaunchKernel)(f, 1, 1, 1, 128, 1, 1, 65537, s, parameters, NULL) == 1,
         "more shared memory than there is");
  EXPECT(HIP(hipGraphExecDestroy)(exec) == 0 && HIP(hipGraphDestroy)(graph) == 0 && HIP(hipFreeAsync)(out, s) == 0,
         "failed");
  EXPECT(HIP(hipStreamDestroy)(s) == 0 && HIP(hipMemPoolDestroy)(pool) == 0, "failed");
}

// In a process of its own, since settings are read once.
static int test_waves(const void *arg) {
  const waves *w = arg;
  setenv("TC_SIM_GFX", w->gfx, 1);
  use_hip = use_open("libsim-hip.so");
  if (!use_hip) return 77;
  if (w->mistake && !freopen("/dev/null", "w", stderr)) return 1;
  test_wave(w);
  const char *text = HIP(sim_fault_text)();
  int faults = HIP(sim_faults)();
  EXPECT(w->mistake ? strstr(text, "kernel sum, block 0") && strstr(text, "race between threads") : faults == 0, "%s",
         text);
  HIP(sim_forget)();
  return child_failed();
}

static int test_parted(const void *unused) {
  (void)unused;
  setenv("TC_SIM_GFX", "gfx90a", 1);
  use_hip = use_open("libsim-hip.so");
  if (!freopen("/dev/null", "w", stderr)) return 1;
  tc_hip_stream s;
  tc_hip_pool pool;
  tc_hip_pool_properties p = {.allocType = TC_hipMemAllocationTypePinned, .location = {TC_hipMemLocationTypeDevice, 0}};
  void *out;
  EXPECT(HIP(hipInit)(0) == 0 && HIP(hipStreamCreateWithFlags)(&s, TC_hipStreamNonBlocking) == 0 &&
             HIP(hipMemPoolCreate)(&pool, &p) == 0,
         "failed");
  EXPECT(HIP(hipMallocFromPoolAsync)(&out, 256, pool, s) == 0, "failed");
  tc_hip_function f = kernel("parted", parted_text, "--offload-arch=gfx90a");
  EXPECT(f != NULL, "not loaded");
  if (!f) return 1;
  sum_value v = {out, 0};
  void *parameters[] = {&v};
  EXPECT(HIP(hipModuleLaunchKernel)(f, 1, 1, 1, 64, 1, 1, 0, s, parameters, NULL) == 0, "failed");
  EXPECT(HIP(hipStreamSynchronize)(s) != 0, "it ends");
  const char *text = HIP(sim_fault_text)();
  EXPECT(strstr(text, "divergent warp: mfma with mask 0xffffffffffffffff in line 6"), "%s", text);
  HIP(sim_forget)();
  return child_failed();
}

int main(void) {
  int status = child_status(test_waves, &(waves){"gfx90a", "gfx908", 64, 0});
  if (status == 77) {
    printf("skipped: the simulated driver is not built\n");
    return 77;
  }
  EXPECT(status == 0, "gfx90a: %d", status);
  status = child_status(test_waves, &(waves){"gfx1100", "gfx90a", 32, 0});
  EXPECT(status == 0, "gfx1100: %d", status);
  status = child_status(test_waves, &(waves){"gfx90a", "gfx906", 64, 1});
  EXPECT(status == 0, "a dropped barrier: %d", status);
  status = child_status(test_parted, NULL);
  EXPECT(status == 0, "a parted wave: %d", status);
  return expect_done("simulator-hip");
}
