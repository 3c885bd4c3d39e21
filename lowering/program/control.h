// Control flow in a program: a step that runs the programs of its bodies, as often as it takes.
//
// In: a CONTROL node, or a TUPLE_ELEMENT on a GPU; of a run, the operands' addresses and scalars.
// Out: the bytes of all results, each at its offset (lazy/trace/body.h).
//
//   SCAN of 3 steps: body(carry 0, x 0) -> temporary 0, y 0
//                    body(temporary 0, x 1) -> temporary 1, y 1
//                    body(temporary 1, x 2) -> the final carry, y 2
//
// Bodies read slices and write results where they lie; what would not be aligned goes through a
// temporary. The launching thread runs these steps between jobs of the team, so that bodies have
// all threads. On a GPU each run of a body is a launch or a replay; only COND and WHILE wait, for
// the bool they read.
// Threads: immutable once made; many threads may run one. Owner: the step.
#pragma once

#include "lazy/trace/body.h"
#include "lowering/program/execute.h"

typedef struct tc_control tc_control;

// Lowers the bodies of node n, or finds their plans.
tc_status tc_control_create(const tc_graph *g, uint32_t n, tc_control **out);
// Makes the step of bodies that are lowered already (lowering/export). Retains a plan for each.
// facts and result: what tc_control_facts_of and tc_control_layout would give. The bodies that
// facts names outlive the step.
tc_status tc_control_of(const tc_control_facts *facts, const tc_control_result *result, tc_plan *const *plan,
                        tc_control **out);
void tc_control_destroy(tc_control *c);  // NULL is fine
// Runs the step. A failure was reported, with the call inside the body.
tc_status tc_control_run(const tc_execution *r, const tc_step *s);
