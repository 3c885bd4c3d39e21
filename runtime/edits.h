// How unlike two names are: for messages that guess what was meant. Threads: pure.
#ifndef TC_RUNTIME_EDITS_H
#define TC_RUNTIME_EDITS_H

#include <stddef.h>

#define TC_EDITS_BYTES 128  // of a name, at most

// Levenshtein's distance, where two neighbours that changed places are one edit: how many bytes to
// change, insert, drop or swap make b of a. pre: neither is longer than TC_EDITS_BYTES.
size_t tc_edits(const char *a, size_t n_a, const char *b, size_t n_b);

#endif
