// See compile_queue.h.
#include "lowering/jit/compile_queue.h"

#include "runtime/fork.h"

tc_compile_queue tc_compiles = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER, .last = &tc_compiles.first};
TC_FORK_SAFE(&tc_compiles.lock, 8)

bool tc_compile_queue_add(tc_compile_link *link) {
  pthread_mutex_lock(&tc_compiles.lock);
  bool added = !tc_compiles.ended;
  if (added) {
    link->next = NULL;
    *tc_compiles.last = link, tc_compiles.last = &link->next;
    atomic_store_explicit(&tc_compiles.waiting, true, memory_order_relaxed);
  }
  pthread_mutex_unlock(&tc_compiles.lock);
  return added;
}

tc_compile_link *tc_compile_queue_take_all(void) {
  tc_compile_link *all = tc_compiles.first;
  tc_compiles.first = NULL, tc_compiles.last = &tc_compiles.first;
  return all;
}

tc_compile_link *tc_compile_queue_take_first(void) {
  tc_compile_link *l = tc_compiles.first;
  tc_compiles.first = l->next;
  if (!tc_compiles.first) tc_compiles.last = &tc_compiles.first;
  return l;
}
