// Facts of nodes and types, and how an op fails. See node.h.
#include "lazy/trace/node.h"

#include <stdarg.h>
#include <stdio.h>

#include "lazy/trace/trace.h"

tc_trace tc_trace_refused = {.op_status = TC_ERR_STATE}, tc_trace_no_memory = {.op_status = TC_ERR_MEMORY};

#define KIND_BOOL TC_NUMBER_BOOL
#define KIND_INT TC_NUMBER_INT
#define KIND_FLOAT TC_NUMBER_FLOAT
const uint8_t tc_number_kind_of[TC_N_TYPES] = {
#define TC_TYPE(NAME, name, bytes, kind, npy) [TC_##NAME] = KIND_##kind,
#include <tc/dtypes.def>
#undef TC_TYPE
};

bool tc_type_is_float(tc_type type) {
  return (unsigned)type < (unsigned)TC_N_TYPES && tc_number_kind_of[type] == TC_NUMBER_FLOAT;
}

int64_t tc_dims_count(const tc_dims *d) {
  int64_t n = 1;
  for (int i = 0; i < d->rank; i++) n *= d->dim[i];
  return n;
}

tc_node tc_rec_fail(tc_trace *t, tc_status status, const char *fmt, ...) {
  char text[512];
  va_list ap;
  if (t->op_status != TC_OK) return TC_NODE_ERR;  // the op reports its first failure
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  tc_fail(status, t->op ? t->op : "tc", t->op_site, "%s", text);
  t->op_status = status;
  return TC_NODE_ERR;
}

const tc_dims *tc_node_dims(const tc_trace *t, tc_node n) {
  return &tc_dims_at(tc_rec_of(t, n)->shape)->d;
}

tc_type tc_node_type(const tc_trace *t, tc_node n) {
  return (tc_type)tc_rec_of(t, n)->dtype;
}

bool tc_rec_tape(tc_trace *t, bool on) {
  bool was = t->tape;
  if (TC_LIKELY(t != &tc_trace_refused && t != &tc_trace_no_memory)) t->tape = on;
  return was;
}
