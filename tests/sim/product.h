// Matrix products as simulated libraries of a vendor's do them: work of a stream, done late and
// captured as any other, with plain loops.
//
// All that a product reads and writes must be of allocations when it runs, and no operand may lie
// in its result; what was never written is read as NaN. Its results are the sums in double, rounded
// once.
#pragma once

#include "tests/sim/tensors.h"

enum { SIM_PRODUCT_ALGORITHMS = 4, SIM_PRODUCT_USUAL = SIM_NEEDS_INIT | SIM_NEEDS_CONTEXT };

typedef struct sim_matrix {
  uintptr_t at;
  uint64_t rows, columns;  // as the product reads it, transposed or not
  int64_t by_row, by_column, batch;  // elements
} sim_matrix;

typedef struct sim_product {
  sim_element type;
  int32_t batch;
  sim_matrix a, b, d;
  uintptr_t bias, workspace;
  uint64_t alignment, workspace_bytes;  // of the algorithm
  uint64_t atomics;  // 1: parts of a sum are added in any order: its first element has another last bit each time
  const char *function;  // that was called, for the texts of mistakes
} sim_product;

// Columns side by side, `stride` elements from one to the next.
sim_matrix sim_product_matrix(uint64_t rows, uint64_t columns, int64_t stride, int64_t batch, bool transposed);
// Whether d is as large as a b.
bool sim_product_fits(const sim_product *p);
// All that an algorithm holds for.
uint64_t sim_product_name(const sim_product *p, uint64_t seed);

// The libraries' algorithms differ in nothing but what they ask for: 1 and 2 a workspace, 3 no
// alignment but its elements'.
uint64_t sim_product_alignment(int algorithm, const sim_product *p);
uint64_t sim_product_workspace(int algorithm, const sim_product *p);
int sim_product_first(void);  // TC_SIM_ALGORITHM: which of them a library thinks best

// pre: addresses, alignment and workspace are there. False if they are not aligned.
bool sim_product_aligned(const sim_product *p);
sim_error sim_product_enqueue(sim_stream *s, const sim_product *p);  // copied
