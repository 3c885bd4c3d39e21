// The live buffers over memory of callers, and which of them share bytes.
//
// In: buffers as they are wrapped and released. Out: buffers that are aliased; those of a range, or
// of a handle.
// Invariants: two live buffers that share bytes, one of them writable, are both marked as aliased.
// The mark stays.
// Threads: thread-safe, one lock, which is the innermost. Owner: nobody; a buffer is in the list
// while it lives.
#pragma once

#include "device/buffer.h"

// Whether two ranges share bytes.
static inline bool tc_ranges_overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
  uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
  return a_bytes && b_bytes && x < y + b_bytes && y < x + a_bytes;
}
void tc_external_add(tc_buffer *b);
// A buffer that is not in the list is ignored. pre: the caller has the only reference, or the
// trace's lock.
void tc_external_remove(tc_buffer *b);
// The handle of the nth writable buffer over exactly this memory, the newest first; false: there
// are not so many.
bool tc_external_find(const void *ptr, size_t bytes, uint32_t nth, uint64_t *out_handle);
// The buffer over the memory that was borrowed as this handle, a new reference; NULL: it was given
// back.
tc_buffer *tc_external_of(uint64_t handle);
