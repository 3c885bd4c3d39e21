// Types, constants, operands and leaves of a kernel as LLVM values; what the other files of the
// LLVM generator are written with.
// In: the translation at hand. Out: a value; NULL where it failed, the reason being in b->text.
// Threads: as the translation. Owner: LLVM's context owns every value.
#pragma once

#include "lowering/codegen/llvm/build.h"

// Writes the reason; returns NULL so that it can end an expression.
LLVMValueRef tc_llvm_fail(tc_llvm_build *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool tc_llvm_no_memory(tc_llvm_build *b);  // false

LLVMTypeRef tc_llvm_scalar_type(const tc_llvm_build *b, unsigned dtype);
LLVMTypeRef tc_llvm_memory_type(const tc_llvm_build *b, unsigned dtype);
LLVMTypeRef tc_llvm_widen_type(LLVMTypeRef scalar, unsigned lanes);
LLVMTypeRef tc_llvm_value_type(const tc_llvm_build *b, unsigned dtype, unsigned lanes);
// Repeats a scalar; a constant stays a constant.
LLVMValueRef tc_llvm_splat(tc_llvm_build *b, LLVMBuilderRef at, LLVMValueRef scalar, unsigned lanes);
LLVMValueRef tc_llvm_int(LLVMTypeRef type, int64_t value, unsigned lanes);
LLVMValueRef tc_llvm_float(LLVMTypeRef type, double value, unsigned lanes);
LLVMValueRef tc_llvm_intrinsic(tc_llvm_build *b, const char *name, LLVMTypeRef *overload, unsigned n_overload,
                               LLVMValueRef *arg, unsigned n_arg);
LLVMValueRef tc_llvm_operand(tc_llvm_build *b, const tc_kir_inst *inst, unsigned which);
// Lanes [from, from + n) of v, n at most 16; and one value of n parts of `width` lanes, n a power
// of two.
LLVMValueRef tc_llvm_lanes(tc_llvm_build *b, LLVMValueRef v, unsigned from, unsigned n);
LLVMValueRef tc_llvm_joined(tc_llvm_build *b, LLVMValueRef *part, unsigned n, unsigned width);

// The leaves: SPLAT, CONST, LANES and NUM.
LLVMValueRef tc_llvm_splat_value(tc_llvm_build *b, const tc_kir_inst *inst);
LLVMValueRef tc_llvm_const_value(tc_llvm_build *b, const tc_kir_inst *inst);
LLVMValueRef tc_llvm_lanes_value(tc_llvm_build *b, const tc_kir_inst *inst);
LLVMValueRef tc_llvm_num_value(tc_llvm_build *b, const tc_kir_inst *inst);

// p as a pointer to `to`.
LLVMValueRef tc_llvm_cast_pointer(LLVMBuilderRef at, LLVMValueRef p, LLVMTypeRef to);
// i8 * to the start of buffer or tile k; loaded once, in the entry block.
LLVMValueRef tc_llvm_buffer_base(tc_llvm_build *b, int64_t k);
// Whether a GATHER or SCATTER is printed as one, and not lane by lane.
bool tc_llvm_can_gather(const tc_llvm_build *b, const tc_kir_inst *inst);
