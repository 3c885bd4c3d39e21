// Checks that a kernel keeps every rule of kir.h.
// In: a kernel. Out: TC_OK, or TC_ERR_ARG with the instruction's number and what is wrong in text
// ("" where all is right; bytes may be 0).
// Invariants: what it accepts, every code generator can print. Threads: thread-safe, pure. Owner:
// nobody; it keeps nothing.
#pragma once

#include "lowering/kir/kir.h"

tc_status tc_kir_verify(const tc_kir *kir, char *text, size_t bytes);
