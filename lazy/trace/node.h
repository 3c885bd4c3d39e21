// What recording sees of a trace: nodes by number, their shapes and types, and how an op fails.
//
// In: the open op of a trace. Out: facts of nodes; the failure of the op.
// Invariants: TC_NODE_ERR is passed on silently, since its failure was reported when it arose.
// Threads: under the trace's lock. Owner: nobody.
#pragma once

#include "lazy/trace/op_table.h"
#include "runtime/status.h"

typedef struct tc_trace tc_trace;
typedef uint32_t tc_node;
#define TC_NODE_ERR UINT32_MAX

// Stand for the trace of an op that cannot be recorded: in a signal handler, and out of memory.
// Nothing is written to them.
extern tc_trace tc_trace_refused, tc_trace_no_memory;

// Reports a failure of the open op and returns TC_NODE_ERR.
tc_node tc_rec_fail(tc_trace *t, tc_status status, const char *fmt, ...) __attribute__((format(printf, 3, 4), cold));
// Shape and type of a node (not of TC_NODE_ERR). The pointer lives as long as the process.
const tc_dims *tc_node_dims(const tc_trace *t, tc_node n);
tc_type tc_node_type(const tc_trace *t, tc_node n);
typedef enum tc_number_kind { TC_NUMBER_BOOL, TC_NUMBER_INT, TC_NUMBER_FLOAT } tc_number_kind;
extern const uint8_t tc_number_kind_of[TC_N_TYPES];  // tc_number_kind, by type
bool tc_type_is_float(tc_type type);
// Whether it is f16 or bf16.
static inline bool tc_type_is_half(tc_type type) {
  return type == TC_F16 || type == TC_BF16;
}
static inline bool tc_type_is_byte(tc_type type) {
  return type == TC_I8 || type == TC_U8;
}
int64_t tc_dims_count(const tc_dims *d);
// While off, records are not put on the tape (optimizers). Returns what it was.
bool tc_rec_tape(tc_trace *t, bool on);
