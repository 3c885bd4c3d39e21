// Lists the steps that bind, or write, each storage of a program, in the order of the steps.
// Internal to program/.
// Threads: immutable once built.
#pragma once

#include "lowering/program/program_types.h"

// Steps that bind a storage, each as often as it does, in their order.
typedef struct tc_storage_users {
  uint32_t *first, *step, n_low;  // n_low: storages that are not allocations
} tc_storage_users;
static inline uint32_t tc_storage_users_at(const tc_storage_users *b, uint32_t storage) {
  return storage & ARENA_BIT ? b->n_low + (storage & ~ARENA_BIT) : storage;
}
// The users of a storage are step[first] to step[end - 1].
static inline uint32_t tc_storage_users_first(const tc_storage_users *b, uint32_t storage) {
  return b->first[tc_storage_users_at(b, storage)];
}
static inline uint32_t tc_storage_users_end(const tc_storage_users *b, uint32_t storage) {
  return b->first[tc_storage_users_at(b, storage) + 1];
}
// Makes the lists in the arena. writers: of steps that write the storage. False without memory.
bool tc_storage_users_init(tc_storage_users *b, const tc_program *p, const tc_plan *plan, bool writers,
                           tc_arena *arena);
