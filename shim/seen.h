// What calls have touched before: pages of operands, and shapes.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Adds a range; returns how many of its bytes lie in pages that were not touched before, at most
// all of them.
uint64_t tc_shim_seen_bytes(const void *begin, uint64_t bytes);

// Whether a shape, named by 64 bits of hash, is a new one. False for all once the table is full.
bool tc_shim_seen_shape(uint64_t hash);

// Forgets all, in a child after fork.
void tc_shim_seen_reset(void);
