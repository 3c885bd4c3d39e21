// hiprtc, and the targets that each of its versions is known to compile for. See hiprtc.h.
#include "device/hip/hiprtc.h"

#include <string.h>

#include "device/gpu/library.h"
#include "device/gpu/rtc.h"
#include "device/hip/api.h"

#define OPTIONS "-ffp-contract=off", "-O3"

static struct {
#define TC_HIPRTC_ROW(symbol, result, parameters) result(*symbol) parameters;
#include "device/hip/hiprtc.def"
#undef TC_HIPRTC_ROW
} rtc;

static const tc_library_row rows[] = {
#define TC_HIPRTC_ROW(symbol, result, parameters) TC_LIBRARY_ROW(rtc, symbol, true),
#include "device/hip/hiprtc.def"
#undef TC_HIPRTC_ROW
};

// Known targets, and the first version that compiles for each. hiprtc of 5.2 ends the process when
// it is asked for a target that it does not know.
static const struct {
  const char *arch;
  int since;  // 502: HIP 5.2
} known[] = {
    {"gfx900", 502},  {"gfx906", 502},  {"gfx908", 502},  {"gfx90a", 502},  {"gfx1010", 502}, {"gfx1011", 502},
    {"gfx1012", 502}, {"gfx1030", 502}, {"gfx1031", 502}, {"gfx1032", 502}, {"gfx1033", 502}, {"gfx1034", 502},
    {"gfx1035", 502}, {"gfx1036", 502}, {"gfx1100", 505}, {"gfx1101", 505}, {"gfx1102", 505}, {"gfx942", 600},
    {"gfx1200", 604}, {"gfx1201", 604}, {"gfx950", 700},
};

static int since;  // HIP's version: 502
static char name_text[32];

bool tc_hiprtc_open(void *driver, int version, char *why, size_t bytes) {
  static const tc_library library = {
      "hiprtc, HIP's compiler, cannot be opened", NULL, NULL, {TC_LIBRARY_TABLE(rows, rtc)}};
  const char *missing;
  char path[32];
  since = version / 10000000 * 100 + version / 100000 % 100;
  snprintf(name_text, sizeof name_text, "hiprtc of HIP %d.%d", since / 100, since % 100);
  if (tc_library_fill(driver, rows, sizeof rows / sizeof *rows, &rtc, &missing)) return true;
  snprintf(path, sizeof path, "libhiprtc.so.%d", since / 100);
  return tc_library_load_path(&library, path, why, bytes);
}

bool tc_hiprtc_choose_arch(tc_gpu_facts *facts, char *why, size_t bytes) {
  size_t n = strcspn(facts->arch, ":");
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strlen(known[i].arch) == n && memcmp(known[i].arch, facts->arch, n) == 0 && known[i].since <= since)
      return true;
  snprintf(why, bytes, "%s is not known to compile for %s, a %.*s", name_text, facts->name, (int)n, facts->arch);
  return false;
}

const char *tc_hiprtc_name(void) {
  return name_text;
}

tc_status tc_hiprtc_compile(const char *target, const char *name, const char *source, tc_gpu_image *out) {
  const char *header[] = {tc_hip_words}, *header_name[] = {"tc_words.h"};
  const tc_rtc hiprtc = {name_text,
                         rtc.hiprtcGetErrorString,
                         rtc.hiprtcGetProgramLogSize,
                         rtc.hiprtcGetProgramLog,
                         rtc.hiprtcGetCodeSize,
                         rtc.hiprtcGetCode,
                         rtc.hiprtcDestroyProgram};
  char file[128], architecture[64];
  tc_hiprtc_program program = NULL;
  *out = (tc_gpu_image){0};
  snprintf(file, sizeof file, "%.100s.hip", name);
  snprintf(architecture, sizeof architecture, "--offload-arch=%s", target);
  const char *option[] = {architecture, OPTIONS};
  tc_hiprtc_result result = rtc.hiprtcCreateProgram(&program, source, file, 1, header, header_name);
  if (result != 0) return TC_FAIL(TC_ERR_COMPILE, "%s: %s: %s", name, name_text, rtc.hiprtcGetErrorString(result));
  result = rtc.hiprtcCompileProgram(program, sizeof option / sizeof *option, option);
  return tc_rtc_finish(&hiprtc, program, result, target, name, out);
}
