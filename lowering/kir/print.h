// Prints a kernel as text, one instruction a line, indented by loop: "%12 = f32x16 add %3 %7".
// In: any kernel, also one that does not verify. Out: text.
// Threads: thread-safe, pure. Owner: nobody; it keeps nothing.
#pragma once

#include <stdio.h>

#include "lowering/kir/kir.h"

void tc_kir_print(const tc_kir *kir, FILE *out);
// The line of that text, counted from 1, on which instruction `at` is.
static inline unsigned tc_kir_line(const tc_kir *kir, uint32_t at) {
  return (kir->threads > 0) + (kir->cluster > 0) + kir->n_buf + kir->n_tile + kir->n_map + at + 1;
}
