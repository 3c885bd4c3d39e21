// A complete C program over the public API that shows what a trace shows.
//
// In: a trace that fails, and how. Out: the program. It runs the trace whole; where a value is
// wrong also op by op on the reference device, and compares. Its exit status is 1 while it fails.
// Threads: thread-compatible. Owner: nobody.
#pragma once

#include "tools/minify/attempt.h"

// origin: what the trace was made of. False: *op names a record that no public function makes, and
// nothing was written.
bool tc_c_program_write(FILE *out, const tc_text *x, const tc_judge *j, const tc_outcome *o, const char *origin,
                        const char **op);
