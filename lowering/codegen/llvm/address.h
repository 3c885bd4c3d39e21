// Addresses of loads, stores and prefetches as sums, so that a loop steps few pointers or counts
// and adds nothing else.
//
// An index is a sum of multiples of a few values. In the innermost loop around an access some
// values are invariant, the loop's counter has a constant factor, and a constant is added.
// Invariant values are added up in front of the loop. Accesses that differ by the constant alone
// share that sum and have the constant in their instruction.
// So LLVM's strength reduction, which took longer than all else, has nothing left to do.
// Invariants: an address equals the kernel's index, its terms regrouped modulo 2^64. What is
// printed early has no effect but its value.
// Threads: as the build that it is part of.
#pragma once

#include "lowering/codegen/llvm/build.h"

// Finds the sums and the needed instructions, into b->address, before anything is printed. False:
// it failed.
bool tc_llvm_find_addresses(tc_llvm_build *b);
void tc_llvm_free_addresses(tc_llvm_build *b);
// Whether anything printed uses the instruction's value, or it has an effect.
bool tc_llvm_is_needed(const tc_llvm_build *b, uint32_t at);
// Whether an instruction in the loop that begins at `loop` may be printed in front of it. That is a
// constant, or a scalar that is the same in all iterations.
bool tc_llvm_is_of_outside(const tc_llvm_build *b, uint32_t at, uint32_t loop);
// Called around a loop: in front of it, to print what its accesses share; at its head, what they
// step; at its end, the steps.
bool tc_llvm_open_addresses(tc_llvm_build *b, const tc_llvm_frame *f);
void tc_llvm_head_addresses(tc_llvm_build *b, const tc_llvm_frame *f);
void tc_llvm_step_addresses(tc_llvm_build *b, const tc_llvm_frame *f, LLVMBasicBlockRef last);
// i8 * to the first element of an access. *lane: the bytes from there to the next lane's.
// *indexed: a GATHER or SCATTER with uneven lanes, or with a hardware instruction; then the pointer
// is to the buffer's start. NULL: it failed.
LLVMValueRef tc_llvm_address(tc_llvm_build *b, const tc_kir_inst *inst, int64_t *lane, bool *indexed);
