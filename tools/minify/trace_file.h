// Traces from files, and data for leaves whose data are not in the file.
//
// Threads: thread-compatible. Owner: the caller has the text; data are the trace's.
#pragma once

#include "lazy/text/text.h"

// The whole file, ended by zero; "-": standard input. NULL: it cannot be read, and errno says why.
char *tc_trace_file_read(const char *path);
// Gives a leaf data by a formula of the seed and its number: multiples of 1/64 in [-2, 2), which
// every floating type holds; whole numbers of 0 to 3, which small tables can be indexed with. False
// without memory.
bool tc_trace_file_fill(tc_text *x, uint32_t n, uint64_t seed);
