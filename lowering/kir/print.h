// Prints a nest as text, one instruction a line, indented by loop: "%12 = f32x16 add %3 %7".
// In: any nest, also one that does not verify. Out: text.
// Threads: thread-safe, pure. Owner: nobody; it keeps nothing.
#ifndef TC_LOWERING_KIR_PRINT_H
#define TC_LOWERING_KIR_PRINT_H

#include <stdio.h>

#include "lowering/kir/kir.h"

void tc_nest_print(const tc_nest *nest, FILE *out);

#endif
