// Row kernels: what a GPU launches for the rows of the op table that are not made from kernels (the
// CPU runs reference kernels for them): scans, sorting, searching, writing and adding by index,
// overlapping sums, joining many tensors, writing a part, filling; and the check of an index.
//
// A row becomes a list of launches of kernels from kernels/gpu/, whose text names types and ops,
// never extents, so that one code serves all shapes. What a launch's words are is said, not their
// values: those come from the run. How the work is cut follows from shapes and types alone, so a
// row has the same bits on every run and device. Operands and results are dense, indices out of
// range are passed over. Once the fault word tells of one, kernels that follow do nothing.
// Threads: thread-safe, pure. What is made lives in the caller's arena.
#ifndef TC_LOWERING_PROGRAM_GPU_ROWS_H
#define TC_LOWERING_PROGRAM_GPU_ROWS_H

#include "lowering/program/gpu/row_types.h"
#include "runtime/arena.h"

// Also of a row without elements to read, such as a sum over nothing, which no kernel makes.
// TC_ERR_ARG: no such kernel; TC_ERR_SHAPE: more elements than one launch can cover; TC_ERR_MEMORY.
tc_status tc_gpu_row_make(const tc_gpu_row_call *call, tc_arena *arena, tc_gpu_row *out);
// Looks whether `count` indices, operand 0, lie within [-extent, extent): the least of base +
// position of bad ones goes to the fault word, unless what is there is less: then nothing is read.
tc_status tc_gpu_row_check(uint64_t count, uint64_t extent, uint64_t base, tc_arena *arena, tc_gpu_row *out);

#endif
