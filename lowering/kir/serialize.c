// Kernels to keys, and back. See serialize.h.
#include "lowering/kir/serialize.h"

#include <string.h>

size_t tc_kir_key_bytes(const tc_kir *n) {
  return TC_KIR_KEY_WORDS * sizeof(uint64_t) + n->n_inst * sizeof n->inst[0] + n->n_tile * sizeof n->tile[0] +
         n->n_map * sizeof n->map[0] + (n->n_buf + 7) / 8 * 8;
}

void tc_kir_write_key(const tc_kir *n, uint64_t *key) {
  char *p = (char *)(key + TC_KIR_KEY_WORDS);
  key[4] = (uint64_t)n->cluster << 32 | (uint64_t)n->threads << 16 | n->groups, key[5] = n->over;
  key[6] = (uint64_t)n->n_map << 16 | n->stages;
  key[0] = n->n_inst, key[1] = n->n_tile, key[2] = n->n_buf, key[3] = (uint64_t)n->scratch_bytes;
  memcpy(p, n->inst, n->n_inst * sizeof n->inst[0]);
  p += n->n_inst * sizeof n->inst[0];
  if (n->n_tile) memcpy(p, n->tile, n->n_tile * sizeof n->tile[0]);
  p += n->n_tile * sizeof n->tile[0];
  if (n->n_map) memcpy(p, n->map, n->n_map * sizeof n->map[0]);
  p += n->n_map * sizeof n->map[0];
  if (n->n_buf) memcpy(p, n->buf_type, n->n_buf);
}

tc_kir tc_kir_of_key(uint64_t *key) {
  char *lists = (char *)(key + TC_KIR_KEY_WORDS);
  tc_kir n = {.n_inst = (uint32_t)key[0],
              .n_tile = (uint32_t)key[1],
              .n_buf = (uint32_t)key[2],
              .scratch_bytes = (int64_t)key[3]};
  n.inst = (tc_kir_inst *)(void *)lists;
  n.tile = (tc_kir_tile *)(void *)(lists + n.n_inst * sizeof n.inst[0]);
  n.buf_type = (uint8_t *)(n.tile + n.n_tile);
  return n;
}
