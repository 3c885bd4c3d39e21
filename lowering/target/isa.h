// The instruction sets that kernels are made for: what lowering and the code generator may take for
// granted, a row of isa.def each.
// Threads: thread-safe, pure. Static memory.
#ifndef TC_LOWERING_TARGET_ISA_H
#define TC_LOWERING_TARGET_ISA_H

#include <stdbool.h>
#include <stddef.h>

typedef struct tc_isa {
  const char *name;
  int machine, vector_bytes, registers;
  bool fma, dots, pairs, lookups;
  const char *needs, *without, *cpu, *features;
} tc_isa;

// The row of a name, NULL if there is none.
const tc_isa *tc_isa_named(const char *name);
bool tc_isa_is_of_host(const tc_isa *isa);
// The first of this machine's sets that `features` ("+avx2,-sse4a,..") have all of, from `most` on
// if that is not NULL.
const tc_isa *tc_isa_of_host(const char *features, const tc_isa *most);
// What kernels are planned for where all of them are interpreted: vectors as wide as the
// interpreter's.
extern const tc_isa tc_isa_interpreted;

#endif
