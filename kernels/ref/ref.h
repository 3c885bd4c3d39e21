// Reference kernels: plain loops, one per reference word of the op table. They are the oracle of
// every other backend, and the EXTERN kernels of the CPU. They know pointers, extents and strides,
// never nodes.
//
// Invariants: f64 computes in double. Elementwise ops of f32, f16 and bf16 compute in double and
// round once to the type; their sums accumulate in double and round once. Integers wrap. NaN and
// infinity are as in PyTorch. An index out of range returns TC_ERR_INDEX and writes nothing of the
// result past that point.
// Threads: thread-safe, pure.
// Owner: nothing.
#pragma once

#include <stdint.h>
#include <tc/tc.h>

#define TC_REF_MAX_IN 512

typedef struct tc_view {
  void *ptr;  // first element
  tc_type type;
  int rank;
  int64_t dim[TC_MAX_RANK];
  int64_t stride[TC_MAX_RANK];  // in elements
} tc_view;

// One call. Operands are strided views; out is dense row-major. The head of ops.def says how attr
// and arg are laid out.
// Elementwise operands have been expanded to out's shape (stride 0) but not cast: binary operands
// share a type, except WHERE's condition.
typedef struct tc_ref_call {
  int n_in;
  const tc_view *in;
  tc_view out;
  const uint64_t *attr;  // words that change code
  const uint64_t *arg;  // run-time scalars: the bits of a double for float results, an int64 for integers
  // The share of the result to make: parts [begin, end) of `extent` equal ones; extent 0 is
  // everything. Only cat, write_slice, scans, unwindow, scatters and index_add can be shared
  // (kernels/ref/share.h). Others always make everything.
  int64_t begin, end, extent;
} tc_ref_call;

typedef tc_status tc_ref_fn(const tc_ref_call *call);

// tc_ref_<word> exists for every word of the op table's reference column (none has no function).
#define TC_OP(NAME, name, kind, arity, dtype, vjp, saves, autocast, lower, reference, sample) \
  tc_ref_fn tc_ref_##reference;
#include <tc/ops.def>
#undef TC_OP
tc_status tc_ref_none(const tc_ref_call *call);

// These read one element of any type as double or int64; floats truncate, and bool is 0 or 1. They
// write one rounded to nearest even; integers wrap.
double tc_get_f64(tc_type type, const void *p, int64_t i);
int64_t tc_get_i64(tc_type type, const void *p, int64_t i);
void tc_set_f64(tc_type type, void *p, int64_t i, double v);
void tc_set_i64(tc_type type, void *p, int64_t i, int64_t v);
uint16_t tc_f32_to_f16(float v);
float tc_f16_to_f32(uint16_t v);
uint16_t tc_f32_to_bf16(float v);
float tc_bf16_to_f32(uint16_t v);
