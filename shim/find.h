// Finds the routine that a caller would have had without the shim.
#pragma once

#include "shim/shim.h"

// The callee of an entry for a return address: one that is known, else it is looked for and kept.
// Where there is none, the process ends as the dynamic linker would end it: with an error and
// status 127.
const tc_shim_callee *tc_shim_find(uint32_t entry, uintptr_t caller);

// Zeroed memory that is never freed; NULL if there is none.
void *tc_shim_memory(size_t bytes);

// Whether calls of a module were passed on because the options leave it out.
bool tc_shim_has_left_out(void);

// The file that an address belongs to and where it begins; false if it is in no module.
bool tc_shim_module_of(uintptr_t address, char *path, size_t path_bytes, uintptr_t *out_base, uintptr_t *out_end);

static inline const tc_shim_callee *tc_shim_callee_of(uint32_t entry, uintptr_t caller) {
  const tc_shim_callee *c = __atomic_load_n(&tc_shim_slots[entry].callees, __ATOMIC_ACQUIRE);
  for (; c; c = __atomic_load_n(&c->next, __ATOMIC_RELAXED))
    if (caller - c->from < c->bytes) return c;
  return tc_shim_find(entry, caller);
}
