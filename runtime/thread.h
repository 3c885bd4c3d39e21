// Threads of the library's own: how they are started.
#ifndef TC_RUNTIME_THREAD_H
#define TC_RUNTIME_THREAD_H

#include <pthread.h>

// Starts main(arg) on a thread that blocks every signal but those its own faults raise, which a
// handler of the user may want to report. Returns pthread_create's error.
int tc_thread_start(pthread_t *thread, void *(*main)(void *arg), void *arg);

#endif
