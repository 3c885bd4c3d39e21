// Options from the environment, read once. Threads: thread-safe after the first call.
#ifndef TC_RUNTIME_OPTIONS_H
#define TC_RUNTIME_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

typedef const char *tc_option_string;
typedef int64_t tc_option_number;

typedef struct tc_options {
#define TC_OPTION(field, variable, type, initial, words, meaning) tc_option_##type field;
#include "runtime/options.def"
#undef TC_OPTION
} tc_options;

// The options, borrowed for the life of the process. A value that is not allowed is logged and its
// default kept.
const tc_options *tc_options_get(void);
// For tests and tc-run: read the environment again. Not while other threads run.
void tc_options_reload(void);
// Whether the tests ask for this bug (TC_TEST_PLANT). Asked where plans and gradients are made,
// never where they run.
bool tc_planted(const char *name);
// Writes the table of variables to a stream (TC_LOG=help and tc-info).
struct _IO_FILE;
void tc_options_print(struct _IO_FILE *out);

#endif
