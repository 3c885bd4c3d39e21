// What kernels of tc:cpu are planned for: an instruction set, and whether they are compiled or
// interpreted.
// In: the processor, TC_ISA, TC_COMPILER, and whether there is a plug-in. Out: the same answer in
// all of a process.
// Always: the plug-in is opened only where its file does not tell which build it is.
// Threads: thread-safe. Owner: none.
#ifndef TC_LOWERING_TARGET_CPU_TARGET_H
#define TC_LOWERING_TARGET_CPU_TARGET_H

#include "lowering/target/isa.h"

// The instruction set that kernels are planned for: the widest that this machine has, or at most
// what TC_ISA names; where TC_ISA names another machine's, that one, and kernels are interpreted
// here.
const tc_isa *tc_compiler_isa(void);
int tc_compiler_vector_bytes(void);  // of its vectors: 64, 32 or 16
// Whether this machine's kernels are compiled, as far as is known without opening the compiler;
// else they are interpreted.
bool tc_compiler_compiles(void);
// Whether they are planned for the interpreter: nobody compiles them, not for another machine
// either.
bool tc_compiler_interprets(void);
// Which build of the plug-in was found; "": not known, or none is asked for.
const char *tc_cpu_target_build(void);

#endif
