// Guards: page protection of whole blocks, the lock of their keeper, faults.
#pragma once

#include <signal.h>

#include "shim/memory/memory.h"

// Whether this thread is inside the shim or libtc, with the lock.
bool tc_shim_is_inside(void);

// A block is about to be freed: its keeper forgets it.
void tc_shim_drop(tc_shim_block *block);

// Takes the guards of all blocks, or of those that a range meets. Any thread in program code.
void tc_shim_settle(void);
void tc_shim_settle_range(const void *at, size_t bytes, bool is_write);
bool tc_shim_is_guarded_range(const void *at, size_t bytes);

// What the C library, or whoever was preloaded behind, has by this name.
void *tc_shim_next_function(const char *name);

// ---- Signals (signals.c) ----

// Our handlers of SIGSEGV and SIGSYS.
bool tc_shim_handlers_install(void);
// Hands a signal to the program, whose it is.
void tc_shim_signal_chain(int number, siginfo_t *info, void *context);

void tc_shim_on_fault(int number, siginfo_t *info, void *context);
void tc_shim_on_dispatch(int number, siginfo_t *info, void *context);

// ---- System calls (dispatch.c) ----

// Whether the system can do it.
bool tc_shim_dispatch_is_there(void);
// This thread's system calls are looked at while a block is guarded; let them through, or not.
bool tc_shim_dispatch_begin(void);
void tc_shim_dispatch_set(bool blocks);
void tc_shim_dispatch_forked(void);
