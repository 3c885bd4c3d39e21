// Ranges in the timelines of profilers, on simulated GPUs with a simulated NVTX and ROCTX: one for
// each sync point with its cause and place, inside it the kernels that are launched or the graph
// that replays them; only where a profiler started the process or TC_PROFILE asks; an absent
// library is one sentence. The real libraries have the functions that the tables name, where they
// are installed.
#include <dlfcn.h>
#include <stdlib.h>

#include "device/gpu/ranges.h"
#include "runtime/options.h"
#include "tests/child.h"
#include "tests/sim/built.h"

typedef struct vendor {
  const char *device, *variable, *library, *profiler;
  tc_device number;
} vendor;
static const vendor vendors[] = {
    {"tc:cuda", "TC_NVTX_LIBRARY", "libsim-nvtx.so", "NVTX_INJECTION64_PATH", TC_DEVICE_CUDA},
    {"tc:cuda", "TC_NVTX_LIBRARY", "libsim-nvtx.so", "NSYS_PROFILING_SESSION_ID", TC_DEVICE_CUDA},
    {"tc:hip", "TC_ROCTX_LIBRARY", "libsim-roctx.so", "ROCP_TOOL_LIBRARIES", TC_DEVICE_HIP},
    {"tc:hip", "TC_ROCTX_LIBRARY", "libsim-roctx.so", "HSA_TOOLS_LIB", TC_DEVICE_HIP},
};

// Who looks, and what the library is; NULL: nobody, the simulated one.
typedef struct setting {
  const vendor *of;
  const char *variable, *library;
} setting;

static void begin(const setting *s) {
  setenv(s->of->variable, s->library ? s->library : built(s->of->library), 1);
  if (s->variable) setenv(s->variable, "1", 1);
  tc_options_reload();
  EXPECT_OK(tc_set_default_device(s->of->device));
}

static void step(int k) {
  tc_scope scope = tc_scope_begin();
  const float x[] = {1, 2, 3, 4};
  float sum = 0;
  EXPECT_OK(tc_item_f32(tc_sum(tc_mul(tc_from_host(x, TC_SHAPE(4), TC_F32), 2 + k), TC_ALL, false), &sum));
  EXPECT(sum == (float)(2 + k) * 10, "%g", (double)sum);
  tc_scope_end(scope);
}

static const char *ranges_of(void *library) {
  const char *(*text)(void) = (__typeof__(text))dlsym(library, "sim_ranges");
  return text ? text() : "";
}

static int of_a_run(const void *arg) {
  const setting *s = arg;
  begin(s);
  step(0);
  void *library = dlopen(built(s->of->library), RTLD_NOW | RTLD_NOLOAD);
  EXPECT(library, "%s opens nothing", s->variable);
  if (!library) return 1;
  void (*forget)(void) = (__typeof__(forget))dlsym(library, "sim_ranges_forget");
  const char *text = ranges_of(library);
  const char *kernel = strstr(text, "(tc_");
  EXPECT(strncmp(text, "(item at ", 9) == 0 && strstr(text, "ranges.c:") && kernel &&
             strcmp(text + strlen(text) - 2, "))") == 0,
         "%s", text);
  forget();
  step(1);
  EXPECT(strncmp(text, "(item at ", 9) == 0 && strstr(text, "(a graph of kernels))"), "%s", text);
  forget();
  EXPECT_OK(tc_set_default_device("tc:cpu"));
  step(2);
  EXPECT(!*text, "of tc:cpu: %s", text);
  const char *sentence = tc_gpu_ranges_sentence(s->of->number);
  EXPECT(strstr(sentence, "ranges for profilers by ") && strstr(sentence, s->of->library), "%s", sentence);
  tc_shutdown();
  return child_failed();
}

static int nobody_looks(const void *arg) {
  const setting *s = arg;
  begin(s);
  step(0), step(1);
  EXPECT(!dlopen(built(s->of->library), RTLD_NOW | RTLD_NOLOAD), "the library is open");
  tc_shutdown();
  return child_failed();
}

static int without_a_library(const void *arg) {
  const setting *s = arg;
  begin(s);
  step(0), step(1);
  const char *sentence = tc_gpu_ranges_sentence(s->of->number);
  EXPECT(strncmp(sentence, "no ranges for profilers: ", 25) == 0 && strstr(sentence, s->library) &&
             !strchr(sentence, '\n'),
         "%s", sentence);
  EXPECT(strstr(sentence, "cannot be opened: ") || strstr(sentence, " has no "), "%s", sentence);
  EXPECT(tc_last_error()->status == TC_OK, "an error");
  tc_shutdown();
  return child_failed();
}

// ---- which of AMD's two libraries ----

typedef struct order {
  const char *set[2], *library;
} order;
static const order orders[] = {
    {{"ROCP_TOOL_LIBRARIES"}, "librocprofiler-sdk-roctx.so.1"},
    {{"HSA_TOOLS_LIB"}, "libroctx64.so.4"},
    {{"HSA_TOOLS_LIB", "ROCP_TOOL_LIBRARIES"}, "librocprofiler-sdk-roctx.so.1"},
    {{"TC_PROFILE"}, "librocprofiler-sdk-roctx.so.1"},
};

// In a process that the loader begins anew, so that it finds libraries in the test's directory.
static int found_in_order(const order *o) {
  EXPECT_OK(tc_set_default_device("tc:hip"));
  step(0);
  const char *sentence = tc_gpu_ranges_sentence(TC_DEVICE_HIP);
  EXPECT(strstr(sentence, "ranges for profilers by ") && strstr(sentence, o->library), "%s: %s", o->set[0], sentence);
  tc_shutdown();
  return child_failed();
}

static int begin_in_order(const void *arg) {
  const order *o = arg;
  char number[8];
  snprintf(number, sizeof number, "%d", (int)(o - orders));
  for (int i = 0; i < 2 && o->set[i]; i++) setenv(o->set[i], "1", 1);
  execl("/proc/self/exe", "gpu_ranges", number, NULL);
  return 1;
}

static void which_library(void) {
  static const char *const names[] = {"librocprofiler-sdk-roctx.so.1", "libroctx64.so.4"};
  char directory[] = "/tmp/tc-ranges-XXXXXX", path[2][96];
  EXPECT(mkdtemp(directory), "no directory");
  for (int i = 0; i < 2; i++) {
    snprintf(path[i], sizeof path[i], "%s/%s", directory, names[i]);
    EXPECT(symlink(built("libsim-roctx.so"), path[i]) == 0, "%s", path[i]);
  }
  setenv("LD_LIBRARY_PATH", directory, 1);
  unsetenv("TC_ROCTX_LIBRARY");
  for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
    EXPECT(child_status(begin_in_order, &orders[i]) == 0, "order %zu", i);
  unsetenv("LD_LIBRARY_PATH");
  for (int i = 0; i < 2; i++) unlink(path[i]);
  rmdir(directory);
}

// The first of a library's names that the loader finds has all functions. How many were looked at.
static int has_all(const char *const *names, const char *const *functions) {
  for (; *names; names++) {
    void *library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    for (const char *const *f = functions; library && *f; f++) EXPECT(dlsym(library, *f), "%s has no %s", *names, *f);
    if (library) return 1;
  }
  return 0;
}

static void real_libraries(void) {
#define TC_NVTX_ROW(symbol, result, parameters) #symbol,
#define TC_ROCTX_ROW(symbol, result, parameters) #symbol,
  static const char *const nvtx[] = {
#include "device/cuda/nvtx.def"
      NULL};
  static const char *const roctx[] = {
#include "device/hip/roctx.def"
      NULL};
  int n = has_all((const char *const[]){"libnvtx3interop.so.1", "/usr/local/cuda/lib64/libnvtx3interop.so.1",
                                        "libnvToolsExt.so.1", NULL},
                  nvtx);
  n += has_all((const char *const[]){"librocprofiler-sdk-roctx.so.1", "/opt/rocm/lib/librocprofiler-sdk-roctx.so.1",
                                     "libroctx64.so.4", NULL},
               roctx);
  printf("%d of 2 real libraries are installed\n", n);
}

int main(int argc, char **argv) {
  if (!built_simulators()) return printf("skipped: the simulated driver was not built\n"), 77;
  if (argc > 1) return found_in_order(&orders[atoi(argv[1])]);
  const char *const unset[] = {
      "TC_PROFILE",          "TC_DEVICE",    "NVTX_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID",
      "ROCP_TOOL_LIBRARIES", "HSA_TOOLS_LIB"};
  for (size_t i = 0; i < sizeof unset / sizeof *unset; i++) unsetenv(unset[i]);
  setenv("TC_COMPILER", "interp", 1);
  for (size_t i = 0; i < sizeof vendors / sizeof *vendors; i++) {
    const vendor *v = &vendors[i];
    EXPECT(child_status(of_a_run, &(setting){v, "TC_PROFILE", NULL}) == 0, "%s, TC_PROFILE", v->device);
    EXPECT(child_status(of_a_run, &(setting){v, v->profiler, NULL}) == 0, "%s, %s", v->device, v->profiler);
    EXPECT(child_status(nobody_looks, &(setting){v, NULL, NULL}) == 0, "%s, nobody looks", v->device);
    EXPECT(child_status(without_a_library, &(setting){v, v->profiler, "/nonexistent/ranges.so"}) == 0, "%s, no library",
           v->device);
    EXPECT(child_status(without_a_library, &(setting){v, "TC_PROFILE", "libm.so.6"}) == 0, "%s, another library",
           v->device);
  }
  which_library();
  real_libraries();
  return expect_done("gpu-ranges");
}
