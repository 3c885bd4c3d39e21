// Warns in one line, while it lasts, that making a plan takes long. It names what is done, how many
// nodes or kernels, the call and the time so far. A thread of its own looks. The first plan starts
// it, and it ends some seconds after the last one.
//
//   tc[warn] planning 62400 nodes takes long: 2.0 s so far, for item at examples/digits.c:42
//
// Threads: thread-safe; a watch lies on its thread's stack and is that thread's. Takes no lock of
// others.
#pragma once

#include "runtime/status.h"

typedef struct tc_watch {
  struct tc_watch *next;
  tc_call call;
  uint64_t began_ns;
  const char *doing, *of;  // static: "planning", "nodes"
  uint32_t n;  // how many of them
  bool told;
} tc_watch;

// This thread begins to make a plan of n_nodes, for the call it is inside.
void tc_watch_begin(tc_watch *w, uint32_t n_nodes);
// Says what this thread does from now on, if it has a watch.
void tc_watch_doing(const char *doing, uint32_t n, const char *of);
void tc_watch_end(tc_watch *w);
// Ends the thread that looks; the next plan starts another.
void tc_watch_stop(void);

#define TC_WATCH_LIMIT_NS UINT64_C(2000000000)
extern _Atomic uint64_t tc_watch_limit_ns;  // tests lower it
