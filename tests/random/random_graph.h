// Random programs over the public API, as short lists of instructions. They are made from a seed,
// checked by running them several ways, and shrunk when two ways disagree.
//
// An instruction's result is named by its place in the list. Types, shapes, which handles are
// still alive, and bounds of size and of round-off are inferred before a program runs (infer.c).
// Refused is what the API would refuse, and what two right backends may answer differently, such
// as comparing rounded numbers.
// Threads: thread-compatible. A program owns nothing.
#pragma once

#include <stdio.h>
#include <tc/tc.h>

enum { RG_MAX_INSTRS = 48, RG_MAX_SIZES = 16 };

typedef enum rg_op {
  RG_NOP,
  RG_LEAF,
  RG_PARAM,
  RG_UNARY,
  RG_BINARY,
  RG_NUM,
  RG_COMPARE,
  RG_WHERE,
  RG_CAST,
  RG_TRANSPOSE,
  RG_SLICE,
  RG_FLIP,
  RG_FLATTEN,
  RG_EXPAND,
  RG_PAD,
  RG_CAT,
  RG_FOLD,
  RG_ARGMAX,
  RG_CUMSUM,
  RG_SOFTMAX,
  RG_MATMUL,
  RG_INDEX,
  RG_ASSIGN_SLICE,
  RG_READ,
  RG_SCOPE_BEGIN,
  RG_SCOPE_END,
  RG_BACKWARD,
  RG_UNFOLD,  // drawn in place of some flips
  RG_SORT,  // drawn in place of some sums along an axis, as is the next
  RG_MAX_POOL,
  RG_N_OPS
} rg_op;

typedef struct rg_instr {
  rg_op op;
  tc_type type;  // LEAF, PARAM, CAST
  int a, b, c;  // operands: places of earlier instructions
  int p, q;  // which function, axis, start, step, data: taken modulo what fits
  tc_dims dims;  // LEAF, PARAM
} rg_instr;

typedef struct rg_program {
  int n;
  bool smooth;  // floats are f64 and continuous: the gradient is also compared with central differences
  rg_instr instr[RG_MAX_INSTRS];
} rg_program;

// A valid program from a seed.
void rg_make(rg_program *p, uint64_t seed);
// NULL if every way agrees; else which value differs and how (static text).
const char *rg_check(const rg_program *p);
// The same, to the bit, of plans bound to sizes (TC_DYNAMIC) and of those lowered for them.
// The extent that most leaves have is replaced by each of n others, of at most RG_MAX_SIZES.
const char *rg_check_sizes(const rg_program *p, const int64_t *size, int n);
// Makes a failing program smaller while rg_check fails; returns the last failure's text.
const char *rg_shrink(rg_program *p);
// Writes a C program over the public API that computes and prints the same values; its argument is
// the device.
void rg_print(const rg_program *p, FILE *out);
// Writes the traces of the program's fused run, which tc-run takes.
void rg_trace(const rg_program *p, FILE *out);
int rg_size(const rg_program *p);
