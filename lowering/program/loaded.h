// A program whose plan is a loaded back end's: ops that its device runs, and steps on the CPU
// between them. Internal to program/.
//
// In: a program with LOADED steps. Out: runs, in which a value is copied to the side that reads it,
// once, unless the host can use the device's memory.
// Invariants: nothing is written over a leaf, so a run that fails leaves old values.
// Threads: immutable once built; each run has its own memory on the host. Owner: the program.
#pragma once

#include "lowering/program/execute.h"

typedef struct tc_loaded_steps tc_loaded_steps;

// Prepares the LOADED steps of a program that has its graph, and numbers them: tc_step.row.value.
tc_status tc_loaded_steps_create(tc_program *p, const tc_plan *plan, tc_loaded_steps **out);
void tc_loaded_steps_destroy(tc_loaded_steps *l);  // l may be NULL
size_t tc_loaded_steps_bytes(const tc_loaded_steps *l);  // host memory that it holds
// Runs the program; r has the device's addresses. call: per node the user's call. NULL: not known.
// done: gets what the CPU ran, and what was copied. NULL: not wanted.
tc_status tc_loaded_steps_run(const tc_execution *r, const tc_plan *plan, const tc_call *call, tc_work_done *done);
