// Texts of kernels through the vendors' compilers, for the architectures that tc makes kernels for:
// NVRTC's, and AMD's by clang. Compiled only: nothing is run. Tests only. Threads: thread-safe, but
// for compiled_open.
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct code_arch {
  const char *name;  // "sm_90a", "gfx942"
  const char *simulated;  // the simulated device whose kernels are for it
  bool amd, mfma;
  int warp, shared;  // bytes of the block's memory at most
  bool cluster, wgmma;
} code_arch;

enum { N_NVIDIA = 5, N_AMD = 6, N_CODE_ARCHS = N_NVIDIA + N_AMD };
extern const code_arch code_archs[N_CODE_ARCHS];  // NVIDIA's first

// Opens the compiler: NVRTC as a program that uses "tc:cuda" would, or clang. False: it is not
// there, with a sentence.
bool compiled_open(bool amd, char *why, size_t bytes);
const char *compiled_by(bool amd);  // "NVRTC 13.0"

// Whether a text that was made for one architecture is one for another, too.
bool compiled_takes(const code_arch *a, const char *made_for, const char *source);

typedef struct compiled {
  char kernel[128];
  int registers, stack, shared, threads;
  const char *excuse;  // why it may have the stack that it has, or NULL
  char why[320];  // what is wrong with it, or ""
} compiled;

// words: of the code, each by what may stand for it: "ld.global.nc.v4|ld.global.v4 st.global.v4",
// at most 32; NULL: none. found: a bit is set for each that is there.
// False: why not.
bool compile_text(const code_arch *a, const char *source, const char *words, unsigned *found, compiled *out);

// The first word that is not among those found, into a text; false: there is none such.
bool compiled_lacks(const char *words, unsigned found, char *out, size_t bytes);
