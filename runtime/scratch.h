// Scratch memory of one thread, which grows and is kept.
// Threads: thread-compatible.
// Owner: the declaring thread.
#pragma once

#include "runtime/status.h"

typedef struct tc_scratch {
  void *base;  // owned, as malloc returned it
  void *aligned;  // inside base, at a multiple of 64 bytes
  size_t bytes;  // usable from aligned
} tc_scratch;

void tc_scratch_free(tc_scratch *s);
bool tc_scratch_grow(tc_scratch *s, size_t bytes);
// Makes space for `bytes`; growing loses the content. False: there is no memory.
static inline bool tc_scratch_reserve(tc_scratch *s, size_t bytes) {
  return TC_LIKELY(bytes <= s->bytes) || tc_scratch_grow(s, bytes);
}
