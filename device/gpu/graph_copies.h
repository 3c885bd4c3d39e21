// Operands of libraries' calls in replayed graphs: those that stay, and those that move.
//
// A library is told addresses when its call becomes part of a graph, and not later. An operand that
// stays must be where the graph has it; that is checked before each launch. An operand that moves
// has memory of the graph's own. A kernel copies it there, or copies a result from there. The
// kernel reads the run's address from the plan's table, so nothing more is patched. A workspace
// that moves has such memory and is not copied.
// Invariants: an operand that moved once counts as moving from then on. Calls follow each other, so
// all of a sequence share one memory, as large as the largest need.
// Threads: under the device's lock.
#pragma once

#include "device/gpu/state.h"

// Of a call, in this order: two operands, result, bias, workspace.
#define TC_GPU_ADDRESSES 5

typedef struct tc_gpu_address {
  uint32_t word;  // index in the table
  size_t bytes;  // size of the operand; 0: there is none
  bool moves;
  size_t offset;  // in the graph's memory, if it moves
} tc_gpu_address;

typedef struct tc_gpu_graph_copies {
  tc_gpu_address *address;  // of all calls, in order
  uint32_t n;
  char *place;  // the graph's memory, on the device; NULL: none yet
  tc_holder holder;  // of place
  uint32_t n_copies;
  size_t copied_bytes;  // in a run
} tc_gpu_graph_copies;

// The parameter of the kernel that copies, as its text has it.
typedef struct tc_gpu_async_copy {
  const uint64_t *words;  // of the call, in the table
  uint64_t which;  // index of the operand's word
  void *place;
  uint64_t bytes, leaves;  // leaves: 1 copies from place, 0 to place
} tc_gpu_async_copy;

// Describes the launches that are calls, n_calls of them. False: the host has no memory.
bool tc_gpu_graph_copies_init(tc_gpu_graph_copies *m, const tc_gpu_launch *launch, uint32_t n, uint32_t n_calls);
// reach true: begun, and the device is as it was when place was taken. reach false: place is gone.
void tc_gpu_graph_copies_fini(tc_gpu *g, tc_gpu_graph_copies *m, bool reach);
// frees place alone, when runs under way are over
void tc_gpu_graph_copies_give(tc_gpu *g, tc_gpu_graph_copies *m, bool reach);

// Compiles the kernel that copies, which the device keeps.
tc_status tc_gpu_copier_make(tc_gpu *g);

// Returns whether every operand that stays is where the guard, a word for each address, has it.
// may_move: those that move may be anywhere.
bool tc_gpu_graph_copies_fits(const tc_gpu_graph_copies *m, const uint64_t *guard, const uint64_t *words,
                              bool may_move);
// Operands that the run has elsewhere move from now on. Returns whether there are more than before.
bool tc_gpu_graph_copies_add(tc_gpu_graph_copies *m, const uint64_t *guard, const uint64_t *words);
// Takes memory for what moves. Returns static text why there is none, or NULL. launch gives names.
// pre: begun.
const char *tc_gpu_graph_copies_place(tc_gpu *g, tc_gpu_graph_copies *m, const tc_gpu_launch *launch);

// Returns a call's address in a graph with copies, from its address in the run that makes the
// graph.
static inline void *tc_gpu_graph_copies_at(const tc_gpu_graph_copies *m, uint32_t number, uint64_t word) {
  const tc_gpu_address *a = &m->address[number];
  return a->moves ? m->place + a->offset : (void *)(uintptr_t)word;
}

// Writes the nodes that copy operands before the call, or results behind it. table is the plan's,
// on the device; copy gets their parameters. Returns how many there are.
uint32_t tc_gpu_graph_copies_nodes(tc_gpu *g, const tc_gpu_graph_copies *m, uint32_t call, bool behind,
                                   const uint64_t *table, tc_gpu_async_copy *copy, tc_gpu_node *node);
