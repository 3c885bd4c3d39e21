// A record computed by plain loops, where libtc cannot run it.
#pragma once

#include "shim/values.h"

// in: a pointer an operand. Memory of malloc's; NULL: there is none.
void *tc_shim_plain(const tc_shim_value_record *record, const void *const *in);
