// Finds objects of kernels on disk, or compiles them. See object_cache.h.
#include "lowering/jit/object_cache.h"

#include <stdlib.h>
#include <string.h>

#include "lowering/jit/compile_record.h"
#include "lowering/jit/compiler.h"
#include "runtime/arena.h"
#include "runtime/disk.h"
#include "runtime/log.h"
#include "runtime/status.h"

static tc_disk kept = TC_DISK("cpu");

// The disk key, all that an object depends on: compiler and target, function name, kernel IR. NULL:
// the disk cache is off, or no memory. To be freed.
static char *disk_key(const tc_kernel *k, size_t *bytes) {
  const char *who = tc_compiler_head();
  if (!*who || !tc_disk_is_on()) return NULL;
  size_t head = strlen(who), name = strlen(k->name) + 1;
  *bytes = head + name + k->key_bytes;
  char *key = tc_malloc(*bytes);
  if (!key) return NULL;
  memcpy(key, who, head);
  memcpy(key + head, k->name, name);
  memcpy(key + head + name, k->key, k->key_bytes);
  return key;
}

bool tc_object_find(tc_kernel *k, const tc_kir *kir) {
  size_t key_bytes, bytes;
  uint64_t start = tc_now_ns();
  char *key = disk_key(k, &key_bytes), *object = key ? tc_disk_find(&kept, key, key_bytes, &bytes) : NULL;
  tc_free(key);
  if (!object) return false;
  tc_error_mark before = tc_error_now();
  k->from_disk = tc_kernel_load(k, kir, object, bytes) == TC_OK;
  if (!k->from_disk) {
    tc_log_line(TC_LOG_WARN, "%s from the disk does not load and is compiled again", k->name);
    (void)tc_error_tell(before);
  }
  tc_free(object);
  tc_compile_stage_add(TC_STAGE_LOAD, tc_now_ns() - start);
  return k->from_disk;
}

tc_status tc_object_make(tc_kernel *k, const tc_kir *kir) {
  void *object;
  size_t bytes = 0, key_bytes;
  uint64_t start = tc_now_ns();
  TC_TRY(tc_compiler_make(kir, k->name, &object, &bytes));
  uint64_t generated = tc_now_ns(), emit = tc_compiler_emit_ns();
  tc_status st = tc_kernel_load(k, kir, object, bytes);
  tc_compile_stage_add(TC_STAGE_EMIT, emit);
  tc_compile_stage_add(TC_STAGE_GENERATE, generated - start - TC_MIN(generated - start, emit));
  tc_compile_stage_add(TC_STAGE_LOAD, tc_now_ns() - generated);
  char *key = st == TC_OK && tc_compiler_is_of_head() ? disk_key(k, &key_bytes) : NULL;
  if (key) tc_disk_keep(&kept, key, key_bytes, object, bytes);
  tc_free(key);
  free(object);
  return st;
}
