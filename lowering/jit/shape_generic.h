// Families of kernels: what one place of a graph becomes at several sizes, the same but for the
// values of constants. Constants that were seen to differ become arguments, so that one kernel does
// for all sizes: no algebra of sizes is needed, and what is general is exactly what varied.
//
// What varied is kept on disk (runtime/disk.h), so that a process whose first size is another one's
// second takes that one's general kernel.
// Always: a general kernel with its values as arguments is the kernel it was made from, whatever
// else is in its family; a wrong guess costs a compile.
// Threads: thread-safe.
#ifndef TC_LOWERING_JIT_SHAPE_GENERIC_H
#define TC_LOWERING_JIT_SHAPE_GENERIC_H

#include <stdbool.h>

#include "lowering/kir/kir.h"

#define TC_MAX_EXTRA_SCALARS 256  // arguments of a general kernel at most

typedef struct tc_generic_kernel {
  tc_kir kir;  // owned, as value is
  uint64_t *value;  // the arguments that it has behind those of the kernel it was made from
  uint32_t n_value;
} tc_generic_kernel;

// The general kernel for this one. False: it is the first of its family, or the first one again; it
// has too much that varies; or there is no memory. place: equal for kernels that may be of a
// family.
bool tc_shape_generic_meet(uint64_t site, const tc_kir *kir, tc_generic_kernel *out);
// Whether this number of what is done at the place was another one before, in this process or one
// that kept what it knew.
bool tc_shape_generic_varies(uint64_t site, int64_t number);
// Releases what it owns, leaving nothing.
void tc_shape_generic_drop(tc_generic_kernel *g);
void tc_shape_generic_clear(void);

#endif
