// A nest as the bytes that its kernel is found by, in memory and on disk: all of it, so that equal
// bytes are equal code.
#ifndef TC_LOWERING_KIR_SERIALIZE_H
#define TC_LOWERING_KIR_SERIALIZE_H

#include <stddef.h>

#include "lowering/kir/kir.h"

#define TC_NEST_KEY_WORDS 7  // before the lists

size_t tc_nest_key_bytes(const tc_nest *n);
// key: as many bytes, zeros.
void tc_nest_write_key(const tc_nest *n, uint64_t *key);
// A CPU's nest from its key, whose lists it shares: without maps, and without the number of its
// arguments, which only tc_nest_verify looks at.
tc_nest tc_nest_of_key(uint64_t *key);

#endif
