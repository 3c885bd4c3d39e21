// See inside.h.
#include "runtime/inside.h"

_Thread_local volatile sig_atomic_t tc_inside;
