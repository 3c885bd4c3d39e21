// The interpreter of kernel IR: runs a kernel's instructions as calls of prepared loops, with the
// bits that compiled code gives.
//
// In: a kernel without threads (copied). Out: a tc_kernel_fn whose ctx is the tc_interp.
// Invariants: worker->scratch has tc_interp_scratch bytes: the kernel's tiles first, then the
// interpreter's own frame.
// Threads: immutable once created; many workers may run one. Owner: whoever created it.
#pragma once

#include "lowering/kir/kir.h"

typedef struct tc_interp tc_interp;
tc_status tc_interp_create(const tc_kir *kir, tc_interp **out);
void tc_interp_destroy(tc_interp *interp);
size_t tc_interp_scratch(const tc_interp *interp);
size_t tc_interp_bytes(const tc_interp *interp);  // of memory that it holds
tc_kernel_fn tc_interp_run;
