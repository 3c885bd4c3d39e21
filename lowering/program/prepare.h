// Prepared values: what a program reads that is made of parameters alone, made in the first run and
// kept (constant_cache.h). Inside programs; not for others.
//
//   a weight packed for a product: a step of p->prepare, whose result lies at a place behind
//   the outputs, and is found again while the weight's stamp is the same
//
// Threads: thread-safe.
#ifndef TC_LOWERING_PROGRAM_PREPARE_H
#define TC_LOWERING_PROGRAM_PREPARE_H

#include "lowering/program/execute.h"

// Finds prepared values, or makes and keeps them. list: room for the steps' and scalars' words.
// kept: their buffers, retained where not NULL on return, whatever the status. done: added to, if
// not NULL; then the run may be left without.
tc_status tc_execution_prepare(const tc_execution *whole, const tc_plan *plan, const uint64_t *arg, const tc_leaf *held,
                               uint64_t *list, tc_buffer **cached, tc_work_done *done);

#endif
