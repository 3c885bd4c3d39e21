// Log lines by topic, chosen with TC_LOG. Off costs one load. Threads: thread-safe; one line is one write.
#ifndef TC_RUNTIME_LOG_H
#define TC_RUNTIME_LOG_H

#include <stdbool.h>

typedef enum tc_log_topic {
  TC_LOG_WARN,  // always on
  TC_LOG_SYNC,
  TC_LOG_TRACE,
  TC_LOG_PLAN,
  TC_LOG_KERNEL,
  TC_LOG_NEST,
  TC_LOG_ASM,
  TC_LOG_CACHE,
  TC_LOG_MEMORY,
  TC_N_LOG_TOPICS
} tc_log_topic;

bool tc_log_on(tc_log_topic topic);
void tc_log_line(tc_log_topic topic, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
