// An evaluator in the place of lowering's, for tests of lazy alone: it computes nothing, remembers
// what it is asked, and fails when it is told to.
//
// In: the fields of `fake` that a test sets. Out: those that it reads.
// Invariants: every element of an f32 output is fake.value; outputs of other types are zeros.
// Threads: one. Owner: the test program, which defines tc_lowering by linking this.
#pragma once

#include "lazy/lowering.h"

#define FAKE_MOST 16  // leaves, outputs and arguments of a launch that are remembered

typedef struct fake_launch {
  uint32_t n_leaf, n_out, n_arg;
  const void *leaf[FAKE_MOST], *out[FAKE_MOST];
  float first[FAKE_MOST];  // the first four bytes of each leaf at the launch, as f32
  uint64_t arg[FAKE_MOST];
} fake_launch;

typedef struct fake_state {
  // set by tests
  tc_status lower_fails, launch_fails;  // with this status; TC_OK: it does not
  float value;                          // what launches store
  bool lowers_rows;                     // lower_fails is of plans alone that are not lowered by rows
  bool in_place;                        // what is assigned to a leaf is written there
  size_t program_bytes;                 // what a program is said to hold
  // asked
  int n_lowered, n_launched, n_destroyed, n_cleared;
  char ops[256];     // of the plan lowered last: its records in order, "leaf add"
  fake_launch last;  // the last launch
} fake_state;

extern fake_state fake;
