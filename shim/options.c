// Reads TC_SHIM and its kin, a row a variable in docs/reference.md.
// In: the environment at the first call. Out: options that do not change. Invariants: a wrong value
// is one line on stderr, and what holds then does no harm. Threads: any; two that come first read
// the same.
#include "shim/options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
  const char *name;
  tc_shim_level level;
} levels[] = {
    {"off", TC_SHIM_OFF},   {"trace", TC_SHIM_TRACE}, {"eager", TC_SHIM_EAGER}, {"writeback", TC_SHIM_WRITEBACK},
    {"lazy", TC_SHIM_LAZY},
};

void tc_shim_say(const char *format, ...) {
  char line[512];
  int n = snprintf(line, sizeof line, "tc-shim: %s: ", program_invocation_short_name);
  va_list args;
  va_start(args, format);
  if (n >= 0 && (size_t)n < sizeof line) n += vsnprintf(line + n, sizeof line - (size_t)n, format, args);
  va_end(args);
  if (n > (int)sizeof line - 2) n = (int)sizeof line - 2;
  line[n++] = '\n';
  for (int at = 0; at < n;) {
    ssize_t wrote = write(STDERR_FILENO, line + at, (size_t)(n - at));
    if (wrote < 0 && errno != EINTR) break;
    at += wrote > 0 ? (int)wrote : 0;
  }
}

// The value of a variable; an empty one counts as none.
static const char *setting(const char *name) {
  const char *text = getenv(name);
  return text && *text ? text : NULL;
}

// A copy of it, since some programs write over their environment.
static const char *kept_setting(const char *name) {
  static char kept[8192];
  static size_t n;
  const char *text = setting(name);
  size_t bytes = text ? strlen(text) + 1 : 0;
  if (!text) return NULL;
  if (bytes > sizeof kept - n) {
    tc_shim_say("%s is too long, and passed over", name);
    return NULL;
  }
  n += bytes;
  return memcpy(kept + n - bytes, text, bytes);
}

static void read_number(const char *name, double *out) {
  const char *text = setting(name);
  char *end;
  double value = text ? strtod(text, &end) : 0;
  if (!text) return;
  if (*end == 0 && value >= 0 && value < 1e15)
    *out = value;
  else
    tc_shim_say("%s is '%s', which is no number; %g holds", name, text, *out);
}

static void read_level(tc_shim_options *o) {
  const char *text = setting("TC_SHIM");
  if (!text) return;
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
    if (strcmp(text, levels[i].name) == 0) {
      o->level = levels[i].level;
      return;
    }
  o->level = TC_SHIM_OFF;
  tc_shim_say("TC_SHIM is '%s', which is none of off, trace, eager, writeback and lazy; off holds", text);
}

static void read_estimate(tc_shim_options *o) {
  const char *text = setting("TC_SHIM_ESTIMATE");
  char *end = NULL;
  double bus = text ? strtod(text, &end) : 0, device = text && *end == ':' ? strtod(end + 1, &end) : 0;
  if (!text) return;
  if (*end == 0 && bus > 0 && device > 0) {
    o->bus = bus;
    o->device = device * 1e3;
  } else {
    tc_shim_say("TC_SHIM_ESTIMATE is '%s', which is not GB/s:TFLOP/s; %g:%g holds", text, o->bus, o->device * 1e-3);
  }
}

// glibc has this locale ready: nothing is allocated.
locale_t tc_shim_locale_enter(void) {
  return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
}

void tc_shim_locale_leave(locale_t before) {
  uselocale(before);
}

static tc_shim_options options;
static int state;  // 0: unread, 1: being read, 2: read

// A second thread that comes while the first reads waits for some microseconds; in a child of fork,
// where nobody reads on, it reads itself. A signal handler that comes cannot: it gets options that
// forward everything.
const tc_shim_options *tc_shim_read_options(void) {
  static const tc_shim_options none = {.level = TC_SHIM_OFF};
  static __thread bool is_reading;
  int unread = 0;
  if (__atomic_load_n(&state, __ATOMIC_ACQUIRE) == 2) return &options;
  if (is_reading) return &none;
  if (!__atomic_compare_exchange_n(&state, &unread, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    for (int i = 0; i < 1000; i++) {
      if (__atomic_load_n(&state, __ATOMIC_ACQUIRE) == 2) return &options;
      usleep(10);
    }
  is_reading = true;
  locale_t before = tc_shim_locale_enter();
  options = (tc_shim_options){
      .level = TC_SHIM_EAGER, .is_read = true, .least = TC_SHIM_LEAST, .bus = 25, .device = 20e3, .on = "tc:cuda"};
  read_level(&options);
  read_estimate(&options);
  read_number("TC_SHIM_MIN", &options.least);
  read_number("TC_SHIM_PEAK", &options.peak);
  options.least_volume = setting("TC_SHIM_MIN") ? options.least * options.least * options.least : -1;
  options.cache = kept_setting("TC_CACHE_DIR");
  options.core = kept_setting("OPENBLAS_CORETYPE");
  const char *on = kept_setting("TC_SHIM_DEVICE");
  if (on) options.on = on;
  options.profile = kept_setting("TC_SHIM_PROFILE");
  options.only = kept_setting("TC_SHIM_ONLY");
  options.except = kept_setting("TC_SHIM_NOT");
  options.library = kept_setting("TC_BLAS_LIB");
  options.counts = options.level == TC_SHIM_TRACE || (options.level >= TC_SHIM_EAGER && options.profile);
  tc_shim_locale_leave(before);
  __atomic_store_n(&state, 2, __ATOMIC_RELEASE);
  is_reading = false;
  return &options;
}

const tc_shim_options *tc_shim_report_options(void) {
  return __atomic_load_n(&state, __ATOMIC_ACQUIRE) == 2 ? &options : NULL;
}

// Whether a part of the list, which commas part, is in the name.
static bool is_in_list(const char *list, const char *name) {
  for (const char *at = list; *at;) {
    size_t n = strcspn(at, ",");
    if (n && memmem(name, strlen(name), at, n)) return true;
    at += n + (at[n] == ',');
  }
  return false;
}

bool tc_shim_is_asked(const tc_shim_options *o, const char *module) {
  if (o->only && !is_in_list(o->only, module)) return false;
  return !o->except || !is_in_list(o->except, module);
}
