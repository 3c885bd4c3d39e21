// Prints a kernel as text, one instruction a line, indented by loop: "%12 = f32x16 add %3 %7".
// In: any kernel, also one that does not verify. Out: text.
// Threads: thread-safe, pure. Owner: nobody; it keeps nothing.
#ifndef TC_LOWERING_KIR_PRINT_H
#define TC_LOWERING_KIR_PRINT_H

#include <stdio.h>

#include "lowering/kir/kir.h"

void tc_kir_print(const tc_kir *kir, FILE *out);

#endif
