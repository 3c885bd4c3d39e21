// A kernel's text made into steps that the simulator runs itself (run_code.c), in a hundredth of
// the time that the host's compiler takes. What is understood is the part of the dialect that
// kernels are written in (code_*.c); whatever else a text says is left to the host's compiler,
// whose verdict is the one that counts. Nothing is optimized but where a value
// is made: every access to memory is a step, which looks at it.
//
// Steps work on slots of eight bytes, those of a thread's frame: from 0 on variables and
// intermediate values, from -1 down constants. An integer lies in its slot as an i64 of the same
// value (a u64 as its bits), an f32 in the low half. Structs that are variables have a slot for
// each member; arrays have bytes behind the slots. Threads: many may make code at once; what was
// made does not change.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// clang-format off
#define SIM_STEPS(X) \
  X(MOVE) X(SEXT8) X(SEXT16) X(SEXT32) X(ZEXT8) X(ZEXT16) X(ZEXT32) \
  X(F32_I) X(F32_U64) X(F64_I) X(F64_U64) X(F64_F32) X(F32_F64) \
  X(I32_F32) X(U32_F32) X(I64_F32) X(U64_F32) X(I32_F64) X(U32_F64) X(I64_F64) X(U64_F64) \
  X(ADD_I32) X(ADD_U32) X(ADD_64) X(ADD_F32) X(ADD_F64) X(SUB_I32) X(SUB_U32) X(SUB_64) X(SUB_F32) X(SUB_F64) \
  X(MUL_I32) X(MUL_U32) X(MUL_64) X(MUL_F32) X(MUL_F64) X(DIV_I32) X(DIV_U32) X(DIV_I64) X(DIV_U64) X(DIV_F32) X(DIV_F64) \
  X(REM_I32) X(REM_U32) X(REM_I64) X(REM_U64) X(AND) X(OR) X(XOR) X(NEG_F32) X(NEG_F64) X(MULHI_U32) X(FMA_F32) X(FMA_F64) /* a * b + d */ \
  X(SHL_I32) X(SHL_U32) X(SHL_64) X(SHR_I32) X(SHR_U32) X(SHR_I64) X(SHR_U64) \
  X(EQ) X(NE) X(LT_I) X(LE_I) X(LT_U) X(LE_U) X(EQ_F32) X(NE_F32) X(LT_F32) X(LE_F32) X(EQ_F64) X(NE_F64) X(LT_F64) X(LE_F64) \
  X(INDEX) /* d = a + b * n */ X(ADDRESS) /* of the frame's byte b */ \
  X(LOAD) X(STORE) /* n: a sim_type; address a, value d or b */ X(LOAD_WIDE) X(STORE_WIDE) /* n members of u32 */ X(LOAD_ONLY) /* read-only, n members */ \
  X(LOCAL_LOAD) X(LOCAL_STORE) /* the frame's byte a; value d or b */ \
  X(JUMP) X(JUMP_IF_NOT) X(JUMP_IF) /* a, to step b */ X(RETURN) /* n slots from a on */ X(CALL) X(WORD) /* function or word b of slots a on, results from d */ \
  X(THREAD) X(BLOCK) X(BLOCKS)
// clang-format on

typedef enum sim_step_kind {
#define X(name) SIM_DO_##name,
  SIM_STEPS(X)
#undef X
} sim_step_kind;

typedef enum sim_type {
  SIM_VOID,
  SIM_I8,
  SIM_U8,
  SIM_I16,
  SIM_U16,
  SIM_I32,
  SIM_U32,
  SIM_I64,
  SIM_U64,
  SIM_F32,
  SIM_F64
} sim_type;

typedef struct sim_inst {
  uint16_t kind, n;
  int32_t d, a, b;
} sim_inst;

typedef struct sim_function {
  char *name;
  uint32_t first;  // step
  int threads, param_bytes;  // of a kernel; threads 0: a function that kernels call
  bool by_value;  // its parameter is a struct, else where the words are
  int n_slots, n_args, n_constants, array_bytes;
  uint64_t *constant;  // the last first, as they lie below slot 0
} sim_function;

typedef struct sim_code {
  sim_inst *step;
  int32_t *line;  // of each step, from 1 on
  uint32_t n_steps;
  sim_function *function;
  int n_functions;
} sim_code;

// NULL: the text is not understood, or no memory; the host's compiler has to be asked. arch: 90 for
// sm_90; 0: AMD's.
sim_code *sim_code_new(const char *source, int arch, int warp);
void sim_code_free(sim_code *c);  // NULL is fine

// The words that are functions, in words.def. What they take and give, a letter each, the result
// first: v nothing, i h u l f d (i32, u16, u32, u64, f32, f64), p P F U a L (const void *, void *,
// f32 *, u32 *, const u32 *, u64 *). A digit is a number that is given without being written, # the
// line.
typedef struct sim_word_row {
  const char *name, *word, *types;
} sim_word_row;
extern const sim_word_row sim_word_rows[];
int sim_word_find(const char *name, unsigned length);  // -1: none
