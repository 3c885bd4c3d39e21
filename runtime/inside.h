// Whether this thread is inside a call of the library (runtime/reentry.h).
// Threads: thread-local; a signal handler may read it.
#ifndef TC_RUNTIME_INSIDE_H
#define TC_RUNTIME_INSIDE_H

#include <signal.h>

extern _Thread_local volatile sig_atomic_t tc_inside;  // 0: it is outside

#endif
