// One launch of one kernel in a file: written where it was interpreted (tests/numerics/aarch64.c),
// read where it is run (runner.c). Both are little-endian.
//
// A head; nums; n_region sizes; n_buf buffers; then the memory that the kernel may touch, region by
// region, as it was before; and again as the interpreter left it. The objects are in a second file,
// in the same order, a size before each.
#pragma once

#include <stdint.h>

typedef struct case_head {
  char name[64];  // the function in the object
  uint64_t n_num, n_region, n_buf, scratch_bytes;
  int64_t begin, end;
} case_head;

// Buffer: where it starts, and up to the end of its region what it may hold.
typedef struct case_buf {
  uint64_t region, offset;
  uint32_t type, written;
} case_buf;
