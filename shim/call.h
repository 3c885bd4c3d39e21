// What stubs.S asks of C.
#pragma once

#include "shim/shim.h"

// Where a call goes whose entry has no slot yet, or whose caller is new to it.
void *tc_shim_first(uint32_t entry, uintptr_t caller);

// Before each call that is watched; afterwards, where it was timed.
tc_shim_next tc_shim_before(uint32_t entry, const int64_t *base, tc_shim_call *call);
void tc_shim_after(const int64_t *base, tc_shim_call *call);
