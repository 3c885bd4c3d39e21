// Finds what repeats in a sequence: the step of a loop, in the syncs of a thread.
// In: symbols, and what each weighs, in time. Out: the symbols of one step.
// A first part that does not repeat, symbols now and then between steps, and irregular ones within
// some steps do not hide it. Of nested loops it is the inner one, unless what the outer one adds
// comes in more than one step of five.
// Threads: one.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tc_period {
  uint32_t *symbol;  // of one step, in the caller's hands; NULL: nothing repeats
  size_t n;
} tc_period;

// False: there was no memory.
bool tc_period_find(const uint32_t *symbol, const double *weight, size_t n, tc_period *out);
