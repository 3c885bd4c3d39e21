// Threads of the library's own: how they are started and pinned.
// Threads: thread-safe.
#pragma once

#include <pthread.h>
#include <stdbool.h>

// Starts main(arg) on a thread that blocks every signal except those that its own faults raise,
// which a user's handler may report. Returns pthread_create's error.
int tc_thread_start(pthread_t *thread, void *(*main)(void *arg), void *arg);
// Pins a thread to the first PU of a core; false: it may not be.
bool tc_thread_pin(pthread_t thread, int core);
// Lets a thread run on all cores, whatever the mask of the thread that started it, which may have
// been pinned since.
void tc_thread_unpin(pthread_t thread);
