// What belongs to one process and is zero in the child of a fork, by whatever call it forked.
#pragma once

#include <stdbool.h>

// A page of its own, which the kernel empties in a child (MADV_WIPEONFORK). A lock that another
// thread held at the fork is free there, and nothing has to be taken around a fork.
typedef struct tc_shim_process_state {
  bool is_ready;  // the kernel knows the page
  bool is_keeper;  // this process began to guard, not one that it was forked from
  bool sees_calls;  // a thread of this process has Syscall User Dispatch
  int block_lock;  // block.c
  int guard_lock;  // guard.c; 0: free, 1: taken, 2: taken and waited for
  int n_forks;  // in progress: nothing new is guarded. Written under guard_lock to grow; atomic
} __attribute__((aligned(4096))) tc_shim_process_state;

extern tc_shim_process_state tc_shim_process;

// Tells the kernel, once; false if it cannot do it.
bool tc_shim_process_begin(void);
