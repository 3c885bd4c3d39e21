// Threads of the library's own, and how they are started.
// Threads: thread-safe.
#ifndef TC_RUNTIME_THREAD_H
#define TC_RUNTIME_THREAD_H

#include <pthread.h>

// Starts main(arg) on a thread that blocks every signal except those that its own faults raise,
// which a user's handler may report. Returns pthread_create's error.
int tc_thread_start(pthread_t *thread, void *(*main)(void *arg), void *arg);

#endif
