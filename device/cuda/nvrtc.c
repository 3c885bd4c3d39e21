// Finding NVRTC, and compiling by it. See nvrtc.h.
//
// TC_NVRTC_LIBRARY, if it is set, is the only place. Otherwise NVRTC is looked for by its name as
// the loader finds it, then in toolkits, then in Python's packages. Each step begins with the
// driver's major version and goes down.
// Its library of built-in code is opened first, by its full path. NVRTC asks for that by name
// alone, and finds it nowhere but in the loader's own folders.
#include "device/cuda/nvrtc.h"

#include <stdlib.h>
#include <string.h>

#include "device/cuda/api.h"
#include "device/cuda/library_paths.h"
#include "device/gpu/library.h"
#include "device/gpu/rtc.h"
#include "runtime/files.h"
#include "runtime/options.h"

#define OLDEST_MAJOR 11
#define OLDEST 1102
#define MOST_ARCHS 64
#define WGMMA_SINCE 1203  // the fence of a tensor map needs it
#define OPTIONS "--fmad=false", "--ptxas-options=-v"

static struct {
#define TC_NVRTC_ROW(symbol, result, parameters) result(*symbol) parameters;
#include "device/cuda/nvrtc.def"
#undef TC_NVRTC_ROW
} rtc;

static const tc_library_row rows[] = {
#define TC_NVRTC_ROW(symbol, result, parameters) TC_LIBRARY_ROW(rtc, symbol, true),
#include "device/cuda/nvrtc.def"
#undef TC_NVRTC_ROW
};

static int version_major, version_minor;
static int arch[MOST_ARCHS], n_archs;  // 90
static char name_text[32];

// ---- finding it ----

static bool open_builtins(const char *path, void *unused) {
  char why[128];
  (void)unused;
  return tc_library_open(path, why, sizeof why) != NULL;
}

static void open_builtins_beside(const char *path) {
  const char *slash = strrchr(path, '/');
  char dir[TC_DIR_BYTES];
  if (!slash || slash - path >= (ptrdiff_t)sizeof dir) return;
  memcpy(dir, path, (size_t)(slash - path));
  dir[slash - path] = 0;
  const char *where[] = {dir};
  (void)tc_library_search("libnvrtc-builtins.so.*", where, 1, open_builtins, NULL);
}

static bool load_nvrtc(int driver_major, const char *path, char *why, size_t bytes) {
  static const tc_library library = {"NVRTC, CUDA's compiler, cannot be opened",
                                     NULL,
                                     "CUDA's compiler of version 11.2 or newer is needed",
                                     {TC_LIBRARY_TABLE(rows, rtc)}};
  (void)driver_major;
  open_builtins_beside(path);
  if (!tc_library_load_path(&library, path, why, bytes)) return false;
  if (rtc.nvrtcVersion(&version_major, &version_minor) != 0)
    snprintf(why, bytes, "%s does not say its version", path);
  else if (version_major * 100 + version_minor < OLDEST)
    snprintf(why, bytes, "%s is CUDA's compiler of version %d.%d: 11.2 or newer is needed", path, version_major,
             version_minor);
  else
    return true;
  return false;
}

static bool find_major(int driver_major, int major, char *why, size_t bytes) {
  char name[32];
  snprintf(name, sizeof name, major == 11 ? "libnvrtc.so.11.2" : "libnvrtc.so.%d", major);
  return tc_cuda_library_find(load_nvrtc, driver_major, name, why, bytes);
}

static bool find_nvrtc(int driver_major, char *why, size_t bytes) {
  const char *path = tc_options_get()->nvrtc_library;
  if (!path) {
    for (int major = driver_major; major >= OLDEST_MAJOR; major--)
      if (find_major(driver_major, major, why, bytes)) return true;
    snprintf(
        why, bytes,
        "NVRTC, CUDA's compiler, is nowhere: no libnvrtc.so.%d or older among the loader's libraries, in /usr/local/cuda, CUDA_HOME or "
        "Python's packages",
        driver_major);
    return false;
  }
  if (!load_nvrtc(driver_major, path, why, bytes)) return false;
  if (version_major <= driver_major) return true;
  snprintf(why, bytes, "%s is of CUDA %d, and the driver of CUDA %d knows none of its code", path, version_major,
           driver_major);
  return false;
}

static bool open_nvrtc(int driver_major, char *why, size_t bytes) {
  if (!find_nvrtc(driver_major, why, bytes)) return false;
  snprintf(name_text, sizeof name_text, "NVRTC %d.%d", version_major, version_minor);
  if (rtc.nvrtcGetNumSupportedArchs(&n_archs) != 0 || n_archs < 1 || n_archs > MOST_ARCHS ||
      rtc.nvrtcGetSupportedArchs(arch) != 0) {
    snprintf(why, bytes, "%s does not say what it compiles for", name_text);
    return false;
  }
  return true;
}

bool tc_nvrtc_choose_arch(int driver_major, tc_gpu_facts *facts, char *why, size_t bytes) {
  static tc_library_once once;
  if (!tc_library_open_once(&once, open_nvrtc, driver_major, why, bytes)) return false;
  int device = atoi(facts->arch + 3), best = 0;
  for (int i = 0; i < n_archs; i++)
    if (arch[i] <= device && arch[i] > best) best = arch[i];
  if (best == 0) {
    snprintf(why, bytes, "%s does not compile for %s, of %s, any more", name_text, facts->name, facts->arch);
    return false;
  }
  // Code for the exact device may use all it has. For a device that the compiler does not know it
  // makes PTX, from which the driver makes code.
  snprintf(facts->arch, sizeof facts->arch, best == device ? "sm_%d%s" : "compute_%d%s", best,
           best == device && device == 90 ? "a" : "");
  return true;
}

bool tc_nvrtc_has_wgmma(const char *target) {
  return strcmp(target, "sm_90a") == 0 && version_major * 100 + version_minor >= WGMMA_SINCE;
}

const char *tc_nvrtc_name(void) {
  return name_text;
}

// ---- compiling ----

tc_status tc_nvrtc_compile(const char *target, const char *name, const char *source, tc_gpu_image *out) {
  const char *header[] = {tc_cuda_words}, *header_name[] = {"tc_words.h"};
  bool ptx = strncmp(target, "compute_", 8) == 0;
  const tc_rtc nvrtc = {name_text,
                        rtc.nvrtcGetErrorString,
                        rtc.nvrtcGetProgramLogSize,
                        rtc.nvrtcGetProgramLog,
                        ptx ? rtc.nvrtcGetPTXSize : rtc.nvrtcGetCUBINSize,
                        ptx ? rtc.nvrtcGetPTX : rtc.nvrtcGetCUBIN,
                        rtc.nvrtcDestroyProgram};
  char file[128], architecture[64];
  tc_nvrtc_program program = NULL;
  *out = (tc_gpu_image){0};
  snprintf(file, sizeof file, "%.100s.cu", name);
  snprintf(architecture, sizeof architecture, "--gpu-architecture=%s", target);
  const char *option[] = {architecture, OPTIONS};
  tc_nvrtc_result result = rtc.nvrtcCreateProgram(&program, source, file, 1, header, header_name);
  if (result != 0) return TC_FAIL(TC_ERR_COMPILE, "%s: %s: %s", name, name_text, rtc.nvrtcGetErrorString(result));
  result = rtc.nvrtcCompileProgram(program, sizeof option / sizeof *option, option);
  return tc_rtc_finish(&nvrtc, program, result, target, name, out);
}
