// Reading options from the environment by the rows of options.def. See options.h.
//
// A program with more rights than its caller (setuid) has no options. Strings are copied, because
// setenv may move what getenv returned.
// Threads: the first call reads, under a lock; later calls cost one load.
#include "runtime/options.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/edits.h"
#include "runtime/fork.h"
#include "runtime/log_sink.h"

#define PREFIX "TC_"
#define STRING_BYTES 4096  // PATH_MAX; a row without a value leaves its pages untouched

enum {
#define TC_OPTION(field, variable, type, initial, words, meaning) ROW_##field,
#include "runtime/options.def"
#undef TC_OPTION
  N_ROWS
};

static tc_options options;
static bool embedded;  // tc_options_embed was called. Under lock
static char strings[N_ROWS][STRING_BYTES];
static atomic_bool ready;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
TC_FORK_SAFE(&lock, 9)

static bool is_word_of(const char *words, const char *text) {
  size_t length = strlen(text);
  for (const char *at = words; *at;) {
    size_t n = strcspn(at, ",");
    if (n == length && memcmp(at, text, n) == 0) return true;
    at += n + (at[n] == ',');
  }
  return false;
}

#define TWO_NUMBERS "NxN"  // for words, where a text must be two numbers as 64x128

static bool is_two_numbers(const char *text) {
  int a, b, end = 0;
  return sscanf(text, "%9dx%9d%n", &a, &b, &end) == 2 && end == (int)strlen(text) && a > 0 && b > 0;
}

static const char *read_string(const char *variable, const char *initial, const char *words, char *room) {
  const char *text = secure_getenv(variable);
  if (!text || !*text) return initial;
  if (strlen(text) >= STRING_BYTES) {
    tc_log_warn("%s is longer than %d bytes and was ignored", variable, STRING_BYTES - 1);
    return initial;
  }
  if (words && strcmp(words, TWO_NUMBERS) == 0) {
    if (is_two_numbers(text)) return strcpy(room, text);
    tc_log_warn("%s is \"%.64s\", not two whole numbers from 1 on, as 64x128; it was ignored", variable, text);
    return initial;
  }
  if (words && !is_word_of(words, text)) {
    tc_log_warn("%s is \"%.64s\", not one of %s; using %s", variable, text, words, initial ? initial : "none");
    return initial;
  }
  return strcpy(room, text);
}

// Reads the ends of words that are a range ("2..9"); false: they are not a range.
static bool is_range(const char *words, int64_t *least, int64_t *most) {
  char *end;
  *least = words ? strtoll(words, &end, 10) : 0;
  if (!words || strncmp(end, "..", 2) != 0) return false;
  *most = strtoll(end + 2, NULL, 10);
  return true;
}

static int64_t read_number(const char *variable, int64_t initial, const char *words, char *room) {
  (void)room;
  const char *text = secure_getenv(variable);
  if (!text || !*text) return initial;
  char *end, plain[24];
  errno = 0;
  long long value = strtoll(text, &end, 10);
  bool whole = errno == 0 && end != text && *end == 0 && value >= 0;
  snprintf(plain, sizeof plain, "%lld", value);
  int64_t least, most;
  bool ranged = is_range(words, &least, &most);
  if (whole && (ranged ? value >= least && value <= most : !words || is_word_of(words, plain))) return value;
  if (ranged)
    tc_log_warn("%s is \"%.64s\", not a whole number from %" PRId64 " to %" PRId64 "; using %" PRId64, variable, text,
                least, most, initial);
  else if (whole)
    tc_log_warn("%s is \"%.64s\", not one of %s; using %" PRId64, variable, text, words, initial);
  else
    tc_log_warn("%s is \"%.64s\", not a whole number from 0 on; using %" PRId64, variable, text, initial);
  return initial;
}

// Returns the variable that is one or two edits away from an unknown name of n bytes. NULL: the
// name is a variable, or resembles none.
static const char *near_variable(const char *name, size_t n) {
  static const char *const variables[] = {
#define TC_OPTION(field, variable, type, initial, words, meaning) #variable,
#include "runtime/options.def"
#undef TC_OPTION
  };
  const char *near = NULL;
  // Two edits turn a short name into any other, so the limit grows with the length.
  size_t most = (n - (sizeof PREFIX - 1)) / 2, best = (most < 2 ? most : 2) + 1;
  for (size_t i = 0; i < N_ROWS; i++) {
    if (strncmp(variables[i], PREFIX, sizeof PREFIX - 1) != 0) continue;
    size_t d = tc_edits(name, n, variables[i], strlen(variables[i]));
    if (d == 0) return NULL;
    if (d < best) best = d, near = variables[i];
  }
  return near;
}

// Warns about misspelt variables, which would silently have no effect. Once a process.
static void tell_misspelt(void) {
  static bool told;
  bool any = told;
  for (char **at = environ; at && *at && !told; at++) {
    size_t n = strcspn(*at, "=");
    bool of_tests =
        strncmp(*at, PREFIX "TEST_", sizeof PREFIX + 4) == 0 || strncmp(*at, PREFIX "SIM_", sizeof PREFIX + 3) == 0;
    if (strncmp(*at, PREFIX, sizeof PREFIX - 1) != 0 || of_tests || n > TC_EDITS_BYTES) continue;
    const char *near = near_variable(*at, n);
    if (!near) continue;
    tc_log_warn("%.*s is no variable of tc and has no effect; the nearest is %s (TC_LOG=help lists them)", (int)n, *at,
                near);
    any = true;
  }
  told = any;
}

// TC_PROFILE=0 is none. Another number is no name of a file, but what was asked for once.
static void settle_profile(void) {
  const char *text = options.profile;
  if (!text || strcmp(text, "1") == 0 || strspn(text, "0123456789") < strlen(text)) return;
  if (strcmp(text, "0") != 0)
    tc_log_warn("TC_PROFILE is \"%.64s\", neither 1 nor the name of a file (./%.64s is one); it was ignored", text,
                text);
  options.profile = NULL;
}

static void options_read(void) {
  const char *embed = secure_getenv("TC_EMBED");
  tc_log_quiet(embedded || (embed && strcmp(embed, "1") == 0));
#define TC_OPTION(field, variable, type, initial, words, meaning) \
  options.field = read_##type(#variable, initial, words, strings[ROW_##field]);
#include "runtime/options.def"
#undef TC_OPTION
  settle_profile();
  options.embed |= embedded;
  if (options.embed && !options.cache_dir) options.cache_bytes = 0;
  tell_misspelt();
  // Release: a thread that sees ready sees the fields.
  atomic_store_explicit(&ready, true, memory_order_release);
}

static void print_string(FILE *out, const char *value) {
  fprintf(out, "%-12s", value ? value : "(none)");
}

static void print_number(FILE *out, int64_t value) {
  fprintf(out, "%-12" PRId64, value);
}

const tc_options *tc_options_get(void) {
  if (!atomic_load_explicit(&ready, memory_order_acquire)) {
    pthread_mutex_lock(&lock);
    if (!atomic_load_explicit(&ready, memory_order_relaxed)) options_read();
    pthread_mutex_unlock(&lock);
  }
  return &options;
}

bool tc_options_embed(void) {
  pthread_mutex_lock(&lock);
  bool late = atomic_load_explicit(&ready, memory_order_relaxed) && !options.embed;
  if (!late) {
    embedded = true;
    options_read();
  }
  pthread_mutex_unlock(&lock);
  return !late;
}

void tc_options_reload(void) {
  pthread_mutex_lock(&lock);
  options_read();
  pthread_mutex_unlock(&lock);
  tc_log_reread();
}

bool tc_planted(const char *name) {
  const char *plant = tc_options_get()->test_plant;
  return plant && strcmp(plant, name) == 0;
}

const char *tc_options_profile_file(void) {
  const char *text = tc_options_get()->profile;
  return text && strcmp(text, "1") != 0 ? text : NULL;
}

bool tc_options_profile_summary(void) {
  const char *text = tc_options_get()->profile;
  return text && strcmp(text, "1") == 0;
}

void tc_options_text(char *out, size_t bytes) {
  static const char *const variables[] = {
#define TC_OPTION(field, variable, type, initial, words, meaning) #variable,
#include "runtime/options.def"
#undef TC_OPTION
  };
  size_t n = 0;
  out[0] = 0;
  for (size_t i = 0; i < N_ROWS && n < bytes; i++) {
    const char *text = secure_getenv(variables[i]);
    if (text && *text) n += (size_t)snprintf(out + n, bytes - n, "%s%s=%s", n ? " " : "", variables[i], text);
  }
}

void tc_options_print(FILE *out) {
  const tc_options *o = tc_options_get();
#define TC_OPTION(field, variable, type, initial, words, meaning) \
  fprintf(out, "%-16s ", #variable); \
  print_##type(out, o->field); \
  fprintf(out, " %s\n", meaning);
#include "runtime/options.def"
#undef TC_OPTION
}
