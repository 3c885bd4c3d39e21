// A program: the steps a plan runs, the storage of their values, and the scalars they read. It
// holds sizes and offsets, never addresses.
// A storage number names where a value lives: a leaf, an output, a cached constant
// (constant_cache.h), or an allocation in the run's arena. Numbers of leaves come first, then
// outputs, then constants; an allocation's number has ARENA_BIT. Steps of a stage are independent,
// and the team has a barrier between stages.
// This file holds types alone: program.h runs and destroys a program, and the passes of this
// folder fill it in.
// Threads: immutable once built, but for its atomics; many threads may run one program, each with
// an arena of its own.
#pragma once

#include <stdatomic.h>

#include "lazy/lowering.h"
#include "lowering/graph/graph.h"
#include "lowering/jit/kernel_cache.h"
#include "lowering/jit/shape_generic.h"
#include "lowering/tiling/gemm.h"

#define TC_STORAGE_NONE UINT32_MAX

typedef enum tc_step_kind {
  TC_STEP_KERNEL,  // generated code
  TC_STEP_CALL,  // a call of a GPU vendor's library
  TC_STEP_ROW,  // a reference kernel, split into shares where that is possible
  TC_STEP_ZERO,  // zeros written over a whole tensor
  TC_STEP_CONTROL,  // control flow, or a copy of one of its results on a GPU; not the team's (control.h)
  TC_STEP_CHECK,  // a check that the indices of operand 0 lie within the extent in num
  TC_STEP_LOADED,  // an op of a loaded back end, or a copy within its device (loaded.h)
} tc_step_kind;

// A kernel to be compiled.
typedef struct tc_pending_kernel {
  tc_kir kir;
  char stem[TC_STEM_BYTES];
  const struct tc_fusion *fusion;  // the fusion that it computes
  bool is_matmul;
  tc_matmul_facts matmul;
  uint32_t matmul_node;
  tc_units units;
  // of a matmul whose number of rows was seen to vary: the kernel for any number of rows; without
  // instructions if there is none
  tc_generic_kernel generic;
  int64_t generic_extent;  // its units, where they are others than the step's (tc_builder.any_size)
} tc_pending_kernel;

typedef struct tc_step {
  uint8_t kind;
  tc_kernel *kernel;  // KERNEL: retained; NULL until it is compiled
  tc_pending_kernel *pending;  // KERNEL: owned unless shares_pending; NULL once it is compiled
  bool shares_pending;  // true: pending belongs to an earlier run of the step (rematerialize.c)
  tc_op op;  // ROW, LOADED
  tc_gpu_call *call;  // CALL: retained
  struct tc_control *control;  // CONTROL: owned; NULL until its bodies are compiled
  union {
    uint64_t offset[3];  // CALL: offset of each operand in its storage, in bytes
    struct {
      // ROW, ZERO of a finished program: first of its entries in row_value and row_attr. LOADED:
      // value is its number among such steps
      uint32_t value, attr;
    } row;
  };
  // range of the program's storage numbers; ROW, LOADED, CALL, CONTROL: operands, then the result;
  // ZERO: the result
  uint32_t first_binding, n_binding;
  uint32_t first_num, n_num;
  int64_t extent;  // units of the outermost range
  int64_t grain;  // units of one task
  int64_t first_task;  // number of its first task among those of its stage
  uint32_t stage;
  // ROW, LOADED, CALL, CONTROL, ZERO: the node computed; KERNEL: the first node stored; CHECK: the
  // node that it is for
  uint32_t node;
  double work;  // estimated nanoseconds on one thread
  bool is_matmul;
  uint64_t writes;  // KERNEL: bit mask of the bindings it writes; see tc_step_writes
  uint64_t bytes;  // KERNEL, CALL: bytes read and written
  // bit mask of the bindings it reads only at the element it writes, before writing it
  uint64_t same;
} tc_step;

// Whether the step writes its binding j.
static inline bool tc_step_writes(const tc_step *s, uint32_t j) {
  return s->kind == TC_STEP_KERNEL ? s->writes >> j & 1 : s->kind != TC_STEP_CHECK && j + 1 == s->n_binding;
}

typedef struct tc_num_source {
  bool is_arg;
  uint64_t value;  // is_arg: number of the run's argument; else the value itself
} tc_num_source;

// Shape and type of a value that a ROW step reads or computes.
typedef struct tc_row_value {
  const tc_shape_info *shape;
  tc_type type;
} tc_row_value;

#define ARENA_BIT 0x80000000u
#define IN_ARENA UINT32_MAX

typedef struct tc_allocation {
  size_t bytes, offset;
  uint32_t in;  // the output whose memory holds it until that output is written, or IN_ARENA
  uint32_t first, last;  // first and last stage in which it is alive
  bool called;  // true: a library call reads or writes it
} tc_allocation;

// Addresses of a run's storages.
typedef struct tc_storages {
  void **storage;  // addresses of leaves, then outputs, then cached constants
  char *const *output;  // addresses of the outputs: storage + n_leaf
  char *arena;
} tc_storages;

struct tc_gpu_launches;
typedef struct tc_program tc_program;
struct tc_program {
  tc_step *step;
  uint32_t n_step, cap_step;
  uint32_t *binding;
  uint32_t n_binding, cap_binding;
  tc_num_source *num;
  uint32_t n_num, cap_num;
  // temporaries; a storage number with ARENA_BIT is an index here
  tc_allocation *allocation;
  uint32_t n_allocation, cap_allocation;
  size_t arena_bytes, scratch_bytes;
  uint32_t n_control;  // steps of control flow
  uint32_t n_stage;
  uint32_t *stage_first;  // first step of each stage, then n_step
  int64_t *stage_tasks;
  // true: the last run found kernels that are not compiled yet
  atomic_bool interprets;
  bool is_bound;  // true: made of a program for many sizes (size_piece.h)
  // true: the job takes less than waking a worker (runtime/team.h)
  bool brief;
  // the steps that compute cached constants from parameters alone, with storages of this program;
  // NULL only in that program itself
  tc_program *prepare;
  // of such a program: the programs beyond the first that have it (size_piece.h)
  _Atomic uint32_t n_shares;
  // per cached constant: its bytes; their storages come after the outputs
  size_t *cached_bytes;
  uint32_t n_cached, cap_cached;
  // coming runs that do not allocate missing constants, since an allocation failed
  _Atomic uint32_t n_skip_alloc;
  // runs since the last computation of constants that found all of them cached
  _Atomic uint32_t n_used;
  // hash of the parameters whose constants the last run declined to compute
  _Atomic uint64_t refused;
  _Atomic(tc_plan_facts *) facts;  // for a profile. NULL: nobody asked for them
  struct tc_gpu_launches *gpu;  // its launches on a GPU; NULL: it runs on the CPU
  struct tc_loaded_steps *loaded;  // its steps on a loaded back end's device; NULL: it is no such plan
  tc_row_value *row_value;  // per ROW and ZERO: the result's entry, then the operands'
  uint64_t *row_attr;
  uint32_t n_row_value, n_row_attr;
  // while it is built; in a finished program only plan, target and packs_few are set
  tc_graph graph;
  tc_arena arena;  // memory of the graph; empty in a finished program
};

static inline void *tc_storage_pointer(const tc_program *p, const tc_storages *at, uint32_t storage) {
  if (!(storage & ARENA_BIT)) return at->storage[storage];
  const tc_allocation *k = &p->allocation[storage & ~ARENA_BIT];
  return (k->in == IN_ARENA ? at->arena : at->output[k->in]) + k->offset;
}
