// Our handlers of SIGSEGV and SIGSYS, and the program's behind them.
#pragma once

#include <signal.h>
#include <stdbool.h>

typedef void (*tc_shim_handler)(int number, siginfo_t *info, void *context);

bool tc_shim_handlers_install(tc_shim_handler on_fault, tc_shim_handler on_dispatch);

// Hands a signal to the program, whose it is.
void tc_shim_signal_chain(int number, siginfo_t *info, void *context);
