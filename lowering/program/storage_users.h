// Who binds which place of a program, and who writes it: lists made once, in the order of the
// steps. Inside programs; not for others.
// Threads: immutable once made.
#ifndef TC_LOWERING_PROGRAM_SLOT_USERS_H
#define TC_LOWERING_PROGRAM_SLOT_USERS_H

#include "lowering/program/program_types.h"

// Which steps bind a place, each as often as it does, in their order.
typedef struct tc_storage_users {
  uint32_t *first, *step, n_low;  // n_low: places that are no blocks
} tc_storage_users;
static inline uint32_t tc_storage_users_at(const tc_storage_users *b, uint32_t storage) {
  return storage & ARENA_BIT ? b->n_low + (storage & ~ARENA_BIT) : storage;
}
// Those of a place are step[first] to step[end - 1].
static inline uint32_t tc_storage_users_first(const tc_storage_users *b, uint32_t storage) {
  return b->first[tc_storage_users_at(b, storage)];
}
static inline uint32_t tc_storage_users_end(const tc_storage_users *b, uint32_t storage) {
  return b->first[tc_storage_users_at(b, storage) + 1];
}
// writers: those alone that write it. False without memory; to be given back either way.
bool tc_storage_users_init(tc_storage_users *b, const tc_program *p, const tc_plan *plan, bool writers);
void tc_storage_users_fini(tc_storage_users *b);

#endif
