// Blocks: mappings of their own for large allocations, and their table.
#pragma once

#include "shim/memory/memory.h"

// A new block, whose memory is zero, aligned to TC_HUGE_BYTES; NULL: no memory.
void *tc_shim_block_take(size_t asked);
// Unmaps it. Nothing may guard it.
void tc_shim_block_give(tc_shim_block *block);

// A range of addresses aligned to TC_HUGE_BYTES, without access; NULL: none.
void *tc_shim_range_take(size_t bytes);

// Around fork.
void tc_shim_blocks_lock(void);
void tc_shim_blocks_unlock(void);
