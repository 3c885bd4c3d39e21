// Writes JSON to standard output: objects and arrays, with the commas between.
// Keys are NULL inside arrays. Numbers that JSON cannot say are null. Threads: one.
#pragma once

#include <stdbool.h>
#include <stdint.h>

void tc_json_object(const char *key);
void tc_json_array(const char *key);
// Ends the innermost object or array; the outermost with a newline.
void tc_json_end(void);
void tc_json_text(const char *key, const char *text);
void tc_json_number(const char *key, double x);
void tc_json_count(const char *key, uint64_t n);
// An array of numbers in one line.
void tc_json_numbers(const char *key, const double *x, int n);
// Nanoseconds as microseconds with three digits behind the point.
void tc_json_us(const char *key, double ns);
void tc_json_bool(const char *key, bool is);
void tc_json_hash(const char *key, uint64_t hash);  // as 16 hex digits in a string
