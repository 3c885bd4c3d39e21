// Makes kernels of code or kernel IR in a file. See kernels.h.
#include "lowering/export/kernels.h"

#include <string.h>

#include "lowering/codegen/elf_loader.h"
#include "lowering/kir/serialize.h"
#include "lowering/kir/verify.h"
#include "runtime/arena.h"
#include "runtime/status.h"

static tc_kernel *create_kernel(const char *name) {
  tc_kernel *k = tc_calloc(1, sizeof *k);
  if (!k) return NULL;
  atomic_store_explicit(&k->refs, 1, memory_order_relaxed);
  snprintf(k->name, sizeof k->name, "%s", name);
  return k;
}

static tc_status no_room(void) {
  return TC_FAIL(TC_ERR_MEMORY, "no room for a kernel");
}

tc_status tc_kernel_of_object(const char *name, const void *object, size_t bytes, size_t scratch_bytes,
                              tc_kernel **out) {
  void *fn = NULL;
  tc_kernel *k = *out = create_kernel(name);
  if (!k) return no_room();
  tc_status st = tc_elf_load(object, bytes, name, &k->code, &fn);
  if (st != TC_OK) return tc_kernel_release(k), *out = NULL, st;
  tc_elf_announce(k->code, NULL);
  k->scratch_bytes = scratch_bytes;
  tc_kernel_fn *typed;
  memcpy(&typed, &fn, sizeof typed);
  atomic_store_explicit(&k->fn, typed, memory_order_release);
  return TC_OK;
}

tc_status tc_kernel_of_ir(const char *name, const tc_kir *kir, tc_kernel **out) {
  tc_kernel *k = *out = create_kernel(name);
  if (!k) return no_room();
  tc_status st = tc_interp_create(kir, &k->interp);
  if (st != TC_OK) return tc_kernel_release(k), *out = NULL, st;
  k->ctx = k->interp, k->scratch_bytes = tc_interp_scratch(k->interp);
  atomic_store_explicit(&k->fn, tc_interp_run, memory_order_release);
  return TC_OK;
}

// Whether the key's lists are as long as its counts say. Counts are small enough not to overflow.
static bool is_whole(const uint64_t *key, size_t bytes) {
  if (bytes < TC_KIR_KEY_WORDS * sizeof *key || key[0] > bytes || key[1] > bytes || key[2] > bytes) return false;
  tc_kir n = {.n_inst = (uint32_t)key[0], .n_tile = (uint32_t)key[1], .n_buf = (uint32_t)key[2]};
  return bytes <= UINT32_MAX / 64 && tc_kir_key_bytes(&n) == bytes && key[4] == 0 && key[6] >> 16 == 0;
}

tc_status tc_kernel_of_key(const char *name, const void *key, size_t bytes, uint32_t n_num, uint32_t n_buf,
                           tc_kernel **out) {
  char why[128] = "";
  *out = NULL;
  uint64_t *copy = tc_malloc(bytes + 1);
  if (!copy) return no_room();
  memcpy(copy, key, bytes);
  tc_kir kir = {.n_inst = 0};
  bool whole = is_whole(copy, bytes);
  if (whole) kir = tc_kir_of_key(copy), kir.n_num = n_num;
  tc_status st = !whole || kir.n_buf != n_buf                    ? TC_FAIL(TC_ERR_IO, "kernel %s is cut off", name)
                 : tc_kir_verify(&kir, why, sizeof why) != TC_OK ? TC_FAIL(TC_ERR_IO, "kernel %s: %s", name, why)
                                                                 : tc_kernel_of_ir(name, &kir, out);
  tc_free(copy);
  return st;
}
