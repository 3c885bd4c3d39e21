// The buffers in use, while there is a profile, and the highest point of memory in use.
//
// In: buffers as they are made and released. Out: the largest ones at a new highest point.
// Invariants: what was made before the profile began is not listed.
// Threads: thread-safe; its lock is taken within the pools'. Owner: the pools own the buffers.
#pragma once

#include "device/buffer.h"

// Memory in use, of the host and of GPUs, at a new highest point: a tenth above the last one.
#define TC_HIGH_ROWS 16
typedef struct tc_high {
  uint64_t at_ns, bytes;
  uint32_t n_live, n_row;  // n_live: buffers listed
  struct {
    const tc_buffer *buffer;  // it may be released already
    tc_call maker;
    uint64_t bytes;
  } row[TC_HIGH_ROWS];  // the largest first
} tc_high;

// The buffer was made by the running call; so many bytes are in use with it.
void tc_live_add(tc_buffer *b, uint64_t in_use_bytes);
void tc_live_remove(tc_buffer *b);
// As tc_buffer_tell. pre: the buffer is listed.
void tc_live_tell(tc_buffer *b, tc_holding holding, tc_call made);
// Takes the highest point since the last call. False: there was none.
bool tc_live_high_take(tc_high *out);
// A profile begins: the next memory that is taken is a new highest point.
void tc_live_high_begin(void);
