// Options from the environment, read once.
// Threads: thread-safe after the first call.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef const char *tc_option_string;
typedef int64_t tc_option_number;

typedef struct tc_options {
#define TC_OPTION(field, variable, type, initial, words, meaning) tc_option_##type field;
#include "runtime/options.def"
#undef TC_OPTION
} tc_options;

// Returns the options, borrowed for the life of the process. A value that is not allowed is logged,
// and the default holds.
const tc_options *tc_options_get(void);
// Sets TC_EMBED. False: options were read without it before, so parts of the library may have acted
// on them.
bool tc_options_embed(void);
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
