// NVRTC's face: takes kernels in the dialect with their header "tc_words.h", whose words it
// replaces by its own (words.h), and has the host's compiler compile them. What it gives for a
// cubin the simulated driver loads.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/nvrtc_api.h"
#include "tests/sim/program.h"

static const int archs[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};
enum { N_ARCHS = sizeof archs / sizeof *archs };

// TC_SIM_NVRTC: "12.4" another version; "no-builtins": as when its second library is not found.
static const char *setting(void) {
  const char *s = getenv("TC_SIM_NVRTC");
  return s ? s : "";
}

static void version(int *major, int *minor) {
  if (sscanf(setting(), "%d.%d", major, minor) == 2) return;
  *major = 13;
  *minor = 0;
}

const char *nvrtcGetErrorString(nvrtcResult result) {
  switch (result) {
#define X(name, value) \
  case value: return #name;
    SIM_NVRTC_RESULTS(X)
#undef X
    default: return "NVRTC_ERROR unknown";
  }
}

nvrtcResult nvrtcVersion(int *major, int *minor) {
  version(major, minor);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetNumSupportedArchs(int *n) {
  *n = N_ARCHS;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetSupportedArchs(int *out) {
  memcpy(out, archs, sizeof archs);
  return NVRTC_SUCCESS;
}

static sim_program *of(nvrtcProgram program) {
  return (sim_program *)program;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *out, const char *source, const char *name, int n_headers,
                               const char *const *headers, const char *const *names) {
  sim_program *p;
  if (!out) return NVRTC_ERROR_INVALID_INPUT;
  unsigned result = sim_program_create(&p, source, name, n_headers, headers, names);
  if (result == SIM_RTC_SUCCESS) *out = (nvrtcProgram)p;
  return result;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program) {
  if (!program || !*program) return NVRTC_ERROR_INVALID_PROGRAM;
  sim_program_destroy(of(*program));
  *program = NULL;
  return NVRTC_SUCCESS;
}

// "sm_90a" or "compute_90" of an architecture that is known.
static bool known_arch(const char *arch) {
  if (strncmp(arch, "sm_", 3) != 0 && strncmp(arch, "compute_", 8) != 0) return false;
  char *end;
  long n = strtol(strchr(arch, '_') + 1, &end, 10);
  if (*end && strcmp(end, "a") != 0 && strcmp(end, "f") != 0) return false;
  for (int i = 0; i < N_ARCHS; i++) {
    if (archs[i] == n) return *end == 0 || n >= 90;
  }
  return false;
}

static const char *after(const char *option, const char *head) {
  size_t n = strlen(head);
  return strncmp(option, head, n) == 0 ? option + n : NULL;
}

// Options that change nothing here.
static bool harmless(const char *option) {
  static const char *const heads[] = {"--std=",
                                      "-std=",
                                      "--ptxas-options=",
                                      "-Xptxas",
                                      "--ftz=false",
                                      "--prec-div=true",
                                      "--prec-sqrt=true",
                                      "-default-device",
                                      "--default-device",
                                      "-lineinfo",
                                      "--generate-line-info",
                                      "--device-as-default-execution-space",
                                      "--restrict",
                                      "--extra-device-vectorization",
                                      "-w",
                                      "--disable-warnings",
                                      "--no-source-include",
                                      "--minimal",
                                      "--split-compile=",
                                      "--diag-suppress"};
  for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
    if (after(option, heads[i])) return true;
  }
  return false;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int n, const char *const *option) {
  sim_program *p = of(program);
  if (!p) return NVRTC_ERROR_INVALID_PROGRAM;
  const char *arch = "compute_75", *value;
  bool contract = true;
  for (int i = 0; i < n; i++) {
    if ((value = after(option[i], "--gpu-architecture=")) || (value = after(option[i], "-arch="))) {
      arch = value;
    } else if ((value = after(option[i], "--fmad=")) || (value = after(option[i], "-fmad="))) {
      contract = strcmp(value, "false") != 0;
    } else if (!harmless(option[i])) {
      return sim_program_fail(p, NVRTC_ERROR_INVALID_OPTION, "nvrtc: error: unrecognized option %s found\n", option[i]);
    }
  }
  if (!known_arch(arch))
    return sim_program_fail(p, NVRTC_ERROR_INVALID_OPTION,
                            "nvrtc: error: invalid value for --gpu-architecture (-arch): %s\n", arch);
  if (strcmp(setting(), "no-builtins") == 0)
    return sim_program_fail(p, NVRTC_ERROR_BUILTIN_OPERATION_FAILURE,
                            "nvrtc: error: failed to open libnvrtc-builtins.so.13.0.\n");
  if (sim_program_lacks_words(p))
    return sim_program_fail(p, NVRTC_ERROR_COMPILATION,
                            "%s(1): catastrophic error: could not open source file \"tc_words.h\"\n", p->name);
  p->has_cubin = strncmp(arch, "sm_", 3) == 0;
  return sim_program_compile(p, arch, 32, contract);
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram p, size_t *bytes) {
  return sim_program_log_bytes(of(p), bytes);
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram p, char *log) {
  return sim_program_log(of(p), log);
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *bytes) {
  const sim_program *p = of(program);
  if (!p || !p->image) return NVRTC_ERROR_INVALID_PROGRAM;
  *bytes = p->has_cubin ? sim_image_bytes(p->image) : 0;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *cubin) {
  const sim_program *p = of(program);
  if (!p || !p->image || !p->has_cubin) return NVRTC_ERROR_INVALID_PROGRAM;
  memcpy(cubin, p->image, sim_image_bytes(p->image));
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t *bytes) {
  sim_program *p = of(program);
  if (!p || !p->image) return NVRTC_ERROR_INVALID_PROGRAM;
  int major, minor;
  version(&major, &minor);
  if (!p->text) p->text = sim_image_to_text(p->image, sim_image_text_version_of(major * 10 + minor));
  if (!p->text) return NVRTC_ERROR_OUT_OF_MEMORY;
  *bytes = strlen(p->text) + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTX(nvrtcProgram program, char *ptx) {
  size_t bytes;
  nvrtcResult result = nvrtcGetPTXSize(program, &bytes);
  if (result == NVRTC_SUCCESS) memcpy(ptx, of(program)->text, bytes);
  return result;
}
