// The live buffers over memory of callers, and which of them share bytes.
//
// In: buffers as they are wrapped and released. Out: buffers that are aliased; the writable one of a
// range.
// Invariants: two live buffers that share bytes, one of them writable, are both marked as aliased.
// The mark stays.
// Threads: under the lock of the pools. Owner: nobody; a buffer is in the list while it lives.
#pragma once

#include "device/buffer.h"

typedef struct tc_external {
  tc_buffer *user, *borrowed;  // by origin, the newest first
} tc_external;

void tc_external_add(tc_external *e, tc_buffer *b);
// A buffer that is in no list is ignored.
void tc_external_remove(tc_external *e, tc_buffer *b);
// The same of the one list of all wrapped memory, under its lock.
void tc_buffer_list(tc_buffer *b);
void tc_buffer_unlist(tc_buffer *b);
// The newest writable buffer of exactly this memory; NULL: none.
tc_buffer *tc_external_find(const tc_external *e, const void *ptr, size_t bytes);
