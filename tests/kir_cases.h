// Hand-built kernels that together use every instruction on every type, with inputs that hold the
// edge values: what generated code is compared with the interpreter on. The outermost range is
// KIR_LENGTH elements, and every buffer has as many. Tests only; allocation failures are not
// handled.
#pragma once

#include "lowering/kir/kir.h"

enum { KIR_LENGTH = 256, KIR_BUFFERS = 64 };

extern const char *const kir_type_name[];
extern const size_t kir_type_bytes[];

// The first n_in buffers hold inputs, the rest start as garbage; what[k] says what buffer k should
// hold.
typedef struct kir_case {
  tc_kir n;
  uint32_t n_in;
  char *in[KIR_BUFFERS];
  const char *what[KIR_BUFFERS];
  uint64_t num[4];
} kir_case;

// Arithmetic and comparisons (no f16, bf16); casts to every type; loads, gathers, stores, scatters,
// with and without masks; and leaves, reductions, zips and calls (no f16, bf16). threads: of a
// kernel with threads, as far as its lanes stay with them; 0: a CPU's.
void kir_case_ops(kir_case *f, tc_type t, int lanes, int threads);
void kir_case_casts(kir_case *f, tc_type from, int lanes, int threads);
void kir_case_memory(kir_case *f, tc_type t, int lanes, int threads);
void kir_case_rest(kir_case *f, tc_type t, int lanes, int threads);
void kir_case_flow(kir_case *f);  // variables through loops and ifs
void kir_case_release(kir_case *f);
