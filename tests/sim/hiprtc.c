// hiprtc's face: kernels of the dialect for AMD's devices, waves of 64 threads for gfx9 and of 32
// for the others. See nvrtc.c.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/hip/api.h"
#include "tests/sim/program.h"

#define TC_HIPRTC_ROW(symbol, result, parameters) SIM_EXPORT result symbol parameters;
#include "device/hip/hiprtc.def"
#undef TC_HIPRTC_ROW

const char *hiprtcGetErrorString(tc_hiprtc_result result) {
  switch (result) {
    case SIM_RTC_SUCCESS: return "HIPRTC_SUCCESS";
    case SIM_RTC_OUT_OF_MEMORY: return "HIPRTC_ERROR_OUT_OF_MEMORY";
    case SIM_RTC_INVALID_INPUT: return "HIPRTC_ERROR_INVALID_INPUT";
    case SIM_RTC_INVALID_PROGRAM: return "HIPRTC_ERROR_INVALID_PROGRAM";
    case SIM_RTC_INVALID_OPTION: return "HIPRTC_ERROR_INVALID_OPTION";
    case SIM_RTC_COMPILATION: return "HIPRTC_ERROR_COMPILATION";
    default: return "HIPRTC_ERROR_INTERNAL_ERROR";
  }
}

tc_hiprtc_result hiprtcCreateProgram(tc_hiprtc_program *out, const char *source, const char *name, int n_headers,
                                     const char **header, const char **header_name) {
  sim_program *p;
  if (!out) return SIM_RTC_INVALID_INPUT;
  unsigned result = sim_program_create(&p, source, name, n_headers, header, header_name);
  if (result == SIM_RTC_SUCCESS) *out = p;
  return result;
}

tc_hiprtc_result hiprtcDestroyProgram(tc_hiprtc_program *program) {
  if (!program || !*program) return SIM_RTC_INVALID_PROGRAM;
  sim_program_destroy(*program);
  *program = NULL;
  return SIM_RTC_SUCCESS;
}

// The real one ends the process when it is asked for an architecture that it does not know, and so
// does this.
static void refuse_unknown(const char *arch) {
  static const char *const known[] = {"gfx900",  "gfx906",  "gfx908",  "gfx90a", "gfx942",
                                      "gfx1030", "gfx1100", "gfx1101", "gfx1102"};
  size_t n = strcspn(arch, ":");
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strlen(known[i]) == n && memcmp(known[i], arch, n) == 0) return;
  }
  fprintf(stderr, "simulated hiprtc: asked for %s\n", arch);
  abort();
}

tc_hiprtc_result hiprtcCompileProgram(tc_hiprtc_program program, int n, const char **option) {
  sim_program *p = program;
  if (!p) return SIM_RTC_INVALID_PROGRAM;
  const char *arch = NULL;
  bool contract = true;
  for (int i = 0; i < n; i++) {
    if (strncmp(option[i], "--offload-arch=", 15) == 0) {
      arch = option[i] + 15;
    } else if (strncmp(option[i], "-ffp-contract=", 14) == 0) {
      contract = strcmp(option[i] + 14, "off") != 0;
    } else if (strncmp(option[i], "-O", 2) != 0 && strncmp(option[i], "-std=", 5) != 0) {
      return sim_program_fail(p, SIM_RTC_INVALID_OPTION, "error: unknown argument: '%s'\n", option[i]);
    }
  }
  if (!arch) return sim_program_fail(p, SIM_RTC_INVALID_OPTION, "error: no --offload-arch\n");
  refuse_unknown(arch);
  if (sim_program_lacks_words(p))
    return sim_program_fail(p, SIM_RTC_COMPILATION, "error: 'tc_words.h' file not found\n");
  return sim_program_compile(p, arch, strncmp(arch, "gfx9", 4) == 0 ? 64 : 32, contract);
}

tc_hiprtc_result hiprtcGetProgramLogSize(tc_hiprtc_program p, size_t *bytes) {
  return sim_program_log_bytes(p, bytes);
}

tc_hiprtc_result hiprtcGetProgramLog(tc_hiprtc_program p, char *log) {
  return sim_program_log(p, log);
}

tc_hiprtc_result hiprtcGetCodeSize(tc_hiprtc_program program, size_t *bytes) {
  const sim_program *p = program;
  if (!p || !p->image) return SIM_RTC_INVALID_PROGRAM;
  *bytes = sim_image_bytes(p->image);
  return SIM_RTC_SUCCESS;
}

tc_hiprtc_result hiprtcGetCode(tc_hiprtc_program program, char *code) {
  const sim_program *p = program;
  if (!p || !p->image) return SIM_RTC_INVALID_PROGRAM;
  memcpy(code, p->image, sim_image_bytes(p->image));
  return SIM_RTC_SUCCESS;
}
