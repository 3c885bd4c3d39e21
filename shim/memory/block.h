// Blocks: mappings of their own for large allocations, and their table.
#pragma once

#include "shim/memory/memory.h"

// A new block, whose memory is zero, aligned to TC_HUGE_BYTES; NULL: no memory.
void *tc_shim_block_take(size_t asked);
// Unmaps it. Nothing may guard it.
void tc_shim_block_give(tc_shim_block *block);

// Whether the program has another allocator than the C library's, beside which no block is taken.
bool tc_shim_allocator_is_other(void);

// A range of addresses aligned to TC_HUGE_BYTES, without access; NULL: none.
void *tc_shim_range_take(size_t bytes);

// The first block that lies in a range, which then begins behind it; NULL: none.
tc_shim_block *tc_shim_block_next(uintptr_t *at, uintptr_t end);

// A block without a guard gets another size, and another place; its contents go with it. NULL: not
// possible, and nothing changed.
void *tc_shim_block_resize(tc_shim_block *block, size_t asked);
