// The distance between two names, for messages that guess what was meant.
// Threads: thread-safe, pure.
#pragma once

#include <stddef.h>

#define TC_EDITS_BYTES 128  // the longest name

// Returns how many bytes to change, insert, drop or swap to turn a into b. pre: neither name is
// longer than TC_EDITS_BYTES.
size_t tc_edits(const char *a, size_t n_a, const char *b, size_t n_b);
