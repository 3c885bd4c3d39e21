// The trace of this thread, and the leaves of a trace. See trace.h.
#include "lazy/trace/trace.h"

_Thread_local tc_trace *tc_trace_mine;

// Leaves stand in the order of their nodes.
tc_buffer *tc_trace_leaf_of(const tc_trace *t, tc_node n) {
  uint32_t low = 0, high = t->n_leaf;
  while (high - low > 1) {
    uint32_t mid = (low + high) / 2;
    *(t->leaf[mid].node <= n ? &low : &high) = mid;
  }
  return t->leaf[low].buf;
}
