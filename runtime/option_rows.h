// The rows of options.def as a table, for what goes by a name: values, listing, overlays.
//
// In: a name, or a value as text. Out: its row, and what is wrong with the value.
// Threads: thread-safe, constant. Owner: nobody.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum tc_option_row {
#define TC_OPTION(field, variable, type, by, initial, words, meaning) TC_ROW_##field,
#include "runtime/options.def"
#undef TC_OPTION
  TC_N_OPTION_ROWS
} tc_option_row;

// The column `by`: what may set it besides the environment. Each kind may what those before it may.
typedef enum tc_option_by { TC_BY_start, TC_BY_process, TC_BY_region, TC_BY_plan } tc_option_by;

typedef struct tc_option_facts {
  const char *key, *variable, *words, *meaning;  // words: NULL allows every value
  size_t offset;  // of its field in tc_options
  tc_option_by by;
  bool is_number;
} tc_option_facts;

extern const tc_option_facts tc_option_rows[TC_N_OPTION_ROWS];

#define TC_OPTION_WHY 192  // bytes of a text that says what is wrong with a value

// The row of a name of n bytes, which is a field ("strict") or a variable ("TC_STRICT"); -1: none.
int tc_option_find(const char *name, size_t n);
// The field that resembles the name most. NULL: none resembles it.
const char *tc_option_near(const char *name, size_t n);
// Whether the row takes this text; *number is its value where the row is a number. False: why says
// what it should be.
bool tc_option_takes(tc_option_row row, const char *text, int64_t *number, char why[TC_OPTION_WHY]);
