// Builds the lists of storage users. See storage_users.h.
#include "lowering/program/storage_users.h"

#include "runtime/arena.h"
#include "runtime/passes.h"

bool tc_storage_users_init(tc_storage_users *b, const tc_program *p, const tc_plan *plan, bool writers,
                           tc_arena *arena) {
  *b = (tc_storage_users){.n_low = plan->n_leaf + plan->n_out + p->n_cached};
  uint32_t n = b->n_low + p->n_allocation, sum = 0;
  b->first = tc_arena_alloc(arena, (n + 2) * sizeof *b->first);
  b->step = tc_arena_alloc(arena, (p->n_binding + 1) * sizeof *b->step);
  if (!b->first || !b->step) return false;
  // A counting sort: first[x + 1] is where the next user of storage x goes, and finally its end.
  for (int fill = 0; fill < 2; fill++) {
    for (uint32_t i = 0; i < p->n_step; i++)
      for (uint32_t j = 0; j < p->step[i].n_binding; j++) {
        uint32_t *at = &b->first[tc_storage_users_at(b, p->binding[p->step[i].first_binding + j]) + 1];
        if (writers && !tc_step_writes(&p->step[i], j)) continue;
        if (fill) b->step[*at] = i;
        ++*at;
      }
    for (uint32_t x = 1; x <= n && !fill; x++) {
      uint32_t count = b->first[x];
      b->first[x] = sum, sum += count;
    }
  }
  tc_count(TC_PASS_ORDER, p->n_binding + n);
  return true;
}
