// Options: those of the environment, read once; over them the process's (tc_set_options), and a
// region's of this thread (tc_region_begin).
//
// In: the environment, and what a program sets. Out: a value a row of options.def.
// Invariants: a tc_options never changes once it is seen, and lives as long as the process.
// Threads: thread-safe. Owner: option_sets.c.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef const char *tc_option_string;
typedef int64_t tc_option_number;

typedef struct tc_options {
#define TC_OPTION(field, variable, type, by, initial, words, meaning) tc_option_##type field;
#include "runtime/options.def"
#undef TC_OPTION
  // Equal numbers: all rows by plan are equal, so that equal records make equal plans. 0: those of
  // the environment
  uint32_t plan_class;
  bool has_budget;  // true: a region gave memory_budget, which goes before tc_set_memory_budget's
} tc_options;

// This thread's options, those of its innermost region with any; NULL: the process's.
extern _Thread_local const tc_options *tc_options_mine;
// The process's; NULL: the environment was not read yet. Release: who sees it sees the fields.
extern const tc_options *_Atomic tc_options_current;
// Those that hold outside of regions. A value of the environment that is not allowed is logged, and
// the default holds.
const tc_options *tc_options_of_process(void);
// Returns the thread's options, borrowed for the life of the process.
static inline const tc_options *tc_options_get(void) {
  const tc_options *o = tc_options_mine;
  if (!o) o = atomic_load_explicit(&tc_options_current, memory_order_acquire);
  return o ? o : tc_options_of_process();
}
// Makes `now` the process's in the place of `was`. False: they were no longer `was`.
bool tc_options_publish(const tc_options *was, const tc_options *now);
// Sets TC_EMBED. False: options were read without it before, so parts of the library may have acted
// on them.
bool tc_options_embed(void);
// Whether destructors free what the library keeps: at exit(), or when it is unloaded. Not inside a
// call, whose locks this thread has. Not after tc_options_keep_at_exit (embed.c).
bool tc_frees_at_exit(void);
void tc_options_keep_at_exit(void);
// For tests and tc-run: reads the environment again. pre: no other thread runs.
void tc_options_reload(void);
// Returns whether a test asks for this bug (TC_TEST_PLANT). Planning and gradients ask it, runs
// never do.
bool tc_planted(const char *name);
// TC_PROFILE: the file to write. NULL: none is asked for.
const char *tc_options_profile_file(void);
// Whether TC_PROFILE asks for a summary at exit.
bool tc_options_profile_summary(void);
// The variables that are set, as "NAME=VALUE NAME=VALUE"; what does not fit is cut.
void tc_options_text(char *out, size_t bytes);
// Prints the table of variables (TC_LOG=help and tc-info).
struct _IO_FILE;
void tc_options_print(struct _IO_FILE *out);
