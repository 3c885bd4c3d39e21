// Values that blocks of memory will hold: what was recorded, as a graph of nodes.
#pragma once

#include "shim/memory/memory.h"

enum { TC_SHIM_VALUE_OPERANDS = 3 };

// What is small enough to be an operand by its copy.
enum { TC_SHIM_COPY_BYTES = 256 << 10 };

typedef enum tc_shim_value_op {
  TC_SHIM_VALUE_LEAF,  // contents of memory
  TC_SHIM_VALUE_GEMM,  // alpha left right + beta old; m by k, k by n, in rows
  TC_SHIM_VALUE_AXPY,  // old + alpha x
  TC_SHIM_VALUE_SCAL,  // alpha old
  TC_SHIM_VALUE_GER  // old + alpha x y', m by n in rows
} tc_shim_value_op;

typedef struct tc_shim_value tc_shim_value;

// An operand: n elements of a value from an offset.
typedef struct tc_shim_value_use {
  tc_shim_value *value;
  int64_t offset, n;
} tc_shim_value_use;

// What a record says; operands: old (value NULL: none), then left or x, right or y.
typedef struct tc_shim_value_record {
  tc_shim_value_op op;
  char type;  // s d
  bool left_transposed, right_transposed;
  int64_t m, n, k;
  double alpha, beta;
  tc_shim_value_use in[TC_SHIM_VALUE_OPERANDS];
} tc_shim_value_record;

typedef enum tc_shim_scalar_op { TC_SHIM_DOT, TC_SHIM_ASUM } tc_shim_scalar_op;

// How values are kept. device NULL: they wait until they are asked for; else each is made at once
// there, and operands stay there.
bool tc_shim_values_start(const char *device, const char **out_why);

// All of the rest: under the lock.

// n elements at p as an operand. False: they cannot be one. The use holds a reference until
// tc_shim_values_forget. copy: malloc's, of memory that is in no block; taken over, and NULL then.
bool tc_shim_values_use(const void *p, int64_t n, char type, void **copy, tc_shim_value_use *out);
void tc_shim_values_forget(tc_shim_value_use *use);

// The block that n elements at p are the whole of, if it may hold a value; else NULL.
tc_shim_block *tc_shim_values_output(const void *p, int64_t n, char type);

// The block will hold what the record says, or what a value of whole extent is. Takes the uses
// over, whatever comes.
bool tc_shim_values_record(tc_shim_block *block, const tc_shim_value_record *record);
bool tc_shim_values_share(tc_shim_block *block, tc_shim_value_use use);

// Whether a use is of a value that is not in memory yet.
bool tc_shim_values_is_pending(const tc_shim_value_use *use);
bool tc_shim_values_scalar(tc_shim_scalar_op op, char type, const tc_shim_value_use *x, const tc_shim_value_use *y,
                           double *out);

// Everything is in memory afterwards, and nothing is guarded.
void tc_shim_values_settle(void);

typedef struct tc_shim_value_counts {
  uint64_t recorded, runs, landed, exchanged, dropped, reused, uploaded;
} tc_shim_value_counts;
extern tc_shim_value_counts tc_shim_values_counts;
