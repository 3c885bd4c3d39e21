// Log lines by topic, chosen with TC_LOG. A topic that is off costs one load and a predictable
// branch.
// Threads: thread-safe; one message is one write.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "runtime/log_sink.h"

typedef enum tc_log_topic {
  TC_LOG_WARN,  // always on
  TC_LOG_SYNC,
  TC_LOG_TRACE,
  TC_LOG_PLAN,
  TC_LOG_PASS,
  TC_LOG_FUSION,
  TC_LOG_KERNEL,
  TC_LOG_TUNE,
  TC_LOG_KIR,
  TC_LOG_ASM,
  TC_LOG_CACHE,
  TC_LOG_MEMORY,
  TC_LOG_BACKEND,
  TC_LOG_GUARDS,
  TC_N_LOG_TOPICS
} tc_log_topic;

bool tc_log_wanted(tc_log_topic topic);
static inline bool tc_log_on(tc_log_topic topic) {
  return __builtin_expect(atomic_load_explicit(&tc_log_topics, memory_order_relaxed) >> topic & 1, 0) &&
         tc_log_wanted(topic);
}
void tc_log_line(tc_log_topic topic, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// A message of many lines, written to `to` and sent whole at the end. to NULL: there was no memory,
// and nothing is logged.
typedef struct tc_log_message {
  FILE *to;
  char *text;
  size_t bytes;
} tc_log_message;
FILE *tc_log_begin(tc_log_message *m);
void tc_log_end(tc_log_message *m, tc_log_topic topic);  // m->to may be NULL
void tc_log_drop(tc_log_message *m);  // drops the message instead
// Prints the topics, one a line, with what each says.
void tc_log_print_topics(FILE *out);
