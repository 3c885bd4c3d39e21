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

//       NAME      name       operands   meaning (s0..s3: operands, imm: immediate; V: vector or scalar of `lanes`)
// clang-format off
#define TC_NEST_OPS(X) \
  X(BEGIN, begin)      /* i64: the function's begin */                                                                \
  X(FINISH, finish)    /* i64: the function's end */                                                                  \
  X(CONST, const)      /* imm: bits of a double (F64), of a float (F32, low half), or an integer; splat over lanes */ \
  X(NUM, num)          /* num[imm] converted to dtype; splat over lanes */                                            \
  X(LOOP, loop)        /* for (i = s0; i < s1; i += imm), i: i64 scalar, the value */                                 \
  X(ENDLOOP, endloop)  /* */                                                                                          \
  X(IF, if)            /* if s0 (bool scalar) */                                                                      \
  X(ENDIF, endif)      /* */                                                                                          \
  X(VAR, var)          /* a variable of dtype and lanes, initially s0; as an operand: its present value */            \
  X(SET, set)          /* VAR s0 = s1 */                                                                              \
  X(SPLAT, splat)      /* scalar s0 over lanes */                                                                     \
  X(LANES, lanes)      /* 0, 1, .. lanes-1 */                                                                         \
  X(LOAD, load)        /* lanes consecutive elements of buffer imm from element s0 (i64 scalar); s1: bool mask or none; masked lanes give 0 */ \
  X(GATHER, gather)    /* element s0 (i64 vector) of buffer imm, per lane; s1: mask or none; masked lanes give 0, are not read */ \
  X(STORE, store)      /* s1 (V) to buffer imm from element s0 (i64 scalar); s2: mask or none. flags bit 0: non-temporal if aligned */ \
  X(SCATTER, scatter)  /* s1 (V) to buffer imm at elements s0 (i64 vector), ascending lanes; s2: mask or none */      \
  X(PREFETCH, prefetch)/* line of element s0 (i64 scalar) of buffer imm; flags bit 0: for writing; bit 1: to the second-level cache */                    \
  X(ADD, add) X(SUB, sub) X(MUL, mul)      /* floats IEEE, integers wrap */                                           \
  X(DIV, div) X(REM, rem)                  /* floats IEEE (rem: fmod by CALL only); integers truncate; x / 0 = 0, x % 0 = 0, INT_MIN / -1 wraps */ \
  X(FMA, fma)          /* s0 * s1 + s2, rounded once; F32, F64 */                                                     \
  X(DOT, dot)          /* F32: s2 plus the products of two pairs of bf16, s0 and s1 (I32, as BITCAST has them): that of the high ones, then that of the low ones, each added in one rounding; denormals count as zeros of their sign, in and out. Not with threads */ \
  X(LDEXP, ldexp)      /* F32: s0 * 2^s1, rounded once; |s0| of [1/2, 2] and s1 a whole number of [-189, 128], or s0 NaN; imm 1: s1 is at most 63 */ \
  X(NEG, neg) X(ABS, abs) X(SQRT, sqrt)                                                                               \
  X(FLOOR, floor) X(CEIL, ceil) X(TRUNC, trunc) X(RINT, rint) /* floats */                                            \
  X(MIN, min) X(MAX, max) /* NaN if either is NaN; -0 < +0 not distinguished: (s0 < s1 or s0 is NaN) ? s0 : s1 for MIN; (s0 > s1 or s0 is NaN) for MAX */ \
  X(AND, and) X(OR, or) X(XOR, xor) X(NOT, not)              /* integers and bool */                                  \
  X(SHL, shl) X(SHR, shr) X(USHR, ushr)                      /* shift count in s1, same type; counts outside 0..bits-1 give 0 (SHR: the sign) */ \
  X(MULHU, mulhu)      /* I32: high half of the unsigned product */                                                   \
  X(EQ, eq) X(NE, ne) X(LT, lt) X(LE, le) X(GT, gt) X(GE, ge) /* result BOOL; operands share a type, kept in src type; NE is true on NaN, others false */ \
  X(SELECT, select)    /* s0 (bool V) ? s1 : s2 */                                                                    \
  X(CAST, cast)        /* s0 to dtype, as C does; float to integer saturates and NaN gives 0; to BOOL: != 0; f16/bf16 round to nearest even; imm: 1 of F32 to BF16 where denormals count as zeros of their sign (not with threads), else 0 */ \
  X(BITCAST, bitcast)  /* F32 <-> I32, F64 <-> I64; BF16 of twice the lanes, I8 and U8 of four times -> I32, the first lowest */ \
  X(LOOKUP, lookup)    /* F32: element s0 & 15 (I32) of row imm of nest_tables.def. Not with threads */                  \
  X(CALL, call)        /* row imm of nest_math.def on s0 (, s1), lane by lane; F64 */                                 \
  X(ZIP, zip)          /* lanes of s0 and s1 by turns, from their low halves or, imm 1, their high ones */               \
  X(INTERLEAVE, interleave) /* lanes of s0 and s1 (V of half the lanes) by turns */                                   \
  X(HREDUCE, hreduce)  /* s0 (V) to a scalar by halves: lane i op lane i + n/2, until one; imm: TC_N_ADD, MUL, MIN, MAX, AND, OR */ \
  /* Of nests with threads only: */                                                                                     \
  X(PICK, pick)        /* per thread, element imm of those it holds of s0: as many lanes as threads */                   \
  X(COPY, copy)        /* per thread, 16 bytes from element s0 (i64, a lane a thread) of buffer imm to element s1 of tile flags (0: the first), under way until WAIT; s2: bool mask or none: zeros where false. dtype: of both */ \
  X(COMMIT, commit)    /* ends a group of copies */                                                                     \
  X(WAIT, wait)        /* until at most imm (to 7) groups of copies are under way, for every thread of the block, which is a barrier */ \
  X(LDMATRIX, ldmatrix)/* F16, BF16: matrices of 8 x 8 from tile imm (0: the first); s0 (i64, a lane a thread): element where the thread's row begins; 8 or 4 elements a thread; flags bit 0: transposed */ \
  X(MMA, mma)          /* F32, 4 elements a thread: s0 (F16 or BF16, 8 a thread) times s1 (4 a thread) plus s2, m16n8k16 of every warp, laid out as mma.sync does */ \
  X(EXP2, exp2)        /* F32: 2^s0 within 2 ULP, not the same on all devices; results below 2^-126 may be 0 */                          \
  X(MFMA, mfma)        /* F32, 4 elements a thread: s0 (F16 or BF16, 4 a thread) times s1 (4 a thread) plus s2, 16x16x16 of every 64 threads, laid out as AMD's mfma does: thread t has row t % 16 of s0, column t % 16 of s1 and of the result, of each elements 4 (t / 16) to 4 (t / 16) + 3 */ \
  X(TRADE, trade)      /* per thread, the elements of s0 that the thread whose number differs from its own in bit imm holds: below 32, or 32 where warps have 64 threads */ \
  X(FETCH, fetch)      /* begins to fetch the box of map imm from element s0 of row s1 of matrix s2 (i64 scalars) on to box flags of a stage of the map's tile: the one of chunk s3 (i64 scalar), s3 % stages */ \
  X(ARRIVED, arrived)  /* until all boxes of the stages of chunk s0 (i64 scalar) are there. Chunks are fetched and awaited in order, from 0 on */ \
  X(WGMMA, wgmma)      /* VAR s2 (F32, N / 2 a thread, N 64, 128 or 256) += a b, begun: for every 128 threads 64 x N over 64 steps, laid out as wgmma does. s0, s1 (i64, a lane a thread): element of the tiles of maps imm & 255 and imm >> 8 where the first box begins; flags bit 0: rows of a's boxes are steps of k, else lines; bit 1: b's */ \
  X(SETTLED, settled)  /* until at most imm (to 1) WGMMAs are under way, of VAR s0, which is read after none is */
// clang-format on

#define TC_NEST_LANES 256  // of a value at most, in a nest without threads

typedef enum tc_nest_op {
#define X(NAME, name) TC_N_##NAME,
  TC_NEST_OPS(X)
#undef X
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
// ZIP, and INTERLEAVE and BITCAST to less than a lane a thread. Tiles are the group's, with one group a block, but those of lanes, which are the threads'
// and have no offset; a generator puts barriers where memory is read after other threads wrote it, or written after they read it.
// The blocks of a group of several are a cluster, with groups 1 and whole warps in a block: its tiles are of lanes, and of ops of nests with threads it has none.

// F16 and BF16 appear only as results of LOAD/GATHER/CAST, as s0 of CAST and BITCAST and as s1 of STORE/SCATTER, and INTERLEAVE moves them; arithmetic on them is
// F32. In nests with threads PICK moves them, too.
// I8, U8, I16 do arithmetic in their own width and wrap. Addresses (s0 of LOAD, STORE, ...) are I64.

const char *tc_nest_op_name(tc_nest_op op);
// Computes from its operands alone: may run at any earlier time.
bool tc_nest_is_pure(const tc_ninst *inst);
// Whether later instructions may have it as an operand.
bool tc_nest_has_value(const tc_ninst *inst);
// How many operands an instruction has at most; src behind them is TC_NONE. 0 for a CALL of a function that is not there.
int tc_kir_n_operands(const tc_ninst *inst);
void tc_nest_destroy(tc_nest *nest);

#endif
