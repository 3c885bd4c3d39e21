// System calls of threads that guard blocks.
#pragma once

#include <signal.h>

void tc_shim_on_dispatch(int number, siginfo_t *info, void *context);
