// What the files of the LLVM generator share: the state of one translation from a kernel to IR.
//
// Values: BOOL is i1, F16 and BF16 are i16 holding their bits, the rest is the obvious type;
// `lanes` > 1 makes a vector of it. In memory BOOL is a byte. Pointers are cast to their element's
// type before each use, which LLVM 14 needs and later versions fold away.
// Threads: one translation belongs to one thread and has its own LLVMContext.
#pragma once

#include <llvm-c/Core.h>
#include <stdbool.h>
#include "lowering/kir/kir.h"
#include "lowering/target/codegen_plugin.h"

// What the target can do that decides which IR to print; taken from the feature string, so an empty
// string means "assume nothing".
typedef struct tc_llvm_can {
  bool half;            // fpext and fptrunc of half are instructions
  bool mask32, mask8;   // masked loads and stores of 4 and 8 bytes; of 1 and 2
  bool scale;           // x * 2^n is an instruction of 16 floats
  bool lookup;          // LOOKUP is an instruction of 16 floats
  bool dot;             // DOT is an instruction of 4, 8 and 16 floats
  unsigned dot4_lanes;  // most lanes of an instruction for DOT4, which has 4, 8 .. lanes; 0: there is none
  unsigned pair_lanes;  // the same of one that adds products of 16 bits in pairs
  bool gather;          // gathers and scatters of 4 and 8 bytes
  bool tmm, tmm_bf16, tmm_bytes;  // tile registers, their products of bf16, and of bytes
  bool two_registers;   // an address may be two registers and a constant
} tc_llvm_can;

// An open LOOP or IF, and the variables set in it: vars[first_var .. first_var + n_vars) of the
// build.
typedef struct tc_llvm_frame {
  uint32_t at, first_var, n_vars;
  LLVMBasicBlockRef from, body, after;  // the block before it, its first block, the block behind it
  LLVMValueRef index, stop;  // LOOP: the counter and its bound
} tc_llvm_frame;

typedef struct tc_llvm_var {
  uint32_t var;
  LLVMValueRef before, head;  // value on entry; phi at a loop's head
} tc_llvm_var;

typedef struct tc_llvm_addresses tc_llvm_addresses;  // address.c

typedef struct tc_llvm_build {
  const tc_kir *kir;  // borrowed
  tc_llvm_can can;
  LLVMContextRef ctx;
  LLVMModuleRef mod;
  LLVMValueRef fn;
  LLVMMetadataRef scope;  // of debug lines; NULL: there are none
  // `entry` prints what depends on arguments only: base pointers, NUMs, stack slots.
  LLVMBuilderRef b, entry;
  LLVMValueRef *val;  // of each instruction; of a VAR, its present value
  LLVMValueRef *base;  // i8 *, of each buffer and tile in use
  LLVMValueRef math;  // i8 **, the table of functions, once a CALL was met
  // Stack arrays of 64 doubles and of 64 bytes for loops over lanes.
  LLVMValueRef lane_slot[2], mask_slot;
  LLVMValueRef zero_slot, sink_slot;  // what a masked-off lane reads (0) and writes
  // The caller's configuration and contents of tile registers, on the stack; NULL: the kernel has
  // none.
  LLVMValueRef tmm_config, tmm_data;
  LLVMTypeRef i1, i8, i16, i32, i64, f16, f32, f64, ptr;
  tc_llvm_frame *frame;
  tc_llvm_var *vars;
  tc_llvm_addresses *address;
  uint32_t *mark;  // per instruction: the last frame that listed this VAR
  uint32_t n_frames, n_vars, cap_vars;
  bool streams;  // printed a non-temporal store
  bool calls;  // has a CALL
  bool no_memory;  // why it failed
  char *text;  // why it failed, in words
  size_t text_bytes;
} tc_llvm_build;

// Prints the kernel as function `name` into the module. The caller owns ctx and mod and sets text;
// b->text says what failed.
tc_status tc_llvm_build_function(tc_llvm_build *b, const char *name, const char *cpu, const char *features,
                                 int vector_bits, tc_debug_lines lines);

// arith.c: the value of an arithmetic instruction, of a CAST, an INTERLEAVE, an UNPACK, a REDUCE;
// NULL if it failed.
LLVMValueRef tc_llvm_arith(tc_llvm_build *b, const tc_kir_inst *inst);
LLVMValueRef tc_llvm_unpack(tc_llvm_build *b, const tc_kir_inst *inst);
LLVMValueRef tc_llvm_reduce(tc_llvm_build *b, const tc_kir_inst *inst);
LLVMValueRef tc_llvm_interleave(tc_llvm_build *b, const tc_kir_inst *inst);
// cast.c: a CAST of v, which is of type `from`.
LLVMValueRef tc_llvm_cast(tc_llvm_build *b, const tc_kir_inst *inst, LLVMValueRef v, unsigned from);
// memory.c: LOAD, GATHER, STORE, SCATTER, PREFETCH and CALL; stores give any value but NULL.
LLVMValueRef tc_llvm_memory(tc_llvm_build *b, const tc_kir_inst *inst);
LLVMValueRef tc_llvm_call(tc_llvm_build *b, const tc_kir_inst *inst);
