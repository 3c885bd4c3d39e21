// The queue of kernels to compile: an intrusive list.
// Threads: thread-safe. The queue's lock also guards the state of its worker (tier_up.c).
#pragma once

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
  bool ended;  // true: adds are refused (the process exits)
  atomic_bool waiting;  // true: kernels were added since tc_tier_up_start last ran
} tc_compile_queue;
extern tc_compile_queue tc_compiles;

// Appends a link that is in no queue. False: the queue has ended.
bool tc_compile_queue_add(tc_compile_link *link);
// pre: locked. Removes all links; returns them as a list, or NULL.
tc_compile_link *tc_compile_queue_take_all(void);
tc_compile_link *tc_compile_queue_take_first(void);
