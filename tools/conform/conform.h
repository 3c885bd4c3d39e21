// The checks of tc-conform: what a loaded back end must do, in groups.
//
// In: a back end's file, loaded. Out: a line a group, and a line for each of its first failures.
// Threads: checks of one group may be counted by several threads. Owner: static.
#pragma once

#include <stdbool.h>
#include <tc/backend.h>

// ---- counting ----

void conform_begin(const char *group);
// Counts a check of the group; a failure's text is printed.
bool conform_check(bool ok, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void conform_left(void);  // counts a case whose op the back end does not take
void conform_end(void);  // prints the group's line, unless it had no check

// ---- groups ----

// The object itself: its table, what it says to wrong questions, memory, kernels.
void conform_table(const char *path);
// Every op that has samples, and the others that move or make elements, against tc:ref.
void conform_ops(const char *device, bool all);
void conform_moves(const char *device);
// Copies, empty and large tensors, refusals.
void conform_memory(const char *device);
// Work in order, with memory used again; several threads.
void conform_order(const char *device);
void conform_threads(const char *device);
// Training steps: gradients, optimizers, in-place assigns.
void conform_training(const char *device);
// tc_shutdown and use again; a child of fork().
void conform_reopening(const char *device);
