// Tensor memory: counted buffers from size-class pools. A buffer's content never changes while more than one reference holds it.
//
// Runs on the CPU finish before the sync that started them returns, so references alone say when memory is quiet. The object and its memory are
// pooled together: in steady state nothing is allocated. Threads: thread-safe; reference counts are atomic, pools are under one lock.
#ifndef TC_DEVICE_BUFFER_H
#define TC_DEVICE_BUFFER_H

#include <stdatomic.h>

#include "runtime/status.h"

typedef enum tc_origin {
  TC_ORIGIN_OWNED,
  TC_ORIGIN_BORROWED,  // the caller's, read only
  TC_ORIGIN_USER,      // the caller's, assigns must land there
} tc_origin;

typedef struct tc_buffer tc_buffer;
struct tc_buffer {
  _Atomic uint32_t refs;  // slots, traces, runs, maps
  uint8_t origin;
  uint16_t size_class;
  size_t bytes;           // usable
  void *ptr;
  void (*drop)(void *arg);  // borrowed memory: called when the last reference goes
  void *drop_arg;
  tc_buffer *next;        // in a pool
};

// A buffer of at least bytes, content undefined, one reference. TC_ERR_MEMORY beyond the cap or when the system has none.
tc_status tc_buffer_create(size_t bytes, tc_buffer **out);
// Wraps the caller's memory; on failure drop is not called.
tc_status tc_buffer_wrap(void *ptr, size_t bytes, tc_origin origin, void (*drop)(void *), void *arg, tc_buffer **out);
static inline tc_buffer *tc_buffer_retain(tc_buffer *b) {
  atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
  return b;
}
void tc_buffer_release(tc_buffer *b);  // NULL is fine
static inline uint32_t tc_buffer_refs(const tc_buffer *b) {
  return atomic_load_explicit(&b->refs, memory_order_acquire);
}

#endif
