// Names what breaks a trace: a graph pass, or else the part of lowering behind the passes.
//
//   graph after pass 1, 2, ..  --reference kernels-->  the first that is wrong: that pass
//   all are right              --other ways to run-->  fusion, emitters, code generator, ..
//
// In: a trace that fails. Out: text.
// Threads: thread-compatible. Owner: nobody.
#pragma once

#include "tools/minify/attempt.h"

// Writes what is found.
void tc_bisect(tc_judge *j, const tc_text *x, const tc_outcome *whole, FILE *out);
