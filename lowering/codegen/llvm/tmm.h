// Tile registers (AMX): their instructions, and the configuration around a kernel that has them.
// In: a kernel whose instructions of trait TMM verify. Out: instructions with constant registers.
// Invariants: a kernel loads its configuration once, and releases it where it returns. Where the
// caller has tile registers in use, their configuration and contents are stored before, and loaded
// again after. A kernel without tile registers is not changed.
// Threads: as the build that it is part of.
#pragma once

#include "lowering/codegen/llvm/build.h"

// Called at the start of the kernel's body and at its end. False: it failed.
bool tc_llvm_enter_tmms(tc_llvm_build *b);
bool tc_llvm_leave_tmms(tc_llvm_build *b);
// An instruction of trait TMM. Returns any value but NULL; NULL: it failed.
LLVMValueRef tc_llvm_tmm(tc_llvm_build *b, const tc_kir_inst *inst);
