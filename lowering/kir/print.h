// Prints a kernel as text, one instruction a line, indented by loop: "%12 = f32x16 add %3 %7".
// In: any kernel, also one that does not verify. Out: text.
// Threads: thread-safe, pure. Owner: nobody; it keeps nothing.
#pragma once

#include <stdio.h>

#include "lowering/kir/kir.h"

void tc_kir_print(const tc_kir *kir, FILE *out);
