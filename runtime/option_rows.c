// See option_rows.h.
#include "runtime/option_rows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/edits.h"
#include "runtime/options.h"

#define IS_string false
#define IS_number true
#define TWO_NUMBERS "NxN"  // for words, where a text must be two numbers as 64x128

const tc_option_facts tc_option_rows[TC_N_OPTION_ROWS] = {
#define TC_OPTION(field, variable, type, by, initial, words, meaning) \
  {#field, #variable, words, meaning, offsetof(tc_options, field), TC_BY_##by, IS_##type},
#include "runtime/options.def"
#undef TC_OPTION
};

static bool is_name(const char *whole, const char *name, size_t n) {
  return strlen(whole) == n && memcmp(whole, name, n) == 0;
}

int tc_option_find(const char *name, size_t n) {
  for (int i = 0; i < TC_N_OPTION_ROWS; i++)
    if (is_name(tc_option_rows[i].key, name, n) || is_name(tc_option_rows[i].variable, name, n)) return i;
  return -1;
}

const char *tc_option_near(const char *name, size_t n) {
  const char *near = NULL;
  size_t best = (n / 2 < 3 ? n / 2 : 3) + 1;  // a few edits turn a short name into any other
  for (int i = 0; i < TC_N_OPTION_ROWS && n <= TC_EDITS_BYTES; i++) {
    const tc_option_facts *r = &tc_option_rows[i];
    size_t by_key = tc_edits(name, n, r->key, strlen(r->key)),
           by_variable = tc_edits(name, n, r->variable, strlen(r->variable));
    size_t d = by_key < by_variable ? by_key : by_variable;
    if (r->by != TC_BY_start && d < best) best = d, near = r->key;
  }
  return near;
}

static bool is_word_of(const char *words, const char *text) {
  size_t length = strlen(text);
  for (const char *at = words; *at;) {
    size_t n = strcspn(at, ",");
    if (n == length && memcmp(at, text, n) == 0) return true;
    at += n + (at[n] == ',');
  }
  return false;
}

static bool is_two_numbers(const char *text) {
  int a, b, end = 0;
  return sscanf(text, "%9dx%9d%n", &a, &b, &end) == 2 && end == (int)strlen(text) && a > 0 && b > 0;
}

// Reads the ends of words that are a range ("2..9"); false: they are not a range.
static bool is_range(const char *words, int64_t *least, int64_t *most) {
  char *end;
  *least = words ? strtoll(words, &end, 10) : 0;
  if (!words || strncmp(end, "..", 2) != 0) return false;
  *most = strtoll(end + 2, NULL, 10);
  return true;
}

static bool takes_number(const tc_option_facts *r, const char *text, int64_t *number, char why[TC_OPTION_WHY]) {
  char *end, plain[24];
  errno = 0;
  long long value = strtoll(text, &end, 10);
  bool whole = errno == 0 && end != text && *end == 0 && value >= 0;
  snprintf(plain, sizeof plain, "%lld", value);
  int64_t least, most;
  bool ranged = is_range(r->words, &least, &most);
  *number = value;
  if (whole && (ranged ? value >= least && value <= most : !r->words || is_word_of(r->words, plain))) return true;
  if (ranged)
    snprintf(why, TC_OPTION_WHY, "not a whole number from %" PRId64 " to %" PRId64, least, most);
  else if (whole)
    snprintf(why, TC_OPTION_WHY, "not one of %s", r->words);
  else
    snprintf(why, TC_OPTION_WHY, "not a whole number from 0 on");
  return false;
}

bool tc_option_takes(tc_option_row row, const char *text, int64_t *number, char why[TC_OPTION_WHY]) {
  const tc_option_facts *r = &tc_option_rows[row];
  if (r->is_number) return takes_number(r, text, number, why);
  if (r->words && strcmp(r->words, TWO_NUMBERS) == 0) {
    if (is_two_numbers(text)) return true;
    snprintf(why, TC_OPTION_WHY, "not two whole numbers from 1 on, as 64x128");
    return false;
  }
  if (!r->words || is_word_of(r->words, text)) return true;
  snprintf(why, TC_OPTION_WHY, "not one of %s", r->words);
  return false;
}
