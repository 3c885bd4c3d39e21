// Where log lines go: standard error, or the program's own sink. It stands below runtime/options.h,
// which may warn.
// Threads: thread-safe; the sink may be called from any thread, and may log.
#pragma once

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>

// A bit for each topic that is on, or may be: TC_LOG is read when a topic is first asked for
extern atomic_uint tc_log_topics;
void tc_log_reread(void);  // makes the next question about a topic read TC_LOG again

// Sends one line: "tc[topic] " and the text.
void tc_log_write(const char *topic, const char *fmt, va_list args) __attribute__((format(printf, 2, 0)));
// While quiet, warnings go to the program's own sink alone.
void tc_log_quiet(bool quiet);
// Does what tc_log_line(TC_LOG_WARN, ..) does, without reading options.
void tc_log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
