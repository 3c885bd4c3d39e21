// Where log lines go: standard error, or the program's own sink. Below runtime/options.h, which may
// warn.
// Threads: thread-safe; the sink may be called from any thread, and may log.
#ifndef TC_RUNTIME_LOG_SINK_H
#define TC_RUNTIME_LOG_SINK_H

#include <stdarg.h>
#include <stdatomic.h>

extern atomic_uint tc_log_topics;  // bits of topics that are on, or may be: TC_LOG is read when one is first asked for
void tc_log_reread(void);  // TC_LOG is read again when a topic is next asked for

// Sends one line, "tc[topic] " and the text.
void tc_log_write(const char *topic, const char *fmt, va_list args) __attribute__((format(printf, 2, 0)));
// The same as tc_log_line(TC_LOG_WARN, ..), which needs no options.
void tc_log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
