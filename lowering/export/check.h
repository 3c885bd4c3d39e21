// Checks every record of a program's file, before any is used.
//
// In: an image whose tables lie inside it. Out: TC_OK, or TC_ERR_IO with what is wrong.
// Invariants: afterwards each name ends inside `strings`, and each range inside its table. Each
// storage, argument, kernel and weight is one that is there. What steps of reference kernels read
// and write is as large as they take it for.
// What the code of a kernel does with its buffers is not known here: it is trusted, as a shared
// library's is.
// Threads: thread-safe. Owner: nobody.
#pragma once

#include "lowering/export/image.h"

tc_status tc_tcx_check(const tc_tcx_image *x);
// The op of that name; false: there is none.
bool tc_tcx_op(const char *name, uint32_t *op);
