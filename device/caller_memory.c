// Buffers over memory of the caller: strided ones, copies as they lie, and where the content goes
// when the memory is written or given back. See buffer.h.
#include <string.h>

#include "device/external.h"
#include "runtime/arena.h"

tc_status tc_buffer_read_span(const tc_buffer *b, void *to, size_t bytes) {
  if (TC_LIKELY(!b->strided)) return tc_buffer_read(b, to, bytes);
  tc_strided_move(b->strided, memset(to, 0, bytes), b->ptr);
  return TC_OK;
}

tc_status tc_buffer_copy_span(tc_buffer *to, const tc_buffer *b) {
  if (TC_LIKELY(!b->strided)) return tc_buffer_copy(to, b, b->bytes);
  void *span = tc_calloc(1, b->bytes);
  if (!span) return TC_FAIL(TC_ERR_MEMORY, "no room to carry %zu bytes from one memory to another", b->bytes);
  tc_strided_move(b->strided, span, b->ptr);
  tc_status st = tc_buffer_write(to, span, b->bytes);
  tc_free(span);
  return st;
}

tc_status tc_buffer_wrap_strided(void *ptr, tc_origin origin, const tc_strided *strided, void (*drop)(void *),
                                 void *arg, tc_buffer **out) {
  *out = NULL;
  tc_strided *own = tc_strided_create(strided);
  if (!own) return TC_FAIL(TC_ERR_MEMORY, "no room for a buffer object");
  tc_status st = tc_buffer_wrap(ptr, own->span_bytes, origin, drop, arg, out);
  if (st != TC_OK) return tc_strided_release(own), st;
  (*out)->strided = own;
  return TC_OK;
}

void tc_buffer_move(tc_buffer *b, tc_buffer *spare) {
  if (b->strided)
    tc_strided_move(b->strided, spare->ptr, b->ptr);
  else
    memcpy(spare->ptr, b->ptr, b->bytes);
  tc_buffer_swap(b, spare);
}

void tc_buffer_swap(tc_buffer *b, tc_buffer *spare) {
  tc_external_remove(b);
  if (b->strided) spare->strided = tc_strided_retain(b->strided);
  tc_buffer_unstamp(spare);
  void *own = spare->ptr;
  size_t own_bytes = spare->bytes;
  spare->origin = b->origin, spare->ptr = b->ptr, spare->bytes = b->bytes, spare->drop = b->drop,
  spare->drop_arg = b->drop_arg;
  atomic_store_explicit(&spare->handle, atomic_load_explicit(&b->handle, memory_order_relaxed), memory_order_relaxed);
  if (atomic_load_explicit(&b->aliased, memory_order_relaxed))
    atomic_store_explicit(&spare->aliased, true, memory_order_relaxed);
  b->origin = TC_ORIGIN_OWNED, b->ptr = own, b->bytes = own_bytes, b->drop = NULL, b->size_class = spare->size_class;
  tc_external_add(spare);
}
