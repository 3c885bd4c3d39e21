// Contests that measurement or a choices file decided: what was chosen among, who won, and by how
// much. TC_PROFILE=1 prints them at exit. Threads: thread-safe.
#ifndef TC_RUNTIME_CONTESTS_H
#define TC_RUNTIME_CONTESTS_H

#include <stdint.h>
#include <stdio.h>

// what: of which product, copied. winner, other: static text. A second one of the same name takes
// the first one's place.
void tc_contest_add(const char *what, const char *winner, uint64_t winner_ns, const char *other, uint64_t other_ns);
// One a line, after a heading; nothing where there are none.
void tc_contests_print(FILE *out);

#endif
