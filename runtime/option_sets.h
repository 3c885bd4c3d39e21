// Sets of options: one under another with "key=value,key=value" over it. Equal sets are one.
//
// In: the set that is inherited, and text. Out: a set that lives as long as the process.
// Invariants: a mode's implied values give way to rows that were given with it or after it. A set
// does not change once it was handed out, but that of the environment (tc_options_reload).
// Threads: thread-safe, one lock. Owner: this file; at most 1024 sets.
#pragma once

#include <tc/tc.h>

#include "runtime/option_rows.h"
#include "runtime/options.h"

typedef struct tc_option_set {
  tc_options as;  // first: what tc_options_get returns
  tc_options given;  // before what its mode implies
  bool later[TC_N_OPTION_ROWS];  // per row: it was given with the mode or after it
  struct tc_option_set *next;
} tc_option_set;

// pre: `given` and `later` are filled. Fills `as` of the environment's set; forgets other sets.
void tc_option_sets_begin(tc_option_set *base);
// At the end of the process, or when the library is unloaded. No other thread has options: all sets
// and texts are freed behind the library's other destructors.
void tc_option_sets_end(void);
// The set that `text` makes of `under`. region: rows that only the process may set are refused.
// TC_ERR_ARG for a name that is no row, a row that may not be set, or a value it does not take.
// TC_ERR_STATE beyond 1024 sets. TC_ERR_MEMORY.
tc_status tc_options_overlay(const tc_options *under, const char *text, bool region, const char *op, tc_site site,
                             const tc_options **out);
// Name number i of the values of mode, and what it sets; NULL beyond the last. Static.
const char *tc_option_mode(int i, const char **out_meaning);
