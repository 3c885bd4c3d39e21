// Shape-generic kernels: kernels of one site of a graph at several sizes that differ only in the
// values of constants.
// Constants seen to differ become arguments, so one kernel serves all sizes. No symbolic size
// algebra is needed: exactly what varied becomes an argument.
// What varied is stored on disk (runtime/disk.h). A process whose first size is another process's
// second one then finds its shape-generic kernel.
//
//   f32[8, 512] and then f32[9, 512]: CONST 8 becomes NUM n; the arguments are {8} and {9}
//
// Invariants: a shape-generic kernel with its values as arguments computes what the kernel it was
// made from does. A wrong guess costs one compile.
// Threads: thread-safe.
#pragma once

#include <stdbool.h>

#include "lowering/kir/kir.h"

#define TC_MAX_EXTRA_SCALARS 256  // most arguments of a shape-generic kernel

typedef struct tc_generic_kernel {
  tc_kir kir;  // owned, as value is
  uint64_t *value;  // arguments behind those of the kernel it was made from
  uint32_t n_value;
} tc_generic_kernel;

// Makes the shape-generic kernel for this kernel IR. site: equal for kernels that may share one.
// False: it is the first of its class, or equals the first; too much varies; or there is no memory.
bool tc_shape_generic_find(uint64_t site, const tc_kir *kir, tc_generic_kernel *out);
// Whether this number had another value before at the site, in this process or in one that stored
// it on disk.
bool tc_shape_generic_varies(uint64_t site, int64_t number);
// Frees what it owns and zeroes it.
void tc_shape_generic_drop(tc_generic_kernel *g);
void tc_shape_generic_clear(void);
