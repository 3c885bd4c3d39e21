// A nest: a kernel after its schedule, and all that code generators read. A flat list of typed instructions with structured loops.
//
// Idea: the schedule's expansion makes every vector, mask, address and order of summation explicit, so a generator only prints; two generators
// that print the same nest give the same bits. Value n is the result of instruction n. A value is visible after its instruction until the loop
// or if that contains it ends; what a loop carries goes through VAR and SET.
// Always (tc_nest_verify): operands precede their use and are visible; types and lanes agree; loops and ifs nest.
// Signature of the generated function: tc_kernel_fn. Float NUMs hold the bits of a double, the others an int64.
// Semantics are exact: no contraction of multiply and add, no reassociation, IEEE single or double in round-to-nearest with denormals.
#ifndef TC_LOWERING_KIR_KIR_H
#define TC_LOWERING_KIR_KIR_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <tc/tc.h>

#define TC_NONE UINT32_MAX
#define TC_NEST_VERSION 5

struct tc_worker;
// buf: pointers of the kernel's buffers; num: run-time scalars; [begin, end): share of the outermost range. Compiled code ignores ctx.
typedef void tc_kernel_fn(const void *ctx, void *const *buf, const uint64_t *num, int64_t begin, int64_t end, struct tc_worker *worker);

#define TC_NEST_LANES 256  // of a value at most, in a nest without threads

// The rows of ops.def, which says what each op means.
typedef enum tc_nest_op {
#define TC_KIR_OP(NAME, ...) TC_N_##NAME,
#include "lowering/kir/ops.def"
#undef TC_KIR_OP
  TC_N_OPS
} tc_nest_op;

typedef struct tc_ninst {
  uint8_t op, dtype;   // dtype: element type of the result (STORE, SCATTER: of s1); compares give TC_BOOL
  uint16_t lanes;      // 1: scalar; else a power of two up to TC_NEST_LANES; with threads of them, up to 32 each, of what WGMMA adds to 128
  uint32_t flags;
  uint32_t src[4];     // TC_NONE where unused
  int64_t imm;
} tc_ninst;            // 32 bytes

// A buffer number below n_buf is buf[n]; n_buf + k is tile k, memory private to the worker.
typedef struct tc_ntile {
  uint8_t dtype;
  uint8_t of_lanes;    // with threads: whole vectors only, all as long, unmasked, at multiples of their lanes: a thread reads what it wrote alone
  uint8_t pad[6];
  int64_t n;           // elements
  int64_t offset;      // bytes from worker->scratch, multiple of 64
} tc_ntile;

// Memory as matrices of two-byte elements, of which boxes of 64 rows by 64 elements are fetched to a tile of F16 or BF16: elements outside of a matrix are
// zeros. A tile that boxes are fetched to holds nothing else, `stages` chunks of as many boxes each, at a multiple of 1024 bytes.
#define TC_NEST_BOX 64
typedef struct tc_nmap {
  uint32_t buffer, tile;
  int64_t first;  // element of the buffer, as strides a multiple of 8
  int64_t extent[3];  // elements of a row, rows, matrices
  int64_t stride[2];  // elements from one row, one matrix to the next
} tc_nmap;
#define TC_NEST_MAPS 2

typedef struct tc_nest {
  tc_ninst *inst;
  tc_ntile *tile;
  uint8_t *buf_type;  // element type of each buffer; BOOL and the 8-bit types are one byte, BOOL holds 0 or 1
  uint32_t n_inst, cap_inst, n_tile, n_buf, n_num;
  uint16_t threads, groups;  // 0: a CPU's
  uint16_t cluster;  // blocks that the threads of a group are spread over, at most 8, a power of two; 0: a group is in one block
  uint16_t n_map, stages;
  tc_nmap map[TC_NEST_MAPS];
  uint64_t over;  // with threads: buffers, as bits, that may be memory which the kernel writes, each element after it was read
  int64_t scratch_bytes;
} tc_nest;

// A nest with threads is run by groups of as many (a power of two), `groups` of them in a block (one, if they are more than a warp). Thread t of a group holds
// the lanes [t v, (t + 1) v) of a vector of v lanes a thread; scalars every thread has, and stores the first. A group does units [begin, end) of the outermost
// range. GATHER and SCATTER may have s0 of fewer lanes than the value, one a thread: then each thread's elements lie side by side, the first at its address,
// and the mask is a lane a thread, too. No two lanes that SCATTERs write to a buffer name one element. What would move lanes between threads is not there:
// UNPACK, and INTERLEAVE and BITCAST to less than a lane a thread. Tiles are the group's, with one group a block, but those of lanes, which are the threads'
// and have no offset; a generator puts barriers where memory is read after other threads wrote it, or written after they read it.
// The blocks of a group of several are a cluster, with groups 1 and whole warps in a block: its tiles are of lanes, and of ops of nests with threads it has none.

// F16 and BF16 appear only as results of LOAD/GATHER/CAST, as s0 of CAST and BITCAST and as s1 of STORE/SCATTER, and INTERLEAVE moves them; arithmetic on them is
// F32. In nests with threads EXTRACT moves them, too.
// I8, U8, I16 do arithmetic in their own width and wrap. Addresses (s0 of LOAD, STORE, ...) are I64.

// ---- what ops.def says of an op; its head explains the words ----

typedef enum tc_kir_result { TC_KIR_RESULT_NONE, TC_KIR_RESULT_STORED, TC_KIR_RESULT_VALUE, TC_KIR_RESULT_INDEX, TC_KIR_RESULT_SCALAR } tc_kir_result;

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
  TC_KIR_GPU = 1 << 10
};

typedef struct tc_kir_op {
  const char *name;  // as printed
  uint8_t operands, mask;
  uint8_t result, imm;  // tc_kir_result, tc_kir_imm
  uint16_t traits;  // TC_KIR_PURE and so on
} tc_kir_op;

extern const tc_kir_op tc_kir_ops[TC_N_OPS + 1];  // the last: of an op that is not there

static inline const tc_kir_op *tc_kir_op_of(const tc_ninst *inst) {
  return &tc_kir_ops[inst->op < TC_N_OPS ? inst->op : TC_N_OPS];
}
// Whether an instruction's op has any of these traits.
static inline bool tc_kir_is(const tc_ninst *inst, unsigned traits) {
  return (tc_kir_op_of(inst)->traits & traits) != 0;
}
// The operand that masks lanes off; TC_NONE: there is none.
static inline uint32_t tc_kir_mask_of(const tc_ninst *inst) {
  const unsigned at = tc_kir_op_of(inst)->mask;
  return at ? inst->src[at] : TC_NONE;
}
// Whether later instructions may have it as an operand.
static inline bool tc_nest_has_value(const tc_ninst *inst) {
  return tc_kir_op_of(inst)->result >= TC_KIR_RESULT_VALUE;
}
static inline const char *tc_nest_op_name(tc_nest_op op) {
  return tc_kir_ops[(unsigned)op < TC_N_OPS ? op : TC_N_OPS].name;
}
// How many operands an instruction has at most; src behind them is TC_NONE. 0 for a CALL of a function that is not there.
int tc_kir_n_operands(const tc_ninst *inst);

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
// Of an element in memory.
static inline unsigned tc_kir_type_bytes(unsigned dtype) {
  return (unsigned)tc_type_bytes((tc_type)dtype);
}

void tc_nest_destroy(tc_nest *nest);

#endif
