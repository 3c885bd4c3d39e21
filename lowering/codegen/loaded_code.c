// Tells the system's tools which generated code is loaded. See loaded_code.h.
#include "lowering/codegen/loaded_code.h"

#include <pthread.h>

#include "lowering/codegen/perf_files.h"
#include "runtime/arena.h"
#include "runtime/fork.h"
#include "runtime/log.h"
#include "runtime/reentry.h"

// Also guards gdb's list and perf's files.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tc_loaded_code *first;
TC_FORK_SAFE(&lock, 9)  // taken under the lock of the compile queue

// pre: locked. A process that has no files yet, such as a forked child, writes into its own all
// that is loaded.
static void write_perf(tc_loaded_code *c, const tc_kir *kir, tc_perf_why *why) {
  if (tc_perf_open(why))
    for (const tc_loaded_code *old = first; old != NULL; old = old->next) tc_perf_write(old, why);
  if (kir != NULL) tc_perf_write_source(c, kir, why);
  tc_perf_write(c, why);
}

void tc_loaded_code_add(tc_loaded_code *c, const tc_kir *kir) {
  tc_perf_why why = {""};
  pthread_mutex_lock(&lock);
  if (tc_perf_wanted() != TC_PERF_NOTHING) write_perf(c, kir, &why);
  c->prev = NULL;
  c->next = first;
  if (first != NULL) first->prev = c;
  first = c;
  c->gdb.object = c->object;
  c->gdb.bytes = c->object_bytes;
  tc_gdb_add(&c->gdb);
  pthread_mutex_unlock(&lock);
  if (why.text[0] != 0) tc_log_line(TC_LOG_WARN, "%s", why.text);
}

// At exit, and when the library is closed.
static void close_at_exit(void) __attribute__((destructor));
static void close_at_exit(void) {
  if (tc_inside) return;
  pthread_mutex_lock(&lock);
  tc_perf_close();
  pthread_mutex_unlock(&lock);
}

void tc_loaded_code_remove(tc_loaded_code *c) {
  pthread_mutex_lock(&lock);
  tc_gdb_remove(&c->gdb);
  if (c->prev != NULL)
    c->prev->next = c->next;
  else
    first = c->next;
  if (c->next != NULL) c->next->prev = c->prev;
  pthread_mutex_unlock(&lock);
  tc_free(c->source);
}
