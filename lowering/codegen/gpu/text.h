// What the files of the printer share: the text so far, the facts of each value, and the names of
// its elements.
//
// Value n is printed as the variable vn where a thread's lanes are all one (scalars, constants,
// splats, one lane a thread). Else it is vn_0, vn_1, ..: the thread's lanes.
// F16 and BF16 of two or more lanes a thread stay as they lie in memory, two in a u32: vn_0 is the
// first two.
// The result or sum of a matrix instruction is an array, vn[0], vn[1], ... A BOOL is an i32, 0 or
// 1.
#pragma once

#include "lowering/kir/kir.h"

// Threads of one block of a cluster that hold consecutive lanes before the next block's. With 16
// bytes a thread that is a whole line of memory.
#define TC_GPU_NEIGHBOURS 8

typedef struct tc_gpu_out {
  char *at;
  size_t n;
  uint32_t cap;
  bool failed;  // no memory
} tc_gpu_out;

typedef struct tc_gpu_name {
  char text[192];
} tc_gpu_name;

// What an I64 value may be; unknown: anything.
typedef struct tc_gpu_range {
  int64_t low, high;
} tc_gpu_range;

typedef struct tc_gpu_text {
  const tc_kir *kir;
  tc_gpu_out helpers, body;
  uint32_t *end_of;  // per LOOP and IF: its end
  // Per I64 value: the greatest power of two that is known to divide every lane of it.
  uint32_t *multiple;
  tc_gpu_range *range;  // per I64 value: of every lane of it
  uint8_t *plain;  // per I64 value: made of counters and constants alone, which do not overflow
  uint8_t *barrier;  // per instruction: a barrier of the group before it
  uint8_t *stored;  // per buffer: this kernel writes it
  uint8_t *sums;  // per VAR: WGMMA adds to it, so it is an array
  uint8_t *space;  // per REDUCE: which of the two spaces it combines warps in
  size_t space_at[2];  // where they begin in the block's memory
  size_t gates_at;  // the stages' gates
  uint32_t shared_bytes;
  bool warp_only;  // a group is a warp or less: no barrier of the block
  unsigned blocks;  // that a group is spread over: a cluster, if more than one
  bool peers;  // the mask of the group's threads in its warp is asked for
  int depth;
} tc_gpu_text;

// ---- text (text.c) ----

__attribute__((format(printf, 2, 3))) void tc_gpu_put(tc_gpu_out *out, const char *fmt, ...);
// A line of the kernel's body: its indentation, and then the text, to which more may be put; end
// with "\n".
void tc_gpu_indent(tc_gpu_text *t);
__attribute__((format(printf, 2, 3))) void tc_gpu_line(tc_gpu_text *t, const char *fmt, ...);
// A barrier of the group, as a line.
void tc_gpu_sync(tc_gpu_text *t);
__attribute__((format(printf, 1, 2))) tc_gpu_name tc_gpu_named(const char *fmt, ...);
// Whether there is no helper function of this name, with its opening bracket, yet: then its text
// must be put.
bool tc_gpu_is_new(const tc_gpu_text *t, const char *name);

const char *tc_gpu_type(unsigned dtype);  // of a register
const char *tc_gpu_memory_type(unsigned dtype);  // of an element in memory

// Whether a buffer's number is that of a tile of lanes, of which each thread has a share of its
// own.
bool tc_gpu_is_of_lanes(const tc_kir *kir, int64_t buffer);
// Whether a value is a constant, or one over lanes, and which.
bool tc_gpu_constant(const tc_gpu_text *t, uint32_t v, int64_t *out);
// Whether an I64 value is so small that it is an i32 here, of which addresses are cheaper. Sums of
// it and a lane's number still are.
bool tc_gpu_is_narrow(const tc_gpu_text *t, uint32_t v);
// Lanes a thread has of a value of so many.
unsigned tc_gpu_width(const tc_kir *kir, unsigned lanes);
// Whether one variable stands for all lanes that a thread has of value v.
bool tc_gpu_is_one(const tc_gpu_text *t, uint32_t v);
// Whether value v is pairs of halves in u32s.
bool tc_gpu_is_packed(const tc_gpu_text *t, uint32_t v);
// The expression of a thread's k-th lane of value v, of type tc_gpu_type: a name, a literal, or in
// brackets.
tc_gpu_name tc_gpu_element(const tc_gpu_text *t, uint32_t v, unsigned k);
// The u32 that holds bytes [4 k, 4 k + 4) of a thread's lanes of value v as they lie in memory.
tc_gpu_name tc_gpu_register(const tc_gpu_text *t, uint32_t v, unsigned k);
// "const T v12_0 = " or ", v12_1 = ": what comes before the k-th of n definitions of value v.
void tc_gpu_define(tc_gpu_text *t, uint32_t v, unsigned k);

// ---- operations ----

// Instructions whose every lane is computed from the operands' alone (arith.c), and CALL.
void tc_gpu_arith(tc_gpu_text *t, uint32_t at);
// a op b, for REDUCE as for the instruction.
tc_gpu_name tc_gpu_combine(tc_gpu_text *t, unsigned op, unsigned dtype, const char *a, const char *b);
// LOAD, GATHER, STORE, SCATTER, COPY (memory.c).
void tc_gpu_memory(tc_gpu_text *t, uint32_t at);
void tc_gpu_tile_copy(tc_gpu_text *t, uint32_t at);
// REDUCE and SHFL_XOR (reduce.c).
void tc_gpu_reduce(tc_gpu_text *t, uint32_t at);
void tc_gpu_shfl_xor(tc_gpu_text *t, uint32_t at);
// LDMATRIX, MMA and MFMA (matrix.c).
void tc_gpu_matrices(tc_gpu_text *t, uint32_t at);
// TMA_LOAD, TMA_WAIT, WGMMA and WGMMA_WAIT (tma.c), and what comes before all.
void tc_gpu_print_tma(tc_gpu_text *t, uint32_t at);
void tc_gpu_put_gates(const tc_gpu_text *t, tc_gpu_out *out);

// Fills multiple, range, plain and stored (value_facts.c).
void tc_gpu_find_facts(tc_gpu_text *t);
// Fills barrier (barrier.c).
tc_status tc_gpu_find_barriers(tc_gpu_text *t);
