// Who binds which place of a program, and who writes it: lists made once, in the order of the steps. Inside programs; not for others.
// Threads: immutable once made.
#ifndef TC_LOWERING_PROGRAM_SLOT_USERS_H
#define TC_LOWERING_PROGRAM_SLOT_USERS_H

#include "lowering/program/program_types.h"

// Which steps bind a place, each as often as it does, in their order.
typedef struct tc_binders {
  uint32_t *first, *step, n_low;  // n_low: places that are no blocks
} tc_binders;
static inline uint32_t tc_binders_at(const tc_binders *b, uint32_t place) {
  return place & ARENA_BIT ? b->n_low + (place & ~ARENA_BIT) : place;
}
// Those of a place are step[first] to step[end - 1].
static inline uint32_t tc_binders_first(const tc_binders *b, uint32_t place) {
  return b->first[tc_binders_at(b, place)];
}
static inline uint32_t tc_binders_end(const tc_binders *b, uint32_t place) {
  return b->first[tc_binders_at(b, place) + 1];
}
// writers: those alone that write it. False without memory; to be given back either way.
bool tc_binders_init(tc_binders *b, const tc_program *p, const tc_plan *plan, bool writers);
void tc_binders_fini(tc_binders *b);

#endif
