// hiprtc's face: kernels of the dialect for AMD's devices, waves of 64 threads for gfx9 and of 32 for the others. See nvrtc.c.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/hip/api.h"
#include "tests/sim/image.h"

#define TC_HIPRTC_ROW(symbol, result, parameters) SIM_EXPORT result symbol parameters;
#include "device/hip/hiprtc.def"
#undef TC_HIPRTC_ROW

enum { SUCCESS = 0, OUT_OF_MEMORY = 1, INVALID_INPUT = 3, INVALID_PROGRAM = 4, INVALID_OPTION = 5, COMPILATION = 6 };

struct _hiprtcProgram {
  char *source, *name, *log;
  sim_image *image;
  bool has_words;
};

const char *hiprtcGetErrorString(tc_hiprtc_result result) {
  switch (result) {
    case SUCCESS: return "HIPRTC_SUCCESS";
    case OUT_OF_MEMORY: return "HIPRTC_ERROR_OUT_OF_MEMORY";
    case INVALID_INPUT: return "HIPRTC_ERROR_INVALID_INPUT";
    case INVALID_PROGRAM: return "HIPRTC_ERROR_INVALID_PROGRAM";
    case INVALID_OPTION: return "HIPRTC_ERROR_INVALID_OPTION";
    case COMPILATION: return "HIPRTC_ERROR_COMPILATION";
    default: return "HIPRTC_ERROR_INTERNAL_ERROR";
  }
}

tc_hiprtc_result hiprtcCreateProgram(tc_hiprtc_program *out, const char *source, const char *name, int n_headers, const char **header,
                                     const char **header_name) {
  if (!out || !source || n_headers < 0) return INVALID_INPUT;
  tc_hiprtc_program p = calloc(1, sizeof *p);
  if (!p) return OUT_OF_MEMORY;
  p->source = strdup(source);
  p->name = strdup(name ? name : "program");
  for (int i = 0; i < n_headers; i++) p->has_words |= strcmp(header_name[i], "tc_words.h") == 0 && header[i][0];
  *out = p;
  if (p->source && p->name) return SUCCESS;
  hiprtcDestroyProgram(out);
  return OUT_OF_MEMORY;
}

tc_hiprtc_result hiprtcDestroyProgram(tc_hiprtc_program *program) {
  if (!program || !*program) return INVALID_PROGRAM;
  free((*program)->source);
  free((*program)->name);
  free((*program)->log);
  free((*program)->image);
  free(*program);
  *program = NULL;
  return SUCCESS;
}

// The real one ends the process when it is asked for an architecture that it does not know, and so does this.
static void refuse_unknown(const char *arch) {
  static const char *const known[] = {"gfx900", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1101", "gfx1102"};
  size_t n = strcspn(arch, ":");
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strlen(known[i]) == n && memcmp(known[i], arch, n) == 0) return;
  }
  fprintf(stderr, "simulated hiprtc: asked for %s\n", arch);
  abort();
}

static tc_hiprtc_result fail(tc_hiprtc_program p, tc_hiprtc_result result, const char *text, const char *word) {
  char log[256];
  snprintf(log, sizeof log, text, word);
  free(p->log);
  p->log = strdup(log);
  return result;
}

tc_hiprtc_result hiprtcCompileProgram(tc_hiprtc_program p, int n, const char **option) {
  if (!p) return INVALID_PROGRAM;
  const char *arch = NULL;
  bool contract = true;
  for (int i = 0; i < n; i++) {
    if (strncmp(option[i], "--offload-arch=", 15) == 0) {
      arch = option[i] + 15;
    } else if (strncmp(option[i], "-ffp-contract=", 14) == 0) {
      contract = strcmp(option[i] + 14, "off") != 0;
    } else if (strncmp(option[i], "-O", 2) != 0 && strncmp(option[i], "-std=", 5) != 0) {
      return fail(p, INVALID_OPTION, "error: unknown argument: '%s'\n", option[i]);
    }
  }
  if (!arch) return fail(p, INVALID_OPTION, "error: no %s\n", "--offload-arch");
  refuse_unknown(arch);
  if (!p->has_words && strstr(p->source, "\"tc_words.h\"")) return fail(p, COMPILATION, "error: '%s' file not found\n", "tc_words.h");
  free(p->log);
  free(p->image);
  p->image = sim_compile(p->name, p->source, arch, strncmp(arch, "gfx9", 4) == 0 ? 64 : 32, contract, &p->log);
  return p->image ? SUCCESS : COMPILATION;
}

tc_hiprtc_result hiprtcGetProgramLogSize(tc_hiprtc_program p, size_t *bytes) {
  if (!p) return INVALID_PROGRAM;
  *bytes = strlen(p->log ? p->log : "") + 1;
  return SUCCESS;
}

tc_hiprtc_result hiprtcGetProgramLog(tc_hiprtc_program p, char *log) {
  if (!p) return INVALID_PROGRAM;
  strcpy(log, p->log ? p->log : "");
  return SUCCESS;
}

tc_hiprtc_result hiprtcGetCodeSize(tc_hiprtc_program p, size_t *bytes) {
  if (!p || !p->image) return INVALID_PROGRAM;
  *bytes = sim_image_bytes(p->image);
  return SUCCESS;
}

tc_hiprtc_result hiprtcGetCode(tc_hiprtc_program p, char *code) {
  if (!p || !p->image) return INVALID_PROGRAM;
  memcpy(code, p->image, sim_image_bytes(p->image));
  return SUCCESS;
}
