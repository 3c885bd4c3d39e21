// Operands of libraries' calls in graphs that are replayed: those that stay, and those that move.
//
// A library is told addresses when its call becomes part of a graph, and no later. So an operand
// that stays is where the graph has it, which is compared before the graph is launched; one that
// moves has a place of the graph's own, to which, or, of a result, from which a kernel copies it.
// Where it is in a run that kernel reads from the plan's table, so that nothing more is patched. A
// workspace that moves has a place and is not copied.
// Always: an operand that moved once moves for ever. Calls follow each other, so that all of a
// sequence share one place, as large as the one that needs most.
// Threads: under the device's lock.
#ifndef TC_DEVICE_GPU_GRAPH_COPIES_H
#define TC_DEVICE_GPU_GRAPH_COPIES_H

#include "device/gpu/state.h"

// Of a call, one after the other: two operands, result, bias, workspace.
#define TC_GPU_ADDRESSES 5

typedef struct tc_gpu_address {
  uint32_t word;  // of the table
  size_t bytes;  // there; 0: nothing
  bool moves;
  size_t offset;  // of its place, if it moves
} tc_gpu_address;

typedef struct tc_gpu_moving {
  tc_gpu_address *address;  // of all calls, in order
  uint32_t n;
  char *place;  // on the device
  tc_holder holder;  // of it
  uint32_t n_copies;
  size_t copied_bytes;  // in a run
} tc_gpu_moving;

// The parameter of the kernel that copies, as its text has it.
typedef struct tc_gpu_carry {
  const uint64_t *words;  // of the call, in the table
  uint64_t which;  // of them
  void *place;
  uint64_t bytes, leaves;  // leaves: from the place, else to it
} tc_gpu_carry;

// Of the launches that are calls, so many. False: no memory of the host.
bool tc_gpu_moving_init(tc_gpu_moving *m, const tc_gpu_launch *launch, uint32_t n, uint32_t n_calls);
// reach: begun, on the device as it was when the place was taken; else that is gone.
void tc_gpu_moving_fini(tc_gpu *g, tc_gpu_moving *m, bool reach);
void tc_gpu_moving_give(tc_gpu *g, tc_gpu_moving *m, bool reach);  // the place alone, when runs under way are over

// The kernel that copies, which the device keeps.
tc_status tc_gpu_copier_make(tc_gpu *g);

// Whether the run has what stays where the guard, a word for each address, has it. moving: what
// moves may be anywhere.
bool tc_gpu_moving_fits(const tc_gpu_moving *m, const uint64_t *guard, const uint64_t *words, bool moving);
// What the run has elsewhere moves from now on. Whether that is more than before.
bool tc_gpu_moving_add(tc_gpu_moving *m, const uint64_t *guard, const uint64_t *words);
// Takes the place for what moves. Static text why there is none, or NULL. launch: for names. pre:
// begun.
const char *tc_gpu_moving_place(tc_gpu *g, tc_gpu_moving *m, const tc_gpu_launch *launch);

// Where a call's address is in a graph with copies, given where it is in the run that makes it.
static inline void *tc_gpu_moving_at(const tc_gpu_moving *m, uint32_t number, uint64_t word) {
  const tc_gpu_address *a = &m->address[number];
  return a->moves ? m->place + a->offset : (void *)(uintptr_t)word;
}

// The nodes that copy what comes before the call, or what leaves it behind. table: the plan's, on
// the device; copy: their parameters. Returns how many.
uint32_t tc_gpu_moving_nodes(tc_gpu *g, const tc_gpu_moving *m, uint32_t call, bool behind, const uint64_t *table, tc_gpu_carry *copy,
                             tc_gpu_node *node);

#endif
