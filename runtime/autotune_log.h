// What autotuning decided: the candidates, the winner and the margin. TC_LOG=tune logs all of it at
// exit.
// In: entries from measurements or from the tuning cache.
// Threads: thread-safe.
#pragma once

#include <stdint.h>
#include <stdio.h>

// Adds an entry, or replaces the one of the same name. what names the operation and is copied;
// winner and other are static text.
void tc_autotune_log_add(const char *what, const char *winner, uint64_t winner_ns, const char *other,
                         uint64_t other_ns);
int tc_autotune_log_count(void);
// Prints one entry a line, below a heading; nothing if there are none.
void tc_autotune_log_print(FILE *out);
