// Expansion: a fusion under a schedule becomes a kernel. The only place that knows loops, lanes,
// masks and orders of summation.
//
// Orders are part of the contract: a fold along the last axis runs in virtual lanes (lane = index
// mod 64, fewer for short rows) combined by halves; a fold over outer axes is one chain per element
// in index order; a product's element is one chain in k order. None depends on the thread count,
// the instruction set's width or what was fused. Every op rounds to its type.
#ifndef TC_LOWERING_EMIT_EMITTER_H
#define TC_LOWERING_EMIT_EMITTER_H

#include "lowering/tiling/gemm.h"
#include "lowering/fusion/fusion.h"
#include "lowering/kir/kir.h"

#define TC_MAX_BUFS 64  // tensors of a kernel
#define TC_MAX_NUMS 512  // scalars
#define TC_MAX_EXTRA_ARGS 8  // numbers behind them

typedef struct tc_emit_result {
  tc_kir kir;
  char stem[40];  // dtype and ops, for names
  uint32_t buf[TC_MAX_BUFS];  // node behind each buffer
  uint32_t n_buf;
  struct {
    bool is_arg;
    uint64_t value;
  } num[TC_MAX_NUMS];
  uint32_t n_num;
  uint64_t extra[TC_MAX_EXTRA_ARGS];  // arguments behind those: of a product with any number of rows
  uint32_t n_extra_args;
  uint32_t *read, n_read;  // stored nodes it reads
  uint32_t *written, n_written;  // nodes it stores
  uint64_t writes, same;  // see tc_step
  uint64_t words;  // buffers of bf16 that are read as words, of two elements each
  uint32_t not_affine;  // on failure: a node that must be stored before the fusion can be expanded, or TC_NONE
  bool full;  // on failure: the fusion reads and writes more tensors or scalars than a kernel can name
  int64_t extent;  // units of [begin, end)
  double work;  // estimated nanoseconds on one thread
  uint64_t bytes;  // read and written
  bool is_matmul;  // a matrix product, of which these are the facts
  tc_matmul_facts matmul;
  uint32_t matmul_node;
  tc_units units;
} tc_emit_result;

// For the graph's target. The kernel is the caller's to destroy; lists live in the arena. cut: of a
// matrix product; NULL: as the model has it.
tc_status tc_emit_fusion(tc_emit_result *out, const tc_fusion_plan *gr, const tc_fusion *fusion,
                         const tc_gemm_tiling *tiling, tc_arena *arena);
// A matrix product whose number of rows is an argument, so that the kernel does for others: in the
// same units, with the same buffers and scalars as by tc_emit_fusion, and `more` behind these.
// TC_ERR_STATE, with no error told, where it cannot be cut so.
tc_status tc_emit_any_rows(tc_emit_result *out, const tc_fusion_plan *gr, const tc_fusion *fusion, tc_units units,
                           tc_arena *arena);

#endif
