// Records of control flow: a CONTROL and what reads its results.
//
// In: facts with bodies, operands, scalars. Out: nodes.
// Threads: under the trace's lock. Owner: the trace.
#pragma once

#include "lazy/record/outline.h"

#define TC_CONTROL_MOST 256  // inputs, and results, of one op
#define TC_CONTROL_OPERANDS 512

// The CONTROL of n_in operands, of which n_known are in `in`; what bodies captured is resolved, and
// the extracts become bodies. TC_NODE_ERR after reporting.
tc_node tc_control_record(tc_trace *t, tc_control_facts *f, tc_outline *c, tc_extract *extract, tc_node *in,
                          uint32_t n_known);
// Result i of a CONTROL of these facts.
tc_node tc_control_result_of(tc_trace *t, const tc_control_facts *f, tc_node control, uint32_t i);
