// What the environment asks of the shim, read once at the first call.
#pragma once

#include <locale.h>
#include <stdbool.h>

typedef enum tc_shim_level { TC_SHIM_OFF, TC_SHIM_TRACE, TC_SHIM_EAGER, TC_SHIM_WRITEBACK, TC_SHIM_LAZY } tc_shim_level;

enum { TC_SHIM_LEAST = 48 };

typedef struct tc_shim_options {
  tc_shim_level level;
  bool is_read;  // false: this call is in a signal handler that came while they are read
  bool counts;  // a profile is kept
  const char *profile;  // the file it is written to; NULL: printed
  const char *only, *except;  // modules, with commas; NULL: all, none
  const char *library;  // the real BLAS; NULL: what the caller would have had
  double least;  // the size of a call that libtc gets, or TC_SHIM_LEAST
  double least_volume;  // its cube; negative: TC_SHIM_MIN is not set
  const char *cache;  // TC_CACHE_DIR; NULL: nothing is kept
  const char *core;  // OPENBLAS_CORETYPE, which changes what a size is worth; NULL: not set
  double peak;  // GFLOP/s in f64 of this machine; 0: measured
  const char *on;  // the device of level writeback, such as "tc:cuda"
  double bus, device;  // of a device that one thinks of: GB/s, GFLOP/s
} tc_shim_options;

const tc_shim_options *tc_shim_read_options(void);

// The options if they were read, else NULL.
const tc_shim_options *tc_shim_report_options(void);

// Whether a module's file name is one that the options let the shim look at.
bool tc_shim_is_asked(const tc_shim_options *options, const char *module);

// Numbers are read and written with a point, whatever locale the program has chosen. The thread's
// own locale comes back with tc_shim_locale_leave.
locale_t tc_shim_locale_enter(void);
void tc_shim_locale_leave(locale_t before);

// A line on stderr, with the program's name.
__attribute__((format(printf, 1, 2))) void tc_shim_say(const char *format, ...);
