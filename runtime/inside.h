// Whether this thread is inside a call of the library (runtime/reentry.h).
// Threads: thread-local; a signal handler may read it.
#pragma once

#include <signal.h>

extern _Thread_local volatile sig_atomic_t tc_inside;  // 0: it is outside
