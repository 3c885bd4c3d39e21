// Compares two fragments of one body: whether what it reads in C has changed its graph.
//
// In: two fragments. Out: whether they are the same, or the first difference as text.
// Invariants: random counters and an optimizer's numbers do not count.
// Threads: any. Owner: nobody.
#pragma once

#include "lazy/compile/fragment.h"

// out: "mul at model.c:12 has 3, had 2". Empty if they are the same.
bool tc_fragment_same(const tc_fragment *was, const tc_fragment *now, char *out, size_t bytes);
