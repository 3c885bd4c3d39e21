// What a program holds, where its temporaries live, and in which order its steps run. Inside programs, for the files that make and run them; not for others.
#ifndef TC_LOWERING_PROGRAM_MEMORY_PLAN_H
#define TC_LOWERING_PROGRAM_MEMORY_PLAN_H

#include <stdatomic.h>

#include "lowering/pipeline.h"

#define ARENA_BIT 0x80000000u
#define IN_ARENA UINT32_MAX
#define LARGE_ARENA ((size_t)1 << 20)  // bytes of temporaries worth planning for less

typedef struct block {
  size_t bytes, offset;
  uint32_t in;  // the output in whose memory it lies until that is written, or IN_ARENA
  uint32_t first, last;  // waves in which it is alive
  bool called;  // a library's call reads or makes it
} block;

// Where a run's places are.
typedef struct tc_places {
  void **place;  // leaves, then outputs, then prepared values
  char *const *output;  // behind the leaves in place
  char *arena;
} tc_places;

struct tc_gpu_launches;
struct tc_program {
  tc_step *step;
  uint32_t n_step, cap_step;
  uint32_t *bind;
  uint32_t n_bind, cap_bind;
  tc_num_source *num;
  uint32_t n_num, cap_num;
  block *block;  // arena blocks; a place with ARENA_BIT is a block
  uint32_t n_block, cap_block;
  size_t arena_bytes, scratch_bytes;
  uint32_t n_wave;
  uint32_t *wave_first;  // first step of each wave, and the end
  int64_t *wave_tasks;
  atomic_bool interprets;  // kernels that are compiled later, at the last look
  bool brief;  // a job that takes less than waking a worker (runtime/team.h)
  tc_program *prepare;  // what the steps read that is made of parameters alone: steps with places of this program. NULL: nothing
  size_t *kept_bytes;  // of its results, whose places come after the outputs
  uint32_t n_kept, cap_kept;
  _Atomic uint32_t n_unasked;  // runs that will not ask for the results' memory, since it was not there when it was asked for
  _Atomic uint32_t n_used;  // runs that found all they read prepared, since some of it was made
  _Atomic uint64_t refused;  // of what contents forms were missing in the last run that made none
  struct tc_gpu_launches *gpu;  // how it runs on a GPU; NULL: on the CPU
  tc_row_value *row_value;  // of each ROW and ZERO: the result's, then the operands'
  uint64_t *row_attr;
  uint32_t n_row_value, n_row_attr;
  tc_graph graph;  // while it is made; of one that is whole plan, target and packs_few
  tc_arena arena;  // of the graph
};

static inline void *tc_place_pointer(const tc_program *p, const tc_places *at, uint32_t place) {
  if (!(place & ARENA_BIT)) return at->place[place];
  const block *k = &p->block[place & ~ARENA_BIT];
  return (k->in == IN_ARENA ? at->arena : at->output[k->in]) + k->offset;
}

// Places for blocks: in an output that is written after they die, else in the arena. What libraries read or make is in the arena, which mostly is where it was in
// the run before: a graph that is replayed cannot tell a library other addresses.
bool tc_memory_place(tc_program *p, const tc_plan *plan);
// *bytes: of results and temporaries at once if the records ran one by one, each value dying at its last reader and views costing nothing.
bool tc_memory_op_by_op(const tc_plan *plan, size_t *bytes);

#endif
