// Reading options from the environment by the rows of options.def. See options.h.
//
// A program with more rights than its caller (setuid) has no options. Strings are copied, because
// setenv may move what getenv returned.
// Threads: the first call reads, under a lock; later calls cost two loads.
#include "runtime/options.h"

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
#include "runtime/inside.h"
#include "runtime/log_sink.h"
#include "runtime/option_sets.h"
#include "runtime/status.h"

#define PREFIX "TC_"
#define STRING_BYTES 4096  // PATH_MAX; a row without a value leaves its pages untouched

static tc_option_set base;  // of the environment
static atomic_bool keeps_at_exit;
static bool embedded;  // tc_options_embed was called. Under lock
static char strings[TC_N_OPTION_ROWS][STRING_BYTES];
const tc_options *_Atomic tc_options_current;
_Thread_local const tc_options *tc_options_mine;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
TC_FORK_SAFE(&lock, 9)

static const char *read_string(tc_option_row row, const char *initial, char *room) {
  const char *variable = tc_option_rows[row].variable, *text = secure_getenv(variable);
  char why[TC_OPTION_WHY];
  int64_t number;
  if (!text || !*text) return initial;
  if (strlen(text) >= STRING_BYTES) {
    tc_log_warn("%s is longer than %d bytes and was ignored", variable, STRING_BYTES - 1);
    return initial;
  }
  if (tc_option_takes(row, text, &number, why)) {
    base.later[row] = true;
    return strcpy(room, text);
  }
  if (initial || strncmp(why, "not one of", 10) == 0)
    tc_log_warn("%s is \"%.64s\", %s; using %s", variable, text, why, initial ? initial : "none");
  else
    tc_log_warn("%s is \"%.64s\", %s; it was ignored", variable, text, why);
  return initial;
}

static int64_t read_number(tc_option_row row, int64_t initial, char *room) {
  (void)room;
  const char *variable = tc_option_rows[row].variable, *text = secure_getenv(variable);
  char why[TC_OPTION_WHY];
  int64_t value;
  if (!text || !*text) return initial;
  if (tc_option_takes(row, text, &value, why)) return base.later[row] = true, value;
  tc_log_warn("%s is \"%.64s\", %s; using %" PRId64, variable, text, why, initial);
  return initial;
}

// Returns the variable that is one or two edits away from an unknown name of n bytes. NULL: the
// name is a variable, or resembles none.
static const char *near_variable(const char *name, size_t n) {
  static const char *const variables[] = {
#define TC_OPTION(field, variable, type, by, initial, words, meaning) #variable,
#include "runtime/options.def"
#undef TC_OPTION
  };
  const char *near = NULL;
  // Two edits turn a short name into any other, so the limit grows with the length.
  size_t most = (n - (sizeof PREFIX - 1)) / 2, best = (most < 2 ? most : 2) + 1;
  for (size_t i = 0; i < TC_N_OPTION_ROWS; i++) {
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
static void settle_profile(tc_options *options) {
  const char *text = options->profile;
  if (!text || strcmp(text, "1") == 0 || strspn(text, "0123456789") < strlen(text)) return;
  if (strcmp(text, "0") != 0)
    tc_log_warn("TC_PROFILE is \"%.64s\", neither 1 nor the name of a file (./%.64s is one); it was ignored", text,
                text);
  options->profile = NULL;
}

static void options_read(void) {
  const char *embed = secure_getenv("TC_EMBED");
  tc_options *options = &base.given;
  tc_log_quiet(embedded || (embed && strcmp(embed, "1") == 0));
  memset(base.later, 0, sizeof base.later);
#define TC_OPTION(field, variable, type, by, initial, words, meaning) \
  options->field = read_##type(TC_ROW_##field, initial, strings[TC_ROW_##field]);
#include "runtime/options.def"
#undef TC_OPTION
  settle_profile(options);
  options->embed |= embedded;
  if (options->embed && !options->cache_dir) options->cache_bytes = 0;
  tc_option_sets_begin(&base);
  tell_misspelt();
  atomic_store_explicit(&tc_options_current, &base.as, memory_order_release);
}

static void print_string(FILE *out, const char *value) {
  fprintf(out, "%-12s", value ? value : "(none)");
}

static void print_number(FILE *out, int64_t value) {
  fprintf(out, "%-12" PRId64, value);
}

const tc_options *tc_options_of_process(void) {
  const tc_options *now = atomic_load_explicit(&tc_options_current, memory_order_acquire);
  if (TC_LIKELY(now != NULL)) return now;
  pthread_mutex_lock(&lock);
  if (!atomic_load_explicit(&tc_options_current, memory_order_relaxed)) options_read();
  pthread_mutex_unlock(&lock);
  return atomic_load_explicit(&tc_options_current, memory_order_acquire);
}

bool tc_options_publish(const tc_options *was, const tc_options *now) {
  return atomic_compare_exchange_strong(&tc_options_current, &was, now);
}

bool tc_options_embed(void) {
  pthread_mutex_lock(&lock);
  const tc_options *now = atomic_load_explicit(&tc_options_current, memory_order_relaxed);
  bool late = now && !now->embed;
  if (!late) {
    embedded = true;
    options_read();
  }
  pthread_mutex_unlock(&lock);
  return !late;
}

bool tc_frees_at_exit(void) {
  return !tc_inside && !atomic_load_explicit(&keeps_at_exit, memory_order_relaxed);
}

void tc_options_keep_at_exit(void) {
  atomic_store_explicit(&keeps_at_exit, true, memory_order_relaxed);
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
#define TC_OPTION(field, variable, type, by, initial, words, meaning) #variable,
#include "runtime/options.def"
#undef TC_OPTION
  };
  size_t n = 0;
  out[0] = 0;
  for (size_t i = 0; i < TC_N_OPTION_ROWS && n < bytes; i++) {
    const char *text = secure_getenv(variables[i]);
    if (text && *text) n += (size_t)snprintf(out + n, bytes - n, "%s%s=%s", n ? " " : "", variables[i], text);
  }
}

void tc_options_print(FILE *out) {
  const tc_options *o = tc_options_get();
#define TC_OPTION(field, variable, type, by, initial, words, meaning) \
  fprintf(out, "%-16s ", #variable); \
  print_##type(out, o->field); \
  fprintf(out, " %s\n", meaning);
#include "runtime/options.def"
#undef TC_OPTION
}
