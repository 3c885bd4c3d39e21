// What clang makes of the text of kernels for AMD's architectures. Compiled only: nothing is run.
// Tests only.
// Threads: thread-safe.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// The assembly of a source in the dialect, with these words for tc_words.h, or, where *out_ok is
// false, what the compiler says. To be freed; NULL: no memory, or no place for files.
char *amd_assembly(const char *compiler, const char *arch, const char *words, const char *source, bool *out_ok);

// Whether a kernel's assembly works in registers alone, without a stack, and every access is known
// to be to global memory or the block's. One that calls functions of the device library, which are
// not there to be looked at, is taken for such. why: what it has.
bool amd_is_lean(const char *assembly, char *why, size_t bytes);
