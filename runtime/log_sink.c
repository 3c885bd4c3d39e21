// See log_sink.h.
#include "runtime/log_sink.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <tc/tc.h>
#include <unistd.h>

#include "runtime/arena.h"
#include "runtime/fork.h"
#include "runtime/reentry.h"

atomic_uint tc_log_topics = ~0u;
static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;
TC_FORK_SAFE(&sink_lock, 10)
static void (*sink)(const char *line, void *arg);  // NULL: lines go to standard error. Under sink_lock, as sink_arg
static void *sink_arg;

static atomic_bool is_quiet;

void tc_log_quiet(bool quiet) {
  atomic_store_explicit(&is_quiet, quiet, memory_order_relaxed);
}

static void line_write(char *line, size_t length, bool warns) {
  pthread_mutex_lock(&sink_lock);
  void (*to)(const char *, void *) = sink;
  void *arg = sink_arg;
  pthread_mutex_unlock(&sink_lock);
  if (to) {
    to(line, arg);
    return;
  }
  if (warns && atomic_load_explicit(&is_quiet, memory_order_relaxed)) return;
  line[length] = '\n';  // replaces the final zero, so that the line is one write
  ssize_t written = write(STDERR_FILENO, line, length + 1);
  (void)written;
}

void tc_log_write(const char *topic, const char *fmt, va_list args) {
  char room[1024], *line = room;
  va_list again;
  va_copy(again, args);
  size_t prefix = (size_t)snprintf(room, sizeof room, "tc[%s] ", topic);
  int n = vsnprintf(room + prefix, sizeof room - prefix, fmt, args);
  size_t length = prefix + (n > 0 ? (size_t)n : 0);
  if (length >= sizeof room) {
    line = tc_malloc(length + 1);
    if (line) {
      memcpy(line, room, prefix);
      vsnprintf(line + prefix, length + 1 - prefix, fmt, again);
    } else {
      line = room;  // a line cut short is better than none
      length = sizeof room - 1;
    }
  }
  va_end(again);
  line_write(line, length, strcmp(topic, "warn") == 0);
  if (line != room) tc_free(line);
}

void tc_log_warn(const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  tc_log_write("warn", fmt, args);
  va_end(args);
}

void tc_log_reread(void) {
  atomic_store_explicit(&tc_log_topics, ~0u, memory_order_relaxed);
}

void tc_set_log(void (*new_sink)(const char *line, void *arg), void *arg) {
  if (!tc_enter("set_log", 0)) return;
  pthread_mutex_lock(&sink_lock);
  sink = new_sink;
  sink_arg = arg;
  pthread_mutex_unlock(&sink_lock);
  tc_leave();
}
