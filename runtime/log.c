// Log lines by topic. The mask of topics starts as all ones with UNREAD set, so that a topic that is off costs one load and a test, and the
// first question reads TC_LOG. Warnings need no mask: reading the options may itself warn.
// Threads: thread-safe; the sink may be called from any thread, and may log.
#include "runtime/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <tc/tc.h>
#include <unistd.h>

#include "runtime/arena.h"
#include "runtime/fork.h"
#include "runtime/options.h"
#include "runtime/reentry.h"

#define UNREAD (1u << 31)

void tc_log_reread(void);  // for options.c

static const char *const names[TC_N_LOG_TOPICS] = {
    [TC_LOG_WARN] = "warn", [TC_LOG_SYNC] = "sync", [TC_LOG_TRACE] = "trace", [TC_LOG_PLAN] = "plan",     [TC_LOG_KERNEL] = "kernel",
    [TC_LOG_NEST] = "nest", [TC_LOG_ASM] = "asm",   [TC_LOG_CACHE] = "cache", [TC_LOG_MEMORY] = "memory",
};

static atomic_uint topics = ~0u;
static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;
TC_FORK_SAFE(&sink_lock, 10)
static void (*sink)(const char *line, void *arg);  // under sink_lock, as its argument
static void *sink_arg;

static unsigned topic_bit(const char *name, size_t length) {
  for (unsigned i = 0; i < TC_N_LOG_TOPICS; i++)
    if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0) return 1u << i;
  return 0;
}

static unsigned topics_parse(const char *text) {
  unsigned mask = 1u << TC_LOG_WARN;
  for (const char *at = text ? text : ""; *at;) {
    size_t length = strcspn(at, ",");
    unsigned bit = topic_bit(at, length);
    if (length == 4 && memcmp(at, "help", 4) == 0)
      tc_options_print(stderr);
    else if (length != 0 && bit == 0)
      tc_log_line(TC_LOG_WARN, "TC_LOG names no topic \"%.*s\"; TC_LOG=help lists them", (int)length, at);
    mask |= bit;
    at += length + (at[length] == ',');
  }
  return mask;
}

// Two threads may both read: they store the same mask, but help may print twice.
static unsigned topics_read(void) {
  unsigned mask = topics_parse(tc_options_get()->log);
  atomic_store_explicit(&topics, mask, memory_order_relaxed);
  return mask;
}

static void line_write(char *line, size_t length) {
  pthread_mutex_lock(&sink_lock);
  void (*to)(const char *, void *) = sink;
  void *arg = sink_arg;
  pthread_mutex_unlock(&sink_lock);
  if (to) {
    to(line, arg);
    return;
  }
  line[length] = '\n';  // in the place of the final zero, so that the line is one write
  ssize_t written = write(STDERR_FILENO, line, length + 1);
  (void)written;
}

bool tc_log_on(tc_log_topic topic) {
  unsigned mask = atomic_load_explicit(&topics, memory_order_relaxed);
  if (__builtin_expect(!(mask >> topic & 1), 1)) return false;
  if (topic == TC_LOG_WARN) return true;
  if (mask & UNREAD) mask = topics_read();
  return mask >> topic & 1;
}

void tc_log_line(tc_log_topic topic, const char *fmt, ...) {
  if (!tc_log_on(topic)) return;
  char room[1024], *line = room;
  va_list args, again;
  va_start(args, fmt);
  va_copy(again, args);
  size_t prefix = (size_t)snprintf(room, sizeof room, "tc[%s] ", names[topic]);
  int n = vsnprintf(room + prefix, sizeof room - prefix, fmt, args);
  size_t length = prefix + (n > 0 ? (size_t)n : 0);
  if (length >= sizeof room) {
    line = tc_malloc(length + 1);
    if (line) {
      memcpy(line, room, prefix);
      vsnprintf(line + prefix, length + 1 - prefix, fmt, again);
    } else {
      line = room;  // cut short rather than lost
      length = sizeof room - 1;
    }
  }
  va_end(again);
  va_end(args);
  line_write(line, length);
  if (line != room) tc_free(line);
}

void tc_log_reread(void) {
  atomic_store_explicit(&topics, ~0u, memory_order_relaxed);
}

void tc_set_log(void (*new_sink)(const char *line, void *arg), void *arg) {
  if (!tc_enter("set_log", 0)) return;
  pthread_mutex_lock(&sink_lock);
  sink = new_sink;
  sink_arg = arg;
  pthread_mutex_unlock(&sink_lock);
  tc_leave();
}
