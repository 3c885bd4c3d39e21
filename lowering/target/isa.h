// The instruction sets that kernels are planned and compiled for, a row of isa.def each.
// Threads: thread-safe, pure. Owner: static memory.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// This machine, as <elf.h> numbers machines.
#if defined(__aarch64__)
#define TC_HOST_MACHINE EM_AARCH64
#else
#define TC_HOST_MACHINE EM_X86_64
#endif

typedef struct tc_isa {
  const char *name;
  int machine, vector_bytes, registers;
  bool fma, dots, pairs, lookups, tiles;
  const char *needs, *without, *cpu, *features;
} tc_isa;

// The row with this name; NULL: there is none.
const tc_isa *tc_isa_named(const char *name);
bool tc_isa_is_of_host(const tc_isa *isa);
// The first of this machine's sets whose needs are all in `features` ("+avx2,-sse4a,.."). The
// search starts at `most` if that is not NULL.
const tc_isa *tc_isa_of_host(const char *features, const tc_isa *most);
// The set that kernels are planned for if all of them are interpreted: vectors as wide as the
// interpreter's.
extern const tc_isa tc_isa_interpreted;
