// The target of kernels of tc:cpu: an instruction set, and whether kernels are compiled or
// interpreted.
// In: the processor, TC_ISA, TC_COMPILER, and the plug-in's presence. Out: the same answer for the
// whole process.
// Invariants: the plug-in is opened only if its file has no build id.
// Threads: thread-safe. Owner: none.
#pragma once

#include "lowering/target/isa.h"

// The instruction set that kernels are planned for: this machine's widest, or at most the one that
// TC_ISA names. If TC_ISA names another machine's, that one; kernels are interpreted here.
const tc_isa *tc_compiler_isa(void);
// From now on this thread plans kernels for that set of this machine. tc_compiler_object_for
// (jit/compiler.h) compiles them; this process does not run them. NULL: no longer.
void tc_compiler_plan_for(const tc_isa *isa);
int tc_compiler_vector_bytes(void);  // of a vector of that set: 64, 32 or 16
// Whether this machine's kernels are compiled, as far as is known without opening the compiler;
// false: interpreted.
bool tc_compiler_compiles(void);
// Whether kernels are planned for the interpreter: they are compiled neither for this machine nor
// for another.
bool tc_compiler_interprets(void);
// The build id of the plug-in that was found; "": not known, or no plug-in is requested.
const char *tc_cpu_target_build(void);
