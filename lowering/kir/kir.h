// The kernel IR: a scheduled kernel, and all that code generators read. It is a flat list of typed
// instructions with structured loops.
//
// In: emitters append instructions (builder.h). Out: code generators read them (lowering/codegen).
// Invariants (verify.h checks them):
// - The schedule made every vector, mask, address and order of summation explicit. So two
//   generators give the same bits.
// - Value n is the result of instruction n. Operands precede their use.
// - A value is visible until the LOOP or IF around its instruction ends. What a loop carries goes
//   through VAR and SET.
// - Types and lanes agree; LOOPs and IFs nest properly.
// - Semantics are exact: no contraction of multiply and add, no reassociation, IEEE single or
//   double in round-to-nearest with denormals.
// - F16 and BF16 are results of LOAD, GATHER and CAST alone. CAST, BITCAST, STORE, SCATTER and
//   INTERLEAVE take them; in kernels with threads EXTRACT does, too. Arithmetic on them is in F32.
// - I8, U8 and I16 compute in their own width and wrap. Addresses are I64.
// The generated function is a tc_kernel_fn. Float NUMs hold the bits of a double, others an int64.
// Threads: a kernel belongs to one thread while it is built; then it is constant. Owner: its
// creator.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <tc/tc.h>

#define TC_NONE UINT32_MAX
#define TC_KIR_VERSION 5
#define TC_STEM_BYTES 40  // of the part of a kernel's name that its ops make: "f32_mul_add_sum"

struct tc_worker;
// buf: pointers of the kernel's buffers; num: run-time scalars; [begin, end): share of the
// outermost range. Compiled code ignores ctx.
typedef void tc_kernel_fn(const void *ctx, void *const *buf, const uint64_t *num, int64_t begin, int64_t end,
                          struct tc_worker *worker);

#define TC_KIR_LANES 256  // most lanes of a value in a kernel without threads

// The rows of ops.def, which says what each op means.
typedef enum tc_kir_op {
#define TC_KIR_OP(NAME, ...) TC_IR_##NAME,
#include "lowering/kir/ops.def"
#undef TC_KIR_OP
  TC_N_KIR_OPS
} tc_kir_op;

typedef struct tc_kir_inst {
  // dtype: element type of the result (STORE, SCATTER: of s1); compares give TC_BOOL.
  uint8_t op, dtype;
  // 1: a scalar. Else a power of two up to TC_KIR_LANES. With threads: a multiple of them, up to 32
  // each, or up to 128 each for the sums of WGMMA.
  uint16_t lanes;
  uint32_t flags;
  uint32_t src[4];  // TC_NONE where unused
  int64_t imm;
} tc_kir_inst;  // 32 bytes

// A buffer number below n_buf is buf[n]; n_buf + k is tile k, memory private to the worker.
typedef struct tc_kir_tile {
  uint8_t dtype;
  // With threads. True: accessed by whole vectors only, of equal length, unmasked, at multiples of
  // their lanes. A thread reads only what it wrote.
  uint8_t of_lanes;
  uint8_t pad[6];
  int64_t n;       // elements
  int64_t offset;  // bytes from worker->scratch, multiple of 64
} tc_kir_tile;

// A buffer seen as matrices of two-byte elements. Boxes of 64 rows by 64 elements are fetched from
// it to a tile of F16 or BF16.
// Elements outside of a matrix are zeros. Such a tile holds nothing else: `stages` chunks with the
// same number of boxes. It lies at a multiple of 1024 bytes.
#define TC_KIR_TMA_BOX 64
typedef struct tc_tensor_map {
  uint32_t buffer, tile;
  int64_t first;  // first element in the buffer, a multiple of 8 as the strides are
  int64_t extent[3];  // elements of a row, rows, matrices
  int64_t stride[2];  // elements from one row, one matrix to the next
} tc_tensor_map;
#define TC_KIR_MAPS 2

typedef struct tc_kir {
  tc_kir_inst *inst;
  tc_kir_tile *tile;
  // Element type of each buffer. BOOL and the 8-bit types are one byte; BOOL holds 0 or 1.
  uint8_t *buf_type;
  uint32_t n_inst, cap_inst, n_tile, n_buf, n_num;
  uint16_t threads, groups;  // 0: a CPU's
  // Blocks over which the threads of a group are spread, a power of two up to 8. 0: a group is in
  // one block.
  uint16_t cluster;
  uint16_t n_map, stages;
  tc_tensor_map map[TC_KIR_MAPS];
  // With threads: bit set of buffers that may share memory with one that the kernel writes, where
  // each element is written after it was read.
  uint64_t over;
  int64_t scratch_bytes;
} tc_kir;

// Kernels with threads
//
// - A kernel with threads is run by groups of `threads` threads, a power of two. `groups` groups
//   are in a block; one, if a group is more than a warp.
// - A group does units [begin, end) of the outermost range.
// - Thread t of a group holds the lanes [t v, (t + 1) v) of a vector of v lanes a thread. Every
//   thread has the scalars; the first one stores them.
// - GATHER and SCATTER may have s0 of fewer lanes than the value, one a thread. Then each thread's
//   elements are consecutive, the first at its address, and the mask is a lane a thread, too.
// - No two lanes that SCATTERs write to a buffer name one element.
// - Nothing moves lanes between threads: no UNPACK, and no INTERLEAVE or BITCAST to less than a
//   lane a thread.
// - Tiles belong to the group, with one group a block. Tiles of lanes belong to threads: no offset.
// - There are no barriers. A generator puts them where memory is read after other threads wrote it,
//   or written after they read it.
// - The blocks of a group of several are a cluster, with one group and whole warps in a block. Its
//   tiles are of lanes, and it has no op of trait GPU.

// ---- what ops.def says of an op; its head explains the words ----

typedef enum tc_kir_result {
  TC_KIR_RESULT_NONE,
  TC_KIR_RESULT_STORED,
  TC_KIR_RESULT_VALUE,
  TC_KIR_RESULT_INDEX,
  TC_KIR_RESULT_SCALAR
} tc_kir_result;

typedef enum tc_kir_imm {
  TC_KIR_IMM_NOTHING,
  TC_KIR_IMM_BITS,
  TC_KIR_IMM_ARG,
  TC_KIR_IMM_STEP,
  TC_KIR_IMM_BUFFER,
  TC_KIR_IMM_SMALL,
  TC_KIR_IMM_ROUNDING,
  TC_KIR_IMM_TABLE,
  TC_KIR_IMM_FUNCTION,
  TC_KIR_IMM_HALF,
  TC_KIR_IMM_OP,
  TC_KIR_IMM_NUMBER,
  TC_KIR_IMM_TILE,
  TC_KIR_IMM_MAP,
  TC_KIR_IMM_MAPS
} tc_kir_imm;

enum {
  TC_KIR_PURE = 1 << 0,
  TC_KIR_HOIST = 1 << 1,
  TC_KIR_LEAF = 1 << 2,
  TC_KIR_LOADS = 1 << 3,
  TC_KIR_STORES = 1 << 4,
  TC_KIR_INDEXED = 1 << 5,
  TC_KIR_COMPARE = 1 << 6,
  TC_KIR_OPENS = 1 << 7,
  TC_KIR_CLOSES = 1 << 8,
  TC_KIR_HOST = 1 << 9,
  TC_KIR_GPU = 1 << 10,
  TC_KIR_TMM = 1 << 11
};

typedef struct tc_kir_op_row {
  const char *name;  // as printed
  uint8_t operands, mask;
  uint8_t result, imm;  // tc_kir_result, tc_kir_imm
  uint16_t traits;  // TC_KIR_PURE and so on
} tc_kir_op_row;

extern const tc_kir_op_row tc_kir_ops[TC_N_KIR_OPS + 1];  // the last row is that of an unknown op

static inline const tc_kir_op_row *tc_kir_op_of(const tc_kir_inst *inst) {
  return &tc_kir_ops[inst->op < TC_N_KIR_OPS ? inst->op : TC_N_KIR_OPS];
}
// Whether an instruction's op has any of these traits.
static inline bool tc_kir_is(const tc_kir_inst *inst, unsigned traits) {
  return (tc_kir_op_of(inst)->traits & traits) != 0;
}
// The operand that masks lanes off; TC_NONE: there is none.
static inline uint32_t tc_kir_mask_of(const tc_kir_inst *inst) {
  const unsigned at = tc_kir_op_of(inst)->mask;
  return at ? inst->src[at] : TC_NONE;
}
// Whether the instruction has a value, which later ones may have as an operand.
static inline bool tc_kir_has_value(const tc_kir_inst *inst) {
  return tc_kir_op_of(inst)->result >= TC_KIR_RESULT_VALUE;
}
static inline const char *tc_kir_op_name(tc_kir_op op) {
  return tc_kir_ops[(unsigned)op < TC_N_KIR_OPS ? op : TC_N_KIR_OPS].name;
}
// The most operands of an instruction; src behind them is TC_NONE. 0 for a CALL of an unknown
// function.
int tc_kir_n_operands(const tc_kir_inst *inst);

// ---- tile registers ----

// Which tile registers an instruction of trait TMM names, and their shapes.
// TMM_ZERO, TMM_LOAD, TMM_STORE: flags hold rows, words of a row and the register, a byte each.
// Products: flags hold rows and words of c, and words of a row of a, a byte each. Those are b's
// rows. imm holds the registers c, a and b, a byte each.
#define TC_KIR_TMMS 8
#define TC_KIR_TMM_MOST 16  // most rows, and most words of a row

typedef struct tc_kir_tmm {
  unsigned at, rows, words;
} tc_kir_tmm;

static inline uint32_t tc_kir_tmm_flags(unsigned rows, unsigned words, unsigned last) {
  return rows | words << 8 | last << 16;
}
static inline int64_t tc_kir_tmm_imm(unsigned c, unsigned a, unsigned b) {
  return (int64_t)(c | a << 8 | b << 16);
}
// The registers of an instruction: one, or c, a and b. Returns their number; 0: it names none.
int tc_kir_tmms_of(const tc_kir_inst *inst, tc_kir_tmm out[3]);
// The shapes of all registers of a kernel; rows 0: it is not used. Returns whether one is.
bool tc_kir_tmm_shapes(const tc_kir *kir, tc_kir_tmm out[TC_KIR_TMMS]);

// ---- element types ----

static inline bool tc_kir_is_real(unsigned dtype) {
  return dtype == TC_F32 || dtype == TC_F64;
}
static inline bool tc_kir_is_half(unsigned dtype) {
  return dtype == TC_F16 || dtype == TC_BF16;
}
static inline bool tc_kir_is_unsigned(unsigned dtype) {
  return dtype == TC_U8 || dtype == TC_BOOL;
}
// The bytes of an element in memory.
static inline unsigned tc_kir_type_bytes(unsigned dtype) {
  return (unsigned)tc_type_bytes((tc_type)dtype);
}

void tc_kir_destroy(tc_kir *kir);
