// Reference kernels: plain loops, one per reference word of the op table, the oracle of every other
// backend, and the EXTERN kernels of the CPU. They know pointers, extents and strides, never nodes.
// Arithmetic: floats compute in double (f64) or, for f32/f16/bf16 elementwise ops, in double
// rounded once to the type; sums of f32/f16/bf16 accumulate in double and round once; integers
// wrap. NaN and infinity as in PyTorch. Indices out of range return TC_ERR_INDEX and write nothing
// of the result past that point.
// Threads: thread-safe, pure. Own nothing.
#ifndef TC_KERNELS_REF_H
#define TC_KERNELS_REF_H

#include <stdint.h>
#include <tc/tc.h>

#define TC_REF_MAX_IN 512

typedef struct tc_view {
  void *ptr;              // first element
  tc_type type;
  int rank;
  int64_t dim[TC_MAX_RANK];
  int64_t stride[TC_MAX_RANK];  // in elements
} tc_view;

// Operands are strided views; out is dense row-major. attr and arg are laid out as the comment at
// the head of ops.def says.
// Elementwise operands have been expanded to out's shape (stride 0) but not cast: binary operands
// share a type, except WHERE's condition.
typedef struct tc_ref_call {
  int n_in;
  const tc_view *in;
  tc_view out;
  const uint64_t *attr;   // words that change code
  const uint64_t *arg;    // run-time scalars: for float results the bits of a double, for integers an int64
  // The share of the result to make: parts [begin, end) of `extent` equal ones; an extent of 0 is
  // everything. Only cat, write_slice, scans, unwindow, scatters and index_add can be shared
  // (kernels/ref/share.h); others make everything whatever they are told.
  int64_t begin, end, extent;
} tc_ref_call;

typedef tc_status tc_ref_fn(const tc_ref_call *call);

// tc_ref_<word> for every word of the op table's reference column (none has no function).
#define TC_OP(NAME, name, kind, arity, dtype, vjp, saves, lower, reference, sample) tc_ref_fn tc_ref_##reference;
#include <tc/ops.def>
#undef TC_OP
tc_status tc_ref_none(const tc_ref_call *call);

// One element of any type, as double or int64 (floats truncate; bool is 0 or 1), and back (rounded
// to nearest even, integers wrap).
double tc_get_f64(tc_type type, const void *p, int64_t i);
int64_t tc_get_i64(tc_type type, const void *p, int64_t i);
void tc_set_f64(tc_type type, void *p, int64_t i, double v);
void tc_set_i64(tc_type type, void *p, int64_t i, int64_t v);
uint16_t tc_f32_to_f16(float v);
float tc_f16_to_f32(uint16_t v);
uint16_t tc_f32_to_bf16(float v);
float tc_bf16_to_f32(uint16_t v);

#endif
