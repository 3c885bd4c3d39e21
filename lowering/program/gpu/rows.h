// Row kernels: GPU launches for rows of the op table without generated kernels, for which the CPU
// runs reference kernels. They cover scans, sorting, searching, writing and adding by index,
// overlapping sums, concatenation, slice writes and fills, and the check of indices.
// A row becomes a list of launches of kernels from kernels/gpu/. Their text names types and ops,
// never extents, so one kernel serves all shapes. Launches hold the source of each word; a run
// supplies the values.
// Always: tiling follows from shapes and types alone, so a row has the same bits on every run and
// device. Operands and results are dense. Indices out of range are skipped. Once the fault word is
// set, later kernels do nothing.
// Threads: thread-safe, pure. Owner: results live in the caller's arena.
#pragma once

#include "lowering/program/gpu/row_types.h"
#include "runtime/arena.h"

// Lowers a row, also one without elements to read, such as a sum over nothing.
// TC_ERR_ARG: no such kernel; TC_ERR_SHAPE: more elements than one launch can cover; TC_ERR_MEMORY.
tc_status tc_gpu_row_make(const tc_gpu_row_call *call, tc_arena *arena, tc_gpu_row *out);
// Checks that `count` indices, operand 0, lie within [-extent, extent). The fault word becomes the
// minimum of its value and base + position of each bad index. If its value is already less than
// base, nothing is read.
tc_status tc_gpu_row_check(uint64_t count, uint64_t extent, uint64_t base, tc_arena *arena, tc_gpu_row *out);
