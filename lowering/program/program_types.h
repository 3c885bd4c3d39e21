// A program: the steps a plan runs, where their values live, and which scalars they read. Holds
// sizes and offsets, never addresses.
//
// A place says where a value is: a leaf, an output, a prepared value (constant_cache.h), or an
// offset in the run's arena. Steps of a stage are independent; between stages the team has a
// barrier.
// These are the types alone: program.h has what destroys one, run.h what runs it, and the passes of
// this folder fill it in.
// Threads: immutable once made; many threads may run one program, each with an arena of its own.
#ifndef TC_LOWERING_PROGRAM_PROGRAM_TYPES_H
#define TC_LOWERING_PROGRAM_PROGRAM_TYPES_H

#include <stdatomic.h>

#include "lazy/lowering.h"
#include "lowering/graph/graph.h"
#include "lowering/jit/kernel_cache.h"
#include "lowering/jit/shape_generic.h"
#include "lowering/tiling/gemm.h"

#define TC_STORAGE_NONE UINT32_MAX

typedef enum tc_step_kind {
  TC_STEP_KERNEL,  // generated code
  TC_STEP_CALL,  // a GPU vendor's library makes something
  TC_STEP_ROW,  // a reference kernel, in shares where it can be split
  TC_STEP_ZERO,  // zeros over a whole tensor
  TC_STEP_CHECK,  // indices of operand 0 lie within the extent in arg
} tc_step_kind;

// A kernel to be compiled.
typedef struct tc_pending_kernel {
  tc_kir kir;
  char stem[40];
  const struct tc_fusion *fusion;  // of the fusion plan that it was made in
  bool is_matmul;
  tc_matmul_facts matmul;
  uint32_t matmul_node;
  tc_units units;
  tc_generic_kernel
      // of a product whose number of rows was seen to vary: the kernel that does for any; without
      // instructions where there is none
      generic;
} tc_pending_kernel;

typedef struct tc_step {
  uint8_t kind;
  tc_kernel *kernel;  // KERNEL: retained
  tc_pending_kernel *pending;  // KERNEL: owned, until it is compiled
  bool shares_pending;  // it is that of an earlier run of the step (rematerialize.h)
  tc_op op;  // ROW
  tc_gpu_call *call;  // CALL: retained
  union {
    uint64_t offset[3];  // CALL: where in their places its operands begin, in bytes
    struct {
      uint32_t value, attr;  // ROW, ZERO of a program that is whole: first of the program's lists of these
    } row;
  };
  uint32_t first_binding, n_binding;  // places; ROW, CALL: operands, then the result; ZERO: the result
  uint32_t first_num, n_num;
  int64_t extent;  // units of the outermost range
  int64_t grain;  // units of one task
  int64_t first_task;  // among those of its stage
  uint32_t stage;
  uint32_t node;  // the node a ROW, CALL or ZERO gives, the first that a KERNEL stores, and what a CHECK is for
  double work;  // estimated nanoseconds on one thread
  bool is_matmul;
  uint64_t writes;  // KERNEL: binds it writes; see tc_step_writes
  uint64_t bytes;  // KERNEL: read and written
  uint64_t same;  // binds it reads only at the element it writes, before it writes it
} tc_step;

// Whether it writes what its bind j names.
static inline bool tc_step_writes(const tc_step *s, uint32_t j) {
  return s->kind == TC_STEP_KERNEL ? s->writes >> j & 1 : s->kind != TC_STEP_CHECK && j + 1 == s->n_binding;
}

typedef struct tc_num_source {
  bool is_arg;
  uint64_t value;  // number of the run's argument, or the value itself
} tc_num_source;

// What a run knows of a value that a ROW makes or reads.
typedef struct tc_row_value {
  const tc_shape_info *shape;
  tc_type type;
} tc_row_value;

#define ARENA_BIT 0x80000000u
#define IN_ARENA UINT32_MAX

typedef struct tc_allocation {
  size_t bytes, offset;
  uint32_t in;  // the output in whose memory it lies until that is written, or IN_ARENA
  uint32_t first, last;  // stages in which it is alive
  bool called;  // a library's call reads or makes it
} tc_allocation;

// Where a run's places are.
typedef struct tc_storages {
  void **storage;  // leaves, then outputs, then prepared values
  char *const *output;  // behind the leaves in place
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
  tc_allocation *allocation;  // arena blocks; a place with ARENA_BIT is a block
  uint32_t n_allocation, cap_allocation;
  size_t arena_bytes, scratch_bytes;
  uint32_t n_stage;
  uint32_t *stage_first;  // first step of each stage, and the end
  int64_t *stage_tasks;
  atomic_bool interprets;  // kernels that are compiled later, at the last look
  bool brief;  // a job that takes less than waking a worker (runtime/team.h)
  // what the steps read that is made of parameters alone: steps with places of this program. NULL:
  // nothing
  tc_program *prepare;
  size_t *cached_bytes;  // of its results, whose places come after the outputs
  uint32_t n_cached, cap_cached;
  // runs that will not ask for the results' memory, since it was not there when it was asked for
  _Atomic uint32_t n_unasked;
  _Atomic uint32_t n_used;  // runs that found all they read prepared, since some of it was made
  _Atomic uint64_t refused;  // of what contents forms were missing in the last run that made none
  struct tc_gpu_launches *gpu;  // how it runs on a GPU; NULL: on the CPU
  tc_row_value *row_value;  // of each ROW and ZERO: the result's, then the operands'
  uint64_t *row_attr;
  uint32_t n_row_value, n_row_attr;
  tc_graph graph;  // while it is made; of one that is whole plan, target and packs_few
  tc_arena arena;  // of the graph
};

static inline void *tc_storage_pointer(const tc_program *p, const tc_storages *at, uint32_t storage) {
  if (!(storage & ARENA_BIT)) return at->storage[storage];
  const tc_allocation *k = &p->allocation[storage & ~ARENA_BIT];
  return (k->in == IN_ARENA ? at->arena : at->output[k->in]) + k->offset;
}

#endif
