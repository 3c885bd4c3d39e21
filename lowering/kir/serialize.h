// A kernel as the bytes that its kernel is found by, in memory and on disk: all of it, so that
// equal bytes are equal code.
#ifndef TC_LOWERING_KIR_SERIALIZE_H
#define TC_LOWERING_KIR_SERIALIZE_H

#include <stddef.h>

#include "lowering/kir/kir.h"

#define TC_KIR_KEY_WORDS 7  // before the lists

size_t tc_kir_key_bytes(const tc_kir *n);
// key: as many bytes, zeros.
void tc_kir_write_key(const tc_kir *n, uint64_t *key);
// A CPU's kernel from its key, whose lists it shares: without maps, and without the number of its
// arguments, which only tc_kir_verify looks at.
tc_kir tc_kir_of_key(uint64_t *key);

#endif
