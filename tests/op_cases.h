// Calls of every row of ops.def that has a sample (tests/samples.def): over types, sizes around
// vector widths, broadcast shapes and strides.
//
// In: a row. Out: its calls, one after the other, with operands as host data.
// Threads: one thread at a time. Owner: a call's data is valid during the visit.
#pragma once

#include "tests/near.h"

typedef struct op_row op_row;  // static

typedef struct op_operand {
  tc_type type;
  tc_dims dims;
  char how;  // as near_present has it
  void *data;
} op_operand;

// What an op is called with: operands, and the arguments that are not tensors.
typedef struct op_call {
  op_operand x[3];
  int n, axis, n_th;  // operands; axis INT32_MAX: all; n_th: of polygamma
  bool keepdim;
  tc_type type;  // of a cast
  int64_t folded;  // elements that one of the result is made of; 0: of one
} op_call;

const op_row *op_row_at(int i);  // NULL past the end
const op_row *op_row_of(const char *name);  // NULL: it has no sample
const char *op_row_name(const op_row *op);
tc_tensor op_row_call(const op_row *op, const op_call *c, const tc_tensor *x);
// How far results on two devices may be apart.
near_tol op_row_tolerance(const op_row *op, tc_type type, int64_t folded);
// Says which call it is; returns out.
const char *op_call_text(const op_row *op, const op_call *c, char *out, size_t bytes);

typedef void op_visit(const op_row *op, const op_call *c, void *arg);
// all: every case; else a sample that differs by type and row.
void op_row_each(const op_row *op, bool all, op_visit *visit, void *arg);
