// Serializes a kernel to its cache key, in memory and on disk. The key holds all of the kernel, so
// equal bytes are equal code.
// Threads: thread-safe, pure. Owner: the caller owns the key.
#pragma once

#include <stddef.h>

#include "lowering/kir/kir.h"

#define TC_KIR_KEY_WORDS 7  // 64-bit words before the lists

size_t tc_kir_key_bytes(const tc_kir *n);
// key: tc_kir_key_bytes bytes, zeroed by the caller.
void tc_kir_write_key(const tc_kir *n, uint64_t *key);
// A CPU kernel from its key, whose lists it borrows. It has no tensor maps and no n_num, which only
// tc_kir_verify reads.
tc_kir tc_kir_of_key(uint64_t *key);
