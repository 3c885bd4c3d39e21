// Guards: page protection of whole blocks, the lock of their keeper, faults.
#pragma once

#include <signal.h>
#include <ucontext.h>

#include "shim/memory/memory.h"

// A block is about to be freed: its keeper forgets it.
void tc_shim_drop(tc_shim_block *block);

// Whether this thread is in a call of libtc's own, such as its part of a thread's end. It may have
// a lock of libtc's there, so it does not wait for the keeper, who takes those.
// pre: its system calls are looked at.
bool tc_shim_is_in_library(void);

// Takes the guards of all blocks, or of those that a range meets. Any thread in program code.
void tc_shim_settle(void);
void tc_shim_settle_range(const void *at, size_t bytes, bool is_write);

// Whether the access may be tried again: the block had a guard that forbade it, or lost it
// meanwhile. False: the fault is the program's own.
bool tc_shim_resolve_fault(siginfo_t *info, const ucontext_t *context);

// start.c calls these.
bool tc_shim_guards_start(const tc_shim_keeper *keeper);

// Around a fork: nothing waits, and no call is deferred meanwhile. after: also in the child.
void tc_shim_guards_before_fork(void);
void tc_shim_guards_after_fork(void);
