// NVRTC's face: takes kernels in the dialect with their header "tc_words.h", whose words it replaces by its own (words.h), and has the host's compiler
// compile them. What it gives for a cubin the simulated driver loads.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/image.h"
#include "tests/sim/nvrtc_api.h"

struct _nvrtcProgram {
  char *source, *name, *log, *text;
  sim_image *image;
  bool has_words, has_cubin;
};

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

nvrtcResult nvrtcCreateProgram(nvrtcProgram *out, const char *source, const char *name, int n_headers, const char *const *headers,
                               const char *const *names) {
  if (!out || !source || n_headers < 0 || (n_headers && (!headers || !names))) return NVRTC_ERROR_INVALID_INPUT;
  nvrtcProgram p = calloc(1, sizeof *p);
  if (!p) return NVRTC_ERROR_OUT_OF_MEMORY;
  p->source = strdup(source);
  p->name = strdup(name ? name : "default_program");
  for (int i = 0; i < n_headers; i++) p->has_words |= strcmp(names[i], "tc_words.h") == 0 && headers[i][0];
  *out = p;
  if (p->source && p->name) return NVRTC_SUCCESS;
  nvrtcDestroyProgram(out);
  return NVRTC_ERROR_OUT_OF_MEMORY;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program) {
  if (!program || !*program) return NVRTC_ERROR_INVALID_PROGRAM;
  nvrtcProgram p = *program;
  free(p->source);
  free(p->name);
  free(p->log);
  free(p->text);
  free(p->image);
  free(p);
  *program = NULL;
  return NVRTC_SUCCESS;
}

static nvrtcResult fail(nvrtcProgram p, nvrtcResult result, const char *log) {
  free(p->log);
  p->log = strdup(log);
  return result;
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

nvrtcResult nvrtcCompileProgram(nvrtcProgram p, int n, const char *const *option) {
  if (!p) return NVRTC_ERROR_INVALID_PROGRAM;
  const char *arch = "compute_75", *value;
  bool contract = true;
  char text[512];
  for (int i = 0; i < n; i++) {
    if ((value = after(option[i], "--gpu-architecture=")) || (value = after(option[i], "-arch="))) {
      arch = value;
    } else if ((value = after(option[i], "--fmad=")) || (value = after(option[i], "-fmad="))) {
      contract = strcmp(value, "false") != 0;
    } else if (!harmless(option[i])) {
      snprintf(text, sizeof text, "nvrtc: error: unrecognized option %s found\n", option[i]);
      return fail(p, NVRTC_ERROR_INVALID_OPTION, text);
    }
  }
  if (!known_arch(arch)) {
    snprintf(text, sizeof text, "nvrtc: error: invalid value for --gpu-architecture (-arch): %s\n", arch);
    return fail(p, NVRTC_ERROR_INVALID_OPTION, text);
  }
  if (strcmp(setting(), "no-builtins") == 0) {
    return fail(p, NVRTC_ERROR_BUILTIN_OPERATION_FAILURE, "nvrtc: error: failed to open libnvrtc-builtins.so.13.0.\n");
  }
  if (!p->has_words && strstr(p->source, "\"tc_words.h\"")) {
    snprintf(text, sizeof text, "%s(1): catastrophic error: could not open source file \"tc_words.h\"\n", p->name);
    return fail(p, NVRTC_ERROR_COMPILATION, text);
  }
  free(p->log);
  free(p->text);
  free(p->image);
  p->text = NULL;
  p->has_cubin = strncmp(arch, "sm_", 3) == 0;
  p->image = sim_compile(p->name, p->source, arch, 32, contract, &p->log);
  return p->image ? NVRTC_SUCCESS : NVRTC_ERROR_COMPILATION;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram p, size_t *bytes) {
  if (!p) return NVRTC_ERROR_INVALID_PROGRAM;
  *bytes = strlen(p->log ? p->log : "") + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram p, char *log) {
  if (!p) return NVRTC_ERROR_INVALID_PROGRAM;
  strcpy(log, p->log ? p->log : "");
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram p, size_t *bytes) {
  if (!p || !p->image) return NVRTC_ERROR_INVALID_PROGRAM;
  *bytes = p->has_cubin ? sim_image_bytes(p->image) : 0;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram p, char *cubin) {
  if (!p || !p->image || !p->has_cubin) return NVRTC_ERROR_INVALID_PROGRAM;
  memcpy(cubin, p->image, sim_image_bytes(p->image));
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTXSize(nvrtcProgram p, size_t *bytes) {
  if (!p || !p->image) return NVRTC_ERROR_INVALID_PROGRAM;
  int major, minor;
  version(&major, &minor);
  if (!p->text) p->text = sim_image_to_text(p->image, sim_image_text_version_of(major * 10 + minor));
  if (!p->text) return NVRTC_ERROR_OUT_OF_MEMORY;
  *bytes = strlen(p->text) + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTX(nvrtcProgram p, char *ptx) {
  size_t bytes;
  nvrtcResult result = nvrtcGetPTXSize(p, &bytes);
  if (result == NVRTC_SUCCESS) memcpy(ptx, p->text, bytes);
  return result;
}
