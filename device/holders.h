// What holds the memory of GPUs, printed when there is no more of it: an entry for every buffer,
// table and code.
// Threads: thread-safe, under a lock of its own inside which no other is taken. So it may be
// printed under a device's lock and that of the pools.
#pragma once

#include "device/backends.h"
#include "runtime/status.h"

typedef enum tc_holding {
  TC_HOLDS_TENSOR,
  TC_HOLDS_ARENA,  // of a run under way
  TC_HOLDS_CONSTANT_CACHE,  // a value derived from a parameter (lowering/program/constant_cache.h)
  TC_HOLDS_POOLED,  // none: it is kept to be used again
  TC_HOLDS_TABLE,  // words of a sequence of launches
  TC_HOLDS_OPERANDS,  // copies of libraries' operands (graph_copies.h)
  TC_HOLDS_CODE,
} tc_holding;
#define TC_N_HOLDINGS 7

// An entry, in memory of its owner, who changes it by these functions alone.
typedef struct tc_holder tc_holder;
struct tc_holder {
  tc_holder *next, *before;  // of its device; NULL: there is none
  size_t bytes;
  tc_device device;
  tc_holding holding;
  bool listed;
  tc_call made;  // of a TENSOR: the call that made it; all zero: unknown
};

void tc_holder_add(tc_holder *h, tc_device d, tc_holding holding, size_t bytes);
void tc_holder_set(tc_holder *h, tc_holding holding, tc_call made);
void tc_holder_remove(tc_holder *h);  // does nothing if h was never added
// Writes one sentence: what holds how much of a device's memory, where the largest tensors were
// made, and what is left for other programs. Returns out.
const char *tc_holders_tell(tc_device d, size_t used_bytes, char *out, size_t bytes);
