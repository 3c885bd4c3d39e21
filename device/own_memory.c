// See own_memory.h.
#include "device/own_memory.h"

tc_status tc_own_memory_of(tc_device d, tc_own_memory *out) {
  *out = (tc_own_memory){NULL, NULL};
  return tc_device_kind_of(d) == TC_DEVICE_LOADED ? tc_loaded_get(d, &out->loaded) : tc_gpu_get(d, &out->gpu);
}

tc_status tc_own_memory_take(tc_own_memory m, size_t bytes, void **out) {
  return m.gpu ? tc_gpu_take(m.gpu, bytes, out) : tc_loaded_take(m.loaded, bytes, out);
}

tc_status tc_own_memory_refuse(tc_own_memory m, size_t bytes) {
  return m.gpu ? tc_gpu_fail_memory(m.gpu, bytes) : tc_loaded_refuse(m.loaded, bytes);
}

static bool is_leaving;

void tc_own_memory_leave(void) {
  is_leaving = true;
}

void tc_own_memory_free(tc_own_memory m, void *p, size_t bytes) {
  if (m.gpu)
    tc_gpu_free(m.gpu, p);
  else if (!is_leaving)
    tc_loaded_free(m.loaded, p, bytes);
}

tc_status tc_own_memory_read(tc_own_memory m, void *to, const void *from, size_t bytes, uint64_t made) {
  return m.gpu ? tc_gpu_read_made(m.gpu, to, from, bytes, made) : tc_loaded_read(m.loaded, to, from, bytes);
}

tc_status tc_own_memory_write(tc_own_memory m, void *to, const void *from, size_t bytes) {
  return m.gpu ? tc_gpu_write(m.gpu, to, from, bytes) : tc_loaded_write(m.loaded, to, from, bytes);
}

tc_status tc_own_memory_copy(tc_own_memory m, void *to, const void *from, size_t bytes) {
  return m.gpu ? tc_gpu_copy(m.gpu, to, from, bytes) : tc_loaded_copy(m.loaded, to, from, bytes);
}
