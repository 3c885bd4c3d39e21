// Kernels that wait to be compiled, as links that lie in them. Threads: thread-safe. The queue's
// lock guards what its worker knows of itself, too (tier_up.c).
#ifndef TC_LOWERING_JIT_COMPILE_QUEUE_H
#define TC_LOWERING_JIT_COMPILE_QUEUE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef struct tc_compile_link {
  struct tc_compile_link *next;
} tc_compile_link;

typedef struct tc_compile_queue {
  pthread_mutex_t lock;
  pthread_cond_t more;
  tc_compile_link *first, **last;
  bool ended;  // nothing is added any more
  atomic_bool waiting;  // something was added since the worker was told
} tc_compile_queue;
extern tc_compile_queue tc_compiles;

// Adds a link that is in no queue. False: the queue has ended.
bool tc_compile_queue_add(tc_compile_link *link);
// pre: locked. All, as a list; the first of some.
tc_compile_link *tc_compile_queue_take_all(void);
tc_compile_link *tc_compile_queue_take_first(void);

#endif
