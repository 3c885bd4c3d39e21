// What the simulated compilers make of a kernel: an image for the simulated driver, also written
// out as text, which stands for PTX.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "tests/sim/core.h"

// The text says for what it is, then the image's bytes in digits; ends with a zero. version 90:
// 9.0. To be freed; NULL: no memory.
char *sim_image_to_text(const sim_image *image, int version);
bool sim_image_is_text(const void *image);
int sim_image_text_version(const char *text);
// The version of PTX that belongs to one of CUDA: 84, 8.4, to 124; 90 to 130.
static inline int sim_image_text_version_of(int cuda) {
  return cuda - 40;
}
// To be freed; NULL: not such a text, or no memory.
sim_image *sim_image_from_text(const char *text);
size_t sim_image_bytes(const sim_image *image);
// 90 for "sm_90a"; 0: AMD's.
int sim_arch_number(const char *arch);

// The source compiled by the host's compiler, as for devices of this architecture ("sm_90a") and
// warps of so many threads. Kept in a directory by what it was made of, so that the processes of a
// test suite compile each kernel once. No function of the core is called; many threads may compile.
// contract: may multiplications and additions become one? out_log is the compiler's, to be freed.
// NULL: it did not compile, or something else failed, which the log tells.
sim_image *sim_compile(const char *name, const char *source, const char *arch, int warp, bool contract, char **out_log);
