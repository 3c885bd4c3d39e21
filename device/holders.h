// What holds the memory of GPUs, told where there is no more of it: an entry for every buffer,
// table and code.
// Threads: thread-safe, under a lock of its own, inside which no other is taken: so it may be told
// under a device's lock and that of the pools.
#ifndef TC_DEVICE_HOLDERS_H
#define TC_DEVICE_HOLDERS_H

#include "device/backends.h"
#include "runtime/status.h"

typedef enum tc_holding {
  TC_HOLDS_TENSOR,
  TC_HOLDS_ARENA,  // of a run under way
  TC_HOLDS_PREPARED,  // a form of a parameter (lowering/program/constant_cache.h)
  TC_HOLDS_POOLED,  // nothing: kept to be taken again
  TC_HOLDS_TABLE,  // words of a sequence of launches
  TC_HOLDS_OPERANDS,  // places for operands of libraries' calls (graph_copies.h)
  TC_HOLDS_CODE,
} tc_holding;
#define TC_N_HOLDINGS 7

// In the memory of its owner, who changes it by these functions alone.
typedef struct tc_holder tc_holder;
struct tc_holder {
  tc_holder *next, *before;  // of its device
  size_t bytes;
  tc_device device;
  tc_holding holding;
  bool listed;
  tc_call made;  // a TENSOR: by which call of the program, where it is known
};

void tc_holder_add(tc_holder *h, tc_device d, tc_holding holding, size_t bytes);
void tc_holder_set(tc_holder *h, tc_holding holding, tc_call made);
void tc_holder_remove(tc_holder *h);  // of one that was never added, nothing
// Who holds how much of a device's memory, the largest tensors with where they were made, and what
// is left for others. In one sentence; returns out.
const char *tc_holders_tell(tc_device d, size_t used_bytes, char *out, size_t bytes);

#endif
