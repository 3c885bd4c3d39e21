// Whether the shim, preloaded, can reach the BLAS calls of a program.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// False only where it surely cannot, with a sentence in out_why. A program that may load modules
// later, or start other programs, counts as reached.
bool tc_shim_reaches(const char *program, const char *shim, char *out_why, size_t why_bytes);
