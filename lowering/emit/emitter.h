// Emits a fusion as a kernel. Only emit/ knows loops, lanes, masks and orders of summation.
//
// In: a fusion of a plan, and perhaps tile sizes. Out: kernel IR, with its buffers, scalars, units
// and estimated work.
// Invariants: orders of summation are part of the contract and do not depend on the thread count,
// the vector width or what was fused.
//   - A fold along the last axis runs in virtual lanes (lane = index mod 64, fewer for short rows),
//     combined by halves.
//   - A fold over outer axes is one chain per element, in index order.
//   - An element of a matmul is one chain in k order.
// Every op rounds to its type. Long chains are split as tiling/summation.h says.
// Threads: one emission at a time for each fusion plan.
#pragma once

#include "lowering/tiling/gemm.h"
#include "lowering/fusion/fusion.h"
#include "lowering/kir/kir.h"

#define TC_MAX_BUFS 64  // tensors of a kernel at most
#define TC_MAX_NUMS 512  // scalars of a kernel at most
#define TC_MAX_EXTRA_ARGS 8  // arguments after the scalars at most

typedef struct tc_emit_result {
  tc_kir kir;
  char stem[TC_STEM_BYTES];  // of the kernel's name: dtype and ops
  uint32_t buf[TC_MAX_BUFS];  // node of each buffer
  uint32_t n_buf;
  struct {
    bool is_arg;  // true: value is the number of a plan argument; false: the scalar itself
    uint64_t value;
  } num[TC_MAX_NUMS];
  uint32_t n_num;
  uint64_t extra[TC_MAX_EXTRA_ARGS];  // arguments after the scalars, for a matmul with any number of rows
  uint32_t n_extra_args;
  uint32_t *read, n_read;  // stored nodes that the kernel reads
  uint32_t *written, n_written;  // nodes that the kernel stores
  uint64_t writes,
      same;  // bit sets of buffers: stored by the kernel; read only at the element that is stored, before the store
  uint64_t words;  // bit set of buffers of bf16 or bytes that are read as 32-bit words, two or four elements each
  uint32_t not_affine;  // on failure: a node to store before the next attempt; TC_NONE: none would help
  bool full;  // on failure: true if the fusion has more tensors or scalars than a kernel can name
  int64_t extent;  // number of units: calls cover [0, extent)
  double work;  // estimated nanoseconds on one thread
  uint64_t bytes;  // of all tensors that are read and stored
  bool is_matmul;  // true: a matmul, which the following fields describe
  tc_matmul_facts matmul;
  uint32_t matmul_node;
  tc_units units;
} tc_emit_result;

// Emits a fusion for the graph's target. The kernel is the caller's to destroy; lists live in the
// arena. tiling: of a matmul; NULL: the cost model's.
tc_status tc_emit_fusion(tc_emit_result *out, const tc_fusion_plan *gr, const tc_fusion *fusion,
                         const tc_gemm_tiling *tiling, tc_arena *arena);
// Emits a matmul whose number of rows is an argument. Units, buffers and scalars are those of
// tc_emit_fusion; the extra arguments follow the scalars. Returns TC_ERR_STATE, with no error
// reported, if the matmul has no such kernel.
tc_status tc_emit_any_rows(tc_emit_result *out, const tc_fusion_plan *gr, const tc_fusion *fusion, tc_units units,
                           tc_arena *arena);
