// Where the loads, stores and prefetches of a kernel's loops go: addresses as sums, so that a loop
// steps few pointers or counts and adds nothing else.
//
// Idea: an index is a sum of multiples of a few values. Within the innermost loop around an access
// some of them do not change, the loop's own count is multiplied by a constant, and a constant is
// added. What does not change is added up in front of the loop; accesses that differ by the
// constant alone share that and have the constant in their instruction. So nothing is left for
// LLVM's strength reduction, which tried for longer than all else took.
// Always: an address is the index that the kernel says, its terms regrouped modulo 2^64; what is
// printed ahead has no effect but its value.
// Threads: as the build that it is part of.
#ifndef TC_LOWERING_CODEGEN_LLVM_ADDRESS_H
#define TC_LOWERING_CODEGEN_LLVM_ADDRESS_H

#include "lowering/codegen/llvm/build.h"

// Finds the sums and which instructions are needed at all, into b->address. Before anything is
// printed; false if it failed.
bool tc_llvm_find_addresses(tc_llvm_build *b);
void tc_llvm_free_addresses(tc_llvm_build *b);
// Whether the instruction's value is asked for by anything that is printed, or has an effect.
bool tc_llvm_is_needed(const tc_llvm_build *b, uint32_t at);
// Whether an instruction in the loop that begins at `loop` may be printed in front of it: a
// constant, or a scalar that is the same in all its turns.
bool tc_llvm_is_of_outside(const tc_llvm_build *b, uint32_t at, uint32_t loop);
// Around a loop's head and its end: what its accesses share is printed in front of it; then, at its
// head, what they step; then the steps.
bool tc_llvm_open_addresses(tc_llvm_build *b, const tc_llvm_frame *f);
void tc_llvm_head_addresses(tc_llvm_build *b, const tc_llvm_frame *f);
void tc_llvm_step_addresses(tc_llvm_build *b, const tc_llvm_frame *f, LLVMBasicBlockRef last);
// i8 * to the first element of an access, and the bytes from there to the next lane's; of a GATHER
// or SCATTER whose lanes are not as far apart each, or which has an instruction, *indexed, and to
// the buffer's start. NULL if it failed.
LLVMValueRef tc_llvm_address(tc_llvm_build *b, const tc_kir_inst *inst, int64_t *lane, bool *indexed);

#endif
